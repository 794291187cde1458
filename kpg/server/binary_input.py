"""Postgres binary format, input side: a parameter or a COPY field becomes the text of the same value.

The callers parse that text as they parse every other literal, so both formats accept the same values.
A type is identified by its OID or by a ``Type``. Malformed bytes raise DataError, SQLSTATE 22P03.
``binary_format`` is the inverse.
"""

import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.system.oids import array_oid, oid_of, type_facts
from kpg.runtime.errors import DataError, encoding_error
from kpg.runtime.types import OID, TEXT_FORM_KINDS, TEXT_KINDS, XID, Kind, Type, array, range_of, record
from kpg.runtime.types import multirange_of as multirange
from kpg.runtime.values import codec_of
from kpg.runtime.values.arrays import EMPTY, MAX_DIMENSIONS, Array, with_lower_bounds
from kpg.runtime.values.intervals import Interval
from kpg.runtime.values.networks import ADDRESS_BITS, Network, show_mac, widen_mac
from kpg.runtime.values.numeric import EXACT, MAX_SCALE
from kpg.runtime.values.ranges import Ranges, make_range, union
from kpg.runtime.values.words import DAY, EARLIEST, LATEST
from kpg.server.binary_format import EMPTY as EMPTY_FLAG
from kpg.server.binary_format import (
    EPOCH,
    EPOCH_DAYS,
    FAMILY_CODES,
    INFINITE,
    INTEGER_BOUNDS,
    LOWER_INCLUSIVE,
    LOWER_INFINITE,
    NAN,
    NEGATIVE,
    NEGATIVE_INFINITE,
    STRUCT_FORMATS,
    UPPER_INCLUSIVE,
    UPPER_INFINITE,
)

Reader = Callable[["Message"], Any]
"""Reads a value from the rest of a message. Raises DataError if it is malformed."""
INVALID_BINARY_REPRESENTATION: Final = "22P03"
"""SQLSTATE of malformed binary data."""
TEXT: Final = Type(Kind.VARCHAR)
RANGE_BOUND_KINDS: Final = (
    Kind.INTEGER,
    Kind.BIGINT,
    Kind.NUMERIC,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ,
)
"""Kinds of the bounds of range types."""
KINDS_WITHOUT_OID: Final = frozenset(
    {Kind.ARRAY, Kind.RANGE, Kind.MULTIRANGE, Kind.RECORD, Kind.ENUM, Kind.EXTENSION}
)
"""Kinds whose OID depends on their parts or their name."""
RESTRICTED_KINDS: Final = frozenset({Kind.DECIMAL, Kind.INTERVAL_MONTH, Kind.INTERVAL_DAY, Kind.ROWID})
"""Kinds that share the OID of a more general kind."""
TEXT_OIDS: Final = frozenset({18, 19, 25, 194, 705, 1042, 1043})
"""OIDs of types whose binary format is the text."""
REG_TYPES: Final = MappingProxyType(
    {24: "regproc", 2202: "regprocedure", 2203: "regoper", 2204: "regoperator", 2205: "regclass"}
    | {2206: "regtype", 3734: "regconfig", 3769: "regdictionary", 4089: "regnamespace", 4096: "regrole"}
)
"""Names of the types whose binary format is an object's OID, by their own OID."""


def data_error(message: str, sqlstate: str = INVALID_BINARY_REPRESENTATION) -> DataError:
    """Return a DataError with a SQLSTATE."""
    error = DataError(message)
    error.sqlstate = sqlstate
    return error


class Message:
    """A binary value, read from its start to its end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def read_bytes(self, count: int) -> bytes:
        """Return the next bytes. DataError if fewer are left."""
        if count < 0 or self.position + count > len(self.data):
            raise data_error("insufficient data left in message", "08P01")
        self.position += count
        return self.data[self.position - count : self.position]

    def read_numbers(self, format_: str) -> tuple[Any, ...]:
        """Return the next numbers; ``format_`` is a ``struct`` format without byte order."""
        format_ = f"!{format_}"
        return struct.unpack(format_, self.read_bytes(struct.calcsize(format_)))

    def read_number(self, format_: str) -> Any:
        """Return the next number."""
        return self.read_numbers(format_)[0]

    def read_rest(self) -> bytes:
        """Return all remaining bytes."""
        return self.read_bytes(len(self.data) - self.position)

    def read_field(self, read: Reader) -> Any:
        """Return the next length-prefixed value; None if the length is negative."""
        length = self.read_number("i")
        return None if length < 0 else read_whole(self.read_bytes(length), read)


def read_whole(data: bytes, read: Reader) -> Any:
    """Return the value that occupies all of the bytes. DataError if they are malformed or too many."""
    message = Message(data)
    try:
        value = read(message)
    except (ValueError, ArithmeticError, IndexError) as error:
        raise data_error(f"incorrect binary data format: {error}") from None
    if message.position != len(data):
        raise data_error("incorrect binary data format")
    return value


def decode_text(data: bytes) -> str:
    """Decode UTF-8 text. DataError if it is invalid or has a zero byte."""
    invalid = b"\0"
    try:
        text = data.decode()
        if "\0" not in text:
            return text
    except UnicodeDecodeError as error:
        invalid = data[error.start : error.end]
    raise encoding_error(invalid)


def binary_to_text(data: bytes, type_: Type) -> str:
    """Return the text of a value in binary format. DataError if it is malformed."""
    if type_.kind in TEXT_KINDS or type_.kind in (Kind.JSON, Kind.ENUM, Kind.EXTENSION):
        return decode_text(data)
    plain = _without_modifiers(type_)
    return codec_of(plain).show(read_whole(data, reader_of(plain)))


def binary_to_text_by_oid(data: bytes, oid: int, user_types: Mapping[int, Type]) -> str:
    """Return the text of a value in binary format. ``user_types`` are the user-defined types by OID."""
    if oid in REG_TYPES:
        return str(read_whole(data, lambda message: message.read_number("I")))
    type_ = type_of_oid(oid) or user_types.get(oid)
    if type_ is None:
        raise data_error(f"no binary input function available for type {oid}", "42883")
    return binary_to_text(data, type_)


@cache
def _types_by_oid() -> Mapping[int, Type]:
    """Return the built-in types by OID."""
    simple = [Type(kind) for kind in Kind if kind not in KINDS_WITHOUT_OID | RESTRICTED_KINDS]
    bounds = [Type(kind) for kind in RANGE_BOUND_KINDS]
    base_types = [*simple, OID, XID, *map(range_of, bounds), *map(multirange, bounds)]
    by_oid = {type_facts(type_)[2]: type_ for type_ in base_types}
    arrays = {type_facts(array(type_))[2]: array(type_) for type_ in base_types}
    texts = {type_facts(array(Type(Kind.VARCHAR)))[2]: array(TEXT), 1003: array(TEXT), 1015: array(TEXT)}
    return MappingProxyType(arrays | by_oid | texts | dict.fromkeys(TEXT_OIDS, TEXT))


def type_of_oid(oid: int) -> Type | None:
    """Return the built-in type with an OID."""
    return _types_by_oid().get(oid)


def user_types_by_oid(catalog: Catalog) -> dict[int, Type]:
    """Return the user-defined types, row types of relations, and arrays of both, by OID."""
    by_oid = {oid_of("type", name): one for name, one in catalog.types.items()}
    types = {number: one.type if isinstance(one, Domain) else one for number, one in by_oid.items()}
    for name, entry in catalog.entries.items():
        row = record(list(entry.schema.types), list(entry.schema.names))
        types[oid_of("type", name)] = replace(row, name=entry.name)
    return types | {array_oid(number): array(type_) for number, type_ in types.items()}


def _without_modifiers(type_: Type) -> Type:
    """Return the type without lengths and precisions, which matter only once the value is read."""
    if type_.kind is Kind.RECORD:
        return replace(type_, parts=tuple(map(_without_modifiers, type_.parts)))
    if type_.kind is Kind.ARRAY:
        return array(_without_modifiers(type_.parts[0]))
    return type_of_oid(type_facts(type_)[2]) or type_


@cache
def reader_of(type_: Type) -> Reader:
    """Return the function that reads a value of a type from its binary format."""
    match type_.kind:
        case Kind.BIGINT if type_ in (OID, XID):
            return lambda message: message.read_number("I")
        case Kind.BOOLEAN | Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.REAL | Kind.DOUBLE:
            form = STRUCT_FORMATS[type_.kind][1:]
            return lambda message: message.read_number(form)
        case Kind.DATE:
            return _epoch_reader("i", EPOCH_DAYS, type_)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _epoch_reader("q", EPOCH, type_)
        case Kind.TID:
            return _read_tid
        case Kind.TIME:
            return read_time
        case Kind.INTERVAL:
            return _read_interval
        case Kind.NUMERIC:
            return _read_numeric
        case Kind.UUID:
            return lambda message: str(uuid.UUID(bytes=message.read_bytes(16)))
        case Kind.BYTEA:
            return Message.read_rest
        case Kind.ARRAY:
            return _array_reader(type_.parts[0])
        case Kind.RECORD:
            return _record_reader(type_)
        case _ if type_.kind in TEXT_FORM_KINDS:
            return text_form_reader(type_)
        case Kind.JSONB:
            parse = codec_of(type_).parse
            return lambda message: parse(_read_jsonb_text(message))
        case _:
            parse = codec_of(type_).parse
            return lambda message: parse(decode_text(message.read_rest()))


def _read_jsonb_text(message: Message) -> str:
    version = message.read_number("B")
    if version != 1:
        raise data_error(f"unsupported jsonb version number {version}", "XX000")
    return decode_text(message.read_rest())


def _read_tid(message: Message) -> int:
    block, offset = message.read_numbers("IH")
    return block << 16 | offset


def read_time(message: Message) -> int:
    """Return microseconds since midnight."""
    microseconds: int = message.read_number("q")
    if not 0 <= microseconds <= DAY:
        raise data_error("time out of range", "22008")
    return microseconds


def _epoch_reader(format_: str, epoch: int, type_: Type) -> Reader:
    minimum, maximum = INTEGER_BOUNDS[format_]
    infinities = {minimum: EARLIEST, maximum: LATEST}
    codec = codec_of(type_)
    name = "date" if type_.kind is Kind.DATE else "timestamp"

    def read(message: Message) -> int:
        number = message.read_number(format_)
        found = infinities.get(number, number + epoch)
        try:
            codec.parse(codec.show(found))
        except (ValueError, ArithmeticError):
            raise data_error(f"{name} out of range", "22008") from None
        return found

    return read


def _read_interval(message: Message) -> Interval:
    microseconds, days, months = message.read_numbers("qii")
    return Interval(months, days, microseconds)


def _read_numeric(message: Message) -> Decimal:
    count, weight, sign, scale = message.read_numbers("HhHH")
    groups = message.read_numbers(f"{count}h")
    if scale > MAX_SCALE:
        raise data_error('invalid scale in external "numeric" value')
    if sign in (NAN, INFINITE, NEGATIVE_INFINITE):
        return Decimal({NAN: "NaN", INFINITE: "Infinity", NEGATIVE_INFINITE: "-Infinity"}[sign])
    if sign not in (0, NEGATIVE):
        raise data_error('invalid sign in external "numeric" value')
    if any(not 0 <= group < 10_000 for group in groups):
        raise data_error('invalid digit in external "numeric" value')
    digits = "".join(f"{group:04d}" for group in groups) or "0"
    places = 4 * (count - weight - 1) if count else 0
    value = Decimal((int(sign == NEGATIVE), tuple(map(int, digits)), -places))
    found = value.quantize(Decimal((0, (1,), -scale)), rounding=ROUND_DOWN, context=EXACT)
    return found if found else found.copy_abs()


def _array_reader(element: Type) -> Reader:
    read, expected = reader_of(element), type_facts(element)[2]

    def read_array(message: Message) -> Array:
        dimensions, flags, number = message.read_numbers("iiI")
        if not 0 <= dimensions <= MAX_DIMENSIONS:
            raise data_error(f"invalid number of dimensions: {dimensions}")
        if flags not in (0, 1):
            raise data_error("invalid array flags")
        if number != expected and not {number, expected} <= TEXT_OIDS:
            raise data_error(
                f"binary data has array element type {number} instead of expected {expected}", "42804"
            )
        bounds = [message.read_numbers("ii") for _ in range(dimensions)]
        count = int(bool(bounds))
        for length, _ in bounds:
            if length < 0:
                raise data_error(f"invalid array dimension: {length}")
            count *= length
        if 4 * count > len(message.data):  # each has its length
            raise data_error("insufficient data left in message", "08P01")
        items = tuple(message.read_field(read) for _ in range(count))
        if not items:
            return EMPTY
        return with_lower_bounds(
            Array(items, tuple(size for size, _ in bounds)), [first for _, first in bounds]
        )

    return read_array


def _record_reader(type_: Type) -> Reader:
    readers = tuple(map(reader_of, type_.parts))
    numbers = [type_facts(part)[2] for part in type_.parts]

    def read(message: Message) -> tuple[Any, ...]:
        count = message.read_number("i")
        if count != len(readers):
            raise data_error(f"wrong number of columns: {count}, expected {len(readers)}", "42804")
        found = []
        for place, (reader, expected) in enumerate(zip(readers, numbers, strict=True), 1):
            number = message.read_number("I")
            if number != expected and not {number, expected} <= TEXT_OIDS:
                raise data_error(
                    f"binary data has type {number} instead of expected {expected} in record column {place}",
                    "42804",
                )
            found.append(message.read_field(reader))
        return tuple(found)

    return read


MAX_ZONE_OFFSET: Final = 16 * 3600
"""Seconds; exclusive bound of a time zone's distance from UTC."""
IP_VERSIONS: Final = {family: version for version, family in FAMILY_CODES.items()}


def text_form_reader(type_: Type) -> Reader:
    """Return the function that reads a value whose Python form is a text, a tuple or an address."""
    match type_.kind:
        case Kind.BIT | Kind.VARBIT:
            return _read_bits
        case Kind.TIMETZ:
            return _read_timetz
        case Kind.PG_LSN:
            return lambda message: message.read_number("Q")
        case Kind.INET | Kind.CIDR:
            return lambda message: _read_address(message, type_.kind)
        case Kind.MACADDR:
            return lambda message: show_mac(message.read_bytes(6))
        case Kind.MACADDR8:
            return _read_macaddr8
        case Kind.RANGE:
            return _range_reader(type_.parts[0])
        case Kind.MULTIRANGE:
            inner = _range_reader(type_.parts[0])
            return lambda message: union(
                *(message.read_field(inner) or () for _ in range(_read_count(message)))
            )
        case _:
            raise AssertionError(type_)


def _read_count(message: Message) -> int:
    found: int = message.read_number("i")
    if not 0 <= found <= len(message.data):
        raise data_error(f"invalid count: {found}")
    return found


def _read_bits(message: Message) -> str:
    length = message.read_number("i")
    if length < 0:
        raise data_error("invalid length in external bit string")
    data = message.read_bytes(-(-length // 8))
    return "".join(f"{byte:08b}" for byte in data)[:length]


def _read_timetz(message: Message) -> tuple[int, int]:
    at, west = read_time(message), message.read_number("i")
    if not -MAX_ZONE_OFFSET < west < MAX_ZONE_OFFSET:
        raise data_error("time zone displacement out of range", "22009")
    return at, -west


def _read_address(message: Message, kind: Kind) -> Network:
    name = kind.value.lower()
    family, length, _, size = message.read_numbers("BBBB")
    version = IP_VERSIONS.get(family)
    if version is None:
        raise data_error(f'invalid address family in external "{name}" value')
    if length > ADDRESS_BITS[version]:
        raise data_error(f'invalid bits in external "{name}" value')
    if 8 * size != ADDRESS_BITS[version]:
        raise data_error(f'invalid length in external "{name}" value')
    found = Network(version, int.from_bytes(message.read_bytes(size), "big"), length)
    if kind is Kind.CIDR and found.bits & found.host_mask:
        raise data_error('invalid external "cidr" value')
    return found


def _read_macaddr8(message: Message) -> str:
    data = message.read_rest()
    if len(data) == 6:
        return widen_mac(show_mac(data))
    return show_mac(read_whole(data, lambda rest: rest.read_bytes(8)))


def _range_reader(bound: Type) -> Reader:
    read = reader_of(bound)

    def read_range(message: Message) -> Ranges:
        flags = message.read_number("B")
        if flags & EMPTY_FLAG:
            return ()
        low = None if flags & LOWER_INFINITE else message.read_field(read)
        high = None if flags & UPPER_INFINITE else message.read_field(read)
        bounds = ("[" if flags & LOWER_INCLUSIVE else "(") + ("]" if flags & UPPER_INCLUSIVE else ")")
        try:
            return make_range(low, high, bounds, bound)
        except ValueError as error:
            raise data_error(str(error), "22000") from None

    return read_range
