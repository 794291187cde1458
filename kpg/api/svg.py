"""Graph layout and SVG output: layered boxes joined by lines, some with a nested graph.

The layout is that of Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures" (1981). Each box is in the layer after the last of its inputs. A line over several layers has a
dummy node in each. Layers are ordered by the barycenters of their neighbours, then aligned with them. The
SVG is readable on light and dark pages, and refers to no external file.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from html import escape
from itertools import pairwise
from typing import Final

from kpg.runtime.records import dataclass

Id = str | int


@dataclass(slots=True)
class Box:
    """``kind`` says how it looks: table, index, view, plain or loop."""

    id: Id
    name: str
    figures: str
    kind: str
    about: str = ""
    """What is shown when it is pointed at."""
    body: "Graph | None" = None


@dataclass(slots=True)
class Graph:
    """Boxes, and which is made of which: ``(from, to)``, never in a circle."""

    boxes: list[Box]
    edges: set[tuple[Id, Id]] = field(default_factory=set)


SWEEPS: Final = 8
"""Times that layers are ordered, and levelled, each way: more change nothing that one would see."""
Point = tuple[float, float]


@dataclass(slots=True, eq=False)
class Cell:
    """A box of a layer, or the lane of a line that goes on."""

    width: float
    height: float
    rank: int = 0
    lane: bool = False
    before: "list[Cell]" = field(default_factory=list)
    after: "list[Cell]" = field(default_factory=list)
    place: float = 0.0
    """In its layer, from 0 to 1."""
    x: float = 0.0
    y: float = 0.0
    room: float = 0.0
    """The width of its layer."""

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Layout:
    """Where boxes are, by name, the points of each line, and how large all is."""

    cells: Mapping[Hashable, Cell]
    lines: Sequence[Sequence[Point]]
    width: float
    height: float


def layered(
    sizes: Mapping[Hashable, tuple[float, float]],
    edges: Iterable[tuple[Hashable, Hashable]],
    across: float,
    down: float,
) -> Layout:
    """A layout of boxes of widths and heights, ``across`` between layers and ``down`` within them."""
    cells: dict[Hashable, Cell] = {name: Cell(*size) for name, size in sizes.items()}
    known = [(cells[one], cells[other]) for one, other in edges]
    _rank(list(cells.values()), known)
    lanes: dict[tuple[int, int], Cell] = {}
    chains = [_chain(one, other, lanes) for one, other in known]
    layers: list[list[Cell]] = [[] for _ in range(1 + max((one.rank for one in cells.values()), default=-1))]
    for cell in (*cells.values(), *lanes.values()):
        layers[cell.rank].append(cell)
    _order(layers)
    height = _stand(layers, down)
    x = 0.0
    for layer in layers:
        room = max(cell.width for cell in layer)
        for cell in layer:
            cell.x, cell.room = x, room
        x += room + across
    return Layout(cells, [_points(chain) for chain in chains], max(0.0, x - across), height)


def _rank(cells: Sequence[Cell], edges: Sequence[tuple[Cell, Cell]]) -> None:
    """Each in the layer after the last that it is made of; what is made of nothing, before its reader."""
    for _ in cells:
        moved = False
        for one, other in edges:
            if other.rank <= one.rank:
                other.rank, moved = one.rank + 1, True
        if not moved:
            break
    made = {id(other) for _, other in edges}
    for cell in cells:
        readers = [other.rank for one, other in edges if one is cell]
        if id(cell) not in made and readers:
            cell.rank = min(readers) - 1


def _chain(first: Cell, last: Cell, lanes: dict[tuple[int, int], Cell]) -> list[Cell]:
    """The cells that a line goes through; lines from the same box share their lanes."""
    steps = [first]
    for rank in range(first.rank + 1, last.rank):
        steps.append(lanes.setdefault((id(first), rank), Cell(0.0, 2.0, rank, lane=True)))
    steps.append(last)
    for one, other in pairwise(steps):
        if other not in one.after:
            one.after.append(other)
            other.before.append(one)
    return steps


def _number(layer: list[Cell]) -> None:
    for place, cell in enumerate(layer):
        cell.place = (place + 0.5) / len(layer)


def _order(layers: list[list[Cell]]) -> None:
    """Sort each layer by the mean places of its neighbours, forth and back; keep what crosses least."""
    for layer in layers:
        _number(layer)
    best, kept = _crossings(layers), [list(layer) for layer in layers]
    for sweep in range(2 * SWEEPS):
        forth = sweep % 2 == 0
        for layer in layers if forth else reversed(layers):
            wish = {
                id(cell): _mean([one.place for one in _others(cell, forth)], cell.place) for cell in layer
            }
            layer.sort(key=lambda cell: (wish[id(cell)], cell.place))
            _number(layer)
        found = _crossings(layers)
        if found < best:
            best, kept = found, [list(layer) for layer in layers]
    layers[:] = kept
    for layer in layers:
        _number(layer)


def _others(cell: Cell, forth: bool) -> list[Cell]:
    return cell.before if forth else cell.after


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(layers: Sequence[Sequence[Cell]]) -> int:
    found = 0
    for layer in layers:
        ends = [place for cell in layer for place in sorted(other.place for other in cell.after)]
        found += sum(ends[i] > ends[j] for i in range(len(ends)) for j in range(i + 1, len(ends)))
    return found


def _stand(layers: Sequence[Sequence[Cell]], down: float) -> float:
    """Give cells their heights in the picture; how high that is."""
    for layer in layers:
        y = 0.0
        for cell in layer:
            cell.y = y
            y += cell.height + down
    for sweep in range(2 * SWEEPS):
        forth = sweep % 2 == 0
        for layer in layers if forth else reversed(layers):
            _level(layer, forth, down)
    top = min((layer[0].y for layer in layers), default=0.0)
    for layer in layers:
        for cell in layer:
            cell.y -= top
    return max((layer[-1].y + layer[-1].height for layer in layers), default=0.0)


def _level(layer: Sequence[Cell], forth: bool, down: float) -> None:
    """Move the cells of a layer level with their neighbours, in their order and with their distance.

    Cells that would overlap are one run, whose place is the mean of what its cells wish: least squares.
    """
    runs: list[tuple[float, int, float, list[Cell]]] = []  # the sum of wished tops, cells, height, which
    for cell in layer:
        wish = _mean([one.middle for one in _others(cell, forth)], cell.middle) - cell.height / 2
        run = (wish, 1, cell.height, [cell])
        while runs and runs[-1][0] / runs[-1][1] + runs[-1][2] + down > run[0] / run[1]:
            total, count, height, cells = runs.pop()
            offset = height + down
            run = (total + run[0] - offset * run[1], count + run[1], offset + run[2], [*cells, *run[3]])
        runs.append(run)
    for total, count, _, cells in runs:
        y = total / count
        for cell in cells:
            cell.y = y
            y += cell.height + down


def _points(chain: Sequence[Cell]) -> list[Point]:
    points = []
    for place, cell in enumerate(chain):
        if place:
            points.append((cell.x, cell.middle))
        if place < len(chain) - 1:
            points.append((cell.x + (cell.room if cell.lane else cell.width), cell.middle))
    return points


LETTER: Final = 6.7
"""Points that a letter of the font takes, which has one width."""
HEAD: Final = 40.0
"""The height of a box without anything in it: two lines."""
PAD: Final = 12.0
LONGEST: Final = 44
"""Letters of a name; the rest is seen when one points at it."""
LOOKS: Final = {
    "table": 'fill="#e3eefc" stroke="#3b7dd8"',
    "index": 'fill="#eef7ee" stroke="#2e8b57" stroke-dasharray="5 3"',
    "view": 'fill="#fdf3dc" stroke="#c58a17"',
    "loop": 'fill="#f4effb" stroke="#a48fcf"',
    "plain": 'fill="#ffffff" stroke="#8a97a6"',
}
"""Light fills and dark text: they are read on any ground."""


def svg(graph: Graph) -> str:
    """The picture, as one element."""
    inside, width, height = _graph(graph)
    room = f"{width + 2 * PAD:.0f}", f"{height + 2 * PAD:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{room[0]}" height="{room[1]}" '
        f'viewBox="0 0 {room[0]} {room[1]}" style="max-width: 100%; height: auto" '
        'font-family="ui-monospace, DejaVu Sans Mono, Consolas, monospace" font-size="11">'
        f'<g transform="translate({PAD:.0f} {PAD:.0f})">{inside}</g></svg>'
    )


def _graph(graph: Graph) -> tuple[str, float, float]:
    """What is in a graph, and how wide and high that is."""
    bodies = {box.id: _graph(box.body) for box in graph.boxes if box.body is not None}
    sizes: dict[Hashable, tuple[float, float]] = {
        box.id: _size(box, bodies.get(box.id)) for box in graph.boxes
    }
    layout = layered(sizes, sorted(graph.edges, key=str), across=42, down=12)
    lines = "".join(
        f'<path d="{_curve(points)}" fill="none" stroke="#8a97a6" stroke-width="1.2"/>'
        for points in layout.lines
    )
    boxes = "".join(_box(box, layout, bodies.get(box.id)) for box in graph.boxes)
    return lines + boxes, layout.width, layout.height


def _size(box: Box, body: tuple[str, float, float] | None) -> tuple[float, float]:
    width = LETTER * max(len(_cut(box.name)), len(box.figures)) + 2 * PAD
    if body is None:
        return width, HEAD
    return max(width, body[1] + 2 * PAD), HEAD + body[2] + PAD


def _box(box: Box, layout: Layout, body: tuple[str, float, float] | None) -> str:
    cell = layout.cells[box.id]
    parts = [
        f'<g transform="translate({cell.x:.1f} {cell.y:.1f})"><title>{escape(box.about or box.name)}</title>',
        f'<rect width="{cell.width:.1f}" height="{cell.height:.1f}" rx="4" {LOOKS[box.kind]}/>',
        f'<text x="{PAD:.0f}" y="17" fill="#17202b">{escape(_cut(box.name))}</text>',
        f'<text x="{PAD:.0f}" y="32" fill="#57657a">{escape(box.figures)}</text>',
    ]
    if body is not None:
        parts.append(f'<g transform="translate({PAD:.0f} {HEAD:.0f})">{body[0]}</g>')
    return "".join((*parts, "</g>"))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _curve(points: Sequence[Point]) -> str:
    """A smooth line through points."""
    (x, y), *rest = points
    path = f"M{x:.1f} {y:.1f}"
    for right, low in rest:
        middle = (x + right) / 2
        path += f"C{middle:.1f} {y:.1f} {middle:.1f} {low:.1f} {right:.1f} {low:.1f}"
        x, y = right, low
    return path
