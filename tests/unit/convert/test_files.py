"""Parquet and CSV in and out."""

import datetime
import gzip
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kpg.runtime.convert.files import (
    CsvOptions,
    expand_path,
    read_csv,
    read_parquet,
    write_csv,
    write_parquet,
)
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, NotSupportedError, OperationalError, ProgrammingError
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL_DAY,
    NULL,
    REAL,
    TEXT,
    TIMESTAMP,
    ColumnDef,
    Schema,
    decimal,
    float_to_word,
)

SCHEMA = Schema((ColumnDef("id", BIGINT), ColumnDef("price", decimal(9, 2)), ColumnDef("name", TEXT)))


def read_all(chunks):
    return np.concatenate(list(chunks), axis=1).tolist()


def parquet(path, ids):
    price = pa.array([Decimal(i) for i in ids], pa.decimal128(12, 2))
    pq.write_table(pa.table({"NAME": ["x"] * len(ids), "price": price, "id": ids}), path)


def test_parquet_files_of_a_folder_in_order_and_in_chunks(tmp_path):
    parquet(tmp_path / "b.parquet", [3])
    parquet(tmp_path / "a.parquet", [1, 2])
    (tmp_path / "_SUCCESS").write_text("")
    chunks = list(read_parquet(tmp_path, SCHEMA, Dictionary(), chunk_rows=1))
    assert [chunk.tolist() for chunk in chunks] == [
        [[1], [100], [0]],
        [[2], [200], [0]],
        [[3], [300], [0]],
    ]
    assert read_all(read_parquet(f"{tmp_path}/*.parquet", SCHEMA, Dictionary())) == [
        [1, 2, 3],
        [100, 200, 300],
        [0, 0, 0],
    ]


def test_csv_numbers_are_rounded_and_read_in_all_forms_of_sql(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,price,name\n0x1F,2.675,a\n1_000,-1.005,b\n 7 ,1e-9,c\n")
    assert read_all(read_csv(path, SCHEMA, Dictionary()))[:2] == [[31, 1000, 7], [268, -101, 0]]


@pytest.mark.parametrize("text", ["1e400", "1e-400", "4e38", "1e-50", "\u30001", "1\xa0"])
def test_csv_refuses_floats_that_would_be_infinite_or_zero_and_other_blanks(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(f"x\n1.5\n{text}\n")
    with pytest.raises(DataError, match=r"row 2, column x: value .* (is not a|does not fit) REAL"):
        read_all(read_csv(path, Schema((ColumnDef("x", REAL),)), Dictionary()))


def test_parquet_text_of_few_values_and_of_many(tmp_path):
    few = ["RED", None, "GREEN"] * 1000
    many = [f"comment number {i}" for i in range(3000)]
    pq.write_table(pa.table({"few": few, "many": many}), tmp_path / "t.parquet")
    schema = Schema((ColumnDef("few", TEXT), ColumnDef("many", TEXT)))
    dictionary = Dictionary()
    rows = read_all(read_parquet(tmp_path / "t.parquet", schema, dictionary))
    assert dictionary.decode(np.array(rows[0])) == few
    assert dictionary.decode(np.array(rows[1])) == many


def test_parquet_with_a_bad_schema_gives_nothing(tmp_path):
    parquet(tmp_path / "a.parquet", [1])
    pq.write_table(pa.table({"id": ["1"], "price": [1], "name": ["x"]}), tmp_path / "b.parquet")
    chunks = read_parquet(tmp_path, SCHEMA, Dictionary())
    with pytest.raises(ProgrammingError, match=r"b.parquet: column id has type string, expected BIGINT"):
        next(chunks)


def test_parquet_value_errors_name_file_row_and_column(tmp_path):
    parquet(tmp_path / "a.parquet", [1, 2, 10_000_000])
    chunks = read_parquet(tmp_path, SCHEMA, Dictionary(), chunk_rows=2)
    next(chunks)
    with pytest.raises(
        DataError, match=r"a.parquet, row 3, column price: value .*10000000.* DECIMAL\(9, 2\)"
    ):
        next(chunks)


def test_files_that_are_not_there_or_no_parquet(tmp_path):
    with pytest.raises(OperationalError, match=r"no file nowhere\.parquet"):
        next(read_parquet("nowhere.parquet", SCHEMA, Dictionary()))
    with pytest.raises(OperationalError, match=r"no \*.parquet file in folder"):
        expand_path(tmp_path, ".parquet")
    (tmp_path / "x.parquet").write_text("no parquet")
    with pytest.raises(OperationalError, match=r"x\.parquet as parquet"):
        next(read_parquet(tmp_path / "x.parquet", SCHEMA, Dictionary()))


def test_csv(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('name,id,PRICE\n"a,""b""",1,1.5\n,2,\n"", 3 ,-0.05\n')
    dictionary = Dictionary()
    rows = read_all(read_csv(path, SCHEMA, dictionary))
    assert rows[:2] == [[1, 2, 3], [150, NULL, -5]]
    assert dictionary.decode(np.array(rows[2])) == ['a,"b"', None, ""]


def test_csv_options(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("1|NA|'x|y'\n2|3|NA\n")
    dictionary = Dictionary()
    options = CsvOptions(header=False, delimiter="|", quote="'", null="NA")
    rows = read_all(read_csv(path, SCHEMA, dictionary, options))
    assert rows[:2] == [[1, 2], [NULL, 300]]
    assert dictionary.decode(np.array(rows[2])) == ["x|y", None]


def test_csv_of_every_type(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("b,f,r,d,t\ntrue,1.5,inf,1970-01-02,1970-01-01 00:00:01.5\n,,,,\n")
    types = {"b": BOOLEAN, "f": DOUBLE, "r": REAL, "d": DATE, "t": TIMESTAMP}
    schema = Schema(tuple(ColumnDef(name, type_) for name, type_ in types.items()))
    assert read_all(read_csv(path, schema, Dictionary())) == [
        [1, NULL],
        [float_to_word(1.5), NULL],
        [float_to_word(float("inf")), NULL],
        [1, NULL],
        [1_500_000, NULL],
    ]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("id,price,name\n1,2,x\nq,2,x\n", DataError, r"t.csv, row 2, column id: value 'q' is not a BIGINT"),
        (
            "id,price,name\n1,0.125,x\n2,9999999.995,x\n",
            DataError,
            r"row 2, column price: value '9999999.995' is not a DECIMAL\(9, 2",
        ),
        ("id,price,name\n1,1e9,x\n", DataError, r"t.csv, row 1, column price: value Decimal.* does not fit"),
        (
            "id,price,name\n1,2\n",
            DataError,
            r"t.csv, line 2: 2 columns instead of 3: 1,2\nhint: expected 3 columns: id, price, name",
        ),
        ("id,price\n1,2\n", ProgrammingError, r"t.csv: column name VARCHAR is missing"),
        ("id,price,name,z\n", ProgrammingError, r"t.csv: column z is not in the table"),
        ("", ProgrammingError, r"t.csv: column id BIGINT is missing"),
    ],
)
def test_csv_errors(tmp_path, text, error, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(error, match=message):
        list(read_csv(path, SCHEMA, Dictionary()))


def test_an_uneven_row_is_told_by_its_line_in_the_file(tmp_path):
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write('id,price,name\n1,2,"a\nb\nc"\n\n3\n')
    with pytest.raises(DataError, match=r"t.csv.gz, line 6: 1 column instead of 3: 3\n"):
        list(read_csv(path, SCHEMA, Dictionary(), CsvOptions(header=False, skip=1)))


def test_csv_float_overflow_and_intervals(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n1.5\n\n1e400\n")
    with pytest.raises(DataError, match=r"row 3, column x: value '1e400' is not a DOUBLE"):
        list(read_csv(path, Schema((ColumnDef("x", DOUBLE),)), Dictionary()))
    with pytest.raises(NotSupportedError, match="column x: INTERVAL DAY cannot be read from CSV"):
        list(read_csv(path, Schema((ColumnDef("x", INTERVAL_DAY),)), Dictionary()))


def test_csv_of_one_column_keeps_its_empty_lines_as_null(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id\n1\n\n2\n")
    assert read_all(read_csv(path, Schema((ColumnDef("id", BIGINT),)), Dictionary())) == [[1, NULL, 2]]


def test_csv_of_no_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,price,name\n")
    assert sum(chunk.shape[1] for chunk in read_csv(path, SCHEMA, Dictionary())) == 0


RESULT = pa.table(
    {
        "id": pa.array([1, None]),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "name": pa.array(['say "hi", you', ""]),
        "day": pa.array([datetime.date(1995, 1, 1), None]),
    }
)


def test_write_csv(tmp_path):
    write_csv(RESULT, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == (
        'id,price,name,day\n1,1.50,"say ""hi"", you",1995-01-01\n,,"",\n'
    )
    write_csv(RESULT.select(["id", "name"]), tmp_path / "u.csv", CsvOptions(False, "|", "'", "NULL"))
    assert (tmp_path / "u.csv").read_text() == '1|say "hi", you\nNULL|\n'


def test_written_files_read_back(tmp_path):
    schema = Schema((*SCHEMA.columns, ColumnDef("day", DATE)))
    write_csv(RESULT, tmp_path / "t.csv")
    write_parquet(RESULT, tmp_path / "t.parquet")
    expected = [[1, NULL], [150, NULL], [0, 1], [9131, NULL]]
    assert read_all(read_csv(tmp_path / "t.csv", schema, Dictionary())) == expected
    assert read_all(read_parquet(tmp_path / "t.parquet", schema, Dictionary())) == expected


def test_write_refuses(tmp_path):
    interval = pa.table({"i": pa.array([(1, 0, 0)], pa.month_day_nano_interval())})
    for write in (write_csv, write_parquet):
        with pytest.raises(NotSupportedError, match="column i: an INTERVAL cannot be written"):
            write(interval, tmp_path / "x")
        with pytest.raises(OperationalError, match="cannot write"):
            write(RESULT, tmp_path / "no" / "x")
    with pytest.raises(ProgrammingError, match="column n of type list"):
        write_csv(pa.table({"n": [[1]]}), tmp_path / "x")
