"""Functions of types as values: ``pg_input_is_valid`` and its errors, ENUM functions, row values."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Final

from kpg.runtime import types as t
from kpg.runtime.functions.registry import (
    MemoizedFunction,
    NullRule,
    Overload,
    Rule,
    Signature,
    register_primitive,
    register_scalar,
)
from kpg.runtime.functions.table_functions import (
    RowGenerator,
    RowOverload,
    RowSignature,
    register_row_function,
)
from kpg.runtime.functions.type_rules import is_unknown, signature_rule
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, TEXT, Kind, Type, array, decimal
from kpg.runtime.unsupported_features import unsupported_type_error
from kpg.runtime.values import arrays, numeric
from kpg.runtime.values.input_errors import InputError, input_error, parse_input


def _enum_rule(result: Callable[[Type], Type], count: int) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        known = [type_ for type_ in types if not is_unknown(type_)]
        if len(types) != count or not known or any(type_ != known[0] for type_ in known):
            return None
        return Signature((known[0],) * count, result(known[0])) if known[0].kind is Kind.ENUM else None

    return rule


def _first_label(call: Call) -> Callable[..., int]:
    return lambda value: 0


def _last_label(call: Call) -> Callable[..., int]:
    last = len(call.type.labels) - 1
    return lambda value: last


def _label_range(call: Call) -> Callable[..., arrays.Array]:
    count = len(call.args[0].type.labels)

    def between(low: int | None, high: int | None = None) -> arrays.Array:
        if len(call.args) == 1:
            low = None
        first, last = 0 if low is None else low, count - 1 if high is None else high
        return arrays.array_of(list(range(first, last + 1)))

    return between


for _name, _doc, _build in (
    ("enum_first", "The first label of an ENUM.", _first_label),
    ("enum_last", "The last label of an ENUM.", _last_label),
):
    register_scalar(
        _name,
        "a value of an ENUM, or NULL",
        _doc,
        {},
        Overload(_enum_rule(lambda type_: type_, 1), MemoizedFunction(_build, takes_nulls=True)),
        nulls=NullRule.CALLED_ON_NULL,
    )
register_scalar(
    "enum_range",
    "a value of an ENUM, or two",
    "The labels of an ENUM, or those from one to another.",
    {},
    Overload(_enum_rule(array, 1), MemoizedFunction(_label_range, takes_nulls=True)),
    Overload(_enum_rule(array, 2), MemoizedFunction(_label_range, takes_nulls=True)),
    nulls=NullRule.CALLED_ON_NULL,
)


TYPE_NAME: Final = re.compile(
    r"\s*([a-z_][\w ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*((?:\[\s*\]\s*)*)", re.IGNORECASE
)
TYPES_BY_NAME: Final = {
    **{str(kind.value).lower(): Type(kind) for kind in Kind if kind not in (Kind.NULL, Kind.ROWID)},
    **dict.fromkeys(("int", "int4"), t.INTEGER),
    **dict.fromkeys(("bool",), BOOLEAN),
    **dict.fromkeys(("text", "character varying"), TEXT),
    **dict.fromkeys(("bpchar", "character"), Type(Kind.CHAR)),
    **dict.fromkeys(("float8", "double precision"), t.DOUBLE),
    **dict.fromkeys(("timestamp without time zone",), t.TIMESTAMP),
    **dict.fromkeys(("timestamp with time zone",), t.TIMESTAMPTZ),
    **dict.fromkeys(("time with time zone",), t.TIMETZ),
    **dict.fromkeys(("time without time zone",), t.TIME),
    **dict.fromkeys(("decimal",), t.NUMERIC),
    "int2": t.SMALLINT,
    "int8": t.BIGINT,
    "float4": t.REAL,
    "varbit": t.VARBIT,
    **{
        f"{name.lower()}{of}range": made(kind)
        for kind, name in ((Type(one), two) for one, two in t.RANGE_NAMES.items())
        for of, made in (("", t.range_of), ("multi", t.multirange_of))
    },
}
"""Types by their SQL names."""


@functools.lru_cache(maxsize=256)
def parse_type_name(name: str) -> Type:
    """Return the type with this name, which may have a length or a precision and scale.

    Raises:
        ValueError: There is no such type.
    """
    match = TYPE_NAME.fullmatch(name)
    plain = TYPES_BY_NAME.get(" ".join(match[1].lower().split())) if match is not None else None
    if match is None or plain is None:
        if (refusal := unsupported_type_error(match[1] if match is not None else name)) is not None:
            raise refusal
        raise ValueError(f'type "{name}" does not exist')
    if match[2] and plain.kind is Kind.NUMERIC:
        precision, scale = int(match[2]), int(match[3] or 0)
        large = precision > t.MAX_DECIMAL_PRECISION
        plain = Type(Kind.NUMERIC, precision, scale) if large else decimal(precision, scale)
    elif match[2]:
        plain = Type(plain.kind, int(match[2]))
    return t.array(plain) if match[4] else plain


def find_input_error(text: str, name: str) -> InputError | None:
    """Return the error of a text as input of a type, or None if the input is valid."""
    type_ = parse_type_name(name)
    if type_.is_text:
        long = type_.precision and len(text.rstrip(" ")) > type_.precision
        return input_error(text, type_) if long else None
    try:
        value = parse_input(text, type_)
        if type_.kind is Kind.NUMERIC and type_.precision:
            numeric.to_number(value, type_)
    except (ValueError, ArithmeticError):
        return input_error(text, type_)
    return None


register_scalar(
    "pg_input_is_valid",
    "a text and the name of a type",
    "Whether the text means a value of the type.",
    {"pg_input_is_valid('42', 'integer')": "TRUE", "pg_input_is_valid('x', 'integer')": "FALSE"},
    Overload(
        signature_rule(BOOLEAN, TEXT, TEXT),
        MemoizedFunction(lambda call: lambda text, name: find_input_error(text, name) is None),
    ),
)


def _input_error_rows(text: str, name: str) -> Iterator[tuple[object, ...]]:
    error = find_input_error(text, name)
    yield (None,) * 4 if error is None else (error.message, error.detail, None, error.sqlstate)


def _two_texts(types: tuple[Type, ...]) -> RowSignature | None:
    fits = len(types) == 2 and all(one.is_text or is_unknown(one) for one in types)
    names = ("message", "detail", "hint", "sql_error_code")
    return RowSignature((TEXT, TEXT), names, (TEXT,) * 4) if fits else None


register_row_function(
    "pg_input_error_info",
    "a text and the name of a type",
    "What is wrong with the text as a value of the type: NULLs if nothing is.",
    {"pg_input_error_info('42', 'integer')": "(NULL, NULL, NULL, NULL)"},
    RowOverload(_two_texts, RowGenerator(lambda args, types: _input_error_rows)),
)


register_primitive("$row", MemoizedFunction(lambda call: lambda *fields: fields, takes_nulls=True))


register_primitive("$whole_row", MemoizedFunction(lambda call: _whole_row, takes_nulls=True))
register_primitive("$row_field", MemoizedFunction(lambda call: lambda value, place: value[place]))
register_primitive("$row_is_null", MemoizedFunction(lambda call: _is_null, takes_nulls=True))
register_primitive("$row_is_not_null", MemoizedFunction(lambda call: _is_not_null, takes_nulls=True))


def _whole_row(*fields: object) -> tuple[object, ...] | None:
    """Return a row of a relation, or NULL if all fields are NULL: an outer join's missing row."""
    return None if all(field is None for field in fields) else fields


def _is_null(value: tuple[object, ...] | None) -> bool:
    """Check whether a row is NULL, or all its fields are."""
    return value is None or all(field is None for field in value)


def _is_not_null(value: tuple[object, ...] | None) -> bool:
    """Check whether no field is NULL."""
    return value is not None and all(field is not None for field in value)
