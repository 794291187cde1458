"""Lookups in rows by any columns, scanned and by index."""

import itertools

import numpy as np
import pytest

from kpg.datalog.proof import rule_search as module
from kpg.datalog.proof.rule_search import MAX_SCANS, IndexedRows

PLACES = [(), (0,), (2,), (0, 1), (2, 1), (0, 1, 2)]


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("count", [1, MAX_SCANS, 200])
def test_matches_are_all_pairs(places: tuple[int, ...], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_MATCHES", 16)
    numbers = np.random.default_rng(count + len(places))
    data = numbers.integers(0, 4, (3, 60))
    values = numbers.integers(0, 5, (len(places), count))
    found = IndexedRows(data)
    expected = {
        (left, right)
        for left, right in itertools.product(range(count), range(60))
        if all(data[place, right] == value for place, value in zip(places, values[:, left], strict=True))
    }
    for _ in range(2):  # the second time by an index, if it was not by one before
        pieces = list(found.matches(places, values))
        assert all(0 < left.shape[0] <= 16 or not places or left.shape[0] == 0 for left, _ in pieces)
        pairs = [pair for left, right in pieces for pair in zip(left.tolist(), right.tolist(), strict=True)]
        assert len(pairs) == len(expected) and set(pairs) == expected


def test_no_rows() -> None:
    empty = IndexedRows(np.empty((2, 0), np.int64))
    assert len(empty) == 0
    values = np.zeros((1, 100), np.int64)
    assert sum(left.shape[0] for left, _ in empty.matches((0,), values)) == 0
    assert list(empty.matches((), np.zeros((0, 1), np.int64))) == []
