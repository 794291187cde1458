"""Values of all types as JSON: as text, as Postgres' ``to_json`` writes it, and as values of JSONB."""

import math
import re
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.arrays import Array, nested
from kpg.runtime.values.codec import codec_of
from kpg.runtime.values.jsons import DECODER, Json, in_order, quoted

FRACTION: Final = re.compile(r"\.\d+")
ZONE: Final = re.compile(r"[+-]\d\d$")
"""The end of a moment whose zone is whole hours away: JSON has their minutes, too."""


def text_of(value: Any, type_: Type) -> str:
    """The JSON text of a value, ``null`` for NULL."""
    if value is None:
        return "null"
    match type_.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.JSON:
            return str(value)
        case Kind.ARRAY:
            texts = tuple(text_of(item, type_.parts[0]) for item in value.items)
            return _array(nested(Array(texts, value.shape)))
        case Kind.RECORD:
            names = type_.labels or tuple(f"f{place + 1}" for place in range(len(type_.parts)))
            fields = (text_of(field, part) for field, part in zip(value, type_.parts, strict=True))
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
        import numpy as np

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
    return DECODER.decode(text_of(value, type_))


def key_of(value: Any, type_: Type) -> str:
    """A value as the key of an object's member; ValueError if it is NULL."""
    if value is None:
        raise ValueError("a field name of a JSON object is NULL")
    if type_.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return str(DECODER.decode(text_of(value, type_)))
    return codec_of(type_).show(value)


def is_structured(type_: Type) -> bool:
    """Whether Postgres puts values of the type on lines of their own."""
    return type_.kind in (Kind.ARRAY, Kind.RECORD)


def object_of(members: dict[str, Any]) -> Json:
    """An object of JSONB."""
    return Json(in_order(members))
