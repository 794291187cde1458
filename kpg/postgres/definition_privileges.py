"""Privilege checks of definitions, and of statements that read or write files on the server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, assert_never

from kpg.compiler.catalog.access_control import (
    owned_objects,
    policies,
    relation_key,
    require_column_privileges,
    require_owner,
    require_privileges,
    require_schema_privilege,
    require_schema_usage,
    schema_of,
    update_ownership,
)
from kpg.compiler.catalog.constraints import ForeignKey, descendant_tables
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.catalog.privileges import DATABASE, Key
from kpg.compiler.qualified_names import sibling_name
from kpg.compiler.sql.frontend import check_relation
from kpg.compiler.sql.parse import definitions
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.postgres.roles import resolve_role
from kpg.runtime.errors import PrivilegeError, Span
from kpg.session.engine import Engine

DefinitionStatement = ast.CreateTable | ast.CreateTableAs | ast.CreateView | ast.Drop | ddl.AnyDefinition
AlterStatement = ddl.Alter | ddl.AlterSequence | ddl.AlterFunction | ddl.AlterUserType | ddl.AlterDomain
COLUMN_ACTIONS: Final = (ddl.AddColumn, ddl.DropColumn, ddl.RenameColumn, ddl.AlterType)


def check_definition(catalog: Catalog, statement: DefinitionStatement) -> None:
    """Raise PrivilegeError unless the current user may run a definition."""
    if isinstance(statement, definitions.AnyRole):
        return  # these check their privileges themselves
    span = statement.span
    match statement:
        case ast.CreateTable() | ast.CreateTableAs() | ast.CreateView():
            _require_create(catalog, statement.name, span, temporary=statement.temporary)
            old = catalog.find(statement.name)
            if old is not None and statement.or_replace:
                require_owner(catalog, relation_key(old.name), span)
            if isinstance(statement, ast.CreateTable):
                _check_referenced_tables(catalog, statement)
        case ast.Drop():
            for name in statement.names:
                _require_relation_owner(catalog, name, span, dropping=True)
        case ddl.CreateSequence():
            _require_create(catalog, statement.name, span, temporary=statement.temporary)
        case ddl.CreateFunction():
            _require_create(catalog, statement.name, span)
            _require_overloads_owner(
                catalog, catalog.qualify_new_name(statement.name, span=span).lower(), span
            )
        case ddl.CreateType() | ddl.CreateEgoView():
            _require_create(catalog, statement.name, span)
        case ddl.CreateDomain():
            _require_create(catalog, statement.domain.name, span)
        case ddl.RenameSchema():
            if statement.name.lower() in catalog.schemas:
                require_owner(catalog, ("SCHEMA", statement.name.lower()), span)
            require_privileges(catalog, ("DATABASE", DATABASE), "C", span)
        case ddl.CreateSchema():
            require_privileges(catalog, ("DATABASE", DATABASE), "C", span)
        case ddl.CreateIndex():
            _require_relation_owner(catalog, statement.table, span)
            require_schema_privilege(catalog, catalog.table(statement.table, span).name, "C", span)
        case ddl.Truncate():
            for name in statement.tables:
                require_schema_usage(catalog, name, span)
                require_privileges(catalog, relation_key(catalog.table(name, span).name), "D", span)
        case ddl.DefinePolicy(verb="drop"):
            entry = catalog.find(statement.table)
            if entry is None or statement.name.lower() in _policy_names(catalog, entry.name):
                _require_relation_owner(catalog, statement.table, span)  # a missing policy is reported first
        case ddl.DefinePolicy():
            _require_relation_owner(catalog, statement.table, span)
        case ddl.Alter():
            _require_relation_owner(catalog, statement.name, span)
            for action in statement.actions:
                _check_action(catalog, statement.name, action, span)
        case ddl.Comment() | ddl.DropOther() | ddl.AlterSequence():
            _check_object_owner(catalog, statement)
        case ddl.AlterDomain() | ddl.AlterUserType():
            _require_type_owner(catalog, statement.name, span)
        case ddl.AlterFunction():
            _require_function_owner(catalog, statement.name, span)
            if statement.rename:
                name = _altered_object(catalog, statement)[1]
                require_schema_privilege(catalog, name, "C", span)
                _require_overloads_owner(catalog, sibling_name(name, statement.rename.lower()), span)
        case ddl.CreateAggregate():
            _require_create(catalog, statement.name, span)
        case ddl.DropFunction() | ddl.DropAggregate():
            for name, _ in statement.names:
                _require_function_owner(catalog, name, span)
        case ddl.CreateExtension() | ddl.DropExtension():
            if catalog.checks_privileges:
                verb = "create" if isinstance(statement, ddl.CreateExtension) else "drop"
                message = f'permission denied to {verb} extension "{statement.names[0]}"'
                raise PrivilegeError(message, span=span, hint="only a superuser may")
        case _:
            assert_never(statement)


def _check_action(catalog: Catalog, name: str, action: ddl.Action, span: Span) -> None:
    """Raise PrivilegeError unless the owner of a table may run an action that involves other objects."""
    if isinstance(action, ddl.RenameTo):
        target = catalog.find(name) or catalog.find_sequence(name)
        require_schema_privilege(catalog, name if target is None else target.name, "C", span)
    if isinstance(action, ddl.SetSchema):
        require_schema_privilege(catalog, f"{action.schema}.{name.rpartition('.')[2]}", "C", span)
    if isinstance(action, COLUMN_ACTIONS):
        _require_descendants_owner(catalog, name, span)
    if isinstance(action, ddl.AttachPartition):
        _require_relation_owner(catalog, action.child, span)
    constraints = action.constraints if isinstance(action, ddl.AddColumn) else ()
    for one in (action.constraint,) if isinstance(action, ddl.AddConstraint) else constraints:
        if isinstance(one, ForeignKey):
            _require_references(catalog, one, span)


def _require_descendants_owner(catalog: Catalog, name: str, span: Span) -> None:
    """Raise PrivilegeError unless the current user owns the partitions and child tables of a table."""
    entry = catalog.find(name)
    for descendant in () if entry is None else descendant_tables(catalog.partitions, entry.name):
        require_owner(catalog, relation_key(descendant), span)


def _policy_names(catalog: Catalog, table: str) -> set[str]:
    return {one.name.lower() for one in policies(catalog, table)}


def _require_create(catalog: Catalog, name: str, span: Span, *, temporary: bool = False) -> None:
    if temporary:
        if not catalog.privileges.has_privileges(catalog.asker.user, ("DATABASE", DATABASE), "T"):
            raise PrivilegeError(
                f'permission denied to create temporary tables in database "{DATABASE}"', span=span
            )
        return
    require_schema_privilege(catalog, catalog.qualify_new_name(name, span=span), "C", span)


def _check_referenced_tables(catalog: Catalog, statement: ast.CreateTable) -> None:
    if statement.partition is not None:
        _require_relation_owner(catalog, statement.partition.parent, statement.span)
    for key in statement.constraints.foreign_keys:
        _require_references(catalog, key, statement.span)
    for like in statement.likes:
        if like.relation in catalog:
            check_relation(catalog, like.relation)


def _require_references(catalog: Catalog, key: ForeignKey, span: Span) -> None:
    """Raise PrivilegeError unless a foreign key may reference its target columns."""
    target = catalog.find(key.target)
    if isinstance(target, TableEntry):
        names = [target.schema.names[place] for place in target.primary_key]
        require_column_privileges(catalog, target.name, "x", frozenset(key.target_columns or names), span)


def _require_type_owner(catalog: Catalog, name: str, span: Span) -> None:
    found = catalog.find_type(name)
    if found is not None:
        require_owner(catalog, ("TYPE", found.name.lower()), span)


def _require_function_owner(catalog: Catalog, name: str, span: Span) -> None:
    schema, _, plain = name.rpartition(".")
    for routine in catalog.find_routines(plain, schema)[:1]:
        require_owner(catalog, ("FUNCTION", routine.name.lower()), span)


def _require_overloads_owner(catalog: Catalog, name: str, span: Span) -> None:
    """Raise PrivilegeError unless the current user owns the existing functions of a name.

    Overloads have one owner, because SECURITY DEFINER uses the owner's privileges.
    """
    if name in catalog.routines:
        require_owner(catalog, ("FUNCTION", name), span)


def _require_relation_owner(catalog: Catalog, name: str, span: Span, *, dropping: bool = False) -> None:
    """Raise PrivilegeError unless the current user owns a relation or, to drop it, its schema."""

    require_schema_usage(catalog, name, span)
    entry = catalog.find(name)
    if entry is None:
        sequence = catalog.find_sequence(name)
        if sequence is not None:
            require_owner(catalog, ("SEQUENCE", sequence.name.lower()), span)
        index = catalog.find_index(name)
        if index is not None:
            require_owner(catalog, relation_key(index.table), span)
        return
    schema: Key = ("SCHEMA", schema_of(catalog, entry.name))
    if dropping and catalog.privileges.owns(catalog.asker.user, schema):
        return
    require_owner(catalog, relation_key(entry.name), span)


def _check_object_owner(catalog: Catalog, statement: ddl.Comment | ddl.DropOther | ddl.AlterSequence) -> None:
    span = statement.span
    kind = "SEQUENCE" if isinstance(statement, ddl.AlterSequence) else statement.kind
    names = statement.names if isinstance(statement, ddl.DropOther) else (statement.name,)
    for name in names:
        match kind:
            case "SEQUENCE" | "INDEX" | "TABLE" | "VIEW" | "MATERIALIZED VIEW" | "COLUMN" | "CONSTRAINT":
                _require_relation_owner(catalog, name, span)
            case "TYPE" | "DOMAIN":
                _require_type_owner(catalog, name, span)
            case "SCHEMA":
                if name.lower() in catalog.schemas:
                    require_owner(catalog, ("SCHEMA", name.lower()), span)
            case "FUNCTION":
                _require_function_owner(catalog, name, span)
            case _:
                require_owner(catalog, ("DATABASE", DATABASE), span)


def _altered_object(catalog: Catalog, statement: AlterStatement) -> Key:
    """Return the key of the altered object; its name as written if it does not exist."""
    name = statement.name
    if isinstance(statement, ddl.AlterFunction):
        schema, _, plain = name.rpartition(".")
        return ("FUNCTION", next((one.name.lower() for one in catalog.find_routines(plain, schema)), name))
    if isinstance(statement, ddl.AlterUserType | ddl.AlterDomain):
        return ("TYPE", getattr(catalog.find_type(name), "name", name).lower())
    entry = catalog.find(name) if isinstance(statement, ddl.Alter) else None
    if entry is not None:
        return relation_key(entry.name)
    sequence = catalog.find_sequence(name)
    return relation_key(name) if sequence is None else ("SEQUENCE", sequence.name.lower())


@contextmanager
def track_ownership(engine: Engine, statement: DefinitionStatement) -> Iterator[None]:
    """Check the privileges of a definition, and update the owners of objects after it."""
    catalog = engine.catalog
    if catalog.checks_privileges:
        check_definition(catalog, statement)
    if isinstance(statement, ddl.RenameSchema):
        yield  # RENAME moves owners and ACLs itself
        return
    before = frozenset(owned_objects(catalog))
    altered: Key | None = None
    if isinstance(statement, AlterStatement):
        altered = _altered_object(catalog, statement)
    yield
    owner = None
    if isinstance(statement, ddl.CreateSchema) and statement.owner:
        owner = resolve_role(engine, statement.owner, statement.span)
    update_ownership(engine.catalog, before, owner, altered=altered)
