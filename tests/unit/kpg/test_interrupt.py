"""Ctrl-C: KeyboardInterrupt, and the database as before."""

import signal
from collections.abc import Callable

import pytest

from kpg.database import Database
from kpg.runtime.operators.reduce import Reduce

BEFORE = ["a", "b"]


@pytest.fixture
def pressed(shop: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The database; from now on somebody presses Ctrl-C whenever a reduce is at work."""
    flush: Callable[[Reduce], None] = Reduce.flush

    def interrupted(self: Reduce) -> None:
        signal.raise_signal(signal.SIGINT)
        flush(self)

    monkeypatch.setattr(Reduce, "flush", interrupted)
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


def test_during_an_install(pressed: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        pressed.sql("CREATE MATERIALIZED VIEW least AS SELECT kind, count(*) AS n FROM item GROUP BY kind")
    assert pressed.views().fetchall() == [("total", "materialized view", 2)]
    assert unharmed(pressed, monkeypatch)


def test_during_a_query(pressed: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        pressed.sql("SELECT kind, count(*) AS n FROM item GROUP BY kind")
    assert unharmed(pressed, monkeypatch)
