"""Row-level security: policies as filters over the tables that a statement reads or changes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import assert_never

from sqlglot import exp

from kpg.compiler.algebra.rel import Get
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.access_control import (
    has_enabled_row_security,
    has_row_security,
    row_security_of,
    view_role,
)
from kpg.compiler.catalog.access_control import policy_conditions as demands_of
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.sql.bind.eager_subexpressions import calls_settings, substitute_settings
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query_output import default_query_to_text
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bound_tree import Filter, Node, Query
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.reader import parse_expression, parse_query_tree
from kpg.runtime.errors import NotSupportedError, PrivilegeError, ProgrammingError
from kpg.runtime.scalar import Column, Scalar


def filter_relation(
    binding: Binding, entry: Entry, node: Node, columns: tuple[Column, ...], alias: str
) -> tuple[Node, tuple[Column, ...]]:
    """Apply row security policies to a relation in FROM.

    A table has its own policies. A view has those of the tables below it.
    """
    if binding.skips_policies:
        return node, columns
    if isinstance(entry, TableEntry):
        return filter_table(
            binding, entry, node, columns, policy_commands(binding, alias), binding.policy_role
        ), columns
    catalog = binding.catalog
    if entry.materialized or not entry.sql or entry.of_system or not has_enabled_row_security(catalog):
        return node, columns
    rel = entry.rel
    if rel is None or not any(
        row_security_of(catalog, one.name).enabled for one in walk(rel) if isinstance(one, Get)
    ):
        return node, columns
    if entry.is_derived:
        check_no_policies(catalog, entry)  # policies do not apply inside Datalog rules
        return node, columns
    # Bind the view's text here: policies depend on the current state and on the current user.
    query = _bind_view(binding, entry)
    return query.node, query.columns[: len(entry.schema.columns)]


def policy_commands(binding: Binding, alias: str) -> tuple[str, ...]:
    """Return the commands whose policies apply to a relation in FROM; locking rows needs UPDATE too."""
    return ("SELECT", "UPDATE") if binding.is_locked(alias) else ("SELECT",)


def _bind_view(binding: Binding, entry: ViewEntry) -> Query:
    tree = parse_query_tree(entry.text).copy()
    before = binding.policy_role, binding.reads
    binding.policy_role, binding.reads = view_role(binding.catalog, entry), None
    try:
        return default_query_to_text(binding.query(Scope(), tree))
    finally:
        binding.policy_role, binding.reads = before


def filter_table(
    binding: Binding,
    entry: TableEntry,
    node: Node,
    columns: Sequence[Column],
    commands: Sequence[str] = ("SELECT",),
    user: str | None = None,
    table: str = "",
) -> Node:
    """Filter the rows of a table by the policies of all the commands for ``user``.

    ``user`` defaults to the current user. For a partition, ``table`` has the policies.
    """
    catalog, table = binding.catalog, table or entry.name
    user = catalog.asker.user if user is None else user
    if not has_row_security(catalog, table, user):
        return node
    if catalog.settings.get("row_security", "on").lower() in ("off", "false", "0", "no"):
        raise row_security_error(catalog, table)
    for command in commands:
        for demand in demands_of(catalog, table, command, user):
            node = Filter(node, bind_policy(binding, entry, columns, demand.condition, table))
    return node


def policy_table(catalog: Catalog, entry: TableEntry) -> str:
    """Return the table whose policies apply to a changed table: the one that the statement names."""
    return catalog.changed_partitions.get(entry.name.lower(), entry.name)


def filter_changeable(
    binding: Binding,
    statement: ast.Delete | ast.Update | ast.Merge,
    entry: TableEntry,
    scan: Node,
    columns: Sequence[Column],
) -> Node:
    """Filter the rows of a table by the policies for the statement that changes it."""
    match statement:
        case ast.Merge():
            commands: tuple[str, ...] = ("SELECT",)
        case ast.Delete():
            commands = ("DELETE", "SELECT") if reads_target(statement) else ("DELETE",)
        case ast.Update():
            commands = ("UPDATE", "SELECT") if reads_target(statement) else ("UPDATE",)
        case _:
            assert_never(statement)
    user = policy_role(binding.catalog, statement)
    return filter_table(binding, entry, scan, columns, commands, user, policy_table(binding.catalog, entry))


def reads_target(statement: ast.Change) -> bool:
    """Return whether a statement needs the SELECT privilege on the table that it changes."""
    match statement:
        case ast.Insert():
            conflict = statement.conflict
            named = conflict is not None and bool(
                conflict.columns or conflict.elements or conflict.constraint
            )
            return named or bool(statement.returning)
        case ast.Merge():
            return True
        case ast.Delete():
            return bool(statement.where is not None or statement.returning or statement.using)
        case ast.Update():
            named = any(value.find(exp.Column) for _, value in statement.assignments)
            return bool(statement.where is not None or statement.returning or statement.sources or named)
        case _:
            assert_never(statement)


def policy_role(catalog: Catalog, statement: ast.Change) -> str:
    """Return the role whose policies apply to a statement's table.

    It is the current user, or the owner of the lowest updatable view above the table.
    """
    if isinstance(statement, ast.Merge) or statement.updatable_view is None:
        return catalog.asker.user
    name = statement.updatable_view.view
    while (below := getattr(catalog.entries.get(name.lower()), "below", "")) not in (
        "",
        statement.updatable_view.entry.name,
    ):
        name = below
    view = catalog.entries.get(name.lower())
    return view_role(catalog, view) if isinstance(view, ViewEntry) else catalog.asker.user


def check_no_policies(catalog: Catalog, entry: Entry) -> None:
    """Raise PrivilegeError if policies hide rows of a relation, or of one below a view, from the user."""
    if isinstance(entry, TableEntry):
        if has_row_security(catalog, entry.name, catalog.asker.user):
            raise row_security_error(catalog, entry.name)
    elif not entry.materialized and has_enabled_row_security(catalog):
        user = view_role(catalog, entry)
        for one in relations_read(catalog, entry):
            if isinstance(one, ViewEntry):
                check_no_policies(catalog, one)
            elif has_row_security(catalog, one.name, user):
                raise row_security_error(catalog, one.name)


def relations_read(catalog: Catalog, view: ViewEntry) -> list[Entry]:
    """Return the relations that a view's plan reads."""
    names = {one.name for one in walk(view.rel) if isinstance(one, Get)} if view.rel is not None else set()
    found = (catalog.entries.get(name.lower()) for name in sorted(names))
    return [one for one in found if one is not None and one is not view]


def row_security_error(catalog: Catalog, table: str) -> PrivilegeError:
    """Return the error for a query whose result policies would reduce."""
    name = catalog.unqualified_name(table)
    return PrivilegeError(f'query would be affected by row-level security policy for table "{name}"')


def bind_policy(
    binding: Binding, entry: TableEntry, columns: Sequence[Column], text: str, policy_table_name: str = ""
) -> tuple[Scalar, ...]:
    """Bind a policy's condition over the columns of its table or of a partition; return its conjuncts.

    Queries in the condition run with the privileges of the current user.
    """
    table = policy_table_name or entry.name
    name = binding.catalog.unqualified_name(table)
    if table in binding.policy_tables:
        raise PolicyRecursionError(f'infinite recursion detected in policy for relation "{name}"')
    tree = _parse_condition(text).copy()
    if calls_settings(tree):
        if binding.is_view:
            message = f'a materialized view over "{name}", whose policies read settings, is not supported'
            raise NotSupportedError(message, hint="changed settings would not update it: write CREATE VIEW")
        tree = _substitute_settings(binding.catalog, tree)
    fields = [Field(name, one, column) for one, column in zip(entry.schema.names, columns, strict=False)]
    binding.policy_tables.add(table)
    before = binding.skips_policies, binding.locked_aliases
    binding.skips_policies, binding.locked_aliases = False, frozenset()
    try:
        scope = Scope(fields=Fields(fields), clause="WHERE").without_aggregates("policy expressions")
        return conjuncts(bind_condition(binding, scope, tree, "a policy"))
    finally:
        binding.policy_tables.discard(table)
        binding.skips_policies, binding.locked_aliases = before


class PolicyRecursionError(ProgrammingError):
    """A policy reads the rows of its own table."""

    sqlstate = "42P17"


_parse_condition = lru_cache(maxsize=512)(parse_expression)


def _substitute_settings(catalog: Catalog, tree: exp.Expr) -> exp.Expr:
    """Replace calls that read settings by their values. The plan is not cached."""
    catalog.system_reads.count += 1

    def value(name: str, args: list[str]) -> str | None:
        if name != "current_setting" or not args:
            raise NotSupportedError(f"{name} in a policy is not supported")
        found = catalog.settings.get(args[0].lower())
        if found is None and args[1:] not in (["true"], ["True"]):
            raise ProgrammingError(f'unrecognized configuration parameter "{args[0]}"')
        return found

    return substitute_settings(tree, value)
