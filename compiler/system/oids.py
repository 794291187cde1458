"""OIDs, names and storage properties of types, schemas and objects, as in Postgres' catalogs.

Covers the types that occur only in catalogs, which kpg stores as text, numbers or arrays. Names are quoted
and qualified where SQL needs it. Storage properties are length, alignment, storage and collation.
"""

import re
from typing import Final
from zlib import crc32

from kpg.compiler.catalog.constraints import NO_RULE, Domain, Rule
from kpg.compiler.catalog.entries import PUBLIC, TEMPORARY, Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import FIRST as FIRST_ROLE
from kpg.compiler.catalog.privileges import PREDEFINED
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    INET,
    INTEGER,
    INTERVAL,
    NUMERIC,
    OID,
    ONE_BYTE,
    PG_LSN,
    REAL,
    REGPROC,
    SMALLINT,
    TEXT,
    TIMESTAMPTZ,
    XID,
    Kind,
    Type,
    array,
)
from kpg.runtime.types import DOUBLE as TYPES_DOUBLE

TEXTS: Final = {
    '"char"': ('"char"', "char", 18, 1),
    "regproc": ("regproc", "regproc", 24, 4),
    "name": ("name", "name", 19, 64),
    "character_data": ("character varying", "varchar", 1043, -1),
    "pg_node_tree": ("pg_node_tree", "pg_node_tree", 194, -1),
    "aclitem": ("aclitem", "aclitem", 1033, 16),
    "regtype": ("regtype", "regtype", 2206, 4),
    "anyarray": ("anyarray", "anyarray", 2277, -1),
    "pg_ndistinct": ("pg_ndistinct", "pg_ndistinct", 3361, -1),
    "pg_dependencies": ("pg_dependencies", "pg_dependencies", 3402, -1),
    "pg_mcv_list": ("pg_mcv_list", "pg_mcv_list", 5017, -1),
}
"""Of what is a text its name in SQL, its short name, its number and its length, by the type's name."""
NUMBERS: Final = {"oid": ("oid", "oid", 26, 4), "xid": ("xid", "xid", 28, 4)}
"""Of what is a number."""
VECTORS: Final = {
    "int2vector": ("int2vector", "int2vector", 22, -1),
    "oidvector": ("oidvector", "oidvector", 30, -1),
}
"""Of what is an array that is counted from 0 and written ``1 2``."""
LISTED: Final = ("char", "regproc", "name", "xid", "aclitem", "regtype", "int2vector", "oidvector", "oid")
"""The short names of those of which there are arrays."""
FACTS: Final = {
    Kind.VARCHAR: TEXTS,
    Kind.BIGINT: NUMBERS,
    Kind.ARRAY: VECTORS,
}


def _text(name: str) -> Type:
    return Type(Kind.VARCHAR, name=name)


NAME: Final = _text("name")
VARYING: Final = _text("character_data")
KINDS: Final = {
    "": TEXT,
    "a": array(SMALLINT),
    "b": BOOLEAN,
    "c": ONE_BYTE,
    "d": TYPES_DOUBLE,
    "e": _text("pg_node_tree"),
    "f": REAL,
    "h": VARYING,
    "i": INTEGER,
    "l": BIGINT,
    "m": NAME,
    "n": array(OID),
    "o": OID,
    "p": REGPROC,
    "s": SMALLINT,
    "t": array(TEXT),
    "v": Type(Kind.ARRAY, parts=(SMALLINT,), name="int2vector"),
    "w": Type(Kind.ARRAY, parts=(OID,), name="oidvector"),
    "x": XID,
    "z": TIMESTAMPTZ,
    "bytea": BYTEA,
    "inet": INET,
    "interval": INTERVAL,
    "numeric": NUMERIC,
    "pg_lsn": PG_LSN,
    "_aclitem": array(_text("aclitem")),
    "_bool": array(BOOLEAN),
    "_char": array(ONE_BYTE),
    "_float4": array(REAL),
    "_float8": array(TYPES_DOUBLE),
    "_name": array(NAME),
    "_pg_statistic": array(TEXT),
    "_regtype": array(_text("regtype")),
    **{
        name: _text(name)
        for name in ("regtype", "anyarray", "pg_ndistinct", "pg_dependencies", "pg_mcv_list")
    },
}
"""Types by the letters, or the names, that stand behind the names of columns in ``shapes.py``."""


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
    if type_.name and type_.kind in FACTS:
        return FACTS[type_.kind][type_.name]
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
    named = (facts for group in FACTS.values() for facts in group.values())
    listed = [facts for facts in named if facts[1] in LISTED]
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


PLAIN: Final = re.compile(r"[a-z_][a-z0-9_$]*")
RESERVED: Final = frozenset(
    word
    for line in (
        "all analyse analyze and any array as asc asymmetric authorization between bigint binary bit",
        "boolean both case cast char character check coalesce collate collation column concurrently",
        "constraint create cross current_catalog current_date current_role current_schema",
        "current_time current_timestamp current_user dec decimal default deferrable desc distinct do",
        "else end except exists extract false fetch float for foreign freeze from full grant greatest",
        "group grouping having ilike in initially inner inout int integer intersect interval into is",
        "isnull join lateral leading least left like limit localtime localtimestamp national natural",
        "nchar none normalize not notnull null nullif numeric offset on only or order out outer",
        "overlaps overlay placing position precision primary real references returning right row",
        "select session_user setof similar smallint some substring symmetric table tablesample then",
        "time timestamp to trailing treat trim true union unique user using values varchar variadic",
        "verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest",
        "xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable",
    )
    for word in line.split()
)
"""Words that are no name without quotes."""


def quoted(name: str) -> str:
    """A name as SQL has it."""
    if PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def whole(catalog: Catalog, name: str) -> str:
    """A name with its schema."""
    return ".".join(map(quoted, split(catalog, name)))


def path_of(catalog: Catalog) -> tuple[str, ...]:
    """The schemas of the search path: none if it was set to nothing, as dumps do, though ``public`` is
    looked into even then."""
    return () if catalog.settings.get("search_path") in ("", '""') else catalog.path


def is_visible(catalog: Catalog, name: str, kind: str) -> bool:
    """Whether a name without its schema means the one of the path's schemas: no other hides it."""
    schema, plain = split(catalog, name)
    if schema == catalog.temporary:
        return True
    for one in path_of(catalog):
        if one == schema:
            return True
        if _known(catalog, plain if one == "public" else f"{one}.{plain}", kind):
            return False
    return schema in SYSTEM_SCHEMAS


def _known(catalog: Catalog, name: str, kind: str) -> bool:
    lower = name.lower()
    match kind:
        case "relation":
            indexed = any(
                split(catalog, one.name) == split(catalog, name) for one in catalog.indexes.values()
            )
            return name in catalog or lower in catalog.sequences or indexed
        case "type":
            return lower in catalog.types
        case _:
            return lower in catalog.routines


def shown_name(catalog: Catalog, name: str, kind: str) -> str:
    """A name, with its schema where it is needed: ``kind`` is relation, type or function."""
    return quoted(split(catalog, name)[1]) if is_visible(catalog, name, kind) else whole(catalog, name)


def query_of(catalog: Catalog, view: ViewEntry) -> str:
    """The text of a view for who asks."""
    if path_of(catalog) == (PUBLIC,) and len(catalog.schemas) == 1:
        return view.sql
    return catalog.consulted.spelling.query(catalog, view.text)


COLLATED: Final = frozenset(("text", "varchar", "bpchar", "_text", "_varchar", "_bpchar"))
DOUBLE: Final = frozenset(
    ("int8", "float8", "timestamp", "timestamptz", "time", "timetz", "interval", "pg_lsn")
)
BY_REFERENCE: Final = frozenset(("uuid", "interval", "timetz", "macaddr", "macaddr8"))
ANY_DIGITS: Final = {"timestamp", "timestamptz", "time", "timetz"}
DEFAULT_COLLATION: Final = 100


def physical(short: str, length: int) -> tuple[int, str, str, int]:
    """Of a type's short name and length: passed by value, alignment, storage and collation."""
    collation = DEFAULT_COLLATION if short in COLLATED else 0
    if length < 0:
        main = {"numeric": "m", "inet": "m", "cidr": "m"}.get(short, "x")
        return 0, "d" if short in ("_int8", "_timestamptz") else "i", main, collation
    align = "d" if short in DOUBLE else {1: "c", 2: "s", 4: "i"}.get(length, "c")
    return int(length in (1, 2, 4, 8) and short not in BY_REFERENCE), align, "p", collation


def rule_of(entry: Entry, place: int) -> Rule:
    """How a column gets a value."""
    return entry.constraints.rule(place) if isinstance(entry, TableEntry) else NO_RULE


def domain_at(catalog: Catalog, entry: Entry, place: int) -> Domain | None:
    """The domain that a column is of."""
    found = catalog.types.get(rule_of(entry, place).domain.lower())
    return found if isinstance(found, Domain) else None


def type_at(catalog: Catalog, entry: Entry, place: int) -> tuple[int, int]:
    """The number and the length of a column's type: of a domain, if it is of one."""
    facts = type_facts(entry.schema.types[place])
    domain = domain_at(catalog, entry, place)
    return (facts[2] if domain is None else number_of("type", domain.name)), facts[3]


def modifier_at(catalog: Catalog, entry: Entry, place: int) -> int:
    """What a column's type has of a length, or digits."""
    if domain_at(catalog, entry, place) is not None:
        return -1
    if isinstance(entry, ViewEntry) and catalog.consulted.spelling.is_computed(catalog, entry, place):
        return -1
    return with_digits(entry.schema.types[place], rule_of(entry, place).digits)


def with_digits(type_: Type, digits: int) -> int:
    """A modifier, if the digits of a second are told too."""
    short = type_facts(type_)[1]
    if digits >= 0 and short in ANY_DIGITS:
        return digits
    return modifier(type_)
