"""Loading through Spark: sources, checks in the executors, order, and what is left behind (nothing)."""

import datetime
import math
from contextlib import closing
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kpg.runtime.convert.arrow import encode_table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, NotSupportedError, OperationalError, ProgrammingError
from kpg.runtime.spark.load import load, load_tables
from kpg.runtime.spark.session import LOAD_SETTINGS
from kpg.runtime.spark.source import Source
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    NULL,
    REAL,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    ColumnDef,
    Kind,
    Schema,
    Type,
    decimal,
)

pytestmark = pytest.mark.java

D = Decimal
ITEM = Schema(
    (
        ColumnDef("id", BIGINT, False),
        ColumnDef("price", decimal(9, 2)),
        ColumnDef("day", DATE),
        ColumnDef("name", Type(Kind.VARCHAR, 5)),
    ),
    (0,),
)
ROWS = [
    (1, D("1.50"), datetime.date(1995, 1, 1), "a"),
    (2, None, None, None),
    (3, D("-0.05"), datetime.date(1969, 12, 31), "äöüßé"),
]


def rows(tables):
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def loaded(source, session, progress=None):
    return [chunk.rows for chunk in load_tables([source], session, progress)]


def loaded_words(source, session):
    dictionary = Dictionary()
    with closing(load_tables([source], session)) as chunks:
        return [encode_table(chunk.rows, source.schema, dictionary, chunk.origin) for chunk in chunks]


def item_file(path, ids):
    columns = {
        "name": [str(i) for i in ids],
        "ID": pa.array(ids, pa.int32()),
        "price": pa.array([D(i) for i in ids], pa.decimal128(12, 2)),
        "day": pa.array([datetime.date(2000, 1, 1)] * len(ids)),
    }
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files, which must be empty afterwards."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def test_several_tables_with_one_session_without_collecting(spark, tmp_path, temporary, monkeypatch):
    from pyspark.sql.classic.dataframe import DataFrame

    def refuse(*_):
        raise AssertionError("rows collected on the driver")

    for method in ("collect", "toPandas", "toArrow", "toLocalIterator", "take", "first", "count"):
        monkeypatch.setattr(DataFrame, method, refuse)
    item_file(tmp_path / "item.parquet", [2, 1])
    (tmp_path / "flag.csv").write_text("ok\ntrue\n")
    flags = Schema((ColumnDef("ok", BOOLEAN),))
    sources = [
        Source("item", tmp_path / "item.parquet", ITEM),
        Source("flag", tmp_path / "flag.csv", flags),
    ]
    found = [(chunk.table, rows([chunk.rows])) for chunk in load_tables(sources, spark)]
    day = datetime.date(2000, 1, 1)
    assert found == [
        ("item", [(1, D("1.00"), day, "1"), (2, D("2.00"), day, "2")]),
        ("flag", [(True,)]),
    ]
    assert spark.sparkContext._jsc is not None


def test_a_data_frame_and_its_session_are_left_as_they_were(spark, temporary):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    frame = spark.createDataFrame(ROWS, "id long, price decimal(9, 2), day date, name string")
    tables = loaded(Source("item", frame, ITEM), None)
    assert rows(tables) == ROWS
    assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    spark.conf.set("spark.sql.session.timeZone", LOAD_SETTINGS["spark.sql.session.timeZone"])
    (words,) = load(frame, ITEM, Dictionary(), session=spark)
    assert words.tolist() == [[1, 2, 3], [150, NULL, -5], [9131, NULL, -1], [0, NULL, 1]]


def test_every_type_from_csv_text(spark, tmp_path, temporary):
    types = (SMALLINT, INTEGER, BIGINT, decimal(5, 2), REAL, DOUBLE, BOOLEAN, DATE, TIMESTAMP, TEXT)
    schema = Schema(tuple(ColumnDef(f"c{i}", type_) for i, type_ in enumerate(types)))
    path = tmp_path / "t.csv"
    path.write_text("1|2|3|4.500|0.5|inf|TRUE|1995-01-01|1970-01-01 00:00:01.5|x\n|||||||||\n")
    source = Source("t", path, schema, options={"header": "false", "sep": "|"})
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000)
    expected = (1, 2, 3, D("4.50"), 0.5, math.inf, True, datetime.date(1995, 1, 1), moment, "x")
    assert rows(loaded(source, spark)) == [expected, (None,) * 10]


def test_numbers_convert_by_value(spark, temporary):
    frame = spark.sql(
        "select cast(7 as decimal(20, 3)) a, 0.1D b, 5L c, cast(3 as double) d, date'1970-01-02' e,"
        " timestamp'1970-01-02 00:00:00Z' f, null g"
    )
    types = {"a": INTEGER, "b": decimal(9, 2), "c": DOUBLE, "d": BIGINT, "e": TIMESTAMP, "f": DATE, "g": TEXT}
    schema = Schema(tuple(ColumnDef(name, type_) for name, type_ in types.items()))
    (row,) = rows(loaded(Source("t", frame, schema), spark))
    day = datetime.date(1970, 1, 2)
    assert row == (7, D("0.10"), 5.0, 3, datetime.datetime(1970, 1, 2), day, None)


@pytest.mark.parametrize(
    ("select", "type_", "value"),
    [
        ("cast(1000 as decimal(12, 2))", decimal(5, 2), "1000.00"),
        ("cast(1.235 as decimal(12, 3))", decimal(5, 2), "1.235"),
        ("0.125D", decimal(5, 2), "0.125"),
        ("'1.235'", decimal(5, 2), "1.235"),
        ("'x'", decimal(5, 2), "x"),
        ("40000", SMALLINT, "40000"),
        ("1.5D", INTEGER, "1.5"),
        ("-9223372036854775807L", BIGINT, "-9223372036854775807"),
        ("1e300D", REAL, "1.0E300"),
        ("'1e400'", DOUBLE, "1e400"),
        ("'yes'", BOOLEAN, "yes"),
        ("'2020'", DATE, "2020"),
        ("timestamp'1970-01-02 01:00:00Z'", DATE, "1970-01-02 01:00:00"),
        ("'2020-01-01 00:00:00+02:00'", TIMESTAMP, "2020-01-01 00:00:00+02:00"),
        ("'äöüßéx'", Type(Kind.CHAR, 5), "äöüßéx"),
    ],
)
def test_values_that_do_not_fit(spark, temporary, select, type_, value):
    schema = Schema((ColumnDef("k", INTEGER), ColumnDef("x", type_)), (0,))
    frame = spark.sql(f"select 17 k, {select} x")
    with pytest.raises(DataError) as caught:
        next(load_tables([Source("t", frame, schema)], spark))
    assert caught.value.message == f"table t, key k=17, column x: value '{value}' does not fit {type_}"


def test_value_errors_name_the_file(spark, tmp_path, temporary):
    item_file(tmp_path / "good.parquet", [1])
    item_file(tmp_path / "huge.parquet", [2, 10_000_000])
    options = {"pathGlobFilter": "*.parquet"}
    source = Source("item", tmp_path, ITEM, "parquet", options)
    with pytest.raises(DataError) as caught:
        loaded_words(source, spark)
    place = f"table item, {tmp_path}/huge.parquet, row 2, key ID=10000000, column price"
    assert caught.value.message == f"{place}: value Decimal('10000000.00') does not fit DECIMAL(9, 2)"
    cast = Source("item", tmp_path, ITEM, "parquet", {**options, "mergeSchema": "true"})
    with pytest.raises(DataError, match=r"table item, file:.*/huge\.parquet, key id=10000000, column price"):
        next(load_tables([cast], spark))


def test_null_in_a_key(spark, temporary):
    frame = spark.createDataFrame([(None, 1)], "id long, x int")
    schema = Schema((ColumnDef("id", BIGINT), ColumnDef("x", INTEGER)), (0,))
    with pytest.raises(DataError, match="table t, key id=NULL, column id: NULL in a NOT NULL column"):
        next(load_tables([Source("t", frame, schema)], spark))


@pytest.mark.parametrize(
    ("select", "error", "message"),
    [
        ("array(1) x", ProgrammingError, r"table t: column x has type array<int>, expected BIGINT"),
        ("date'1970-01-01' x", ProgrammingError, r"column x has type date, expected BIGINT"),
        ("1 y", ProgrammingError, r"column x BIGINT is missing in the Spark source"),
        ("1 x, 2 z", ProgrammingError, r"column z of the Spark source is not in the table"),
        ("1 x, 2 X", ProgrammingError, r"column x BIGINT is ambiguous"),
    ],
)
def test_bad_schemas(spark, temporary, select, error, message):
    frame = spark.sql(f"select {select}")
    good = Source("good", spark.sql("select 1 x"), Schema((ColumnDef("x", BIGINT),)))
    bad = Source("t", frame, Schema((ColumnDef("x", BIGINT),)))
    with pytest.raises(error, match=message):
        next(load_tables([good, bad], spark))


def test_sources_that_spark_cannot_read(spark, tmp_path, temporary):
    schema = Schema((ColumnDef("x", BIGINT), ColumnDef("y", BIGINT)))
    for source in (tmp_path / "no.parquet", "no_such_table"):
        with pytest.raises(OperationalError, match="table t: Spark cannot read"):
            next(load_tables([Source("t", source, schema)], spark))
    (tmp_path / "short.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(DataError, match="Spark cannot parse the source"):
        next(load_tables([Source("t", tmp_path / "short.csv", schema)], spark))
    interval = Schema((ColumnDef("x", INTERVAL_DAY),))
    with pytest.raises(NotSupportedError, match="INTERVAL DAY cannot be loaded through Spark"):
        next(load_tables([Source("t", spark.sql("select 1 x"), interval)], spark))
