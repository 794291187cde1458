"""Whether a text means a value of a type that is named by another text, and what is wrong with it if not."""

import functools
import re
from collections.abc import Iterator
from typing import Final

from kpg.runtime import types as t
from kpg.runtime.functions.registry import Memoized, Overload, scalar
from kpg.runtime.functions.rules import fixed, is_unknown
from kpg.runtime.functions.tables import Listing, RowOverload, RowSignature, rows
from kpg.runtime.types import BOOLEAN, TEXT, Kind, Type, decimal
from kpg.runtime.unsupported import unsupported_type
from kpg.runtime.values import numeric
from kpg.runtime.values.complaints import Complaint, complaint, read

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
