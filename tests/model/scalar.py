"""The slow truth about scalars: Python values, Decimal for DECIMAL, None for NULL, an exception for an error.

Written from the functions' documentation, not from their implementation.
"""

import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import Kind, Type, word_to_float
from kpg.runtime.values import codec_of
from tests.model import exact, primitives

EPOCH = datetime.datetime(1970, 1, 1)
LIMITS = {
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (-(2**63) + 2, 2**63 - 1),
}
EXACT = Context(prec=100)
Tables = Mapping[str, Sequence[Sequence[Any]]]


class ScalarError(Exception):
    """The expression has no value."""


def evaluate(scalar: Scalar, row: Sequence[Any], tables: Tables | None = None) -> Any:
    """The value of a scalar on a row of values; raises ScalarError."""
    match scalar:
        case Column(index=index):
            return row[index]
        case Literal(value=value, type=type_):
            return from_word(value, type_)
        case Fetch(table=table, column=column, rowid=rowid):
            where = evaluate(rowid, row, tables)
            return None if where is None else (tables or {})[table][where][column]
        case If(condition=condition, then=then, otherwise=otherwise):
            taken = then if evaluate(condition, row, tables) is True else otherwise
            return evaluate(taken, row, tables)
        case Call():
            return _call(scalar, row, tables)


def passes(predicates: Sequence[Scalar], row: Sequence[Any], tables: Tables | None = None) -> bool:
    """Whether a row satisfies all predicates; a false or NULL one outweighs errors of the others."""
    failed: ScalarError | None = None
    for predicate in predicates:
        if isinstance(predicate, Call) and predicate.function == "and":
            parts: Sequence[Scalar] = predicate.args
            try:
                verdict = passes(parts, row, tables)
            except ScalarError as error:
                failed = error
                continue
        else:
            try:
                verdict = evaluate(predicate, row, tables) is True
            except ScalarError as error:
                failed = error
                continue
        if not verdict:
            return False
    if failed is not None:
        raise failed
    return True


def from_word(value: int | str | None, type_: Type) -> Any:
    """The Python value of a literal."""
    if value is None:
        return value
    if isinstance(value, str):
        return codec_of(type_).decode(value) if type_.kind is Kind.NUMERIC else value
    match type_.kind:
        case Kind.BOOLEAN:
            return bool(value)
        case Kind.DECIMAL:
            return Decimal(value).scaleb(-type_.scale, EXACT)
        case Kind.REAL | Kind.DOUBLE:
            return word_to_float(value)
        case Kind.DATE:
            return EPOCH.date() + datetime.timedelta(days=value)
        case Kind.TIMESTAMP:
            return EPOCH + datetime.timedelta(microseconds=value)
        case Kind.INTERVAL_DAY:
            return datetime.timedelta(microseconds=value)
        case _:
            return value


def _call(call: Call, row: Sequence[Any], tables: Tables | None) -> Any:
    if call.function in ("and", "or"):
        return _connective(call, row, tables)
    if call.function == "coalesce":
        values = (evaluate(arg, row, tables) for arg in call.args)
        return next((value for value in values if value is not None), None)
    args = [evaluate(arg, row, tables) for arg in call.args]
    own = OWN_NULLS.get(call.function)
    if own is not None:
        return own(*args)
    if any(arg is None for arg in args):
        return None
    if call.function == "$word":
        return int(args[0] * 10 ** call.args[0].type.scale)
    if call.function in ("$below", "$above"):
        rounding = ROUND_FLOOR if call.function == "$below" else ROUND_CEILING
        return Decimal(args[0]).quantize(Decimal(1).scaleb(-call.type.scale), rounding, EXACT)
    if call.function == "$of_length":
        return _of_length(args[0], call.type)
    if call.function == "cast":
        return checked(cast(args[0], call.args[0].type, call.type), call.type)
    try:
        return checked(FUNCTIONS[call.function](*args), call.type)
    except (ArithmeticError, ValueError) as error:
        raise ScalarError(f"{call.function}{tuple(args)}: {error}") from error


def _connective(call: Call, row: Sequence[Any], tables: Tables | None) -> Any:
    decisive = call.function == "or"
    unknown = False
    failed: ScalarError | None = None
    for arg in call.args:
        try:
            value = evaluate(arg, row, tables)
        except ScalarError as error:
            failed = error
            continue
        if value is decisive:
            return decisive
        unknown |= value is None
    if failed is not None:
        raise failed
    return None if unknown else not decisive


def _of_length(value: str, type_: Type) -> str:
    """An assignment drops blanks beyond the length of a text, and refuses anything else."""
    least = type_.precision if type_.kind is Kind.BIT else 0
    if not least <= len(value.rstrip(" ")) <= type_.precision:
        raise ScalarError(f"{value!r} is not of the length of {type_}")
    return value.rstrip(" ") if type_.kind is Kind.CHAR else value[: type_.precision]


def checked(value: Any, type_: Type) -> Any:
    """The value, if it is one of the type."""
    if type_.kind in LIMITS:
        low, high = LIMITS[type_.kind]
        if not low <= value <= high:
            raise ScalarError(f"{value} is no {type_}")
    if type_.kind is Kind.DECIMAL and abs(value) >= Decimal(10) ** (type_.precision - type_.scale):
        raise ScalarError(f"{value} is no {type_}")
    if type_.kind is Kind.DOUBLE:
        return value + 0.0
    return value


def cast(value: Any, source: Type, target: Type) -> Any:
    """CAST; the result is not yet checked against the target's limits."""
    if target.is_exact:
        if source.is_text:
            return _parse(value, target)
        if source.is_float:
            return _from_float(value, target)
        if source.kind is Kind.BOOLEAN:
            return int(value)
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, EXACT)
        return rounded if target.kind is Kind.DECIMAL else int(rounded)
    if target.is_float:
        if isinstance(value, Decimal):
            return float(value.scaleb(source.scale)) / 10.0**source.scale
        return float(value)
    if target.is_text:
        return _show(value)
    if target.kind is Kind.NUMERIC:
        return value if isinstance(value, Decimal) else Decimal(value)
    if target.kind is Kind.BOOLEAN:
        return bool(value)
    if target.kind is Kind.TIMESTAMP:
        return datetime.datetime(value.year, value.month, value.day)
    return value.date() if isinstance(value, datetime.datetime) else value


def _parse(text: str, target: Type) -> Any:
    if not re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*", text):
        raise ScalarError(f"{text!r} is no number")
    rounded = Decimal(text.strip()).quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, EXACT)
    return rounded if target.kind is Kind.DECIMAL else int(rounded)


def _from_float(value: float, target: Type) -> Any:
    if not math.isfinite(value):
        raise ScalarError(f"{value} is no {target}")
    if target.scale == 0:
        whole = round(value)
        return Decimal(whole) if target.kind is Kind.DECIMAL else whole
    scaled = value * 10.0**target.scale
    if not math.isfinite(scaled):
        raise ScalarError(f"{value} is no {target}")
    return Decimal(int(math.copysign(math.floor(abs(scaled) + 0.5), scaled))).scaleb(-target.scale, EXACT)


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        if left != left:
            return left
        raise ScalarError("division by zero")
    if isinstance(left, float):
        return _finite(left / right, left, right)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return exact.quotient(left, right)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _finite(result: float, *operands: float) -> float:
    if math.isinf(result) and all(map(math.isfinite, operands)):
        raise ScalarError("overflow")
    return result


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if isinstance(left, datetime.date) and isinstance(right, int):
            right = datetime.timedelta(days=right)
        if isinstance(left, datetime.date) and isinstance(right, datetime.date):
            return operation(left, right).days
        if isinstance(left, float):
            return _finite(operation(left, right), left, right)
        if isinstance(left, Decimal):
            return operation(left.copy_abs() * (-1 if left < 0 else 1), right)
        return operation(left, right)

    return apply


def _remainder(left: Any, right: Any) -> Any:
    if right == 0:
        raise ScalarError("division by zero")
    return math.fmod(left, right) if isinstance(left, float) else left - right * int(_quotient(left, right))


def _quotient(left: Any, right: Any) -> Any:
    return (Decimal(left) / Decimal(right)) if isinstance(left, Decimal) else _divide(left, right)


def _in(first: Any, *items: Any) -> Any:
    if first is None:
        return None
    if first in [item for item in items if item is not None]:
        return True
    return None if None in items else False


def _like(text: str, pattern: str) -> bool:
    parts = {"%": ".*", "_": "."}
    expression = "".join(parts.get(character) or re.escape(character) for character in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None


def _ignore_nulls(choose: Callable[[Any], Any]) -> Callable[..., Any]:
    def apply(*args: Any) -> Any:
        known = [arg for arg in args if arg is not None]
        return choose(known) if known else None

    return apply


OWN_NULLS: Mapping[str, Callable[..., Any]] = {
    "is_null": lambda x: x is None,
    "is_not_null": lambda x: x is not None,
    "is_true": lambda x: x is True,
    "is_false": lambda x: x is False,
    "is_distinct": lambda x, y: x != y,
    "is_not_distinct": lambda x, y: x == y,
    "nullif": lambda x, y: None if x is not None and x == y else x,
    "greatest": _ignore_nulls(max),
    "least": _ignore_nulls(min),
    "in": _in,
    **primitives.PARTIAL,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "not": lambda x: not x,
    "add": _arithmetic(lambda x, y: x + y),
    "sub": _arithmetic(lambda x, y: x - y),
    "mul": _arithmetic(lambda x, y: x * y),
    "div": _divide,
    "mod": _remainder,
    "neg": lambda x: -x,
    "abs": abs,
    "sqrt": math.sqrt,
    "sign": lambda x: (x > 0) - (x < 0),
    "floor": math.floor,
    "ceil": math.ceil,
    "upper": str.upper,
    "length": len,
    "concat": lambda x, y: x + y,
    "like": _like,
    "substring": lambda text, start, count: "".join(
        character for at, character in enumerate(text, 1) if start <= at < start + count
    ),
    "extract_year": lambda date: date.year,
    "extract_month": lambda date: date.month,
    "extract_day": lambda date: date.day,
    "extract_doy": lambda date: date.timetuple().tm_yday,
    "extract_week": lambda date: date.isocalendar().week,
    "extract_dow": lambda date: date.isoweekday() % 7,
    "contains": lambda text, part: part in text,
    **primitives.FUNCTIONS,
    **exact.FUNCTIONS,
}
