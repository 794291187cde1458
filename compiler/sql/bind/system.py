"""System relations and system information functions.

Over a constant, such a function is a constant. Over a column, as in ``pg_get_constraintdef(c.oid)``, it is a
lookup in a map of the present state. A view could not maintain that, so a view with one is refused.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.access_control import need_any
from kpg.compiler.catalog.cache import noting, viewpoint
from kpg.compiler.catalog.constraints import Sequence as Numbers
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.sql.bind.calls import call, coerce, settled
from kpg.compiler.sql.bind.catalog_functions import (
    as_number,
    bind_inquiry,
    choice,
    chosen,
    definition_text,
    formatted,
    given_privileges,
    kept_choice,
    kept_texts,
    of_routine,
    reg_type,
    relation_number,
    routine_names,
    routine_number,
    type_names,
    type_number,
    visible,
)
from kpg.compiler.sql.bind.composite import made_row
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bound_tree import Rows
from kpg.compiler.system import oids, pg_catalog
from kpg.compiler.system.oids import path_of, shown_name, whole
from kpg.compiler.system.pg_index import indexes
from kpg.compiler.system.relations import System
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, OID, TEXT, Type, array
from kpg.runtime.values import codec_of

CURRENT, SESSION = "\0user", "\0login"
"""They stand for the role that asks, and for the one whose session it is."""
CONSTANTS: Final[dict[type[exp.Expr], str]] = {
    exp.CurrentVersion: oids.VERSION,
    exp.CurrentUser: CURRENT,
    exp.SessionUser: SESSION,
    exp.CurrentSchema: "",
    exp.CurrentCatalog: DATABASE,
    exp.CurrentDatabase: DATABASE,
}
NAMED: Final = {
    "version": oids.VERSION,
    "current_database": DATABASE,
    "current_catalog": DATABASE,
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


def bind_information(binding: Binding, scope: Scope, node: exp.Dot) -> Scalar:
    """``information_schema._pg_expandarray(array)``, a row (element, place) for each element."""
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
    row = made_row(binding, scope, [exp.Anonymous(this="unnest", expressions=[array_.copy()]), places])
    return replace(row, type=replace(row.type, labels=("x", "n")))


def schemas_of(binding: Binding, implicit: exp.Expr) -> Scalar:
    """``current_schemas(implicit)``: the search path."""
    everything = isinstance(implicit, exp.Boolean) and implicit.this
    listed = ",".join([*(["pg_catalog"] if everything else ()), *path_of(binding.catalog)])
    codec = codec_of(array(TEXT))
    return Literal(codec.encode(codec.parse("{" + listed + "}")), array(TEXT))


def system_rows(binding: Binding, system: System) -> Rows:
    """The rows of a system relation, as constants."""
    catalog = binding.catalog.told or binding.catalog
    consulted = catalog.consulted
    consulted.times += 1
    types = tuple(type_ for _, type_ in system.columns)
    if not system.steady:
        return Rows(_literals(catalog, system), tuple(binding.fresh() for _ in types), types)
    consulted.steady += 1
    key = (id(system), viewpoint(catalog))
    rows = consulted.kept.get(catalog, key)
    if rows is None:
        with noting(catalog) as told:
            rows = _literals(catalog, system)
        consulted.kept.put(catalog, key, rows, told)
    return Rows(rows, tuple(binding.fresh() for _ in types), types)


def _literals(catalog: Catalog, system: System) -> tuple[tuple[Literal, ...], ...]:
    types = [type_ for _, type_ in system.columns]
    return tuple(
        tuple(Literal(value, type_) for value, type_ in zip(row, types, strict=True))
        for row in system.rows(catalog)
    )


def sequence_row(binding: Binding, sequence: Numbers) -> Rows:
    """What Postgres has in the relation that a sequence is: its last number, and whether it was given."""
    need_any(binding.catalog, ("SEQUENCE", sequence.name.lower()), "r")
    binding.catalog.consulted.times += 1
    numbers = binding.catalog.numbers()
    coming = numbers.get(sequence.name, sequence.start)
    called = coming != sequence.start and sequence.name not in getattr(numbers, "fresh", ())
    values = (coming - sequence.increment if called else coming, 0, int(called))
    types = (BIGINT, BIGINT, BOOLEAN)
    row = tuple(Literal(value, type_) for value, type_ in zip(values, types, strict=True))
    return Rows((row,), tuple(binding.fresh() for _ in types), types)


def bind_system(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """The scalar of an expression that asks the system."""
    consulted = binding.catalog.consulted
    consulted.times += 1
    consulted.steady += not isinstance(node, exp.Anonymous) or str(node.this).lower() not in EACH_TIME
    if isinstance(node, exp.Cast):
        return _reg(binding, scope, node)
    if isinstance(node, exp.CurrentSchemas):
        return schemas_of(binding, node.this)
    if not isinstance(node, exp.Anonymous):
        is_version = isinstance(node, exp.CurrentVersion)
        return Literal(_of_asker(binding, CONSTANTS[type(node)]), TEXT if is_version else oids.NAME)
    name = str(node.this).lower()
    if name in NAMED:
        return Literal(_of_asker(binding, NAMED[name]), TEXT if name == "version" else oids.NAME)
    args = [settled(binding.expression(scope, part)) for part in node.expressions]
    if name == "current_schemas":
        return schemas_of(binding, *node.expressions)
    if name in TRUE:
        return Literal(1, BOOLEAN)
    if name in VISIBLE:
        return visible(binding, node, VISIBLE[name], args[0])
    if name in INQUIRIES:
        return bind_inquiry(binding, node, name, args)
    if name in ANSWERS:
        return Literal(*ANSWERS[name])
    if name in TRANSACTION:
        return Literal(binding.catalog.moment // 1000, BIGINT)
    if name == "pg_backend_pid":
        return Literal(binding.catalog.asker.number, INTEGER)
    if name == "pg_typeof" and args:
        return Literal(_type_name(node, args[0].type), TEXT)
    if not args:
        binding.wrong(f"{name} needs an argument", node)
    return _described(binding, node, name, args)


def _of_asker(binding: Binding, text: str) -> str:
    """What a constant of the session is: who asks, where names are looked up, or the text itself."""
    asker = binding.catalog.asker
    return {CURRENT: asker.shown or asker.user, SESSION: asker.login, "": _schema(binding)}.get(text, text)


def _schema(binding: Binding) -> str:
    path = binding.catalog.path
    return path[0] if path else "public"


def _type_name(node: exp.Anonymous, type_: Type) -> str:
    literal = node.expressions[0]
    if (isinstance(literal, exp.Literal) and literal.is_string) or isinstance(literal, exp.Null):
        return "unknown"
    return oids.type_facts(type_)[0]


def _described(binding: Binding, node: exp.Anonymous, name: str, args: list[Scalar]) -> Scalar:
    catalog = binding.catalog
    match name:
        case "to_regclass":
            found = args[0].value if isinstance(args[0], Literal) else None
            number = None if found is None else relation_number(binding, str(found))
            return Literal(None if number is None else str(found), TEXT)
        case "pg_get_userbyid":
            known_roles = ((oids.role_number(one.name), one.name) for one in catalog.rights.every())
            return choice(binding, node, args[0], known_roles)
        case _ if name in OF_ROUTINES:
            return of_routine(binding, node, name, args[0])
        case _ if name in DEFINITIONS:
            return definition_text(binding, node, name, args)
        case "acldefault":
            return given_privileges(binding, node, *args)
        case "current_setting":
            shown = {str(one[0]): str(one[1]) for one in catalog.consulted.session("settings")}
            return chosen(binding, args[0], shown)
        case "to_regtype":
            return Literal(type_number(binding, args[0]), OID)
        case "format_type":
            return formatted(binding, node, args)
        case "obj_description":
            if args[0].type.is_text and not isinstance(args[0], Literal):
                return Literal(None, TEXT)
            said = pg_catalog.whole_descriptions(catalog)
            return choice(binding, node, as_number(binding, args[0]), said)
        case "shobj_description":
            where = str(args[1].value) if len(args) == 2 and isinstance(args[1], Literal) else ""
            return choice(binding, node, args[0], pg_catalog.shared_descriptions(catalog, where))
        case "col_description":
            return _column_comment(binding, node, args)
        case "pg_get_serial_sequence":
            return _serial(binding, node, args)
        case _:
            binding.refuse(f"function {name}", node)


OF_ROUTINES: Final = (
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_functiondef",
)
DEFINITIONS: Final = (
    "pg_get_expr",
    "pg_get_viewdef",
    "pg_get_triggerdef",
    "pg_get_constraintdef",
    "pg_get_indexdef",
    "pg_get_ruledef",
    "pg_get_partkeydef",
    "pg_get_partition_constraintdef",
)


def _column_comment(binding: Binding, node: exp.Anonymous, args: list[Scalar]) -> Scalar:
    if len(args) != 2:
        binding.wrong("col_description takes a relation and the number of a column", node)

    def known() -> Iterator[tuple[int, str]]:
        for key, text in binding.catalog.comments.items():
            if key[0] == "COLUMN":
                entry = binding.catalog.get(key[1])
                place = [name.lower() for name in entry.schema.names].index(key[2]) + 1
                yield oids.number_of("relation", entry.name) << 12 | place, text

    shifted = [as_number(binding, args[0]), Literal(1 << 12, BIGINT)]
    number = call(binding, "mul", [coerce(one, BIGINT) for one in shifted], node)
    key = call(binding, "add", [number, coerce(args[1], BIGINT)], node)
    return kept_choice(binding, key, "comments of columns", known)


def _serial(binding: Binding, node: exp.Anonymous, args: list[Scalar]) -> Scalar:
    """The sequence of a column, both by name."""
    if len(args) != 2:
        binding.wrong("pg_get_serial_sequence takes a table and a column", node)
    table = args[0]
    if isinstance(table, Literal) and table.value is not None:
        table = Literal(binding.catalog.get(str(table.value).replace('"', "")).name, TEXT)
    before = call(binding, "concat", [coerce(table, TEXT), Literal(BETWEEN, TEXT)], node)
    wanted = call(binding, "concat", [before, coerce(args[1], TEXT)], node)
    kept = kept_texts(binding, "sequences of columns", lambda: dict(_sequences(binding.catalog)))
    return chosen(binding, wanted, kept)


BETWEEN: Final = "\x01"
"""Between the names of a table and a column, in which nobody has it."""


def _sequences(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """The sequence of each column that has one, by each way to write the table's name."""
    for entry in catalog:
        if isinstance(entry, TableEntry):
            for column, rule in zip(entry.schema.names, entry.constraints.rules, strict=False):
                if rule.sequence:
                    for table in (shown_name(catalog, entry.name, "relation"), whole(catalog, entry.name)):
                        yield f"{table}{BETWEEN}{column}", whole(catalog, rule.sequence)
                    yield f"{entry.name}{BETWEEN}{column}", whole(catalog, rule.sequence)


def _reg(binding: Binding, scope: Scope, node: exp.Cast) -> Scalar:
    """A cast to regclass and its like: of a name its number, of a number the name."""
    inner = node.this
    if isinstance(node.to, exp.DataType) and node.to.this is exp.DType.ARRAY:
        return binding.expression(scope, _each(node))
    if not isinstance(node.to, exp.ObjectIdentifier):
        given = binding.expression(scope, inner)
        is_type = str(inner.args["to"].this).lower() == "regtype"
        return type_names(binding, given, node) if is_type else relation_names(binding, given, node)
    kind = str(node.to.this).rpartition(".")[2].lower()
    operand = settled(binding.expression(scope, node.this))
    constant = operand.value if isinstance(operand, Literal) else None
    if kind == "oid" or (operand.type.is_numeric and _of_a_kind(node)):
        return _oid(binding, operand, node)
    if kind in ("regoperator", "regprocedure"):
        return routine_names(binding, operand, node, kind)
    if kind == "regclass":
        if isinstance(constant, str):
            number = relation_number(binding, constant)
            if number is None:
                raise ProgrammingError(f'relation "{constant}" does not exist')
            return Literal(number, BIGINT)
        if operand.type.is_text:
            return _numbers_by_name(binding, operand, node)
        return relation_names(binding, operand, node)
    if kind == "regrole":
        return _role(binding, operand, node)
    if kind == "regproc":
        return Literal(constant.removeprefix("pg_catalog."), TEXT) if isinstance(constant, str) else operand
    if kind == "regtype":
        return reg_type(binding, operand, node)
    if kind == "regnamespace":
        names = ((oids.schema_number(one), one) for one in oids.schemas(binding.catalog))
        known = list(names)
        if isinstance(constant, str):
            return Literal(next((number for number, one in known if one == constant), None), BIGINT)
        return choice(binding, node, operand, known)
    binding.refuse(f"a cast to {kind}", node)


def _each(node: exp.Cast) -> exp.Expr:
    """A cast of an array, to ``regtype[]`` and its like: of each of its elements."""
    element = exp.Cast(this=exp.column("element"), to=node.to.expressions[0].copy())
    text = exp.Cast(this=element, to=exp.DataType.build("text"))
    rows = exp.Unnest(
        expressions=[node.this.copy()],
        alias=exp.TableAlias(this=exp.to_identifier("elements"), columns=[exp.to_identifier("element")]),
    )
    elements = exp.Array(expressions=[exp.select(text).from_(rows)])
    missing = exp.Is(this=node.this.copy(), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=elements)


def _of_a_kind(node: exp.Cast) -> bool:
    """Whether it is compared with another cast to the same type, so that numbers do."""
    parent = node.parent
    if not isinstance(parent, exp.EQ | exp.NEQ):
        return False
    other = parent.right if parent.left is node else parent.left
    return isinstance(other, exp.Cast) and other.args.get("to") == node.args.get("to")


def _role(binding: Binding, operand: Scalar, node: exp.Cast) -> Scalar:
    """Of a name the role's number, of a number its name."""
    known = [(oids.role_number(one.name), one.name) for one in binding.catalog.rights.every()]
    constant = operand.value if isinstance(operand, Literal) else None
    if not isinstance(constant, str):
        return choice(binding, node, operand, known)
    number = {name: one for one, name in known}.get(constant.replace('"', ""))
    if number is None:
        raise ProgrammingError(f'role "{constant}" does not exist')
    return Literal(number, OID)


def _oid(binding: Binding, operand: Scalar, node: exp.Cast) -> Scalar:
    """A cast to oid, of the name of a function too."""
    inside, name = node.this, operand.value if isinstance(operand, Literal) else None
    if isinstance(name, str) and isinstance(inside, exp.Cast) and "regproc" in str(inside.to).lower():
        return Literal(routine_number(binding, name, inside), OID)
    return coerce(operand, OID)


def _numbers_by_name(binding: Binding, name: Scalar, node: exp.Expr) -> Scalar:
    """The number of a relation whose name is computed."""
    catalog = binding.catalog
    known = [*(entry.name for entry in catalog), *(one.name for one in catalog.sequences.values())]
    names = {one: one for one in known} | {".".join(oids.split(catalog, one)): one for one in known}
    names |= {shown_name(catalog, one, "relation"): one for one in known}
    names |= {whole(catalog, one): one for one in known}
    numbers = {shown: str(oids.number_of("relation", one)) for shown, one in names.items()}
    return coerce(chosen(binding, name, numbers), BIGINT)


def named_by_number(node: exp.Expr) -> bool:
    """Whether an expression is a name that was cast to regclass or regtype."""
    constant = isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)
    return constant and str(node.args["to"].this).rpartition(".")[2].lower() in ("regclass", "regtype")


def relation_names(binding: Binding, number: Scalar, node: exp.Expr) -> Scalar:
    """The name of the relation of a number."""
    catalog = binding.catalog

    def names() -> Iterator[tuple[int, str]]:
        known = [one.name for one in catalog] + [one.name for one in catalog.sequences.values()]
        known += [one.name for one in indexes(catalog)]
        yield from ((oids.number_of("relation", one), shown_name(catalog, one, "relation")) for one in known)
        yield from ((oids.system_number(one), one) for one in pg_catalog.OBJECT_RELATIONS)
        yield 0, "-"

    return kept_choice(binding, number, "relations", names)
