"""Values of settings: which ones each setting allows, and how they are parsed.

It covers durations, switches, isolation levels, and the output formats of timestamps, intervals, bytea and
floats.
"""

import re
from collections.abc import Callable
from typing import Final

from kpg.compiler.catalog.privileges import Asker, Privileges
from kpg.compiler.sql.parse import statements as ast
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.values import date_time, intervals
from kpg.runtime.values.styles import STYLE_SETTINGS
from kpg.session.engine import Engine
from kpg.session.memory_limit import SETTING, effective_limit, parse_statement_limit
from kpg.session.notices import warn
from kpg.session.transaction import State

DURATION_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1e-3}
DURATION: Final = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(us|ms|s|min|h|d|)\s*")
DURATION_SETTINGS: Final = frozenset(
    {"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"}
)
MAX_SECONDS: Final = (2**31 - 1) / 1000
ISOLATION_LEVELS: Final = ("read uncommitted", "read committed", "repeatable read", "serializable")
ISOLATION: Final = "transaction_isolation"
ISOLATION_SETTINGS: Final = frozenset({ISOLATION, f"default_{ISOLATION}"})
VALIDATED_SETTINGS: Final = DURATION_SETTINGS | ISOLATION_SETTINGS
"""Settings that :func:`validate` accepts."""


def parse_duration(text: str) -> float:
    """Return a duration in seconds: a number of milliseconds, or one with a unit; 0 if malformed."""
    found = DURATION.fullmatch(text)
    return 0.0 if found is None else float(found[1]) * DURATION_UNITS[found[2]]


def validate(name: str, value: str, span: Span) -> str:
    """Return a valid duration or isolation level; ProgrammingError otherwise."""
    if name in ISOLATION_SETTINGS:
        if value.lower() in ISOLATION_LEVELS:
            return value.lower()
        hint = ", ".join(ISOLATION_LEVELS)
    else:
        if DURATION.fullmatch(value) is not None and parse_duration(value) <= MAX_SECONDS:
            return value
        hint = "a number of milliseconds, or one with a unit: us, ms, s, min, h, d"
    error = ProgrammingError(f'invalid value for parameter "{name}": "{value}"', span=span, hint=hint)
    error.sqlstate = "22023"
    raise error


def parse_boolean(name: str, value: str, span: Span) -> str:
    """Return ``on`` or ``off`` for any spelling of a Boolean."""
    word = value.lower()
    for normalized, words in (("on", ("on", "true", "yes", "1")), ("off", ("off", "false", "no", "0"))):
        if word in words or (word and word != "o" and any(spelling.startswith(word) for spelling in words)):
            return normalized
    error = ProgrammingError(f'parameter "{name}" requires a Boolean value', span=span)
    error.sqlstate = "22023"
    raise error


DATE_STYLES: Final = {"iso": "ISO", "sql": "SQL", "postgres": "Postgres", "german": "German"}
DATE_ORDERS: Final = {
    **dict.fromkeys(("mdy", "us", "noneuro", "noneuropean"), "MDY"),
    **dict.fromkeys(("dmy", "euro", "european"), "DMY"),
    "ymd": "YMD",
}
ENUM_VALUES: Final = {
    "intervalstyle": ("postgres", "postgres_verbose", "sql_standard", "iso_8601"),
    "bytea_output": ("hex", "escape"),
}
UTC_NAMES: Final = ("utc", "gmt", "uct", "etc/utc", "etc/gmt", "zulu", "0", "local", "default", "universal")
HOURS: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
"""Hours east of Greenwich. A text with a colon is a POSIX zone, which counts west."""
INTERVAL_FORM: Final = re.compile(r"interval\s+'([^']*)'", re.IGNORECASE)


def normalize(name: str, value: str, current: str, span: Span) -> str:
    """Return the new value of a format setting; ProgrammingError if it is invalid."""
    plain = value.strip().lower()
    if name in ENUM_VALUES and plain in ENUM_VALUES[name]:
        return plain
    if name == "extra_float_digits" and re.fullmatch(r"-?\d{1,2}", plain) and -15 <= int(plain) <= 3:
        return plain if int(plain) < 1 else "1"
    found = (
        _parse_date_style(plain, current)
        if name == "datestyle"
        else _parse_time_zone(value)
        if name == "timezone"
        else None
    )
    if found is None:
        raise ProgrammingError(f'invalid value for parameter "{name}": "{value}"', span=span)
    return found


def _parse_date_style(text: str, before: str) -> str | None:
    dates, _, order = before.partition(", ")
    for word in filter(None, re.split(r"[,\s]+", text)):
        if word in DATE_STYLES:
            dates = DATE_STYLES[word]
            order = "DMY" if word == "german" else order
        elif word in DATE_ORDERS:
            order = DATE_ORDERS[word]
        elif word == "default":
            dates, order = "ISO", "MDY"
        else:
            return None
    return f"{dates}, {order}"


def _parse_time_zone(text: str) -> str | None:
    """Return the name of a time zone; hours east of Greenwich become a POSIX name."""
    plain = text.strip()
    if plain.lower() in UTC_NAMES:
        return "UTC"
    span = INTERVAL_FORM.fullmatch(plain)
    try:
        if HOURS.fullmatch(plain):
            return date_time.canonical_zone_name(_posix_zone(int(float(plain) * 3600)))
        if span is not None:
            months, days, micros = intervals.parse(span[1])
            return (
                None
                if months or days
                else date_time.canonical_zone_name(_posix_zone(int(micros / intervals.SECOND)))
            )
        return date_time.canonical_zone_name(plain)
    except (ValueError, OverflowError):
        return None


def _posix_zone(east: int) -> str:
    """Return the POSIX text of a fixed offset in seconds east of Greenwich."""
    minutes, seconds = divmod(abs(east), 60)
    shown = f"{minutes // 60:02d}" + (f":{minutes % 60:02d}" if minutes % 60 or seconds else "")
    shown += f":{seconds:02d}" if seconds else ""
    return f"<-{shown}>+{shown}" if east < 0 else f"<+{shown}>-{shown}"


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
"""Initial values. Only those in ``NAMES`` change results."""
FIXED_SETTINGS: Final = {
    "client_encoding": ("utf8", "utf-8", "unicode", "sql_ascii"),
    "standard_conforming_strings": ("on", "true", "1"),
}
"""Settings that would change results, with the only values that are accepted."""
NON_BOOLEAN_SETTINGS: Final = frozenset(
    {"synchronous_commit", "constraint_exclusion", "debug_parallel_query", "is_superuser"}
)
"""Settings whose values are not only on and off."""
ROLE_SETTINGS: Final = frozenset({"role", "is_superuser", "session_authorization"})


def role_settings(asker: Asker, rights: Privileges) -> dict[str, str]:
    """Return the settings that depend on the session's role."""
    return {
        "is_superuser": "on" if rights.is_superuser(asker.user) else "off",
        "session_authorization": asker.login,
        "role": "none" if asker.user == asker.login else asker.user,
    }


def effective_value(engine: Engine, name: str) -> str:
    """Return the value that SHOW returns."""
    if name in ROLE_SETTINGS:
        return role_settings(engine.catalog.asker, engine.catalog.privileges)[name]
    if name == "transaction_read_only":
        return "on" if engine.transactions.is_read_only else "off"
    setting = engine.settings.get(name, SETTINGS.get(name, ""))
    bound = 0 if engine.sessions is None else engine.sessions.memory_bound
    return effective_limit(setting, bound) if name == SETTING else setting


def check_value(engine: Engine, name: str, value: str, span: Span) -> None:
    """Raise the error that SET raises for an invalid value."""
    if name in SETTINGS:
        new_value(engine, ast.Set(name, (value,), span))


def new_value(engine: Engine, statement: ast.Set) -> str | None:
    """Return the value that SET stores; None for the initial value."""
    name, value = statement.name, ", ".join(statement.values)
    if not statement.values:
        return None
    if name in STYLE_SETTINGS:
        found = normalize(name, value, effective_value(engine, name), statement.span)
        return None if found == SETTINGS[name] else found
    if SETTINGS.get(name) in ("on", "off") and name not in (*NON_BOOLEAN_SETTINGS, *FIXED_SETTINGS):
        return parse_boolean(name, value, statement.span)
    if name in VALIDATED_SETTINGS:
        return validate(name, value, statement.span)
    if name == SETTING:
        parse_statement_limit(name, value, statement.span)
    if name in FIXED_SETTINGS and value.lower() not in FIXED_SETTINGS[name]:
        raise NotSupportedError(
            f"{name} = {value} is not supported", span=statement.span, hint=f"it is {SETTINGS[name]}"
        )
    return value


def revert_at_rollback(engine: Engine, undo: Callable[[], object], local: str) -> None:
    """Revert a setting when its transaction rolls back; with ``local``, when it ends in any way."""
    if not engine.transactions.is_idle:
        engine.transactions.setting_changes.add(engine.transactions.depth, undo)
    if not local:
        return
    if engine.transactions.state is State.NONE:
        warn(engine, f"{local} can only be used in transaction blocks", "25P01")
    engine.transactions.setting_changes.add_local(undo)
