"""Functions of types as values: ``pg_input_is_valid`` and its errors, ENUM functions, row values."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Final

from kpg.runtime import types as t
from kpg.runtime.functions.registry import Memoized, NullRule, Overload, Rule, Signature, primitive, scalar
from kpg.runtime.functions.table_functions import Listing, RowOverload, RowSignature, rows
from kpg.runtime.functions.type_rules import fixed, is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, TEXT, Kind, Type, array, decimal
from kpg.runtime.unsupported_features import unsupported_type
from kpg.runtime.values import arrays, numeric
from kpg.runtime.values.input_errors import Complaint, complaint, read


def _of(result: Callable[[Type], Type], count: int) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        known = [type_ for type_ in types if not is_unknown(type_)]
        if len(types) != count or not known or any(type_ != known[0] for type_ in known):
            return None
        return Signature((known[0],) * count, result(known[0])) if known[0].kind is Kind.ENUM else None

    return rule


def _first(call: Call) -> Callable[..., int]:
    return lambda value: 0


def _last(call: Call) -> Callable[..., int]:
    last = len(call.type.labels) - 1
    return lambda value: last


def _range(call: Call) -> Callable[..., arrays.Array]:
    count = len(call.args[0].type.labels)

    def between(low: int | None, high: int | None = None) -> arrays.Array:
        if len(call.args) == 1:
            low = None
        first, last = 0 if low is None else low, count - 1 if high is None else high
        return arrays.of(list(range(first, last + 1)))

    return between


for _name, _doc, _code in (
    ("enum_first", "The first label of an ENUM.", _first),
    ("enum_last", "The last label of an ENUM.", _last),
):
    scalar(
        _name,
        "a value of an ENUM, or NULL",
        _doc,
        {},
        Overload(_of(lambda type_: type_, 1), Memoized(_code, takes_nulls=True)),
        nulls=NullRule.OWN,
    )
scalar(
    "enum_range",
    "a value of an ENUM, or two",
    "The labels of an ENUM, or those from one to another.",
    {},
    Overload(_of(array, 1), Memoized(_range, takes_nulls=True)),
    Overload(_of(array, 2), Memoized(_range, takes_nulls=True)),
    nulls=NullRule.OWN,
)


NAME: Final = re.compile(
    r"\s*([a-z_][\w ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*((?:\[\s*\]\s*)*)", re.IGNORECASE
)
NAMES: Final = {
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
"""Types by their names."""


@functools.lru_cache(maxsize=256)
def type_named(name: str) -> Type:
    """The type that a name means, with a length or digits; ValueError if there is none."""
    found = NAME.fullmatch(name)
    plain = NAMES.get(" ".join(found[1].lower().split())) if found is not None else None
    if found is None or plain is None:
        if (refusal := unsupported_type(found[1] if found is not None else name)) is not None:
            raise refusal
        raise ValueError(f'type "{name}" does not exist')
    if found[2] and plain.kind is Kind.NUMERIC:
        precision, scale = int(found[2]), int(found[3] or 0)
        large = precision > t.MAX_DECIMAL_PRECISION
        plain = Type(Kind.NUMERIC, precision, scale) if large else decimal(precision, scale)
    elif found[2]:
        plain = Type(plain.kind, int(found[2]))
    return t.array(plain) if found[4] else plain


def wrong(text: str, name: str) -> Complaint | None:
    """What is wrong with a text as a value of a type; None if it means one."""
    type_ = type_named(name)
    if type_.is_text:
        long = type_.precision and len(text.rstrip(" ")) > type_.precision
        return complaint(text, type_) if long else None
    try:
        value = read(text, type_)
        if type_.kind is Kind.NUMERIC and type_.precision:
            numeric.to_number(value, type_)
    except (ValueError, ArithmeticError):
        return complaint(text, type_)
    return None


scalar(
    "pg_input_is_valid",
    "a text and the name of a type",
    "Whether the text means a value of the type.",
    {"pg_input_is_valid('42', 'integer')": "TRUE", "pg_input_is_valid('x', 'integer')": "FALSE"},
    Overload(fixed(BOOLEAN, TEXT, TEXT), Memoized(lambda call: lambda text, name: wrong(text, name) is None)),
)


def _errors(text: str, name: str) -> Iterator[tuple[object, ...]]:
    found = wrong(text, name)
    yield (None,) * 4 if found is None else (found.message, found.detail, None, found.sqlstate)


def _texts(given: tuple[Type, ...]) -> RowSignature | None:
    fits = len(given) == 2 and all(one.is_text or is_unknown(one) for one in given)
    names = ("message", "detail", "hint", "sql_error_code")
    return RowSignature((TEXT, TEXT), names, (TEXT,) * 4) if fits else None


rows(
    "pg_input_error_info",
    "a text and the name of a type",
    "What is wrong with the text as a value of the type: NULLs if nothing is.",
    {"pg_input_error_info('42', 'integer')": "(NULL, NULL, NULL, NULL)"},
    RowOverload(_texts, Listing(lambda args, types: _errors)),
)


primitive("$row", Memoized(lambda call: lambda *fields: fields, takes_nulls=True))


primitive("$whole_row", Memoized(lambda call: _whole, takes_nulls=True))
primitive("$row_field", Memoized(lambda call: lambda value, place: value[place]))
primitive("$row_is_null", Memoized(lambda call: _is_null, takes_nulls=True))
primitive("$row_is_not_null", Memoized(lambda call: _is_not_null, takes_nulls=True))


def _whole(*fields: object) -> tuple[object, ...] | None:
    """A row of a relation; NULL where an outer join has no row, and so all is NULL."""
    return None if all(field is None for field in fields) else fields


def _is_null(value: tuple[object, ...] | None) -> bool:
    """Whether it is NULL, or all of its fields are."""
    return value is None or all(field is None for field in value)


def _is_not_null(value: tuple[object, ...] | None) -> bool:
    """Whether none of its fields is NULL."""
    return value is not None and all(field is not None for field in value)
