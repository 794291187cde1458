"""Row-level security: CREATE, ALTER and DROP POLICY, and the check of written rows against policies."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.access_control import (
    EVERYBODY,
    Policy,
    Secured,
    demands,
    is_secured,
    key_of,
    need_schema,
    policies,
    policies_for,
    security_of,
)
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.qualified_names import quote_name
from kpg.compiler.sql.bind.eager_subexpressions import named_rows
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.row_security import changer, condition, governing, reads_target
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.execute.queries.query_plan import plan
from kpg.postgres.roles import known
from kpg.runtime.errors import NotSupportedError, PrivilegeError, ProgrammingError, Span
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, remap
from kpg.runtime.types import Schema
from kpg.session.engine import Engine
from kpg.session.notices import say_skipped, say_skipped_relation

if TYPE_CHECKING:
    from kpg.session.base_table import Table

Words = NDArray[np.int64]


def define_policy(engine: Engine, statement: ddl.DefinePolicy) -> None:
    """CREATE, ALTER or DROP POLICY."""
    catalog = engine.catalog
    entry = catalog.find(statement.table)
    if not isinstance(entry, TableEntry):
        if entry is None and statement.verb == "drop" and statement.if_exists:
            say_skipped_relation(engine, statement.table)
            return
        entry = catalog.table(statement.table, statement.span)
    key = ("policy", entry.name.lower(), statement.name.lower())
    old = catalog.others.get(key)
    shown = catalog.plain(entry.name)
    if statement.verb == "create":
        _refuse_second(catalog, key, statement.name, statement)
        made = Policy(
            statement.name,
            entry.name,
            statement.permissive,
            statement.command,
            _roles(engine, statement),
            statement.using,
            statement.check,
        )
    elif old is None:
        if statement.if_exists:
            say_skipped(engine, f'policy "{statement.name}" for relation "{shown}" does not exist')
            return
        message = f'policy "{statement.name}" for table "{shown}" does not exist'
        raise ProgrammingError(message, span=statement.span)
    else:
        made = _altered(engine, old, statement)
    refuse_readers(engine, entry, statement.span)
    if statement.verb == "drop":
        del catalog.others[key]
        return
    _check(catalog, entry, made, statement.span)
    if statement.verb == "rename":
        new = (*key[:2], statement.renamed.lower())
        _refuse_second(catalog, new, statement.renamed, statement)
        del catalog.others[key]
        key = new
    catalog.others[key] = made


def _refuse_second(catalog: Catalog, key: tuple[str, ...], name: str, statement: ddl.DefinePolicy) -> None:
    """ProgrammingError if there is a policy of that key."""
    if key in catalog.others:
        message = (
            f'policy "{name}" for table "{catalog.plain(catalog.table(statement.table).name)}" already exists'
        )
        raise ProgrammingError(message, span=statement.span)


def _altered(engine: Engine, old: Policy, statement: ddl.DefinePolicy) -> Policy:
    fitting = {"SELECT": "USING", "DELETE": "USING", "INSERT": "WITH CHECK"}.get(old.command)
    given = statement.check if fitting == "USING" else statement.using if fitting else ""
    if given:
        of = "INSERT" if fitting == "WITH CHECK" else "SELECT, DELETE"
        raise ProgrammingError(f"only {fitting} expression allowed for {of}", span=statement.span)
    return replace(
        old,
        name=statement.renamed or old.name,
        roles=_roles(engine, statement) if statement.roles else old.roles,
        using=statement.using or old.using,
        check=statement.check or old.check,
    )


def _roles(engine: Engine, statement: ddl.DefinePolicy) -> tuple[str, ...]:
    return tuple(
        EVERYBODY if not one or one.lower() == EVERYBODY else known(engine, one, statement.span)
        for one in statement.roles
    )


def _check(catalog: Catalog, entry: TableEntry, made: Policy, span: Span) -> None:
    """An error for a condition that is none over the table's columns."""
    for text in (made.using, made.check):
        if text:
            binding = new_binding(span.source, catalog)
            columns = [Column(binding.fresh(), type_) for type_ in entry.schema.types]
            condition(binding, entry, columns, text)
            for one in binding.reads.relations if binding.reads is not None else ():
                need_schema(catalog, one.entry.name, "U", span)


def release_role(catalog: Catalog, role: str) -> None:
    """Have no policy be for a role any more: those for nobody else go, as in Postgres."""
    for key, one in policies_for(catalog, role):
        roles = tuple(other for other in one.roles if other != role)
        if roles:
            catalog.others[key] = replace(one, roles=roles)
        else:
            del catalog.others[key]


def secure(engine: Engine, entry: TableEntry, action: ddl.Secure, span: Span) -> None:
    """ALTER TABLE ... ROW LEVEL SECURITY."""
    others = engine.catalog.others
    refuse_readers(engine, entry, span)
    before = security_of(engine.catalog, entry.name)
    engine.catalog.version += 1  # who inserts is asked again
    others["secured", entry.name.lower(), ""] = Secured(
        entry.name,
        before.enabled if action.enabled is None else action.enabled,
        before.forced if action.forced is None else action.forced,
    )


def refuse_readers(engine: Engine, entry: TableEntry, span: Span) -> None:
    """NotSupportedError if a view follows what a role sees of the table for whom policies hold."""
    rights = engine.catalog.rights
    for name in engine.views.users(entry.name):
        owner = rights.owner(key_of(name))
        if rights.is_superuser(owner) or rights.owns(owner, key_of(entry.name)):
            continue
        kept = next((one for one in (name, *engine.views.users(name)) if one in engine.views), None)
        if kept is not None:
            message = f'policies of table "{entry.name}" cannot change while view {kept} reads it'
            raise NotSupportedError(message, span=span, hint="drop the view first, and make it again")


def refuse_column(catalog: Catalog, table: str, column: str, span: Span) -> None:
    """ProgrammingError if a policy names a column that is to go, or to have another name."""

    for one in policies(catalog, table):
        words = {token.text.lower() for token in tokenize(f"{one.using} {one.check}")}
        if column.lower() in words:
            message = f'column "{column}" cannot change: policy "{one.name}" of table "{table}" uses it'
            raise ProgrammingError(message, span=span, hint="drop the policy first, and make it again")


def check_written(
    engine: Engine, statement: ast.Insert | ast.Update | ast.Merge, words: Words, command: str
) -> None:
    """PrivilegeError for a new row, of ``int64[w, n]``, that policies do not let who asks write."""
    entry = engine.catalog.table(statement.table, statement.span)
    user, whole = changer(engine.catalog, statement), governing(engine.catalog, entry)
    if not words.shape[1] or not is_secured(engine.catalog, whole, user):
        return
    if isinstance(statement, ast.Insert) and statement.moves:
        return  # they were held against the policies as rows of an UPDATE
    seen = engine.reading_catalog
    needed = demands(seen, whole, command, user, written=True)
    if reads_target(statement):
        needed += demands(seen, whole, "SELECT", user)
    for demand in needed:
        if not _all_satisfy(engine, entry, user, demand.condition, words):
            policy = f' "{demand.policy}"' if demand.policy else ""
            raise _violation(seen, whole, f"policy{policy}", statement.span)


def check_replaced(
    engine: Engine, table: "Table", statement: ast.Insert | ast.Merge, rowids: Words, command: str = "UPDATE"
) -> None:
    """PrivilegeError for a row that is there, and that policies do not let who asks change."""
    entry = engine.catalog.table(statement.table, statement.span)
    user, whole = changer(engine.catalog, statement), governing(engine.catalog, entry)
    if not rowids.size or not is_secured(engine.catalog, whole, user):
        return
    words = table.fetch(rowids)
    for one in (command, "SELECT"):
        for demand in demands(engine.catalog, whole, one, user):
            if not _all_satisfy(engine, entry, user, demand.condition, words):
                raise _violation(engine.catalog, whole, "policy (USING expression)", statement.span)


def check_merged(
    engine: Engine,
    table: "Table",
    statement: ast.Merge,
    updated: tuple[Words, Words],
    deleted: Words,
    inserted: Words,
) -> None:
    """As :func:`check_replaced` and :func:`check_written`, of all that a MERGE does."""
    check_replaced(engine, table, statement, updated[0])
    check_replaced(engine, table, statement, deleted, "DELETE")
    check_written(engine, statement, updated[1], "UPDATE")
    check_written(engine, statement, inserted, "INSERT")


def _violation(catalog: Catalog, table: str, policy: str, span: Span) -> PrivilegeError:
    name = catalog.plain(table)
    return PrivilegeError(f'new row violates row-level security {policy} for table "{name}"', span=span)


def _all_satisfy(engine: Engine, entry: TableEntry, user: str, text: str, words: Words) -> bool:
    catalog = engine.reading_catalog
    if user != catalog.asker.user:
        catalog = catalog.copy()
        catalog.asker = catalog.asker.with_rights_of(user)
    binding = new_binding(text, catalog)
    columns = [Column(binding.fresh(), type_) for type_ in entry.schema.types]
    whole = governing(engine.catalog, entry)
    scalars = condition(binding, entry, columns, text, whole)
    if not binding.subqueries and not binding.shared:
        places = {column.index: place for place, column in enumerate(columns)}
        moved = tuple(remap(one, places.__getitem__) for one in scalars)
        results, _ = engine.executor.evaluate(Mfp((), moved), np.ascontiguousarray(words))
        return bool((results == 1).all())
    return _satisfy_by_query(engine, user, entry, whole, text, words)


def _satisfy_by_query(
    engine: Engine, user: str, entry: TableEntry, whole: str, text: str, words: Words
) -> bool:
    """A condition that asks a query is one of a query, over the rows as a table."""
    schema = Schema(tuple(replace(column, nullable=True) for column in entry.schema.columns))
    attached = engine.tables.attach(named_rows("written"), schema)
    try:
        engine.table(attached).insert(np.ascontiguousarray(words))
        name, alias = (quote_name(one) for one in (attached, engine.catalog.plain(whole)))
        query = parse_query(f"SELECT 1 FROM {name} AS {alias} WHERE ({text}) IS NOT TRUE LIMIT 1")
        engine.catalog.rights.owners[key_of(attached)] = user
        seen = engine.reading_catalog.copy()
        seen.asker = seen.asker if user == seen.asker.user else seen.asker.with_rights_of(user)
        rows, _ = engine.run(plan(query, seen, engine.statistics))
        return not rows.shape[1]
    finally:
        engine.release_attached()
