"""Constraints of rows that come past the coordinator: errors and contents are those of one worker."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

import kpg
from kpg.api.database import Database
from kpg.execute.changes import bulk_load
from tests.unit.workers.apart import apart
from tests.unit.workers.test_landing import Parts, blocks, send

Rows = list[tuple[Any, ...]]
Step = tuple[str, Rows] | str


@pytest.fixture(scope="module")
def both() -> Iterator[Database]:
    with apart(2) as made:
        yield made


@pytest.fixture(autouse=True)
def tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    goes = bulk_load._goes_through_spark
    monkeypatch.setattr(bulk_load, "_goes_through_spark", lambda s, m: isinstance(s, Parts) or goes(s, m))
    monkeypatch.setattr(bulk_load, "send_tables", send)


@pytest.fixture
def db(both: Database) -> Iterator[Database]:
    """With nothing in it."""
    yield both
    both.sql("drop table if exists i, o, r, u cascade")


def table(db: Database, name: str, rows: Rows) -> pa.Table:
    names = db._engine.table(name).schema.names
    return pa.table({one: [row[place] for row in rows] for place, one in enumerate(names)})


def outcome(db: Database, steps: Sequence[Step], *, far: bool) -> list[Any]:
    """What each step says: an error, or nothing."""
    said: list[Any] = []
    for step in steps:
        try:
            if isinstance(step, str):
                db.sql(step)
            else:
                rows = table(db, *step)
                half = max(1, len(rows) // 2)
                db.load(step[0], Parts(rows.slice(0, half), rows.slice(half)) if far else rows)
            said.append(None)
        except kpg.Error as error:
            said.append((type(error), error.sqlstate, str(error), error.hint))
    return said


def contents(db: Database, names: Sequence[str]) -> list[Any]:
    return [sorted(map(repr, db.sql(f"select * from {name}").fetchall())) for name in names]


KEYS = """
    create table r(k int primary key, name text unique);
    create table o(k bigint primary key, r int references r, code text unique,
        cents bigint check (cents >= 0), check (k <> 13));
    create table i(k bigint references o, n int, code text references o (code), primary key (k, n));
"""
REGIONS: Rows = [(1, "a"), (2, "b"), (3, None), (4, None)]
ORDERS: Rows = [(k, k % 3 + 1, f"c{k}", k) for k in range(100, 160)]
ITEMS: Rows = [(k, n, f"c{k}" if n else None) for k in range(100, 150) for n in range(3)]
GOOD: list[Step] = [("r", REGIONS), ("o", ORDERS), ("i", ITEMS)]
BAD: dict[str, tuple[list[Step], list[Step]]] = {
    "a check of a column": (GOOD[:1], [("o", [(k, 1, f"{k}", 50 - k) for k in range(40, 90)])]),
    "a check of a row": (GOOD[:1], [("o", [(k, 1, f"{k}", 1) for k in range(1, 30)])]),
    "a check and a key": (GOOD[:1], [("o", [(7, 1, "x", 1), (7, 1, "y", 1), (8, 1, "z", -1)])]),
    "a key that is given twice": (GOOD[:1], [("o", [*ORDERS, (120, 1, "x", 1), (130, 1, "y", 1)])]),
    "a key that is there": (GOOD[:2], [("o", [(200, 1, "x", 1), (130, 1, "y", 1)])]),
    "a text that is given twice": (
        GOOD[:1], [("o", [(k, 1, f"{k % 40}", 1) for k in range(50, 100)])]
    ),
    "a text that is there": (GOOD[:2], [("o", [(170, 1, "n", 1), (171, 1, "c130", 1), (180, 1, "c131", 1)])]),
    "no such region": (GOOD[:1], [("o", [(k, k, f"{k}", 1) for k in range(1, 12)])]),
    "no such order": (GOOD[:2], [("i", [(k, 1, None) for k in range(140, 170)])]),
    "no such code": (GOOD[:2], [("i", [(140, n, f"c{155 + n}") for n in range(20)])]),
    "later loads": (GOOD, [("o", [(300, 4, None, 1)]), ("o", [(301, 5, None, 1)]), ("i", [(300, 1, "c100")]),
                           ("i", [(301, 1, None)]), ("r", [(5, "e"), (6, "a")])]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_rows_are_refused_as_by_one_worker(db: Database, case: str) -> None:
    before, steps = BAD[case]
    with kpg.connect() as one:
        for each in (db, one):
            each.sql(KEYS)
        assert outcome(db, before, far=True) == outcome(one, before, far=False) == [None] * len(before)
        said = outcome(one, steps, far=False)
        assert outcome(db, steps, far=True) == said and any(said)
        assert [blocks(db, name) for name, _ in before] >= [1] * len(before)
        names = ("r", "o", "i")
        counted = [db.sql(f"select count(*) from {name}").fetchall()[0][0] for name in names]
        assert counted == [one.sql(f"select count(*) from {name}").fetchall()[0][0] for name in names]
        assert contents(db, names) == contents(one, names)


def test_rows_that_refer_to_each_other_stay_at_workers(db: Database) -> None:
    """The coordinator has none of them, until a statement has one looked at."""
    with kpg.connect() as one:
        for each in (db, one):
            each.sql(KEYS)
            each.sql(
                "create materialized view s as select r, count(*) as n from o join i using (k) group by r"
            )
        assert outcome(db, GOOD, far=True) == outcome(one, GOOD, far=False) == [None] * 3
        assert [blocks(db, name) for name in ("r", "o", "i")] == [1, 1, 1]
        assert contents(db, "s") == contents(one, "s")
        steps = ["insert into i values (159, 7, 'c159')", "insert into i values (160, 7, null)",
                 "delete from o where k = 101", "insert into o values (500, 1, 'c100', 1)",
                 "insert into r values (9, 'b')", "delete from i where k = 101; delete from o where k = 101",
                 "update r set k = 8 where k = 4"]  # fmt: skip
        assert outcome(db, steps, far=True) == outcome(one, steps, far=False)
        assert contents(db, ("r", "o", "i", "s")) == contents(one, ("r", "o", "i", "s"))


SPREAD = """
    create table o(k bigint primary key, c int, name text not null, unique nulls not distinct (c, name))
        distributed by (name);
    create table i(k bigint references o, u bigint, primary key (u));
    create table u(a int, b text, foreign key (a, b) references o (c, name) match full)
"""


def test_keys_whose_rows_have_several_owners(db: Database) -> None:
    """The primary key is none of the column that rows are shared out by, and others refer to it."""
    rows: Rows = [(k, k % 7 if k % 7 else None, f"n{k}") for k in range(300)]
    steps: list[Step] = [
        ("o", rows), ("i", [(k % 300, k) for k in range(500)]), ("u", [(1, "n1"), (None, None), (3, "n17")]),
        ("o", [(400, 1, "x"), (299, 2, "y")]), ("o", [(401, 1, "z"), (402, 1, "z")]),
        ("o", [(403, None, "n0"), (404, 1, "q")]), ("o", [(405, 1, "n2")]), ("o", [(405, 1, "n5")]),
        ("i", [(405, 900), (300, 901), (777, 902)]), ("i", [(1, 499)]), ("i", [(405, 903)]),
        ("u", [(4, None)]), ("u", [(1, "n2"), (1, "n3")]), ("u", [(3, "n17")]),
    ]  # fmt: skip
    with kpg.connect() as one:
        for each in (db, one):
            each.sql(SPREAD)
        said = outcome(one, steps, far=False)
        assert outcome(db, steps, far=True) == said
        assert [step is None for step in said] == [
            True, True, True, False, False, False, True, False, False, False, True, False, False, True,
        ]  # fmt: skip
        assert [blocks(db, name) for name in ("o", "i", "u")] == [2, 2, 2]
        assert contents(db, ("o", "i", "u")) == contents(one, ("o", "i", "u"))


def test_keys_that_are_checked_late_and_rows_that_only_the_coordinator_has(db: Database) -> None:
    ddl = """
        create table o(k bigint primary key, above bigint references o);
        create table i(k bigint primary key, o bigint references o deferrable initially deferred)
    """
    items: Step = ("i", [(k, k % 10) for k in range(50)])
    with kpg.connect() as one:
        for each, far in ((db, True), (one, False)):
            each.sql(ddl)
            with (
                pytest.raises(kpg.IntegrityError, match=r"\(o\) = \(0\) of table i is no row"),
                each.transaction(),
            ):
                assert outcome(each, [items], far=far) == [None]
            with each.transaction():
                tree: Step = ("o", [(k, k // 2 or None) for k in range(1, 10)])
                assert outcome(each, [items, tree, "insert into o values (0, 9)"], far=far) == [None] * 3
            assert outcome(each, [("o", [(11, 10)])], far=far) != [None]
        assert blocks(db, "i") == 1
        assert contents(db, ("o", "i")) == contents(one, ("o", "i"))
        before = contents(db, ("o", "i"))
        with pytest.raises(ZeroDivisionError), db.transaction():
            assert outcome(db, [("i", [(k, 3) for k in range(60, 90)])], far=True) == [None]
            raise ZeroDivisionError
        assert contents(db, ("o", "i")) == before
