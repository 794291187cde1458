"""What a relation keeps of what its rules derive, as algebra: see ``rules.selection``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import OrderBy, Rel
from kpg.compiler.rules import core
from kpg.compiler.rules.core import Choice, Subsumption
from kpg.compiler.rules.lowering.aggregate import reduced
from kpg.compiler.rules.lowering.atom import Context
from kpg.compiler.rules.lowering.bindings import Bindings, joined, without
from kpg.compiler.rules.lowering.body import lower_body
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN


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
        losers = _union([_derived(inner, rule, rule.head.terms) for rule in found.rules])
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
    every = algebra.Distinct(_union(pairs))
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


def _union(parts: Sequence[Rel]) -> Rel:
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
