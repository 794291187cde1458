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
from kpg.compiler.datalog.syntax.traverse import nodes, rewritten
from kpg.compiler.datalog.types.declarations import (
    FLOAT,
    NUMBER,
    SYMBOL,
    UNSIGNED,
    Functor,
    Scheme,
    TypeKind,
    TypeTable,
    type_name,
)
from kpg.compiler.rules.core import WRAPS, Call, Constant, Domain, Expression
from kpg.runtime.functions import aggregate_named
from kpg.runtime.functions.aggregation.definition import AggregateFunction
from kpg.runtime.functions.datalog import branch, quote, record, show
from kpg.runtime.functions.registry import ScalarFunction
from kpg.runtime.functions.user_functions import Declared, aggregate_function, scalar_function
from kpg.runtime.scalar import Named, shown
from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Type, float_to_word

ANY_NUMBER: Final = 1000
"""The most arguments of a functor that takes any number: more than a rule has."""


NUMERIC: Final = frozenset({Domain.NUMBER, Domain.UNSIGNED, Domain.FLOAT})
WHOLE: Final = frozenset({Domain.NUMBER, Domain.UNSIGNED})
SCALAR: Final = NUMERIC | {Domain.SYMBOL}
EVERYTHING: Final = frozenset(Domain)
ARITHMETIC: Final = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
FLOATS: Final = {**ARITHMETIC, "neg": "neg", "^": "power", "/": "$quotient"}
"""What the runtime calls operations on floats."""
EXTREMES: Final = {"min": "least", "max": "greatest"}
BITWISE: Final = ("band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor")


def _same(name: str, least: int, most: int, domains: frozenset[Domain]) -> Functor:
    return Functor(name, Scheme.SAME, least, most, domains)


def _fixed(name: str, result: TypeKind, *args: TypeKind) -> Functor:
    return Functor(name, Scheme.FIXED, len(args), len(args), args=args, result=result)


def _convert(name: str, result: TypeKind, domains: frozenset[Domain]) -> Functor:
    return Functor(name, Scheme.CONVERT, 1, 1, domains, result=result)


FUNCTORS: Final[Mapping[str, Functor]] = {
    functor.name: functor
    for functor in (
        _same("+", 2, 2, SCALAR | {Domain.SQL}),
        *(_same(name, 2, 2, NUMERIC | {Domain.SQL}) for name in "-*/"),
        _same("%", 2, 2, WHOLE | {Domain.SQL}),
        _same("^", 2, 2, NUMERIC),
        _same("neg", 1, 1, NUMERIC | {Domain.SQL}),
        *(_same(name, 2, 2, WHOLE) for name in BITWISE),
        _same("bnot", 1, 1, WHOLE),
        _same("lnot", 1, 1, WHOLE),
        *(_same(name, 2, ANY_NUMBER, SCALAR | {Domain.SQL}) for name in EXTREMES),
        _same("range", 2, 3, NUMERIC),
        Functor("cat", Scheme.SAME, 1, ANY_NUMBER, frozenset({Domain.SYMBOL}), result=SYMBOL),
        _fixed("strlen", NUMBER, SYMBOL),
        _fixed("autoinc", NUMBER),
        _fixed("substr", SYMBOL, SYMBOL, NUMBER, NUMBER),
        _convert("ord", NUMBER, EVERYTHING),
        _convert("to_string", SYMBOL, EVERYTHING),
        _convert("to_plain_string", SYMBOL, EVERYTHING),
        _convert("to_number", NUMBER, EVERYTHING - {Domain.RECORD, Domain.ADT}),
        _fixed("to_number_or_zero", NUMBER, SYMBOL),
        _convert("to_unsigned", UNSIGNED, EVERYTHING - {Domain.RECORD, Domain.ADT}),
        _convert("to_float", FLOAT, EVERYTHING - {Domain.RECORD, Domain.ADT}),
        _convert("to_date", TypeKind(Domain.SQL, DATE), frozenset({Domain.SYMBOL, Domain.SQL})),
        _convert("to_timestamp", TypeKind(Domain.SQL, TIMESTAMP), frozenset({Domain.SYMBOL, Domain.SQL})),
        _convert("itou", UNSIGNED, frozenset({Domain.NUMBER})),
        _convert("itof", FLOAT, frozenset({Domain.NUMBER})),
        _convert("utoi", NUMBER, frozenset({Domain.UNSIGNED})),
        _convert("utof", FLOAT, frozenset({Domain.UNSIGNED})),
        _convert("ftoi", NUMBER, frozenset({Domain.FLOAT})),
        _convert("ftou", UNSIGNED, frozenset({Domain.FLOAT})),
    )
}
SQL_NAMES: Final[Mapping[str, str]] = {
    **ARITHMETIC,
    **EXTREMES,
    "=": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}
"""What the runtime calls the operators."""
OF_WIDTH: Final = "@"
"""Between an operation and FlowLog's type whose values it makes: ``+@int8``."""
WIDTHS: Final[Mapping[str, tuple[str, int]]] = {
    **{f"int{bits}": (f"$wrap_int{bits}", bits) for bits in (8, 16)},
    **{f"uint{bits}": (f"$wrap_uint{bits}", bits) for bits in (8, 16)},
    "int32": ("$wrap_number", 32),
    "uint32": ("$wrap_unsigned", 32),
}
"""What makes values of FlowLog's types of whole numbers, and their bits."""
SINGLE: Final = "f32"


def functor_named(name: str) -> Functor | None:
    """The dialect's functor of a name, of an operation on values of a width that of any."""
    return FUNCTORS.get(name) or FUNCTORS.get(name.partition(OF_WIDTH)[0])


CONSTRAINTS: Final[Mapping[str, str]] = {"match": "$full_match", "contains": "contains"}
"""Constraints written like atoms, and the function of the core's comparison."""


def build(name: str, args: Sequence[tuple[Expression, TypeKind]], result: TypeKind, size: int) -> Expression:
    """The call of a functor, checked to fit, as an expression of the core; numbers have ``size`` bits."""
    operands = [operand for operand, _ in args]
    operation, _, width = name.partition(OF_WIDTH)
    if width == SINGLE and operation == "to_plain_string":
        return Call("$plain_single", tuple(operands), TEXT)
    if width == SINGLE:
        return Call("$single", (build(operation, args, result, size),), DOUBLE)
    if operation in FUNCTORS and width in WIDTHS:
        return _wrapping(operation, tuple(operands), *WIDTHS[width])
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
            return Call(FLOATS[name], tuple(operands), DOUBLE)
        case _:
            return _whole(name, tuple(operands), result.domain is Domain.UNSIGNED, size)


def _whole(name: str, args: tuple[Expression, ...], unsigned: bool, size: int) -> Expression:
    """An operation on whole numbers: in 64 bits checked, in 32 bits wrapping."""
    if size == 32:
        return _wrapping(name, args, WRAPS[Domain.UNSIGNED if unsigned else Domain.NUMBER], 32)
    if name in ARITHMETIC or name == "neg":
        made = Call(ARITHMETIC.get(name, name), args, BIGINT)
        return Call("$unsigned", (made,), BIGINT) if unsigned and name in ("-", "neg") else made
    made = Call("$power" if name == "^" else f"${name}", args, BIGINT)
    return Call("$unsigned", (made,), BIGINT) if unsigned and name in ("bnot", "bshl") else made


def _wrapping(name: str, args: tuple[Expression, ...], wrap: str, bits: int) -> Expression:
    """An operation on whole numbers of so many bits, of which ``wrap`` makes the result one."""
    if name in ("bshl", "bshr", "bshru"):
        distance = Call("$band", (args[1], Constant(bits - 1, BIGINT)), BIGINT)
        low = Constant((1 << bits) - 1, BIGINT)
        shifted = args[0] if name != "bshru" else Call("$band", (args[0], low), BIGINT)
        return Call(wrap, (Call(f"${name}", (shifted, distance), BIGINT),), BIGINT)
    if name == "*" and wrap == WRAPS[Domain.UNSIGNED]:
        return Call("$wrap_product", args, BIGINT)
    if name == "^":
        return Call(wrap, (Call("$wrap_power", args, BIGINT),), BIGINT)
    function = ARITHMETIC.get(name, name if name == "neg" else f"${name}")
    return Call(wrap, (Call(function, args, BIGINT),), BIGINT)


def convert(value: Expression, source: TypeKind, target: TypeKind, size: int) -> Expression:
    """A value as one of another kind, by its meaning: ``to_number("7")``."""
    if source == target or (target.type == TEXT and source.type == TEXT):
        return value
    if source.domain is Domain.FLOAT and target.type == TEXT:
        return Call("$six_places", (value,), TEXT)
    if source.domain is Domain.FLOAT and target.domain in WHOLE:
        value = Call("trunc", (value,), DOUBLE)
    if source.type == TEXT and target.domain in WHOLE:
        value = Call("$whole_number", (value,), BIGINT)
    made = value if value.type == target.type else cast(value, target.type)
    if target.domain in WHOLE and size == 32:
        return Call(WRAPS[target.domain], (made,), BIGINT)
    return Call("$unsigned", (made,), BIGINT) if target.domain is Domain.UNSIGNED else made


def reinterpreted(value: Expression, source: TypeKind, target: TypeKind, size: int) -> Expression:
    """What a value's bits are as one of another kind, ``as(x, number)``; what a symbol or a record has for
    bits is the number that stands for it, for nil 0.
    """
    bits = "32" if size == 32 else ""
    if target.domain is Domain.FLOAT:
        return Call(f"$bits_float{bits}", (value,), DOUBLE)
    if source.domain is Domain.FLOAT:
        value, source = Call(f"$float_bits{bits}", (value,), BIGINT), NUMBER
    if source.domain in WHOLE:
        if size == 32:
            return Call(WRAPS[target.domain], (value,), BIGINT)
        return Call("$unsigned", (value,), BIGINT) if target.domain is Domain.UNSIGNED else value
    number = Call("$ord", (value,), BIGINT)
    if source.domain is Domain.SYMBOL:
        return number
    is_there = cast(Call("ne", (value, Constant("nil", TEXT)), BOOLEAN), BIGINT)
    return Call("mul", (Call("add", (number, Constant(1, BIGINT)), BIGINT), is_there), BIGINT)


def cast(value: Expression, type_: Type) -> Expression:
    """SQL's CAST."""
    return value if value.type == type_ else Call("cast", (value,), type_)


Made = Mapping[str, Named[ScalarFunction]]


def declare_functors(
    declarations: Iterable[ast.Functor],
    table: TypeTable,
    catalog: Catalog,
    given: Mapping[str, Callable[..., Any]],
    made: Made,
    diagnostics: Diagnostics,
) -> None:
    """Enter what a program can call besides what there is anyway: a declared functor, by the function that
    is given for it, or is the database's by its name; and all functions of the database.

    ``made`` are functors of the same program that were entered before.
    """
    for name, known in catalog.functions.items():
        if isinstance(known.definition, ScalarFunction):
            table.functions[name] = known  # type: ignore[assignment]
    for one in declarations:
        plain = one.name.text.removeprefix("@")
        if one.name.text in table.functors:
            diagnostics.error("redefinition", f"functor {plain} is already defined", one.name.span)
            continue
        args = tuple(table.kinds[type_name(part, table, diagnostics)] for part in one.arguments)
        result = table.kinds[type_name(one.result, table, diagnostics)]
        functor = Functor(plain, Scheme.FIXED, len(args), len(args), args=args, result=result)
        table.functors[one.name.text] = functor
        types = tuple(kind.type for kind in args)
        function = given.get(plain)
        if one.name.text in made:
            table.functions[one.name.text] = made[one.name.text]
        elif function is not None:
            declared = Declared(plain, catalog.number_function(), types, "")
            own = scalar_function(declared, _total(function), result.type, columns=False, nulls=False)
            table.functions[one.name.text] = own
        elif plain.lower() in table.functions:
            _check(one, table.functions[plain.lower()], functor, diagnostics)
            table.functions[one.name.text] = table.functions[plain.lower()]


def _total(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for which giving nothing is an error."""
    return partial(_call_total, function)


def _call_total(function: Callable[..., Any], *values: Any) -> Any:
    value = function(*values)
    if value is None:
        raise ValueError("it gave None")
    return value


def _check(
    one: ast.Functor, known: Named[ScalarFunction], functor: Functor, diagnostics: Diagnostics
) -> None:
    """A function of the database takes what the functor is declared to take, and gives that."""
    types = tuple(kind.type for kind in functor.args)
    found = next((made for part in known.definition.overloads if (made := part.rule(types))), None)
    assert functor.result is not None
    if found is None or found.result != functor.result.type:
        message = f"function {shown(known)} is not as functor {functor.name} is declared"
        hint = f"it takes {known.definition.accepts}"
        diagnostics.error("functor", message, one.span, hint=hint)


MARK = "@@"


def with_folds(
    statements: Iterable[ast.Statement], table: TypeTable, diagnostics: Diagnostics
) -> tuple[ast.Statement, ...]:
    """The statements with users' aggregates by the functions that compute them; what is wrong is noted."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Aggregate) and node.function.startswith(MARK):
            return replace(node, function=_function(node, table, diagnostics) or "min", initial=None)
        return node

    return tuple(rewritten(one, change) if _has(one) else one for one in statements)


def _has(one: ast.Statement) -> bool:
    return any(isinstance(node, ast.Aggregate) and node.function.startswith(MARK) for node in nodes(one))


def _function(
    node: ast.Aggregate, table: TypeTable, diagnostics: Diagnostics
) -> Named[AggregateFunction] | None:
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
    initial = _constant(node.initial)
    if initial is None:
        message = "what an aggregate starts with has to be a constant"
        diagnostics.error("functor", message, node.initial.span)
        return None
    wanted = str if functor.result.type.is_text else float if functor.result.type.is_float else int
    if not isinstance(initial, (wanted, int) if wanted is float else wanted):
        message = f"type mismatch: what functor {name[1:]} takes is {functor.result}"
        diagnostics.error("type", message, node.initial.span)
        return None
    return _made(functor, step, initial, table)


def _made(
    functor: Functor, step: Named[ScalarFunction], initial: Any, table: TypeTable
) -> Named[AggregateFunction]:
    """The aggregate, of the same name each time: it is numbered as its functor is."""
    assert functor.result is not None and step.again is not None
    declared, function, result = step.again[1][:3]
    assert isinstance(declared, Declared) and isinstance(result, Type) and callable(function)
    own = replace(declared, name=f"{declared.name}({initial})", args=(result,))
    made = fold_function(own, function, float(initial) if result.is_float else initial, result)
    table.folds[made] = functor.result
    return made


class Fold:
    """The algebra of a fold: how often each value is there."""

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
    declared: Declared, function: Callable[..., Any], initial: Any, result: Type
) -> Named[AggregateFunction]:
    """The aggregate that applies a function; of no values it is the initial one."""
    made = aggregate_function(declared, Fold(function, initial), result)
    identity = float_to_word(initial) if isinstance(initial, float) else initial
    made.definition = replace(made.definition, identity=identity)
    made.again = fold_function, (declared, function, initial, result)
    return made


def _constant(node: ast.Expression) -> Any:
    """The value of a constant, of a record or branch its text; None if it is none."""
    if isinstance(node, ast.Integer | ast.Float | ast.String):
        return node.value
    if isinstance(node, ast.Call) and node.function == "neg":
        value = _constant(node.args[0])
        return -value if isinstance(value, int | float) else None
    if isinstance(node, ast.Nil):
        return "nil"
    if not isinstance(node, ast.Record | ast.Dollar):
        return None
    parts = [_field(part) for part in node.args or ()]
    if any(part is None for part in parts):
        return None
    make = record if isinstance(node, ast.Record) else partial(branch, node.name)
    return make(*(str(part) for part in parts))


def _field(node: ast.Expression) -> str | None:
    value = _constant(node)
    if isinstance(node, ast.String):
        return quote(str(value))
    return value if value is None or isinstance(value, str) else show(value)


class Result(enum.Enum):
    """What kind of value an aggregate gives."""

    WHOLE = "a whole number, number or unsigned"
    FLOAT = "a float, of operands as floats"
    OPERAND = "of the kind of its operand"


def takes_value(function: str) -> bool:
    """Whether it is of a value, else of bindings."""
    return not aggregate_named(function).takes_rows


def result_of(function: str) -> Result:
    """What it gives."""
    if not takes_value(function):
        return Result.WHOLE
    if isinstance(function, Named):
        return Result.OPERAND
    signature = aggregate_named(function).rule((BIGINT,))
    return Result.OPERAND if signature is not None and signature.result == BIGINT else Result.FLOAT


def operand_domains(function: str) -> frozenset[Domain]:
    """The domains of operands that it takes; SQL's types are told apart later."""
    if isinstance(function, Named):
        return frozenset(Domain)
    rule = aggregate_named(function).rule
    plain = {kind.domain for kind in (NUMBER, UNSIGNED, FLOAT, SYMBOL) if rule((kind.type,)) is not None}
    return frozenset(plain | {Domain.SQL} if result_of(function) is Result.OPERAND else plain)


def selects(function: str) -> bool:
    """Whether what it gives is one of its operands."""
    return aggregate_named(function).selects
