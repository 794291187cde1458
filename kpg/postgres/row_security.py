"""Row-level security: CREATE, ALTER and DROP POLICY, and the check of written rows against policies."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.access_control import (
    PUBLIC_ROLE,
    has_row_security,
    policies_of_role,
    policy_conditions,
    relation_key,
    require_schema_privilege,
    row_security_of,
)
from kpg.compiler.catalog.entries import POLICIES, ROW_SECURITY, Catalog, TableEntry
from kpg.compiler.catalog.privileges import BOOTSTRAP_ROLE, OWNERS, Policy, Secured
from kpg.compiler.qualified_names import quote_name
from kpg.compiler.sql.bind.eager_subexpressions import rows_table_name
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.row_security import bind_policy, policy_role, policy_table, reads_target
from kpg.compiler.sql.bound_tree import Reads, RelationRead
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.rewrite.column_expressions import names_in_subquery, rename_column
from kpg.execute.changes.table_pipeline import Stage, Write
from kpg.execute.queries.query_plan import plan
from kpg.postgres.roles import resolve_role
from kpg.runtime.errors import Error, NotSupportedError, PrivilegeError, ProgrammingError, Span
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, remap
from kpg.runtime.types import Schema
from kpg.session.engine import Engine
from kpg.session.notices import notice_missing_relation, notice_skipped

Words = NDArray[np.int64]


def define_policy(engine: Engine, statement: ddl.DefinePolicy) -> None:
    """Run CREATE, ALTER or DROP POLICY."""
    catalog = engine.catalog
    entry = catalog.find(statement.table)
    if not isinstance(entry, TableEntry):
        if entry is None and statement.verb == "drop" and statement.if_exists:
            notice_missing_relation(engine, statement.table)
            return
        entry = catalog.table(statement.table, statement.span)
    key = (entry.name.lower(), statement.name.lower())
    old = catalog.policies.get(key)
    table_name = catalog.unqualified_name(entry.name)
    if statement.verb == "create":
        _check_duplicate(catalog, key, statement.name, statement)
        policy = Policy(
            statement.name,
            entry.name,
            statement.permissive,
            statement.command,
            _resolve_roles(engine, statement),
            statement.using,
            statement.check,
        )
    elif old is None:
        if statement.if_exists:
            notice_skipped(engine, f'policy "{statement.name}" for relation "{table_name}" does not exist')
            return
        message = f'policy "{statement.name}" for table "{table_name}" does not exist'
        raise ProgrammingError(message, span=statement.span, sqlstate="42704")
    else:
        policy = _alter_policy(engine, old, statement)
    check_no_dependent_views(engine, entry, statement.span)
    if statement.verb == "drop":
        catalog.apply(POLICIES.remove(key))
        return
    _check_conditions(catalog, entry, policy, statement.span)
    new = key
    if statement.verb == "rename":
        new = (key[0], statement.new_name.lower())
        _check_duplicate(catalog, new, statement.new_name, statement)
        catalog.apply(POLICIES.remove(key))
    catalog.apply(POLICIES.put(new, policy))


def _check_duplicate(catalog: Catalog, key: tuple[str, str], name: str, statement: ddl.DefinePolicy) -> None:
    """Raise ProgrammingError if a policy exists already."""
    if key in catalog.policies:
        table_name = catalog.unqualified_name(catalog.table(statement.table).name)
        message = f'policy "{name}" for table "{table_name}" already exists'
        raise ProgrammingError(message, span=statement.span, sqlstate="42710")


def _alter_policy(engine: Engine, old: Policy, statement: ddl.DefinePolicy) -> Policy:
    allowed_clause = {"SELECT": "USING", "DELETE": "USING", "INSERT": "WITH CHECK"}.get(old.command)
    invalid_text = statement.check if allowed_clause == "USING" else statement.using if allowed_clause else ""
    if invalid_text:
        of = "INSERT" if allowed_clause == "WITH CHECK" else "SELECT, DELETE"
        raise ProgrammingError(f"only {allowed_clause} expression allowed for {of}", span=statement.span)
    return replace(
        old,
        name=statement.new_name or old.name,
        roles=_resolve_roles(engine, statement) if statement.roles else old.roles,
        using=statement.using or old.using,
        check=statement.check or old.check,
    )


def _resolve_roles(engine: Engine, statement: ddl.DefinePolicy) -> tuple[str, ...]:
    return tuple(
        PUBLIC_ROLE if not one or one.lower() == PUBLIC_ROLE else resolve_role(engine, one, statement.span)
        for one in statement.roles
    )


def _check_conditions(catalog: Catalog, entry: TableEntry, policy: Policy, span: Span) -> None:
    """Raise an error if a condition of a policy is invalid for the table."""
    for text in (policy.using, policy.check):
        if text:
            binding = new_binding(span.source, catalog)
            columns = [Column(binding.new_id(), type_) for type_ in entry.schema.types]
            bind_policy(binding, entry, columns, text)
            for one in binding.reads.relations if binding.reads is not None else ():
                require_schema_privilege(catalog, one.entry.name, "U", span)


def remove_role_from_policies(catalog: Catalog, role: str) -> None:
    """Remove a role from all policies, and drop the policies for that role alone, as Postgres does."""
    for key, one in policies_of_role(catalog, role):
        roles = tuple(other for other in one.roles if other != role)
        catalog.apply(POLICIES.put(key, replace(one, roles=roles)) if roles else POLICIES.remove(key))


def alter_row_security(engine: Engine, entry: TableEntry, action: ddl.SetRowSecurity, span: Span) -> None:
    """Run ALTER TABLE ... ROW LEVEL SECURITY."""
    check_no_dependent_views(engine, entry, span)
    before = row_security_of(engine.catalog, entry.name)
    changed = Secured(
        entry.name,
        before.enabled if action.enabled is None else action.enabled,
        before.forced if action.forced is None else action.forced,
    )
    engine.catalog.apply(ROW_SECURITY.put(entry.name.lower(), changed))


def check_no_dependent_views(engine: Engine, entry: TableEntry, span: Span) -> None:
    """Raise NotSupportedError if a maintained view depends on the table's policies."""
    privileges = engine.catalog.privileges
    for name in engine.views.users(entry.name):
        owner = privileges.owner(relation_key(name))
        if privileges.is_superuser(owner) or privileges.owns(owner, relation_key(entry.name)):
            continue
        view = next((one for one in (name, *engine.views.users(name)) if one in engine.views), None)
        if view is not None:
            message = f'policies of table "{entry.name}" cannot change while view {view} reads it'
            raise NotSupportedError(message, span=span, hint="drop the view first, and create it again")


def policies_reading(catalog: Catalog, relations: Collection[str], column: str = "") -> list[Policy]:
    """Return the policies whose conditions read one of the relations, or this column of one."""
    return [
        policy
        for policy in catalog.policies.values()
        if any(
            one.entry.name in relations and (not column or column in one.column_names)
            for one in _policy_reads(catalog, policy)
        )
    ]


def _policy_reads(catalog: Catalog, policy: Policy) -> Iterator[RelationRead]:
    """Yield the relations that a policy's conditions read, with their columns."""
    superuser_catalog = catalog.copy()
    superuser_catalog.asker = replace(catalog.asker, user=BOOTSTRAP_ROLE)
    entry = catalog.table(policy.table)
    for text in filter(None, (policy.using, policy.check)):
        binding = new_binding(text, superuser_catalog)
        binding.reads = Reads()
        columns = [Column(binding.new_id(), type_) for type_ in entry.schema.types]
        binding.reads.add_relation(entry, columns)
        with suppress(Error):  # a function that it calls was dropped
            bind_policy(binding, entry, columns, text)
        yield from binding.reads.walk()


def rename_column_in_policies(catalog: Catalog, table: str, old: str, new: str, span: Span) -> None:
    """Rename a column of a table in policies; NotSupportedError if one reads it in a subquery."""
    for policy in policies_reading(catalog, (table,), old):
        texts = (policy.using, policy.check)
        if policy.table != table or any(names_in_subquery(text, old) for text in texts if text):
            message = f'renaming column "{old}" is not supported while policy "{policy.name}" of table '
            message += f'"{policy.table}" reads it in a subquery'
            raise NotSupportedError(message, span=span, hint="drop the policy first, and create it again")
        using, check = (rename_column(text, old, new) for text in texts)
        key = (policy.table.lower(), policy.name.lower())
        catalog.apply(POLICIES.put(key, replace(policy, using=using, check=check)))


def check_new_rows(write: Write, words: Words) -> Words:
    """Return new rows; PrivilegeError if one violates a policy. Loads and referential actions need none."""
    engine, statement = write.engine, write.statement
    if statement is None or not words.shape[1]:
        return words
    entry = engine.catalog.table(statement.table, statement.span)
    user, protected_table = policy_role(engine.catalog, statement), policy_table(engine.catalog, entry)
    if not has_row_security(engine.catalog, protected_table, user):
        return words
    if isinstance(statement, ast.Insert) and statement.is_row_movement:
        return words  # they were checked as rows of an UPDATE
    catalog = engine.reading_catalog
    conditions = policy_conditions(catalog, protected_table, write.command, user, for_new_rows=True)
    merges_new_row = isinstance(statement, ast.Merge) and write.command == "INSERT"
    if reads_target(statement) and not merges_new_row:
        conditions += policy_conditions(catalog, protected_table, "SELECT", user)
    for demand in conditions:
        if not _rows_satisfy(engine, entry, user, demand.condition, words):
            policy = f' "{demand.policy}"' if demand.policy else ""
            raise _violation_error(catalog, protected_table, f"policy{policy}", statement.span)
    return words


def check_existing_rows(write: Write, rowids: Words, command: str) -> None:
    """Raise PrivilegeError if a policy does not allow the current user to change an existing row."""
    engine, statement = write.engine, write.statement
    if statement is None or not rowids.size:
        return
    entry = engine.catalog.table(statement.table, statement.span)
    user, protected_table = policy_role(engine.catalog, statement), policy_table(engine.catalog, entry)
    if not has_row_security(engine.catalog, protected_table, user):
        return
    words = write.table.fetch(rowids)
    for one in (command, "SELECT"):
        for demand in policy_conditions(engine.catalog, protected_table, one, user):
            if not _rows_satisfy(engine, entry, user, demand.condition, words):
                raise _violation_error(
                    engine.catalog, protected_table, "policy (USING expression)", statement.span
                )


ROW_POLICIES: Final = Stage("row policies", check_new_rows, check_existing_rows)
"""The stage of databases with row-level security."""


def _violation_error(catalog: Catalog, table: str, policy: str, span: Span) -> PrivilegeError:
    name = catalog.unqualified_name(table)
    return PrivilegeError(f'new row violates row-level security {policy} for table "{name}"', span=span)


def _rows_satisfy(engine: Engine, entry: TableEntry, user: str, text: str, words: Words) -> bool:
    catalog = engine.reading_catalog
    if user != catalog.asker.user:
        catalog = catalog.copy()
        catalog.asker = catalog.asker.with_privileges_of(user)
    binding = new_binding(text, catalog)
    columns = [Column(binding.new_id(), type_) for type_ in entry.schema.types]
    protected_table = policy_table(engine.catalog, entry)
    scalars = bind_policy(binding, entry, columns, text, protected_table)
    if not binding.subqueries and not binding.shared:
        places = {column.index: place for place, column in enumerate(columns)}
        scalars_of_rows = tuple(remap(one, places.__getitem__) for one in scalars)
        results, _ = engine.executor.evaluate(Mfp((), scalars_of_rows), np.ascontiguousarray(words))
        return bool((results == 1).all())
    return _rows_satisfy_query(engine, user, entry, protected_table, text, words)


def _rows_satisfy_query(
    engine: Engine, user: str, entry: TableEntry, protected_table: str, text: str, words: Words
) -> bool:
    """Evaluate a condition with subqueries by a query over the rows as a temporary table."""
    schema = Schema(tuple(replace(column, nullable=True) for column in entry.schema.columns))
    table_name = engine.tables.attach(rows_table_name("written"), schema)
    try:
        engine.table(table_name).insert(np.ascontiguousarray(words))
        name, alias = (
            quote_name(one) for one in (table_name, engine.catalog.unqualified_name(protected_table))
        )
        query = parse_query(f"SELECT 1 FROM {name} AS {alias} WHERE ({text}) IS NOT TRUE LIMIT 1")
        engine.catalog.apply(OWNERS.put(relation_key(table_name), user))
        catalog = engine.reading_catalog.copy()
        catalog.asker = (
            catalog.asker if user == catalog.asker.user else catalog.asker.with_privileges_of(user)
        )
        rows, _ = engine.run(plan(query, catalog, engine.statistics))
        return not rows.shape[1]
    finally:
        engine.drop_attached()
