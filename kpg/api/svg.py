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
    """A node of a graph; ``kind`` determines its style: table, index, view, plain or loop."""

    id: Id
    name: str
    statistics: str
    kind: str
    tooltip: str = ""
    """Text of the tooltip."""
    body: "Graph | None" = None


@dataclass(slots=True)
class Graph:
    """Boxes and the edges between them, ``(from, to)``, without cycles."""

    boxes: list[Box]
    edges: set[tuple[Id, Id]] = field(default_factory=set)


SWEEPS: Final = 8
"""Sweeps over the layers in each direction: more have no visible effect."""
Point = tuple[float, float]


@dataclass(slots=True, eq=False)
class Cell:
    """A box in a layer, or a dummy node of a line that crosses the layer."""

    width: float
    height: float
    rank: int = 0
    is_dummy: bool = False
    inputs: "list[Cell]" = field(default_factory=list)
    outputs: "list[Cell]" = field(default_factory=list)
    order: float = 0.0
    """Position within its layer, from 0 to 1."""
    x: float = 0.0
    y: float = 0.0
    layer_width: float = 0.0
    """Width of its layer."""

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes by name, the points of each line, and the size of the picture."""

    cells: Mapping[Hashable, Cell]
    lines: Sequence[Sequence[Point]]
    width: float
    height: float


def layout_graph(
    sizes: Mapping[Hashable, tuple[float, float]],
    edges: Iterable[tuple[Hashable, Hashable]],
    across: float,
    down: float,
) -> Layout:
    """Lay out boxes of given sizes, with ``across`` between layers and ``down`` within them."""
    cells: dict[Hashable, Cell] = {name: Cell(*size) for name, size in sizes.items()}
    known = [(cells[one], cells[other]) for one, other in edges]
    _assign_layers(list(cells.values()), known)
    lanes: dict[tuple[int, int], Cell] = {}
    chains = [_route(one, other, lanes) for one, other in known]
    layers: list[list[Cell]] = [[] for _ in range(1 + max((one.rank for one in cells.values()), default=-1))]
    for cell in (*cells.values(), *lanes.values()):
        layers[cell.rank].append(cell)
    _order_layers(layers)
    height = _assign_heights(layers, down)
    x = 0.0
    for layer in layers:
        room = max(cell.width for cell in layer)
        for cell in layer:
            cell.x, cell.layer_width = x, room
        x += room + across
    return Layout(cells, [_points(chain) for chain in chains], max(0.0, x - across), height)


def _assign_layers(cells: Sequence[Cell], edges: Sequence[tuple[Cell, Cell]]) -> None:
    """Put each box into the layer after its last input, and a box without inputs before its first reader."""
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


def _route(first: Cell, last: Cell, lanes: dict[tuple[int, int], Cell]) -> list[Cell]:
    """Return the cells that a line crosses; lines from the same box share dummy nodes."""
    steps = [first]
    for rank in range(first.rank + 1, last.rank):
        steps.append(lanes.setdefault((id(first), rank), Cell(0.0, 2.0, rank, is_dummy=True)))
    steps.append(last)
    for one, other in pairwise(steps):
        if other not in one.outputs:
            one.outputs.append(other)
            other.inputs.append(one)
    return steps


def _number_cells(layer: list[Cell]) -> None:
    for place, cell in enumerate(layer):
        cell.order = (place + 0.5) / len(layer)


def _order_layers(layers: list[list[Cell]]) -> None:
    """Sort layers by the barycenters of neighbours, back and forth; keep the order with fewest crossings."""
    for layer in layers:
        _number_cells(layer)
    best, best_layers = _count_crossings(layers), [list(layer) for layer in layers]
    for sweep in range(2 * SWEEPS):
        forth = sweep % 2 == 0
        for layer in layers if forth else reversed(layers):
            targets = {
                id(cell): _mean([neighbour.order for neighbour in _neighbours(cell, forth)], cell.order)
                for cell in layer
            }
            layer.sort(key=lambda cell: (targets[id(cell)], cell.order))
            _number_cells(layer)
        found = _count_crossings(layers)
        if found < best:
            best, best_layers = found, [list(layer) for layer in layers]
    layers[:] = best_layers
    for layer in layers:
        _number_cells(layer)


def _neighbours(cell: Cell, forth: bool) -> list[Cell]:
    return cell.inputs if forth else cell.outputs


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _count_crossings(layers: Sequence[Sequence[Cell]]) -> int:
    found = 0
    for layer in layers:
        ends = [place for cell in layer for place in sorted(other.order for other in cell.outputs)]
        found += sum(ends[i] > ends[j] for i in range(len(ends)) for j in range(i + 1, len(ends)))
    return found


def _assign_heights(layers: Sequence[Sequence[Cell]], down: float) -> float:
    """Assign vertical positions and return the total height."""
    for layer in layers:
        y = 0.0
        for cell in layer:
            cell.y = y
            y += cell.height + down
    for sweep in range(2 * SWEEPS):
        forth = sweep % 2 == 0
        for layer in layers if forth else reversed(layers):
            _align_layer(layer, forth, down)
    top = min((layer[0].y for layer in layers), default=0.0)
    for layer in layers:
        for cell in layer:
            cell.y -= top
    return max((layer[-1].y + layer[-1].height for layer in layers), default=0.0)


def _align_layer(layer: Sequence[Cell], forth: bool, down: float) -> None:
    """Align the cells of a layer with their neighbours, keeping order and distance.

    Cells that would overlap form a run, placed at the mean of the desired positions: least squares.
    """
    runs: list[tuple[float, int, float, list[Cell]]] = []  # the sum of wished tops, cells, height, which
    for cell in layer:
        target = (
            _mean([neighbour.middle for neighbour in _neighbours(cell, forth)], cell.middle) - cell.height / 2
        )
        run = (target, 1, cell.height, [cell])
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
            points.append((cell.x + (cell.layer_width if cell.is_dummy else cell.width), cell.middle))
    return points


CHAR_WIDTH: Final = 6.7
"""Points per character of the monospaced font."""
HEADER_HEIGHT: Final = 40.0
"""Height of a box without a body: two lines."""
PADDING: Final = 12.0
MAX_NAME_LENGTH: Final = 44
"""Characters of a name; the tooltip has the rest."""
STYLES: Final = {
    "table": 'fill="#e3eefc" stroke="#3b7dd8"',
    "index": 'fill="#eef7ee" stroke="#2e8b57" stroke-dasharray="5 3"',
    "view": 'fill="#fdf3dc" stroke="#c58a17"',
    "loop": 'fill="#f4effb" stroke="#a48fcf"',
    "plain": 'fill="#ffffff" stroke="#8a97a6"',
}
"""Light fills and dark text are readable on any background."""


def svg(graph: Graph) -> str:
    """Return the picture as one element."""
    inside, width, height = _render_graph(graph)
    room = f"{width + 2 * PADDING:.0f}", f"{height + 2 * PADDING:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{room[0]}" height="{room[1]}" '
        f'viewBox="0 0 {room[0]} {room[1]}" style="max-width: 100%; height: auto" '
        'font-family="ui-monospace, DejaVu Sans Mono, Consolas, monospace" font-size="11">'
        f'<g transform="translate({PADDING:.0f} {PADDING:.0f})">{inside}</g></svg>'
    )


def _render_graph(graph: Graph) -> tuple[str, float, float]:
    """Return the content of a graph with its width and height."""
    bodies = {box.id: _render_graph(box.body) for box in graph.boxes if box.body is not None}
    sizes: dict[Hashable, tuple[float, float]] = {
        box.id: _box_size(box, bodies.get(box.id)) for box in graph.boxes
    }
    layout = layout_graph(sizes, sorted(graph.edges, key=str), across=42, down=12)
    lines = "".join(
        f'<path d="{_curve(points)}" fill="none" stroke="#8a97a6" stroke-width="1.2"/>'
        for points in layout.lines
    )
    boxes = "".join(_render_box(box, layout, bodies.get(box.id)) for box in graph.boxes)
    return lines + boxes, layout.width, layout.height


def _box_size(box: Box, body: tuple[str, float, float] | None) -> tuple[float, float]:
    width = CHAR_WIDTH * max(len(_truncate(box.name)), len(box.statistics)) + 2 * PADDING
    if body is None:
        return width, HEADER_HEIGHT
    return max(width, body[1] + 2 * PADDING), HEADER_HEIGHT + body[2] + PADDING


def _render_box(box: Box, layout: Layout, body: tuple[str, float, float] | None) -> str:
    cell = layout.cells[box.id]
    parts = [
        f'<g transform="translate({cell.x:.1f} {cell.y:.1f})">'
        f"<title>{escape(box.tooltip or box.name)}</title>",
        f'<rect width="{cell.width:.1f}" height="{cell.height:.1f}" rx="4" {STYLES[box.kind]}/>',
        f'<text x="{PADDING:.0f}" y="17" fill="#17202b">{escape(_truncate(box.name))}</text>',
        f'<text x="{PADDING:.0f}" y="32" fill="#57657a">{escape(box.statistics)}</text>',
    ]
    if body is not None:
        parts.append(f'<g transform="translate({PADDING:.0f} {HEADER_HEIGHT:.0f})">{body[0]}</g>')
    return "".join((*parts, "</g>"))


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[: MAX_NAME_LENGTH - 1]}…"


def _curve(points: Sequence[Point]) -> str:
    """Return a smooth path through points."""
    (x, y), *rest = points
    path = f"M{x:.1f} {y:.1f}"
    for right, low in rest:
        middle = (x + right) / 2
        path += f"C{middle:.1f} {y:.1f} {middle:.1f} {low:.1f} {right:.1f} {low:.1f}"
        x, y = right, low
    return path
