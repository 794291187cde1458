"""Row-level security: policies as filters over the tables that a statement reads or changes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import assert_never

from sqlglot import exp

from kpg.compiler.algebra.rel import Get
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.access_control import any_enabled, is_secured, security_of, whose
from kpg.compiler.catalog.access_control import demands as demands_of
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.sql.bind.eager_subexpressions import settings, with_settings
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query_output import settled_query
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bound_tree import Filter, Node, Query
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.reader import parsed_expression, parsed_query
from kpg.runtime.errors import NotSupportedError, PrivilegeError, ProgrammingError
from kpg.runtime.scalar import Column, Scalar


def secured_rows(
    binding: Binding, entry: Entry, node: Node, columns: tuple[Column, ...], alias: str
) -> tuple[Node, tuple[Column, ...]]:
    """The rows of a relation with policies: of a table its own, of a view those of the tables below."""
    if binding.governed:
        return node, columns
    if isinstance(entry, TableEntry):
        return visible(binding, entry, node, columns, seen_for(binding, alias), binding.owner), columns
    catalog = binding.catalog
    if entry.materialized or not entry.sql or entry.of_system or not any_enabled(catalog):
        return node, columns
    rel = entry.rel
    if rel is None or not any(
        security_of(catalog, one.name).enabled for one in walk(rel) if isinstance(one, Get)
    ):
        return node, columns
    if entry.is_derived:
        refuse_secured(catalog, entry)  # rules have no policies
        return node, columns
    # Its text is bound here, so that policies are as they are now, and about who asks now.
    query = _of_view(binding, entry)
    return query.node, query.columns[: len(entry.schema.columns)]


def seen_for(binding: Binding, alias: str) -> tuple[str, ...]:
    """The commands whose policies rows of a relation of FROM have to satisfy: if locked, that too."""
    return ("SELECT", "UPDATE") if binding.locks(alias) else ("SELECT",)


def _of_view(binding: Binding, entry: ViewEntry) -> Query:
    tree = parsed_query(entry.text).copy()
    before = binding.owner, binding.reads
    binding.owner, binding.reads = whose(binding.catalog, entry), None
    try:
        return settled_query(binding.query(Scope(), tree))
    finally:
        binding.owner, binding.reads = before


def visible(
    binding: Binding,
    entry: TableEntry,
    node: Node,
    columns: Sequence[Column],
    commands: Sequence[str] = ("SELECT",),
    user: str | None = None,
    whole: str = "",
) -> Node:
    """The rows of a table that policies of all the commands let who asks, or a ``user``, have.

    Of a part of another table these are the policies of the ``whole``.
    """
    catalog, whole = binding.catalog, whole or entry.name
    user = catalog.asker.user if user is None else user
    if not is_secured(catalog, whole, user):
        return node
    if catalog.settings.get("row_security", "on").lower() in ("off", "false", "0", "no"):
        raise affected(catalog, whole)
    for command in commands:
        for demand in demands_of(catalog, whole, command, user):
            node = Filter(node, condition(binding, entry, columns, demand.condition, whole))
    return node


def governing(catalog: Catalog, entry: TableEntry) -> str:
    """The table whose policies hold for changes of one: that which the statement names."""
    return catalog.parts.get(entry.name.lower(), entry.name)


def changeable(
    binding: Binding,
    statement: ast.Delete | ast.Update | ast.Merge,
    entry: TableEntry,
    scan: Node,
    columns: Sequence[Column],
) -> Node:
    """The rows of a table that policies let who changes it, or what it is a part of, see or change."""
    match statement:
        case ast.Merge():
            commands: tuple[str, ...] = ("SELECT",)
        case ast.Delete():
            commands = ("DELETE", "SELECT") if reads_target(statement) else ("DELETE",)
        case ast.Update():
            commands = ("UPDATE", "SELECT") if reads_target(statement) else ("UPDATE",)
        case _:
            assert_never(statement)
    user = changer(binding.catalog, statement)
    return visible(binding, entry, scan, columns, commands, user, governing(binding.catalog, entry))


def reads_target(statement: ast.Change) -> bool:
    """Whether a statement takes the right to read the table that it changes."""
    match statement:
        case ast.Insert():
            return bool(statement.returning)
        case ast.Merge():
            return True
        case ast.Delete():
            return bool(statement.where is not None or statement.returning or statement.using)
        case ast.Update():
            named = any(value.find(exp.Column) for _, value in statement.assignments)
            return bool(statement.where is not None or statement.returning or statement.sources or named)
        case _:
            assert_never(statement)


def changer(catalog: Catalog, statement: ast.Change) -> str:
    """Whose policies hold for the table of a statement: who asks, or the owner of the view above it."""
    if isinstance(statement, ast.Merge) or statement.through is None:
        return catalog.asker.user
    name = statement.through.view
    while (below := getattr(catalog.entries.get(name.lower()), "below", "")) not in (
        "",
        statement.through.entry.name,
    ):
        name = below
    view = catalog.entries.get(name.lower())
    return whose(catalog, view) if isinstance(view, ViewEntry) else catalog.asker.user


def refuse_secured(catalog: Catalog, entry: Entry) -> None:
    """PrivilegeError if policies keep rows from who asks for all of a table, or for what a view reads."""
    if isinstance(entry, TableEntry):
        if is_secured(catalog, entry.name, catalog.asker.user):
            raise affected(catalog, entry.name)
    elif not entry.materialized and any_enabled(catalog):
        user = whose(catalog, entry)
        for one in below(catalog, entry):
            if isinstance(one, ViewEntry):
                refuse_secured(catalog, one)
            elif is_secured(catalog, one.name, user):
                raise affected(catalog, one.name)


def below(catalog: Catalog, view: ViewEntry) -> list[Entry]:
    """The relations that the plan of a view reads."""
    names = {one.name for one in walk(view.rel) if isinstance(one, Get)} if view.rel is not None else set()
    found = (catalog.entries.get(name.lower()) for name in sorted(names))
    return [one for one in found if one is not None and one is not view]


def affected(catalog: Catalog, table: str) -> PrivilegeError:
    """Policies would leave out rows where that is not wanted."""
    name = catalog.plain(table)
    return PrivilegeError(f'query would be affected by row-level security policy for table "{name}"')


def condition(
    binding: Binding, entry: TableEntry, columns: Sequence[Column], text: str, whole: str = ""
) -> tuple[Scalar, ...]:
    """A policy's condition over columns of its table, or of a part of it; its queries are of who asks."""
    table = whole or entry.name
    name = binding.catalog.plain(table)
    if table in binding.securing:
        raise RecursionInPolicyError(f'infinite recursion detected in policy for relation "{name}"')
    tree = _tree(text).copy()
    if settings(tree):
        if binding.kept:
            message = f'a materialized view over "{name}", whose policies ask for settings, is not supported'
            raise NotSupportedError(message, hint="it would not follow them: write CREATE VIEW")
        tree = _with_values(binding.catalog, tree)
    fields = [Field(name, one, column) for one, column in zip(entry.schema.names, columns, strict=False)]
    binding.securing.add(table)
    before = binding.governed, binding.locked
    binding.governed, binding.locked = False, frozenset()
    try:
        scope = Scope(fields=Fields(fields), clause="WHERE").without_aggregates("policy expressions")
        return conjuncts(bind_condition(binding, scope, tree, "a policy"))
    finally:
        binding.securing.discard(table)
        binding.governed, binding.locked = before


class RecursionInPolicyError(ProgrammingError):
    """A policy asks for the rows of its own table."""

    sqlstate = "42P17"


_tree = lru_cache(maxsize=512)(parsed_expression)


def _with_values(catalog: Catalog, tree: exp.Expr) -> exp.Expr:
    """With settings in the place of the calls that ask for them: the plan is for this once."""
    catalog.consulted.times += 1

    def value(name: str, args: list[str]) -> str | None:
        if name != "current_setting" or not args:
            raise NotSupportedError(f"{name} in a policy is not supported")
        found = catalog.settings.get(args[0].lower())
        if found is None and args[1:] not in (["true"], ["True"]):
            raise ProgrammingError(f'unrecognized configuration parameter "{args[0]}"')
        return found

    return with_settings(tree, value)
