"""Postgres' binary forms of values, which ``received`` reads. A value is what codecs take.

The forms are those of Postgres' ``*send`` and ``*recv`` functions: numbers in network order, moments in
microseconds and days since 2000-01-01, NUMERIC in digits of base 10,000, arrays with their bounds.
"""

import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kpg.compiler.system.oids import type_facts
from kpg.runtime.types import OID, SPELLED_KINDS, XID, Kind, Type
from kpg.runtime.values import codec_of
from kpg.runtime.values.intervals import Interval, of_microseconds
from kpg.runtime.values.words import EARLIEST, LATEST

EPOCH_DAYS: Final = 10_957
"""Days from 1970-01-01 to 2000-01-01."""
EPOCH: Final = EPOCH_DAYS * 86_400_000_000
"""The same in microseconds."""
NEGATIVE, NAN, INFINITE, LESS = 0x4000, 0xC000, 0xD000, 0xF000
"""What a NUMERIC's sign may be beside 0."""
INFINITE_SCALE: Final = 0x20
"""The scale that Postgres writes for a NUMERIC that is infinite."""
ENDS_OF_FORMS: Final = {"i": (-(2**31), 2**31 - 1), "q": (-(2**63), 2**63 - 1)}
Writer = Callable[[Any], bytes]


def writer_of(type_: Type) -> Writer:
    """From a value to its binary form."""
    match type_.kind:
        case Kind.BIGINT if type_ in (OID, XID):
            return struct.Struct("!I").pack
        case Kind.BOOLEAN | Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.REAL | Kind.DOUBLE:
            return struct.Struct(PLAIN[type_.kind]).pack
        case Kind.DATE:
            return _moment("i", EPOCH_DAYS)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _moment("q", EPOCH)
        case Kind.TID:
            return lambda value: struct.pack("!IH", value >> 16, value & 0xFFFF)
        case Kind.TIME:
            return struct.Struct("!q").pack
        case Kind.INTERVAL:
            return _interval
        case Kind.INTERVAL_DAY:
            return lambda value: _interval(of_microseconds(value))
        case Kind.INTERVAL_MONTH:
            return lambda value: _interval(Interval(value, 0, 0))
        case Kind.DECIMAL:
            return lambda value: _numeric(Decimal(value).scaleb(-type_.scale), type_.scale)
        case Kind.NUMERIC:
            return lambda value: _numeric(value, type_.scale if type_.precision else None)
        case Kind.UUID:
            return lambda value: uuid.UUID(value).bytes
        case Kind.BYTEA:
            return bytes
        case Kind.JSONB:
            show = codec_of(type_).show
            return lambda value: b"\x01" + show(value).encode()
        case Kind.ARRAY:
            return _array_writer(type_)
        case Kind.RECORD:
            return _record_writer(type_)
        case _ if type_.kind in SPELLED_KINDS:
            from kpg.server import binary_forms

            return binary_forms.writer_of(type_, writer_of)
        case _:
            shown = codec_of(type_).show
            return lambda value: shown(value).encode()


PLAIN: Final = {
    Kind.BOOLEAN: "!?",
    Kind.SMALLINT: "!h",
    Kind.INTEGER: "!i",
    Kind.BIGINT: "!q",
    Kind.REAL: "!f",
    Kind.DOUBLE: "!d",
}


def _moment(form: str, epoch: int) -> Writer:
    """Of days or microseconds since 2000; the infinities are the ends of what the form holds."""
    layout = struct.Struct("!" + form)
    least, most = ENDS_OF_FORMS[form]
    ends = {EARLIEST: layout.pack(least), LATEST: layout.pack(most)}
    return lambda value: ends.get(value) or layout.pack(value - epoch)


def _interval(value: Interval) -> bytes:
    return struct.pack("!qii", value.microseconds, value.days, value.months)


def _numeric(value: Decimal, scale: int | None) -> bytes:
    if not value.is_finite():
        sign = NAN if value.is_nan() else LESS if value < 0 else INFINITE
        return struct.pack("!hhHh", 0, 0, sign, 0 if sign == NAN else INFINITE_SCALE)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    shown = max(0, -exponent) if scale is None else scale
    text = "".join(map(str, digits))
    whole, fraction = (text + "0" * exponent, "") if exponent >= 0 else (text[:exponent], text[exponent:])
    if exponent < 0:
        fraction = fraction.rjust(-exponent, "0")
    whole = whole.lstrip("0")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[i : i + 4]) for i in range(0, len(whole) + len(fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    if not groups:
        weight = 0
    kind = NEGATIVE if sign and groups else 0
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, kind, shown, *groups)


def _framed(field: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if field is None else struct.pack("!i", len(field)) + field


def _array_writer(type_: Type) -> Writer:
    (element,) = type_.parts
    write, number = writer_of(element), type_facts(element)[2]

    def written(value: Any) -> bytes:
        nulls = any(item is None for item in value.items)
        head = struct.pack("!iiI", len(value.shape), nulls, number)
        bounds = b"".join(map(struct.Struct("!ii").pack, value.shape, value.firsts))
        items = (_framed(None if item is None else write(item)) for item in value.items)
        return head + bounds + b"".join(items)

    return written


def _record_writer(type_: Type) -> Writer:
    writers = [(writer_of(part), type_facts(part)[2]) for part in type_.parts]

    def written(value: Any) -> bytes:
        fields = [struct.pack("!i", len(writers))]
        for item, (write, number) in zip(value, writers, strict=True):
            fields.append(struct.pack("!I", number) + _framed(None if item is None else write(item)))
        return b"".join(fields)

    return written
