"""Scalar expressions: a syntax tree and its scope to a typed scalar.

Each kind of syntax node has a case here, in :mod:`predicate`, or an entry in :mod:`functions`; any other is
refused. Casts, bit strings and domains are here too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from sqlglot import exp

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.passes.fold_constants import fold
from kpg.compiler.sql.bind.aggregate import bind_aggregate, bind_grouping
from kpg.compiler.sql.bind.calls import (
    CHAINED,
    bind_case,
    bind_chain,
    bind_concat_function,
    call,
    coerce,
    coerce_concat_operands,
    coerce_to_boolean,
    coerce_to_common,
    coerce_unknown_operand,
    has_cross_type_comparison,
    is_long_chain,
    resolve_type,
    round_to_scale,
    special_datetime,
)
from kpg.compiler.sql.bind.composite import (
    bind_array_cast,
    bind_composite,
    bind_concat_operator,
    bind_field_as_function,
    bind_whole_row,
)
from kpg.compiler.sql.bind.functions import aggregate_of, as_list, registered_function, user_function_call
from kpg.compiler.sql.bind.literals import (
    RANGE_HINT,
    bind_interval,
    interval_literal,
    literal_from_quoted,
    literal_from_text,
    negate_literal,
    parse_number,
    shift_datetime,
)
from kpg.compiler.sql.bind.predicate import (
    bind_predicate,
    bind_quantified,
    bind_subquery,
    expand_pattern_quantifier,
    is_quantifier,
)
from kpg.compiler.sql.bind.row_functions import bind_set_returning_call, set_returning_call
from kpg.compiler.sql.bind.scope import WIDEN_DECIMALS, Binding, Field, Fields, Scope, resolve_name
from kpg.compiler.sql.bind.volatile_calls import bind_current_time, current_time_type
from kpg.compiler.sql.bind.windows import bind_window
from kpg.compiler.sql.parse.call_syntax import order_arguments
from kpg.compiler.sql.parse.parameters import Marker, NotConstantError, slot_literal, slot_of
from kpg.compiler.sql.parse.reader import parse_expression
from kpg.compiler.sql.parse.syntax import ScalarNode, allow_only, construct_name, scalar_of, span_of
from kpg.compiler.sql.parse.type_names import FRACTIONAL, last_field, second_digits, user_type_name
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.functions import AggregateFunction, ScalarFunction, is_castable, is_function, window_function
from kpg.runtime.functions.table_functions import RowFunction
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar, transform
from kpg.runtime.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    Type,
    array,
    decimal,
)
from kpg.runtime.values import numeric
from kpg.runtime.values.words import EARLIEST, LATEST

if TYPE_CHECKING:
    from kpg.compiler.sql.bind import operator_functions, per_row_calls, user_aggregates
    from kpg.compiler.sql.bind import routines as sql_functions
    from kpg.compiler.sql.bind import system as system_functions
    from kpg.runtime.functions.date_time import fields as datetime_fields
    from kpg.runtime.values import byte_strings
else:
    operator_functions = LazyModule("kpg.compiler.sql.bind.operator_functions")
    per_row_calls = LazyModule("kpg.compiler.sql.bind.per_row_calls")
    sql_functions = LazyModule("kpg.compiler.sql.bind.routines")
    system_functions = LazyModule("kpg.compiler.sql.bind.system")
    user_aggregates = LazyModule("kpg.compiler.sql.bind.user_aggregates")
    datetime_fields = LazyModule("kpg.runtime.functions.date_time.fields")
    byte_strings = LazyModule("kpg.runtime.values.byte_strings")

TYPE_FUNCTIONS: Final = frozenset(
    (
        *("text", "float4", "float8", "int2", "int4", "int8", "numeric", "varchar", "name", "bpchar", "bool"),
        *("inet", "cidr", "macaddr", "macaddr8", "jsonb", "timestamptz", "varbit"),
    )
)
"""Type names that can be called as functions: ``float8(x)`` is ``x::float8``."""


def as_cast(node: exp.Expr) -> exp.Cast | None:
    """Return the cast that a call by a type's name stands for; None for any other node."""
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 1:
        return None
    name = str(node.this).lower()
    if name not in TYPE_FUNCTIONS or is_function(name):
        return None
    return exp.Cast(this=node.expressions[0], to=exp.DataType.build(name, dialect="postgres", udt=True))


def rewrite_call(node: exp.Expr) -> exp.Expr | None:
    """Return the expression that a call stands for; None for any other node.

    It is a cast by its type's name, an operator by its function's name, or a call with VARIADIC.
    """
    if (cast := as_cast(node)) is not None:
        return cast
    if isinstance(node, exp.Anonymous) and not is_function(str(node.this).lower()):
        return operator_functions.expand_operator_function(node)
    if node.args.get("expressions") and isinstance(node.expressions[-1], exp.Variadic):
        return operator_functions.expand_variadic(node)
    return None


def bind_bit_string(binding: Binding, node: exp.BitString | exp.HexString) -> Scalar:
    """Bind ``B'101'`` or ``X'1F'``."""
    sign = "b" if isinstance(node, exp.BitString) else "x"
    try:
        return Literal(byte_strings.parse_bits(sign + str(node.this)), Type(Kind.BIT))
    except ValueError as error:
        binding.fail(str(error), node)


def apply_type_modifiers(binding: Binding, value: Scalar, to: exp.Expr) -> Scalar:
    """Apply what the type of a cast requires beyond the type's kind.

    That is the checks of a domain, the last field of an interval, or the digits of a second.
    """
    last = last_field(to)
    if last and value.type.kind is Kind.INTERVAL:
        return Call("$to_field", (value, Literal(last, TEXT)), value.type)
    digits = second_digits(to)
    if digits is not None and value.type.kind in FRACTIONAL:
        return Call("$to_digits", (value, Literal(digits, INTEGER)), value.type)
    kind = to.args.get("kind") if isinstance(to, exp.DataType) else None
    if kind is None:
        return value
    domain = binding.catalog.find_type(name) if (name := user_type_name(kind)) else None
    if not isinstance(domain, Domain):
        return value
    return with_domain_checks(binding, value, domain)


EXTRACT_TYPE: Final = decimal(18, 0)
"""Type of an EXTRACT field that is an integer."""
COLLATIONS: Final = frozenset({"c", "posix", "ucs_basic", "default"})
"""Collations that order by code point, the only order supported."""
SYSTEM_NODES: Final = (
    exp.Cast,
    exp.Anonymous,
    exp.CurrentUser,
    exp.SessionUser,
    exp.CurrentSchema,
    exp.CurrentCatalog,
    exp.CurrentDatabase,
    exp.CurrentSchemas,
    exp.CurrentVersion,
)
"""Kinds of nodes that may be system information functions or casts to object identifiers."""
SYSTEM_CALLS: Final = (
    *("version", "current_database", "current_user", "session_user", "current_schema", "obj_description"),
    *("col_description", "current_schemas", "format_type", "to_regclass", "to_regtype", "shobj_description"),
    *("acldefault", "inet_server_addr", "inet_client_addr", "getdatabaseencoding"),
    "txid_current",
    "txid_current_if_assigned",
    "row_security_active",
    "current_setting",
)
"""Names of system information functions without the prefix ``pg_`` or ``has_``."""
USER_KEYWORDS: Final = ("user", "current_role")  # sqlglot parses them as columns
MAX_DEPTH: Final = 1200
"""Maximum nesting of expressions and queries: everything that walks a scalar is recursive."""


def bind_expression(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """Bind an expression to a typed scalar.

    Raises:
        ProgrammingError: The expression is wrong; the error has its position.
        NotSupportedError: The expression is not supported; the error has its position.
    """
    checkpoint()
    binding.depth += 1
    if binding.depth > MAX_DEPTH:
        span = span_of(node, binding.source)
        raise NotSupportedError(f"nesting deeper than {MAX_DEPTH} is not supported", span=span)
    try:
        return _bind_node(binding, scope, node)
    finally:
        binding.depth -= 1


def _cast_target(target: object) -> object:
    """Return the element type of an array type, or the type itself; ``oid[]`` stays an array."""
    if isinstance(target, exp.DataType) and target.this is exp.DType.ARRAY and len(target.expressions) == 1:
        return target if target.expressions[0].name.lower() == "oid" else target.expressions[0]
    return target


def _is_system_expression(node: exp.Expr) -> bool:
    """Return whether an expression needs the system catalogs, whose binder is imported lazily."""
    if isinstance(node, exp.Cast):
        target, inner = node.args.get("to"), node.this
        named = isinstance(inner, exp.Cast) and isinstance(inner.args.get("to"), exp.ObjectIdentifier)
        to_text = isinstance(target, exp.DataType) and target.this in (exp.DType.TEXT, exp.DType.VARCHAR)
        return isinstance(_cast_target(target), exp.ObjectIdentifier) or (
            named and to_text and isinstance(inner.this, exp.Literal)
        )
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        return name in SYSTEM_CALLS or (
            name.startswith(("pg_", "has_")) and not name.startswith("pg_lsn_") and not is_function(name)
        )
    return True


def _bind_node(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    source = binding.source
    if type(node) in CHAINED and is_long_chain(node):
        return bind_chain(binding, scope, node, MAX_DEPTH - binding.depth)
    match node:
        case exp.Paren():
            allow_only(node, source, "this")
            return binding.expression(scope, node.this)
        case ScalarNode():
            return scalar_of(node)
        case _ if (moment := current_time_type(node)) is not None:
            return bind_current_time(binding, scope, node, moment)
        case exp.Overlaps():
            return _bind_overlaps(binding, scope, node)
        case exp.Collate() if node.expression.name.lower() in COLLATIONS:
            return binding.expression(scope, node.this)
        case exp.Column() if (whole := bind_whole_row(binding, scope, node)) is not None:
            return whole
        case exp.Column(this=exp.Identifier(this=str() as word)) if _is_user_keyword(node, word):
            return binding.expression(scope, exp.CurrentUser())
        case exp.Column():
            allow_only(node, source, "this", "table", "db")
            column = resolve_name(binding, scope, node).column
            if WIDEN_DECIMALS.get() and column.type.kind is Kind.DECIMAL:
                return coerce(column, NUMERIC)
            return column
        case exp.Literal() | exp.Null() | exp.Boolean() | exp.Interval():
            return _bind_constant(binding, node)
        case exp.BitString() | exp.HexString():
            return bind_bit_string(binding, node)
        case exp.Subquery() | exp.Exists():
            return bind_subquery(binding, scope, node)
        case exp.Func() | exp.Dot() if (routine := _bind_routine_call(binding, scope, node)) is not None:
            return routine
        case exp.Func() if user_function_call(node, binding.catalog.functions) is not None:
            return _bind_user_function(binding, scope, node)
        case exp.Case() | exp.If():
            return bind_case(binding, scope, node)
        case exp.Dot(this=exp.Identifier(this="pg_catalog")):
            return binding.expression(scope, node.expression)
        case exp.Dot(this=exp.Identifier(this="information_schema"), expression=exp.Anonymous()):
            return system_functions.bind_expandarray(binding, scope, node)
        case _ if isinstance(node, SYSTEM_NODES) and _is_system_expression(node):
            return system_functions.bind_system_expression(binding, scope, node)
        case exp.Cast():
            return _bind_cast(binding, scope, node)
        case exp.Neg():
            return _bind_negative(binding, scope, node)
        case exp.Grouping():
            return bind_grouping(binding, scope, node)
        case exp.Window():
            return bind_window(binding, scope, node)
        case exp.Filter() | exp.AggFunc() | exp.WithinGroup():
            return bind_aggregate(binding, scope, node)
        case exp.Unnest() | exp.Anonymous() if (
            set_returning_call(node, binding.catalog.functions) is not None
        ):
            return bind_set_returning_call(binding, scope, node)
        case exp.Anonymous() if aggregate_of(node, binding.catalog.functions) is not None:
            return bind_aggregate(binding, scope, node)
        case _ if (each := expand_pattern_quantifier(node)) is not None:
            return binding.expression(scope, each)
        case exp.Date(this=exp.Expr() as moment) if not node.args.get("expressions"):
            return binding.expression(scope, exp.Cast(this=moment, to=exp.DataType.build("DATE")))
        case exp.Binary() if is_quantifier(node.args.get("expression")):
            return bind_quantified(binding, scope, node)
        case exp.Add() | exp.Sub():
            return _bind_sum(binding, scope, node)
        case exp.Extract():
            return _bind_extract(binding, scope, node)
        case _:
            found = bind_composite(binding, scope, node) or bind_predicate(binding, scope, node)
            return found or _bind_function(binding, scope, node)


def _is_user_keyword(node: exp.Column, word: str) -> bool:
    """Return whether a name is the unquoted keyword ``user`` or ``current_role``, not a column."""
    return word.lower() in USER_KEYWORDS and not node.table and not node.this.args.get("quoted")


def _bind_constant(binding: Binding, node: exp.Expr) -> Scalar:
    match node:
        case exp.Null():
            return Literal(None, UNKNOWN)
        case exp.Boolean():
            return Literal(int(node.this), BOOLEAN)
        case exp.Interval():
            return bind_interval(binding, node)
        case _ if isinstance(node.name, Marker):
            return slot_literal(node.name)
        case _ if node.is_string:
            return Literal(node.name, UNKNOWN)
        case _:
            value = parse_number(node.name)
            if value is None:
                binding.fail(f"number {node.name} is out of range", node, RANGE_HINT)
            return value


def _bind_negative(binding: Binding, scope: Scope, node: exp.Neg) -> Scalar:
    allow_only(node, binding.source, "this")
    inner, value = node.this, None
    if isinstance(inner, exp.Literal) and inner.is_number:
        positive = parse_number(inner.name)
        value = negate_literal(positive) if positive is not None else None
        if value is None:
            binding.fail(f"number -{inner.name} is out of range", node, RANGE_HINT)
        return value
    operand = binding.expression(scope, inner)
    value = negate_literal(operand) if isinstance(operand, Literal) else None
    return value if value is not None else call(binding, "neg", [operand], node)


def _bind_cast(binding: Binding, scope: Scope, node: exp.Cast) -> Scalar:
    if type(node) is not exp.Cast:
        binding.refuse(construct_name(node), node)
    allow_only(node, binding.source, "this", "to")
    if node.to.sql().lower() == "jsonpath":
        return call(binding, "jsonpath", [binding.expression(scope, node.this)], node)
    plain = _bind_cast_to(binding, scope, node, resolve_type(binding, node.to))
    return apply_type_modifiers(binding, plain, node.to)


def _bind_cast_to(binding: Binding, scope: Scope, node: exp.Cast, type_: Type) -> Scalar:
    made = bind_array_cast(binding, scope, node.this, type_)
    if made is not None:
        return made
    operand = binding.expression(scope, node.this)
    is_text = operand.type.is_text or operand.type == UNKNOWN
    if isinstance(operand, Literal) and slot_of(operand) is not None and is_text:
        return _cast_parameter(operand, type_)
    if isinstance(operand, Literal) and isinstance(operand.value, str) and is_text:
        if (last := last_field(node.to)) and operand.type == UNKNOWN:
            return interval_literal(binding, operand.value, last, node)
        moment = special_datetime(binding, operand, type_)
        if moment is not None:
            return moment
        text = operand.value[: type_.precision] if type_.is_text and type_.precision else operand.value
        value = literal_from_text(text, type_)
        if value is None:
            binding.fail_invalid_input(str(operand.value), type_, node)
        cut = type_.kind is Kind.ARRAY and type_.has_length_limit
        return coerce(replace(value, type=array(TEXT)), type_) if cut else value
    if operand.type != type_ and not is_castable(operand.type, type_):
        binding.fail(f"cannot cast {operand.type} to {type_}", node)
    return coerce(operand, type_)


def _cast_parameter(operand: Literal, type_: Type) -> Scalar:
    """Cast a text parameter of a cached plan. A cast that truncates needs the value itself."""
    value = None if type_.is_text and type_.precision else literal_from_quoted(operand, type_)
    if value is None:
        raise NotConstantError
    return value


def _bind_sum(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    allow_only(node, binding.source, "this", "expression")
    sides = [binding.expression(scope, node.this), binding.expression(scope, node.expression)]
    adding = isinstance(node, exp.Add)
    if sides[0].type == JSONB and not adding:
        return call(binding, "jsonb_delete", sides, node)
    left, right = reversed(sides) if adding and sides[0].type == INTERVAL else sides
    match left, right:
        case Literal(type=moment), Literal(type=span) if moment in (DATE, TIMESTAMP) and span == INTERVAL:
            folded = shift_datetime(left, right, 1 if adding else -1)
            if folded is not None:
                return folded
    return call(binding, "add" if adding else "sub", sides, node)


def _bind_overlaps(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    allow_only(node, binding.source, "this", "expression")
    sides = [side.expressions for side in (node.this, node.expression) if isinstance(side, exp.Tuple)]
    if [len(side) for side in sides] != [2, 2]:
        binding.fail("OVERLAPS takes two pairs: (start, end) OVERLAPS (start, end)", node)
    return call(binding, "overlaps", [binding.expression(scope, one) for side in sides for one in side], node)


def _bind_extract(binding: Binding, scope: Scope, node: exp.Extract) -> Scalar:
    allow_only(node, binding.source, "this", "expression")
    try:
        name = datetime_fields.canonical_field(node.this.name)
    except ValueError:
        binding.refuse(f"EXTRACT({node.this.name.upper()})", node)
    value = binding.expression(scope, node.expression)
    found = call(binding, f"extract_{name}", [value], node)
    constant = fold(value)
    if name in datetime_fields.UNBOUNDED_FIELDS and constant in [
        Literal(end, value.type) for end in (EARLIEST, LATEST)
    ]:
        # Of constants only: the fields of a column are words, which have no infinities.
        is_late = constant == Literal(LATEST, value.type)
        return Literal(numeric.INFINITY if is_late else numeric.NEGATIVE_INFINITY, NUMERIC)
    return coerce(found, EXTRACT_TYPE) if found.type.is_integer else found


def _bind_user_function(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    found = user_function_call(node, binding.catalog.functions)
    assert found is not None
    name, operands = found
    match name.definition:
        case ScalarFunction():
            return call(binding, name, [binding.expression(scope, operand) for operand in operands], node)
        case RowFunction():
            return bind_set_returning_call(binding, scope, node)
        case AggregateFunction():
            return bind_aggregate(binding, scope, node)
        case definition:
            assert_never(definition)


def _bind_routine_call(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """Bind a call of a user-defined SQL function or aggregate, or ``field(row)``; None for any other node."""
    if binding.catalog.routines:
        found = sql_functions.bind_routine(binding, scope, node)
        if found is not None:
            return found
    if binding.catalog.aggregates:
        found = user_aggregates.bind_fold(binding, scope, node)
        if found is not None:
            return found
    return bind_field_as_function(binding, scope, node) if isinstance(node, exp.Anonymous) else None


def _bind_function(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    if (other := rewrite_call(node)) is not None:
        return binding.expression(scope, other)
    known = registered_function(node)
    if known is not None:
        name, parts = known
        allow_only(node, binding.source, *parts)
        operands = [part for name_ in parts for part in as_list(node.args.get(name_))]
    elif isinstance(node, exp.Anonymous):
        allow_only(node, binding.source, "this", "expressions")
        name = str(node.this).lower()
        placed = order_arguments(name, node.expressions)
        if placed is None:
            binding.fail(f"{name} has no parameter of that name", node)
        operands = placed
        if window_function(name) is not None:
            binding.fail(f"window function {name} needs OVER", node, f"write {name}(...) OVER (...)")
    elif type(node) is exp.Concat:
        return bind_concat_function(binding, scope, node)
    else:
        return per_row_calls.bind_volatile_call(binding, scope, node) or binding.refuse(
            construct_name(node), node
        )
    if name == "coalesce":
        scope = scope.without_set_returning("COALESCE")
    args = [binding.expression(scope, operand) for operand in operands]
    if isinstance(node, exp.DPipe):
        made = bind_concat_operator(binding, args, node)
        if made is not None:
            return made

        args = coerce_concat_operands(args)
    args = _coerce_special_args(binding, scope, name, args, operands, node)
    if name == "nullif" and len(args) == 2 and has_cross_type_comparison(args[0].type, args[1].type):
        kept = args[0].type
        return If(call(binding, "eq", args, node), Literal(None, kept), args[0], kept)
    return round_to_scale(name, args) or call(binding, name, args, node)


def _coerce_special_args(
    binding: Binding, scope: Scope, name: str, args: list[Scalar], nodes: Sequence[exp.Expr], node: exp.Expr
) -> list[Scalar]:
    """Coerce arguments of functions whose rules go beyond their parameter types."""
    if args and name in ("coalesce", "greatest", "least"):
        return coerce_to_common(binding, args, list(nodes), f"arguments of {name.upper()}")
    if isinstance(node, exp.Sqrt | exp.Cbrt):  # the operators, which are defined for DOUBLE only
        return [coerce(arg, DOUBLE) for arg in args]
    if name == "nullif" and len(args) == 2:
        return coerce_unknown_operand(binding, args, node)
    if name == "age" and len(args) == 1:
        return [bind_current_time(binding, scope, node, DATE), *args]
    return args


def with_domain_checks(binding: Binding, value: Scalar, domain: Domain) -> Scalar:
    """Return the value with the domain's NOT NULL and CHECK conditions as run-time checks."""
    if domain.required:
        message = Literal(f"domain {domain.name} does not allow null values", TEXT)
        known = Call("is_not_null", (value,), BOOLEAN)
        value = Call("$in_domain", (value, known, message), value.type)
    for check in domain.checks:
        inner = binding.new_binding(check.text, binding.catalog)
        column = Column(inner.new_id(), value.type)
        node = parse_expression(check.text)
        scope = Scope(fields=Fields([Field("", "value", column)]), clause="CHECK")
        held = coerce_to_boolean(inner, inner.expression(scope, node), node, "CHECK")
        held = _substitute_column(held, column, value)
        message = Literal(f'value for domain {domain.name} violates check constraint "{check.name}"', TEXT)
        value = Call("$in_domain", (value, held, message), value.type)
    return value


def _substitute_column(scalar: Scalar, column: Column, value: Scalar) -> Scalar:
    return transform(scalar, lambda one: value if one == column else one)
