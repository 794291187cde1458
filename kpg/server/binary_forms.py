"""Binary forms of bit strings, addresses, ranges and other types that are texts in Python."""

import struct
from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.types import Kind, Type, range_of
from kpg.runtime.values.networks import Network, mac_bytes
from kpg.runtime.values.ranges import FIRST, LAST, Ranges

Writer = Callable[[Any], bytes]
FAMILIES: Final = {4: 2, 6: 3}
"""What Postgres writes for the version of an address."""
EMPTY, LOWER_INCLUSIVE, UPPER_INCLUSIVE, LOWER_INFINITE, UPPER_INFINITE = 1, 2, 4, 8, 16
"""The flags of a range."""


def writer_of(type_: Type, plain: Callable[[Type], Writer]) -> Writer:
    """From a value to its binary form; ``plain`` gives that of other types."""
    match type_.kind:
        case Kind.BIT | Kind.VARBIT:
            return _bits
        case Kind.TIMETZ:
            return lambda value: struct.pack("!qi", value[0], -value[1])
        case Kind.PG_LSN:
            return struct.Struct("!Q").pack
        case Kind.INET | Kind.CIDR:
            return lambda value: _address(value, network=type_.kind is Kind.CIDR)
        case Kind.MACADDR | Kind.MACADDR8:
            return mac_bytes
        case Kind.RANGE:
            bound = plain(type_.parts[0])
            return lambda value: _range(value, bound)
        case Kind.MULTIRANGE:
            inner = writer_of(range_of(type_.parts[0]), plain)
            return lambda value: (
                struct.pack("!i", len(value))
                + b"".join(struct.pack("!i", len(one)) + one for one in (inner((pair,)) for pair in value))
            )
        case _:
            raise AssertionError(type_)


def _bits(value: str) -> bytes:
    size = -(-len(value) // 8)
    return struct.pack("!i", len(value)) + int(value.ljust(8 * size, "0") or "0", 2).to_bytes(size, "big")


def _address(value: Network, *, network: bool) -> bytes:
    size = value.width // 8
    head = bytes([FAMILIES[value.family], value.length, int(network), size])
    return head + value.bits.to_bytes(size, "big")


def _range(value: Ranges, bound: Writer) -> bytes:
    if not value:
        return bytes([EMPTY])
    ((start, end),) = value
    flags = LOWER_INFINITE if start == FIRST else 0 if start[2] else LOWER_INCLUSIVE
    flags |= UPPER_INFINITE if end == LAST else UPPER_INCLUSIVE if end[2] else 0
    bounds = [bound(place[1]) for place in (start, end) if len(place) > 1]
    return bytes([flags]) + b"".join(struct.pack("!i", len(one)) + one for one in bounds)
