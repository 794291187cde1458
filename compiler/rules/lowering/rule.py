"""A relation as its rules define it: the union of their heads, each row once, or aggregated."""

from collections.abc import Sequence
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel, types
from kpg.compiler.rules import core
from kpg.compiler.rules.aggregates import counts_repeats, is_total
from kpg.compiler.rules.core import Choice, Limit, Numbered, Subsumption
from kpg.compiler.rules.lowering.aggregate import reduced
from kpg.compiler.rules.lowering.atom import Context
from kpg.compiler.rules.lowering.bindings import ZERO, Bindings
from kpg.compiler.rules.lowering.body import lower_body
from kpg.compiler.rules.lowering.selection import chosen, numbered, undominated
from kpg.compiler.rules.primitives import WRAPS
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, Type


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
    rows = algebra.Distinct(_union([_head(_plain(context, rule), rule.head) for rule in rules]))
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


def _union(parts: Sequence[Rel]) -> Rel:
    return parts[0] if len(parts) == 1 else algebra.Union(tuple(parts))


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
    rows = _union(parts)
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
