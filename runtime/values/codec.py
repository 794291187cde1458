"""Codecs: for each type, its values as words or ordered strings, as SQL text, and as Python objects.

A value that does not fit a word is stored as a string. Equal values have equal strings, so joins,
groups and DISTINCT work on dictionary codes. Strings order by code point as the values do, so ORDER BY,
min, max and comparisons use the text kernels. :func:`encode_parts` encodes composite values as the
ordered concatenation of their parts.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from kpg.runtime.errors import encoding_error
from kpg.runtime.records import dataclass
from kpg.runtime.types import TEXT_KINDS, Kind, Type, float_to_word, word_to_float
from kpg.runtime.values.words import UnrepresentableValue, WrongPythonType

StringEncoder = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Codec:
    """Conversions of the values of one type."""

    encode: Callable[[Any], str]
    """Encode a value as an order-preserving string, alone or as a part of another."""
    decode: Callable[[str], Any]
    """Decode the string of a value."""
    parse: Callable[[str], Any]
    """Parse SQL text. ValueError for invalid input."""
    show: Callable[[Any], str]
    """Format a value like Postgres."""
    to_python: Callable[[Any], Any]
    """Convert a value to the Python object in result rows."""
    from_python: Callable[[Any], Any]
    """Convert a Python object to a value. UnrepresentableValue or WrongPythonType if there is none."""
    input_hint: str
    """Description of the accepted Python objects, for hints."""


_codec_factories: dict[Kind, Callable[[Type], Codec]] = {}
"""Functions from a type to its codec, by kind."""


def register_codec(*kinds: Kind) -> Callable[[Callable[[Type], Codec]], Callable[[Type], Codec]]:
    """Return a decorator that registers a function as the codec factory of these kinds."""

    def register(factory: Callable[[Type], Codec]) -> Callable[[Type], Codec]:
        _codec_factories.update(dict.fromkeys(kinds, factory))
        return factory

    return register


@functools.cache
def codec_of(type_: Type) -> Codec:
    """Return the codec of a type.

    ``type_codecs``, which the package imports, registers the factories of all kinds.
    """
    return _codec_factories[type_.kind](type_)


def text_codec(
    parse: Callable[[str], Any],
    show: Callable[[Any], str],
    encode: Callable[[Any], str],
    decode: Callable[[str], Any],
    expected: str,
) -> Codec:
    """Return the codec of a type whose Python objects are its texts."""

    def from_python(value: Any) -> Any:
        if not isinstance(value, str):
            raise WrongPythonType
        try:
            return parse(value)
        except (ValueError, ArithmeticError):
            raise UnrepresentableValue from None

    return Codec(encode, decode, parse, show, show, from_python, expected)


def output_function(type_: Type) -> Callable[[Any], str]:
    """Return the output function of a type: ``Codec.show``, but true is ``t``.

    Clients and composite values get this form.
    """
    if type_.kind is Kind.BOOLEAN:
        return lambda value: "t" if value else "f"
    return codec_of(type_).show


@functools.cache
def string_encoder_of(type_: Type) -> StringEncoder:
    """Return the function from a Python object to the encoded string, for an interned type.

    It raises UnrepresentableValue or WrongPythonType.
    """
    codec = codec_of(type_)
    encode, accept = codec.encode, codec.from_python
    return accept if type_.kind in TEXT_KINDS else lambda value: encode(accept(value))


def _identity(value: Any) -> Any:
    return value


@register_codec(*TEXT_KINDS)
def _text(type_: Type) -> Codec:
    accept = functools.partial(_check_text, type_.precision)
    if type_.kind is not Kind.CHAR:
        return Codec(_identity, _identity, _identity, _identity, _identity, accept, "a str")
    padded = functools.partial(_pad, type_.precision)
    return Codec(
        _identity, _identity, strip_blanks, padded, padded, lambda text: accept(strip_blanks(text)), "a str"
    )


def strip_blanks(text: Any) -> Any:
    """Return a value of CHAR: trailing blanks do not count."""
    return text.rstrip(" ") if isinstance(text, str) else text


def _pad(length: int, text: str) -> str:
    return text.ljust(length)


def _check_text(limit: int, value: Any) -> str:
    if not isinstance(value, str):
        raise WrongPythonType
    if "\0" in value:
        raise encoding_error()
    if limit and len(value) > limit:
        if len(value.rstrip(" ")) > limit:
            raise UnrepresentableValue
        value = value[:limit]
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise UnrepresentableValue
    return value


def word_functions(type_: Type) -> tuple[Callable[[Any], int], Callable[[int], Any]]:
    """Return the functions from values of a word type to words, and back."""

    if type_.is_float:
        return float_to_word, word_to_float
    return int, bool if type_.kind is Kind.BOOLEAN else _identity


def encode_integer(number: int) -> str:
    """Encode an integer as a string that orders as integers do."""
    digits = str(abs(number))
    if number >= 0:
        return chr(ord("a") + len(digits)) + digits
    return chr(ord("Z") - len(digits)) + digits.translate(DIGIT_COMPLEMENT)


def decode_integer(string: str) -> int:
    """Decode the string of an integer. This is the inverse of :func:`encode_integer`."""
    return int(string[1:]) if string[0] >= "a" else -int(string[1:].translate(DIGIT_COMPLEMENT))


DIGIT_COMPLEMENT = str.maketrans("0123456789", "9876543210")
"""Translation of digits that reverses their order."""


END, PART, NULL_PART = "\x00", "\x01", "\x02"
"""The end of a part or of all, the start of a part, and a part that is NULL, which is after all others."""


def escape(text: str) -> str:
    """Escape a text so that it does not contain END and keeps its order."""
    if END not in text and PART not in text:
        return text
    return text.replace(PART, PART + NULL_PART).replace(END, PART + PART)


def unescape(text: str) -> str:
    """Undo :func:`escape`."""
    if PART not in text:
        return text
    return text.replace(PART + PART, END).replace(PART + NULL_PART, PART)


def encode_parts(parts: Iterable[str | None]) -> str:
    """Encode parts as one self-delimiting string. A prefix orders before its extensions."""
    return "".join(NULL_PART if part is None else PART + escape(part) + END for part in parts) + END


def decode_parts(string: str, start: int = 0) -> tuple[list[str | None], int]:
    """Decode the string of :func:`encode_parts` at ``start``. Return the parts and the end position."""
    parts: list[str | None] = []
    while string[start] != END:
        if string[start] == NULL_PART:
            parts.append(None)
            start += 1
        else:
            end = string.index(END, start)
            parts.append(unescape(string[start + 1 : end]))
            start = end + 1
    return parts, start + 1
