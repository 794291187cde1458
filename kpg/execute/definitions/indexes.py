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
from kpg.compiler.catalog.entries import KEYS, PUBLIC, Catalog, Entry, TableEntry, ViewEntry, did_you_mean
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.column_expressions import bind_check
from kpg.execute.changes.expression_keys import ExpressionKey, unique_indexes
from kpg.execute.definitions.table_definition import free_name
from kpg.execute.queries.cursors import check_unused
from kpg.runtime.errors import Error, IntegrityError, NotSupportedError, ProgrammingError
from kpg.runtime.plan import Arrange, Linear, Mfp, Plan, Source
from kpg.runtime.scalar import Column, Fetch
from kpg.runtime.types import ROWID, ColumnDef, Schema
from kpg.session.engine import Engine
from kpg.session.notices import say_missing, say_present

if TYPE_CHECKING:
    from kpg.compiler.catalog.constraints import Partitioned


def create_index(engine: Engine, statement: ast.CreateIndex) -> None:
    """CREATE INDEX; an index over expressions, or of some rows, is known by its name only."""
    check_unused(engine, (statement.table,), "CREATE INDEX", statement.span)
    catalog = engine.catalog
    found = catalog.find(statement.table)
    kept = isinstance(found, ViewEntry) and (found.materialized or _is_being_kept(engine, found))
    entry: Entry = catalog.get(statement.table) if kept else catalog.table(statement.table, statement.span)
    columns = _columns_of(entry, statement)
    name = _name_of(engine, entry, statement, columns)
    if not name:
        return
    if isinstance(entry, ViewEntry):
        _check_unique(entry, statement, columns)
        catalog.indexes[name.lower()] = Index(name, entry.name, (), statement.what, statement.unique)
        return
    if statement.unique and statement.elements:
        plain = name.rpartition(".")[2]
        one = UniqueIndex(plain, statement.elements, statement.where, statement.nulls_distinct)
        add_unique_index(engine, entry, one)
        catalog.indexes[name.lower()] = Index(name, entry.name, (), statement.what)
        return
    if statement.unique:
        distinct, included = statement.nulls_distinct, statement.included
        key = Unique(name, columns, nulls_distinct=distinct, index=True, included=included)
        whole = catalog.others.get(("partitioned", entry.name.lower(), ""))
        if whole is not None:
            check_key(whole, columns)
        add_key(engine, entry, key)
        if whole is not None:
            _add_below(engine, entry.name)
        return
    index = Index(name, entry.name, columns, statement.what)
    catalog.indexes[name.lower()] = index
    keep(engine, index)


def _is_being_kept(engine: Engine, entry: ViewEntry) -> bool:
    """Whether the open transaction has made the view, and its commit will keep it up to date."""
    keeping = engine.views.keeping.get(entry.name)
    return keeping is not None and keeping.materialized


def _columns_of(entry: Entry, statement: ast.CreateIndex) -> tuple[str, ...]:
    """The columns of an index as the relation spells them."""
    known = {name.lower(): name for name in entry.schema.names}
    for column in statement.columns:
        if column.lower() not in known:
            message = f'column "{column}" of "{entry.name}" does not exist'
            hint = did_you_mean(column, entry.schema.names)
            raise ProgrammingError(message, span=statement.span.at(column), hint=hint)
    return tuple(known[column.lower()] for column in statement.columns)


def _name_of(engine: Engine, entry: Entry, statement: ast.CreateIndex, columns: tuple[str, ...]) -> str:
    """The name of a new index; empty if it is there already, and may be."""
    catalog = engine.catalog
    schema, _, plain = entry.name.rpartition(".")
    taken = names(catalog)
    name = statement.name or free_name("_".join((plain, *(columns or ("expr",)), "idx")), taken)
    name = f"{schema}.{name}" if schema and "." not in name else name
    if name.lower() in taken or name in catalog:
        if statement.if_not_exists:
            say_present(engine, name)
            return ""
        raise ProgrammingError(f'relation "{name}" already exists', span=statement.span)
    return name


def _check_unique(entry: ViewEntry, statement: ast.CreateIndex, columns: tuple[str, ...]) -> None:
    """NotSupportedError for a UNIQUE index of a view whose query does not say that its rows are unique so."""
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


def check_key(whole: "Partitioned", columns: tuple[str, ...]) -> None:
    """NotSupportedError for a key of a partitioned table that its partitions cannot keep each for itself."""
    known = {column.lower() for column in columns}
    for key in whole.keys:
        if key.lower().strip('"') not in known:
            error = NotSupportedError(
                "unique constraint on partitioned table must include all partitioning columns",
                hint=f'column "{key}" is part of the partition key',
            )
            raise error


def _add_below(engine: Engine, name: str) -> None:
    """Have the partitions of a table be unique in what it is unique in."""
    for key, heir in list(engine.catalog.others.items()):
        if key[0] == "inherits" and key[1] == name.lower():
            with_keys(engine, engine.catalog.table(name), engine.catalog.table(heir.child))
            _add_below(engine, heir.child)


def add_key(engine: Engine, entry: TableEntry, key: Unique) -> None:
    """Have a table be unique in some columns; IntegrityError if it is not."""
    places = tuple(entry.schema.names.index(column) for column in key.columns)
    engine.executor.add_unique(entry.name, key.name, places, nulls_distinct=key.nulls_distinct)
    engine.journal.note(undo=partial(engine.executor.drop_unique, entry.name, key.name))
    keys = (*entry.constraints.uniques, key)
    engine.catalog.replace(replace(entry, constraints=replace(entry.constraints, uniques=keys)))


def drop_key(engine: Engine, entry: TableEntry, key: Unique) -> None:
    """Let a table not be unique in some columns any more."""
    places = tuple(entry.schema.names.index(column) for column in key.columns)
    engine.executor.drop_unique(entry.name, key.name)
    add = partial(engine.executor.add_unique, entry.name, key.name, places, nulls_distinct=key.nulls_distinct)
    engine.journal.note(undo=add)
    keys = tuple(one for one in entry.constraints.uniques if one != key)
    engine.catalog.replace(replace(entry, constraints=replace(entry.constraints, uniques=keys)))


def names(catalog: Catalog) -> set[str]:
    """The names of all indexes, lower case."""
    keys = {
        key.name.lower()
        for entry in catalog
        if isinstance(entry, TableEntry)
        for key in entry.constraints.uniques
    }
    return keys | set(catalog.indexes)


def keep(engine: Engine, index: Index) -> None:
    """Install an index's arrangement, in a transaction once that is over."""
    if not index.columns:
        return
    engine.journal.note(done=partial(install_if_there, engine, index.name))


def install_if_there(engine: Engine, name: str) -> None:
    """Install an index that has not been dropped since."""
    index = engine.catalog.indexes.get(name.lower())
    if index is not None and index.columns:
        install(engine, index)


def install(engine: Engine, index: Index) -> None:
    """Install an index's arrangement."""
    entry = engine.catalog.table(index.table)
    plan = arrangement(entry.name, entry.schema, index.columns)
    engine.tables.keep_index(index.name, plan)


def arrangement(table: str, schema: Schema, columns: tuple[str, ...]) -> Plan:
    """The plan of a table's arrangement, as queries look it up."""
    rowid = Column(0, ROWID)
    places = tuple(schema.names.index(column) for column in columns)
    keys = tuple(Fetch(table, place, rowid, schema.types[place]) for place in places)
    nodes = (Source(table), Linear(0, Mfp((), (*keys, rowid))), Arrange(1, len(keys)))
    return Plan(nodes, 2)


def _drop_unique_index(engine: Engine, index: Index) -> None:
    key = ("unique index", index.table.lower(), index.name.rpartition(".")[2].lower())
    if key in engine.catalog.others:
        drop_unique_index(engine, engine.catalog.others[key])


def refuse_other_kind(engine: Engine, name: str, statement: ast.DropOther) -> None:
    """ProgrammingError if a name that DROP does not find is that of a relation of another kind."""
    if name in engine.catalog or engine.catalog.find_sequence(name) or engine.catalog.find_index(name):
        article = "an" if statement.kind == "INDEX" else "a"
        message = f'"{name}" is not {article} {statement.kind.lower()}'
        error = ProgrammingError(message, span=statement.span)
        error.sqlstate = "42809"
        raise error


def drop_index(engine: Engine, statement: ast.DropOther, name: str) -> None:
    """DROP INDEX."""
    catalog = engine.catalog
    index = catalog.find_index(name)
    if index is not None:
        _drop_unique_index(engine, index)
        del catalog.indexes[index.name.lower()]
        engine.journal.note(done=partial(engine.tables.forget_index, index.name))
        return
    schema, _, plain = name.rpartition(".")
    for entry in list(catalog):
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
            drop_key(engine, entry, key)
            return
    refuse_other_kind(engine, name, statement)
    if statement.if_exists:
        say_missing(engine, "index", name)
        return
    error = ProgrammingError(f'index "{name}" does not exist', span=statement.span)
    error.sqlstate = "42704"
    raise error


def add_unique_index(engine: Engine, entry: TableEntry, one: UniqueIndex) -> None:
    """Have a table keep a rule; IntegrityError if its rows do not."""
    kept = KEYS + f"{entry.name} {one.name}".replace(".", " ")
    one = replace(one, table=entry.name, kept=kept)
    made = ExpressionKey(engine.executor, entry, engine.catalog, one)
    if one.where:
        bind_check(entry, Check("", one.where), engine.catalog)
    columns = tuple(ColumnDef(f"k{place}", type_) for place, type_ in enumerate(made.types))
    names = tuple(column.name for column in columns)
    unique = Unique(one.name, names, nulls_distinct=one.nulls_distinct)
    engine.tables.create(kept, Schema(columns), Constraints(uniques=(unique,)))
    made.inserted(engine.executor.scan(entry.name))
    engine.catalog.others["unique index", entry.name.lower(), one.name.lower()] = one
    engine.tables.refresh_rules()


def drop_unique_index(engine: Engine, one: UniqueIndex) -> None:
    """Let a table break a rule."""
    engine.catalog.others.pop(("unique index", one.table.lower(), one.name.lower()), None)
    if one.kept in engine.catalog:
        engine.drop(one.kept)
    engine.tables.refresh_rules()


def empty_unique_indexes(engine: Engine, name: str) -> None:
    """Delete the keys of a table that has no rows any more."""
    for one in unique_indexes(engine.catalog, name):
        engine.executor.delete(one.kept, engine.executor.rowids(one.kept))


def rebuild_unique_indexes(engine: Engine, name: str) -> None:
    """Build the indexes of a table again, which may have other columns; one without a meaning is dropped."""
    for one in list(unique_indexes(engine.catalog, name)):
        drop_unique_index(engine, one)
        try:
            add_unique_index(engine, engine.catalog.table(name), one)
        except IntegrityError:
            raise
        except Error:
            continue


def with_keys(engine: Engine, parent: TableEntry, child: TableEntry) -> None:
    """Have a partition be unique in what the whole table is unique in."""

    known = {tuple(name.lower() for name in key.columns) for key in child.constraints.uniques}
    taken = [key.name for key in child.constraints.uniques]
    for key in parent.constraints.uniques:
        if tuple(name.lower() for name in key.columns) not in known:
            kind = "pkey" if key.primary else "key"
            plain = child.name.rpartition(".")[2]
            columns = () if key.primary else key.columns
            name = free_name("_".join((plain, *columns, kind)), taken)
            add_key(engine, engine.catalog.table(child.name), replace(key, name=name, primary=False))
