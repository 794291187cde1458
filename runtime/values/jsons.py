"""JSON and JSONB values, and the conversion of values of all types to JSON.

A JSON value is its text. A JSONB value is a :class:`Json`, because JSON null differs from NULL. Object keys
are in Postgres' order, shorter ones first. Values order as in Postgres: null, strings, numbers, booleans,
arrays, objects; smaller arrays and objects come first.
"""

import json
import math
import re
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np

from kpg.runtime.types import Kind, Type
from kpg.runtime.values import codec, numeric
from kpg.runtime.values.arrays import Array, nested
from kpg.runtime.values.codec import Codec, codec_of, ordered, unordered
from kpg.runtime.values.words import Mistyped, Unfit

EMPTY_ARRAY, NULL, STRING, NUMBER, BOOLEAN, ARRAY, OBJECT = "0123456"
"""First characters of the strings that stand for values; an empty array alone comes before all."""
ESCAPES: Final = str.maketrans(
    {chr(code): f"\\u{code:04x}" for code in range(32)}
    | {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
)


class Json(NamedTuple):
    """A value of JSON: None, bool, Decimal, str, a list or a dict of such."""

    value: Any


def jsons() -> Codec:
    """The codec of JSON."""
    same = str
    return Codec(same, same, checked, same, same, _text_of, "a text of JSON, a dict or a list")


def jsonbs() -> Codec:
    """The codec of JSONB."""
    return Codec(encode, decode, parse, shown, shown, _from_python, "a text of JSON, a dict or a list")


def kind_of(value: Any) -> str:
    """What a value is: null, boolean, number, string, array or object."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case Decimal():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The last of equal keys counts; short keys come first."""
    return in_order(dict(pairs))


def in_order(members: dict[str, Any]) -> dict[str, Any]:
    """An object with its keys in order: by their length in bytes, then by their bytes."""
    return dict(sorted(members.items(), key=lambda item: (len(item[0].encode()), item[0].encode())))


DECODER: Final = json.JSONDecoder(
    parse_float=numeric.parse, parse_int=Decimal, parse_constant=_refused, object_pairs_hook=_object
)


def parse(text: str) -> Json:
    """The value of a text; ValueError if it is no JSON."""
    try:
        value = DECODER.decode(text)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
    result = Json(value)
    if "\\u" in text and "\\u0000" in text and "\0" in _characters(value):
        raise ValueError("\\u0000 cannot be kept")
    shown(result).encode()  # a half of a pair of surrogates is no character
    return result


def _characters(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(key + _characters(inner) for key, inner in value.items())
    return "".join(map(_characters, value)) if isinstance(value, list) else str(value)


def checked(text: str) -> str:
    """The text, if it is JSON."""
    parse(text)
    return text


def shown(value: Json) -> str:
    """As Postgres writes JSONB: a blank after each comma and colon."""
    return text_of(value.value)


def text_of(value: Any) -> str:
    """JSON of a value, as Postgres writes JSONB."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return f"{value:f}" if value.is_finite() else quoted(str(value))
        case str():
            return quoted(value)
        case list():
            return f"[{', '.join(map(text_of, value))}]"
        case _:
            return f"{{{', '.join(f'{quoted(key)}: {text_of(inner)}' for key, inner in value.items())}}}"


def quoted(text: str) -> str:
    """A string of JSON."""
    return f'"{text.translate(ESCAPES)}"'


def encode(value: Json) -> str:
    """The string that stands for a value."""
    return EMPTY_ARRAY if value.value == [] else _encoded(value.value)


def _encoded(value: Any) -> str:
    match value:
        case None:
            return NULL
        case bool():
            return f"{BOOLEAN}{int(value)}"
        case Decimal():
            return f"{NUMBER}{numeric.encode(value)}{codec.END}"
        case str():
            return f"{STRING}{codec.escaped(value)}{codec.END}"
        case list():
            return f"{ARRAY}{ordered(len(value))}{codec.END}{''.join(map(_encoded, value))}"
        case _:
            members = "".join(f"{codec.escaped(key)}{codec.END}{_encoded(v)}" for key, v in value.items())
            return f"{OBJECT}{ordered(len(value))}{codec.END}{members}"


def decode(string: str) -> Json:
    """The value that a string stands for."""
    return Json([]) if string == EMPTY_ARRAY else Json(_decoded(string, 0)[0])


def _decoded(string: str, place: int) -> tuple[Any, int]:
    kind, place = string[place], place + 1
    if kind == NULL:
        return None, place
    if kind == BOOLEAN:
        return string[place] == "1", place + 1
    end = string.index(codec.END, place)
    body, place = string[place:end], end + 1
    if kind == STRING:
        return codec.plain(body), place
    if kind == NUMBER:
        return numeric.decode(body), place
    items: list[Any] = []
    keys: list[str] = []
    for _ in range(unordered(body)):
        if kind == OBJECT:
            end = string.index(codec.END, place)
            keys.append(codec.plain(string[place:end]))
            place = end + 1
        item, place = _decoded(string, place)
        items.append(item)
    return (dict(zip(keys, items, strict=True)) if kind == OBJECT else items), place


def of_python(value: Any) -> Any:
    """A value of Python's json as one of ours; Mistyped if there is none."""
    match value:
        case None | bool() | str() | Decimal():
            return value
        case int():
            return Decimal(value)
        case float():
            return numeric.from_float(value)
        case list() | tuple():
            return list(map(of_python, value))
        case dict():
            return in_order({str(key): of_python(inner) for key, inner in value.items()})
        case _:
            raise Mistyped


def _from_python(value: Any) -> Json:
    if not isinstance(value, str):
        return Json(of_python(value))
    try:
        return parse(value)
    except ValueError:
        raise Unfit from None


def _text_of(value: Any) -> str:
    if not isinstance(value, str):
        return text_of(of_python(value))
    try:
        return checked(value)
    except ValueError:
        raise Unfit from None


FRACTION: Final = re.compile(r"\.\d+")
ZONE: Final = re.compile(r"[+-]\d\d$")
"""The end of a moment whose zone is whole hours away: JSON has their minutes, too."""


def json_text_of(value: Any, type_: Type) -> str:
    """The JSON text of a value, ``null`` for NULL."""
    if value is None:
        return "null"
    match type_.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.JSON:
            return str(value)
        case Kind.ARRAY:
            texts = tuple(json_text_of(item, type_.parts[0]) for item in value.items)
            return _array(nested(Array(texts, value.shape)))
        case Kind.RECORD:
            names = type_.labels or tuple(f"f{place + 1}" for place in range(len(type_.parts)))
            fields = (json_text_of(field, part) for field, part in zip(value, type_.parts, strict=True))
            members = (f"{quoted(name)}:{text}" for name, text in zip(names, fields, strict=True))
            return f"{{{','.join(members)}}}"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            text = FRACTION.sub(_cut, codec_of(type_).show(value).replace(" ", "T", 1))
            return quoted(f"{text}:00" if ZONE.search(text) and type_.kind is Kind.TIMESTAMPTZ else text)
        case Kind.REAL | Kind.DOUBLE:
            return _float(value, single=type_.kind is Kind.REAL)
        case _:
            shown = codec_of(type_).show(value)
            plain = type_.kind is Kind.JSONB or (type_.is_numeric and shown.lstrip("-")[:1].isdigit())
            return shown if plain else quoted(shown)


def _cut(found: re.Match[str]) -> str:
    """A fraction of a second without zeros at its end."""
    return found[0].rstrip("0").rstrip(".")


def _float(value: float, *, single: bool) -> str:
    """The fewest digits that mean the number, with an exponent where Postgres writes one."""
    if not math.isfinite(value):
        return quoted("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    if single:
        number = Decimal(str(np.float32(value)))
    else:
        number = Decimal(repr(value))
    sign, digits, _ = number.normalize().as_tuple()
    exponent = number.adjusted()
    if not number or -5 < exponent < (6 if single else 15):
        return f"{number.normalize():f}"
    shown = "".join(map(str, digits))
    point = f".{shown[1:]}" if shown[1:] else ""
    return f"{'-' if sign else ''}{shown[0]}{point}e{exponent:+03d}"


def _array(items: list[Any]) -> str:
    return f"[{','.join(_array(item) if isinstance(item, list) else item for item in items)}]"


def value_of(value: Any, type_: Type) -> Any:
    """The value of JSONB that a value is, None for NULL."""
    if isinstance(value, Json):
        return value.value
    return DECODER.decode(json_text_of(value, type_))


def key_of(value: Any, type_: Type) -> str:
    """A value as the key of an object's member; ValueError if it is NULL."""
    if value is None:
        raise ValueError("a field name of a JSON object is NULL")
    if type_.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return str(DECODER.decode(json_text_of(value, type_)))
    return codec_of(type_).show(value)


def is_structured(type_: Type) -> bool:
    """Whether Postgres puts values of the type on lines of their own."""
    return type_.kind in (Kind.ARRAY, Kind.RECORD)


def object_of(members: dict[str, Any]) -> Json:
    """An object of JSONB."""
    return Json(in_order(members))
