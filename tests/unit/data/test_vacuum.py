"""The vacuum: memory of deleted rows comes back group by group, rowids stay, and the work is bounded."""

import random

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.tables.row_groups import RowGroups
from kpg.runtime.tables.table import Table
from kpg.runtime.types import BIGINT, NULL, ColumnDef, Schema

KEYED = Schema((ColumnDef("id", BIGINT, False), ColumnDef("x", BIGINT)), (0,))
BAG = Schema((ColumnDef("id", BIGINT), ColumnDef("x", BIGINT)))


@pytest.fixture
def group_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << 4)


def table(schema: Schema, rows: int) -> Table:
    made = Table("t", schema, Dictionary())
    made.insert(np.stack((np.arange(rows), 100 + np.arange(rows))))
    commit(made)
    return made


def commit(made: Table) -> None:
    made.drain()
    made.commit()


def delete(made: Table, *rowids: int) -> None:
    made.delete(np.array(rowids, np.int64))


def rows_of(made: Table) -> list[tuple[int, int]]:
    rowids = made.live()
    return list(zip(rowids.tolist(), made.read(rowids, (1,))[0].tolist(), strict=True))


@pytest.mark.usefixtures("group_bits")
@pytest.mark.parametrize("schema", [KEYED, BAG])
def test_a_group_that_is_mostly_dead_is_rewritten_alone(schema: Schema) -> None:
    made = table(schema, 48)
    made.match(np.array([[0], [100]]))
    delete(made, *range(16, 24))
    commit(made)
    assert (made.dead_rows, made.reclaimed_rows, made.groups.allocated_groups) == (8, 0, 3)
    delete(made, 31)
    commit(made)
    assert (made.count, made.rows, made.dead_rows, made.reclaimed_rows, made.groups.allocated_groups) == (
        48,
        39,
        0,
        9,
        3,
    )
    assert rows_of(made) == [(i, 100 + i) for i in (*range(16), *range(24, 31), *range(32, 48))]
    assert made.match(np.array([[25, 16, 31], [125, 116, 131]])).tolist() == [25, -1, -1]
    assert made.insert(np.array([[16], [7]])).tolist() == [48]
    assert made.match(np.array([[16], [7]])).tolist() == [48]


@pytest.mark.usefixtures("group_bits")
def test_a_row_that_was_given_up_reads_as_null_and_is_not_live() -> None:
    made = table(KEYED, 32)
    delete(made, *range(9), *range(16, 32))
    assert made.read(np.array([3, 20])).tolist() == [[3, 20], [103, 120]]
    made.drain()
    assert made.read(np.array([3, 20])).tolist() == [[3, 20], [103, 120]]
    made.commit()
    assert made.read(np.array([3, 9, 20])).tolist() == [[NULL, 9, NULL], [NULL, 109, NULL]]
    assert made.is_live(np.array([3, 9, 20, 32, -1])).tolist() == [False, True, False, False, False]
    assert made.live().tolist() == list(range(9, 16))


@pytest.mark.usefixtures("group_bits")
def test_a_group_without_live_rows_gives_all_its_memory_back() -> None:
    made = table(KEYED, 64)
    before = made.groups.bytes
    delete(made, *range(16, 48))
    commit(made)
    assert (made.groups.allocated_groups, made.rows, made.reclaimed_rows) == (2, 32, 32)
    assert before - made.groups.bytes == 2 * (16 * 2 * 8 + 8)
    assert made._vacuum.copied_rows == 0


@pytest.mark.usefixtures("group_bits")
def test_a_group_is_rewritten_again_and_at_last_given_up() -> None:
    made = table(KEYED, 20)
    for gone in (range(9), range(9, 13), range(13, 15), [15]):
        delete(made, *gone)
        commit(made)
        assert rows_of(made) == [(i, 100 + i) for i in range(gone[-1] + 1, 20)]
    assert (made.groups.allocated_groups, made._vacuum.rewritten_groups, made._vacuum.copied_rows) == (
        1,
        4,
        7 + 3 + 1,
    )


@pytest.mark.usefixtures("group_bits")
def test_what_is_pending_or_may_be_undone_keeps_its_place() -> None:
    made = table(KEYED, 32)
    delete(made, *range(16))
    made.commit()
    assert (made.reclaimed_rows, made.read(np.array([0])).tolist()) == (0, [[0], [100]])
    made.drain()
    savepoint = made.savepoint()
    delete(made, *range(16, 32))
    made.rollback(savepoint)
    commit(made)
    assert (made.reclaimed_rows, made.rows) == (16, 16)
    assert made.find(np.array([[5, 20]])).tolist() == [-1, 20]


@pytest.mark.usefixtures("group_bits")
def test_a_group_that_was_dead_before_it_was_full() -> None:
    made = table(KEYED, 15)
    delete(made, *range(15))
    commit(made)
    assert (made.groups.allocated_groups, made.reclaimed_rows) == (1, 0)
    made.insert(np.array([[15, 16], [115, 116]]))
    commit(made)
    assert (made.rows, made.reclaimed_rows) == (2, 0)
    delete(made, 16)
    commit(made)
    assert (rows_of(made), made.reclaimed_rows) == ([(15, 115)], 15)


@pytest.mark.usefixtures("group_bits")
def test_keys_ascend_from_above_those_of_rows_that_are_gone() -> None:
    made = table(KEYED, 32)
    delete(made, *range(32))
    commit(made)
    assert made.insert(np.array([[40, 31], [0, 1]])).tolist() == [32, 33]
    assert made.find(np.array([[31, 40, 5]])).tolist() == [33, 32, -1]


@pytest.mark.usefixtures("group_bits")
def test_the_work_of_a_commit_is_in_proportion_to_its_deletions() -> None:
    made = table(KEYED, 1600)
    delete(made, *(i for i in range(1600) if i % 16 < 8))
    commit(made)
    assert made._vacuum.copied_rows == 0
    worked = []
    for i in range(100):
        before = made._vacuum.copied_rows
        delete(made, 16 * i + 8)
        commit(made)
        worked.append(made._vacuum.copied_rows - before)
    assert max(worked) == 7
    delete(made, *(16 * i + 9 for i in range(100)))
    commit(made)
    assert made._vacuum.copied_rows == 700
    assert made.rows == 600


@pytest.mark.usefixtures("group_bits")
def test_a_deletion_of_much_at_once_is_worked_off_in_parts() -> None:
    made = table(KEYED, 1600)
    delete(made, *(i for i in range(1600) if i % 16 < 8))
    commit(made)
    delete(made, *(16 * i + 8 for i in range(100)))
    commit(made)
    assert (made._vacuum.rewritten_groups, made._vacuum.copied_rows, made.reclaimed_rows) == (29, 203, 29 * 9)
    for i in range(71):
        made.insert(np.array([[5000 + i], [0]]))
        commit(made)
        assert made._vacuum.rewritten_groups == 30 + i
    assert (made.reclaimed_rows, made.dead_rows) == (900, 0)


@pytest.mark.usefixtures("group_bits")
def test_a_queue_holds_what_is_in_it() -> None:
    made = table(KEYED, 0)
    for i in range(1000):
        made.insert(np.array([[3 * i, 3 * i + 1, 3 * i + 2], [0, 1, 2]]))
        if i >= 10:
            delete(made, *range(3 * i - 30, 3 * i - 27))
        commit(made)
    assert (made.count, made.rows, made.groups.allocated_groups) == (3000, 30, 3)
    assert made._vacuum.copied_rows < made.reclaimed_rows + made.dead_rows


def test_a_small_table_takes_little() -> None:
    made = table(KEYED, 10)
    assert made.groups.bytes < 5000
    made.insert(np.stack((np.arange(10, 600_000), np.zeros(599_990, np.int64))))
    assert (made.groups.allocated_groups, made.groups.bits) == (2, 19)
    assert rows_of(made)[:2] == [(0, 100), (1, 101)]
    assert made.find(np.array([[0, 599_999]])).tolist() == [0, 599_999]


def test_given_rows_as_one_group() -> None:
    groups = RowGroups.from_columns(np.array([[5, 6, 7], [1, 2, 3]]))
    assert groups.read(np.array([1, 0]), np.array([2, 0])).tolist() == [[3, 1], [7, 5]]
    assert groups.live(1, 3).tolist() == [1, 2]


class Model:
    """Rows by rowid, live and dead."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int]] = {}
        self.count = 0

    def copy(self) -> "Model":
        other = Model()
        other.rows, other.count = dict(self.rows), self.count
        return other


def change(rng: random.Random, made: Table, model: Model) -> None:
    if rng.random() < 0.5:
        taken = {row[0] for row in model.rows.values()}
        fresh = [k for k in rng.sample(range(200), rng.randrange(12)) if k not in taken]
        rows = [(k, rng.randrange(3)) for k in fresh]
        made.insert(np.array(rows, np.int64).reshape(-1, 2).T)
        model.rows.update(enumerate(rows, model.count))
        model.count += len(rows)
    else:
        gone = rng.sample(sorted(model.rows), min(len(model.rows), rng.randrange(12)))
        if rng.random() < 0.5:
            rows = [model.rows[rowid] for rowid in gone]
            gone = made.match(np.array(rows, np.int64).reshape(-1, 2).T).tolist()
        made.delete(np.array(gone, np.int64))
        for rowid in gone:
            del model.rows[rowid]


@pytest.mark.parametrize("schema", [KEYED, BAG])
@pytest.mark.parametrize("bits", [0, 1, 3, 6, 7])
@pytest.mark.parametrize("seed", range(4))
def test_random_histories(schema: Schema, bits: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rowids mean the same rows for ever, whatever is rewritten; dead rows are in memory in bounds."""
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << bits)
    rng = random.Random(seed)
    made, model = Table("t", schema, Dictionary()), Model()
    deletions = 0
    for _ in range(150):
        savepoint, before = made.savepoint(), model.copy()
        for _ in range(rng.randrange(4)):
            change(rng, made, model)
        if rng.random() < 0.2:
            assert made.live_at(savepoint).tolist() == sorted(before.rows)
            made.rollback(savepoint)
            model = before
        deletions += len(before.rows.keys() - model.rows.keys())
        commit(made)
        rowids = made.live()
        assert rowids.tolist() == sorted(model.rows)
        assert list(map(tuple, made.read(rowids).T.tolist())) == [model.rows[r] for r in rowids.tolist()]
        every = np.arange(-1, model.count)
        assert np.flatnonzero(made.is_live(every)).tolist() == [1 + r for r in rowids.tolist()]
        assert made.match(made.read(rowids)).tolist() != [-1] * len(rowids) or not len(rowids)
        assert made._vacuum.copied_rows <= made.reclaimed_rows
        assert made.rows + made.dead_rows + made.reclaimed_rows == model.count
