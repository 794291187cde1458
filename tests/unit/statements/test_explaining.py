"""EXPLAIN of every statement that has a plan, and what its options change."""

import json
import re
from typing import Any

import pytest

import kpg


@pytest.fixture
def db() -> Any:
    with kpg.connect() as one:
        one.sql("create table t (a int primary key, b text); insert into t values (1, 'x'), (2, 'y')")
        one.sql("create materialized view v as select b, count(*) as n from t group by b")
        yield one


def tree(db: kpg.Database, text: str) -> Any:
    ((found,),) = db.query(f"explain (format json) {text}").fetchall()
    (one,) = json.loads(found) if isinstance(found, str) else found
    return one


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("insert into t select a + 10, b from t", "Insert"),
        ("update t set b = 'z' where a = 1", "Update"),
        ("delete from t where a = 1", "Delete"),
        ("merge into t using (select 1 as a) s on s.a = t.a when matched then delete", "Merge"),
    ],
)
def test_changes_are_above_the_rows_that_they_are_of(db: kpg.Database, text: str, operation: str) -> None:
    plan = tree(db, text)["Plan"]
    assert (plan["Node Type"], plan["Operation"], plan["Relation Name"]) == ("ModifyTable", operation, "t")
    assert plan["Plans"][0]["Parent Relationship"] == "Outer"
    assert db.query("select count(*) from t").fetchall() == [(2,)]


@pytest.mark.parametrize(
    "text",
    [
        "create table u as select b from t where a > 1",
        "declare c cursor for select b from t where a > 1",
        "create materialized view w as select b from t where a > 1",
    ],
)
def test_what_holds_a_query_has_its_plan(db: kpg.Database, text: str) -> None:
    found = tree(db, text)["Plan"]
    while "Filter" not in found:
        (found,) = found["Plans"]
    assert (found["Node Type"], found["Filter"]) == ("Linear", "#0.a > 1")
    assert {"u", "w"}.isdisjoint(db.names())


def test_views_and_other_stages(db: kpg.Database) -> None:
    of_view = tree(db, "view v")
    assert of_view == tree(db, "refresh materialized view v")
    assert of_view["Plan"]["Detail"] == "by 1: count(*)"
    assert tree(db, "logical select a from t") == {"Stage": "logical", "Text": "Project [0]\n  Get t"}
    assert tree(db, "arrangements select a from t") == {
        "Stage": "arrangements",
        "Text": "the result: of this query",
    }


def test_a_with_that_changes_tables_is_a_plan_for_each_part(db: kpg.Database) -> None:
    text = "with w as (insert into t values (9, 'z') returning a) select a from w"
    main, part = tree(db, text)["Plan"]["Plans"]
    assert (main["Node Type"], part["Subplan Name"], part["Operation"]) == ("Linear", "CTE w", "Insert")
    lines = [row[0] for row in db.query(f"explain {text}").fetchall()]
    assert lines[:2] == ["CTE w", "INSERT t of the rows of"]
    assert db.query("select count(*) from t").fetchall() == [(2,)]


def test_options(db: kpg.Database) -> None:
    def lines(text: str) -> list[str]:
        shown = [str(row[0]) for row in db.query(text).fetchall()]
        return [re.sub(r"\d+\.\d+ ms", "1 ms", one) for one in shown]

    plain = lines("explain select a from t")
    assert (
        lines("explain (verbose, buffers off, settings, costs on, timing off, wal 0) select a from t")
        == plain
    )
    assert lines("explain (costs false) select a from t") == [one.partition("  -- ")[0] for one in plain]
    assert lines("explain (summary) select a from t") == [*plain, "Planning Time: 1 ms"]
    ran = [*plain, "Actual Rows: 2", "Planning Time: 1 ms", "Execution Time: 1 ms"]
    assert lines("explain analyze verbose select a from t") == ran
    assert lines("explain (analyze, summary off) select a from t") == [*plain, "Actual Rows: 2"]
    assert lines("explain (analyze on, analyze off) select a from t") == plain
    assert lines("explain (select a from t)") == plain


def test_analyze_changes_what_the_statement_changes(db: kpg.Database) -> None:
    ((found,),) = db.query("explain (analyze, format json) delete from t where a = 1").fetchall()
    (one,) = json.loads(found)
    assert one["Plan"]["Actual Rows"] == 1 and one["Execution Time"] >= one["Plan"]["Actual Total Time"] - 1
    assert db.query("select a from t").fetchall() == [(2,)]


def test_a_plan_of_any_values(db: kpg.Database) -> None:
    rows = db.query("explain (generic_plan, costs off) select b from t where a = $1 or b = $2").fetchall()
    assert rows[2] == ("    (#0.b) where ((#0.a = $1) OR (#0.b = $2))",)
    with pytest.raises(kpg.ProgrammingError, match="LIMIT needs a whole number"):
        db.query("explain (generic_plan) select b from t order by a limit $1")


@pytest.mark.parametrize("text", ["explain vacuum", "explain set a = 1", "explain commit"])
def test_what_has_no_plan(db: kpg.Database, text: str) -> None:
    with pytest.raises(kpg.NotSupportedError, match="EXPLAIN of anything but a query or a change"):
        db.sql(text)
