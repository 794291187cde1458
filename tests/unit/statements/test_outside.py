"""Files and frames as tables, as DuckDB's users write them: the same answers as DuckDB's."""

import gzip
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import kpg
from kpg.api.database import Database

module_frame = pyarrow.table({"g": [7, 8]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of each kind, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    orders = pyarrow.table({"id": [1, 2, 3], "item": ["tea", None, "pot"], "price": [2.5, 4.0, 12.75]})
    pyarrow.parquet.write_table(orders, "orders.parquet")
    Path("days").mkdir()
    for number in (1, 2):
        pyarrow.parquet.write_table(pyarrow.table({"n": [number]}), f"days/{number}.parquet")
    Path("items.csv").write_text("item,since,n\ntea,1998-12-01,1\npot,,2\n")
    Path("plain.csv").write_text("1|x\n2|y\n")
    with gzip.open("more.csv.gz", "wt") as file:
        file.write("a;b\n1;true\n2;false\n")
    return tmp_path


@pytest.fixture
def db() -> Database:
    return kpg.connect()


QUERIES = [
    "select * from 'orders.parquet'",
    "from 'orders.parquet' select item, price where id > 1",
    "select count(*) as n, sum(orders.price) as price from 'orders.parquet'",
    "select o.id, i.since from 'orders.parquet' o join 'items.csv' i using (item)",
    "select * from read_parquet('days/*.parquet') order by n",
    "select n + 1 as m from read_parquet(['days/1.parquet', 'days/2.parquet']) as d",
    "select * from 'items.csv'",
    "select column0, column1 from 'plain.csv'",
    "select a from 'more.csv.gz' where b",
    "select * from read_csv('plain.csv', delim = '|', header = false, names = ['a', 'b'])",
    "select n, m from read_csv('plain.csv', sep = '|', columns = {'n': 'INTEGER', 'm': 'VARCHAR'})",
    "select since is null as old from read_csv_auto('items.csv', skip = 0)",
    "select item from read_csv('items.csv', nullstr = 'tea', all_varchar = true)",
    "with o as (select id from 'orders.parquet') select * from o where id in (select n from 'items.csv')",
]


@pytest.mark.parametrize("query", QUERIES)
def test_files_are_tables(folder: Path, db: Database, query: str) -> None:
    found = db.query(query)
    expected = duckdb.sql(query)
    assert sorted(found.fetchall(), key=str) == sorted(expected.fetchall(), key=str)
    assert list(found.columns) == expected.columns
    assert "as of epoch" in db.explain(query)
    assert db.tables().fetchall() == []


def test_what_is_made_of_files_stays(folder: Path, db: Database) -> None:
    db.sql("create table o as from 'orders.parquet'")
    db.sql("create table p as select item from 'items.csv'")
    db.sql("insert into p from 'items.csv' select item || '!'")
    db.sql("update o set price = i.n from 'items.csv' i where i.item = o.item")
    assert db.query("select id, price from o order by id").fetchall() == [(1, 1.0), (2, 4.0), (3, 2.0)]
    assert db.query("select count(*) from p").fetchall() == [(4,)]
    assert db.tables().fetchall() == [("o", 3), ("p", 4)]


def test_a_view_keeps_the_rows_that_it_was_made_of(folder: Path, db: Database) -> None:
    db.sql("create table sold (item text, n int)")
    joined = "select item, i.n * s.n as n from sold s join 'items.csv' i using (item)"
    db.sql(f"create materialized view v as {joined}")
    db.sql("create view w as select * from 'plain.csv'")
    Path("items.csv").write_text("item,n\ntea,100\n")
    db.sql("insert into sold values ('tea', 5), ('pot', 5), ('cup', 1)")
    assert sorted(db.view("v")) == [("pot", 10), ("tea", 5)]
    db.sql("delete from sold where item = 'tea'")
    assert list(db.view("v")) == [("pot", 10)]
    assert db.query("verify view v").fetchall() == [("v", 1)]
    assert "items.csv, as of epoch" in db.view("v").explain()
    assert db.query("select * from w").fetchall() == [(1, "x"), (2, "y")]
    db.sql("drop view v")
    db.sql("drop view w")
    assert [name for name, *_ in db.query("show tables").fetchall()] == ["sold"]


def test_in_a_transaction(folder: Path, db: Database) -> None:
    db.sql("create table t (n bigint)")
    with db.transaction():
        db.sql("insert into t select id from 'orders.parquet'")
        assert db.query("select count(*) from t join 'orders.parquet' o on o.id = t.n").fetchall() == [(3,)]
    assert db.query("select count(*) from t").fetchall() == [(3,)]
    with pytest.raises(kpg.Error), db.transaction():
        db.sql("delete from t")
        db.sql("select * from 'missing.parquet'")
    assert db.query("select count(*) from t").fetchall() == [(3,)]
    assert [name for name, *_ in db.query("show tables").fetchall()] == ["t"]


def test_frames_of_the_caller(db: Database) -> None:
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
    other = polars.DataFrame({"a": [2, 3], "c": [0.5, 1.5]})
    number = 5
    assert db.query("select * from frame").fetchall() == [(1, "x"), (2, None)]
    assert db.query("select f.b, other.c from frame f join other using (a)").fetchall() == [(None, 0.5)]
    assert db.query("select sum(g) from module_frame").fetchall() == [(15,)]
    with pytest.raises(kpg.errors.ProgrammingError, match='relation "number" does not exist'):
        db.query(f"select * from number where a = {number} and {len(other)} = {len(frame)}")
    db.sql("create table frame (z int)")
    assert db.query("select * from frame").fetchall() == []


def test_create_table_of_anything_with_columns(folder: Path, db: Database) -> None:
    assert db.create_table("orders", "orders.parquet", primary_key=["id"]) == 3
    assert db.create_table("items", Path("items.csv"), "item") == 2
    assert db.create_table("frame", pandas.DataFrame({"x": [1.5, None]})) == 2
    assert db.create_table("d", {"a": [1, None], "b": ["u", "v"]}) == 2
    assert db.create_table("l", [{"a": True}, {"a": False}]) == 2
    assert db.query("describe orders").fetchall() == [
        ("id", "BIGINT", False, True),
        ("item", "VARCHAR", True, False),
        ("price", "DOUBLE", True, False),
    ]
    db.insert("orders", [(4, "cup", 1.0)])
    with pytest.raises(kpg.errors.IntegrityError):
        db.insert("orders", [(4, "cup", 1.0)])
    assert db.query("select * from d order by b").fetchall() == [(1, "u"), (None, "v")]


def test_create_table_is_all_or_nothing(folder: Path, db: Database) -> None:
    with pytest.raises(kpg.errors.IntegrityError):
        db.create_table("t", {"a": [1, 1]}, primary_key="a")
    with pytest.raises(kpg.errors.ProgrammingError, match='primary key column "b" does not exist'):
        db.create_table("t", {"a": [1, 1]}, primary_key=["b"])
    with pytest.raises(kpg.errors.InterfaceError, match="the columns of a list cannot be told"):
        db.create_table("t", [(1, 2)])
    with pytest.raises(kpg.errors.OperationalError, match=r"no file nowhere\.csv"):
        db.create_table("t", "nowhere.csv")
    assert db.tables().fetchall() == []


def test_types_are_told_by_all_rows_where_a_sample_misleads(folder: Path, db: Database) -> None:
    Path("long.csv").write_text("n,m\n" + "1,2\n" * 30_000 + "x,2.5\n")
    assert db.create_table("t", "long.csv") == 30_001
    assert db.query("select count(*) from 'long.csv' where n = 'x' and m > 2").fetchall() == [(1,)]
    assert db.query("describe t").fetchall() == [("n", "VARCHAR", True, False), ("m", "DOUBLE", True, False)]
    with pytest.raises(kpg.errors.DataError, match="row 30001, column n: value 'x' is not a BIGINT"):
        db.query("select * from read_csv('long.csv', types = {'n': 'BIGINT'})")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from 'none.csv'", "no file none.csv"),
        ("select * from 'uneven.csv'", "uneven.csv, line 3: 1 column instead of 2: 2"),
        ("select * from read_csv('plain.csv', colour = 3)", "read_csv does not take colour = 3"),
        ("select * from read_csv('plain.csv', colour = -1.5)", "read_csv does not take colour = -1.5"),
        ("select * from read_csv('plain.csv', types = {'a': 'COLOUR'})", 'there is no type "COLOUR"'),
        ("select * from read_csv(3)", "read_csv needs the path of a file, or a list of them, as text"),
        ("select * from parquet_scan()", "parquet_scan needs the path of a file"),
        ("select * from read_parquet('plain.csv')", "cannot read plain.csv as parquet"),
        ("select * from read_parquet('orders.parquet', header = true)", 'option "header" is for CSV only'),
    ],
)
def test_what_cannot_be_read_says_where(folder: Path, db: Database, query: str, message: str) -> None:
    Path("uneven.csv").write_text("a,b\n1,x\n2\n")
    with pytest.raises(kpg.Error) as caught:
        db.query(query)
    assert message in str(caught.value)
    assert caught.value.span is not None


def test_rich_types_of_files(folder: Path, db: Database) -> None:
    rich = pyarrow.table(
        {
            "n": pyarrow.array([Decimal("12345678901234567890.5"), None], pyarrow.decimal128(30, 2)),
            "at": pyarrow.array([datetime(2020, 1, 2, 3, tzinfo=UTC), None], pyarrow.timestamp("us", "UTC")),
            "t": pyarrow.array([time(12, 30), None], pyarrow.time64("us")),
            "l": pyarrow.array([[1, None], []], pyarrow.list_(pyarrow.int32())),
            "b": pyarrow.array([b"\x00\xff", None], pyarrow.binary()),
            "s": pyarrow.array([{"x": 1, "y": "a"}, None]),
        }
    )
    pyarrow.parquet.write_table(rich, "rich.parquet")
    found = db.query("select n, at, t, l, b from 'rich.parquet' where n is not null").fetchall()
    large, moment = Decimal("12345678901234567890.5"), datetime(2020, 1, 2, 3, tzinfo=UTC)
    assert found == [(large, moment, time(12, 30), [1, None], b"\x00\xff")]
    assert db.create_table("rich", rich) == 2
    joined = db.query("select count(*), max(n) from rich join 'rich.parquet' other using (n, at, l)")
    assert joined.fetchall() == [(1, large)]
    Path("times.csv").write_text("t,z\n12:30,2020-01-02T03:00:00Z\n,2020-01-02 05:00:00+02\n")
    times = db.query("select t, z from 'times.csv' order by t").fetchall()
    assert times == [(time(12, 30), moment), (None, moment)]
