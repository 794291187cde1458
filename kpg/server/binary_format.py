"""Postgres binary format, output side: values and result rows as the bytes that clients receive.

The encodings are those of Postgres' ``*send`` and ``*recv`` functions: integers in network byte order,
timestamps in microseconds and dates in days since 2000-01-01, NUMERIC in digits of base 10,000, arrays with
their bounds. Bit strings, network addresses and ranges, which are ``str`` in Python, have writers of their
own. ``encode_rows`` turns columns of words into rows of text or binary fields; None stands for NULL.
``binary_input`` is the inverse.
"""

import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.system.oids import type_facts
from kpg.runtime.convert.python_values import format_values
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import NULL, OID, TEXT_FORM_KINDS, XID, Kind, Type, range_of
from kpg.runtime.values import codec_of
from kpg.runtime.values.codec import output_function
from kpg.runtime.values.intervals import Interval, from_microseconds
from kpg.runtime.values.networks import Network, mac_bytes
from kpg.runtime.values.ranges import AFTER_ALL, BEFORE_ALL, Ranges
from kpg.runtime.values.style_output import writer_of as style_writer_of
from kpg.runtime.values.styles import DEFAULT_STYLE as PLAIN_STYLE
from kpg.runtime.values.styles import Style, has_style_output
from kpg.runtime.values.words import EARLIEST, LATEST

Writer = Callable[[Any], bytes]


EPOCH_DAYS: Final = 10_957
"""Days from 1970-01-01 to 2000-01-01."""
EPOCH: Final = EPOCH_DAYS * 86_400_000_000
"""Microseconds from 1970-01-01 to 2000-01-01."""
NEGATIVE, NAN, INFINITE, NEGATIVE_INFINITE = 0x4000, 0xC000, 0xD000, 0xF000
"""Sign codes of NUMERIC besides 0."""
INFINITE_SCALE: Final = 0x20
"""Scale that Postgres writes for an infinite NUMERIC."""
INTEGER_BOUNDS: Final = {"i": (-(2**31), 2**31 - 1), "q": (-(2**63), 2**63 - 1)}
"""Smallest and largest integer of each ``struct`` format."""


def binary_writer(type_: Type) -> Writer:
    """Return the function from a value of a type to its binary format."""
    match type_.kind:
        case Kind.BIGINT if type_ in (OID, XID):
            return struct.Struct("!I").pack
        case Kind.BOOLEAN | Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.REAL | Kind.DOUBLE:
            return struct.Struct(STRUCT_FORMATS[type_.kind]).pack
        case Kind.DATE:
            return _epoch_writer("i", EPOCH_DAYS)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _epoch_writer("q", EPOCH)
        case Kind.TID:
            return lambda value: struct.pack("!IH", value >> 16, value & 0xFFFF)
        case Kind.TIME:
            return struct.Struct("!q").pack
        case Kind.INTERVAL:
            return _write_interval
        case Kind.INTERVAL_DAY:
            return lambda value: _write_interval(from_microseconds(value))
        case Kind.INTERVAL_MONTH:
            return lambda value: _write_interval(Interval(value, 0, 0))
        case Kind.DECIMAL:
            return lambda value: _write_numeric(Decimal(value).scaleb(-type_.scale), type_.scale)
        case Kind.NUMERIC:
            return lambda value: _write_numeric(value, type_.scale if type_.precision else None)
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
        case _ if type_.kind in TEXT_FORM_KINDS:
            return text_form_writer(type_, binary_writer)
        case _:
            shown = codec_of(type_).show
            return lambda value: shown(value).encode()


STRUCT_FORMATS: Final = {
    Kind.BOOLEAN: "!?",
    Kind.SMALLINT: "!h",
    Kind.INTEGER: "!i",
    Kind.BIGINT: "!q",
    Kind.REAL: "!f",
    Kind.DOUBLE: "!d",
}
"""``struct`` formats of the fixed-width types."""


def _epoch_writer(format_: str, epoch: int) -> Writer:
    """Return a writer of days or microseconds since 2000-01-01. Infinities are the bounds of the format."""
    layout = struct.Struct("!" + format_)
    minimum, maximum = INTEGER_BOUNDS[format_]
    infinities = {EARLIEST: layout.pack(minimum), LATEST: layout.pack(maximum)}
    return lambda value: infinities.get(value) or layout.pack(value - epoch)


def _write_interval(value: Interval) -> bytes:
    return struct.pack("!qii", value.microseconds, value.days, value.months)


def _write_numeric(value: Decimal, scale: int | None) -> bytes:
    if not value.is_finite():
        sign = NAN if value.is_nan() else NEGATIVE_INFINITE if value < 0 else INFINITE
        return struct.pack("!hhHh", 0, 0, sign, 0 if sign == NAN else INFINITE_SCALE)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    display_scale = max(0, -exponent) if scale is None else scale
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
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, kind, display_scale, *groups)


def _length_prefixed(field: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if field is None else struct.pack("!i", len(field)) + field


def _array_writer(type_: Type) -> Writer:
    (element,) = type_.parts
    write, number = binary_writer(element), type_facts(element)[2]

    def write_array(value: Any) -> bytes:
        nulls = any(item is None for item in value.items)
        head = struct.pack("!iiI", len(value.shape), nulls, number)
        bounds = b"".join(map(struct.Struct("!ii").pack, value.shape, value.lower_bounds))
        items = (_length_prefixed(None if item is None else write(item)) for item in value.items)
        return head + bounds + b"".join(items)

    return write_array


def _record_writer(type_: Type) -> Writer:
    writers = [(binary_writer(part), type_facts(part)[2]) for part in type_.parts]

    def write_record(value: Any) -> bytes:
        fields = [struct.pack("!i", len(writers))]
        for item, (write, number) in zip(value, writers, strict=True):
            fields.append(struct.pack("!I", number) + _length_prefixed(None if item is None else write(item)))
        return b"".join(fields)

    return write_record


FAMILY_CODES: Final = {4: 2, 6: 3}
"""Postgres' codes of IP versions."""
EMPTY, LOWER_INCLUSIVE, UPPER_INCLUSIVE, LOWER_INFINITE, UPPER_INFINITE = 1, 2, 4, 8, 16
"""Flags of a range."""


def text_form_writer(type_: Type, writer_for: Callable[[Type], Writer]) -> Writer:
    """Return the binary writer of a type whose Python values are texts, tuples or addresses.

    ``writer_for`` returns the writers of element types.
    """
    match type_.kind:
        case Kind.BIT | Kind.VARBIT:
            return _write_bits
        case Kind.TIMETZ:
            return lambda value: struct.pack("!qi", value[0], -value[1])
        case Kind.PG_LSN:
            return struct.Struct("!Q").pack
        case Kind.INET | Kind.CIDR:
            return lambda value: _write_address(value, network=type_.kind is Kind.CIDR)
        case Kind.MACADDR | Kind.MACADDR8:
            return mac_bytes
        case Kind.RANGE:
            bound = writer_for(type_.parts[0])
            return lambda value: _write_range(value, bound)
        case Kind.MULTIRANGE:
            inner = text_form_writer(range_of(type_.parts[0]), writer_for)
            return lambda value: (
                struct.pack("!i", len(value))
                + b"".join(struct.pack("!i", len(one)) + one for one in (inner((pair,)) for pair in value))
            )
        case _:
            raise AssertionError(type_)


def _write_bits(value: str) -> bytes:
    size = -(-len(value) // 8)
    return struct.pack("!i", len(value)) + int(value.ljust(8 * size, "0") or "0", 2).to_bytes(size, "big")


def _write_address(value: Network, *, network: bool) -> bytes:
    size = value.width // 8
    head = bytes([FAMILY_CODES[value.family], value.length, int(network), size])
    return head + value.bits.to_bytes(size, "big")


def _write_range(value: Ranges, bound: Writer) -> bytes:
    if not value:
        return bytes([EMPTY])
    ((start, end),) = value
    flags = LOWER_INFINITE if start == BEFORE_ALL else 0 if start[2] else LOWER_INCLUSIVE
    flags |= UPPER_INFINITE if end == AFTER_ALL else UPPER_INCLUSIVE if end[2] else 0
    bounds = [bound(place[1]) for place in (start, end) if len(place) > 1]
    return bytes([flags]) + b"".join(struct.pack("!i", len(one)) + one for one in bounds)


Words = NDArray[np.int64]
Fields = list[bytes | None]


def encode_column(
    words: Words, type_: Type, format_: int, dictionary: Dictionary, style: Style = PLAIN_STYLE
) -> Fields:
    """Return the fields of one column of words; format 0 is text, 1 is binary."""
    if type_.kind is Kind.VARCHAR:
        return [None if text is None else text.encode() for text in dictionary.decode(words)]
    if type_.is_integer and format_ == 0:
        return [None if word == NULL else b"%d" % word for word in words.tolist()]
    write = binary_writer(type_) if format_ else text_writer(type_, style)
    return format_values(words, type_, dictionary, write)


def text_writer(type_: Type, style: Style = PLAIN_STYLE) -> Writer:
    """Return the function from a value of a type to its text in the session's style."""
    output = (
        output_function(type_)
        if style is PLAIN_STYLE or not has_style_output(type_)
        else style_writer_of(type_, style)
    )
    return lambda value: output(value).encode()


def encode_rows(
    words: Words,
    types: Sequence[Type],
    formats: Sequence[int],
    dictionary: Dictionary,
    style: Style = PLAIN_STYLE,
) -> list[tuple[bytes | None, ...]]:
    """Return rows of fields from words ``int64[w, n]``, with one format per column."""
    if not types:
        return [()] * words.shape[1]
    columns = [
        encode_column(column, type_, format_, dictionary, style)
        for column, type_, format_ in zip(words, types, formats, strict=True)
    ]
    return list(zip(*columns, strict=True))
