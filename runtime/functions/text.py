"""Text functions: plain Python on strings, run once for each distinct string.

Positions count characters from 1.
"""

import hashlib
import re
from collections.abc import Callable
from functools import reduce
from typing import Final

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.casts import is_castable
from kpg.runtime.functions.registry import (
    Composition,
    Matcher,
    MemoizedFunction,
    NullRule,
    Overload,
    Signature,
    register_memoized,
    register_primitive,
    register_scalar,
)
from kpg.runtime.functions.type_rules import is_unknown, same_type_rule, signature_rule
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BOOLEAN, BYTEA, INTEGER, TEXT, Type

ANY_CHARACTER = -1
ANY_STRING = -2
MAX_TEXT_LENGTH: Final = 1 << 24
"""Characters of a text that a function may create. A longer text is taken for a mistake in a length."""
WORD: Final = re.compile(r"[^\W_]+")

_text = signature_rule(TEXT, TEXT)
_text_text = signature_rule(TEXT, TEXT, TEXT)
_text_integer = signature_rule(TEXT, TEXT, INTEGER)
_test = signature_rule(BOOLEAN, TEXT, TEXT)


@register_memoized("upper", "text", _text, {"upper('aé')": "'AÉ'"})
def upper(string: str) -> str:
    """Upper case."""
    result = string.upper()
    return result if len(result) == len(string) else "".join(map(_upper_character, string))


def _upper_character(character: str) -> str:
    """Return the upper-case character. Characters whose upper case has several characters stay."""
    result = character.upper()
    return result if len(result) == 1 else character


@register_memoized("lower", "text", _text, {"lower('ABC')": "'abc'"})
def lower(string: str) -> str:
    """Lower case."""
    if "Σ" in string or "İ" in string:
        return "".join(map(_lower_character, string))
    return string.lower()


def _lower_character(character: str) -> str:
    return character.lower()[0]


def length(string: str | bytes) -> int:
    """Return the number of characters, or of bytes."""
    return len(string)


register_scalar(
    "length",
    "text or BYTEA",
    "Number of characters, or of bytes.",
    {"length('é')": "1", "length('')": "0"},
    Overload(signature_rule(INTEGER, TEXT), MemoizedFunction(lambda call: length)),
    Overload(
        same_type_rule(lambda type_: type_ == BYTEA, result=INTEGER), MemoizedFunction(lambda call: length)
    ),
)


@register_memoized("reverse", "text", _text, {"reverse('abc')": "'cba'"})
def reverse(string: str) -> str:
    """The characters from last to first."""
    return string[::-1]


@register_memoized(
    "initcap", "text", _text, {"initcap('hi THOMAS')": "'Hi Thomas'", "initcap('o''NEIL-8a')": "'O''Neil-8a'"}
)
def initcap(string: str) -> str:
    """The first character of each word in upper case, the rest in lower; words are of letters and digits."""
    return WORD.sub(lambda word: word[0][:1].upper() + word[0][1:].lower(), string)


def check_length(count: int) -> None:
    """Raise ValueError if a text of ``count`` characters would be too long."""
    if count > MAX_TEXT_LENGTH:
        raise ValueError("requested length too large")


@register_memoized("md5", "text", _text, {"md5('abc')": "'900150983cd24fb0d6963f7d28e17f72'"})
def md5(string: str) -> str:
    """The MD5 hash of the text in UTF-8, as 32 hexadecimal digits."""
    return hashlib.md5(string.encode(), usedforsecurity=False).hexdigest()


@register_memoized(
    "repeat", "text and a number", _text_integer, {"repeat('Pg', 4)": "'PgPgPgPg'", "repeat('a', -1)": "''"}
)
def repeat(string: str, count: int) -> str:
    """Return the text repeated ``count`` times; none if the number is negative."""
    check_length(len(string) * count)
    return string * count


def _substring(string: str, start: int, count: int | None = None) -> str:
    if count is None:
        return string[max(start - 1, 0) :]
    if count < 0:
        raise ValueError("negative substring length not allowed")
    return string[max(start - 1, 0) : max(start + count - 1, 0)]


def _regex_substring(string: str, pattern: str) -> object:
    from kpg.runtime.functions.regex_functions import substring  # lazy: the regex package takes 15 ms

    return substring(string, pattern)


def _similar_substring(call: Call) -> Scalar:
    return Call("similar_substring", call.args, TEXT)


register_scalar(
    "substring",
    "text and a position and optionally a length, or a regular expression",
    "The characters from a position (from 1) on, at most so many; or what an expression matches first.",
    {
        "substring('13-PHONE', 1, 2)": "'13'",
        "substring('abc', 2)": "'bc'",
        "substring('abc' FROM 3)": "'c'",
        "substring('Thomas' FROM '...$')": "'mas'",
    },
    Overload(_text_text, MemoizedFunction(lambda call: _regex_substring)),
    Overload(signature_rule(TEXT, TEXT, TEXT, TEXT), Composition(_similar_substring)),
    Overload(_text_integer, MemoizedFunction(lambda call: _substring)),
    Overload(signature_rule(TEXT, TEXT, INTEGER, INTEGER), MemoizedFunction(lambda call: _substring)),
)


@register_memoized(
    "left", "text and a number", _text_integer, {"left('abc', 2)": "'ab'", "left('abc', -1)": "'ab'"}
)
def left(string: str, count: int) -> str:
    """The first characters; a negative number counts those left out at the end."""
    return string[:count]


@register_memoized(
    "right", "text and a number", _text_integer, {"right('abc', 2)": "'bc'", "right('abc', -1)": "'bc'"}
)
def right(string: str, count: int) -> str:
    """The last characters; a negative number counts those left out at the start."""
    return string[max(len(string) - count, 0) :] if count >= 0 else string[-count:]


def _trim_function(method: Callable[..., str]) -> MemoizedFunction:
    return MemoizedFunction(lambda call: lambda string, characters=" ": method(string, characters))


for _name, _method, _what, _shown in (
    ("trim", str.strip, "both ends", "'a'"),
    ("ltrim", str.lstrip, "the start", "'a '"),
    ("rtrim", str.rstrip, "the end", "' a'"),
):
    register_scalar(
        _name,
        "text, and optionally the characters to remove",
        f"Without blanks, or the given characters, at {_what}.",
        {f"{_name}(' a ')": _shown},
        Overload(_text, _trim_function(_method)),
        Overload(_text_text, _trim_function(_method)),
    )


@register_memoized(
    "replace", "three texts", signature_rule(TEXT, TEXT, TEXT, TEXT), {"replace('aXbX', 'X', '-')": "'a-b-'"}
)
def replace(string: str, old: str, new: str) -> str:
    """Every occurrence of the second text replaced by the third."""
    if not old:
        return string
    if len(new) > len(old):
        check_length(len(string) + string.count(old) * (len(new) - len(old)))
    return string.replace(old, new)


@register_memoized("concat", "two texts", _text_text, {"'a' || 'b'": "'ab'", "'a' || NULL": "NULL"})
def concat(first: str, second: str) -> str:
    """One text after the other; NULL if either is."""
    return first + second


def _concat_all(*texts: str) -> str:
    return "".join(texts)


register_primitive("$concat_all", MemoizedFunction(lambda call: _concat_all))


def _displayable_arguments(types: tuple[Type, ...]) -> Signature | None:
    """Accept two or more arguments of any types that cast to text."""
    if len(types) < 2 or not all(is_unknown(type_) or is_castable(type_, TEXT) for type_ in types):
        return None
    return Signature(tuple(map(display_type, types)), TEXT)


def display_type(type_: Type) -> Type:
    """Return the type to which a displayed argument is cast. BOOLEAN and CHAR(n) stay."""
    return type_ if type_ == BOOLEAN or type_.is_padded else TEXT


def display_text(value: Scalar) -> Scalar:
    """Return the displayed text of a value: CHAR(n) with its blanks, BOOLEAN as one letter."""
    if value.type.is_padded:
        return Call("rpad", (value, Literal(value.type.precision, INTEGER)), TEXT)
    return Call("$letter", (value,), TEXT) if value.type == BOOLEAN else value


register_primitive("$letter", MemoizedFunction(lambda call: lambda value: "t" if value else "f"))


def _concat_ws(call: Call) -> Scalar:
    """Concatenate each non-NULL text with a separator before it, and drop the first separator."""
    separator, *texts = map(display_text, call.args)
    parts = (Call("concat", (separator, text), TEXT) for text in texts)
    known = (Call("coalesce", (part, Literal("", TEXT)), TEXT) for part in parts)
    whole = reduce(lambda left, right: Call("concat", (left, right), TEXT), known)
    start = Call("add", (Call("length", (separator,), INTEGER), Literal(1, INTEGER)), INTEGER)
    return Call("substring", (whole, start), TEXT)


register_scalar(
    "concat_ws",
    "a separator and values",
    "The values as text, one after the other, the separator between them; NULLs among them are left out.",
    {
        "concat_ws(',', 'abcde', 2, NULL, 22)": "'abcde,2,22'",
        "concat_ws('-', NULL, 'a')": "'a'",
        "concat_ws(NULL, 'a', 'b')": "NULL",
    },
    Overload(_displayable_arguments, Composition(_concat_ws)),
    nulls=NullRule.CALLED_ON_NULL,
)


@register_memoized("starts_with", "two texts", _test, {"starts_with('PROMO TIN', 'PROMO')": "TRUE"})
def starts_with(string: str, prefix: str) -> bool:
    """Whether the first begins with the second."""
    return string.startswith(prefix)


@register_memoized("ends_with", "two texts", _test, {"ends_with('PROMO TIN', 'TIN')": "TRUE"})
def ends_with(string: str, suffix: str) -> bool:
    """Whether the first ends with the second."""
    return string.endswith(suffix)


@register_memoized(
    "contains", "two texts", _test, {"contains('abc', 'bc')": "TRUE", "contains('abc', 'x')": "FALSE"}
)
def contains(string: str, part: str) -> bool:
    """Whether the second occurs in the first."""
    return part in string


@register_memoized("position", "two texts", signature_rule(INTEGER, TEXT, TEXT), {"strpos('abc', 'c')": "3"})
def position(string: str, part: str) -> int:
    """Where the second first occurs in the first; 0 if it does not."""
    return string.find(part) + 1


@register_memoized(
    "split_part",
    "text, a separator and a number",
    signature_rule(TEXT, TEXT, TEXT, INTEGER),
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


def _pad_function(pad: Callable[..., str]) -> MemoizedFunction:
    return MemoizedFunction(lambda call: pad)


for _name, _pad, _what, _example in (
    ("lpad", _lpad, "the start", {"lpad('7', 3, '0')": "'007'"}),
    ("rpad", _rpad, "the end", {"rpad('a', 3, '.')": "'a..'"}),
):
    register_scalar(
        _name,
        "text, a length and optionally what to fill up with",
        f"Filled up at {_what} to a length, by blanks or the given text, or cut to it.",
        _example,
        Overload(_text_integer, _pad_function(_pad)),
        Overload(signature_rule(TEXT, TEXT, INTEGER, TEXT), _pad_function(_pad)),
    )


def like_tokens(pattern: str, escape: str) -> tuple[int, ...]:
    """Return a LIKE pattern as bytes, with ANY_CHARACTER for ``_`` and ANY_STRING for ``%``."""
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


def _literal_texts(call: Call) -> list[str]:
    return [str(arg.value) for arg in call.args[1:] if isinstance(arg, Literal)]


def _like_pattern(call: Call) -> tuple[int, ...]:
    pattern, *escape = _literal_texts(call)
    try:
        return like_tokens(pattern, escape[0] if escape else "\\")
    except ValueError as error:
        raise ProgrammingError(f"bad LIKE pattern '{pattern}': {error}") from error


def _matches_like(string: str, pattern: str, escape: str = "\\") -> bool:
    kinds = {ANY_STRING: b".*", ANY_CHARACTER: b"."}
    parts = [kinds.get(token) or re.escape(bytes([token])) for token in like_tokens(pattern, escape)]
    expression = b"".join(parts).decode("utf-8", errors="surrogateescape")
    return re.fullmatch(expression, string, re.DOTALL) is not None


register_primitive("$like", Matcher(_like_pattern))
register_primitive("$like_pairs", MemoizedFunction(lambda call: _matches_like))


def _like(call: Call) -> Scalar:
    known = all(isinstance(arg, Literal) and arg.value is not None for arg in call.args[1:])
    return Call("$like" if known else "$like_pairs", call.args, BOOLEAN)


def _ilike(call: Call) -> Scalar:
    text, pattern, *escape = call.args
    folded = (Call("lower", (text,), TEXT), Call("lower", (pattern,), TEXT))
    return Call("like", (*folded, *escape), BOOLEAN)


_with_escape = signature_rule(BOOLEAN, TEXT, TEXT, TEXT)

register_scalar(
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
register_scalar(
    "ilike",
    "text, a pattern and optionally an escape character",
    "LIKE in lower case.",
    {"'Promo' ILIKE 'pROMO%'": "TRUE"},
    Overload(_test, Composition(_ilike)),
    Overload(_with_escape, Composition(_ilike)),
)
