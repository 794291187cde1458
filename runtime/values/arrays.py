"""Arrays of any element type and number of dimensions, counted from 1.

Their order is Postgres': by elements, NULL after all others; then by their number, then by dimensions.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kpg.runtime.types import Kind, Type
from kpg.runtime.values import parts
from kpg.runtime.values.codec import Codec, codec_of, output_of
from kpg.runtime.values.words import Mistyped, Unfit

MOST_DIMENSIONS: Final = 6
"""As in Postgres."""
PLAIN: Final = re.compile(r'[^\s{}",\\]+')
"""An element that needs no quotes, unless it reads NULL."""
TOKEN: Final = re.compile(
    r'\s*(?:([{},])|"((?:[^"\\]|\\.)*)"|((?:[^{}",\\\s]|\\.|\s+(?![\s{},]|$))+))\s*', re.DOTALL
)


class Array(NamedTuple):
    """An array: its elements, None for NULL; and the length of each dimension, none if it is empty."""

    items: tuple[Any, ...]
    shape: tuple[int, ...]


EMPTY: Final = Array((), ())
NOTHING: Final = parts.joined(())
"""The string that stands for an empty array of any type."""


def of(items: Sequence[Any]) -> Array:
    """An array of one dimension."""
    return Array(tuple(items), (len(items),)) if items else EMPTY


def codec(type_: Type) -> Codec:
    """The codec of arrays of an element type."""
    (element_type,) = type_.parts
    element, output = codec_of(element_type), output_of(element_type)
    delimiter = ";" if element_type.kind is Kind.BOX else ","

    def encode(value: Array) -> str:
        items = parts.joined(None if item is None else element.encode(item) for item in value.items)
        return items if len(value.shape) < 2 else items + "".join(map(ordered_length, value.shape))

    def to_python(value: Array) -> list[Any]:
        return nested(Array(tuple(map(_or_none(element.to_python), value.items)), value.shape))

    def decode(string: str) -> Array:
        found, end = parts.split(string)
        items = tuple(None if part is None else element.decode(part) for part in found)
        shape = tuple(int(digits) for digits in string[end:].split(";") if digits)
        return Array(items, shape or ((len(items),) if items else ()))

    return Codec(
        encode=encode,
        decode=decode,
        parse=lambda text: parse(text, element, delimiter),
        show=lambda value: shown(value, output, delimiter),
        to_python=lambda value: nested(
            Array(tuple(map(_or_none(element.to_python), value.items)), value.shape)
        ),
        from_python=lambda value: _from_python(
            value, element, delimiter, rows=element_type.kind is Kind.RECORD
        ),
        expected=f"a list ({element.expected} each)",
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
            raise ValueError("an array's parts must have equal dimensions")
        lengths = {len(item) for item in level}
        if len(lengths) > 1:
            raise ValueError("an array's parts must have equal dimensions")
        shape.append(lengths.pop())
        level = [inner for item in level for inner in item]
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"an array has {MOST_DIMENSIONS} dimensions at most")
    return Array(tuple(level), tuple(shape)) if level else EMPTY


def _from_python(value: Any, element: Codec, delimiter: str, *, rows: bool) -> Array:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str):
        try:
            return parse(value, element, delimiter)
        except (ValueError, ArithmeticError):
            raise Unfit from None
    if not isinstance(value, (list, tuple)):
        raise Mistyped
    try:
        found = from_nested(value if rows else _lists(value))
    except ValueError:
        raise Unfit from None
    return Array(
        tuple(None if item is None else element.from_python(item) for item in found.items), found.shape
    )


def _lists(value: Any) -> Any:
    """Tuples in tuples and lists as lists."""
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def shown(value: Array, output: Callable[[Any], str], delimiter: str = ",") -> str:
    """As Postgres writes it: ``{1,NULL,"a b"}``."""
    if not value.items:
        return "{}"
    quoted = _quoted if delimiter == "," else _same
    texts: list[str] = ["NULL" if item is None else quoted(output(item)) for item in value.items]
    for length in (*reversed(value.shape[1:]), value.shape[0]):
        rows = range(0, len(texts), length)
        texts = [f"{{{delimiter.join(texts[start : start + length])}}}" for start in rows]
    return texts[0]


def _same(text: str) -> str:
    return text


def _quoted(text: str) -> str:
    if PLAIN.fullmatch(text) and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parse(text: str, element: Codec, delimiter: str = ",") -> Array:
    """The array that a text such as ``{{1,2},{3,NULL}}`` means; ValueError if none."""
    tokens = list(_tokens(text) if delimiter == "," else _boxes(text))
    value, rest = _nested(tokens, 0, element)
    if rest != len(tokens):
        raise ValueError("junk after an array")
    return from_nested(value)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Signs, and elements: ``("", element)`` in quotes, ``("'", element)`` without."""
    place = 0
    text = text.strip()
    while place < len(text):
        found = TOKEN.match(text, place)
        if found is None:
            raise ValueError("malformed array")
        sign, quoted, word = found.groups()
        unescaped = re.sub(r"\\(.)", r"\1", quoted if quoted is not None else word or "", flags=re.DOTALL)
        yield (sign, "") if sign else ("" if quoted is not None else "'", unescaped)
        place = found.end()


def _boxes(text: str) -> Iterator[tuple[str, str]]:
    """The same of boxes, which semicolons divide."""
    for found in re.finditer(r'\s*(?:([{};])|"([^"]*)"|([^{};"]+))\s*', text):
        sign, quoted, word = found.groups()
        yield ("," if sign == ";" else sign, "") if sign else ("'", (quoted or word).strip())


def _nested(tokens: list[tuple[str, str]], place: int, element: Codec) -> tuple[list[Any], int]:
    if place >= len(tokens) or tokens[place][0] != "{":
        raise ValueError("an array begins with {")
    items: list[Any] = []
    place += 1
    if place < len(tokens) and tokens[place][0] == "}":
        return items, place + 1
    while place < len(tokens):
        sign, text = tokens[place]
        if sign == "{":
            inner, place = _nested(tokens, place, element)
            items.append(inner)
        elif sign in ("", "'"):
            items.append(None if sign and text.upper() == "NULL" else element.parse(text))
            place += 1
        else:
            raise ValueError("an element of an array is missing")
        if place >= len(tokens) or tokens[place][0] not in (",", "}"):
            break
        place += 1
        if tokens[place - 1][0] == "}":
            return items, place
    raise ValueError("an array ends with }")
