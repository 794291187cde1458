"""Installation: turns a checked program into tables and views, atomically."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import cache, partial
from typing import Final

import numpy as np

from kpg.compiler.algebra.facts import unique_keys
from kpg.compiler.catalog.entries import ViewEntry, query_of
from kpg.compiler.datalog.core_program import BASE
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.program import Lowering, lowering
from kpg.compiler.rules.magic import restricted
from kpg.compiler.rules.strata import dependencies, successors
from kpg.datalog import facts
from kpg.datalog.fact_files import load
from kpg.datalog.privileges import external, owning
from kpg.datalog.program_plans import (
    InstalledStrata,
    definition,
    is_deep,
    keys_of,
    placed,
    rounds,
    table_schema,
    view_schema,
)
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine

GOAL: Final = "?-"
"""Begins the names of the relations that goals of several literals are."""


@dataclass(slots=True)
class Relations:
    """What a program has in the database: the names of its tables, and its views.

    A view that is not in ``kept`` is expanded where SQL uses it, until somebody wants it maintained; one that
    depends on too many strata to be written out is maintained from the start.

    ``by_magic`` are outputs of a program that asks for magic sets: what they are made of is restricted to
    what they need, so they are computed by rules of their own.
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
        program = restricted(self.program, outputs)
        self.by_magic = {}
        if program is not None:
            lowered = lowering(program)
            self.magic_strata = InstalledStrata(self.engine, f"{self.label}, by magic", lowered)
            self.by_magic = dict.fromkeys(outputs, lowered)

    def outputs(self) -> list[str]:
        """The derived relations that are maintained from the start."""
        wanted = [one.relation for one in self.program.transfers if one.direction is not core.Direction.INPUT]
        derived = (one for one in wanted if self.program.relations[one].kind is core.Kind.DERIVED)
        return list(dict.fromkeys(derived))

    def lowering_of(self, name: str) -> Lowering:
        """What computes a relation."""
        return self.by_magic.get(name, self.lowering)

    @property
    def uses(self) -> frozenset[str]:
        """The relations of the database that the program reads, its tables included."""
        return frozenset((*self.tables, *external(self.program)))

    @property
    def kept(self) -> frozenset[str]:
        """The derived relations that are maintained."""
        return frozenset(name for name in self.views if self.is_there(name) and name in self.engine.views)

    def is_there(self, name: str) -> bool:
        """Whether nobody has dropped the view or put another in its place."""
        return self.engine.catalog.find(name) is self.views.get(name)

    def add(
        self,
        rows: Mapping[str, facts.Words],
        folder: str | None,
        owner: str | None = None,
        missing: Callable[[str], None] | None = None,
    ) -> None:
        """Add tables with these rows and those of files, and views: all, or nothing has changed.

        They belong to ``owner``, or to the role that asks; ``missing`` as in :func:`load`.
        """
        self.engine.refuse_in_transaction("installing a Datalog program")
        with ExitStack() as undo, placed(self.program), owning(self.engine, owner):
            undo.callback(self.remove)
            self._add_tables()
            with self.engine.transactions.statement(changes=True):
                for name, words in rows.items():
                    facts.insert(self.engine.table(name), words)
                if folder is not None:
                    load(self.program, self.engine, folder, missing)
            self._add_views(self.outputs(), self.ordered())
            undo.pop_all()

    def adopt(self, views: Iterable[str], kept: Iterable[str]) -> None:
        """Add views over tables that are there already; those of ``kept`` are maintained.

        Nobody has dropped those of ``views``.
        """
        with placed(self.program):
            relations = self.program.relations.values()
            self.tables += [one.name for one in relations if one.kind is core.Kind.INPUT]
            self.engine.note_uses(self.label, self.uses)
            there = frozenset(views)
            self._add_views(kept, [name for name in self.ordered() if name in there])

    def _add_tables(self) -> None:
        for relation in self.program.relations.values():
            if relation.kind is core.Kind.INPUT:
                self.engine.tables.create(relation.name, table_schema(relation))
                self.tables.append(relation.name)
        self.engine.note_uses(self.label, self.uses)

    def _add_views(self, kept: Iterable[str], names: Sequence[str]) -> None:
        wanted = set(kept)
        rounds(self.program)
        for name in names:
            relation = self.program.relations[name]
            by = self.lowering_of(name)
            written = cache(partial(definition, by, name, self.engine.catalog, frozenset()))
            deep = is_deep(self.lowering, name, frozenset())
            keys = (keys_of(relation),) if deep else None
            entry = ViewEntry(name, view_schema(relation), written, query_of(name), keys=keys)
            self.engine.views.create(entry, frozenset({self.label}), replace_old=False)
            self.views[name] = entry
            if deep:
                wanted.add(name)
        for name in names:
            if name in wanted:
                self.keep(name)

    def ordered(self) -> list[str]:
        """The derived relations that can be views, those first that others are made of."""
        return [name for name in self.lowering.order if not name.startswith(GOAL)]

    def keep(self, name: str) -> None:
        """Maintain a derived relation from now on."""
        kept = self.kept
        if name in kept:
            return
        self.engine.refuse_in_transaction(f"maintaining {name}")
        with placed(self.program):
            self._keep(name, kept)

    def _keep(self, name: str, kept: frozenset[str]) -> None:
        by_magic = self.magic_strata if name in self.by_magic else None
        plan = (by_magic or self.strata).plan(name, self.engine.catalog, kept)
        # Found here, where the definition is at hand, lest each reader write it out to find them.
        found = (tuple(sorted(key)) for key in unique_keys(plan.rel))
        keys = tuple(dict.fromkeys((*found, keys_of(self.program.relations[name]))))
        entry = replace(self.views[name], materialized=True, keys=keys)
        self.engine.views.materialize(entry, plan, frozenset({self.label}) | self._below(name, kept))
        self.views[name] = entry

    def _below(self, name: str, kept: Iterable[str]) -> frozenset[str]:
        """Those of the views that a relation depends on, without what depends on it in turn."""
        program = self.lowering_of(name).program
        reads = successors(program.relations, dependencies(program.rules))
        found = _reachable(reads, name)
        return frozenset(one for one in kept if one in found and name not in _reachable(reads, one))

    def contents(self) -> dict[str, facts.Words]:
        """The rows of the tables."""
        return {name: self.engine.table(name).scan() for name in self.tables}

    def remove(self) -> None:
        """Take away what is still there, users first."""
        users = [name for name in reversed(self.views) if self.is_there(name)]
        for name in sorted(users, key=lambda name: len(self.engine.views.dependents(name))):
            self.engine.drop(name)
        self.strata.drop()
        if self.magic_strata is not None:
            self.magic_strata.drop()
        for name in self.tables:
            if name in self.engine.catalog:
                self.engine.drop(name)
        self.views.clear()
        self.tables.clear()
        self.engine.forget_dataflow(self.label)


def carried(
    rows: Mapping[str, facts.Words], before: core.Program, after: core.Program, dictionary: Dictionary
) -> dict[str, facts.Words]:
    """The rows that the inputs of an extended program start with: those there are, and the added facts.

    ProgrammingError if an input that has rows is now defined by rules alone.
    """

    def place(name: str) -> str:
        plain = name.removesuffix(BASE)
        return plain + BASE if plain + BASE in after.relations else plain

    found = {place(name): [words] for name, words in rows.items()}
    for name in [one for one in found if after.relations[one].kind is not core.Kind.INPUT]:
        if found.pop(name)[0].shape[1]:
            hint = f"write .input {name}, and it has both"
            raise ProgrammingError(f"{name} has facts that were inserted, and would get rules", hint=hint)
    known = {place(name): frozenset(given) for name, given in before.facts.items()}
    for name, given in after.facts.items():
        relation = after.relations[name]
        fresh = [row for row in given if row not in known.get(name, ())]
        words = facts.rows_of(relation, fresh, table_schema(relation), dictionary)
        found.setdefault(name, []).append(words)
    return {name: np.concatenate(parts, axis=1) for name, parts in found.items()}


def _reachable(reads: Mapping[str, Sequence[str]], name: str) -> set[str]:
    """What a relation reads, directly or not."""
    found: set[str] = set()
    pending = [name]
    while pending:
        for one in reads.get(pending.pop(), ()):
            if one not in found:
                found.add(one)
                pending.append(one)
    return found
