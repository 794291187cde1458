"""Statements that read rows which were made while they ran, under the names of WITH queries."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from kpg.compiler.sql import statements as ast


def named_rows(name: str) -> str:
    """What the table of the rows of a WITH query is called."""
    return f"rows of {name}"


def with_rows(statement: ast.Change | ast.Select, tables: Mapping[str, str]) -> ast.Change | ast.Select:
    """A statement that finds tables under the names of WITH queries."""
    if not tables:
        return statement
    match statement:
        case ast.Select():
            return replace(statement, query=_with(statement.query, tables))
        case ast.Insert():
            query = replace(statement.query, query=_with(statement.query.query, tables))
            return replace(statement, query=query, common=_clause(statement.common, tables))
        case ast.Delete() | ast.Update() | ast.Merge():
            return replace(statement, common=_clause(statement.common, tables))
        case _:
            assert_never(statement)


def _with(query: exp.Expr, tables: Mapping[str, str]) -> exp.Expr:
    query = query.copy()
    query.set("with_", _clause(query.args.get("with_"), tables))
    return query


def _clause(clause: exp.Expr | None, tables: Mapping[str, str]) -> exp.Expr:
    found = exp.With(expressions=[]) if clause is None else clause.copy()
    made = []
    for name, table in tables.items():
        source = exp.Table(this=exp.to_identifier(table, quoted=True))
        select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))
        made.append(exp.CTE(this=select, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True))))
    found.set("expressions", [*made, *found.expressions])
    return found


def returning_query(statement: ast.Insert, table: str) -> ast.Select:
    """RETURNING as a query over a table of the rows that were inserted."""
    alias = exp.TableAlias(this=exp.to_identifier(statement.alias, quoted=True))
    source = exp.Table(this=exp.to_identifier(table, quoted=True), alias=alias)
    query = exp.Select(expressions=[part.copy() for part in statement.returning], from_=exp.From(this=source))
    if statement.common is not None:
        query.set("with_", statement.common.copy())
    return ast.Select(query, statement.span)


def listed(statement: ast.Insert, names: Sequence[str]) -> tuple[exp.Expr, ...]:
    """RETURNING with names of columns in the place of a star: partitions may have another order of them."""
    found: list[exp.Expr] = []
    for one in statement.returning:
        if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
            found += [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
        else:
            found.append(one)
    return tuple(found)
