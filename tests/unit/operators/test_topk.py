"""Which groups are looked at again; what they answer is in ``tests/properties/dataflows.py``."""

import numpy as np

from kpg.runtime.operators.topk import distinct_prefixes


def test_an_owed_group_may_be_a_column_of_many() -> None:
    many = np.array([[1, 2, 3], [4, 5, 6]], np.int64)
    found = distinct_prefixes([], [many[:, 1:2]], 2)
    assert found.tolist() == [[2], [5]] and found.flags.c_contiguous
    assert distinct_prefixes([], [many[:, 1:2], many[:, :2]], 2).tolist() == [[1, 2], [4, 5]]
    assert distinct_prefixes([], [], 0).shape == (0, 1)
