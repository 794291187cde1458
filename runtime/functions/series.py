"""``generate_series``: numbers, dates and times from a first one on to a last one."""

import calendar
import datetime
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import numpy as np

from kpg.runtime.functions.rules import common_type, is_exact_or_numeric, is_unknown
from kpg.runtime.functions.tables import Listing, RowOverload, RowSignature, Series, rows
from kpg.runtime.types import (
    BIGINT,
    INTEGER,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
)
from kpg.runtime.values import zones
from kpg.runtime.values.intervals import Interval, span
from kpg.runtime.values.numeric import EXACT
from kpg.runtime.values.words import DAY

Words = np.ndarray[Any, np.dtype[np.int64]]
ONE: Final = Decimal(1)
EPOCH: Final = datetime.datetime(1970, 1, 1)
SPANS: Final = frozenset({Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH})
MOMENTS: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
MICROSECOND: Final = datetime.timedelta(microseconds=1)


def _count(start: Words, stop: Words, step: Words | None = None) -> Words:
    """How many numbers from ``start`` to ``stop`` there are, both being among them if the step fits."""
    if step is None:
        step = np.ones(1, np.int64)
    if not step.all():
        raise ValueError("step size cannot be zero")
    # A distance of 64-bit numbers takes 65 bits: the unsigned ones are enough for either direction.
    up = step > 0
    low, high = np.where(up, start, stop), np.where(up, stop, start)
    distance = high.view(np.uint64) - low.view(np.uint64)
    stride = np.where(up, step, -step).view(np.uint64)
    steps = np.minimum(distance // stride, np.uint64(2**62)).astype(np.int64)
    return np.where(low <= high, steps + 1, 0)


def _make(place: Words, start: Words, stop: Words, step: Words | None = None) -> Words:
    return start + place * (1 if step is None else step)


def _integers(types: tuple[Type, ...]) -> RowSignature | None:
    if not 2 <= len(types) <= 3 or not all(type_.is_integer or is_unknown(type_) for type_ in types):
        return None
    common = common_type((*types, INTEGER)) or INTEGER
    common = BIGINT if common == BIGINT else INTEGER
    return RowSignature((common,) * len(types), ("",), (common,), nullable=False)


def _decimals(types: tuple[Type, ...]) -> RowSignature | None:
    if not 2 <= len(types) <= 3 or not all(
        is_unknown(type_) or is_exact_or_numeric(type_) for type_ in types
    ):
        return None
    return RowSignature((NUMERIC,) * len(types), ("",), (NUMERIC,), nullable=False)


def _numbers(start: Decimal, stop: Decimal, step: Decimal = ONE) -> Iterable[tuple[Decimal]]:
    """With as many digits behind the point as the first one and the steps to it have."""
    if not step:
        raise ValueError("step size cannot equal zero")
    if not all(value.is_finite() for value in (start, stop, step)):
        raise ValueError("start, stop and step must be finite")
    at = start
    while at <= stop if step > 0 else at >= stop:
        yield (at,)
        at = EXACT.add(at, step)


def _stamps(types: tuple[Type, ...]) -> RowSignature | None:
    """Two moments, of which dates have a time zone as in Postgres, and an interval."""
    if len(types) not in (3, 4) or not (is_unknown(types[2]) or types[2].kind in SPANS):
        return None
    known = [type_ for type_ in types[:2] if not is_unknown(type_)]
    if not known or any(type_.kind not in MOMENTS for type_ in known):
        return None
    moment = TIMESTAMP if any(type_.kind is Kind.TIMESTAMP for type_ in known) else TIMESTAMPTZ
    if len(types) == 4:
        zoned = types[3].is_text or is_unknown(types[3])
        return (
            RowSignature((TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL, TEXT), ("",), (TIMESTAMPTZ,), False)
            if zoned
            else None
        )
    return RowSignature((moment, moment, INTERVAL), ("",), (moment,), nullable=False)


def _moments(start: int, stop: int, step: Interval, zone: str = "UTC") -> Iterable[tuple[int]]:
    """Months are added to what came before, whose day may have been cut to a month's last."""
    length = span(step)
    if not length:
        raise ValueError("step size cannot equal zero")
    fixed = step.days * DAY + step.microseconds
    if zone.upper() not in ("UTC", "GMT", "Z"):
        yield from _local_moments(start, stop, step, zones.zone(zone))
        return
    if not step.months:
        yield from zip(range(start, stop + (1 if length > 0 else -1), fixed), strict=False)
        return
    at = start
    while at <= stop if length > 0 else at >= stop:
        yield (at,)
        at = plus_months(at, step.months) + fixed


def _local_moments(start: int, stop: int, step: Interval, where: datetime.tzinfo) -> Iterable[tuple[int]]:
    """By the days and months of a time zone."""
    at, forward = start, span(step) > 0
    while at <= stop if forward else at >= stop:
        yield (at,)
        at = plus_local(at, step, where)


def plus_local(stamp: int, step: Interval, where: datetime.tzinfo) -> int:
    """An instant plus an interval, whose months and days are those of a time zone."""
    if step.months or step.days:
        local = zones.to_local(stamp, where)
        moved = plus_months(local, step.months) + step.days * DAY
        stamp = zones.from_local(moved, where)
    return stamp + step.microseconds


def plus_months(stamp: int, months: int) -> int:
    """A timestamp so many months later, on the last day of the month if that has fewer days."""
    moment = EPOCH + stamp * MICROSECOND
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueError("timestamp out of range")
    last = calendar.monthrange(year, month + 1)[1]
    moved = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
    return (moved - EPOCH) // MICROSECOND


rows(
    "generate_series",
    "a first and a last number and optionally a step, or two moments and an interval",
    "The numbers or times from the first on, as far as the last, by steps of 1 or of the third argument.",
    {
        "generate_series(2, 4)": "(2), (3), (4)",
        "generate_series(5, 1, -2)": "(5), (3), (1)",
        "generate_series(4, 3)": "",
        "generate_series(1.1, 4, 1.3)": "(1.1), (2.4), (3.7)",
    },
    RowOverload(_integers, Series(_count, _make)),
    RowOverload(_decimals, Listing(lambda args, types: _numbers)),
    RowOverload(_stamps, Listing(lambda args, types: _moments)),
)
