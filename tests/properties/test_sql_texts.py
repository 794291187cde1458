"""Every text gives rows or one of kpg's errors, and nothing that Postgres calls a syntax error gives rows."""

import random
from collections.abc import Iterator

import pytest

import kpg
from kpg.api.database import Database
from kpg.api.result import Rows
from tests.properties.sql_texts import SCHEMA, mutated

TEXTS = 200


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect() as database:
        for statement in SCHEMA:
            database.sql(statement)
        yield database


@pytest.mark.parametrize("seed", range(8))
def test_every_text_gives_rows_or_an_error(db: Database, seed: int) -> None:
    pick = random.Random(seed)
    for _ in range(TEXTS):
        text = mutated(pick)
        try:
            found = db.sql(text)
            if isinstance(found, Rows):
                found.fetchall()
        except kpg.InternalError:
            raise
        except kpg.Error as error:
            assert str(error), text


@pytest.mark.parametrize(
    "text",
    [
        "select a, from t",
        "select a from t order by a,",
        "select count(a,) from t",
        "insert into t values (1, 'x', 2, null),",
        "select coalesce(, 1)",
        "select (1",
        "select 1)",
        "select string_agg(b, ',' , avg(c) from t",
        "select a b c from t",
        "select 1 'x'",
        "select 1 as 'x'",
        "select 'x' 'y'",
        "select a from t limit 1 where a = 1",
        "select a from t where a = 1 where a = 2",
        "update t set a = 1 where a = 2 from u where u.a = t.a",
        "update t set",
        "select a array from t",
        "select a from t cast",
        "select distinct on (a), b from t",
        "select distinct on () a from t",
        "select case when a > 1 2 else 3 end from t",
        "select a from t where a not null",
        "select a from t natural cross join u",
        "select t.a from t join u",
        "values (1), ()",
        "values (1) (2)",
        "insert t values (1, 'x', 2, null)",
        "insert into t values (1, 'x', 2, null) rows",
        "insert into u values (1, 1, true, null) on conflict",
        "insert into u values (1, 1, true, null) on conflict (a) update set f = 1",
        "with r (x) (select 1) select * from r",
        "create table q select * from t",
        "create view v from t order by a",
        "create default materialized view v as select 1",
        "select int 3",
        "select . 5",
        "select 1_000_",
        "select 1__0",
        "select 0o18",
        "select 123abc",
        "select 0.0e",
        "select 1e",
        "else ^",
        "select coalesce()",
        "select avg(distinct) from t",
        "select a from t where (a, b) in",
        "select a in () from t",
        "create view v as select a from t where a check option",
        "create function f(a int) returns int as 'select a' language",
        "with recursive r(n) as (select 1 union all select n from r) cycle n set c using select n from r",
        "select '{}'::jsonb - '{}'::jsonb",
        "select nullif()",
    ],
)
def test_what_is_no_sql_is_refused(db: Database, text: str) -> None:
    with pytest.raises(kpg.ProgrammingError):
        db.sql(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1e5-1", [(99999.0,)]),
        ("select 1e9+1", [(1000000001.0,)]),
        ("select 0o17, 0x1F, 0b101, 1_000_000", [(15, 31, 5, 1_000_000)]),
        ("select 1.5e3, 5., .5", [(1500.0, 5, 0.5)]),
        ('select a as from, a as "all", a all from t where a = 1', [(1, 1, 1)]),
        ("select 'x'\n'y'", [("xy",)]),
        (f"select {' || '.join(['b'] * 60)} from t where a = 1", [("x" * 60,)]),
        ("select 'where', 'when', '(', 'a, from' from t where b = 'x'", [("where", "when", "(", "a, from")]),
        ("select not null is null from t where a is not null and a = 1", [(False,)]),
    ],
)
def test_what_is_sql_is_read(db: Database, text: str, expected: list[tuple[object, ...]]) -> None:
    found = db.sql(text)
    assert isinstance(found, Rows)
    assert found.fetchall() == expected
