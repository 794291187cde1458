"""Plans of relations that depend on many others: installed by strata, lest one plan grow too deep."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kpg.compiler.catalog.entries import Catalog, ViewEntry
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.program import Lowering
from kpg.datalog.planning import definition, planned, view_schema
from kpg.engine.engine import Engine
from kpg.queries.planning import Planned
from kpg.runtime.handles import Installation

MOST_STRATA: Final = 24
"""Strata that are written out in one plan."""


class InstalledStrata:
    """Relations of a program that are installed under names of their own, for plans of others to read.

    ``names`` are what the catalog calls relations, where it is not what the program does. With ``isolated``
    they see uncommitted changes, and share nothing with what is installed otherwise.
    """

    def __init__(
        self,
        engine: Engine,
        label: str,
        lowering: Lowering,
        names: Mapping[str, str] = MappingProxyType({}),
        *,
        isolated: bool = False,
    ) -> None:
        self._engine = engine
        self._label = label
        self._lowering = lowering
        self._names = dict(names)
        self._isolated = isolated
        self._installed: dict[str, Installation] = {}
        self._entries: dict[str, ViewEntry] = {}

    def plan(self, name: str, catalog: Catalog, kept: frozenset[str]) -> Planned:
        """The plan of a relation, over ``kept`` relations and over strata that are installed for it."""
        strata = self._lowering.written_out(name, kept)
        if len(strata) > MOST_STRATA:
            for stratum in strata:
                if name not in stratum.relations:
                    self._add(stratum.relations, catalog, kept)
        return self._planned(name, catalog, kept)

    def _add(self, relations: tuple[str, ...], catalog: Catalog, kept: frozenset[str]) -> None:
        """Install the relations of a stratum, whose equal loops are shared."""
        missing = [name for name in relations if name not in self._installed]
        plans = {name: self._planned(name, catalog, kept) for name in missing}
        for name, plan in plans.items():
            view = f"{self._label}/{name}"
            self._installed[name] = self._engine.executor.install(view, plan.plan, isolated=self._isolated)
            relation = self._lowering.program.relations[name]
            self._entries[name] = ViewEntry(
                view, view_schema(relation), None, materialized=True, keys=(keys_of(relation),)
            )
            self._names[name] = view

    def _planned(self, name: str, catalog: Catalog, kept: frozenset[str]) -> Planned:
        if self._entries:
            catalog = catalog.copy()
            for entry in self._entries.values():
                catalog.add(entry)
        rel = definition(self._lowering, name, catalog, kept | frozenset(self._installed), self._names)
        return planned(self._engine, self._lowering.program.relations[name], rel, catalog)

    def drop(self) -> None:
        """Uninstall them; nothing installed may read them any more."""
        for view in reversed(self._installed.values()):
            self._engine.executor.uninstall(view)
        self._installed.clear()


def is_deep(lowering: Lowering, name: str, kept: frozenset[str]) -> bool:
    """Whether a relation is too deep to be written out where it is used."""
    return len(lowering.written_out(name, kept)) > MOST_STRATA


def keys_of(relation: core.Relation) -> tuple[int, ...]:
    """The columns on which no two tuples agree: those that are not aggregated."""
    width = max(len(relation.columns), 1)
    aggregates = relation.aggregates or (None,) * width
    return tuple(place for place, function in enumerate(aggregates) if function is None)
