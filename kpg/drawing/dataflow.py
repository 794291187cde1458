"""The dataflow of a database, or of one view, as a graph of boxes."""

from collections.abc import Iterable, Mapping, Sequence

from kpg.drawing.graph import Box, Graph, Id
from kpg.runtime.handles import OperatorInfo


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
