"""Binary forms of bit strings, addresses, ranges and others that are texts in Python, read."""

from typing import Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.networks import WIDTHS, Network, shown_mac, wide_mac
from kpg.runtime.values.ranges import Ranges, made, union
from kpg.server.binary_forms import (
    EMPTY,
    FAMILIES,
    LOWER_INCLUSIVE,
    LOWER_INFINITE,
    UPPER_INCLUSIVE,
    UPPER_INFINITE,
)
from kpg.server.received import Message, Reader, refusal, time, whole
from kpg.server.received import reader_of as plain_reader_of

FURTHEST_ZONE: Final = 16 * 3600
"""Seconds that a zone is less far from Greenwich."""
VERSIONS: Final = {family: version for version, family in FAMILIES.items()}


def reader_of(type_: Type) -> Reader:
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
    read = plain_reader_of(bound)

    def value(message: Message) -> Ranges:
        flags = message.number("B")
        if flags & EMPTY:
            return ()
        low = None if flags & LOWER_INFINITE else message.inner(read)
        high = None if flags & UPPER_INFINITE else message.inner(read)
        bounds = ("[" if flags & LOWER_INCLUSIVE else "(") + ("]" if flags & UPPER_INCLUSIVE else ")")
        try:
            return made(low, high, bounds, bound)
        except ValueError as error:
            raise refusal(str(error), "22000") from None

    return value
