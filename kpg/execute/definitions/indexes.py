"""CREATE INDEX and DROP INDEX.

An index is an arrangement that stays installed without a view that uses it. A UNIQUE index is a key of the
table. Unique indexes over expressions and partial ones have hidden key tables (``expression_keys``).
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kpg.compiler.algebra.facts import unique_keys
from kpg.compiler.catalog.constraints import (
    Check,
    Constraints,
    Index,
    Partitioned,
    Unique,
    UniqueIndex,
)
from kpg.compiler.catalog.entries import (
    INDEXES,
    KEY_TABLE_PREFIX,
    PUBLIC,
    UNIQUE_INDEXES,
    Catalog,
    Entry,
    TableEntry,
    ViewEntry,
    did_you_mean,
)
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.column_expressions import bind_check, uses_column
from kpg.compiler.system.pg_index import created_index
from kpg.execute.changes.expression_keys import ExpressionKey, unique_indexes
from kpg.execute.definitions.table_definition import free_name
from kpg.execute.queries.cursors import check_unused
from kpg.runtime.errors import Error, IntegrityError, NotSupportedError, ProgrammingError
from kpg.runtime.plan import Arrange, Linear, Mfp, Plan, Source
from kpg.runtime.scalar import Column, Fetch
from kpg.runtime.types import ROWID, ColumnDef, Schema
from kpg.session.engine import Engine
from kpg.session.notices import notice_cascade, notice_existing, notice_missing

if TYPE_CHECKING:
    from kpg.compiler.catalog.constraints import Partitioned
    from kpg.execute.changes.foreign_keys import Link


def create_index(engine: Engine, statement: ast.CreateIndex) -> None:
    """Run CREATE INDEX. An index over expressions or with a predicate, if not UNIQUE, is only recorded."""
    check_unused(engine, (statement.table,), "CREATE INDEX", statement.span)
    catalog = engine.catalog
    found = catalog.find(statement.table)
    is_materialized = isinstance(found, ViewEntry) and (
        found.materialized or _is_created_materialized(engine, found)
    )
    entry: Entry = (
        catalog.get(statement.table) if is_materialized else catalog.table(statement.table, statement.span)
    )
    columns = _index_columns(entry, statement)
    name = _index_name(engine, entry, statement, columns)
    if not name:
        return
    if isinstance(entry, ViewEntry):
        _check_unique(entry, statement, columns)
        index = Index(name, entry.name, (), statement.what, statement.unique)
        catalog.apply(INDEXES.put(name.lower(), index))
        return
    if statement.unique and statement.elements:
        plain = name.rpartition(".")[2]
        unique_index = UniqueIndex(plain, statement.elements, statement.where, statement.nulls_distinct)
        add_unique_index(engine, entry, unique_index)
        catalog.apply(INDEXES.put(name.lower(), Index(name, entry.name, (), statement.what)))
        return
    if statement.unique:
        distinct, included = statement.nulls_distinct, statement.include_columns
        key = Unique(name, columns, nulls_distinct=distinct, index=True, included=included)
        partitioning = catalog.partitioned.get(entry.name.lower())
        if partitioning is not None:
            check_key(partitioning, columns)
        add_key(engine, entry, key)
        if partitioning is not None:
            _add_to_partitions(engine, entry.name)
        return
    index = Index(name, entry.name, columns, statement.what)
    catalog.apply(INDEXES.put(name.lower(), index))
    install_at_commit(engine, index)


def _is_created_materialized(engine: Engine, entry: ViewEntry) -> bool:
    """Whether the open transaction creates the view as a materialized one."""
    keeping = engine.views.pending.get(entry.name)
    return keeping is not None and keeping.materialized


def _index_columns(entry: Entry, statement: ast.CreateIndex) -> tuple[str, ...]:
    """Return the columns of an index as the relation spells them."""
    known = {name.lower(): name for name in entry.schema.names}
    for column in statement.columns:
        if column.lower() not in known:
            message = f'column "{column}" of "{entry.name}" does not exist'
            hint = did_you_mean(column, entry.schema.names)
            raise ProgrammingError(message, span=statement.span.at(column), hint=hint)
    return tuple(known[column.lower()] for column in statement.columns)


def _index_name(engine: Engine, entry: Entry, statement: ast.CreateIndex, columns: tuple[str, ...]) -> str:
    """Return the name of a new index; empty if it exists and IF NOT EXISTS is given."""
    catalog = engine.catalog
    schema, _, plain = entry.name.rpartition(".")
    used_names = index_names(catalog)
    name = statement.name or free_name("_".join((plain, *(columns or ("expr",)), "idx")), used_names)
    name = f"{schema}.{name}" if schema and "." not in name else name
    if name.lower() in used_names or name in catalog:
        if statement.if_not_exists:
            notice_existing(engine, name)
            return ""
        raise ProgrammingError(f'relation "{name}" already exists', span=statement.span)
    return name


def _check_unique(entry: ViewEntry, statement: ast.CreateIndex, columns: tuple[str, ...]) -> None:
    """Raise NotSupportedError for a UNIQUE index of a view whose query does not ensure uniqueness."""
    if not statement.unique:
        return
    places = {entry.schema.names.index(column) for column in columns}
    keys = entry.keys if entry.keys is not None else unique_keys(entry.rel) if entry.rel is not None else ()
    if not columns or statement.where or not any(places.issuperset(key) for key in keys):
        raise NotSupportedError(
            f'a UNIQUE index of "{entry.name}" over what its query does not make unique is not supported',
            span=statement.span,
            hint="make an index that is not UNIQUE, or group by its columns",
        )


def check_key(partitioning: "Partitioned", columns: tuple[str, ...]) -> None:
    """Raise NotSupportedError unless a key of a partitioned table includes its partition key."""
    known = {column.lower() for column in columns}
    for key in partitioning.keys:
        if key.lower().strip('"') not in known:
            error = NotSupportedError(
                "unique constraint on partitioned table must include all partitioning columns",
                hint=f'column "{key}" is part of the partition key',
            )
            raise error


def _add_to_partitions(engine: Engine, name: str) -> None:
    """Add a table's keys to its partitions."""
    for partition in engine.catalog.partitions.values():
        if partition.parent.lower() == name.lower():
            add_parent_keys(engine, engine.catalog.table(name), engine.catalog.table(partition.child))
            _add_to_partitions(engine, partition.child)


def add_key(engine: Engine, entry: TableEntry, key: Unique) -> None:
    """Add a unique key to a table; IntegrityError for duplicate rows."""
    places = tuple(entry.schema.names.index(column) for column in key.columns)
    engine.executor.tables.add_unique(entry.name, key.name, places, nulls_distinct=key.nulls_distinct)
    engine.journal.add(undo=partial(engine.executor.tables.drop_unique, entry.name, key.name))
    keys = (*entry.constraints.uniques, key)
    engine.catalog.replace(replace(entry, constraints=replace(entry.constraints, uniques=keys)))


def drop_key(engine: Engine, entry: TableEntry, key: Unique) -> None:
    """Drop a unique key of a table."""
    places = tuple(entry.schema.names.index(column) for column in key.columns)
    engine.executor.tables.drop_unique(entry.name, key.name)
    add = partial(
        engine.executor.tables.add_unique, entry.name, key.name, places, nulls_distinct=key.nulls_distinct
    )
    engine.journal.add(undo=add)
    keys = tuple(other_key for other_key in entry.constraints.uniques if other_key != key)
    engine.catalog.replace(replace(entry, constraints=replace(entry.constraints, uniques=keys)))


def index_names(catalog: Catalog) -> set[str]:
    """Return the names of all indexes, in lower case."""
    keys = {
        key.name.lower()
        for entry in catalog
        if isinstance(entry, TableEntry)
        for key in entry.constraints.uniques
    }
    return keys | set(catalog.indexes)


def install_at_commit(engine: Engine, index: Index) -> None:
    """Install an index's arrangement when the transaction commits."""
    if not index.columns:
        return
    engine.journal.add(finish=partial(install_if_exists, engine, index.name))


def install_if_exists(engine: Engine, name: str) -> None:
    """Install an index that has not been dropped in the meantime."""
    index = engine.catalog.indexes.get(name.lower())
    if index is not None and index.columns:
        install(engine, index)


def install(engine: Engine, index: Index) -> None:
    """Install an index's arrangement."""
    entry = engine.catalog.table(index.table)
    plan = arrangement_plan(entry.name, entry.schema, index.columns)
    engine.tables.install_index(index.name, plan)


def arrangement_plan(table: str, schema: Schema, columns: tuple[str, ...]) -> Plan:
    """Return the plan of a table's arrangement, equal to that of lookups in queries."""
    rowid = Column(0, ROWID)
    places = tuple(schema.names.index(column) for column in columns)
    keys = tuple(Fetch(table, place, rowid, schema.types[place]) for place in places)
    nodes = (Source(table), Linear(0, Mfp((), (*keys, rowid))), Arrange(1, len(keys)))
    return Plan(nodes, 2)


def drop_created_index(engine: Engine, index: Index) -> None:
    """Drop an index of CREATE INDEX."""
    key = (index.table.lower(), index.name.rpartition(".")[2].lower())
    if key in engine.catalog.unique_indexes:
        drop_unique_index(engine, engine.catalog.unique_indexes[key])
    engine.catalog.apply(INDEXES.remove(index.name.lower()))
    engine.journal.add(finish=partial(engine.tables.uninstall_index, index.name))


def index_uses_column(catalog: Catalog, index: Index, column: str) -> bool:
    """Return whether an index has a column, alone or in an expression or predicate."""
    facts = created_index(catalog, index, None)
    texts = (*(part.text for part in facts.parts), facts.where, *facts.included)
    return any(uses_column(text, column) for text in texts)


def check_not_other_kind(engine: Engine, name: str, statement: ast.DropOther) -> None:
    """Raise ProgrammingError if the name of a DROP is that of a relation of another kind."""
    if name in engine.catalog or engine.catalog.find_sequence(name) or engine.catalog.find_index(name):
        article = "an" if statement.kind == "INDEX" else "a"
        message = f'"{name}" is not {article} {statement.kind.lower()}'
        error = ProgrammingError(message, span=statement.span)
        error.sqlstate = "42809"
        raise error


def drop_index(engine: Engine, statement: ast.DropOther, name: str) -> None:
    """Run DROP INDEX."""
    catalog = engine.catalog
    index = catalog.find_index(name)
    if index is not None:
        drop_created_index(engine, index)
        return
    schema, _, plain = name.rpartition(".")
    for entry in catalog:
        elsewhere = schema and schema.lower() != (entry.name.rpartition(".")[0].lower() or PUBLIC)
        if not isinstance(entry, TableEntry) or elsewhere:
            continue
        for key in entry.constraints.uniques:
            if key.name.lower() != plain.lower():
                continue
            if not key.index:
                raise ProgrammingError(
                    f'index "{name}" cannot be dropped: it is a constraint of table {entry.name}',
                    span=statement.span,
                    hint=f"write ALTER TABLE {entry.name} DROP CONSTRAINT {key.name}",
                )
            _drop_references(engine, entry, key, statement)
            drop_key(engine, engine.catalog.table(entry.name), key)
            return
    check_not_other_kind(engine, name, statement)
    if statement.if_exists:
        notice_missing(engine, "index", name)
        return
    error = ProgrammingError(f'index "{name}" does not exist', span=statement.span)
    error.sqlstate = "42704"
    raise error


def key_references(engine: Engine, entry: TableEntry, key: Unique) -> "list[Link]":
    """Return the foreign keys that depend on a key of a table: its first key over their target columns."""
    columns = set(key.columns)
    if next(one for one in entry.constraints.uniques if set(one.columns) == columns) != key:
        return []
    links = engine.tables.foreign_keys.incoming(entry.name)
    return [link for link in links if set(link.key.target_columns) == columns]


def _drop_references(engine: Engine, entry: TableEntry, key: Unique, statement: ast.DropOther) -> None:
    """Drop the foreign keys that depend on a unique index with CASCADE; ProgrammingError without."""
    links = key_references(engine, entry, key)
    for link in links:
        if not statement.cascade:
            raise ProgrammingError(
                f'index "{key.name}" cannot be dropped: FOREIGN KEY {link.key.name} of table {link.table} '
                "refers to it",
                span=statement.span,
                hint="drop that first, or use CASCADE",
            )
        other = engine.catalog.table(link.table)
        table = engine.catalog.unqualified_name(link.table)
        notice_cascade(engine, [f"constraint {link.key.name} on table {table}"])
        kept = tuple(one for one in other.constraints.foreign_keys if one != link.key)
        engine.catalog.replace(replace(other, constraints=replace(other.constraints, foreign_keys=kept)))
    if links:
        engine.tables.refresh_constraints()


def add_unique_index(engine: Engine, entry: TableEntry, index: UniqueIndex) -> None:
    """Create a unique index over expressions or with a predicate; IntegrityError for duplicates."""
    key_table = KEY_TABLE_PREFIX + f"{entry.name} {index.name}".replace(".", " ")
    index = replace(index, table=entry.name, kept=key_table)
    key = ExpressionKey(engine.executor, entry, engine.catalog, index)
    if index.where:
        bind_check(entry, Check("", index.where), engine.catalog)
    columns = tuple(ColumnDef(f"k{place}", type_) for place, type_ in enumerate(key.types))
    names = tuple(column.name for column in columns)
    unique = Unique(index.name, names, nulls_distinct=index.nulls_distinct)
    engine.tables.create(key_table, Schema(columns), Constraints(uniques=(unique,)))
    key.insert_keys(engine.executor.tables.scan(entry.name))
    engine.catalog.apply(UNIQUE_INDEXES.put((entry.name.lower(), index.name.lower()), index))
    engine.tables.refresh_constraints()


def drop_unique_index(engine: Engine, index: UniqueIndex) -> None:
    """Drop a unique index over expressions or with a predicate."""
    engine.catalog.apply(UNIQUE_INDEXES.remove((index.table.lower(), index.name.lower())))
    if index.kept in engine.catalog:
        engine.drop(index.kept)
    engine.tables.refresh_constraints()


def empty_unique_indexes(engine: Engine, name: str) -> None:
    """Delete all keys of a table that has become empty."""
    for index in unique_indexes(engine.catalog, name):
        engine.executor.tables.delete(index.kept, engine.executor.tables.rowids(index.kept))


def rebuild_unique_indexes(engine: Engine, name: str) -> None:
    """Rebuild the indexes of a table with new columns; drop those that no longer bind."""
    for index in list(unique_indexes(engine.catalog, name)):
        drop_unique_index(engine, index)
        try:
            add_unique_index(engine, engine.catalog.table(name), index)
        except IntegrityError:
            raise
        except Error:
            continue


def add_parent_keys(engine: Engine, parent: TableEntry, child: TableEntry) -> None:
    """Add the unique keys of a partitioned table to a partition."""

    known = {tuple(name.lower() for name in key.columns) for key in child.constraints.uniques}
    taken = [key.name for key in child.constraints.uniques]
    for key in parent.constraints.uniques:
        if tuple(name.lower() for name in key.columns) not in known:
            kind = "pkey" if key.primary else "key"
            plain = child.name.rpartition(".")[2]
            columns = () if key.primary else key.columns
            name = free_name("_".join((plain, *columns, kind)), taken)
            add_key(engine, engine.catalog.table(child.name), replace(key, name=name, primary=False))
