"""One way of asking a program: a dataflow with a table of what is asked, shared by all who ask that way."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog import Catalog, TableEntry
from kpg.compiler.datalog import core
from kpg.compiler.datalog.lowering import lowering
from kpg.compiler.datalog.magic import Policy, prepare
from kpg.datalog import facts
from kpg.datalog.acyclic import Acyclic
from kpg.datalog.planning import definition, planned, table_schema
from kpg.engine import Engine, Letter
from kpg.feed import Feed
from kpg.planning import Planned
from kpg.runtime.data.table import Table
from kpg.runtime.errors import DatabaseError
from kpg.runtime.installed import Installed
from kpg.runtime.types import Schema

Words = NDArray[np.int64]
Seed = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What a goal asks: a relation of a program with values for some columns. Equal ones share a channel."""

    program: core.Program = field(compare=False)
    relation: str
    bound: tuple[bool, ...]
    rules: tuple[core.Rule, ...] = ()
    """Those of the goal itself, if it has a relation of its own."""


class Listener(Protocol):
    """Somebody who follows the answers to a seed."""

    def letters(self) -> Iterator[Letter]:
        """Whom to tell of a commit, once the feed's mailboxes have it."""


class Channel:
    """The maintained answers for every row of the seed table; rows are there for as long as somebody asks.

    ``name`` is what it is called among those who use tables and views.
    """

    def __init__(self, engine: Engine, name: str, question: Question, kept: frozenset[str]) -> None:
        self._engine = engine
        self.name = name
        self._question = question
        self.users = 0
        self.closed = False
        self.listeners: list[Listener] = []
        self._demands: Counter[Seed] = Counter()
        self._leaving: set[Seed] = set()
        """Seeds in the table that nobody asks for; they go in the next step that a question makes."""
        tables = {table: engine.worker.tables[table] for table in self._tables()}
        rows = {name: table.rows for name, table in tables.items()}
        policy = Policy(kept=kept, rows=rows, acyclic=Acyclic(tables))
        self._prepared = prepare(question.program, question.relation, question.bound, policy)
        self._lowering = lowering(self._prepared.program)
        self._kept = kept
        self._catalog = self._with_seed(engine.catalog)
        self._install()

    def _tables(self) -> list[str]:
        relations = self._question.program.relations.values()
        return [one.name for one in relations if one.name in self._engine.worker.tables]

    def _install(self) -> None:
        engine, seed = self._engine, self._prepared.seed
        if seed is not None:
            engine.worker.create_table(seed_name(self.name, seed), self._seed_schema(seed))
        try:
            plan = self._plan(self._prepared.answer, self._kept)
            self._installed: Installed = engine.worker.install(self.name, plan.plan)
        except BaseException:
            if seed is not None:
                engine.worker.drop_table(seed_name(self.name, seed))
            raise
        self.reader = plan.reader(engine.worker.dictionary)
        self.feed = Feed(engine.worker, self._installed, self.reader)
        # What is read must not be dropped, and with CASCADE the channel goes too.
        engine.dataflows[self.name] = self
        read = self._kept & frozenset(self._prepared.program.relations)
        engine.note_uses(self.name, read | frozenset(self._tables()))

    def _seed_schema(self, seed: str) -> Schema:
        return table_schema(self._prepared.program.relations[seed])

    def _with_seed(self, catalog: Catalog) -> Catalog:
        """The catalog with the seed table under the name that the worker knows it by."""
        seed = self._prepared.seed
        found = catalog.copy()
        if seed is not None:
            found.add(TableEntry(seed_name(self.name, seed), self._seed_schema(seed)))
        return found

    def _plan(self, relation: str, kept: frozenset[str], catalog: Catalog | None = None) -> Planned:
        seed = self._prepared.seed
        names = {} if seed is None else {seed: seed_name(self.name, seed)}
        catalog = catalog or self._catalog
        program = self._prepared.program
        rel = definition(self._lowering, relation, catalog, kept & frozenset(program.relations), names)
        return planned(self._engine, program.relations[relation], rel, catalog)

    # Who asks

    @property
    def bound(self) -> tuple[bool, ...]:
        """The columns that a seed has values for."""
        return self._prepared.bound

    def ask(self, seed: Seed) -> None:
        """Have the answers for a seed maintained until :meth:`leave`; asked twice, it is left twice."""
        self._engine.refuse_in_transaction("asking a goal that is kept")
        if self._prepared.seed is not None and not self._demands[seed]:
            if seed in self._leaving:
                self._leaving.discard(seed)
            else:
                self._step([seed])
        self._demands[seed] += 1

    def leave(self, seed: Seed, *, now: bool = False) -> None:
        """Ask no more. Answers that nobody asks for are given up ``now``, or with the next question."""
        self._demands[seed] -= 1
        if self._demands[seed] <= 0:
            del self._demands[seed]
            if self._prepared.seed is not None:
                self._leaving.add(seed)
                if now and self._engine.transactions.idle:
                    self._step([])

    def _step(self, coming: Sequence[Seed]) -> None:
        """Seeds come, and those that nobody asks for go, in one transaction."""
        table, width = self._seeds, sum(self._prepared.bound)
        with self._engine.transactions.statement(changes=True):
            facts.delete(table, _columns(sorted(self._leaving), width))
            facts.insert(table, _columns(coming, width))
        self._leaving.clear()

    @property
    def _seeds(self) -> Table:
        assert self._prepared.seed is not None
        return self._engine.worker.tables[seed_name(self.name, self._prepared.seed)]

    # What is answered

    def rows(self) -> tuple[Words, Words]:
        """The answers to all seeds, and how often they are there."""
        return self._installed.rows()

    def rows_now(self, seed: Seed) -> tuple[Words, Words]:
        """The answers to a seed inside a transaction, its changes included; computed for this call."""
        catalog = self._with_seed(self._engine.expanded_catalog())
        plan = self._plan(self._prepared.answer, frozenset(), catalog)
        if self._prepared.seed is None:
            return self._engine.recompute(plan)
        table = self._seeds
        before = table.count
        facts.insert(table, _columns([seed], len(seed)))
        try:
            return self._engine.recompute(plan)
        finally:
            table.delete(np.arange(before, table.count, dtype=np.int64))

    def explain(self) -> str:
        """The strategy, the program it led to, and how much is demanded now."""
        sizes = [f"  {name}: {self._size(name)} rows" for name in self._prepared.demands]
        text = self._prepared.explanation.text().rstrip("\n")
        return "\n".join([text, *(["demand now:", *sizes] if sizes else [])])

    def _size(self, relation: str) -> str:
        try:
            return str(int(self._engine.run(self._plan(relation, self._kept))[1].sum()))
        except DatabaseError as error:
            return error.message

    def letters(self) -> Iterator[Letter]:
        """Whom to tell of a commit."""
        for _ in self.feed.distribute():
            pass
        for listener in list(self.listeners):
            yield from listener.letters()

    def pull(self) -> None:
        """A goal has no inputs of its own clock."""

    def drop(self) -> None:
        """Give the dataflow and the seeds up. Twice is allowed."""
        if self.closed:
            return
        self.closed = True
        self._engine.forget_dataflow(self.name)
        self._engine.worker.uninstall(self._installed)
        seed = self._prepared.seed
        if seed is not None:
            self._engine.worker.drop_table(seed_name(self.name, seed))


def seed_name(channel: str, seed: str) -> str:
    """What the worker calls the table of what is asked."""
    return f"{channel}/{seed}"


def _columns(rows: Sequence[Seed], width: int) -> Words:
    return np.array(rows, np.int64).reshape(len(rows), width).T.copy()
