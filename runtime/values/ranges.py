"""Ranges and multiranges.

A value is a tuple of pairs of *places*, the lower and the upper end of each range, in order and disjoint. A
range has one pair, or none if it is empty. A place is before a value, ``(0, value, 0)``, after it, ``(0,
value, 1)``, before all values, ``(-1,)``, or after all, ``(1,)``. So ``[1,2]`` ends after 2 and ``[1,2)``
before it, and every test of bounds is a comparison of places.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values import codec as parts
from kpg.runtime.values.codec import Codec, codec_of, spelled
from kpg.runtime.values.words import BLANKS, INTEGER_LIMITS, is_infinite

Place = tuple[Any, ...]
Ranges = tuple[tuple[Place, Place], ...]

FIRST: Final[Place] = (-1,)
LAST: Final[Place] = (1,)
EMPTY: Final[Ranges] = ()
DISCRETE: Final = frozenset({Kind.INTEGER, Kind.BIGINT, Kind.DATE})
"""Between their values there is nothing: their ranges begin with their first value and end before one."""
SPECIAL: Final = re.compile(r'(?a)[\s"\\(),\[\]{}]')
BOUND: Final = re.compile(r'((?:"(?:[^"\\]|\\.|"")*"|\\.|[^"\\,\[\]()])*)', re.DOTALL)


def codec(type_: Type) -> Codec:
    """The codec of ranges, or of sets of them, between values of a type."""
    (bound,) = type_.parts
    inner = codec_of(bound)

    def one(text: str) -> Ranges:
        return _read(text, bound, inner.parse)

    def shown(value: Ranges) -> str:
        return _shown(value, inner.show)

    def encode(value: Ranges) -> str:
        return _encoded(value, inner.encode)

    def decode(string: str) -> Ranges:
        return _decoded(string, inner.decode)

    if type_.kind is Kind.RANGE:
        return spelled(one, shown, encode, decode, "a text such as '[1,5)'")
    return spelled(
        lambda text: union(*map(one, _listed(text))),
        lambda value: "{" + ",".join(shown((pair,)) for pair in value) + "}",
        lambda value: parts.joined(encode((pair,)) for pair in value),
        lambda string: tuple(decode(part)[0] for part in parts.split(string)[0] if part is not None),
        "a text such as '{[1,5),[7,9)}'",
    )


def writer(type_: Type, bound: Callable[[Any], str]) -> Callable[[Any], str]:
    """How ranges, or sets of them, are written whose bounds are written so."""
    if type_.kind is Kind.RANGE:
        return lambda value: _shown(value, bound)
    return lambda value: "{" + ",".join(_shown((pair,), bound) for pair in value) + "}"


def made(low: Any, high: Any, bounds: str, bound: Type) -> Ranges:
    """The range between two values, None for no bound; ValueError if they are the wrong way round."""
    if bounds not in ("[)", "(]", "[]", "()"):
        raise ValueError("invalid range bound flags")
    start = FIRST if low is None else (0, low, int(bounds[0] == "("))
    end = LAST if high is None else (0, high, int(bounds[1] == "]"))
    if low is not None and high is not None and low > high:
        raise ValueError("range lower bound must be less than or equal to range upper bound")
    if bound.kind in DISCRETE:
        start, end = _next(start, bound), _next(end, bound)
    return ((start, end),) if start < end else EMPTY


def _next(place: Place, bound: Type) -> Place:
    """Behind a whole number is before the next one; behind an infinite day there is none."""
    if len(place) == 1 or not place[2] or (bound.kind is Kind.DATE and is_infinite(place[1])):
        return place
    if place[1] == INTEGER_LIMITS.get(bound.kind, (0, None))[1]:
        raise OverflowError("integer out of range")
    return (0, place[1] + 1, 0)


def union(*values: Ranges) -> Ranges:
    """All that is in one of them."""
    found: list[tuple[Place, Place]] = []
    for start, end in sorted(pair for value in values for pair in value):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """What is in both."""
    pairs = ((max(a[0], b[0]), min(a[1], b[1])) for a in left for b in right)
    return tuple(sorted(pair for pair in pairs if pair[0] < pair[1]))


def difference(left: Ranges, right: Ranges) -> Ranges:
    """What is in the first and not in the second."""
    rest = list(left)
    for start, end in right:
        cut = [piece for low, high in rest for piece in ((low, min(high, start)), (max(low, end), high))]
        rest = [piece for piece in cut if piece[0] < piece[1]]
    return tuple(rest)


def contains(left: Ranges, right: Ranges) -> bool:
    """Whether all of the second is in the first."""
    return all(any(a[0] <= b[0] and b[1] <= a[1] for a in left) for b in right)


def point(value: Any) -> Ranges:
    """The range of one value."""
    return (((0, value, 0), (0, value, 1)),)


def has(value: Ranges, inner: Any) -> bool:
    """Whether a value is in one of the ranges."""
    place = (0, inner, 0)
    return any(start <= place < end for start, end in value)


def whole(value: Ranges) -> Ranges:
    """The smallest range around all of them."""
    return ((value[0][0], value[-1][1]),) if value else EMPTY


def adjacent(left: Ranges, right: Ranges) -> bool:
    """Whether one ends where the other begins."""
    return bool(left and right) and (left[-1][1] == right[0][0] or right[-1][1] == left[0][0])


def over(value: Ranges, change: Callable[[Any], Any]) -> Ranges:
    """The ranges with something done to the values of their bounds."""

    def changed(place: Place) -> Place:
        return place if len(place) == 1 else (0, change(place[1]), place[2])

    return tuple((changed(start), changed(end)) for start, end in value)


def _shown(value: Ranges, show: Callable[[Any], str]) -> str:
    if not value:
        return "empty"
    ((start, end),) = value
    low = "(" if len(start) == 1 else f"{'(' if start[2] else '['}{_quoted(show(start[1]))}"
    high = ")" if len(end) == 1 else f"{_quoted(show(end[1]))}{']' if end[2] else ')'}"
    return f"{low},{high}"


def _quoted(text: str) -> str:
    if text and not SPECIAL.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _read(text: str, bound: Type, parse: Callable[[str], Any]) -> Ranges:
    text = text.strip(BLANKS)
    if text.lower() == "empty":
        return EMPTY
    if text[:1] not in ("[", "(") or text[-1:] not in ("]", ")") or len(text) < 3:
        raise ValueError("malformed range literal")
    low = BOUND.match(text, 1)
    assert low is not None
    high = BOUND.match(text, low.end() + 1)
    if text[low.end()] != "," or high is None or high.end() != len(text) - 1:
        raise ValueError("malformed range literal")
    first, last = (_unquoted(one[1], parse) for one in (low, high))
    return made(first, last, text[0] + text[-1], bound)


def _unquoted(text: str, parse: Callable[[str], Any]) -> Any:
    if not text:
        return None
    plain = re.sub(
        r'\\(.)|""|"', lambda one: one[1] or ('"' if one[0] == '""' else ""), text, flags=re.DOTALL
    )
    return parse(plain)


def _listed(text: str) -> list[str]:
    text = text.strip(BLANKS)
    if text[:1] != "{" or text[-1:] != "}":
        raise ValueError("malformed multirange literal")
    inner = text[1:-1].strip(BLANKS)
    found = re.findall(r'[\[(](?:"(?:[^"\\]|\\.|"")*"|[^"\])])*[\])]|empty', inner, re.IGNORECASE)
    if re.sub(r"(?a)\s", "", ",".join(found)) != re.sub(r"(?a)\s", "", inner):
        raise ValueError("malformed multirange literal")
    return found


def _encoded(value: Ranges, encode: Callable[[Any], str]) -> str:
    if not value:
        return "e"
    ((start, end),) = value
    return f"r{_place(start, encode)}{_place(end, encode)}"


def _place(place: Place, encode: Callable[[Any], str]) -> str:
    if len(place) == 1:
        return "a" if place == FIRST else "c"
    return f"b{parts.escaped(encode(place[1]))}{parts.END}{place[2]}"


def _decoded(string: str, decode: Callable[[str], Any]) -> Ranges:
    if string == "e":
        return EMPTY
    places: list[Place] = []
    position = 1
    while position < len(string):
        if string[position] == "b":
            stop = string.index(parts.END, position)
            places.append((0, decode(parts.plain(string[position + 1 : stop])), int(string[stop + 1])))
            position = stop + 2
        else:
            places.append(FIRST if string[position] == "a" else LAST)
            position += 1
    return ((places[0], places[1]),)
