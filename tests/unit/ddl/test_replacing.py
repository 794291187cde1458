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
REPLACED = "create or replace view picked as select a, b, c from base where a > 0"


@pytest.fixture
def db() -> kpg.Database:
    made = kpg.connect()
    made.sql(TABLES)
    return made


def test_views_over_a_replaced_one_follow(db: kpg.Database) -> None:
    db.sql(REPLACED)
    assert db.query("select * from kept").fetchall() == [(3, 4)]
    db.sql("insert into base values (9, 'q', 3); delete from base where a = 1")
    assert db.query("select * from kept").fetchall() == [(3, 10)]
    assert db.query("select * from starred where a = 9").fetchall() == [(9, "q")]
    assert db.query("select * from picked where a = 9").fetchall() == [(9, "q", 3)]


def test_a_replacement_that_is_rolled_back(db: kpg.Database) -> None:
    db.sql(f"begin; {REPLACED}; rollback; insert into base values (4, 'w', 1)")
    assert db.query("select * from kept").fetchall() == [(3, 5)]
    db.sql("drop view picked cascade")
    assert not db.query("select table_name from information_schema.views").fetchall()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select a from base", "cannot drop columns from view"),
        ("select a, b as bb from base", 'cannot change name of view column "b" to "bb"'),
        ("select a, a as b from base", 'cannot change data type of view column "b" from VARCHAR to INTEGER'),
        ("select d as a, b from more", 'infinite recursion detected in view "picked"'),
    ],
)
def test_what_a_view_may_not_become(db: kpg.Database, query: str, message: str) -> None:
    with pytest.raises(kpg.ProgrammingError, match=message):
        db.sql(f"create or replace view picked as {query}")
    assert db.query("select * from kept").fetchall() == [(2, 4)]


def test_a_star_that_had_fewer_columns(db: kpg.Database) -> None:
    """The text of such a view does not say any more what it is."""
    db.sql(REPLACED)
    with pytest.raises(kpg.NotSupportedError, match="while starred uses it"):
        db.sql(REPLACED)


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


def test_views_follow_a_function_that_is_replaced(db: kpg.Database) -> None:
    db.sql("""
CREATE TABLE item (a INT);
CREATE TABLE other (n INT);
INSERT INTO item VALUES (1), (2);
INSERT INTO other VALUES (100);
CREATE FUNCTION twice(n INT) RETURNS INT LANGUAGE SQL AS 'SELECT n * 2';
CREATE FUNCTION beyond(n INT) RETURNS INT LANGUAGE SQL AS 'SELECT twice(n) + 1';
CREATE VIEW plain AS SELECT a, twice(a) AS x FROM item;
CREATE MATERIALIZED VIEW called AS SELECT a, beyond(a) AS y, x FROM plain;
CREATE OR REPLACE FUNCTION twice(n INT) RETURNS INT LANGUAGE SQL
    AS 'SELECT $1 * 3 + sum(o.n)::INT FROM other o'
""")
    assert db.query("SELECT * FROM called").fetchall() == [(1, 104, 103), (2, 107, 106)]
    db.sql("INSERT INTO other VALUES (1000); DELETE FROM item WHERE a = 2")
    assert db.query("SELECT * FROM called").fetchall() == [(1, 1104, 1103)]
    with pytest.raises(kpg.ProgrammingError, match='"other" cannot be dropped: view'):
        db.sql("DROP TABLE other")
    db.sql("CREATE OR REPLACE FUNCTION twice(n INT) RETURNS INT LANGUAGE SQL AS 'SELECT 5'; DROP TABLE other")
    assert db.query("SELECT * FROM called").fetchall() == [(1, 6, 5)]
    db.sql("VERIFY VIEW called")


def test_indexes_of_materialized_views_have_names(db: kpg.Database) -> None:
    db.sql("""
CREATE MATERIALIZED VIEW counted AS SELECT c, count(*) AS n FROM base GROUP BY c;
CREATE UNIQUE INDEX ON counted (c);
CREATE INDEX by_number ON counted (n);
REFRESH MATERIALIZED VIEW CONCURRENTLY counted
""")
    named = "SELECT indexname FROM pg_indexes WHERE tablename = 'counted' ORDER BY 1"
    assert db.query(named).fetchall() == [("by_number",), ("counted_c_idx",)]
    with pytest.raises(kpg.NotSupportedError, match="over what its query does not make unique"):
        db.sql("CREATE UNIQUE INDEX ON counted (n)")
    db.sql("DROP INDEX by_number; DROP VIEW counted")
    assert db.query(named).fetchall() == []
