"""Scripts: all of a text is read before its first statement runs."""

import pytest

import kpg
from kpg.runtime.errors import Error


def test_nothing_of_a_script_runs_if_it_cannot_be_read() -> None:
    db = kpg.connect()
    db.sql("create table t (a int)")
    with pytest.raises(Error, match="syntax error"):
        db.sql("insert into t values (1); insert into t values (2;")
    with pytest.raises(Error, match="no parameter for placeholder 2"):
        db.sql("insert into t values ($1); insert into t values ($2)", [1])
    assert db.query("select * from t").fetchall() == []


def test_a_script_stops_at_its_first_error() -> None:
    db = kpg.connect()
    db.sql("create table t (a int primary key)")
    with pytest.raises(Error, match="key"):
        db.sql("insert into t values (1); insert into t values (1); insert into t values (2)")
    assert db.query("select * from t").fetchall() == [(1,)]
    outcomes = db.script("insert into t values (5); insert into t values (1);")
    assert next(outcomes).affected == 1
    with pytest.raises(Error, match="key"):
        next(outcomes)
    assert db.query("select * from t").fetchall() == [(1,), (5,)]
