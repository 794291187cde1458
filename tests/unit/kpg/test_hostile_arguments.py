"""Hostile names and texts as arguments of every public method: taken for what they are, or a clear error.

The methods are found by introspection: one that is not listed here fails a test. Whatever is given, a table
that stands by, and a view of it, stay what they are, and nothing but a ``kpg`` error comes out, which is not
one of the engine's own.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

import kpg
import kpg.aio
import kpg.dbapi
from kpg.api.database import Database
from kpg.api.ego import EgoView
from kpg.api.view import View
from kpg.session.session import Session
from tests.hostile import HOSTILE

Call = Callable[[Any, str], Any]
NOTHING: Final = ()
"""Of a method that takes no name and no text of the user's."""
SOME: Final = {"a": [1, 2], "b": ["x", "y"]}


DATABASE: Final[dict[str, tuple[Call, ...]]] = {
    "advance_to": (lambda db, text: db.advance_to(text),),
    "arrangements": NOTHING,
    "backup": (lambda db, text: db.backup(text),),
    "batch": NOTHING,
    "branch": NOTHING,
    "close": NOTHING,
    "create_function": (
        lambda db, text: db.create_function(text, lambda one: one, ["bigint"], "bigint"),
        lambda db, text: db.create_function("f", lambda one: one, [text], "bigint"),
        lambda db, text: db.create_function("f", lambda one: one, ["bigint"], text),
    ),
    "create_table": (
        lambda db, text: db.create_table("file", text),
        lambda db, text: made(db, text, lambda: db.create_table(text, SOME)),
        lambda db, text: db.create_table("c", {text: [1], "b": [2]}),
        lambda db, text: db.create_table("d", SOME, primary_key=[text]),
        lambda db, text: told(db, db.create_table("e", {"a": [text]}), "e", text),
    ),
    "dataflow": (lambda db, text: db.dataflow(text).drop(),),
    "datalog": (
        lambda db, text: db.datalog(text),
        lambda db, text: db.datalog(f'.decl p(x: symbol)\np("{text}").\n.output p\n'),
        lambda db, text: db.datalog(".decl p(x: symbol)\n.output p\n", filename=text),
        lambda db, text: db.datalog(".decl p(x: symbol)\n.input p\n.output p\n", facts=text),
        lambda db, text: db.datalog(f'.include "{text}"\n', include=[text]),
        lambda db, text: db.datalog(".decl p(x: number)\n.output p\n", macros={text: text}),
    ),
    "delete": (
        lambda db, text: db.delete(text, [(1,)]),
        lambda db, text: db.delete("other", {text: [1]}),
        lambda db, text: db.delete("other", {"b": [text]}),
        lambda db, text: db.delete("other", {"a": [7]}, position=(text, 1)),
    ),
    "draw": (lambda db, text: db.draw(text),),
    "drop_function": (lambda db, text: db.drop_function(text),),
    "ego": (
        lambda db, text: db.ego(text, edges="edge", writes="write"),
        lambda db, text: db.ego("e", edges=text, writes="write"),
        lambda db, text: db.ego("e", edges="edge", writes=text),
        lambda db, text: db.ego("e", edges="edge", writes="write", aggregate=text),
        lambda db, text: db.ego("e", edges="edge", writes="write", neighbourhood=text),
        lambda db, text: db.ego("e", edges="edge", writes="write", where=text),
        lambda db, text: db.ego("e", edges="edge", writes="write", readers=text),
        lambda db, text: db.ego("e", edges="edge", writes="write", readers=[text]),
        lambda db, text: db.ego("e", edges="edge", writes="write", continuous=text),
        lambda db, text: db.ego("e", edges="edge", writes="write", mode=text),
        lambda db, text: db.ego("e", edges="edge", writes="write", overlay=text),
        lambda db, text: db.ego("e", edges="edge", writes="write", window=text),
        lambda db, text: db.ego("e", edges="edge", writes="write", window=("range", text)),
        lambda db, text: db.ego("e", edges="edge", writes="write", returns=text),
    ),
    "epochs": NOTHING,
    "explain": (
        lambda db, text: db.explain(text),
        lambda db, text: db.explain("select 1", text),
    ),
    "explain_absence": (
        lambda db, text: db.explain_absence(text, (1,)),
        lambda db, text: db.explain_absence("seen", {text: 1}),
        lambda db, text: db.explain_absence("seen", (7, text)),
    ),
    "explain_row": (
        lambda db, text: db.explain_row(text, (1,)),
        lambda db, text: db.explain_row("seen", {text: 1}),
        lambda db, text: db.explain_row("seen", (1, text)),
    ),
    "explanations": (
        lambda db, text: list(db.explanations(text)),
        lambda db, text: list(db.explanations("select 1", text)),
    ),
    "foreach_batch": (
        lambda db, text: db.foreach_batch("other", "s", text),
        lambda db, text: db.foreach_batch(text, "s")(SOME, 1),
        lambda db, text: db.foreach_batch("other", text)(SOME, 1),
    ),
    "insert": (
        lambda db, text: db.insert(text, [(1,)]),
        lambda db, text: db.insert("other", {text: [1], "b": ["x"]}),
        lambda db, text: told(db, db.insert("other", [(1, text)]), "other", text),
        lambda db, text: db.insert("other", [(text, "x")]),
        lambda db, text: db.insert("other", SOME, position=(text, text)),
    ),
    "load": (
        lambda db, text: db.load(text, SOME),
        lambda db, text: db.load("other", text, "arrow"),
        lambda db, text: db.load("other", SOME, text),
        lambda db, text: db.load("other", SOME, position=(text, 1)),
    ),
    "load_all": (
        lambda db, text: db.load_all({text: SOME}),
        lambda db, text: db.load_all({"other": text}, "arrow"),
        lambda db, text: db.load_all({"other": SOME}, text),
    ),
    "names": NOTHING,
    "operators": NOTHING,
    "positions": NOTHING,
    "prepare": (lambda db, text: db.prepare(text),),
    "query": (
        lambda db, text: same(db.query("select $1::text", [text]).fetchall()[0][0], text),
        lambda db, text: same(db.query("select :x::text", {"x": text}).fetchall()[0][0], text),
        lambda db, text: db.query("select :x", {text: 1}),
    ),
    "script": (lambda db, text: list(db.script("select $1::text", [text])),),
    "session": (lambda db, text: db.session(text),),
    "set_position": (
        lambda db, text: db.set_position(text, 1),
        lambda db, text: db.set_position("s", text),
    ),
    "sql": (
        lambda db, text: db.sql("insert into other values (1, $1)", [text]),
        lambda db, text: db.sql("select * from other where b = $1", [text]),
        lambda db, text: db.sql("select * from other limit $1", [text]),
        lambda db, text: made(db, text, lambda: db.sql(f"create table {quoted(text)} (a int)")),
    ),
    "step": NOTHING,
    "tables": NOTHING,
    "transaction": NOTHING,
    "upsert": (
        lambda db, text: db.upsert(text, [(1,)]),
        lambda db, text: db.upsert("keyed", {text: [1], "b": ["x"]}),
        lambda db, text: db.upsert("keyed", [(1, text)]),
        lambda db, text: db.upsert("keyed", [(1, "x")], position=(text, 1)),
    ),
    "verify": (lambda db, text: db.verify(text),),
    "view": (lambda db, text: db.view(text),),
    "views": NOTHING,
    "workers": NOTHING,
}
SESSION: Final[dict[str, tuple[Call, ...]]] = {
    "run_text": NOTHING,  # as sql, within the engine's thread
    "cancel": NOTHING,
    "close": NOTHING,
    "execute": NOTHING,  # takes a statement that was parsed
    "job_options": (lambda one, text: one.job_options("select $1", [text]),),
    "begin_implicit": NOTHING,
    "notifications": NOTHING,
    "parse": (
        lambda one, text: list(one.parse(text)),
        lambda one, text: list(one.parse("select $1", [text])),
    ),
    "end_implicit": NOTHING,
    "run_statement": NOTHING,  # takes a statement that was parsed
    "prepare_change": NOTHING,  # as sql, within the engine's thread
    "run": NOTHING,
    "sql": (
        lambda one, text: same(one.sql("select $1::text", [text]).fetchall()[0][0], text),
        lambda one, text: one.sql("select :x", {text: 1}),
        lambda one, text: one.sql("insert into other values (1, :x)", {"x": text}),
    ),
    "submit": NOTHING,  # takes a statement that was parsed
}
VIEW: Final[dict[str, tuple[Call, ...]]] = {
    "arrow": NOTHING,
    "as_of": (lambda one, text: one.as_of(text),),
    "changes": (lambda one, text: list(one.changes(since=text)),),
    "df": NOTHING,
    "explain": (lambda one, text: one.explain(text),),
    "fetchall": NOTHING,
    "fetchmany": NOTHING,
    "fetchone": NOTHING,
    "part": NOTHING,
    "pl": NOTHING,
    "result": NOTHING,
    "subscribe": (lambda one, text: one.subscribe(print, since=text),),
    "to_spark": NOTHING,
}
EGO: Final[dict[str, tuple[Call, ...]]] = {
    "decide": NOTHING,
    "read": (lambda one, text: one.read(text),),
    "read_many": (lambda one, text: one.read_many([text]),),
    "subscribe": NOTHING,
}
CONNECTION: Final[dict[str, tuple[Call, ...]]] = {
    "begin": NOTHING,
    "close": NOTHING,
    "commit": NOTHING,
    "cursor": NOTHING,
    "rollback": NOTHING,
}
CURSOR: Final[dict[str, tuple[Call, ...]]] = {
    "close": NOTHING,
    "execute": (
        lambda one, text: same(one.execute("select cast(? as text)", (text,)).fetchone()[0], text),
        lambda one, text: one.execute("select ?", {text: 1}),
        lambda one, text: one.execute("insert into other values (1, ?)", [text]),
    ),
    "executemany": (lambda one, text: one.executemany("insert into other values (1, ?)", [[text], [text]]),),
    "fetchall": NOTHING,
    "fetchmany": NOTHING,
    "fetchone": NOTHING,
    "nextset": NOTHING,
    "setinputsizes": NOTHING,
    "setoutputsize": NOTHING,
}
AIO_DATABASE: Final[dict[str, tuple[Call, ...]]] = {
    "close": NOTHING,
    "run": NOTHING,
    "session": (lambda one, text: one.session(text),),
    "sql": (
        lambda one, text: one.sql("select $1::text", [text]),
        lambda one, text: one.sql("select :x", {text: 1}),
    ),
    "subscribe": (
        lambda one, text: anext(one.subscribe(text)),
        lambda one, text: anext(one.subscribe("seen", since=text)),
    ),
}
AIO_SESSION: Final[dict[str, tuple[Call, ...]]] = {
    "close": NOTHING,
    "sql": (lambda one, text: one.sql("select $1::text", [text]),),
    "transaction": (lambda one, text: one.transaction(text).__aenter__(),),
}
LISTED: Final = (
    (Database, DATABASE),
    (Session, SESSION),
    (View, VIEW),
    (EgoView, VIEW | EGO),
    (kpg.dbapi.Connection, CONNECTION),
    (kpg.dbapi.Cursor, CURSOR),
    (kpg.aio.Database, AIO_DATABASE),
    (kpg.aio.Session, AIO_SESSION),
)


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def same(found: Any, expected: str) -> None:
    """The value that was given is the value that comes back."""
    assert found == expected


def told(db: Database, count: int, table: str, text: str) -> None:
    """The text is in the table, as it is."""
    assert count == 1
    assert (text,) in db.query(f"select {'a' if table == 'e' else 'b'} from {table}").fetchall()
    db.sql("drop table if exists e")


def made(db: Database, name: str, make: Callable[[], Any]) -> None:
    """A table of exactly that name, and no other, is made."""
    before = db.names()
    make()
    assert db.names() - before == {name}
    assert db.query("select relname from pg_class where relname = $1", [name]).fetchall() == [(name,)]
    db.sql(f"drop table {quoted(name)}")


def world() -> Database:
    """A database with a victim, and with what calls may change."""
    db = kpg.connect()
    db.sql(
        "create table victim (a int, b text); insert into victim values (1, 'one'), (2, 'two');"
        " create materialized view seen as select a, b from victim;"
        " create table other (a bigint, b text); create table keyed (a bigint primary key, b text);"
        " create table edge (source bigint, target bigint); insert into edge values (1, 2);"
        " create table write (at bigint, node bigint, value bigint); insert into write values (1, 2, 3)"
    )
    return db


MINE: Final = {"victim", "seen", "other", "keyed", "edge", "write"}
ROWS: Final = [(1, "one"), (2, "two")]


def check(db: Database, what: str) -> None:
    """The victim is what it was, and all that was there is there."""
    assert sorted(db.query("select a, b from victim").fetchall()) == ROWS, what
    assert sorted(db.view("seen").fetchall()) == ROWS, what
    assert db.names() >= MINE, what


def attempt(call: Call, target: Any, text: str) -> None:
    """Call it: an error is one that tells the user something, and none of ours."""
    try:
        call(target, text)
    except kpg.InternalError:
        raise
    except kpg.Error as error:
        assert str(error)


def attempts(
    call: Call, target: Any, clean: Callable[[], object] = lambda: None, texts: Sequence[str] = HOSTILE
) -> list[str]:
    """Call it with every text: what came out that should not."""
    wrong = []
    for text in texts:
        try:
            attempt(call, target, text)
        except Exception as error:
            source = inspect.getsource(call).strip()[:120]
            wrong.append(f"{source} with {text[:60]!r}: {type(error).__name__}: {str(error)[:120]}")
        clean()
    return wrong


@pytest.mark.parametrize(("class_", "listed"), LISTED, ids=[class_.__name__ for class_, _ in LISTED])
def test_every_public_method_is_listed(class_: type, listed: dict[str, Any]) -> None:
    known = {name: getattr(class_, name) for name in dir(class_) if not name.startswith("_")}
    found = {name for name, one in known.items() if callable(one) and not isinstance(one, type)}
    assert found == set(listed)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files that a name may mean are in a folder of the test's."""
    monkeypatch.chdir(tmp_path)
    yield


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name, calls in DATABASE.items() if calls])
def test_of_a_database(method: str) -> None:
    kind = "view" if method == "ego" else "table"

    def clean() -> None:
        """Drop what a call has made under a name that was given to it."""
        for name in db.names() - MINE:
            with suppress(kpg.Error):
                db.sql(f"drop {kind} {quoted(name)}")

    with world() as db:
        texts = HOSTILE[::3] if method == "ego" else HOSTILE  # each makes views
        wrong = [one for call in DATABASE[method] for one in attempts(call, db, clean, texts)]
        check(db, method)
    assert not wrong, "\n".join(wrong)


def test_of_sessions_views_and_cursors() -> None:
    with world() as db, kpg.dbapi.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("create table other (a bigint, b text)")
        session, view = db.session(), db.view("seen")
        ego = db.ego("e", edges="edge", writes="write", window=2)
        wrong = []
        targets = ((SESSION, session), (VIEW, view), (CURSOR, cursor), (VIEW | EGO, ego))
        for listed, target in targets:
            for calls in listed.values():
                wrong += [one for call in calls for one in attempts(call, target)]
        check(db, "sessions, views and cursors")
        session.close()
    assert not wrong, "\n".join(wrong)


def test_of_asyncio() -> None:
    async def ask() -> None:
        async with kpg.aio.connect() as db:
            await db.sql("create table victim (a int, b text)")
            await db.sql("create materialized view seen as select a, b from victim")
            async with db.session() as session:
                for listed, target in ((AIO_DATABASE, db), (AIO_SESSION, session)):
                    for calls in listed.values():
                        for call in calls:
                            for text in HOSTILE:
                                await attempted(call, target, text)
            found = await db.sql("select count(*) from victim")
            assert found is not None
            assert found.fetchall() == [(0,)]

    asyncio.run(ask())


async def attempted(call: Call, target: Any, text: str) -> None:
    """As :func:`attempt`, awaited."""
    try:
        given = call(target, text)
        if inspect.isawaitable(given):
            async with asyncio.timeout(20):
                await given
    except kpg.InternalError:
        raise
    except (kpg.Error, StopAsyncIteration) as error:
        assert not isinstance(error, kpg.Error) or str(error)


NOT_TEXTS: Final = (None, 7, 1.5, b"x", [1], {}, object())
RIGHT: Final[dict[str, Any]] = {
    **dict.fromkeys(("text", "query"), "select 1"),
    **dict.fromkeys(("data", "row", "source", "edges", "writes"), "t"),
    "function": len,
}


def text_parameters() -> Iterator[tuple[type, str, str]]:
    """The classes of the public API, their methods and the parameters that are texts."""
    for owner in (Database, View, Session, kpg.dbapi.Connection, kpg.dbapi.Cursor):
        for name in dir(owner):
            method = getattr(owner, name)
            # The server calls the other methods of a session.
            if name.startswith("_") or not inspect.isfunction(method) or (owner is Session and name != "sql"):
                continue
            for parameter in inspect.signature(method).parameters.values():
                if parameter.annotation in (str, "str"):
                    yield owner, name, parameter.name


@pytest.mark.parametrize(("owner", "method", "parameter"), sorted(text_parameters(), key=str))
def test_what_is_no_text_is_refused_by_name(owner: type, method: str, parameter: str) -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); create materialized view v as select a from t")
        connection = kpg.dbapi.connect()
        owners = (db, db.view("v"), db.session(), connection, connection.cursor())
        one = next(each for each in owners if type(each) is owner)
        bound = getattr(one, method)
        given = {
            each.name: RIGHT.get(each.name, "v")
            for each in inspect.signature(bound).parameters.values()
            if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        }
        for value in NOT_TEXTS:
            with pytest.raises(kpg.Error) as caught:
                list(bound(**given | {parameter: value}))
            assert not isinstance(caught.value, kpg.InternalError)


@pytest.mark.parametrize("value", [None, "2", 1.5, [1], True, object()])
def test_a_number_of_workers_is_a_number(value: Any) -> None:
    with pytest.raises(kpg.InterfaceError, match=r"^workers is "):
        kpg.connect(workers=value)
