"""Parquet files that tasks read: the same rows as DuckDB and pyarrow find, whatever their types and order."""

import datetime
import math
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kpg
from kpg.runtime.convert.arrow import encode_table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, OperationalError
from kpg.runtime.spark import load_jobs
from kpg.runtime.spark.load import load_tables
from kpg.runtime.spark.load_jobs import FileRows
from kpg.runtime.spark.source import Source
from kpg.runtime.types import BIGINT, ColumnDef, Schema

pytestmark = pytest.mark.java

PAIR = Schema((ColumnDef("k", BIGINT), ColumnDef("v", BIGINT)), (0,))
FILE = pa.schema([("k", pa.int64()), ("v", pa.int64())])
ROWS = 2000


@pytest.fixture
def small_splits(monkeypatch):
    """A split for each row group."""
    monkeypatch.setattr(load_jobs, "SPLIT_BYTES", 1)


def write(path, keys, values, group):
    """A file of pairs in row groups of that many."""
    pq.write_table(pa.table([keys, values], schema=FILE), path, row_group_size=group)


def some_rows(order):
    """Every type that parquet has for ours, with NULLs; ``order`` are the keys."""
    random = np.random.default_rng(11)
    numbers = random.integers(-(2**31), 2**31, ROWS)
    day = datetime.date(1969, 12, 1)

    def some(values, type_):
        return pa.array([None if i % 7 == 3 else value for i, value in enumerate(values)], type_)

    cents = [Decimal(int(number)).scaleb(-2) for number in numbers]
    moments = [datetime.datetime(1969, 12, 31, 23) + datetime.timedelta(microseconds=int(n)) for n in numbers]
    texts = [f"text {number}" if number % 2 else "ä'\"|\n" for number in numbers.tolist()]
    return pa.table(
        {
            "k": pa.array(order, pa.int64()),
            "small": some((numbers % 200 - 100).tolist(), pa.int8()),
            "unsigned": some((numbers % 60000).tolist(), pa.uint32()),
            "cents": some(cents, pa.decimal128(15, 2)),
            "wide": some(cents, pa.decimal128(38, 2)),
            "half": some([math.inf, *(numbers[1:] / 2).tolist()], pa.float32()),
            "double": some((numbers / 3).tolist(), pa.float64()),
            "yes": some((numbers % 2 == 0).tolist(), pa.bool_()),
            "day": some([day + datetime.timedelta(days=int(n) % 999) for n in numbers], pa.date32()),
            "at": some(moments, pa.timestamp("us")),
            "at_ns": some(moments, pa.timestamp("ns")),
            "few": some([("RAIL", "SHIP", "FOOT")[n % 3] for n in numbers.tolist()], pa.string()),
            "many": some(texts, pa.string_view()),
        }
    )


TYPES = (
    "k bigint primary key, small smallint, unsigned bigint, cents decimal(15, 2), wide decimal(12, 2),"
    " half real, double double precision, yes boolean, day date, at timestamp, at_ns timestamp, few char(4),"
    " many varchar(99)"
)


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_rows_are_those_of_duckdb_and_pyarrow(spark, tmp_path, small_splits, shuffled):
    keys = np.arange(ROWS)
    if shuffled:
        np.random.default_rng(12).shuffle(keys)
    table = some_rows(keys)
    (tmp_path / "a folder").mkdir()
    pq.write_table(table.slice(0, 700), tmp_path / "a folder" / "a 1%.parquet", row_group_size=300)
    pq.write_table(table.slice(700), tmp_path / "a folder" / "b.parquet", row_group_size=1000)
    db = kpg.connect()
    db.sql(f"create table through_spark ({TYPES})")
    db.sql(f"create table through_arrow ({TYPES})")
    assert db.load("through_spark", tmp_path / "a folder", mode="spark") == ROWS
    assert db.load("through_arrow", tmp_path / "a folder", mode="arrow") == ROWS
    found = db.sql("select * from through_spark order by k").fetchall()
    expected = duckdb.sql(f"select * from '{tmp_path}/a folder/*.parquet' order by k").fetchall()
    assert found == expected
    assert found == db.sql("select * from through_arrow order by k").fetchall()


def test_every_split_is_in_the_order_of_its_key(spark, tmp_path, small_splits):
    pq.write_table(
        pa.table({"k": [9, 7, 8, 2, 1, 3], "v": range(6)}), tmp_path / "a.parquet", row_group_size=3
    )
    pq.write_table(pa.table({"k": [4, 5, 6], "v": range(3)}), tmp_path / "b.parquet")
    chunks = list(load_tables([Source("t", f"{tmp_path}/*.parquet", PAIR)], spark))
    assert [chunk.rows["k"].to_pylist() for chunk in chunks] == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    places = [chunk.origin for chunk in chunks]
    assert all(isinstance(place, FileRows) for place in places)
    assert places[1].describe(1, "v") == f"table t, {tmp_path}/b.parquet, row 2, key k=5, column v"
    assert places[2].describe(1, "v") == f"table t, {tmp_path}/a.parquet, key k=8, column v"


def test_columns_of_folders_go_through_spark_sql(spark, tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"v={year}").mkdir()
        pq.write_table(pa.table({"k": [year * 10]}), tmp_path / f"v={year}" / "a.parquet")
    (chunk,) = load_tables([Source("t", tmp_path, PAIR)], spark)
    assert chunk.rows.to_pydict() == {"k": [20200, 20210], "v": [2020, 2021]}


def test_values_that_need_a_cast_go_through_spark_sql(spark, tmp_path):
    pq.write_table(pa.table({"k": ["1", "2"], "v": [1, 2]}), tmp_path / "a.parquet")
    sources = [Source("t", tmp_path / "a.parquet", PAIR)]
    (chunk,) = load_tables(sources, spark)
    assert chunk.rows.to_pydict() == {"k": [1, 2], "v": [1, 2]}


def test_executors_that_cannot_run_our_tasks(spark, tmp_path, monkeypatch, caplog):
    write(tmp_path / "a.parquet", [2, 1], [4, 2], 1)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")  # chosen, so that it is not replaced
    (chunk,) = load_tables([Source("t", tmp_path / "a.parquet", PAIR)], spark)
    assert chunk.rows.to_pydict() == {"k": [1, 2], "v": [2, 4]}
    assert "parquet files go through Spark SQL" in caplog.text


def test_timestamps_of_old_writers(spark, tmp_path):
    moments = [datetime.datetime(1816, 3, 29), datetime.datetime(9999, 12, 31)]
    table = pa.table({"k": [1, 2], "at": pa.array(moments, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    db = kpg.connect()
    for mode in ("spark", "arrow"):
        db.sql(f"create table {mode} (k bigint primary key, at timestamp)")
        db.load(mode, tmp_path / "a.parquet", mode=mode)
        assert db.sql(f"select at from {mode} order by k").fetchall() == [(moment,) for moment in moments]


def test_no_rows(spark, tmp_path):
    write(tmp_path / "none.parquet", [], [], 1)
    write(tmp_path / "one.parquet", [1], [2], 1)
    sources = [Source(name, tmp_path / f"{name}.parquet", PAIR) for name in ("none", "one")]
    assert [(chunk.table, chunk.rows.num_rows) for chunk in load_tables(sources, spark)] == [("one", 1)]


def test_a_null_that_may_not_be(spark, tmp_path, small_splits):
    write(tmp_path / "a.parquet", [1, 2, 3, 4], [1, 1, 1, None], 2)
    schema = Schema((ColumnDef("k", BIGINT), ColumnDef("v", BIGINT, nullable=False)))
    with pytest.raises(DataError) as caught:
        list(load_tables([Source("t", tmp_path / "a.parquet", schema)], spark))
    place = f"table t, {tmp_path}/a.parquet, row 4, column v"
    assert caught.value.message == f"{place}: NULL in a NOT NULL column"


def test_a_value_beyond_its_type(spark, tmp_path, small_splits):
    pq.write_table(
        pa.table({"k": [1, 2, 3], "v": [0, 0, -(2**63)]}), tmp_path / "a.parquet", row_group_size=2
    )
    chunks = list(load_tables([Source("t", tmp_path / "a.parquet", PAIR)], spark))
    encode_table(chunks[0].rows, PAIR, Dictionary(), chunks[0].origin)
    with pytest.raises(
        DataError, match=r"a\.parquet, row 3, key k=3, column v: value -9223372036854775808 does"
    ):
        encode_table(chunks[1].rows, PAIR, Dictionary(), chunks[1].origin)


def test_a_damaged_file_is_named(spark, tmp_path):
    path = tmp_path / "a.parquet"
    values = np.random.default_rng(13).integers(0, 1 << 60, 5000)
    pq.write_table(pa.table({"k": values, "v": values}), path, compression="zstd")
    damaged = bytearray(path.read_bytes())
    damaged[1000:60000] = bytes(59000)
    path.write_bytes(damaged)
    with pytest.raises(OperationalError, match=rf"^cannot read {path}: "):
        list(load_tables([Source("t", path, PAIR)], spark))
    pq.write_table(pa.table({"k": [1], "v": [1]}), path)
    assert len(list(load_tables([Source("t", path, PAIR)], spark))) == 1
