"""COPY in Postgres' own forms: what is written, what is read back, what is refused.

What is expected of files are Postgres' rules, written out.
"""

from pathlib import Path

import pytest

import kpg
from kpg.api.database import Database


@pytest.fixture
def db() -> Database:
    made = kpg.connect()
    made.sql("create table t (a int, b text default 'none', c boolean, n serial)")
    return made


def rows(db: Database, columns: str = "a, b, c") -> list[tuple[object, ...]]:
    return db.query(f"select {columns} from t order by n").fetchall()


def test_text_has_backslashes_for_what_would_end_a_field(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    db.sql("insert into t values (1, E'a\\tb\\\\c\\nd', true), (null, null, false), (2, '\\N', null)")
    db.sql(f"copy (select a, b, c from t order by n) to '{file}'")
    assert file.read_text() == "1\ta\\tb\\\\c\\nd\tt\n\\N\t\\N\tf\n2\t\\\\N\t\\N\n"
    before = rows(db)
    db.sql(f"delete from t; copy t (a, b, c) from '{file}'")
    assert rows(db) == before


def test_text_is_read_with_escapes_and_ends_at_a_dot(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_text("1|\\x41\\102\\|z|yes\n2|<null>|off\n3|a\\\nb|t\n\\.\nnothing|of|this\n")
    db.sql(f"copy t (a, b, c) from '{file}' with (delimiter '|', null '<null>')")
    assert rows(db) == [(1, "AB|z", True), (2, None, False), (3, "a\nb", True)]


def test_columns_that_are_not_listed_take_their_defaults(db: Database, tmp_path: Path) -> None:
    for name, options in (("t.csv", ""), ("t.txt", ""), ("u.csv", "(escape '!')")):
        file = tmp_path / name
        file.write_text("7\n8\n")
        db.sql(f"truncate t restart identity; copy t (a) from '{file}' {options}")
        assert rows(db, "a, b, c, n") == [(7, "none", None, 1), (8, "none", None, 2)]


def test_fields_may_stand_for_defaults(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('1,\\D\n2,"\\D"\n3,x\n')
    db.sql(f"copy t (a, b) from '{file}' (format csv, header false, default '\\D')")
    assert rows(db, "a, b") == [(1, "none"), (2, "\\D"), (3, "x")]


def test_csv_with_quotes_that_are_forced_and_escaped(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    db.sql("insert into t values (1, 'it''s', true), (2, '', null), (3, null, false), (4, 'a;b', true)")
    options = "(format csv, header, quote '''', escape '!', delimiter ';', force_quote (a))"
    db.sql(f"copy (select a, b, c from t order by n) to '{file}' {options}")
    assert file.read_text() == "a;b;c\n'1';'it!'s';t\n'2';'';\n'3';;f\n'4';'a;b';t\n"
    before = rows(db)
    options = "(format csv, header match, quote '''', escape '!', delimiter ';')"
    db.sql(f"delete from t; copy t (a, b, c) from '{file}' {options}")
    assert rows(db) == before
    with pytest.raises(kpg.DataError, match="the header is"):
        db.sql(f"copy t (a, c, b) from '{file}' {options}")


def test_null_may_be_forced_or_not(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('1,\n2,""\n')
    db.sql(f"copy t (a, b) from '{file}' csv force not null b")
    db.sql(f"copy t (a, b) from '{file}' (format csv, header false, force_null (b))")
    assert rows(db, "a, b") == [(1, ""), (2, ""), (1, None), (2, None)]


def test_older_ways_to_write_options(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    db.sql("insert into t values (1, 'x', true)")
    db.sql(f"copy t (a, b) to '{file}' with csv header delimiter as ';' null as 'NIL' force quote *")
    assert file.read_text() == 'a;b\n"1";"x"\n'
    assert db.query("copy t (a, b, c) to stdout").fetchall() == [("1\tx\tt",)]
    assert db.query("copy (select 1 as x, null as y) to stdout csv header").fetchall() == [("x,y",), ("1,",)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("copy t from stdin", "COPY FROM STDIN needs a client"),
        ("copy t from program 'ls'", "COPY with a PROGRAM is not supported"),
        ("copy t to 'x.csv' (format xml)", 'unknown COPY format "xml"'),
        ("copy t to 'x.csv' (colour 'red')", 'unknown COPY option "colour"'),
        ("copy t to 'x.txt' (quote '!')", 'option "quote" is for CSV only'),
        ("copy t to 'x.txt' (delimiter '||')", 'option delimiter is "||", not one character'),
        ("copy (delete from t) to 'x.csv'", "COPY of anything but a query"),
        ("copy (select 1) from 'x.csv'", "COPY FROM needs a table"),
        ("copy t from 'nowhere.txt'", "no file nowhere.txt"),
        ("copy t (a, zz) from 'nowhere.txt'", 'column "zz" is not in the table'),
    ],
)
def test_what_is_refused(db: Database, text: str, message: str) -> None:
    with pytest.raises(kpg.Error) as caught:
        db.sql(text)
    assert message in str(caught.value)


def test_lines_with_too_few_fields_are_named(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_text("1\tx\n2\n")
    with pytest.raises(kpg.DataError, match="line 2: 1 fields for 2 columns"):
        db.sql(f"copy t (a, b) from '{file}'")
    assert rows(db) == []


def test_lines_behind_the_statement_are_its_rows(db: Database) -> None:
    db.sql(
        "copy t (a, b) from stdin;\n1\tit's; x\n2\t\\N\n\\.\ninsert into t values (3, 'c');\n"
        'copy t (b, a) from stdin with (format csv);\n"q, r",4\n\\.\n\ncopy t (a) from stdin;\n\\.\n'
    )
    assert rows(db, "a, b") == [(1, "it's; x"), (2, None), (3, "c"), (4, "q, r")]
    with pytest.raises(kpg.ProgrammingError) as caught:
        db.sql("copy t (a) from stdin;\n1\n\\.\nselect nope from t")
    assert str(caught.value).startswith('column "nope" does not exist\nline 4: select nope from t')
