"""Linear operators whose columns wait until rows are read: the work of a step, and what is left behind."""

from decimal import Decimal

import kpg
from kpg.runtime.operators.linear import Linear
from kpg.runtime.worker.worker import Worker

VIEW = "SELECT k, avg(a) AS m, 100.0 * sum(a) / sum(b) AS share FROM t GROUP BY k"


def database() -> tuple[kpg.Database, Worker]:
    db = kpg.connect()
    db.sql("CREATE TABLE t (k INTEGER, a NUMERIC(8, 2), b NUMERIC(8, 2))")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
    return db, db._engine.executor  # type: ignore[return-value]


def insert(db: kpg.Database, steps: int) -> None:
    for number in range(steps):
        db.insert("t", [(number % 3, Decimal(number) / 4, Decimal(1))])


def test_steps_leave_no_strings_behind() -> None:
    db, worker = database()
    insert(db, 40)  # small steps come to run in a chain
    before = len(worker.dictionary)
    insert(db, 200)
    assert len(worker.dictionary) == before
    assert db.view("v").fetchone() == (
        0,
        Decimal("21.3148148148148148"),
        Decimal("2131.4814814814814815"),
    )


def test_what_is_heard_is_computed() -> None:
    db, worker = database()
    late = worker.views["v"].output
    assert isinstance(late, Linear) and late.lazy is not None and late.lazy.guard is not None
    insert(db, 20)
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT k FROM v WHERE m > 1")
    before = len(worker.dictionary)
    insert(db, 20)
    assert len(worker.dictionary) > before
    assert db.sql("SELECT * FROM w ORDER BY k").fetchall() == [(0,), (1,), (2,)]


def test_a_view_that_never_fails_does_nothing() -> None:
    db, worker = database()
    db.sql("CREATE MATERIALIZED VIEW u AS SELECT k, avg(b) AS m FROM t GROUP BY k")
    late = worker.views["u"].output
    assert isinstance(late, Linear) and late.is_idle
    insert(db, 20)
    assert late.counters.updates_in == 0
    assert db.sql("SELECT * FROM u WHERE k = 1").fetchall() == [(1, Decimal("1.00000000000000000000"))]


def test_changes_that_cancel_are_not_told() -> None:
    db, _ = database()
    db.sql("CREATE MATERIALIZED VIEW u AS SELECT k, avg(b) AS m FROM t GROUP BY k")
    told: list[object] = []
    db.view("u").subscribe(told.append)
    insert(db, 3)
    db.sql("INSERT INTO t VALUES (0, 7, 1)")  # the sum and the count change, the mean does not
    assert [len(changes) for changes in told] == [1, 1, 1]  # type: ignore[arg-type]


def test_explain_says_when_columns_are_computed() -> None:
    db, _ = database()
    query = "EXPLAIN physical SELECT k, avg(b) AS m FROM t GROUP BY k"
    assert "%3 Linear %2  -- when rows are read" in [row[0] for row in db.sql(query).fetchall()]
    lines = [row[0] for row in db.sql(f"EXPLAIN physical {VIEW}").fetchall()]
    assert "%3 Linear %2  -- O(change) to tell errors, computed when rows are read" in lines


def test_rows_are_chosen_before_what_is_dear_is_made() -> None:
    db, worker = database()
    insert(db, 40)
    asked = "SELECT m FROM v WHERE k = ?"
    for _ in range(4):
        assert db.sql(asked, [1]).fetchall() == [(Decimal("4.75"),)]
    insert(db, 10)
    before = len(worker.dictionary)
    assert db.sql(asked, [2]).fetchall() == [(Decimal("4.296875"),)]
    assert len(worker.dictionary) == before + 2  # of one group, and not of three
    assert db.sql(asked, [7]).fetchall() == []
    assert db.sql("SELECT k FROM v WHERE m = 4.296875 AND k = 2").fetchall() == [(2,)]
