"""Views that are replaced while others use them, and plain views that are asked anew each time."""

from pathlib import Path

import pytest

import kpg

TABLES = """
create table base (a int primary key, b text, c int);
insert into base values (1, 'x', 1), (2, 'y', 1), (3, 'z', 2);
create view picked as select a, b from base where a > 1;
create view starred as select * from picked;
create view more as select a + 1 as d, b from starred;
create materialized view kept as select count(*) as n, max(d) as d from more;
"""


def test_replaced_views_are_there_again(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql(TABLES + "create view late as select 10 as ten;")
        db.sql("create or replace view picked as select a, b, ten from base, late where a > 0")
        expected = db.query("select * from kept").fetchall()
    with kpg.connect(tmp_path / "db") as db:
        assert db.query("select * from kept").fetchall() == expected == [(3, 4)]
        db.sql("insert into base values (7, 'v', 1)")
        assert db.query("select * from kept").fetchall() == [(4, 8)]
        assert db.query("select * from starred where a = 7").fetchall() == [(7, "v")]


def test_what_cannot_be_kept_is_asked_each_time(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql(
            "create table t (a int); insert into t values (1);"
            "create view timed as select a, now() as at from t;"
            "create view over_it as select max(at) as at, count(*) as n from timed"
        )
        first = db.query("select at, n from over_it").fetchall()
        db.sql("insert into t values (2)")
        second = db.query("select at, n from over_it").fetchall()
        assert [n for _, n in first + second] == [1, 2]
        assert first[0][0] < second[0][0]
        with pytest.raises(kpg.NotSupportedError, match="computed for each query"):
            db.sql("create materialized view kept as select a from timed")
    with kpg.connect(tmp_path / "db") as db:
        assert db.query("select n, at is not null from over_it").fetchall() == [(2, True)]
