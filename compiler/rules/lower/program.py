"""Lowering of a relation with its dependencies: a let per stratum, or a loop if the stratum is recursive.

A relation is the distinct union of the heads of its rules, or their aggregate. Subsumption, choice domains
and limits then decide which rows it keeps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import OrderBy, Rel, types
from kpg.compiler.catalog.entries import Catalog, get_of
from kpg.compiler.rules import core
from kpg.compiler.rules.core import WRAPS, Choice, Limit, Numbered, Subsumption, counts_repeats, is_total
from kpg.compiler.rules.lower.body import ZERO, Bindings, Context, joined, lower_body, reduced, without
from kpg.compiler.rules.strata import Stratum, strata
from kpg.runtime.errors import InternalError
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, Type


def _columns(count: int) -> list[str]:
    return [f"column {place}" for place in range(count)]


def undominated(context: Context, relation: core.Relation, found: Subsumption, rows: Rel) -> Rel:
    """The rows, each once, without those that others dominate."""
    types = algebra.types(rows)
    id_ = context.names.fresh()
    every = algebra.LocalGet(id_, types)

    def read(name: str) -> Rel:
        return every if name == relation.name else context.read(name)

    inner = replace(context, read=read, stratum=frozenset())
    if found.is_mutual:
        losers = _beaten(inner, found)
    else:
        losers = _union_of([_derived(inner, rule, rule.head.terms) for rule in found.rules])
    places = {name: place for place, name in enumerate(_columns(len(types)))}
    kept = without(context.names, Bindings(every, places), Bindings(losers, places).distinct(list(places)))
    return algebra.Let(id_, rows, kept.narrowed(list(places)).rel)


def _beaten(context: Context, found: Subsumption) -> Rel:
    """Of all pairs in which one tuple dominates the other: that one, if it is the greater or does not
    dominate the other too.
    """
    pairs = []
    for rule in found.rules:
        less, greater = rule.body[:2]
        assert isinstance(less, core.Atom) and isinstance(greater, core.Atom)
        terms = (*less.terms, *greater.terms)
        pairs.append(_derived(context, rule, tuple(one for one in terms if isinstance(one, core.Variable))))
    every = algebra.Distinct(_union_of(pairs))
    id_, types = context.names.fresh(), algebra.types(every)
    width = len(types) // 2
    left, right = _columns(2 * width)[:width], _columns(2 * width)[width:]
    forth = Bindings(algebra.LocalGet(id_, types), {name: at for at, name in enumerate((*left, *right))})
    back = replace(forth, places={name: at for at, name in enumerate((*right, *left))})
    alone = without(context.names, forth, back).narrowed(left).rel
    sides = [(Column(at + width, types[at]), Column(at, types[at])) for at in range(width)]
    is_before = _any(
        [
            _all([*(Call("eq", side, BOOLEAN) for side in sides[:at]), Call("lt", sides[at], BOOLEAN)])
            for at in range(width)
        ]
    )
    both = joined([forth, back])
    kept = both.narrowed([*left, *right]).rel
    greater_one = algebra.Project(algebra.Filter(kept, (is_before,)), tuple(range(width)))
    return algebra.Let(id_, every, algebra.Union((alone, greater_one)))


def _union_of(parts: Sequence[Rel]) -> Rel:
    return parts[0] if len(parts) == 1 else algebra.Union(tuple(parts))


def _derived(context: Context, rule: core.Rule, terms: Sequence[core.HeadTerm]) -> Rel:
    """These terms for each row of the rule's body."""
    names = [term.name if isinstance(term, core.Variable) else "" for term in terms]
    rows = lower_body(context, rule.body, [name for name in names if name])
    constants = [
        (f"constant {place}", Literal(term.value, term.type))
        for place, term in enumerate(terms)
        if isinstance(term, core.Constant)
    ]
    if constants:
        rows = rows.extended(constants)
    found = iter(name for name, _ in constants)
    return rows.narrowed([name or next(found) for name in names]).rel


def chosen(context: Context, relation: core.Relation, found: Choice, rows: Rel, *, is_loop: bool) -> Rel:
    """One row for each key: in a loop those of the rounds before, and of the rest the least."""
    types = algebra.types(rows)
    names = _columns(len(types))
    places = {name: place for place, name in enumerate(names)}
    if not is_loop:
        return _first(rows, found.keys[0])
    before = Bindings(algebra.LocalGet(relation.name, types), places)
    fresh = Bindings(rows, places)
    for key in found.keys:
        fresh = without(context.names, fresh, before.distinct([names[place] for place in key]))
    fresh = fresh.narrowed(names)
    id_ = context.names.fresh()
    candidates = algebra.LocalGet(id_, types)
    parts = [Bindings(_first(candidates, key), places) for key in found.keys]
    new = algebra.Let(id_, fresh.rel, joined(parts).narrowed(names).rel)
    return algebra.Distinct(algebra.Union((before.rel, new)))


def numbered(rows: Rel) -> Rel:
    """The rows with their numbers in the place of the last column."""
    types = algebra.types(rows)
    width = len(types) - 1
    texts = [place for place, type_ in enumerate(types[:width]) if type_.is_text]
    codes = tuple(Call("$ord", (Column(place, types[place]),), BIGINT) for place in texts)
    mapped: Rel = algebra.Map(rows, codes) if codes else rows
    keys = [len(types) + texts.index(place) if place in texts else place for place in range(width)]
    order = tuple(OrderBy(place, False, True) for place in keys)
    call = WindowCall("row_number", (), BIGINT, text="autoinc()")
    counted = algebra.Window(mapped, (), order, (), (call,))
    at = len(types) + len(codes)
    number = Call("sub", (Column(at, BIGINT), Literal(1, BIGINT)), BIGINT)
    return algebra.Project(algebra.Map(counted, (number,)), (*range(width), at + 1))


def _first(rows: Rel, key: Sequence[int]) -> Rel:
    order = tuple(OrderBy(place, False, True) for place in range(len(algebra.types(rows))))
    return algebra.TopK(rows, tuple(key), order, 1)


def below_limit(
    rows: Rel, before: Rel, ends: Sequence[core.End], read: Mapping[str, Rel], *, grows: bool
) -> Rel:
    """The rows, or those of the round ``before`` once one of the ends has come; they stay, if it ``grows``.

    ``read``: the relations that the ends count.
    """
    width = len(algebra.types(before))
    names = list(dict.fromkeys(name for end in ends for name, _ in end))
    counts = tuple(reduced(read[name], (), (("count", None, BIGINT),)) for name in names)
    row = counts[0] if len(counts) == 1 else algebra.Join(counts, ())

    def compared(function: str, name: str, most: int) -> Scalar:
        return Call(function, (Column(names.index(name), BIGINT), Literal(most, BIGINT)), BOOLEAN)

    def kept(rel: Rel, *tests: Scalar) -> Rel:
        joined = algebra.Join((rel, algebra.Filter(row, tests)), ())
        return algebra.Project(joined, tuple(range(width)))

    made = kept(rows, *(_any([compared("lt", *part) for part in end]) for end in ends))
    if grows:
        return algebra.Distinct(algebra.Union((before, made)))
    stays = kept(before, _any([_all([compared("ge", *part) for part in end]) for end in ends]))
    return algebra.Distinct(algebra.Union((made, stays)))


def _any(tests: Sequence[Scalar]) -> Scalar:
    return tests[0] if len(tests) == 1 else Call("or", tuple(tests), BOOLEAN)


def _all(tests: Sequence[Scalar]) -> Scalar:
    return tests[0] if len(tests) == 1 else Call("and", tuple(tests), BOOLEAN)


def relation_types(relation: core.Relation) -> tuple[Type, ...]:
    """The types of the rows; a relation without columns is kept as one with a column of zeros."""
    return relation.types or (BIGINT,)


def definition(context: Context, relation: core.Relation, rules: Sequence[core.Rule]) -> Rel:
    """The rows that the relation's rules derive."""
    if not rules:
        return algebra.Constant((), relation_types(relation))
    if any(relation.aggregates):
        rows = _aggregated(relation, [_contributions(context, relation, rule) for rule in rules])
        return _wrapped(rows, relation) if context.program.number_size == 32 else rows
    rows = algebra.Distinct(_union_of([_head(_plain(context, rule), rule.head) for rule in rules]))
    match relation.selection:
        case None | Limit():
            return rows
        case Numbered():
            return numbered(rows)
        case Subsumption():
            return undominated(context, relation, relation.selection, rows)
        case Choice():
            is_loop = relation.name in context.stratum
            return chosen(context, relation, relation.selection, rows, is_loop=is_loop)
        case _:
            assert_never(relation.selection)


def _plain(context: Context, rule: core.Rule) -> Bindings:
    return lower_body(context, rule.body, _names(rule.head), plan=rule.plan)


def _names(head: core.Head) -> list[str]:
    return list(dict.fromkeys(v.name for term in head.terms for v in core.variables(term)))


def _head(rows: Bindings, head: core.Head) -> Rel:
    """The head's terms for each row."""
    width = len(types(rows.rel))
    values = [Literal(term.value, term.type) for term in head.terms if isinstance(term, core.Constant)]
    values = values if head.terms else [ZERO]
    rel: Rel = algebra.Map(rows.rel, tuple(values)) if values else rows.rel
    fresh = iter(range(width, width + len(values)))
    places = [
        rows.places[term.name] if isinstance(term, core.Variable) else next(fresh) for term in head.terms
    ]
    return algebra.Project(rel, tuple(places or fresh))


def _contributions(context: Context, relation: core.Relation, rule: core.Rule) -> Rel:
    """The head's terms once for each binding of the body's variables, unless repetition does not matter."""
    if not counts_repeats(relation.aggregates):
        return _head(_plain(context, rule), rule.head)
    names = [v.name for literal in rule.body for v in core.literal_variables(literal)]
    every = list(dict.fromkeys(names))
    return _head(lower_body(context, rule.body, every, plan=rule.plan).distinct(every), rule.head)


def _aggregated(relation: core.Relation, parts: Sequence[Rel]) -> Rel:
    """The contributions of all rules, combined by the relation's aggregates; no row where there is none."""
    rows = _union_of(parts)
    columns = [Column(place, type_) for place, type_ in enumerate(relation.types)]
    keys = [column for column, f in zip(columns, relation.aggregates, strict=True) if f is None]
    wanted: list[tuple[str, Scalar | None, Type]] = [
        (function, column, column.type)
        for column, function in zip(columns, relation.aggregates, strict=True)
        if function is not None
    ]
    order = [place for place, f in enumerate(relation.aggregates) if f is None]
    order += [place for place, f in enumerate(relation.aggregates) if f is not None]
    if not keys:
        wanted.append(("count", None, BIGINT))
    rel = reduced(rows, keys, wanted)
    if not keys:
        some = Call("gt", (Column(len(order), BIGINT), Literal(0, BIGINT)), BOOLEAN)
        rel = algebra.Filter(rel, (some,))
    return algebra.Project(rel, tuple(order.index(place) for place in range(len(order))))


def _wrapped(rows: Rel, relation: core.Relation) -> Rel:
    """The rows with sums and counts in 32 bits."""
    values = {
        place: Call(WRAPS[column.type.domain], (Column(place, column.type.type),), column.type.type)
        for place, (column, function) in enumerate(zip(relation.columns, relation.aggregates, strict=True))
        if function is not None and is_total(function) and column.type.domain in WRAPS
    }
    if not values:
        return rows
    width = len(relation.columns)
    new = dict(zip(values, range(width, width + len(values)), strict=True))
    mapped = algebra.Map(rows, tuple(values.values()))
    return algebra.Project(mapped, tuple(new.get(place, place) for place in range(width)))


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
