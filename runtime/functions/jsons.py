"""JSON and JSONB in expressions: members and elements, what is contained, and changes."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from kpg.runtime.functions.arrays import HELD, HOLDS, OVERLAP
from kpg.runtime.functions.registry import Memoized, Overload, Rule, Signature, scalar
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, INTEGER, JSONB, TEXT, Kind, Type, array
from kpg.runtime.values.arrays import Array
from kpg.runtime.values.jsons import Json, in_order, text_of

TEXTS = array(TEXT)
JSON_KINDS = frozenset({Kind.JSON, Kind.JSONB})
MISSING = object()
"""What is not there, which null is not."""
SPACE = " \t\n\r"
DECODER = json.JSONDecoder()


def raw_members(text: str) -> Iterator[tuple[str | int, str]]:
    """The members of an object, or the elements of an array, as they are written."""
    text = text.strip(SPACE)
    kind, place, number = text[:1], 1, 0
    while kind in ("{", "["):
        place = _skip(text, place)
        if text[place] in "}]":
            return
        key: str | int = number
        if kind == "{":
            key, place = DECODER.raw_decode(text, place)
            place = _skip(text, _skip(text, place) + 1)
        _, end = DECODER.raw_decode(text, place)
        yield key, text[place:end]
        place = _skip(text, end)
        if text[place] in "}]":
            return
        place, number = place + 1, number + 1


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in SPACE:
        place += 1
    return place


def get(value: Any, key: str | int) -> Any:
    """A member of an object by its name, an element of an array by its number: from 0, or -1 at its end."""
    if isinstance(value, dict) and isinstance(key, str):
        return value.get(key, MISSING)
    if isinstance(value, list) and isinstance(key, int):
        return value[key] if -len(value) <= key < len(value) else MISSING
    return MISSING


def get_top(value: Any, key: str | int) -> Any:
    """As :func:`get`; a value that is no array is its own first and last element, as in Postgres."""
    alone = not isinstance(value, (dict, list)) and isinstance(key, int) and key in (0, -1)
    return value if alone else get(value, key)


def raw_get(text: str, key: str | int) -> str | None:
    """As :func:`get`, of JSON as it is written; of equal names the last."""
    is_object = text.strip(SPACE)[:1] == "{"
    if is_object is not isinstance(key, str):
        return None
    members = list(raw_members(text))
    if isinstance(key, int):
        return members[key][1] if -len(members) <= key < len(members) else None
    return dict(members).get(key)


def _step(key: str, is_array: bool) -> str | int | None:
    """A part of a path: a number where there is an array."""
    if not is_array:
        return key
    try:
        return int(key)
    except ValueError:
        return None


def path_of(value: Any, path: Array) -> Any:
    """What a path leads to."""
    for key in path.items:
        step = None if key is None else _step(key, isinstance(value, list))
        value = MISSING if step is None else get(value, step)
        if value is MISSING:
            return MISSING
    return value


def raw_path_of(text: str, path: Array) -> str | None:
    """As :func:`path_of`, of JSON as it is written."""
    for key in path.items:
        step = None if key is None else _step(key, text.strip(SPACE)[:1] == "[")
        found = None if step is None else raw_get(text, step)
        if found is None:
            return None
        text = found
    return text


def as_text(value: Any) -> str | None:
    """A string by its characters, null as NULL, anything else as JSON."""
    if value is MISSING or value is None:
        return None
    return value if isinstance(value, str) else text_of(value)


def raw_text(text: str | None) -> str | None:
    """As :func:`as_text`, of JSON as it is written."""
    if text is None or text.strip(SPACE) == "null":
        return None
    return str(json.loads(text)) if text.strip(SPACE)[:1] == '"' else text


def _found(value: Any) -> Json | None:
    return None if value is MISSING else Json(value)


def _getter(*, text: bool, path: bool) -> Callable[[Call], Callable[..., object]]:
    """The operator for the type of its first argument."""
    raw, plain = (raw_path_of, path_of) if path else (raw_get, get_top)
    last = as_text if text else _found

    def build(call: Call) -> Callable[..., object]:
        if call.args[0].type.kind is Kind.JSONB:
            return lambda value, key: last(plain(value.value, key))
        if text:
            return lambda value, key: raw_text(raw(value, key))
        return raw

    return build


def _takes(second: Type, result: Type | None) -> Rule:
    """JSON or JSONB and an argument; a result of its own type if none is given."""

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


for _name, _text, _what, _example in (
    ("json_get", False, "The member of an object, or element of an array (from 0): ->.", "'[1, 2]'"),
    ("json_get_text", True, "As ->, as text: ->>.", "'[1, 2]'"),
):
    scalar(
        _name,
        "JSON or JSONB, and a name or number",
        _what,
        {f"{_name}(CAST('{{\"a\": [1, 2]}}' AS JSONB), 'a')::TEXT": _example},
        Overload(_takes(TEXT, TEXT if _text else None), Memoized(_getter(text=_text, path=False))),
        Overload(_takes(INTEGER, TEXT if _text else None), Memoized(_getter(text=_text, path=False))),
    )
for _name, _text, _what, _example in (
    ("json_get_path", False, "What a path of names and numbers leads to: #>.", "'2'"),
    ("json_get_path_text", True, "As #>, as text: #>>.", "'2'"),
):
    scalar(
        _name,
        "JSON or JSONB, and an array of names and numbers",
        _what,
        {f"{_name}(CAST('{{\"a\": [1, 2]}}' AS JSONB), ARRAY['a', '1'])::TEXT": _example},
        Overload(_takes(TEXTS, TEXT if _text else None), Memoized(_getter(text=_text, path=True))),
    )


def holds(whole: Any, wanted: Any, *, top: bool = True) -> bool:
    """Whether the second is contained in the first: members and elements in any order, at the same depth."""
    if isinstance(whole, dict) and isinstance(wanted, dict):
        return all(key in whole and holds(whole[key], one, top=False) for key, one in wanted.items())
    if isinstance(whole, list) and isinstance(wanted, list):
        return all(any(holds(mine, one, top=False) for mine in whole) for one in wanted)
    if top and isinstance(whole, list) and not isinstance(wanted, dict):
        return any(_same(mine, wanted) for mine in whole)
    return _same(whole, wanted)


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


def _has(value: Any, key: str | None) -> bool:
    if isinstance(value, (dict, list)):
        return key in value
    return isinstance(value, str) and value == key


def _has_any(value: Any, keys: Array) -> bool:
    return any(_has(value, key) for key in keys.items)


def _has_all(value: Any, keys: Array) -> bool:
    return all(_has(value, key) for key in keys.items)


def _tested(test: Callable[..., bool]) -> Memoized:
    return Memoized(lambda call: lambda value, key: test(value.value, key))


def _two(result: Type) -> Rule:
    """Two JSONB values."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or Kind.JSONB not in (types[0].kind, types[1].kind):
            return None
        fits = all(type_.kind is Kind.JSONB or is_unknown(type_) for type_ in types)
        return Signature((JSONB, JSONB), result) if fits else None

    return rule


def _of_jsonb(rule: Rule) -> Rule:
    return lambda types: rule(types) if types and types[0].kind is Kind.JSONB else None


scalar(
    "contains_all",
    "two arrays, or two JSONB values",
    "Whether the first contains the second: @>.",
    {"contains_all(ARRAY[1, 2, 3], ARRAY[3, 1])": "TRUE"},
    HOLDS,
    Overload(_two(BOOLEAN), Memoized(lambda call: lambda left, right: holds(left.value, right.value))),
)
scalar(
    "contained_in",
    "two arrays, or two JSONB values",
    "Whether the second contains the first: <@.",
    {"contained_in(ARRAY[1, 2, 3], ARRAY[3, 1])": "FALSE"},
    HELD,
    Overload(_two(BOOLEAN), Memoized(lambda call: lambda left, right: holds(right.value, left.value))),
)
scalar(
    "overlaps_with",
    "two arrays",
    "Whether the two have an element in common: &&.",
    {"overlaps_with(ARRAY[1, 2], ARRAY[2, 3])": "TRUE"},
    OVERLAP,
)
for _name, _second, _what, _given, _test in (
    ("key_exists", TEXT, "Whether a text is a name of an object or an element of an array: ?.", "'a'", _has),
    ("any_key_exists", TEXTS, "Whether one of the texts is: ?|.", "ARRAY['a', 'b']", _has_any),
    ("all_keys_exist", TEXTS, "Whether all of the texts are: ?&.", "ARRAY['a']", _has_all),
):
    scalar(
        _name,
        "JSONB and text" if _second is TEXT else "JSONB and an array of text",
        _what,
        {f"{_name}(CAST('[\"a\"]' AS JSONB), {_given})": "TRUE"},
        Overload(
            _of_jsonb(_takes(_second, BOOLEAN)),
            _tested(_test),
        ),
    )


def joined(left: Json, right: Json) -> Json:
    """Objects with the members of both, those of the second first; anything else as arrays, joined."""
    first, second = left.value, right.value
    if isinstance(first, dict) and isinstance(second, dict):
        return Json(in_order({**first, **second}))
    return Json([item for one in (first, second) for item in (one if isinstance(one, list) else [one])])


def without(value: Json, key: str | int | Array) -> Json:
    """An object without a member, or an array without an element; several names in an array."""
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


def without_path(value: Json, path: Array) -> Json:
    """The value without what the path leads to."""
    if not isinstance(value.value, (dict, list)):
        raise ValueError("cannot delete path in scalar")
    return Json(_without(value.value, list(path.items)))


def _without(value: Any, path: list[Any]) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    step = _step(first, isinstance(value, list))
    if isinstance(value, list) and step is None:
        raise ValueError("a path through an array has a number")
    found = MISSING if step is None else get(value, step)
    if found is MISSING:
        return value
    if isinstance(value, dict):
        if not rest:
            return {key: item for key, item in value.items() if key != step}
        return {key: _without(item, rest) if key == step else item for key, item in value.items()}
    assert isinstance(step, int)
    place = step % len(value)
    if not rest:
        return [item for number, item in enumerate(value) if number != place]
    return [_without(item, rest) if number == place else item for number, item in enumerate(value)]


scalar(
    "json_delete_path",
    "JSONB and an array of names and numbers",
    "The value without what the path leads to: #-.",
    {"json_delete_path(CAST('{\"a\": [1, 2]}' AS JSONB), ARRAY['a', '0'])::TEXT": "'{\"a\": [2]}'"},
    Overload(_of_jsonb(_takes(TEXTS, JSONB)), Memoized(lambda call: without_path)),
)

scalar(
    "jsonb_concat",
    "two JSONB values",
    "Members of both, those of the second first; anything else as arrays, joined: ||.",
    {"jsonb_concat(CAST('{\"a\": 1}' AS JSONB), CAST('{\"b\": 2}' AS JSONB))::TEXT": '\'{"a": 1, "b": 2}\''},
    Overload(_two(JSONB), Memoized(lambda call: joined)),
)
scalar(
    "jsonb_delete",
    "JSONB, and a name, a number or an array of names",
    "An object without members, or an array without an element: -.",
    {"jsonb_delete(CAST('{\"a\": 1, \"b\": 2}' AS JSONB), 'a')::TEXT": "'{\"b\": 2}'"},
    *(
        Overload(_of_jsonb(_takes(second, JSONB)), Memoized(lambda call: without))
        for second in (TEXT, INTEGER, TEXTS)
    ),
)
