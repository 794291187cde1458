"""Databases over a folder in memory, and all that can be read of a database, to be compared with another."""

from collections.abc import Callable, Mapping
from typing import Any

import kpg
from kpg.database import Database
from kpg.durable.opening import Wanted, open_files
from kpg.engine import Engine
from kpg.runtime.storage.files import Files


def opened(
    files: Files,
    synchronous: str = "full",
    *,
    read_only: bool = False,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    history: int | None = None,
) -> Database:
    """A database in a folder that need not be the disk's."""
    database = kpg.connect(history=history)
    engine: Engine = database._engine
    open_files(engine, files, Wanted(synchronous, read_only, functions))
    return database


def contents(database: Database) -> dict[str, Any]:
    """All that SQL shows: relations with their rows, columns, constraints, sequences, and the epoch."""
    found: dict[str, Any] = {"epoch": database.epoch}
    engine = database._engine
    for entry in engine.catalog:
        rows = [tuple(row) for row in database.query(f"select * from {quoted(entry.name)}").fetchall()]
        columns = [(one.name, str(one.type), one.nullable) for one in entry.schema.columns]
        facts = getattr(entry, "constraints", None), getattr(entry, "sql", None)
        found[entry.name] = (sorted(rows, key=repr), columns, *facts)
    found["kept"] = sorted(engine.views)
    for name in engine.views:
        database.verify(name)
    catalog = engine.catalog
    found["sequences"] = dict(catalog.sequences)
    numbers = engine.sequences.next
    found["numbers"] = {name: numbers[name] for name in sorted(numbers) if name in catalog.sequences}
    for what in ("schemas", "comments", "indexes", "types", "routines"):
        found[what] = dict(getattr(catalog, what))
    found["functions"] = sorted(catalog.functions)
    # Goals that were asked since are gone, and are made again when they are asked again.
    found["programs"] = sorted(name for name in engine.dataflows if "/goal " not in name)
    found["extras"] = dict(engine.extras)
    found["clock"] = engine.clock.given
    return found


def quoted(name: str) -> str:
    """A name with the schema before its dot."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))
