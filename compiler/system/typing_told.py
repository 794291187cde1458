"""What ``information_schema`` tells of types: of columns, attributes, domains, parameters and results."""

from typing import Final

from kpg.compiler.catalog import Catalog
from kpg.compiler.system.naming import DATABASE, split, type_facts
from kpg.compiler.system.relations import Row
from kpg.runtime.types import Kind, Type

BITS: Final = {"int2": 16, "int4": 32, "int8": 64, "float4": 24, "float8": 53}
MOST_BYTES: Final = 2**30
"""Of a text without a length."""
BYTES: Final = 4
"""Of the longest character."""
DIGITS: Final = 6
"""Of a second, where a type does not say how many."""
MOMENTS: Final = ("time", "timetz", "timestamp", "timestamptz", "interval")
FACTS: Final = (
    "data_type:h character_maximum_length:i character_octet_length:i numeric_precision:i "
    "numeric_precision_radix:i numeric_scale:i datetime_precision:i"
)
"""The columns that :func:`facts` gives."""


def is_users(type_: Type) -> bool:
    """Whether users have made the type."""
    return bool(type_.name) and type_.kind in (Kind.ENUM, Kind.RECORD)


def kind_of(type_: Type) -> str:
    """The name of a type as the standard has it."""
    if type_.kind.value == "ARRAY":
        return "ARRAY"
    return "USER-DEFINED" if is_users(type_) else type_facts(type_)[0]


def facts(type_: Type, digits: int = -1) -> Row:
    """The name of a type, its lengths and its digits; ``digits`` are those of a second, -1 unless told."""
    short = type_facts(type_)[1]
    length = type_.precision or None
    is_text = short in ("text", "varchar", "bpchar")
    most = (length if is_text or short in ("bit", "varbit") else None) if short != "text" else None
    octets = (MOST_BYTES if most is None else most * BYTES) if is_text else None
    bits = BITS.get(short)
    scale: int | None = None
    if short.startswith("int") and bits is not None:
        scale = 0
    elif short == "numeric" and length is not None:
        scale = type_.scale
    precision = bits or (length if short == "numeric" else None)
    radix = 2 if bits is not None else 10 if short == "numeric" else None
    moment = 0 if short == "date" else None
    if short in MOMENTS:
        moment = digits if digits >= 0 else DIGITS
    return kind_of(type_), most, octets, precision, radix, scale, moment


def identified(catalog: Catalog, type_: Type) -> Row:
    """The database, the schema and the short name of a type."""
    if type_.kind.value == "ARRAY" and not type_.name:
        _, schema, name = identified(catalog, type_.parts[0])
        return DATABASE, schema, f"_{name}"
    if is_users(type_):
        return DATABASE, *split(catalog, type_.name)
    return DATABASE, "pg_catalog", type_facts(type_)[1]
