"""Column defaults: DEFAULT in INSERT, UPDATE and MERGE, and columns that accept only their default."""

import re
from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.constraints import Rule
from kpg.compiler.catalog.entries import Catalog, TableEntry, did_you_mean
from kpg.compiler.sql.bind.row_functions import has_rows
from kpg.compiler.sql.bind.volatile_calls import has_calls
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.dml import typed
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.compiler.sql.parse.syntax import span_of
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Schema

CHANCE: Final = re.compile(r"random\s*\(|gen_random_uuid|uuid_generate", re.IGNORECASE)
NUMBERED: Final = "numbered"
"""What DEFAULT stood for, in the place of one."""
CONSTANTS: Final = (exp.Literal, exp.Null, exp.Boolean)
Assignments = tuple[tuple[exp.Identifier, exp.Expr], ...]


def insert_places(statement: ast.Insert, schema: Schema) -> list[int]:
    """The positions of the columns that an INSERT names, of all if it names none."""
    if not statement.columns:
        return list(range(len(schema.columns)))
    known = [name.lower() for name in schema.names]
    places: list[int] = []
    for name in statement.columns:
        if name.lower() not in known:
            message = f'column "{name}" of "{statement.table}" does not exist'
            place = statement.span.at(name)
            raise ProgrammingError(message, span=place, hint=did_you_mean(name, schema.names))
        if known.index(name.lower()) in places:
            raise ProgrammingError(f'column "{name}" is named twice', span=statement.span)
        places.append(known.index(name.lower()))
    return places


def given_insert(statement: ast.Insert, catalog: Catalog) -> ast.Insert:
    """The statement with expressions for each DEFAULT, and without values for what takes none."""
    entry = catalog.table(statement.table, statement.span)
    typed(statement.query.query, entry.schema)
    statement = _with_rows(statement, entry, catalog)
    node = statement.query.query
    places = insert_places(statement, entry.schema)
    if _is_plain(node):
        bare = any(not row.args.get("expressions") for row in node.expressions)
        if not entry.constraints.rules and not bare and not any(map(is_default, node.find_all(exp.Var))):
            return _cut(statement, node, places, entry)
        node = _values(statement, node, places, entry)
        statement = _cut(replace(statement, query=replace(statement.query, query=node)), node, places, entry)
        return _numbered(statement, node, entry)
    statement = _cut(statement, node, places, entry)
    if statement.overriding == "USER":
        statement = _without_numbered(statement, entry)
    for place in insert_places(statement, entry.schema):
        rule = entry.constraints.rule(place)
        _check_given(rule, entry.schema.names[place], statement.overriding, None, statement.span)
    return statement


def _without_numbered(statement: ast.Insert, entry: TableEntry) -> ast.Insert:
    """A query's rows without what it gives identity columns, which they number themselves."""
    places = insert_places(statement, entry.schema)
    names = [f"column{place}" for place in places]
    kept = [place for place in places if not entry.constraints.rule(place).identity]
    if len(kept) == len(places) or not kept:
        return statement
    alias = exp.TableAlias(
        this=exp.to_identifier("given"), columns=[exp.to_identifier(name) for name in names]
    )
    rows = exp.Subquery(this=statement.query.query.copy(), alias=alias)
    query = exp.select(*(exp.column(f"column{place}") for place in kept)).from_(rows, copy=False)
    columns = tuple(entry.schema.names[place] for place in kept)
    return replace(statement, columns=columns, query=replace(statement.query, query=query))


def _with_rows(statement: ast.Insert, entry: TableEntry, catalog: Catalog) -> ast.Insert:
    """One row of VALUES with calls of functions that make rows as the SELECT that it is."""
    node = statement.query.query
    if not _is_plain(node) or len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Tuple):
        return statement
    cells = node.expressions[0].expressions
    if not any(isinstance(one, exp.Anonymous | exp.Unnest) for cell in cells for one in cell.walk()):
        return statement

    if not any(has_rows(cell, catalog) for cell in cells):
        return statement
    names = statement.columns or entry.schema.names
    if len(cells) > len(names):
        return statement
    kept = [(name, cell) for name, cell in zip(names, cells, strict=False) if not is_default(cell)]
    query = exp.Select(expressions=[cell.copy() for _, cell in kept])
    made = replace(statement.query, query=query)
    return replace(statement, columns=tuple(name for name, _ in kept), query=made)


def _is_plain(node: exp.Expr) -> bool:
    return isinstance(node, exp.Values) and not any(
        value for name, value in node.args.items() if name != "expressions"
    )


def _cut(statement: ast.Insert, node: exp.Expr, places: list[int], entry: TableEntry) -> ast.Insert:
    """Without a list of columns, fewer values than columns are those of the first columns."""
    if statement.columns:
        return statement
    width = given_width(node)
    if 0 < width < len(places):
        return replace(statement, columns=entry.schema.names[:width])
    return statement


def given_width(node: exp.Expr) -> int:
    """How many values the rows of an INSERT have; 0 if that is not to be told from their text."""
    if isinstance(node, exp.Values):
        rows = node.expressions
        return len(rows[0].expressions) if rows and isinstance(rows[0], exp.Tuple) else 1
    starred = not isinstance(node, exp.Select) or any(part.find(exp.Star) for part in node.expressions)
    return 0 if starred else len(node.expressions)


def _numbered(statement: ast.Insert, node: exp.Expr, entry: TableEntry) -> ast.Insert:
    """Rows that are computed come in no order: numbers of sequences become cells of theirs."""
    given = insert_places(statement, entry.schema)
    rules = entry.constraints.rules
    chance = any(CHANCE.search(rule.default) for place, rule in enumerate(rules) if place not in given)
    if not chance and all(
        isinstance(cell, CONSTANTS) for row in node.expressions for cell in (row.expressions or [row])
    ):
        return statement
    taking = [place for place, rule in enumerate(rules) if rule.default and place not in given]
    more = [place for place in taking if chance or "nextval" in rules[place].default.lower()]
    if not more:
        return statement
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    added = [[_default(rules[place]) for place in more] for _ in rows]
    node.set(
        "expressions",
        [exp.Tuple(expressions=[*cells, *new]) for cells, new in zip(rows, added, strict=True)],
    )
    names = entry.schema.names
    return replace(statement, columns=(*(names[place] for place in (*given, *more)),))


def _values(statement: ast.Insert, node: exp.Expr, places: list[int], entry: TableEntry) -> exp.Expr:
    node = node.copy()
    for row in node.expressions:
        if isinstance(row, exp.Tuple) and not row.expressions and row.meta.get("default"):
            row.set("expressions", [exp.Var(this="DEFAULT") for _ in places])
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        for place, cell in zip(places, cells, strict=False):
            rule = entry.constraints.rule(place)
            user = rule.identity and statement.overriding == "USER"
            if is_default(cell) or user:
                cell.replace(_default(rule))
            else:
                _check_given(rule, entry.schema.names[place], statement.overriding, cell, statement.span)
    return node


def _default(rule: Rule) -> exp.Expr:
    """A column's DEFAULT."""
    return parsed_expression(rule.default) if rule.default else exp.Null()


def is_default(node: exp.Expr) -> bool:
    """Whether a value is the word DEFAULT."""
    if isinstance(node, exp.Var):
        return node.name.upper() == "DEFAULT"
    if isinstance(node, exp.Column) and not node.table and isinstance(node.this, exp.Identifier):
        return node.name.upper() == "DEFAULT" and not node.this.args.get("quoted")
    return False


def _check_given(rule: Rule, name: str, overriding: str, node: exp.Expr | None, span: Span) -> None:
    """Refuse a value for a column that takes none, at its place, or that of the statement."""
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


def given_assignments(assignments: Assignments, entry: TableEntry, source: str) -> Assignments:
    """What SET gives to columns, with expressions for each DEFAULT."""
    found: list[tuple[exp.Identifier, exp.Expr]] = []
    known = [name.lower() for name in entry.schema.names]
    for target, value in assignments:
        rule = (
            entry.constraints.rule(known.index(target.name.lower())) if target.name.lower() in known else None
        )
        if rule is not None and is_default(value):
            if rule.generated:
                continue
            value = _default(rule)
            if has_calls(value):
                raise NotSupportedError(
                    f'SET of "{target.name}" to a number of its sequence is not supported here',
                    span=span_of(target, source),
                )
        elif rule is not None and not value.meta.get(NUMBERED):
            _check_given(rule, target.name, "", target, Span(source, 0, len(source)))
        found.append((target, value))
    return tuple(found)


def with_sequences(assignments: Assignments, entry: TableEntry) -> Assignments:
    """What SET gives to columns, with calls of nextval for each DEFAULT that is one."""
    known = [name.lower() for name in entry.schema.names]
    found: list[tuple[exp.Identifier, exp.Expr]] = []
    for target, value in assignments:
        name = target.name.lower()
        rule = entry.constraints.rule(known.index(name)) if name in known else Rule()
        if rule.default and is_default(value) and has_calls(number := _default(rule)):
            value = exp.Paren(this=number)
            value.meta[NUMBERED] = True
        found.append((target, value))
    return tuple(found)


def given_values(when: ast.When, entry: TableEntry, source: str) -> tuple[list[int], list[exp.Expr]]:
    """The columns that an inserting action of MERGE names, and their values, but those with DEFAULT."""
    assert when.values is not None
    known = [name.lower() for name in entry.schema.names]
    span = Span(source, 0, len(source))
    if not when.columns and len(when.values) > len(known):
        message = f"INSERT has {len(when.values)} values for {len(known)} columns"
        raise ProgrammingError(message, span=span_of(when.values[0], source) or span)
    named = when.columns or tuple(entry.schema.names[: len(when.values)])
    if len(named) != len(when.values):
        raise ProgrammingError(f"INSERT has {len(when.values)} values for {len(named)} columns", span=span)
    places, cells = [], []
    for name, value in zip(named, when.values, strict=True):
        if name.lower() not in known:
            hint = did_you_mean(name, entry.schema.names)
            message = f'column "{name}" of "{entry.name}" does not exist'
            raise ProgrammingError(message, span=span.at(name), hint=hint)
        place = known.index(name.lower())
        if is_default(value):
            continue
        _check_given(entry.constraints.rule(place), name, "", value, span)
        places.append(place)
        cells.append(value)
    return places, cells
