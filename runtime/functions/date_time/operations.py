"""Date and time functions in Python: construction, ``age``, binning, fields, AT TIME ZONE, TIMETZ."""

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from kpg.runtime.functions.date_time import fields
from kpg.runtime.functions.date_time.dates import unless_infinite
from kpg.runtime.functions.registry import (
    Composition,
    MemoizedFunction,
    NullRule,
    Overload,
    Rule,
    Signature,
    add_overloads,
    register_primitive,
    register_scalar,
    resolve,
)
from kpg.runtime.functions.set_returning_functions import add_in_zone, add_months
from kpg.runtime.functions.type_rules import is_unknown, kind_rule
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    MAX_WORD,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TIMETZ,
    Kind,
    Type,
    decimal,
    float_to_word,
)
from kpg.runtime.values import date_time
from kpg.runtime.values.date_time import SECOND as DATE_TIME_SECOND
from kpg.runtime.values.date_time import from_local, time_zone, timetz_at_offset, to_local
from kpg.runtime.values.intervals import Interval, from_fractions, show
from kpg.runtime.values.words import DAY, EARLIEST, civil, days_of, is_infinite

HOUR, MINUTE, SECOND = fields.HOUR, fields.MINUTE, fields.SECOND
SPANS: Final = frozenset({Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH})
MOMENTS: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


def exact_kinds(result: Type, *args: Type) -> Rule:
    """Return a rule for exactly these kinds of arguments, or quoted constants. INTERVAL takes them all."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != len(args):
            return None
        for one, arg in zip(types, args, strict=True):
            if is_unknown(one) or one.kind is arg.kind or (one.is_text and arg.is_text):
                continue
            if one.is_integer and arg.kind in (Kind.INTEGER, Kind.DOUBLE):
                continue
            if one.is_numeric and arg.kind is Kind.DOUBLE:
                continue
            if not (one.kind in SPANS and arg.kind is Kind.INTERVAL):
                return None
        return Signature(args, result)

    return rule


def _moments_rule(count: int, result: Type) -> Rule:
    """Return a rule for ``count`` moments, as TIMESTAMP if one has that type, otherwise as TIMESTAMPTZ."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        known = [type_ for type_ in types if not is_unknown(type_)]
        if len(types) != count or any(type_.kind not in MOMENTS for type_ in known):
            return None
        zoned = bool(known) and not any(type_.kind is Kind.TIMESTAMP for type_ in known)
        return Signature((TIMESTAMPTZ if zoned else TIMESTAMP,) * count, result)

    return rule


UTMOST: Final = MAX_WORD + days_of(2000, 1, 1) * DAY
"""The microseconds since 1970 that Postgres 16 takes ``infinity`` for in ages: its word, since 2000."""


def age(later: int, earlier: int) -> Interval:
    """Return the years, months, days and time from one finite moment to another."""
    if EARLIEST in (later, earlier):
        raise ValueError("timestamp out of range")
    later, earlier = (UTMOST if is_infinite(stamp) else stamp for stamp in (later, earlier))
    sign = 1
    if later < earlier:
        later, earlier, sign = earlier, later, -1
    first, last = (civil(stamp // DAY) for stamp in (earlier, later))
    months = (last[0] - first[0]) * 12 + last[1] - first[1]
    days = last[2] - first[2]
    micros = (later % DAY) - (earlier % DAY)
    if micros < 0:
        micros += DAY
        days -= 1
    if days < 0:
        # Borrow the days of the earlier moment's month.
        year, month = first[:2]
        days += days_of(year + month // 12, month % 12 + 1, 1) - days_of(year, month, 1)
        months -= 1
    return Interval(sign * months, sign * days, sign * micros)


def _define(
    name: str,
    accepts: str,
    doc: str,
    examples: dict[str, str],
    *ways: tuple[Rule, Callable[..., object]],
) -> None:
    overloads = (Overload(rule, MemoizedFunction(lambda call, code=code: code)) for rule, code in ways)  # type: ignore[misc]
    register_scalar(name, accepts, doc, examples, *overloads)


_define(
    "age",
    "two dates or timestamps",
    "The years, months, days and time from the second to the first.",
    {"age(TIMESTAMP '2001-04-10', TIMESTAMP '1957-06-13')": "INTERVAL '43 years 9 mons 27 days'"},
    (_moments_rule(2, INTERVAL), age),
)


def _date_bin(stride: Interval, stamp: int, origin: int) -> int:
    if is_infinite(stamp):
        return stamp
    if stride.months:
        raise ValueError("timestamps cannot be binned into intervals containing months or years")
    length = stride.days * DAY + stride.microseconds
    if length <= 0:
        raise ValueError("stride must be greater than zero")
    if is_infinite(origin):
        raise ValueError("origin out of range")
    return origin + (stamp - origin) // length * length


_define(
    "date_bin",
    "an interval, a timestamp and an origin",
    "The start of the interval, counted from the origin, that a timestamp is in.",
    {
        "date_bin('15 minutes', TIMESTAMP '2020-02-11 15:44:17', TIMESTAMP '2001-01-01')": (
            "TIMESTAMP '2020-02-11 15:30:00'"
        )
    },
    (exact_kinds(TIMESTAMP, INTERVAL, TIMESTAMP, TIMESTAMP), _date_bin),
    (lambda given: _date_bin_rule(given), _date_bin),
)


def _date_bin_rule(types: tuple[Type, ...]) -> Signature | None:
    moments = _moments_rule(2, TIMESTAMPTZ)(types[1:]) if len(types) == 3 else None
    if moments is None or not (is_unknown(types[0]) or types[0].kind in SPANS):
        return None
    return Signature((INTERVAL, *moments.args), moments.args[0])


def _make_time(hour: int, minute: int, second: float) -> int:
    micros = round(second * SECOND)
    if (
        not (0 <= hour <= 24 and 0 <= minute < 60 and 0 <= micros <= MINUTE)
        or (total := hour * HOUR + minute * MINUTE + micros) > DAY
    ):
        raise ValueError(f"time field value out of range: {hour}:{minute:02d}:{second:g}")
    return total


def _make_timestamp(
    year: int, month: int, day: int, hour: int, minute: int, second: float, zone: str = "+00"
) -> int:
    try:
        date = days_of(year if year > 0 else year + 1, month, day)
    except ValueError as error:
        raise ValueError(f"date field value out of range: {year}-{month:02d}-{day:02d}") from error
    local = date * DAY + _make_time(hour, minute, second)
    if zone[:1].isdecimal():
        raise ValueError(f'invalid input syntax for type numeric time zone: "{zone}"')
    return date_time.from_local(local, date_time.zone_of_offset(zone))


_DATE_PARTS = (INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, DOUBLE)
_define(
    "make_time",
    "hours, minutes and seconds",
    "A time of day.",
    {"make_time(8, 15, 23.5)": "TIME '08:15:23.5'"},
    (exact_kinds(TIME, INTEGER, INTEGER, DOUBLE), _make_time),
)
_define(
    "make_timestamp",
    "year, month, day, hour, minute and seconds",
    "A timestamp.",
    {"make_timestamp(2013, 7, 15, 8, 15, 23.5)": "TIMESTAMP '2013-07-15 08:15:23.5'"},
    (exact_kinds(TIMESTAMP, *_DATE_PARTS), _make_timestamp),
)
_define(
    "make_timestamptz",
    "year, month, day, hour, minute, seconds and optionally a time zone",
    "A timestamp with time zone.",
    {"make_timestamptz(2013, 7, 15, 8, 15, 23.5)": "TIMESTAMPTZ '2013-07-15 08:15:23.5+00'"},
    (exact_kinds(TIMESTAMPTZ, *_DATE_PARTS), _make_timestamp),
    (exact_kinds(TIMESTAMPTZ, *_DATE_PARTS, TEXT), _make_timestamp),
)


def _make_interval(
    years: int = 0,
    months: int = 0,
    weeks: int = 0,
    days: int = 0,
    hours: int = 0,
    mins: int = 0,
    secs: float = 0.0,
) -> Interval:
    micros = hours * HOUR + mins * MINUTE + round(Fraction(secs) * SECOND)
    return from_fractions(Fraction(years * 12 + months), Fraction(weeks * 7 + days), Fraction(micros))


_PART_TYPES = (*(INTEGER,) * 6, DOUBLE)
_define(
    "make_interval",
    "years, months, weeks, days, hours, mins and secs, each of which may be left out or named (days => 10)",
    "An interval.",
    {"make_interval(days => 10)": "INTERVAL '10 days'", "make_interval(1, 2)": "INTERVAL '1 year 2 mons'"},
    *((exact_kinds(INTERVAL, *_PART_TYPES[:count]), _make_interval) for count in range(8)),
)


def _justify_hours(value: Interval) -> Interval:
    """Convert 24 hours to a day."""
    extra, micros = fields.split_units(value.microseconds, DAY)
    days = value.days + extra
    if days > 0 > micros:
        return value._replace(days=days - 1, microseconds=micros + DAY)
    if days < 0 < micros:
        return value._replace(days=days + 1, microseconds=micros - DAY)
    return value._replace(days=days, microseconds=micros)


def _justify_days(value: Interval) -> Interval:
    """Convert 30 days to a month."""
    extra, days = fields.split_units(value.days, 30)
    months = value.months + extra
    if months > 0 > days:
        return value._replace(months=months - 1, days=days + 30)
    if months < 0 < days:
        return value._replace(months=months + 1, days=days - 30)
    return value._replace(months=months, days=days)


def _justify_interval(value: Interval) -> Interval:
    months, days, micros = value
    extra, micros = fields.split_units(micros, DAY)
    days += extra
    extra, days = fields.split_units(days, 30)
    months += extra
    if months > 0 and (days < 0 or (days == 0 and micros < 0)):
        months, days = months - 1, days + 30
    elif months < 0 and (days > 0 or (days == 0 and micros > 0)):
        months, days = months + 1, days - 30
    if days > 0 > micros:
        days, micros = days - 1, micros + DAY
    elif days < 0 < micros:
        days, micros = days + 1, micros - DAY
    return Interval(months, days, micros)


for _moments_name, _code, _doc, _example in (
    ("justify_hours", _justify_hours, "24 hours as a day.", ("50 hours 10 minutes", "2 days 02:10:00")),
    ("justify_days", _justify_days, "30 days as a month.", ("1 year 65 days", "1 year 2 mons 5 days")),
    (
        "justify_interval",
        _justify_interval,
        "24 hours as a day and 30 days as a month.",
        ("1 mon -1 hour", "29 days 23:00:00"),
    ),
):
    _define(
        _moments_name,
        "an interval",
        f"The interval with {_doc}",
        {f"{_moments_name}(INTERVAL '{_example[0]}')::TEXT": f"'{_example[1]}'"},
        (exact_kinds(INTERVAL, INTERVAL), _code),
    )


def _moment_or_interval(types: tuple[Type, ...]) -> Signature | None:
    fits = len(types) == 1 and types[0].kind in MOMENTS | SPANS
    return Signature(types, BOOLEAN) if fits else None


_define(
    "isfinite",
    "a date, timestamp or interval",
    "Whether it is not infinite, which intervals never are.",
    {"isfinite(DATE '2001-02-16')": "TRUE", "isfinite(DATE 'infinity')": "FALSE"},
    (_moment_or_interval, lambda value: not isinstance(value, int) or not is_infinite(value)),
)


def _overlaps(first: int | None, second: int | None, third: int | None, fourth: int | None) -> bool | None:
    """Check whether two periods overlap. Their ends may be NULL; a known end may be enough."""
    (start, end), (begin, finish) = _order_ends(first, second), _order_ends(third, fourth)
    if start is None or begin is None:
        return None
    if start == begin:
        return None if end is None or finish is None else True
    (first_start, first_end), last_start, last_end = (
        ((start, end), begin, finish) if start < begin else ((begin, finish), start, end)
    )
    assert first_start < last_start
    if first_end is None:
        return None
    if last_start < first_end:
        return True
    return None if last_end is None else False


def _order_ends(start: int | None, end: int | None) -> tuple[int | None, int | None]:
    if start is None:
        return end, None
    return (end, start) if end is not None and end < start else (start, end)


def _periods_rule(types: tuple[Type, ...]) -> Signature | None:
    """Accept two periods: two moments, or a moment and an interval."""
    if len(types) != 4:
        return None
    points = [type_ for type_ in types if type_.kind not in SPANS and not is_unknown(type_)]
    if not points or types[0].kind in SPANS or types[2].kind in SPANS:
        return None
    if all(type_.kind is Kind.TIME for type_ in points):
        joint = TIME
    elif all(type_.kind in MOMENTS for type_ in points):
        joint = TIMESTAMPTZ if any(type_.kind is Kind.TIMESTAMPTZ for type_ in points) else TIMESTAMP
    else:
        return None
    return Signature(tuple(INTERVAL if type_.kind in SPANS else joint for type_ in types), BOOLEAN)


def _overlaps_call(call: Call) -> Scalar:
    args = list(call.args)
    for place in (1, 3):
        if args[place].type.kind is Kind.INTERVAL:
            args[place] = Call("add", (args[place - 1], args[place]), args[place - 1].type)
    return Call("$overlaps", tuple(args), BOOLEAN)


register_primitive("$overlaps", MemoizedFunction(lambda call: _overlaps, takes_nulls=True))
register_scalar(
    "overlaps",
    "two stretches of time, (start, end) OVERLAPS (start, length)",
    "Whether two stretches of time have a moment in common.",
    {"(DATE '2001-02-16', DATE '2001-12-21') OVERLAPS (DATE '2001-10-30', DATE '2002-10-30')": "TRUE"},
    Overload(_periods_rule, Composition(_overlaps_call)),
    nulls=NullRule.CALLED_ON_NULL,
)


def _add_in_zone(sign: int) -> Callable[..., int]:
    def move(stamp: int, by: Interval, zone: str = "UTC") -> int:
        if is_infinite(stamp):
            return stamp
        step = Interval(*(sign * part for part in by))
        if zone != "UTC":
            return add_in_zone(stamp, step, date_time.time_zone(zone))
        return add_months(stamp, step.months) + step.days * DAY + step.microseconds

    return move


for _moments_name, _sign, _shown in (
    ("date_add", 1, "2021-10-31 01:00+00"),
    ("date_subtract", -1, "2021-10-28 23:00+00"),
):
    _define(
        _moments_name,
        "a timestamp with time zone, an interval and optionally a time zone",
        "The moment that is later, or earlier, by an interval.",
        {f"{_moments_name}(TIMESTAMPTZ '2021-10-30 00:00+00', INTERVAL '25:00')": f"TIMESTAMPTZ '{_shown}'"},
        (exact_kinds(TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL), _add_in_zone(_sign)),
        (exact_kinds(TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL, TEXT), _add_in_zone(_sign)),
    )


JULIAN_DAYS: Final = decimal(18, 0)
"""Type of the field ``julian`` of a DATE, which has no fraction of a day."""


def _python_date_part(call: Call) -> Callable[..., object]:
    type_ = call.args[1].type

    def part(field: str, value: Any) -> float | None:
        name = fields.canonical_field(field)
        read = fields.field_reader(name, type_)
        if type_.kind in MOMENTS and name in fields.UNBOUNDED_FIELDS and is_infinite(value):
            return math.copysign(math.inf, value)
        return fields.word_to_number(name, read(value))

    return part


def _date_part_rule(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 2 or not (types[0].is_text or is_unknown(types[0])):
        return None
    if types[1].kind in SPANS:
        return Signature((TEXT, INTERVAL), DOUBLE)
    fits = types[1].kind in MOMENTS or types[1].kind is Kind.TIME
    return Signature((TEXT, types[1]), DOUBLE) if fits else None


def _date_part(call: Call) -> Scalar:
    """Compile a constant field to the call of ``extract``."""
    field, value = call.args
    if isinstance(field, Literal) and isinstance(field.value, str):
        try:
            name = fields.canonical_field(field.value)
            meaning = resolve(f"extract_{name}", (value.type,))
        except ValueError:
            return Call("$date_part", call.args, DOUBLE)
        result = Call("cast", (Call(meaning.function.name, (value,), meaning.result_type),), DOUBLE)
        if value.type.kind not in MOMENTS or name not in fields.UNBOUNDED_FIELDS:
            return result
        late = Call("gt", (value, Literal(0, value.type)), BOOLEAN)
        highest, lowest = (Literal(float_to_word(end), DOUBLE) for end in (math.inf, -math.inf))
        end = If(late, highest, lowest, DOUBLE)
        return unless_infinite(value, end, result)
    return Call("$date_part", call.args, DOUBLE)


def _extract_rule(name: str) -> Callable[[tuple[Type, ...]], Signature | None]:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 or not (types[0].kind in MOMENTS | SPANS or types[0].kind is Kind.TIME):
            return None
        type_ = INTERVAL if types[0].kind in SPANS else types[0]
        try:
            fields.field_reader(name, type_)
        except ValueError:
            return None
        whole = name == "julian" and type_.kind is Kind.DATE
        return Signature((type_,), JULIAN_DAYS if whole else fields.FIELD_TYPES[name])

    return rule


def _extract_reader(name: str) -> MemoizedFunction:
    def build(call: Call) -> Callable[..., object]:
        read = fields.field_reader(name, call.args[0].type)
        if call.type != JULIAN_DAYS:
            return read
        return lambda days: None if (found := read(days)) is None else found // 10**10

    return MemoizedFunction(build)


for _name, _value in (
    ("century", "20"),
    ("decade", "199"),
    ("isodow", "3"),
    ("isoyear", "1998"),
    ("julian", "2451059.5"),
    ("microseconds", "0"),
    ("millennium", "2"),
    ("milliseconds", "0"),
):
    register_scalar(
        f"extract_{_name}",
        "a date, timestamp, time or interval that has such a field",
        f"The field {_name}.",
        {f"EXTRACT({_name} FROM TIMESTAMP '1998-09-02 12:00:00')": _value},
        Overload(_extract_rule(_name), _extract_reader(_name)),
    )
for _name in ("timezone", "timezone_hour", "timezone_minute"):
    register_scalar(
        f"extract_{_name}",
        "a timestamp with time zone",
        "The distance from UTC, which is the time zone: 0.",
        {f"EXTRACT({_name} FROM TIMESTAMPTZ '1998-09-02 12:00:00+00')": "0"},
        Overload(_extract_rule(_name), _extract_reader(_name)),
    )


register_primitive("$date_part", MemoizedFunction(_python_date_part))
register_scalar(
    "date_part",
    "the name of a field, and a date, timestamp, time or interval",
    "A field as DOUBLE; see extract.",
    {
        "date_part('day', TIMESTAMP '2001-02-16 20:38:40')": "16e0",
        "date_part('hour', INTERVAL '4 hours')": "4e0",
    },
    Overload(_date_part_rule, Composition(_date_part)),
)


ZONES_SECOND: Final = 1_000_000


def _zone_and_moment(zone_type: Type, moment_type: Type, result: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2:
            return None
        fits = (types[0].is_text and zone_type.is_text) or types[0].kind is zone_type.kind
        fits |= is_unknown(types[0]) and zone_type.is_text
        fits &= types[1].kind is moment_type.kind or (
            (is_unknown(types[1]) or types[1].kind is Kind.DATE) and moment_type == TIMESTAMPTZ
        )
        return Signature((zone_type, moment_type), result) if fits else None

    return rule


def _convert_by_zone(convert: Callable[..., int]) -> Callable[[Call], Callable[[str, int], int]]:
    return lambda call: lambda name, word: convert(word, time_zone(name))


def _convert_by_offset(sign: int) -> Callable[[Call], Callable[[Interval, int], int]]:
    return lambda call: lambda offset, word: word if is_infinite(word) else word + sign * utc_offset(offset)


def utc_offset(offset: Interval) -> int:
    """Return the offset from UTC in microseconds of an interval used as a time zone."""
    if offset.months or offset.days:
        raise ValueError(f'interval time zone "{show(offset)}" must not include months or days')
    return offset.microseconds


def _time_at_zone(call: Call) -> Callable[..., tuple[int, int]]:
    """Return the conversion of a TIME, taken as UTC, to a TIMETZ in a zone."""

    if call.args[0].type.kind is Kind.INTERVAL:
        return lambda offset, time: timetz_at_offset((time, 0), utc_offset(offset) // ZONES_SECOND)

    def there(name: str, time: int) -> tuple[int, int]:
        offset = time_zone(name).utcoffset(datetime.datetime(1970, 1, 1))
        return timetz_at_offset((time, 0), int((offset or datetime.timedelta()).total_seconds()))

    return there


register_scalar(
    "timezone",
    "a time zone and a TIMESTAMP, TIMESTAMPTZ or TIME",
    "The instant at which clocks there show a TIMESTAMP; what they show at the instant of a TIMESTAMPTZ.",
    {
        "timezone('UTC', TIMESTAMP '2001-02-16 20:38:40')::TEXT": "'2001-02-16 20:38:40+00'",
        "timezone('America/Denver', timezone('UTC', TIMESTAMP '2001-02-17 01:38:40'))": (
            "TIMESTAMP '2001-02-16 18:38:40'"
        ),
    },
    Overload(_zone_and_moment(TEXT, TIMESTAMPTZ, TIMESTAMP), MemoizedFunction(_convert_by_zone(to_local))),
    Overload(_zone_and_moment(TEXT, TIMESTAMP, TIMESTAMPTZ), MemoizedFunction(_convert_by_zone(from_local))),
    Overload(_zone_and_moment(INTERVAL, TIMESTAMPTZ, TIMESTAMP), MemoizedFunction(_convert_by_offset(1))),
    Overload(_zone_and_moment(INTERVAL, TIMESTAMP, TIMESTAMPTZ), MemoizedFunction(_convert_by_offset(-1))),
    Overload(_zone_and_moment(TEXT, TIME, TIMETZ), MemoizedFunction(_time_at_zone)),
    Overload(_zone_and_moment(INTERVAL, TIME, TIMETZ), MemoizedFunction(_time_at_zone)),
)


TIMETZ_KINDS = frozenset({Kind.TIMETZ})
TimeTz = tuple[int, int]


def _add_timetz_overload(
    name: str, accepts: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]
) -> None:
    add_overloads(
        name, accepts, Overload(kind_rule(TIMETZ_KINDS, result, *args), MemoizedFunction(lambda call: code))
    )


def add_to_timetz(value: TimeTz, by: Interval) -> TimeTz:
    """Add an interval's time to a TIMETZ, modulo 24 hours."""
    return (value[0] + by.microseconds) % DAY, value[1]


def timetz_field(name: str, value: TimeTz) -> object:
    """Return a field of a TIMETZ, as EXTRACT does."""
    time, east = value
    minutes, micros = divmod(time, 60 * DATE_TIME_SECOND)
    match name.lower():
        case "hour":
            return Decimal(minutes // 60)
        case "minute":
            return Decimal(minutes % 60)
        case "second":
            return Decimal(micros).scaleb(-6)
        case "millisecond" | "milliseconds":
            return Decimal(micros).scaleb(-3)
        case "microsecond" | "microseconds":
            return Decimal(micros)
        case "epoch":
            return Decimal(time - east * DATE_TIME_SECOND).scaleb(-6)
        case "timezone":
            return Decimal(east)
        case "timezone_hour":
            return Decimal(int(east / 3600))
        case "timezone_minute":
            return Decimal(int((abs(east) % 3600) / 60) * (-1 if east < 0 else 1))
        case _:
            raise ValueError(f'unit "{name}" not supported for type time with time zone')


def timetz_at_zone(name: str, value: TimeTz) -> TimeTz:
    """Return a TIMETZ in another zone, with the zone's offset on 1970-01-01."""
    offset = time_zone(name).utcoffset(datetime.datetime(1970, 1, 1))
    return timetz_at_offset(value, 0 if offset is None else int(offset.total_seconds()))


def later(value: TimeTz, by: Interval) -> TimeTz:
    """As ``value + interval``."""
    return add_to_timetz(value, by)


_add_timetz_overload("add", "a TIMETZ and an INTERVAL", TIMETZ, (TIMETZ, INTERVAL), add_to_timetz)
_add_timetz_overload(
    "add", "a TIMETZ and an INTERVAL", TIMETZ, (INTERVAL, TIMETZ), lambda by, value: add_to_timetz(value, by)
)
_add_timetz_overload(
    "add",
    "a DATE and a TIMETZ",
    TIMESTAMPTZ,
    (DATE, TIMETZ),
    lambda day, value: day * DAY + value[0] - value[1] * DATE_TIME_SECOND,
)
_add_timetz_overload(
    "add",
    "a TIMETZ and a DATE",
    TIMESTAMPTZ,
    (TIMETZ, DATE),
    lambda value, day: day * DAY + value[0] - value[1] * DATE_TIME_SECOND,
)
_add_timetz_overload(
    "sub",
    "a TIMETZ and an INTERVAL",
    TIMETZ,
    (TIMETZ, INTERVAL),
    lambda value, by: add_to_timetz(value, Interval(0, 0, -by.microseconds)),
)
_add_timetz_overload(
    "timezone",
    "an offset and a TIMETZ",
    TIMETZ,
    (INTERVAL, TIMETZ),
    lambda by, value: timetz_at_offset(value, utc_offset(by) // DATE_TIME_SECOND),
)
_add_timetz_overload("timezone", "a zone and a TIMETZ", TIMETZ, (TEXT, TIMETZ), timetz_at_zone)
_add_timetz_overload(
    "date_part",
    "a field and a TIMETZ",
    DOUBLE,
    (TEXT, TIMETZ),
    lambda name, value: float(str(timetz_field(name, value))),
)
for _times_with_zones_name in ("hour", "minute", "second", "milliseconds", "microseconds", "epoch"):
    _add_timetz_overload(
        f"extract_{_times_with_zones_name}",
        "a TIMETZ",
        NUMERIC,
        (TIMETZ,),
        lambda value, _name=_times_with_zones_name: timetz_field(_name, value),
    )
for _times_with_zones_name in ("timezone", "timezone_hour", "timezone_minute"):
    _add_timetz_overload(
        f"extract_{_times_with_zones_name}",
        "a TIMETZ",
        NUMERIC,
        (TIMETZ,),
        lambda value, _name=_times_with_zones_name: timetz_field(_name, value),
    )
