"""Names of any letters, wherever a name goes into a text: each is a name and nothing else, or refused.

A table of another name stands by: whatever a name says, that table stays what it is.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

import kpg
from kpg.runtime.errors import DataError, ProgrammingError
from tests.unit.server.web.conftest import Web, web_of

PIECES = (
    *(
        '"',
        "'",
        ";",
        "--",
        "/*",
        "*/",
        "\\",
        "$$",
        "$1",
        ":a",
        "?",
        "%s",
        "{}",
        "(",
        ")",
        ",",
        " ",
        "\n",
        "\t",
    ),
    *(
        "<b>",
        "&amp;",
        "drop table victim;",
        "select",
        "victim",
        "é",
        "ﬀ",
        "İ",
        "“",
        "＂",
        "ʼ",
        "\u202e",
        "😀",
        "A",
        "x",
    ),
)
NAMES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join)
LONG = st.lists(st.sampled_from(PIECES), min_size=60, max_size=80).map("".join)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def filled(db: kpg.Database, name: str) -> None:
    """A table of that name with a column of that name, and a view over it."""
    db.sql("create table victim (a int); insert into victim values (1)")
    db.create_table(name, {name: [1, 2, 3], name + "2": ["x", name, "z"]}, primary_key=[name])
    one, two = quoted(name), quoted(name + "2")
    db.sql(f"create materialized view {quoted(name + '!')} as select {one}, {two} from {one} where {one} < 3")


@settings(max_examples=12)
@given(st.one_of(NAMES, LONG))
def test_python_takes_them_as_names(name: str) -> None:
    view = name + "!"
    with kpg.connect() as db:
        filled(db, name)
        assert db.insert(name, [(4, "w"), (0, "v")]) == 2
        assert db.insert(name, {name: [5], name + "2": ["u"]}) == 1
        assert db.delete(name, {name: [5]}) == 1
        assert db.upsert(name, [(4, name)]) == 1
        assert sorted(db.view(view).fetchall()) == [(0, "v"), (1, "x"), (2, name)]
        heard: list[Any] = []
        db.view(view).subscribe(heard.append)
        db.insert(name, [(-1, name)])
        assert [row for change in heard for row, _, _ in change] == [(-1, name)]
        proof = db.explain_row(view, {name: 2})
        assert [node.row for node in proof.nodes() if node.kind.value == "source"] == [(2, name)]
        assert db.explain_absence(view, (7, "x")).relation == view
        db.verify(view)
        assert db.query(
            f"select {quoted(name)} from {quoted(name)} where {quoted(name)} = $1", [4]
        ).fetchall() == [(4,)]
        assert {one[0] for one in db.tables().fetchall()} == {"victim", name}
        assert [one[0] for one in db.views().fetchall()] == [view]
        assert db.query("select * from victim").fetchall() == [(1,)]


@settings(max_examples=10)
@given(NAMES)
def test_dumps_and_catalogs_say_them_so_that_they_are_read_again(name: str) -> None:
    with kpg.connect() as db, kpg.connect() as other:
        filled(db, name)
        text = db.query(
            "select pg_get_viewdef(oid) from pg_class where relkind = 'm' and relname = $1", [name + "!"]
        ).fetchall()[0][0]
        filled(other, name)
        other.sql(f"create view again as {text}")
        assert sorted(other.query("select * from again").fetchall()) == [(1, "x"), (2, name)]


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with web_of() as one:
        one.sql("create table victim (a int); insert into victim values (1)")
        yield one


@settings(max_examples=10)
@given(name=NAMES)
def test_http_takes_them_as_names(web: Web, name: str) -> None:
    one, view = quoted(name), name + "!"
    try:
        assert web.sql(f"create table {one} ({one} int primary key); insert into {one} values (1)")[0] == 200
        made = web.sql(f"create materialized view {quoted(view)} as select {one} from {one}")
        assert made[0] == 200, made
        for path in (f"/relation?name={quote(name)}", f"/relation?name={quote(view)}&stage=logical"):
            status, _, data = web.ask("GET", path)
            assert (status, json.loads(data)["columns"][0]["name"]) == (200, name)
        found = web.rows(f"explain (row, format json) {quoted(view)} values (1)")
        assert found[0][0]["nodes"][0]["relation"] == view
        relations = json.loads(web.ask("GET", "/dataflow")[2])["shape"]["relations"]
        assert {one["kind"] for one in relations} <= {"table", "kept"}
        with psycopg.connect(web.running.dsn, autocommit=True) as client:
            copied = sql.SQL("copy {} from stdin").format(sql.Identifier(name))
            with client.cursor().copy(copied) as copy:
                copy.write_row((2,))
            query = sql.SQL("select {} from {} order by 1").format(*[sql.Identifier(name)] * 2)
            cursor = client.execute(query)
            assert cursor.description is not None
            assert (cursor.description[0].name, cursor.fetchall()) == (name, [(1,), (2,)])
            subscribed = sql.SQL("subscribe {} with (progress)").format(sql.Identifier(view))
            stream = client.cursor().stream(subscribed)
            assert next(stream) is not None
            stream.close()
    finally:
        web.sql(f"drop view if exists {quoted(view)}")
        web.sql(f"drop table if exists {one}")
    assert web.rows("select * from victim") == [[1]]


REFUSED: tuple[tuple[str, type[Exception]], ...] = (
    ("", ProgrammingError),
    ("a\0b", DataError),
    ("\ud800", DataError),
)


@pytest.mark.parametrize(("name", "error"), REFUSED)
@pytest.mark.parametrize(
    "text",
    [
        "create table {} (a int)",
        "create table t ({} int)",
        "select 1 as {}",
        "with {} as (select 1 as a) select a from {}",
        "create role {}",
        "create schema {}",
        "create sequence {}",
        "listen {}",
    ],
)
def test_what_no_name_can_be(text: str, name: str, error: type[Exception]) -> None:
    with kpg.connect() as db:
        with pytest.raises(error, match=r"a name has|is not Unicode|0x00"):
            db.sql(text.replace("{}", f'"{name}"'))
        assert db.names() == set()


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_python_refuses_it_too(name: str) -> None:
    makers: list[Callable[[kpg.Database], object]] = [
        lambda db: db.create_table(name, {"a": [1]}),
        lambda db: db.create_table("t", [{name: 1}]),
    ]
    for make in makers:
        with kpg.connect() as db:
            with pytest.raises((ProgrammingError, DataError)):
                make(db)
            assert db.names() == set()


@pytest.mark.parametrize("name", ["a.b", ".", "public.", "a..b"])
def test_a_dot_within_a_name_is_refused(name: str) -> None:
    with kpg.connect() as db:
        for text in ("create table {} (a int)", "create materialized view {} as select 1 as a"):
            with pytest.raises(kpg.Error, match="a name with a dot in it is not supported"):
                db.sql(text.replace("{}", f'"{name}"'))
        with pytest.raises(ProgrammingError):
            db.create_table(name, {"a": [1]})
        assert db.names() == set()
        db.create_table("public.t", {"a": [1]})
        assert [one[0] for one in db.tables().fetchall()] == ["t"]
