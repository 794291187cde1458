"""Functions in FROM: one call, or those of ROWS FROM side by side, of users' functions and of SQL's."""

from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call, user_type
from kpg.compiler.sql.bind.row_functions import NUMBER, bind_from_calls, declared_of, in_order, only_call
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.syntax import only
from kpg.compiler.sql.tree import Join, Map, Node, SortKey
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column

OPTIONS: Final = "pg_options_to_table"
KEYWORDS: Final = "pg_get_keywords"
OF_PARTITIONS: Final = ("pg_partition_ancestors", "pg_partition_tree")


@dataclass(frozen=True, slots=True)
class Item:
    """A call, or several, in FROM: the rows, their own name, and the columns with their names."""

    node: Node
    name: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    is_value: bool = True
    """Whether its rows are values, if it has one column."""


def bind_called(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """A function in the place of a table, or ROWS FROM several."""
    only(node, binding.source, "this", "alias", "joins", "ordinality", "rows_from", "db")
    only_call(binding, node)
    calls = in_order(node)
    if isinstance(calls[0], exp.Anonymous) and str(calls[0].this).lower() == OPTIONS:
        from kpg.compiler.sql.bind.unlisted import no_options

        return no_options(binding, scope, node)
    if isinstance(calls[0], exp.Anonymous) and str(calls[0].this).lower() == KEYWORDS:
        from kpg.compiler.sql.bind.unlisted import word_rows

        return word_rows(binding, scope, node)
    if isinstance(calls[0], exp.Anonymous) and _is_of_partitions(calls[0]):
        from kpg.compiler.sql.bind.unlisted import kin_rows

        return kin_rows(binding, scope, node, calls[0])
    if node.args.get("db") is not None and node.db.lower() != "pg_catalog":
        calls = [exp.Dot(this=node.args["db"].copy(), expression=calls[0].copy())]
    return bind_calls(binding, scope, node, calls, numbered=bool(node.args.get("ordinality")))


def _is_of_partitions(node: exp.Anonymous) -> bool:
    """Whether a call asks for the kin of a table."""
    return str(node.this).lower() in OF_PARTITIONS and len(node.expressions) == 1


def bind_calls(
    binding: Binding, scope: Scope, node: exp.Expr, calls: list[exp.Expr], *, numbered: bool
) -> Node:
    """Calls in FROM, whose arguments may name the items before."""
    from kpg.compiler.sql.bind.from_clause import alias_of, enter

    alias, renamed = alias_of(binding, node, "")
    declared = declared_of(node)
    lists = [declared_of(part) for part in node.args.get("rows_from") or ()]
    if len(calls) == 1:
        item = _one(
            binding, scope, calls[0], alias, declared or (lists[0] if lists else []), numbered=numbered
        )
    elif any(lists) or binding.catalog.routines:
        item = _in_step(binding, scope, calls, alias, lists, numbered=numbered)
    else:
        item = _built_in(binding, scope, calls, alias, declared, numbered=numbered)
    if len(item.columns) == 1 and item.name and item.is_value:
        scope.whole[item.name.lower()] = item.columns[0]
    enter(binding, scope, item.name, item.names, item.columns, renamed, node)
    return item.node


def named_number(call_: exp.Expr, item: exp.Expr) -> bool:
    """Whether ``unnest`` in FROM has WITH ORDINALITY; the number's name goes back to those of the item."""
    if not isinstance(call_, exp.Unnest):
        return False
    offset = call_.args.get("offset")
    if isinstance(offset, exp.Identifier):  # sqlglot takes the number's name from the others
        item.args["alias"].append("columns", offset)
        call_.set("offset", True)
    return bool(offset)


def _one(
    binding: Binding, scope: Scope, node: exp.Expr, alias: str, declared: list[exp.Expr], *, numbered: bool
) -> Item:
    if binding.catalog.routines:
        from kpg.compiler.sql.bind.inlined import bind_routine_rows

        types = {one.name: user_type(binding, one.args["kind"]) for one in declared}
        found = bind_routine_rows(binding, scope, node, alias, numbered=numbered, declared=types)
        if found is not None:
            names = (*types, *found.names[len(types) :])
            return Item(found.node, found.name, names, found.columns, is_value=False)
    return _built_in(binding, scope, [node], alias, declared, numbered=numbered)


def _built_in(
    binding: Binding,
    scope: Scope,
    calls: list[exp.Expr],
    alias: str,
    declared: list[exp.Expr],
    *,
    numbered: bool,
) -> Item:
    from kpg.compiler.sql.bind.from_clause import one_row

    source = one_row(binding)
    made = bind_from_calls(
        binding, scope, calls, numbered=numbered, source=source, alias=alias, declared=declared
    )
    return Item(*made)


def _in_step(
    binding: Binding,
    scope: Scope,
    calls: list[exp.Expr],
    alias: str,
    lists: list[list[exp.Expr]],
    *,
    numbered: bool,
) -> Item:
    """Calls of which each has rows of its own, side by side by their numbers."""
    items = [
        _one(binding, scope, node, "", declared, numbered=True)
        for node, declared in zip(calls, lists or [[] for _ in calls], strict=True)
    ]
    result, number = items[0].node, items[0].columns[-1]
    for place, item in enumerate(items[1:], 1):
        other = item.columns[-1]
        result = Join("full", result, item.node, (call(binding, "eq", [number, other], calls[place]),))
        either = call(binding, "coalesce", [number, other], calls[place])
        number = Column(binding.fresh(), either.type)
        result = Map(result, (number.index,), (either,))
    names = [name for item in items for name in item.names[:-1]]
    columns = [column for item in items for column in item.columns[:-1]]
    if numbered:
        names.append(NUMBER)
        columns.append(number)
    scope.orders[id(result)] = (SortKey(number, descending=False, nulls_first=False),)
    return Item(result, alias or items[0].name, tuple(names), tuple(columns))
