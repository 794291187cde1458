"""What is told of CSV files is what DuckDB tells of them."""

from pathlib import Path

import duckdb
import pytest

from kpg.runtime.convert.csv_format import CsvHints, sniff
from kpg.runtime.errors import DataError, OperationalError
from kpg.runtime.types import DOUBLE, INTEGER

FILES = {
    "header over text": "a,b\nx,y\nz,w\n",
    "text with gaps": "x,\nz,w\nq,w\n",
    "numbers alone": "1,2\n3,4\n",
    "no header over numbers": "a,2\nb,4\n",
    "one row": "a,2\n",
    "semicolons": "id;name\n1;x,y\n2;z\n",
    "bars": "a|b|c\n1|2|3\n",
    "tabs": "a\tb\n1\t2.5\n",
    "one column": "one\ntwo\n",
    "names twice": "a,a\n1,2\n",
    "names missing": 'a b,"C,d",\n1,2,3\n',
    "numbers with gaps": "1,,3\n1,2,3\n",
    "dates and more": "d,t,b,f\n2020-01-02,2020-01-02 03:04:05,true,1.5\n2020-01-02,,False,\n",
    "times": "t,z\n12:30,2020-01-01T00:00:00Z\n23:59:59.5,2020-01-01 00:00:00+02\n",
    "leading zeros": "n\n007\n010\n",
    "large": "id\n99999999999\n1\n",
    "header alone": "a,b\n",
    "exponents": "x\n1e5\n-2.5\n",
    "quoted": '"k","v"\n"1","a ""b"""\n',
}
SHORT = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}


@pytest.mark.parametrize("name", FILES)
def test_like_duckdb(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(FILES[name])
    expected = duckdb.sql(f"select * from '{path}'")
    found = sniff(path, CsvHints())
    types = [SHORT.get(str(type_), str(type_)) for type_ in expected.types]
    assert [str(column.type) for column in found.schema.columns] == types
    assert list(found.schema.names) == expected.columns
    rows = FILES[name].count("\n") - found.options.skip
    assert rows == len(expected.fetchall())


UNEVEN = {
    "a,s,d\n1,x,2020-01-01\n2,y\n3,z,2020-01-01,more\n": "line 3: 2 columns instead of 3: 2,y",
    "a;b\n1;2\n3;4;5\n": "line 3: 3 columns instead of 2: 3;4;5",
    'a,b\n1,"x\ny"\n\n3\n': "line 5: 1 column instead of 2: 3",
    "report of 2020\na,b\n1,2\n": "line 2: 2 columns instead of 1: a,b",
    "a,b\n1\n" + "2," + "x" * 70 + ",y\n": "line 2: 1 column instead of 2: 1",
}


@pytest.mark.parametrize("text", UNEVEN)
def test_uneven_rows_are_no_column_of_texts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        sniff(path, CsvHints())
    assert caught.value.message == f"{path}, {UNEVEN[text]}"
    assert sniff(path, CsvHints(names=("line",))).schema.names == ("line",)


@pytest.mark.parametrize(
    "text", ["name\nhello, world\nfoo\n", "Hello, world\nfoo\nbar\nbaz\n", "t\na, b\nc, d, e\nf\n"]
)
def test_texts_with_commas_in_some_are_one_column_as_in_duckdb(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert list(sniff(path, CsvHints()).schema.names) == duckdb.sql(f"select * from '{path}'").columns
    assert len(sniff(path, CsvHints()).schema.names) == 1


def test_what_is_given_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# remark\n1;x\n2;NA\n")
    given = CsvHints(
        delimiter=";", header=False, null="NA", skip=1, names=("a", "b"), types=(("a", INTEGER),)
    )
    found = sniff(path, given)
    assert [(column.name, str(column.type)) for column in found.schema.columns] == [
        ("a", "INTEGER"),
        ("b", "VARCHAR"),
    ]
    assert (found.options.delimiter, found.options.skip, found.options.header) == (";", 1, False)
    assert (
        sniff(path, CsvHints(skip=1, text_only=True, types=(("column0", DOUBLE),))).schema.types[0] == DOUBLE
    )


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xff\xfe\x00a,\x80\n")
    with pytest.raises(OperationalError, match=r"cannot read .*t\.csv as CSV"):
        sniff(path, CsvHints())
