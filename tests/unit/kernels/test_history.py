"""The history table's kernels at sizes at which they grow, reuse, and work in portions."""

import ast
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kpg.runtime.kernels import accumulators, differences, layout
from kpg.runtime.kernels import history as kernels
from kpg.runtime.kernels.accumulators import COUNT, SUM
from kpg.runtime.state.groups import Accumulator
from kpg.runtime.state.history import CHUNK_ROWS, HistoryTable
from kpg.runtime.trace.updates import Updates


def step(table: HistoryTable, keys: list[tuple[int, int]], diffs: list[int], *, keep: bool = True) -> Updates:
    table.accumulate(Updates.of(np.array(keys).T, (1, 0), diffs), (0,))
    updates = table.evaluate_threshold((0,), False)
    if keep:
        table.commit()
    else:
        table.rollback()
    return updates


def contents(table: HistoryTable) -> dict[tuple[int, ...], int]:
    found: dict[tuple[int, ...], int] = {}
    for data, diff in table.threshold_contents(False):
        found.update(zip(map(tuple, data.T.tolist()), diff.tolist(), strict=True))
    return found


def test_keys_come_and_go_at_random() -> None:
    random = np.random.default_rng(5)
    table = HistoryTable(2, (), 2)
    truth: dict[tuple[int, ...], int] = {}
    for number in range(300):
        keys = [tuple(key) for key in random.integers(0, 12, (40, 2)).tolist()]
        diffs = [1 if key not in truth or random.random() < 0.3 else -truth[key] for key in keys]
        keys, diffs = list(dict.fromkeys(keys)), diffs[: len(dict.fromkeys(keys))]
        keep = number % 4 != 0
        step(table, keys, diffs, keep=keep)
        if keep:
            for key, diff in zip(keys, diffs, strict=True):
                truth[key] = truth.get(key, 0) + diff
        assert contents(table) == {key: n for key, n in truth.items() if n > 0}
        truth = {key: n for key, n in truth.items() if n}
        assert (len(table), table.rows) == (len(truth), len(truth))
    assert np.count_nonzero(table.slots) == len(table)


def test_what_is_freed_is_used_again() -> None:
    """At most, a key has its own record and, beside it, two committed ones and three of the step."""
    table = HistoryTable(1, (), 2)
    for _ in range(50):
        for sign in (1, -1):
            for r in range(3):
                table.accumulate(Updates.of([list(range(40))], (1, r), sign), (r,))
                table.evaluate_threshold((r,), True)
            table.commit()
    assert (len(table), table.rows) == (0, 0)
    assert table.state[kernels.KEYS] == 40
    assert table.state[kernels.RECORDS] == 5 * 40
    assert table.bytes < 20_000


def test_growth_keeps_every_key() -> None:
    n = 5 * CHUNK_ROWS + 17
    table = HistoryTable(2, (), 2)
    data = np.stack((np.arange(n), np.arange(n) * 1000))
    table.accumulate(Updates.of(data, (1, 0), 1), (0,))
    assert (table.evaluate_threshold((0,), True).data == data).all()
    table.commit()
    table.accumulate(Updates.of(data[:, ::2], (2, 0), -1), (0,))
    updates = table.evaluate_threshold((0,), True)
    assert (updates.data.tolist(), updates.diff.tolist()) == (data[:, ::2].tolist(), [-1])
    table.commit()
    assert len(table) == n // 2
    assert contents(table).keys() == set(map(tuple, data[:, 1::2].T.tolist()))


def test_rollback_of_a_large_load_leaves_an_empty_table() -> None:
    table = HistoryTable(1, (), 2)
    table.accumulate(Updates.of([list(range(50_000))], (1, 0), 1), (0,))
    table.rollback()
    assert (len(table), table.rows, np.count_nonzero(table.slots), np.count_nonzero(table.bits)) == (
        0,
        0,
        0,
        0,
    )
    assert len(step(table, [(3,)], [1])) == 1


@pytest.mark.parametrize("epochs", [1, 3])
def test_aggregates_come_in_portions(epochs: int) -> None:
    n = CHUNK_ROWS + 100
    table = HistoryTable(1, (Accumulator(COUNT, -1), Accumulator(SUM, 1)), 2)
    times = np.stack((np.repeat(np.arange(epochs), n), np.zeros(n * epochs, np.int64)))
    data = np.tile(np.stack((np.arange(n), np.arange(n) * 2)), epochs)
    table.accumulate(Updates.of(data, times if epochs > 1 else (0, 0), 1), (0,))
    updates = table.evaluate((0,))
    assert len(updates) == n * (2 * epochs - 1)
    added = updates.data[:, updates.diffs() == 1].T.tolist()
    assert sorted(added) == sorted([k, e, 2 * k * e] for e in range(1, epochs + 1) for k in range(n))


def test_one_key_may_need_more_than_a_portion() -> None:
    epochs = CHUNK_ROWS + 5
    table = HistoryTable(1, (Accumulator(COUNT, -1),), 2)
    times = np.stack((np.arange(epochs), np.zeros(epochs, np.int64)))
    table.accumulate(Updates.of(np.zeros((1, epochs)), times, 1), (0,))
    updates = table.evaluate((0,))
    assert updates.data[1][updates.diff == 1].tolist() == list(range(1, epochs + 1))


def test_keys_with_chains_commit_side_by_side() -> None:
    """Several blocks of keys with zero to four rounds, some of whose counts come to be zero."""
    n, table = 1000, HistoryTable(1, (), 2)
    rounds_of = [[r for r in range(4) if key >> r & 1] for key in range(n)]
    shown = set()
    for r in range(4):
        keys = [key for key in range(n) if r in rounds_of[key]]
        diffs = [-1 if key % 16 == 15 and key % 5 == 0 and r == 3 else 1 for key in keys]
        table.accumulate(Updates.of([keys], (1, r), diffs), (r,))
        updates = table.evaluate_threshold((r,), True)
        assert (updates.diffs() == 1).all()
        assert shown.isdisjoint(updates.data[0].tolist())
        shown |= set(updates.data[0].tolist())
    table.accumulate(Updates.of([[1, 3, 3]], (1, 4), [-1, -1, -1]), (4,))
    updates = table.evaluate_threshold((4,), True)
    assert (sorted(updates.data[0].tolist()), updates.diff.tolist()) == ([1, 3], [-1])
    table.commit()
    present = {(key,) for key in range(n) if rounds_of[key]} - {(1,), (3,)}
    assert contents(table).keys() == present
    table.accumulate(Updates.of([[key for key in range(n) if rounds_of[key]]], (2, 5), -4), (5,))
    assert set(table.evaluate_threshold((5,), True).data[0].tolist()) == {key for (key,) in present}


COMMON = {"BLOCK", "NULL", "ERROR", "FLIP", "LOW", "NAN_WORD"}


def written(file: Path) -> set[str]:
    """The constants that a file gives values to."""
    found = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    names = (one for node in found if isinstance(node, ast.Assign) for one in ast.walk(node.targets[0]))
    return {one.id for one in names if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


@pytest.mark.parametrize("home", [accumulators, layout, kernels], ids=lambda home: home.__name__)
def test_a_layout_is_written_once(home: ModuleType) -> None:
    """Whoever reads what another file lays out imports its constants.

    ``COMMON``, words that every type has and how many rows are taken at once, are everybody's own.
    """
    files = [file for file in Path(home.__file__ or "").parent.glob("*.py") if file.stem != "text"]
    own = {one for one in written(Path(home.__file__ or "")) if one.isupper()} - COMMON
    others = [written(file) for file in files if str(file) != home.__file__]
    assert own and not own & set().union(*others)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [((0, 0), (0, 2)), ((0, 2), (0, 3)), ((0, 3), (1, 1)), ((1, 3), (4, 2)), ((4, 5), None)],
)
def test_the_next_least_upper_bound(rounds: tuple[int, int], expected: tuple[int, int] | None) -> None:
    """Of the step's record at (0, 0) and committed ones at (0, 2), (0, 3), (1, 1), (4, 2) and (4, 5)."""
    times = np.array([(7, 0, 0), (-1, 0, 2), (-1, 0, 3), (-1, 1, 1), (-1, 4, 2), (-1, 4, 5)], np.int64)
    point = np.zeros(2, np.int64)
    found = differences.next_bound(times, 6, np.array(rounds), point)
    assert (tuple(point.tolist()) if found else None) == expected
