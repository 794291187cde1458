"""The body of a rule: one join of its atoms, then what is computed from them, then what must not be."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.rules import core
from kpg.compiler.rules.aggregates import is_total
from kpg.compiler.rules.lowering.aggregate import defaults, summary
from kpg.compiler.rules.lowering.atom import Context, matched, matches
from kpg.compiler.rules.lowering.bindings import UNIT, Bindings, joined, without
from kpg.compiler.rules.lowering.ordered import Plan, lookup_orders
from kpg.runtime.errors import InternalError


def lower_body(
    context: Context,
    body: Sequence[core.Literal],
    kept: Iterable[str],
    given: Bindings | None = None,
    plan: Plan = (),
) -> Bindings:
    """The bindings of a body, perhaps with repetitions; those of ``given`` are joined with it.

    ``kept`` are the variables that matter besides those that occur in the body more than once: an atom
    whose variables are all bound elsewhere only has to match. ``plan`` as in a rule.
    """
    uses = Counter(v.name for literal in body for v in set(core.literal_variables(literal)))
    uses.update(set(kept))
    atoms = [literal for literal in body if isinstance(literal, core.Atom)]
    holders = Counter(v.name for atom in atoms for v in set(core.literal_variables(atom)))
    holders.update(() if given is None else given.places)
    parts = [given] if given is not None else []
    parts += [_atom(context, atom, uses, holders) for atom in atoms]
    early = [one for one in body if isinstance(one, core.BodyAggregate) and _is_atom(one)]
    parts += [summary(context, one, lower_body, None) for one in early]
    bound = {name for part in parts for name in part.places}
    rest = [_test_if_bound(one, bound) for one in body if not isinstance(one, core.Atom) and one not in early]
    tests = [one for one in rest if isinstance(one, core.Comparison) and _is_bound(one, bound)]
    orders = lookup_orders(plan, atoms, context.stratum, len(parts)) if given is None else ()
    rows = joined(parts or [UNIT], tests, orders)
    return _rest(context, rows, [one for one in rest if one not in tests])


def _atom(context: Context, atom: core.Atom, uses: Counter[str], holders: Counter[str]) -> Bindings:
    """The atom's bindings; each once if others bind all its variables, so that it only has to match."""
    found = matches(context, atom)
    used = [name for name in found.places if uses[name] > 1]
    is_loose = len(used) < len(found.places) or any(isinstance(term, core.Wildcard) for term in atom.terms)
    return found.distinct(used) if is_loose and all(holders[name] > 1 for name in used) else found


def _is_atom(literal: core.BodyAggregate) -> bool:
    """Whether the aggregate is there only for groups that its own body binds: it joins as an atom does."""
    return not is_total(literal.function) and {v.name for v in literal.groups} <= bound_by(literal.body)


def bound_by(body: Sequence[core.Literal]) -> frozenset[str]:
    """The variables that a body binds on its own."""
    bound: set[str] = set()
    size = -1
    while size < len(bound):
        size = len(bound)
        for literal in body:
            match literal:
                case core.Atom():
                    bound |= {v.name for v in core.literal_variables(literal)}
                case core.Assignment(variable=variable, expression=expression):
                    if all(v.name in bound for v in core.variables(expression)):
                        bound.add(variable.name)
                case core.BodyAggregate(result=result):
                    bound.add(result.name)
                case core.Negation() | core.Comparison():
                    pass
                case _:
                    assert_never(literal)
    return frozenset(bound)


def _test_if_bound(literal: core.Literal, bound: Iterable[str]) -> core.Literal:
    """The literal; for an assignment whose variable an aggregate's groups bind already, an equality."""
    if isinstance(literal, core.Assignment) and literal.variable.name in bound:
        return core.Comparison("eq", literal.variable, literal.expression, literal.span)
    return literal


def _is_bound(literal: core.Literal, bound: Iterable[str]) -> bool:
    names = set(bound)
    return all(variable.name in names for variable in core.literal_variables(literal))


def _rest(context: Context, rows: Bindings, rest: Sequence[core.Literal]) -> Bindings:
    """The rows with assignments made, tests passed, aggregates joined, and then negations."""
    negations = [one for one in rest if isinstance(one, core.Negation)]
    waiting = [one for one in rest if not isinstance(one, core.Negation)]
    while waiting:
        ready = [one for one in waiting if _is_ready(one, rows)]
        if not ready:
            raise InternalError(f"nothing binds the variables of {waiting[0]}")
        first = [one for one in ready if not isinstance(one, core.BodyAggregate)] or ready[:1]
        waiting = [one for one in waiting if one not in first]
        rows = _applied(context, rows, first)
    for negation in negations:
        rows = without(context.names, rows, matched(context, negation.atom))
    return rows


def _is_ready(literal: core.Literal, rows: Bindings) -> bool:
    match literal:
        case core.Assignment(expression=expression):
            return all(v.name in rows.places for v in core.variables(expression))
        case core.BodyAggregate(groups=groups):
            return all(v.name in rows.places for v in groups)
        case core.Atom() | core.Negation() | core.Comparison():
            return _is_bound(literal, rows.places)
        case _:
            assert_never(literal)


def _applied(context: Context, rows: Bindings, literals: Sequence[core.Literal]) -> Bindings:
    values = [
        (one.variable.name, rows.scalar(one.expression))
        for one in literals
        if isinstance(one, core.Assignment)
    ]
    tests = tuple(rows.test(one) for one in literals if isinstance(one, core.Comparison))
    if tests:
        rows = Bindings(algebra.Filter(rows.rel, tests), rows.places)
    if values:
        rows = rows.extended(values)
    for literal in literals:
        if isinstance(literal, core.BodyAggregate):
            rows = _aggregated(context, rows, literal)
    return rows


def _aggregated(context: Context, rows: Bindings, literal: core.BodyAggregate) -> Bindings:
    """The rows joined with the aggregate of their groups."""
    groups = [variable.name for variable in literal.groups]
    narrow = rows.narrowed(rows.places)
    id_ = context.names.fresh()
    get = Bindings(algebra.LocalGet(id_, algebra.types(narrow.rel)), narrow.places)
    unbound = [name for name in groups if name not in bound_by(literal.body)]
    found = summary(context, literal, lower_body, get.distinct(unbound) if unbound else None)
    if is_total(literal.function) and groups:
        found = defaults(context, literal, found, get.distinct(groups))
    both = joined([get, found])
    return replace(both, rel=algebra.Let(id_, narrow.rel, both.rel))
