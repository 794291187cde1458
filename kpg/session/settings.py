"""Statements of a session: savepoints, settings, prepared statements.

Transactions that are READ ONLY: what they refuse, and how a session asks for them.

What a session has, as relations of the system show it: cursors, prepared statements, settings.

VACUUM, DISCARD and their like: little to do here, and what Postgres refuses of them is refused.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, assert_never

from kpg.api.result import Result, listing
from kpg.compiler.catalog.access_control import key_of
from kpg.compiler.catalog.entries import TableEntry, did_you_mean
from kpg.compiler.catalog.privileges import Asker, Rights
from kpg.compiler.qualified_names import USUAL_PATH, path_of
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.session_statements import with_values
from kpg.compiler.sql.parse.statements import Select, Statement
from kpg.compiler.system.pg_index import indexes
from kpg.execute.changes.source_positions import set_position
from kpg.execute.queries.cursors import forget, listed, run_cursor
from kpg.execute.statements import execute
from kpg.runtime.errors import InterfaceError, NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import TEXT
from kpg.runtime.values.styles import NAMES
from kpg.session.engine import Engine
from kpg.session.locks import SHOWN
from kpg.session.memory_limit import SETTING, in_force, statement_limit
from kpg.session.notices import say_skipped, warn
from kpg.session.setting_values import CHECKED, ISOLATION, checked, meant, switched
from kpg.session.transaction import State
from kpg.session.undo import deferral, putting_back

if TYPE_CHECKING:
    from kpg.api.view import Maintained


SETTINGS: Final = {
    "application_name": "",
    "bytea_output": "hex",
    "check_function_bodies": "on",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "constraint_exclusion": "partition",
    "cursor_tuple_fraction": "0.1",
    "datestyle": "ISO, MDY",
    "debug_parallel_query": "off",
    "default_statistics_target": "100",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "effective_cache_size": "4GB",
    "enable_bitmapscan": "on",
    "enable_gathermerge": "on",
    "enable_hashagg": "on",
    "enable_hashjoin": "on",
    "enable_incremental_sort": "on",
    "enable_indexonlyscan": "on",
    "enable_indexscan": "on",
    "enable_material": "on",
    "enable_memoize": "on",
    "enable_mergejoin": "on",
    "enable_nestloop": "on",
    "enable_parallel_append": "on",
    "enable_parallel_hash": "on",
    "enable_partition_pruning": "on",
    "enable_presorted_aggregate": "on",
    "enable_seqscan": "on",
    "enable_sort": "on",
    "enable_tidscan": "on",
    "escape_string_warning": "on",
    "extra_float_digits": "1",
    "from_collapse_limit": "8",
    "geqo": "on",
    "geqo_threshold": "12",
    "hash_mem_multiplier": "2",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "intervalstyle": "postgres",
    "jit": "off",
    "jit_above_cost": "100000",
    "join_collapse_limit": "8",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "lock_timeout": "0",
    "log_statement": "none",
    "logical_decoding_work_mem": "64MB",
    "maintenance_work_mem": "64MB",
    "max_parallel_workers": "8",
    "max_parallel_workers_per_gather": "2",
    "min_parallel_index_scan_size": "512kB",
    "min_parallel_table_scan_size": "8MB",
    "parallel_leader_participation": "on",
    "parallel_setup_cost": "1000",
    "parallel_tuple_cost": "0.1",
    "plan_cache_mode": "auto",
    "random_page_cost": "4",
    "is_superuser": "on",
    "role": "none",
    "row_security": "on",
    "search_path": '"$user", public',
    "seq_page_cost": "1",
    "server_encoding": "UTF8",
    "server_version": "16.0",
    "server_version_num": "160000",
    "session_authorization": "kpg",
    "standard_conforming_strings": "on",
    SETTING: "0",
    "statement_timeout": "0",
    "synchronize_seqscans": "on",
    "synchronous_commit": "on",
    "temp_buffers": "8MB",
    "timezone": "UTC",
    "track_io_timing": "off",
    "transaction_isolation": "serializable",
    "transaction_read_only": "off",
    "vacuum_cost_delay": "0",
    "work_mem": "4MB",
    "xmlbinary": "base64",
    "xmloption": "content",
}
"""What SHOW shows at first. None of them changes an answer here but those of CHANGING."""
FIXED: Final = {
    "client_encoding": ("utf8", "utf-8", "unicode", "sql_ascii"),
    "standard_conforming_strings": ("on", "true", "1"),
}
"""Settings that would change answers: those values that say what is so anyhow."""
NAMED: Final = frozenset(
    {"synchronous_commit", "constraint_exclusion", "debug_parallel_query", "is_superuser"}
)
"""Settings that have other values than on and off."""
UNCHANGEABLE: Final = frozenset({"server_version", "server_version_num", "server_encoding", "is_superuser"})
ROLES: Final = frozenset({"role", "is_superuser", "session_authorization"})
Run = Callable[[Engine, Any], "Result | Maintained | None"]


def run_session(engine: Engine, statement: ast.AnySession, execute: Run) -> "Result | Maintained | None":
    """Run one statement."""
    match statement:
        case ast.Savepoint(kind="SAVE", name=name):
            with engine.transactions.undoing():
                engine.transactions.savepoint(name)
        case ast.Savepoint(kind="RETURN", name=name):
            engine.transactions.rollback_to(name)
        case ast.Savepoint(name=name):
            with engine.transactions.undoing():
                engine.transactions.release(name)
        case ast.Execute():
            return _execute(engine, statement, execute)
        case ast.SetPosition():
            with engine.transactions.statement(changes=True):
                set_position(engine, statement)
        case _:
            with engine.transactions.statement(changes=False):
                outcome = _setting(engine, statement)
            engine.transactions.say()
            return outcome
    return None


def _setting(engine: Engine, statement: ast.AnySession) -> Result | None:
    match statement:
        case ast.SetConstraints():
            _set_constraints(engine, statement)
        case ast.Set():
            _set(engine, statement)
        case ast.SetRole():
            from kpg.postgres.roles import set_role

            set_role(engine, statement)
        case ast.Show(name="all"):
            names = sorted(SETTINGS)
            return listing({"name": (TEXT, names), "setting": (TEXT, [shown(engine, one) for one in names])})
        case ast.Show(name=name):
            if name not in SETTINGS and name not in engine.settings:
                raise _unknown(name, statement.span)
            return listing({name: (TEXT, [shown(engine, name)])})
        case ast.LockTable() | ast.Accepted():
            accept(engine, statement)
        case ast.SetTransaction():
            set_modes(engine, statement)
        case ast.Notify(channel=channel, payload=payload):
            engine.transactions.box(engine.channels).notify(channel, payload, engine.transactions.depth)
        case ast.Listen(channel=channel, begins=True):
            engine.transactions.box(engine.channels).listen(channel, engine.transactions.depth)
        case ast.Listen(channel=channel):
            engine.transactions.box(engine.channels).unlisten(channel, engine.transactions.depth)
        case ast.Prepare():
            _prepare(engine, statement)
        case ast.Deallocate(name=""):
            engine.prepared.clear()
        case ast.Deallocate(name=name):
            if not engine.prepared.drop(name):
                raise ProgrammingError(f'prepared statement "{name}" does not exist', span=statement.span)
        case ast.Declare() | ast.Fetch() | ast.Close():
            return run_cursor(engine, statement)
        case ast.Savepoint() | ast.Execute() | ast.SetPosition():
            raise AssertionError(statement)
        case _:
            assert_never(statement)
    return None


def of_asker(asker: Asker, rights: Rights) -> dict[str, str]:
    """The settings that say who asks."""
    return {
        "is_superuser": "on" if rights.is_superuser(asker.user) else "off",
        "session_authorization": asker.login,
        "role": "none" if asker.user == asker.login else asker.user,
    }


def shown(engine: Engine, name: str) -> str:
    """What SHOW shows of a setting."""
    if name in ROLES:
        return of_asker(engine.catalog.asker, engine.catalog.rights)[name]
    if name == "transaction_read_only":
        return "on" if engine.transactions.read_only else "off"
    given = engine.settings.get(name, SETTINGS.get(name, ""))
    most = 0 if engine.sessions is None else engine.sessions.memory_bound
    return in_force(given, most) if name == SETTING else given


def _unknown(name: str, span: Span) -> ProgrammingError:
    message = f'unrecognized configuration parameter "{name}"'
    error = ProgrammingError(message, span=span, hint=did_you_mean(name, SETTINGS))
    error.sqlstate = "42704"
    return error


def _set(engine: Engine, statement: ast.Set) -> None:
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
        from kpg.postgres.roles import set_role

        whom = "" if statement.values in ((), ("none",)) else statement.values[0]
        set_role(engine, ast.SetRole(whom, name != "role", statement.local, statement.span))
        return
    if name == ISOLATION:
        if (level := _given_value(engine, statement)) and engine.transactions.isolate is not None:
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
    value = _given_value(engine, statement)
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


def check_value(engine: Engine, name: str, value: str, span: Span) -> None:
    """Refuse a value that SET would refuse."""
    if name in SETTINGS:
        _given_value(engine, ast.Set(name, (value,), span))


def _given_value(engine: Engine, statement: ast.Set) -> str | None:
    """What SET gives; None where that is what the setting is by itself."""
    name, value = statement.name, ", ".join(statement.values)
    if not statement.values:
        return None
    if name in NAMES:
        found = meant(name, value, shown(engine, name), statement.span)
        return None if found == SETTINGS[name] else found
    if SETTINGS.get(name) in ("on", "off") and name not in (*NAMED, *FIXED):
        return switched(name, value, statement.span)
    if name in CHECKED:
        return checked(name, value, statement.span)
    if name == SETTING:
        statement_limit(name, value, statement.span)
    if name in FIXED and value.lower() not in FIXED[name]:
        raise NotSupportedError(
            f"{name} = {value} is not supported", span=statement.span, hint=f"it is {SETTINGS[name]}"
        )
    return value


def _set_reading(engine: Engine, name: str, statement: ast.Set) -> None:

    value = switched(name, ", ".join(statement.values) or "off", statement.span)
    if name == "default_transaction_read_only":
        set_default(engine, value)
    elif not engine.transactions.idle:
        engine.transactions.read_only = value == "on"


def settle(engine: Engine, undo: Callable[[], object], local: str) -> None:
    """Have a setting be taken back with its transaction; if it is ``local``, at the end of it anyhow."""
    if not engine.transactions.idle:
        engine.transactions.settled.note(engine.transactions.depth, undo)
    if not local:
        return
    if engine.transactions.state is State.NONE:
        warn(engine, f"{local} can only be used in transaction blocks", "25P01")
    engine.transactions.settled.until_end(undo)


def _set_path(engine: Engine, statement: ast.Set) -> None:
    """As in Postgres, schemas that do not exist are passed over; no schema at all, as in dumps, is public."""
    given = statement.values
    engine.catalog.search_path = path_of(", ".join(given)) if given else USUAL_PATH


def _set_constraints(engine: Engine, statement: ast.SetConstraints) -> None:
    references = engine.references
    known = {link.key.name.lower(): link.key for link in references.all()}
    for name in statement.names:
        if name.lower() not in known:
            raise ProgrammingError(f'constraint "{name}" does not exist', span=statement.span)
        if not known[name.lower()].deferrable:
            raise ProgrammingError(f'constraint "{name}" is not deferrable', span=statement.span)
    if engine.transactions.idle:
        return
    names = {name.lower() for name in statement.names} or set(known)
    engine.transactions.settled.note(engine.transactions.depth, deferral(engine.references))
    references.defer(names, deferred=statement.deferred)
    if not statement.deferred:
        references.settle(committing=False)


def _prepare(engine: Engine, statement: ast.Prepare) -> None:
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


def _execute(engine: Engine, statement: ast.Execute, execute: Run) -> "Result | Maintained | None":
    with engine.transactions.undoing():
        bound = executed(engine, statement)
    return execute(engine, bound)


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
            return engine.uses()
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
    if "locks" not in vars(engine):
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


def accept(engine: Engine, statement: ast.Accepted | ast.LockTable) -> None:
    """Run one statement."""
    if isinstance(statement, ast.LockTable):
        from kpg.execute.table_locks import lock_tables

        lock_tables(engine, statement)
        return
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
            from kpg.postgres.privileges import refuse_refresh

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
    from kpg.execute.definitions.ddl import end

    if part in ("ALL", "SEQUENCES") and "sequences" in vars(engine):
        engine.sequences.unask()
    if part in ("ALL", "TEMP"):
        end(engine)
    if part != "ALL":
        return
    forget(engine, engine.catalog.asker.number)
    engine.prepared.clear()
    place = Span("", 0, 0)
    for one in (ast.Set("", (), place), ast.SetRole("", True, False, place), ast.Listen("", False, place)):
        run_session(engine, one, execute)
