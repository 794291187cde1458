"""Rows of the statistics of tables and indexes: how many there are, came, went; nobody counts who reads."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import Catalog, ViewEntry
from kpg.compiler.system.indexes import indexes
from kpg.compiler.system.kin import is_partitioned
from kpg.compiler.system.naming import number_of, split
from kpg.compiler.system.relations import Row, System, columns, entries

NOTHING: Final = (0, 0, 0)
"""Rows that came, were changed and went of what holds none itself."""


def _tables(catalog: Catalog) -> Iterator[Row]:
    """Tables, and views that are kept: Postgres counts the rows of both."""
    counts = {str(name): int(str(rows)) for name, rows in catalog.consulted.session("rows")}
    changes = {str(name): told for name, *told in catalog.consulted.session("changes")}
    for schema, name, entry in entries(catalog):
        if isinstance(entry, ViewEntry) and not entry.materialized:
            continue
        whole = is_partitioned(catalog, entry.name)
        rows, told = (0, NOTHING) if whole else (counts.get(entry.name, 0), changes.get(entry.name, NOTHING))
        yield number_of("relation", entry.name), schema, name, *(int(str(one)) for one in told), rows


def _indexes(catalog: Catalog) -> Iterator[Row]:
    for one in indexes(catalog):
        if not is_partitioned(catalog, one.entry.name):
            schema, table = split(catalog, one.entry.name)
            number = number_of("relation", one.entry.name)
            yield number, one.number, schema, table, split(catalog, one.name)[1]


TABLES: Final = System(
    columns("relid:o schemaname relname n_tup_ins:l n_tup_upd:l n_tup_del:l n_live_tup:l"), _tables
)
INDEXES: Final = System(columns("relid:o indexrelid:o schemaname relname indexrelname"), _indexes)
POSTGRES: Final = {
    "pg_stat_all_tables": TABLES,
    "pg_stat_user_tables": TABLES,
    "pg_stat_all_indexes": INDEXES,
    "pg_stat_user_indexes": INDEXES,
}
