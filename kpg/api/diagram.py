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
from kpg.compiler.qualified_names import quote_qualified_name
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.scripts import outcomes
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError, Span
from kpg.runtime.handles import OperatorInfo

if TYPE_CHECKING:
    from kpg.session.engine import Engine


def operator_graph(
    operators: Sequence[OperatorInfo], tables: Mapping[str, int], outputs: Mapping[int, tuple[str, int]]
) -> Graph:
    """Return the graph of tables, shared indexes, and views, with row counts.

    ``outputs`` maps the position of an output to its view and the view's row count.
    """
    homes = _assign_boxes(operators, tables, {place: name for place, (name, _) in outputs.items()})
    boxes: dict[Id, Box] = {
        f"t:{name}": Box(f"t:{name}", name, _rows(n), "table") for name, n in tables.items()
    }
    for name, rows in outputs.values():
        boxes[f"v:{name}"] = Box(f"v:{name}", name, _rows(rows), "view")
    known = {one.position: one for one in operators}
    for operator in operators:
        home = homes[operator.position]
        if home not in boxes:
            main = known[int(home[2:])] if home[0] in "ao" else None
            boxes[home] = Box(home, home[2:], "", "view") if main is None else _shared_box(home, main)
    edges: set[tuple[Id, Id]] = set()
    for operator in operators:
        here = homes[operator.position]
        edges |= {(homes[place], here) for place in operator.inputs if homes.get(place, here) != here}
    return Graph(list(boxes.values()), _drop_bypasses(edges, boxes))


def _assign_boxes(
    operators: Sequence[OperatorInfo], tables: Mapping[str, int], outputs: Mapping[int, str]
) -> dict[int, str]:
    """Assign each operator to a box.

    A source belongs to its table, an operator of a single view to the view, a shared index to itself.
    """
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


def _shared_box(home: str, operator: OperatorInfo) -> Box:
    about = f"{operator.description}: shared by {', '.join(operator.readers)}"
    figures = (
        f"{_figures(operator)} · {len(operator.readers)} views"
        if len(operator.readers) > 1
        else _figures(operator)
    )
    return Box(home, operator.description, figures, "index", about)


def _drop_bypasses(edges: set[tuple[Id, Id]], boxes: Mapping[Id, Box]) -> set[tuple[Id, Id]]:
    """Drop edges from a table to readers of its indexes, which also fetch rows from the table."""
    indexes = [box.id for box in boxes.values() if box.kind == "index"]
    return {
        (one, other)
        for one, other in edges
        if boxes[one].kind != "table"
        or not any((one, index) in edges and (index, other) in edges for index in indexes)
    }


def view_graph(operators: Iterable[OperatorInfo], name: str) -> Graph:
    """Return the graph of a view's operators; loops are nested boxes."""
    return _loop_graph([operator for operator in operators if name in operator.readers], None)


def _loop_graph(operators: Sequence[OperatorInfo], loop: int | None) -> Graph:
    """Return the graph of the operators of one loop, or of the top level."""
    known = {one.position: one for one in operators}
    boxes = [_operator_box(one, operators) for one in operators if one.loop == loop]
    here = {box.id for box in boxes}

    def enclosing_box(position: int) -> int | None:
        while position not in here:
            operator = known.get(position)
            if operator is None or operator.loop is None:
                return None
            position = operator.loop
        return position

    edges: set[tuple[Id, Id]] = set()
    for one in operators:
        to = enclosing_box(one.position)
        for place in one.inputs:
            from_ = enclosing_box(place)
            if from_ is not None and to is not None and from_ != to:
                edges.add((from_, to))
    return Graph(boxes, edges)


def _operator_box(operator: OperatorInfo, operators: Sequence[OperatorInfo]) -> Box:
    inside = any(other.loop == operator.position for other in operators)
    kind = "loop" if inside else "index" if operator.arranged else _kind(operator.description)
    shared = f"shared by {', '.join(operator.readers)}" if len(operator.readers) > 1 else ""
    about = "; ".join(filter(None, (operator.description, shared)))
    body = _loop_graph(operators, operator.position) if inside else None
    return Box(operator.position, operator.description, _figures(operator), kind, about, body)


def _kind(description: str) -> str:
    return "table" if description.startswith("Source ") else "plain"


def _figures(operator: OperatorInfo) -> str:
    """Return an operator's stored rows or output updates, and its total time."""
    rounds = f"{operator.rounds:,} rounds" if operator.rounds else ""
    rows = (
        f"{_rows(operator.rows)}, {_bytes(operator.bytes)}"
        if operator.rows
        else f"{operator.updates_out:,} out"
    )
    return " · ".join(filter(None, (rounds, rows, _duration(operator.seconds))))


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


Tree = dict[str, Any]


def plan_graph(root: Tree) -> Graph:
    """Return the graph of a plan; the box of a loop ``%4`` contains its body, such as ``%4.1``."""
    nodes: dict[str, Tree] = {}
    edges: list[tuple[str, str]] = []

    def walk(tree: Tree) -> str:
        name = tree.get("Node") or f"{tree['Node Type']} {len(nodes)}"
        if not tree.get("Shared"):
            nodes[name] = tree
        edges.extend((walk(below), name) for below in tree.get("Plans", ()))
        return str(name)

    walk(root)
    return _plan_loop_graph(nodes, edges, "")


def _plan_loop_graph(nodes: dict[str, Tree], edges: list[tuple[str, str]], loop: str) -> Graph:
    """Return the graph of the nodes of one loop body, or of the top level."""
    here = [name for name in nodes if name.rpartition(".")[0] == loop]

    def enclosing_box(name: str) -> str | None:
        while name and name not in here:
            name = name.rpartition(".")[0]
        return name or None

    ends = {(enclosing_box(one), enclosing_box(other)) for one, other in edges}
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
    body = _plan_loop_graph(nodes, edges, name) if inside else None
    return Box(name, title, cost, kind, "\n".join(filter(None, about)), body)


EXPLAIN: Final = "EXPLAIN (FORMAT JSON) "
NAME: Final = re.compile(r'[\w.$]*|"[^"]*"')
DRAW_HINT: Final = "give the name of a view, the text of a query, or nothing for all: draw()"


class Drawing:
    """A picture of a dataflow at one moment, or of a plan."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return svg(self._graph)

    def save(self, path: str | Path) -> None:
        """Write a picture (.svg) or a page with it (.html); InterfaceError for other extensions."""
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


def draw(engine: "Engine", subject: str | None) -> Drawing:
    """Draw the database, a view by its name, or a query by its text; see ``Database.draw``."""
    entry = None if subject is None else engine.catalog.find(subject)
    if subject is None:
        return Drawing(_database_graph(engine))
    if isinstance(entry, TableEntry):
        raise ProgrammingError(f'"{entry.name}" is a table', hint="a view is drawn, a query, or all: draw()")
    if entry is not None and entry.name in engine.views:
        return Drawing(view_graph(engine.executor.operators(), entry.name))
    if entry is None and NAME.fullmatch(subject):
        raise ProgrammingError(f'there is no view "{subject}"', hint=DRAW_HINT)
    return Drawing(
        _query_graph(
            engine, subject if entry is None else f"SELECT * FROM {quote_qualified_name(entry.name)}"
        )
    )


def _query_graph(engine: "Engine", query: str) -> Graph:
    """Return the graph of one query's plan. Error positions refer to its text."""
    if len(parse(query)) != 1:
        raise ProgrammingError("one query is drawn at a time", hint=DRAW_HINT)
    try:
        (outcome,) = outcomes(engine, EXPLAIN + query, None)
    except Error as error:
        span = error.span
        if span is not None and span.source == EXPLAIN + query:
            start, end = (max(0, place - len(EXPLAIN)) for place in (span.start, span.end))
            error.span = Span(query, start, end)
        error.hint = error.hint or DRAW_HINT
        raise
    assert isinstance(outcome, Result)
    return plan_graph(json.loads(outcome.fetchall()[0][0])[0]["Plan"])


def _database_graph(engine: "Engine") -> Graph:
    executor = engine.executor
    tables = [entry.name for entry in engine.catalog if isinstance(entry, TableEntry)]
    outputs = {
        view.installation.operator_position: (view.name, view.count()) for view in engine.views.values()
    }
    return operator_graph(
        executor.operators(), {name: executor.tables.count(name) for name in tables}, outputs
    )
