"""Scalar expressions: a syntax tree and its scope to a typed scalar.

Each kind of syntax node has a case here, in :mod:`predicate`, or an entry in :mod:`functions`; any other is
refused. Casts, bit strings and domains are here too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from sqlglot import exp

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.passes.fold_constants import folded
from kpg.compiler.sql.bind.aggregate import bind_aggregate, bind_grouping
from kpg.compiler.sql.bind.calls import (
    CHAINED,
    as_texts,
    bind_case,
    bind_chain,
    call,
    coerce,
    compared_as_they_are,
    concatenated,
    condition,
    is_long_chain,
    of_places,
    settle,
    special_moment,
    unified,
    user_type,
)
from kpg.compiler.sql.bind.composite import bind_composite, bind_whole_row, cast_array, field_called, joined
from kpg.compiler.sql.bind.functions import aggregate_of, function_of, listed, own_call
from kpg.compiler.sql.bind.literals import (
    RANGE_HINT,
    bind_interval,
    from_text,
    interval_of,
    meant,
    negated,
    number,
    shifted,
)
from kpg.compiler.sql.bind.predicate import (
    bind_predicate,
    bind_quantified,
    bind_subquery,
    is_quantifier,
    pattern_for_each,
)
from kpg.compiler.sql.bind.row_functions import bind_expanded, called_rows
from kpg.compiler.sql.bind.scope import WIDE, Binding, Field, Fields, Scope, resolve_name
from kpg.compiler.sql.bind.volatile_calls import bind_moment, moment_type
from kpg.compiler.sql.bind.windows import bind_window
from kpg.compiler.sql.parse.call_syntax import in_their_places
from kpg.compiler.sql.parse.parameters import Beyond, Marker, opened, slot_of
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.compiler.sql.parse.syntax import Known, construct_name, only, scalar_of, span_of
from kpg.compiler.sql.parse.type_names import FRACTIONAL, last_field, second_digits, user_name
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.functions import AggregateFunction, ScalarFunction, castable, is_function, window_function
from kpg.runtime.functions.table_functions import RowFunction
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

CASTING: Final = frozenset(
    (
        *("text", "float4", "float8", "int2", "int4", "int8", "numeric", "varchar", "name", "bpchar", "bool"),
        *("inet", "cidr", "macaddr", "macaddr8", "jsonb", "timestamptz", "varbit"),
    )
)
"""Names of types that are called as functions: ``float8(x)`` is ``x::float8``."""


def as_cast(node: exp.Expr) -> exp.Cast | None:
    """The cast that a call by the name of a type is; None for all else."""
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 1:
        return None
    name = str(node.this).lower()
    if name not in CASTING or is_function(name):
        return None
    return exp.Cast(this=node.expressions[0], to=exp.DataType.build(name, dialect="postgres", udt=True))


def otherwise(node: exp.Expr) -> exp.Expr | None:
    """A call that is another expression: a cast by its type's name, by the name of an operator's function, or
    with VARIADIC; None for all else."""
    if (cast := as_cast(node)) is not None:
        return cast
    if isinstance(node, exp.Anonymous) and not is_function(str(node.this).lower()):
        from kpg.compiler.sql.bind.operator_functions import by_another_name  # lazy: rare names

        return by_another_name(node)
    if node.args.get("expressions") and isinstance(node.expressions[-1], exp.Variadic):
        from kpg.compiler.sql.bind.operator_functions import spread  # lazy: rare names

        return spread(node)
    return None


def bind_bits(binding: Binding, node: exp.BitString | exp.HexString) -> Scalar:
    """A bit string, ``B'101'`` or ``X'1F'``."""
    from kpg.runtime.values.byte_strings import read  # lazy: bit strings

    sign = "b" if isinstance(node, exp.BitString) else "x"
    try:
        return Literal(read(sign + str(node.this)), Type(Kind.BIT))
    except ValueError as error:
        binding.wrong(str(error), node)


def bounded(binding: Binding, value: Scalar, to: exp.Expr) -> Scalar:
    """What is cast to a domain, held to its conditions; to a moment, with as many digits of a second."""
    last = last_field(to)
    if last and value.type.kind is Kind.INTERVAL:
        return Call("$to_field", (value, Literal(last, TEXT)), value.type)
    digits = second_digits(to)
    if digits is not None and value.type.kind in FRACTIONAL:
        return Call("$to_digits", (value, Literal(digits, INTEGER)), value.type)
    kind = to.args.get("kind") if isinstance(to, exp.DataType) else None
    if kind is None:
        return value
    domain = binding.catalog.find_type(name) if (name := user_name(kind)) else None
    if not isinstance(domain, Domain):
        return value
    return in_domain(binding, value, domain)


WHOLE: Final = decimal(18, 0)
"""What a field is in SQL that is a whole number."""
COLLATIONS: Final = frozenset({"c", "posix", "ucs_basic", "default"})
"""Orders by code point, which is the one that there is."""
SYSTEM: Final = (
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
"""Expressions that may be about the system."""
SYSTEM_CALLS: Final = (
    *("version", "current_database", "current_user", "session_user", "current_schema", "obj_description"),
    *("col_description", "current_schemas", "format_type", "to_regclass", "to_regtype", "shobj_description"),
    *("acldefault", "inet_server_addr", "inet_client_addr", "getdatabaseencoding"),
    "txid_current",
    "txid_current_if_assigned",
    "row_security_active",
    "current_setting",
)
USER: Final = ("user", "current_role")  # which sqlglot takes for columns
MAX_DEPTH: Final = 1200
"""How deep expressions and queries may nest: everything that walks a scalar is recursive."""


def bind_expression(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """The typed scalar of an expression; ProgrammingError or NotSupportedError at its place."""
    checkpoint()
    binding.depth += 1
    if binding.depth > MAX_DEPTH:
        span = span_of(node, binding.source)
        raise NotSupportedError(f"nesting deeper than {MAX_DEPTH} is not supported", span=span)
    try:
        return _bind(binding, scope, node)
    finally:
        binding.depth -= 1


def _element(target: object) -> object:
    """The type of the elements of an array, but of ``oid[]``, whose numbers stay; else the type."""
    if isinstance(target, exp.DataType) and target.this is exp.DType.ARRAY and len(target.expressions) == 1:
        return target if target.expressions[0].name.lower() == "oid" else target.expressions[0]
    return target


def _asks_system(node: exp.Expr) -> bool:
    """Whether an expression is about the system: seldom, so that what binds it is imported then."""
    if isinstance(node, exp.Cast):
        target, inner = node.args.get("to"), node.this
        named = isinstance(inner, exp.Cast) and isinstance(inner.args.get("to"), exp.ObjectIdentifier)
        to_text = isinstance(target, exp.DataType) and target.this in (exp.DType.TEXT, exp.DType.VARCHAR)
        return isinstance(_element(target), exp.ObjectIdentifier) or (
            named and to_text and isinstance(inner.this, exp.Literal)
        )
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        return name in SYSTEM_CALLS or (
            name.startswith(("pg_", "has_")) and not name.startswith("pg_lsn_") and not is_function(name)
        )
    return True


def _bind(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    source = binding.source
    if type(node) in CHAINED and is_long_chain(node):
        return bind_chain(binding, scope, node, MAX_DEPTH - binding.depth)
    match node:
        case exp.Paren():
            only(node, source, "this")
            return binding.expression(scope, node.this)
        case Known():
            return scalar_of(node)
        case _ if (moment := moment_type(node)) is not None:
            return bind_moment(binding, scope, node, moment)
        case exp.Overlaps():
            return _overlaps(binding, scope, node)
        case exp.Collate() if node.expression.name.lower() in COLLATIONS:
            return binding.expression(scope, node.this)
        case exp.Column() if (whole := bind_whole_row(binding, scope, node)) is not None:
            return whole
        case exp.Column(this=exp.Identifier(this=str() as word)) if _is_user(node, word):
            return binding.expression(scope, exp.CurrentUser())
        case exp.Column():
            only(node, source, "this", "table", "db")
            column = resolve_name(binding, scope, node).column
            if WIDE.get() and column.type.kind is Kind.DECIMAL:
                return coerce(column, NUMERIC)
            return column
        case exp.Literal() | exp.Null() | exp.Boolean() | exp.Interval():
            return _constant(binding, node)
        case exp.BitString() | exp.HexString():
            return bind_bits(binding, node)
        case exp.Subquery() | exp.Exists():
            return bind_subquery(binding, scope, node)
        case exp.Func() | exp.Dot() if (routine := _routine(binding, scope, node)) is not None:
            return routine
        case exp.Func() if own_call(node, binding.catalog.functions) is not None:
            return _own(binding, scope, node)
        case exp.Case() | exp.If():
            return bind_case(binding, scope, node)
        case exp.Dot(this=exp.Identifier(this="pg_catalog")):
            return binding.expression(scope, node.expression)
        case exp.Dot(this=exp.Identifier(this="information_schema"), expression=exp.Anonymous()):
            from kpg.compiler.sql.bind.system import bind_information  # lazy: the system catalogs

            return bind_information(binding, scope, node)
        case _ if isinstance(node, SYSTEM) and _asks_system(node):
            from kpg.compiler.sql.bind.system import bind_system  # lazy: the system catalogs

            return bind_system(binding, scope, node)
        case exp.Cast():
            return _cast(binding, scope, node)
        case exp.Neg():
            return _negative(binding, scope, node)
        case exp.Grouping():
            return bind_grouping(binding, scope, node)
        case exp.Window():
            return bind_window(binding, scope, node)
        case exp.Filter() | exp.AggFunc() | exp.WithinGroup():
            return bind_aggregate(binding, scope, node)
        case exp.Unnest() | exp.Anonymous() if called_rows(node, binding.catalog.functions) is not None:
            return bind_expanded(binding, scope, node)
        case exp.Anonymous() if aggregate_of(node, binding.catalog.functions) is not None:
            return bind_aggregate(binding, scope, node)
        case _ if (each := pattern_for_each(node)) is not None:
            return binding.expression(scope, each)
        case exp.Date(this=exp.Expr() as moment) if not node.args.get("expressions"):
            return binding.expression(scope, exp.Cast(this=moment, to=exp.DataType.build("DATE")))
        case exp.Binary() if is_quantifier(node.args.get("expression")):
            return bind_quantified(binding, scope, node)
        case exp.Add() | exp.Sub():
            return _sum(binding, scope, node)
        case exp.Extract():
            return _date_part(binding, scope, node)
        case _:
            found = bind_composite(binding, scope, node) or bind_predicate(binding, scope, node)
            return found or _function(binding, scope, node)


def _is_user(node: exp.Column, word: str) -> bool:
    """Whether a name is one that asks who asks, which no column has without quotes."""
    return word.lower() in USER and not node.table and not node.this.args.get("quoted")


def _constant(binding: Binding, node: exp.Expr) -> Scalar:
    match node:
        case exp.Null():
            return Literal(None, UNKNOWN)
        case exp.Boolean():
            return Literal(int(node.this), BOOLEAN)
        case exp.Interval():
            return bind_interval(binding, node)
        case _ if isinstance(node.name, Marker):
            return opened(node.name)
        case _ if node.is_string:
            return Literal(node.name, UNKNOWN)
        case _:
            value = number(node.name)
            if value is None:
                binding.wrong(f"number {node.name} is out of range", node, RANGE_HINT)
            return value


def _negative(binding: Binding, scope: Scope, node: exp.Neg) -> Scalar:
    only(node, binding.source, "this")
    inner, value = node.this, None
    if isinstance(inner, exp.Literal) and inner.is_number:
        positive = number(inner.name)
        value = negated(positive) if positive is not None else None
        if value is None:
            binding.wrong(f"number -{inner.name} is out of range", node, RANGE_HINT)
        return value
    operand = binding.expression(scope, inner)
    value = negated(operand) if isinstance(operand, Literal) else None
    return value if value is not None else call(binding, "neg", [operand], node)


def _cast(binding: Binding, scope: Scope, node: exp.Cast) -> Scalar:
    if type(node) is not exp.Cast:
        binding.refuse(construct_name(node), node)
    only(node, binding.source, "this", "to")
    if node.to.sql().lower() == "jsonpath":
        return call(binding, "jsonpath", [binding.expression(scope, node.this)], node)
    plain = _cast_to(binding, scope, node, user_type(binding, node.to))
    return bounded(binding, plain, node.to)


def _cast_to(binding: Binding, scope: Scope, node: exp.Cast, type_: Type) -> Scalar:
    made = cast_array(binding, scope, node.this, type_)
    if made is not None:
        return made
    operand = binding.expression(scope, node.this)
    is_text = operand.type.is_text or operand.type == UNKNOWN
    if isinstance(operand, Literal) and slot_of(operand) is not None and is_text:
        return _cast_slot(operand, type_)
    if isinstance(operand, Literal) and isinstance(operand.value, str) and is_text:
        if (last := last_field(node.to)) and operand.type == UNKNOWN:
            return interval_of(binding, operand.value, last, node)
        moment = special_moment(binding, operand, type_)
        if moment is not None:
            return moment
        text = operand.value[: type_.precision] if type_.is_text and type_.precision else operand.value
        value = from_text(text, type_)
        if value is None:
            binding.no_value(str(operand.value), type_, node)
        cut = type_.kind is Kind.ARRAY and type_.limits_length
        return coerce(replace(value, type=array(TEXT)), type_) if cut else value
    if operand.type != type_ and not castable(operand.type, type_):
        binding.wrong(f"cannot cast {operand.type} to {type_}", node)
    return coerce(operand, type_)


def _cast_slot(operand: Literal, type_: Type) -> Scalar:
    """The cast of a text that is not known yet; one that would be cut has to be known."""
    value = None if type_.is_text and type_.precision else meant(operand, type_)
    if value is None:
        raise Beyond
    return value


def _sum(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    only(node, binding.source, "this", "expression")
    sides = [binding.expression(scope, node.this), binding.expression(scope, node.expression)]
    adding = isinstance(node, exp.Add)
    if sides[0].type == JSONB and not adding:
        return call(binding, "jsonb_delete", sides, node)
    left, right = reversed(sides) if adding and sides[0].type == INTERVAL else sides
    match left, right:
        case Literal(type=moment), Literal(type=span) if moment in (DATE, TIMESTAMP) and span == INTERVAL:
            folded = shifted(left, right, 1 if adding else -1)
            if folded is not None:
                return folded
    return call(binding, "add" if adding else "sub", sides, node)


def _overlaps(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    only(node, binding.source, "this", "expression")
    sides = [side.expressions for side in (node.this, node.expression) if isinstance(side, exp.Tuple)]
    if [len(side) for side in sides] != [2, 2]:
        binding.wrong("OVERLAPS takes two pairs: (start, end) OVERLAPS (start, end)", node)
    return call(binding, "overlaps", [binding.expression(scope, one) for side in sides for one in side], node)


def _date_part(binding: Binding, scope: Scope, node: exp.Extract) -> Scalar:
    from kpg.runtime.functions.date_time.fields import ENDLESS, named  # lazy: EXTRACT

    only(node, binding.source, "this", "expression")
    try:
        name = named(node.this.name)
    except ValueError:
        binding.refuse(f"EXTRACT({node.this.name.upper()})", node)
    value = binding.expression(scope, node.expression)
    found = call(binding, f"extract_{name}", [value], node)
    constant = folded(value)
    if name in ENDLESS and constant in [Literal(end, value.type) for end in (EARLIEST, LATEST)]:
        # Of constants only: the fields of a column are words, which have no infinities.
        is_late = constant == Literal(LATEST, value.type)
        return Literal(numeric.INFINITY if is_late else numeric.NEGATIVE_INFINITY, NUMERIC)
    return coerce(found, WHOLE) if found.type.is_integer else found


def _own(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """A call of a user's function."""
    found = own_call(node, binding.catalog.functions)
    assert found is not None
    name, operands = found
    match name.definition:
        case ScalarFunction():
            return call(binding, name, [binding.expression(scope, operand) for operand in operands], node)
        case RowFunction():
            return bind_expanded(binding, scope, node)
        case AggregateFunction():
            return bind_aggregate(binding, scope, node)
        case definition:
            assert_never(definition)


def _routine(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """A call of a function that a user wrote in SQL, or of a field as of one; None for anything else."""
    if binding.catalog.routines:
        from kpg.compiler.sql.bind.routines import bind_routine  # lazy: functions in SQL

        found = bind_routine(binding, scope, node)
        if found is not None:
            return found
    if binding.catalog.others and binding.catalog.aggregates:
        from kpg.compiler.sql.bind.user_aggregates import bind_fold  # lazy: users' aggregates

        found = bind_fold(binding, scope, node)
        if found is not None:
            return found
    return field_called(binding, scope, node) if isinstance(node, exp.Anonymous) else None


def _function(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    if (other := otherwise(node)) is not None:
        return binding.expression(scope, other)
    known = function_of(node)
    if known is not None:
        name, parts = known
        only(node, binding.source, *parts)
        operands = [part for name_ in parts for part in listed(node.args.get(name_))]
    elif isinstance(node, exp.Anonymous):
        only(node, binding.source, "this", "expressions")
        name = str(node.this).lower()
        placed = in_their_places(name, node.expressions)
        if placed is None:
            binding.wrong(f"{name} has no such argument", node)
        operands = placed
        if window_function(name) is not None:
            binding.wrong(f"window function {name} needs OVER", node, f"write {name}(...) OVER (...)")
    elif type(node) is exp.Concat:
        return concatenated(binding, scope, node)
    else:
        from kpg.compiler.sql.bind.per_row_calls import bind_varying  # lazy: volatile calls

        return bind_varying(binding, scope, node) or binding.refuse(construct_name(node), node)
    if name == "coalesce":
        scope = scope.without_rows("COALESCE")
    args = [binding.expression(scope, operand) for operand in operands]
    if isinstance(node, exp.DPipe):
        made = joined(binding, args, node)
        if made is not None:
            return made

        args = as_texts(args)
    args = _settled(binding, scope, name, args, operands, node)
    if name == "nullif" and len(args) == 2 and compared_as_they_are(args[0].type, args[1].type):
        kept = args[0].type
        return If(call(binding, "eq", args, node), Literal(None, kept), args[0], kept)
    return of_places(name, args) or call(binding, name, args, node)


def _settled(
    binding: Binding, scope: Scope, name: str, args: list[Scalar], nodes: Sequence[exp.Expr], node: exp.Expr
) -> list[Scalar]:
    """Arguments as some functions have them that go beyond what types of arguments say."""
    if args and name in ("coalesce", "greatest", "least"):
        return unified(binding, args, list(nodes), f"arguments of {name.upper()}")
    if isinstance(node, exp.Sqrt | exp.Cbrt):  # the operators, which are of DOUBLE only
        return [coerce(arg, DOUBLE) for arg in args]
    if name == "nullif" and len(args) == 2:
        return settle(binding, args, node)
    if name == "age" and len(args) == 1:
        return [bind_moment(binding, scope, node, DATE), *args]
    return args


def in_domain(binding: Binding, value: Scalar, domain: Domain) -> Scalar:
    """A value of the domain's type, or an error if it is not one of the domain's."""
    if domain.required:
        message = Literal(f"domain {domain.name} does not allow null values", TEXT)
        known = Call("is_not_null", (value,), BOOLEAN)
        value = Call("$in_domain", (value, known, message), value.type)
    for check in domain.checks:
        inner = binding.new_binding(check.text, binding.catalog)
        column = Column(inner.fresh(), value.type)
        node = parsed_expression(check.text)
        scope = Scope(fields=Fields([Field("", "value", column)]), clause="CHECK")
        held = condition(inner, inner.expression(scope, node), node, "CHECK")
        held = _with(held, column, value)
        message = Literal(f'value for domain {domain.name} violates check constraint "{check.name}"', TEXT)
        value = Call("$in_domain", (value, held, message), value.type)
    return value


def _with(scalar: Scalar, column: Column, value: Scalar) -> Scalar:
    return transform(scalar, lambda one: value if one == column else one)
