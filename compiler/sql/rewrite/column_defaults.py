"""Column defaults: DEFAULT in INSERT, UPDATE and MERGE, and columns that accept only their default."""

import re
from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.constraints import Rule
from kpg.compiler.catalog.entries import Catalog, TableEntry, did_you_mean
from kpg.compiler.sql.bind.row_functions import has_set_returning_call
from kpg.compiler.sql.bind.volatile_calls import has_sequence_calls
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.dml import set_null_types
from kpg.compiler.sql.parse.reader import parse_expression
from kpg.compiler.sql.parse.syntax import span_of
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Schema

RANDOM_CALL: Final = re.compile(r"random\s*\(|gen_random_uuid|uuid_generate", re.IGNORECASE)
IS_SEQUENCE_DEFAULT: Final = "numbered"
"""Key in a node's ``meta``: the value replaced DEFAULT of a column with a sequence."""
CONSTANTS: Final = (exp.Literal, exp.Null, exp.Boolean)
Assignments = tuple[tuple[exp.Identifier, exp.Expr], ...]


def insert_positions(statement: ast.Insert, schema: Schema) -> list[int]:
    """Return the positions of the columns that an INSERT lists, or of all columns without a list."""
    if not statement.columns:
        return list(range(len(schema.columns)))
    column_names = [name.lower() for name in schema.names]
    places: list[int] = []
    for name in statement.columns:
        if name.lower() not in column_names:
            message = f'column "{name}" of "{statement.table}" does not exist'
            place = statement.span.at(name)
            raise ProgrammingError(message, span=place, hint=did_you_mean(name, schema.names))
        if column_names.index(name.lower()) in places:
            raise ProgrammingError(f'column "{name}" is named twice', span=statement.span)
        places.append(column_names.index(name.lower()))
    return places


def apply_insert_defaults(statement: ast.Insert, catalog: Catalog) -> ast.Insert:
    """Return an INSERT with DEFAULT replaced by expressions.

    ProgrammingError for a value of a generated or GENERATED ALWAYS column.
    """
    entry = catalog.table(statement.table, statement.span)
    set_null_types(statement.query.query, entry.schema)
    statement = _select_of_row_functions(statement, entry, catalog)
    node = statement.query.query
    places = insert_positions(statement, entry.schema)
    if _is_plain_values(node):
        bare = any(not row.args.get("expressions") for row in node.expressions)
        if not entry.constraints.rules and not bare and not any(map(is_default, node.find_all(exp.Var))):
            return _limit_columns(statement, node, places, entry)
        node = _replace_defaults(statement, node, places, entry)
        statement = _limit_columns(
            replace(statement, query=replace(statement.query, query=node)), node, places, entry
        )
        return _add_volatile_defaults(statement, node, entry)
    statement = _limit_columns(statement, node, places, entry)
    if statement.overriding == "USER":
        statement = _drop_identity_values(statement, entry)
    for place in insert_positions(statement, entry.schema):
        rule = entry.constraints.rule(place)
        _check_value_allowed(rule, entry.schema.names[place], statement.overriding, None, statement.span)
    return statement


def _drop_identity_values(statement: ast.Insert, entry: TableEntry) -> ast.Insert:
    """Return the statement without the query's values for identity columns (OVERRIDING USER VALUE)."""
    places = insert_positions(statement, entry.schema)
    names = [f"column{place}" for place in places]
    retained = [place for place in places if not entry.constraints.rule(place).identity]
    if len(retained) == len(places) or not retained:
        return statement
    alias = exp.TableAlias(
        this=exp.to_identifier("given"), columns=[exp.to_identifier(name) for name in names]
    )
    rows = exp.Subquery(this=statement.query.query.copy(), alias=alias)
    query = exp.select(*(exp.column(f"column{place}") for place in retained)).from_(rows, copy=False)
    columns = tuple(entry.schema.names[place] for place in retained)
    return replace(statement, columns=columns, query=replace(statement.query, query=query))


def _select_of_row_functions(statement: ast.Insert, entry: TableEntry, catalog: Catalog) -> ast.Insert:
    """Return one row of VALUES that calls set-returning functions as the equivalent SELECT."""
    node = statement.query.query
    if (
        not _is_plain_values(node)
        or len(node.expressions) != 1
        or not isinstance(node.expressions[0], exp.Tuple)
    ):
        return statement
    cells = node.expressions[0].expressions
    if not any(isinstance(one, exp.Anonymous | exp.Unnest) for cell in cells for one in cell.walk()):
        return statement

    if not any(has_set_returning_call(cell, catalog) for cell in cells):
        return statement
    names = statement.columns or entry.schema.names
    if len(cells) > len(names):
        return statement
    retained = [(name, cell) for name, cell in zip(names, cells, strict=False) if not is_default(cell)]
    query = exp.Select(expressions=[cell.copy() for _, cell in retained])
    select = replace(statement.query, query=query)
    return replace(statement, columns=tuple(name for name, _ in retained), query=select)


def _is_plain_values(node: exp.Expr) -> bool:
    return isinstance(node, exp.Values) and not any(
        value for name, value in node.args.items() if name != "expressions"
    )


def _limit_columns(statement: ast.Insert, node: exp.Expr, places: list[int], entry: TableEntry) -> ast.Insert:
    """Without a column list, let a query with fewer values fill the first columns."""
    if statement.columns:
        return statement
    width = row_width(node)
    if 0 < width < len(places):
        return replace(statement, columns=entry.schema.names[:width])
    return statement


def row_width(node: exp.Expr) -> int:
    """Return the number of values in the rows of an INSERT; 0 if the text does not determine it."""
    if isinstance(node, exp.Values):
        rows = node.expressions
        return len(rows[0].expressions) if rows and isinstance(rows[0], exp.Tuple) else 1
    starred = not isinstance(node, exp.Select) or any(part.find(exp.Star) for part in node.expressions)
    return 0 if starred else len(node.expressions)


def _add_volatile_defaults(statement: ast.Insert, node: exp.Expr, entry: TableEntry) -> ast.Insert:
    """Return the statement with sequence numbers and random defaults as cells of computed rows.

    Computed rows have no order, so such defaults cannot be assigned afterwards.
    """
    listed = insert_positions(statement, entry.schema)
    rules = entry.constraints.rules
    has_random = any(
        RANDOM_CALL.search(rule.default) for place, rule in enumerate(rules) if place not in listed
    )
    if not has_random and all(
        isinstance(cell, CONSTANTS) for row in node.expressions for cell in (row.expressions or [row])
    ):
        return statement
    defaulted = [place for place, rule in enumerate(rules) if rule.default and place not in listed]
    added_places = [place for place in defaulted if has_random or "nextval" in rules[place].default.lower()]
    if not added_places:
        return statement
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    added = [[_default_expression(rules[place]) for place in added_places] for _ in rows]
    node.set(
        "expressions",
        [exp.Tuple(expressions=[*cells, *new]) for cells, new in zip(rows, added, strict=True)],
    )
    names = entry.schema.names
    return replace(statement, columns=(*(names[place] for place in (*listed, *added_places)),))


def _replace_defaults(
    statement: ast.Insert, node: exp.Expr, places: list[int], entry: TableEntry
) -> exp.Expr:
    node = node.copy()
    for row in node.expressions:
        if isinstance(row, exp.Tuple) and not row.expressions and row.meta.get("default"):
            row.set("expressions", [exp.Var(this="DEFAULT") for _ in places])
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        for place, cell in zip(places, cells, strict=False):
            rule = entry.constraints.rule(place)
            user = rule.identity and statement.overriding == "USER"
            if is_default(cell) or user:
                cell.replace(_default_expression(rule))
            else:
                _check_value_allowed(
                    rule, entry.schema.names[place], statement.overriding, cell, statement.span
                )
    return node


def _default_expression(rule: Rule) -> exp.Expr:
    return parse_expression(rule.default) if rule.default else exp.Null()


def is_default(node: exp.Expr) -> bool:
    """Return whether a value is the word DEFAULT."""
    if isinstance(node, exp.Var):
        return node.name.upper() == "DEFAULT"
    if isinstance(node, exp.Column) and not node.table and isinstance(node.this, exp.Identifier):
        return node.name.upper() == "DEFAULT" and not node.this.args.get("quoted")
    return False


def _check_value_allowed(rule: Rule, name: str, overriding: str, node: exp.Expr | None, span: Span) -> None:
    """Raise ProgrammingError if a column accepts no value but DEFAULT.

    The error's span is that of the value ``node``, or of the statement.
    """
    if node is not None and (rule.generated or (rule.identity == "ALWAYS" and not overriding)):
        span = span_of(node, span.source) or span
    if rule.generated:
        raise ProgrammingError(
            f'column "{name}" is generated: it takes no value but DEFAULT',
            span=span,
            hint=f"it is {rule.generated}",
        )
    if rule.identity == "ALWAYS" and not overriding:
        raise ProgrammingError(
            f'identity column "{name}" takes no value but DEFAULT',
            span=span,
            hint="it is GENERATED ALWAYS: write OVERRIDING SYSTEM VALUE",
        )


def apply_set_defaults(assignments: Assignments, entry: TableEntry, source: str) -> Assignments:
    """Return the assignments of SET with DEFAULT replaced by expressions.

    Assignments of DEFAULT to generated columns are dropped. ProgrammingError for any other value of a
    generated or GENERATED ALWAYS column.
    """
    found: list[tuple[exp.Identifier, exp.Expr]] = []
    column_names = [name.lower() for name in entry.schema.names]
    for target, value in assignments:
        rule = (
            entry.constraints.rule(column_names.index(target.name.lower()))
            if target.name.lower() in column_names
            else None
        )
        if rule is not None and is_default(value):
            if rule.generated:
                continue
            value = _default_expression(rule)
            if has_sequence_calls(value):
                raise NotSupportedError(
                    f'SET of "{target.name}" to a number of its sequence is not supported here',
                    span=span_of(target, source),
                )
        elif rule is not None and not value.meta.get(IS_SEQUENCE_DEFAULT):
            _check_value_allowed(rule, target.name, "", target, Span(source, 0, len(source)))
        found.append((target, value))
    return tuple(found)


def apply_sequence_defaults(assignments: Assignments, entry: TableEntry) -> Assignments:
    """Return the assignments of SET with ``nextval`` calls for DEFAULT of columns with a sequence."""
    column_names = [name.lower() for name in entry.schema.names]
    found: list[tuple[exp.Identifier, exp.Expr]] = []
    for target, value in assignments:
        name = target.name.lower()
        rule = entry.constraints.rule(column_names.index(name)) if name in column_names else Rule()
        if rule.default and is_default(value) and has_sequence_calls(default := _default_expression(rule)):
            value = exp.Paren(this=default)
            value.meta[IS_SEQUENCE_DEFAULT] = True
        found.append((target, value))
    return tuple(found)


def apply_merge_defaults(when: ast.When, entry: TableEntry, source: str) -> tuple[list[int], list[exp.Expr]]:
    """Return the positions and values of a MERGE insert action, without columns that are set to DEFAULT."""
    assert when.values is not None
    column_names = [name.lower() for name in entry.schema.names]
    span = Span(source, 0, len(source))
    if not when.columns and len(when.values) > len(column_names):
        message = f"INSERT has {len(when.values)} values for {len(column_names)} columns"
        raise ProgrammingError(message, span=span_of(when.values[0], source) or span)
    columns = when.columns or tuple(entry.schema.names[: len(when.values)])
    if len(columns) != len(when.values):
        raise ProgrammingError(f"INSERT has {len(when.values)} values for {len(columns)} columns", span=span)
    places, cells = [], []
    for name, value in zip(columns, when.values, strict=True):
        if name.lower() not in column_names:
            hint = did_you_mean(name, entry.schema.names)
            message = f'column "{name}" of "{entry.name}" does not exist'
            raise ProgrammingError(message, span=span.at(name), hint=hint)
        place = column_names.index(name.lower())
        if is_default(value):
            continue
        _check_value_allowed(entry.constraints.rule(place), name, "", value, span)
        places.append(place)
        cells.append(value)
    return places, cells
