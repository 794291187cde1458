"""Boxes stand from left to right and never on each other, whatever the graph."""

import random
from collections.abc import Hashable

import pytest

from kpg.api.svg import Layout, layout_graph


def overlapping(layout: Layout) -> list[tuple[Hashable, Hashable]]:
    found = []
    cells = list(layout.cells.items())
    for place, (name, one) in enumerate(cells):
        for other_name, other in cells[place + 1 :]:
            apart_across = one.x + one.width <= other.x or other.x + other.width <= one.x
            apart_down = one.y + one.height <= other.y + 1e-6 or other.y + other.height <= one.y + 1e-6
            if not apart_across and not apart_down:
                found.append((name, other_name))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randrange(1, 30)
    sizes: dict[Hashable, tuple[float, float]] = {
        one: (draw.uniform(10, 90), draw.uniform(10, 90)) for one in range(count)
    }
    edges = {
        tuple(sorted(draw.sample(range(count), 2))) for _ in range(draw.randrange(2 * count)) if count > 1
    }
    layout = layout_graph(sizes, [(one, other) for one, other in edges], across=20, down=5)
    assert overlapping(layout) == []
    for one, other in edges:
        assert layout.cells[one].x + layout.cells[one].width <= layout.cells[other].x
    assert len(layout.lines) == len(edges)
    for cell in layout.cells.values():
        assert cell.x >= 0
        assert cell.y >= -1e-6
        assert cell.x + cell.width <= layout.width + 1e-6
        assert cell.y + cell.height <= layout.height + 1e-6


def test_a_row_of_boxes_is_level() -> None:
    layout = layout_graph({"a": (10, 10), "b": (20, 30), "c": (10, 10)}, [("a", "b"), ("b", "c")], 5, 5)
    assert {round(cell.middle, 6) for cell in layout.cells.values()} == {15.0}
    assert [layout.cells[one].x for one in "abc"] == [0, 15, 40]
    assert (layout.width, layout.height) == (50, 30)
    assert layout.lines == [[(10, 15.0), (15, 15.0)], [(35, 15.0), (40, 15.0)]]


def test_lines_that_need_not_cross_do_not() -> None:
    """a-y and b-x cross where boxes stand as they are named."""
    layout = layout_graph(dict.fromkeys("abxy", (10.0, 10.0)), [("a", "y"), ("b", "x")], 5, 5)
    at = {name: cell.y for name, cell in layout.cells.items()}
    assert (at["a"] < at["b"]) == (at["y"] < at["x"])


def test_what_is_made_of_nothing_stands_before_its_first_reader() -> None:
    layout = layout_graph(dict.fromkeys("abcd", (10.0, 10.0)), [("a", "b"), ("b", "c"), ("d", "c")], 5, 5)
    assert layout.cells["d"].x == layout.cells["b"].x


def test_nothing_takes_no_room() -> None:
    layout = layout_graph({}, [], 5, 5)
    assert (layout.width, layout.height, layout.lines) == (0.0, 0.0, [])
