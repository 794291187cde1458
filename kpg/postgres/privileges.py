"""Privilege checks of definitions, and of statements that read or write files on the server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, assert_never

from kpg.compiler.catalog.access_control import (
    key_of,
    need,
    need_columns,
    need_named,
    need_owner,
    need_schema,
    policies,
    schema_of,
)
from kpg.compiler.catalog.constraints import ForeignKey, heirs
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import DATABASE, Key
from kpg.compiler.qualified_names import beside
from kpg.compiler.sql.frontend import check_relation
from kpg.compiler.sql.parse import definitions
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.postgres.grants import settle, things
from kpg.postgres.roles import known
from kpg.runtime.errors import PrivilegeError, Span
from kpg.session.engine import Engine

Defining = ast.CreateTable | ast.CreateTableAs | ast.CreateView | ast.Drop | ddl.AnyDefinition
Altered = ddl.Alter | ddl.AlterSequence | ddl.AlterFunction | ddl.AlterUserType | ddl.AlterDomain
COLUMNS: Final = (ddl.AddColumn, ddl.DropColumn, ddl.RenameColumn, ddl.AlterType)


def check_definition(catalog: Catalog, statement: Defining) -> None:
    """PrivilegeError unless who asks may run the statement."""
    if isinstance(statement, definitions.AnyRole):
        return  # they look themselves
    span = statement.span
    match statement:
        case ast.CreateTable() | ast.CreateTableAs() | ast.CreateView():
            _check_new(catalog, statement.name, span, temporary=statement.temporary)
            old = catalog.find(statement.name)
            if old is not None and statement.or_replace:
                need_owner(catalog, key_of(old.name), span)
            if isinstance(statement, ast.CreateTable):
                _check_references(catalog, statement)
        case ast.Drop():
            for name in statement.names:
                _need_relation(catalog, name, span, dropping=True)
        case ddl.CreateSequence():
            _check_new(catalog, statement.name, span, temporary=statement.temporary)
        case ddl.CreateFunction():
            _check_new(catalog, statement.name, span)
            _need_overloads(catalog, catalog.created(statement.name, span=span).lower(), span)
        case ddl.CreateType() | ddl.CreateEgoView():
            _check_new(catalog, statement.name, span)
        case ddl.CreateDomain():
            _check_new(catalog, statement.domain.name, span)
        case ddl.RenameSchema():
            if statement.name.lower() in catalog.schemas:
                need_owner(catalog, ("SCHEMA", statement.name.lower()), span)
            need(catalog, ("DATABASE", DATABASE), "C", span)
        case ddl.CreateSchema():
            need(catalog, ("DATABASE", DATABASE), "C", span)
        case ddl.CreateIndex():
            _need_relation(catalog, statement.table, span)
            need_schema(catalog, catalog.table(statement.table, span).name, "C", span)
        case ddl.Truncate():
            for name in statement.tables:
                need_named(catalog, name, span)
                need(catalog, key_of(catalog.table(name, span).name), "D", span)
        case ddl.DefinePolicy(verb="drop"):
            entry = catalog.find(statement.table)
            if entry is None or statement.name.lower() in _policies(catalog, entry.name):
                _need_relation(catalog, statement.table, span)  # which is looked for first
        case ddl.DefinePolicy():
            _need_relation(catalog, statement.table, span)
        case ddl.Alter():
            _need_relation(catalog, statement.name, span)
            for action in statement.actions:
                _check_action(catalog, statement.name, action, span)
        case ddl.Comment() | ddl.DropOther() | ddl.AlterSequence():
            _check_other(catalog, statement)
        case ddl.AlterDomain() | ddl.AlterUserType():
            _need_type(catalog, statement.name, span)
        case ddl.AlterFunction():
            _need_function(catalog, statement.name, span)
            if statement.rename:
                name = _altered(catalog, statement)[1]
                need_schema(catalog, name, "C", span)
                _need_overloads(catalog, beside(name, statement.rename.lower()), span)
        case ddl.CreateAggregate():
            _check_new(catalog, statement.name, span)
        case ddl.DropFunction() | ddl.DropAggregate():
            for name, _ in statement.names:
                _need_function(catalog, name, span)
        case _:
            assert_never(statement)


def _check_action(catalog: Catalog, name: str, action: ddl.Action, span: Span) -> None:
    """PrivilegeError unless the owner of a table may do something to it, as far as it is about others."""
    if isinstance(action, ddl.RenameTo):
        named = catalog.find(name) or catalog.find_sequence(name)
        need_schema(catalog, name if named is None else named.name, "C", span)
    if isinstance(action, ddl.SetSchema):
        need_schema(catalog, f"{action.schema}.{name.rpartition('.')[2]}", "C", span)
    if isinstance(action, COLUMNS):
        _need_heirs(catalog, name, span)
    if isinstance(action, ddl.Attach):
        _need_relation(catalog, action.child, span)
    added = action.constraints if isinstance(action, ddl.AddColumn) else ()
    for one in (action.constraint,) if isinstance(action, ddl.AddConstraint) else added:
        if isinstance(one, ForeignKey):
            _need_referred(catalog, one, span)


def _need_heirs(catalog: Catalog, name: str, span: Span) -> None:
    """PrivilegeError unless who asks owns the tables, too, whose columns change with those of one."""
    entry = catalog.find(name)
    for heir in () if entry is None else heirs(catalog.others, entry.name):
        need_owner(catalog, key_of(heir), span)


def _policies(catalog: Catalog, table: str) -> set[str]:
    return {one.name.lower() for one in policies(catalog, table)}


def _check_new(catalog: Catalog, name: str, span: Span, *, temporary: bool = False) -> None:
    if temporary:
        if not catalog.rights.has(catalog.asker.user, ("DATABASE", DATABASE), "T"):
            raise PrivilegeError(
                f'permission denied to create temporary tables in database "{DATABASE}"', span=span
            )
        return
    need_schema(catalog, catalog.created(name, span=span), "C", span)


def _check_references(catalog: Catalog, statement: ast.CreateTable) -> None:
    if statement.partition is not None:
        _need_relation(catalog, statement.partition.parent, statement.span)
    for key in statement.constraints.foreign_keys:
        _need_referred(catalog, key, statement.span)
    for like in statement.likes:
        if like.relation in catalog:
            check_relation(catalog, like.relation)


def _need_referred(catalog: Catalog, key: ForeignKey, span: Span) -> None:
    """PrivilegeError unless a foreign key may refer to its columns of another table."""
    target = catalog.find(key.target)
    if isinstance(target, TableEntry):
        names = [target.schema.names[place] for place in target.schema.primary_key or ()]
        need_columns(catalog, target.name, "x", frozenset(key.target_columns or names), span)


def _need_type(catalog: Catalog, name: str, span: Span) -> None:
    found = catalog.find_type(name)
    if found is not None:
        need_owner(catalog, ("TYPE", found.name.lower()), span)


def _need_function(catalog: Catalog, name: str, span: Span) -> None:
    schema, _, plain = name.rpartition(".")
    for routine in catalog.find_routines(plain, schema)[:1]:
        need_owner(catalog, ("FUNCTION", routine.name.lower()), span)


def _need_overloads(catalog: Catalog, name: str, span: Span) -> None:
    """PrivilegeError unless the functions of a name, as far as there are any, belong to who asks.

    All of them have one owner, whose rights SECURITY DEFINER gives: nobody puts another among somebody's.
    """
    if name in catalog.routines:
        need_owner(catalog, ("FUNCTION", name), span)


def _need_relation(catalog: Catalog, name: str, span: Span, *, dropping: bool = False) -> None:
    """PrivilegeError unless who asks owns a relation, or, to drop it, its schema."""

    need_named(catalog, name, span)
    entry = catalog.find(name)
    if entry is None:
        sequence = catalog.find_sequence(name)
        if sequence is not None:
            need_owner(catalog, ("SEQUENCE", sequence.name.lower()), span)
        index = catalog.find_index(name)
        if index is not None:
            need_owner(catalog, key_of(index.table), span)
        return
    schema: Key = ("SCHEMA", schema_of(catalog, entry.name))
    if dropping and catalog.rights.owns(catalog.asker.user, schema):
        return
    need_owner(catalog, key_of(entry.name), span)


def _check_other(catalog: Catalog, statement: ddl.Comment | ddl.DropOther | ddl.AlterSequence) -> None:
    span = statement.span
    kind = "SEQUENCE" if isinstance(statement, ddl.AlterSequence) else statement.kind
    names = statement.names if isinstance(statement, ddl.DropOther) else (statement.name,)
    for name in names:
        match kind:
            case "SEQUENCE" | "INDEX" | "TABLE" | "VIEW" | "MATERIALIZED VIEW" | "COLUMN" | "CONSTRAINT":
                _need_relation(catalog, name, span)
            case "TYPE" | "DOMAIN":
                _need_type(catalog, name, span)
            case "SCHEMA":
                if name.lower() in catalog.schemas:
                    need_owner(catalog, ("SCHEMA", name.lower()), span)
            case "FUNCTION":
                _need_function(catalog, name, span)
            case _:
                need_owner(catalog, ("DATABASE", DATABASE), span)


def _altered(catalog: Catalog, statement: Altered) -> Key:
    """What a statement is about, of its kind; as it is written if there is no such thing."""
    name = statement.name
    if isinstance(statement, ddl.AlterFunction):
        schema, _, plain = name.rpartition(".")
        return ("FUNCTION", next((one.name.lower() for one in catalog.find_routines(plain, schema)), name))
    if isinstance(statement, ddl.AlterUserType | ddl.AlterDomain):
        return ("TYPE", getattr(catalog.find_type(name), "name", name).lower())
    entry = catalog.find(name) if isinstance(statement, ddl.Alter) else None
    if entry is not None:
        return key_of(entry.name)
    sequence = catalog.find_sequence(name)
    return key_of(name) if sequence is None else ("SEQUENCE", sequence.name.lower())


@contextmanager
def settling(engine: Engine, statement: Defining) -> Iterator[None]:
    """See :func:`kpg.execute.statements.owning`."""
    catalog = engine.catalog
    if catalog.is_limited:
        check_definition(catalog, statement)
    if isinstance(statement, ddl.RenameSchema):
        yield  # which takes rights along
        return
    before = frozenset(things(catalog))
    altered: Key | None = None
    if isinstance(statement, Altered):
        altered = _altered(catalog, statement)
    yield
    owner = None
    if isinstance(statement, ddl.CreateSchema) and statement.owner:
        owner = known(engine, statement.owner, statement.span)
    settle(engine, before, owner, altered=altered)


def refuse_refresh(catalog: Catalog, name: str, span: Span) -> None:
    """PrivilegeError unless who asks owns a materialized view."""
    entry = catalog.get(name, span)
    if isinstance(entry, ViewEntry):
        need_owner(catalog, key_of(entry.name), span)
