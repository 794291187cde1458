"""Storage parameters of tables and indexes: Postgres' own are accepted without effect, others are refused.

Dumps and migration tools write them. Names and error messages are those of Postgres 16.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kpg.compiler.sql.parse.reader import Reader
from kpg.runtime.errors import ProgrammingError, Span


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VACUUM: Final = frozenset(
    (
        *("autovacuum_enabled", "autovacuum_vacuum_threshold", "autovacuum_vacuum_scale_factor"),
        *("autovacuum_vacuum_insert_threshold", "autovacuum_vacuum_insert_scale_factor"),
        *("autovacuum_vacuum_cost_delay", "autovacuum_vacuum_cost_limit", "autovacuum_freeze_min_age"),
        *("autovacuum_freeze_max_age", "autovacuum_freeze_table_age", "autovacuum_multixact_freeze_min_age"),
        *("autovacuum_multixact_freeze_max_age", "autovacuum_multixact_freeze_table_age"),
        *("log_autovacuum_min_duration", "vacuum_index_cleanup", "vacuum_truncate"),
    )
)
TABLE: Final = VACUUM | {
    *("fillfactor", "toast_tuple_target", "parallel_workers", "user_catalog_table", "oids"),
    *("autovacuum_analyze_threshold", "autovacuum_analyze_scale_factor"),
}
VIEW: Final = frozenset(("security_barrier", "security_invoker", "check_option"))
COLUMN: Final = frozenset(("n_distinct", "n_distinct_inherited"))
BY_METHOD: Final[Mapping[str, frozenset[str]]] = {
    "btree": frozenset(("fillfactor", "deduplicate_items")),
    "hash": frozenset(("fillfactor",)),
    "gist": frozenset(("fillfactor", "buffering")),
    "spgist": frozenset(("fillfactor",)),
    "gin": frozenset(("fastupdate", "gin_pending_list_limit")),
    "brin": frozenset(("pages_per_range", "autosummarize")),
}
"""The access methods of indexes, and the storage parameters of each."""
INDEX: Final = frozenset().union(*BY_METHOD.values())
ORDERED: Final = _words(
    "array bool bpchar bpchar_pattern bytea char cidr date enum float4 float8 inet int2 int4 int8 interval "
    "jsonb macaddr8 macaddr multirange name numeric oid oidvector pg_lsn range record text text_pattern tid "
    "time timestamp timestamptz timetz uuid varchar varchar_pattern xid8"
)
SUMMARIZED: Final = _words(
    "bpchar bytea char date float4 float8 inet int2 int4 int8 interval macaddr8 macaddr name numeric oid "
    "pg_lsn text tid time timestamp timestamptz timetz uuid"
)
CLASSES: Final[Mapping[str, frozenset[str]]] = {
    "btree": ORDERED | _words("bit record_image varbit"),
    "hash": ORDERED | _words("aclitem cid xid"),
    "gist": _words("inet multirange range"),
    "spgist": _words("inet range text"),
    "gin": _words("array jsonb jsonb_path"),
    "brin": frozenset(f"{one}_{how}" for one in SUMMARIZED for how in ("bloom", "minmax", "minmax_multi"))
    | _words("bit_minmax varbit_minmax inet_inclusion range_inclusion"),
}
"""The operator classes of each access method, without ``_ops``."""
STORAGE: Final = ("plain", "external", "extended", "main", "default")
COMPRESSION: Final = ("pglz", "lz4", "default")
TABLESPACES: Final = ("pg_default",)


def parameters(reader: Reader, known: Iterable[str], *, toast: bool = False) -> dict[str, str]:
    """Storage parameters in parentheses, all in upper case; those that have no value are on."""
    reader.need("(")
    found: dict[str, str] = {}
    while True:
        start, name = reader.here(), reader.folded()
        namespace = name if reader.take(".") else ""
        name = reader.folded() if namespace else name
        if namespace and not (toast and namespace == "toast"):
            raise _invalid(f'unrecognized parameter namespace "{namespace}"', start)
        if name not in (VACUUM if namespace else known):
            raise _invalid(f'unrecognized parameter "{name}"', start)
        value = "ON"
        if reader.take("="):
            reader.take("-")
            value = reader.rest()[0].text.upper() if not reader.done else ""
            reader.skip(1)
        if name == "oids" and value not in ("OFF", "FALSE", "NO", "0"):
            raise _invalid("tables declared WITH OIDS are not supported", start)
        found[namespace.upper() + name.upper()] = value
        if not reader.take(","):
            break
    reader.need(")")
    return found


def tablespace(reader: Reader) -> None:
    """The name of a tablespace; there is one."""
    _name(reader, TABLESPACES, "tablespace {} does not exist", "42704")


def access_method(reader: Reader, known: Iterable[str] = ("heap",)) -> str:
    """The access method of a table or an index."""
    return _name(reader, known, "access method {} does not exist", "42704")


def storage(reader: Reader) -> None:
    """How values of a column are stored."""
    _name(reader, STORAGE, "invalid storage type {}", "22023")


def compression(reader: Reader) -> None:
    """How values of a column are compressed."""
    _name(reader, COMPRESSION, "invalid compression method {}", "22023")


def operator_class(reader: Reader, method: str) -> None:
    """The operator class of a column of an index."""
    reader.take("pg_catalog".upper(), ".")
    known = [f"{one}_ops" for one in CLASSES[method]]
    name = _name(reader, known, f'operator class {{}} does not exist for access method "{method}"', "42704")
    if reader.at("("):
        raise _invalid(f"operator class {name} has no options", reader.here())


def options(reader: Reader, what: str, known: Iterable[str]) -> None:
    """Options in parentheses of VACUUM and its like."""
    reader.need("(")
    while True:
        place, name = reader.here(), reader.rest()[0].text.lower() if not reader.done else ""
        if name not in known:
            raise ProgrammingError(f'unrecognized {what} option "{name}"', span=place)
        reader.skip(1)
        if not (reader.done or reader.at(",") or reader.at(")")):
            reader.skip(1)
        if not reader.take(","):
            break
    reader.need(")")


def _name(reader: Reader, known: Iterable[str], message: str, state: str) -> str:
    place = reader.here()
    name = reader.rest()[0].text.lower() if not reader.done else reader.name()
    if name not in known:
        raise _invalid(message.format(f'"{name}"'), place, state)
    reader.skip(1)
    return name


def _invalid(message: str, place: Span, state: str = "22023") -> ProgrammingError:
    error = ProgrammingError(message, span=place)
    error.sqlstate = state
    return error
