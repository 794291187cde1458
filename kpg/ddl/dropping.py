"""DROP TABLE, DROP VIEW, DROP SCHEMA and DROP COLUMN: with CASCADE, what uses them, too."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import PUBLIC, TableEntry, ViewEntry
from kpg.compiler.catalog.qualified_names import Resolved
from kpg.compiler.pipeline import reads_column
from kpg.compiler.sql.frontend import has_star, named_columns
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.statements import Drop
from kpg.compiler.system.oids import shown_name
from kpg.ddl.definitions import drop_sequence
from kpg.ddl.in_use import check_unused
from kpg.engine.engine import Engine
from kpg.listeners.notices import say_cascade, say_missing, say_skipped
from kpg.runtime.errors import Error, ProgrammingError
from kpg.runtime.plan import Ego


def drop_relations(engine: Engine, statement: Drop) -> None:
    """DROP TABLE and DROP VIEW."""
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
        from kpg.inheritance.inheriting import dropped_together

        doomed = dropped_together(engine, doomed)
    for name in doomed:
        _release(engine, name, statement)
    everything = set(doomed).union(*(engine.users(name) for name in doomed))
    others = sorted(everything.difference(doomed))
    for user in others:
        if not statement.cascade:
            used = next(name for name in doomed if user in engine.dependents(name))
            raise ProgrammingError(
                f'"{used}" cannot be dropped: view "{user}" uses it',
                span=statement.span,
                hint="drop the view first, or use CASCADE",
            )
    say_cascade(engine, [described(engine, name) for name in others])
    drop_users(engine, everything)
    if any(one[0] == "partitioned" for one in engine.catalog.others):
        from kpg.inheritance.partitions import settle_defaults

        settle_defaults(engine)


def drop_users(engine: Engine, names: Iterable[str]) -> None:
    """Drop relations and all that uses them, which are among the names: users first."""
    # Whatever more views depend on, directly or not, goes later than they do.
    for name in sorted(names, key=lambda name: len(engine.dependents(name))):
        # A Datalog program takes its tables and views with it.
        if name in engine.dataflows:
            engine.refuse_in_transaction("dropping a dataflow")
            engine.drop(name)
        elif name in engine.catalog:
            engine.drop(name)


def column_users(engine: Engine, entry: TableEntry, place: int) -> list[str]:
    """The views and dataflows that use a column of a table, and those over them."""
    found: list[str] = []
    for user in engine.users(entry.name):
        uses = {used for view, used in engine.uses() if view == user}
        if uses.intersection(found) or _uses_column(engine, user, entry, place):
            found.append(user)
    return found


def _uses_column(engine: Engine, user: str, entry: TableEntry, place: int) -> bool:
    """Whether a view names a column, or has rows that depend on it. In doubt it does."""
    view, plan = engine.catalog.find(user), engine.plan_of(user)
    if user in engine.dataflows or not isinstance(view, ViewEntry) or view.rel is None:
        return True
    if plan is not None and any(isinstance(node, Ego) for node in plan.nodes):
        return True  # its plan has the table's columns by their places, which its definition does not tell
    if reads_column(view.rel, entry.name, place):
        return True
    try:
        query = parse_query(view.text)
        if user in engine.followed and has_star(query):
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
    if entry.name in engine.views or entry.name in engine.keeping:
        kind = "materialized view"
    return f"{kind} {shown_name(engine.catalog, entry.name, 'relation')}"


def _release(engine: Engine, name: str, statement: Drop) -> None:
    """Have nobody refer to a table that is to be dropped; ProgrammingError unless it may."""
    entry = engine.catalog.get(name)
    if not isinstance(entry, TableEntry) or "references" not in engine.__dict__:
        return
    dropped = {engine.catalog.get(one).name for one in statement.names if one in engine.catalog}
    for link in engine.references.users(entry.name):
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


def drop_schema(engine: Engine, statement: ast.DropOther, name: str) -> None:
    """Run the statement for one schema."""
    catalog = engine.catalog
    if name not in catalog.schemas:
        if statement.if_exists:
            say_skipped(engine, f'schema "{name}" does not exist')
            return
        raise ProgrammingError(f'schema "{name}" does not exist', span=statement.span)
    first = next(_inside(engine, name), None)
    if first is not None and not statement.cascade:
        raise ProgrammingError(
            f'schema "{name}" cannot be dropped: it has {first}', span=statement.span, hint="use CASCADE"
        )
    say_cascade(engine, list(_inside(engine, name)))
    if first is not None:
        _drop_relations(engine, statement, name)
        _drop_others(engine, statement, name)
    if name != PUBLIC:
        del catalog.schemas[name]


def _inside(engine: Engine, schema: str) -> Iterator[str]:
    catalog = engine.catalog
    yield from (described(engine, one) for one in _relations(engine, schema))
    yield from (
        f"sequence {one.name}" for one in catalog.sequences.values() if _schema_of(one.name) == schema
    )
    yield from (f"function {one}" for one in catalog.routines if _schema_of(one) == schema)
    yield from (f"type {one}" for one in catalog.types if _schema_of(one) == schema)


def _relations(engine: Engine, schema: str) -> list[str]:
    return [
        entry.name
        for entry in engine.catalog
        if _schema_of(entry.name) == schema and not _is_datalog(engine, entry.name)
    ]


def _drop_relations(engine: Engine, statement: ast.DropOther, schema: str) -> None:
    catalog = engine.catalog
    check_unused(engine, _relations(engine, schema), "DROP TABLE", statement.span)
    for one in _relations(engine, schema):
        if one in catalog:  # another one has not taken it along
            kind = "TABLE" if isinstance(catalog.get(one), TableEntry) else "VIEW"
            drop_relations(engine, Drop(kind, (one,), True, True, statement.span))
    for sequence in list(catalog.sequences.values()):
        if _schema_of(sequence.name) == schema:
            drop_sequence(engine, replace(statement, kind="SEQUENCE"), sequence.name)


def _drop_others(engine: Engine, statement: ast.DropOther, schema: str) -> None:
    catalog = engine.catalog
    for name in [one for one in catalog.routines if _schema_of(one) == schema]:
        from kpg.ddl.routines import drop_routine

        for routine in catalog.routines.get(name, ()):
            drop_routine(engine, routine, statement.span, cascade=True)
    for name in [one for one in catalog.types if _schema_of(one) == schema]:
        if isinstance(catalog.types[name], Domain):
            from kpg.ddl.domains import drop_domain

            drop_domain(engine, replace(statement, kind="DOMAIN"), Resolved(name))
        else:
            from kpg.ddl.user_types import drop_type

            drop_type(engine, replace(statement, kind="TYPE"), Resolved(name))


def _schema_of(name: str) -> str:
    return name.rpartition(".")[0].lower() or PUBLIC


def _is_datalog(engine: Engine, name: str) -> bool:
    schema = name.rpartition(".")[0].lower()
    return bool(schema) and schema not in engine.catalog.schemas
