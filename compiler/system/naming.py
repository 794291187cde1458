"""What Postgres calls types, schemas and objects, and the numbers by which its catalogs refer to them."""

from typing import Final
from zlib import crc32

from kpg.compiler.catalog import PUBLIC, TEMPORARY, Catalog
from kpg.compiler.resolved import DATABASE as DATABASE
from kpg.compiler.rights import FIRST as FIRST_ROLE
from kpg.compiler.rights import PREDEFINED
from kpg.compiler.system import kinds
from kpg.runtime.types import Kind, Type

USER: Final = "kpg"
VERSION: Final = "PostgreSQL 16.0 (kpg)"
FIRST: Final = 16384
"""The first number of an object that is no part of the system."""
MADE: Final = 1 << 30
"""How many numbers there are of objects; those of types of arrays of users' types come behind them."""
SYSTEM_SCHEMAS: Final = {"pg_catalog": 11, "information_schema": 13000}
TYPES: Final = {
    Kind.BOOLEAN: ("boolean", "bool", 16, 1),
    Kind.SMALLINT: ("smallint", "int2", 21, 2),
    Kind.INTEGER: ("integer", "int4", 23, 4),
    Kind.BIGINT: ("bigint", "int8", 20, 8),
    Kind.DECIMAL: ("numeric", "numeric", 1700, -1),
    Kind.REAL: ("real", "float4", 700, 4),
    Kind.DOUBLE: ("double precision", "float8", 701, 8),
    Kind.DATE: ("date", "date", 1082, 4),
    Kind.TIMESTAMP: ("timestamp without time zone", "timestamp", 1114, 8),
    Kind.CHAR: ("character", "bpchar", 1042, -1),
    Kind.VARCHAR: ("character varying", "varchar", 1043, -1),
    Kind.INTERVAL_MONTH: ("interval", "interval", 1186, 16),
    Kind.INTERVAL_DAY: ("interval", "interval", 1186, 16),
}
MORE_TYPES: Final = {
    "NUMERIC": ("numeric", "numeric", 1700, -1),
    "TIMESTAMP WITH TIME ZONE": ("timestamp with time zone", "timestamptz", 1184, 8),
    "TIMESTAMPTZ": ("timestamp with time zone", "timestamptz", 1184, 8),
    "TIME": ("time without time zone", "time", 1083, 8),
    "INTERVAL": ("interval", "interval", 1186, 16),
    "JSON": ("json", "json", 114, -1),
    "JSONB": ("jsonb", "jsonb", 3802, -1),
    "UUID": ("uuid", "uuid", 2950, 16),
    "BYTEA": ("bytea", "bytea", 17, -1),
    "BIT": ("bit", "bit", 1560, -1),
    "BIT VARYING": ("bit varying", "varbit", 1562, -1),
    "TIMETZ": ("time with time zone", "timetz", 1266, 12),
    "INET": ("inet", "inet", 869, -1),
    "CIDR": ("cidr", "cidr", 650, -1),
    "MACADDR": ("macaddr", "macaddr", 829, 6),
    "MACADDR8": ("macaddr8", "macaddr8", 774, 8),
    "TID": ("tid", "tid", 27, 6),
    "PG_LSN": ("pg_lsn", "pg_lsn", 3220, 8),
    "INT4RANGE": ("int4range", "int4range", 3904, -1),
    "NUMRANGE": ("numrange", "numrange", 3906, -1),
    "TSRANGE": ("tsrange", "tsrange", 3908, -1),
    "TSTZRANGE": ("tstzrange", "tstzrange", 3910, -1),
    "DATERANGE": ("daterange", "daterange", 3912, -1),
    "INT8RANGE": ("int8range", "int8range", 3926, -1),
    "INT4MULTIRANGE": ("int4multirange", "int4multirange", 4451, -1),
    "NUMMULTIRANGE": ("nummultirange", "nummultirange", 4532, -1),
    "TSMULTIRANGE": ("tsmultirange", "tsmultirange", 4533, -1),
    "TSTZMULTIRANGE": ("tstzmultirange", "tstzmultirange", 4534, -1),
    "DATEMULTIRANGE": ("datemultirange", "datemultirange", 4535, -1),
    "INT8MULTIRANGE": ("int8multirange", "int8multirange", 4536, -1),
}
TEXT_TYPE: Final = ("text", "text", 25, -1)
HEADER: Final = 4
"""By how much the modifiers of lengths and digits are larger than these."""
ARRAYS: Final = {
    16: 1000,
    17: 1001,
    20: 1016,
    21: 1005,
    23: 1007,
    25: 1009,
    26: 1028,
    27: 1010,
    18: 1002,
    19: 1003,
    22: 1006,
    24: 1008,
    28: 1011,
    30: 1013,
    1033: 1034,
    2206: 2211,
    114: 199,
    700: 1021,
    701: 1022,
    1042: 1014,
    1043: 1015,
    1082: 1182,
    1083: 1183,
    1114: 1115,
    1184: 1185,
    1186: 1187,
    1700: 1231,
    2950: 2951,
    3802: 3807,
    1560: 1561,
    1562: 1563,
    1266: 1270,
    869: 1041,
    650: 651,
    829: 1040,
    774: 775,
    3220: 3221,
    3904: 3905,
    3906: 3907,
    3908: 3909,
    3910: 3911,
    3912: 3913,
    3926: 3927,
    4451: 6150,
    4532: 6151,
    4533: 6152,
    4534: 6153,
    4535: 6155,
    4536: 6157,
}
"""The number of the type of arrays, by that of their elements' type."""
TEXT_ARRAY: Final = 1009
RECORD_TYPE: Final = ("record", "record", 2249, -1)
CLASSES: Final = {
    "pg_aggregate": 2600,
    "pg_am": 2601,
    "pg_attrdef": 2604,
    "pg_attribute": 1249,
    "pg_authid": 1260,
    "pg_cast": 2605,
    "pg_class": 1259,
    "pg_collation": 3456,
    "pg_constraint": 2606,
    "pg_conversion": 2607,
    "pg_database": 1262,
    "pg_default_acl": 826,
    "pg_depend": 2608,
    "pg_description": 2609,
    "pg_enum": 3501,
    "pg_event_trigger": 3466,
    "pg_extension": 3079,
    "pg_foreign_data_wrapper": 2328,
    "pg_foreign_server": 1417,
    "pg_index": 2610,
    "pg_inherits": 2611,
    "pg_language": 2612,
    "pg_namespace": 2615,
    "pg_opclass": 2616,
    "pg_operator": 2617,
    "pg_opfamily": 2753,
    "pg_policy": 3256,
    "pg_proc": 1255,
    "pg_publication": 6104,
    "pg_rewrite": 2618,
    "pg_sequence": 2224,
    "pg_statistic_ext": 3381,
    "pg_tablespace": 1213,
    "pg_trigger": 2620,
    "pg_type": 1247,
}
"""Postgres' numbers of its relations, by which programs know what kind of thing they look at."""
UNKNOWN_TYPE: Final = ("unknown", "unknown", 705, -2)


def type_facts(type_: Type) -> tuple[str, str, int, int]:
    """A type's name in SQL, its short name, its number and its length in bytes, -1 if that varies."""
    if type_.name and type_.kind in kinds.FACTS:
        return kinds.FACTS[type_.kind][type_.name]
    if type_.kind is Kind.VARCHAR and not type_.precision:
        return TEXT_TYPE
    if type_.kind.value == "ARRAY":
        element = type_facts(type_.parts[0])
        return f"{element[0]}[]", f"_{element[1]}", array_number(element[2]), -1
    if type_.kind.value in ("RANGE", "MULTIRANGE"):
        return MORE_TYPES[str(type_)]
    if type_.kind is Kind.RECORD and not type_.name:
        return RECORD_TYPE
    if type_.kind in (Kind.RECORD, Kind.ENUM):
        length = 4 if type_.kind is Kind.ENUM else -1
        return type_.name, type_.name, number_of("type", type_.name), length
    return TYPES.get(type_.kind) or MORE_TYPES.get(type_.kind.value, UNKNOWN_TYPE)


def array_number(element: int) -> int:
    """The number of the type of arrays, by that of the type of their elements."""
    return ARRAYS.get(element) or (element + MADE if element >= FIRST else TEXT_ARRAY)


def modified(number: object = None, modifier: object = None) -> str | None:
    """The name of a type with its length or digits, by its number and its modifier; None without that."""
    if not isinstance(number, int) or not isinstance(modifier, int) or modifier < 0:
        return None
    known = next((one[0] for one in (*TYPES.values(), *MORE_TYPES.values()) if one[2] == number), None)
    match known:
        case "numeric":
            whole = modifier - HEADER
            return f"numeric({whole >> 16 & 0xFFFF},{(whole & 0x7FF ^ 1024) - 1024})"
        case "character" | "character varying":
            return f"{known}({modifier - HEADER})"
        case "bit" | "bit varying":
            return f"{known}({modifier})"
        case str() if known.startswith("time"):
            first, _, rest = known.partition(" ")
            return f"{first}({modifier}) {rest}"
        case _:
            return None


def given_types() -> list[tuple[str, str, int, int]]:
    """The facts of all types that users have not made, but for arrays."""
    named = (facts for group in kinds.FACTS.values() for facts in group.values())
    listed = [facts for facts in named if facts[1] in kinds.LISTED]
    return list(dict.fromkeys((*TYPES.values(), *MORE_TYPES.values(), TEXT_TYPE, *listed)))


def every_type() -> dict[int, tuple[str, str]]:
    """The names in SQL and in short of all types, those of arrays too, by their numbers."""
    plain = {number: (name, short) for name, short, number, _ in given_types()}
    arrays = {ARRAYS[number]: (f"{name}[]", f"_{short}") for number, (name, short) in plain.items()}
    return plain | arrays


def type_number(text: str) -> int | None:
    """The number of the type of a name, None if there is none."""
    wanted = " ".join(text.lower().replace('"', "").removeprefix("pg_catalog.").split())
    plain = wanted.removesuffix("[]").strip()
    plain = ALIASES.get(plain, plain)
    if wanted in ROUTINE_TYPES:
        return ROUTINE_TYPES[wanted]
    found = next((number for number, names in every_type().items() if plain in names), None)
    return ARRAYS.get(found or 0) if wanted.endswith("[]") else found


ROUTINE_TYPES: Final = {"trigger": 2279, "void": 2278, "record": 2249, "event_trigger": 3838}
"""Types that stand only for what a function gives."""

ALIASES: Final = {
    "int": "integer",
    "decimal": "numeric",
    "char": "character",
    "float": "double precision",
}
"""Names of types that no catalog has."""


def modifier(type_: Type) -> int:
    """What Postgres keeps of a type's length, or precision and scale; -1 for nothing."""
    if type_.kind.value in ("DECIMAL", "NUMERIC") and type_.precision:
        return (type_.precision << 16 | type_.scale) + 4
    if type_.kind.value in ("BIT", "BIT VARYING"):
        return type_.precision or -1
    return type_.precision + 4 if type_.is_text and type_.precision else -1


def number_of(kind: str, name: str) -> int:
    """The number of an object."""
    return FIRST + crc32(f"{kind} {name.lower()}".encode()) % MADE


def system_number(name: str) -> int:
    """The number of a relation of the system."""
    return CLASSES.get(name.lower()) or number_of("system", name)


def role_number(name: str) -> int:
    """The number of a role."""
    if name == FIRST_ROLE:
        return 10
    return PREDEFINED.get(name) or number_of("role", name)


def schema_number(schema: str) -> int:
    """The number of a schema."""
    return SYSTEM_SCHEMAS.get(schema) or (2200 if schema == PUBLIC else number_of("schema", schema))


def split(catalog: Catalog, name: str) -> tuple[str, str]:
    """The schema of a relation and its name there."""
    schema, _, rest = name.rpartition(".")
    return (schema, rest) if schema.lower() in catalog.schemas else (PUBLIC, name)


def is_shown(catalog: Catalog, schema: str) -> bool:
    """Whether catalogs list a schema."""
    return not schema.startswith(TEMPORARY) or (schema == catalog.temporary and schema != TEMPORARY)


def schemas(catalog: Catalog) -> list[str]:
    """All schemas; of those of temporary tables, that of the session if it has a number."""
    return [*SYSTEM_SCHEMAS, *(name for name in catalog.schemas if is_shown(catalog, name))]
