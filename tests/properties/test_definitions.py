"""Each statement that defines something gives the same catalog after a kill as before it."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.execute.definitions import ddl
from tests.model.disk import Sim
from tests.model.durable import opened
from tests.properties.definition_lives import DefinitionLife
from tests.properties.definitions import (
    START,
    STATEMENTS,
    catalog_of,
    differences,
    kinds,
    kinds_of,
    restorable_catalog,
)

WAYS = {
    "alone": "{0}",
    "in a transaction": "begin; {0}; commit",
    "around savepoints": "begin; savepoint a; {0}; rollback to a; {0}; savepoint b; "
    "create table extra (a int); create materialized view over_extra as select a from extra; "
    "rollback to b; commit",
}
ALONE = ("create ego view", "alter type mood add value")
"""What a transaction does not take."""


def test_every_kind_of_statement_is_here() -> None:
    """One that the parser gets has to get a statement, so that it is killed, too."""
    found = {kind for text in STATEMENTS for kind in kinds_of(text)}
    assert kinds() - found == set()


@pytest.fixture(scope="module")
def base() -> Sim:
    sim = Sim()
    with opened(sim) as db:
        db.sql(START)
    return sim


@pytest.mark.parametrize("way", WAYS)
def test_a_statement_is_kept(base: Sim, way: str) -> None:
    """After a kill, and opened again after that, and after it was closed."""
    for text in STATEMENTS:
        if way != "alone" and text.startswith(ALONE):
            continue
        sim = base.after_kill()
        with opened(sim) as db:
            before = len(sim.done)
            db.sql(WAYS[way].format(text))
            syncs = [what for what in sim.done[before:] if what.startswith("sync log")]
            assert len(syncs) <= 1, (text, "is more than one commit")
            ddl.drop_temporary(db._engine)
            expected = catalog_of(db)
            killed = sim.after_kill()
        for folder, what in ((killed, "killed"), (killed, "opened again"), (sim, "closed")):
            folder.holder = None
            with opened(folder) as db:
                assert not (wrong := differences(catalog_of(db), expected)), (text, what, wrong)


UNDONE = (
    "begin; savepoint a; {0}; rollback to a; commit",
    "begin; {0}; select 1 / 0",
    "{0}",
)
"""The last one is refused, since the log cannot be written."""


@pytest.mark.parametrize("way", UNDONE)
def test_a_statement_is_undone(base: Sim, way: str) -> None:
    """Nothing is left of it, now and after a kill."""
    sim = base.after_kill()
    with opened(sim) as db:
        expected = restorable_catalog(db)
        for text in STATEMENTS:
            if way != "{0}" and text.startswith(ALONE):
                continue
            if way == "{0}":
                sim.fails = lambda _, what: errno.ENOSPC if what.startswith("write log") else 0
            syncs = len(sim.done)
            try:
                db.sql(way.format(text))
            except kpg.Error as error:
                assert isinstance(error, kpg.OperationalError) or "division by zero" in str(error), text
            else:
                # What is temporary, or what changes nothing, is not in the log.
                assert way != "{0}" or not any("log" in what for what in sim.done[syncs:]), text
            sim.fails = lambda _, what: 0
            if not db._engine.transactions.is_idle:
                db.sql("rollback")
            assert not (wrong := differences(restorable_catalog(db), expected)), (text, wrong)
        db.sql("create table later (a int); drop table later")
        killed = sim.after_kill()
    with opened(killed) as db:
        assert not (wrong := differences(restorable_catalog(db), expected)), wrong


NEW = "from pg_namespace where nspname = 'new'"


def test_a_schema_and_its_elements_are_one_commit() -> None:
    """Killed at any operation of a file, there is the schema with its owner and all elements, or nothing."""
    found, sim = list[Sim](), Sim()
    with opened(sim) as db:
        db.sql("create role r1")
        sim.look = lambda _: found.append(sim.after_kill())
        db.sql("create schema new authorization r1 create table a (x int) create view v as select x from a")
        sim.look = None
        found.append(sim.after_kill())
    states = list[tuple[list[Any], list[Any]]]()
    for copy in found:
        with opened(copy) as db:
            owner = db.query(f"select nspowner::regrole::text {NEW}").fetchall()
            elements = f"select relname from pg_class where relnamespace in (select oid {NEW}) order by 1"
            states.append((owner, db.query(elements).fetchall()))
    none, whole = ([], []), ([("r1",)], [("a",), ("v",)])
    assert states[0] == none and states[-1] == whole
    assert all(state in (none, whole) for state in states)


def test_a_schema_that_is_refused_leaves_nothing() -> None:
    sim = Sim()
    with opened(sim) as db:
        with pytest.raises(kpg.ProgrammingError, match='role "nobody" does not exist'):
            db.sql("create schema new authorization nobody create table a (x int)")
        assert db.query(f"select oid {NEW}").fetchall() == []
        killed = sim.after_kill()
    with opened(killed) as db:
        assert db.query(f"select oid {NEW}").fetchall() == []


def said(database: kpg.Database) -> str:
    return "\n".join(repr(sorted(map(repr, part.items()))) for part in catalog_of(database))


def test_statements_are_kept_after_a_signal(tmp_path: Path) -> None:
    """As before, of a process that is gone: with the files of an operating system."""
    texts = [
        text for text in STATEMENTS if text.startswith(("create", "comment", "grant")) and "temp" not in text
    ]
    folders = [(tmp_path / str(place), text) for place, text in enumerate(texts[::8])]
    child = os.fork()
    if not child:
        try:
            for folder, text in folders:
                db = kpg.connect(folder, synchronous="normal")
                db.sql(START)
                db.sql(text)
                (folder / "said").write_text(said(db))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    for folder, text in folders:
        with kpg.connect(folder) as db:
            assert said(db) == (folder / "said").read_text(), text


@pytest.mark.parametrize("seed", (1, 2))
def test_histories_of_definitions_are_kept(seed: int) -> None:
    life = DefinitionLife(seed)
    life.run(8)
    assert life.found
