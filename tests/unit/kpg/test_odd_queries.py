"""Queries at the edges of what planning and typing see, kept up to date, against literal answers."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from kpg.api.database import Database
from kpg.api.view import View
from kpg.runtime.errors import DataError

TABLES = "create table t (a integer, b integer); create table u (a integer)"


def rows(view: View) -> list[tuple[object, ...]]:
    return sorted(view.fetchall(), key=repr)


def created(db: Database, query: str) -> View:
    view = db.sql(f"create materialized view v as {query}")
    assert isinstance(view, View)
    return view


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select a from t where 'b' > any (select 'a' from u)", [(1,), (2,)]),
        ("select a from t where 'b' not in (select 'b' from u)", []),
        ("select a from t where (select 'b') = 'b'", [(1,), (2,)]),
        ("select a, (select 'b' from u group by u.a order by 1 limit 1) as c from t", [(1, "b"), (2, "b")]),
        ("select a from t where a in (select u.a + t.b from u)", [(2,)]),
        ("select a from t where a not in (select u.a + t.b from u group by u.a)", [(1,)]),
        (
            "select a from t where exists (select t.a from (select min(a) as m from u) x"
            " where not exists (select 1 from t y where y.a > 5))",
            [(1,), (2,)],
        ),
    ],
)
def test_answer(db: Database, query: str, expected: list[tuple[object, ...]]) -> None:
    db.sql(TABLES)
    view = created(db, query)
    db.sql("insert into t values (1, 1), (2, 1), (3, 0); insert into u values (1); delete from t where b = 0")
    assert rows(view) == expected
    db.verify("v")


@pytest.mark.parametrize(
    "query",
    [
        "select 5 as c, -2 as d from t",
        "(select bool_or(true) as c from t) union all (select true from t)",
        "with w as (select a as c from t) select c as d from w",
        "((select a from t))",
        "values (1, 2)",
    ],
)
def test_a_view_knows_its_text(db: Database, query: str) -> None:
    db.sql(TABLES)
    assert created(db, query).sql == query
    db.verify("v")


def test_blanks_at_the_end_of_char_do_not_count_wherever_they_come_from(db: Database, tmp_path: Path) -> None:
    db.sql("CREATE TABLE c (k INT, c CHAR(5), v VARCHAR(5)); INSERT INTO c VALUES (1, 'a ', 'a ')")
    db.sql("INSERT INTO c SELECT 2, v, v FROM c")
    db.insert("c", [(3, "a ", "a ")])
    pyarrow.parquet.write_table(pyarrow.table({"k": [4], "c": ["a "], "v": ["a "]}), tmp_path / "c.parquet")
    (tmp_path / "c.csv").write_text("k,c,v\n5,a ,a \n", encoding="utf-8")
    for file in ("c.parquet", "c.csv"):
        db.load("c", tmp_path / file, mode="arrow")
    found = db.query("SELECT c, length(c), c = v, c = 'a', c = CAST('a ' AS CHAR(5)), c || '.' FROM c")
    assert found.fetchall() == [("a    ", 1, True, True, True, "a.")] * 5
    query = "SELECT CAST('a ' AS CHAR(5)) = CAST('a' AS CHAR(5)), CAST('a  ' AS CHAR(2)), CAST('ab' AS CHAR)"
    assert db.query(query).fetchall() == [(True, "a ", "a")]


def test_a_row_that_is_gone_raises_nothing(db: Database) -> None:
    db.sql(TABLES)
    kept = created(db, "select t.a, t.b from t join u on t.a = u.a")
    quotient = db.sql("create materialized view w as select t.a, 6 / t.b as q from t join u on t.a = u.a")
    db.sql("insert into t values (1, 0), (1, 3); delete from t where b = 0; insert into u values (1)")
    assert isinstance(quotient, View)
    assert rows(quotient) == [(1, 2)]
    with pytest.raises(DataError, match="division by zero"):
        db.sql("insert into t values (1, 0)")
    db.sql("drop view w; insert into t values (1, 0); delete from t where b = 0")
    assert rows(kept) == [(1, 3)]
    late = db.sql("create materialized view w as select a, 6 / b as q from v")
    joined = db.sql("create materialized view x as select u.a + 6 / t.b as q from t join u on t.a = u.a")
    assert isinstance(late, View) and isinstance(joined, View)
    assert (rows(late), rows(joined)) == ([(1, 2)], [(3,)])
