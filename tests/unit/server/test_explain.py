"""EXPLAIN as clients ask for it: one row, its type told before it runs, and run once."""

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import psycopg
import pytest
import yaml

from tests.unit.server.conftest import Running, serving
from tests.unit.server.programs import psql
from tests.unit.server.test_asyncpg import with_asyncpg

NAMESPACE = "{http://www.postgresql.org/2009/explain}"


@pytest.fixture(scope="module")
def made() -> Iterator[Running]:
    with serving() as one:
        one.db.sql("create table t (a int primary key, b text); insert into t values (1, 'x'), (2, 'y')")
        yield one


def test_psql_heads_it_as_postgres_does(made: Running) -> None:
    shown = psql(made, "-P", "tuples_only=off", "-c", "explain (costs off) select a from t where a > 1")
    assert shown.splitlines()[:3] == ["QUERY PLAN", "%0 Source t", "%1 Linear %0"]
    one = psql(made, "-c", "explain (format json) select a from t")
    assert json.loads(one)[0]["Plan"]["Node Type"] == "Arrange"


def test_all_formats_are_one_row_of_one_tree(made: Running) -> None:
    query = "select b, count(*) from t where a > 0 and b <> '<&\"' group by b"
    with psycopg.connect(made.dsn, autocommit=True) as client:
        cursor = client.execute(f"explain (format json) {query}")
        assert [(one.name, one.type_code) for one in cursor.description or ()] == [("QUERY PLAN", 114)]
        ((tree,),) = cursor.fetchall()
        ((text,),) = client.execute(f"explain (format yaml) {query}").fetchall()
        ((document,),) = client.execute(f"explain (format xml) {query}").fetchall()
    assert yaml.safe_load(text) == tree
    assert ElementTree.fromstring(document).tag == f"{NAMESPACE}explain"
    plan = ElementTree.fromstring(document).find(f"{NAMESPACE}Query/{NAMESPACE}Plan")
    assert plan is not None and read(plan) == tree[0]["Plan"]


def read(element: ElementTree.Element) -> Any:
    """An element of the document as the object that it is in JSON."""
    below = list(element)
    if not below:
        return element.text
    if below[0].tag in (f"{NAMESPACE}Item", f"{NAMESPACE}Plan"):
        return [read(one) for one in below]
    return {one.tag.removeprefix(NAMESPACE).replace("-", " "): read(one) for one in below}


@pytest.mark.parametrize("prepare", [False, True])
def test_analyze_runs_a_change_once_however_it_is_asked(made: Running, prepare: bool) -> None:
    made.db.sql("create table once (a int)")
    text = "explain (analyze, format json) insert into once values (1)"
    with psycopg.connect(made.dsn, autocommit=True) as client:
        ((tree,),) = client.execute(text, prepare=prepare).fetchall()
        assert tree[0]["Plan"]["Actual Rows"] == 1

    async def work(one: Any) -> Any:
        return await one.fetchval(text)

    assert json.loads(with_asyncpg(made, work))[0]["Plan"]["Operation"] == "Insert"
    assert made.db.query("select count(*) from once").fetchall() == [(2,)]
    made.db.sql("drop table once")


def test_prepared_statements_and_parameters(made: Running) -> None:
    with psycopg.connect(made.dsn, autocommit=True) as client:
        client.execute("prepare p (int) as select b from t where a = $1")
        ((tree,),) = client.execute("explain (format json) execute p(7)").fetchall()
        assert filters(tree[0]["Plan"]) == ["#0.a = 7"]
        rows = client.execute("explain select b from t where a = %s", [3]).fetchall()
        assert any("a = 3" in one for (one,) in rows)
        generic = "explain (generic_plan, format json) select b from t where a = $1 and b like $2"
        ((tree,),) = psycopg.ClientCursor(client).execute(generic).fetchall()
        assert filters(tree[0]["Plan"]) == ["#0.a = $1 and #0.b LIKE $2"]


def filters(plan: dict[str, Any]) -> list[str]:
    """The conditions of a plan's nodes, from above."""
    own = [plan["Filter"]] if "Filter" in plan else []
    return own + [one for below in plan.get("Plans", ()) for one in filters(below)]


@pytest.mark.parametrize(
    ("options", "state", "message"),
    [
        ("(foo)", "42601", 'unrecognized EXPLAIN option "foo"'),
        ("(format bar)", "22023", 'unrecognized value for EXPLAIN option "format": "bar"'),
        ("(timing)", "22023", "EXPLAIN option TIMING requires ANALYZE"),
        ("(wal on, analyze off)", "22023", "EXPLAIN option WAL requires ANALYZE"),
        ("(buffers maybe)", "42601", "buffers requires a Boolean value"),
        (
            "(generic_plan, analyze)",
            "22023",
            "EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together",
        ),
    ],
)
def test_wrong_options_are_told_in_postgres_words(
    made: Running, options: str, state: str, message: str
) -> None:
    with psycopg.connect(made.dsn, autocommit=True) as client:
        with pytest.raises(psycopg.Error) as caught:
            client.execute(f"explain {options} select 1".encode())
        assert (caught.value.sqlstate, caught.value.diag.message_primary) == (state, message)


def test_columns_are_described_before_execute_and_fetch_run(made: Running) -> None:
    with psycopg.connect(made.dsn) as client:
        client.execute("prepare q (int) as select b from t where a = $1")
        client.execute("declare c scroll cursor for select a from t order by a")
        for text, expected in (
            ("execute q(2)", [("y",)]),
            ("fetch absolute 2 from c", [(2,)]),
            ("fetch backward 1 from c", [(1,)]),
            ("fetch 1 from c", [(2,)]),
        ):
            assert client.execute(text, prepare=True).fetchall() == expected
        (first, *_) = client.execute("explain (costs off) execute q(2)", prepare=True).fetchall()
        assert first == ("%0 Source t",)
