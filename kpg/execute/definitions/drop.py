"""DROP TABLE, DROP VIEW, DROP SCHEMA and DROP COLUMN: with CASCADE, what uses them, too.

Tables with an open cursor or portal of the same session are not changed, emptied or dropped: 55006.

What calls a function in its definition: without it the function cannot go, and CASCADE takes it along.

A view's plan knows the functions that it calls. The rest is kept as text, in which functions have their whole
names: see :mod:`kpg.compiler.sql.rewrite.name_qualification`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from kpg.compiler.catalog.access_control import Policy
from kpg.compiler.catalog.constraints import Domain, Partitioned, UniqueIndex
from kpg.compiler.catalog.entries import PUBLIC, TableEntry, ViewEntry
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.pipeline import reads_column
from kpg.compiler.qualified_names import Resolved, beside
from kpg.compiler.sql.frontend import has_star, named_columns, read_relations
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.statements import Drop
from kpg.compiler.sql.rewrite.column_expressions import check_rules
from kpg.compiler.sql.rewrite.name_qualification import calls, casts
from kpg.compiler.system.oids import shown_name
from kpg.execute.changes.partition_routing import dropped_together
from kpg.execute.definitions.ddl import drop_sequence
from kpg.execute.definitions.domains import alter_domain, drop_domain
from kpg.execute.definitions.indexes import drop_index
from kpg.execute.definitions.partitions import settle_defaults
from kpg.execute.definitions.routines import define_aggregate, drop_routine
from kpg.execute.definitions.user_types import drop_type
from kpg.execute.queries.cursors import is_open
from kpg.runtime.errors import Error, NotSupportedError, ProgrammingError, Span
from kpg.runtime.plan import Ego
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine
from kpg.session.notices import say_cascade, say_missing, say_skipped

NAMES = (ast.RenameTo, ast.RenameColumn, ast.RenameConstraint, ast.SetSchema)
"""Actions that only change names."""


def check_altered(engine: "Engine", statement: ast.Alter) -> None:
    """As :func:`check_unused`, for the table that a statement is about."""
    if statement.kind == "TABLE" and not all(isinstance(one, NAMES) for one in statement.actions):
        check_unused(engine, (statement.name,), "ALTER TABLE", statement.span)


def check_unused(engine: "Engine", names: Iterable[str], what: str, span: Span) -> None:
    """ProgrammingError if a query of the session that is still open reads one of some tables."""
    read = frozenset().union(*(_tables(engine, one) for one in _open(engine)))
    if not read:
        return
    for name in names:
        entry = engine.catalog.find(name)
        if entry is not None and entry.name in read:
            shown = entry.name.rpartition(".")[2]
            error = ProgrammingError(
                f'cannot {what} "{shown}" because it is being used by active queries in this session',
                span=span,
                hint="close the cursor, or the portal, first",
            )
            error.sqlstate = "55006"
            raise error


def _open(engine: "Engine") -> Iterator[object]:
    """The statements of open cursors and portals."""
    number = engine.catalog.asker.number
    if engine.cursors:
        for (owner, _), cursor in engine.cursors.items():
            if owner == number and cursor.transaction is not None and is_open(engine, cursor):
                yield cursor.query
    session = None if engine.sessions is None else engine.sessions.sessions.get(number)
    if session is not None:
        yield from (portal.statement for portal in session.portals())


def _tables(engine: "Engine", statement: object) -> frozenset[str]:
    """What a statement reads, by way of views that are not kept."""
    found: set[str] = set()
    uses: dict[str, list[str]] = {}
    for view, used in engine.uses():
        uses.setdefault(view, []).append(used)
    waiting = list(read_relations(statement, engine.catalog))
    while waiting:
        entry = engine.catalog.find(waiting.pop())
        if isinstance(entry, ViewEntry) and not entry.materialized:
            waiting += uses.get(entry.name, ())
        elif entry is not None:
            found.add(entry.name)
    return frozenset(found)


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
        for routine in catalog.routines.get(name, ()):
            drop_routine(engine, routine, statement.span, cascade=True)
    for name in [one for one in catalog.types if _schema_of(one) == schema]:
        if isinstance(catalog.types[name], Domain):
            drop_domain(engine, replace(statement, kind="DOMAIN"), Resolved(name))
        else:
            drop_type(engine, replace(statement, kind="TYPE"), Resolved(name))


def _schema_of(name: str) -> str:
    return name.rpartition(".")[0].lower() or PUBLIC


def _is_datalog(engine: Engine, name: str) -> bool:
    schema = name.rpartition(".")[0].lower()
    return bool(schema) and schema not in engine.catalog.schemas


Calls = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Caller:
    """A definition that calls a function: how errors name it, and what takes it away."""

    what: str
    drop: Callable[[], object]


def leave(engine: Engine, routine: Routine, span: Span, *, cascade: bool) -> None:
    """Have nothing but views call a function; ProgrammingError if something does, without ``cascade``."""
    for caller in list(callers(engine, routine, span)):
        if not cascade:
            raise ProgrammingError(
                f'function "{routine.name}" cannot be dropped: {caller.what} calls it',
                span=span,
                hint="drop that first, or use CASCADE",
            )
        say_cascade(engine, [caller.what])
        caller.drop()


def refuse_callers(engine: Engine, routine: Routine, what: str, span: Span) -> None:
    """NotSupportedError if something but views calls a function that is to have another name."""
    caller = next(callers(engine, routine, span), None)
    if caller is not None:
        message = f"{what} function {routine.name} is not supported while {caller.what} calls it"
        raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")


def refuse_named_type(engine: Engine, name: str, span: Span) -> None:
    """NotSupportedError if a definition names a type that is to go."""
    found = next(_naming(engine, lambda text: casts(text, name), span), None)
    if found is None:
        views = (one for one in engine.catalog if isinstance(one, ViewEntry) and casts(one.text, name))
        found = next((Caller(f"view {one.name}", lambda: None) for one in views), None)
    if found is not None:
        message = f"dropping type {name} is not supported while {found.what} names it"
        raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")


def callers(engine: Engine, routine: Routine, span: Span) -> Iterator[Caller]:
    """All definitions but views that call a function."""

    def called(text: str) -> bool:
        return calls(text, routine.name)

    alone = len(engine.catalog.routines.get(routine.name, ())) == 1
    free = frozenset[str]()
    if not alone:
        tables = (one for one in engine.catalog if isinstance(one, TableEntry))
        free = frozenset(one.name for one in tables if _can_do_without(engine, one, routine))
    yield from _naming(engine, called, span, free)


def _naming(engine: Engine, names: Calls, span: Span, free: frozenset[str] = frozenset()) -> Iterator[Caller]:
    """The definitions with a text that names something; those of the ``free`` tables are left out."""
    catalog = engine.catalog
    for entry in list(catalog):
        if isinstance(entry, TableEntry) and entry.name not in free:
            yield from _of_table(engine, entry, names, span)
    for key, one in list(catalog.others.items()):
        if any(map(names, _texts(one))):
            yield Caller(f'{key[0]} "{key[2] or key[1]}" of {key[1]}', _without(engine, key, one, span))
    for name, type_ in list(catalog.types.items()):
        if isinstance(type_, Domain):
            yield from _of_domain(engine, name, type_, names, span)


def _can_do_without(engine: Engine, entry: TableEntry, routine: Routine) -> bool:
    """Whether the rules of a table mean something by the other functions of that name."""
    catalog = engine.catalog.copy()
    others = tuple(one for one in catalog.routines[routine.name] if one is not routine)
    catalog.routines[routine.name] = others
    try:
        check_rules(entry, catalog)
    except Error:
        return False
    return True


def _of_table(engine: Engine, entry: TableEntry, names: Calls, span: Span) -> Iterator[Caller]:
    def altered(action: ast.Action) -> Callable[[], object]:
        from kpg.execute.definitions.alter_table import alter

        return partial(alter, engine, ast.Alter("TABLE", entry.name, False, (action,), span))

    for column, rule in zip(entry.schema.names, entry.constraints.rules, strict=False):
        if names(rule.generated):
            yield Caller(
                f"column {column} of table {entry.name}", altered(ast.DropColumn(column, True, True))
            )
        elif names(rule.default):
            what = f"the DEFAULT of column {column} of table {entry.name}"
            yield Caller(what, altered(ast.SetRule(column, "default", "")))
    for check in entry.constraints.checks:
        if names(check.text):
            what = f"constraint {check.name} of table {entry.name}"
            yield Caller(what, altered(ast.DropConstraint(check.name, True, True)))


def _of_domain(engine: Engine, name: str, domain: Domain, names: Calls, span: Span) -> Iterator[Caller]:
    def altered(action: ast.Action) -> Callable[[], object]:

        return partial(alter_domain, engine, ast.AlterDomain(name, action, span))

    if names(domain.default):
        yield Caller(f"the DEFAULT of domain {name}", altered(ast.SetRule("", "default", "")))
    for check in domain.checks:
        if names(check.text):
            what = f"constraint {check.name} of domain {name}"
            yield Caller(what, altered(ast.DropConstraint(check.name, True, True)))


def _texts(one: object) -> tuple[str, ...]:
    """The texts of a policy or the like that may call functions."""
    match one:
        case Policy():
            return (one.using, one.check)
        case UniqueIndex():
            return (*one.elements, one.where)
        case Partitioned():
            return one.keys
        case tuple():
            folds = (each for each in one if isinstance(each, Aggregate))
            names = (name for each in folds for name in (each.step, each.final) if name)
            return tuple(f"{name if '.' in name else f'{PUBLIC}.{name}'}()" for name in names)
        case _:
            return ()


def _without(engine: Engine, key: tuple[str, ...], one: object, span: Span) -> Callable[[], object]:
    """What takes away a definition that is kept by its kind, relation and name."""
    match one:
        case UniqueIndex():
            name = beside(one.table, one.name)
            return partial(drop_index, engine, ast.DropOther("INDEX", (name,), True, True, span), name)
        case Partitioned():
            return partial(drop_relations, engine, statements.Drop("TABLE", (one.table,), True, True, span))
        case tuple():
            names = tuple((key[1], each.types) for each in one)
            return partial(define_aggregate, engine, ast.DropAggregate(names, True, True, span))
        case _:
            return partial(_forget, engine, key)


def _forget(engine: Engine, key: tuple[str, ...]) -> None:
    engine.catalog.others.pop(key, None)
    engine.catalog.version += 1
