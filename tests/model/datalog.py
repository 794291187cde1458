"""The slow truth about checked Datalog programs: sets of tuples, every rule applied anew in every round.

The relations of a recursive component start empty and are computed together by rounds until none changes.
Values are those of ``core.Value``: words of numbers and floats, strings of texts; None is SQL's NULL.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import networkx

from kpg.compiler.rules import core
from kpg.runtime import scalar
from kpg.runtime.types import Kind, Type, float_to_word
from tests.model.scalar import EPOCH, evaluate, from_word

Tuples = frozenset[tuple[Any, ...]]
Rows = Mapping[str, Iterable[tuple[Any, ...]]]
Binding = dict[str, Any]
MAX_ROUNDS = 10_000
LOWEST = {core.Domain.NUMBER: -(2**31), core.Domain.UNSIGNED: 0}
"""The least 32-bit numbers."""
ANY = "any value"
"""Begins the names of the variables that wildcards in aggregates are."""


class Diverges(Exception):
    """No fixed point within ``MAX_ROUNDS`` rounds."""


def run(program: core.Program, tables: Rows | None = None) -> dict[str, Tuples]:
    """Every relation of the program, but for those that need values to be asked for.

    ``tables`` are the rows of its inputs, in place of its facts.
    """
    given: Rows = {**program.facts, **(tables or {})}
    found: dict[str, Tuples] = {}
    for name, relation in program.relations.items():
        if relation.kind is not core.Kind.DERIVED:
            found[name] = frozenset(map(tuple, given.get(name, ())))
    for component in _components(program):
        found |= _fixed_point(program, component, found)
    return found


def answers(program: core.Program, tables: Rows | None, goal: core.Goal, **values: Any) -> Tuples:
    """The answer to a goal, its parameters having these values."""
    tuples = run(program, tables)[goal.relation]
    atom = core.Atom(goal.relation, goal.terms, goal.span)
    start = {f"${name}": value for name, value in values.items()}
    found = _matches(atom, tuples, program.relations[goal.relation], start)
    return frozenset(tuple(binding[v.name] for v in goal.variables) for binding in found)


def _components(program: core.Program) -> list[list[str]]:
    """The derived relations that depend on each other, those first that others need."""
    graph: Any = networkx.DiGraph()
    relations = program.relations.values()
    derived = [one.name for one in relations if one.kind is core.Kind.DERIVED and not one.required_bindings]
    graph.add_nodes_from(derived)
    for rule in program.rules:
        for atom, _ in core.atoms(rule.body):
            if atom.relation in graph and rule.head.relation in graph:
                graph.add_edge(atom.relation, rule.head.relation)
    condensed = networkx.condensation(graph)
    return [
        sorted(condensed.nodes[node]["members"])
        for node in networkx.lexicographical_topological_sort(condensed)
    ]


def _fixed_point(
    program: core.Program, component: Sequence[str], below: Mapping[str, Tuples]
) -> dict[str, Tuples]:
    now: dict[str, Tuples] = {name: frozenset() for name in component}
    for _ in range(MAX_ROUNDS):
        evaluation = _Evaluation(program, {**below, **now})
        new = {name: evaluation.relation(name) for name in component}
        if new == now:
            return now
        now = new
    raise Diverges(", ".join(component))


class _Evaluation:
    """One application of rules to what is known of all relations."""

    def __init__(self, program: core.Program, known: Mapping[str, Tuples]) -> None:
        self.program = program
        self.known = known
        self.indexes: dict[tuple[str, tuple[int, ...]], dict[tuple[Any, ...], list[tuple[Any, ...]]]] = {}

    def relation(self, name: str) -> Tuples:
        relation = self.program.relations[name]
        rules = [rule for rule in self.program.rules if rule.head.relation == name]
        if not any(relation.aggregates):
            return frozenset(
                tuple(_value(term, binding) for term in rule.head.terms)
                for rule in rules
                for binding in self.body(rule.body, {})
            )
        groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for rule in rules:
            for binding in _distinct(self.body(rule.body, {})):
                row = tuple(_value(term, binding) for term in rule.head.terms)
                key = tuple(v for v, function in zip(row, relation.aggregates, strict=True) if not function)
                groups.setdefault(key, []).append(row)
        size = self.program.number_size
        return frozenset(_aggregated(relation, rows, size) for rows in groups.values())

    def body(self, body: Sequence[core.Literal], start: Binding) -> Iterator[Binding]:
        """The bindings of the body that extend ``start``, perhaps with repetitions."""
        if not body:
            yield start
            return
        literal = next((one for one in body if self.is_ready(one, start)), None)
        assert literal is not None, (body, start)
        rest = [one for one in body if one is not literal]
        for binding in self.literal(literal, start):
            yield from self.body(rest, binding)

    def is_ready(self, literal: core.Literal, bound: Binding) -> bool:
        match literal:
            case core.Atom():
                return True
            case core.Negation(atom=atom):
                return all(v.name in bound for term in atom.terms for v in core.variables(term))
            case core.Comparison(left=left, right=right):
                return all(v.name in bound for side in (left, right) for v in core.variables(side))
            case core.Assignment(expression=expression):
                return all(v.name in bound for v in core.variables(expression))
            case core.BodyAggregate(groups=groups):
                return all(v.name in bound for v in groups)

    def literal(self, literal: core.Literal, bound: Binding) -> Iterator[Binding]:
        match literal:
            case core.Atom():
                yield from self.atom(literal, bound)
            case core.Negation(atom=atom):
                if not any(True for _ in self.atom(atom, bound)):
                    yield bound
            case core.Comparison():
                if _holds(literal, bound):
                    yield bound
            case core.Assignment(variable=variable, expression=expression):
                assert variable.name not in bound, variable
                yield {**bound, variable.name: _value(expression, bound)}
            case core.BodyAggregate():
                value = self.aggregate(literal, bound)
                if value is not None and bound.get(literal.result.name, value) == value:
                    yield {**bound, literal.result.name: value}

    def atom(self, atom: core.Atom, bound: Binding) -> Iterator[Binding]:
        places = tuple(
            place
            for place, term in enumerate(atom.terms)
            if isinstance(term, core.Constant) or (isinstance(term, core.Variable) and term.name in bound)
        )
        index = self.indexes.get((atom.relation, places))
        if index is None:
            index = self.indexes[atom.relation, places] = {}
            for row in self.known[atom.relation]:
                index.setdefault(tuple(row[place] for place in places), []).append(row)
        rows = index.get(tuple(_value(atom.terms[place], bound) for place in places), ())
        return _matches(atom, rows, self.program.relations[atom.relation], bound)

    def aggregate(self, literal: core.BodyAggregate, bound: Binding) -> Any:
        start = {variable.name: bound[variable.name] for variable in literal.groups}
        bindings = _distinct(self.body(_without_wildcards(literal.body), start))
        if literal.value is None:
            return len(bindings)
        values = [_value(literal.value, binding) for binding in bindings]
        return _combined(literal.function, values, literal.result.type, literal.value.type)


def _distinct(bindings: Iterable[Binding]) -> list[Binding]:
    return list({tuple(sorted(binding.items())): binding for binding in bindings}.values())


def _without_wildcards(body: Sequence[core.Literal]) -> list[core.Literal]:
    """The body with a variable of its own for each wildcard of its atoms."""
    result: list[core.Literal] = []
    for number, literal in enumerate(body):
        if isinstance(literal, core.Atom):
            terms = tuple(
                core.Variable(f"{ANY} {number} {place}", term.type)
                if isinstance(term, core.Wildcard)
                else term
                for place, term in enumerate(literal.terms)
            )
            literal = core.Atom(literal.relation, terms, literal.span)
        result.append(literal)
    return result


def _matches(
    atom: core.Atom, rows: Iterable[tuple[Any, ...]], relation: core.Relation, bound: Binding
) -> Iterator[Binding]:
    for row in rows:
        binding: Binding | None = dict(bound)
        for term, value, column in zip(atom.terms, row, relation.columns, strict=True):
            if isinstance(term, core.Wildcard):
                continue
            value = None if value is None else _cast(value, column.stored_type, column.type.type)
            is_any = isinstance(term, core.Variable) and term.name.startswith(ANY)
            if (value is None and not is_any) or not _bind(term, value, binding):
                binding = None
                break
        if binding is not None:
            yield binding


def _bind(term: core.Term, value: Any, binding: Binding) -> bool:
    if isinstance(term, core.Variable):
        return bool(binding.setdefault(term.name, value) == value)
    return bool(_value(term, binding) == value)


def _cast(value: Any, stored: Type, type_: Type) -> Any:
    if stored == type_:
        return value
    call = scalar.Call("cast", (scalar.Column(0, stored),), type_)
    return _to_word(evaluate(call, (from_word(value, stored),)), type_)


def _value(expression: core.Expression | core.Wildcard, binding: Binding) -> Any:
    match expression:
        case core.Variable(name=name):
            return binding[name]
        case core.Constant(value=value):
            return value
        case core.Parameter(name=name):
            return binding[f"${name}"]
        case core.Call(function=function, args=args, type=type_):
            values = [from_word(_value(arg, binding), arg.type) for arg in args]
            columns = tuple(scalar.Column(place, arg.type) for place, arg in enumerate(args))
            return _to_word(evaluate(scalar.Call(function, columns, type_), values), type_)
    raise AssertionError(expression)


def _holds(comparison: core.Comparison, bound: Binding) -> bool:
    sides = (comparison.left, comparison.right)
    values = [from_word(_value(side, bound), side.type) for side in sides]
    columns = tuple(scalar.Column(place, side.type) for place, side in enumerate(sides))
    call = scalar.Call(comparison.function, columns, Type(Kind.BOOLEAN))
    return (evaluate(call, values) is True) is not comparison.negated


def _to_word(value: Any, type_: Type) -> Any:
    """The word of a Python value."""
    match type_.kind:
        case _ if value is None or isinstance(value, str):
            return value
        case Kind.REAL | Kind.DOUBLE:
            return float_to_word(value)
        case Kind.DECIMAL:
            return int(Decimal(value).scaleb(type_.scale))
        case Kind.DATE:
            return (value - EPOCH.date()).days
        case _:
            return int(value)


def _aggregated(relation: core.Relation, rows: Sequence[tuple[Any, ...]], size: int) -> tuple[Any, ...]:
    row = list(rows[0])
    for place, function in enumerate(relation.aggregates):
        if function == "count":
            row[place] = len(rows)
        elif function:
            type_ = relation.columns[place].type.type
            row[place] = _combined(function, [one[place] for one in rows], type_, type_)
            if size == 32 and function == "sum" and relation.columns[place].type.domain in LOWEST:
                lowest = LOWEST[relation.columns[place].type.domain]
                row[place] = (row[place] - lowest) % 2**32 + lowest
    return tuple(row)


def _combined(function: str, words: Sequence[Any], result: Type, operand: Type) -> Any:
    """An aggregate of values, None if it has none."""
    if function == "min" or function == "max":
        chosen = min if function == "min" else max
        return chosen(words, default=None)
    values = [from_word(word, operand) for word in words]
    total = math.fsum(values) if operand.is_float else sum(values)
    if function == "sum":
        return _to_word(total, result)
    assert function == "mean", function
    return _to_word(float(total) / len(values), result) if values else None
