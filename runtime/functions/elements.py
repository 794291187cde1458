"""Functions that make rows of the parts of a value: of arrays, of texts, of JSON."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kpg.runtime.functions.posix import compiled
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.functions.tables import Listing, RowOverload, RowRule, RowSignature, rows
from kpg.runtime.types import INTEGER, JSON, JSONB, TEXT, Kind, Type, array, range_of
from kpg.runtime.values.arrays import Array, of
from kpg.runtime.values.jsons import Json, text_of

BLANKS: Final = re.compile(r"[ \t\n\r]*")
Row = tuple[object, ...]
Maker = Callable[..., Iterable[Row]]


def takes(names: tuple[str, ...], types: tuple[Type, ...], *args: Type, nullable: bool = True) -> RowRule:
    """Exactly these types of arguments, or quoted constants."""

    def rule(given: tuple[Type, ...]) -> RowSignature | None:
        if len(given) != len(args):
            return None
        for one, arg in zip(given, args, strict=True):
            alike = (one.is_text and arg.is_text) or (one.is_integer and arg.is_integer)
            if not (is_unknown(one) or one.kind is arg.kind or alike):
                return None
        return RowSignature(args, names, types, nullable)

    return rule


def _of_array(result: Callable[[Type], Type], *more: Type) -> RowRule:
    """An array, and other arguments."""

    def rule(given: tuple[Type, ...]) -> RowSignature | None:
        if len(given) != 1 + len(more) or given[0].kind is not Kind.ARRAY:
            return None
        for one, other in zip(given[1:], more, strict=True):
            if (
                not is_unknown(one)
                and one.kind is not other.kind
                and not (one.is_integer and other.is_integer)
            ):
                return None
        return RowSignature((given[0], *more), ("",), (result(given[0]),))

    return rule


def _of_ranges(given: tuple[Type, ...]) -> RowSignature | None:
    """A set of ranges."""
    if len(given) != 1 or given[0].kind is not Kind.MULTIRANGE:
        return None
    return RowSignature(given, ("",), (range_of(given[0].parts[0]),))


def listing(function: Maker, *, takes_nulls: bool = False) -> Listing:
    return Listing(lambda args, types: function, takes_nulls)


def _unnested(value: Array) -> Iterator[Row]:
    yield from ((item,) for item in value.items)


def _subscripts(value: Array, dimension: int, reverse: bool = False) -> Iterator[Row]:
    if 1 <= dimension <= len(value.shape):
        first = value.firsts[dimension - 1]
        places = range(first, first + value.shape[dimension - 1])
        yield from ((place,) for place in (reversed(places) if reverse else places))


rows(
    "unnest",
    "an array (in FROM: one or several, side by side)",
    "The elements of an array, those of all its dimensions one after the other.",
    {"unnest('{1,NULL,3}'::int[])": "(1), (NULL), (3)"},
    RowOverload(_of_array(lambda type_: type_.parts[0]), listing(_unnested)),
    RowOverload(_of_ranges, listing(lambda value: (((pair,),) for pair in value))),
)
rows(
    "generate_subscripts",
    "an array, a dimension, and optionally whether from the last on",
    "The places of an array's elements in a dimension.",
    {"generate_subscripts('{a,b}'::text[], 1)": "(1), (2)"},
    RowOverload(_of_array(lambda type_: INTEGER, INTEGER), listing(_subscripts)),
    RowOverload(_of_array(lambda type_: INTEGER, INTEGER, Type(Kind.BOOLEAN)), listing(_subscripts)),
)


def split(string: str, separator: str | None, null: str | None = None) -> list[str | None]:
    """The parts of a text between separators, NULL for those that equal ``null``; or its characters."""
    if not string:
        return []
    parts = list(string) if separator is None else string.split(separator) if separator else [string]
    return [None if part == null else part for part in parts]


def _string_table(string: str | None, separator: str | None, null: str | None = None) -> Iterator[Row]:
    if string is not None:
        yield from ((part,) for part in split(string, separator, null))


def regexp_split(string: str, pattern: str, options: str = "") -> list[str]:
    """The parts of a text between matches; an empty match does not split at the ends or behind another."""
    if "g" in options:
        raise ValueError('regexp_split does not support the "global" option')
    parts: list[str] = []
    end = last = 0
    for found in compiled(pattern, options).matches(string):
        start, stop = found.span()
        if start < len(string) and stop > last:
            parts.append(string[end:start])
            end = stop
        last = stop
    return [*parts, string[end:]]


def groups(found: re.Match[str]) -> Array:
    """What the parts of an expression matched, the whole if it has none."""
    return of(list(found.groups()) if found.re.groups else [found[0]])


def _regexp_matches(string: str, pattern: str, options: str = "") -> Iterator[Row]:
    for found in compiled(pattern, options.replace("g", "")).matches(string):
        yield (groups(found),)
        if "g" not in options:
            return


_TEXTS: Final = array(TEXT)
rows(
    "string_to_table",
    "text, a separator, and optionally what stands for NULL",
    "The parts of a text between separators; its characters if the separator is NULL.",
    {"string_to_table('a,b,,c', ',', '')": "('a'), ('b'), (NULL), ('c')"},
    RowOverload(takes(("",), (TEXT,), TEXT, TEXT), listing(_string_table, takes_nulls=True)),
    RowOverload(takes(("",), (TEXT,), TEXT, TEXT, TEXT), listing(_string_table, takes_nulls=True)),
)
rows(
    "regexp_split_to_table",
    "text, a regular expression and optionally options",
    "The parts of a text between matches.",
    {"regexp_split_to_table('hello world', '\\s+')": "('hello'), ('world')"},
    *(
        RowOverload(
            takes(("",), (TEXT,), *(TEXT,) * count, nullable=False),
            listing(lambda *given: ((part,) for part in regexp_split(*given))),
        )
        for count in (2, 3)
    ),
)
rows(
    "regexp_matches",
    "text, a regular expression and optionally options",
    "What the parts of an expression in parentheses matched, as an array; with option g of all matches.",
    {"regexp_matches('foobarbequebaz', 'ba.', 'g')": "('{bar}'::text[]), ('{baz}'::text[])"},
    *(
        RowOverload(takes(("",), (_TEXTS,), *(TEXT,) * count, nullable=False), listing(_regexp_matches))
        for count in (2, 3)
    ),
)

# JSON keeps the text that it was read from, its parts as well: their ends have to be found in it.
_DECODER: Final = json.JSONDecoder()


def _skipped(text: str, place: int) -> int:
    found = BLANKS.match(text, place)
    return place if found is None else found.end()


def parts_of(text: str) -> tuple[str, list[tuple[str | None, str]]]:
    """Whether a text of JSON is an object, an array or a scalar, and its members or elements as texts."""
    place = _skipped(text, 0)
    kind = {"[": "array", "{": "object"}.get(text[place], "scalar")
    found: list[tuple[str | None, str]] = []
    if kind == "scalar":
        return kind, found
    place = _skipped(text, place + 1)
    while text[place] not in "]}":
        name = None
        if kind == "object":
            name, place = _DECODER.raw_decode(text, place)
            place = _skipped(text, _skipped(text, place) + 1)
        _, end = _DECODER.raw_decode(text, place)
        found.append((name, text[place:end]))
        place = _skipped(text, end)
        if text[place] == ",":
            place = _skipped(text, place + 1)
    return kind, found


def _plain(text: str) -> str | None:
    """A part of JSON as text: a string without quotes, NULL for null."""
    stripped = text.strip()
    if stripped.startswith('"'):
        value: str = json.loads(stripped)
        return value
    return None if stripped == "null" else stripped


def plain(value: Any) -> str | None:
    """A value of JSONB as text: a string as it is, NULL for null."""
    return value if isinstance(value, str) else None if value is None else text_of(value)


def expected(kind: str, found: str, name: str) -> None:
    if found != kind:
        verb = "extract elements from" if kind == "array" else "deconstruct" if "each" in name else "call"
        what = f"{name} on" if verb == "call" else ""
        raise ValueError(
            f"cannot {verb} {what} {'an' if found[0] in 'ao' else 'a'} {found}".replace("  ", " ")
        )


def kind_of(value: Any) -> str:
    return "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "scalar"


def _elements(type_: Type, name: str, as_text: bool) -> Maker:
    def of_text(text: str) -> Iterator[Row]:
        kind, parts = parts_of(text)
        expected("array", kind, name)
        yield from ((_plain(part) if as_text else part,) for _, part in parts)

    def of_value(value: Json) -> Iterator[Row]:
        expected("array", kind_of(value.value), name)
        yield from ((plain(part) if as_text else Json(part),) for part in value.value)

    return of_text if type_ == JSON else of_value


def _members(type_: Type, name: str, as_text: bool) -> Maker:
    def of_text(text: str) -> Iterator[Row]:
        kind, parts = parts_of(text)
        expected("object", kind, name)
        yield from ((key, _plain(part) if as_text else part) for key, part in parts)

    def of_value(value: Json) -> Iterator[Row]:
        expected("object", kind_of(value.value), name)
        yield from ((key, plain(part) if as_text else Json(part)) for key, part in value.value.items())

    return of_text if type_ == JSON else of_value


def _keys(type_: Type, name: str) -> Maker:
    members = _members(type_, name, True)
    return lambda value: ((key,) for key, _ in members(value))


def _define_json(prefix: str, type_: Type) -> None:
    elements, each, keys = f"{prefix}_array_elements", f"{prefix}_each", f"{prefix}_object_keys"
    for name, as_text, example in (
        (elements, False, "('1'), ('\"a\"'), ('null')"),
        (f"{elements}_text", True, "('1'), ('a'), (NULL)"),
    ):
        rows(
            name,
            type_.kind.value,
            f"The elements of a JSON array{', as text' if as_text else ''}.",
            {f"{name}('[1, \"a\", null]')": example if as_text else example.replace("')", f"'::{prefix})")},
            RowOverload(
                takes(("value",), (TEXT if as_text else type_,), type_),
                listing(_elements(type_, name, as_text)),
            ),
        )
    for name, as_text, example in (
        (each, False, f"('a', '1'::{prefix}), ('b', 'null'::{prefix})"),
        (f"{each}_text", True, "('a', '1'), ('b', NULL)"),
    ):
        rows(
            name,
            type_.kind.value,
            f"The names and values of a JSON object{', these as text' if as_text else ''}.",
            {f'{name}(\'{{"a": 1, "b": null}}\')': example},
            RowOverload(
                takes(("key", "value"), (TEXT, TEXT if as_text else type_), type_),
                listing(_members(type_, name, as_text)),
            ),
        )
    rows(
        keys,
        type_.kind.value,
        "The names in a JSON object.",
        {f'{keys}(\'{{"a": 1, "b": null}}\')': "('a'), ('b')"},
        RowOverload(takes(("",), (TEXT,), type_, nullable=False), listing(_keys(type_, keys))),
    )


for _prefix, _type in (("json", JSON), ("jsonb", JSONB)):
    _define_json(_prefix, _type)
