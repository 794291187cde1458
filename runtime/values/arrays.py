"""Arrays of any element type and number of dimensions, with lower bounds that default to 1.

They order as in Postgres: by elements with NULL last, then by length, number of dimensions, and lower
bounds (1 before others).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kpg.runtime.types import BIT_KINDS, Kind, Type
from kpg.runtime.values import codec as parts
from kpg.runtime.values.codec import Codec, codec_of, decode_integer, encode_integer, output_function
from kpg.runtime.values.words import BLANKS, UnrepresentableValue, WrongPythonType

MAX_DIMENSIONS: Final = 6
"""Maximum number of dimensions, as in Postgres."""
UNQUOTED_ELEMENT: Final = re.compile(r'(?a)[^\s{}",\\]+')
"""Element that needs no quotes, except the word NULL."""
BOUND: Final = re.compile(r"(?a)\s*\[([-+]?\d+)(?::([-+]?\d+))?\]")
TOKEN: Final = re.compile(
    r'(?a)\s*(?:([{},])|"((?:[^"\\]|\\.)*)"|((?:[^{}",\\\s]|\\.|\s+(?![\s{},]|$))+))\s*', re.DOTALL
)


class Array(NamedTuple):
    """An array.

    ``items`` are the elements of all dimensions, None for NULL. ``shape`` is the length of each dimension,
    empty for an empty array. ``lows`` is the lower bound of each dimension, empty if all are 1.
    """

    items: tuple[Any, ...]
    shape: tuple[int, ...]
    lows: tuple[int, ...] = ()

    @property
    def lower_bounds(self) -> tuple[int, ...]:
        """Lower bound of each dimension."""
        return self.lows or (1,) * len(self.shape)


EMPTY: Final = Array((), ())
ENCODED_EMPTY: Final = parts.encode_parts(())
"""Encoded string of an empty array of any type."""


def array_of(items: Sequence[Any], lower_bound: int = 1) -> Array:
    """Return an array of one dimension."""
    return with_lower_bounds(Array(tuple(items), (len(items),)), (lower_bound,)) if items else EMPTY


def with_lower_bounds(value: Array, lower_bounds: Sequence[int]) -> Array:
    """Return the array with these lower bounds.

    Raises:
        ValueError: A bound is out of range.
    """
    for first, length in zip(lower_bounds, value.shape, strict=True):
        if not -(2**31) <= first <= first + length <= 2**31 - 1:
            raise ValueError(f"array lower bound is too large: {first}")
    return value._replace(lows=() if all(first == 1 for first in lower_bounds) else tuple(lower_bounds))


def codec(type_: Type) -> Codec:
    """Return the codec of arrays of an element type."""
    (element_type,) = type_.parts
    element = codec_of(element_type)

    def encode(value: Array) -> str:
        items = parts.encode_parts(None if item is None else element.encode(item) for item in value.items)
        if len(value.shape) > 1:
            items += "".join(map(encode_length, value.shape))
        return f"{items}!{';'.join(map(encode_integer, value.lows))}" if value.lows else items

    def decode(string: str) -> Array:
        encoded_items, end = parts.decode_parts(string)
        items = tuple(None if part is None else element.decode(part) for part in encoded_items)
        if end == len(string):
            return Array(items, (len(items),) if items else ())
        lengths, _, firsts = string[end:].partition("!")
        shape = tuple(int(digits) for digits in lengths.split(";") if digits) or (len(items),)
        return Array(items, shape, tuple(map(decode_integer, firsts.split(";"))) if firsts else ())

    return Codec(
        encode=encode,
        decode=decode,
        parse=_vector_parser(element) if type_.name else lambda text: parse(text, element, element_type),
        show=writer(type_, output_function(element_type)),
        to_python=lambda value: to_nested_lists(
            Array(tuple(map(_keep_none(element.to_python), value.items)), value.shape)
        ),
        from_python=lambda value: _from_python(value, element, element_type),
        input_hint=f"a list ({element.input_hint} each)",
    )


def writer(type_: Type, output: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function that formats arrays of a type. Types with a name, such as vectors, are ``1 2``."""
    if type_.name:
        return lambda value: " ".join(map(output, value.items))
    return lambda value: show(value, output)


def _vector_parser(element: Codec) -> Callable[[str], Array]:
    """Return the parser of a vector such as ``1 2``, also in braces. Its lower bound is 0."""
    return lambda text: array_of(
        [element.parse(word) for word in re.split(r"(?a)[\s,]+", text.strip(" {}")) if word], 0
    )


def encode_length(length: int) -> str:
    """Encode the length of a dimension in order."""
    return f"{length:09d};"


def _keep_none(function: Any) -> Any:
    return lambda value: None if value is None else function(value)


def to_nested_lists(value: Array) -> list[Any]:
    """Return the elements as nested lists."""
    items: list[Any] = list(value.items)
    for length in reversed(value.shape[1:]):
        items = [items[start : start + length] for start in range(0, len(items), length)]
    return items


def from_nested_lists(value: Sequence[Any]) -> Array:
    """Return an array of nested lists. A tuple is an element: a row.

    Raises:
        ValueError: Lists of one level differ in length, or there are too many levels.
    """
    shape: list[int] = []
    level: list[Any] = [list(value)]
    while level and any(isinstance(item, list) for item in level):
        if not all(isinstance(item, list) for item in level):
            raise MalformedArray("an array's parts must have equal dimensions")
        lengths = {len(item) for item in level}
        if len(lengths) > 1:
            raise MalformedArray("an array's parts must have equal dimensions")
        shape.append(lengths.pop())
        level = [inner for item in level for inner in item]
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"an array has {MAX_DIMENSIONS} dimensions at most")
    return Array(tuple(level), tuple(shape)) if level else EMPTY


def _from_python(value: Any, element: Codec, type_: Type) -> Array:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str):
        try:
            parsed = parse(value, element, type_)
        except (ValueError, ArithmeticError):
            raise UnrepresentableValue from None
        return fit_elements(parsed, type_) if type_.is_text or type_.kind in BIT_KINDS else parsed
    if not isinstance(value, (list, tuple)):
        raise WrongPythonType
    try:
        nested_array = from_nested_lists(value if type_.kind is Kind.RECORD else _tuples_to_lists(value))
    except ValueError:
        raise UnrepresentableValue from None
    return Array(
        tuple(None if item is None else element.from_python(item) for item in nested_array.items),
        nested_array.shape,
    )


def fit_elements(value: Array, type_: Type) -> Array:
    """Return an array of texts or bit strings whose elements fit their type, without excess blanks.

    Raises:
        UnrepresentableValue: An element is too long.
    """
    if not type_.is_text:
        lengths = {len(item) for item in value.items if item is not None}
        exact = type_.kind is Kind.BIT
        if type_.precision and any(
            one != type_.precision if exact else one > type_.precision for one in lengths
        ):
            raise UnrepresentableValue
        return value
    accept = codec_of(type_).from_python
    limit = type_.precision or None
    items = (
        None if item is None else item[:limit] if not item[limit:].strip(" ") else item
        for item in value.items
    )
    return value._replace(items=tuple(None if item is None else accept(item) for item in items))


def _tuples_to_lists(value: Any) -> Any:
    """Convert nested tuples to lists."""
    return [_tuples_to_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def show(value: Array, output: Callable[[Any], str]) -> str:
    """Format like Postgres: ``{1,NULL,"a b"}``."""
    if not value.items:
        return "{}"
    texts: list[str] = ["NULL" if item is None else _quote(output(item)) for item in value.items]
    for length in (*reversed(value.shape[1:]), value.shape[0]):
        rows = range(0, len(texts), length)
        texts = [f"{{{','.join(texts[start : start + length])}}}" for start in rows]
    return f"{show_dimensions(value)}={texts[0]}" if value.lows else texts[0]


def show_dimensions(value: Array) -> str:
    """Format the bounds of all dimensions: ``[1:2][1:3]``."""
    pairs = zip(value.lower_bounds, value.shape, strict=True)
    return "".join(f"[{first}:{first + length - 1}]" for first, length in pairs)


def _quote(text: str) -> str:
    if UNQUOTED_ELEMENT.fullmatch(text) and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _parse_element(text: str, element: Codec, type_: Type) -> Any:
    try:
        return element.parse(text)
    except (ValueError, ArithmeticError):
        from kpg.runtime.values import input_errors  # lazy: 5 ms of start-up, for errors alone

        return input_errors.parse_input(text, type_)


def parse(text: str, element: Codec, type_: Type) -> Array:
    """Parse a text such as ``{{1,2},{3,NULL}}`` or ``[0:1]={1,2}``.

    Raises:
        ValueError: The text is malformed, or an element is invalid.
    """
    try:
        pairs, body = _parse_bounds(text)
        tokens = list(_tokens(body))
        value, rest = _parse_items(tokens, 0)
        if rest != len(tokens):
            raise MalformedArray("junk after an array")
        nested_array = from_nested_lists(value)
    except (MalformedArray, RecursionError):
        raise ValueError(f'malformed array literal: "{text}"') from None
    if not nested_array.items and tokens != list(_tokens("{}")):
        raise ValueError(f'malformed array literal: "{text}"')
    if pairs and tuple(last - first + 1 for first, last in pairs) != nested_array.shape:
        raise ValueError(f'malformed array literal: "{text}"')
    items = tuple(
        None if item is None else _parse_element(item, element, type_) for item in nested_array.items
    )
    return with_lower_bounds(
        nested_array._replace(items=items), [first for first, _ in pairs] or [1] * len(nested_array.shape)
    )


class MalformedArray(ValueError):
    """The text is not an array."""


def _parse_bounds(text: str) -> tuple[list[tuple[int, int]], str]:
    """Return the bounds at the start of an array's text, and the rest."""
    pairs: list[tuple[int, int]] = []
    match = BOUND.match(text)
    position = 0
    while match is not None:
        low, high = (int(digits) if digits else None for digits in match.groups())
        first = 1 if high is None else low or 0
        last = (low if high is None else high) or 0
        if last < first:
            raise ValueError("upper bound cannot be less than lower bound")
        pairs.append((first, last))
        position = match.end()
        match = BOUND.match(text, position)
    if not pairs:
        return pairs, text
    sign = re.compile(r"(?a)\s*=").match(text, position)
    if sign is None or len(pairs) > MAX_DIMENSIONS:
        raise MalformedArray
    return pairs, text[sign.end() :]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield punctuation and elements: ``("", element)`` in quotes, ``("'", element)`` without."""
    position = 0
    text = text.strip(BLANKS)
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise MalformedArray
        sign, quoted, word = match.groups()
        unescaped = re.sub(r"\\(.)", r"\1", quoted if quoted is not None else word or "", flags=re.DOTALL)
        yield (sign, "") if sign else ("" if quoted is not None else "'", unescaped)
        position = match.end()


def _parse_items(tokens: list[tuple[str, str]], position: int) -> tuple[list[Any], int]:
    if position >= len(tokens) or tokens[position][0] != "{":
        raise MalformedArray("an array begins with {")
    items: list[Any] = []
    position += 1
    if position < len(tokens) and tokens[position][0] == "}":
        return items, position + 1
    while position < len(tokens):
        sign, text = tokens[position]
        if sign == "{":
            inner, position = _parse_items(tokens, position)
            items.append(inner)
        elif sign in ("", "'"):
            items.append(None if sign and text.upper() == "NULL" else text)
            position += 1
        else:
            raise MalformedArray("an element of an array is missing")
        if position >= len(tokens) or tokens[position][0] not in (",", "}"):
            break
        position += 1
        if tokens[position - 1][0] == "}":
            return items, position
    raise MalformedArray("an array ends with }")
