"""Inlining of user-defined SQL functions: the body is bound at the call, over the arguments.

The plan therefore has no trace of the function, and a view depends on the relations that the body reads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from sqlglot import exp

from kpg.compiler.catalog.access_control import (
    definer_identity,
    may_deny_access,
    require_column_privileges,
    require_privileges,
)
from kpg.compiler.catalog.routines import Chosen, Routine, resolve_overload
from kpg.compiler.sql.bind.calls import call, coerce, coerce_at, default_to_text
from kpg.compiler.sql.bind.functions import aggregate_of, operands_of
from kpg.compiler.sql.bind.query_output import default_query_to_text
from kpg.compiler.sql.bind.row_functions import set_returning_call
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bound_tree import Filter, Join, Map, Node, Query, Reads, Rows, Subquery, TopK, Window
from kpg.compiler.sql.parse.call_syntax import NAMED_ARGUMENTS
from kpg.compiler.sql.parse.reader import parse_body
from kpg.compiler.sql.parse.syntax import relation_name, span_of, whole_span
from kpg.runtime.errors import NotSupportedError, PrivilegeError, ProgrammingError
from kpg.runtime.functions import is_aggregate, is_castable, is_function
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar, transform
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, TEXT, UNKNOWN, Kind, Type

MAX_INLINING_DEPTH: Final = 40
"""Maximum nesting of inlined bodies, which bounds recursion."""
T = TypeVar("T")
EXPRESSION_PARTS: Final = frozenset({"expressions", "kind"})
"""Parts of a SELECT without clauses, whose body is a single expression."""


@dataclass(frozen=True, slots=True)
class InlinedCall:
    """An inlined call in FROM: its rows, name, column names and columns."""

    node: Node
    name: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]


def find_called_routines(
    binding: Binding, node: exp.Expr
) -> tuple[tuple[Routine, ...], list[exp.Expr]] | None:
    """Return the user-defined functions of a call's name, and its arguments; None for any other node."""
    known = binding.catalog.routines
    if not known:
        return None
    schema = ""
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier):
        schema, node = node.this.name.lower(), node.expression
    if isinstance(node, exp.Table):
        schema, node = relation_name(node).rpartition(".")[0].lower(), node.this
    if isinstance(node, exp.Anonymous):
        names, operands = [str(node.this).lower()], node.expressions
    elif isinstance(node, exp.Func):
        names, operands = [name.lower() for name in type(node).sql_names()], operands_of(node)
    else:
        return None
    found = next((one for name in names if (one := binding.catalog.find_routines(name, schema))), None)
    return None if found is None else (found, operands)


def bind_routine(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """Bind a call of a user-defined SQL function; return None for any other node."""
    routine, values = resolve_call(binding, scope, node) or (None, [])
    if routine is None:
        return None
    if routine.rows:
        return binding.expression(scope, _as_unnest(node, routine))
    scalar = _inline_expression(binding, routine, values) if not routine.columns else None
    if scalar is None:
        query = _as_single_column(
            binding, _inline_query(binding, routine, values, node, first_only=True), routine
        )
        id_ = binding.new_id()
        place = partial(span_of, node, binding.source)
        binding.subqueries[id_] = Subquery(
            id_, "scalar", replace(query, order=()), query.columns[0].type, (), place
        )
        scalar = Column(id_, query.columns[0].type)
    scalar = _coerce_scalar_result(binding, scalar, routine, node)
    return _apply_strict(binding, routine, scalar, values, node)


def _as_unnest(node: exp.Expr, routine: Routine) -> exp.Expr:
    """Return the call of a set-returning function in a select list as ``unnest`` of its array of rows."""
    call_ = exp.Table(this=node.copy(), alias=exp.TableAlias(this=exp.to_identifier("made")))
    if isinstance(node, exp.Dot):
        call_ = exp.Table(this=node.expression.copy(), db=node.this.copy(), alias=call_.args["alias"])
    item: exp.Expr = exp.column("made") if routine.columns else exp.Star()
    if not routine.columns:
        call_.args["alias"].set("columns", [exp.to_identifier("value")])
        item = exp.column("value", table="made")
    query = exp.Select(expressions=[item], from_=exp.From(this=call_))
    return exp.Unnest(expressions=[exp.Array(expressions=[query])])


def bind_routine_rows(
    binding: Binding,
    scope: Scope,
    node: exp.Expr,
    alias: str,
    *,
    with_ordinality: bool,
    column_types: Mapping[str, Type],
) -> InlinedCall | None:
    """Bind a call of a user-defined SQL function in FROM; return None for any other node.

    The call is lateral: it can refer to items before it.
    """
    scope = scope.without_aggregates("a function in FROM").without_set_returning(
        "the argument of a function in FROM"
    )
    routine, values = resolve_call(binding, scope, node) or (None, [])
    if routine is None or not (routine.rows or routine.columns or column_types):
        return None
    name = routine.name.rpartition(".")[2]
    first = not routine.rows
    query = _inline_query(
        binding, routine, values, node, first_only=first, is_outer=first, with_ordinality=with_ordinality
    )
    names = routine.columns or (alias or name,)
    if with_ordinality:
        names = (*names, "ordinality")
    result = query.node
    if routine.strict:
        result = Filter(result, tuple(call(binding, "is_not_null", [one], node) for one in values))
    return InlinedCall(result, alias or name, names, query.columns)


def resolve_call(binding: Binding, scope: Scope, node: exp.Expr) -> tuple[Routine, list[Scalar]] | None:
    """Return the user-defined function of a call and a value per parameter; None for any other node."""
    found = find_called_routines(binding, node)
    if found is None:
        return None
    routines, operands = found
    require_privileges(binding.catalog, ("FUNCTION", routines[0].name.lower()), "X")
    spread = bool(operands) and isinstance(operands[-1], exp.Variadic)
    plain = [one.expression if isinstance(one, NAMED_ARGUMENTS) else one for one in operands]
    plain = [one.this if isinstance(one, exp.Variadic) else one for one in plain]
    names = [one.this.name if isinstance(one, NAMED_ARGUMENTS) else "" for one in operands]
    values = [binding.expression(scope, one) for one in plain]
    try:
        choice = resolve_overload(routines, [value.type for value in values], names, spread)
    except ProgrammingError as error:
        name = routines[0].name
        if is_function(name) or is_aggregate(name):
            return None
        span = span_of(node, binding.source) or whole_span(binding.source)
        raise ProgrammingError(error.message, span=span, hint=error.hint) from None
    return choice.routine, [default_to_text(one) for one in _bind_parameters(binding, choice, values, node)]


def _bind_parameters(
    binding: Binding, choice: Chosen, values: Sequence[Scalar], node: exp.Expr
) -> list[Scalar]:
    """Return a value for each parameter, coerced to its type."""
    found: list[Scalar] = []
    for place, parameter in zip(choice.places, choice.routine.parameters, strict=True):
        if isinstance(place, int):
            found.append(coerce_at(binding, values[place], parameter.type, node))
        elif parameter.variadic:
            (element,) = parameter.type.parts
            items = tuple(coerce_at(binding, values[one], element, node) for one in place or ())
            found.append(Call("$array", items, parameter.type))
        else:
            default = parse_body(f"SELECT {parameter.default}").expressions[0]
            found.append(coerce_at(binding, binding.expression(Scope(), default), parameter.type, node))
    return found


def _argument_fields(
    binding: Binding, routine: Routine, values: Sequence[Scalar]
) -> tuple[list[Field], list[int], list[Scalar]]:
    """Return the fields that the body can name, and the ids and values of the arguments."""
    fields: list[Field] = []
    ids: list[int] = []
    scalars: list[Scalar] = []

    def enter(scalar: Scalar) -> Column:
        ids.append(binding.new_id())
        scalars.append(scalar)
        return Column(ids[-1], scalar.type)

    own = routine.name.rpartition(".")[2]
    for place, (parameter, value) in enumerate(zip(routine.parameters, values, strict=True)):
        column = enter(value)
        fields.append(Field("", f"${place + 1}", column))
        if not parameter.name:
            continue
        fields.append(Field(own, parameter.name, column))
        if value.type.kind is Kind.RECORD:
            parts = zip(value.type.labels, value.type.parts, strict=True)
            for number, (label, type_) in enumerate(parts):
                part = Call("$row_field", (value, Literal(number, INTEGER)), type_)
                fields.append(Field(parameter.name, label, enter(part), is_visible=False))
    return fields, ids, scalars


def _inline_expression(binding: Binding, routine: Routine, values: Sequence[Scalar]) -> Scalar | None:
    """Return the body as an expression over the arguments; None if it needs a subquery."""
    body = parse_body(routine.body)
    if not isinstance(body, exp.Select) or len(body.expressions) != 1:
        return None
    if any(value and name not in EXPRESSION_PARTS for name, value in body.args.items()):
        return None
    calls = (exp.Query, exp.AggFunc, exp.Window, exp.Unnest, exp.Star)
    for part in body.expressions[0].walk():
        if isinstance(part, calls) or aggregate_of(part, binding.catalog.functions) is not None:
            return None
        if isinstance(part, exp.Func) and _may_return_set(binding, part):
            return None
    fields, ids, scalars = _argument_fields(binding, routine, values)
    before = len(binding.subqueries)
    expression = body.expressions[0]
    scalar = _bind_body(
        binding, routine, lambda: binding.expression(Scope(fields=Fields(fields)), expression.unalias())
    )
    if len(binding.subqueries) != before:
        return None
    known = dict(zip(ids, scalars, strict=True))
    return transform(scalar, lambda one: known.get(one.index, one) if isinstance(one, Column) else one)


def _may_return_set(binding: Binding, node: exp.Expr) -> bool:

    found = find_called_routines(binding, node)
    if found is not None and any(one.rows for one in found[0]):
        return True
    return set_returning_call(node, binding.catalog.functions) is not None


def _bind_body(binding: Binding, routine: Routine, bind: Callable[[], T]) -> T:
    """Bind a body on the function's search path and with its privileges. Errors name the function."""
    binding.inlining_depth += 1
    if binding.inlining_depth > MAX_INLINING_DEPTH:
        raise NotSupportedError(f"function {routine.name}, which calls itself, is not supported")
    before = binding.catalog
    binding.catalog = before if routine.path is None else before.with_path(routine.path)
    try:
        return _bind_as_definer(binding, routine, bind) if routine.definer else bind()
    except PrivilegeError:
        raise
    except ProgrammingError as error:
        if "in function " in error.message:
            raise
        raise ProgrammingError(f"{error.message} (in function {routine.name})", hint=error.hint) from None
    finally:
        binding.inlining_depth -= 1
        binding.catalog = before


def _bind_as_definer(binding: Binding, routine: Routine, bind: Callable[[], T]) -> T:
    """Bind a body with the privileges of the function's owner."""
    caller = binding.catalog, binding.reads, binding.policy_role
    catalog = binding.catalog.copy()
    catalog.asker = definer_identity(catalog, routine)
    binding.catalog, binding.policy_role = catalog, None
    binding.reads = Reads() if may_deny_access(catalog) else None
    try:
        found = bind()
        for one in binding.reads.relations if binding.reads is not None else ():
            if one.is_scanned or one.column_names:
                require_column_privileges(catalog, one.entry.name, "r", frozenset(one.column_names))
        if binding.reads is not None and caller[1] is not None:
            caller[1].routine_reads.append((catalog, binding.reads))
        return found
    finally:
        binding.catalog, binding.reads, binding.policy_role = caller


def _inline_query(
    binding: Binding,
    routine: Routine,
    values: Sequence[Scalar],
    node: exp.Expr,
    *,
    first_only: bool,
    is_outer: bool = False,
    with_ordinality: bool = False,
) -> Query:
    """Bind the body as a query over the arguments, with the declared columns.

    ``first_only`` keeps its first row. ``is_outer`` gives a row of NULLs if it has none.
    """
    fields, ids, scalars = _argument_fields(binding, routine, values)
    body = parse_body(routine.body)
    query: Query = _bind_body(
        binding, routine, lambda: default_query_to_text(binding.query(Scope(fields=Fields(fields)), body))
    )
    if first_only and not _has_one_row(body):
        query = replace(query, node=TopK(query.node, (), query.order, 1, 0))
    query = _coerce_columns(binding, query, routine, node)
    inner = query.node
    number = Column(binding.new_id(), BIGINT)
    if with_ordinality:
        query = replace(query, columns=(*query.columns, number))
    if with_ordinality and not is_outer:
        calls = (WindowCall("row_number", (), BIGINT),)
        inner = Window(inner, (), query.order, (), (number.index,), calls)
    row = Rows(((Literal(0, INTEGER),),), (binding.new_id(),), (INTEGER,))
    start: Node = Map(row, tuple(ids), tuple(scalars)) if ids else row
    if not is_outer:
        return replace(query, node=Join("inner", start, inner, ()))
    joined: Node = Join("left", start, inner, ())  # one row even if the body has none
    if with_ordinality:
        joined = Map(joined, (number.index,), (Literal(1, BIGINT),))
    return replace(query, node=joined)


def _has_one_row(body: exp.Expr) -> bool:
    """Return whether the form of a query guarantees exactly one row."""
    if not isinstance(body, exp.Select) or body.args.get("group") is not None:
        return False
    if any(body.args.get(name) for name in ("where", "having", "limit", "offset", "qualify")):
        return False
    calls = any(isinstance(part, exp.Anonymous | exp.Unnest) for part in body.walk())
    return body.args.get("from_") is None and not calls


def _coerce_columns(binding: Binding, query: Query, routine: Routine, node: exp.Expr) -> Query:
    """Coerce the query's columns to the declared result columns."""
    wanted = (
        routine.result.parts if routine.columns and routine.result.kind is Kind.RECORD else (routine.result,)
    )
    columns: list[Scalar] = list(query.columns)
    if len(columns) == 1 and len(wanted) > 1 and columns[0].type.kind is Kind.RECORD:
        parts = columns[0].type.parts
        columns = [
            Call("$row_field", (columns[0], Literal(place, INTEGER)), type_)
            for place, type_ in enumerate(parts)
        ]
    if len(columns) != len(wanted):
        if routine.columns or routine.result.kind is not Kind.RECORD:
            message = f"function {routine.name} gives {len(columns)} columns, {len(wanted)} are declared"
            binding.fail(message, node)
        columns = [_as_row(columns, routine.result)]
    cast = [
        _coerce_result(binding, one, type_, routine, node) for one, type_ in zip(columns, wanted, strict=True)
    ]
    if all(isinstance(one, Column) for one in cast):
        return replace(query, columns=tuple(one for one in cast if isinstance(one, Column)))
    ids = tuple(binding.new_id() for _ in cast)
    made = tuple(Column(id_, one.type) for id_, one in zip(ids, cast, strict=True))
    return replace(query, node=Map(query.node, ids, tuple(cast)), columns=made)


def _as_row(parts: Sequence[Scalar], type_: Type) -> Scalar:
    cast = tuple(coerce(part, wanted) for part, wanted in zip(parts, type_.parts, strict=True))
    return Call("$row", cast, type_)


def _as_single_column(binding: Binding, query: Query, routine: Routine) -> Query:
    """Return the query with its columns as one row value."""
    if not routine.columns or len(query.columns) == 1:
        return query
    column = Column(binding.new_id(), routine.result)
    made = Call("$row", query.columns, routine.result)
    return replace(query, node=Map(query.node, (column.index,), (made,)), columns=(column,))


def _coerce_result(binding: Binding, scalar: Scalar, type_: Type, routine: Routine, node: exp.Expr) -> Scalar:
    if type_.name == "void":
        return Literal(None, TEXT)
    if scalar.type == type_:
        return scalar
    if scalar.type == UNKNOWN:
        return coerce_at(binding, scalar, type_, node)
    if not is_castable(scalar.type, type_):
        binding.fail(f"function {routine.name} gives {scalar.type}, {type_} is declared", node)
    return coerce(scalar, type_)


def _coerce_scalar_result(binding: Binding, scalar: Scalar, routine: Routine, node: exp.Expr) -> Scalar:
    return scalar if routine.columns else _coerce_result(binding, scalar, routine.result, routine, node)


def _apply_strict(
    binding: Binding, routine: Routine, scalar: Scalar, values: Sequence[Scalar], node: exp.Expr
) -> Scalar:
    """Return NULL for a STRICT function if an argument is NULL."""
    if not routine.strict or not values:
        return scalar
    tests = [call(binding, "is_null", [value], node) for value in values]
    missing = tests[0] if len(tests) == 1 else Call("or", tuple(tests), BOOLEAN)
    return If(missing, Literal(None, scalar.type), scalar, scalar.type)


def check_body(binding: Binding, routine: Routine) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    """Bind a function body and return the names and types of its columns.

    Raises:
        ProgrammingError: The body cannot be bound.
    """
    values = [Literal(None, one.type) for one in routine.parameters]
    fields, _, _ = _argument_fields(binding, routine, values)
    query: Query = _bind_body(
        binding,
        routine,
        lambda: default_query_to_text(binding.query(Scope(fields=Fields(fields)), parse_body(routine.body))),
    )
    return query.names, tuple(column.type for column in query.columns)
