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
from kpg.compiler.rules.core import is_total
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import Composed, aggregate_named, resolve_aggregate
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, Type


@dataclass(frozen=True, slots=True)
class Bindings:
    """Rows with a column for each variable, and perhaps others; rows may repeat."""

    rel: Rel
    places: Mapping[str, int]

    def column(self, name: str) -> Column:
        """The column of a variable."""
        place = self.places[name]
        return Column(place, types_of(self.rel)[place])

    def narrowed(self, names: Iterable[str]) -> "Bindings":
        """The columns of these variables only, in that order; without any, one column of zeros."""
        chosen = tuple(names)
        if not chosen:
            width = len(types_of(self.rel))
            return Bindings(algebra.Project(algebra.Map(self.rel, (ZERO,)), (width,)), {})
        columns = tuple(self.places[name] for name in chosen)
        return Bindings(algebra.Project(self.rel, columns), {name: i for i, name in enumerate(chosen)})

    def distinct(self, names: Iterable[str]) -> "Bindings":
        """Each binding of these variables once."""
        narrow = self.narrowed(names)
        return Bindings(algebra.Distinct(narrow.rel), narrow.places)

    def extended(self, values: Sequence[tuple[str, Scalar]]) -> "Bindings":
        """With a column more for each of these variables."""
        width = len(types_of(self.rel))
        places = {**self.places, **{name: width + i for i, (name, _) in enumerate(values)}}
        return Bindings(algebra.Map(self.rel, tuple(scalar for _, scalar in values)), places)

    def scalar(self, expression: core.Expression) -> Scalar:
        """An expression over the variables as a scalar over the columns."""
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
        """A comparison of bound values as a predicate."""
        sides = (self.scalar(comparison.left), self.scalar(comparison.right))
        if comparison.negated and comparison.function in OPPOSITES:
            return Call(OPPOSITES[comparison.function], sides, BOOLEAN)
        call = Call(comparison.function, sides, BOOLEAN)
        return Call("not", (call,), BOOLEAN) if comparison.negated else call


ZERO = Literal(0, BIGINT)
UNIT = Bindings(algebra.Constant(((0,),), (BIGINT,)), {})
"""The one binding of no variables."""
OPPOSITES = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@dataclass(slots=True)
class Names:
    """Fresh names for lets."""

    numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        return f"rows {next(self.numbers)}"


def equal(left: Scalar, right: Scalar) -> Scalar:
    """Whether two columns of one type are equal."""
    return Call("eq", (left, right), BOOLEAN)


def joined(
    parts: Sequence[Bindings],
    tests: Sequence[core.Comparison] = (),
    orders: tuple[tuple[int, ...], ...] = (),
) -> Bindings:
    """Bindings that agree in the variables they share and satisfy the tests; rows multiply.

    ``orders`` as in a join.
    """
    if len(parts) == 1:
        only = parts[0]
        return (
            only
            if not tests
            else Bindings(algebra.Filter(only.rel, tuple(only.test(test) for test in tests)), only.places)
        )
    places: dict[str, int] = {}
    same: list[Scalar] = []
    start = 0
    for part in parts:
        types = types_of(part.rel)
        for name, place in part.places.items():
            column = Column(start + place, types[place])
            if name in places:
                same.append(equal(Column(places[name], column.type), column))
            else:
                places[name] = column.index
        start += len(types)
    bare = algebra.Join(tuple(part.rel for part in parts), tuple(same))
    over = Bindings(bare, places)
    on = (*same, *(over.test(test) for test in tests))
    return Bindings(algebra.Join(bare.inputs, on, orders), places)


def without(names: Names, rows: Bindings, excluded: Bindings) -> Bindings:
    """The rows that agree with no row of ``excluded``, a set, in the variables of that."""
    narrow = rows.narrowed(rows.places)
    types = types_of(narrow.rel)
    id_ = names.fresh()
    get = Bindings(algebra.LocalGet(id_, types), narrow.places)
    both = joined([get, excluded])
    matched = algebra.Negate(algebra.Project(both.rel, tuple(range(len(types)))))
    rel = algebra.Let(id_, narrow.rel, algebra.Union((get.rel, matched)))
    return Bindings(rel, narrow.places)


ANY: Final = "@any value"


@dataclass(frozen=True, slots=True)
class Context:
    """What lowering a rule needs: the relations of the program, and how they are read."""

    program: core.Program
    read: Callable[[str], Rel]
    """A relation by name: its columns first."""
    stratum: frozenset[str] = frozenset()
    """The relations that are computed together, if they depend on each other."""
    names: Names = field(default_factory=Names)


def any_value(type_: Type, number: int, place: int) -> core.Variable:
    """The variable that a wildcard in an aggregate is, there being one for each place: it may be NULL."""
    return core.Variable(f"{ANY} {number} {place}", type_)


def is_any(term: core.Term) -> bool:
    """Whether a term stands for a wildcard in an aggregate."""
    return isinstance(term, core.Variable) and term.name.startswith(ANY)


def matches(context: Context, atom: core.Atom) -> Bindings:
    """The atom's bindings, one for each row that matches."""
    relation = context.program.relations[atom.relation]
    rel = context.read(atom.relation)
    rel, columns = _values(rel, relation, atom)
    places: dict[str, int] = {}
    tests: list[Scalar] = []
    for term, column in zip(atom.terms, columns, strict=True):
        match term:
            case core.Wildcard():
                pass
            case core.Constant(value=value, type=type_):
                tests.append(equal(column, Literal(value, type_)))
            case core.Variable(name=name) if name in places:
                tests.append(equal(Column(places[name], column.type), column))
            case core.Variable(name=name):
                places[name] = column.index
            case core.Parameter(name=name):
                raise InternalError(f"parameter ${name} has no value in a rule")
            case _:
                assert_never(term)
    return Bindings(algebra.Filter(rel, tuple(tests)) if tests else rel, places)


def _values(rel: Rel, relation: core.Relation, atom: core.Atom) -> tuple[Rel, list[Column]]:
    """The relation without NULLs where the atom has a term, and the columns with its values."""
    used = [
        (place, column)
        for place, (column, term) in enumerate(zip(relation.columns, atom.terms, strict=True))
        if not isinstance(term, core.Wildcard) and not is_any(term)
    ]
    stored = [Column(place, column.stored) for place, column in enumerate(relation.columns)]
    present = tuple(Call("is_not_null", (stored[place],), BOOLEAN) for place, c in used if c.nullable)
    if present:
        rel = algebra.Filter(rel, present)
    cast = [(place, column.type.type) for place, column in used if column.stored != column.type.type]
    if cast:
        width = len(types_of(rel))
        rel = algebra.Map(rel, tuple(Call("cast", (stored[place],), type_) for place, type_ in cast))
        for offset, (place, type_) in enumerate(cast):
            stored[place] = Column(width + offset, type_)
    return rel, stored


def is_set(context: Context, atom: core.Atom) -> bool:
    """Whether the atom has each of its bindings once."""
    derived = context.program.relations[atom.relation].kind is core.Kind.DERIVED
    return derived and not any(isinstance(term, core.Wildcard) for term in atom.terms)


def matched(context: Context, atom: core.Atom) -> Bindings:
    """The atom's bindings, each once."""
    found = matches(context, atom)
    if is_set(context, atom):
        return found.narrowed(found.places) if found.places else found
    return found.distinct(found.places)


LowerBody = Callable[[Context, Sequence[core.Literal], Sequence[str], Bindings | None], Bindings]


def summary(
    context: Context, literal: core.BodyAggregate, lower_body: LowerBody, given: Bindings | None
) -> Bindings:
    """The groups that the body has bindings for, with the result; without groups the total one has a row.

    ``given`` has the groups that the body does not bind itself.
    """
    body = _without_wildcards(literal.body)
    names = _variables(body, literal.groups)
    rows = lower_body(context, body, names, given)
    if not aggregate_named(literal.function).idempotent and not _is_one_set(context, literal.body, given):
        rows = rows.distinct(names)
    groups = [variable.name for variable in literal.groups]
    value = None if literal.value is None else rows.scalar(literal.value)
    keys = tuple(rows.column(name) for name in groups)
    rel = reduced(rows.rel, keys, ((literal.function, value, literal.result.type),))
    if not groups:
        rel = _of_everything(rel, literal)
    places = {name: place for place, name in enumerate((*groups, literal.result.name))}
    return Bindings(rel, places)


def _of_everything(rel: Rel, literal: core.BodyAggregate) -> Rel:
    """The one row of an aggregate without groups; over nothing, its identity or no row."""
    column = Column(0, literal.result.type)
    if is_total(literal.function):
        nothing = nothing_of(literal)
        return algebra.Project(algebra.Map(rel, (Call("coalesce", (column, nothing), column.type),)), (1,))
    return algebra.Filter(rel, (Call("is_not_null", (column,), BOOLEAN),))


def defaults(context: Context, literal: core.BodyAggregate, found: Bindings, groups: Bindings) -> Bindings:
    """The aggregate's rows, and one with its identity for each of the groups that has none."""
    names = [variable.name for variable in literal.groups]
    missing = without(context.names, groups, found.narrowed(names))
    filled = missing.extended([(literal.result.name, nothing_of(literal))])
    order = [*names, literal.result.name]
    rel = algebra.Union((found.narrowed(order).rel, filled.narrowed(order).rel))
    return Bindings(rel, {name: place for place, name in enumerate(order)})


def nothing_of(literal: core.BodyAggregate) -> Literal:
    """The identity of a total aggregate: 0, whose word is 0 in every numeric type."""
    return Literal(aggregate_named(literal.function).identity, literal.result.type)


def reduced(rel: Rel, keys: Sequence[Column], wanted: Sequence[tuple[str, Scalar | None, Type]]) -> Rel:
    """Rows (keys, aggregates): for each the function, its operand and the type of its result."""
    calls: list[AggregateCall] = []
    values: list[Scalar] = []

    def call(function: str, args: tuple[Scalar, ...], *, distinct: bool = False) -> Scalar:
        meaning = resolve_aggregate(function, tuple(arg.type for arg in args))
        maintenance = meaning.function.maintenance
        if isinstance(maintenance, Composed):
            parts, result = maintenance.build(args)
            return substitute(
                result, [call(part.function, part.args, distinct=part.distinct) for part in parts]
            )
        # Values are never NULL: what can be of rows is of rows.
        if meaning.function.takes_rows and not distinct and not any(isinstance(arg, If) for arg in args):
            args = ()
        made = AggregateCall(function, args, distinct, meaning.result_type)
        if made not in calls:
            calls.append(made)
        return Column(len(keys) + calls.index(made), made.type)

    for function, operand, result in wanted:
        value = call(function, () if operand is None else (operand,))
        values.append(value if value.type == result else Call("cast", (value,), result))
    rows: Rel = algebra.Reduce(rel, tuple(keys), tuple(calls))
    if all(isinstance(value, Column) for value in values):
        places = [value.index for value in values if isinstance(value, Column)]
    else:
        rows = algebra.Map(rows, tuple(values))
        places = [len(keys) + len(calls) + place for place in range(len(values))]
    return algebra.Project(rows, (*range(len(keys)), *places))


def _without_wildcards(body: Sequence[core.Literal]) -> tuple[core.Literal, ...]:
    """The body with a variable for each wildcard of its positive atoms, since they count."""
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
    """The variables of an aggregate's body, its groups among them."""
    found = [variable.name for variable in groups]
    found += [v.name for literal in body for v in core.literal_variables(literal)]
    return list(dict.fromkeys(found))


def _is_one_set(context: Context, body: Sequence[core.Literal], given: Bindings | None) -> bool:
    """Whether the body is one atom of a relation that has no row twice, as a table may."""
    if given is not None or len(body) != 1:
        return False
    only = body[0]
    return isinstance(only, core.Atom) and context.program.relations[only.relation].kind is core.Kind.DERIVED


Plan = tuple[tuple[int, tuple[int, ...]], ...]
"""As ``core.Rule.plan``."""


def lookup_orders(
    plan: Plan, atoms: Sequence[core.Atom], stratum: frozenset[str], size: int
) -> tuple[tuple[int, ...], ...]:
    """For each of ``size`` inputs of a join, ``atoms`` first, the others in the order of the plan.

    The changes of the atom that is recursive as version v says follow v's order; those of atoms that no
    version is about, version 0's. Without an order for it, an input's is empty. What joins besides the
    atoms comes last.
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
