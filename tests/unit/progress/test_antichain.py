"""Frontiers: their order, meets and joins, and the counting form."""

import pytest

from kpg.runtime.progress.antichain import Antichain

TIMES = [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_only_minimal_times_are_kept() -> None:
    assert Antichain.of((2, 0), (1, 1), (1, 2), (0, 3)).elements == ((0, 3), (1, 1), (2, 0))


def test_frontiers_with_equal_elements_are_equal() -> None:
    assert Antichain.of((2, 0), (0, 2)) == Antichain.of((0, 2), (2, 0), (2, 2))


def test_a_time_is_in_advance_of_a_frontier_that_has_an_element_below_it() -> None:
    frontier = Antichain.of((0, 2), (1, 0))
    assert [time for time in TIMES if frontier.less_equal(time)] == [(1, 0), (1, 1)]
    assert [time for time in TIMES if frontier.less_than(time)] == [(1, 1)]


def test_no_time_is_in_advance_of_the_empty_frontier() -> None:
    assert not Antichain().less_equal((0,))
    assert not Antichain()


def test_every_frontier_is_before_the_empty_one() -> None:
    assert Antichain.of((7,)).precedes(Antichain())
    assert not Antichain().precedes(Antichain.of((7,)))
    assert Antichain().precedes(Antichain())


def test_domination_is_not_total() -> None:
    left, right = Antichain.of((0, 1)), Antichain.of((1, 0))
    assert not left.precedes(right) and not right.precedes(left)


def test_insert_keeps_the_frontier_if_the_time_is_in_advance_of_it() -> None:
    frontier = Antichain.of((1, 1))
    assert frontier.insert((2, 1)) is frontier
    assert frontier.insert((0, 2)).elements == ((0, 2), (1, 1))
    assert frontier.insert((0, 0)).elements == ((0, 0),)


def test_meet_and_join_bound_both_frontiers() -> None:
    left, right = Antichain.of((0, 2), (2, 0)), Antichain.of((1, 1))
    assert left.meet(right).elements == ((0, 2), (1, 1), (2, 0))
    assert left.join(right).elements == ((1, 2), (2, 1))
    assert left.join(Antichain()) == Antichain()
    assert left.meet(Antichain()) == left


@pytest.mark.parametrize(
    ("frontier", "representatives"),
    [
        ([(0, 3), (1, 2), (2, 0)], TIMES),
        ([(1, 2), (2, 0)], [(1, 0), (1, 1), (1, 0), (1, 1)]),
        ([(0, 3), (1, 1)], [(0, 1), (0, 1), (1, 1), (1, 1)]),
        ([(1, 1)], [(1, 1), (1, 1), (1, 1), (1, 1)]),
        ([], TIMES),
    ],
)
def test_representatives(frontier: list[tuple[int, int]], representatives: list[tuple[int, int]]) -> None:
    assert [Antichain.of(*frontier).representative(time) for time in TIMES] == representatives
