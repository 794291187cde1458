"""Results of a loop, and who reads them when the loop is there already."""

import pytest

import kpg


@pytest.mark.parametrize(("union", "more"), [("union", 5), ("union all", 15)])
def test_another_result_of_a_loop_that_is_there_already(union: str, more: int) -> None:
    """It is a map of a variable: what that is in the end is held by the other result, or on its way out."""
    text = (
        f"with mutually recursive p(x int) as (select a from t {union} select x + 1 from q where x < {more}),"
        " q(x int) as (select x * 2 from p where x > 0) select x from %s"
    )
    for first, second in (("p", "q"), ("q", "p")):
        db, other = kpg.connect(), kpg.connect()
        for one in (db, other):
            one.sql("create table t (a int)")
            one.sql("insert into t values (1), (3)")
        db.sql(f"create materialized view v as {text % first}")
        db.sql(f"create materialized view w as {text % second}")
        for change in ("insert into t values (2), (3)", "delete from t where a = 1"):
            assert sorted(db.view("w").fetchall()) == sorted(other.sql(text % second).fetchall())
            assert sorted(db.sql(text % second).fetchall()) == sorted(other.sql(text % second).fetchall())
            for one in (db, other):
                one.sql(change)
        assert sorted(db.view("v").fetchall()) == sorted(other.sql(text % first).fetchall())
        assert sorted(db.view("w").fetchall()) == sorted(other.sql(text % second).fetchall())
