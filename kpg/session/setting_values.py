"""Values of settings: which ones each setting allows, and how they are parsed.

It covers durations, switches, isolation levels, and the output formats of timestamps, intervals, bytea and
floats.
"""

import re
from collections.abc import Callable
from typing import Final

from kpg.compiler.catalog.privileges import Asker, Rights
from kpg.compiler.sql.parse import statements as ast
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.values import date_time, intervals
from kpg.runtime.values.styles import NAMES
from kpg.session.engine import Engine
from kpg.session.memory_limit import SETTING, in_force, statement_limit
from kpg.session.notices import warn
from kpg.session.transaction import State

UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1e-3}
DURATION: Final = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(us|ms|s|min|h|d|)\s*")
TIMES: Final = frozenset(
    {"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"}
)
MOST_SECONDS: Final = (2**31 - 1) / 1000
LEVELS: Final = ("read uncommitted", "read committed", "repeatable read", "serializable")
ISOLATION: Final = "transaction_isolation"
ISOLATIONS: Final = frozenset({ISOLATION, f"default_{ISOLATION}"})
CHECKED: Final = TIMES | ISOLATIONS
"""The names of those that :func:`checked` knows."""


def seconds_of(text: str) -> float:
    """A duration as settings have it: a number of milliseconds, or one with a unit. 0 if it is none."""
    found = DURATION.fullmatch(text)
    return 0.0 if found is None else float(found[1]) * UNITS[found[2]]


def checked(name: str, value: str, span: Span) -> str:
    """A time limit, or a level in lower case; ProgrammingError for what is neither.

    In silence it would be no limit, and a weaker level than was asked for.
    """
    if name in ISOLATIONS:
        if value.lower() in LEVELS:
            return value.lower()
        hint = ", ".join(LEVELS)
    else:
        if DURATION.fullmatch(value) is not None and seconds_of(value) <= MOST_SECONDS:
            return value
        hint = "a number of milliseconds, or one with a unit: us, ms, s, min, h, d"
    error = ProgrammingError(f'invalid value for parameter "{name}": "{value}"', span=span, hint=hint)
    error.sqlstate = "22023"
    raise error


def switched(name: str, value: str, span: Span) -> str:
    """``on`` or ``off``, by whatever word."""
    word = value.lower()
    for found, words in (("on", ("on", "true", "yes", "1")), ("off", ("off", "false", "no", "0"))):
        if word in words or (word and word != "o" and any(one.startswith(word) for one in words)):
            return found
    error = ProgrammingError(f'parameter "{name}" requires a Boolean value', span=span)
    error.sqlstate = "22023"
    raise error


DATES: Final = {"iso": "ISO", "sql": "SQL", "postgres": "Postgres", "german": "German"}
ORDERS: Final = {
    **dict.fromkeys(("mdy", "us", "noneuro", "noneuropean"), "MDY"),
    **dict.fromkeys(("dmy", "euro", "european"), "DMY"),
    "ymd": "YMD",
}
CHOICES: Final = {
    "intervalstyle": ("postgres", "postgres_verbose", "sql_standard", "iso_8601"),
    "bytea_output": ("hex", "escape"),
}
UTC: Final = ("utc", "gmt", "uct", "etc/utc", "etc/gmt", "zulu", "0", "local", "default", "universal")
HOURS: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
"""A number: hours east of Greenwich. What has a colon is a POSIX text, and counts to the west."""
SPAN: Final = re.compile(r"interval\s+'([^']*)'", re.IGNORECASE)


def meant(name: str, value: str, before: str, span: Span) -> str:
    """What a setting is from now on; ProgrammingError for what it cannot be."""
    plain = value.strip().lower()
    if name in CHOICES and plain in CHOICES[name]:
        return plain
    if name == "extra_float_digits" and re.fullmatch(r"-?\d{1,2}", plain) and -15 <= int(plain) <= 3:
        return plain if int(plain) < 1 else "1"
    found = _dates(plain, before) if name == "datestyle" else _zone(value) if name == "timezone" else None
    if found is None:
        raise ProgrammingError(f'invalid value for parameter "{name}": "{value}"', span=span)
    return found


def _dates(text: str, before: str) -> str | None:
    dates, _, order = before.partition(", ")
    for word in filter(None, re.split(r"[,\s]+", text)):
        if word in DATES:
            dates = DATES[word]
            order = "DMY" if word == "german" else order
        elif word in ORDERS:
            order = ORDERS[word]
        elif word == "default":
            dates, order = "ISO", "MDY"
        else:
            return None
    return f"{dates}, {order}"


def _zone(text: str) -> str | None:
    """The name of a time zone; of hours east of Greenwich the name that POSIX has for it."""
    plain = text.strip()
    if plain.lower() in UTC:
        return "UTC"
    span = SPAN.fullmatch(plain)
    try:
        if HOURS.fullmatch(plain):
            return date_time.named(_posix(int(float(plain) * 3600)))
        if span is not None:
            months, days, micros = intervals.parse(span[1])
            return None if months or days else date_time.named(_posix(int(micros / intervals.SECOND)))
        return date_time.named(plain)
    except (ValueError, OverflowError):
        return None


def _posix(east: int) -> str:
    """The POSIX text of a time zone that many seconds east of Greenwich."""
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
ROLES: Final = frozenset({"role", "is_superuser", "session_authorization"})


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


def check_value(engine: Engine, name: str, value: str, span: Span) -> None:
    """Refuse a value that SET would refuse."""
    if name in SETTINGS:
        given_value(engine, ast.Set(name, (value,), span))


def given_value(engine: Engine, statement: ast.Set) -> str | None:
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


def settle(engine: Engine, undo: Callable[[], object], local: str) -> None:
    """Have a setting be taken back with its transaction; if it is ``local``, at the end of it anyhow."""
    if not engine.transactions.idle:
        engine.transactions.settled.note(engine.transactions.depth, undo)
    if not local:
        return
    if engine.transactions.state is State.NONE:
        warn(engine, f"{local} can only be used in transaction blocks", "25P01")
    engine.transactions.settled.until_end(undo)
