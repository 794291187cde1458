"""Dataflow of a query form: a table of seeds (bound values), and the answers to all of them."""

from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.program import lowering
from kpg.compiler.rules.magic import Policy, Prepared, prepare
from kpg.datalog import facts
from kpg.datalog.program_plans import InstalledStrata, table_schema
from kpg.execute.queries.query_plan import Planned
from kpg.runtime import plan as ir
from kpg.runtime.handles import Installation
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column
from kpg.runtime.types import Schema
from kpg.session.base_table import Table
from kpg.session.engine import Engine

Words = NDArray[np.int64]
Seed = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What a goal asks: a relation of a program with values for some columns. Equal ones share a form."""

    program: core.Program = field(compare=False)
    relation: str
    bound: tuple[bool, ...]
    rules: tuple[core.Rule, ...] = ()
    """Those of the goal itself, if it has a relation of its own."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The stored relations that may be tables."""
        relations = self.program.relations.values()
        return tuple(one.name for one in relations if one.kind is not core.Kind.DERIVED)


class Answering:
    """The answers of one strategy for the rows of its seed table, without which there is one set of answers.

    Nothing is installed before it is needed, so that one can be made inside a transaction. ``name`` is what
    it is called among those who use tables and views.
    """

    def __init__(self, engine: Engine, name: str, question: Question, policy: Policy) -> None:
        self._engine = engine
        self.name = name
        self.kept = policy.kept
        self.prepared: Prepared = prepare(question.program, question.relation, question.bound, policy)
        self._lowering = lowering(self.prepared.program)
        self._plan: Planned | None = None
        self._installed: Installation | None = None
        self._index: Installation | None = None
        self._seed_table: Table | None = None
        self._catalog = self._with_seed(engine.catalog)
        self._strata = self._new_strata()
        if self.has_seeds:
            engine.executor.create_table(self._seed_name, self._seed_schema)
            self._seed_table = Table(engine.executor, self._seed_name, self._seed_schema)

    @property
    def has_seeds(self) -> bool:
        """Whether it answers for values at all."""
        return self.prepared.seed is not None

    def install(self) -> Installation:
        """The dataflow, made now if it is not there; between transactions only."""
        if self._installed is None:
            self._installed = self._engine.executor.install(self.name, self.plan.plan)
        return self._installed

    @property
    def plan(self) -> Planned:
        """The plan of the answers."""
        if self._plan is None:
            self._plan = self._strata.plan(self.prepared.answer, self._catalog, self.views)
        return self._plan

    # Seeds

    @property
    def _seed_name(self) -> str:
        """What the executor calls the table of what is asked."""
        return f"{self.name}/{self.prepared.seed}"

    @property
    def _seed_schema(self) -> Schema:
        assert self.prepared.seed is not None
        return table_schema(self.prepared.program.relations[self.prepared.seed])

    @property
    def _seeds(self) -> Table:
        assert self._seed_table is not None
        return self._seed_table

    def has(self, seed: Seed) -> bool:
        """Whether a seed is in the table."""
        return self.has_seeds and bool(self._seeds.match(_columns([seed], len(seed)))[0] >= 0)

    def change(self, coming: Sequence[Seed], going: Sequence[Seed]) -> None:
        """Have answers for some seeds maintained, and for others no more, in one commit."""
        self.install()
        table, width = self._seeds, sum(self.prepared.bound)
        with self._engine.transactions.statement(changes=True):
            facts.delete(table, _columns(going, width))
            facts.insert(table, _columns(coming, width))

    # Answers

    def rows(self) -> tuple[Words, Words]:
        """The answers to all seeds, and how often they are there."""
        return self.install().rows()

    def find(self, seed: Seed) -> tuple[Words, Words]:
        """The answers to a seed of the table; O(answers) if it is not the only one."""
        if self._seeds.rows < 2:
            return self.rows()
        bound = self.prepared.bound
        order = [place for given in (True, False) for place, one in enumerate(bound) if one is given]
        if self._index is None:
            self.install()
            plan = _indexed(self.plan, order, len(seed))
            self._index = self._engine.executor.install(f"{self.name}/index", plan)
        data, counts = self._index.matching(seed)
        result = np.empty_like(data)
        result[order] = data
        return result, counts

    def preview(self, seed: Seed) -> tuple[Words, Words]:
        """The answers to a seed that is not in the table, which it does not stay in."""
        return self._previewed(self.install(), seed)

    def _previewed(self, view: Installation, seed: Seed) -> tuple[Words, Words]:
        with self._engine.transactions.undoing():
            self._seeds.insert(_columns([seed], len(seed)))
            found = self._engine.executor.preview(view)
        return found.data, found.diffs()

    def rows_now(self, seed: Seed) -> tuple[Words, Words]:
        """The answers to a seed inside a transaction, its changes included; computed for this call."""
        if not self.has_seeds:
            return self._computed_now(self.prepared.answer)
        if self.has(seed):
            return self._computed_now(self.prepared.answer)
        rowids = self._seeds.insert(_columns([seed], len(seed)))
        try:
            return self._computed_now(self.prepared.answer)
        finally:
            self._seeds.delete(rowids)

    def _computed_now(self, relation: str) -> tuple[Words, Words]:
        """A relation of the rewritten program from the tables as they are, by nothing that is installed."""
        strata = self._new_strata("/now", isolated=True)
        try:
            catalog = self._with_seed(self._engine.expanded_catalog())
            return self._engine.recompute(strata.plan(relation, catalog, frozenset()))
        finally:
            strata.drop()

    def size(self, relation: str) -> int:
        """How many rows a relation of the rewritten program has."""
        if self._engine.executor.has_pending:
            return int(self._computed_now(relation)[1].sum())
        return int(self._engine.run(self._strata.plan(relation, self._catalog, self.views))[1].sum())

    def added(self, relation: str, seed: Seed) -> int:
        """How many rows a seed that is not in the table would add to a relation of the rewritten program."""
        plan = self._strata.plan(relation, self._catalog, self.views)
        view = self._engine.executor.install(f"{self.name}/added", plan.plan)
        try:
            return int(self._previewed(view, seed)[1].sum())
        finally:
            self._engine.executor.uninstall(view)

    @property
    def held(self) -> int:
        """Rows in the state that is there for these answers only."""
        return self.install().own_state(self.name)[0]

    @property
    def reserved(self) -> int:
        """Bytes of that state, in use or not."""
        return self.install().own_state(self.name)[1]

    # Plans

    def _with_seed(self, catalog: Catalog) -> Catalog:
        """The catalog with the seed table under the name that the executor knows it by."""
        found = catalog.copy()
        if self.has_seeds:
            found.add(TableEntry(self._seed_name, self._seed_schema))
        return found

    @property
    def views(self) -> frozenset[str]:
        """The relations of the rewritten program that are maintained as views."""
        return self.kept & frozenset(self.prepared.program.relations)

    def _new_strata(self, suffix: str = "", *, isolated: bool = False) -> InstalledStrata:
        seed = self.prepared.seed
        names = {} if seed is None else {seed: self._seed_name}
        return InstalledStrata(self._engine, self.name + suffix, self._lowering, names, isolated=isolated)

    def uninstall(self) -> None:
        """Give the dataflow up until it is wanted again."""
        for one in (self._index, self._installed):
            if one is not None:
                self._engine.executor.uninstall(one)
        self._index = self._installed = None

    def drop(self) -> None:
        """Give the dataflow and the seeds up."""
        self.uninstall()
        self._strata.drop()
        if self.has_seeds:
            self._engine.executor.drop_table(self._seed_name)


def _indexed(plan: Planned, order: Sequence[int], key: int) -> ir.Plan:
    """The plan with its output arranged by the columns in that order."""
    nodes, output = plan.plan.nodes, plan.plan.output
    if list(order) != list(range(len(order))):
        outputs = tuple(Column(place, plan.types[place]) for place in order)
        nodes = (*nodes, ir.Linear(output, ir.Mfp((), outputs)))
        output = len(nodes) - 1
    return replace(plan.plan, nodes=(*nodes, ir.Arrange(output, key)), output=len(nodes))


def _columns(rows: Sequence[Seed], width: int) -> Words:
    return np.array(rows, np.int64).reshape(len(rows), width).T.copy()
