"""Thresholds at the largest word, and interrupts that must not fall into a commit."""

import os
import signal

import pytest

import kpg
from kpg.runtime.tables.table import Table

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("comparison", "threshold", "expected"),
    [
        (">", 3, [(5,), (LARGEST,)]),
        (">=", LARGEST, [(LARGEST,)]),
        ("<=", LARGEST, [(5,), (LARGEST,)]),
        ("<", LARGEST, [(5,)]),
        (">", LARGEST, []),
    ],
)
def test_the_largest_value_is_compared_too(
    comparison: str, threshold: int, expected: list[tuple[int]]
) -> None:
    db = kpg.connect()
    db.sql("create table t (a bigint); create table u (b bigint)")
    db.sql(f"create materialized view v as select a from t where a {comparison} (select max(b) from u)")
    assert "RangeJoin" in db.view("v").explain("physical")
    db.insert("t", [(LARGEST,), (5,)])
    db.insert("u", [(threshold,)])
    assert sorted(db.view("v").fetchall()) == expected


def test_an_interrupt_in_a_commit_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    db = kpg.connect()
    db.sql("create table t (a bigint)")
    db.sql("create materialized view v as select sum(a) as s, count(*) as n from t")
    db.insert("t", [(1,)])
    commit = Table.commit

    def interrupted(table: Table) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        commit(table)

    monkeypatch.setattr(Table, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        db.insert("t", [(2,)])
    monkeypatch.undo()
    db.verify("v")
    db.insert("t", [(3,)])
    db.verify("v")
    rows = db.sql("select sum(a), count(*) from t")
    assert isinstance(rows, kpg.Result)
    assert rows.fetchall() == db.view("v").fetchall()
