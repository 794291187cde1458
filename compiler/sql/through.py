"""INSERT, UPDATE and DELETE of a view as such of the table that it selects from."""

from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from kpg.compiler.catalog import Catalog, ViewEntry
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.ddl.reader import parsed_expression
from kpg.compiler.sql.given import given_width, is_default
from kpg.compiler.sql.syntax import relation_name
from kpg.compiler.views import Through, selection, through
from kpg.runtime.errors import ProgrammingError


def through_view(statement: ast.Change, catalog: Catalog) -> ast.Change:
    """A statement about the table that a view shows; ProgrammingError if it is no such view."""
    if isinstance(statement, ast.Merge):
        return statement
    found = through(catalog, statement.table, statement.span)
    if found is None:
        return statement
    statement = replace(statement, table=found.entry.name, through=found)
    match statement:
        case ast.Insert():
            return _insert(statement, found)
        case ast.Update():
            return replace(statement, assignments=_assigned(statement, statement.assignments, found))
        case ast.Delete():
            return statement
        case _:
            assert_never(statement)


def _name(statement: ast.Change, found: Through, column: str) -> str:
    return found.name_of(column, lambda message: ProgrammingError(message, span=statement.span))


def _assigned(
    statement: ast.Change, assignments: tuple[tuple[exp.Identifier, exp.Expr], ...], found: Through
) -> tuple[tuple[exp.Identifier, exp.Expr], ...]:
    result = []
    for target, value in assignments:
        renamed = target.copy()
        renamed.set("this", _name(statement, found, target.name))
        if is_default(value):
            text = dict(found.defaults).get(renamed.name.lower())
            value = exp.Null() if text is None else parsed_expression(text)
        result.append((renamed, value))
    return tuple(result)


def _insert(statement: ast.Insert, found: Through) -> ast.Insert:
    columns = statement.columns
    if not columns:
        columns = found.names[: given_width(statement.query.query) or len(found.names)]
    named = tuple(_name(statement, found, column) for column in columns)
    if found.defaults:
        named, statement = with_defaults(statement, named, dict(found.defaults))
    conflict = statement.conflict
    if conflict is not None:
        conflict = replace(
            conflict,
            columns=tuple(_name(statement, found, column) for column in conflict.columns),
            assignments=_assigned(statement, conflict.assignments, found),
        )
    return replace(statement, columns=named, conflict=conflict)


def with_defaults(
    statement: ast.Insert, columns: tuple[str, ...], defaults: dict[str, str]
) -> tuple[tuple[str, ...], ast.Insert]:
    """The columns and the statement with what a view's columns have for DEFAULT."""
    query = statement.query.query
    known = [name.lower() for name in columns]
    rows = query.expressions if isinstance(query, exp.Values) else []
    if len(rows) == 1 and rows[0].meta.get("default"):
        known, columns = [], ()
    more = [name for name in defaults if name not in known]
    made: exp.Expr = query.copy()
    if isinstance(made, exp.Values):
        for row in made.expressions:
            cells = [
                parsed_expression(defaults[name]) if is_default(cell) and name in defaults else cell
                for name, cell in zip(known, row.expressions, strict=False)
            ]
            more_cells = [parsed_expression(defaults[name]) for name in more]
            row.replace(exp.Tuple(expressions=[*cells, *more_cells]))
    elif more:
        names = [exp.to_identifier(f"given_{place}") for place in range(len(columns))]
        alias = exp.TableAlias(this=exp.to_identifier("given"), columns=names)
        listed = [exp.column(name.copy(), table="given") for name in names]
        source = exp.From(this=exp.Subquery(this=made, alias=alias))
        made = exp.Select(
            expressions=[*listed, *(parsed_expression(defaults[name]) for name in more)], from_=source
        )
    return (*columns, *more), replace(statement, query=replace(statement.query, query=made))


def below_of(statement: ast.CreateView, catalog: Catalog) -> str:
    """The view that a view selects from, if that is all that it reads; "" if there is none."""
    query = statement.query.query
    source = query.args.get("from_") if isinstance(query, exp.Select) else None
    if source is None or query.args.get("joins") or not isinstance(source.this, exp.Table):
        return ""
    entry = catalog.find(relation_name(source.this))
    return entry.name if isinstance(entry, ViewEntry) else ""


def refuse_unchecked(statement: ast.CreateView, entry: ViewEntry) -> None:
    """ProgrammingError if a view cannot have the CHECK OPTION that it is to have."""
    if not statement.check:
        return
    if entry.materialized or entry.rel is None or selection(entry.rel) is None:
        raise ProgrammingError(
            "WITH CHECK OPTION needs a view that can be written to",
            span=statement.span,
            hint="it selects rows and columns of one table",
        )
