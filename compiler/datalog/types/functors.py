"""Functors and aggregates of the dialect: their signatures, and the runtime functions that implement them.

Any other function of ``runtime.functions`` can also be called by its name. Users declare functors in Python,
or use functions of the database.

A user-defined aggregate ``@@f x : start, { body }`` folds a declared functor over the values, smallest first,
so the result is a function of the set of values. Over no values it is ``start``. A group that changes is
folded again.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, Final

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.traverse import nodes, transform_tree
from kpg.compiler.datalog.types.declarations import (
    FLOAT,
    NUMBER,
    SYMBOL,
    UNSIGNED,
    Functor,
    Scheme,
    TypeKind,
    TypeTable,
    resolve_type,
)
from kpg.compiler.rules.core import WRAP_FUNCTIONS, Call, Constant, Domain, Expression
from kpg.runtime.functions import lookup_aggregate
from kpg.runtime.functions.aggregation.definition import AggregateFunction
from kpg.runtime.functions.datalog import format_branch, format_record, quote, show_number
from kpg.runtime.functions.registry import ScalarFunction
from kpg.runtime.functions.user_functions import FunctionDeclaration, aggregate_function, scalar_function
from kpg.runtime.scalar import UserFunctionName, display_name
from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Type, float_to_word

MAX_ARGS: Final = 1000
"""Maximum number of arguments of a variadic functor.

No rule has that many.
"""


NUMERIC_DOMAINS: Final = frozenset({Domain.NUMBER, Domain.UNSIGNED, Domain.FLOAT})
INTEGER_DOMAINS: Final = frozenset({Domain.NUMBER, Domain.UNSIGNED})
SCALAR_DOMAINS: Final = NUMERIC_DOMAINS | {Domain.SYMBOL}
ALL_DOMAINS: Final = frozenset(Domain)
ARITHMETIC: Final = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
FLOAT_FUNCTIONS: Final = {**ARITHMETIC, "neg": "neg", "^": "power", "/": "$quotient"}
"""Runtime functions for operations on floats."""
EXTREMES: Final = {"min": "least", "max": "greatest"}
BITWISE: Final = ("band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor")


def _same_kind_functor(name: str, least: int, most: int, domains: frozenset[Domain]) -> Functor:
    return Functor(name, Scheme.SAME, least, most, domains)


def _fixed_functor(name: str, result: TypeKind, *args: TypeKind) -> Functor:
    return Functor(name, Scheme.FIXED, len(args), len(args), args=args, result=result)


def _conversion_functor(name: str, result: TypeKind, domains: frozenset[Domain]) -> Functor:
    return Functor(name, Scheme.CONVERT, 1, 1, domains, result=result)


FUNCTORS: Final[Mapping[str, Functor]] = {
    functor.name: functor
    for functor in (
        _same_kind_functor("+", 2, 2, SCALAR_DOMAINS | {Domain.SQL}),
        *(_same_kind_functor(name, 2, 2, NUMERIC_DOMAINS | {Domain.SQL}) for name in "-*/"),
        _same_kind_functor("%", 2, 2, INTEGER_DOMAINS | {Domain.SQL}),
        _same_kind_functor("^", 2, 2, NUMERIC_DOMAINS),
        _same_kind_functor("neg", 1, 1, NUMERIC_DOMAINS | {Domain.SQL}),
        *(_same_kind_functor(name, 2, 2, INTEGER_DOMAINS) for name in BITWISE),
        _same_kind_functor("bnot", 1, 1, INTEGER_DOMAINS),
        _same_kind_functor("lnot", 1, 1, INTEGER_DOMAINS),
        *(_same_kind_functor(name, 2, MAX_ARGS, SCALAR_DOMAINS | {Domain.SQL}) for name in EXTREMES),
        _same_kind_functor("range", 2, 3, NUMERIC_DOMAINS),
        Functor("cat", Scheme.SAME, 1, MAX_ARGS, frozenset({Domain.SYMBOL}), result=SYMBOL),
        _fixed_functor("strlen", NUMBER, SYMBOL),
        _fixed_functor("autoinc", NUMBER),
        _fixed_functor("substr", SYMBOL, SYMBOL, NUMBER, NUMBER),
        _conversion_functor("ord", NUMBER, ALL_DOMAINS),
        _conversion_functor("to_string", SYMBOL, ALL_DOMAINS),
        _conversion_functor("to_plain_string", SYMBOL, ALL_DOMAINS),
        _conversion_functor("to_number", NUMBER, ALL_DOMAINS - {Domain.RECORD, Domain.ADT}),
        _fixed_functor("to_number_or_zero", NUMBER, SYMBOL),
        _conversion_functor("to_unsigned", UNSIGNED, ALL_DOMAINS - {Domain.RECORD, Domain.ADT}),
        _conversion_functor("to_float", FLOAT, ALL_DOMAINS - {Domain.RECORD, Domain.ADT}),
        _conversion_functor("to_date", TypeKind(Domain.SQL, DATE), frozenset({Domain.SYMBOL, Domain.SQL})),
        _conversion_functor(
            "to_timestamp", TypeKind(Domain.SQL, TIMESTAMP), frozenset({Domain.SYMBOL, Domain.SQL})
        ),
        _conversion_functor("itou", UNSIGNED, frozenset({Domain.NUMBER})),
        _conversion_functor("itof", FLOAT, frozenset({Domain.NUMBER})),
        _conversion_functor("utoi", NUMBER, frozenset({Domain.UNSIGNED})),
        _conversion_functor("utof", FLOAT, frozenset({Domain.UNSIGNED})),
        _conversion_functor("ftoi", NUMBER, frozenset({Domain.FLOAT})),
        _conversion_functor("ftou", UNSIGNED, frozenset({Domain.FLOAT})),
    )
}
RUNTIME_NAMES: Final[Mapping[str, str]] = {
    **ARITHMETIC,
    **EXTREMES,
    "=": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}
"""Runtime functions for the operators."""
WIDTH_SEPARATOR: Final = "@"
"""Separator between an operation and FlowLog's type of its operands, as in ``+@int8``."""
WIDTH_WRAPS: Final[Mapping[str, tuple[str, int]]] = {
    **{f"int{bits}": (f"$wrap_int{bits}", bits) for bits in (8, 16)},
    **{f"uint{bits}": (f"$wrap_uint{bits}", bits) for bits in (8, 16)},
    "int32": ("$wrap_number", 32),
    "uint32": ("$wrap_unsigned", 32),
}
"""Wrap function and number of bits for each of FlowLog's integer types."""
SINGLE: Final = "f32"


def find_functor(name: str) -> Functor | None:
    """Return the dialect's functor of a name, without its width."""
    return FUNCTORS.get(name) or FUNCTORS.get(name.partition(WIDTH_SEPARATOR)[0])


CONSTRAINTS: Final[Mapping[str, str]] = {"match": "$full_match", "contains": "contains"}
"""Constraints that are written like atoms, with the function of their core comparison."""


def build_call(
    name: str, args: Sequence[tuple[Expression, TypeKind]], result: TypeKind, size: int
) -> Expression:
    """Return the call of a functor with checked arguments as a core expression.

    Numbers have ``size`` bits.
    """
    operands = [operand for operand, _ in args]
    operation, _, width = name.partition(WIDTH_SEPARATOR)
    if width == SINGLE and operation == "to_plain_string":
        return Call("$plain_single", tuple(operands), TEXT)
    if width == SINGLE:
        return Call("$single", (build_call(operation, args, result, size),), DOUBLE)
    if operation in FUNCTORS and width in WIDTH_WRAPS:
        return _wrapping_operation(operation, tuple(operands), *WIDTH_WRAPS[width])
    match name:
        case "cat" | "+" if result.type == TEXT:
            return reduce(lambda left, right: Call("concat", (left, right), TEXT), operands)
        case "strlen":
            return cast(Call("length", tuple(operands), INTEGER), BIGINT)
        case "substr":
            return Call("$substr", tuple(operands), TEXT)
        case "to_plain_string" if args[0][1].domain is Domain.FLOAT:
            return Call("$plain_float", tuple(operands), TEXT)
        case "to_number_or_zero":
            return Call("$number_or_zero", tuple(operands), BIGINT)
        case _ if name in EXTREMES:
            return Call(EXTREMES[name], tuple(operands), result.type)
        case "ord":
            return Call("$ord", tuple(operands), BIGINT) if operands[0].type == TEXT else operands[0]
        case _ if name in FUNCTORS and FUNCTORS[name].scheme is Scheme.CONVERT:
            return convert(operands[0], args[0][1], result, size)
        case _ if result.domain is Domain.FLOAT:
            return Call(FLOAT_FUNCTIONS[name], tuple(operands), DOUBLE)
        case _:
            return _integer_operation(name, tuple(operands), result.domain is Domain.UNSIGNED, size)


def _integer_operation(name: str, args: tuple[Expression, ...], unsigned: bool, size: int) -> Expression:
    """Return an operation on integers: checked in 64 bits, wrapping in 32 bits."""
    if size == 32:
        return _wrapping_operation(
            name, args, WRAP_FUNCTIONS[Domain.UNSIGNED if unsigned else Domain.NUMBER], 32
        )
    if name in ARITHMETIC or name == "neg":
        result = Call(ARITHMETIC.get(name, name), args, BIGINT)
        return Call("$unsigned", (result,), BIGINT) if unsigned and name in ("-", "neg") else result
    result = Call("$power" if name == "^" else f"${name}", args, BIGINT)
    return Call("$unsigned", (result,), BIGINT) if unsigned and name in ("bnot", "bshl") else result


def _wrapping_operation(name: str, args: tuple[Expression, ...], wrap: str, bits: int) -> Expression:
    """Return an operation on integers whose result ``wrap`` reduces to ``bits`` bits."""
    if name in ("bshl", "bshr", "bshru"):
        distance = Call("$band", (args[1], Constant(bits - 1, BIGINT)), BIGINT)
        low = Constant((1 << bits) - 1, BIGINT)
        shifted = args[0] if name != "bshru" else Call("$band", (args[0], low), BIGINT)
        return Call(wrap, (Call(f"${name}", (shifted, distance), BIGINT),), BIGINT)
    if name == "*" and wrap == WRAP_FUNCTIONS[Domain.UNSIGNED]:
        return Call("$wrap_product", args, BIGINT)
    if name == "^":
        return Call(wrap, (Call("$wrap_power", args, BIGINT),), BIGINT)
    function = ARITHMETIC.get(name, name if name == "neg" else f"${name}")
    return Call(wrap, (Call(function, args, BIGINT),), BIGINT)


def convert(value: Expression, source: TypeKind, target: TypeKind, size: int) -> Expression:
    """Return a value converted to another kind, as in ``to_number("7")``."""
    if source == target or (target.type == TEXT and source.type == TEXT):
        return value
    if source.domain is Domain.FLOAT and target.type == TEXT:
        return Call("$six_places", (value,), TEXT)
    if source.domain is Domain.FLOAT and target.domain in INTEGER_DOMAINS:
        value = Call("trunc", (value,), DOUBLE)
    if source.type == TEXT and target.domain in INTEGER_DOMAINS:
        value = Call("$whole_number", (value,), BIGINT)
    result = value if value.type == target.type else cast(value, target.type)
    if target.domain in INTEGER_DOMAINS and size == 32:
        return Call(WRAP_FUNCTIONS[target.domain], (result,), BIGINT)
    return Call("$unsigned", (result,), BIGINT) if target.domain is Domain.UNSIGNED else result


def reinterpret(value: Expression, source: TypeKind, target: TypeKind, size: int) -> Expression:
    """Return a value's bits as a value of another kind, as in ``as(x, number)``.

    The bits of a symbol or record are its dictionary code. Those of nil are 0.
    """
    bits = "32" if size == 32 else ""
    if target.domain is Domain.FLOAT:
        return Call(f"$bits_float{bits}", (value,), DOUBLE)
    if source.domain is Domain.FLOAT:
        value, source = Call(f"$float_bits{bits}", (value,), BIGINT), NUMBER
    if source.domain in INTEGER_DOMAINS:
        if size == 32:
            return Call(WRAP_FUNCTIONS[target.domain], (value,), BIGINT)
        return Call("$unsigned", (value,), BIGINT) if target.domain is Domain.UNSIGNED else value
    number = Call("$ord", (value,), BIGINT)
    if source.domain is Domain.SYMBOL:
        return number
    is_there = cast(Call("ne", (value, Constant("nil", TEXT)), BOOLEAN), BIGINT)
    return Call("mul", (Call("add", (number, Constant(1, BIGINT)), BIGINT), is_there), BIGINT)


def cast(value: Expression, type_: Type) -> Expression:
    """Return the value cast to a SQL type."""
    return value if value.type == type_ else Call("cast", (value,), type_)


FunctorFunctions = Mapping[str, UserFunctionName[ScalarFunction]]


def declare_functors(
    declarations: Iterable[ast.Functor],
    table: TypeTable,
    catalog: Catalog,
    functions: Mapping[str, Callable[..., Any]],
    previous: FunctorFunctions,
    diagnostics: Diagnostics,
) -> None:
    """Enter the callable functions: those of the database, and those of declared functors.

    A declared functor calls its function in ``functions``, or the database's function of its name.
    ``previous`` are functors of the same program from an earlier check.
    """
    for name, known in catalog.functions.items():
        if isinstance(known.definition, ScalarFunction):
            table.functions[name] = known  # type: ignore[assignment]
    for declaration in declarations:
        plain = declaration.name.text.removeprefix("@")
        if declaration.name.text in table.functors:
            diagnostics.error("redefinition", f"functor {plain} is already defined", declaration.name.span)
            continue
        args = tuple(table.kinds[resolve_type(part, table, diagnostics)] for part in declaration.arguments)
        result = table.kinds[resolve_type(declaration.result, table, diagnostics)]
        functor = Functor(plain, Scheme.FIXED, len(args), len(args), args=args, result=result)
        table.functors[declaration.name.text] = functor
        types = tuple(kind.type for kind in args)
        function = functions.get(plain)
        if declaration.name.text in previous:
            table.functions[declaration.name.text] = previous[declaration.name.text]
        elif function is not None:
            declared = FunctionDeclaration(plain, catalog.next_function_number(), types, "")
            own = scalar_function(declared, _reject_none(function), result.type, columns=False, nulls=False)
            table.functions[declaration.name.text] = own
        elif plain.lower() in table.functions:
            _check_signature(declaration, table.functions[plain.lower()], functor, diagnostics)
            table.functions[declaration.name.text] = table.functions[plain.lower()]


def _reject_none(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, for which a result of None is an error."""
    return partial(_call_and_reject_none, function)


def _call_and_reject_none(function: Callable[..., Any], *values: Any) -> Any:
    value = function(*values)
    if value is None:
        raise ValueError("it gave None")
    return value


def _check_signature(
    declaration: ast.Functor,
    function: UserFunctionName[ScalarFunction],
    functor: Functor,
    diagnostics: Diagnostics,
) -> None:
    """Report a database function whose signature differs from the functor's declaration."""
    types = tuple(kind.type for kind in functor.args)
    found = next(
        (signature for part in function.definition.overloads if (signature := part.rule(types))), None
    )
    assert functor.result is not None
    if found is None or found.result != functor.result.type:
        message = f"function {display_name(function)} is not as functor {functor.name} is declared"
        hint = f"it takes {function.definition.accepts}"
        diagnostics.error("functor", message, declaration.span, hint=hint)


MARK = "@@"


def resolve_user_aggregates(
    statements: Iterable[ast.Statement], table: TypeTable, diagnostics: Diagnostics
) -> tuple[ast.Statement, ...]:
    """Return the statements with user-defined aggregates replaced by their functions.

    Faulty ones are reported.
    """

    def change(node: Any) -> Any:
        if isinstance(node, ast.Aggregate) and node.function.startswith(MARK):
            return replace(node, function=_user_aggregate(node, table, diagnostics) or "min", initial=None)
        return node

    return tuple(
        transform_tree(statement, change) if _has_user_aggregate(statement) else statement
        for statement in statements
    )


def _has_user_aggregate(statement: ast.Statement) -> bool:
    return any(
        isinstance(node, ast.Aggregate) and node.function.startswith(MARK) for node in nodes(statement)
    )


def _user_aggregate(
    node: ast.Aggregate, table: TypeTable, diagnostics: Diagnostics
) -> UserFunctionName[AggregateFunction] | None:
    name = node.function[1:]
    functor, step = table.functors.get(name), table.functions.get(name)
    if functor is None:
        message = f"functor {name[1:]} is not declared"
        diagnostics.error("undefined", message, node.span, hint=f".functor {name[1:]}(...)")
        return None
    if len(functor.args) != 2 or functor.result is None or len({*functor.args, functor.result}) > 1:
        message = f"functor {name[1:]} cannot aggregate: it takes two values of a type and gives one"
        diagnostics.error("functor", message, node.span, hint=f".functor {name[1:]}(x: T, y: T): T")
        return None
    if step is None:
        hint = f'db.datalog(..., functors={{"{name[1:]}": ...}})'
        diagnostics.error("functor", f"there is no function for functor {name[1:]}", node.span, hint=hint)
        return None
    assert node.initial is not None
    initial = _constant_value(node.initial)
    if initial is None:
        message = "the initial value of an aggregate must be a constant"
        diagnostics.error("functor", message, node.initial.span)
        return None
    python_type = str if functor.result.type.is_text else float if functor.result.type.is_float else int
    if not isinstance(initial, (python_type, int) if python_type is float else python_type):
        message = f"type mismatch: what functor {name[1:]} takes is {functor.result}"
        diagnostics.error("type", message, node.initial.span)
        return None
    return _define_fold(functor, step, initial, table)


def _define_fold(
    functor: Functor, step: UserFunctionName[ScalarFunction], initial: Any, table: TypeTable
) -> UserFunctionName[AggregateFunction]:
    """Define the aggregate of a functor and an initial value.

    Equal ones have equal names.
    """
    assert functor.result is not None and step.recipe is not None
    declared, function, result = step.recipe[1][:3]
    assert isinstance(declared, FunctionDeclaration) and isinstance(result, Type) and callable(function)
    own = replace(declared, name=f"{declared.name}({initial})", args=(result,))
    aggregate = fold_function(own, function, float(initial) if result.is_float else initial, result)
    table.folds[aggregate] = functor.result
    return aggregate


class Fold:
    """The state of a fold: the multiplicity of each value."""

    def __init__(self, function: Callable[..., Any], initial: Any) -> None:
        self.function = function
        self.initial = initial

    def initialize(self) -> dict[Any, int]:
        return {}

    def add(self, state: dict[Any, int], value: Any, times: int) -> dict[Any, int]:
        state[value] = state.get(value, 0) + times
        return state

    def merge(self, state: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
        for value, times in other.items():
            state[value] = state.get(value, 0) + times
        return state

    def subtract(self, state: dict[Any, int], value: Any, times: int) -> dict[Any, int]:
        state[value] -= times
        if not state[value]:
            del state[value]
        return state

    def finish(self, state: dict[Any, int]) -> Any:
        result = self.initial
        for value in sorted(state):
            for _ in range(state[value]):
                result = self.function(result, value)
        return result


def fold_function(
    declared: FunctionDeclaration, function: Callable[..., Any], initial: Any, result: Type
) -> UserFunctionName[AggregateFunction]:
    """Return the aggregate that folds a function over the values.

    Over no values it is ``initial``.
    """
    aggregate = aggregate_function(declared, Fold(function, initial), result)
    identity = float_to_word(initial) if isinstance(initial, float) else initial
    aggregate.definition = replace(aggregate.definition, identity=identity)
    aggregate.recipe = fold_function, (declared, function, initial, result)
    return aggregate


def _constant_value(node: ast.Expression) -> Any:
    """Return the value of a constant, or the text of a constant record or branch, or None."""
    if isinstance(node, ast.Integer | ast.Float | ast.String):
        return node.value
    if isinstance(node, ast.Call) and node.function == "neg":
        value = _constant_value(node.args[0])
        return -value if isinstance(value, int | float) else None
    if isinstance(node, ast.Nil):
        return "nil"
    if not isinstance(node, ast.Record | ast.Dollar):
        return None
    parts = [_field_text(part) for part in node.args or ()]
    if any(part is None for part in parts):
        return None
    make = format_record if isinstance(node, ast.Record) else partial(format_branch, node.name)
    return make(*(str(part) for part in parts))


def _field_text(node: ast.Expression) -> str | None:
    value = _constant_value(node)
    if isinstance(node, ast.String):
        return quote(str(value))
    return value if value is None or isinstance(value, str) else show_number(value)


class ResultKind(enum.Enum):
    """The kind of an aggregate's result."""

    INTEGER = "a whole number, number or unsigned"
    FLOAT = "a float, of operands as floats"
    OPERAND = "of the kind of its operand"


def takes_value(function: str) -> bool:
    """Return whether the aggregate takes a value, and does not count bindings."""
    return not lookup_aggregate(function).is_nullary


def result_kind(function: str) -> ResultKind:
    """Return the kind of the aggregate's result."""
    if not takes_value(function):
        return ResultKind.INTEGER
    if isinstance(function, UserFunctionName):
        return ResultKind.OPERAND
    signature = lookup_aggregate(function).rule((BIGINT,))
    return ResultKind.OPERAND if signature is not None and signature.result == BIGINT else ResultKind.FLOAT


def operand_domains(function: str) -> frozenset[Domain]:
    """Return the domains of operands that the aggregate takes.

    SQL types are distinguished later.
    """
    if isinstance(function, UserFunctionName):
        return frozenset(Domain)
    rule = lookup_aggregate(function).rule
    plain = {kind.domain for kind in (NUMBER, UNSIGNED, FLOAT, SYMBOL) if rule((kind.type,)) is not None}
    return frozenset(plain | {Domain.SQL} if result_kind(function) is ResultKind.OPERAND else plain)


def returns_operand(function: str) -> bool:
    """Return whether the aggregate's result is one of its operands."""
    return lookup_aggregate(function).selects_operand
