"""Foreign keys by positions: which columns refer to which, and the tables that have a target's rows."""

from kpg.compiler.catalog.constraints import ForeignKey, heirs
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.runtime.records import dataclass
from kpg.runtime.types import Schema


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key by positions: ``columns`` of the table that has it, ``target_columns`` of the other."""

    key: ForeignKey
    table: str
    schema: Schema
    columns: tuple[int, ...]
    target: str
    target_schema: Schema
    target_columns: tuple[int, ...]
    set_columns: tuple[int, ...]
    leaves: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Of a target that is partitioned: the tables that have its rows, and the columns there."""


def link_of(entry: TableEntry, key: ForeignKey, catalog: Catalog) -> Link:
    """A foreign key by positions."""
    target = catalog.table(key.target)
    leaves: tuple[str, ...] = ()
    if ("partitioned", target.name.lower(), "") in catalog.others:
        below = heirs(catalog.others, target.name)
        leaves = tuple(one for one in below if ("partitioned", one.lower(), "") not in catalog.others)
    return Link(
        key,
        entry.name,
        entry.schema,
        places(entry.schema, key.columns),
        target.name,
        target.schema,
        places(target.schema, key.target_columns),
        places(entry.schema, key.set_columns),
        tuple((leaf, places(catalog.table(leaf).schema, key.target_columns)) for leaf in leaves),
    )


def places(schema: Schema, names: tuple[str, ...]) -> tuple[int, ...]:
    """The positions of columns."""
    known = [name.lower() for name in schema.names]
    return tuple(known.index(name.lower()) for name in names)
