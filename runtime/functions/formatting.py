"""``to_char``, ``to_date``, ``to_timestamp`` and ``to_number``."""

import math
from collections.abc import Callable

from kpg.runtime.functions import digits, digits_read, reading, templates
from kpg.runtime.functions.fields import SECOND
from kpg.runtime.functions.moments import MOMENTS, SPANS, exact
from kpg.runtime.functions.registry import Memoized, Overload, Signature, scalar
from kpg.runtime.functions.rules import is_exact_or_numeric, is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import DATE, DOUBLE, INTERVAL, NUMERIC, TEXT, TIMESTAMPTZ, Kind, Type
from kpg.runtime.values.calendars import EARLIEST, LATEST, is_infinite
from kpg.runtime.values.intervals import Interval
from kpg.runtime.values.words import DAY


def _with_template(types: tuple[Type, ...], accepted: Callable[[Type], Type | None]) -> Signature | None:
    if len(types) != 2 or not (types[1].is_text or is_unknown(types[1])):
        return None
    found = accepted(types[0])
    return None if found is None else Signature((found, TEXT), TEXT)


def _moment(types: tuple[Type, ...]) -> Signature | None:
    def accepted(type_: Type) -> Type | None:
        if type_.kind is Kind.DATE:
            return TIMESTAMPTZ
        return type_ if type_.kind in MOMENTS else None

    return _with_template(types, accepted)


def _span(types: tuple[Type, ...]) -> Signature | None:
    return _with_template(
        types, lambda type_: INTERVAL if type_.kind in SPANS or type_.kind is Kind.TIME else None
    )


def _exact(types: tuple[Type, ...]) -> Signature | None:
    return _with_template(types, lambda type_: NUMERIC if is_exact_or_numeric(type_) else None)


def _float(types: tuple[Type, ...]) -> Signature | None:
    return _with_template(types, lambda type_: type_ if type_.is_float else None)


def _since_epoch(seconds: float) -> int:
    """Return the timestamp ``seconds`` after 1970."""
    if math.isnan(seconds):
        raise ValueError("timestamp cannot be NaN")
    if math.isinf(seconds):
        return LATEST if seconds > 0 else EARLIEST
    return round(seconds * SECOND)


def _of_moment(call: Call) -> Callable[[int, str], str | None]:
    zone = "UTC" if call.args[0].type.kind is Kind.TIMESTAMPTZ else ""
    return lambda stamp, template: (
        templates.shown(templates.of_stamp(stamp, zone), template)
        if template and not is_infinite(stamp)
        else None
    )


def _of_span(value: Interval, template: str) -> str | None:
    return templates.shown(templates.of_interval(value), template) if template else None


def _of_float(call: Call) -> Callable[[float, str], str]:
    most = 6 if call.args[0].type.kind is Kind.REAL else 15
    return lambda value, template: digits.shown_float(value, template, most)


scalar(
    "to_char",
    "a timestamp, interval or number, and a template",
    "The value as text by a template of Postgres' patterns.",
    {
        "to_char(TIMESTAMP '2002-04-20 17:31:12.66', 'HH12:MI:SS')": "'05:31:12'",
        "to_char(DATE '2002-04-20', 'FMDay, FMDD Mon YYYY')": "'Saturday, 20 Apr 2002'",
        "to_char(INTERVAL '15h 2m 12s', 'HH24:MI:SS')": "'15:02:12'",
        "to_char(-125.8, '999D99S')": "'125.80-'",
        "to_char(1485, '9,999')": "' 1,485'",
    },
    Overload(_moment, Memoized(_of_moment)),
    Overload(_span, Memoized(lambda call: _of_span)),
    Overload(_exact, Memoized(lambda call: digits.shown)),
    Overload(_float, Memoized(_of_float)),
)
scalar(
    "to_date",
    "text and a template",
    "The date that a text means by a template.",
    {"to_date('05 Dec 2000', 'DD Mon YYYY')": "DATE '2000-12-05'"},
    Overload(
        exact(DATE, TEXT, TEXT), Memoized(lambda call: lambda text, form: reading.stamp(text, form) // DAY)
    ),
)
scalar(
    "to_timestamp",
    "text and a template, or seconds since 1970",
    "The moment that a text means by a template.",
    {
        "to_timestamp('05 Dec 2000', 'DD Mon YYYY')": "TIMESTAMPTZ '2000-12-05 00:00:00+00'",
        "to_timestamp(1284352323)": "TIMESTAMPTZ '2010-09-13 04:32:03+00'",
    },
    Overload(exact(TIMESTAMPTZ, TEXT, TEXT), Memoized(lambda call: reading.stamp)),
    Overload(exact(TIMESTAMPTZ, DOUBLE), Memoized(lambda call: _since_epoch)),
)
scalar(
    "to_number",
    "text and a template",
    "The number that a text means by a template.",
    {"to_number('12,454.8-', '99G999D9S')": "-12454.8"},
    Overload(exact(NUMERIC, TEXT, TEXT), Memoized(lambda call: digits_read.number)),
)
