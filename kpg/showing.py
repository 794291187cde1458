"""SHOW TABLES and DESCRIBE."""

from kpg.compiler.catalog import KEYS, TableEntry
from kpg.engine import Engine
from kpg.result import Result, listing
from kpg.runtime.types import BIGINT, BOOLEAN, TEXT


def show_tables(engine: Engine) -> Result:
    """Every table and view: its name, what it is, and its rows if it has any of its own."""
    names, kinds = [], []
    rows: list[int | None] = []
    for entry in engine.catalog:
        if entry.name.startswith(KEYS):
            continue
        names.append(entry.name)
        if isinstance(entry, TableEntry):
            kinds.append("table")
            rows.append(engine.executor.count(entry.name))
        else:
            maintained = engine.views.get(entry.name)
            kinds.append("view" if maintained is None else "materialized view")
            rows.append(None if maintained is None else maintained.count())
    return listing({"name": (TEXT, names), "kind": (TEXT, kinds), "rows": (BIGINT, rows)})


def describe(engine: Engine, name: str) -> Result:
    """The columns of a relation."""
    schema = engine.catalog.get(name).schema
    return listing(
        {
            "column": (TEXT, list(schema.names)),
            "type": (TEXT, [str(type_) for type_ in schema.types]),
            "nullable": (BOOLEAN, [column.nullable for column in schema.columns]),
            "key": (BOOLEAN, [index in schema.primary_key for index in range(len(schema.columns))]),
        }
    )
