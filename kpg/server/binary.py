"""Postgres' binary forms of values, both ways. A value is what codecs take (``runtime/values``).

The forms are those of Postgres' ``*send`` and ``*recv`` functions: numbers in network order, moments in
microseconds and days since 2000-01-01, NUMERIC in digits of base 10,000, arrays with their bounds.
"""

import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kpg.compiler.system.naming import element_number, type_facts
from kpg.runtime.types import OID, SPELLED_KINDS, Kind, Type
from kpg.runtime.values import codec_of
from kpg.runtime.values.calendars import EARLIEST, LATEST
from kpg.runtime.values.intervals import Interval, of_microseconds
from kpg.runtime.values.numeric import EXACT

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
        case Kind.BIGINT if type_ == OID:
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


# The other way: a parameter's binary form as the text of the same value


def text_of(data: bytes, number: int) -> str:
    """The text of a value of the type that has the number. ValueError if it is malformed."""
    try:
        read = READERS.get(number)
        if read is None:
            element = ELEMENTS.get(number) or element_number(number)
            return data.decode() if element is None else _array_text(data, element)
        return read(data)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"incorrect binary data format: {error}") from None


def _number(form: str) -> Callable[[bytes], str]:
    layout = struct.Struct(form)
    return lambda data: str(layout.unpack(data)[0])


def _shown(type_: Type, form: str) -> Callable[[bytes], str]:
    layout = struct.Struct(form)
    return lambda data: codec_of(type_).show(layout.unpack(data)[0])


def _moment_text(type_: Type, form: str, epoch: int) -> Callable[[bytes], str]:
    layout = struct.Struct("!" + form)
    least, most = ENDS_OF_FORMS[form]
    ends = {least: EARLIEST, most: LATEST}

    def read(data: bytes) -> str:
        (number,) = layout.unpack(data)
        return codec_of(type_).show(ends.get(number, number + epoch))

    return read


def _interval_text(data: bytes) -> str:
    microseconds, days, months = struct.unpack("!qii", data)
    return codec_of(Type(Kind.INTERVAL)).show(Interval(months, days, microseconds))


def _numeric_text(data: bytes) -> str:
    count, weight, sign, scale = struct.unpack_from("!hhHh", data)
    if sign in (NAN, INFINITE, LESS):
        return {NAN: "NaN", INFINITE: "Infinity", LESS: "-Infinity"}[sign]
    groups = struct.unpack_from(f"!{count}h", data, 8)
    digits = "".join(f"{group:04d}" for group in groups) or "0"
    places = 4 * (count - weight - 1) if count else 0
    value = Decimal((int(sign == NEGATIVE), tuple(map(int, digits)), -places))
    return f"{value.quantize(Decimal((0, (1,), -scale)), context=EXACT):f}"


def _array_text(data: bytes, element: int) -> str:
    dimensions, _, number = struct.unpack_from("!iiI", data)
    lengths = [struct.unpack_from("!ii", data, 12 + 8 * place)[0] for place in range(dimensions)]
    place = 12 + 8 * dimensions

    def nested(depth: int) -> str:
        nonlocal place
        if depth < dimensions:
            return "{" + ",".join(nested(depth + 1) for _ in range(lengths[depth])) + "}"
        (length,) = struct.unpack_from("!i", data, place)
        place += 4
        if length < 0:
            return "NULL"
        item = data[place : place + length]
        place += length
        text = text_of(item, number or element)
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return nested(0) if dimensions else "{}"


READERS: Final[dict[int, Callable[[bytes], str]]] = {
    16: lambda data: "true" if struct.unpack("!?", data)[0] else "false",
    17: lambda data: "\\x" + data.hex(),
    20: _number("!q"),
    21: _number("!h"),
    23: _number("!i"),
    26: _number("!I"),
    27: lambda data: "({},{})".format(*struct.unpack("!IH", data)),
    700: _number("!f"),
    701: _number("!d"),
    1082: _moment_text(Type(Kind.DATE), "i", EPOCH_DAYS),
    1083: _shown(Type(Kind.TIME), "!q"),
    1114: _moment_text(Type(Kind.TIMESTAMP), "q", EPOCH),
    1184: _moment_text(Type(Kind.TIMESTAMPTZ), "q", EPOCH),
    1186: _interval_text,
    1700: _numeric_text,
    2950: lambda data: str(uuid.UUID(bytes=data)),
    3802: lambda data: data[1:].decode(),
}
"""By the type's number; text, JSON and all others are text in their binary form, too."""
ELEMENTS: Final = {
    1000: 16,
    1001: 17,
    1005: 21,
    1007: 23,
    1009: 25,
    1014: 1042,
    1015: 1043,
    1016: 20,
    1021: 700,
    1022: 701,
    1010: 27,
    1028: 26,
    1115: 1114,
    1182: 1082,
    1183: 1083,
    1185: 1184,
    1187: 1186,
    1231: 1700,
    2951: 2950,
    3807: 3802,
    199: 114,
}
"""The number of the elements' type, by that of the array's."""
