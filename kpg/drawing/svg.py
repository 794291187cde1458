"""A graph as SVG: readable on white and on dark pages, without anything from outside."""

from collections.abc import Hashable, Sequence
from html import escape
from typing import Final

from kpg.drawing.graph import Box, Graph
from kpg.drawing.layers import Layout, Point, layered

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
