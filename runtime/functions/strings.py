"""The less common text functions of Postgres: codes, quotes, translation, FORMAT, Unicode.

Positions count characters from 1.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Final

from kpg.runtime.functions.casts import is_castable
from kpg.runtime.functions.registry import (
    Composition,
    MemoizedFunction,
    NullRule,
    Overload,
    Signature,
    register_memoized,
    register_primitive,
    register_scalar,
)
from kpg.runtime.functions.text import check_length, display_text, display_type
from kpg.runtime.functions.type_rules import is_unknown, same_type_rule, signature_rule
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, TEXT, Type

_text = signature_rule(TEXT, TEXT)
PLAIN_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_KEYWORDS: Final = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean
    both case cast char character check coalesce collate collation column concurrently constraint create
    cross current_catalog current_date current_role current_schema current_time current_timestamp
    current_user dec decimal default deferrable desc distinct do else end except exists extract false
    fetch float for foreign freeze from full grant greatest group grouping having ilike in initially
    inner inout int integer intersect interval into is isnull join lateral leading least left like limit
    localtime localtimestamp national natural nchar none normalize not notnull null nullif numeric
    offset on only or order out outer overlaps overlay placing position precision primary real
    references returning right row select session_user setof similar smallint some substring symmetric
    table tablesample then time timestamp to trailing treat trim true union unique user using values
    varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists
    xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
"""
RESERVED_KEYWORDS: Final = frozenset(_KEYWORDS.split())
"""Keywords that need quotes as a name."""
SPECIFIER: Final = re.compile(r"%(?:(\d+)\$)?(-)?(?:(\d+)|\*(?:(\d+)\$)?)?(.)?", re.DOTALL)
ESCAPE: Final = re.compile(
    r"\\(?:(\\)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|\+([0-9a-fA-F]{6})|([0-9a-fA-F]{4}))?"
)
FORMS: Final = ("NFC", "NFD", "NFKC", "NFKD")


@register_memoized(
    "translate",
    "three texts",
    signature_rule(TEXT, TEXT, TEXT, TEXT),
    {"translate('12345', '143', 'ax')": "'a2x5'"},
)
def translate(string: str, old: str, new: str) -> str:
    """Each character that is in the second text replaced by that at its place in the third, or left out."""
    table: dict[int, str | None] = {}
    for place, character in enumerate(old):
        table.setdefault(ord(character), new[place] if place < len(new) else None)
    return string.translate(table)


def _overlay(string: str, new: str, start: int, count: int | None = None) -> str:
    if start < 1:
        raise ValueError("negative substring length not allowed")
    end = start - 1 + (len(new) if count is None else count)
    return string[: start - 1] + new + string[max(end, 0) :]


register_scalar(
    "overlay",
    "text, what is put in its place, a position and optionally a length",
    "The characters from a position on, as many as the new text has or as are said, replaced by it.",
    {"overlay('Txxxxas' PLACING 'hom' FROM 2 FOR 4)": "'Thomas'", "overlay('abcd', 'X', 2)": "'aXcd'"},
    Overload(signature_rule(TEXT, TEXT, TEXT, INTEGER), MemoizedFunction(lambda call: _overlay)),
    Overload(signature_rule(TEXT, TEXT, TEXT, INTEGER, INTEGER), MemoizedFunction(lambda call: _overlay)),
)


@register_memoized(
    "chr", "a code point", signature_rule(TEXT, INTEGER), {"chr(65)": "'A'", "chr(8364)": "'€'"}
)
def character(code: int) -> str:
    """The character of a Unicode code point."""
    if code == 0:
        raise ValueError("null character not permitted")
    if not 0 < code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(
            "character number must be positive" if code < 0 else "requested character too large for encoding"
        )
    return chr(code)


@register_memoized("ascii", "text", signature_rule(INTEGER, TEXT), {"ascii('x')": "120", "ascii('')": "0"})
def code_point(string: str) -> int:
    """The Unicode code point of the first character; 0 if there is none."""
    return ord(string[0]) if string else 0


def _padded_char_rule(types: tuple[Type, ...]) -> Signature | None:
    """Accept CHAR(n), whose blanks count as bytes."""
    return Signature(types, INTEGER) if len(types) == 1 and types[0].is_padded else None


register_scalar(
    "octet_length",
    "text",
    "Number of bytes in UTF-8.",
    {"octet_length('jose')": "4", "octet_length('é')": "2"},
    Overload(
        _padded_char_rule,
        Composition(lambda call: Call("octet_length", (display_text(call.args[0]),), INTEGER)),
    ),
    Overload(
        signature_rule(INTEGER, TEXT), MemoizedFunction(lambda call: lambda string: len(string.encode()))
    ),
)


@register_memoized("bit_length", "text", signature_rule(INTEGER, TEXT), {"bit_length('jose')": "32"})
def bit_length(string: str) -> int:
    """Number of bits in UTF-8."""
    return len(string.encode()) * 8


register_scalar(
    "btrim",
    "text, and optionally the characters to remove",
    "Without blanks, or the given characters, at both ends.",
    {"btrim('xyxtrimyyx', 'xyz')": "'trim'"},
    Overload(_text, Composition(lambda call: Call("trim", call.args, TEXT))),
    Overload(signature_rule(TEXT, TEXT, TEXT), Composition(lambda call: Call("trim", call.args, TEXT))),
)


def quote_literal(string: str) -> str:
    """Quote a text as an SQL string constant.

    With backslashes it begins with a blank and ``E``.
    """
    doubled = string.replace("'", "''")
    return f" E'{doubled.replace(chr(92), chr(92) * 2)}'" if "\\" in string else f"'{doubled}'"


def quote_identifier(string: str) -> str:
    """Quote an SQL name if it needs quotes."""
    if PLAIN_NAME.fullmatch(string) and string not in RESERVED_KEYWORDS:
        return string
    return '"' + string.replace('"', '""') + '"'


def _text_castable(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 1 or not (is_unknown(types[0]) or is_castable(types[0], TEXT)):
        return None
    return Signature((TEXT,), TEXT)


def _quote_without_blank(string: str) -> str:
    return quote_literal(string).lstrip(" ")


register_scalar(
    "quote_literal",
    "a value",
    "The value as a quoted constant of SQL.",
    {"quote_literal('O''Reilly')": "'''O''''Reilly'''", "quote_literal(42)": "'''42'''"},
    Overload(_text_castable, MemoizedFunction(lambda call: _quote_without_blank)),
)
register_scalar(
    "quote_ident",
    "text",
    "The text as a name of SQL, in double quotes where it needs them.",
    {"quote_ident('Foo bar')": "'\"Foo bar\"'", "quote_ident('foo')": "'foo'"},
    Overload(_text, MemoizedFunction(lambda call: quote_identifier)),
)


def _quote_or_null(call: Call) -> Scalar:
    return Call("coalesce", (Call("quote_literal", call.args, TEXT), Literal("NULL", TEXT)), TEXT)


register_scalar(
    "quote_nullable",
    "a value",
    "The value as a quoted constant of SQL; the word NULL for NULL.",
    {"quote_nullable(NULL)": "'NULL'", "quote_nullable('a')": "'''a'''"},
    Overload(_text_castable, Composition(_quote_or_null)),
    nulls=NullRule.CALLED_ON_NULL,
)


def _hexadecimal(bits: int) -> MemoizedFunction:
    return MemoizedFunction(lambda call: lambda number: f"{number & ((1 << bits) - 1):x}")


register_scalar(
    "to_hex",
    "an integer",
    "The number in hexadecimal digits, a negative one as two's complement.",
    {"to_hex(255)": "'ff'"},
    Overload(same_type_rule(lambda type_: type_ == BIGINT, result=TEXT), _hexadecimal(64)),
    Overload(signature_rule(TEXT, INTEGER), _hexadecimal(32)),
)


def format_text(pattern: str, *values: str | None) -> str:
    """Format values like Postgres' FORMAT.

    ``%s`` is a text, ``%I`` an identifier and ``%L`` a constant, with widths and positions.
    """
    result: list[str] = []
    end = next_argument = 0

    def argument(position: str | None) -> str | None:
        nonlocal next_argument
        number = next_argument if position is None else int(position) - 1
        if number < 0:
            raise ValueError("format specifies argument 0, but arguments are numbered from 1")
        if number >= len(values):
            raise ValueError("too few arguments for format()")
        next_argument = number + 1
        return values[number]

    for match in SPECIFIER.finditer(pattern):
        result.append(pattern[end : match.start()])
        end = match.end()
        position, left, width, star, kind = match.groups()
        if kind == "%" and match[0] == "%%":
            result.append("%")
            continue
        if kind is None:
            raise ValueError("unterminated format() type specifier")
        if kind not in "sIL":
            raise ValueError(f'unrecognized format() type specifier "{kind}"')
        size = int(width or 0)
        if "*" in match[0]:
            size = int(argument(star) or 0)
        check_length(abs(size))
        text = _format_argument(argument(position), kind)
        result.append(text.ljust(abs(size)) if left or size < 0 else text.rjust(size))
    return "".join((*result, pattern[end:]))


def _format_argument(value: str | None, kind: str) -> str:
    match kind:
        case "L":
            return "NULL" if value is None else _quote_without_blank(value)
        case "I" if value is None:
            raise ValueError("null values cannot be formatted as an SQL identifier")
        case "I":
            return quote_identifier(value or "")
        case _:
            return value or ""


def _format_rule(types: tuple[Type, ...]) -> Signature | None:
    if not types or not all(is_unknown(type_) or is_castable(type_, TEXT) for type_ in types):
        return None
    return Signature(tuple(map(display_type, types)), TEXT)


def _mark_nulls(call: Call) -> Scalar:
    """Prefix each argument with a mark that tells NULL from text, since NULLs would make the call NULL."""
    first, *rest = map(display_text, call.args)
    absent = Literal("-", TEXT)
    marked = (Call("concat", (Literal("+", TEXT), arg), TEXT) for arg in rest)
    arguments = tuple(Call("coalesce", (one, absent), TEXT) for one in marked)
    return Call("$format_text", (first, *arguments), TEXT)


def _format_marked(pattern: str, *values: str) -> str:
    return format_text(pattern, *(value[1:] if value[0] == "+" else None for value in values))


register_primitive("$format_text", MemoizedFunction(lambda call: _format_marked))
register_scalar(
    "format",
    "a text with %s, %I and %L in it, and values",
    "The text with the values in their places: as they are, as names or as constants of SQL.",
    {
        "format('Hello %s, %1$s', 'World')": "'Hello World, World'",
        "format('%I is %L', 'a b', NULL)": "'\"a b\" is NULL'",
        "format('%10s|%-5s|', 'x', 1)": "'         x|1    |'",
    },
    Overload(_format_rule, Composition(_mark_nulls)),
    nulls=NullRule.CALLED_ON_NULL,
)


@register_memoized("unistr", "text", _text, {"unistr('d\\0061t\\+000061')": "'data'"})
def unescape_unicode(string: str) -> str:
    """The text with the characters that its escapes stand for: four digits, or + and six."""

    def decode(match: re.Match[str]) -> str:
        if match[1]:
            return "\\"
        digits = match[2] or match[3] or match[4] or match[5]
        if digits is None or not int(digits, 16):
            raise ValueError("invalid Unicode escape")
        return chr(int(digits, 16))

    return ESCAPE.sub(decode, string)


def _normalize(string: str, form: str = "NFC") -> str:
    if form.upper() not in FORMS:
        raise ValueError(f"invalid normalization form: {form}")
    return unicodedata.normalize(form.upper(), string)  # type: ignore[arg-type]


def _is_normalized(string: str, form: str = "NFC") -> bool:
    return _normalize(string, form) == string


def _register_normalization(
    name: str, doc: str, example: dict[str, str], result: Type, code: Callable[..., object]
) -> None:
    register_scalar(
        name,
        "text, and optionally a form (NFC, NFD, NFKC, NFKD)",
        doc,
        example,
        Overload(signature_rule(result, TEXT), MemoizedFunction(lambda call: code)),
        Overload(signature_rule(result, TEXT, TEXT), MemoizedFunction(lambda call: code)),
    )


_register_normalization(
    "normalize", "The text in a Unicode normalization form.", {"normalize('a')": "'a'"}, TEXT, _normalize
)
_register_normalization(
    "is_normalized",
    "Whether the text is in a Unicode normalization form.",
    {"is_normalized('a')": "TRUE"},
    BOOLEAN,
    _is_normalized,
)
