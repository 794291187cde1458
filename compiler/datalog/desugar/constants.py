"""Literals, records and ADT values as constants and expressions of the core, with constant folding.

During normalization a record is the call ``[Type]``, and an ADT branch is the call ``$Name()`` of
its arguments, which may be unbound. :func:`encode` turns such calls into the texts that represent
them. :func:`fields` reads the fields of such a text.
"""

import datetime
import decimal
import math
from collections.abc import Iterator
from typing import assert_never

from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.types.declarations import UNSIGNED, Branch, TypeKind, TypeTable
from kpg.compiler.rules.core import Call, Constant, Domain, Expression
from kpg.runtime.functions.datalog import quote
from kpg.runtime.types import BIGINT, DOUBLE, MAX_WORD, MIN_WORD, TEXT, Kind, float_to_word, word_to_float

EPOCH = datetime.datetime(1970, 1, 1)
MAX_SHOWN_DIGITS = 40
"""Maximum number of digits that an error message shows."""


class OutOfRange(Exception):
    """A literal is not a value of its type."""


Literals = ast.Integer | ast.Float | ast.Boolean | ast.String


def literal(expression: Literals, kind: TypeKind, size: int) -> Constant:
    """Return the literal as a value of a kind.

    Raises OutOfRange with the reason if it is not one.
    """
    match expression:
        case ast.Integer(value=value):
            return integer(value, kind, size)
        case ast.Float(value=value):
            if math.isinf(value):
                raise OutOfRange("the number is too large for a float")
            if kind.domain is Domain.SQL:
                return _parse_value(repr(value), kind)
            return Constant(float_to_word(value), kind.type)
        case ast.Boolean(value=value):
            return _parse_value("true" if value else "false", kind)
        case ast.String(value=text):
            return Constant(text, TEXT) if kind.type == TEXT else _parse_value(text, kind)
        case _:
            assert_never(expression)


def integer(value: int, kind: TypeKind, size: int) -> Constant:
    """Return an integer as a value of a kind.

    Raises OutOfRange if it is not one.
    """
    if kind.domain is Domain.FLOAT:
        return Constant(float_to_word(float(value)), kind.type)
    if kind.domain is Domain.SQL:
        return _parse_value(str(value), kind)
    if kind == UNSIGNED:
        low, high = 0, 2**32 - 1 if size == 32 else MAX_WORD
    else:
        low, high = (-(2**31), 2**31 - 1) if size == 32 else (MIN_WORD, MAX_WORD)
    if not low <= value <= high:
        number_text = value if abs(value) < 10**MAX_SHOWN_DIGITS else "the number"
        raise OutOfRange(f"{number_text} is out of range for {kind} of {size} bits")
    return Constant(value, BIGINT)


def _parse_value(text: str, kind: TypeKind) -> Constant:
    """Return the value of a SQL type that a text denotes."""
    try:
        match kind.type.kind:
            case Kind.DATE:
                day = datetime.date.fromisoformat(text)
                return Constant((day - EPOCH.date()).days, kind.type)
            case Kind.TIMESTAMP:
                moment = datetime.datetime.fromisoformat(text).replace(tzinfo=None)
                return Constant((moment - EPOCH) // datetime.timedelta(microseconds=1), kind.type)
            case Kind.BOOLEAN if text in ("true", "false"):
                return Constant(int(text == "true"), kind.type)
            case Kind.DECIMAL:
                scaled = decimal.Decimal(text).scaleb(kind.type.scale)
                if scaled == scaled.to_integral_value() and abs(scaled) < 10**kind.type.precision:
                    return Constant(int(scaled), kind.type)
            case _:
                pass
    except (ValueError, ArithmeticError):
        pass
    raise OutOfRange(f"{text} is no {kind}")


def fold_call(call: Call) -> Expression:
    """Return the value of a call of constants, or the call if it cannot be folded."""
    values = [arg.value for arg in call.args if isinstance(arg, Constant)]
    if len(values) != len(call.args):
        return call
    match call.function, values:
        case "neg", (int() as value,) if call.type == BIGINT:
            return Constant(-value, BIGINT)
        case "neg", (int() as value,) if call.type.is_float:
            return Constant(float_to_word(-word_to_float(value)), call.type)
        case (("add" | "sub" | "mul"), (int() as left, int() as right)) if call.type == BIGINT:
            result = {"add": left + right, "sub": left - right, "mul": left * right}[call.function]
            return Constant(result, BIGINT) if MIN_WORD <= result <= MAX_WORD else call
        case "$unsigned", (int() as value,) if value >= 0:
            return Constant(value, BIGINT)
        case "$wrap_number", (int() as value,):
            return Constant((value + 2**31) % 2**32 - 2**31, BIGINT)
        case "$wrap_unsigned", (int() as value,):
            return Constant(value % 2**32, BIGINT)
        case _:
            return _fold_text_call(call, values)


def _fold_text_call(call: Call, values: list[int | str]) -> Expression:
    match call.function, values:
        case "concat", (str() as left, str() as right):
            return Constant(left + right, TEXT)
        case "$quote", (str() as text,):
            return Constant(quote(text), TEXT)
        case "$show", (int() as value,):
            number_text = repr(word_to_float(value)) if call.args[0].type.is_float else str(value)
            return Constant(number_text, TEXT)
        case "$record", fields:
            return Constant(f"[{', '.join(str(field) for field in fields)}]", TEXT)
        case "$branch", (str() as name, *fields):
            inner = f"({', '.join(str(field) for field in fields)})" if fields else ""
            return Constant(f"${name}{inner}", TEXT)
        case _:
            return call


NIL = Constant("nil", TEXT)


def record(structure: str, args: tuple[Expression, ...]) -> Call:
    """Return the call for a record of a type."""
    return Call(f"[{structure}]", args, TEXT)


def branch(name: str, args: tuple[Expression, ...]) -> Call:
    """Return the call for a value of an ADT.

    The parentheses distinguish it from primitives.
    """
    return Call(f"${name}()", args, TEXT)


def is_structure(expression: Expression) -> bool:
    """Return whether the expression is a record or branch with explicit fields."""
    return isinstance(expression, Call) and (
        expression.function.startswith("[") or expression.function.endswith("()")
    )


def _definition(call: Call, table: TypeTable) -> Branch:
    if call.function.startswith("["):
        return table.records[call.function[1:-1]]
    return table.branches[call.function[1:-2]]


def encode(expression: Expression, table: TypeTable) -> Expression:
    """Return the expression with records and branches encoded as texts, and constant parts folded."""
    if not isinstance(expression, Call):
        return expression
    args = tuple(encode(arg, table) for arg in expression.args)
    if not is_structure(expression):
        return fold_call(Call(expression.function, args, expression.type))
    definition = _definition(expression, table)
    kinds = [table.kinds[type_] for _, type_ in definition.fields]
    texts = tuple(_field_text(arg, kind) for arg, kind in zip(args, kinds, strict=True))
    if expression.function.startswith("["):
        return fold_call(Call("$record", texts, TEXT))
    return fold_call(Call("$branch", (Constant(definition.name, TEXT), *texts), TEXT))


def _field_text(arg: Expression, kind: TypeKind) -> Expression:
    match kind.domain:
        case Domain.SYMBOL:
            return fold_call(Call("$quote", (arg,), TEXT))
        case Domain.RECORD | Domain.ADT:
            return arg
        case _:
            return fold_call(Call("$show", (arg,), TEXT))


def branch_test(call: Call, value: Expression, table: TypeTable) -> tuple[Expression, Expression]:
    """Return two expressions that are equal if ``value`` is of the call's branch."""
    name = Constant(_definition(call, table).name, TEXT)
    return Call("$branch_of", (value,), TEXT), name


def fields(call: Call, value: Expression, table: TypeTable) -> Iterator[tuple[Expression, Expression]]:
    """Yield the call's arguments, each with the expression that reads it from ``value``."""
    for position, (arg, (_, type_)) in enumerate(
        zip(call.args, _definition(call, table).fields, strict=True)
    ):
        read: Expression = Call("$field", (value, Constant(position, BIGINT)), TEXT)
        match table.kinds[type_].domain:
            case Domain.SYMBOL:
                read = Call("$unquote", (read,), TEXT)
            case Domain.FLOAT:
                read = Call("$float", (read,), DOUBLE)
            case Domain.NUMBER | Domain.UNSIGNED:
                read = Call("$number", (read,), BIGINT)
            case _:
                pass
        yield arg, read
