"""Set-returning functions in FROM and in a select list.

Those at one level of a select list run in lockstep.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from kpg.compiler.algebra.rel import RowCall
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.sql.bind.calls import coerce_at, default_to_text, resolve_type
from kpg.compiler.sql.bind.composite import row_fields
from kpg.compiler.sql.bind.functions import UserFunctions, as_list, user_function_call
from kpg.compiler.sql.bind.scope import Binding, Scope, SetReturningCalls, as_columns
from kpg.compiler.sql.bound_tree import Expand, Ids, Node, referenced_ids
from kpg.compiler.sql.parse.call_syntax import order_arguments
from kpg.compiler.sql.parse.syntax import allow_only, span_of, whole_span
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.autoload import COLUMN_DEFINITION_FUNCTIONS, POPULATE_FUNCTIONS
from kpg.runtime.functions.table_functions import SINGLE_VALUE, RowFunction, is_row_function, resolve_row_call
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Literal, Scalar, display_name
from kpg.runtime.types import BIGINT, TEXT, Kind

ORDINALITY = "ordinality"
"""Default name of the column of WITH ORDINALITY."""


@dataclass(frozen=True, slots=True)
class FromCall:
    """A bound call in FROM: its name, and its column names, "" for the name of the call."""

    call: RowCall
    name: str
    columns: tuple[str, ...]


def set_returning_call(node: exp.Expr, functions: UserFunctions) -> tuple[str, list[exp.Expr]] | None:
    """Return the name and arguments of a set-returning call; None for any other node."""
    found = user_function_call(node, functions)
    if found is not None:
        return found if isinstance(found[0].definition, RowFunction) else None
    match node:
        case exp.Unnest():
            return "unnest", node.expressions
        case exp.Anonymous() if is_row_function(str(node.this).lower()):
            name = str(node.this).lower()
            return name, order_arguments(name, node.expressions) or node.expressions
        case _:
            return None


def has_set_returning_call(node: exp.Expr, catalog: Catalog) -> bool:
    """Return whether an expression has a set-returning call outside of nested queries."""
    if isinstance(node, exp.Query):
        return False
    if set_returning_call(node, catalog.functions) is not None:
        return True
    if isinstance(node, exp.Anonymous) and any(
        one.rows for one in catalog.find_routines(str(node.this).lower(), "")
    ):
        return True
    return any(has_set_returning_call(part, catalog) for part in node.iter_expressions())


def bind_row_call(binding: Binding, scope: Scope, node: exp.Expr) -> tuple[RowCall, tuple[str, ...]] | None:
    """Bind a set-returning call, and return its column names too; None for any other expression."""
    found = set_returning_call(node, binding.catalog.functions)
    if found is None:
        return None
    name, operands = found
    return _resolve_row_call(
        binding, name, [binding.expression(scope, operand) for operand in operands], node
    )


def _resolve_row_call(
    binding: Binding, name: str, args: Sequence[Scalar], node: exp.Expr
) -> tuple[RowCall, tuple[str, ...]]:
    try:
        meaning = resolve_row_call(name, tuple(arg.type for arg in args))
    except ProgrammingError as error:
        span = span_of(node, binding.source) or whole_span(binding.source)
        placed = ProgrammingError(error.message, span=span, hint=error.hint)
        placed.short, placed.sqlstate = error.short, error.sqlstate
        raise placed from None
    cast = [coerce_at(binding, arg, type_, node) for arg, type_ in zip(args, meaning.args, strict=True)]
    text = node.sql("postgres")
    return RowCall(name, tuple(cast), meaning.types, meaning.nullable, text), meaning.names


def bind_from_calls(
    binding: Binding,
    scope: Scope,
    nodes: Sequence[exp.Expr],
    *,
    with_ordinality: bool,
    source: Node,
    alias: str,
    definitions: Sequence[exp.Expr] = (),
) -> tuple[Node, str, tuple[str, ...], tuple[Column, ...]]:
    """Bind calls in FROM over one row; return the relation, its name, column names and columns."""
    scope = scope.without_aggregates("a function in FROM").without_set_returning(
        "the argument of a function in FROM"
    )
    if definitions:
        made = [_bind_record_call(binding, scope, node, definitions) for node in nodes]
    else:
        made = [one for node in nodes for one in _bind_from_call(binding, scope, node)]
    single = len(made) == 1 and len(made[0].columns) == 1
    named: list[tuple[str, Scalar]] = []
    columns: list[Column] = []
    for one in made:
        own = alias if single and alias else one.name
        fresh = [Column(binding.new_id(), type_) for type_ in one.call.types]
        columns += fresh
        if one.call.function == "unnest" and fresh[0].type.kind is Kind.RECORD:
            named += row_fields(binding, fresh[0], nodes[0])
        else:
            named += zip((column or own for column in one.columns), fresh, strict=True)
    if with_ordinality:
        columns.append(Column(binding.new_id(), BIGINT))
        named.append((ORDINALITY, columns[-1]))
    made_of = tuple(column.index for column in columns)
    rows = Expand(source, made_of, tuple(one.call for one in made), with_ordinality)
    result, shown_columns = as_columns(binding, rows, [scalar for _, scalar in named])
    return result, alias or made[0].name, tuple(name for name, _ in named), shown_columns


def _bind_record_call(
    binding: Binding, scope: Scope, node: exp.Expr, columns: Sequence[exp.Expr]
) -> FromCall:
    """Bind a call with a column definition list. The column names are passed as one more argument."""
    found = set_returning_call(node, binding.catalog.functions)
    if found is None or found[0] not in COLUMN_DEFINITION_FUNCTIONS:
        binding.fail("a column definition list is only allowed for functions that return records", node)
    names = tuple(column.name for column in columns)
    types = tuple(resolve_type(binding, column.args["kind"]) for column in columns)
    args = [*(binding.expression(scope, part) for part in found[1]), Literal("\n".join(names), TEXT)]
    call, _ = _resolve_row_call(binding, found[0], args, node)
    return FromCall(replace(call, types=types), found[0], names)


def _bind_from_call(binding: Binding, scope: Scope, node: exp.Expr) -> list[FromCall]:
    """Bind one call in FROM. ``unnest`` of several arrays becomes one call per array."""
    if isinstance(node, exp.Unnest) and len(node.expressions) > 1:
        values = [binding.expression(scope, part) for part in node.expressions]
        calls = [_resolve_row_call(binding, "unnest", [value], node) for value in values]
        return [FromCall(call, "unnest", names) for call, names in calls]
    found = bind_row_call(binding, scope, node)
    if found is not None and found[0].function in COLUMN_DEFINITION_FUNCTIONS:
        binding.fail(
            "a column definition list is required for functions that return records",
            node,
            "write AS name(column type, ...) after it",
        )
    if found is not None:
        return [FromCall(found[0], display_name(found[0].function), found[1])]
    value = default_to_text(binding.expression(scope, node))
    name = _call_name(node)
    return [FromCall(RowCall(SINGLE_VALUE, (value,), (value.type,), text=node.sql("postgres")), name, ("",))]


def _call_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else "?column?"


def bind_set_returning_call(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """Bind a set-returning call in a select list to the column that it will expand to."""
    place = scope.set_returning_calls
    if place is None:
        where = scope.set_returning_clause or scope.clause
        binding.fail(f"a function that makes rows is not allowed in {where}", node, "call it in FROM")
    found = bind_row_call(binding, scope, node)
    assert found is not None
    call, names = found
    if call.function in POPULATE_FUNCTIONS:
        call, names = _resolve_row_call(binding, f"${call.function}", call.args, node)
    if len(names) != 1:
        return binding.expression(scope, _as_unnest(node))
    if call not in place.calls:
        below = frozenset[int]().union(*(referenced_ids(arg, binding.subqueries) for arg in call.args))
        levels = [level for id_, level in zip(place.ids, place.levels, strict=True) if id_ in below]
        place.calls.append(call)
        place.ids.append(binding.new_id())
        place.levels.append(max(levels, default=-1) + 1)
    return Column(place.ids[place.calls.index(call)], call.types[0])


def _as_unnest(node: exp.Expr) -> exp.Expr:
    """Return a call with several columns as ``unnest`` of the array of its rows."""
    alias = exp.TableAlias(this=exp.to_identifier("made"))
    source = exp.From(this=exp.Table(this=node.copy(), alias=alias))
    query = exp.Select(expressions=[exp.column("made")], from_=source)
    return exp.Unnest(expressions=[exp.Array(expressions=[query])])


def expand_calls(source: Node, calls: SetReturningCalls, ids: Ids | None = None) -> Node:
    """Return the source with the collected calls expanded level by level; all, or those of ``ids``.

    Calls of one level run in lockstep: shorter results are padded with NULLs.
    """
    for level in sorted(set(calls.levels)):
        members = [
            (id_, call)
            for id_, call, own in zip(calls.ids, calls.calls, calls.levels, strict=True)
            if own == level and (ids is None or id_ in ids)
        ]
        if members:
            source = Expand(source, tuple(id_ for id_, _ in members), tuple(call for _, call in members))
    return source


def split_calls(
    binding: Binding, calls: SetReturningCalls, values: Sequence[Scalar]
) -> tuple[SetReturningCalls, SetReturningCalls]:
    """Return the calls that the values use, directly or through other calls, and the rest."""
    wanted = frozenset[int]().union(*(referenced_ids(value, binding.subqueries) for value in values))
    first, rest = SetReturningCalls(), SetReturningCalls()
    for id_, call, level in reversed(list(zip(calls.ids, calls.calls, calls.levels, strict=True))):
        own = id_ in wanted
        if own:
            wanted = wanted.union(*(referenced_ids(arg, binding.subqueries) for arg in call.args))
        into = first if own else rest
        into.ids.insert(0, id_)
        into.calls.insert(0, call)
        into.levels.insert(0, level)
    return first, rest


def from_calls(node: exp.Expr) -> list[exp.Expr]:
    """Return the calls of a FROM item: those of ROWS FROM, or the single one."""
    parts = as_list(node.args.get("rows_from"))
    return [part if isinstance(part, exp.Unnest) else part.this for part in parts] or [node.this]


def column_definitions(node: exp.Expr) -> list[exp.Expr]:
    """Return the column definition list of an alias; empty if there is none."""
    alias = node.args.get("alias")
    columns = (alias.args.get("columns") or []) if alias is not None else []
    return [column for column in columns if isinstance(column, exp.ColumnDef)]


def check_from_call(binding: Binding, node: exp.Expr) -> None:
    """Refuse parts of ROWS FROM that are not supported."""
    for part in as_list(node.args.get("rows_from")):
        if not isinstance(part, exp.Unnest):
            allow_only(part, binding.source, "this", *(["alias"] if column_definitions(part) else []))
