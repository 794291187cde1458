"""Extensions: the one of docs/howto/extend.md, installed as a package, and what the page leaves out."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

import kpg
from kpg.extensions import Extension, Kind, Reader, SessionStatement, execute
from kpg.runtime.errors import Span
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, TEXT
from tests.markdown import blocks
from tests.unit.server.conftest import serving

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "extend.md"
PACKAGE = next(one.code for one in blocks(PAGE.read_text(encoding="utf-8")) if one.language == "python")
ENTRY_POINT = next(one.code for one in blocks(PAGE.read_text(encoding="utf-8")) if one.language == "toml")

letters = Extension("letters", "2.1")
letter = letters.type("letter", lambda text: ord(text), chr)
ORDER = "abcxyz"
LISTED = "select proname, prokind from pg_proc where proname in ('code_of', 'spelled') order by 1"


@letters.function([letter], BIGINT, columns=True)
def code_of(words: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    if (words == ord("z")).any():
        raise ValueError("z has no code")
    return words * 1


@letters.function([letter, INTEGER], TEXT, nulls=True)
def repeated(word: int | None, times: int | None) -> str:
    return "none" if word is None or times is None else chr(word) * times


@letters.function([letter], INTEGER, name="length")
def length(word: int) -> int:
    return 1


@letters.function([letter, letter], BOOLEAN)
def adjacent(left: int, right: int) -> bool:
    return abs(left - right) == 1


@letters.aggregate([letter], TEXT, name="spelled")
class Spelled:
    """The letters in their order, recomputed: it cannot subtract."""

    def initialize(self) -> list[int]:
        return []

    def add(self, state: list[int], word: int) -> list[int]:
        return sorted([*state, word])

    def merge(self, state: list[int], other: list[int]) -> list[int]:
        return sorted(state + other)

    def finish(self, state: list[int]) -> str:
        return "".join(map(chr, state))


@letters.relation("vowels", [("name", TEXT), ("value", letter)])
def vowels(catalog: object) -> Iterator[tuple[str, int]]:
    yield "first", ord("a")
    yield "last", ord("u")


@dataclass(frozen=True)
class Spell(SessionStatement, tag="SPELL"):
    text: str
    span: Span


def parse_spell(reader: Reader) -> Spell:
    reader.expect("SPELL")
    found = Spell(reader.string(), reader.span)
    reader.expect_end()
    return found


@letters.statement("spell", Spell, parse_spell, Kind.CHANGE)
def spell(engine: Any, statement: Spell) -> None:
    for place, character in enumerate(statement.text):
        execute(engine, f"insert into t values ({place}, '{character}')")


@pytest.fixture
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as one:
        one.sql("create extension letters; create table t (id int primary key, l letter)")
        one.sql("insert into t values (1, 'b'), (2, 'a'), (3, null), (4, 'x')")
        yield one


def rows(db: kpg.Database, text: str) -> list[tuple[Any, ...]]:
    result = db.sql(text)
    assert result is not None
    return result.fetchall()


def failure(db: kpg.Database, text: str) -> str:
    with pytest.raises(kpg.Error) as caught:
        db.sql(text)
    return str(caught.value)


def test_values_compare_as_their_words(db: kpg.Database) -> None:
    assert rows(db, "select l from t order by l desc nulls last") == [("x",), ("b",), ("a",), (None,)]
    assert rows(db, "select min(l), max(l), count(distinct l) from t") == [("a", "x", 3)]
    assert rows(db, "select id from t where l between 'a' and 'c' order by id") == [(1,), (2,)]
    assert rows(db, "select l::text || '!', array[l], (l, 1) from t where l = 'b'") == [
        ("b!", ["b"], ("b", 1))
    ]


def test_functions_with_nulls_and_errors(db: kpg.Database) -> None:
    assert rows(db, "select code_of(l) from t order by id") == [(98,), (97,), (None,), (120,)]
    assert rows(db, "select repeated(l, 2) from t order by id") == [("bb",), ("aa",), ("none",), ("xx",)]
    assert rows(db, "select length(l), length('abc') from t where id = 1") == [(1, 3)]
    assert rows(db, "select adjacent('a', 'b'), adjacent('a', null)") == [(True, None)]
    db.sql("insert into t values (5, 'z')")
    assert rows(db, "select code_of(l) from t where l < 'z' order by id") == [(98,), (97,), (120,)]
    assert "code_of" in failure(db, "select code_of(l) from t")
    assert failure(db, "insert into t values (6, 'no')").startswith(
        'invalid input syntax for type letter: "no"'
    )
    assert "code_of does not take (INTEGER)" in failure(db, "select code_of(1)")


def test_views_after_each_change(db: kpg.Database) -> None:
    db.sql("create materialized view v as select code_of(l) < 100 as low, spelled(l) as s from t group by 1")
    db.sql(
        "create materialized view w as select l, count(*) as n from t where repeated(l, 1) <> 'a' group by l"
    )
    model = {1: "b", 2: "a", 3: None, 4: "x"}
    for change in (
        "insert into t values (5, 'a')",
        "delete from t where id = 2",
        "update t set l = 'y' where id = 1",
        "delete from t where l = 'a'",
        "delete from t",
    ):
        db.sql(change)
        model = dict(rows(db, "select id, l from t"))
        known = sorted(filter(None, model.values()))
        low, high = "".join(one for one in known if one < "d"), "".join(one for one in known if one > "d")
        expected: list[tuple[bool | None, str | None]] = []
        expected += [(False, high)] * bool(high) + [(True, low)] * bool(low)
        expected += [(None, None)] * (None in model.values())
        assert rows(db, "select * from v order by low") == expected
        assert rows(db, "select * from w where l is not null order by l") == sorted(
            (one, known.count(one)) for one in {*known} - {"a"}
        )
        db.verify("v")
        db.verify("w")


def test_system_relation_and_statement(db: kpg.Database) -> None:
    assert rows(db, "select name from vowels where value > 'b'") == [("last",)]
    db.sql("delete from t")
    db.sql("spell 'cab'")
    assert rows(db, "select spelled(l) from t") == [("abc",)]
    db.sql("begin; delete from t; spell 'x'; rollback")
    assert rows(db, "select spelled(l) from t") == [("abc",)]
    assert rows(db, "select extname, extversion from pg_extension order by 1") == [
        ("letters", "2.1"),
        ("plpgsql", "1.0"),
    ]
    assert rows(db, "select typtype, typcategory from pg_type where typname = 'letter'") == [("b", "U")]
    assert rows(db, LISTED) == [("code_of", "f"), ("spelled", "a")]


def test_arrow_columns_are_texts(db: kpg.Database) -> None:
    table = db.sql("select l from t order by id").arrow()  # type: ignore[union-attr]
    assert table["l"].to_pylist() == ["b", "a", None, "x"]
    db.sql("create table u (id int, l letter)")
    db.insert("u", table.append_column("id", [[1, 2, 3, 4]]).select(["id", "l"]))
    assert rows(db, "select id from u where l = 'x'") == [(4,)]


def test_a_database_without_the_extension_lacks_its_names() -> None:
    with kpg.connect() as plain:
        assert 'type "letter" does not exist' in failure(plain, "create table t (l letter)")
        assert rows(plain, LISTED) == []
        assert "CREATE EXTENSION letters defines it" in failure(plain, "select repeated(null, 1)")
        assert "CREATE EXTENSION letters defines it" in failure(plain, "select spelled(null)")
        assert 'relation "vowels" does not exist' in failure(plain, "select * from vowels")
        assert "hint: CREATE EXTENSION letters" in failure(plain, "spell 'a'")
        assert 'extension "nothing" is not available' in failure(plain, "create extension nothing")
        assert 'extension "letters" does not exist' in failure(plain, "drop extension letters")
        plain.sql("drop extension if exists letters")
        plain.sql("begin; create extension letters; create table t (l letter); rollback")
        assert 'type "letter" does not exist' in failure(plain, "create table t (l letter)")


def test_dropping_an_extension(db: kpg.Database) -> None:
    assert 'extension "letters" already exists' in failure(db, "create extension letters")
    db.sql("create extension if not exists letters")
    for made, name in {
        "create table a (l letter)": "table a",
        "create view a as select repeated(null, 1) as r": "view a",
        "create domain a as letter": "domain a",
        "create table a (r text default repeated(null, 1))": "table a",
    }.items():
        db.sql("drop table if exists t")
        db.sql(made)
        assert "cannot be dropped" in failure(db, "drop extension letters")
        db.sql(f"drop {name}")
    db.sql("drop extension letters")
    assert "unknown function" in failure(db, "select repeated(null, 1)")
    db.sql("create extension letters; create table t (l letter)")


def test_only_a_superuser_creates_extensions(db: kpg.Database) -> None:
    db.sql("create role ada; set role ada")
    assert 'permission denied to create extension "letters"' in failure(db, "create extension letters")
    assert 'permission denied to drop extension "letters"' in failure(db, "drop extension letters")


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda: Extension("No Name"), "no name of an extension"),
        (lambda: letters.function([TEXT], TEXT, name="lower")(str), '"lower" is a function already'),
        (
            lambda: letters.function([TEXT], TEXT, name="string_agg")(str),
            '"string_agg" is a function already',
        ),
        (lambda: letters.aggregate([letter], letter, name="sum")(Spelled), '"sum" is a function already'),
        (lambda: letters.function([TEXT], TEXT, columns=True)(str), "words without NULLs, not texts"),
    ],
)
def test_definitions_that_are_refused(define: Any, message: str) -> None:
    with pytest.raises(kpg.InterfaceError, match=message):
        define()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with the page's extension, for processes that the test starts."""
    folder = tmp_path / "packages"
    information = folder / "kpg_colors-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "kpg_colors.py").write_text(PACKAGE, encoding="utf-8")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: kpg-colors\nVersion: 1.0\n")
    section, line = ENTRY_POINT.strip().splitlines()
    assert section == '[project.entry-points."kpg.extensions"]'
    (information / "entry_points.txt").write_text(f"[kpg.extensions]\n{line.replace(chr(34), '')}\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


MAKE = """
create extension colors;
create table dot (id int primary key, c color);
create materialized view mixed as select blend(c) as c, sum(brightness(c))::bigint as b from dot;
insert into dot values (1, '#ff0000'), (2, '#0000ff'), (3, '#00ff00');
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_an_installed_package_in_fresh_processes(package: Path, tmp_path: Path, workers: int) -> None:
    connect = f"import kpg\ndb = kpg.connect({str(tmp_path / 'db')!r}, workers={workers})\n"
    made = run(f"{connect}db.sql({MAKE!r})\nprint(db.sql('select * from mixed').fetchall())\ndb.close()")
    assert made.stdout == "[('#555555', 765)]\n", made.stderr
    changed = (
        "db.sql('delete from dot where id = 1')\nprint(db.sql('select * from mixed').fetchall())\ndb.close()"
    )
    again = run(f"{connect}{changed}")
    assert again.stdout == "[('#007f7f', 510)]\n", again.stderr


def test_a_folder_without_its_extension(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = f"import kpg\ndb = kpg.connect({str(tmp_path / 'db')!r})\n"
    assert run(f"{connect}db.sql({MAKE!r})\ndb.sql('checkpoint')\ndb.close()").returncode == 0
    monkeypatch.delenv("PYTHONPATH")
    refused = run(connect)
    assert 'the folder needs the extension "colors", which is not installed' in refused.stderr
    monkeypatch.setenv("PYTHONPATH", str(package))
    assert run(f"{connect}assert db.sql('select b from mixed').fetchone() == (765,)").returncode == 0


def test_a_client_of_a_server() -> None:
    with serving() as running, psycopg.connect(running.dsn, autocommit=True) as client:
        assert client.execute("create extension letters").statusmessage == "CREATE EXTENSION"
        client.execute("create table t (id int primary key, l letter)")
        client.execute("create materialized view v as select spelled(l) as s, min(l) as l from t")
        client.cursor().executemany("insert into t values (%s, %s)", [(1, "b"), (2, "a"), (3, "c")])
        assert client.execute("select * from v").fetchall() == [("abc", "a")]
        client.execute("delete from t where l = %s", ["a"])
        assert client.execute("select * from v").fetchall() == [("bc", "b")]
        assert client.execute("select l from t where l > %s", ["b"], binary=True).fetchall() == [(b"c",)]
        assert client.execute("spell 'x'").statusmessage == "SPELL"
