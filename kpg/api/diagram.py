"""Dataflow diagrams: the graph of a database, of one view, or of a query's plan.

Query plans come from EXPLAIN (FORMAT JSON). ``Drawing`` shows a graph in notebooks and writes it to a file.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kpg.api.result import Result
from kpg.api.svg import Box, Graph, Id, svg
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.qualified_names import written
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.scripts import outcomes
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError, Span
from kpg.runtime.handles import OperatorInfo

if TYPE_CHECKING:
    from kpg.session.engine import Engine


def whole(
    operators: Sequence[OperatorInfo], tables: Mapping[str, int], outputs: Mapping[int, tuple[str, int]]
) -> Graph:
    """Tables, with their rows; indexes that several views share; and views, by what their outputs are.

    ``outputs`` gives for the place of an output its view, and the view's rows.
    """
    homes = _homes(operators, tables, {place: name for place, (name, _) in outputs.items()})
    boxes: dict[Id, Box] = {
        f"t:{name}": Box(f"t:{name}", name, _rows(n), "table") for name, n in tables.items()
    }
    for name, rows in outputs.values():
        boxes[f"v:{name}"] = Box(f"v:{name}", name, _rows(rows), "view")
    known = {one.position: one for one in operators}
    for one in operators:
        home = homes[one.position]
        if home not in boxes:
            main = known[int(home[2:])] if home[0] in "ao" else None
            boxes[home] = Box(home, home[2:], "", "view") if main is None else _shared(home, main)
    edges: set[tuple[Id, Id]] = set()
    for one in operators:
        here = homes[one.position]
        edges |= {(homes[place], here) for place in one.inputs if homes.get(place, here) != here}
    return Graph(list(boxes.values()), _shortest(edges, boxes))


def _homes(
    operators: Sequence[OperatorInfo], tables: Mapping[str, int], outputs: Mapping[int, str]
) -> dict[int, str]:
    """Where operators belong: sources to tables, what one view holds to it, shared indexes to themselves."""
    readers: dict[int, list[OperatorInfo]] = {one.position: [] for one in operators}
    for one in operators:
        for place in one.inputs:
            readers.setdefault(place, []).append(one)
    homes: dict[int, str] = {}
    for one in sorted(operators, key=lambda one: -one.position):
        source = one.description.removeprefix("Source ")
        after = {homes[other.position] for other in readers[one.position] if other.position in homes}
        if one.loop is not None and one.loop in homes:
            homes[one.position] = homes[one.loop]
        elif source != one.description and source in tables:
            homes[one.position] = f"t:{source}"
        elif one.position in outputs:
            homes[one.position] = f"v:{outputs[one.position]}"
        elif len(one.readers) == 1:
            homes[one.position] = f"v:{one.readers[0]}"
        elif not one.arranged and len(after) == 1 and next(iter(after))[0] == "a":
            homes[one.position] = after.pop()
        else:
            homes[one.position] = f"{'a' if one.arranged else 'o'}:{one.position}"
    return homes


def _shared(home: str, one: OperatorInfo) -> Box:
    about = f"{one.description}: shared by {', '.join(one.readers)}"
    figures = f"{_figures(one)} · {len(one.readers)} views" if len(one.readers) > 1 else _figures(one)
    return Box(home, one.description, figures, "index", about)


def _shortest(edges: set[tuple[Id, Id]], boxes: Mapping[Id, Box]) -> set[tuple[Id, Id]]:
    """Without lines from tables to what is made of an index of theirs, though it fetches rows there."""
    indexes = [box.id for box in boxes.values() if box.kind == "index"]
    return {
        (one, other)
        for one, other in edges
        if boxes[one].kind != "table"
        or not any((one, index) in edges and (index, other) in edges for index in indexes)
    }


def of_view(operators: Iterable[OperatorInfo], name: str) -> Graph:
    """The operators of a view, those of loops in boxes of their own."""
    return _level([one for one in operators if name in one.readers], None)


def _level(operators: Sequence[OperatorInfo], loop: int | None) -> Graph:
    """Those that are in a loop, or in none, with what is in loops among them."""
    known = {one.position: one for one in operators}
    boxes = [_operator(one, operators) for one in operators if one.loop == loop]
    here = {box.id for box in boxes}

    def at(place: int) -> int | None:
        while place not in here:
            one = known.get(place)
            if one is None or one.loop is None:
                return None
            place = one.loop
        return place

    edges: set[tuple[Id, Id]] = set()
    for one in operators:
        to = at(one.position)
        for place in one.inputs:
            from_ = at(place)
            if from_ is not None and to is not None and from_ != to:
                edges.add((from_, to))
    return Graph(boxes, edges)


def _operator(one: OperatorInfo, operators: Sequence[OperatorInfo]) -> Box:
    inside = any(other.loop == one.position for other in operators)
    kind = "loop" if inside else "index" if one.arranged else _kind(one.description)
    shared = f"shared by {', '.join(one.readers)}" if len(one.readers) > 1 else ""
    about = "; ".join(filter(None, (one.description, shared)))
    body = _level(operators, one.position) if inside else None
    return Box(one.position, one.description, _figures(one), kind, about, body)


def _kind(description: str) -> str:
    return "table" if description.startswith("Source ") else "plain"


def _figures(one: OperatorInfo) -> str:
    """What it keeps, or has given, and its time in all."""
    rounds = f"{one.rounds:,} rounds" if one.rounds else ""
    rows = f"{_rows(one.rows)}, {_bytes(one.bytes)}" if one.rows else f"{one.updates_out:,} out"
    return " · ".join(filter(None, (rounds, rows, _duration(one.seconds))))


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


Tree = dict[str, Any]


def of_plan(root: Tree) -> Graph:
    """The nodes of a plan; those of a loop's body, ``%4.1`` of node ``%4``, are in its box."""
    nodes: dict[str, Tree] = {}
    edges: list[tuple[str, str]] = []

    def walk(tree: Tree) -> str:
        name = tree.get("Node") or f"{tree['Node Type']} {len(nodes)}"
        if not tree.get("Shared"):
            nodes[name] = tree
        edges.extend((walk(below), name) for below in tree.get("Plans", ()))
        return str(name)

    walk(root)
    return _plan_level(nodes, edges, "")


def _plan_level(nodes: dict[str, Tree], edges: list[tuple[str, str]], loop: str) -> Graph:
    """The nodes that are right in a loop's body, or in none."""
    here = [name for name in nodes if name.rpartition(".")[0] == loop]

    def at(name: str) -> str | None:
        while name and name not in here:
            name = name.rpartition(".")[0]
        return name or None

    ends = {(at(one), at(other)) for one, other in edges}
    found: set[tuple[Id, Id]] = {(one, other) for one, other in ends if one and other and one != other}
    return Graph([_box(nodes, edges, name) for name in here], found)


def _box(nodes: dict[str, Tree], edges: list[tuple[str, str]], name: str) -> Box:
    tree = nodes[name]
    inside = any(other.startswith(f"{name}.") for other in nodes)
    kept = tree.get("Keeps")
    kind = "loop" if inside else "table" if tree["Node Type"] in ("Source", "Import") else "plain"
    if kept is not None and kind == "plain":
        kind = "index"
    title = " ".join(
        filter(None, (name, tree["Node Type"], tree.get("Relation Name") or tree.get("Detail", "")))
    )
    cost = ", ".join(filter(None, (tree.get("Change Cost", ""), f"keeps {kept}" if kept else "")))
    about = [title, tree.get("Detail", ""), *(f"-> {one}" for one in tree.get("Output", ()))]
    about += [f"where {tree['Filter']}"] if "Filter" in tree else []
    body = _plan_level(nodes, edges, name) if inside else None
    return Box(name, title, cost, kind, "\n".join(filter(None, about)), body)


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
