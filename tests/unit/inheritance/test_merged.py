"""MERGE into tables with partitions."""

from collections.abc import Iterator

import pytest

import kpg

PARTS = """
create table p (a int primary key, o text, n int) partition by range (a);
create table high (n int, a int not null, o text);
create table low partition of p for values from (0) to (5);
alter table p attach partition high for values from (5) to (50);
insert into p values (1, 'x', 2), (7, 'y', 3);
"""


@pytest.fixture
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as opened:
        opened.sql(PARTS)
        yield opened


def rows(db: kpg.Database, text: str) -> list[tuple[object, ...]]:
    found = db.sql(text)
    assert found is not None
    return sorted(found.fetchall())


def test_rows_of_partitions_are_met_change_move_and_go(db: kpg.Database) -> None:
    db.sql("create materialized view v as select count(*) as n, sum(a) as s from p")
    db.sql(
        "merge into p using (values (1, 'q'), (7, 'r'), (9, 's'), (3, 't')) x (a, o) on p.a = x.a"
        " when matched and x.a = 1 then update set a = 20, o = x.o when matched then delete"
        " when not matched then insert (a, o) values (x.a, x.o)"
    )
    found = rows(db, "select a, o, n, tableoid::regclass::text from p")
    assert found == [(3, "t", None, "low"), (9, "s", None, "high"), (20, "q", 2, "high")]
    assert rows(db, "select * from v") == [(3, 32)]


def test_what_one_partition_has_is_no_news_for_another(db: kpg.Database) -> None:
    db.sql(
        "merge into p using (values (1), (7)) x (a) on p.a = x.a"
        " when matched then do nothing when not matched then insert values (30, 'new', 0)"
    )
    assert rows(db, "select a from p") == [(1,), (7,)]
    with pytest.raises(kpg.IntegrityError, match="no partition of relation"):
        db.sql(
            "merge into p using (values (70)) x (a) on p.a = x.a when not matched then insert values (x.a)"
        )
