"""Names as Postgres writes them in definitions: in quotes, and with a schema, where they need them."""

import re
from typing import Final

from kpg.compiler.catalog import PUBLIC, Catalog, ViewEntry
from kpg.compiler.system.naming import SYSTEM_SCHEMAS, split

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
