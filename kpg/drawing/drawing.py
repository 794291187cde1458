"""A picture that notebooks show, and that can be kept as a file."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.catalog.qualified_names import written
from kpg.compiler.sql.parse.parser import parse
from kpg.drawing.dataflow import of_view, whole
from kpg.drawing.graph import Graph
from kpg.drawing.plans import of_plan
from kpg.drawing.svg import svg
from kpg.result import Result
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError, Span
from kpg.statements.scripts import outcomes

if TYPE_CHECKING:
    from kpg.engine.engine import Engine


EXPLAIN: Final = "EXPLAIN (FORMAT JSON) "
NAME: Final = re.compile(r'[\w.$]*|"[^"]*"')
HOW: Final = "give the name of a view, the text of a query, or nothing for all: draw()"


class Drawing:
    """A dataflow as it was when it was drawn, or a plan."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @property
    def svg(self) -> str:
        """The picture."""
        return svg(self._graph)

    def save(self, path: str | Path) -> None:
        """Write it to a file: a picture (.svg), or a page with it (.html); InterfaceError for other names."""
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                text = self.svg
            case ".html" | ".htm":
                text = f'<!DOCTYPE html>\n<meta charset="utf-8">\n<title>kpg</title>\n{self.svg}\n'
            case _:
                raise InterfaceError(
                    f"a drawing is not written as {path.name}", hint="name the file .svg, or .html for a page"
                )
        path.write_text(text, encoding="utf-8")

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
    if entry is None and NAME.fullmatch(what):
        raise ProgrammingError(f'there is no view "{what}"', hint=HOW)
    return Drawing(_of_query(engine, what if entry is None else f"SELECT * FROM {written(entry.name)}"))


def _of_query(engine: "Engine", query: str) -> Graph:
    """The plan of one query; errors point into its text."""
    if len(parse(query)) != 1:
        raise ProgrammingError("one query is drawn at a time", hint=HOW)
    try:
        (outcome,) = outcomes(engine, EXPLAIN + query, None)
    except Error as error:
        span = error.span
        if span is not None and span.source == EXPLAIN + query:
            start, end = (max(0, place - len(EXPLAIN)) for place in (span.start, span.end))
            error.span = Span(query, start, end)
        error.hint = error.hint or HOW
        raise
    assert isinstance(outcome, Result)
    return of_plan(json.loads(outcome.fetchall()[0][0])[0]["Plan"])


def _of_database(engine: "Engine") -> Graph:
    executor = engine.executor
    tables = [entry.name for entry in engine.catalog if isinstance(entry, TableEntry)]
    outputs = {view.installed.place: (view.name, view.count()) for view in engine.views.values()}
    return whole(executor.operators(), {name: executor.count(name) for name in tables}, outputs)
