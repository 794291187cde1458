"""Rows of ``information_schema`` and ``pg_catalog``, for each relation that there is."""

from collections.abc import Callable, Iterator
from typing import Final, assert_never

from kpg.compiler.catalog import KEYS, Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.constraints import Check, Domain, ForeignKey, Unique
from kpg.compiler.security import security_of
from kpg.compiler.system.naming import (
    DATABASE,
    number_of,
    role_number,
    schema_number,
    schemas,
    split,
)
from kpg.compiler.system.stored import domain_at
from kpg.compiler.system.words import query_of
from kpg.compiler.triggers import Heir
from kpg.compiler.views import written_columns
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, OID, TEXT, Type

Value = int | str | None
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class System:
    """One relation: its columns and what makes its rows."""

    columns: tuple[tuple[str, Type], ...]
    rows: Callable[[Catalog], Iterator[Row]]
    steady: bool = True
    """Whether its rows are of the catalog alone, and of what the session tells when it is asked."""


def columns(text: str) -> tuple[tuple[str, Type], ...]:
    """Columns by name: text, or what follows the colon of the name."""
    kinds = {"i": INTEGER, "b": BOOLEAN, "o": OID, "l": BIGINT}
    parts = (word.partition(":") for word in text.split())
    return tuple((name, kinds.get(kind, TEXT)) for name, _, kind in parts)


def yes(value: object) -> str:
    """YES or NO."""
    return "YES" if value else "NO"


def _owner(catalog: Catalog, entry: Entry) -> str:
    return catalog.rights.owner(("RELATION", entry.name.lower()))


def entries(catalog: Catalog) -> Iterator[tuple[str, str, Entry]]:
    """Schema, name and entry of every table and view."""
    for entry in catalog:
        if entry.name.startswith(KEYS):
            continue
        yield *split(catalog, entry.name), entry


def _schemata(catalog: Catalog) -> Iterator[Row]:
    for name in schemas(catalog):
        yield DATABASE, name, catalog.rights.owner(("SCHEMA", name))


def allowed(catalog: Catalog) -> Iterator[tuple[str, str, Entry]]:
    """As :func:`entries`, of what ``information_schema`` shows to who asks."""
    from kpg.compiler.system.ownership import visible

    for schema, name, entry in entries(catalog):
        others = schema.startswith("pg_temp") and schema != catalog.temporary
        if not others and visible(catalog, ("RELATION", entry.name.lower())):
            yield schema, name, entry


def _tables(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in allowed(catalog):
        temporary = schema.startswith("pg_temp")
        kind = "LOCAL TEMPORARY" if temporary else "BASE TABLE"
        if isinstance(entry, ViewEntry):
            if entry.materialized:
                continue
            kind = "VIEW"
        gone = "PRESERVE" if temporary else None
        yield DATABASE, schema, name, kind, yes(written_names(catalog, entry)), "NO", gone


def _views(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in allowed(catalog):
        if isinstance(entry, ViewEntry) and not entry.materialized:
            written, check = yes(written_names(catalog, entry)), "CASCADED" if entry.checked else "NONE"
            owned = catalog.rights.owns(catalog.asker.user, ("RELATION", entry.name.lower()))
            text = f" {query_of(catalog, entry)};" if owned else None
            yield DATABASE, schema, name, text, check, written, written, "NO", "NO", "NO"


def written_names(catalog: Catalog, entry: Entry) -> frozenset[str]:
    """The columns that INSERT and UPDATE may name."""
    if isinstance(entry, TableEntry):
        return frozenset(entry.schema.names)
    return written_columns(catalog, entry)


def constraints(catalog: Catalog) -> Iterator[tuple[str, TableEntry, Check | Unique | ForeignKey]]:
    """Schema, table and constraint, for each one that is no index only."""
    for schema, _, entry in entries(catalog):
        if isinstance(entry, TableEntry):
            hidden = bounds_of(catalog, entry.name)
            for one in entry.constraints:
                if isinstance(one, Unique) and one.index:
                    continue
                if isinstance(one, Check) and (one.name.lower() in hidden or _of_domain(catalog, entry, one)):
                    continue
                yield schema, entry, one


def bounds_of(catalog: Catalog, name: str) -> frozenset[str]:
    """The names of the CHECKs by which a partition, or one that it is within, refuses rows of others."""
    lower = name.lower()
    for one in catalog.others.values():
        if isinstance(one, Heir) and one.child.lower() == lower:
            return bounds_of(catalog, one.parent) | {f"{lower.rpartition('.')[2]}_partition"}
    return frozenset()


def _of_domain(catalog: Catalog, entry: TableEntry, check: Check) -> bool:
    """Whether a CHECK is what the domain of a column asks for."""
    names = [name.lower() for name in entry.schema.names]
    if check.column.lower() not in names:
        return False
    domain = catalog.types.get(entry.constraints.rule(names.index(check.column.lower())).domain.lower())
    if not isinstance(domain, Domain):
        return False
    quoted = '"' + check.column.replace('"', '""') + '"'
    plain = check.text.replace(quoted, "value").lower()
    return any(one.text.lower() == plain for one in domain.checks)


def _kind(one: Check | Unique | ForeignKey) -> str:
    match one:
        case Check():
            return "CHECK"
        case Unique():
            return "PRIMARY KEY" if one.is_primary else "UNIQUE"
        case ForeignKey():
            return "FOREIGN KEY"
        case _:
            assert_never(one)


def _table_constraints(catalog: Catalog) -> Iterator[Row]:
    for schema, table, one in constraints(catalog):
        name = split(catalog, table.name)[1]
        deferrable = isinstance(one, ForeignKey) and one.deferrable
        deferred = isinstance(one, ForeignKey) and one.deferred
        row = (DATABASE, schema, one.name, DATABASE, schema, name)
        apart = yes(one.nulls_distinct) if isinstance(one, Unique) and not one.is_primary else None
        yield *row, _kind(one), yes(deferrable), yes(deferred), "YES", apart
    for schema, name, label, _ in required(catalog):
        yield DATABASE, schema, label, DATABASE, schema, name, "CHECK", "NO", "NO", "YES", None


def required(catalog: Catalog) -> Iterator[tuple[str, str, str, str]]:
    """Schema, table, what Postgres calls the constraint, and the column, of each that is NOT NULL."""
    for schema, name, entry in entries(catalog):
        if isinstance(entry, TableEntry):
            numbers = f"{schema_number(schema)}_{number_of('relation', entry.name)}"
            for place, column in enumerate(entry.schema.columns):
                domain = domain_at(catalog, entry, place)
                if not column.nullable and not (domain is not None and domain.required):
                    yield schema, name, f"{numbers}_{place + 1}_not_null", column.name


def place_of_key(catalog: Catalog, key: ForeignKey, place: int) -> int | None:
    """The place, in the key that a foreign key refers to, of what its column refers to."""
    target = catalog.table(key.target)
    for unique in target.constraints.uniques:
        if set(unique.columns) == set(key.target_columns):
            return unique.columns.index(key.target_columns[place]) + 1
    return None


def _referential(catalog: Catalog) -> Iterator[Row]:
    for schema, _, one in constraints(catalog):
        if isinstance(one, ForeignKey):
            target = catalog.table(one.target)
            names = (
                key.name for key in target.constraints.uniques if set(key.columns) == set(one.target_columns)
            )
            where = split(catalog, target.name)[0]
            match = "NONE" if one.match == "SIMPLE" else one.match
            yield (
                DATABASE,
                schema,
                one.name,
                DATABASE,
                where,
                next(names, None),
                match,
                one.on_update,
                one.on_delete,
            )


def _sequences(catalog: Catalog) -> Iterator[Row]:
    identities = {
        rule.sequence
        for entry in catalog
        if isinstance(entry, TableEntry)
        for rule in entry.constraints.rules
        if rule.identity
    }
    for one in catalog.sequences.values():
        if one.name in identities:
            continue
        schema, name = split(catalog, one.name)
        bounds = (str(one.start), str(one.least), str(one.most), str(one.increment))
        bits = {"smallint": 16, "integer": 32}.get(one.type, 64)
        yield DATABASE, schema, name, one.type, bits, 2, 0, *bounds, yes(one.cycle)


def database(_catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_database."""
    yield 1, DATABASE, 10, 6, "C"


def namespaces(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_namespace."""
    for name in schemas(catalog):
        key = ("SCHEMA", name)
        items = catalog.rights.lists.get(key)
        acl = None if items is None else "{" + ",".join(map(str, items)) + "}"
        if items is None and name == "public":  # everybody may look into it
            owner = catalog.rights.owner(key)
            acl = "{" + f"{owner}=UC/{owner},=U/{owner}" + "}"
        yield schema_number(name), name, role_number(catalog.rights.owner(key)), acl


def pg_tables(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_tables."""
    for schema, name, entry in entries(catalog):
        if isinstance(entry, TableEntry):
            indexed = bool(entry.constraints.uniques) or any(
                index.table == entry.name for index in catalog.indexes.values()
            )
            secured = int(security_of(catalog, entry.name).enabled)
            yield schema, name, _owner(catalog, entry), None, int(indexed), 0, 0, secured


def pg_views(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_views."""
    for schema, name, entry in entries(catalog):
        if isinstance(entry, ViewEntry) and not entry.materialized:
            text = query_of(catalog, entry)
            yield schema, name, _owner(catalog, entry), f" {text};"


def pg_matviews(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_matviews."""
    for schema, name, entry in entries(catalog):
        if isinstance(entry, ViewEntry) and entry.materialized:
            text = query_of(catalog, entry)
            yield schema, name, _owner(catalog, entry), 1, f" {text};"


def pg_sequences(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_sequences."""
    for one in catalog.sequences.values():
        schema, name = split(catalog, one.name)
        owner = catalog.rights.owner(("SEQUENCE", one.name.lower()))
        numbers = catalog.numbers()
        coming = numbers.get(one.name, one.start)
        fresh = coming == one.start or one.name in getattr(numbers, "fresh", ())
        last = None if fresh else coming - one.increment
        bounds = one.start, one.least, one.most, one.increment
        yield (schema, name, owner, one.type, *bounds, int(one.cycle), 1, last)


def nothing(_catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_nothing."""
    yield from ()


INFORMATION: Final = {
    "schemata": System(columns("catalog_name schema_name schema_owner"), _schemata),
    "tables": System(
        columns("table_catalog table_schema table_name table_type is_insertable_into is_typed commit_action"),
        _tables,
    ),
    "views": System(
        columns(
            "table_catalog table_schema table_name view_definition check_option is_updatable "
            "is_insertable_into is_trigger_updatable is_trigger_deletable is_trigger_insertable_into"
        ),
        _views,
    ),
    "table_constraints": System(
        columns(
            "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name "
            "constraint_type is_deferrable initially_deferred enforced nulls_distinct"
        ),
        _table_constraints,
    ),
    "referential_constraints": System(
        columns(
            "constraint_catalog constraint_schema constraint_name unique_constraint_catalog "
            "unique_constraint_schema unique_constraint_name match_option update_rule delete_rule"
        ),
        _referential,
    ),
    "sequences": System(
        columns(
            "sequence_catalog sequence_schema sequence_name data_type numeric_precision:i "
            "numeric_precision_radix:i numeric_scale:i start_value minimum_value maximum_value increment "
            "cycle_option"
        ),
        _sequences,
    ),
}
