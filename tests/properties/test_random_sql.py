"""Random databases, views and histories: every view is DuckDB's answer after every commit."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import duckdb
import pytest

import kpg
from kpg.runtime.errors import NotSupportedError
from tests.properties.sql_changes import Changes, random_table
from tests.properties.sql_queries import Queries, Query
from tests.properties.sql_twins import Row, Twins, plain

MOST_TEXT = 400
"""Longer queries take too long to plan for a test."""


class World:
    """Twins with random tables, and the writers of queries and changes over them."""

    def __init__(self, seed: int, tables: int = 3, twins: Twins | None = None) -> None:
        self.pick = random.Random(seed)
        self.twins = twins or Twins()
        shapes = [random_table(self.pick, f"t{number}") for number in range(tables)]
        self.tables = {shape.name: shape for shape in shapes}
        self.queries = Queries(self.pick, {shape.name: shape.columns for shape in shapes})
        self.changes = Changes(
            self.pick, self.tables, Queries(self.pick, {shape.name: shape.columns for shape in shapes})
        )
        self.made: list[tuple[str, Query]] = []
        self.committed: list[list[str]] = []
        for shape in shapes:
            self.twins.create(shape.name, shape.definitions(), ", ".join(shape.key) or None)

    def query(self, depth: int) -> Query:
        """A query that both databases can run."""
        while True:
            found = self.queries.query(depth)
            if len(found.text) > MOST_TEXT:
                continue
            try:
                self.twins.duck.execute(f"explain {found.text}")
                self.twins.db.explain(found.text)
            except (duckdb.Error, NotSupportedError):
                continue
            return found

    def install(self, depth: int, expanded: float = 0.15) -> None:
        """One view more; ``expanded`` is the chance that it is not kept, but expanded where others use it."""
        name, query = f"v{len(self.made)}", self.query(depth)
        self.twins.install(name, query.text, expanded=self.pick.random() < expanded)
        self.made.append((name, query))
        if self.pick.random() < 0.4:
            self.queries.relations[name] = query.columns

    def drop(self) -> None:
        """Drop a view that no other uses, if there is one, and install it again."""
        free = [(name, query) for name, query in self.made if name not in self.queries.relations]
        if free:
            name, query = self.pick.choice(free)
            self.twins.drop(name)
            self.twins.install(name, query.text)

    def step(self) -> None:
        """Change both databases: in one transaction or several, committed, rolled back or failed."""
        db, pick = self.twins.db, self.pick
        batch = db.batch() if pick.random() < 0.3 else nullcontext()
        with batch:
            for _ in range(pick.choice((1, 1, 2, 3)) if pick.random() < 0.5 else 1):
                if not self._transaction(may_fail=isinstance(batch, nullcontext)):
                    break

    def _transaction(self, may_fail: bool) -> bool:
        twins, pick = self.twins, self.pick
        statements = [self._statement() for _ in range(pick.choice((1, 1, 2, 4)))]
        if not may_fail and not self._all_fit(statements):
            return True
        twins.db.sql("begin")
        twins.duck.execute("begin")
        fits = True
        for statement in statements:
            fits = twins.run(statement)
            if not fits:
                break
            if pick.random() < 0.1:
                twins.compare_query(self.query(1).text)
        if fits and not (may_fail and pick.random() < 0.1):
            twins.db.sql("commit")
            twins.duck.execute("commit")
            self.committed.append(statements)
        else:
            twins.db.sql("rollback")
            twins.duck.execute("rollback")
        return fits

    def _statement(self) -> str:
        while True:
            statement = self.changes.statement()
            if len(statement) > MOST_TEXT:
                continue
            try:
                self.twins.duck.execute(f"explain {statement}")
            except duckdb.Error:
                continue
            return statement

    def _all_fit(self, statements: Sequence[str]) -> bool:
        """Whether the statements violate no key, tried on DuckDB alone."""
        duck = self.twins.duck
        duck.execute("begin")
        try:
            for statement in statements:
                duck.execute(statement)
                if self.twins.violated():
                    return False
            return True
        finally:
            duck.execute("rollback")


@contextmanager
def world(seed: int, twins: Twins | None = None) -> Iterator[World]:
    """A world that is closed at the end; a failure says its seed."""
    made = World(seed, twins=twins)
    try:
        yield made
    finally:
        made.twins.close()


def live(seed: int, views: int, steps: int, twins: Twins | None = None) -> None:
    """Install and change at random, and compare everything after every step."""
    with world(seed, twins) as here:
        for _ in range(views):
            here.install(here.pick.choice((1, 1, 2)))
        for number in range(steps):
            here.twins.live_again()
            here.step()
            for name in here.twins.views:
                here.twins.compare(name)
            if number % 3 == 1:
                here.install(1)
                here.twins.compare_query(here.query(2).text)
            if number % 4 == 2:
                here.drop()
        for name, query in here.twins.views.items():
            here.twins.compare_query(query)
            here.twins.compare_query(f"select * from {name}")
            here.twins.db.verify(name)


@pytest.mark.parametrize("seed", range(12))
def test_views_are_what_duckdb_answers(seed: int) -> None:
    live(seed, views=4, steps=8)


@pytest.mark.parametrize("seed", range(100, 103))
def test_they_are_in_every_life_of_a_database(seed: int) -> None:
    twins = Twins.in_folder(seed)
    live(seed, views=4, steps=8, twins=twins)
    assert twins.lives is not None and twins.lives.ended > 0


History = Sequence[Sequence[str]]
Feeds = dict[str, Counter[tuple[Row, int]]]


def replayed(script: str, views: dict[str, str], steps: Sequence[History]) -> Feeds:
    """The changes of views, each with its time, when every step's transactions are taken in one batch."""
    with kpg.connect() as db:
        db.sql(script)
        for name, query in views.items():
            db.sql(f"create materialized view {name} as {query}")
        handles = {name: db.view(name) for name in views}
        for handle in handles.values():
            assert not list(handle.changes(snapshot=False))
        for step in steps:
            with db.batch() if len(step) > 1 else nullcontext():
                for statements in step:
                    with db.transaction():
                        db.sql("; ".join(statements))
        found: Feeds = {}
        for name, handle in handles.items():
            found[name] = Counter()
            for row, time, diff in handle.changes():
                found[name][plain(row), time] += diff
        return found


def grouped(pick: random.Random, history: History) -> list[History]:
    """The history cut into steps at random."""
    cuts = sorted(pick.sample(range(1, len(history)), min(3, len(history) - 1))) if len(history) > 1 else []
    return [history[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(history)], strict=True)]


@pytest.mark.parametrize("seed", range(100, 106))
def test_grouping_into_steps_does_not_change_the_changes(seed: int) -> None:
    with world(seed) as here:
        for _ in range(4):
            here.install(1, expanded=0)
        for _ in range(8):
            here.step()
        script = "; ".join(
            f"create table {shape.name} ({', '.join(shape.definitions())})" for shape in here.tables.values()
        )
        views = dict(here.twins.views)
        alone = replayed(script, views, [[transaction] for transaction in here.committed])
        assert replayed(script, views, [here.committed]) == alone
        assert replayed(script, views, grouped(here.pick, here.committed)) == alone
