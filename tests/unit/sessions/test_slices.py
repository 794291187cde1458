"""Statements whose planning lets others in: at every checkpoint, here, if somebody waits."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

import kpg
from kpg.runtime import interrupts
from kpg.runtime.errors import CanceledError, InterfaceError, ProgrammingError
from kpg.session import scheduler
from kpg.session.session import Session
from tests.unit.sessions.conftest import rows
from tests.waiting import until

LONG = " + ".join(["a"] * 40)
"""An expression that has checkpoints."""


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(scheduler, "SLICE", 0.0)
    monkeypatch.setattr(interrupts, "EVERY", 0)
    yield
    interrupts._calls_left[0] = 0


@pytest.fixture
def db() -> kpg.Database:
    result = kpg.connect()
    result.sql("create table t (a int primary key, b int); insert into t values (1, 10), (2, 20)")
    return result


class Order:
    """Statements that are handed in at once, and the order in which they end."""

    def __init__(self, db: kpg.Database) -> None:
        self.hub = db.hub
        self.ended: list[str] = []
        self.futures: list[Future[Any]] = []

    def add(self, name: str, session: Session, text: str | Callable[[], object]) -> None:
        """Hand in a statement, or a function."""
        work: Callable[[], object]
        if callable(text):
            work = text
        else:
            session.last_query = text
            work = partial(session.run_text, self.hub.engine, text)
        future = self.hub.submit(session, work)
        future.add_done_callback(lambda _: self.ended.append(name))
        self.futures.append(future)

    def results(self) -> list[Any]:
        """What they give, when all of them are over."""
        while not all(one.done() for one in self.futures):
            self.hub.serve()
        return [one.result() for one in self.futures]


def long(text: str) -> str:
    """The query with one more column, that takes long to plan."""
    return text.replace("select ", f"select sum({LONG}) > 0, ", 1)


def test_a_short_statement_ends_before_a_long_one_that_came_first(db: kpg.Database) -> None:
    order = Order(db)
    order.add("long", db.session(), long("select count(*) from t"))
    order.add("short", db.session(), "select 1")
    first, second = order.results()
    assert order.ended == ["short", "long"]
    assert (first.fetchall(), second.fetchall()) == ([(True, 2)], [(1,)])


def test_the_long_one_sees_what_is_committed_meanwhile(db: kpg.Database) -> None:
    order = Order(db)
    order.add("long", db.session(), long("select count(*) from t"))
    order.add("short", db.session(), "insert into t values (3, 30)")
    first, _ = order.results()
    assert order.ended == ["short", "long"] and first.fetchall() == [(True, 3)]


def test_a_snapshot_is_still_seen(db: kpg.Database) -> None:
    one, order = db.session(), Order(db)
    one.sql("begin isolation level repeatable read; select count(*) from t")
    order.add("long", one, long("select count(*) from t"))
    order.add("short", db.session(), "insert into t values (3, 30)")
    first, _ = order.results()
    assert order.ended == ["short", "long"] and first.fetchall() == [(True, 2)]
    one.sql("commit")
    assert rows(one, "select count(*) from t") == [(3,)]


def test_definitions_that_change_meanwhile_count(db: kpg.Database) -> None:
    db.sql("create view v as select a, b from t")
    order = Order(db)
    order.add("long", db.session(), long("select sum(b) from v"))
    order.add("short", db.session(), "create or replace view v as select a, b + 1 as b from t")
    first, _ = order.results()
    assert order.ended == ["short", "long"] and first.fetchall() == [(True, 32)]


def test_a_table_that_is_dropped_meanwhile_is_not_there(db: kpg.Database) -> None:
    order = Order(db)
    order.add("long", db.session(), long("select count(*) from t"))
    order.add("short", db.session(), "drop table t")
    with pytest.raises(ProgrammingError, match='"t" does not exist'):
        order.results()
    assert order.ended == ["short", "long"]


def test_definitions_cannot_keep_a_statement_from_its_end(db: kpg.Database) -> None:
    one, order = db.session(), Order(db)

    def again() -> None:
        if "long" not in order.ended:
            order.add("short", one, "create or replace view v as select 1 as x")
            order.futures[-1].add_done_callback(lambda _: again())

    order.add("long", db.session(), long("select count(*) from t"))
    again()
    assert order.results()[0].fetchall() == [(True, 2)]
    assert order.ended.index("long") < 20 * scheduler.MAX_RESTARTS


def test_a_statement_with_pending_changes_keeps_the_engine(db: kpg.Database) -> None:
    one, order = db.session(), Order(db)
    one.sql("begin; insert into t values (3, 30)")
    order.add("long", one, long("select count(*) from t"))
    order.add("short", db.session(), "select count(*) from t")
    first, second = order.results()
    assert order.ended == ["long", "short"]
    assert (first.fetchall(), second.fetchall()) == ([(True, 3)], [(2,)])


def test_an_insert_is_planned_aside_too(db: kpg.Database) -> None:
    order = Order(db)
    order.add("long", db.session(), f"insert into t select a + 10, {LONG} from t returning a")
    order.add("short", db.session(), "insert into t values (3, 30)")
    first, _ = order.results()
    assert order.ended == ["short", "long"]
    assert sorted(first.fetchall()) == [(11,), (12,), (13,)]
    assert db.query("select sum(b) from t").fetchall() == [(60 + 40 * 6,)]


def test_what_one_session_asks_is_done_in_its_order(db: kpg.Database) -> None:
    one, order = db.session(), Order(db)
    order.add("long", one, long("select count(*) from t"))
    order.add("next", one, "insert into t values (3, 30)")
    order.add("last", one, "select count(*) from t")
    order.add("other", db.session(), "select 1")
    found = order.results()
    assert order.ended == ["other", "long", "next", "last"]
    assert (found[0].fetchall(), found[2].fetchall()) == ([(True, 2)], [(3,)])


def test_settings_of_the_others_are_theirs(db: kpg.Database) -> None:
    one, other, order = db.session(), db.session(), Order(db)
    one.sql("set timezone to 'Asia/Tokyo'; set search_path to public")
    db.sql("create schema s; create table s.t (a int)")
    text = "select (timestamptz '2000-01-01 00:00+00')::text, min(b) from t"
    order.add("long", one, long(text))
    order.add("set", other, "set timezone to 'UTC'")
    order.add("path", other, "set search_path to s")
    order.add("short", other, "select count(*) from t")
    found = order.results()
    assert order.ended == ["set", "path", "short", "long"]
    assert found[0].fetchall() == [(True, "2000-01-01 09:00:00+09", 10)]
    assert found[3].fetchall() == [(0,)]


def test_a_definition_in_a_transaction_waits_for_who_is_aside(db: kpg.Database) -> None:
    other, order = db.session(), Order(db)
    order.add("long", db.session(), long("select count(*) from t"))
    order.add("begin", other, "begin")
    order.add("create", other, "create table u (a int)")
    order.add("insert", other, "insert into u values (1)")
    order.add("commit", other, "commit")
    found = order.results()
    assert order.ended == ["begin", "long", "create", "insert", "commit"]
    assert found[0].fetchall() == [(True, 2)]
    assert db.query("select * from u").fetchall() == [(1,)]


def test_a_statement_is_cancelled_when_it_is_back(db: kpg.Database) -> None:
    one, order = db.session(), Order(db)
    order.add("long", one, long("select count(*) from t"))
    order.add("cancel", db.session(), one.cancel)
    with pytest.raises(CanceledError, match="user request"):
        order.results()
    assert order.ended == ["cancel", "long"]
    assert rows(one, "select count(*) from t") == [(2,)]


def test_several_long_statements_take_turns(db: kpg.Database) -> None:
    order = Order(db)
    for number in range(2 * scheduler.MAX_ASIDE):
        order.add(f"long {number}", db.session(), long(f"select count(*) + {number} from t"))
    order.add("short", db.session(), "select 1")
    found = [one.fetchall() for one in order.results()]
    assert found == [*([(True, 2 + number)] for number in range(2 * scheduler.MAX_ASIDE)), [(1,)]]


def test_a_failed_long_statement_ends_its_own_transaction_only(db: kpg.Database) -> None:
    one, other, order = db.session(), db.session(), Order(db)
    one.sql("begin")
    other.sql("begin; insert into t values (4, 40)")
    order.add("long", one, long("select nothing from t"))
    order.add("short", other, "insert into t values (5, 50)")
    with pytest.raises(ProgrammingError, match="nothing"):
        order.results()
    with pytest.raises(InterfaceError, match="earlier error"):
        one.sql("select 1")
    other.sql("commit")
    assert db.query("select count(*) from t").fetchall() == [(4,)]


def test_closing_the_database_ends_who_is_aside() -> None:
    db = kpg.connect()
    db.sql("create table t (a int)")
    order, goes_on = Order(db), threading.Event()
    order.add("long", db.session(), long("select count(*) from t"))
    order.add("short", db.session(), goes_on.wait)
    hub, monitor = order.hub, order.hub.engine.monitor
    thread = threading.Thread(target=hub.serve)
    thread.start()
    until(lambda: hub.time_slices.aside and monitor.queue)
    closing = threading.Thread(target=db.close)
    closing.start()
    until(lambda: len(monitor.queue) > 1)
    goes_on.set()
    closing.join()
    thread.join()
    assert isinstance(order.futures[0].exception(), CanceledError | InterfaceError)


def test_a_statement_of_a_callback_does_not_leave(db: kpg.Database) -> None:
    order, found = Order(db), list[Any]()
    db.sql("create materialized view v as select count(*) as n from t")

    def told(changes: list[Any]) -> None:
        order.add("long", db.session(), long("select count(*) from t"))
        order.add("short", db.session(), "select 1")
        found.append(order.results()[0].fetchall())

    db.view("v").subscribe(told)
    db.sql("insert into t values (3, 30)")
    assert order.ended == ["long", "short"] and found == [[(True, 3)]]
