"""Counters that a chain brings up to date late are of the step that it ran in, not of one in progress."""

import pytest

import kpg


def test_a_view_that_comes_after_a_step_that_failed_takes_nothing_from_the_next_one() -> None:
    database = kpg.connect()
    database.sql("create table t (id int, a int)")
    database.sql("create materialized view n as select a, count(*) n from t group by a")
    database.sql("create materialized view q as select id, 10 / a q from t")
    for number in range(4):
        database.insert("t", [(number, 1)])
    with pytest.raises(kpg.DataError):
        database.insert("t", [(4, 0)])
    database.sql("create materialized view m as select max(a) m from t")
    database.insert("t", [(5, 1)])
    assert database.view("n").fetchall() == [(1, 5)]
    assert len(database.view("q")) == 5
