"""DROP TABLE, DROP VIEW and the dependents that CASCADE drops, also for DROP COLUMN.

A table with an open cursor or portal in the same session cannot be altered, truncated or dropped: SQLSTATE
55006.
"""

from collections.abc import Iterable
from dataclasses import replace

from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.pipeline import reads_column
from kpg.compiler.sql.frontend import has_star, named_columns
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.statements import Drop
from kpg.compiler.system.oids import shown_name
from kpg.execute.changes.partition_routing import dropped_together
from kpg.execute.definitions.partitions import settle_defaults
from kpg.execute.queries.cursors import check_unused
from kpg.runtime.errors import Error, ProgrammingError
from kpg.runtime.plan import Ego
from kpg.session.engine import Engine
from kpg.session.notices import say_cascade, say_missing


def drop(engine: Engine, statement: Drop) -> None:
    """DROP TABLE and DROP VIEW, unless a cursor or portal of the session is open over one."""
    check_unused(engine, statement.names, f"DROP {statement.kind}", statement.span)
    drop_relations(engine, statement)


def drop_relations(engine: Engine, statement: Drop) -> None:
    """Drop tables and views, with CASCADE also what uses them."""
    engine.check_defining("DROP")
    doomed: list[str] = []
    for name in statement.names:
        entry = engine.catalog.find(name)
        if entry is None and statement.if_exists:
            kind = "materialized view" if statement.materialized else statement.kind.lower()
            say_missing(engine, kind, name)
            continue
        entry = entry or engine.catalog.get(name, statement.span)
        kind = "TABLE" if isinstance(entry, TableEntry) else "VIEW"
        if kind != statement.kind:
            raise ProgrammingError(
                f'"{entry.name}" is a {kind.lower()}', span=statement.span, hint=f"use DROP {kind}"
            )
        doomed.append(entry.name)
    if engine.catalog.others:
        doomed = dropped_together(engine, doomed)
    for name in doomed:
        _release(engine, name, statement)
    everything = set(doomed).union(*(engine.views.users(name) for name in doomed))
    others = sorted(everything.difference(doomed))
    for user in others:
        if not statement.cascade:
            used = next(name for name in doomed if user in engine.views.dependents(name))
            raise ProgrammingError(
                f'"{used}" cannot be dropped: view "{user}" uses it',
                span=statement.span,
                hint="drop the view first, or use CASCADE",
            )
    say_cascade(engine, [described(engine, name) for name in others])
    drop_users(engine, everything)
    if any(one[0] == "partitioned" for one in engine.catalog.others):
        settle_defaults(engine)


def drop_users(engine: Engine, names: Iterable[str]) -> None:
    """Drop relations and all that uses them, which are among the names: users first."""
    # Whatever more views depend on, directly or not, goes later than they do.
    for name in sorted(names, key=lambda name: len(engine.views.dependents(name))):
        # A Datalog program takes its tables and views with it.
        if name in engine.dataflows:
            engine.refuse_in_transaction("dropping a dataflow")
            engine.drop(name)
        elif name in engine.catalog:
            engine.drop(name)


def column_users(engine: Engine, entry: TableEntry, place: int) -> list[str]:
    """The views and dataflows that use a column of a table, and those over them."""
    found: list[str] = []
    for user in engine.views.users(entry.name):
        uses = {used for view, used in engine.views.uses() if view == user}
        if uses.intersection(found) or _uses_column(engine, user, entry, place):
            found.append(user)
    return found


def _uses_column(engine: Engine, user: str, entry: TableEntry, place: int) -> bool:
    """Whether a view names a column, or has rows that depend on it. In doubt it does."""
    view, plan = engine.catalog.find(user), engine.views.plan_of(user)
    if user in engine.dataflows or not isinstance(view, ViewEntry) or view.rel is None:
        return True
    if plan is not None and any(isinstance(node, Ego) for node in plan.nodes):
        return True  # its plan has the table's columns by their places, which its definition does not tell
    if reads_column(view.rel, entry.name, place):
        return True
    try:
        query = parse_query(view.text)
        if user in engine.views.followed and has_star(query):
            return False  # the * stands for the columns that there were when the view was made
        return entry.schema.names[place] in named_columns(query, engine.catalog, entry.name)
    except Error:
        return False  # the text is older than a column's other name: the plan is what the view is


def described(engine: Engine, name: str) -> str:
    """A relation with its kind, as messages name it."""
    entry = engine.catalog.find(name)
    if not isinstance(entry, TableEntry | ViewEntry):
        return f'dataflow "{name}"'
    kind = "view" if isinstance(entry, ViewEntry) else "table"
    if entry.name in engine.views or entry.name in engine.views.keeping:
        kind = "materialized view"
    return f"{kind} {shown_name(engine.catalog, entry.name, 'relation')}"


def _release(engine: Engine, name: str, statement: Drop) -> None:
    """Have nobody refer to a table that is to be dropped; ProgrammingError unless it may."""
    entry = engine.catalog.get(name)
    if not isinstance(entry, TableEntry) or engine.tables.references is None:
        return
    dropped = {engine.catalog.get(one).name for one in statement.names if one in engine.catalog}
    for link in engine.tables.foreign_keys.users(entry.name):
        if link.table not in dropped and not statement.cascade:
            raise ProgrammingError(
                f'"{entry.name}" cannot be dropped: FOREIGN KEY {link.key.name} of {link.table} refers to it',
                span=statement.span,
                hint="drop that constraint first, or use CASCADE",
            )
        other = engine.catalog.table(link.table)
        say_cascade(engine, [f"constraint {link.key.name} on {described(engine, other.name)}"])
        kept = tuple(key for key in other.constraints.foreign_keys if key != link.key)
        engine.catalog.replace(replace(other, constraints=replace(other.constraints, foreign_keys=kept)))
