"""Statements of a session: savepoints, settings, prepared statements."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, assert_never

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.catalog.privileges import Asker, Rights
from kpg.compiler.catalog.qualified_names import USUAL_PATH, path_of
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import Select, Statement
from kpg.engine.engine import Engine
from kpg.engine.memory import SETTING, in_force, statement_limit
from kpg.engine.settled import deferral, putting_back
from kpg.engine.transaction import State
from kpg.listeners.notices import warn
from kpg.result import Result, listing
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import TEXT
from kpg.runtime.values.styles import NAMES
from kpg.settings.limits import CHECKED, ISOLATION, checked, switched

if TYPE_CHECKING:
    from kpg.view import Maintained

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
            from kpg.dml.positions import set_position

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
            from kpg.security.roles import set_role

            set_role(engine, statement)
        case ast.Show(name="all"):
            names = sorted(SETTINGS)
            return listing({"name": (TEXT, names), "setting": (TEXT, [shown(engine, one) for one in names])})
        case ast.Show(name=name):
            if name not in SETTINGS and name not in engine.settings:
                raise _unknown(name, statement.span)
            return listing({name: (TEXT, [shown(engine, name)])})
        case ast.LockTable() | ast.Accepted():
            from kpg.settings.accepting import accept

            accept(engine, statement)
        case ast.SetTransaction():
            from kpg.settings.readonly import set_modes

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
            from kpg.statements.cursors import run_cursor

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
        from kpg.security.roles import set_role

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
        from kpg.settings.styles import meant

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
    from kpg.settings.readonly import set_default

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
    from kpg.compiler.sql.parse.session_statements import with_values

    found = engine.prepared.find(engine, statement.name)
    if found is None:
        raise ProgrammingError(f'prepared statement "{statement.name}" does not exist', span=statement.span)
    before, behind = statement.around
    if before and before.split()[0].lower() == "create":
        check_query(found.text, statement.span)
    (parsed,) = parse(f"{before}{found.text}{behind}" if before else found.text)
    return with_values(parsed, statement.values, found.types)
