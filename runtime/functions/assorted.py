"""Functions of several chapters: paths into JSON as arguments, arrays of one value, names, sizes."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.functions.registry import (
    Composition,
    Memoized,
    NullRule,
    Overload,
    Rule,
    Signature,
    scalar,
)
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.scalar import Call, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, JSON, JSONB, NUMERIC, TEXT, Kind, Type, array
from kpg.runtime.values import arrays
from kpg.runtime.values.jsons import Json

MOST: Final = 1 << 24
"""Elements that an array may have."""
SIZES: Final = {"bytes": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40, "pb": 1 << 50}
PART: Final = re.compile(r'[ \t\n\r\f]*(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))[ \t\n\r\f]*(\.?)')


def _path(kind: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) < 2 or not (types[0].kind is kind.kind or is_unknown(types[0])):
            return None
        if not all(type_.is_text or is_unknown(type_) for type_ in types[1:]):
            return None
        return Signature((kind, *(TEXT for _ in types[1:])), kind)

    return rule


def _along(name: str, result: Type | None) -> Callable[[Call], Scalar]:
    def build(call: Call) -> Scalar:
        path = Call("$array", call.args[1:], array(TEXT))
        return Call(name, (call.args[0], path), result or call.args[0].type)

    return build


def _as_text(rule: Rule) -> Rule:
    def changed(types: tuple[Type, ...]) -> Signature | None:
        found = rule(types)
        return None if found is None else Signature(found.args, TEXT)

    return changed


for _kind, _prefix in ((JSON, "json"), (JSONB, "jsonb")):
    scalar(
        f"{_prefix}_extract_path",
        "JSON and names or numbers",
        "What a path of them leads to: #>.",
        {f"{_prefix}_extract_path('{{\"a\":[1,2]}}', 'a', '1')::TEXT": "'2'"},
        Overload(_path(_kind), Composition(_along("json_get_path", None))),
    )
    scalar(
        f"{_prefix}_extract_path_text",
        "JSON and names or numbers",
        "As #>, as text: #>>.",
        {f"{_prefix}_extract_path_text('{{\"a\":\"x\"}}', 'a')": "'x'"},
        Overload(_as_text(_path(_kind)), Composition(_along("json_get_path_text", TEXT))),
    )


def _filling(types: tuple[Type, ...]) -> Signature | None:
    if len(types) not in (2, 3) or types[0].kind is Kind.ARRAY or is_unknown(types[0]):
        return None
    whole = all(
        is_unknown(type_) or (type_.kind is Kind.ARRAY and type_.parts[0].is_integer) for type_ in types[1:]
    )
    return Signature((types[0], *(array(INTEGER),) * (len(types) - 1)), array(types[0])) if whole else None


def filled(value: Any, lengths: Any, firsts: Any = arrays.EMPTY) -> Any:
    """An array of those lengths, and of those first subscripts, with the value everywhere."""
    if lengths is None or firsts is None:
        raise ValueError("dimension array or low bound array cannot be null")
    if None in lengths.items or None in firsts.items:
        raise ValueError("dimension values cannot be null")
    if firsts.items and len(firsts.items) != len(lengths.items):
        raise ValueError("wrong number of array subscripts")
    count = 1
    for length in lengths.items:
        count *= length
    if any(length < 0 for length in lengths.items) or count > MOST or len(lengths.items) > 6:
        raise ValueError("array size exceeds the maximum allowed")
    if not (count and lengths.items):
        return arrays.EMPTY
    whole = arrays.Array((value,) * count, tuple(lengths.items))
    return arrays.counted(whole, firsts.items or (1,) * len(lengths.items))


scalar(
    "array_fill",
    "a value, the lengths of the dimensions and optionally their first subscripts",
    "An array with the value everywhere.",
    {"array_fill(7, ARRAY[2])": "'{7,7}'::INT[]"},
    Overload(_filling, Memoized(lambda call: filled, takes_nulls=True)),
    nulls=NullRule.OWN,
)


def _texts(*more: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + len(more) or not (types[0].is_text or is_unknown(types[0])):
            return None
        return Signature((TEXT, *more), array(TEXT)) if types[1:] == more else None

    return rule


def identifiers(text: str, strict: bool = True) -> Any:
    """The names of a name with its schema."""
    found: list[str] = []
    place = 0
    while True:
        part = PART.match(text, place)
        if part is None or (strict and not part[3] and part.end() < len(text)):
            raise ValueError(f'string is not a valid identifier: "{text}"')
        found.append(part[1].replace('""', '"') if part[1] else part[2].lower())
        place = part.end()
        if not part[3]:
            break
    return arrays.of(found)


scalar(
    "parse_ident",
    "a name, and whether nothing may follow it",
    "The parts of a name, in lower case unless they are quoted.",
    {"parse_ident('Main.\"T\"')": "'{main,T}'::TEXT[]"},
    Overload(_texts(), Memoized(lambda call: identifiers)),
    Overload(_texts(BOOLEAN), Memoized(lambda call: identifiers)),
)


def _sized(types: tuple[Type, ...]) -> Signature | None:
    fits = len(types) == 1 and (types[0].is_text or is_unknown(types[0]))
    return Signature((TEXT,), BIGINT) if fits else None


def size_of(text: str) -> int:
    """The bytes of ``1.5 MB``."""

    found = re.fullmatch(r"\s*([+-]?\d+\.?\d*)\s*([A-Za-z]*)\s*", text)
    if found is None or (found[2] or "b").lower() not in SIZES:
        raise ValueError(f'invalid size: "{text}"')
    return int(Decimal(found[1]) * SIZES[(found[2] or "b").lower()])


def _bytes(types: tuple[Type, ...]) -> Signature | None:
    taken = len(types) == 1 and (types[0].is_exact or types[0].kind is Kind.NUMERIC)
    return Signature((NUMERIC,), TEXT) if taken else None


scalar(
    "pg_size_bytes",
    "a size as text",
    "The bytes that a size such as '1 MB' is.",
    {"pg_size_bytes('1.5 kB')": "1536"},
    Overload(_sized, Memoized(lambda call: size_of)),
)


def pretty(size: Decimal) -> str:
    """A size in the largest unit of which there are ten, rounded."""
    number, sign = abs(int(size)), "-" if size < 0 else ""
    if number < 10 * 1024:
        return f"{sign}{number} bytes"
    halves = number >> 9
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        if halves < 20 * 1024 - 1 or unit == "PB":
            return f"{sign}{(halves + 1) // 2} {unit}"
        halves >>= 10
    raise AssertionError(size)


scalar(
    "pg_size_pretty",
    "a number of bytes",
    "A size as people write it.",
    {"pg_size_pretty(20000)": "'20 kB'"},
    Overload(_bytes, Memoized(lambda call: pretty)),
)


def _lax(types: tuple[Type, ...]) -> Signature | None:
    wanted = (JSONB, array(TEXT), JSONB, BOOLEAN, TEXT)
    if not 3 <= len(types) <= len(wanted):
        return None
    for type_, one in zip(types, wanted, strict=False):
        if not (is_unknown(type_) or type_.kind is one.kind or (type_.is_text and one.is_text)):
            return None
    return Signature(wanted[: len(types)], JSONB)


def _set_lax(call: Call) -> Callable[..., Any]:
    from kpg.runtime.functions.json_edits import put_in_place

    put = put_in_place(True)

    def change(
        whole: Any, path: Any, value: Any, create: bool | None = True, how: str | None = "use_json_null"
    ) -> Any:
        if whole is None or path is None or create is None or how is None:
            return None
        if value is not None:
            return put(whole, path, value, create)
        match how:
            case "raise_exception":
                raise ValueError("JSON value must not be null")
            case "use_json_null":
                return put(whole, path, Json(None), create)
            case "return_target":
                return whole
            case "delete_key":
                from kpg.runtime.functions.jsons import without_path

                return without_path(whole, path)
            case _:
                raise ValueError("null_value_treatment must be one of Postgres' four")

    return change


scalar(
    "jsonb_set_lax",
    "JSONB, a path, a value, and optionally a truth value and what a NULL does",
    "As jsonb_set, where a NULL is null, deletes the key, changes nothing or is an error.",
    {"jsonb_set_lax('{\"a\":1}', '{a}', NULL)::TEXT": "'{\"a\": null}'"},
    Overload(_lax, Memoized(_set_lax, takes_nulls=True)),
    nulls=NullRule.OWN,
)
