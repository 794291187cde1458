"""Keys of which one worker has more than its share: told by name, or of no weight."""

from typing import Any

import pytest

from kpg.api.database import Database
from tests.properties.test_workers import many

TABLES = """
    create table o (k int primary key, shop text, v int);
    create table c (k int primary key, shop text, place int)
"""
ROWS = """
    insert into o select i, case when i % 5 < 3 then 'amazon' else 's' || i % 2000 end, i
    from generate_series(1, 20000) s(i)
"""


def column(db: Database, name: str) -> list[Any]:
    found = db.workers()
    place = found.columns.index(name)
    return [row[place] for row in found.fetchall()]


@pytest.mark.parametrize("common", [True, False])
def test_a_heavy_key_is_named_with_its_share(common: bool) -> None:
    with many(3, common=common) as db:
        db.sql(TABLES)
        db.sql("create materialized view j as select o.k, c.place from o join c on o.shop = c.shop")
        db.sql(
            "create materialized view w as select shop, string_agg(v::text, ',') as w from o group by shop"
        )
        db.sql(ROWS)
        db.sql("insert into c select i, 's' || i, i % 7 from generate_series(1, 5000) s(i)")
        assert sorted(column(db, "rows"))[0] * 2 < max(column(db, "rows"))
        (told,) = filter(None, column(db, "heavy"))
        assert told.split("; ")[-1] == "an index of w: 'amazon' has 60% of 20000 rows"
        assert told.split("; ")[0] in (
            "o(shop): 'amazon' has 60% of 20000 rows",
            "an index of j: 'amazon' has 60% of 20000 rows",
        )
        db.sql("delete from o where shop = 'amazon' and k > 100")
        assert not any(column(db, "heavy"))


def test_keys_that_are_shared_out_and_workers_that_are_alone_have_none_that_are_heavy() -> None:
    for count in (1, 3):
        with many(count) as db:
            db.sql(TABLES + "; create materialized view j as select o.k, c.k as c from o join c on o.k = c.k")
            db.sql(ROWS)
            assert column(db, "heavy") == [""] * count


def test_heavy_groups_of_what_merges_are_added_up_where_their_rows_are() -> None:
    """Six tenths of the rows are of one group; what is sent is a few rows of each group, whoever has it."""
    with many(3) as db:
        db.sql(TABLES)
        db.sql("create materialized view s as select shop, count(*) n, sum(v) v from o group by shop")
        db.sql("insert into o select i, 's' || i % 9, 0 from generate_series(100001, 100100) s(i)")
        before = sum(column(db, "sent"))
        db.sql(ROWS.replace("i % 2000", "i % 9"))
        assert sum(column(db, "sent")) - before == 40
        assert db.query("select n from s where shop = 'amazon'").fetchall() == [(12000,)]
        assert not any(column(db, "heavy"))
        rows = column(db, "rows")
        assert max(rows) < 2 * min(rows) + 100


def test_heavy_keys_of_joins_with_tables_that_all_have_stay_with_those_who_have_the_rows() -> None:
    with many(3) as db:
        db.sql(TABLES.replace("place int)", "place int) replicated"))
        db.sql("insert into c values (1, 'amazon', 5), (2, 's3', 6)")
        db.sql("create materialized view j as select o.k, c.place from o join c on o.shop = c.shop")
        db.sql(ROWS)
        assert column(db, "sent") == [0, 0, 0]
        assert not any(column(db, "heavy"))
        assert db.query("select count(*) from j").fetchall() == [(12010,)]
        rows = column(db, "rows")
        assert max(rows) - min(rows) < 1000
