"""A relation of a program with all that it depends on: lets for its components, loops if recursive."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.catalog import Catalog, get_of
from kpg.compiler.rules import core
from kpg.compiler.rules.core import Limit
from kpg.compiler.rules.lowering.atom import Context
from kpg.compiler.rules.lowering.rule import definition, relation_types
from kpg.compiler.rules.lowering.selection import below_limit
from kpg.compiler.rules.strata import Stratum, strata
from kpg.runtime.errors import InternalError
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type


@dataclass(frozen=True, slots=True)
class Sources:
    """What is read from the catalog: inputs and external relations, and derived ones that are ``views``.

    ``names``: what the catalog calls a relation, where that is not the name it has in the program.
    """

    catalog: Catalog
    views: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)

    def get(self, relation: str) -> Rel:
        """A relation of the program as the catalog has it. ProgrammingError if it does not."""
        return get_of(self.catalog.get(self.names.get(relation, relation)))


@dataclass(frozen=True, slots=True)
class Lowering:
    """A program to be lowered relation by relation; :func:`lowering` makes it.

    ``strata`` are those of the derived relations, each after those that it depends on; relations that need
    values to be asked for are left out.
    """

    program: core.Program
    strata: tuple[Stratum, ...]
    places: Mapping[str, int]
    """The stratum of each derived relation."""
    below: tuple[tuple[int, ...], ...]
    """For each stratum, those that its rules read."""

    @property
    def order(self) -> tuple[str, ...]:
        """The derived relations, each after those that it depends on or in recursion with them."""
        return tuple(name for stratum in self.strata for name in stratum.relations)

    def relation(self, name: str, sources: Sources) -> Rel:
        """The rows of a relation, each once; columns as declared, a zero if there are none.

        The definition is written out even if the relation is one of the views. The relations of one
        recursive stratum are read off equal loops, which are written out as a whole: a relation is read as
        a view only if its whole stratum is. ProgrammingError if the catalog lacks a relation.
        """
        relation = self.program.relations.get(name)
        if relation is None or relation.demanded:
            raise InternalError(f"the program has no relation {name} to compute")
        if relation.kind is not core.Kind.DERIVED:
            columns = tuple(range(len(relation.columns))) or (0,)
            return algebra.Distinct(algebra.Project(sources.get(name), columns))
        wanted = self._wanted(self.places[name], sources.views)
        read = partial(self._read, sources, frozenset(n for p in wanted for n in self.strata[p].relations))
        context = Context(self.program, read)
        rel: Rel = algebra.LocalGet(name, relation_types(relation))
        for place in sorted(wanted, reverse=True):
            rel = self._bound(context, self.strata[place], rel)
        return rel

    def written_out(self, name: str, views: frozenset[str]) -> tuple[Stratum, ...]:
        """The strata whose rules define a relation or what it depends on, not by way of views; in order."""
        if name not in self.places:
            return ()
        return tuple(self.strata[place] for place in sorted(self._wanted(self.places[name], views)))

    def _wanted(self, place: int, views: frozenset[str]) -> set[int]:
        """The strata to define: this one and those that it depends on, not by way of views."""
        found: set[int] = set()
        pending = [place]
        while pending:
            one = pending.pop()
            if one not in found:
                found.add(one)
                pending += [p for p in self.below[one] if not self._is_kept(p, views)]
        return found

    def _is_kept(self, place: int, views: frozenset[str]) -> bool:
        return all(name in views for name in self.strata[place].relations)

    def _bound(self, context: Context, stratum: Stratum, body: Rel) -> Rel:
        """The body with the stratum's relations bound around it."""
        own = [self.program.relations[name] for name in stratum.relations]
        if stratum.is_recursive:
            context = replace(context, stratum=frozenset(stratum.relations))
        values = tuple(
            definition(context, one, [rule for rule in stratum.rules if rule.head.relation == one.name])
            for one in own
        )
        if stratum.is_recursive:
            types = tuple(relation_types(relation) for relation in own)
            values = _limited(own, values, types)
            return algebra.LetRec(stratum.relations, values, types, None, body)
        return algebra.Let(own[0].name, values[0], body)

    def _read(self, sources: Sources, defined: frozenset[str], name: str) -> Rel:
        if name in defined:
            return algebra.LocalGet(name, relation_types(self.program.relations[name]))
        return sources.get(name)


def _limited(
    own: Sequence[core.Relation], values: tuple[Rel, ...], types: tuple[tuple[Type, ...], ...]
) -> tuple[Rel, ...]:
    """What the relations of a loop are, with the limits of any of them."""
    limits = [one.selection for one in own if isinstance(one.selection, Limit)]
    ends = [end for limit in limits for end in limit.ends]
    if not ends:
        return values
    before = {one.name: algebra.LocalGet(one.name, kinds) for one, kinds in zip(own, types, strict=True)}
    ahead = dict(zip(before, values, strict=True))
    is_ahead = any(limit.is_ahead for limit in limits)
    counters = {one.name for one in own if isinstance(one.selection, Limit)}
    read = {name: ahead[name] if is_ahead and name not in counters else before[name] for name in before}
    grows = not any(limit.together for limit in limits)
    return tuple(
        below_limit(value, before[relation.name], ends, read, grows=grows)
        for relation, value in zip(own, values, strict=True)
    )


def lowering(program: core.Program) -> Lowering:
    """The program, ready to be lowered."""
    found = tuple(
        stratum
        for stratum in strata(program.relations, program.rules)
        if all(_is_computed(program.relations[name]) for name in stratum.relations)
    )
    places = {name: place for place, stratum in enumerate(found) for name in stratum.relations}
    reads = (
        {places.get(atom.relation) for rule in stratum.rules for atom, _ in core.atoms(rule.body)}
        | {places.get(name) for one in stratum.relations for name in _guards(program.relations[one])}
        for stratum in found
    )
    below = tuple(tuple(sorted(place for place in one if place is not None)) for one in reads)
    return Lowering(program, found, places, below)


def _guards(relation: core.Relation) -> frozenset[str]:
    found = relation.selection
    return found.guards if isinstance(found, core.Subsumption) else frozenset()


def _is_computed(relation: core.Relation) -> bool:
    return relation.kind is core.Kind.DERIVED and not relation.demanded


def lower_relation(program: core.Program, name: str, sources: Sources) -> Rel:
    """One relation of a program: see :meth:`Lowering.relation`."""
    return lowering(program).relation(name, sources)
