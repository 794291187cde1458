"""INSERT, DELETE, UPDATE and views as relations, against DuckDB."""

import pytest

from kpg.compiler.catalog.entries import ViewEntry
from kpg.compiler.sql.frontend import lower_relation, lower_view
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import CreateView, Delete, Insert, Update
from kpg.compiler.sql.rewrite.changes import lower_delete, lower_insert, lower_update
from kpg.runtime.types import ColumnDef, Schema
from tests.unit.compiler.sql.oracle import Data, assert_same, catalog_of, check, database_of, model_rows

TABLES = "create table t (k integer, s varchar(5), p decimal(8, 2), d date); create table u (a integer)"
DATA: Data = {
    "t": [(1, "one", None, None), (2, None, None, None), (3, "three", None, None)],
    "u": [(2,), (3,), (3,), (None,)],
}


@pytest.mark.parametrize(
    "text",
    [
        "insert into t values (4, 'x', 1, '1994-01-01'), (5, null, 2.5, date '1995-01-01')",
        "insert into t (s, k) values ('x', 4), (null, 5)",
        "insert into t (k, p) select a + 1, a from u",
        "insert into t (k, p) values (4, '2.50'), ('5', 1), (6.0, 0.125), (7, -0.125), (null, 2.5 * 2)",
        "insert into t (k, d) values (4, '1994-01-01'), (5, timestamp '1995-01-01 00:00:00'), (6, null)",
        "insert into t (k, p) values (1 + 1, (select max(a) from u))",
        "update t set k = k + 10, s = 'new' where s is null",
        "update t set p = (select count(*) from u where a = k), d = '1994-01-01'",
        "update t as x set k = 0 where exists (select * from u where a = x.k)",
        "update t set p = '2.50', d = '1994-01-01', k = '7' where k = 1",
        "update t set p = u.a from u where u.a = t.k",
        "update t as x set s = v.n from (select a, count(*)::text as n from u group by a) v where v.a = x.k",
        "update t set k = v.k + o.a from t v, u o left join u w on o.a = w.a where v.k = t.k and o.a = 2",
        "delete from t using u where u.a = t.k",
        "delete from t using u, t as o where u.a = o.k and o.k = t.k + 1",
        "delete from t using u left join t o on o.k = u.a where u.a is null and t.k > 1",
        "delete from t",
        "delete from t where k in (select a from u)",
        "delete from t x where x.k > (select min(a) from u) or s is null",
    ],
)
def test_change(text: str) -> None:
    catalog = catalog_of(TABLES)
    (statement,) = parse(text)
    rows = list(DATA["t"])
    match statement:
        case Insert():
            rows += model_rows(lower_insert(statement, catalog), DATA)
        case Delete():
            gone = {rowid for (rowid,) in model_rows(lower_delete(statement, catalog), DATA)}
            rows = [row for rowid, row in enumerate(rows) if rowid not in gone]
        case Update():
            new = {row[0]: row[1:] for row in model_rows(lower_update(statement, catalog), DATA)}
            rows = [new.get(rowid, row) for rowid, row in enumerate(rows)]
        case _:
            raise AssertionError(statement)
    with database_of(TABLES, DATA) as database:
        database.execute(text)
        assert_same(rows, database.execute("select * from t").fetchall())


VIEWS = (
    "create view v as select a, count(*) as n, (select max(s) from t where k = a) as s from u group by a",
    "create view w (x, y) as select n, s from v where not exists (select * from v o where o.n > v.n)",
)


@pytest.mark.parametrize(
    "query",
    [
        "select * from v",
        "select * from w",
        "select * from v, w, v z where v.n = w.x and z.a = v.a",
        "select * from v left join w on v.s = w.y and v.a in (select x from w)",
    ],
)
def test_views_are_expanded(query: str) -> None:
    catalog = catalog_of(TABLES)
    for text in VIEWS:
        (statement,) = parse(text)
        assert isinstance(statement, CreateView)
        bound = lower_view(statement, catalog)
        schema = Schema(tuple(map(ColumnDef, bound.names, bound.types, bound.nullable)))
        catalog.add(ViewEntry(statement.name, schema, bound.rel, statement.query.text))
    with database_of("; ".join((TABLES, *VIEWS)), DATA) as database:
        check(query, catalog, DATA, database)


def test_all_of_a_relation() -> None:
    bound = lower_relation("U", catalog_of(TABLES))
    assert bound.names == ("a",)
    assert_same(model_rows(bound, DATA), DATA["u"])
