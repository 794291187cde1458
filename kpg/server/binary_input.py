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
from kpg.compiler.system.oids import array_number, number_of, type_facts
from kpg.runtime.errors import DataError, no_text
from kpg.runtime.types import OID, SPELLED_KINDS, TEXT_KINDS, XID, Kind, Type, array, range_of, record
from kpg.runtime.types import multirange_of as multirange
from kpg.runtime.values import codec_of
from kpg.runtime.values.arrays import EMPTY, MOST_DIMENSIONS, Array, counted
from kpg.runtime.values.intervals import Interval
from kpg.runtime.values.networks import WIDTHS, Network, shown_mac, wide_mac
from kpg.runtime.values.numeric import EXACT, MOST_SCALE
from kpg.runtime.values.ranges import Ranges, made, union
from kpg.runtime.values.words import DAY, EARLIEST, LATEST
from kpg.server.binary_format import EMPTY as EMPTY_FLAG
from kpg.server.binary_format import (
    ENDS_OF_FORMS,
    EPOCH,
    EPOCH_DAYS,
    FAMILIES,
    INFINITE,
    LESS,
    LOWER_INCLUSIVE,
    LOWER_INFINITE,
    NAN,
    NEGATIVE,
    PLAIN,
    UPPER_INCLUSIVE,
    UPPER_INFINITE,
)

Reader = Callable[["Message"], Any]
"""From what is left of a message to a value; DataError if it is malformed."""
MALFORMED: Final = "22P03"
TEXT: Final = Type(Kind.VARCHAR)
BOUNDS: Final = (Kind.INTEGER, Kind.BIGINT, Kind.NUMERIC, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
"""Of what there are ranges."""
NO_NUMBERS: Final = frozenset({Kind.ARRAY, Kind.RANGE, Kind.MULTIRANGE, Kind.RECORD, Kind.ENUM})
"""Kinds that are no types yet: it takes their parts, or their name."""
SHORTENED: Final = frozenset({Kind.DECIMAL, Kind.INTERVAL_MONTH, Kind.INTERVAL_DAY, Kind.ROWID})
"""Kinds that have the number of another, which has all of their values."""
LIKE_TEXT: Final = frozenset({18, 19, 25, 194, 705, 1042, 1043})
"""The numbers of types whose values are texts in both forms."""
BY_NAME: Final = MappingProxyType(
    {24: "regproc", 2202: "regprocedure", 2203: "regoper", 2204: "regoperator", 2205: "regclass"}
    | {2206: "regtype", 3734: "regconfig", 3769: "regdictionary", 4089: "regnamespace", 4096: "regrole"}
)
"""The numbers of types whose binary form is the number of an object."""


def refusal(message: str, state: str = MALFORMED) -> DataError:
    """What a malformed form is refused with."""
    refused = DataError(message)
    refused.sqlstate = state
    return refused


class Message:
    """A binary form, read from its start on."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes; DataError if there are not so many."""
        if count < 0 or self.at + count > len(self.data):
            raise refusal("insufficient data left in message", "08P01")
        self.at += count
        return self.data[self.at - count : self.at]

    def numbers(self, form: str) -> tuple[Any, ...]:
        """The next numbers, of a form of ``struct``."""
        form = f"!{form}"
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def number(self, form: str) -> Any:
        """The next number."""
        return self.numbers(form)[0]

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self.data) - self.at)

    def inner(self, read: Reader) -> Any:
        """What has its length before it; None if that is below zero."""
        length = self.number("i")
        return None if length < 0 else whole(self.take(length), read)


def whole(data: bytes, read: Reader) -> Any:
    """The value whose form takes all of the bytes."""
    message = Message(data)
    try:
        value = read(message)
    except (ValueError, ArithmeticError, IndexError) as error:
        raise refusal(f"incorrect binary data format: {error}") from None
    if message.at != len(data):
        raise refusal("incorrect binary data format")
    return value


def text_in(data: bytes) -> str:
    """The text that bytes are; DataError if they are none, or have a zero in them."""
    wrong = b"\0"
    try:
        text = data.decode()
        if "\0" not in text:
            return text
    except UnicodeDecodeError as error:
        wrong = data[error.start : error.end]
    raise no_text(wrong)


def text_of(data: bytes, type_: Type) -> str:
    """The text of a value of a type; DataError if its form is malformed."""
    if type_.kind in TEXT_KINDS or type_.kind in (Kind.JSON, Kind.ENUM):
        return text_in(data)
    plain = _plain(type_)
    return codec_of(plain).show(whole(data, reader_of(plain)))


def text_of_number(data: bytes, number: int, known: Mapping[int, Type]) -> str:
    """The text of a value of the type of a number; ``known`` are those that users have made."""
    if number in BY_NAME:
        return str(whole(data, lambda message: message.number("I")))
    type_ = type_of(number) or known.get(number)
    if type_ is None:
        raise refusal(f"no binary input function available for type {number}", "42883")
    return text_of(data, type_)


@cache
def _numbered() -> Mapping[int, Type]:
    """The types that are not made by users, by their numbers."""
    simple = [Type(kind) for kind in Kind if kind not in NO_NUMBERS | SHORTENED]
    bounds = [Type(kind) for kind in BOUNDS]
    plain = [*simple, OID, XID, *map(range_of, bounds), *map(multirange, bounds)]
    found = {type_facts(type_)[2]: type_ for type_ in plain}
    arrays = {type_facts(array(type_))[2]: array(type_) for type_ in plain}
    texts = {type_facts(array(Type(Kind.VARCHAR)))[2]: array(TEXT), 1003: array(TEXT), 1015: array(TEXT)}
    return MappingProxyType(arrays | found | texts | dict.fromkeys(LIKE_TEXT, TEXT))


def type_of(number: int) -> Type | None:
    """The type of a number, but for those that users have made."""
    return _numbered().get(number)


def types_of_users(catalog: Catalog) -> dict[int, Type]:
    """The types that users have made, rows of their relations and arrays of both, by their numbers."""
    listed = {number_of("type", name): one for name, one in catalog.types.items()}
    found = {number: one.type if isinstance(one, Domain) else one for number, one in listed.items()}
    for name, entry in catalog.entries.items():
        row = record(list(entry.schema.types), list(entry.schema.names))
        found[number_of("type", name)] = replace(row, name=entry.name)
    return found | {array_number(number): array(type_) for number, type_ in found.items()}


def _plain(type_: Type) -> Type:
    """The type without lengths and digits: what it is of another matter once the value is known."""
    if type_.kind is Kind.RECORD:
        return replace(type_, parts=tuple(map(_plain, type_.parts)))
    if type_.kind is Kind.ARRAY:
        return array(_plain(type_.parts[0]))
    return type_of(type_facts(type_)[2]) or type_


@cache
def reader_of(type_: Type) -> Reader:
    """From a binary form to the value."""
    match type_.kind:
        case Kind.BIGINT if type_ in (OID, XID):
            return lambda message: message.number("I")
        case Kind.BOOLEAN | Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.REAL | Kind.DOUBLE:
            form = PLAIN[type_.kind][1:]
            return lambda message: message.number(form)
        case Kind.DATE:
            return _moment("i", EPOCH_DAYS, type_)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _moment("q", EPOCH, type_)
        case Kind.TID:
            return _place
        case Kind.TIME:
            return time
        case Kind.INTERVAL:
            return _interval
        case Kind.NUMERIC:
            return _numeric
        case Kind.UUID:
            return lambda message: str(uuid.UUID(bytes=message.take(16)))
        case Kind.BYTEA:
            return Message.rest
        case Kind.ARRAY:
            return _array(type_.parts[0])
        case Kind.RECORD:
            return _record(type_)
        case _ if type_.kind in SPELLED_KINDS:
            return form_reader_of(type_)
        case Kind.JSONB:
            parse = codec_of(type_).parse
            return lambda message: parse(_versioned(message))
        case _:
            parse = codec_of(type_).parse
            return lambda message: parse(text_in(message.rest()))


def _versioned(message: Message) -> str:
    version = message.number("B")
    if version != 1:
        raise refusal(f"unsupported jsonb version number {version}", "XX000")
    return text_in(message.rest())


def _place(message: Message) -> int:
    block, offset = message.numbers("IH")
    return block << 16 | offset


def time(message: Message) -> int:
    """Microseconds since midnight."""
    found: int = message.number("q")
    if not 0 <= found <= DAY:
        raise refusal("time out of range", "22008")
    return found


def _moment(form: str, epoch: int, type_: Type) -> Reader:
    least, most = ENDS_OF_FORMS[form]
    ends = {least: EARLIEST, most: LATEST}
    codec = codec_of(type_)
    name = "date" if type_.kind is Kind.DATE else "timestamp"

    def read(message: Message) -> int:
        number = message.number(form)
        found = ends.get(number, number + epoch)
        try:
            codec.parse(codec.show(found))
        except (ValueError, ArithmeticError):
            raise refusal(f"{name} out of range", "22008") from None
        return found

    return read


def _interval(message: Message) -> Interval:
    microseconds, days, months = message.numbers("qii")
    return Interval(months, days, microseconds)


def _numeric(message: Message) -> Decimal:
    count, weight, sign, scale = message.numbers("HhHH")
    groups = message.numbers(f"{count}h")
    if scale > MOST_SCALE:
        raise refusal('invalid scale in external "numeric" value')
    if sign in (NAN, INFINITE, LESS):
        return Decimal({NAN: "NaN", INFINITE: "Infinity", LESS: "-Infinity"}[sign])
    if sign not in (0, NEGATIVE):
        raise refusal('invalid sign in external "numeric" value')
    if any(not 0 <= group < 10_000 for group in groups):
        raise refusal('invalid digit in external "numeric" value')
    digits = "".join(f"{group:04d}" for group in groups) or "0"
    places = 4 * (count - weight - 1) if count else 0
    value = Decimal((int(sign == NEGATIVE), tuple(map(int, digits)), -places))
    found = value.quantize(Decimal((0, (1,), -scale)), rounding=ROUND_DOWN, context=EXACT)
    return found if found else found.copy_abs()


def _array(element: Type) -> Reader:
    read, expected = reader_of(element), type_facts(element)[2]

    def written(message: Message) -> Array:
        dimensions, flags, number = message.numbers("iiI")
        if not 0 <= dimensions <= MOST_DIMENSIONS:
            raise refusal(f"invalid number of dimensions: {dimensions}")
        if flags not in (0, 1):
            raise refusal("invalid array flags")
        if number != expected and not {number, expected} <= LIKE_TEXT:
            raise refusal(
                f"binary data has array element type {number} instead of expected {expected}", "42804"
            )
        bounds = [message.numbers("ii") for _ in range(dimensions)]
        count = int(bool(bounds))
        for length, _ in bounds:
            if length < 0:
                raise refusal(f"invalid array dimension: {length}")
            count *= length
        if 4 * count > len(message.data):  # each has its length
            raise refusal("insufficient data left in message", "08P01")
        items = tuple(message.inner(read) for _ in range(count))
        if not items:
            return EMPTY
        return counted(Array(items, tuple(size for size, _ in bounds)), [first for _, first in bounds])

    return written


def _record(type_: Type) -> Reader:
    readers = tuple(map(reader_of, type_.parts))
    numbers = [type_facts(part)[2] for part in type_.parts]

    def read(message: Message) -> tuple[Any, ...]:
        count = message.number("i")
        if count != len(readers):
            raise refusal(f"wrong number of columns: {count}, expected {len(readers)}", "42804")
        found = []
        for place, (one, expected) in enumerate(zip(readers, numbers, strict=True), 1):
            number = message.number("I")
            if number != expected and not {number, expected} <= LIKE_TEXT:
                raise refusal(
                    f"binary data has type {number} instead of expected {expected} in record column {place}",
                    "42804",
                )
            found.append(message.inner(one))
        return tuple(found)

    return read


FURTHEST_ZONE: Final = 16 * 3600
"""Seconds that a zone is less far from Greenwich."""
VERSIONS: Final = {family: version for version, family in FAMILIES.items()}


def form_reader_of(type_: Type) -> Reader:
    """From a binary form to the value."""
    match type_.kind:
        case Kind.BIT | Kind.VARBIT:
            return _bits
        case Kind.TIMETZ:
            return _timetz
        case Kind.PG_LSN:
            return lambda message: message.number("Q")
        case Kind.INET | Kind.CIDR:
            return lambda message: _address(message, type_.kind)
        case Kind.MACADDR:
            return lambda message: shown_mac(message.take(6))
        case Kind.MACADDR8:
            return _long_address
        case Kind.RANGE:
            return _range(type_.parts[0])
        case Kind.MULTIRANGE:
            inner = _range(type_.parts[0])
            return lambda message: union(*(message.inner(inner) or () for _ in range(_count(message))))
        case _:
            raise AssertionError(type_)


def _count(message: Message) -> int:
    found: int = message.number("i")
    if not 0 <= found <= len(message.data):
        raise refusal(f"invalid count: {found}")
    return found


def _bits(message: Message) -> str:
    length = message.number("i")
    if length < 0:
        raise refusal("invalid length in external bit string")
    data = message.take(-(-length // 8))
    return "".join(f"{byte:08b}" for byte in data)[:length]


def _timetz(message: Message) -> tuple[int, int]:
    at, west = time(message), message.number("i")
    if not -FURTHEST_ZONE < west < FURTHEST_ZONE:
        raise refusal("time zone displacement out of range", "22009")
    return at, -west


def _address(message: Message, kind: Kind) -> Network:
    name = kind.value.lower()
    family, length, _, size = message.numbers("BBBB")
    version = VERSIONS.get(family)
    if version is None:
        raise refusal(f'invalid address family in external "{name}" value')
    if length > WIDTHS[version]:
        raise refusal(f'invalid bits in external "{name}" value')
    if 8 * size != WIDTHS[version]:
        raise refusal(f'invalid length in external "{name}" value')
    found = Network(version, int.from_bytes(message.take(size), "big"), length)
    if kind is Kind.CIDR and found.bits & found.hosts:
        raise refusal('invalid external "cidr" value')
    return found


def _long_address(message: Message) -> str:
    data = message.rest()
    if len(data) == 6:
        return wide_mac(shown_mac(data))
    return shown_mac(whole(data, lambda rest: rest.take(8)))


def _range(bound: Type) -> Reader:
    read = reader_of(bound)

    def value(message: Message) -> Ranges:
        flags = message.number("B")
        if flags & EMPTY_FLAG:
            return ()
        low = None if flags & LOWER_INFINITE else message.inner(read)
        high = None if flags & UPPER_INFINITE else message.inner(read)
        bounds = ("[" if flags & LOWER_INCLUSIVE else "(") + ("]" if flags & UPPER_INCLUSIVE else ")")
        try:
            return made(low, high, bounds, bound)
        except ValueError as error:
            raise refusal(str(error), "22000") from None

    return value
