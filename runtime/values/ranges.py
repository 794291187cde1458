"""Ranges and multiranges.

A value is a tuple of pairs of *bounds*, the lower and the upper bound of each range, in order and
disjoint. A range has one pair, or none if it is empty. A bound is before a value, ``(0, value, 0)``,
after it, ``(0, value, 1)``, before all values, ``(-1,)``, or after all, ``(1,)``. So ``[1,2]`` ends
after 2 and ``[1,2)`` before it, and every test is a comparison of bounds.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values import codec as parts
from kpg.runtime.values.codec import Codec, codec_of, text_codec
from kpg.runtime.values.words import BLANKS, INTEGER_LIMITS, is_infinite

Bound = tuple[Any, ...]
Ranges = tuple[tuple[Bound, Bound], ...]

BEFORE_ALL: Final[Bound] = (-1,)
AFTER_ALL: Final[Bound] = (1,)
EMPTY: Final[Ranges] = ()
DISCRETE_KINDS: Final = frozenset({Kind.INTEGER, Kind.BIGINT, Kind.DATE})
"""Discrete types, whose ranges have the canonical form ``[lower,upper)``."""
SPECIAL: Final = re.compile(r'(?a)[\s"\\(),\[\]{}]')
BOUND_TEXT: Final = re.compile(r'((?:"(?:[^"\\]|\\.|"")*"|\\.|[^"\\,\[\]()])*)', re.DOTALL)


def codec(type_: Type) -> Codec:
    """Return the codec of ranges or multiranges of a type."""
    (bound,) = type_.parts
    inner = codec_of(bound)

    def parse_range(text: str) -> Ranges:
        return _parse_range(text, bound, inner.parse)

    def show_range(value: Ranges) -> str:
        return _show_range(value, inner.show)

    def encode(value: Ranges) -> str:
        return _encode_range(value, inner.encode)

    def decode(string: str) -> Ranges:
        return _decode_range(string, inner.decode)

    if type_.kind is Kind.RANGE:
        return text_codec(parse_range, show_range, encode, decode, "a text such as '[1,5)'")
    return text_codec(
        lambda text: union(*map(parse_range, _split_multirange(text))),
        lambda value: "{" + ",".join(show_range((pair,)) for pair in value) + "}",
        lambda value: parts.encode_parts(encode((pair,)) for pair in value),
        lambda string: tuple(decode(part)[0] for part in parts.decode_parts(string)[0] if part is not None),
        "a text such as '{[1,5),[7,9)}'",
    )


def writer(type_: Type, show_bound: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function that formats ranges or multiranges with bounds formatted by ``show_bound``."""
    if type_.kind is Kind.RANGE:
        return lambda value: _show_range(value, show_bound)
    return lambda value: "{" + ",".join(_show_range((pair,), show_bound) for pair in value) + "}"


def make_range(low: Any, high: Any, bounds: str, bound: Type) -> Ranges:
    """Return the range between two values, None for an infinite bound.

    Raises:
        ValueError: The lower bound is above the upper, or the flags are invalid.
    """
    if bounds not in ("[)", "(]", "[]", "()"):
        raise ValueError("invalid range bound flags")
    start = BEFORE_ALL if low is None else (0, low, int(bounds[0] == "("))
    end = AFTER_ALL if high is None else (0, high, int(bounds[1] == "]"))
    if low is not None and high is not None and low > high:
        raise ValueError("range lower bound must be less than or equal to range upper bound")
    if bound.kind in DISCRETE_KINDS:
        start, end = _canonical_bound(start, bound), _canonical_bound(end, bound)
    return ((start, end),) if start < end else EMPTY


def _canonical_bound(end: Bound, bound: Type) -> Bound:
    """Return a bound of a discrete type before a value: after n is before n + 1."""
    if len(end) == 1 or not end[2] or (bound.kind is Kind.DATE and is_infinite(end[1])):
        return end
    if end[1] == INTEGER_LIMITS.get(bound.kind, (0, None))[1]:
        raise OverflowError("integer out of range")
    return (0, end[1] + 1, 0)


def union(*values: Ranges) -> Ranges:
    """Return the union of ranges."""
    merged_pairs: list[tuple[Bound, Bound]] = []
    for start, end in sorted(pair for value in values for pair in value):
        if merged_pairs and start <= merged_pairs[-1][1]:
            merged_pairs[-1] = (merged_pairs[-1][0], max(merged_pairs[-1][1], end))
        else:
            merged_pairs.append((start, end))
    return tuple(merged_pairs)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """Return the intersection of two ranges."""
    pairs = ((max(a[0], b[0]), min(a[1], b[1])) for a in left for b in right)
    return tuple(sorted(pair for pair in pairs if pair[0] < pair[1]))


def difference(left: Ranges, right: Ranges) -> Ranges:
    """Return the first range without the second."""
    rest = list(left)
    for start, end in right:
        pieces = [piece for low, high in rest for piece in ((low, min(high, start)), (max(low, end), high))]
        rest = [piece for piece in pieces if piece[0] < piece[1]]
    return tuple(rest)


def contains(left: Ranges, right: Ranges) -> bool:
    """Check whether the first contains the second."""
    return all(any(a[0] <= b[0] and b[1] <= a[1] for a in left) for b in right)


def contains_value(value: Ranges, inner: Any) -> bool:
    """Check whether a value is in one of the ranges."""
    place = (0, inner, 0)
    return any(start <= place < end for start, end in value)


def enclosing_range(value: Ranges) -> Ranges:
    """Return the smallest range that contains all of them."""
    return ((value[0][0], value[-1][1]),) if value else EMPTY


def is_adjacent(left: Ranges, right: Ranges) -> bool:
    """Check whether one ends where the other begins."""
    return bool(left and right) and (left[-1][1] == right[0][0] or right[-1][1] == left[0][0])


def map_bounds(value: Ranges, change: Callable[[Any], Any]) -> Ranges:
    """Return the ranges with a function applied to the values of their bounds."""

    def map_bound(bound: Bound) -> Bound:
        return bound if len(bound) == 1 else (0, change(bound[1]), bound[2])

    return tuple((map_bound(start), map_bound(end)) for start, end in value)


def _show_range(value: Ranges, show: Callable[[Any], str]) -> str:
    if not value:
        return "empty"
    ((start, end),) = value
    low = "(" if len(start) == 1 else f"{'(' if start[2] else '['}{_quote(show(start[1]))}"
    high = ")" if len(end) == 1 else f"{_quote(show(end[1]))}{']' if end[2] else ')'}"
    return f"{low},{high}"


def _quote(text: str) -> str:
    if text and not SPECIAL.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _parse_range(text: str, bound: Type, parse: Callable[[str], Any]) -> Ranges:
    text = text.strip(BLANKS)
    if text.lower() == "empty":
        return EMPTY
    if text[:1] not in ("[", "(") or text[-1:] not in ("]", ")") or len(text) < 3:
        raise ValueError("malformed range literal")
    low = BOUND_TEXT.match(text, 1)
    assert low is not None
    high = BOUND_TEXT.match(text, low.end() + 1)
    if text[low.end()] != "," or high is None or high.end() != len(text) - 1:
        raise ValueError("malformed range literal")
    first, last = (_parse_bound(one[1], parse) for one in (low, high))
    return make_range(first, last, text[0] + text[-1], bound)


def _parse_bound(text: str, parse: Callable[[str], Any]) -> Any:
    if not text:
        return None
    plain = re.sub(
        r'\\(.)|""|"', lambda one: one[1] or ('"' if one[0] == '""' else ""), text, flags=re.DOTALL
    )
    return parse(plain)


def _split_multirange(text: str) -> list[str]:
    text = text.strip(BLANKS)
    if text[:1] != "{" or text[-1:] != "}":
        raise ValueError("malformed multirange literal")
    inner = text[1:-1].strip(BLANKS)
    range_texts = re.findall(r'[\[(](?:"(?:[^"\\]|\\.|"")*"|[^"\])])*[\])]|empty', inner, re.IGNORECASE)
    if re.sub(r"(?a)\s", "", ",".join(range_texts)) != re.sub(r"(?a)\s", "", inner):
        raise ValueError("malformed multirange literal")
    return range_texts


def _encode_range(value: Ranges, encode: Callable[[Any], str]) -> str:
    if not value:
        return "e"
    ((start, end),) = value
    return f"r{_encode_bound(start, encode)}{_encode_bound(end, encode)}"


def _encode_bound(bound: Bound, encode: Callable[[Any], str]) -> str:
    if len(bound) == 1:
        return "a" if bound == BEFORE_ALL else "c"
    return f"b{parts.escape(encode(bound[1]))}{parts.END}{bound[2]}"


def _decode_range(string: str, decode: Callable[[str], Any]) -> Ranges:
    if string == "e":
        return EMPTY
    bounds: list[Bound] = []
    position = 1
    while position < len(string):
        if string[position] == "b":
            stop = string.index(parts.END, position)
            bounds.append((0, decode(parts.unescape(string[position + 1 : stop])), int(string[stop + 1])))
            position = stop + 2
        else:
            bounds.append(BEFORE_ALL if string[position] == "a" else AFTER_ALL)
            position += 1
    return ((bounds[0], bounds[1]),)
