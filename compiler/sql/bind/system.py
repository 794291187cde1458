"""System relations and system information functions.

Over a constant, such a function is a constant. Over a column, as in ``pg_get_constraintdef(c.oid)``, it is a
lookup in a map of the present state. A view could not maintain that, so a view with one is refused.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.access_control import require_any_privilege
from kpg.compiler.catalog.constraints import Sequence as Numbers
from kpg.compiler.catalog.entries import Catalog, TableEntry, record_session_rows, session_context
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.sql.bind.calls import call, coerce, default_to_text
from kpg.compiler.sql.bind.catalog_functions import (
    as_relation_oid,
    bind_acldefault,
    bind_definition,
    bind_format_type,
    bind_function_text,
    bind_privilege_inquiry,
    bind_regprocedure,
    bind_regtype,
    bind_type_name,
    bind_visibility,
    cached_texts,
    lookup,
    lookup_cached_text,
    lookup_text,
    relation_oid,
    routine_oid,
    type_oid,
)
from kpg.compiler.sql.bind.composite import bind_row
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bound_tree import Rows
from kpg.compiler.system import oids, pg_catalog
from kpg.compiler.system.oids import display_name, displayed_path, qualified_name
from kpg.compiler.system.pg_index import indexes
from kpg.compiler.system.relations import SystemRelation
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, OID, TEXT, Type, array
from kpg.runtime.values import codec_of

CURRENT_USER, SESSION_USER = "\0user", "\0login"
"""Placeholders for the current user and the session user in the tables below."""
SESSION_NODES: Final[dict[type[exp.Expr], str]] = {
    exp.CurrentVersion: oids.VERSION,
    exp.CurrentUser: CURRENT_USER,
    exp.SessionUser: SESSION_USER,
    exp.CurrentSchema: "",
    exp.CurrentCatalog: DATABASE,
    exp.CurrentDatabase: DATABASE,
}
"""Values of syntax nodes that depend on the session only; "" is the current schema."""
SESSION_FUNCTIONS: Final = {
    "version": oids.VERSION,
    "current_database": DATABASE,
    "current_catalog": DATABASE,
    "current_user": CURRENT_USER,
    "session_user": SESSION_USER,
    "system_user": SESSION_USER,
    "user": CURRENT_USER,
    "current_role": CURRENT_USER,
    "current_schema": "",
    "pg_client_encoding": "UTF8",
}
"""Values of functions that depend on the session only; "" is the current schema."""
ALWAYS_VISIBLE: Final = frozenset(
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
"""Visibility functions that are always true."""
VISIBILITY_FUNCTIONS: Final = {
    "pg_table_is_visible": "relation",
    "pg_type_is_visible": "type",
    "pg_function_is_visible": "function",
}
"""Visibility functions by the kind of object that they test."""
TRANSACTION_ID_FUNCTIONS: Final = frozenset(
    {
        "txid_current",
        "txid_current_if_assigned",
        "pg_current_xact_id",
        "pg_current_xact_id_if_assigned",
    }
)
"""Functions that return a transaction id, which is the time at which the statement runs."""
UNCACHED_FUNCTIONS: Final = TRANSACTION_ID_FUNCTIONS | {"pg_backend_pid"}
"""Functions whose value differs between transactions or sessions."""
PRIVILEGE_INQUIRIES: Final = frozenset(
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
CONSTANT_FUNCTIONS: Final[dict[str, tuple[int | str | None, Type]]] = {
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
"""Result and type of system functions whose result does not depend on their arguments."""


def bind_expandarray(binding: Binding, scope: Scope, node: exp.Dot) -> Scalar:
    """Bind ``_pg_expandarray(array)`` of ``information_schema``: a row (element, position) per element."""
    call_, name = node.expression, str(node.expression.this).lower()
    if name != "_pg_expandarray" or len(call_.expressions) != 1:
        binding.refuse(f"function information_schema.{name}", node)
    array_ = call_.expressions[0]
    places = exp.Anonymous(
        this="generate_series",
        expressions=[
            exp.Literal.number(1),
            exp.Anonymous(this="cardinality", expressions=[array_.copy()]),
        ],
    )
    row = bind_row(binding, scope, [exp.Anonymous(this="unnest", expressions=[array_.copy()]), places])
    return replace(row, type=replace(row.type, labels=("x", "n")))


def bind_current_schemas(binding: Binding, implicit: exp.Expr) -> Scalar:
    """Bind ``current_schemas(implicit)``, the search path."""
    everything = isinstance(implicit, exp.Boolean) and implicit.this
    listed = ",".join([*(["pg_catalog"] if everything else ()), *displayed_path(binding.catalog)])
    codec = codec_of(array(TEXT))
    return Literal(codec.encode(codec.parse("{" + listed + "}")), array(TEXT))


def system_rows(binding: Binding, system: SystemRelation) -> Rows:
    """Return the rows of a system relation as constants, from the catalog query cache if it can."""
    catalog = binding.catalog.user_catalog or binding.catalog
    consulted = catalog.system_reads
    consulted.count += 1
    types = tuple(type_ for _, type_ in system.columns)
    if not system.is_cacheable:
        return Rows(_literal_rows(catalog, system), tuple(binding.new_id() for _ in types), types)
    consulted.cacheable_count += 1
    key = (id(system), session_context(catalog))
    rows = consulted.cache.get(catalog, key)
    if rows is None:
        with record_session_rows(catalog) as told:
            rows = _literal_rows(catalog, system)
        consulted.cache.put(catalog, key, rows, told)
    return Rows(rows, tuple(binding.new_id() for _ in types), types)


def _literal_rows(catalog: Catalog, system: SystemRelation) -> tuple[tuple[Literal, ...], ...]:
    types = [type_ for _, type_ in system.columns]
    return tuple(
        tuple(Literal(value, type_) for value, type_ in zip(row, types, strict=True))
        for row in system.rows(catalog)
    )


def sequence_row(binding: Binding, sequence: Numbers) -> Rows:
    """Return the row of a sequence's relation: last value, 0, and whether the value was returned."""
    require_any_privilege(binding.catalog, ("SEQUENCE", sequence.name.lower()), "r")
    binding.catalog.system_reads.count += 1
    numbers = binding.catalog.next_values()
    coming = numbers.get(sequence.name, sequence.start)
    called = coming != sequence.start and sequence.name not in getattr(numbers, "fresh", ())
    values = (coming - sequence.increment if called else coming, 0, int(called))
    types = (BIGINT, BIGINT, BOOLEAN)
    row = tuple(Literal(value, type_) for value, type_ in zip(values, types, strict=True))
    return Rows((row,), tuple(binding.new_id() for _ in types), types)


def bind_system_expression(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """Bind a system information function or a cast to an object identifier type."""
    consulted = binding.catalog.system_reads
    consulted.count += 1
    consulted.cacheable_count += (
        not isinstance(node, exp.Anonymous) or str(node.this).lower() not in UNCACHED_FUNCTIONS
    )
    if isinstance(node, exp.Cast):
        return _bind_object_identifier(binding, scope, node)
    if isinstance(node, exp.CurrentSchemas):
        return bind_current_schemas(binding, node.this)
    if not isinstance(node, exp.Anonymous):
        is_version = isinstance(node, exp.CurrentVersion)
        return Literal(_session_value(binding, SESSION_NODES[type(node)]), TEXT if is_version else oids.NAME)
    name = str(node.this).lower()
    if name in SESSION_FUNCTIONS:
        return Literal(
            _session_value(binding, SESSION_FUNCTIONS[name]), TEXT if name == "version" else oids.NAME
        )
    args = [default_to_text(binding.expression(scope, part)) for part in node.expressions]
    if name == "current_schemas":
        return bind_current_schemas(binding, *node.expressions)
    if name in ALWAYS_VISIBLE:
        return Literal(1, BOOLEAN)
    if name in VISIBILITY_FUNCTIONS:
        return bind_visibility(binding, node, VISIBILITY_FUNCTIONS[name], args[0])
    if name in PRIVILEGE_INQUIRIES:
        return bind_privilege_inquiry(binding, node, name, args)
    if name in CONSTANT_FUNCTIONS:
        return Literal(*CONSTANT_FUNCTIONS[name])
    if name in TRANSACTION_ID_FUNCTIONS:
        return Literal(binding.catalog.now // 1000, BIGINT)
    if name == "pg_backend_pid":
        return Literal(binding.catalog.asker.number, INTEGER)
    if name == "pg_typeof" and args:
        return Literal(_type_name(node, args[0].type), TEXT)
    if not args:
        binding.fail(f"{name} needs an argument", node)
    return _bind_catalog_function(binding, node, name, args)


def _session_value(binding: Binding, text: str) -> str:
    """Return the session value that a placeholder stands for, or the text itself."""
    asker = binding.catalog.asker
    return {
        CURRENT_USER: asker.shown or asker.user,
        SESSION_USER: asker.login,
        "": _current_schema(binding),
    }.get(text, text)


def _current_schema(binding: Binding) -> str:
    path = binding.catalog.path
    return path[0] if path else "public"


def _type_name(node: exp.Anonymous, type_: Type) -> str:
    literal = node.expressions[0]
    if (isinstance(literal, exp.Literal) and literal.is_string) or isinstance(literal, exp.Null):
        return "unknown"
    return oids.type_facts(type_)[0]


def _bind_catalog_function(binding: Binding, node: exp.Anonymous, name: str, args: list[Scalar]) -> Scalar:
    catalog = binding.catalog
    match name:
        case "to_regclass":
            found = args[0].value if isinstance(args[0], Literal) else None
            number = None if found is None else relation_oid(binding, str(found))
            return Literal(None if number is None else str(found), TEXT)
        case "pg_get_userbyid":
            known_roles = ((oids.role_oid(one.name), one.name) for one in catalog.privileges.all_roles())
            return lookup_text(binding, node, args[0], known_roles)
        case _ if name in FUNCTION_TEXTS:
            return bind_function_text(binding, node, name, args[0])
        case _ if name in DEFINITION_FUNCTIONS:
            return bind_definition(binding, node, name, args)
        case "acldefault":
            return bind_acldefault(binding, node, *args)
        case "current_setting":
            shown = {str(one[0]): str(one[1]) for one in catalog.system_reads.session_rows("settings")}
            return lookup(binding, args[0], shown)
        case "to_regtype":
            return Literal(type_oid(binding, args[0]), OID)
        case "format_type":
            return bind_format_type(binding, node, args)
        case "obj_description":
            if args[0].type.is_text and not isinstance(args[0], Literal):
                return Literal(None, TEXT)
            said = pg_catalog.object_comment_texts(catalog)
            return lookup_text(binding, node, as_relation_oid(binding, args[0]), said)
        case "shobj_description":
            where = str(args[1].value) if len(args) == 2 and isinstance(args[1], Literal) else ""
            return lookup_text(binding, node, args[0], pg_catalog.shared_comments(catalog, where))
        case "col_description":
            return _bind_column_comment(binding, node, args)
        case "pg_get_serial_sequence":
            return _bind_serial_sequence(binding, node, args)
        case _:
            binding.refuse(f"function {name}", node)


FUNCTION_TEXTS: Final = (
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_functiondef",
)
DEFINITION_FUNCTIONS: Final = (
    "pg_get_expr",
    "pg_get_viewdef",
    "pg_get_triggerdef",
    "pg_get_constraintdef",
    "pg_get_indexdef",
    "pg_get_ruledef",
    "pg_get_partkeydef",
    "pg_get_partition_constraintdef",
)


def _bind_column_comment(binding: Binding, node: exp.Anonymous, args: list[Scalar]) -> Scalar:
    if len(args) != 2:
        binding.fail("col_description takes a relation and the number of a column", node)

    def keyed_comments() -> Iterator[tuple[int, str]]:
        for key, text in binding.catalog.comments.items():
            if key[0] == "COLUMN":
                entry = binding.catalog.get(key[1])
                place = [name.lower() for name in entry.schema.names].index(key[2]) + 1
                yield oids.oid_of("relation", entry.name) << 12 | place, text

    shifted = [as_relation_oid(binding, args[0]), Literal(1 << 12, BIGINT)]
    number = call(binding, "mul", [coerce(one, BIGINT) for one in shifted], node)
    key = call(binding, "add", [number, coerce(args[1], BIGINT)], node)
    return lookup_cached_text(binding, key, "comments of columns", keyed_comments)


def _bind_serial_sequence(binding: Binding, node: exp.Anonymous, args: list[Scalar]) -> Scalar:
    """Bind ``pg_get_serial_sequence(table, column)``."""
    if len(args) != 2:
        binding.fail("pg_get_serial_sequence takes a table and a column", node)
    table = args[0]
    if isinstance(table, Literal) and table.value is not None:
        table = Literal(binding.catalog.get(str(table.value).replace('"', "")).name, TEXT)
    before = call(binding, "concat", [coerce(table, TEXT), Literal(NAME_SEPARATOR, TEXT)], node)
    wanted = call(binding, "concat", [before, coerce(args[1], TEXT)], node)
    kept = cached_texts(binding, "sequences of columns", lambda: dict(_column_sequences(binding.catalog)))
    return lookup(binding, wanted, kept)


NAME_SEPARATOR: Final = "\x01"
"""Separator of a table's name and a column's name, which occurs in neither."""


def _column_sequences(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Yield the sequence of each column that has one, by each spelling of the table's name."""
    for entry in catalog:
        if isinstance(entry, TableEntry):
            for column, rule in zip(entry.schema.names, entry.constraints.rules, strict=False):
                if rule.sequence:
                    for table in (
                        display_name(catalog, entry.name, "relation"),
                        qualified_name(catalog, entry.name),
                    ):
                        yield f"{table}{NAME_SEPARATOR}{column}", qualified_name(catalog, rule.sequence)
                    yield f"{entry.name}{NAME_SEPARATOR}{column}", qualified_name(catalog, rule.sequence)


def _bind_object_identifier(binding: Binding, scope: Scope, node: exp.Cast) -> Scalar:
    """Bind a cast to an object identifier type such as regclass: the OID of a name, or the name of an OID."""
    inner = node.this
    if isinstance(node.to, exp.DataType) and node.to.this is exp.DType.ARRAY:
        return binding.expression(scope, _cast_elements(node))
    if not isinstance(node.to, exp.ObjectIdentifier):
        given = binding.expression(scope, inner)
        is_type = str(inner.args["to"].this).lower() == "regtype"
        return bind_type_name(binding, given, node) if is_type else bind_relation_name(binding, given, node)
    kind = str(node.to.this).rpartition(".")[2].lower()
    operand = default_to_text(binding.expression(scope, node.this))
    constant = operand.value if isinstance(operand, Literal) else None
    if kind == "oid" or (operand.type.is_numeric and _compares_equal_casts(node)):
        return _bind_oid(binding, operand, node)
    if kind in ("regoperator", "regprocedure"):
        return bind_regprocedure(binding, operand, node, kind)
    if kind == "regclass":
        if isinstance(constant, str):
            number = relation_oid(binding, constant)
            if number is None:
                raise ProgrammingError(f'relation "{constant}" does not exist')
            return Literal(number, BIGINT)
        if operand.type.is_text:
            return _lookup_relation_oid(binding, operand, node)
        return bind_relation_name(binding, operand, node)
    if kind == "regrole":
        return _bind_regrole(binding, operand, node)
    if kind == "regproc":
        return Literal(constant.removeprefix("pg_catalog."), TEXT) if isinstance(constant, str) else operand
    if kind == "regtype":
        return bind_regtype(binding, operand, node)
    if kind == "regnamespace":
        names = ((oids.schema_oid(one), one) for one in oids.listed_schemas(binding.catalog))
        known = list(names)
        if isinstance(constant, str):
            return Literal(next((number for number, one in known if one == constant), None), BIGINT)
        return lookup_text(binding, node, operand, known)
    binding.refuse(f"a cast to {kind}", node)


def _cast_elements(node: exp.Cast) -> exp.Expr:
    """Return a cast to ``regtype[]`` or similar as a cast of each element."""
    element = exp.Cast(this=exp.column("element"), to=node.to.expressions[0].copy())
    text = exp.Cast(this=element, to=exp.DataType.build("text"))
    rows = exp.Unnest(
        expressions=[node.this.copy()],
        alias=exp.TableAlias(this=exp.to_identifier("elements"), columns=[exp.to_identifier("element")]),
    )
    elements = exp.Array(expressions=[exp.select(text).from_(rows)])
    missing = exp.Is(this=node.this.copy(), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=elements)


def _compares_equal_casts(node: exp.Cast) -> bool:
    """Return whether the cast is compared with a cast to the same type: comparing OIDs is enough."""
    parent = node.parent
    if not isinstance(parent, exp.EQ | exp.NEQ):
        return False
    other = parent.right if parent.left is node else parent.left
    return isinstance(other, exp.Cast) and other.args.get("to") == node.args.get("to")


def _bind_regrole(binding: Binding, operand: Scalar, node: exp.Cast) -> Scalar:
    """Return the OID of a role's name, or the name of an OID."""
    known = [(oids.role_oid(one.name), one.name) for one in binding.catalog.privileges.all_roles()]
    constant = operand.value if isinstance(operand, Literal) else None
    if not isinstance(constant, str):
        return lookup_text(binding, node, operand, known)
    number = {name: one for one, name in known}.get(constant.replace('"', ""))
    if number is None:
        raise ProgrammingError(f'role "{constant}" does not exist', sqlstate="42704")
    return Literal(number, OID)


def _bind_oid(binding: Binding, operand: Scalar, node: exp.Cast) -> Scalar:
    """Bind a cast to oid, also of a function's name."""
    inside, name = node.this, operand.value if isinstance(operand, Literal) else None
    if isinstance(name, str) and isinstance(inside, exp.Cast) and "regproc" in str(inside.to).lower():
        return Literal(routine_oid(binding, name, inside), OID)
    return coerce(operand, OID)


def _lookup_relation_oid(binding: Binding, name: Scalar, node: exp.Expr) -> Scalar:
    """Return the OID of a relation whose name is computed."""
    catalog = binding.catalog
    known = [*(entry.name for entry in catalog), *(one.name for one in catalog.sequences.values())]
    names = {one: one for one in known} | {".".join(oids.split_name(catalog, one)): one for one in known}
    names |= {display_name(catalog, one, "relation"): one for one in known}
    names |= {qualified_name(catalog, one): one for one in known}
    numbers = {shown: str(oids.oid_of("relation", one)) for shown, one in names.items()}
    return coerce(lookup(binding, name, numbers), BIGINT)


def is_object_name_cast(node: exp.Expr) -> bool:
    """Return whether an expression casts a constant to regclass or regtype."""
    constant = isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)
    return constant and str(node.args["to"].this).rpartition(".")[2].lower() in ("regclass", "regtype")


def bind_relation_name(binding: Binding, oid: Scalar, node: exp.Expr) -> Scalar:
    """Return the name of the relation with an OID."""
    catalog = binding.catalog

    def names() -> Iterator[tuple[int, str]]:
        known = [one.name for one in catalog] + [one.name for one in catalog.sequences.values()]
        known += [one.name for one in indexes(catalog)]
        yield from ((oids.oid_of("relation", one), display_name(catalog, one, "relation")) for one in known)
        yield from ((oids.system_relation_oid(one), one) for one in pg_catalog.OBJECT_RELATIONS)
        yield 0, "-"

    return lookup_cached_text(binding, oid, "relations", names)
