"""DROP TABLE, DROP VIEW and the dependents that CASCADE drops, also for DROP COLUMN.

A table with an open cursor or portal in the same session cannot be altered, truncated or dropped: SQLSTATE
55006.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from kpg.compiler.catalog.entries import POLICIES, TableEntry, ViewEntry
from kpg.compiler.pipeline import reads_column
from kpg.compiler.sql.frontend import has_star, referenced_columns
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.statements import Drop
from kpg.compiler.system.oids import display_name
from kpg.execute import access_control
from kpg.execute.changes.partition_routing import with_partitions
from kpg.execute.definitions.partitions import update_default_bounds
from kpg.execute.queries.cursors import check_unused
from kpg.runtime.errors import Error, ProgrammingError, Span
from kpg.runtime.plan import Ego
from kpg.session.engine import Engine
from kpg.session.notices import notice_cascade, notice_missing


def drop(engine: Engine, statement: Drop) -> None:
    """Run DROP TABLE or DROP VIEW, unless a cursor or portal of the session is open on it."""
    check_unused(engine, statement.names, f"DROP {statement.kind}", statement.span)
    drop_relations(engine, statement)


def drop_relations(engine: Engine, statement: Drop) -> None:
    """Drop tables and views, with CASCADE also their dependents."""
    engine.check_can_define("DROP")
    dropped: list[str] = []
    for name in statement.names:
        entry = engine.catalog.find(name)
        if entry is None and statement.if_exists:
            kind = "materialized view" if statement.materialized else statement.kind.lower()
            notice_missing(engine, kind, name)
            continue
        entry = entry or engine.catalog.get(name, statement.span)
        kind = "TABLE" if isinstance(entry, TableEntry) else "VIEW"
        if kind != statement.kind:
            raise ProgrammingError(
                f'"{entry.name}" is a {kind.lower()}', span=statement.span, hint=f"use DROP {kind}"
            )
        if statement.materialized and isinstance(entry, ViewEntry) and not _is_materialized(engine, entry):
            raise ProgrammingError(
                f'"{entry.name}" is not a materialized view', span=statement.span, hint="use DROP VIEW"
            )
        dropped.append(entry.name)
    if engine.catalog.partitioned:
        dropped = with_partitions(engine, dropped)
    for name in dropped:
        _drop_references(engine, name, statement)
    affected = set(dropped).union(*(engine.views.users(name) for name in dropped))
    dependents = sorted(affected.difference(dropped))
    for user in dependents:
        if not statement.cascade:
            used = next(name for name in dropped if user in engine.views.dependents(name))
            raise ProgrammingError(
                f'"{used}" cannot be dropped: view "{user}" uses it',
                span=statement.span,
                hint="drop the view first, or use CASCADE",
            )
    notice_cascade(engine, [describe(engine, name) for name in dependents])
    if engine.catalog.policies:
        drop_policies(engine, affected, "", cascade=statement.cascade, span=statement.span)
    drop_users(engine, affected)
    if engine.catalog.partitioned:
        update_default_bounds(engine)


def drop_users(engine: Engine, names: Iterable[str]) -> None:
    """Drop relations, dependents first. ``names`` includes all dependents."""
    # A relation with more dependents is dropped later.
    for name in sorted(names, key=lambda name: len(engine.views.dependents(name))):
        # Dropping a Datalog program drops its tables and views.
        if name in engine.dataflows:
            engine.refuse_in_transaction("dropping a dataflow")
            engine.drop(name)
        elif name in engine.catalog:
            engine.drop(name)


def drop_policies(
    engine: Engine, relations: Collection[str], column: str, *, cascade: bool, span: Span
) -> None:
    """Drop the policies that read relations, or a column of one; ProgrammingError without ``cascade``.

    Policies of the relations themselves are dropped with them, so only a column has those too.
    """
    if not engine.catalog.policies:
        return
    control = access_control.installed()
    found = [
        one
        for one in control.policies_reading(engine.catalog, relations, column)
        if column or one.table not in relations
    ]
    for policy in found:
        table = engine.catalog.unqualified_name(policy.table)
        if not cascade:
            readings = (
                (name, control.policies_reading(engine.catalog, (name,), column)) for name in relations
            )
            used = next(name for name, policies in readings if policy in policies)
            subject = f'column {column} of "{used}"' if column else f'"{used}"'
            message = f'{subject} cannot be dropped: policy "{policy.name}" of table "{table}" uses it'
            raise ProgrammingError(message, span=span, hint="drop the policy first, or use CASCADE")
        control.check_no_dependent_views(engine, engine.catalog.table(policy.table), span)
        notice_cascade(engine, [f"policy {policy.name} on table {table}"])
        engine.catalog.apply(POLICIES.remove((policy.table.lower(), policy.name.lower())))


def column_users(engine: Engine, entry: TableEntry, place: int) -> list[str]:
    """Return the views and dataflows that use a column of a table, and their dependents."""
    found: list[str] = []
    for user in engine.views.users(entry.name):
        uses = {used for view, used in engine.views.read_pairs() if view == user}
        if uses.intersection(found) or _uses_column(engine, user, entry, place):
            found.append(user)
    return found


def _uses_column(engine: Engine, user: str, entry: TableEntry, place: int) -> bool:
    """Whether a view names a column or depends on it; true in doubt."""
    view, plan = engine.catalog.find(user), engine.views.plan_of(user)
    if user in engine.dataflows or not isinstance(view, ViewEntry) or view.rel is None:
        return True
    if plan is not None and any(isinstance(node, Ego) for node in plan.nodes):
        return True  # its plan uses column positions that the definition does not show
    if reads_column(view.rel, entry.name, place):
        return True
    try:
        query = parse_query(view.text)
        if user in engine.views.stale_texts and has_star(query):
            return False  # the * stands for the columns at the time of CREATE VIEW
        return entry.schema.names[place] in referenced_columns(query, engine.catalog, entry.name)
    except Error:
        return False  # the text predates a column rename: the plan defines the view


def describe(engine: Engine, name: str) -> str:
    """Return a relation with its kind, for messages."""
    entry = engine.catalog.find(name)
    if not isinstance(entry, TableEntry | ViewEntry):
        return f'dataflow "{name}"'
    kind = "table"
    if isinstance(entry, ViewEntry):
        kind = "materialized view" if _is_materialized(engine, entry) else "view"
    return f"{kind} {display_name(engine.catalog, entry.name, 'relation')}"


def _is_materialized(engine: Engine, entry: ViewEntry) -> bool:
    return entry.materialized or entry.name in engine.views or entry.name in engine.views.pending


def _drop_references(engine: Engine, name: str, statement: Drop) -> None:
    """Drop the foreign keys that refer to a table with CASCADE; ProgrammingError without."""
    entry = engine.catalog.get(name)
    if not isinstance(entry, TableEntry) or engine.tables.references is None:
        return
    dropped = {
        engine.catalog.get(dropped_name).name
        for dropped_name in statement.names
        if dropped_name in engine.catalog
    }
    for link in engine.tables.foreign_keys.referring_keys(entry.name):
        if link.table not in dropped and not statement.cascade:
            raise ProgrammingError(
                f'"{entry.name}" cannot be dropped: FOREIGN KEY {link.key.name} of {link.table} refers to it',
                span=statement.span,
                hint="drop that constraint first, or use CASCADE",
            )
        other = engine.catalog.table(link.table)
        notice_cascade(engine, [f"constraint {link.key.name} on {describe(engine, other.name)}"])
        kept = tuple(key for key in other.constraints.foreign_keys if key != link.key)
        engine.catalog.replace(replace(other, constraints=replace(other.constraints, foreign_keys=kept)))
