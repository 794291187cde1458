"""Inlining of user-defined SQL functions: the body is bound at the call, over the arguments.

The plan therefore has no trace of the function, and a view depends on the relations that the body reads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from sqlglot import exp

from kpg.compiler.catalog.access_control import definer_of, may_refuse, need, need_columns
from kpg.compiler.catalog.routines import Chosen, Routine, chosen
from kpg.compiler.sql.bind.calls import brought, call, coerce, settled
from kpg.compiler.sql.bind.functions import aggregate_of, operands_of
from kpg.compiler.sql.bind.query_output import settled_query
from kpg.compiler.sql.bind.row_functions import called_rows
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bound_tree import Filter, Join, Map, Node, Query, Reads, Rows, Subquery, TopK, Window
from kpg.compiler.sql.parse.call_syntax import NAMED
from kpg.compiler.sql.parse.reader import body_of
from kpg.compiler.sql.parse.syntax import relation_name, span_of, whole
from kpg.runtime.errors import NotSupportedError, PrivilegeError, ProgrammingError
from kpg.runtime.functions import castable, is_aggregate, is_function
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar, transform
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, TEXT, UNKNOWN, Kind, Type

DEEPEST: Final = 40
"""How many calls may stand within each other's bodies: a function that calls itself has no end."""
T = TypeVar("T")
PLAIN: Final = frozenset({"expressions", "kind"})


@dataclass(frozen=True, slots=True)
class Inlined:
    """A call in FROM: its rows, its name, and its columns with their names."""

    node: Node
    name: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]


def routines_of(binding: Binding, node: exp.Expr) -> tuple[tuple[Routine, ...], list[exp.Expr]] | None:
    """The functions of users that a call may mean, and its arguments; None for anything else."""
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
    """The value of a call; None if it means a function that SQL has."""
    routine, values = resolved_call(binding, scope, node) or (None, [])
    if routine is None:
        return None
    if routine.rows:
        return binding.expression(scope, _as_array(node, routine))
    scalar = _simple(binding, routine, values) if not routine.columns else None
    if scalar is None:
        query = _one_row(binding, _bound(binding, routine, values, node, first=True), routine)
        id_ = binding.fresh()
        place = partial(span_of, node, binding.source)
        binding.subqueries[id_] = Subquery(
            id_, "scalar", replace(query, order=()), query.columns[0].type, (), place
        )
        scalar = Column(id_, query.columns[0].type)
    scalar = _result(binding, scalar, routine, node)
    return _strict(binding, routine, scalar, values, node)


def _as_array(node: exp.Expr, routine: Routine) -> exp.Expr:
    """A function that makes rows, in a select list: its rows as an array, whose elements these are."""
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
    numbered: bool,
    declared: Mapping[str, Type],
) -> Inlined | None:
    """The rows of a call in FROM; None if that is no such function. The node refers to what stands before."""
    scope = scope.without_aggregates("a function in FROM").without_rows("the argument of a function in FROM")
    routine, values = resolved_call(binding, scope, node) or (None, [])
    if routine is None or not (routine.rows or routine.columns or declared):
        return None
    name = routine.name.rpartition(".")[2]
    first = not routine.rows
    query = _bound(binding, routine, values, node, first=first, outer=first, numbered=numbered)
    names = routine.columns or (alias or name,)
    if numbered:
        names = (*names, "ordinality")
    result = query.node
    if routine.strict:
        result = Filter(result, tuple(call(binding, "is_not_null", [one], node) for one in values))
    return Inlined(result, alias or name, names, query.columns)


def resolved_call(binding: Binding, scope: Scope, node: exp.Expr) -> tuple[Routine, list[Scalar]] | None:
    """The function of users that a call means, and a value for each parameter; None for anything else."""
    found = routines_of(binding, node)
    if found is None:
        return None
    routines, operands = found
    need(binding.catalog, ("FUNCTION", routines[0].name.lower()), "X")
    spread = bool(operands) and isinstance(operands[-1], exp.Variadic)
    plain = [one.expression if isinstance(one, NAMED) else one for one in operands]
    plain = [one.this if isinstance(one, exp.Variadic) else one for one in plain]
    names = [one.this.name if isinstance(one, NAMED) else "" for one in operands]
    values = [binding.expression(scope, one) for one in plain]
    try:
        choice = chosen(routines, [value.type for value in values], names, spread)
    except ProgrammingError as error:
        name = routines[0].name
        if is_function(name) or is_aggregate(name):
            return None
        span = span_of(node, binding.source) or whole(binding.source)
        raise ProgrammingError(error.message, span=span, hint=error.hint) from None
    return choice.routine, [settled(one) for one in _in_places(binding, choice, values, node)]


def _in_places(binding: Binding, choice: Chosen, values: Sequence[Scalar], node: exp.Expr) -> list[Scalar]:
    """A value for each parameter, of its type."""
    found: list[Scalar] = []
    for place, parameter in zip(choice.places, choice.routine.parameters, strict=True):
        if isinstance(place, int):
            found.append(brought(binding, values[place], parameter.type, node))
        elif parameter.variadic:
            (element,) = parameter.type.parts
            items = tuple(brought(binding, values[one], element, node) for one in place or ())
            found.append(Call("$array", items, parameter.type))
        else:
            default = body_of(f"SELECT {parameter.default}").expressions[0]
            found.append(brought(binding, binding.expression(Scope(), default), parameter.type, node))
    return found


def _fields(
    binding: Binding, routine: Routine, values: Sequence[Scalar]
) -> tuple[list[Field], list[int], list[Scalar]]:
    """What the body may name, and the ids under which the arguments are there."""
    fields: list[Field] = []
    ids: list[int] = []
    scalars: list[Scalar] = []

    def enter(scalar: Scalar) -> Column:
        ids.append(binding.fresh())
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
                fields.append(Field(parameter.name, label, enter(part), listed=False))
    return fields, ids, scalars


def _simple(binding: Binding, routine: Routine, values: Sequence[Scalar]) -> Scalar | None:
    """The body as an expression over the arguments, if it is one."""
    body = body_of(routine.body)
    if not isinstance(body, exp.Select) or len(body.expressions) != 1:
        return None
    if any(value and name not in PLAIN for name, value in body.args.items()):
        return None
    calls = (exp.Query, exp.AggFunc, exp.Window, exp.Unnest, exp.Star)
    for part in body.expressions[0].walk():
        if isinstance(part, calls) or aggregate_of(part, binding.catalog.functions) is not None:
            return None
        if isinstance(part, exp.Func) and _may_make_rows(binding, part):
            return None
    fields, ids, scalars = _fields(binding, routine, values)
    before = len(binding.subqueries)
    expression = body.expressions[0]
    scalar = _guarded(
        binding, routine, lambda: binding.expression(Scope(fields=Fields(fields)), expression.unalias())
    )
    if len(binding.subqueries) != before:
        return None
    known = dict(zip(ids, scalars, strict=True))
    return transform(scalar, lambda one: known.get(one.index, one) if isinstance(one, Column) else one)


def _may_make_rows(binding: Binding, node: exp.Expr) -> bool:

    found = routines_of(binding, node)
    if found is not None and any(one.rows for one in found[0]):
        return True
    return called_rows(node, binding.catalog.functions) is not None


def _guarded(binding: Binding, routine: Routine, bind: Callable[[], T]) -> T:
    """What binding a body gives; an error in it names the function."""
    binding.inlining += 1
    if binding.inlining > DEEPEST:
        raise NotSupportedError(f"function {routine.name}, which calls itself, is not supported")
    before = binding.catalog
    binding.catalog = before if routine.path is None else before.on_path(routine.path)
    try:
        return _as_definer(binding, routine, bind) if routine.definer else bind()
    except PrivilegeError:
        raise
    except ProgrammingError as error:
        if "in function " in error.message:
            raise
        raise ProgrammingError(f"{error.message} (in function {routine.name})", hint=error.hint) from None
    finally:
        binding.inlining -= 1
        binding.catalog = before


def _as_definer(binding: Binding, routine: Routine, bind: Callable[[], T]) -> T:
    """What binding a body gives with the rights of the function's owner; PrivilegeError if they do not do."""
    caller = binding.catalog, binding.reads, binding.owner
    catalog = binding.catalog.copy()
    catalog.asker = definer_of(catalog, routine)
    binding.catalog, binding.owner = catalog, None
    binding.reads = Reads() if may_refuse(catalog) else None
    try:
        found = bind()
        for one in binding.reads.relations if binding.reads is not None else ():
            if one.scanned or one.used:
                need_columns(catalog, one.entry.name, "r", frozenset(one.used))
        if binding.reads is not None and caller[1] is not None:
            caller[1].within.append((catalog, binding.reads))
        return found
    finally:
        binding.catalog, binding.reads, binding.owner = caller


def _bound(
    binding: Binding,
    routine: Routine,
    values: Sequence[Scalar],
    node: exp.Expr,
    *,
    first: bool,
    outer: bool = False,
    numbered: bool = False,
) -> Query:
    """The body as a query over the arguments, with the columns that are declared.

    Its ``first`` row, or all; with ``outer`` NULLs where it has no row.
    """
    fields, ids, scalars = _fields(binding, routine, values)
    body = body_of(routine.body)
    query: Query = _guarded(
        binding, routine, lambda: settled_query(binding.query(Scope(fields=Fields(fields)), body))
    )
    if first and not _is_one(body):
        query = replace(query, node=TopK(query.node, (), query.order, 1, 0))
    query = _declared(binding, query, routine, node)
    inner = query.node
    number = Column(binding.fresh(), BIGINT)
    if numbered:
        query = replace(query, columns=(*query.columns, number))
    if numbered and not outer:
        calls = (WindowCall("row_number", (), BIGINT),)
        inner = Window(inner, (), query.order, (), (number.index,), calls)
    row = Rows(((Literal(0, INTEGER),),), (binding.fresh(),), (INTEGER,))
    start: Node = Map(row, tuple(ids), tuple(scalars)) if ids else row
    if not outer:
        return replace(query, node=Join("inner", start, inner, ()))
    joined: Node = Join("left", start, inner, ())  # one row, whether the body has one or not
    if numbered:
        joined = Map(joined, (number.index,), (Literal(1, BIGINT),))
    return replace(query, node=joined)


def _is_one(body: exp.Expr) -> bool:
    """Whether a query has one row by its form."""
    if not isinstance(body, exp.Select) or body.args.get("group") is not None:
        return False
    if any(body.args.get(name) for name in ("where", "having", "limit", "offset", "qualify")):
        return False
    calls = any(isinstance(part, exp.Anonymous | exp.Unnest) for part in body.walk())
    return body.args.get("from_") is None and not calls


def _declared(binding: Binding, query: Query, routine: Routine, node: exp.Expr) -> Query:
    """The query with the columns that the function is declared to have."""
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
            binding.wrong(message, node)
        columns = [_row(columns, routine.result)]
    cast = [_cast(binding, one, type_, routine, node) for one, type_ in zip(columns, wanted, strict=True)]
    if all(isinstance(one, Column) for one in cast):
        return replace(query, columns=tuple(one for one in cast if isinstance(one, Column)))
    ids = tuple(binding.fresh() for _ in cast)
    made = tuple(Column(id_, one.type) for id_, one in zip(ids, cast, strict=True))
    return replace(query, node=Map(query.node, ids, tuple(cast)), columns=made)


def _row(parts: Sequence[Scalar], type_: Type) -> Scalar:
    cast = tuple(coerce(part, wanted) for part, wanted in zip(parts, type_.parts, strict=True))
    return Call("$row", cast, type_)


def _one_row(binding: Binding, query: Query, routine: Routine) -> Query:
    """The query with one column: a row of those that there are."""
    if not routine.columns or len(query.columns) == 1:
        return query
    column = Column(binding.fresh(), routine.result)
    made = Call("$row", query.columns, routine.result)
    return replace(query, node=Map(query.node, (column.index,), (made,)), columns=(column,))


def _cast(binding: Binding, scalar: Scalar, type_: Type, routine: Routine, node: exp.Expr) -> Scalar:
    if type_.name == "void":
        return Literal(None, TEXT)
    if scalar.type == type_:
        return scalar
    if scalar.type == UNKNOWN:
        return brought(binding, scalar, type_, node)
    if not castable(scalar.type, type_):
        binding.wrong(f"function {routine.name} gives {scalar.type}, {type_} is declared", node)
    return coerce(scalar, type_)


def _result(binding: Binding, scalar: Scalar, routine: Routine, node: exp.Expr) -> Scalar:
    return scalar if routine.columns else _cast(binding, scalar, routine.result, routine, node)


def _strict(
    binding: Binding, routine: Routine, scalar: Scalar, values: Sequence[Scalar], node: exp.Expr
) -> Scalar:
    """NULL of a STRICT function, if an argument is."""
    if not routine.strict or not values:
        return scalar
    tests = [call(binding, "is_null", [value], node) for value in values]
    missing = tests[0] if len(tests) == 1 else Call("or", tuple(tests), BOOLEAN)
    return If(missing, Literal(None, scalar.type), scalar, scalar.type)


def check_body(binding: Binding, routine: Routine) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    """The names and types of what a body gives; an error if it cannot be bound."""
    values = [Literal(None, one.type) for one in routine.parameters]
    fields, _, _ = _fields(binding, routine, values)
    query: Query = _guarded(
        binding,
        routine,
        lambda: settled_query(binding.query(Scope(fields=Fields(fields)), body_of(routine.body))),
    )
    return query.names, tuple(column.type for column in query.columns)
