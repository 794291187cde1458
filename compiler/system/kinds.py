"""The types that only catalogs have: what they are to kpg, and what Postgres calls them.

Each is a text, a number or an array whose type has a name; functions take it for what it is.
"""

from typing import Final

from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DOUBLE,
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
    "d": DOUBLE,
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
    "_float8": array(DOUBLE),
    "_name": array(NAME),
    "_pg_statistic": array(TEXT),
    "_regtype": array(_text("regtype")),
    **{
        name: _text(name)
        for name in ("regtype", "anyarray", "pg_ndistinct", "pg_dependencies", "pg_mcv_list")
    },
}
"""Types by the letters, or the names, that stand behind the names of columns in ``shapes.py``."""
