"""JSON and JSONB values, and the conversion of values of all types to JSON.

A JSON value is its text. A JSONB value is a :class:`Json`, because JSON null differs from NULL. Object
keys are in Postgres' order, shorter ones first. Values order as in Postgres: null, strings, numbers,
booleans, arrays, objects; smaller arrays and objects come first.
"""

import json
import math
import re
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np

from kpg.runtime.types import Kind, Type
from kpg.runtime.values import codec, numeric
from kpg.runtime.values.arrays import Array, to_nested_lists
from kpg.runtime.values.codec import Codec, codec_of, decode_integer, encode_integer
from kpg.runtime.values.words import UnrepresentableValue, WrongPythonType

EMPTY_ARRAY, NULL, STRING, NUMBER, BOOLEAN, ARRAY, OBJECT = "0123456"
"""First characters of the strings that stand for values; an empty array alone comes before all."""
ESCAPES: Final = str.maketrans(
    {chr(code): f"\\u{code:04x}" for code in range(32)}
    | {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
)


class Json(NamedTuple):
    """A JSONB value: None, bool, Decimal, str, or a list or dict of these."""

    value: Any


def json_codec() -> Codec:
    """Return the codec of JSON."""
    same = str
    return Codec(same, same, check_json, same, same, _text_of_python, "a text of JSON, a dict or a list")


def jsonb_codec() -> Codec:
    """Return the codec of JSONB."""
    return Codec(encode, decode, parse, show, show, _from_python, "a text of JSON, a dict or a list")


def kind_of(value: Any) -> str:
    """Return the kind of a value: null, boolean, number, string, array or object."""
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


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of pairs. The last of equal keys wins."""
    return sort_keys(dict(pairs))


def sort_keys(members: dict[str, Any]) -> dict[str, Any]:
    """Sort the keys of an object by their length in bytes, then by their bytes."""
    return dict(sorted(members.items(), key=lambda item: (len(item[0].encode()), item[0].encode())))


DECODER: Final = json.JSONDecoder(
    parse_float=numeric.parse,
    parse_int=Decimal,
    parse_constant=_reject_constant,
    object_pairs_hook=_make_object,
)


def parse(text: str) -> Json:
    """Parse JSON text.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        value = DECODER.decode(text)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
    result = Json(value)
    if "\\u" in text and "\\u0000" in text and "\0" in _characters(value):
        raise ValueError("\\u0000 cannot be kept")
    show(result).encode()  # raises for a lone surrogate
    return result


def _characters(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(key + _characters(inner) for key, inner in value.items())
    return "".join(map(_characters, value)) if isinstance(value, list) else str(value)


def check_json(text: str) -> str:
    """Return the text if it is JSON.

    Raises:
        ValueError: The text is not JSON.
    """
    parse(text)
    return text


def show(value: Json) -> str:
    """Format JSONB like Postgres, with a blank after each comma and colon."""
    return text_of(value.value)


def text_of(value: Any) -> str:
    """Format a value like :func:`show`."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return f"{value:f}" if value.is_finite() else quote_string(str(value))
        case str():
            return quote_string(value)
        case list():
            return f"[{', '.join(map(text_of, value))}]"
        case _:
            return (
                f"{{{', '.join(f'{quote_string(key)}: {text_of(inner)}' for key, inner in value.items())}}}"
            )


def quote_string(text: str) -> str:
    """Format a JSON string."""
    return f'"{text.translate(ESCAPES)}"'


def encode(value: Json) -> str:
    """Encode a value as an order-preserving string."""
    return EMPTY_ARRAY if value.value == [] else _encode_value(value.value)


def _encode_value(value: Any) -> str:
    match value:
        case None:
            return NULL
        case bool():
            return f"{BOOLEAN}{int(value)}"
        case Decimal():
            return f"{NUMBER}{numeric.encode(value)}{codec.END}"
        case str():
            return f"{STRING}{codec.escape(value)}{codec.END}"
        case list():
            return f"{ARRAY}{encode_integer(len(value))}{codec.END}{''.join(map(_encode_value, value))}"
        case _:
            members = "".join(f"{codec.escape(key)}{codec.END}{_encode_value(v)}" for key, v in value.items())
            return f"{OBJECT}{encode_integer(len(value))}{codec.END}{members}"


def decode(string: str) -> Json:
    """Decode the string of a value."""
    return Json([]) if string == EMPTY_ARRAY else Json(_decode_value(string, 0)[0])


def _decode_value(string: str, position: int) -> tuple[Any, int]:
    kind, position = string[position], position + 1
    if kind == NULL:
        return None, position
    if kind == BOOLEAN:
        return string[position] == "1", position + 1
    end = string.index(codec.END, position)
    body, position = string[position:end], end + 1
    if kind == STRING:
        return codec.unescape(body), position
    if kind == NUMBER:
        return numeric.decode(body), position
    items: list[Any] = []
    keys: list[str] = []
    for _ in range(decode_integer(body)):
        if kind == OBJECT:
            end = string.index(codec.END, position)
            keys.append(codec.unescape(string[position:end]))
            position = end + 1
        item, position = _decode_value(string, position)
        items.append(item)
    return (dict(zip(keys, items, strict=True)) if kind == OBJECT else items), position


def value_of_python(value: Any) -> Any:
    """Convert a value of Python's ``json`` module to a JSONB value.

    Raises:
        WrongPythonType: Its type is not supported.
    """
    match value:
        case None | bool() | str() | Decimal():
            return value
        case int():
            return Decimal(value)
        case float():
            return numeric.from_float(value)
        case list() | tuple():
            return list(map(value_of_python, value))
        case dict():
            return sort_keys({str(key): value_of_python(inner) for key, inner in value.items()})
        case _:
            raise WrongPythonType


def _from_python(value: Any) -> Json:
    if not isinstance(value, str):
        return Json(value_of_python(value))
    try:
        return parse(value)
    except ValueError:
        raise UnrepresentableValue from None


def _text_of_python(value: Any) -> str:
    if not isinstance(value, str):
        return text_of(value_of_python(value))
    try:
        return check_json(value)
    except ValueError:
        raise UnrepresentableValue from None


FRACTION: Final = re.compile(r"\.\d+")
HOUR_OFFSET: Final = re.compile(r"[+-]\d\d$")
"""UTC offset of whole hours at the end of a timestamp. JSON also has the minutes."""


def json_text_of(value: Any, type_: Type) -> str:
    """Return the JSON text of a value, ``null`` for NULL."""
    if value is None:
        return "null"
    match type_.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.JSON:
            return str(value)
        case Kind.ARRAY:
            texts = tuple(json_text_of(item, type_.parts[0]) for item in value.items)
            return _show_nested(to_nested_lists(Array(texts, value.shape)))
        case Kind.RECORD:
            names = type_.labels or tuple(f"f{place + 1}" for place in range(len(type_.parts)))
            fields = (json_text_of(field, part) for field, part in zip(value, type_.parts, strict=True))
            members = (f"{quote_string(name)}:{text}" for name, text in zip(names, fields, strict=True))
            return f"{{{','.join(members)}}}"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            text = FRACTION.sub(_trim_fraction, codec_of(type_).show(value).replace(" ", "T", 1))
            return quote_string(
                f"{text}:00" if HOUR_OFFSET.search(text) and type_.kind is Kind.TIMESTAMPTZ else text
            )
        case Kind.REAL | Kind.DOUBLE:
            return _show_float(value, is_single=type_.kind is Kind.REAL)
        case _:
            output = codec_of(type_).show(value)
            is_unquoted = type_.kind is Kind.JSONB or (type_.is_numeric and output.lstrip("-")[:1].isdigit())
            return output if is_unquoted else quote_string(output)


def _trim_fraction(found: re.Match[str]) -> str:
    """Trim trailing zeros of a fraction of a second."""
    return found[0].rstrip("0").rstrip(".")


def _show_float(value: float, *, is_single: bool) -> str:
    """Format a float with its shortest digits, with an exponent where Postgres has one."""
    if not math.isfinite(value):
        return quote_string("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    if is_single:
        number = Decimal(str(np.float32(value)))
    else:
        number = Decimal(repr(value))
    sign, digits, _ = number.normalize().as_tuple()
    exponent = number.adjusted()
    if not number or -5 < exponent < (6 if is_single else 15):
        return f"{number.normalize():f}"
    digits_text = "".join(map(str, digits))
    point = f".{digits_text[1:]}" if digits_text[1:] else ""
    return f"{'-' if sign else ''}{digits_text[0]}{point}e{exponent:+03d}"


def _show_nested(items: list[Any]) -> str:
    return f"[{','.join(_show_nested(item) if isinstance(item, list) else item for item in items)}]"


def to_jsonb_value(value: Any, type_: Type) -> Any:
    """Convert a value of any type to a JSONB value, None for NULL."""
    if isinstance(value, Json):
        return value.value
    return DECODER.decode(json_text_of(value, type_))


def member_key(value: Any, type_: Type) -> str:
    """Format a value as the key of an object's member.

    Raises:
        ValueError: The value is NULL.
    """
    if value is None:
        raise ValueError("a field name of a JSON object is NULL")
    if type_.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return str(DECODER.decode(json_text_of(value, type_)))
    return codec_of(type_).show(value)


def is_structured(type_: Type) -> bool:
    """Check whether Postgres writes values of the type on separate lines."""
    return type_.kind in (Kind.ARRAY, Kind.RECORD)


def jsonb_object(members: dict[str, Any]) -> Json:
    """Return a JSONB object of members in any order."""
    return Json(sort_keys(members))
