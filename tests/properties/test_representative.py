"""Compaction to a frontier F is right, as much as possible, and harmless to joins."""

from hypothesis import given
from hypothesis import strategies as st

from kpg.runtime.progress.antichain import Antichain, Time, least_upper_bound, precedes

TIMES = st.tuples(st.integers(0, 4), st.integers(0, 4))
FRONTIERS = st.lists(TIMES, min_size=1, max_size=4).map(lambda times: Antichain(tuple(times)))
EVERY_TIME = [(a, b) for a in range(7) for b in range(7)]


def seen_alike(frontier: Antichain, left: Time, right: Time) -> bool:
    """Whether no time in advance of the frontier tells the two apart."""
    readers = [time for time in EVERY_TIME if frontier.less_equal(time)]
    return all(precedes(left, reader) == precedes(right, reader) for reader in readers)


@given(FRONTIERS, TIMES)
def test_the_form_by_which_kernels_compact_is_the_definition(frontier: Antichain, time: Time) -> None:
    floor = frontier.floor()
    assert floor is not None and least_upper_bound(time, floor) == frontier.representative(time)


@given(FRONTIERS, TIMES)
def test_no_reader_tells_the_representative_from_the_time(frontier: Antichain, time: Time) -> None:
    assert seen_alike(frontier, time, frontier.representative(time))


@given(FRONTIERS, TIMES, TIMES)
def test_times_that_no_reader_tells_apart_have_one_representative(
    frontier: Antichain, left: Time, right: Time
) -> None:
    equal = frontier.representative(left) == frontier.representative(right)
    assert equal == seen_alike(frontier, left, right)


@given(FRONTIERS, TIMES)
def test_compacting_twice_changes_nothing(frontier: Antichain, time: Time) -> None:
    once = frontier.representative(time)
    assert frontier.representative(once) == once


@given(FRONTIERS, FRONTIERS, TIMES)
def test_a_later_frontier_forgets_the_earlier(frontier: Antichain, other: Antichain, time: Time) -> None:
    later = frontier.join(other)
    assert later.representative(frontier.representative(time)) == later.representative(time)


@given(FRONTIERS, TIMES, TIMES)
def test_joining_with_a_legal_time_gives_the_uncompacted_time(
    frontier: Antichain, time: Time, later: Time
) -> None:
    for element in frontier.elements:
        reader = least_upper_bound(element, later)
        compacted = least_upper_bound(frontier.representative(time), reader)
        assert compacted == least_upper_bound(time, reader)
