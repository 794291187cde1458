"""JSON and JSONB operators: members and elements, paths, containment, changes, IS JSON.

JSON operators work on the text as written, JSONB operators on values. A few functions of mixed types
are here too, such as ``array_fill``, ``parse_ident`` and ``pg_size_bytes``.
"""

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.functions.arrays import CONTAINS, IS_CONTAINED, OVERLAP
from kpg.runtime.functions.json_constructors import json_rule, register_strict
from kpg.runtime.functions.registry import (
    Composition,
    MemoizedFunction,
    NullRule,
    Overload,
    Rule,
    Signature,
    register_scalar,
)
from kpg.runtime.functions.type_rules import is_unknown, signature_rule
from kpg.runtime.scalar import Call, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, JSON, JSONB, NUMERIC, TEXT, Kind, Type, array
from kpg.runtime.values import arrays
from kpg.runtime.values.arrays import Array
from kpg.runtime.values.jsons import Json, parse, sort_keys, text_of

MAX_ELEMENTS: Final = 1 << 24
"""Elements that an array may have."""
SIZE_UNITS: Final = {
    "bytes": 1,
    "b": 1,
    "kb": 1 << 10,
    "mb": 1 << 20,
    "gb": 1 << 30,
    "tb": 1 << 40,
    "pb": 1 << 50,
}
IDENTIFIER_PART: Final = re.compile(r'[ \t\n\r\f]*(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))[ \t\n\r\f]*(\.?)')


def _path_rule(kind: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) < 2 or not (types[0].kind is kind.kind or is_unknown(types[0])):
            return None
        if not all(type_.is_text or is_unknown(type_) for type_ in types[1:]):
            return None
        return Signature((kind, *(TEXT for _ in types[1:])), kind)

    return rule


def _path_call(name: str, result: Type | None) -> Callable[[Call], Scalar]:
    def build(call: Call) -> Scalar:
        path = Call("$array", call.args[1:], array(TEXT))
        return Call(name, (call.args[0], path), result or call.args[0].type)

    return build


def _with_text_result(rule: Rule) -> Rule:
    def text_rule(types: tuple[Type, ...]) -> Signature | None:
        found = rule(types)
        return None if found is None else Signature(found.args, TEXT)

    return text_rule


for _kind, _prefix in ((JSON, "json"), (JSONB, "jsonb")):
    register_scalar(
        f"{_prefix}_extract_path",
        "JSON and names or numbers",
        "What a path of them leads to: #>.",
        {f"{_prefix}_extract_path('{{\"a\":[1,2]}}', 'a', '1')::TEXT": "'2'"},
        Overload(_path_rule(_kind), Composition(_path_call("json_get_path", None))),
    )
    register_scalar(
        f"{_prefix}_extract_path_text",
        "JSON and names or numbers",
        "As #>, as text: #>>.",
        {f"{_prefix}_extract_path_text('{{\"a\":\"x\"}}', 'a')": "'x'"},
        Overload(_with_text_result(_path_rule(_kind)), Composition(_path_call("json_get_path_text", TEXT))),
    )


def _fill_rule(types: tuple[Type, ...]) -> Signature | None:
    if len(types) not in (2, 3) or types[0].kind is Kind.ARRAY or is_unknown(types[0]):
        return None
    whole = all(
        is_unknown(type_) or (type_.kind is Kind.ARRAY and type_.parts[0].is_integer) for type_ in types[1:]
    )
    return Signature((types[0], *(array(INTEGER),) * (len(types) - 1)), array(types[0])) if whole else None


def fill_array(value: Any, lengths: Any, lower_bounds: Any = arrays.EMPTY) -> Any:
    """Return an array of these dimensions and lower bounds, filled with a value."""
    if lengths is None or lower_bounds is None:
        raise ValueError("dimension array or low bound array cannot be null")
    if None in lengths.items or None in lower_bounds.items:
        raise ValueError("dimension values cannot be null")
    if lower_bounds.items and len(lower_bounds.items) != len(lengths.items):
        raise ValueError("wrong number of array subscripts")
    count = 1
    for length in lengths.items:
        count *= length
    if any(length < 0 for length in lengths.items) or count > MAX_ELEMENTS or len(lengths.items) > 6:
        raise ValueError("array size exceeds the maximum allowed")
    if not (count and lengths.items):
        return arrays.EMPTY
    whole = arrays.Array((value,) * count, tuple(lengths.items))
    return arrays.with_lower_bounds(whole, lower_bounds.items or (1,) * len(lengths.items))


register_scalar(
    "array_fill",
    "a value, the lengths of the dimensions and optionally their first subscripts",
    "An array with the value everywhere.",
    {"array_fill(7, ARRAY[2])": "'{7,7}'::INT[]"},
    Overload(_fill_rule, MemoizedFunction(lambda call: fill_array, takes_nulls=True)),
    nulls=NullRule.CALLED_ON_NULL,
)


def _text_and_others(*more: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + len(more) or not (types[0].is_text or is_unknown(types[0])):
            return None
        return Signature((TEXT, *more), array(TEXT)) if types[1:] == more else None

    return rule


def parse_identifiers(text: str, strict: bool = True) -> Any:
    """Split a qualified name into its parts.

    With ``strict``, nothing may follow the name.
    """
    names: list[str] = []
    position = 0
    while True:
        part = IDENTIFIER_PART.match(text, position)
        if part is None or (strict and not part[3] and part.end() < len(text)):
            raise ValueError(f'string is not a valid identifier: "{text}"')
        names.append(part[1].replace('""', '"') if part[1] else part[2].lower())
        position = part.end()
        if not part[3]:
            break
    return arrays.array_of(names)


register_scalar(
    "parse_ident",
    "a name, and whether nothing may follow it",
    "The parts of a name, in lower case unless they are quoted.",
    {"parse_ident('Main.\"T\"')": "'{main,T}'::TEXT[]"},
    Overload(_text_and_others(), MemoizedFunction(lambda call: parse_identifiers)),
    Overload(_text_and_others(BOOLEAN), MemoizedFunction(lambda call: parse_identifiers)),
)


def _size_text_rule(types: tuple[Type, ...]) -> Signature | None:
    fits = len(types) == 1 and (types[0].is_text or is_unknown(types[0]))
    return Signature((TEXT,), BIGINT) if fits else None


def parse_size(text: str) -> int:
    """Return the number of bytes of a size such as ``1.5 MB``."""

    match = re.fullmatch(r"\s*([+-]?\d+\.?\d*)\s*([A-Za-z]*)\s*", text)
    if match is None or (match[2] or "b").lower() not in SIZE_UNITS:
        raise ValueError(f'invalid size: "{text}"')
    return int(Decimal(match[1]) * SIZE_UNITS[(match[2] or "b").lower()])


def _byte_count_rule(types: tuple[Type, ...]) -> Signature | None:
    taken = len(types) == 1 and (types[0].is_exact or types[0].kind is Kind.NUMERIC)
    return Signature((NUMERIC,), TEXT) if taken else None


register_scalar(
    "pg_size_bytes",
    "a size as text",
    "The bytes that a size such as '1 MB' is.",
    {"pg_size_bytes('1.5 kB')": "1536"},
    Overload(_size_text_rule, MemoizedFunction(lambda call: parse_size)),
)


def show_size(size: Decimal) -> str:
    """Format a size in the largest unit that gives at least ten, rounded."""
    number, sign = abs(int(size)), "-" if size < 0 else ""
    if number < 10 * 1024:
        return f"{sign}{number} bytes"
    halves = number >> 9
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        if halves < 20 * 1024 - 1 or unit == "PB":
            return f"{sign}{(halves + 1) // 2} {unit}"
        halves >>= 10
    raise AssertionError(size)


register_scalar(
    "pg_size_pretty",
    "a number of bytes",
    "A size as people write it.",
    {"pg_size_pretty(20000)": "'20 kB'"},
    Overload(_byte_count_rule, MemoizedFunction(lambda call: show_size)),
)


def _set_lax_rule(types: tuple[Type, ...]) -> Signature | None:
    wanted = (JSONB, array(TEXT), JSONB, BOOLEAN, TEXT)
    if not 3 <= len(types) <= len(wanted):
        return None
    for type_, one in zip(types, wanted, strict=False):
        if not (is_unknown(type_) or type_.kind is one.kind or (type_.is_text and one.is_text)):
            return None
    return Signature(wanted[: len(types)], JSONB)


def _set_lax(call: Call) -> Callable[..., Any]:

    put = jsonb_setter(True)

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
                return delete_path(whole, path)
            case _:
                raise ValueError("null_value_treatment must be one of Postgres' four")

    return change


register_scalar(
    "jsonb_set_lax",
    "JSONB, a path, a value, and optionally a truth value and what a NULL does",
    "As jsonb_set, where a NULL is null, deletes the key, changes nothing or is an error.",
    {"jsonb_set_lax('{\"a\":1}', '{a}', NULL)::TEXT": "'{\"a\": null}'"},
    Overload(_set_lax_rule, MemoizedFunction(_set_lax, takes_nulls=True)),
    nulls=NullRule.CALLED_ON_NULL,
)


def _change_at_path(value: Any, path: list[str], new: Any, edit: Callable[[Any, str, Any], None]) -> Any:
    """Return a copy with the value at the end of a path changed, if the path exists."""
    if not path:
        return value
    copied = dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
    if not isinstance(copied, (dict, list)):
        return value
    if len(path) == 1:
        edit(copied, path[0], new)
        return copied
    place = _locate_step(copied, path[0])
    if place is not None:
        copied[place] = _change_at_path(copied[place], path[1:], new, edit)
    return copied


def _locate_step(value: Any, step: str) -> Any:
    """Return the key or index of a path step in a value, or None if there is none."""
    if isinstance(value, dict):
        return step if step in value else None
    try:
        number = int(step)
    except ValueError as error:
        raise ValueError(f'path element is not an integer: "{step}"') from error
    number += len(value) if number < 0 else 0
    return number if 0 <= number < len(value) else None


def _setter(creates_missing: bool) -> Callable[[Any, str, Any], None]:
    def put(value: Any, step: str, new: Any) -> None:
        place = _locate_step(value, step)
        if place is not None:
            value[place] = new
        elif creates_missing and isinstance(value, dict):
            value[step] = new
        elif creates_missing:
            value.insert(0 if int(step) < 0 else len(value), new)

    return put


def _inserter(inserts_after: bool) -> Callable[[Any, str, Any], None]:
    def insert(value: Any, step: str, new: Any) -> None:
        place = _locate_step(value, step)
        if isinstance(value, dict):
            if place is not None:
                raise ValueError("cannot replace existing key")
            value[step] = new
        elif place is None:
            value.insert(0 if int(step) < 0 else len(value), new)
        else:
            value.insert(place + inserts_after, new)

    return insert


def jsonb_setter(default_flag: bool) -> Callable[..., Json]:
    """Return the implementation of ``jsonb_set``."""
    return _jsonb_editor(_setter, default_flag)


def _jsonb_editor(
    edit_step: Callable[[bool], Callable[[Any, str, Any], None]], default_flag: bool
) -> Callable[..., Json]:
    def edit(value: Json, path: Array, new: Json, flag: bool | None = None) -> Json:
        if None in path.items:
            raise ValueError("path element must not be null")
        if not isinstance(value.value, (dict, list)):
            raise ValueError("cannot set path in scalar")
        chosen = edit_step(default_flag if flag is None else flag)

        def sort_members(one: Any) -> Any:
            if isinstance(one, dict):
                return sort_keys({key: sort_members(inner) for key, inner in one.items()})
            return [sort_members(inner) for inner in one] if isinstance(one, list) else one

        return Json(sort_members(_change_at_path(value.value, list(path.items), new.value, chosen)))

    return edit


for _name, _how, _usual, _doc in (
    (
        "jsonb_set",
        _setter,
        True,
        "JSON with a value at the end of a path, put there unless the last argument is false.",
    ),
    ("jsonb_insert", _inserter, False, "JSON with a value inserted before the end of a path, or after it."),
):
    register_strict(
        _name,
        "JSONB, a path, a value and optionally a truth value",
        _doc,
        {f"{_name}('[1, 2]', '{{1}}', '9')::TEXT": "'[1, 9]'" if _usual else "'[1, 9, 2]'"},
        (
            json_rule(JSONB, array(TEXT), JSONB),
            lambda call, how=_how, usual=_usual: _jsonb_editor(how, usual),
        ),
        (
            json_rule(JSONB, array(TEXT), JSONB, BOOLEAN),
            lambda call, how=_how, usual=_usual: _jsonb_editor(how, usual),
        ),
    )


JSON_KIND_CLASSES: Final[dict[str, tuple[type, ...]]] = {
    "value": (object,),
    "scalar": (str, int, float, bool, type(None)),
    "array": (list,),
    "object": (dict,),
}


def is_json(text: str, kind: str) -> bool:
    """Check whether a text is JSON of a kind. A kind such as "object unique" demands unique keys."""
    what, _, unique = kind.partition(" ")
    try:
        parse(text)
        value = json.loads(text, object_pairs_hook=_unique_members if unique else None)
    except ValueError:
        return False
    return isinstance(value, JSON_KIND_CLASSES[what])


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("duplicate key")
    return members


register_scalar(
    "is_json",
    "a text, and one of 'value', 'scalar', 'array', 'object', with ' unique' for keys that differ",
    "Whether the text is JSON of that kind: IS JSON.",
    {"is_json('[1]', 'array')": "TRUE", "is_json('{', 'value')": "FALSE"},
    Overload(signature_rule(BOOLEAN, TEXT, TEXT), MemoizedFunction(lambda call: is_json)),
)


TEXTS = array(TEXT)
JSON_KINDS = frozenset({Kind.JSON, Kind.JSONB})
MISSING = object()
"""Marker of a missing member or element, as opposed to ``null``."""
SPACE = " \t\n\r"
DECODER = json.JSONDecoder()


def raw_members(text: str) -> Iterator[tuple[str | int, str]]:
    """Return the members of an object, or the elements of an array, as written."""
    text = text.strip(SPACE)
    kind, place, number = text[:1], 1, 0
    while kind in ("{", "["):
        place = _skip_blanks(text, place)
        if text[place] in "}]":
            return
        key: str | int = number
        if kind == "{":
            key, place = DECODER.raw_decode(text, place)
            place = _skip_blanks(text, _skip_blanks(text, place) + 1)
        _, end = DECODER.raw_decode(text, place)
        yield key, text[place:end]
        place = _skip_blanks(text, end)
        if text[place] in "}]":
            return
        place, number = place + 1, number + 1


def _skip_blanks(text: str, place: int) -> int:
    while place < len(text) and text[place] in SPACE:
        place += 1
    return place


def get_member(value: Any, key: str | int) -> Any:
    """Return a member by name, or an element by index: from 0, or from -1 at the end."""
    if isinstance(value, dict) and isinstance(key, str):
        return value.get(key, MISSING)
    if isinstance(value, list) and isinstance(key, int):
        return value[key] if -len(value) <= key < len(value) else MISSING
    return MISSING


def get_top_member(value: Any, key: str | int) -> Any:
    """Like :func:`get_member`, but a scalar is its own first and last element, as in Postgres."""
    alone = not isinstance(value, (dict, list)) and isinstance(key, int) and key in (0, -1)
    return value if alone else get_member(value, key)


def get_raw_member(text: str, key: str | int) -> str | None:
    """Like :func:`get_member`, for JSON as written. Of equal names the last counts."""
    is_object = text.strip(SPACE)[:1] == "{"
    if is_object is not isinstance(key, str):
        return None
    members = list(raw_members(text))
    if isinstance(key, int):
        return members[key][1] if -len(members) <= key < len(members) else None
    return dict(members).get(key)


def _path_step(key: str, is_array: bool) -> str | int | None:
    """Return a path element as a name, or as an index into an array."""
    if not is_array:
        return key
    try:
        return int(key)
    except ValueError:
        return None


def follow_path(value: Any, path: Array) -> Any:
    """Return the value at a path, or MISSING."""
    for key in path.items:
        step = None if key is None else _path_step(key, isinstance(value, list))
        value = MISSING if step is None else get_member(value, step)
        if value is MISSING:
            return MISSING
    return value


def follow_raw_path(text: str, path: Array) -> str | None:
    """Like :func:`follow_path`, for JSON as written. It returns None for a missing value."""
    for key in path.items:
        step = None if key is None else _path_step(key, text.strip(SPACE)[:1] == "[")
        found = None if step is None else get_raw_member(text, step)
        if found is None:
            return None
        text = found
    return text


def value_as_text(value: Any) -> str | None:
    """Return a string without quotes, null as NULL, and any other value as JSON text."""
    if value is MISSING or value is None:
        return None
    return value if isinstance(value, str) else text_of(value)


def raw_as_text(text: str | None) -> str | None:
    """Like :func:`value_as_text`, for JSON as written."""
    if text is None or text.strip(SPACE) == "null":
        return None
    return str(json.loads(text)) if text.strip(SPACE)[:1] == '"' else text


def _json_or_null(value: Any) -> Json | None:
    return None if value is MISSING else Json(value)


def _getter(*, text: bool, path: bool) -> Callable[[Call], Callable[..., object]]:
    """Return the builder of an operator, by the type of its first argument."""
    raw, plain = (follow_raw_path, follow_path) if path else (get_raw_member, get_top_member)
    last = value_as_text if text else _json_or_null

    def build(call: Call) -> Callable[..., object]:
        if call.args[0].type.kind is Kind.JSONB:
            return lambda value, key: last(plain(value.value, key))
        if text:
            return lambda value, key: raw_as_text(raw(value, key))
        return raw

    return build


def _json_and_argument(second: Type, result: Type | None) -> Rule:
    """Return a rule for JSON or JSONB and an argument. Without ``result`` the first type is the result."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or types[0].kind not in JSON_KINDS:
            return None
        fits = types[1].kind is second.kind or (types[1].is_text and second.is_text)
        fits |= types[1].is_integer and second.is_integer
        fits |= is_unknown(types[1]) and not second.is_integer
        if fits and types[1].kind is Kind.ARRAY:
            fits = types[1].parts[0].is_text
        return Signature((types[0], second), types[0] if result is None else result) if fits else None

    return rule


for _jsons_name, _text, _what, _example in (
    ("json_get", False, "The member of an object, or element of an array (from 0): ->.", "'[1, 2]'"),
    ("json_get_text", True, "As ->, as text: ->>.", "'[1, 2]'"),
):
    register_scalar(
        _jsons_name,
        "JSON or JSONB, and a name or number",
        _what,
        {f"{_jsons_name}(CAST('{{\"a\": [1, 2]}}' AS JSONB), 'a')::TEXT": _example},
        Overload(
            _json_and_argument(TEXT, TEXT if _text else None),
            MemoizedFunction(_getter(text=_text, path=False)),
        ),
        Overload(
            _json_and_argument(INTEGER, TEXT if _text else None),
            MemoizedFunction(_getter(text=_text, path=False)),
        ),
    )
for _jsons_name, _text, _what, _example in (
    ("json_get_path", False, "What a path of names and numbers leads to: #>.", "'2'"),
    ("json_get_path_text", True, "As #>, as text: #>>.", "'2'"),
):
    register_scalar(
        _jsons_name,
        "JSON or JSONB, and an array of names and numbers",
        _what,
        {f"{_jsons_name}(CAST('{{\"a\": [1, 2]}}' AS JSONB), ARRAY['a', '1'])::TEXT": _example},
        Overload(
            _json_and_argument(TEXTS, TEXT if _text else None),
            MemoizedFunction(_getter(text=_text, path=True)),
        ),
    )


def contains_json(whole: Any, part: Any, *, is_top: bool = True) -> bool:
    """Check containment: members and elements of the second are in the first, at the same depth."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and contains_json(whole[key], one, is_top=False) for key, one in part.items())
    if isinstance(whole, list) and isinstance(part, list):
        return all(any(contains_json(mine, one, is_top=False) for mine in whole) for one in part)
    if is_top and isinstance(whole, list) and not isinstance(part, dict):
        return any(_is_same_value(mine, part) for mine in whole)
    return _is_same_value(whole, part)


def _is_same_value(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


def _has_key(value: Any, key: str | None) -> bool:
    if isinstance(value, (dict, list)):
        return key in value
    return isinstance(value, str) and value == key


def _has_any_key(value: Any, keys: Array) -> bool:
    return any(_has_key(value, key) for key in keys.items)


def _has_all_keys(value: Any, keys: Array) -> bool:
    return all(_has_key(value, key) for key in keys.items)


def _jsonb_predicate(test: Callable[..., bool]) -> MemoizedFunction:
    return MemoizedFunction(lambda call: lambda value, key: test(value.value, key))


def _jsonb_pair(result: Type) -> Rule:
    """Return a rule for two JSONB values."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or Kind.JSONB not in (types[0].kind, types[1].kind):
            return None
        fits = all(type_.kind is Kind.JSONB or is_unknown(type_) for type_ in types)
        return Signature((JSONB, JSONB), result) if fits else None

    return rule


def _require_jsonb(rule: Rule) -> Rule:
    return lambda types: rule(types) if types and types[0].kind is Kind.JSONB else None


register_scalar(
    "contains_all",
    "two arrays, or two JSONB values",
    "Whether the first contains the second: @>.",
    {"contains_all(ARRAY[1, 2, 3], ARRAY[3, 1])": "TRUE"},
    CONTAINS,
    Overload(
        _jsonb_pair(BOOLEAN),
        MemoizedFunction(lambda call: lambda left, right: contains_json(left.value, right.value)),
    ),
)
register_scalar(
    "contained_in",
    "two arrays, or two JSONB values",
    "Whether the second contains the first: <@.",
    {"contained_in(ARRAY[1, 2, 3], ARRAY[3, 1])": "FALSE"},
    IS_CONTAINED,
    Overload(
        _jsonb_pair(BOOLEAN),
        MemoizedFunction(lambda call: lambda left, right: contains_json(right.value, left.value)),
    ),
)
register_scalar(
    "overlaps_with",
    "two arrays",
    "Whether the two have an element in common: &&.",
    {"overlaps_with(ARRAY[1, 2], ARRAY[2, 3])": "TRUE"},
    OVERLAP,
)
for _jsons_name, _second, _what, _given, _test in (
    (
        "key_exists",
        TEXT,
        "Whether a text is a name of an object or an element of an array: ?.",
        "'a'",
        _has_key,
    ),
    ("any_key_exists", TEXTS, "Whether one of the texts is: ?|.", "ARRAY['a', 'b']", _has_any_key),
    ("all_keys_exist", TEXTS, "Whether all of the texts are: ?&.", "ARRAY['a']", _has_all_keys),
):
    register_scalar(
        _jsons_name,
        "JSONB and text" if _second is TEXT else "JSONB and an array of text",
        _what,
        {f"{_jsons_name}(CAST('[\"a\"]' AS JSONB), {_given})": "TRUE"},
        Overload(
            _require_jsonb(_json_and_argument(_second, BOOLEAN)),
            _jsonb_predicate(_test),
        ),
    )


def concat_jsonb(left: Json, right: Json) -> Json:
    """Merge two objects, members of the second first. Other values are concatenated as arrays."""
    first, second = left.value, right.value
    if isinstance(first, dict) and isinstance(second, dict):
        return Json(sort_keys({**first, **second}))
    return Json([item for one in (first, second) for item in (one if isinstance(one, list) else [one])])


def delete_key(value: Json, key: str | int | Array) -> Json:
    """Return an object without a member, or an array without an element. An array gives several names."""
    inner = value.value
    if not isinstance(inner, (dict, list)):
        raise ValueError("cannot delete from a scalar")
    if isinstance(key, int):
        if isinstance(inner, dict):
            raise ValueError("cannot delete from an object by a number")
        place = key + len(inner) if key < 0 else key
        return Json([item for number, item in enumerate(inner) if number != place])
    names = key.items if isinstance(key, Array) else (key,)
    if isinstance(inner, dict):
        return Json({name: item for name, item in inner.items() if name not in names})
    return Json([item for item in inner if not (isinstance(item, str) and item in names)])


def delete_path(value: Json, path: Array) -> Json:
    """Return the value without the member or element at a path."""
    if not isinstance(value.value, (dict, list)):
        raise ValueError("cannot delete path in scalar")
    return Json(_delete_at_path(value.value, list(path.items)))


def _delete_at_path(value: Any, path: list[Any]) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    step = _path_step(first, isinstance(value, list))
    if isinstance(value, list) and step is None:
        raise ValueError("a path step into an array must be an integer")
    member = MISSING if step is None else get_member(value, step)
    if member is MISSING:
        return value
    if isinstance(value, dict):
        if not rest:
            return {key: item for key, item in value.items() if key != step}
        return {key: _delete_at_path(item, rest) if key == step else item for key, item in value.items()}
    assert isinstance(step, int)
    place = step % len(value)
    if not rest:
        return [item for number, item in enumerate(value) if number != place]
    return [_delete_at_path(item, rest) if number == place else item for number, item in enumerate(value)]


register_scalar(
    "json_delete_path",
    "JSONB and an array of names and numbers",
    "The value without what the path leads to: #-.",
    {"json_delete_path(CAST('{\"a\": [1, 2]}' AS JSONB), ARRAY['a', '0'])::TEXT": "'{\"a\": [2]}'"},
    Overload(_require_jsonb(_json_and_argument(TEXTS, JSONB)), MemoizedFunction(lambda call: delete_path)),
)

register_scalar(
    "jsonb_concat",
    "two JSONB values",
    "Members of both, those of the second first; anything else as arrays, joined: ||.",
    {"jsonb_concat(CAST('{\"a\": 1}' AS JSONB), CAST('{\"b\": 2}' AS JSONB))::TEXT": '\'{"a": 1, "b": 2}\''},
    Overload(_jsonb_pair(JSONB), MemoizedFunction(lambda call: concat_jsonb)),
)
register_scalar(
    "jsonb_delete",
    "JSONB, and a name, a number or an array of names",
    "An object without members, or an array without an element: -.",
    {"jsonb_delete(CAST('{\"a\": 1, \"b\": 2}' AS JSONB), 'a')::TEXT": "'{\"b\": 2}'"},
    *(
        Overload(_require_jsonb(_json_and_argument(second, JSONB)), MemoizedFunction(lambda call: delete_key))
        for second in (TEXT, INTEGER, TEXTS)
    ),
)
