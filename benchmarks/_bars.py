"""Lines of a table over ratios, as SVG, without a library."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP = 300, 190, 46, 34
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#66ccee")
Lines = Mapping[str, Sequence[float]]


def draw(panels: Mapping[str, Lines], ratios: Sequence[float], path: Path) -> None:
    """A panel of lines for each name: millions of operations a second over writes to a read, logarithmic."""
    shapes = [
        shape
        for number, (title, lines) in enumerate(panels.items())
        for shape in _panel(title, lines, ratios, LEFT + number * (WIDTH + LEFT))
    ]
    size = f'width="{len(panels) * (WIDTH + LEFT) + 20}" height="{HEIGHT + 2 * TOP + 20}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    path.write_text("\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>\n"]))


def _panel(title: str, lines: Lines, ratios: Sequence[float], left: float) -> list[str]:
    top = max(max(line) for line in lines.values()) * 1.1
    low, high = math.log(ratios[0]), math.log(ratios[-1])
    across = [left + WIDTH * 0.95 * (math.log(ratio) - low) / (high - low) for ratio in ratios]
    shapes = [f'<text x="{left}" y="16" font-weight="bold">{escape(title)}</text>']
    for part in range(5):
        y = TOP + HEIGHT * (1 - part / 4)
        label = f"{top * part / 4 / 1e6:.1f}"
        shapes.append(f'<path d="M{left} {y:.0f}h{WIDTH}" stroke="#ddd"/>')
        shapes.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{label}</text>')
    for x, ratio in zip(across, ratios, strict=True):
        shapes.append(f'<text x="{x:.0f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{ratio:g}</text>')
    for number, (name, line) in enumerate(lines.items()):
        points = " ".join(
            f"{x:.1f},{TOP + HEIGHT * (1 - y / top):.1f}" for x, y in zip(across, line, strict=True)
        )
        colour = COLOURS[number % len(COLOURS)]
        shapes.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        place = f'x="{left + 70 * number}" y="{TOP + HEIGHT + 34}"'
        shapes.append(f'<text {place} fill="{colour}">{escape(name)}</text>')
    return shapes
