"""Ctrl-C: KeyboardInterrupt, and the database as before."""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count

import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.chain import chain_selection
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.operators.reduce import Reduce
from kpg.runtime.trace.updates import Updates
from kpg.session.engine import Engine
from kpg.session.session import Session
from kpg.session.subscriptions import Change, Feed
from kpg.session.transaction import Transactions

BEFORE = ["a", "b"]


@pytest.fixture
def pressed(shop: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The database; from now on somebody presses Ctrl-C whenever a reduce is at work."""
    flush: Callable[[Reduce], None] = Reduce.flush

    def interrupted(self: Reduce) -> None:
        signal.raise_signal(signal.SIGINT)
        flush(self)

    monkeypatch.setattr(Reduce, "flush", interrupted)
    monkeypatch.setattr(chain_selection, "FEW", -1)  # in a chain no reduce runs in Python
    return shop


def unharmed(db: Database, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.undo()
    kinds = [row[0] for row in db.view("total")]
    ids = [row[0] for row in db.query("SELECT id FROM item ORDER BY id")]
    db.insert("item", [(9, "z", 1)])
    db.verify("total")
    return kinds == BEFORE and ids == [1, 2, 3] and len(db.view("total")) == 3


def test_during_a_statement(pressed: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        pressed.sql("DELETE FROM item WHERE id = 3; DELETE FROM item")
    assert unharmed(pressed, monkeypatch)


def test_during_a_commit(pressed: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt), pressed.transaction():
        pressed.insert("item", [(4, "c", 1)])
        pressed.delete("item", [(1,)])
    assert unharmed(pressed, monkeypatch)


def test_before_a_commit_has_begun(shop: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt), shop.transaction():
        shop.insert("item", [(4, "c", 1)])
        monkeypatch.setattr(Transactions, "check_not_failed", lambda _: signal.raise_signal(signal.SIGINT))
    assert unharmed(shop, monkeypatch)


def test_during_an_install(pressed: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        pressed.sql("CREATE MATERIALIZED VIEW least AS SELECT kind, count(*) AS n FROM item GROUP BY kind")
    assert pressed.views().fetchall() == [("total", "materialized view", 2)]
    assert unharmed(pressed, monkeypatch)


def test_during_a_query(pressed: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        pressed.sql("SELECT kind, count(*) AS n FROM item GROUP BY kind")
    assert unharmed(pressed, monkeypatch)


def test_during_a_callback_the_other_subscribers_are_told(db: Database) -> None:
    db.sql("create table t (a integer); create materialized view v as select a from t")
    told: list[Change] = []

    def pressing(changes: list[Change]) -> None:
        if changes[0][0] == (2,):
            signal.raise_signal(signal.SIGINT)

    db.view("v").subscribe(pressing)
    db.view("v").subscribe(told.extend)
    db.sql("insert into t values (1)")
    with pytest.raises(KeyboardInterrupt):
        db.sql("insert into t values (2)")
    db.sql("insert into t values (3)")
    assert [row for row, _, _ in told] == [(1,), (2,), (3,)]


def test_between_a_commit_and_its_callbacks(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drained is told: Ctrl-C comes when all have been."""
    db.sql("create table t (a integer); create materialized view v as select a from t")
    told: list[Change] = []
    db.view("v").subscribe(told.extend)
    changes = Feed.changes

    def interrupted(self: Feed, updates: Sequence[Updates]) -> list[Change]:
        signal.raise_signal(signal.SIGINT)
        return changes(self, updates)

    monkeypatch.setattr(Feed, "changes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        db.sql("insert into t values (1)")
    monkeypatch.undo()
    db.sql("insert into t values (2)")
    assert told == [((1,), 1, 1), ((2,), 2, 1)]


def test_what_a_callback_commits_is_told_after_what_it_was_told(db: Database) -> None:
    db.sql("create table t (a integer); create materialized view v as select a from t")
    told: list[Change] = []

    def counting(changes: list[Change]) -> None:
        ((number,), _, _) = changes[0]
        if number < 3:
            db.sql(f"insert into t values ({number + 1})")

    db.view("v").subscribe(counting)
    db.view("v").subscribe(told.extend)
    db.sql("insert into t values (1)")
    assert told == [((1,), 1, 1), ((2,), 2, 1), ((3,), 3, 1)]


def test_during_a_join_of_which_nothing_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs by the hundred million, which a predicate drops: it is noticed among them."""
    check, looks = DeferredInterrupt.check, count()

    def pressed(self: DeferredInterrupt) -> None:
        if next(looks) == 20:
            signal.raise_signal(signal.SIGINT)
        check(self)

    with kpg.connect() as db:
        db.sql("create table n (i bigint); insert into n select i from generate_series(1, 800) i")
        monkeypatch.setattr(DeferredInterrupt, "check", pressed)
        with pytest.raises(KeyboardInterrupt):
            db.query("select count(*) from n a, n b, n c where a.i * b.i * c.i = -7")
        assert db.query("select count(*) from n").fetchall() == [(800,)]


def interrupted_after_steps(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on somebody presses Ctrl-C between the commit of a step and its end."""
    step = engine.executor.step

    def pressed() -> None:
        step()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(engine.executor, "step", pressed)


def test_after_its_commit_a_transaction_is_whole(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows, definitions, settings and messages: none of them is undone by Ctrl-C."""
    engine, session = db._engine, db.session()
    session.sql("create table t (a integer); listen c")
    session.sql("begin; create table u (a integer); insert into t values (1); notify c, 'said'")
    session.sql("set datestyle = 'sql, dmy'")
    interrupted_after_steps(engine, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        session.sql("commit")
    monkeypatch.undo()
    assert session.sql("select (select count(*) from t), (select count(*) from u)").fetchall() == [(1, 0)]
    assert [one.payload for one in session.notifications()] == ["said"]
    assert session.sql("show datestyle").fetchall() == [("SQL, DMY",)]


def test_what_is_committed_together_is_not_done_twice(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("create table t (a integer)")
    sessions = [db.session() for _ in range(3)]

    def hand_in(one: Session, number: int) -> "Future[object]":
        text = f"insert into t values ({number})"
        return one.session_manager.submit(one, lambda: one.run_text(db._engine, text), adds=True)

    futures = [hand_in(one, number) for number, one in enumerate(sessions)]
    interrupted_after_steps(db._engine, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        db.hub.serve()
    monkeypatch.undo()
    assert [future.exception() for future in futures] == [None] * 3
    assert sorted(db.query("select a from t")) == [(0,), (1,), (2,)]


def test_during_a_callback_the_transaction_is_whole(db: Database) -> None:
    db.sql("create table t (a integer); create materialized view v as select a from t")
    session = db.session()
    session.sql("listen c")
    db.view("v").subscribe(lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        session.sql("begin; insert into t values (1); notify c, 'said'; set timezone to 'Asia/Tokyo'; commit")
    assert [one.payload for one in session.notifications()] == ["said"]
    assert session.sql("show timezone").fetchall() == [("Asia/Tokyo",)]
    assert session.sql("select a from t").fetchall() == [(1,)]
