"""The ends of a head's steps are those that were told, whatever their times' coordinates."""

import pytest

from kpg.runtime.checkpoint.captured_state import share_or_copy
from kpg.runtime.checkpoint.operator_state import capture_ends, fill_ends
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.head import StepEnds

FRONTIERS = {
    1: [Antichain.of((3,)), Antichain.of((5,)), Antichain.of((5,)), Antichain.of((9,)), Antichain()],
    2: [
        Antichain.of((3, 0)),
        Antichain.of((3, 2), (4, 0)),
        Antichain.of((4, 0), (3, 2)),
        Antichain.of((4, 1)),
        Antichain(),
    ],
}


def made(depth: int) -> StepEnds:
    ends = StepEnds(depth)
    for size, upper in zip((2, 4, 7, 8, 8), FRONTIERS[depth], strict=True):
        ends.append(upper, size)
    return ends


@pytest.mark.parametrize("depth", [1, 2])
def test_steps_are_found_by_the_frontier_that_they_led_to(depth: int) -> None:
    ends, frontiers = made(depth), FRONTIERS[depth]
    assert [ends.sizes_at(frontier) for frontier in frontiers] == [[2], [4, 7], [4, 7], [8], [8]]
    assert ends.sizes_at(Antichain.of((4,) * depth)) == []


@pytest.mark.parametrize("depth", [1, 2])
def test_steps_of_what_was_rolled_back_are_forgotten(depth: int) -> None:
    ends, frontiers = made(depth), FRONTIERS[depth]
    ends.truncate(7)
    assert [ends.sizes_at(frontier) for frontier in frontiers] == [[2], [4, 7], [4, 7], [], []]
    ends.truncate(3)
    ends.append(frontiers[3], 5)
    assert [ends.sizes_at(frontier) for frontier in frontiers] == [[2], [], [], [5], []]
    ends.clear()
    assert [ends.sizes_at(frontier) for frontier in frontiers] == [[]] * 5


@pytest.mark.parametrize("depth", [1, 2])
def test_what_was_captured_comes_back(depth: int) -> None:
    ends, frontiers = StepEnds(depth), FRONTIERS[depth]
    ends.append(frontiers[1], 1)
    captured = capture_ends(made(depth))
    fill_ends(ends, captured, share_or_copy)
    assert [ends.sizes_at(frontier) for frontier in frontiers] == [[2], [4, 7], [4, 7], [8], [8]]
    ends.append(frontiers[0], 9)
    assert ends.sizes_at(frontiers[0]) == [2, 9]
    fill_ends(ends, capture_ends(StepEnds(depth)), share_or_copy)
    assert ends.sizes_at(frontiers[0]) == []


@pytest.mark.parametrize("depth", [1, 2])
def test_pairs_of_earlier_formats_come_back(depth: int) -> None:
    ends, frontiers = StepEnds(depth), FRONTIERS[depth]
    pairs = tuple(zip([one.elements for one in frontiers], (2, 4, 7, 8, 8), strict=True))
    fill_ends(ends, pairs, share_or_copy)
    assert [ends.sizes_at(frontier) for frontier in frontiers] == [[2], [4, 7], [4, 7], [8], [8]]


def test_many_steps_are_two_arrays_and_not_a_description_of_each() -> None:
    ends = StepEnds(1)
    for step in range(5000):
        ends.append(Antichain.of((step,)), 2 * step)
    captured = capture_ends(ends)
    assert captured["count"] == 5000
    assert share_or_copy(captured["times"]).tolist() == list(range(5000))
    assert share_or_copy(captured["sizes"]).tolist() == list(range(0, 10000, 2))
