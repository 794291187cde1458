"""Dataflow of a query form: a table of seeds (bound values), and the answers to all of them."""

from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.program import lowering
from kpg.compiler.rules.magic import GoalProgram, Policy, prepare
from kpg.datalog import facts
from kpg.datalog.program_plans import InstalledStrata, table_schema
from kpg.execute.queries.query_plan import PlannedStatement
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
class BindingPattern:
    """A relation of a program and its bound columns. Goals with equal patterns share a query form."""

    program: core.Program = field(compare=False)
    relation: str
    bound: tuple[bool, ...]
    rules: tuple[core.Rule, ...] = ()
    """The rules of the goal itself, if it has several literals and so a relation of its own."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The relations that are not derived, which may be tables."""
        relations = self.program.relations.values()
        return tuple(relation.name for relation in relations if relation.kind is not core.Kind.DERIVED)


class GoalDataflow:
    """The dataflow of one evaluation strategy: the answers for all rows of its seed table.

    Without a seed table it has the answer to every seed. Nothing is installed before it is needed, so
    an instance can be created inside a transaction. ``name`` is its name among the users of tables and
    views.
    """

    def __init__(self, engine: Engine, name: str, pattern: BindingPattern, policy: Policy) -> None:
        self._engine = engine
        self.name = name
        self.materialized = policy.materialized
        self.prepared: GoalProgram = prepare(pattern.program, pattern.relation, pattern.bound, policy)
        self._lowering = lowering(self.prepared.program)
        self._plan: PlannedStatement | None = None
        self._answers: Installation | None = None
        self._index: Installation | None = None
        self._seed_table: Table | None = None
        self._catalog = self._add_seed_table(engine.catalog)
        self._strata = self._new_strata()
        if self.has_seeds:
            engine.executor.create_table(self._seed_table_name, self._seed_schema)
            self._seed_table = Table(engine.executor, self._seed_table_name, self._seed_schema)

    @property
    def has_seeds(self) -> bool:
        """Whether there is a seed table."""
        return self.prepared.seed is not None

    def install(self) -> Installation:
        """Return the installed dataflow, installing it if needed. Must run between transactions."""
        if self._answers is None:
            self._answers = self._engine.executor.install(self.name, self.plan.plan)
        return self._answers

    @property
    def plan(self) -> PlannedStatement:
        """The plan of the answers."""
        if self._plan is None:
            self._plan = self._strata.plan(self.prepared.answer, self._catalog, self.views)
        return self._plan

    # Seeds

    @property
    def _seed_table_name(self) -> str:
        """The executor's name of the seed table."""
        return f"{self.name}/{self.prepared.seed}"

    @property
    def _seed_schema(self) -> Schema:
        assert self.prepared.seed is not None
        return table_schema(self.prepared.program.relations[self.prepared.seed])

    @property
    def _seeds(self) -> Table:
        assert self._seed_table is not None
        return self._seed_table

    def has_seed(self, seed: Seed) -> bool:
        """Return whether a seed is in the table."""
        return self.has_seeds and bool(self._seeds.match(_seed_words([seed], len(seed)))[0] >= 0)

    def change_seeds(self, added: Sequence[Seed], removed: Sequence[Seed]) -> None:
        """Add and remove seeds in one commit."""
        self.install()
        table, width = self._seeds, sum(self.prepared.bound)
        with self._engine.transactions.statement(changes=True):
            facts.delete(table, _seed_words(removed, width))
            facts.insert(table, _seed_words(added, width))

    # Answers

    def rows(self) -> tuple[Words, Words]:
        """Return the answers to all seeds, and their multiplicities."""
        return self.install().rows()

    def look_up(self, seed: Seed) -> tuple[Words, Words]:
        """Return the answers to a seed of the table, and their multiplicities.

        Costs O(answers), also if there are other seeds.
        """
        if self._seeds.row_count < 2:
            return self.rows()
        bound = self.prepared.bound
        order = [
            position
            for wanted in (True, False)
            for position, is_bound in enumerate(bound)
            if is_bound is wanted
        ]
        if self._index is None:
            self.install()
            plan = _add_arrangement(self.plan, order, len(seed))
            self._index = self._engine.executor.install(f"{self.name}/index", plan)
        data, counts = self._index.rows_with_prefix(seed)
        result = np.empty_like(data)
        result[order] = data
        return result, counts

    def preview(self, seed: Seed) -> tuple[Words, Words]:
        """Return the answers to a seed that is not in the table, by a step that is rolled back."""
        return self._preview_view(self.install(), seed)

    def _preview_view(self, view: Installation, seed: Seed) -> tuple[Words, Words]:
        with self._engine.transactions.failing_on_error():
            self._seeds.insert(_seed_words([seed], len(seed)))
            updates = self._engine.executor.preview(view)
        return updates.data, updates.diffs()

    def compute_answer(self, seed: Seed) -> tuple[Words, Words]:
        """Return the answers to a seed inside a transaction, including its changes, computed from scratch."""
        if not self.has_seeds:
            return self._compute_relation(self.prepared.answer)
        if self.has_seed(seed):
            return self._compute_relation(self.prepared.answer)
        rowids = self._seeds.insert(_seed_words([seed], len(seed)))
        try:
            return self._compute_relation(self.prepared.answer)
        finally:
            self._seeds.delete(rowids)

    def _compute_relation(self, relation: str) -> tuple[Words, Words]:
        """Compute a relation of the rewritten program from the present tables, without installed state."""
        strata = self._new_strata("/now", isolated=True)
        try:
            catalog = self._add_seed_table(self._engine.expanded_catalog())
            return self._engine.recompute(strata.plan(relation, catalog, frozenset()))
        finally:
            strata.drop()

    def relation_size(self, relation: str) -> int:
        """Return the number of rows of a relation of the rewritten program."""
        if self._engine.executor.tables.has_pending:
            return int(self._compute_relation(relation)[1].sum())
        return int(self._engine.run(self._strata.plan(relation, self._catalog, self.views))[1].sum())

    def added_rows(self, relation: str, seed: Seed) -> int:
        """Return the number of rows that a seed outside the table would add to a rewritten relation."""
        plan = self._strata.plan(relation, self._catalog, self.views)
        view = self._engine.executor.install(f"{self.name}/added", plan.plan)
        try:
            return int(self._preview_view(view, seed)[1].sum())
        finally:
            self._engine.executor.uninstall(view)

    @property
    def state_rows(self) -> int:
        """Number of rows in the state that only these answers use."""
        return self.install().exclusive_state(self.name)[0]

    @property
    def state_bytes(self) -> int:
        """Allocated bytes of that state, used or not."""
        return self.install().exclusive_state(self.name)[1]

    # Plans

    def _add_seed_table(self, catalog: Catalog) -> Catalog:
        """Return the catalog with the seed table, under the executor's name."""
        extended = catalog.copy()
        if self.has_seeds:
            extended.add(TableEntry(self._seed_table_name, self._seed_schema))
        return extended

    @property
    def views(self) -> frozenset[str]:
        """The relations of the rewritten program that are materialized views."""
        return self.materialized & frozenset(self.prepared.program.relations)

    def _new_strata(self, suffix: str = "", *, isolated: bool = False) -> InstalledStrata:
        seed = self.prepared.seed
        names = {} if seed is None else {seed: self._seed_table_name}
        return InstalledStrata(self._engine, self.name + suffix, self._lowering, names, isolated=isolated)

    def uninstall(self) -> None:
        """Uninstall the dataflow. The next use installs it again."""
        for installation in (self._index, self._answers):
            if installation is not None:
                self._engine.executor.uninstall(installation)
        self._index = self._answers = None

    def drop(self) -> None:
        """Drop the dataflow and the seed table."""
        self.uninstall()
        self._strata.drop()
        if self.has_seeds:
            self._engine.executor.drop_table(self._seed_table_name)


def _add_arrangement(plan: PlannedStatement, order: Sequence[int], key: int) -> ir.Plan:
    """Return the plan with its output arranged by the columns in this order."""
    nodes, output = plan.plan.nodes, plan.plan.output
    if list(order) != list(range(len(order))):
        outputs = tuple(Column(position, plan.types[position]) for position in order)
        nodes = (*nodes, ir.Linear(output, ir.Mfp((), outputs)))
        output = len(nodes) - 1
    return replace(plan.plan, nodes=(*nodes, ir.Arrange(output, key)), output=len(nodes))


def _seed_words(rows: Sequence[Seed], width: int) -> Words:
    return np.array(rows, np.int64).reshape(len(rows), width).T.copy()
