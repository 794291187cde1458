"""Arrays of any element type and number of dimensions, with lower bounds that default to 1.

They order as in Postgres: by elements with NULL last, then by length, number of dimensions, and lower bounds
(1 before others).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kpg.runtime.types import BIT_KINDS, Kind, Type
from kpg.runtime.values import codec as parts
from kpg.runtime.values.codec import Codec, codec_of, ordered, output_of, unordered
from kpg.runtime.values.words import BLANKS, Mistyped, Unfit

MOST_DIMENSIONS: Final = 6
"""As in Postgres."""
PLAIN: Final = re.compile(r'(?a)[^\s{}",\\]+')
"""An element that needs no quotes, unless it reads NULL."""
BOUND: Final = re.compile(r"(?a)\s*\[([-+]?\d+)(?::([-+]?\d+))?\]")
TOKEN: Final = re.compile(
    r'(?a)\s*(?:([{},])|"((?:[^"\\]|\\.)*)"|((?:[^{}",\\\s]|\\.|\s+(?![\s{},]|$))+))\s*', re.DOTALL
)


class Array(NamedTuple):
    """An array: its elements, None for NULL; the length of each dimension, none if it is empty; and the first
    subscript of each, none if all are 1."""

    items: tuple[Any, ...]
    shape: tuple[int, ...]
    lows: tuple[int, ...] = ()

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first subscript of each dimension."""
        return self.lows or (1,) * len(self.shape)


EMPTY: Final = Array((), ())
NOTHING: Final = parts.joined(())
"""The string that stands for an empty array of any type."""


def of(items: Sequence[Any], first: int = 1) -> Array:
    """An array of one dimension."""
    return counted(Array(tuple(items), (len(items),)), (first,)) if items else EMPTY


def counted(value: Array, firsts: Sequence[int]) -> Array:
    """The array with these first subscripts of its dimensions; ValueError if they go too far."""
    for first, length in zip(firsts, value.shape, strict=True):
        if not -(2**31) <= first <= first + length <= 2**31 - 1:
            raise ValueError(f"array lower bound is too large: {first}")
    return value._replace(lows=() if all(first == 1 for first in firsts) else tuple(firsts))


def codec(type_: Type) -> Codec:
    """The codec of arrays of an element type."""
    (element_type,) = type_.parts
    element = codec_of(element_type)

    def encode(value: Array) -> str:
        items = parts.joined(None if item is None else element.encode(item) for item in value.items)
        if len(value.shape) > 1:
            items += "".join(map(ordered_length, value.shape))
        return f"{items}!{';'.join(map(ordered, value.lows))}" if value.lows else items

    def decode(string: str) -> Array:
        found, end = parts.split(string)
        items = tuple(None if part is None else element.decode(part) for part in found)
        if end == len(string):
            return Array(items, (len(items),) if items else ())
        lengths, _, firsts = string[end:].partition("!")
        shape = tuple(int(digits) for digits in lengths.split(";") if digits) or (len(items),)
        return Array(items, shape, tuple(map(unordered, firsts.split(";"))) if firsts else ())

    return Codec(
        encode=encode,
        decode=decode,
        parse=_vectors(element) if type_.name else lambda text: parse(text, element, element_type),
        show=writer(type_, output_of(element_type)),
        to_python=lambda value: nested(
            Array(tuple(map(_or_none(element.to_python), value.items)), value.shape)
        ),
        from_python=lambda value: _from_python(value, element, element_type),
        expected=f"a list ({element.expected} each)",
    )


def writer(type_: Type, output: Callable[[Any], str]) -> Callable[[Any], str]:
    """How arrays of a type are written, whose elements are by ``output``: those with a name as ``1 2``."""
    if type_.name:
        return lambda value: " ".join(map(output, value.items))
    return lambda value: shown(value, output)


def _vectors(element: Codec) -> Callable[[str], Array]:
    """How a vector such as ``1 2`` is read, whose first element has the number 0; in braces, too."""
    return lambda text: of(
        [element.parse(word) for word in re.split(r"(?a)[\s,]+", text.strip(" {}")) if word], 0
    )


def ordered_length(length: int) -> str:
    """A length of a dimension, so that lengths are in order."""
    return f"{length:09d};"


def _or_none(function: Any) -> Any:
    return lambda value: None if value is None else function(value)


def nested(value: Array) -> list[Any]:
    """The items as lists of lists."""
    items: list[Any] = list(value.items)
    for length in reversed(value.shape[1:]):
        items = [items[start : start + length] for start in range(0, len(items), length)]
    return items


def from_nested(value: Sequence[Any]) -> Array:
    """Lists of lists as an array; ValueError unless they are of equal lengths. A tuple is an item: a row."""
    shape: list[int] = []
    level: list[Any] = [list(value)]
    while level and any(isinstance(item, list) for item in level):
        if not all(isinstance(item, list) for item in level):
            raise Malformed("an array's parts must have equal dimensions")
        lengths = {len(item) for item in level}
        if len(lengths) > 1:
            raise Malformed("an array's parts must have equal dimensions")
        shape.append(lengths.pop())
        level = [inner for item in level for inner in item]
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"an array has {MOST_DIMENSIONS} dimensions at most")
    return Array(tuple(level), tuple(shape)) if level else EMPTY


def _from_python(value: Any, element: Codec, type_: Type) -> Array:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str):
        try:
            read = parse(value, element, type_)
        except (ValueError, ArithmeticError):
            raise Unfit from None
        return within(read, type_) if type_.is_text or type_.kind in BIT_KINDS else read
    if not isinstance(value, (list, tuple)):
        raise Mistyped
    try:
        found = from_nested(value if type_.kind is Kind.RECORD else _lists(value))
    except ValueError:
        raise Unfit from None
    return Array(
        tuple(None if item is None else element.from_python(item) for item in found.items), found.shape
    )


def within(value: Array, type_: Type) -> Array:
    """An array of texts or bits none of which is longer than its type allows, but for blanks; else Unfit."""
    if not type_.is_text:
        lengths = {len(item) for item in value.items if item is not None}
        exact = type_.kind is Kind.BIT
        if type_.precision and any(
            one != type_.precision if exact else one > type_.precision for one in lengths
        ):
            raise Unfit
        return value
    accept = codec_of(type_).from_python
    limit = type_.precision or None
    items = (
        None if item is None else item[:limit] if not item[limit:].strip(" ") else item
        for item in value.items
    )
    return value._replace(items=tuple(None if item is None else accept(item) for item in items))


def _lists(value: Any) -> Any:
    """Tuples in tuples and lists as lists."""
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def shown(value: Array, output: Callable[[Any], str]) -> str:
    """As Postgres writes it: ``{1,NULL,"a b"}``."""
    if not value.items:
        return "{}"
    texts: list[str] = ["NULL" if item is None else _quoted(output(item)) for item in value.items]
    for length in (*reversed(value.shape[1:]), value.shape[0]):
        rows = range(0, len(texts), length)
        texts = [f"{{{','.join(texts[start : start + length])}}}" for start in rows]
    return f"{dimensions(value)}={texts[0]}" if value.lows else texts[0]


def dimensions(value: Array) -> str:
    """The bounds of all dimensions, ``[1:2][1:3]``."""
    pairs = zip(value.firsts, value.shape, strict=True)
    return "".join(f"[{first}:{first + length - 1}]" for first, length in pairs)


def _quoted(text: str) -> str:
    if PLAIN.fullmatch(text) and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _element(text: str, element: Codec, type_: Type) -> Any:
    try:
        return element.parse(text)
    except (ValueError, ArithmeticError):
        from kpg.runtime.values import input_errors  # lazy: 5 ms of start-up, for errors alone

        return input_errors.read(text, type_)


def parse(text: str, element: Codec, type_: Type) -> Array:
    """The array that a text such as ``{{1,2},{3,NULL}}`` or ``[0:1]={1,2}`` means; ValueError if none."""
    try:
        pairs, body = _bounds(text)
        tokens = list(_tokens(body))
        value, rest = _nested(tokens, 0)
        if rest != len(tokens):
            raise Malformed("junk after an array")
        found = from_nested(value)
    except (Malformed, RecursionError):
        raise ValueError(f'malformed array literal: "{text}"') from None
    if not found.items and tokens != list(_tokens("{}")):
        raise ValueError(f'malformed array literal: "{text}"')
    if pairs and tuple(last - first + 1 for first, last in pairs) != found.shape:
        raise ValueError(f'malformed array literal: "{text}"')
    read = tuple(None if item is None else _element(item, element, type_) for item in found.items)
    return counted(found._replace(items=read), [first for first, _ in pairs] or [1] * len(found.shape))


class Malformed(ValueError):
    """No text of an array."""


def _bounds(text: str) -> tuple[list[tuple[int, int]], str]:
    """The bounds that a text of an array begins with, and the rest."""
    pairs: list[tuple[int, int]] = []
    found = BOUND.match(text)
    place = 0
    while found is not None:
        low, high = (int(digits) if digits else None for digits in found.groups())
        first = 1 if high is None else low or 0
        last = (low if high is None else high) or 0
        if last < first:
            raise ValueError("upper bound cannot be less than lower bound")
        pairs.append((first, last))
        place = found.end()
        found = BOUND.match(text, place)
    if not pairs:
        return pairs, text
    sign = re.compile(r"(?a)\s*=").match(text, place)
    if sign is None or len(pairs) > MOST_DIMENSIONS:
        raise Malformed
    return pairs, text[sign.end() :]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Signs, and elements: ``("", element)`` in quotes, ``("'", element)`` without."""
    place = 0
    text = text.strip(BLANKS)
    while place < len(text):
        found = TOKEN.match(text, place)
        if found is None:
            raise Malformed
        sign, quoted, word = found.groups()
        unescaped = re.sub(r"\\(.)", r"\1", quoted if quoted is not None else word or "", flags=re.DOTALL)
        yield (sign, "") if sign else ("" if quoted is not None else "'", unescaped)
        place = found.end()


def _nested(tokens: list[tuple[str, str]], place: int) -> tuple[list[Any], int]:
    if place >= len(tokens) or tokens[place][0] != "{":
        raise Malformed("an array begins with {")
    items: list[Any] = []
    place += 1
    if place < len(tokens) and tokens[place][0] == "}":
        return items, place + 1
    while place < len(tokens):
        sign, text = tokens[place]
        if sign == "{":
            inner, place = _nested(tokens, place)
            items.append(inner)
        elif sign in ("", "'"):
            items.append(None if sign and text.upper() == "NULL" else text)
            place += 1
        else:
            raise Malformed("an element of an array is missing")
        if place >= len(tokens) or tokens[place][0] not in (",", "}"):
            break
        place += 1
        if tokens[place - 1][0] == "}":
            return items, place
    raise Malformed("an array ends with }")
