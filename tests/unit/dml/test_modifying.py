"""WITH queries that change the same rows: of a row the first part of the statement counts."""

import pytest

import kpg

FIRST = [
    ("with x as (update r set a = 7), y as (update r set a = 8) select 1", [(1,)], [(1, 7), (2, 7)]),
    (
        "with x as (update r set a = 7 where id = 1 returning *), y as (update r set a = 8 returning *) "
        "select * from x union all select * from y",
        [(1, 7), (2, 8)],
        [(1, 7), (2, 8)],
    ),
    (
        "with x as (update r set a = 7 where id = 1 returning *), y as (delete from r returning *) "
        "select * from x union all select * from y",
        [(1, 7), (2, 2)],
        [(1, 7)],
    ),
    (
        "with x as (delete from r where id = 1 returning *), y as (update r set a = 9 returning *) "
        "select * from x union all select * from y",
        [(1, 1), (2, 9)],
        [(2, 9)],
    ),
    ("with x as (delete from r), y as (delete from r) select 1", [(1,)], []),
    (
        "with x as (delete from r returning *), y as (delete from r returning *) "
        "select (select count(*) from x), (select count(*) from y)",
        [(2, 0)],
        [],
    ),
    (
        "with x as (update r set a = 7 returning *) update r set a = r.a + x.a from x where r.id = x.id "
        "returning r.*",
        [],
        [(1, 7), (2, 7)],
    ),
]
"""Statements with what Postgres 16 gives and leaves."""


@pytest.mark.parametrize(("text", "given", "left"), FIRST)
def test_the_first_part_counts(text: str, given: list[object], left: list[object]) -> None:
    with kpg.connect() as db:
        db.sql("create table r (id int primary key, a int); insert into r values (1, 1), (2, 2)")
        db.sql("create materialized view m as select a, count(*) as n from r group by a")
        result = db.sql(text)
        assert isinstance(result, kpg.Result)
        assert sorted(result.fetchall()) == given
        assert sorted(db.query("table r").fetchall()) == left
        db.verify("m")


@pytest.mark.parametrize(
    "last",
    [
        "insert into r values (1, 2) on conflict (id) do update set a = 99",
        "merge into r using (values (1)) s (i) on r.id = s.i when matched then update set a = 99",
    ],
)
def test_insert_and_merge_do_not_change_a_row_again(last: str) -> None:
    with kpg.connect() as db:
        db.sql("create table r (id int primary key, a int); insert into r values (1, 1)")
        with pytest.raises(kpg.DataError, match="already changed by another part of the statement"):
            db.sql(f"with x as (update r set a = 7 returning *) {last}")
        assert db.query("table r").fetchall() == [(1, 1)]
