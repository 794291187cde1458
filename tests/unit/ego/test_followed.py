"""Which readers are followed, and what is pushed with them."""

import numpy as np

from kpg.runtime.ego.overlay import (
    ALL_READERS,
    NO_READERS,
    Edges,
    FollowedReaders,
    Overlay,
    is_in_sorted,
    with_ancestors,
)


def test_who_is_followed() -> None:
    words = np.array([5, 1, 9, 30])
    some = FollowedReaders(False, np.array([1, 2, 30]), (lambda given: given[given == 9],))
    assert some.contains(words).tolist() == [False, True, True, True]
    assert ALL_READERS.contains(words).all() and not NO_READERS.contains(words).any()
    assert (some.is_empty, ALL_READERS.is_empty, NO_READERS.is_empty) == (False, False, True)
    assert is_in_sorted(np.array([3, 7]), np.array([7, 8, 2])).tolist() == [True, False, False]


def test_all_that_feeds_a_node_is_above_it() -> None:
    """Writers 0 and 1, readers 2 and 3; node 4 over both writers feeds reader 2."""
    size = np.array([0, 0, 1, 1, 2], np.int64)
    overlay = Overlay(2, 2, Edges(np.cumsum(size) - size, size, np.array([8, 3, 0, 2], np.int32)), 3)
    assert with_ancestors(overlay, np.array([2])).tolist() == [0, 1, 2, 4]
    assert with_ancestors(overlay, np.array([3])).tolist() == [1, 3]
    assert with_ancestors(overlay, np.empty(0, np.int64)).tolist() == []
