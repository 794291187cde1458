"""Hypothesis strategies for rows, times and updates."""

import numpy as np
from hypothesis import strategies as st

from kpg.runtime.trace.updates import Updates

SMALL = st.integers(0, 3)
WORDS = st.one_of(SMALL, st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 1 - 2**63, 2**63 - 1]))


@st.composite
def updates(
    draw: st.DrawFn,
    width: int,
    depth: int,
    most: int = 30,
    words: st.SearchStrategy[int] = SMALL,
    times: st.SearchStrategy[int] = SMALL,
) -> Updates:
    """Up to ``most`` updates, with times and diffs in the long or the short form."""
    n = draw(st.integers(0, most))
    rows = draw(st.lists(st.lists(words, min_size=n, max_size=n), min_size=width, max_size=width))
    data = np.array(rows, np.int64).reshape(width, n)
    times_drawn = n if draw(st.booleans()) else 1
    time = draw(st.lists(times, min_size=depth * times_drawn, max_size=depth * times_drawn))
    diff = draw(st.lists(st.sampled_from([-1, 1, 1, 2]), min_size=n, max_size=n) | st.just([1]))
    return Updates(data, np.array(time, np.int64).reshape(depth, times_drawn), np.array(diff, np.int64))
