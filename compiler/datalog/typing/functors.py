"""The functors of the dialect: what they take, and the functions of the runtime that they become.

Any other function of ``runtime.functions`` can be called by its name too; what else the core needs is in
``rules.primitives``.
"""

import enum
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from kpg.compiler.datalog.typing.types import FLOAT, NUMBER, SYMBOL, UNSIGNED, TypeKind
from kpg.compiler.rules.core import Call, Constant, Domain, Expression
from kpg.compiler.rules.primitives import WRAPS
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Type

ANY_NUMBER: Final = 1000
"""The most arguments of a functor that takes any number: more than a rule has."""


class Scheme(enum.Enum):
    """How the types of a functor's arguments and result hang together."""

    SAME = "the arguments and the result are of one kind"
    FIXED = "every argument and the result have their kind"
    CONVERT = "one argument of some kinds"


@dataclass(frozen=True, slots=True)
class Functor:
    """A functor. ``domains``: the domains of the arguments (SAME, CONVERT)."""

    name: str
    scheme: Scheme
    least: int
    most: int
    domains: frozenset[Domain] = frozenset()
    args: tuple[TypeKind, ...] = ()
    result: TypeKind | None = None


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
