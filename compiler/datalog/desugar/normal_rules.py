"""Normalization: flat rules to core literals whose equalities are not yet oriented.

An argument of an atom becomes a variable, constant or wildcard. Any other argument is replaced by a fresh
variable ``@n`` with an equality; an underscore in a record becomes ``@_n``.
"""

from collections.abc import Iterator
from dataclasses import field, replace
from itertools import count
from typing import assert_never

from kpg.compiler.datalog.desugar import constants
from kpg.compiler.datalog.desugar.constants import NIL, Literals, OutOfRange
from kpg.compiler.datalog.desugar.constants import literal as constants_literal
from kpg.compiler.datalog.desugar.counters import AUTOINC, DELTA, ITERATION
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flatten import FlatRule
from kpg.compiler.datalog.syntax.traverse import FlatLiteral, alternatives, head_aggregate
from kpg.compiler.datalog.types.declarations import RelationInfo, TypeKind, TypeTable
from kpg.compiler.datalog.types.functors import (
    CONSTRAINTS,
    RUNTIME_NAMES,
    ResultKind,
    build_call,
    cast,
    reinterpret,
    result_kind,
    takes_value,
)
from kpg.compiler.datalog.types.kind_inference import Typing, is_reinterpretation
from kpg.compiler.rules.core import (
    WRAP_FUNCTIONS,
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Constant,
    Domain,
    Expression,
    Literal,
    Negation,
    Parameter,
    Substitution,
    Term,
    Variable,
    Wildcard,
    has_identity,
    substitute_binding,
    substitute_literal,
    variables,
)
from kpg.runtime.errors import Span
from kpg.runtime.functions.regex import compile_ecmascript
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, Type

UNNAMED_PREFIX = "@_"
INLINED_MARK = "@i"
"""Separator between the name and the number of an inlined rule's variable."""


@dataclass(frozen=True, slots=True)
class Range:
    """``variable`` is each of start, start + step, ... before end.

    With two arguments, the step is 1 or -1.
    """

    variable: Variable
    args: tuple[Expression, ...]
    kind: TypeKind
    span: Span


@dataclass(frozen=True, slots=True)
class NormalAggregate:
    """An aggregate over the bindings of any of its alternatives, before its groups are known.

    Each alternative includes the literals of its value.
    """

    result: Variable
    function: str
    value: Expression | None
    alternatives: "tuple[tuple[NormalLiteral, ...], ...]"
    span: Span

    @property
    def literals(self) -> "tuple[NormalLiteral, ...]":
        """Literals of all alternatives."""
        return tuple(one for part in self.alternatives for one in part)


NormalLiteral = Literal | Range | NormalAggregate


@dataclass(frozen=True, slots=True)
class RuleAggregate:
    """An aggregate over bindings of ``columns`` that need rules: there are alternatives, or ranges.

    ``parts`` has the head terms and the body of each rule. The enclosing body may have to bind the
    groups.
    """

    result: Variable
    function: str
    value: Expression | None
    parts: "tuple[tuple[tuple[Expression, ...], tuple[GroundLiteral, ...]], ...]"
    columns: tuple[Variable, ...]
    groups: tuple[Variable, ...]
    span: Span


GroundLiteral = Literal | Range | RuleAggregate


@dataclass(frozen=True, slots=True)
class NormalRule:
    """A rule, or the body of a goal if ``relation`` is None.

    ``places`` has each variable's first occurrence.
    """

    relation: str | None
    terms: tuple[Expression, ...]
    aggregates: tuple[str | None, ...]
    body: tuple[NormalLiteral, ...]
    plan: ast.Plan | None
    places: dict[str, Span]
    span: Span
    head_span: Span
    is_fact: bool = False


def normalize(
    rule: FlatRule,
    typing: Typing,
    relations: dict[str, RelationInfo],
    table: TypeTable,
    diagnostics: Diagnostics,
    size: int,
) -> NormalRule | None:
    """Return the normal rule of a typed rule, or None after an error."""
    errors = diagnostics.error_count
    run = Normalizer(typing, relations, table, diagnostics, size)
    for flat_literal in rule.body:
        run.add(flat_literal)
    terms: list[Expression] = []
    aggregates: list[str | None] = []
    head = rule.head
    if head is not None:
        for arg, column in zip(head.args, relations[head.name.text].columns, strict=True):
            found = head_aggregate(arg)
            aggregates.append(None if found is None else found[0])
            terms.append(run.head_term(arg, found, table.kinds[column.type.name]))
    if errors != diagnostics.error_count:
        return None
    return NormalRule(
        None if head is None else relations[head.name.text].name,
        tuple(terms),
        tuple(aggregates),
        tuple(run.literals),
        rule.plan,
        run.places,
        rule.span,
        rule.span if head is None else head.span,
        rule.is_fact,
    )


@dataclass(slots=True)
class Normalizer:
    """Builder of core literals.

    ``literals`` has those of the current scope.
    """

    typing: Typing
    relations: dict[str, RelationInfo]
    table: TypeTable
    diagnostics: Diagnostics
    size: int
    literals: list[NormalLiteral] = field(default_factory=list)
    places: dict[str, Span] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    in_aggregate: int = 0

    def fresh(self, type_: Type, span: Span, prefix: str = "@") -> Variable:
        """Return a generated variable."""
        variable = Variable(f"{prefix}{next(self.numbers)}", type_)
        self.places[variable.name] = span
        return variable

    def add(self, literal_: FlatLiteral) -> None:
        """Add a literal, and the literals that its expressions need."""
        match literal_:
            case ast.Atom():
                self._add_atom(literal_, negated=False)
            case ast.Not(body=ast.Atom() as atom):
                self._add_atom(atom, negated=True)
            case ast.Not():
                raise AssertionError(literal_)
            case ast.Comparison():
                self._add_comparison(literal_)
            case _:
                assert_never(literal_)

    def _add_atom(self, atom: ast.Atom, *, negated: bool) -> None:
        relation = self.relations.get(atom.name.text)
        if relation is None:
            self._add_constraint(atom, negated)
            return
        kinds = [self.table.kinds[column.type.name] for column in relation.columns]
        terms = tuple(self.term(arg, kind) for arg, kind in zip(atom.args, kinds, strict=True))
        core_atom = Atom(relation.name, terms, atom.span)
        self.literals.append(Negation(core_atom) if negated else core_atom)

    def _add_constraint(self, atom: ast.Atom, negated: bool) -> None:
        args = tuple(self.expression(arg) for arg in atom.args)
        function = CONSTRAINTS.get(atom.name.text)
        if function is not None:
            left, right = args if function == "$full_match" else (args[1], args[0])
            if function == "$full_match" and isinstance(left, Constant):
                self._check_pattern(left, atom.args[0].span)
            self.literals.append(Comparison(function, left, right, atom.span, negated))
            return
        arg_types, _ = self.typing.overloads[id(atom)]
        call = Call(atom.name.text, tuple(map(cast, args, arg_types)), BOOLEAN)
        expected = Constant(int(not negated), BOOLEAN)
        self.literals.append(Comparison("eq", call, expected, atom.span))

    def _check_pattern(self, pattern: Constant, span: Span) -> None:

        try:
            compile_ecmascript(str(pattern.value))
        except ValueError as error:
            message = f"no regular expression, so that nothing matches it: {error}"
            self.diagnostics.warning("pattern", message, span)

    def _add_comparison(self, comparison: ast.Comparison) -> None:
        left = self.expression(comparison.left, in_equality=comparison.operator == "=")
        right = self.expression(comparison.right, in_equality=comparison.operator == "=")
        overload = self.typing.overloads.get(id(comparison))
        if overload is not None:
            left, right = cast(left, overload[0][0]), cast(right, overload[0][1])
        function = RUNTIME_NAMES[comparison.operator]
        self.literals.append(Comparison(function, left, right, comparison.span))

    def term(self, expression: ast.Expression, kind: TypeKind) -> Term:
        """Return the term for an argument of an atom."""
        if isinstance(expression, ast.Underscore):
            return Wildcard(kind.type)
        value = self._as_kind(expression, kind)
        if next(variables(value), None) is None:
            value = constants.encode(value, self.table)
        if isinstance(value, Variable | Constant | Parameter):
            return value
        variable = self.fresh(kind.type, expression.span)
        self.literals.append(Comparison("eq", variable, value, expression.span))
        return variable

    def head_term(
        self, arg: ast.Expression, aggregate: tuple[str, ast.Expression] | None, kind: TypeKind
    ) -> Expression:
        """Return the expression for an argument of the head."""
        if aggregate is None:
            return self._as_kind(arg, kind)
        function, value = aggregate
        if not takes_value(function):
            if not isinstance(value, ast.Underscore):
                self.expression(value)
            return Constant(1, BIGINT)
        if result_kind(function) is ResultKind.FLOAT:
            return self.as_float(value)
        return self._as_kind(value, kind)

    def as_float(self, value: ast.Expression) -> Expression:
        """Return the operand of an aggregate over floats."""
        return cast(self.expression(value), DOUBLE)

    def _as_kind(self, expression: ast.Expression, kind: TypeKind) -> Expression:
        """Return the expression as a value of a column's kind."""
        if isinstance(expression, Literals) and kind.domain is Domain.SQL:
            return self._literal(expression, kind)
        value = self.expression(expression, in_equality=True)
        return cast(value, kind.type) if kind.domain is Domain.SQL else value

    def _literal(self, expression: Literals, kind: TypeKind) -> Expression:
        try:
            return constants_literal(expression, kind, self.size)
        except OutOfRange as error:
            self.diagnostics.error("type", str(error), expression.span)
            return Constant(0, kind.type)

    def expression(self, expression: ast.Expression, *, in_equality: bool = False) -> Expression:
        """Return the core expression.

        With ``in_equality``, an underscore in a record matches any value.
        """
        kind = self.typing.kind(expression)
        match expression:
            case ast.Variable(name=name, span=span):
                self.places.setdefault(name, span)
                return Variable(name, kind.type)
            case ast.Integer() | ast.Float() | ast.Boolean() | ast.String():
                return self._literal(expression, kind)
            case ast.Nil():
                return NIL
            case ast.Record(args=args):
                return constants.record(kind.structure, self._parts(args, in_equality))
            case ast.Dollar(name=name, args=arguments, span=span):
                if name in self.table.branches:
                    return constants.branch(name, self._parts(arguments or (), in_equality))
                return Parameter(name, kind.type)
            case ast.Cast(value=value):
                operand = self.expression(value, in_equality=in_equality)
                source = self.typing.kind(value)
                return (
                    reinterpret(operand, source, kind, self.size)
                    if is_reinterpretation(source, kind)
                    else operand
                )
            case ast.Aggregate():
                return self._aggregate(expression, kind)
            case ast.Call(function="neg", args=(ast.Integer() | ast.Float() as number,)):
                return self._negative(number, kind, expression.span)
            case ast.Call():
                return self._call(expression, kind)
            case ast.Underscore(span=span):
                self.diagnostics.error("underscore", "an underscore cannot stand here", span)
                return Constant(0, BIGINT)
            case _:
                assert_never(expression)

    def _parts(self, args: tuple[ast.Expression, ...], in_equality: bool) -> tuple[Expression, ...]:
        return tuple(
            self.fresh(self.typing.kind(arg).type, arg.span, UNNAMED_PREFIX)
            if in_equality and isinstance(arg, ast.Underscore)
            else self.expression(arg, in_equality=in_equality)
            for arg in args
        )

    def _negative(self, number: ast.Integer | ast.Float, kind: TypeKind, span: Span) -> Expression:
        if isinstance(number, ast.Integer):
            return self._literal(ast.Integer(-number.value, number.unsigned, span), kind)
        return self._literal(ast.Float(-number.value, span), kind)

    def _call(self, call: ast.Call, kind: TypeKind) -> Expression:
        if call.function == "autoinc":
            if self.in_aggregate:
                self.diagnostics.error("unsupported", "autoinc in an aggregate is not supported", call.span)
            return Call(AUTOINC, (Constant(next(self.numbers), BIGINT),), BIGINT)
        if call.function == "__ITERATION__":
            if self.in_aggregate:
                message = "__ITERATION__() in an aggregate is not supported"
                self.diagnostics.error("unsupported", message, call.span)
            return Call(ITERATION, (), BIGINT)
        if call.function == DELTA:
            return Call(DELTA, (), BIGINT)
        if call.function == "range":
            args = tuple(self.expression(arg) for arg in call.args)
            variable = self.fresh(kind.type, call.span)
            self.literals.append(Range(variable, args, kind, call.span))
            return variable
        operands = [(self.expression(arg), self.typing.kind(arg)) for arg in call.args]
        functor, own = self.table.functors.get(call.function), self.table.functions.get(call.function.lower())
        if functor is not None:
            own = self.table.functions[call.function]
            return Call(own, tuple(operand for operand, _ in operands), kind.type)
        overload = self.typing.overloads.get(id(call))
        if overload is None:
            return build_call(call.function, operands, kind, self.size)
        arg_types, result = overload
        values = tuple(cast(value, type_) for (value, _), type_ in zip(operands, arg_types, strict=True))
        core_call = Call(own or RUNTIME_NAMES.get(call.function, call.function), values, result)
        return cast(core_call, kind.type)

    def _aggregate(self, aggregate: ast.Aggregate, kind: TypeKind) -> Expression:
        outer = self.literals
        self.in_aggregate += 1
        parts: list[list[NormalLiteral]] = []
        for part in alternatives(aggregate.body):
            self.literals = []
            for one in part:
                self.add(one)
            parts.append(self.literals)
        self.literals = []
        value: Expression | None = None
        if aggregate.value is not None:
            as_float = result_kind(aggregate.function) is ResultKind.FLOAT
            value = (self.as_float if as_float else self.expression)(aggregate.value)
        bodies = tuple((*part, *self.literals) for part in parts)
        self.literals = outer
        self.in_aggregate -= 1
        result = self.fresh(kind.type, aggregate.span)
        self.literals.append(NormalAggregate(result, aggregate.function, value, bodies, aggregate.span))
        if self.size == 32 and has_identity(aggregate.function) and kind.domain in WRAP_FUNCTIONS:
            return Call(WRAP_FUNCTIONS[kind.domain], (result,), kind.type)
        return result


def literal(value: NormalLiteral, change: Substitution) -> NormalLiteral:
    """Return the literal with the substitution applied.

    A variable that it binds is replaced only by a variable.
    """
    match value:
        case Atom() | Negation() | Comparison() | Assignment():
            return substitute_literal(value, change)
        case Range(variable=variable, args=args):
            return replace(
                value, variable=substitute_binding(variable, change), args=tuple(map(change, args))
            )
        case NormalAggregate(result=result, value=operand, alternatives=parts):
            return replace(
                value,
                result=substitute_binding(result, change),
                value=None if operand is None else change(operand),
                alternatives=tuple(tuple(literal(one, change) for one in part) for part in parts),
            )
        case BodyAggregate():
            raise AssertionError(value)
        case _:
            assert_never(value)


def bound_variables(literal_: NormalLiteral | GroundLiteral) -> Iterator[Variable]:
    """Yield the variables that a literal binds."""
    match literal_:
        case Atom():
            yield from direct_variables(literal_)
        case Assignment(variable=variable) | Range(variable=variable):
            yield variable
        case (
            BodyAggregate(result=variable) | NormalAggregate(result=variable) | RuleAggregate(result=variable)
        ):
            yield variable
        case Negation() | Comparison():
            return
        case _:
            assert_never(literal_)


def direct_variables(value: NormalLiteral | GroundLiteral) -> Iterator[Variable]:
    """Yield the variables of a literal; of an aggregate only the result."""
    match value:
        case Atom(terms=terms) | Negation(atom=Atom(terms=terms)):
            for part in terms:
                yield from variables(part)
        case Comparison(left=left, right=right):
            yield from variables(left)
            yield from variables(right)
        case Assignment(variable=variable, expression=right):
            yield variable
            yield from variables(right)
        case Range(variable=variable, args=args):
            yield variable
            for arg in args:
                yield from variables(arg)
        case NormalAggregate(result=result) | BodyAggregate(result=result) | RuleAggregate(result=result):
            yield result
        case _:
            assert_never(value)


def all_variables(value: NormalLiteral) -> Iterator[Variable]:
    """Yield the variables of a literal, also inside aggregates."""
    yield from direct_variables(value)
    if isinstance(value, NormalAggregate):
        if value.value is not None:
            yield from variables(value.value)
        for part in value.literals:
            yield from all_variables(part)
