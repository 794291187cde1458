"""Session statements: settings, savepoints, prepared statements, transaction modes, VACUUM and DISCARD.

It also refuses writes in READ ONLY transactions, and provides the rows of the system relations on a session:
cursors, prepared statements and settings. VACUUM and similar statements do little here. They refuse what
Postgres refuses.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kpg.api.result import Result, listing
from kpg.compiler.catalog.access_control import key_of
from kpg.compiler.catalog.entries import TableEntry, did_you_mean
from kpg.compiler.qualified_names import USUAL_PATH, path_of
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.session_statements import with_values
from kpg.compiler.sql.parse.statements import Select, Statement
from kpg.compiler.system.pg_index import indexes
from kpg.execute.definitions.ddl import end
from kpg.execute.queries.cursors import forget, listed
from kpg.postgres.privileges import refuse_refresh
from kpg.postgres.roles import set_role
from kpg.runtime.errors import InterfaceError, ProgrammingError, Span
from kpg.runtime.types import TEXT
from kpg.session.engine import Engine
from kpg.session.locks import SHOWN
from kpg.session.notices import say_skipped, warn
from kpg.session.setting_values import (
    ISOLATION,
    SETTINGS,
    given_value,
    settle,
    shown,
    switched,
)
from kpg.session.transaction import State
from kpg.session.undo import deferral, putting_back

if TYPE_CHECKING:
    from kpg.api.view import Maintained


UNCHANGEABLE: Final = frozenset({"server_version", "server_version_num", "server_encoding", "is_superuser"})


def show(engine: Engine, statement: ast.Show) -> Result:
    """SHOW of a setting, or of all."""
    name = statement.name
    if name == "all":
        names = sorted(SETTINGS)
        return listing({"name": (TEXT, names), "setting": (TEXT, [shown(engine, one) for one in names])})
    if name not in SETTINGS and name not in engine.settings:
        raise _unknown(name, statement.span)
    return listing({name: (TEXT, [shown(engine, name)])})


def notify(engine: Engine, statement: ast.Notify) -> None:
    """NOTIFY."""
    transactions = engine.transactions
    transactions.box(engine.channels).notify(statement.channel, statement.payload, transactions.depth)


def listen(engine: Engine, statement: ast.Listen) -> None:
    """LISTEN and UNLISTEN."""
    transactions = engine.transactions
    box = transactions.box(engine.channels)
    (box.listen if statement.begins else box.unlisten)(statement.channel, transactions.depth)


def deallocate(engine: Engine, statement: ast.Deallocate) -> None:
    """DEALLOCATE of a prepared statement, or of all."""
    name = statement.name
    if not name:
        engine.prepared.clear()
    elif not engine.prepared.drop(name):
        raise ProgrammingError(f'prepared statement "{name}" does not exist', span=statement.span)


def _unknown(name: str, span: Span) -> ProgrammingError:
    message = f'unrecognized configuration parameter "{name}"'
    error = ProgrammingError(message, span=span, hint=did_you_mean(name, SETTINGS))
    error.sqlstate = "42704"
    return error


def set_setting(engine: Engine, statement: ast.Set) -> None:
    """SET of a setting, and RESET."""
    name = statement.name
    if not name:
        _reset_all(engine)
        return
    if name not in SETTINGS and "." not in name:
        raise _unknown(name, statement.span)
    if statement.local and engine.transactions.state is State.NONE:
        warn(engine, "SET LOCAL can only be used in transaction blocks", "25P01")
        return
    if name in ("default_transaction_read_only", "transaction_read_only"):
        _set_reading(engine, name, statement)
        return
    if name in ("role", "session_authorization"):
        whom = "" if statement.values in ((), ("none",)) else statement.values[0]
        set_role(engine, ast.SetRole(whom, name != "role", statement.local, statement.span))
        return
    if name == ISOLATION:
        if (level := given_value(engine, statement)) and engine.transactions.isolate is not None:
            engine.transactions.isolate(level)
        return
    if name in UNCHANGEABLE:
        raise ProgrammingError(f'setting "{name}" cannot be changed', span=statement.span)
    put_back, path = putting_back(engine.settings, name), engine.catalog.search_path

    def undo() -> None:
        put_back()
        if name == "search_path":
            engine.catalog.search_path = path

    settle(engine, undo, "SET LOCAL" if statement.local else "")
    if name == "search_path":
        _set_path(engine, statement)
    value = given_value(engine, statement)
    if value is None and "." not in name:
        engine.settings.pop(name, None)
    else:
        engine.settings[name] = value or ""


def _reset_all(engine: Engine) -> None:
    own = {one: "" for one in engine.settings if "." in one}
    engine.settings.clear()
    engine.settings.update(own)
    engine.catalog.search_path = USUAL_PATH
    engine.transactions.reads_only(default=False)


def _set_reading(engine: Engine, name: str, statement: ast.Set) -> None:

    value = switched(name, ", ".join(statement.values) or "off", statement.span)
    if name == "default_transaction_read_only":
        set_default(engine, value)
    elif not engine.transactions.idle:
        engine.transactions.read_only = value == "on"


def _set_path(engine: Engine, statement: ast.Set) -> None:
    """As in Postgres, schemas that do not exist are passed over; no schema at all, as in dumps, is public."""
    given = statement.values
    engine.catalog.search_path = path_of(", ".join(given)) if given else USUAL_PATH


def set_constraints(engine: Engine, statement: ast.SetConstraints) -> None:
    """SET CONSTRAINTS."""
    references = engine.tables.foreign_keys
    known = {link.key.name.lower(): link.key for link in references.all()}
    for name in statement.names:
        if name.lower() not in known:
            raise ProgrammingError(f'constraint "{name}" does not exist', span=statement.span)
        if not known[name.lower()].deferrable:
            raise ProgrammingError(f'constraint "{name}" is not deferrable', span=statement.span)
    if engine.transactions.idle:
        return
    names = {name.lower() for name in statement.names} or set(known)
    engine.transactions.settled.note(engine.transactions.depth, deferral(engine.tables.foreign_keys))
    references.defer(names, deferred=statement.deferred)
    if not statement.deferred:
        references.settle(committing=False)


def prepare(engine: Engine, statement: ast.Prepare) -> None:
    """PREPARE."""
    engine.prepared.check_free(statement.name, statement.span)
    parse(statement.text)
    engine.prepared[statement.name] = statement


def check_query(text: str, span: Span) -> None:
    """ProgrammingError unless a prepared statement is a query."""
    (parsed,) = parse(text)
    if not isinstance(parsed, Select):
        error = ProgrammingError("prepared statement is not a SELECT", span=span)
        error.sqlstate = "42809"
        raise error


def execute_prepared(engine: Engine, statement: ast.Execute) -> "Result | Maintained | None":
    """EXECUTE."""
    with engine.transactions.undoing():
        bound = executed(engine, statement)
    return engine.nested.execute(engine, bound)


def executed(engine: Engine, statement: ast.Execute) -> Statement:
    """What EXECUTE runs: the statement that was prepared, with its values, within what stands around it."""

    found = engine.prepared.find(engine, statement.name)
    if found is None:
        raise ProgrammingError(f'prepared statement "{statement.name}" does not exist', span=statement.span)
    before, behind = statement.around
    if before and before.split()[0].lower() == "create":
        check_query(found.text, statement.span)
    (parsed,) = parse(f"{before}{found.text}{behind}" if before else found.text)
    return with_values(parsed, statement.values, found.types)


Changing = statements.Insert | statements.Delete | statements.Update | statements.Merge | statements.CopyFrom
TRUE: Final = ("on", "true", "yes", "1", "t", "y")


def verb_of(statement: object) -> str:
    """What a statement is called: ``CREATE TABLE`` for ``CreateTable``."""
    if isinstance(statement, statements.Drop):
        return f"DROP {statement.kind}"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(statement).__name__).upper()


def refused(engine: Engine, statement: object) -> None:
    """InterfaceError, the transaction being rolled back, for a statement that would change something."""
    with engine.transactions.undoing():
        error = InterfaceError(f"cannot execute {verb_of(statement)} in a read-only transaction")
        error.sqlstate = "25006"
        raise error


@contextmanager
def into_temporary(engine: Engine, statement: statements.Statement) -> Iterator[None]:
    """Temporary tables may be changed all the same; InterfaceError for a change of others."""
    name = statement.table if isinstance(statement, Changing) else ""
    entry = engine.catalog.find(name) if name else None
    if entry is None or not entry.name.startswith(f"{engine.catalog.temporary}."):
        refused(engine, statement)
    transactions = engine.transactions
    transactions.read_only = False
    try:
        yield
    finally:
        transactions.read_only = True


def set_modes(engine: Engine, statement: ast.SetTransaction) -> None:
    """SET TRANSACTION, and SET SESSION CHARACTERISTICS, which is about transactions to come."""
    transactions = engine.transactions
    if statement.snapshot:
        if engine.sessions is None:
            raise InterfaceError("only sessions have snapshots", hint="begin by db.session()")
        engine.sessions.join(statement.snapshot)
    elif statement.session:
        if statement.read_only is not None:
            set_default(engine, "on" if statement.read_only else "off")
        if statement.level:
            engine.settings["default_transaction_isolation"] = statement.level
    elif statement.read_only is not None and not transactions.idle:
        transactions.read_only = statement.read_only


def set_default(engine: Engine, value: str) -> None:
    """SET default_transaction_read_only."""
    reads_only = value.lower() in TRUE
    engine.settings["default_transaction_read_only"] = "on" if reads_only else "off"
    engine.transactions.reads_only(default=reads_only)


Row = tuple[int | str | None, ...]
LOW: Final = 2**32 - 1


def session_rows(engine: "Engine", what: str) -> Iterable[Row]:
    """The rows of a kind."""
    match what:
        case "cursors":
            return listed(engine)
        case "prepared":
            return _prepared(engine)
        case "locks":
            return _locks(engine)
        case "uses":
            return engine.views.uses()
        case "rows":
            return [(entry.name, engine.statistics.rows(entry.name)) for entry in _tables(engine)]
        case "changes":
            return [(one.name, *_changes(engine, one.name)) for one in _tables(engine)]
        case _:
            return [(name, shown(engine, name)) for name in sorted({*SETTINGS, *engine.settings})]


def _tables(engine: "Engine") -> Iterable["TableEntry"]:

    return [entry for entry in engine.catalog if isinstance(entry, TableEntry)]


def _changes(engine: "Engine", name: str) -> tuple[int, int, int]:
    """How many rows of a table came, were changed and went."""
    table = engine.find_table(name)
    return (0, 0, 0) if table is None else (table.tally.inserted, table.tally.updated, table.tally.deleted)


def _locks(engine: "Engine") -> Iterable[Row]:
    """Locks: a table or none, a rowid, two numbers and which kind of advisory lock it is, then of all kinds
    the session, the mode, and whether it has it.
    """
    if engine.used_locks is None:
        return
    for key, number, mode, granted in engine.locks.listed():
        first, *more = key
        shown, has = SHOWN.get(mode, mode), str(granted).lower()
        if isinstance(first, str):
            yield first, int(more[0]) if more else None, None, None, None, number, shown, has
            continue
        high, low = (first, int(more[0])) if more else (first >> 32 & LOW, first)
        yield None, None, high & LOW, low & LOW, len(key), number, shown, has


def _prepared(engine: "Engine") -> Iterable[Row]:
    for one, by_sql in engine.prepared.all(engine):
        place = one.span
        types = "{" + ",".join(one.types) + "}"
        yield one.name, place.source[place.start : place.end], types, int(by_sql)


def accept(engine: Engine, statement: ast.Accepted) -> None:
    """VACUUM, ANALYZE, REFRESH, REINDEX, CHECKPOINT, DISCARD and what asks for nothing here."""
    for fact, state in statement.skipped:
        say_skipped(engine, fact, state)
    what = statement.what
    transactions = engine.transactions
    inside = transactions.state is not State.NONE and not transactions.implicit
    if inside and (what == "VACUUM" or (what == "DISCARD" and statement.part == "ALL")):
        name = "DISCARD ALL" if what == "DISCARD" else what
        _refuse(f"{name} cannot run inside a transaction block", "25001")
    for relation in statement.relations:
        if what == "REINDEX" and statement.part != "TABLE":
            if statement.part == "INDEX":
                _check_index(engine, relation, statement)
            continue
        engine.catalog.get(relation, statement.span)
        if what == "REFRESH" and engine.catalog.is_limited:
            refuse_refresh(engine.catalog, relation, statement.span)
    if what in ("VACUUM", "ANALYZE", "ANALYSE"):
        _tidy(engine, statement)
    if what == "CHECKPOINT" and engine.keeper is not None:
        engine.refuse_in_transaction("CHECKPOINT")
        engine.keeper.checkpoint()
    if what == "DISCARD":
        _discard(engine, statement.part)


def _tidy(engine: Engine, statement: ast.Accepted) -> None:
    """VACUUM: rows and traces, of one database all, and its log; ANALYZE: statements are planned anew."""
    catalog = engine.catalog
    named = [catalog.get(relation, statement.span).name for relation in statement.relations]
    wanted = []
    for name in named or [entry.name for entry in catalog]:
        if not catalog.is_limited or catalog.rights.owns(catalog.asker.user, key_of(name)):
            wanted.append(name)
        elif named:
            warn(engine, f'permission denied to {statement.what.lower()} "{name}", skipping it')
    if statement.what != "VACUUM" or statement.part == "ANALYZE":
        catalog.version += 1  # the sizes of tables are known at any time: plans are not made for other ones
    if statement.what != "VACUUM":
        return
    if engine.executor.has_pending:
        _refuse("VACUUM cannot run inside a transaction block", "25001")
    engine.executor.vacuum(frozenset(wanted))
    if engine.keeper is not None and not named and not catalog.is_limited:
        engine.keeper.checkpoint()


def _refuse(message: str, state: str) -> None:
    error = InterfaceError(message)
    error.sqlstate = state
    raise error


def _check_index(engine: Engine, name: str, statement: ast.Accepted) -> None:
    """ProgrammingError if there is no index of a name."""

    plain = name.rpartition(".")[2].lower()
    if not any(known.name.rpartition(".")[2].lower() == plain for known in indexes(engine.catalog)):
        raise ProgrammingError(f'relation "{name}" does not exist', span=statement.span)


def _discard(engine: Engine, part: str) -> None:
    """Forget what the session has, or a part of it."""

    if part in ("ALL", "SEQUENCES") and engine.used_sequences is not None:
        engine.sequences.unask()
    if part in ("ALL", "TEMP"):
        end(engine)
    if part != "ALL":
        return
    forget(engine, engine.catalog.asker.number)
    engine.prepared.clear()
    place = Span("", 0, 0)
    set_setting(engine, ast.Set("", (), place))
    set_role(engine, ast.SetRole("", True, False, place))
    listen(engine, ast.Listen("", False, place))
