"""The columns that Arrow's types become."""

import pandas
import polars
import pyarrow as pa
import pytest

from kpg.runtime.convert.arrow import is_frame
from kpg.runtime.convert.files import schema_of, table_of, type_of
from kpg.runtime.errors import InterfaceError, NotSupportedError

TYPES = {
    pa.int8(): "SMALLINT",
    pa.uint8(): "SMALLINT",
    pa.int16(): "SMALLINT",
    pa.uint16(): "INTEGER",
    pa.int32(): "INTEGER",
    pa.uint32(): "BIGINT",
    pa.int64(): "BIGINT",
    pa.uint64(): "BIGINT",
    pa.float16(): "REAL",
    pa.float32(): "REAL",
    pa.float64(): "DOUBLE",
    pa.decimal128(10, 2): "DECIMAL(10, 2)",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
    pa.timestamp("ns"): "TIMESTAMP",
    pa.timestamp("us", "Europe/Paris"): "TIMESTAMPTZ",
    pa.time32("s"): "TIME",
    pa.duration("ms"): "INTERVAL",
    pa.month_day_nano_interval(): "INTERVAL",
    pa.decimal128(30, 2): "NUMERIC",
    pa.binary(): "BYTEA",
    pa.list_(pa.int32()): "INTEGER[]",
    pa.list_(pa.list_(pa.string())): "VARCHAR[]",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.dictionary(pa.int32(), pa.string()): "VARCHAR",
    pa.null(): "VARCHAR",
}


@pytest.mark.parametrize("given", TYPES, ids=str)
def test_types(given: pa.DataType) -> None:
    assert str(type_of(given)) == TYPES[given]


def test_what_has_no_type_is_refused_by_column() -> None:
    given = pa.schema([("a", pa.int64()), ("b", pa.map_(pa.string(), pa.int64()))])
    with pytest.raises(NotSupportedError, match=r"t: column b has type map<string, int64>"):
        schema_of(given, "t")
    assert schema_of(given.remove(1), "t").names == ("a",)


def test_what_frames_are() -> None:
    frames = [pa.table({"a": [1]}), pandas.DataFrame({"a": [1]}), polars.DataFrame({"a": [1]})]
    for frame in frames:
        assert is_frame(frame)
        assert table_of(frame).to_pydict() == {"a": [1]}
    assert table_of({"a": [1, None]}).num_rows == 2
    assert table_of([{"a": 1}, {"a": 2}]).to_pydict() == {"a": [1, 2]}
    assert not is_frame([1]) and not is_frame({"a": [1]}) and not is_frame("a")


def test_what_has_no_columns_is_refused() -> None:
    for data in ([(1, 2)], 5, [], "a"):
        with pytest.raises(InterfaceError, match="cannot be told"):
            table_of(data)
    with pytest.raises(InterfaceError, match="the columns' types cannot be told"):
        table_of({"a": [1, "x"]})
