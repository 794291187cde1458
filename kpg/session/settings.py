"""Session statements: settings, savepoints, prepared statements, transaction modes, VACUUM and DISCARD.

It also refuses writes in READ ONLY transactions, and provides the rows of the system relations on a session:
cursors, prepared statements and settings. VACUUM and similar statements do little here. They refuse what
Postgres refuses.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kpg.api.result import Result, listing
from kpg.compiler.catalog.access_control import relation_key, require_view_owner
from kpg.compiler.catalog.entries import TableEntry, did_you_mean
from kpg.compiler.qualified_names import DEFAULT_SEARCH_PATH, parse_search_path
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.session_statements import substitute_arguments
from kpg.compiler.sql.parse.statements import Select, Statement
from kpg.compiler.system.pg_index import indexes
from kpg.execute import access_control
from kpg.execute.definitions.ddl import drop_temporary
from kpg.execute.queries.cursors import close_all, list_cursors
from kpg.runtime.errors import InterfaceError, ProgrammingError, Span
from kpg.runtime.types import TEXT
from kpg.session.engine import Engine
from kpg.session.locks import LISTED_MODES
from kpg.session.notices import notice_skipped, warn
from kpg.session.setting_values import (
    ISOLATION,
    SETTINGS,
    effective_value,
    new_value,
    parse_boolean,
    revert_at_rollback,
)
from kpg.session.transaction import State
from kpg.session.undo import make_deferral_restorer, make_restorer

if TYPE_CHECKING:
    from kpg.api.view import MaintainedView


READ_ONLY_SETTINGS: Final = frozenset(
    {"server_version", "server_version_num", "server_encoding", "is_superuser"}
)


def show(engine: Engine, statement: ast.Show) -> Result:
    """Run SHOW of a setting, or of all."""
    name = statement.name
    if name == "all":
        names = sorted(SETTINGS)
        return listing(
            {
                "name": (TEXT, names),
                "setting": (TEXT, [effective_value(engine, setting) for setting in names]),
            }
        )
    if name not in SETTINGS and name not in engine.settings:
        raise _unknown(name, statement.span)
    return listing({name: (TEXT, [effective_value(engine, name)])})


def notify(engine: Engine, statement: ast.Notify) -> None:
    """Run NOTIFY."""
    transactions = engine.transactions
    transactions.get_mailbox(engine.channels).notify(statement.channel, statement.payload, transactions.depth)


def listen(engine: Engine, statement: ast.Listen) -> None:
    """Run LISTEN or UNLISTEN."""
    transactions = engine.transactions
    box = transactions.get_mailbox(engine.channels)
    (box.listen if statement.listens else box.unlisten)(statement.channel, transactions.depth)


def deallocate(engine: Engine, statement: ast.Deallocate) -> None:
    """Run DEALLOCATE of a prepared statement, or of all."""
    name = statement.name
    if not name:
        engine.prepared_statements.clear()
    elif not engine.prepared_statements.drop(name):
        raise ProgrammingError(
            f'prepared statement "{name}" does not exist', span=statement.span, sqlstate="26000"
        )


def _unknown(name: str, span: Span) -> ProgrammingError:
    message = f'unrecognized configuration parameter "{name}"'
    error = ProgrammingError(message, span=span, hint=did_you_mean(name, SETTINGS))
    error.sqlstate = "42704"
    return error


def set_setting(engine: Engine, statement: ast.Set) -> None:
    """Run SET of a setting, or RESET."""
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
        _set_read_only(engine, name, statement)
        return
    if name in ("role", "session_authorization"):
        role = "" if statement.values in ((), ("none",)) else statement.values[0]
        access_control.installed().set_role(
            engine, ast.SetRole(role, name != "role", statement.local, statement.span)
        )
        return
    if name == ISOLATION:
        if (level := new_value(engine, statement)) and engine.transactions.set_isolation_level is not None:
            engine.transactions.set_isolation_level(level)
        return
    if name in READ_ONLY_SETTINGS:
        raise ProgrammingError(f'setting "{name}" cannot be changed', span=statement.span)
    restore, path = make_restorer(engine.settings, name), engine.catalog.search_path

    def undo() -> None:
        restore()
        if name == "search_path":
            engine.catalog.search_path = path

    revert_at_rollback(engine, undo, "SET LOCAL" if statement.local else "")
    if name == "search_path":
        _set_path(engine, statement)
    value = new_value(engine, statement)
    if value is None and "." not in name:
        engine.settings.pop(name, None)
    else:
        engine.settings[name] = value or ""


def _reset_all(engine: Engine) -> None:
    custom = {setting: "" for setting in engine.settings if "." in setting}
    engine.settings.clear()
    engine.settings.update(custom)
    engine.catalog.search_path = DEFAULT_SEARCH_PATH
    engine.transactions.set_default_read_only(default=False)


def _set_read_only(engine: Engine, name: str, statement: ast.Set) -> None:

    value = parse_boolean(name, ", ".join(statement.values) or "off", statement.span)
    if name == "default_transaction_read_only":
        set_default_read_only(engine, value)
    elif not engine.transactions.is_idle:
        engine.transactions.is_read_only = value == "on"


def _set_path(engine: Engine, statement: ast.Set) -> None:
    """Set the search path. As in Postgres, missing schemas are ignored; an empty path means public."""
    given = statement.values
    engine.catalog.search_path = parse_search_path(", ".join(given)) if given else DEFAULT_SEARCH_PATH


def set_constraints(engine: Engine, statement: ast.SetConstraints) -> None:
    """Run SET CONSTRAINTS."""
    references = engine.tables.foreign_keys
    known = {link.key.name.lower(): link.key for link in references.all_keys()}
    for name in statement.names:
        if name.lower() not in known:
            raise ProgrammingError(f'constraint "{name}" does not exist', span=statement.span)
        if not known[name.lower()].deferrable:
            raise ProgrammingError(f'constraint "{name}" is not deferrable', span=statement.span)
    if engine.transactions.is_idle:
        return
    names = {name.lower() for name in statement.names} or set(known)
    engine.transactions.setting_changes.add(
        engine.transactions.depth, make_deferral_restorer(engine.tables.foreign_keys)
    )
    references.defer(names, deferred=statement.deferred)
    if not statement.deferred:
        references.run_actions_and_check(at_commit=False)


def prepare(engine: Engine, statement: ast.Prepare) -> None:
    """Run PREPARE."""
    engine.prepared_statements.check_name_free(statement.name, statement.span)
    parse(statement.text)
    engine.prepared_statements[statement.name] = statement


def check_query(text: str, span: Span) -> None:
    """Raise ProgrammingError unless a prepared statement is a query."""
    (parsed,) = parse(text)
    if not isinstance(parsed, Select):
        error = ProgrammingError("prepared statement is not a SELECT", span=span)
        error.sqlstate = "42809"
        raise error


def execute_prepared(engine: Engine, statement: ast.Execute) -> "Result | MaintainedView | None":
    """Run EXECUTE."""
    with engine.transactions.failing_on_error():
        bound = expand_execute(engine, statement)
    return engine.nested_execution.execute(engine, bound)


def expand_execute(engine: Engine, statement: ast.Execute) -> Statement:
    """Return the statement that EXECUTE runs: the prepared one with values, in the surrounding statement."""

    found = engine.prepared_statements.find(engine, statement.name)
    if found is None:
        raise ProgrammingError(
            f'prepared statement "{statement.name}" does not exist', span=statement.span, sqlstate="26000"
        )
    before, behind = statement.enclosing_text
    if before and before.split()[0].lower() == "create":
        check_query(found.text, statement.span)
    (parsed,) = parse(f"{before}{found.text}{behind}" if before else found.text)
    return substitute_arguments(parsed, statement.values, found.types)


WriteStatement = (
    statements.Insert | statements.Delete | statements.Update | statements.Merge | statements.CopyFrom
)
TRUE: Final = ("on", "true", "yes", "1", "t", "y")


def refuse_write(engine: Engine, statement: Statement) -> None:
    """Raise InterfaceError for a write in a read-only transaction, which is rolled back."""
    with engine.transactions.failing_on_error():
        error = InterfaceError(f"cannot execute {statement.command_tag()} in a read-only transaction")
        error.sqlstate = "25006"
        raise error


@contextmanager
def allow_temporary(engine: Engine, statement: statements.Statement) -> Iterator[None]:
    """Allow a write to a temporary table in a read-only transaction; InterfaceError for other writes."""
    name = statement.table if isinstance(statement, WriteStatement) else ""
    entry = engine.catalog.find(name) if name else None
    if entry is None or not entry.name.startswith(f"{engine.catalog.temporary_schema}."):
        refuse_write(engine, statement)
    transactions = engine.transactions
    transactions.is_read_only = False
    try:
        yield
    finally:
        transactions.is_read_only = True


def set_transaction_modes(engine: Engine, statement: ast.SetTransaction) -> None:
    """Run SET TRANSACTION or SET SESSION CHARACTERISTICS, which applies to later transactions."""
    transactions = engine.transactions
    if statement.snapshot:
        if engine.sessions is None:
            raise InterfaceError("only sessions have snapshots", hint="open a session with db.session()")
        engine.sessions.import_snapshot(statement.snapshot)
    elif statement.session:
        if statement.read_only is not None:
            set_default_read_only(engine, "on" if statement.read_only else "off")
        if statement.level:
            engine.settings["default_transaction_isolation"] = statement.level
    elif statement.read_only is not None and not transactions.is_idle:
        transactions.is_read_only = statement.read_only


def set_default_read_only(engine: Engine, value: str) -> None:
    """Run SET default_transaction_read_only."""
    reads_only = value.lower() in TRUE
    engine.settings["default_transaction_read_only"] = "on" if reads_only else "off"
    engine.transactions.set_default_read_only(default=reads_only)


Row = tuple[int | str | None, ...]
LOW_BITS: Final = 2**32 - 1


def session_rows(engine: "Engine", kind: str) -> Iterable[Row]:
    """Return the rows of a system relation on the session."""
    match kind:
        case "cursors":
            return list_cursors(engine)
        case "prepared":
            return _prepared_rows(engine)
        case "locks":
            return _lock_rows(engine)
        case "uses":
            return engine.views.read_pairs()
        case "rows":
            return [(entry.name, engine.statistics.rows(entry.name)) for entry in _table_entries(engine)]
        case "changes":
            return [
                (table_entry.name, *_row_changes(engine, table_entry.name))
                for table_entry in _table_entries(engine)
            ]
        case _:
            return [(name, effective_value(engine, name)) for name in sorted({*SETTINGS, *engine.settings})]


def _table_entries(engine: "Engine") -> Iterable["TableEntry"]:

    return [entry for entry in engine.catalog if isinstance(entry, TableEntry)]


def _row_changes(engine: "Engine", name: str) -> tuple[int, int, int]:
    """Return the numbers of inserted, updated and deleted rows of a table."""
    table = engine.find_table(name)
    return (0, 0, 0) if table is None else (table.tally.inserted, table.tally.updated, table.tally.deleted)


def _lock_rows(engine: "Engine") -> Iterable[Row]:
    """Yield table, rowid, two numbers and the kind of an advisory lock, session, mode, granted."""
    if engine.used_locks is None:
        return
    for key, number, mode, granted in engine.locks.list_locks():
        first, *more = key
        shown, has = LISTED_MODES.get(mode, mode), str(granted).lower()
        if isinstance(first, str):
            yield first, int(more[0]) if more else None, None, None, None, number, shown, has
            continue
        high, low = (first, int(more[0])) if more else (first >> 32 & LOW_BITS, first)
        yield None, None, high & LOW_BITS, low & LOW_BITS, len(key), number, shown, has


def _prepared_rows(engine: "Engine") -> Iterable[Row]:
    for statement, by_sql in engine.prepared_statements.named_statements(engine):
        place = statement.span
        types = "{" + ",".join(statement.types) + "}"
        yield statement.name, place.source[place.start : place.end], types, int(by_sql)


def run_maintenance(engine: Engine, statement: ast.Utility) -> None:
    """Run VACUUM, ANALYZE, REFRESH, REINDEX, CHECKPOINT, DISCARD, or a statement without effect."""
    for fact, state in statement.notices:
        notice_skipped(engine, fact, state)
    what = statement.command
    transactions = engine.transactions
    inside = transactions.state is not State.NONE and not transactions.is_implicit
    if inside and (what == "VACUUM" or (what == "DISCARD" and statement.option == "ALL")):
        name = "DISCARD ALL" if what == "DISCARD" else what
        _refuse(f"{name} cannot run inside a transaction block", "25001")
    for relation in statement.relations:
        if what == "REINDEX" and statement.option != "TABLE":
            if statement.option == "INDEX":
                _check_index(engine, relation, statement)
            continue
        engine.catalog.get(relation, statement.span)
        if what == "REFRESH" and engine.catalog.checks_privileges:
            require_view_owner(engine.catalog, relation, statement.span)
    if what in ("VACUUM", "ANALYZE", "ANALYSE"):
        _vacuum(engine, statement)
    if what == "CHECKPOINT" and engine.write_ahead_log is not None:
        engine.refuse_in_transaction("CHECKPOINT")
        engine.write_ahead_log.checkpoint()
    if what == "DISCARD":
        _discard(engine, statement.option)


def _vacuum(engine: Engine, statement: ast.Utility) -> None:
    """Run VACUUM, for the whole database including its log, or ANALYZE, which invalidates cached plans."""
    catalog = engine.catalog
    relations = [catalog.get(relation, statement.span).name for relation in statement.relations]
    permitted = []
    for name in relations or [entry.name for entry in catalog]:
        if not catalog.checks_privileges or catalog.privileges.owns(catalog.asker.user, relation_key(name)):
            permitted.append(name)
        elif relations:
            warn(engine, f'permission denied to {statement.command.lower()} "{name}", skipping it')
    if statement.command != "VACUUM" or statement.option == "ANALYZE":
        catalog.invalidate_plans()  # table sizes are always exact
    if statement.command != "VACUUM":
        return
    if engine.executor.tables.has_pending:
        _refuse("VACUUM cannot run inside a transaction block", "25001")
    engine.executor.vacuum(frozenset(permitted))
    if engine.write_ahead_log is not None and not relations and not catalog.checks_privileges:
        engine.write_ahead_log.checkpoint()


def _refuse(message: str, state: str) -> None:
    error = InterfaceError(message)
    error.sqlstate = state
    raise error


def _check_index(engine: Engine, name: str, statement: ast.Utility) -> None:
    """Raise ProgrammingError if there is no index of that name."""

    plain = name.rpartition(".")[2].lower()
    if not any(index.name.rpartition(".")[2].lower() == plain for index in indexes(engine.catalog)):
        raise ProgrammingError(f'relation "{name}" does not exist', span=statement.span)


def _discard(engine: Engine, part: str) -> None:
    if part in ("ALL", "SEQUENCES") and engine.used_sequences is not None:
        engine.sequences.forget_session()
    if part in ("ALL", "TEMP"):
        drop_temporary(engine)
    if part != "ALL":
        return
    close_all(engine, engine.catalog.asker.number)
    engine.prepared_statements.clear()
    place = Span("", 0, 0)
    set_setting(engine, ast.Set("", (), place))
    asker = engine.catalog.asker
    if not asker.user == asker.login == asker.came_as:
        access_control.installed().set_role(engine, ast.SetRole("", True, False, place))
    listen(engine, ast.Listen("", False, place))
