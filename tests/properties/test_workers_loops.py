"""Recursions of many workers are what one worker makes of them, however their loops are placed."""

import random
from collections import Counter
from collections.abc import Set

import pytest

import kpg
from kpg.api.database import Database
from kpg.compiler.physical.cardinality import NoStatistics
from kpg.compiler.rules import core
from kpg.runtime.errors import Error
from kpg.session.distribution import Workers
from tests.model import graphs
from tests.model.datalog import run
from tests.model.rules import program
from tests.properties import loops
from tests.properties import test_random_recursion as recursion
from tests.properties.datalog import Session
from tests.properties.engine import Engine, change_randomly
from tests.properties.plans import SCHEMAS
from tests.properties.programs import random_program
from tests.properties.test_workers import many


class Many(Engine):
    """The tables and views of a database with workers."""

    def __init__(self, db: Database) -> None:
        self.worker = db._engine.executor  # type: ignore[assignment]
        self.tables = {name: self.worker.create_table(name, schema) for name, schema in SCHEMAS.items()}
        self.views, self.plans = {}, {}


LATE = {"reach by rowid"}
"""It reads columns where the rows of workers that have nothing in common are not: no compiler makes it so."""


class Early(NoStatistics):
    """What a compiler knows whose plans are for workers that have nothing in common."""

    early_materialization = True


@pytest.mark.parametrize(("count", "common"), [(2, True), (3, False)])
def test_every_loop_is_what_the_model_makes(count: int, common: bool) -> None:
    rng = random.Random(count)
    waiting = [name for name in loops.LOOPS if common or name not in LATE]
    rng.shuffle(waiting)
    with many(count, count, common=common) as db:
        engine = Many(db)
        while waiting:
            for name in [waiting.pop() for _ in range(min(3, len(waiting)))]:
                engine.install(name, loops.LOOPS[name]())
            engine.check()
            for _ in range(2):
                change_randomly(rng, engine, 7, 14)
                engine.step()
                engine.check()


@pytest.mark.parametrize("seed", range(6))
def test_random_recursion(seed: int) -> None:
    rng = random.Random(100 + seed)
    queries = [recursion.query(rng) for _ in range(5)]
    with kpg.connect() as one, many(2 + seed % 2, seed, common=bool(seed % 3)) as db:
        for each in (one, db):
            each.sql(recursion.SCHEMA)
        for statement in [change for _ in range(4) for change in recursion.changes(rng)]:
            one.sql(statement)
            db.sql(statement)
        for each in (one, db):
            for number, text in enumerate(queries):
                each.sql(f"create materialized view v{number} as {text}")
        heard = [[each.view(f"v{number}").changes() for number in range(5)] for each in (one, db)]
        for _ in range(6):
            changes = list(recursion.changes(rng))
            for each in (one, db):
                with each.transaction():
                    for statement in changes:
                        each.sql(statement)
            for number, text in enumerate(queries):
                found = [Counter(each.view(f"v{number}").fetchall()) for each in (one, db)]
                assert found[0] == found[1], text
                told = [sorted(map(repr, changes[number])) for changes in heard]
                assert told[0] == told[1], text


@pytest.mark.parametrize("seed", [*range(8), 53])
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_program(random_program(seed), seed, monkeypatch)


TWICE = (
    "p(x, y) :- e(x, y). p(x, w) :- p(x, y), f(y, z), p(z, w).",
    "p(x, y) :- e(x, y). p(x, y) :- e(x, z), p(z, w), f(w, v), p(v, y), u(v).",
    "p(x, y) :- e(x, y). p(x, y) :- q(x, z), f(z, y). q(x, y) :- f(x, y). q(x, y) :- q(x, z), p(z, y).",
    "p(x, y, 0) :- e(x, y). p(x, y, n0) :- p(x, z, n), f(z, y), e(z, y), n0 = n + 1, n0 < 3.",
)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_meet_what_is_recursive_more_than_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in TWICE:
        check_program(text, seed, monkeypatch)


def check_program(text: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = program(text)
    choice = random.Random(seed)
    start = {"e": graphs.any_graph(7, 8, seed), "f": graphs.any_graph(7, 6, seed + 1)}
    common = bool(seed % 3)
    with many(2 + seed % 2, seed, common=common) as db:
        monkeypatch.setattr("tests.properties.datalog.Worker", lambda: db._engine.executor)
        monkeypatch.setattr("tests.properties.datalog.NoStatistics", NoStatistics if common else Early)
        session = Session(checked, start)
        for step in range(3):
            added = {"e": graphs.any_graph(7, 3, step), "u": frozenset({(choice.randrange(7),)})}
            gone = frozenset(choice.sample(sorted(start["f"]), 2))
            removed = {"f": gone, "e": graphs.any_graph(7, 3, 5 - step)}
            here = checked.relations.keys()
            session.change(
                {name: rows for name, rows in added.items() if name in here},
                {name: rows for name, rows in removed.items() if name in here},
            )
            expected = run(checked, {name: frozenset(rows) for name, rows in session.rows.items()})
            for name, relation in checked.relations.items():
                if relation.kind is core.Kind.DERIVED:
                    assert session.read(name) == expected[name], (name, step)


CLOSED = "with recursive p(x, y) as (select x, y from {} union select p.x, e.y from p join e on p.y = e.x)"
EXPLAINED = {
    # Rows of a closure stay with the owner of the node at which they begin.
    f"{CLOSED.format('e')} select * from p": "sent for a change of e: nothing",
    # All would begin at a few nodes: whoever owns one would do it all.
    f"{CLOSED.format('e where x = 5')} select * from p": "sent for a change of e: at %6.13 to owners of #1",
    "with recursive p(x, y) as (select x, y from few union select p.x, e.y from p join e on p.y = e.x)"
    " select * from p": "sent for a change of e: at %7.13 to owners of #1",
    # Both edges are where the pair is, which is all that is sent.
    "with recursive p(x, y) as (select a.y, b.y from e a join e b on a.x = b.x union"
    " select a.y, b.y from e a join p on a.x = p.x join e b on p.y = b.x)"
    " select * from p": "sent for a change of e: at %10.18 to owners of #0",
}


def test_how_much_rounds_of_a_loop_send() -> None:
    with many(2, small=10) as db:
        db.sql("create table e(x bigint, y bigint); create table few(x bigint, y bigint)")
        db.sql("insert into e select i, i + 1 from generate_series(1, 2000) i(i)")
        db.sql("insert into few values (1, 2)")
        for text, sent in EXPLAINED.items():
            found = [line for line in repr(db.sql(f"explain {text}")).splitlines() if " of e: " in line]
            assert found == [sent], text


def test_rows_that_make_a_table_large_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The view is placed again before the step that brings them, with what there was."""
    found = list[tuple[set[str], int, int]]()
    moving = Workers.plans_to_replace

    def noted(workers: Workers, rows: int, tables: Set[str]) -> set[str]:
        moved = moving(workers, rows, tables)
        found.append((moved, rows, db._engine.executor.remote["s"].size))  # type: ignore[attr-defined]
        return moved

    with many(2, small=10) as db:
        db.sql("create table t(k int primary key, v int)")
        db.sql("insert into t select i, i from generate_series(1, 9) i(i)")
        db.sql("create materialized view s as select k, 100 / v as part from t")
        db.sql("create materialized view n as select count(*) as n from s")
        monkeypatch.setattr(Workers, "plans_to_replace", noted)
        with db.transaction():
            db.sql("delete from t where k < 4")
            db.sql("insert into t select i, i from generate_series(10, 99) i(i)")
        assert found == [({"s"}, 93, 9)]
        assert db.sql("select * from n").fetchall() == [(96,)]
        with pytest.raises(Error, match="division by zero"):
            db.sql("insert into t select i, 0 from generate_series(100, 999) i(i)")
        assert sorted(db.sql("select * from s where k < 6").fetchall()) == [(4, 25), (5, 20)]
        db.sql("delete from t where k > 4")
        assert db.sql("select * from s").fetchall() == [(4, 25)]
