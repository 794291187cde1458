"""A recursive relation's rows for what is asked: some columns, and a relation of the values they have."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.failing import is_total
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog import Catalog, ViewEntry
from kpg.compiler.demand.rules import Rules
from kpg.compiler.demand.seeds import constants
from kpg.compiler.passes._selection import peel
from kpg.compiler.physical.estimate import Sizes
from kpg.compiler.rules import core
from kpg.compiler.rules.lowering import Sources, lowering
from kpg.compiler.rules.magic import Policy, Prepared, Strategy, prepare
from kpg.compiler.rules.strata import strata
from kpg.runtime.records import dataclass
from kpg.runtime.types import ColumnDef, Schema

SOME: Final = 10.0
"""How many rows of a relation have some value in a column, about."""
FEW: Final = 16
"""From at most this many rows for each that is asked for, a recursion is followed from its start on."""


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a relation is computed as a whole."""

    reason: str


@dataclass(slots=True)
class Asking:
    """The rules of a recursion, to be asked."""

    rules: Rules
    sizes: Sizes
    known: dict[tuple[str, tuple[int, ...]], Prepared] = field(default_factory=dict)

    def answer(self, id_: str, columns: Sequence[int], seed: Rel, rows: float) -> Rel | Declined:
        """The rows of a relation that have a row of ``seed``, about ``rows`` of them, at the columns."""
        prepared = self.prepared(id_, columns)
        if prepared.strategy in (Strategy.FULL, Strategy.LOOKUP) or prepared.seed is None:
            return Declined(prepared.explanation.reason)
        if self._starts() <= FEW * rows and _is_recursive(prepared):
            return Declined("it starts from few rows, and what is asked for would have to be found too")
        return self._lowered(prepared, seed)

    def prepared(self, id_: str, columns: Sequence[int]) -> Prepared:
        """The rules for asking with values for the columns."""
        key = id_, tuple(columns)
        if key not in self.known:
            program = self.rules.program
            bound = [place in columns for place in range(len(program.relations[id_].columns))]
            # Only magic sets proper evaluate nothing that the query would not.
            safe = all(map(is_total, self.rules.numbered.known))
            policy = Policy(linear=safe, levels=None)
            self.known[key] = prepare(program, id_, bound, policy)
        return self.known[key]

    def base_rows(self) -> float:
        """About how many rows the largest relation has that the recursion reads."""
        return max((self.sizes.rows(rel) for rel in self.rules.bases.values()), default=1.0)

    def _starts(self) -> float:
        """About how many rows the recursion starts from."""
        program = self.rules.program
        found = 0.0
        for rule in program.rules:
            read = [atom.relation for atom, _ in core.atoms(rule.body)]
            if all(name in self.rules.bases for name in read):
                found += min((self._rows(self.rules.bases[name]) for name in read), default=1.0)
        return found

    def _rows(self, rel: Rel) -> float:
        """About how many rows a base relation has; for a value of a column, not more than a few."""
        given = constants(peel(rel).predicates)
        most = math.inf if given is None else SOME * len(given[1].rows)
        return min(self.sizes.rows(rel), most)

    def _lowered(self, prepared: Prepared, seed: Rel) -> Rel:
        """The answer's relation over the query's own."""
        program = prepared.program
        wholes = frozenset(self.rules.program.relations) - frozenset(self.rules.bases)
        read: dict[str, Rel] = dict(self.rules.bases)
        for name in wholes:
            read[name] = algebra.LocalGet(name, self.rules.program.relations[name].types)
        assert prepared.seed is not None
        read[prepared.seed] = seed
        sources = Sources(_catalog(program, read), wholes)
        rel = lowering(program).relation(prepared.answer, sources)

        def placed(node: Rel) -> Rel:
            if isinstance(node, algebra.Get):
                return read[node.name]
            if isinstance(node, algebra.LetRec) and self.rules.limit is not None:
                return replace(node, limit=self.rules.limit, error_at_limit=True)
            return node

        return transform_up(self.rules.numbered.resolved(rel), placed)


def _catalog(program: core.Program, read: Mapping[str, Rel]) -> Catalog:
    """The relations that are read, as views by their names in the program."""
    catalog = Catalog()
    for name, rel in read.items():
        if name in program.relations:
            columns = (ColumnDef(f"c{place}", type_) for place, type_ in enumerate(algebra.types(rel)))
            catalog.add(ViewEntry(name, Schema(tuple(columns)), None))
    return catalog


def _is_recursive(prepared: Prepared) -> bool:
    """Whether what is asked for leads to more that is asked for."""
    return any(
        stratum.is_recursive and not set(prepared.demands).isdisjoint(stratum.relations)
        for stratum in strata(prepared.program.relations, prepared.program.rules)
    )
