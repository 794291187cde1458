"""Codecs: for each type, its values as words or order-preserving strings, as SQL text, and as Python objects.

A value that does not fit a word is stored as a string. Equal values have equal strings, so joins, groups and
DISTINCT work on dictionary codes. Strings order by code point as the values do, so ORDER BY, min, max and
comparisons use the text kernels. :func:`joined` encodes composite values as the ordered concatenation of
their parts.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from kpg.runtime.errors import no_text
from kpg.runtime.records import dataclass
from kpg.runtime.types import TEXT_KINDS, Kind, Type, float_to_word, word_to_float
from kpg.runtime.values.words import Mistyped, Unfit

Speller = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Codec:
    """How the values of one type are written and read."""

    encode: Callable[[Any], str]
    """The string that stands for a value, alone or as a part of another."""
    decode: Callable[[str], Any]
    """The value that a string stands for."""
    parse: Callable[[str], Any]
    """The value that a text means in SQL; ValueError if there is none."""
    show: Callable[[Any], str]
    """A value as Postgres writes it."""
    to_python: Callable[[Any], Any]
    """A value as rows have it."""
    from_python: Callable[[Any], Any]
    """The value of a Python object; Unfit or Mistyped if there is none."""
    expected: str
    """What Python objects the type takes, for hints."""


_factories: dict[Kind, Callable[[Type], Codec]] = {}
"""What makes the codec of a type, by its kind."""


def register_codec(*kinds: Kind) -> Callable[[Callable[[Type], Codec]], Callable[[Type], Codec]]:
    """Declare the function that makes the codecs of types of these kinds."""

    def register(factory: Callable[[Type], Codec]) -> Callable[[Type], Codec]:
        _factories.update(dict.fromkeys(kinds, factory))
        return factory

    return register


@functools.cache
def codec_of(type_: Type) -> Codec:
    """The codec of a type. ``type_codecs``, which the package imports, has registered those of all kinds."""
    return _factories[type_.kind](type_)


def spelled(
    parse: Callable[[str], Any],
    show: Callable[[Any], str],
    encode: Callable[[Any], str],
    decode: Callable[[str], Any],
    expected: str,
) -> Codec:
    """The codec of a type whose values are texts in Python."""

    def given(value: Any) -> Any:
        if not isinstance(value, str):
            raise Mistyped
        try:
            return parse(value)
        except (ValueError, ArithmeticError):
            raise Unfit from None

    return Codec(encode, decode, parse, show, show, given, expected)


def output_of(type_: Type) -> Callable[[Any], str]:
    """How values are written as parts of others, and sent: as by ``Codec.show``, but true is ``t``."""
    if type_.kind is Kind.BOOLEAN:
        return lambda value: "t" if value else "f"
    return codec_of(type_).show


@functools.cache
def speller_of(type_: Type) -> Speller:
    """From a Python object to the string that stands for it, for an interned type; Unfit or Mistyped."""
    codec = codec_of(type_)
    encode, accept = codec.encode, codec.from_python
    return accept if type_.kind in TEXT_KINDS else lambda value: encode(accept(value))


def _same(value: Any) -> Any:
    return value


@register_codec(*TEXT_KINDS)
def _text(type_: Type) -> Codec:
    accept = functools.partial(_checked, type_.precision)
    if type_.kind is not Kind.CHAR:
        return Codec(_same, _same, _same, _same, _same, accept, "a str")
    padded = functools.partial(_padded, type_.precision)
    return Codec(_same, _same, stripped, padded, padded, lambda text: accept(stripped(text)), "a str")


def stripped(text: Any) -> Any:
    """A value of CHAR: blanks at the end do not count."""
    return text.rstrip(" ") if isinstance(text, str) else text


def _padded(length: int, text: str) -> str:
    return text.ljust(length)


def _checked(limit: int, value: Any) -> str:
    if not isinstance(value, str):
        raise Mistyped
    if "\0" in value:
        raise no_text()
    if limit and len(value) > limit:
        raise Unfit
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise Unfit
    return value


def word_functions(type_: Type) -> tuple[Callable[[Any], int], Callable[[int], Any]]:
    """From values of a type of words to words, and back."""

    if type_.is_float:
        return float_to_word, word_to_float
    return int, bool if type_.kind is Kind.BOOLEAN else _same


def ordered(number: int) -> str:
    """A string of digits for a word that orders as words do."""
    digits = str(abs(number))
    if number >= 0:
        return chr(ord("a") + len(digits)) + digits
    return chr(ord("Z") - len(digits)) + digits.translate(COMPLEMENT)


def unordered(string: str) -> int:
    """Inverse of :func:`ordered`."""
    return int(string[1:]) if string[0] >= "a" else -int(string[1:].translate(COMPLEMENT))


COMPLEMENT = str.maketrans("0123456789", "9876543210")
"""Digits whose order is the other way round."""


END, PART, NOTHING = "\x00", "\x01", "\x02"
"""The end of a part or of all, the start of a part, and a part that is NULL, which is after all others."""


def escaped(text: str) -> str:
    """A text that does not contain END, in the same order."""
    if END not in text and PART not in text:
        return text
    return text.replace(PART, PART + NOTHING).replace(END, PART + PART)


def plain(text: str) -> str:
    """Inverse of :func:`escaped`."""
    if PART not in text:
        return text
    return text.replace(PART + PART, END).replace(PART + NOTHING, PART)


def joined(parts: Iterable[str | None]) -> str:
    """The parts as one string, which ends where it says so: less than any that goes on."""
    return "".join(NOTHING if part is None else PART + escaped(part) + END for part in parts) + END


def split(string: str, start: int = 0) -> tuple[list[str | None], int]:
    """The parts of what :func:`joined` made, which begins at ``start``, and where it ends."""
    parts: list[str | None] = []
    while string[start] != END:
        if string[start] == NOTHING:
            parts.append(None)
            start += 1
        else:
            end = string.index(END, start)
            parts.append(plain(string[start + 1 : end]))
            start = end + 1
    return parts, start + 1
