"""The row store: inserts, deletes, lookups, transactions, against literal values and a naive model."""

import random

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import IntegrityError, InternalError, ProgrammingError
from kpg.runtime.tables.table import Change, Table
from kpg.runtime.types import BIGINT, DATE, NULL, TEXT, ColumnDef, Schema, decimal

KEYED = Schema((ColumnDef("id", BIGINT, False), ColumnDef("price", decimal(9, 2))), (0,))
PAIR = Schema((ColumnDef("a", BIGINT), ColumnDef("b", BIGINT), ColumnDef("c", BIGINT)), (1, 0))
BAG = Schema((ColumnDef("a", BIGINT), ColumnDef("b", BIGINT)))


def words(*rows):
    return np.array(rows, np.int64).T.copy()


def table(schema, *rows):
    made = Table("t", schema, Dictionary())
    if rows:
        made.insert(words(*rows))
    return made


def changes(made):
    return [(change.rowids.tolist(), change.diff) for change in made.drain()]


def contents(made):
    return sorted(map(tuple, made.read(made.live()).T.tolist()))


def test_insert_gives_ascending_rowids_and_stores_the_columns():
    made = table(KEYED)
    assert made.insert(words((5, 100), (6, 200))).tolist() == [0, 1]
    assert made.insert(words((1, NULL))).tolist() == [2]
    assert made.read(np.arange(3)).tolist() == [[5, 6, 1], [100, 200, NULL]]
    assert (made.count, made.rows, made.dead_rows) == (3, 3, 0)
    assert made.live().tolist() == [0, 1, 2]


def test_insert_of_no_rows():
    made = table(KEYED)
    assert made.insert(np.empty((2, 0), np.int64)).tolist() == []
    assert made.find(words((1,))).tolist() == [-1]
    assert made.drain() == []


def test_growth_keeps_the_rows():
    made = table(KEYED)
    for start in range(0, 3000, 300):
        made.insert(words(*((i, i * i) for i in range(start, start + 300))))
    made.build_index()
    assert made.find(words((0,), (2999,), (3000,))).tolist() == [0, 2999, -1]
    assert made.read(np.array([2999]), (1,)).tolist() == [[2999 * 2999]]
    assert made.bytes >= 3000 * 17


def test_reserve_changes_nothing_but_room():
    made = table(KEYED, (1, 1))
    made.reserve(10_000)
    assert made.groups.capacity == 10_001
    assert contents(made) == [(1, 1)]


@pytest.mark.parametrize("order", [[(1, 0), (2, 0), (2, 1)], [(2, 0), (1, 0), (2, 1)]])
def test_duplicate_within_a_batch(order):
    made = table(KEYED)
    with pytest.raises(IntegrityError, match=r"duplicate key in table t: \(id\) = \(2\) is given twice"):
        made.insert(words(*order))
    assert (made.rows, made.drain()) == (0, [])
    assert made.insert(words((2, 0), (1, 0))).tolist() == [0, 1]


def test_duplicate_of_a_live_row_changes_nothing():
    made = table(PAIR, (1, 10, 0), (2, 10, 0))
    made.drain()
    with pytest.raises(IntegrityError, match=r"\(b, a\) = \(10, 2\) exists already"):
        made.insert(words((3, 10, 0), (2, 10, 5), (4, 10, 0)))
    assert contents(made) == [(1, 10, 0), (2, 10, 0)]
    assert made.find(words((10, 3))).tolist() == [-1]
    assert made.drain() == []
    assert made.insert(words((3, 10, 0))).tolist() == [2]


def test_key_values_are_shown_decoded():
    schema = Schema((ColumnDef("d", DATE), ColumnDef("s", TEXT), ColumnDef("p", decimal(9, 2))), (0, 1, 2))
    dictionary = Dictionary()
    made = Table("orders", schema, dictionary)
    row = words((9131, dictionary.code("BUILDING"), -5))
    made.insert(row)
    with pytest.raises(IntegrityError, match=r"\(d, s, p\) = \(1995-01-01, 'BUILDING', -0.05\) exists"):
        made.insert(row)


def test_null_is_refused_in_not_null_and_key_columns():
    with pytest.raises(
        IntegrityError, match=r"NULL in column id of the primary key of table t: row \(NULL, 7"
    ):
        table(Schema((ColumnDef("id", BIGINT), ColumnDef("x", BIGINT)), (0,)), (NULL, 7))
    schema = Schema((ColumnDef("id", BIGINT), ColumnDef("x", BIGINT, False)))
    with pytest.raises(IntegrityError, match=r"NULL in column x of table t: row \(2, NULL\)") as caught:
        table(schema, (1, 1), (2, NULL))
    assert caught.value.hint == "x is NOT NULL: give it a value"


def test_a_key_can_be_given_again_after_its_row_is_deleted():
    made = table(KEYED, (1, 10), (2, 20))
    made.delete(np.array([0]))
    assert made.find(words((1,), (2,))).tolist() == [-1, 1]
    assert made.insert(words((1, 11))).tolist() == [2]
    assert made.find(words((1,))).tolist() == [2]
    assert (made.count, made.rows, made.dead_rows) == (3, 2, 1)
    assert made.live().tolist() == [1, 2]
    assert made.is_live(np.array([0, 1])).tolist() == [False, True]


@pytest.mark.parametrize("rowids", [[1, 1], [1, 5], [1, -1], [1, 0]])
def test_delete_of_a_row_that_is_not_there_changes_nothing(rowids):
    made = table(KEYED, (1, 10), (2, 20))
    made.delete(np.array([0]))
    made.drain()
    with pytest.raises(IntegrityError, match=rf"table t has no row {rowids[1]} to delete"):
        made.delete(np.array(rowids))
    assert made.live().tolist() == [1]
    assert made.find(words((2,))).tolist() == [1]
    assert made.drain() == []


def test_match_by_key_compares_the_whole_row_and_gives_a_row_once():
    made = table(KEYED, (1, 10), (2, NULL))
    assert made.match(words((2, NULL), (1, 11), (1, 10), (1, 10), (9, 9))).tolist() == [1, -1, 0, -1, -1]
    assert made.match(words((1, 10))).tolist() == [0]


def test_match_in_a_bag_gives_equal_rows_different_rowids():
    made = table(BAG, (1, NULL), (2, 2), (1, NULL), (1, NULL))
    found = made.match(words((1, NULL), (2, 2), (1, NULL), (1, 1))).tolist()
    assert (found[1], found[3]) == (1, -1)
    assert found[0] != found[2]
    assert {found[0], found[2]} < {0, 2, 3}
    assert sorted(made.match(words(*[(1, NULL)] * 4)).tolist()) == [-1, 0, 2, 3]
    made.delete(np.array([2]))
    made.insert(words((2, 2)))
    assert sorted(made.match(words(*[(1, NULL)] * 4, *[(2, 2)] * 2)).tolist()) == [-1, -1, 0, 1, 3, 4]


def test_a_bag_of_many_equal_rows():
    made = table(BAG)
    made.match(words((0, 0)))
    for _ in range(10):
        made.insert(np.full((2, 5000), 3))
    found = made.match(np.full((2, 50_001), 3))
    assert sorted(found.tolist()) == [-1, *range(50_000)]
    made.delete(found[found >= 0])
    assert made.match(words((3, 3))).tolist() == [-1]


def test_find_needs_a_key():
    with pytest.raises(InternalError, match="table t has no primary key"):
        table(BAG).find(words((1,)))


def test_a_table_needs_columns():
    with pytest.raises(ProgrammingError, match="table t has no columns"):
        table(Schema(()))


def test_pending_is_net():
    made = table(KEYED, (1, 1), (2, 2))
    assert changes(made) == [([0, 1], 1)]
    assert changes(made) == []
    made.insert(words((3, 3), (4, 4)))
    made.delete(np.array([2, 0]))
    assert [(c.rowids.tolist(), c.diff) for c in made.pending] == [([0], -1), ([3], 1)]
    assert changes(made) == [([0], -1), ([3], 1)]
    made.insert(words((5, 5)))
    made.delete(np.array([4]))
    assert made.pending == []


def test_commit_keeps_what_is_pending():
    made = table(KEYED, (1, 1))
    made.drain()
    made.delete(np.array([0]))
    made.commit()
    assert isinstance(made.pending[0], Change)
    assert changes(made) == [([0], -1)]


@pytest.mark.parametrize("schema", [KEYED, BAG])
def test_rollback_returns_to_the_savepoint(schema):
    made = table(schema, (1, 1), (2, 2))
    made.match(words((1, 1)))
    made.drain()
    made.delete(np.array([0]))
    savepoint = made.savepoint()
    made.insert(words((0, 5), (3, 3)))
    made.delete(np.array([1, 3]))
    made.drain()
    made.rollback(savepoint)
    assert (contents(made), made.count, made.dead_rows) == ([(2, 2)], 2, 1)
    assert made.match(words((2, 2), (1, 1), (0, 5), (3, 3))).tolist() == [1, -1, -1, -1]
    assert changes(made) == [([0], -1)]
    assert made.insert(words((3, 3))).tolist() == [2]
    assert made.match(words((3, 3))).tolist() == [2]


def test_nested_savepoints():
    made = table(KEYED, (1, 1))
    outer = made.savepoint()
    made.delete(np.array([0]))
    made.insert(words((1, 2)))
    inner = made.savepoint()
    made.delete(np.array([1]))
    made.insert(words((1, 3)))
    made.rollback(inner)
    assert contents(made) == [(1, 2)]
    made.rollback(outer)
    assert contents(made) == [(1, 1)]
    assert made.find(words((1,))).tolist() == [0]


def test_keys_that_collide_on_a_power_of_two():
    made = table(KEYED)
    keys = np.arange(3000, dtype=np.int64) << 45
    made.insert(np.stack([keys[::-1], keys]))
    assert made.find(np.ascontiguousarray(keys[::-1][None, :])).tolist() == list(range(3000))


class Model:
    """Live rows by rowid, and copies of it as savepoints."""

    def __init__(self):
        self.rows = {}
        self.count = 0

    def copy(self):
        other = Model()
        other.rows, other.count = dict(self.rows), self.count
        return other


def step(rng, made, model, keyed):
    match rng.randrange(4):
        case 0 | 1:
            rows = [(rng.randrange(60), rng.randrange(3)) for _ in range(rng.randrange(12))]
            taken = {row[0] for row in model.rows.values()}
            if keyed and (taken & {a for a, _ in rows} or len({a for a, _ in rows}) < len(rows)):
                with pytest.raises(IntegrityError):
                    made.insert(words(*rows))
            else:
                made.insert(np.array(rows, np.int64).reshape(-1, 2).T)
                model.rows.update(enumerate(rows, model.count))
                model.count += len(rows)
        case 2:
            gone = rng.sample(sorted(model.rows), min(len(model.rows), rng.randrange(8)))
            made.delete(np.array(gone, np.int64))
            for rowid in gone:
                del model.rows[rowid]
        case _:
            wanted = [(rng.randrange(60), rng.randrange(3)) for _ in range(9)]
            wanted += rng.sample(sorted(model.rows.values()), min(len(model.rows), 3))
            found = made.match(words(*wanted)).tolist()
            given = [rowid for rowid in found if rowid >= 0]
            assert len(given) == len(set(given))
            assert all(model.rows[r] == w for r, w in zip(found, wanted, strict=True) if r >= 0)
            for row in set(wanted):
                hits = sum(1 for r, w in zip(found, wanted, strict=True) if r >= 0 and w == row)
                assert hits == min(wanted.count(row), list(model.rows.values()).count(row))


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_random_histories_agree_with_the_model(keyed, seed):
    rng = random.Random(seed)
    made, model = table(KEYED if keyed else BAG), Model()
    told = {}
    for _ in range(60):
        savepoint, before = made.savepoint(), model.copy()
        for _ in range(rng.randrange(5)):
            step(rng, made, model, keyed)
        if rng.random() < 0.3:
            made.rollback(savepoint)
            model = before
        if rng.random() < 0.5:
            for change in made.drain():
                for rowid in change.rowids.tolist():
                    told[rowid] = told.get(rowid, 0) + change.diff
            assert {rowid for rowid, diff in told.items() if diff} == set(model.rows)
        made.commit()
        assert made.live().tolist() == sorted(model.rows)
        assert made.rows == len(model.rows)
        if keyed:
            by_key = {row[0]: rowid for rowid, row in model.rows.items()}
            assert made.find(np.arange(60)[None, :]).tolist() == [by_key.get(k, -1) for k in range(60)]
