"""Arrow to words and back, with literal values, and every refusal."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from kpg.runtime.convert import arrow
from kpg.runtime.convert.arrow import Origin, decode_table, encode_any, encode_table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError, InternalError, ProgrammingError
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    ERROR,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    NULL,
    REAL,
    ROWID,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    ColumnDef,
    Kind,
    Schema,
    Type,
    decimal,
    float_to_word,
)

VARCHAR3 = Type(Kind.VARCHAR, 3)
DAY = 86_400_000_000


def schema(*types):
    return Schema(tuple(ColumnDef(f"c{i}", type_) for i, type_ in enumerate(types)))


def one(array, type_, dictionary=None):
    return encode_table(pa.table({"c0": array}), schema(type_), dictionary or Dictionary())[0].tolist()


def w(value):
    return float_to_word(value)


D = Decimal
MDN = pa.month_day_nano_interval()

FITS = [
    (pa.array([True, None, False]), BOOLEAN, [1, NULL, 0]),
    (pa.array([-128, 127, None], pa.int8()), SMALLINT, [-128, 127, NULL]),
    (pa.array([65535], pa.uint16()), INTEGER, [65535]),
    (pa.array([-32768, 32767], pa.int64()), SMALLINT, [-32768, 32767]),
    (pa.array([2**63 - 1], pa.uint64()), BIGINT, [2**63 - 1]),
    (pa.array([-(2**63) + 2]), BIGINT, [-(2**63) + 2]),
    (pa.array([3.0, -2.0, None]), INTEGER, [3, -2, NULL]),
    (pa.array([D("7.00"), D("-8.00")]), INTEGER, [7, -8]),
    (pa.array([D("1.10"), None, D("-2.05")], pa.decimal128(15, 2)), decimal(15, 2), [110, NULL, -205]),
    (pa.array([D("1.1000")], pa.decimal128(30, 4)), decimal(9, 1), [11]),
    (pa.array([D("-1.1")], pa.decimal128(9, 1)), decimal(9, 3), [-1100]),
    (pa.array([D("1.10")], pa.decimal32(9, 2)), decimal(9, 2), [110]),
    (pa.array([D("-1.10")], pa.decimal256(60, 2)), decimal(9, 2), [-110]),
    (pa.array([D("5") + D("1e-25") * 0], pa.decimal128(38, 25)), decimal(9, 2), [500]),
    (pa.array([5, None], pa.int16()), decimal(9, 2), [500, NULL]),
    (pa.array([0.1, -12.35, None]), decimal(9, 2), [10, -1235, NULL]),
    (pa.array([1.5, -0.0, None]), DOUBLE, [w(1.5), 0, NULL]),
    (pa.array([math.nan, -math.inf]), DOUBLE, [w(math.nan), w(-math.inf)]),
    (pa.array([0.5], pa.float16()), DOUBLE, [w(0.5)]),
    (pa.array([3]), DOUBLE, [w(3.0)]),
    (pa.array([D("0.25")]), DOUBLE, [w(0.25)]),
    (pa.array([0.1]), REAL, [w(float(np.float32(0.1)))]),
    (pa.array([datetime.date(1970, 1, 2), None]), DATE, [1, NULL]),
    (pa.array([datetime.date(1969, 12, 31)], pa.date64()), DATE, [-1]),
    (pa.array([datetime.datetime(1970, 1, 3)], pa.timestamp("ns")), DATE, [2]),
    (pa.array([datetime.date(1970, 1, 2)]), TIMESTAMP, [DAY]),
    (pa.array([datetime.date(1970, 1, 2)], pa.date64()), TIMESTAMP, [DAY]),
    (pa.array([1, None], pa.timestamp("s")), TIMESTAMP, [1_000_000, NULL]),
    (pa.array([-1], pa.timestamp("ms", "UTC")), TIMESTAMP, [-1000]),
    (pa.array([5], pa.timestamp("us")), TIMESTAMP, [5]),
    (pa.array([5000], pa.timestamp("ns")), TIMESTAMP, [5]),
    (pa.array([2], pa.duration("s")), INTERVAL_DAY, [2_000_000]),
    (pa.array([(0, 1, 3000), None], MDN), INTERVAL_DAY, [DAY + 3, NULL]),
    (pa.array([(14, 0, 0), None], MDN), INTERVAL_MONTH, [14, NULL]),
    (pa.array(["ab", None, "ab", "äöü"]), VARCHAR3, [0, NULL, 0, 1]),
    (pa.array(["ab"], pa.large_string()), TEXT, [0]),
    (pa.array(["ab"], pa.string_view()), VARCHAR3, [0]),
    (pa.array(["x", None, "x"]).dictionary_encode(), VARCHAR3, [0, NULL, 0]),
    (pa.array([1, None, 1]).dictionary_encode(), INTEGER, [1, NULL, 1]),
    (pa.nulls(2), DOUBLE, [NULL, NULL]),
    (pa.nulls(2), TEXT, [NULL, NULL]),
    (pa.array([7]), ROWID, [7]),
]


@pytest.mark.parametrize(("array", "type_", "expected"), FITS)
def test_values_that_fit(array, type_, expected):
    assert one(array, type_) == expected


@pytest.mark.parametrize(("array", "type_", "expected"), FITS)
def test_slices_and_chunks_are_read_at_their_offset(array, type_, expected):
    padded = pa.chunked_array([array.slice(len(array)), pa.concat_arrays([array, array]).slice(len(array))])
    assert one(padded, type_) == expected


ROUNDED = [
    (pa.array([D("2.675"), None, D("-2.675"), D("0.004")]), [268, NULL, -268, 0]),
    (pa.array([D("2.6749999999999999999999")]), [267]),
    (pa.array([D("99999999.994999999999999999999999999999")]), [9999999999]),
    (pa.array([D("1.005")], pa.decimal32(9, 3)), [101]),
    (pa.array([2.675, 0.1 + 0.2, None, -2.675, 1.005, 3.0]), [268, 30, NULL, -268, 101, 300]),
    (pa.array([0.125], pa.float32()), [13]),
]


@pytest.mark.parametrize(("array", "expected"), ROUNDED)
def test_decimals_and_floats_are_rounded_to_the_scale_as_sql_does(array, expected):
    assert one(array, decimal(10, 2)) == expected


UNFIT = [
    (pa.array([1, 32768]), SMALLINT, 2, "32768"),
    (pa.array([-129, 200], pa.int16()), decimal(4, 2), 1, "-129"),
    (pa.array([1, 2**31]), INTEGER, 2, "2147483648"),
    (pa.array([2**63], pa.uint64()), BIGINT, 1, "9223372036854775808"),
    (pa.array([None, 0, -(2**63)], pa.int64()), BIGINT, 3, "-9223372036854775808"),
    (pa.array([-(2**63) + 1]), BIGINT, 1, "-9223372036854775807"),
    (pa.array([1.0, 1.5]), INTEGER, 2, "1.5"),
    (pa.array([math.nan]), INTEGER, 1, "nan"),
    (pa.array([1e30]), BIGINT, 1, "1e\\+30"),
    (pa.array([D("1.5")]), INTEGER, 1, "1.5"),
    (pa.array([D("1.10"), D("9999999.95")]), decimal(8, 1), 2, "9999999.95"),
    (pa.array([D("100.00")]), decimal(4, 2), 1, "100.00"),
    (pa.array([D(10**30)]), decimal(18, 0), 1, str(10**30)),
    (pa.array([1000]), decimal(5, 2), 1, "1000"),
    (pa.array([0.125, 9.995]), decimal(3, 2), 2, "9.995"),
    (pa.array([None, math.inf]), decimal(9, 2), 2, "inf"),
    (pa.array([1e17]), decimal(18, 0), 1, "1e\\+17"),
    (pa.array([1e300]), REAL, 1, "1e\\+300"),
    (pa.array([datetime.datetime(1970, 1, 3, 1)]), DATE, 1, "01:00|3, 1, 0"),
    (pa.array([2**62], pa.timestamp("s")), TIMESTAMP, 1, ""),
    (pa.array([1001], pa.duration("ns")), INTERVAL_DAY, 1, ""),
    (pa.array([(1, 1, 0)], MDN), INTERVAL_MONTH, 1, ""),
    (pa.array([(1, 1, 0)], MDN), INTERVAL_DAY, 1, ""),
    (pa.array(["abc", None, "äöüß"]), VARCHAR3, 3, "äöüß"),
    (pa.array(["abc", "abcd"], pa.string_view()), VARCHAR3, 2, "abcd"),
    (pa.array(["abc", "abcd"]).dictionary_encode(), VARCHAR3, 2, "abcd"),
]


@pytest.mark.parametrize(("array", "type_", "row", "value"), UNFIT)
def test_values_that_do_not_fit_name_row_and_column(array, type_, row, value):
    with pytest.raises(DataError, match=rf"row {row}, column c0: value .*({value}).* does not fit") as caught:
        one(array, type_)
    assert str(type_) in str(caught.value)


def test_rows_are_counted_across_chunks_and_from_the_origin():
    chunks = pa.chunked_array([[1, 2], [3, 70_000]])
    with pytest.raises(DataError, match=r"x.parquet, row 104, column c0: value 70000"):
        encode_table(pa.table({"c0": chunks}), schema(SMALLINT), Dictionary(), Origin("x.parquet", 100))


@pytest.mark.parametrize(
    ("array", "type_", "given"),
    [
        (pa.array(["1"]), INTEGER, "string"),
        (pa.array([1]), TEXT, "int64"),
        (pa.array([1]), BOOLEAN, "int64"),
        (pa.array([True]), INTEGER, "bool"),
        (pa.array([1]), DATE, "int64"),
        (pa.array([1], pa.timestamp("us", "Europe/Berlin")), TIMESTAMP, r"timestamp\[us, tz=Europe/Berlin\]"),
        (pa.array([[1]]), BIGINT, "list<item: int64>"),
        (pa.array([b"x"]), TEXT, "binary"),
        (pa.array([1]), INTERVAL_DAY, "int64"),
        (pa.array([1], pa.duration("s")), INTERVAL_MONTH, "duration"),
        (pa.array([1]), UNKNOWN, "int64"),
    ],
)
def test_types_that_do_not_convert(array, type_, given):
    with pytest.raises(ProgrammingError, match=f"column c0 has type {given}.*, expected {type_}"):
        one(array, type_)


def test_columns_are_matched_by_name_in_any_case():
    data = pa.table({"C1": [2], "c0": [1]})
    assert encode_table(data, schema(INTEGER, INTEGER), Dictionary()).tolist() == [[1], [2]]
    assert encode_table(data.to_batches()[0], schema(INTEGER, INTEGER), Dictionary()).tolist() == [[1], [2]]


def test_missing_extra_and_ambiguous_columns():
    two = schema(INTEGER, INTEGER)
    with pytest.raises(ProgrammingError, match="column c1 INTEGER is missing") as caught:
        encode_table(pa.table({"c0": [1], "x": [1]}), two, Dictionary())
    assert caught.value.hint == "found c0, x"
    with pytest.raises(ProgrammingError, match="column x is not in the table") as caught:
        encode_table(pa.table({"c0": [1], "c1": [1], "x": [1]}), two, Dictionary())
    assert caught.value.hint == "the columns are c0, c1"
    ambiguous = pa.table({"c0": [1], "C0": [1]})
    with pytest.raises(ProgrammingError, match="column c0 INTEGER is ambiguous"):
        encode_table(ambiguous, schema(INTEGER), Dictionary())


DECODED = [
    (BOOLEAN, [1, 0, NULL], pa.array([True, False, None])),
    (SMALLINT, [-5, NULL], pa.array([-5, None], pa.int16())),
    (INTEGER, [7], pa.array([7], pa.int32())),
    (BIGINT, [2**63 - 1, NULL], pa.array([2**63 - 1, None])),
    (decimal(9, 2), [-110, NULL], pa.array([D("-1.10"), None], pa.decimal128(9, 2))),
    (DOUBLE, [w(-1.5), w(math.inf), NULL], pa.array([-1.5, math.inf, None])),
    (REAL, [w(0.5)], pa.array([0.5], pa.float32())),
    (DATE, [-1, NULL], pa.array([datetime.date(1969, 12, 31), None])),
    (TIMESTAMP, [DAY], pa.array([datetime.datetime(1970, 1, 2)], pa.timestamp("us"))),
    (INTERVAL_DAY, [3, NULL], pa.array([3, None], pa.duration("us"))),
    (INTERVAL_MONTH, [14, NULL], pa.array([(14, 0, 0), None], MDN)),
    (UNKNOWN, [NULL], pa.nulls(1)),
    (ROWID, [4], pa.array([4])),
]


@pytest.mark.parametrize(("type_", "given", "expected"), DECODED)
def test_decode(type_, given, expected):
    table = decode_table(np.array([given], np.int64), ["x"], [type_], Dictionary())
    assert table.column_names == ["x"]
    assert table.column(0).chunk(0).equals(expected)
    table.validate(full=True)


@pytest.mark.parametrize(("type_", "given", "expected"), DECODED)
def test_decoded_tables_encode_to_the_same_words(type_, given, expected):
    assert one(expected, type_) == given


def test_decode_text_and_no_rows():
    dictionary = Dictionary()
    codes = [dictionary.code("a"), NULL, dictionary.code("bc")]
    table = decode_table(np.array([codes], np.int64), ["s"], [TEXT], dictionary)
    assert table.column(0).to_pylist() == ["a", None, "bc"]
    empty = decode_table(np.empty((2, 0), np.int64), ["s", "d"], [TEXT, decimal(5, 1)], dictionary)
    assert empty.num_rows == 0
    assert empty.schema.types == [pa.string(), pa.decimal128(5, 1)]


def test_decode_refuses_failed_values():
    with pytest.raises(InternalError, match="column x holds the result of a failed operation"):
        decode_table(np.array([[1, ERROR]], np.int64), ["x"], [BIGINT], Dictionary())


TWO = Schema((ColumnDef("id", BIGINT), ColumnDef("name", TEXT)))
ARROW = pa.table({"name": ["x", None], "id": [1, 2]})


@pytest.mark.parametrize(
    "data",
    [
        ARROW,
        ARROW.to_batches()[0],
        ARROW.to_reader(),
        pd.DataFrame({"id": [1, 2], "name": ["x", None]}),
        pl.DataFrame({"id": [1, 2], "name": ["x", None]}),
        {"id": [1, 2], "NAME": ["x", None]},
        {"id": np.array([1, 2]), "name": pa.array(["x", None])},
        [(1, "x"), (2, None)],
        [{"ID": 1, "name": "x"}, {"name": None, "id": 2}],
    ],
)
def test_from_any(data):
    assert encode_any(data, TWO, Dictionary()).tolist() == [[1, 2], [0, NULL]]


def test_from_any_takes_no_rows():
    assert encode_any([], TWO, Dictionary()).shape == (2, 0)
    assert encode_any({"id": [], "name": []}, TWO, Dictionary()).shape == (2, 0)


def test_from_any_reads_missing_pandas_numbers_as_null():
    frame = pd.DataFrame({"id": [1.0, None], "name": ["x", None]})
    assert encode_any(frame, TWO, Dictionary()).tolist() == [[1, NULL], [0, NULL]]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (5, InterfaceError, "cannot read rows from a int"),
        ("ab", InterfaceError, "cannot read rows from a str"),
        ([5], InterfaceError, "cannot read rows from a list"),
        ({"id": [1], "name": ["a", "b"]}, InterfaceError, "the columns differ in length"),
        ({"id": [1]}, ProgrammingError, "column name VARCHAR is missing"),
        ({"id": ["1"], "name": ["a"]}, ProgrammingError, "row 1, column id: value '1' is a str"),
        ([{"id": 1}], ProgrammingError, "row 1 lacks column name"),
        ([{"id": 1, "name": "x", "z": 1}], ProgrammingError, "row 1 has unknown column z"),
        ([(1, "x"), (2,)], InterfaceError, "row 2 has 1 values, expected 2: id, name"),
    ],
)
def test_from_any_refuses(data, error, message):
    with pytest.raises(error, match=message):
        encode_any(data, TWO, Dictionary())


@pytest.mark.parametrize("kind", Kind)
def test_values_of_every_type_are_handed_out_and_read_in_some_arrow_type(kind: Kind) -> None:
    parts = (INTEGER,) if kind in (Kind.ARRAY, Kind.RECORD, Kind.RANGE, Kind.MULTIRANGE) else ()
    precision = 5 if kind is Kind.DECIMAL else 0
    given = arrow.arrow_type(Type(kind, precision, 0, parts=parts))
    assert arrow.accepts(Type(kind, precision, 0, parts=parts), given)
