"""A picture that notebooks show, and that can be kept as a file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from kpg.compiler.catalog import TableEntry
from kpg.compiler.resolved import written
from kpg.drawing.dataflow import of_view, whole
from kpg.drawing.graph import Graph
from kpg.drawing.plans import of_plan
from kpg.drawing.svg import svg
from kpg.result import Result
from kpg.runtime.errors import ProgrammingError
from kpg.statements.scripts import outcomes

if TYPE_CHECKING:
    from kpg.engine.engine import Engine


class Drawing:
    """A dataflow as it was when it was drawn, or a plan."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @property
    def svg(self) -> str:
        """The picture."""
        return svg(self._graph)

    def save(self, path: str | Path) -> None:
        """Write it to a file, which browsers and editors open."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        count = len(self._graph.boxes)
        return (
            f"<kpg.Drawing of {count} box{'' if count == 1 else 'es'}: a notebook shows it, save() keeps it>"
        )


def draw(engine: "Engine", what: str | None) -> Drawing:
    """A database; a view, by its name; or a query, by its text. See ``Database.draw``."""
    entry = None if what is None else engine.catalog.find(what)
    if what is None:
        return Drawing(_of_database(engine))
    if isinstance(entry, TableEntry):
        raise ProgrammingError(f'"{entry.name}" is a table', hint="a view is drawn, a query, or all: draw()")
    if entry is not None and entry.name in engine.views:
        return Drawing(of_view(engine.executor.operators(), entry.name))
    query = what if entry is None else f"SELECT * FROM {written(entry.name)}"
    (outcome,) = outcomes(engine, f"EXPLAIN (FORMAT JSON) {query}", None)
    assert isinstance(outcome, Result)
    return Drawing(of_plan(json.loads(outcome.fetchall()[0][0])[0]["Plan"]))


def _of_database(engine: "Engine") -> Graph:
    executor = engine.executor
    tables = [entry.name for entry in engine.catalog if isinstance(entry, TableEntry)]
    outputs = {view.installed.place: (view.name, view.count()) for view in engine.views.values()}
    return whole(executor.operators(), {name: executor.count(name) for name in tables}, outputs)
