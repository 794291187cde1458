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
from kpg.compiler.catalog.entries import Catalog, get_node
from kpg.compiler.rules import core
from kpg.compiler.rules.core import (
    WRAP_FUNCTIONS,
    Choice,
    Limit,
    RowNumbering,
    Subsumption,
    has_identity,
    is_duplicate_sensitive,
)
from kpg.compiler.rules.lower.body import ZERO, Bindings, Context, antijoin, join, lower_body, reduce_rows
from kpg.compiler.rules.strata import Stratum, strata
from kpg.runtime.errors import InternalError
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, Type


def _columns(count: int) -> list[str]:
    return [f"column {place}" for place in range(count)]


def remove_dominated(context: Context, relation: core.Relation, subsumption: Subsumption, rows: Rel) -> Rel:
    """Return the distinct rows that no other row dominates."""
    types = algebra.types(rows)
    id_ = context.names.fresh()
    every = algebra.LocalGet(id_, types)

    def read(name: str) -> Rel:
        return every if name == relation.name else context.read(name)

    inner = replace(context, read=read, stratum=frozenset())
    if subsumption.is_mutual:
        losers = _mutual_losers(inner, subsumption)
    else:
        losers = _union_of([_derive_terms(inner, rule, rule.head.terms) for rule in subsumption.rules])
    places = {name: place for place, name in enumerate(_columns(len(types)))}
    kept = antijoin(context.names, Bindings(every, places), Bindings(losers, places).distinct(list(places)))
    return algebra.Let(id_, rows, kept.project(list(places)).rel)


def _mutual_losers(context: Context, subsumption: Subsumption) -> Rel:
    """Return the dominated row of each pair; if both dominate each other, the greater one."""
    pairs = []
    for rule in subsumption.rules:
        less, greater = rule.body[:2]
        assert isinstance(less, core.Atom) and isinstance(greater, core.Atom)
        terms = (*less.terms, *greater.terms)
        pairs.append(
            _derive_terms(context, rule, tuple(term for term in terms if isinstance(term, core.Variable)))
        )
    every = algebra.Distinct(_union_of(pairs))
    id_, types = context.names.fresh(), algebra.types(every)
    width = len(types) // 2
    left, right = _columns(2 * width)[:width], _columns(2 * width)[width:]
    pairs_forward = Bindings(
        algebra.LocalGet(id_, types), {name: at for at, name in enumerate((*left, *right))}
    )
    pairs_backward = replace(pairs_forward, places={name: at for at, name in enumerate((*right, *left))})
    alone = antijoin(context.names, pairs_forward, pairs_backward).project(left).rel
    sides = [(Column(at + width, types[at]), Column(at, types[at])) for at in range(width)]
    is_before = _disjunction(
        [
            _conjunction(
                [*(Call("eq", side, BOOLEAN) for side in sides[:at]), Call("lt", sides[at], BOOLEAN)]
            )
            for at in range(width)
        ]
    )
    both = join([pairs_forward, pairs_backward])
    kept = both.project([*left, *right]).rel
    greater_one = algebra.Project(algebra.Filter(kept, (is_before,)), tuple(range(width)))
    return algebra.Let(id_, every, algebra.Union((alone, greater_one)))


def _union_of(parts: Sequence[Rel]) -> Rel:
    return parts[0] if len(parts) == 1 else algebra.Union(tuple(parts))


def _derive_terms(context: Context, rule: core.Rule, terms: Sequence[core.HeadTerm]) -> Rel:
    """Return the terms for each row of the rule's body."""
    names = [term.name if isinstance(term, core.Variable) else "" for term in terms]
    rows = lower_body(context, rule.body, [name for name in names if name])
    constants = [
        (f"constant {place}", Literal(term.value, term.type))
        for place, term in enumerate(terms)
        if isinstance(term, core.Constant)
    ]
    if constants:
        rows = rows.extend(constants)
    found = iter(name for name, _ in constants)
    return rows.project([name or next(found) for name in names]).rel


def choose_rows(
    context: Context, relation: core.Relation, choice: Choice, rows: Rel, *, is_loop: bool
) -> Rel:
    """Return one row per key: in a loop that of an earlier round if there is one, else the least."""
    types = algebra.types(rows)
    names = _columns(len(types))
    places = {name: place for place, name in enumerate(names)}
    if not is_loop:
        return _first(rows, choice.keys[0])
    before = Bindings(algebra.LocalGet(relation.name, types), places)
    fresh = Bindings(rows, places)
    for key in choice.keys:
        fresh = antijoin(context.names, fresh, before.distinct([names[place] for place in key]))
    fresh = fresh.project(names)
    id_ = context.names.fresh()
    candidates = algebra.LocalGet(id_, types)
    parts = [Bindings(_first(candidates, key), places) for key in choice.keys]
    new = algebra.Let(id_, fresh.rel, join(parts).project(names).rel)
    return algebra.Distinct(algebra.Union((before.rel, new)))


def number_rows(rows: Rel) -> Rel:
    """Replace the last column by the row's number."""
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


def limit_rounds(
    rows: Rel,
    before: Rel,
    end_conditions: Sequence[core.EndCondition],
    read: Mapping[str, Rel],
    *,
    grows: bool,
) -> Rel:
    """Return the rows, or those of the previous round once an end condition holds.

    Args:
      rows: the relation's rows in this round.
      before: its rows in the previous round.
      end_conditions: the end conditions.
      read: the relations that the end conditions count.
      grows: whether the rows of previous rounds persist.
    """
    width = len(algebra.types(before))
    names = list(dict.fromkeys(name for end in end_conditions for name, _ in end))
    counts = tuple(reduce_rows(read[name], (), (("count", None, BIGINT),)) for name in names)
    row = counts[0] if len(counts) == 1 else algebra.Join(counts, ())

    def count_test(function: str, name: str, most: int) -> Scalar:
        return Call(function, (Column(names.index(name), BIGINT), Literal(most, BIGINT)), BOOLEAN)

    def keep_if(rel: Rel, *tests: Scalar) -> Rel:
        joined = algebra.Join((rel, algebra.Filter(row, tests)), ())
        return algebra.Project(joined, tuple(range(width)))

    current = keep_if(
        rows, *(_disjunction([count_test("lt", *part) for part in end]) for end in end_conditions)
    )
    if grows:
        return algebra.Distinct(algebra.Union((before, current)))
    stays = keep_if(
        before,
        _disjunction([_conjunction([count_test("ge", *part) for part in end]) for end in end_conditions]),
    )
    return algebra.Distinct(algebra.Union((current, stays)))


def _disjunction(tests: Sequence[Scalar]) -> Scalar:
    return tests[0] if len(tests) == 1 else Call("or", tuple(tests), BOOLEAN)


def _conjunction(tests: Sequence[Scalar]) -> Scalar:
    return tests[0] if len(tests) == 1 else Call("and", tuple(tests), BOOLEAN)


def relation_types(relation: core.Relation) -> tuple[Type, ...]:
    """Return the types of the rows.

    A relation without columns has a single column of zeros.
    """
    return relation.types or (BIGINT,)


def definition(context: Context, relation: core.Relation, rules: Sequence[core.Rule]) -> Rel:
    """Return the rows that the relation's rules derive."""
    if not rules:
        return algebra.Constant((), relation_types(relation))
    if any(relation.aggregates):
        rows = _aggregate(relation, [_contributions(context, relation, rule) for rule in rules])
        return _wrap_to_32_bits(rows, relation) if context.program.number_size == 32 else rows
    rows = algebra.Distinct(_union_of([_head(_lower_rule(context, rule), rule.head) for rule in rules]))
    match relation.selection:
        case None | Limit():
            return rows
        case RowNumbering():
            return number_rows(rows)
        case Subsumption():
            return remove_dominated(context, relation, relation.selection, rows)
        case Choice():
            is_loop = relation.name in context.stratum
            return choose_rows(context, relation, relation.selection, rows, is_loop=is_loop)
        case _:
            assert_never(relation.selection)


def _lower_rule(context: Context, rule: core.Rule) -> Bindings:
    return lower_body(context, rule.body, _names(rule.head), plan=rule.plan)


def _names(head: core.Head) -> list[str]:
    return list(dict.fromkeys(v.name for term in head.terms for v in core.variables(term)))


def _head(rows: Bindings, head: core.Head) -> Rel:
    """Return the head's terms for each row."""
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
    """Return the head's terms for each distinct binding of the body, unless duplicates do not matter."""
    if not is_duplicate_sensitive(relation.aggregates):
        return _head(_lower_rule(context, rule), rule.head)
    names = [v.name for literal in rule.body for v in core.literal_variables(literal)]
    every = list(dict.fromkeys(names))
    return _head(lower_body(context, rule.body, every, plan=rule.plan).distinct(every), rule.head)


def _aggregate(relation: core.Relation, parts: Sequence[Rel]) -> Rel:
    """Combine the contributions of all rules by the relation's aggregates.

    Without contributions, there is no row.
    """
    rows = _union_of(parts)
    columns = [Column(place, type_) for place, type_ in enumerate(relation.types)]
    keys = [column for column, f in zip(columns, relation.aggregates, strict=True) if f is None]
    aggregates: list[tuple[str, Scalar | None, Type]] = [
        (function, column, column.type)
        for column, function in zip(columns, relation.aggregates, strict=True)
        if function is not None
    ]
    order = [place for place, f in enumerate(relation.aggregates) if f is None]
    order += [place for place, f in enumerate(relation.aggregates) if f is not None]
    if not keys:
        aggregates.append(("count", None, BIGINT))
    rel = reduce_rows(rows, keys, aggregates)
    if not keys:
        some = Call("gt", (Column(len(order), BIGINT), Literal(0, BIGINT)), BOOLEAN)
        rel = algebra.Filter(rel, (some,))
    return algebra.Project(rel, tuple(order.index(place) for place in range(len(order))))


def _wrap_to_32_bits(rows: Rel, relation: core.Relation) -> Rel:
    """Wrap sums and counts to 32 bits."""
    values = {
        place: Call(WRAP_FUNCTIONS[column.type.domain], (Column(place, column.type.type),), column.type.type)
        for place, (column, function) in enumerate(zip(relation.columns, relation.aggregates, strict=True))
        if function is not None and has_identity(function) and column.type.domain in WRAP_FUNCTIONS
    }
    if not values:
        return rows
    width = len(relation.columns)
    new = dict(zip(values, range(width, width + len(values)), strict=True))
    mapped = algebra.Map(rows, tuple(values.values()))
    return algebra.Project(mapped, tuple(new.get(place, place) for place in range(width)))


@dataclass(frozen=True, slots=True)
class Sources:
    """Catalog relations that the program reads: inputs, external relations, and derived ones in ``views``.

    ``names`` maps relations of the program to their names in the catalog, if these differ.
    """

    catalog: Catalog
    views: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)

    def get(self, relation: str) -> Rel:
        """Return a relation of the program from the catalog.

        Raises ProgrammingError if it does not exist.
        """
        return get_node(self.catalog.get(self.names.get(relation, relation)))


@dataclass(frozen=True, slots=True)
class Lowering:
    """A program that can be lowered relation by relation, made by :func:`lowering`.

    ``strata`` are those of the derived relations in dependency order, without relations that goals
    must bind.
    """

    program: core.Program
    strata: tuple[Stratum, ...]
    places: Mapping[str, int]
    """Index of the stratum of each derived relation."""
    below: tuple[tuple[int, ...], ...]
    """For each stratum, the indexes of the strata that its rules read."""

    @property
    def order(self) -> tuple[str, ...]:
        """The derived relations in dependency order."""
        return tuple(name for stratum in self.strata for name in stratum.relations)

    def relation(self, name: str, sources: Sources) -> Rel:
        """Return the distinct rows of a relation, with the declared columns, or a zero if there are none.

        The relation's own definition is included even if it is a view. A relation is read as a view only
        if its whole stratum is, so that the relations of one recursive stratum read equal loops. Raises
        ProgrammingError if the catalog lacks a relation.
        """
        relation = self.program.relations.get(name)
        if relation is None or relation.required_bindings:
            raise InternalError(f"the program has no relation {name} to compute")
        if relation.kind is not core.Kind.DERIVED:
            columns = tuple(range(len(relation.columns))) or (0,)
            return algebra.Distinct(algebra.Project(sources.get(name), columns))
        required = self._required_strata(self.places[name], sources.views)
        read = partial(self._read, sources, frozenset(n for p in required for n in self.strata[p].relations))
        context = Context(self.program, read)
        rel: Rel = algebra.LocalGet(name, relation_types(relation))
        for place in sorted(required, reverse=True):
            rel = self._bind_stratum(context, self.strata[place], rel)
        return rel

    def defining_strata(self, name: str, views: frozenset[str]) -> tuple[Stratum, ...]:
        """Return the strata that define a relation and its dependencies, except through views, in order."""
        if name not in self.places:
            return ()
        return tuple(self.strata[place] for place in sorted(self._required_strata(self.places[name], views)))

    def _required_strata(self, place: int, views: frozenset[str]) -> set[int]:
        """Return the indexes of a stratum and its dependencies, except through views."""
        found: set[int] = set()
        pending = [place]
        while pending:
            index = pending.pop()
            if index not in found:
                found.add(index)
                pending += [p for p in self.below[index] if not self._is_view(p, views)]
        return found

    def _is_view(self, place: int, views: frozenset[str]) -> bool:
        return all(name in views for name in self.strata[place].relations)

    def _bind_stratum(self, context: Context, stratum: Stratum, body: Rel) -> Rel:
        """Bind the relations of the stratum around the body."""
        own = [self.program.relations[name] for name in stratum.relations]
        if stratum.is_recursive:
            context = replace(context, stratum=frozenset(stratum.relations))
        values = tuple(
            definition(context, one, [rule for rule in stratum.rules if rule.head.relation == one.name])
            for one in own
        )
        if stratum.is_recursive:
            types = tuple(relation_types(relation) for relation in own)
            values = _apply_limits(own, values, types)
            return algebra.LetRec(stratum.relations, values, types, None, body)
        return algebra.Let(own[0].name, values[0], body)

    def _read(self, sources: Sources, defined: frozenset[str], name: str) -> Rel:
        if name in defined:
            return algebra.LocalGet(name, relation_types(self.program.relations[name]))
        return sources.get(name)


def _apply_limits(
    own: Sequence[core.Relation], values: tuple[Rel, ...], types: tuple[tuple[Type, ...], ...]
) -> tuple[Rel, ...]:
    """Return the values of a loop's relations under the limits of any of them."""
    limits = [one.selection for one in own if isinstance(one.selection, Limit)]
    ends = [end for limit in limits for end in limit.end_conditions]
    if not ends:
        return values
    before = {one.name: algebra.LocalGet(one.name, kinds) for one, kinds in zip(own, types, strict=True)}
    ahead = dict(zip(before, values, strict=True))
    is_ahead = any(limit.counts_next_round for limit in limits)
    counters = {one.name for one in own if isinstance(one.selection, Limit)}
    read = {name: ahead[name] if is_ahead and name not in counters else before[name] for name in before}
    grows = not any(limit.lockstep_relations for limit in limits)
    return tuple(
        limit_rounds(value, before[relation.name], ends, read, grows=grows)
        for relation, value in zip(own, values, strict=True)
    )


def lowering(program: core.Program) -> Lowering:
    """Return the program, prepared for lowering."""
    found = tuple(
        stratum
        for stratum in strata(program.relations, program.rules)
        if all(_is_computed(program.relations[name]) for name in stratum.relations)
    )
    places = {name: place for place, stratum in enumerate(found) for name in stratum.relations}
    reads = (
        {places.get(atom.relation) for rule in stratum.rules for atom, _ in core.atoms(rule.body)}
        | {places.get(name) for one in stratum.relations for name in _guard_relations(program.relations[one])}
        for stratum in found
    )
    below = tuple(tuple(sorted(place for place in one if place is not None)) for one in reads)
    return Lowering(program, found, places, below)


def _guard_relations(relation: core.Relation) -> frozenset[str]:
    found = relation.selection
    return found.guards if isinstance(found, core.Subsumption) else frozenset()


def _is_computed(relation: core.Relation) -> bool:
    return relation.kind is core.Kind.DERIVED and not relation.required_bindings


def lower_relation(program: core.Program, name: str, sources: Sources) -> Rel:
    """Return one relation of a program, as :meth:`Lowering.relation`."""
    return lowering(program).relation(name, sources)
