"""JSON and JSONB operators: members and elements, paths, containment, changes, IS JSON.

JSON operators work on the text as written; JSONB operators on values. A few functions of mixed types are here
too: ``array_fill``, ``parse_ident`` and ``pg_size_bytes`` among them.
"""

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.functions.arrays import HELD, HOLDS, OVERLAP
from kpg.runtime.functions.json_constructors import json_rule, plainly
from kpg.runtime.functions.registry import Composition, Memoized, NullRule, Overload, Rule, Signature, scalar
from kpg.runtime.functions.type_rules import fixed, is_unknown
from kpg.runtime.scalar import Call, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, JSON, JSONB, NUMERIC, TEXT, Kind, Type, array
from kpg.runtime.values import arrays
from kpg.runtime.values.arrays import Array
from kpg.runtime.values.jsons import Json, in_order, parse, text_of

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


def _changed(value: Any, path: list[str], new: Any, how: Callable[[Any, str, Any], None]) -> Any:
    """A copy with what is at the end of a path changed, as far as there is a way to it."""
    if not path:
        return value
    copied = dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
    if not isinstance(copied, (dict, list)):
        return value
    if len(path) == 1:
        how(copied, path[0], new)
        return copied
    place = _place(copied, path[0])
    if place is not None:
        copied[place] = _changed(copied[place], path[1:], new, how)
    return copied


def _place(value: Any, step: str) -> Any:
    """Where a step of a path leads: a name or a number; None if nowhere."""
    if isinstance(value, dict):
        return step if step in value else None
    try:
        number = int(step)
    except ValueError as error:
        raise ValueError(f'path element is not an integer: "{step}"') from error
    number += len(value) if number < 0 else 0
    return number if 0 <= number < len(value) else None


def _put(create: bool) -> Callable[[Any, str, Any], None]:
    def put(value: Any, step: str, new: Any) -> None:
        place = _place(value, step)
        if place is not None:
            value[place] = new
        elif create and isinstance(value, dict):
            value[step] = new
        elif create:
            value.insert(0 if int(step) < 0 else len(value), new)

    return put


def _insert(after: bool) -> Callable[[Any, str, Any], None]:
    def insert(value: Any, step: str, new: Any) -> None:
        place = _place(value, step)
        if isinstance(value, dict):
            if place is not None:
                raise ValueError("cannot replace existing key")
            value[step] = new
        elif place is None:
            value.insert(0 if int(step) < 0 else len(value), new)
        else:
            value.insert(place + after, new)

    return insert


def put_in_place(usual: bool) -> Callable[..., Json]:
    """What ``jsonb_set`` does."""
    return _edit(_put, usual)


def _edit(how: Callable[[bool], Callable[[Any, str, Any], None]], usual: bool) -> Callable[..., Json]:
    def edit(value: Json, path: Array, new: Json, flag: bool | None = None) -> Json:
        if None in path.items:
            raise ValueError("path element must not be null")
        if not isinstance(value.value, (dict, list)):
            raise ValueError("cannot set path in scalar")
        chosen = how(usual if flag is None else flag)

        def ordered(one: Any) -> Any:
            if isinstance(one, dict):
                return in_order({key: ordered(inner) for key, inner in one.items()})
            return [ordered(inner) for inner in one] if isinstance(one, list) else one

        return Json(ordered(_changed(value.value, list(path.items), new.value, chosen)))

    return edit


for _name, _how, _usual, _doc in (
    (
        "jsonb_set",
        _put,
        True,
        "JSON with a value at the end of a path, put there unless the last argument is false.",
    ),
    ("jsonb_insert", _insert, False, "JSON with a value inserted before the end of a path, or after it."),
):
    plainly(
        _name,
        "JSONB, a path, a value and optionally a truth value",
        _doc,
        {f"{_name}('[1, 2]', '{{1}}', '9')::TEXT": "'[1, 9]'" if _usual else "'[1, 9, 2]'"},
        (json_rule(JSONB, array(TEXT), JSONB), lambda call, how=_how, usual=_usual: _edit(how, usual)),
        (
            json_rule(JSONB, array(TEXT), JSONB, BOOLEAN),
            lambda call, how=_how, usual=_usual: _edit(how, usual),
        ),
    )


KINDS: Final[dict[str, tuple[type, ...]]] = {
    "value": (object,),
    "scalar": (str, int, float, bool, type(None)),
    "array": (list,),
    "object": (dict,),
}


def is_json(text: str, kind: str) -> bool:
    """Whether a text is JSON of a kind; "unique" behind that asks for keys that differ within each object."""
    what, _, unique = kind.partition(" ")
    try:
        parse(text)
        value = json.loads(text, object_pairs_hook=_different if unique else None)
    except ValueError:
        return False
    return isinstance(value, KINDS[what])


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


scalar(
    "is_json",
    "a text, and one of 'value', 'scalar', 'array', 'object', with ' unique' for keys that differ",
    "Whether the text is JSON of that kind: IS JSON.",
    {"is_json('[1]', 'array')": "TRUE", "is_json('{', 'value')": "FALSE"},
    Overload(fixed(BOOLEAN, TEXT, TEXT), Memoized(lambda call: is_json)),
)


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


for _jsons_name, _text, _what, _example in (
    ("json_get", False, "The member of an object, or element of an array (from 0): ->.", "'[1, 2]'"),
    ("json_get_text", True, "As ->, as text: ->>.", "'[1, 2]'"),
):
    scalar(
        _jsons_name,
        "JSON or JSONB, and a name or number",
        _what,
        {f"{_jsons_name}(CAST('{{\"a\": [1, 2]}}' AS JSONB), 'a')::TEXT": _example},
        Overload(_takes(TEXT, TEXT if _text else None), Memoized(_getter(text=_text, path=False))),
        Overload(_takes(INTEGER, TEXT if _text else None), Memoized(_getter(text=_text, path=False))),
    )
for _jsons_name, _text, _what, _example in (
    ("json_get_path", False, "What a path of names and numbers leads to: #>.", "'2'"),
    ("json_get_path_text", True, "As #>, as text: #>>.", "'2'"),
):
    scalar(
        _jsons_name,
        "JSON or JSONB, and an array of names and numbers",
        _what,
        {f"{_jsons_name}(CAST('{{\"a\": [1, 2]}}' AS JSONB), ARRAY['a', '1'])::TEXT": _example},
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
for _jsons_name, _second, _what, _given, _test in (
    ("key_exists", TEXT, "Whether a text is a name of an object or an element of an array: ?.", "'a'", _has),
    ("any_key_exists", TEXTS, "Whether one of the texts is: ?|.", "ARRAY['a', 'b']", _has_any),
    ("all_keys_exist", TEXTS, "Whether all of the texts are: ?&.", "ARRAY['a']", _has_all),
):
    scalar(
        _jsons_name,
        "JSONB and text" if _second is TEXT else "JSONB and an array of text",
        _what,
        {f"{_jsons_name}(CAST('[\"a\"]' AS JSONB), {_given})": "TRUE"},
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
