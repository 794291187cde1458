"""Installation: turns a checked program into tables and views, atomically."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import cache, partial
from typing import Final

import numpy as np

from kpg.compiler.algebra.facts import unique_keys
from kpg.compiler.catalog.entries import ViewEntry, select_all
from kpg.compiler.datalog.core_program import BASE_SUFFIX
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.program import Lowering, lowering
from kpg.compiler.rules.magic import restrict_program
from kpg.compiler.rules.strata import dependencies, successors
from kpg.datalog import facts
from kpg.datalog.fact_files import load_inputs
from kpg.datalog.privileges import assign_ownership, external_relations
from kpg.datalog.program_plans import (
    InstalledStrata,
    add_error_position,
    definition,
    is_deep,
    key_columns,
    max_rounds,
    table_schema,
    view_schema,
)
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine

GOAL_PREFIX: Final = "?-"
"""Prefix of the generated relations of goals with several literals."""


@dataclass(slots=True)
class ProgramRelations:
    """A program's relations in the database: the names of its tables, and its views.

    A view that is not in ``materialized`` is expanded where SQL uses it, until it is materialized. A
    view that depends on too many strata to be expanded is materialized from the start.

    ``by_magic``: outputs of a program with magic sets inside it. Their dependencies are restricted to
    what they demand, so they are computed by rules of their own.
    """

    engine: Engine
    label: str
    program: core.Program
    tables: list[str] = field(default_factory=list)
    views: dict[str, ViewEntry] = field(default_factory=dict)
    lowering: Lowering = field(init=False)
    strata: InstalledStrata = field(init=False)
    by_magic: dict[str, Lowering] = field(init=False)
    magic_strata: InstalledStrata | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.lowering = lowering(self.program)
        self.strata = InstalledStrata(self.engine, self.label, self.lowering)
        outputs = self.outputs()
        program = restrict_program(self.program, outputs)
        self.by_magic = {}
        if program is not None:
            lowered = lowering(program)
            self.magic_strata = InstalledStrata(self.engine, f"{self.label}, by magic", lowered)
            self.by_magic = dict.fromkeys(outputs, lowered)

    def outputs(self) -> list[str]:
        """Return the derived relations of ``.output`` and ``.printsize``, materialized from the start."""
        names = [
            name.relation for name in self.program.transfers if name.direction is not core.TransferKind.INPUT
        ]
        derived = (name for name in names if self.program.relations[name].kind is core.Kind.DERIVED)
        return list(dict.fromkeys(derived))

    def lowering_of(self, name: str) -> Lowering:
        """Return the lowering that computes a relation."""
        return self.by_magic.get(name, self.lowering)

    @property
    def uses(self) -> frozenset[str]:
        """The database relations that the program reads, including its own tables."""
        return frozenset((*self.tables, *external_relations(self.program)))

    @property
    def materialized(self) -> frozenset[str]:
        """The derived relations that are materialized."""
        return frozenset(name for name in self.views if self.has_view(name) and name in self.engine.views)

    def has_view(self, name: str) -> bool:
        """Return whether the program's view exists, neither dropped nor replaced."""
        return self.engine.catalog.find(name) is self.views.get(name)

    def add(
        self,
        rows: Mapping[str, facts.Words],
        folder: str | None,
        owner: str | None = None,
        report_missing: Callable[[str], None] | None = None,
    ) -> None:
        """Add tables with these rows and the rows of fact files, and views, atomically.

        They belong to ``owner``, by default the current role. ``report_missing`` is that of
        :func:`load_inputs`.
        """
        self.engine.refuse_in_transaction("installing a Datalog program")
        with ExitStack() as undo, add_error_position(self.program), assign_ownership(self.engine, owner):
            undo.callback(self.remove)
            self._add_tables()
            with self.engine.transactions.statement(changes=True):
                for name, words in rows.items():
                    facts.insert(self.engine.table(name), words)
                if folder is not None:
                    load_inputs(self.program, self.engine, folder, report_missing)
            self._add_views(self.outputs(), self.view_names())
            undo.pop_all()

    def restore_views(self, views: Iterable[str], materialized: Iterable[str]) -> None:
        """Add views over tables that exist already, when a database is opened.

        Only ``views`` are added, because the others were dropped. Those in ``materialized`` are
        materialized.
        """
        with add_error_position(self.program):
            relations = self.program.relations.values()
            self.tables += [relation.name for relation in relations if relation.kind is core.Kind.INPUT]
            self.engine.record_reads(self.label, self.uses)
            existing = frozenset(views)
            self._add_views(materialized, [name for name in self.view_names() if name in existing])

    def _add_tables(self) -> None:
        for relation in self.program.relations.values():
            if relation.kind is core.Kind.INPUT:
                self.engine.tables.create(relation.name, table_schema(relation))
                self.tables.append(relation.name)
        self.engine.record_reads(self.label, self.uses)

    def _add_views(self, materialized: Iterable[str], names: Sequence[str]) -> None:
        to_materialize = set(materialized)
        max_rounds(self.program)
        for name in names:
            relation = self.program.relations[name]
            view_lowering = self.lowering_of(name)
            definition_of = cache(partial(definition, view_lowering, name, self.engine.catalog, frozenset()))
            is_deep_view = is_deep(self.lowering, name, frozenset())
            keys = (key_columns(relation),) if is_deep_view else None
            entry = ViewEntry(name, view_schema(relation), definition_of, select_all(name), keys=keys)
            self.engine.views.create(entry, frozenset({self.label}), replace_old=False)
            self.views[name] = entry
            if is_deep_view:
                to_materialize.add(name)
        for name in names:
            if name in to_materialize:
                self.materialize(name)

    def view_names(self) -> list[str]:
        """Return the derived relations that can be views, in dependency order."""
        return [name for name in self.lowering.order if not name.startswith(GOAL_PREFIX)]

    def materialize(self, name: str) -> None:
        """Materialize a derived relation from now on, unless it is already."""
        materialized = self.materialized
        if name in materialized:
            return
        self.engine.refuse_in_transaction(f"maintaining {name}")
        with add_error_position(self.program):
            self._materialize(name, materialized)

    def _materialize(self, name: str, materialized: frozenset[str]) -> None:
        by_magic = self.magic_strata if name in self.by_magic else None
        plan = (by_magic or self.strata).plan(name, self.engine.catalog, materialized)
        # The plan has the definition, so readers of the entry need not expand it to find keys.
        plan_keys = (tuple(sorted(key)) for key in unique_keys(plan.rel))
        keys = tuple(dict.fromkeys((*plan_keys, key_columns(self.program.relations[name]))))
        entry = replace(self.views[name], materialized=True, keys=keys)
        self.engine.views.materialize(
            entry, plan, frozenset({self.label}) | self._dependencies(name, materialized)
        )
        self.views[name] = entry

    def _dependencies(self, name: str, materialized: Iterable[str]) -> frozenset[str]:
        """Return the ``materialized`` views that a relation depends on and that do not depend on it."""
        program = self.lowering_of(name).program
        reads = successors(program.relations, dependencies(program.rules))
        reachable = _reachable(reads, name)
        return frozenset(
            view for view in materialized if view in reachable and name not in _reachable(reads, view)
        )

    def contents(self) -> dict[str, facts.Words]:
        """Return the rows of the tables, by name."""
        return {name: self.engine.table(name).scan() for name in self.tables}

    def remove(self) -> None:
        """Drop the tables and views that still exist, dependent ones first."""
        views = [name for name in reversed(self.views) if self.has_view(name)]
        for name in sorted(views, key=lambda name: len(self.engine.views.dependents(name))):
            self.engine.drop(name)
        self.strata.drop()
        if self.magic_strata is not None:
            self.magic_strata.drop()
        for name in self.tables:
            if name in self.engine.catalog:
                self.engine.drop(name)
        self.views.clear()
        self.tables.clear()
        self.engine.remove_dataflow(self.label)


def initial_rows(
    rows: Mapping[str, facts.Words], before: core.Program, after: core.Program, dictionary: Dictionary
) -> dict[str, facts.Words]:
    """Return the rows that the inputs of an extended program start with.

    These are the present rows and the added facts. Raises ProgrammingError if an input that has rows
    would be defined by rules alone.
    """

    def input_name(name: str) -> str:
        plain = name.removesuffix(BASE_SUFFIX)
        return plain + BASE_SUFFIX if plain + BASE_SUFFIX in after.relations else plain

    parts_by_name = {input_name(name): [words] for name, words in rows.items()}
    for name in [
        candidate for candidate in parts_by_name if after.relations[candidate].kind is not core.Kind.INPUT
    ]:
        if parts_by_name.pop(name)[0].shape[1]:
            hint = f"write .input {name}, and it has both"
            raise ProgrammingError(f"{name} has facts that were inserted, and would get rules", hint=hint)
    old_facts = {input_name(name): frozenset(given) for name, given in before.facts.items()}
    for name, facts_ in after.facts.items():
        relation = after.relations[name]
        added = [row for row in facts_ if row not in old_facts.get(name, ())]
        words = facts.encode_rows(relation, added, table_schema(relation), dictionary)
        parts_by_name.setdefault(name, []).append(words)
    return {name: np.concatenate(parts, axis=1) for name, parts in parts_by_name.items()}


def _reachable(reads: Mapping[str, Sequence[str]], name: str) -> set[str]:
    """Return the relations that a relation reads, directly or indirectly."""
    reachable: set[str] = set()
    pending = [name]
    while pending:
        for relation in reads.get(pending.pop(), ()):
            if relation not in reachable:
                reachable.add(relation)
                pending.append(relation)
    return reachable
