"""What functions of the system answer, where that does not depend on what they are asked about."""

from typing import Final

from sqlglot import exp

from kpg.compiler.system import naming
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, TEXT, Type

CURRENT, SESSION = "\0user", "\0login"
"""They stand for the role that asks, and for the one whose session it is."""
CONSTANTS: Final[dict[type[exp.Expr], str]] = {
    exp.CurrentVersion: naming.VERSION,
    exp.CurrentUser: CURRENT,
    exp.SessionUser: SESSION,
    exp.CurrentSchema: "",
    exp.CurrentCatalog: naming.DATABASE,
    exp.CurrentDatabase: naming.DATABASE,
}
NAMED: Final = {
    "version": naming.VERSION,
    "current_database": naming.DATABASE,
    "current_catalog": naming.DATABASE,
    "current_user": CURRENT,
    "session_user": SESSION,
    "system_user": SESSION,
    "user": CURRENT,
    "current_role": CURRENT,
    "current_schema": "",
    "pg_client_encoding": "UTF8",
}
TRUE: Final = frozenset(
    {
        "pg_collation_is_visible",
        "pg_operator_is_visible",
        "pg_opclass_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_opfamily_is_visible",
        "pg_conversion_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
    }
)
VISIBLE: Final = {
    "pg_table_is_visible": "relation",
    "pg_type_is_visible": "type",
    "pg_function_is_visible": "function",
}
"""Functions that tell whether a name without its schema means a thing: of what kind."""
TRANSACTION: Final = frozenset(
    {
        "txid_current",
        "txid_current_if_assigned",
        "pg_current_xact_id",
        "pg_current_xact_id_if_assigned",
    }
)
"""The number of a transaction: when it began."""
EACH_TIME: Final = TRANSACTION | {"pg_backend_pid"}
"""What is another in each transaction, or each session."""
INQUIRIES: Final = frozenset(
    {
        "has_table_privilege",
        "has_schema_privilege",
        "has_column_privilege",
        "has_database_privilege",
        "has_any_column_privilege",
        "has_function_privilege",
        "has_sequence_privilege",
        "has_type_privilege",
        "has_tablespace_privilege",
        "has_language_privilege",
        "pg_has_role",
        "row_security_active",
    }
)
ANSWERS: Final[dict[str, tuple[int | str | None, Type]]] = {
    "inet_server_addr": (None, TEXT),
    "inet_client_addr": (None, TEXT),
    "pg_encoding_to_char": ("UTF8", TEXT),
    "getdatabaseencoding": ("UTF8", TEXT),
    "pg_char_to_encoding": (6, INTEGER),
    "pg_describe_object": (None, TEXT),
    "pg_database_size": (None, BIGINT),
    "pg_get_function_sqlbody": (None, TEXT),
    "pg_tablespace_size": (None, BIGINT),
    "pg_get_statisticsobjdef_columns": (None, TEXT),
    "pg_is_in_recovery": (0, BOOLEAN),
    "pg_is_other_temp_schema": (0, BOOLEAN),
    "pg_my_temp_schema": (0, BIGINT),
    "pg_partition_ancestors": (None, BIGINT),
    "pg_partition_root": (None, BIGINT),
    "pg_relation_is_publishable": (0, BOOLEAN),
    "pg_relation_size": (None, BIGINT),
    "pg_stat_get_numscans": (0, BIGINT),
    "pg_table_size": (None, BIGINT),
    "pg_tablespace_location": ("", TEXT),
    "pg_total_relation_size": (None, BIGINT),
}
"""Functions of the system that give the same whatever they are asked about."""
