"""Eager subexpressions: parts of a statement that are evaluated before it.

They are LIMIT, OFFSET and FETCH with subqueries, and calls that read or set settings. The module also
rewrites a statement to read the stored rows of a WITH query or of RETURNING under their name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.features import SETTING_FUNCTIONS


def _limits_with_subqueries(tree: exp.Expr) -> list[exp.Expr]:
    """Return the LIMIT, OFFSET and FETCH clauses whose counts have a subquery."""
    clauses = tree.find_all(exp.Limit, exp.Offset, exp.Fetch)
    return [
        clause for clause in clauses if (part := _count_of(clause)) is not None and part.find(exp.Subquery)
    ]


def _count_of(clause: exp.Expr) -> exp.Expr | None:
    return clause.args.get("count" if isinstance(clause, exp.Fetch) else "expression")


def limit_queries(tree: exp.Expr) -> list[exp.Expr]:
    """Return a query for each LIMIT, OFFSET or FETCH count that has a subquery."""
    found: list[exp.Expr] = []
    for clause in _limits_with_subqueries(tree):
        number = _count_of(clause)
        assert number is not None
        query = exp.Select(expressions=[number.copy()])
        if tree.args.get("with_") is not None:
            query.set("with_", tree.args["with_"].copy())
        found.append(query)
    return found


def substitute_limits(tree: exp.Expr, counts: Sequence[int | None]) -> exp.Expr:
    """Return the tree with the results of :func:`limit_queries` in their places."""
    tree = tree.copy()
    for clause, number in zip(_limits_with_subqueries(tree), counts, strict=True):
        value: exp.Expr = exp.Null() if number is None else exp.Literal.number(abs(number))
        if number is not None and number < 0:
            value = exp.Neg(this=value)
        clause.set("count" if isinstance(clause, exp.Fetch) else "expression", value)
    return tree


def calls_settings(tree: exp.Expr) -> bool:
    """Return whether a query reads or sets settings."""
    return any(str(node.this).lower() in SETTING_FUNCTIONS for node in tree.find_all(exp.Anonymous))


def substitute_settings(tree: exp.Expr, evaluate: Callable[[str, list[str]], str | None]) -> exp.Expr:
    """Return the tree with calls that read or set settings replaced by their results."""

    def constant(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Anonymous) or str(node.this).lower() not in SETTING_FUNCTIONS:
            return node
        if isinstance(node.expressions[0] if node.expressions else None, exp.Column):
            return node  # evaluated per row: see bind/system.py
        args = [str(part.this) if isinstance(part, exp.Boolean) else part.name for part in node.expressions]
        name = str(node.this).lower()
        found = evaluate(name, args)
        made = exp.Cast(
            this=exp.Null() if found is None else exp.Literal.string(found), to=exp.DataType.build("text")
        )
        listed = isinstance(node.parent, exp.Select) and node in node.parent.expressions
        return exp.alias_(made, name) if listed else made

    return tree.transform(constant)


def rows_table_name(name: str) -> str:
    """Return the name of the table that stores the rows of a WITH query."""
    return f"rows of {name}"


def with_row_tables(statement: ast.Change | ast.Select, tables: Mapping[str, str]) -> ast.Change | ast.Select:
    """Return a statement that reads stored rows under the names of WITH queries."""
    if not tables:
        return statement
    match statement:
        case ast.Select():
            return replace(statement, query=_add_with_clause(statement.query, tables))
        case ast.Insert():
            query = replace(statement.query, query=_add_with_clause(statement.query.query, tables))
            return replace(statement, query=query, common=_extend_with_clause(statement.common, tables))
        case ast.Delete() | ast.Update() | ast.Merge():
            return replace(statement, common=_extend_with_clause(statement.common, tables))
        case _:
            assert_never(statement)


def _add_with_clause(query: exp.Expr, tables: Mapping[str, str]) -> exp.Expr:
    query = query.copy()
    query.set("with_", _extend_with_clause(query.args.get("with_"), tables))
    return query


def _extend_with_clause(clause: exp.Expr | None, tables: Mapping[str, str]) -> exp.Expr:
    found = exp.With(expressions=[]) if clause is None else clause.copy()
    made = []
    for name, table in tables.items():
        source = exp.Table(this=exp.to_identifier(table, quoted=True))
        select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))
        made.append(exp.CTE(this=select, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True))))
    found.set("expressions", [*made, *found.expressions])
    return found


def returning_query(statement: ast.Insert, table: str) -> ast.Select:
    """Return RETURNING as a query over a table of the inserted rows."""
    alias = exp.TableAlias(this=exp.to_identifier(statement.alias, quoted=True))
    source = exp.Table(this=exp.to_identifier(table, quoted=True), alias=alias)
    query = exp.Select(expressions=[part.copy() for part in statement.returning], from_=exp.From(this=source))
    if statement.common is not None:
        query.set("with_", statement.common.copy())
    return ast.Select(query, statement.span)


def expand_returning(statement: ast.Insert, names: Sequence[str]) -> tuple[exp.Expr, ...]:
    """Return RETURNING with column names in the place of a star: partitions may order columns differently."""
    found: list[exp.Expr] = []
    for one in statement.returning:
        if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
            found += [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
        else:
            found.append(one)
    return tuple(found)
