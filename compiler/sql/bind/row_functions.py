"""Set-returning functions in FROM and in a select list.

Those at one level of a select list run in lockstep.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from kpg.compiler.algebra.rel import RowCall
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.sql.bind.calls import brought, settled, user_type
from kpg.compiler.sql.bind.composite import fields_of_row
from kpg.compiler.sql.bind.functions import OwnFunctions, listed, own_call
from kpg.compiler.sql.bind.scope import Binding, Expansions, Scope, as_columns
from kpg.compiler.sql.bound_tree import Expand, Ids, Node, used
from kpg.compiler.sql.parse.call_syntax import in_their_places
from kpg.compiler.sql.parse.syntax import only, span_of, whole
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.autoload import DECLARED, POPULATED
from kpg.runtime.functions.table_functions import VALUE, RowFunction, makes_rows, resolve_rows
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Literal, Scalar, shown
from kpg.runtime.types import BIGINT, TEXT, Kind

NUMBER = "ordinality"
"""The column of WITH ORDINALITY."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a call in FROM means, its own name, and the names of its columns, "" for that of the call."""

    call: RowCall
    name: str
    columns: tuple[str, ...]


def called_rows(node: exp.Expr, own: OwnFunctions) -> tuple[str, list[exp.Expr]] | None:
    """The name and the arguments of a call of a function that makes rows."""
    found = own_call(node, own)
    if found is not None:
        return found if isinstance(found[0].definition, RowFunction) else None
    match node:
        case exp.Unnest():
            return "unnest", node.expressions
        case exp.Anonymous() if makes_rows(str(node.this).lower()):
            name = str(node.this).lower()
            return name, in_their_places(name, node.expressions) or node.expressions
        case _:
            return None


def has_rows(node: exp.Expr, catalog: Catalog) -> bool:
    """Whether an expression calls a function that makes rows, not within a query of its own."""
    if isinstance(node, exp.Query):
        return False
    if called_rows(node, catalog.functions) is not None:
        return True
    if isinstance(node, exp.Anonymous) and any(
        one.rows for one in catalog.find_routines(str(node.this).lower(), "")
    ):
        return True
    return any(has_rows(part, catalog) for part in node.iter_expressions())


def bind_row_call(binding: Binding, scope: Scope, node: exp.Expr) -> tuple[RowCall, tuple[str, ...]] | None:
    """A call of a function that makes rows, and the names of its columns; None for any other expression."""
    found = called_rows(node, binding.catalog.functions)
    if found is None:
        return None
    name, operands = found
    return _resolved(binding, name, [binding.expression(scope, operand) for operand in operands], node)


def _resolved(
    binding: Binding, name: str, args: Sequence[Scalar], node: exp.Expr
) -> tuple[RowCall, tuple[str, ...]]:
    try:
        meaning = resolve_rows(name, tuple(arg.type for arg in args))
    except ProgrammingError as error:
        span = span_of(node, binding.source) or whole(binding.source)
        placed = ProgrammingError(error.message, span=span, hint=error.hint)
        placed.short, placed.sqlstate = error.short, error.sqlstate
        raise placed from None
    cast = [brought(binding, arg, type_, node) for arg, type_ in zip(args, meaning.args, strict=True)]
    text = node.sql("postgres")
    return RowCall(name, tuple(cast), meaning.types, meaning.nullable, text), meaning.names


def bind_from_calls(
    binding: Binding,
    scope: Scope,
    nodes: Sequence[exp.Expr],
    *,
    numbered: bool,
    source: Node,
    alias: str,
    declared: Sequence[exp.Expr] = (),
) -> tuple[Node, str, tuple[str, ...], tuple[Column, ...]]:
    """Calls of FROM over one row: the relation, its name, and its columns with their names."""
    scope = scope.without_aggregates("a function in FROM").without_rows("the argument of a function in FROM")
    if declared:
        made = [_declared(binding, scope, node, declared) for node in nodes]
    else:
        made = [one for node in nodes for one in _in_from(binding, scope, node)]
    single = len(made) == 1 and len(made[0].columns) == 1
    named: list[tuple[str, Scalar]] = []
    columns: list[Column] = []
    for one in made:
        own = alias if single and alias else one.name
        fresh = [Column(binding.fresh(), type_) for type_ in one.call.types]
        columns += fresh
        if one.call.function == "unnest" and fresh[0].type.kind is Kind.RECORD:
            named += fields_of_row(binding, fresh[0], nodes[0])
        else:
            named += zip((column or own for column in one.columns), fresh, strict=True)
    if numbered:
        columns.append(Column(binding.fresh(), BIGINT))
        named.append((NUMBER, columns[-1]))
    made_of = tuple(column.index for column in columns)
    rows = Expand(source, made_of, tuple(one.call for one in made), numbered)
    result, shown_columns = as_columns(binding, rows, [scalar for _, scalar in named])
    return result, alias or made[0].name, tuple(name for name, _ in named), shown_columns


def _declared(binding: Binding, scope: Scope, node: exp.Expr, columns: Sequence[exp.Expr]) -> Made:
    """A call whose columns are declared: their names go to it as one more argument."""
    found = called_rows(node, binding.catalog.functions)
    if found is None or found[0] not in DECLARED:
        binding.wrong("only functions that give records take a list of column definitions", node)
    names = tuple(column.name for column in columns)
    types = tuple(user_type(binding, column.args["kind"]) for column in columns)
    args = [*(binding.expression(scope, part) for part in found[1]), Literal("\n".join(names), TEXT)]
    call, _ = _resolved(binding, found[0], args, node)
    return Made(replace(call, types=types), found[0], names)


def _in_from(binding: Binding, scope: Scope, node: exp.Expr) -> list[Made]:
    """One call of FROM; ``unnest`` of several arrays is a call for each."""
    if isinstance(node, exp.Unnest) and len(node.expressions) > 1:
        values = [binding.expression(scope, part) for part in node.expressions]
        calls = [_resolved(binding, "unnest", [value], node) for value in values]
        return [Made(call, "unnest", names) for call, names in calls]
    found = bind_row_call(binding, scope, node)
    if found is not None and found[0].function in DECLARED:
        binding.wrong(
            "a column definition list is required for functions that give records",
            node,
            "write AS name(column type, ...) after it",
        )
    if found is not None:
        return [Made(found[0], shown(found[0].function), found[1])]
    value = settled(binding.expression(scope, node))
    name = _name_of(node)
    return [Made(RowCall(VALUE, (value,), (value.type,), text=node.sql("postgres")), name, ("",))]


def _name_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else "?column?"


def bind_expanded(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """The column that stands for a call of a function that makes rows, in a select list."""
    place = scope.expansions
    if place is None:
        where = scope.rows_clause or scope.clause
        binding.wrong(f"a function that makes rows is not allowed in {where}", node, "call it in FROM")
    found = bind_row_call(binding, scope, node)
    assert found is not None
    call, names = found
    if call.function in POPULATED:
        call, names = _resolved(binding, f"${call.function}", call.args, node)
    if len(names) != 1:
        return binding.expression(scope, _as_rows(node))
    if call not in place.calls:
        below = frozenset[int]().union(*(used(arg, binding.subqueries) for arg in call.args))
        levels = [level for id_, level in zip(place.ids, place.levels, strict=True) if id_ in below]
        place.calls.append(call)
        place.ids.append(binding.fresh())
        place.levels.append(max(levels, default=-1) + 1)
    return Column(place.ids[place.calls.index(call)], call.types[0])


def _as_rows(node: exp.Expr) -> exp.Expr:
    """A call whose rows have several columns as the elements of the array of its rows."""
    alias = exp.TableAlias(this=exp.to_identifier("made"))
    source = exp.From(this=exp.Table(this=node.copy(), alias=alias))
    query = exp.Select(expressions=[exp.column("made")], from_=source)
    return exp.Unnest(expressions=[exp.Array(expressions=[query])])


def expanded(source: Node, place: Expansions, chosen: Ids | None = None) -> Node:
    """The source with the rows of the calls collected, level by level; of all, or of the ``chosen`` ids.

    Calls of a level go in step: the rows of each side by side, NULLs where one has fewer than another.
    """
    for level in sorted(set(place.levels)):
        members = [
            (id_, call)
            for id_, call, own in zip(place.ids, place.calls, place.levels, strict=True)
            if own == level and (chosen is None or id_ in chosen)
        ]
        if members:
            source = Expand(source, tuple(id_ for id_, _ in members), tuple(call for _, call in members))
    return source


def taken(binding: Binding, place: Expansions, values: Sequence[Scalar]) -> tuple[Expansions, Expansions]:
    """The calls that some values are made of, and the others."""
    wanted = frozenset[int]().union(*(used(value, binding.subqueries) for value in values))
    first, rest = Expansions(), Expansions()
    for id_, call, level in reversed(list(zip(place.ids, place.calls, place.levels, strict=True))):
        own = id_ in wanted
        if own:
            wanted = wanted.union(*(used(arg, binding.subqueries) for arg in call.args))
        into = first if own else rest
        into.ids.insert(0, id_)
        into.calls.insert(0, call)
        into.levels.insert(0, level)
    return first, rest


def in_order(node: exp.Expr) -> list[exp.Expr]:
    """The calls of a FROM item: those of ROWS FROM, or the only one."""
    parts = listed(node.args.get("rows_from"))
    return [part if isinstance(part, exp.Unnest) else part.this for part in parts] or [node.this]


def declared_of(node: exp.Expr) -> list[exp.Expr]:
    """The columns that AS declares with their types."""
    alias = node.args.get("alias")
    columns = (alias.args.get("columns") or []) if alias is not None else []
    return [column for column in columns if isinstance(column, exp.ColumnDef)]


def only_call(binding: Binding, node: exp.Expr) -> None:
    """Refuse parts of a call in FROM that mean nothing there."""
    for part in listed(node.args.get("rows_from")):
        if not isinstance(part, exp.Unnest):
            only(part, binding.source, "this", *(["alias"] if declared_of(part) else []))
