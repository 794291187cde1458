"""Binary forms of bit strings, addresses, ranges and others that are texts in Python, read."""

import itertools
import math
from typing import Any, Final

from kpg.runtime.types import SHAPE_KINDS, Kind, Type
from kpg.runtime.values import geometry, textsearch
from kpg.runtime.values.networks import WIDTHS, Network, shown_mac, wide_mac
from kpg.runtime.values.ranges import Ranges, made, union
from kpg.server.binary_forms import (
    EMPTY,
    FAMILIES,
    LOWER_INCLUSIVE,
    LOWER_INFINITE,
    OPERATOR,
    SIGNS,
    UPPER_INCLUSIVE,
    UPPER_INFINITE,
    VALUE,
)
from kpg.server.received import Message, Reader, refusal, time, whole
from kpg.server.received import reader_of as plain_reader_of

FURTHEST_ZONE: Final = 16 * 3600
"""Seconds that a zone is less far from Greenwich."""
VERSIONS: Final = {family: version for version, family in FAMILIES.items()}
OPERATORS: Final = {number: sign for sign, number in SIGNS.items()}
DEEPEST: Final = 500
"""Operators inside of each other."""


def reader_of(type_: Type) -> Reader:
    """From a binary form to the value."""
    match type_.kind:
        case Kind.BIT | Kind.VARBIT:
            return _bits
        case Kind.TIMETZ:
            return _timetz
        case Kind.MONEY:
            return lambda message: message.number("q")
        case Kind.PG_LSN:
            return lambda message: message.number("Q")
        case Kind.INET | Kind.CIDR:
            return lambda message: _address(message, type_.kind)
        case Kind.MACADDR:
            return lambda message: shown_mac(message.take(6))
        case Kind.MACADDR8:
            return _long_address
        case Kind.TSVECTOR:
            return _words
        case Kind.TSQUERY:
            return _query
        case Kind.RANGE:
            return _range(type_.parts[0])
        case Kind.MULTIRANGE:
            inner = _range(type_.parts[0])
            return lambda message: union(*(message.inner(inner) or () for _ in range(_count(message))))
        case _ if type_.kind in SHAPE_KINDS:
            return lambda message: _shape(message, type_.kind)
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


def _points(message: Message, kind: Kind) -> tuple[geometry.Point, ...]:
    count = _count(message)
    if not count:
        raise refusal(f'invalid number of points in external "{kind.value.lower()}" value')
    return tuple(geometry.Point(*message.numbers("dd")) for _ in range(count))


def _shape(message: Message, kind: Kind) -> Any:
    match kind:
        case Kind.POINT:
            return geometry.Point(*message.numbers("dd"))
        case Kind.LINE:
            line = geometry.Line(*message.numbers("ddd"))
            if abs(line.a) <= geometry.EPSILON and abs(line.b) <= geometry.EPSILON:
                raise refusal("invalid line specification: A and B cannot both be zero")
            return line
        case Kind.LSEG:
            return geometry.Segment(*(geometry.Point(*message.numbers("dd")) for _ in range(2)))
        case Kind.BOX:
            return geometry.box_of(*(geometry.Point(*message.numbers("dd")) for _ in range(2)))
        case Kind.PATH:
            closed = message.number("?")
            return geometry.Path(_points(message, kind), closed)
        case Kind.POLYGON:
            return geometry.Polygon(_points(message, kind))
        case _:
            center, radius = geometry.Point(*message.numbers("dd")), message.number("d")
            if not (radius >= 0 or math.isnan(radius)):
                raise refusal('invalid radius in external "circle" value')
            return geometry.Circle(center, radius)


def _words(message: Message) -> textsearch.Words:
    found = []
    for _ in range(_count(message)):
        lexeme = message.line()
        (places,) = message.numbers("H")
        if places > textsearch.MOST_PLACES:
            raise refusal("invalid tsvector: number of positions exceeds maximum", "XX000")
        listed = message.numbers(f"{places}H")
        at = [one & 0x3FFF for one in listed]
        if any(left >= right for left, right in itertools.pairwise(at)):
            raise refusal("position information is misordered", "XX000")
        found.append((lexeme, [textsearch.Place(one & 0x3FFF, one >> 14) for one in listed]))
    return textsearch.vector(found)


def _query(message: Message) -> textsearch.Asked:
    count = _count(message)
    return textsearch.Asked(_item(message, 0) if count else None)


def _item(message: Message, depth: int) -> textsearch.Query:
    """An operator comes before its operands, of which the right one is the first."""
    if depth > DEEPEST:
        raise refusal("malformed tsquery: operators are too deep inside of each other")
    kind = message.number("B")
    if kind == VALUE:
        weights, prefix = message.numbers("B?")
        if weights > 15:
            raise refusal("invalid tsquery: invalid weight bitmap", "XX000")
        return textsearch.Term(message.line(), weights, prefix)
    sign = OPERATORS.get(message.number("B")) if kind == OPERATOR else None
    if sign is None:
        raise refusal("unrecognized tsquery node", "XX000")
    if sign == "!":
        return textsearch.Not(_item(message, depth + 1))
    distance = message.number("h") if sign == "<" else 1
    right = _item(message, depth + 1)
    return textsearch.Pair(sign, _item(message, depth + 1), right, distance)
