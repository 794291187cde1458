"""Text functions: plain Python on strings, run once for each distinct string.

Positions count characters from 1.
"""

import hashlib
import re
from collections.abc import Callable
from functools import reduce
from typing import Final

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.casts import castable
from kpg.runtime.functions.registry import (
    Composition,
    Matcher,
    Memoized,
    NullRule,
    Overload,
    Signature,
    memoized,
    primitive,
    scalar,
)
from kpg.runtime.functions.type_rules import fixed, is_unknown, same
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BOOLEAN, BYTEA, INTEGER, TEXT, Type

ANY_CHARACTER = -1
ANY_STRING = -2
LONGEST: Final = 1 << 24
"""Characters of a text that a function may make: more is a mistake in a length, not a text."""
WORDS: Final = re.compile(r"[^\W_]+")

_text = fixed(TEXT, TEXT)
_text_text = fixed(TEXT, TEXT, TEXT)
_text_integer = fixed(TEXT, TEXT, INTEGER)
_test = fixed(BOOLEAN, TEXT, TEXT)


@memoized("upper", "text", _text, {"upper('aé')": "'AÉ'"})
def upper(string: str) -> str:
    """Upper case."""
    result = string.upper()
    return result if len(result) == len(string) else "".join(map(_one_upper, string))


def _one_upper(character: str) -> str:
    """A character stays one: there is none for the capital of some."""
    result = character.upper()
    return result if len(result) == 1 else character


@memoized("lower", "text", _text, {"lower('ABC')": "'abc'"})
def lower(string: str) -> str:
    """Lower case."""
    if "Σ" in string or "İ" in string:
        return "".join(map(_one_lower, string))
    return string.lower()


def _one_lower(character: str) -> str:
    return character.lower()[0]


def length(string: str | bytes) -> int:
    """Number of characters, or of bytes."""
    return len(string)


scalar(
    "length",
    "text or BYTEA",
    "Number of characters, or of bytes.",
    {"length('é')": "1", "length('')": "0"},
    Overload(fixed(INTEGER, TEXT), Memoized(lambda call: length)),
    Overload(same(lambda type_: type_ == BYTEA, result=INTEGER), Memoized(lambda call: length)),
)


@memoized("reverse", "text", _text, {"reverse('abc')": "'cba'"})
def reverse(string: str) -> str:
    """The characters from last to first."""
    return string[::-1]


@memoized(
    "initcap", "text", _text, {"initcap('hi THOMAS')": "'Hi Thomas'", "initcap('o''NEIL-8a')": "'O''Neil-8a'"}
)
def initcap(string: str) -> str:
    """The first character of each word in upper case, the rest in lower; words are of letters and digits."""
    return WORDS.sub(lambda word: word[0][:1].upper() + word[0][1:].lower(), string)


def check_length(count: int) -> None:
    """Raise ValueError if a text of ``count`` characters would be too long."""
    if count > LONGEST:
        raise ValueError("requested length too large")


@memoized("md5", "text", _text, {"md5('abc')": "'900150983cd24fb0d6963f7d28e17f72'"})
def md5(string: str) -> str:
    """The MD5 hash of the text in UTF-8, as 32 hexadecimal digits."""
    return hashlib.md5(string.encode(), usedforsecurity=False).hexdigest()


@memoized(
    "repeat", "text and a number", _text_integer, {"repeat('Pg', 4)": "'PgPgPgPg'", "repeat('a', -1)": "''"}
)
def repeat(string: str, count: int) -> str:
    """So many times the text, one after the other; none if the number is negative."""
    check_length(len(string) * count)
    return string * count


def _substring(string: str, start: int, count: int | None = None) -> str:
    if count is None:
        return string[max(start - 1, 0) :]
    if count < 0:
        raise ValueError("negative substring length not allowed")
    return string[max(start - 1, 0) : max(start + count - 1, 0)]


def _matched(string: str, pattern: str) -> object:
    from kpg.runtime.functions.regex_functions import substring  # lazy: the regex package takes 15 ms

    return substring(string, pattern)


def _similar(call: Call) -> Scalar:
    return Call("similar_substring", call.args, TEXT)


scalar(
    "substring",
    "text and a position and optionally a length, or a regular expression",
    "The characters from a position (from 1) on, at most so many; or what an expression matches first.",
    {
        "substring('13-PHONE', 1, 2)": "'13'",
        "substring('abc', 2)": "'bc'",
        "substring('abc' FROM 3)": "'c'",
        "substring('Thomas' FROM '...$')": "'mas'",
    },
    Overload(_text_text, Memoized(lambda call: _matched)),
    Overload(fixed(TEXT, TEXT, TEXT, TEXT), Composition(_similar)),
    Overload(_text_integer, Memoized(lambda call: _substring)),
    Overload(fixed(TEXT, TEXT, INTEGER, INTEGER), Memoized(lambda call: _substring)),
)


@memoized("left", "text and a number", _text_integer, {"left('abc', 2)": "'ab'", "left('abc', -1)": "'ab'"})
def left(string: str, count: int) -> str:
    """The first characters; a negative number counts those left out at the end."""
    return string[:count]


@memoized(
    "right", "text and a number", _text_integer, {"right('abc', 2)": "'bc'", "right('abc', -1)": "'bc'"}
)
def right(string: str, count: int) -> str:
    """The last characters; a negative number counts those left out at the start."""
    return string[max(len(string) - count, 0) :] if count >= 0 else string[-count:]


def _trimmed(method: Callable[..., str]) -> Memoized:
    return Memoized(lambda call: lambda string, characters=" ": method(string, characters))


for _name, _method, _what, _shown in (
    ("trim", str.strip, "both ends", "'a'"),
    ("ltrim", str.lstrip, "the start", "'a '"),
    ("rtrim", str.rstrip, "the end", "' a'"),
):
    scalar(
        _name,
        "text, and optionally the characters to remove",
        f"Without blanks, or the given characters, at {_what}.",
        {f"{_name}(' a ')": _shown},
        Overload(_text, _trimmed(_method)),
        Overload(_text_text, _trimmed(_method)),
    )


@memoized("replace", "three texts", fixed(TEXT, TEXT, TEXT, TEXT), {"replace('aXbX', 'X', '-')": "'a-b-'"})
def replace(string: str, old: str, new: str) -> str:
    """Every occurrence of the second text replaced by the third."""
    if not old:
        return string
    if len(new) > len(old):
        check_length(len(string) + string.count(old) * (len(new) - len(old)))
    return string.replace(old, new)


@memoized("concat", "two texts", _text_text, {"'a' || 'b'": "'ab'", "'a' || NULL": "NULL"})
def concat(first: str, second: str) -> str:
    """One text after the other; NULL if either is."""
    return first + second


def _concat_all(*texts: str) -> str:
    return "".join(texts)


primitive("$concat_all", Memoized(lambda call: _concat_all))


def _texts(types: tuple[Type, ...]) -> Signature | None:
    """Two arguments or more, of any types that texts can be made of."""
    if len(types) < 2 or not all(is_unknown(type_) or castable(type_, TEXT) for type_ in types):
        return None
    return Signature(tuple(map(shown_type, types)), TEXT)


def shown_type(type_: Type) -> Type:
    """What an argument that is shown is cast to: truth values are shown by one letter."""
    return type_ if type_ == BOOLEAN or type_.is_padded else TEXT


def shown(value: Scalar) -> Scalar:
    """The text that a value is shown by: CHAR(n) with its blanks."""
    if value.type.is_padded:
        return Call("rpad", (value, Literal(value.type.precision, INTEGER)), TEXT)
    return Call("$letter", (value,), TEXT) if value.type == BOOLEAN else value


primitive("$letter", Memoized(lambda call: lambda value: "t" if value else "f"))


def _concat_ws(call: Call) -> Scalar:
    """Each text with a separator before it, nothing for NULL; of that, what follows the first separator."""
    separator, *texts = map(shown, call.args)
    parts = (Call("concat", (separator, text), TEXT) for text in texts)
    known = (Call("coalesce", (part, Literal("", TEXT)), TEXT) for part in parts)
    whole = reduce(lambda left, right: Call("concat", (left, right), TEXT), known)
    start = Call("add", (Call("length", (separator,), INTEGER), Literal(1, INTEGER)), INTEGER)
    return Call("substring", (whole, start), TEXT)


scalar(
    "concat_ws",
    "a separator and values",
    "The values as text, one after the other, the separator between them; NULLs among them are left out.",
    {
        "concat_ws(',', 'abcde', 2, NULL, 22)": "'abcde,2,22'",
        "concat_ws('-', NULL, 'a')": "'a'",
        "concat_ws(NULL, 'a', 'b')": "NULL",
    },
    Overload(_texts, Composition(_concat_ws)),
    nulls=NullRule.OWN,
)


@memoized("starts_with", "two texts", _test, {"starts_with('PROMO TIN', 'PROMO')": "TRUE"})
def starts_with(string: str, prefix: str) -> bool:
    """Whether the first begins with the second."""
    return string.startswith(prefix)


@memoized("ends_with", "two texts", _test, {"ends_with('PROMO TIN', 'TIN')": "TRUE"})
def ends_with(string: str, suffix: str) -> bool:
    """Whether the first ends with the second."""
    return string.endswith(suffix)


@memoized("contains", "two texts", _test, {"contains('abc', 'bc')": "TRUE", "contains('abc', 'x')": "FALSE"})
def contains(string: str, part: str) -> bool:
    """Whether the second occurs in the first."""
    return part in string


@memoized("position", "two texts", fixed(INTEGER, TEXT, TEXT), {"strpos('abc', 'c')": "3"})
def position(string: str, part: str) -> int:
    """Where the second first occurs in the first; 0 if it does not."""
    return string.find(part) + 1


@memoized(
    "split_part",
    "text, a separator and a number",
    fixed(TEXT, TEXT, TEXT, INTEGER),
    {
        "split_part('a-b-c', '-', 2)": "'b'",
        "split_part('a-b', '-', 5)": "''",
        "split_part('a-b', '-', -1)": "'b'",
    },
)
def split_part(string: str, separator: str, number: int) -> str:
    """The n-th part (from the end if negative) between separators; empty if there are fewer."""
    if number == 0:
        raise ValueError("field position must not be zero")
    parts = string.split(separator) if separator else [string]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def _fill(count: int, fill: str) -> str:
    if not fill:
        return ""
    check_length(count)
    return (fill * (count // len(fill) + 1))[:count]


def _lpad(string: str, size: int, fill: str = " ") -> str:
    size = max(size, 0)
    return _fill(size - len(string), fill) + string if len(string) < size else string[:size]


def _rpad(string: str, size: int, fill: str = " ") -> str:
    size = max(size, 0)
    return string + _fill(size - len(string), fill) if len(string) < size else string[:size]


def _padded(function: Callable[..., str]) -> Memoized:
    return Memoized(lambda call: function)


for _name, _pad, _what, _example in (
    ("lpad", _lpad, "the start", {"lpad('7', 3, '0')": "'007'"}),
    ("rpad", _rpad, "the end", {"rpad('a', 3, '.')": "'a..'"}),
):
    scalar(
        _name,
        "text, a length and optionally what to fill up with",
        f"Filled up at {_what} to a length, by blanks or the given text, or cut to it.",
        _example,
        Overload(_text_integer, _padded(_pad)),
        Overload(fixed(TEXT, TEXT, INTEGER, TEXT), _padded(_pad)),
    )


def tokens(pattern: str, escape: str) -> tuple[int, ...]:
    """A LIKE pattern as bytes, ANY_CHARACTER for ``_`` and ANY_STRING for ``%``."""
    if len(escape) > 1:
        raise ValueError("invalid escape string")
    result: list[int] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError("LIKE pattern must not end with escape character")
            result.extend(escaped.encode())
        elif character in "%_":
            result.append(ANY_STRING if character == "%" else ANY_CHARACTER)
        else:
            result.extend(character.encode())
    return tuple(result)


def _literals(call: Call) -> list[str]:
    return [str(arg.value) for arg in call.args[1:] if isinstance(arg, Literal)]


def _pattern(call: Call) -> tuple[int, ...]:
    pattern, *escape = _literals(call)
    try:
        return tokens(pattern, escape[0] if escape else "\\")
    except ValueError as error:
        raise ProgrammingError(f"bad LIKE pattern '{pattern}': {error}") from error


def _matches(string: str, pattern: str, escape: str = "\\") -> bool:
    kinds = {ANY_STRING: b".*", ANY_CHARACTER: b"."}
    parts = [kinds.get(token) or re.escape(bytes([token])) for token in tokens(pattern, escape)]
    expression = b"".join(parts).decode("utf-8", errors="surrogateescape")
    return re.fullmatch(expression, string, re.DOTALL) is not None


primitive("$like", Matcher(_pattern))
primitive("$like_pairs", Memoized(lambda call: _matches))


def _like(call: Call) -> Scalar:
    known = all(isinstance(arg, Literal) and arg.value is not None for arg in call.args[1:])
    return Call("$like" if known else "$like_pairs", call.args, BOOLEAN)


def _ilike(call: Call) -> Scalar:
    text, pattern, *escape = call.args
    folded = (Call("lower", (text,), TEXT), Call("lower", (pattern,), TEXT))
    return Call("like", (*folded, *escape), BOOLEAN)


_with_escape = fixed(BOOLEAN, TEXT, TEXT, TEXT)

scalar(
    "like",
    "text, a pattern and optionally an escape character",
    "Whether the text matches: % is any string, _ any character, the escape (\\) makes them plain.",
    {
        "'PROMO BURNISHED' LIKE 'PROMO%'": "TRUE",
        "'a special x requests' LIKE '%special%requests%'": "TRUE",
        "'é' LIKE '_'": "TRUE",
        "'50%' LIKE '50!%' ESCAPE '!'": "TRUE",
        "'abc' LIKE 'b'": "FALSE",
    },
    Overload(_test, Composition(_like)),
    Overload(_with_escape, Composition(_like)),
)
scalar(
    "ilike",
    "text, a pattern and optionally an escape character",
    "LIKE in lower case.",
    {"'Promo' ILIKE 'pROMO%'": "TRUE"},
    Overload(_test, Composition(_ilike)),
    Overload(_with_escape, Composition(_ilike)),
)
