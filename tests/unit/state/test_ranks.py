"""Ranks read from history tables and from traces, against dictionaries."""

import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from kpg.runtime.errors import InternalError
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates
from kpg.runtime.worker.derivation_rounds import first_rounds_in_state, ranks_of, rows_with_ranks

Row = tuple[int, int]
History = dict[Row, Counter[int]]


def expected(history: History) -> dict[Row, int]:
    """The first round of positive count, of rows whose count over all rounds is positive."""
    found = {}
    for row, counts in history.items():
        rounds = [r for r in sorted(counts) if sum(n for at, n in counts.items() if at <= r) > 0]
        if sum(counts.values()) > 0:
            found[row] = rounds[0]
    return found


def ever(history: History) -> dict[Row, int]:
    """The first round of positive count, of rows that have one."""
    found = {}
    for row, counts in history.items():
        total = 0
        for number in sorted(counts):
            total += counts[number]
            if total > 0:
                found[row] = number
                break
    return found


def step(table: HistoryTable, history: History, choice: random.Random, epoch: int) -> None:
    for number in range(5):
        rows = [(choice.randrange(6), choice.randrange(4)) for _ in range(choice.randrange(8))]
        diffs = [choice.choice([1, 1, 2, -1]) for _ in rows]
        for row, diff in zip(rows, diffs, strict=True):
            history[row][number] += diff
        if rows:
            data = np.array(rows, np.int64).T
            table.accumulate(Updates.of(data, (epoch, number), diffs), (number,))
            table.evaluate_threshold((number,), True)
    table.commit()


@pytest.mark.parametrize("seed", range(6))
def test_ranks_in_a_history_table(seed: int) -> None:
    choice = random.Random(seed)
    table = HistoryTable(2, (), 2)
    history: History = defaultdict(Counter)
    for epoch in range(1, 12):
        step(table, history, choice, epoch)
        known = expected(history)
        rows, ranks = rows_with_ranks(table)
        assert dict(zip(map(tuple, rows.T.tolist()), ranks.tolist(), strict=True)) == known
        every = np.array([(a, b) for a in range(7) for b in range(5)], np.int64).T
        found = ranks_of(table, every)
        assert found.tolist() == [known.get(row, -1) for row in map(tuple, every.T.tolist())]
        once = ever(history)
        found = ranks_of(table, every, include_deleted=True)
        assert found.tolist() == [once.get(row, -1) for row in map(tuple, every.T.tolist())]
        rows, ranks = rows_with_ranks(table, include_deleted=True)
        assert dict(zip(map(tuple, rows.T.tolist()), ranks.tolist(), strict=True)) == once


def test_many_keys() -> None:
    table = HistoryTable(1, (), 2)
    keys = np.random.default_rng(1).permutation(50_000).astype(np.int64)
    for number, part in enumerate(np.split(keys, 5)):
        table.accumulate(Updates.of(part.reshape(1, -1), (1, number), 1), (number,))
        table.evaluate_threshold((number,), True)
    table.commit()
    assert ranks_of(table, keys.reshape(1, -1)).tolist() == np.repeat(np.arange(5), 10_000).tolist()
    assert ranks_of(table, keys.reshape(1, -1) + 50_000).tolist() == [-1] * 50_000


def test_only_loops_that_are_in_no_other_have_ranks() -> None:
    with pytest.raises(InternalError, match="depth 3"):
        rows_with_ranks(HistoryTable(1, (), 3))


def test_first_rounds_of_a_trace() -> None:
    rows = [(5, 1), (5, 1), (7, 0), (8, 2), (8, 2), (5, 1)]
    times = [(1, 2), (3, 4), (1, 1), (1, 0), (2, 0), (4, 3)]
    diffs = [1, -1, 2, 1, -1, 1]
    updates = Updates.of(np.array(rows).T, np.array(times).T, diffs)
    data, rounds = first_rounds_in_state(updates)
    assert data.T.tolist() == [[5, 1], [7, 0]] and rounds.tolist() == [2, 1]
    data, rounds = first_rounds_in_state(Updates.empty(2, 2))
    assert data.shape == (2, 0) and rounds.shape == (0,)
