"""Subqueries in expressions: bound in the scope around them, and named by an id in the scalar."""

from dataclasses import replace
from functools import partial

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call
from kpg.compiler.sql.bind.composite import bind_any_element
from kpg.compiler.sql.bind.functions import COMPARISONS, OPPOSITE
from kpg.compiler.sql.bind.output import settled_query
from kpg.compiler.sql.bind.rows import compared_pairs, row_parts
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.syntax import only, span_of
from kpg.compiler.sql.tree import Query, Subquery
from kpg.runtime.scalar import Column, Scalar
from kpg.runtime.types import BOOLEAN, Type


def bind_subquery(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """``EXISTS (query)``, or ``(query)`` as a value."""
    if isinstance(node, exp.Exists):
        only(node, binding.source, "this")
        return _register(binding, "exists", _query(binding, scope, _with_a_column(node.this)), BOOLEAN)
    query = _query(binding, scope, node)
    if len(query.columns) != 1:
        binding.wrong(f"a subquery used as a value returns one column, not {len(query.columns)}", node)
    column = _register(binding, "scalar", query, query.columns[0].type)
    subquery = binding.subqueries[column.index]
    binding.subqueries[column.index] = replace(subquery, place=partial(span_of, node, binding.source))
    return column


def _with_a_column(query: exp.Expr) -> exp.Expr:
    """``SELECT FROM ...``, of which EXISTS asks only whether it has rows, with a column."""
    if not isinstance(query, exp.Select) or query.expressions:
        return query
    filled = query.copy()
    filled.set("expressions", [exp.Literal.number(1)])
    return filled


def bind_in(binding: Binding, scope: Scope, node: exp.In) -> Scalar:
    """``operand IN (query)``, the operand a value or a row."""
    query = node.args.get("query") or node.expressions[0]
    return _any(binding, scope, node, node.this, "eq", query)


def bind_quantified(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """``operand comparison ANY (query)``, or ALL: true unless the opposite holds for some row."""
    only(node, binding.source, "this", "expression")
    if type(node) not in COMPARISONS:
        binding.refuse("ANY or ALL after anything but a comparison", node)
    comparison, quantifier = COMPARISONS[type(node)], node.expression
    every = isinstance(quantifier, exp.All) or quantifier.name.lower() == "all"
    if isinstance(quantifier, exp.Anonymous):
        only(quantifier, binding.source, "this", "expressions")
        query = quantifier.expressions[0]
    else:
        only(quantifier, binding.source, "this")
        query = quantifier.this
    found = bind_any_element(binding, scope, node, query, every=every)
    if found is not None:
        return found
    if every:
        opposite = _any(binding, scope, node, node.this, OPPOSITE[comparison], query)
        return call(binding, "not", [opposite], node)
    return _any(binding, scope, node, node.this, comparison, query)


def is_quantifier(node: exp.Expr | None) -> bool:
    """Whether the node is ANY, SOME or ALL; before a query in two parentheses sqlglot makes a call of it."""
    match node:
        case exp.Any() | exp.All():
            return True
        case exp.Anonymous(expressions=[_]):
            return node.name.lower() in ("any", "some", "all")
        case _:
            return False


def _any(
    binding: Binding,
    scope: Scope,
    node: exp.Expr,
    left: exp.Expr,
    comparison: str,
    right: exp.Expr,
) -> Scalar:
    if not isinstance(right, exp.Query | exp.Values):
        binding.refuse("ANY, ALL or IN over anything but a query", node)
    operands = row_parts(left) or [left]
    values = [binding.expression(scope, operand) for operand in operands]
    query = _query(binding, scope, right)
    if len(query.columns) != len(values):
        message = f"the subquery returns {len(query.columns)} columns, to compare with {len(values)}"
        binding.wrong(message, node)
    if len(values) > 1 and comparison != "eq":
        pairs = list(zip(values, query.columns, strict=True))
        return _register(binding, "any", query, BOOLEAN, (compared_pairs(binding, comparison, pairs, node),))
    tests = tuple(
        call(binding, comparison, [value, column], node)
        for value, column in zip(values, query.columns, strict=True)
    )
    return _register(binding, "any", query, BOOLEAN, tests)


def _query(binding: Binding, scope: Scope, node: exp.Expr) -> Query:
    return settled_query(binding.query(scope, node))


def _register(
    binding: Binding, kind: str, query: Query, type_: Type, comparison: tuple[Scalar, ...] = ()
) -> Column:
    subquery = Subquery(binding.fresh(), kind, replace(query, order=()), type_, comparison)
    binding.subqueries[subquery.id] = subquery
    return Column(subquery.id, type_)
