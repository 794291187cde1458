"""A step that is undone: what it would change is told, and nothing is changed."""

import numpy as np
import pytest

import kpg
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.worker.dataflows import LocalInstallation
from kpg.runtime.worker.worker import Worker


@pytest.fixture
def db() -> kpg.Database:
    database = kpg.connect()
    database.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT)")
    database.sql("INSERT INTO t VALUES (1, 10), (2, 20), (3, 20)")
    return database


def parts(db: kpg.Database, query: str) -> tuple[Worker, LocalInstallation]:
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    return db._engine.executor, db._engine.views["v"].installation


def insert(worker: Worker, *rows: tuple[int, int]) -> None:
    worker.tables.by_name["t"].insert(np.array(rows, np.int64).T.copy())


LOOP = """
WITH RECURSIVE r(a, b) AS (
  SELECT a, b FROM t UNION SELECT r.a, t.b FROM r JOIN t ON r.b = t.a
) SELECT * FROM r
"""


@pytest.mark.parametrize(
    ("query", "change", "expected"),
    [
        ("SELECT b, count(*) AS n FROM t GROUP BY b", (4, 20), [(20, 2, -1), (20, 3, 1)]),
        ("SELECT DISTINCT b FROM t", (4, 20), []),
        ("SELECT DISTINCT b FROM t", (4, 30), [(30, 1)]),
        ("SELECT max(b) AS most FROM t", (4, 30), [(20, -1), (30, 1)]),
        (LOOP, (10, 3), [(1, 3, 1), (1, 20, 1), (10, 3, 1), (10, 20, 1)]),
        (LOOP, (20, 1), [(2, 1, 1), (2, 10, 1), (3, 1, 1), (3, 10, 1), (20, 1, 1), (20, 10, 1)]),
    ],
)
def test_changes_are_told_and_undone(
    db: kpg.Database, query: str, change: tuple[int, int], expected: list[tuple[int, ...]]
) -> None:
    worker, installed = parts(db, query)
    view = db.view("v")
    view.changes(snapshot=False)
    before, epoch = sorted(view), worker.epoch
    for _ in range(2):
        insert(worker, change)
        found = worker.preview(installed)
        pairs = zip(found.data.T.tolist(), found.diffs().tolist(), strict=True)
        assert sorted((*row, diff) for row, diff in pairs) == expected
        assert worker.epoch == epoch and worker.tables.by_name["t"].rows == 3
        assert sorted(view) == before and not list(view.changes())
    db.insert("t", [change])
    assert sorted((*row, diff) for row, _, diff in view.changes()) == expected
    db.delete("t", [change])
    assert sorted(view) == before


def test_an_error_is_undone_too(db: kpg.Database) -> None:
    worker, installed = parts(db, "SELECT sum(a * b) AS s FROM t")
    insert(worker, (2**62, 2**62))
    with pytest.raises(DataError):
        worker.preview(installed)
    assert list(db.view("v")) == [(110,)] and worker.tables.by_name["t"].rows == 3
    db.insert("t", [(4, 1)])
    assert list(db.view("v")) == [(114,)]


def test_rows_that_begin_with_something(db: kpg.Database) -> None:
    _, installed = parts(db, "SELECT b, a FROM t")
    data, counts = installed.rows_with_prefix((20,))
    assert data.T.tolist() == [[20, 2], [20, 3]] and counts.tolist() == [1, 1]
    db.delete("t", [(2,)])
    db.insert("t", [(n, 20) for n in range(100, 400)])
    data, _ = installed.rows_with_prefix((20,))
    assert data[1].tolist() == [3, *range(100, 400)]
    assert installed.rows_with_prefix((20, 3))[0].T.tolist() == [[20, 3]]
    assert installed.rows_with_prefix((21,))[0].shape == (2, 0)
    db.sql("DROP VIEW v")
    _, installed = parts(db, "SELECT b, count(*) AS n FROM t GROUP BY b")
    with pytest.raises(InternalError, match="not arranged"):
        installed.rows_with_prefix((20,))


def test_inputs_of_dataflows_do_not_notice(db: kpg.Database) -> None:
    worker, installed = parts(db, "SELECT DISTINCT b FROM t")
    flow = db.dataflow("flow")
    given = flow.input("given", a=int)
    heard = given.distinct().capture()
    time = given.time
    given.insert([(7,)])
    insert(worker, (4, 40))
    assert worker.preview(installed).data.tolist() == [[40]]
    assert given.time == time
    given.advance_to(time + 1)
    flow.step()
    assert [row for row, _, _ in heard] == [(7,)] and sorted(db.view("v")) == [(10,), (20,)]
