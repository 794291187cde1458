"""Storage parameters of tables and indexes: Postgres' own are accepted without effect, others are refused.

Dumps and migration tools write them. Names and error messages are those of Postgres 16.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kpg.compiler.sql.parse.reader import Reader
from kpg.runtime.errors import ProgrammingError, Span


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VACUUM_PARAMETERS: Final = frozenset(
    (
        *("autovacuum_enabled", "autovacuum_vacuum_threshold", "autovacuum_vacuum_scale_factor"),
        *("autovacuum_vacuum_insert_threshold", "autovacuum_vacuum_insert_scale_factor"),
        *("autovacuum_vacuum_cost_delay", "autovacuum_vacuum_cost_limit", "autovacuum_freeze_min_age"),
        *("autovacuum_freeze_max_age", "autovacuum_freeze_table_age", "autovacuum_multixact_freeze_min_age"),
        *("autovacuum_multixact_freeze_max_age", "autovacuum_multixact_freeze_table_age"),
        *("log_autovacuum_min_duration", "vacuum_index_cleanup", "vacuum_truncate"),
    )
)
TABLE_PARAMETERS: Final = VACUUM_PARAMETERS | {
    *("fillfactor", "toast_tuple_target", "parallel_workers", "user_catalog_table", "oids"),
    *("autovacuum_analyze_threshold", "autovacuum_analyze_scale_factor"),
}
VIEW_PARAMETERS: Final = frozenset(("security_barrier", "security_invoker", "check_option"))
COLUMN_PARAMETERS: Final = frozenset(("n_distinct", "n_distinct_inherited"))
PARAMETERS_BY_METHOD: Final[Mapping[str, frozenset[str]]] = {
    "btree": frozenset(("fillfactor", "deduplicate_items")),
    "hash": frozenset(("fillfactor",)),
    "gist": frozenset(("fillfactor", "buffering")),
    "spgist": frozenset(("fillfactor",)),
    "gin": frozenset(("fastupdate", "gin_pending_list_limit")),
    "brin": frozenset(("pages_per_range", "autosummarize")),
}
"""Storage parameters of each index access method."""
INDEX_PARAMETERS: Final = frozenset().union(*PARAMETERS_BY_METHOD.values())
ORDERED_CLASSES: Final = _words(
    "array bool bpchar bpchar_pattern bytea char cidr date enum float4 float8 inet int2 int4 int8 interval "
    "jsonb macaddr8 macaddr multirange name numeric oid oidvector pg_lsn range record text text_pattern tid "
    "time timestamp timestamptz timetz uuid varchar varchar_pattern xid8"
)
BRIN_CLASSES: Final = _words(
    "bpchar bytea char date float4 float8 inet int2 int4 int8 interval macaddr8 macaddr name numeric oid "
    "pg_lsn text tid time timestamp timestamptz timetz uuid"
)
OPERATOR_CLASSES: Final[Mapping[str, frozenset[str]]] = {
    "btree": ORDERED_CLASSES | _words("bit record_image varbit"),
    "hash": ORDERED_CLASSES | _words("aclitem cid xid"),
    "gist": _words("inet multirange range"),
    "spgist": _words("inet range text"),
    "gin": _words("array jsonb jsonb_path"),
    "brin": frozenset(f"{one}_{how}" for one in BRIN_CLASSES for how in ("bloom", "minmax", "minmax_multi"))
    | _words("bit_minmax varbit_minmax inet_inclusion range_inclusion"),
}
"""Operator classes of each access method, without ``_ops``."""
STORAGE_TYPES: Final = ("plain", "external", "extended", "main", "default")
COMPRESSION_METHODS: Final = ("pglz", "lz4", "default")
TABLESPACES: Final = ("pg_default",)


def parse_storage_parameters(reader: Reader, names: Iterable[str], *, toast: bool = False) -> dict[str, str]:
    """Parse storage parameters in parentheses; return names and values in upper case.

    A parameter without a value is ON.
    """
    reader.expect("(")
    found: dict[str, str] = {}
    while True:
        start, name = reader.here(), reader.folded_name()
        namespace = name if reader.accept(".") else ""
        name = reader.folded_name() if namespace else name
        if namespace and not (toast and namespace == "toast"):
            raise _error(f'unrecognized parameter namespace "{namespace}"', start)
        if name not in (VACUUM_PARAMETERS if namespace else names):
            raise _error(f'unrecognized parameter "{name}"', start)
        value = "ON"
        if reader.accept("="):
            reader.accept("-")
            value = reader.rest()[0].text.upper() if not reader.at_end else ""
            reader.skip(1)
        if name == "oids" and value not in ("OFF", "FALSE", "NO", "0"):
            raise _error("tables declared WITH OIDS are not supported", start)
        found[namespace.upper() + name.upper()] = value
        if not reader.accept(","):
            break
    reader.expect(")")
    return found


def parse_tablespace(reader: Reader) -> None:
    """Parse the name of a tablespace."""
    _parse_name(reader, TABLESPACES, "tablespace {} does not exist", "42704")


def parse_access_method(reader: Reader, methods: Iterable[str] = ("heap",)) -> str:
    """Parse and return the access method of a table or an index."""
    return _parse_name(reader, methods, "access method {} does not exist", "42704")


def parse_storage(reader: Reader) -> None:
    """Parse the storage type of a column."""
    _parse_name(reader, STORAGE_TYPES, "invalid storage type {}", "22023")


def parse_compression(reader: Reader) -> None:
    """Parse the compression method of a column."""
    _parse_name(reader, COMPRESSION_METHODS, "invalid compression method {}", "22023")


def parse_operator_class(reader: Reader, method: str) -> None:
    """Parse the operator class of an index column."""
    reader.accept("pg_catalog".upper(), ".")
    names = [f"{class_name}_ops" for class_name in OPERATOR_CLASSES[method]]
    name = _parse_name(
        reader, names, f'operator class {{}} does not exist for access method "{method}"', "42704"
    )
    if reader.at("("):
        raise _error(f"operator class {name} has no options", reader.here())


def parse_utility_options(reader: Reader, command: str, names: Iterable[str]) -> None:
    """Parse the parenthesized options of a utility statement such as VACUUM."""
    reader.expect("(")
    while True:
        place, name = reader.here(), reader.rest()[0].text.lower() if not reader.at_end else ""
        if name not in names:
            raise ProgrammingError(f'unrecognized {command} option "{name}"', span=place)
        reader.skip(1)
        if not (reader.at_end or reader.at(",") or reader.at(")")):
            reader.skip(1)
        if not reader.accept(","):
            break
    reader.expect(")")


def _parse_name(reader: Reader, names: Iterable[str], message: str, state: str) -> str:
    place = reader.here()
    name = reader.rest()[0].text.lower() if not reader.at_end else reader.name()
    if name not in names:
        raise _error(message.format(f'"{name}"'), place, state)
    reader.skip(1)
    return name


def _error(message: str, place: Span, state: str = "22023") -> ProgrammingError:
    error = ProgrammingError(message, span=place)
    error.sqlstate = state
    return error
