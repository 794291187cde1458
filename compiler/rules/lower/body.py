"""Lowering of rule bodies: a join of the atoms, then computed values, then negations.

:class:`Bindings` is a relation whose columns are the variables of a rule. An atom yields the rows of its
relation that match its terms. An aggregate yields one value per group, including groups without bindings.
``.plan`` sets the join orders.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import AggregateCall, Rel
from kpg.compiler.algebra.rel import types as types_of
from kpg.compiler.algebra.scalars import substitute
from kpg.compiler.rules import core
from kpg.compiler.rules.core import has_identity
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import Composite, lookup_aggregate, resolve_aggregate
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, Type


@dataclass(frozen=True, slots=True)
class Bindings:
    """A relation with a column for each variable, and perhaps others.

    Rows may repeat.
    """

    rel: Rel
    places: Mapping[str, int]

    def column(self, name: str) -> Column:
        """Return the column of a variable."""
        place = self.places[name]
        return Column(place, types_of(self.rel)[place])

    def project(self, names: Iterable[str]) -> "Bindings":
        """Return the columns of these variables, in that order.

        Without variables, there is one column of zeros.
        """
        chosen = tuple(names)
        if not chosen:
            width = len(types_of(self.rel))
            return Bindings(algebra.Project(algebra.Map(self.rel, (ZERO,)), (width,)), {})
        columns = tuple(self.places[name] for name in chosen)
        return Bindings(algebra.Project(self.rel, columns), {name: i for i, name in enumerate(chosen)})

    def distinct(self, names: Iterable[str]) -> "Bindings":
        """Return the distinct bindings of these variables."""
        narrow = self.project(names)
        return Bindings(algebra.Distinct(narrow.rel), narrow.places)

    def extend(self, values: Sequence[tuple[str, Scalar]]) -> "Bindings":
        """Append a column for each of these variables."""
        width = len(types_of(self.rel))
        places = {**self.places, **{name: width + i for i, (name, _) in enumerate(values)}}
        return Bindings(algebra.Map(self.rel, tuple(scalar for _, scalar in values)), places)

    def scalar(self, expression: core.Expression) -> Scalar:
        """Return an expression over the variables as a scalar over the columns."""
        match expression:
            case core.Variable(name=name):
                return self.column(name)
            case core.Constant(value=value, type=type_):
                return Literal(value, type_)
            case core.Call(function=function, args=args, type=type_):
                return Call(function, tuple(self.scalar(arg) for arg in args), type_)
            case core.Parameter(name=name):
                raise InternalError(f"parameter ${name} has no value in a rule")
            case _:
                assert_never(expression)

    def test(self, comparison: core.Comparison) -> Scalar:
        """Return a comparison of bound values as a predicate."""
        sides = (self.scalar(comparison.left), self.scalar(comparison.right))
        if comparison.negated and comparison.function in OPPOSITES:
            return Call(OPPOSITES[comparison.function], sides, BOOLEAN)
        call = Call(comparison.function, sides, BOOLEAN)
        return Call("not", (call,), BOOLEAN) if comparison.negated else call


ZERO = Literal(0, BIGINT)
UNIT = Bindings(algebra.Constant(((0,),), (BIGINT,)), {})
"""The single binding of no variables."""
OPPOSITES = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@dataclass(slots=True)
class FreshNames:
    """Generator of fresh let ids."""

    numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        return f"rows {next(self.numbers)}"


def equality(left: Scalar, right: Scalar) -> Scalar:
    """Return the predicate that two columns of one type are equal."""
    return Call("eq", (left, right), BOOLEAN)


def join(
    parts: Sequence[Bindings],
    tests: Sequence[core.Comparison] = (),
    orders: tuple[tuple[int, ...], ...] = (),
) -> Bindings:
    """Join bindings on their shared variables, with additional tests.

    Multiplicities multiply. ``orders`` is as in ``rel.Join``.
    """
    if len(parts) == 1:
        only = parts[0]
        return (
            only
            if not tests
            else Bindings(algebra.Filter(only.rel, tuple(only.test(test) for test in tests)), only.places)
        )
    places: dict[str, int] = {}
    equalities: list[Scalar] = []
    start = 0
    for part in parts:
        types = types_of(part.rel)
        for name, place in part.places.items():
            column = Column(start + place, types[place])
            if name in places:
                equalities.append(equality(Column(places[name], column.type), column))
            else:
                places[name] = column.index
        start += len(types)
    bare = algebra.Join(tuple(part.rel for part in parts), tuple(equalities))
    over = Bindings(bare, places)
    on = (*equalities, *(over.test(test) for test in tests))
    return Bindings(algebra.Join(bare.inputs, on, orders), places)


def antijoin(fresh_names: FreshNames, rows: Bindings, excluded: Bindings) -> Bindings:
    """Return the rows that match no row of ``excluded``, a set, on the variables of ``excluded``."""
    narrow = rows.project(rows.places)
    types = types_of(narrow.rel)
    id_ = fresh_names.fresh()
    get = Bindings(algebra.LocalGet(id_, types), narrow.places)
    both = join([get, excluded])
    matched = algebra.Negate(algebra.Project(both.rel, tuple(range(len(types)))))
    rel = algebra.Let(id_, narrow.rel, algebra.Union((get.rel, matched)))
    return Bindings(rel, narrow.places)


ANY: Final = "@any value"


@dataclass(frozen=True, slots=True)
class Context:
    """The program's relations, and how the lowering of a rule reads them."""

    program: core.Program
    read: Callable[[str], Rel]
    """Returns a relation by name.

    Its declared columns come first.
    """
    stratum: frozenset[str] = frozenset()
    """Relations of the recursive stratum being lowered."""
    names: FreshNames = field(default_factory=FreshNames)


def any_value(type_: Type, number: int, place: int) -> core.Variable:
    """Return the variable for a wildcard in an aggregate.

    It may be NULL.
    """
    return core.Variable(f"{ANY} {number} {place}", type_)


def is_any_value(term: core.Term) -> bool:
    """Return whether a term is the variable of a wildcard in an aggregate."""
    return isinstance(term, core.Variable) and term.name.startswith(ANY)


def match_atom(context: Context, atom: core.Atom) -> Bindings:
    """Return the atom's bindings, one for each matching row."""
    relation = context.program.relations[atom.relation]
    rel = context.read(atom.relation)
    rel, columns = _column_values(rel, relation, atom)
    places: dict[str, int] = {}
    tests: list[Scalar] = []
    for term, column in zip(atom.terms, columns, strict=True):
        match term:
            case core.Wildcard():
                pass
            case core.Constant(value=value, type=type_):
                tests.append(equality(column, Literal(value, type_)))
            case core.Variable(name=name) if name in places:
                tests.append(equality(Column(places[name], column.type), column))
            case core.Variable(name=name):
                places[name] = column.index
            case core.Parameter(name=name):
                raise InternalError(f"parameter ${name} has no value in a rule")
            case _:
                assert_never(term)
    return Bindings(algebra.Filter(rel, tuple(tests)) if tests else rel, places)


def _column_values(rel: Rel, relation: core.Relation, atom: core.Atom) -> tuple[Rel, list[Column]]:
    """Return the relation without NULLs where the atom has a term, and the columns with the cast values."""
    used = [
        (place, column)
        for place, (column, term) in enumerate(zip(relation.columns, atom.terms, strict=True))
        if not isinstance(term, core.Wildcard) and not is_any_value(term)
    ]
    stored = [Column(place, column.stored_type) for place, column in enumerate(relation.columns)]
    not_null = tuple(Call("is_not_null", (stored[place],), BOOLEAN) for place, c in used if c.nullable)
    if not_null:
        rel = algebra.Filter(rel, not_null)
    cast = [(place, column.type.type) for place, column in used if column.stored_type != column.type.type]
    if cast:
        width = len(types_of(rel))
        rel = algebra.Map(rel, tuple(Call("cast", (stored[place],), type_) for place, type_ in cast))
        for offset, (place, type_) in enumerate(cast):
            stored[place] = Column(width + offset, type_)
    return rel, stored


def is_set(context: Context, atom: core.Atom) -> bool:
    """Return whether the atom has each of its bindings once."""
    derived = context.program.relations[atom.relation].kind is core.Kind.DERIVED
    return derived and not any(isinstance(term, core.Wildcard) for term in atom.terms)


def match_distinct(context: Context, atom: core.Atom) -> Bindings:
    """Return the atom's distinct bindings."""
    found = match_atom(context, atom)
    if is_set(context, atom):
        return found.project(found.places) if found.places else found
    return found.distinct(found.places)


LowerBody = Callable[[Context, Sequence[core.Literal], Sequence[str], Bindings | None], Bindings]


def lower_aggregate(
    context: Context, literal: core.BodyAggregate, lower_body: LowerBody, outer: Bindings | None
) -> Bindings:
    """Return the groups for which the body has bindings, with the aggregate's result.

    Without groups, a total aggregate has one row. ``outer`` has the groups that the body does not
    bind.
    """
    body = _name_wildcards(literal.body)
    names = _variables(body, literal.groups)
    rows = lower_body(context, body, names, outer)
    if not lookup_aggregate(literal.function).idempotent and not _is_one_set(context, literal.body, outer):
        rows = rows.distinct(names)
    groups = [variable.name for variable in literal.groups]
    value = None if literal.value is None else rows.scalar(literal.value)
    keys = tuple(rows.column(name) for name in groups)
    rel = reduce_rows(rows.rel, keys, ((literal.function, value, literal.result.type),))
    if not groups:
        rel = _complete_global(rel, literal)
    places = {name: place for place, name in enumerate((*groups, literal.result.name))}
    return Bindings(rel, places)


def _complete_global(rel: Rel, literal: core.BodyAggregate) -> Rel:
    """Return the row of an aggregate without groups: over no rows, its identity or no row."""
    column = Column(0, literal.result.type)
    if has_identity(literal.function):
        nothing = identity_literal(literal)
        return algebra.Project(algebra.Map(rel, (Call("coalesce", (column, nothing), column.type),)), (1,))
    return algebra.Filter(rel, (Call("is_not_null", (column,), BOOLEAN),))


def add_empty_groups(
    context: Context, literal: core.BodyAggregate, results: Bindings, groups: Bindings
) -> Bindings:
    """Add a row with the aggregate's identity for each of ``groups`` that has none."""
    names = [variable.name for variable in literal.groups]
    missing = antijoin(context.names, groups, results.project(names))
    filled = missing.extend([(literal.result.name, identity_literal(literal))])
    order = [*names, literal.result.name]
    rel = algebra.Union((results.project(order).rel, filled.project(order).rel))
    return Bindings(rel, {name: place for place, name in enumerate(order)})


def identity_literal(literal: core.BodyAggregate) -> Literal:
    """Return the identity of a total aggregate: 0, whose word is 0 in every numeric type."""
    return Literal(lookup_aggregate(literal.function).identity, literal.result.type)


def reduce_rows(
    rel: Rel, keys: Sequence[Column], aggregates: Sequence[tuple[str, Scalar | None, Type]]
) -> Rel:
    """Group rows by ``keys``; ``aggregates`` has the function, operand and result type of each aggregate."""
    calls: list[AggregateCall] = []
    values: list[Scalar] = []

    def call(function: str, args: tuple[Scalar, ...], *, distinct: bool = False) -> Scalar:
        meaning = resolve_aggregate(function, tuple(arg.type for arg in args))
        maintenance = meaning.function.maintenance
        if isinstance(maintenance, Composite):
            parts, result = maintenance.build(args)
            return substitute(
                result, [call(part.function, part.args, distinct=part.distinct) for part in parts]
            )
        # Values are never NULL, so an aggregate that can count rows needs no argument.
        if meaning.function.is_nullary and not distinct and not any(isinstance(arg, If) for arg in args):
            args = ()
        made = AggregateCall(function, args, distinct, meaning.result_type)
        if made not in calls:
            calls.append(made)
        return Column(len(keys) + calls.index(made), made.type)

    for function, operand, result in aggregates:
        value = call(function, () if operand is None else (operand,))
        values.append(value if value.type == result else Call("cast", (value,), result))
    rows: Rel = algebra.Reduce(rel, tuple(keys), tuple(calls))
    if all(isinstance(value, Column) for value in values):
        places = [value.index for value in values if isinstance(value, Column)]
    else:
        rows = algebra.Map(rows, tuple(values))
        places = [len(keys) + len(calls) + place for place in range(len(values))]
    return algebra.Project(rows, (*range(len(keys)), *places))


def _name_wildcards(body: Sequence[core.Literal]) -> tuple[core.Literal, ...]:
    """Replace the wildcards of positive atoms by variables, because they count in an aggregate."""
    result: list[core.Literal] = []
    for number, literal in enumerate(body):
        if isinstance(literal, core.Atom):
            terms = tuple(
                any_value(term.type, number, place) if isinstance(term, core.Wildcard) else term
                for place, term in enumerate(literal.terms)
            )
            literal = core.Atom(literal.relation, terms, literal.span)
        result.append(literal)
    return tuple(result)


def _variables(body: Sequence[core.Literal], groups: Sequence[core.Variable]) -> list[str]:
    """Return the variables of an aggregate's body and its groups."""
    found = [variable.name for variable in groups]
    found += [v.name for literal in body for v in core.literal_variables(literal)]
    return list(dict.fromkeys(found))


def _is_one_set(context: Context, body: Sequence[core.Literal], outer: Bindings | None) -> bool:
    """Return whether the body is a single atom of a derived relation, which has no duplicate rows."""
    if outer is not None or len(body) != 1:
        return False
    only = body[0]
    return isinstance(only, core.Atom) and context.program.relations[only.relation].kind is core.Kind.DERIVED


Plan = tuple[tuple[int, tuple[int, ...]], ...]
"""Join orders as in ``core.Rule.plan``."""


def path_orders(
    plan: Plan, atoms: Sequence[core.Atom], stratum: frozenset[str], size: int
) -> tuple[tuple[int, ...], ...]:
    """Return the lookup order of each of ``size`` join inputs; the first ones are the ``atoms``.

    Changes of the recursive atom of version v use the order of v, all others that of version 0. An
    input without an order has an empty one. Inputs that are not atoms come last.
    """
    if not plan or size < 2:
        return ()
    orders = dict(plan)
    recursive = [place for place, atom in enumerate(atoms) if atom.relation in stratum]
    versions = {place: version for version, place in enumerate(recursive)}
    others = tuple(range(len(atoms), size))
    chosen = [orders.get(versions.get(place, 0)) for place in range(len(atoms))]
    chosen += [orders.get(0)] * len(others)
    return tuple(
        () if order is None else tuple(one for one in (*order, *others) if one != place)
        for place, order in enumerate(chosen)
    )


def lower_body(
    context: Context,
    body: Sequence[core.Literal],
    needed: Iterable[str],
    outer: Bindings | None = None,
    plan: Plan = (),
) -> Bindings:
    """Return the bindings of a body, perhaps with repetitions.

    Args:
      context: the relations of the program.
      body: the literals.
      needed: variables that the caller reads. If all variables of an atom are bound elsewhere, it
        only has to match.
      outer: bindings of enclosing variables to join with the body.
      plan: join orders as in ``core.Rule.plan``.
    """
    uses = Counter(v.name for literal in body for v in set(core.literal_variables(literal)))
    uses.update(set(needed))
    atoms = [literal for literal in body if isinstance(literal, core.Atom)]
    holders = Counter(v.name for atom in atoms for v in set(core.literal_variables(atom)))
    holders.update(() if outer is None else outer.places)
    parts = [outer] if outer is not None else []
    parts += [_lower_atom(context, atom, uses, holders) for atom in atoms]
    joinable = [one for one in body if isinstance(one, core.BodyAggregate) and _is_joinable(one)]
    parts += [lower_aggregate(context, one, lower_body, None) for one in joinable]
    bound = {name for part in parts for name in part.places}
    rest = [
        _test_if_bound(one, bound) for one in body if not isinstance(one, core.Atom) and one not in joinable
    ]
    tests = [one for one in rest if isinstance(one, core.Comparison) and _is_bound(one, bound)]
    orders = path_orders(plan, atoms, context.stratum, len(parts)) if outer is None else ()
    rows = join(parts or [UNIT], tests, orders)
    return _apply_rest(context, rows, [one for one in rest if one not in tests])


def _lower_atom(context: Context, atom: core.Atom, uses: Counter[str], holders: Counter[str]) -> Bindings:
    """Return the atom's bindings, distinct if other literals bind all its variables."""
    found = match_atom(context, atom)
    used = [name for name in found.places if uses[name] > 1]
    is_loose = len(used) < len(found.places) or any(isinstance(term, core.Wildcard) for term in atom.terms)
    return found.distinct(used) if is_loose and all(holders[name] > 1 for name in used) else found


def _is_joinable(literal: core.BodyAggregate) -> bool:
    """Return whether the aggregate joins like an atom: it has rows only for groups that its body binds."""
    return not has_identity(literal.function) and {v.name for v in literal.groups} <= bound_variables(
        literal.body
    )


def bound_variables(body: Sequence[core.Literal]) -> frozenset[str]:
    """Return the variables that a body binds without outer bindings."""
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
    """Return an assignment of an already bound variable as an equality, and any other literal unchanged."""
    if isinstance(literal, core.Assignment) and literal.variable.name in bound:
        return core.Comparison("eq", literal.variable, literal.expression, literal.span)
    return literal


def _is_bound(literal: core.Literal, bound: Iterable[str]) -> bool:
    names = set(bound)
    return all(variable.name in names for variable in core.literal_variables(literal))


def _apply_rest(context: Context, rows: Bindings, rest: Sequence[core.Literal]) -> Bindings:
    """Apply assignments, tests and aggregates when their variables are bound, then negations."""
    negations = [literal for literal in rest if isinstance(literal, core.Negation)]
    waiting = [literal for literal in rest if not isinstance(literal, core.Negation)]
    while waiting:
        ready = [literal for literal in waiting if _is_ready(literal, rows)]
        if not ready:
            raise InternalError(f"nothing binds the variables of {waiting[0]}")
        first = [literal for literal in ready if not isinstance(literal, core.BodyAggregate)] or ready[:1]
        waiting = [literal for literal in waiting if literal not in first]
        rows = _apply(context, rows, first)
    for negation in negations:
        rows = antijoin(context.names, rows, match_distinct(context, negation.atom))
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


def _apply(context: Context, rows: Bindings, literals: Sequence[core.Literal]) -> Bindings:
    values = [
        (one.variable.name, rows.scalar(one.expression))
        for one in literals
        if isinstance(one, core.Assignment)
    ]
    tests = tuple(rows.test(one) for one in literals if isinstance(one, core.Comparison))
    if tests:
        rows = Bindings(algebra.Filter(rows.rel, tests), rows.places)
    if values:
        rows = rows.extend(values)
    for literal in literals:
        if isinstance(literal, core.BodyAggregate):
            rows = _join_aggregate(context, rows, literal)
    return rows


def _join_aggregate(context: Context, rows: Bindings, literal: core.BodyAggregate) -> Bindings:
    """Join the rows with the aggregate of their groups."""
    groups = [variable.name for variable in literal.groups]
    narrow = rows.project(rows.places)
    id_ = context.names.fresh()
    get = Bindings(algebra.LocalGet(id_, algebra.types(narrow.rel)), narrow.places)
    unbound = [name for name in groups if name not in bound_variables(literal.body)]
    found = lower_aggregate(context, literal, lower_body, get.distinct(unbound) if unbound else None)
    if has_identity(literal.function) and groups:
        found = add_empty_groups(context, literal, found, get.distinct(groups))
    both = join([get, found])
    return replace(both, rel=algebra.Let(id_, narrow.rel, both.rel))
