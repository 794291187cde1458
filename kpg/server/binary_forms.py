"""Binary forms of bit strings, addresses, ranges and other types that are texts in Python."""

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from kpg.runtime.types import SHAPE_KINDS, Kind, Type, range_of
from kpg.runtime.values.networks import Network, mac_bytes
from kpg.runtime.values.ranges import FIRST, LAST, Ranges
from kpg.runtime.values.textsearch import Not, Query, Term, Words

Writer = Callable[[Any], bytes]
FAMILIES: Final = {4: 2, 6: 3}
"""What Postgres writes for the version of an address."""
EMPTY, LOWER_INCLUSIVE, UPPER_INCLUSIVE, LOWER_INFINITE, UPPER_INFINITE = 1, 2, 4, 8, 16
"""The flags of a range."""
VALUE, OPERATOR = 1, 2
"""What an item of a TSQUERY is."""
SIGNS: Final = {"!": 1, "&": 2, "|": 3, "<": 4}
"""The operators of a TSQUERY."""


def writer_of(type_: Type, plain: Callable[[Type], Writer]) -> Writer:
    """From a value to its binary form; ``plain`` gives that of other types."""
    match type_.kind:
        case Kind.BIT | Kind.VARBIT:
            return _bits
        case Kind.TIMETZ:
            return lambda value: struct.pack("!qi", value[0], -value[1])
        case Kind.MONEY:
            return struct.Struct("!q").pack
        case Kind.PG_LSN:
            return struct.Struct("!Q").pack
        case Kind.INET | Kind.CIDR:
            return lambda value: _address(value, network=type_.kind is Kind.CIDR)
        case Kind.MACADDR | Kind.MACADDR8:
            return mac_bytes
        case Kind.TSVECTOR:
            return _words
        case Kind.TSQUERY:
            return lambda value: _query(value.query)
        case _ if type_.kind in SHAPE_KINDS:
            return lambda value: _shape(value, type_.kind)
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


def _shape(value: Any, kind: Kind) -> bytes:
    """Numbers; before the points of a path whether it is closed, and before many points how many."""
    if kind in (Kind.PATH, Kind.POLYGON):
        head = struct.pack("!b", value.closed) if kind is Kind.PATH else b""
        return (
            head
            + struct.pack("!i", len(value.points))
            + b"".join(struct.pack("!dd", *p) for p in value.points)
        )
    numbers = [number for part in value for number in (part if isinstance(part, tuple) else (part,))]
    return struct.pack(f"!{len(numbers)}d", *numbers)


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


def _words(value: Words) -> bytes:
    fields = [struct.pack("!i", len(value))]
    for lexeme, places in value.items():
        numbers = [place.weight << 14 | place.at for place in places]
        fields.append(lexeme.encode() + b"\0" + struct.pack(f"!{len(numbers) + 1}H", len(numbers), *numbers))
    return b"".join(fields)


def _query(value: Query | None) -> bytes:
    items = [] if value is None else list(_items(value))
    return struct.pack("!i", len(items)) + b"".join(items)


def _items(query: Query) -> Iterator[bytes]:
    """An operator comes before its operands, of which the right one is the first."""
    if isinstance(query, Term):
        yield struct.pack("!BBB", VALUE, query.weights, query.prefix) + query.lexeme.encode() + b"\0"
    elif isinstance(query, Not):
        yield bytes([OPERATOR, SIGNS["!"]])
        yield from _items(query.operand)
    else:
        distance = struct.pack("!h", query.distance) if query.sign == "<" else b""
        yield bytes([OPERATOR, SIGNS[query.sign]]) + distance
        yield from _items(query.right)
        yield from _items(query.left)
