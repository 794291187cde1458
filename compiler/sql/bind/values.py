"""VALUES: rows of expressions, whose columns take a type from their cells or from a table to insert into."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.calls import assigned, brought
from kpg.compiler.sql.bind.from_clause import one_row
from kpg.compiler.sql.bind.literals import loose_type, settled_type
from kpg.compiler.sql.bind.output import united
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.tree import Map, Query, Rows, SortKey
from kpg.runtime.functions import shown_type
from kpg.runtime.scalar import Column, Literal, Scalar
from kpg.runtime.types import INTEGER, UNKNOWN, ColumnDef

Cells = list[list[Scalar]]
ROWS: Final = "rows"
"""Where a tree has the rows that stand for those of a long list."""


def bind_values(binding: Binding, around: Scope, node: exp.Values) -> Query:
    """VALUES as a query, each column of a type that all its cells can have."""
    known = node.meta.get(ROWS)
    if known is not None:
        return _query(binding, [list(row) for row in zip(*known.columns, strict=True)])
    syntax = _syntax(binding, node)
    rows = _bound(binding, around, syntax)
    for (first, second), row in zip(pairwise(rows), syntax[1:], strict=True):
        if len(first) != len(second):
            message = f"a row of {len(second)} values in VALUES with rows of {len(first)}"
            binding.wrong(message, row[0])
    for index in range(len(rows[0])):
        _unify(binding, rows, syntax, index, node)
    return _query(binding, rows)


def bind_inserted(binding: Binding, node: exp.Values, columns: Sequence[ColumnDef]) -> Query:
    """VALUES for columns of a table: each cell on its own takes its column's type."""
    syntax = _syntax(binding, node)
    rows = _bound(binding, Scope(), syntax)
    for row, parts in zip(rows, syntax, strict=True):
        if len(row) != len(columns):
            binding.wrong(f"INSERT has {len(row)} values for {len(columns)} columns", parts[0])
        row[:] = [
            assigned(binding, cell, column, part)
            for cell, column, part in zip(row, columns, parts, strict=True)
        ]
    return _query(binding, rows)


def _syntax(binding: Binding, node: exp.Values) -> list[list[exp.Expr]]:
    for row in node.expressions:
        if not isinstance(row, exp.Tuple) or not row.expressions:
            binding.wrong("a row of VALUES is one value or more in brackets", row)
    return [row.expressions for row in node.expressions]


def _bound(binding: Binding, around: Scope, syntax: list[list[exp.Expr]]) -> Cells:
    scope = around.without_aggregates("VALUES")
    return [[binding.expression(scope, part) for part in row] for row in syntax]


def _unify(binding: Binding, rows: Cells, syntax: list[list[exp.Expr]], index: int, node: exp.Expr) -> None:
    """Brings one column to a type; strings and NULLs alone leave it UNKNOWN."""
    kinds = {loose_type(row[index]): None for row in rows}
    if set(kinds) == {UNKNOWN}:
        return
    target = shown_type(tuple(kinds))
    if target is None:
        binding.wrong(f"column {index + 1} of VALUES has no common type", node, "add a CAST")
    for row, parts in zip(rows, syntax, strict=True):
        row[index] = brought(binding, row[index], settled_type(target), parts[index])


def _query(binding: Binding, rows: Cells) -> Query:
    types = tuple(scalar.type for scalar in rows[0])
    names = tuple(f"column{index + 1}" for index in range(len(types)))
    constant = [tuple(cell for cell in row if isinstance(cell, Literal)) for row in rows]
    if any(len(row) < len(types) for row in constant):
        return _computed(binding, rows, names)
    ids = tuple(binding.fresh() for _ in types)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    return Query(Rows(tuple(constant), ids, types), columns, names)


def _computed(binding: Binding, rows: Cells, names: tuple[str, ...]) -> Query:
    """Rows that are not constant: a union of one-row queries, in the order of the numbers that they get."""
    if len(rows) == 1:
        return _one_row(binding, rows[0], names)
    numbered = (*names, "number")
    queries = [_one_row(binding, [*row, Literal(place, INTEGER)], numbered) for place, row in enumerate(rows)]
    result = united(binding, queries)
    *shown, number = result.columns
    return Query(result.node, tuple(shown), names, (SortKey(number, descending=False, nulls_first=False),))


def _one_row(binding: Binding, row: list[Scalar], names: tuple[str, ...]) -> Query:
    ids = tuple(binding.fresh() for _ in row)
    node = Map(one_row(binding), ids, tuple(row))
    return Query(node, tuple(Column(id_, scalar.type) for id_, scalar in zip(ids, row, strict=True)), names)
