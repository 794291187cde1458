"""OIDs, names and storage properties of types, schemas and objects, as in Postgres' catalogs.

Covers the types that occur only in catalogs, which kpg stores as text, numbers or arrays. Names are quoted
and qualified where SQL needs it. Storage properties are length, alignment, storage and collation.
"""

import re
from typing import Final
from zlib import crc32

from kpg.compiler.catalog.constraints import NO_RULE, Domain, Rule
from kpg.compiler.catalog.entries import PUBLIC, TEMPORARY, Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import BOOTSTRAP_ROLE as FIRST_ROLE
from kpg.compiler.catalog.privileges import PREDEFINED_ROLES
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

TEXT_TYPES: Final = {
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
"""SQL name, short name, OID and length of catalog types that are stored as text."""
NUMBER_TYPES: Final = {"oid": ("oid", "oid", 26, 4), "xid": ("xid", "xid", 28, 4)}
"""SQL name, short name, OID and length of catalog types that are stored as numbers."""
VECTOR_TYPES: Final = {
    "int2vector": ("int2vector", "int2vector", 22, -1),
    "oidvector": ("oidvector", "oidvector", 30, -1),
}
"""Facts of catalog arrays that are indexed from 0 and written ``1 2``."""
CATALOG_TYPES: Final = (
    "char",
    "regproc",
    "name",
    "xid",
    "aclitem",
    "regtype",
    "int2vector",
    "oidvector",
    "oid",
)
"""Short names of the catalog types that ``pg_type`` lists, with their array types."""
FACTS_OF_NAMED: Final = {
    Kind.VARCHAR: TEXT_TYPES,
    Kind.BIGINT: NUMBER_TYPES,
    Kind.ARRAY: VECTOR_TYPES,
}


def _text_type(name: str) -> Type:
    return Type(Kind.VARCHAR, name=name)


NAME: Final = _text_type("name")
VARYING: Final = _text_type("character_data")
COLUMN_TYPES: Final = {
    "": TEXT,
    "a": array(SMALLINT),
    "b": BOOLEAN,
    "c": ONE_BYTE,
    "d": TYPES_DOUBLE,
    "e": _text_type("pg_node_tree"),
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
    "_aclitem": array(_text_type("aclitem")),
    "_bool": array(BOOLEAN),
    "_char": array(ONE_BYTE),
    "_float4": array(REAL),
    "_float8": array(TYPES_DOUBLE),
    "_name": array(NAME),
    "_pg_statistic": array(TEXT),
    "_regtype": array(_text_type("regtype")),
    **{
        name: _text_type(name)
        for name in ("regtype", "anyarray", "pg_ndistinct", "pg_dependencies", "pg_mcv_list")
    },
}
"""Types of catalog columns by the letter or name after the colon in ``catalog_columns``."""


USER: Final = "kpg"
VERSION: Final = "PostgreSQL 16.0 (kpg)"
FIRST_USER_OID: Final = 16384
"""The first OID of objects that are not part of the system."""
OID_RANGE: Final = 1 << 30
"""Number of OIDs for objects. Array types of user-defined types have the OIDs after them."""
SYSTEM_SCHEMAS: Final = {"pg_catalog": 11, "information_schema": 13000}
"""OIDs of the system schemas."""
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
"""SQL name, short name, OID and length by kind."""
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
"""SQL name, short name, OID and length by name."""
TEXT_TYPE: Final = ("text", "text", 25, -1)
MODIFIER_OFFSET: Final = 4
"""Offset that Postgres adds to lengths and digits in type modifiers."""
ARRAY_OIDS: Final = {
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
"""OID of the array type by the OID of its element type."""
TEXT_ARRAY: Final = 1009
RECORD_TYPE: Final = ("record", "record", 2249, -1)
CATALOG_OIDS: Final = {
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
"""Postgres' OIDs of its catalogs, which programs use as class ids."""
UNKNOWN_TYPE: Final = ("unknown", "unknown", 705, -2)


def type_facts(type_: Type) -> tuple[str, str, int, int]:
    """Return the SQL name, short name, OID and length in bytes of a type; -1 for a variable length."""
    if type_.name and type_.kind in FACTS_OF_NAMED:
        return FACTS_OF_NAMED[type_.kind][type_.name]
    if type_.kind is Kind.VARCHAR and not type_.precision:
        return TEXT_TYPE
    if type_.kind.value == "ARRAY":
        element = type_facts(type_.parts[0])
        return f"{element[0]}[]", f"_{element[1]}", array_oid(element[2]), -1
    if type_.kind.value in ("RANGE", "MULTIRANGE"):
        return MORE_TYPES[str(type_)]
    if type_.kind is Kind.RECORD and not type_.name:
        return RECORD_TYPE
    if type_.kind in (Kind.RECORD, Kind.ENUM, Kind.EXTENSION):
        length = 4 if type_.kind is Kind.ENUM else -1
        return type_.name, type_.name, oid_of("type", type_.name), length
    return TYPES.get(type_.kind) or MORE_TYPES.get(type_.kind.value, UNKNOWN_TYPE)


def array_oid(element: int) -> int:
    """Return the OID of the array type of an element type."""
    return ARRAY_OIDS.get(element) or (element + OID_RANGE if element >= FIRST_USER_OID else TEXT_ARRAY)


def modified_type_name(oid: object = None, modifier: object = None) -> str | None:
    """Return the name of a type with its modifier; None if there is no modifier."""
    if not isinstance(oid, int) or not isinstance(modifier, int) or modifier < 0:
        return None
    known = next((one[0] for one in (*TYPES.values(), *MORE_TYPES.values()) if one[2] == oid), None)
    match known:
        case "numeric":
            whole = modifier - MODIFIER_OFFSET
            return f"numeric({whole >> 16 & 0xFFFF},{(whole & 0x7FF ^ 1024) - 1024})"
        case "character" | "character varying":
            return f"{known}({modifier - MODIFIER_OFFSET})"
        case "bit" | "bit varying":
            return f"{known}({modifier})"
        case str() if known.startswith("time"):
            first, _, rest = known.partition(" ")
            return f"{first}({modifier}) {rest}"
        case _:
            return None


def built_in_types() -> list[tuple[str, str, int, int]]:
    """Return the facts of all built-in types except arrays."""
    named = (facts for group in FACTS_OF_NAMED.values() for facts in group.values())
    listed = [facts for facts in named if facts[1] in CATALOG_TYPES]
    return list(dict.fromkeys((*TYPES.values(), *MORE_TYPES.values(), TEXT_TYPE, *listed)))


def built_in_type_names() -> dict[int, tuple[str, str]]:
    """Return the SQL name and short name of all built-in types, including arrays, by OID."""
    plain = {number: (name, short) for name, short, number, _ in built_in_types()}
    arrays = {ARRAY_OIDS[number]: (f"{name}[]", f"_{short}") for number, (name, short) in plain.items()}
    return plain | arrays


def built_in_type_oid(text: str) -> int | None:
    """Return the OID of a built-in type; None if there is none of that name."""
    wanted = " ".join(text.lower().replace('"', "").removeprefix("pg_catalog.").split())
    plain = wanted.removesuffix("[]").strip()
    plain = TYPE_ALIASES.get(plain, plain)
    if wanted in ROUTINE_TYPES:
        return ROUTINE_TYPES[wanted]
    found = next((number for number, names in built_in_type_names().items() if plain in names), None)
    return ARRAY_OIDS.get(found or 0) if wanted.endswith("[]") else found


ROUTINE_TYPES: Final = {"trigger": 2279, "void": 2278, "record": 2249, "event_trigger": 3838}
"""OIDs of pseudo-types, which occur only as results of functions."""

TYPE_ALIASES: Final = {
    "int": "integer",
    "decimal": "numeric",
    "char": "character",
    "float": "double precision",
}
"""Type names that the catalogs do not list."""


def type_modifier(type_: Type) -> int:
    """Return the type modifier, for a length or for precision and scale; -1 if there is none."""
    if type_.kind.value in ("DECIMAL", "NUMERIC") and type_.precision:
        return (type_.precision << 16 | type_.scale) + 4
    if type_.kind.value in ("BIT", "BIT VARYING"):
        return type_.precision or -1
    return type_.precision + 4 if type_.is_text and type_.precision else -1


def oid_of(kind: str, name: str) -> int:
    """Return the OID of an object, a hash of its kind and lower-case name."""
    return FIRST_USER_OID + crc32(f"{kind} {name.lower()}".encode()) % OID_RANGE


def system_relation_oid(name: str) -> int:
    """Return the OID of a system relation."""
    return CATALOG_OIDS.get(name.lower()) or oid_of("system", name)


def role_oid(name: str) -> int:
    """Return the OID of a role."""
    if name == FIRST_ROLE:
        return 10
    return PREDEFINED_ROLES.get(name) or oid_of("role", name)


def schema_oid(schema: str) -> int:
    """Return the OID of a schema."""
    return SYSTEM_SCHEMAS.get(schema) or (2200 if schema == PUBLIC else oid_of("schema", schema))


def split_name(catalog: Catalog, name: str) -> tuple[str, str]:
    """Return the schema and the unqualified name of an object."""
    schema, _, rest = name.rpartition(".")
    return (schema, rest) if schema.lower() in catalog.schemas else (PUBLIC, name)


def is_listed_schema(catalog: Catalog, schema: str) -> bool:
    """Return whether the catalogs list a schema: not the temporary schemas of other sessions."""
    return not schema.startswith(TEMPORARY) or (schema == catalog.temporary_schema and schema != TEMPORARY)


def listed_schemas(catalog: Catalog) -> list[str]:
    """Return the schemas that the catalogs list, the system's first."""
    return [*SYSTEM_SCHEMAS, *(name for name in catalog.schemas if is_listed_schema(catalog, name))]


PLAIN_IDENTIFIER: Final = re.compile(r"[a-z_][a-z0-9_$]*")
RESERVED_WORDS: Final = frozenset(
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
"""Words that need quotes as identifiers."""


def quote_identifier(name: str) -> str:
    """Return an identifier, quoted if SQL needs it."""
    if PLAIN_IDENTIFIER.fullmatch(name) and name not in RESERVED_WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def qualified_name(catalog: Catalog, name: str) -> str:
    """Return a quoted name with its schema."""
    return ".".join(map(quote_identifier, split_name(catalog, name)))


def displayed_path(catalog: Catalog) -> tuple[str, ...]:
    """Return the search path by which names are displayed.

    It is empty if the search path was set to nothing, as dumps do, although lookups still use
    ``public``.
    """
    return () if catalog.settings.get("search_path") in ("", '""') else catalog.path


def is_visible(catalog: Catalog, name: str, kind: str) -> bool:
    """Return whether the unqualified name finds the object on the search path."""
    schema, plain = split_name(catalog, name)
    if schema == catalog.temporary_schema:
        return True
    for one in displayed_path(catalog):
        if one == schema:
            return True
        if _exists(catalog, plain if one == "public" else f"{one}.{plain}", kind):
            return False
    return schema in SYSTEM_SCHEMAS


def _exists(catalog: Catalog, name: str, kind: str) -> bool:
    lower = name.lower()
    match kind:
        case "relation":
            indexed = any(
                split_name(catalog, one.name) == split_name(catalog, name) for one in catalog.indexes.values()
            )
            return name in catalog or lower in catalog.sequences or indexed
        case "type":
            return lower in catalog.types
        case _:
            return lower in catalog.routines


def display_name(catalog: Catalog, name: str, kind: str) -> str:
    """Return a quoted name, qualified if it is not visible; ``kind`` is relation, type or function."""
    return (
        quote_identifier(split_name(catalog, name)[1])
        if is_visible(catalog, name, kind)
        else qualified_name(catalog, name)
    )


def view_text(catalog: Catalog, view: ViewEntry) -> str:
    """Return the query of a view as the current user sees it."""
    if displayed_path(catalog) == (PUBLIC,) and len(catalog.schemas) == 1:
        return view.sql
    return catalog.system_reads.deparser.query(catalog, view.text)


COLLATED_TYPES: Final = frozenset(("text", "varchar", "bpchar", "_text", "_varchar", "_bpchar"))
DOUBLE_ALIGNED: Final = frozenset(
    ("int8", "float8", "timestamp", "timestamptz", "time", "timetz", "interval", "pg_lsn")
)
BY_REFERENCE_TYPES: Final = frozenset(("uuid", "interval", "timetz", "macaddr", "macaddr8"))
FRACTIONAL_TYPES: Final = {"timestamp", "timestamptz", "time", "timetz"}
DEFAULT_COLLATION: Final = 100


def storage_properties(short: str, length: int) -> tuple[int, str, str, int]:
    """Return whether a type is passed by value, and its alignment, storage and collation."""
    collation = DEFAULT_COLLATION if short in COLLATED_TYPES else 0
    if length < 0:
        main = {"numeric": "m", "inet": "m", "cidr": "m"}.get(short, "x")
        return 0, "d" if short in ("_int8", "_timestamptz") else "i", main, collation
    align = "d" if short in DOUBLE_ALIGNED else {1: "c", 2: "s", 4: "i"}.get(length, "c")
    return int(length in (1, 2, 4, 8) and short not in BY_REFERENCE_TYPES), align, "p", collation


def column_rule(entry: Entry, position: int) -> Rule:
    """Return how a column gets its value."""
    return entry.constraints.rule(position) if isinstance(entry, TableEntry) else NO_RULE


def column_domain(catalog: Catalog, entry: Entry, position: int) -> Domain | None:
    """Return the domain of a column; None if its type is not a domain."""
    found = catalog.types.get(column_rule(entry, position).domain.lower())
    return found if isinstance(found, Domain) else None


def column_type(catalog: Catalog, entry: Entry, position: int) -> tuple[int, int]:
    """Return the OID and length of a column's type, or of its domain."""
    facts = type_facts(entry.schema.types[position])
    domain = column_domain(catalog, entry, position)
    return (facts[2] if domain is None else oid_of("type", domain.name)), facts[3]


def column_modifier(catalog: Catalog, entry: Entry, position: int) -> int:
    """Return the type modifier of a column; -1 if there is none."""
    if column_domain(catalog, entry, position) is not None:
        return -1
    if isinstance(entry, ViewEntry) and catalog.system_reads.deparser.is_computed(catalog, entry, position):
        return -1
    return modifier_with_digits(entry.schema.types[position], column_rule(entry, position).digits)


def modifier_with_digits(type_: Type, digits: int) -> int:
    """Return the type modifier, which for dates and times is the number of fractional digits."""
    short = type_facts(type_)[1]
    if digits >= 0 and short in FRACTIONAL_TYPES:
        return digits
    return type_modifier(type_)
