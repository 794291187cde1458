"""INSERT, UPDATE, DELETE and MERGE, with their WITH queries: syntax trees to statements.

SET of a field or element becomes an assignment of the whole column. ``INSERT INTO t (id, point.x,
list[2])`` likewise: the column list is split before sqlglot parses it. Each column with parts gets
one value, a NULL with those parts set, whose type the catalog supplies later.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.features import StatementSpan
from kpg.compiler.sql.parse.reader import parse_expression
from kpg.compiler.sql.parse.syntax import allow_only, construct_name, fail, refuse, relation_name, span_of
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.types import Schema

TYPE = "type"
"""Key in the ``meta`` of an :class:`UntypedNull` for its type."""


class PartAssignment(exp.Expression):
    """Value ``this`` with its ``part`` set to ``expression``.

    The part is a field's name, or a subscript: a Bracket of NULL.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "part": True, "expression": True}


class UntypedNull(exp.Expression):
    """NULL of the named column, whose type is set later (:data:`TYPE`)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def assign_part(target: exp.Expr, value: exp.Expr) -> tuple[exp.Column, exp.Expr] | None:
    """Return the column of a target such as ``a.b`` or ``a[1]`` and its new value.

    None for a whole column.
    """
    parts: list[exp.Expr] = []
    while True:
        if isinstance(target, exp.Bracket):
            outer_subscripts = parts.pop(0).expressions if parts and isinstance(parts[0], exp.Bracket) else []
            parts.insert(
                0, exp.Bracket(this=exp.Null(), expressions=[*target.expressions, *outer_subscripts])
            )
            target = target.this
        elif isinstance(target, exp.Dot) and isinstance(target.expression, exp.Identifier):
            parts.insert(0, target.expression)
            target = target.this
        elif isinstance(target, exp.Column) and len(target.parts) > 1:
            first, *fields = target.parts  # parsed as schema, table and column
            parts = [*fields, *parts]
            target = exp.Column(this=first)
        else:
            break
    if not parts or not isinstance(target, exp.Column):
        return None
    return target, _assign_parts(exp.Column(this=target.this.copy()), parts, value)


def _assign_parts(value_before: exp.Expr, parts: list[exp.Expr], value: exp.Expr) -> exp.Expr:
    first, *rest = parts
    if rest:
        value = _assign_parts(_part_of(value_before, first), rest, value)
    return PartAssignment(this=value_before, part=first.copy(), expression=value)


def _part_of(value: exp.Expr, part: exp.Expr) -> exp.Expr:
    if isinstance(part, exp.Identifier):
        return exp.Dot(this=exp.Paren(this=value.copy()), expression=part.copy())
    return exp.Bracket(this=value.copy(), expressions=[one.copy() for one in part.expressions])


def chain_assignment(value: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Return a part's assignment applied after another assignment of the same column."""
    assignment = value.copy()
    assert isinstance(assignment, PartAssignment)
    _rebase(assignment, earlier)
    return assignment


def _rebase(assignment: PartAssignment, base: exp.Expr) -> None:
    inner = assignment.expression
    if isinstance(inner, PartAssignment):
        _rebase(inner, _part_of(base, assignment.args["part"]))
    assignment.set("this", base.copy())


def set_null_types(node: exp.Expr, schema: Schema) -> None:
    """Set the type of each UntypedNull to that of its column."""
    types = {name.lower(): type_ for name, type_ in zip(schema.names, schema.types, strict=True)}
    for blank in node.find_all(UntypedNull):
        blank.meta[TYPE] = types.get(blank.name.lower())


CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


def is_modifying(tree: exp.Expr) -> bool:
    """Return whether a WITH query of a statement changes a table."""
    clause = tree.args.get("with_")
    return clause is not None and any(isinstance(part.this, CHANGES) for part in clause.expressions)


def convert_modifying_with(tree: exp.Expr, text: str, span: StatementSpan) -> ast.ModifyingWith:
    """Convert a statement with data-modifying WITH queries.

    Each of its parts gets the preceding plain WITH queries as its WITH.
    """
    clause = tree.args["with_"]
    allow_only(clause, text, "expressions", "recursive")
    preceding: list[exp.Expr] = []
    parts: list[tuple[str, tuple[str, ...], ast.Change]] = []
    for common in clause.expressions:
        allow_only(common, text, "this", "alias")
        if not isinstance(common.this, CHANGES):
            preceding.append(common)
            continue
        part = common.this.copy()
        if preceding and part.args.get("with_") is None:
            part.set(
                "with_",
                exp.With(
                    expressions=[one.copy() for one in preceding], recursive=clause.args.get("recursive")
                ),
            )
        columns = tuple(column.name for column in common.args["alias"].args.get("columns") or ())
        place = span.narrow(span_of(common.this, text))
        parts.append((common.alias, columns, convert_change(part, text, place)))
    main = tree.copy()
    recursive = clause.args.get("recursive")
    main.set(
        "with_",
        exp.With(expressions=[one.copy() for one in preceding], recursive=recursive) if preceding else None,
    )
    main_statement = convert_change(main, text, span) if isinstance(main, CHANGES) else ast.Select(main, span)
    return ast.ModifyingWith(tuple(parts), main_statement, span)


def convert_change(tree: exp.Expr, text: str, span: StatementSpan) -> ast.Change:
    """Convert the tree of an INSERT, UPDATE, DELETE or MERGE."""
    match tree:
        case exp.Insert():
            return _convert_insert(tree, text, span)
        case exp.Update():
            return _convert_update(tree, text, span)
        case exp.Delete():
            if tree.args.get("tables"):
                place = span_of(tree.args["tables"][0], text) or span
                raise ProgrammingError(
                    "syntax error: DELETE lacks FROM", span=place, hint="DELETE FROM table ..."
                )
            allow_only(tree, text, "this", "using", "where", "returning", "with_")
            name, alias = target_table(tree.this, text)
            using = tuple(tree.args.get("using") or ())
            clauses = _returning_items(tree, text), tree.args.get("with_")
            alone = bool(tree.this.args.get("only"))
            return ast.Delete(name, alias, using, where_condition(tree), span, *clauses, only=alone)
        case _:
            assert isinstance(tree, exp.Merge)
            return _convert_merge(tree, text, span)


def _returning_items(tree: exp.Expr, text: str) -> tuple[exp.Expr, ...]:
    clause = tree.args.get("returning")
    if clause is None:
        return ()
    allow_only(clause, text, "expressions")
    return tuple(clause.expressions)


def _convert_merge(tree: exp.Merge, text: str, span: StatementSpan) -> ast.Merge:
    allow_only(tree, text, "this", "using", "on", "whens", "with_")
    name, alias = target_table(tree.this, text)
    if tree.args.get("on") is None:
        fail("MERGE needs ON and a condition", tree, text)
    whens = tuple(_convert_when(when, text) for when in tree.args["whens"].expressions)
    return ast.Merge(name, alias, (tree.args["using"],), tree.args["on"], whens, span, tree.args.get("with_"))


def _convert_when(when: exp.Expr, text: str) -> ast.When:
    allow_only(when, text, "matched", "source", "condition", "then")
    matched, source, then = when.args.get("matched"), when.args.get("source"), when.args["then"]
    kind = "matched" if matched else "source" if source else "target"
    action = ast.When(kind, when.args.get("condition"))
    match then:
        case exp.Update() if kind != "target":
            return replace(action, assignments=_assignments(then.expressions, text))
        case exp.Insert() if kind == "target":
            columns = then.this.expressions if isinstance(then.this, exp.Tuple | exp.Schema) else []
            values = then.args.get("expression")
            cells = (
                values.expressions if isinstance(values, exp.Tuple) else [] if values is None else [values]
            )
            names = tuple(column.name for column in columns)
            if values is None and [name.lower() for name in names] == ["default"]:
                names = ()  # INSERT DEFAULT VALUES
            return replace(action, columns=names, values=tuple(cells))
        case exp.Var() if then.name.upper() == "DELETE" and kind != "target":
            return replace(action, deletes=True)
        case exp.Var() if then.name.upper() == "DO NOTHING":
            return action
        case _:
            fail(f"WHEN {'MATCHED' if matched else 'NOT MATCHED'} cannot do this", then, text)


def extract_overriding(tokens: list[Token]) -> tuple[str, list[Token]]:
    """Return SYSTEM or USER of OVERRIDING ... VALUE, "" without it, and the tokens without the clause."""
    words = [token.text.upper() for token in tokens]
    for index in range(2, min(len(words) - 2, 2000)):
        if (
            words[index] == "OVERRIDING"
            and words[index + 1] in ("SYSTEM", "USER")
            and words[index + 2] == "VALUE"
        ):
            return words[index + 1], tokens[:index] + tokens[index + 3 :]
    return "", tokens


def where_condition(tree: exp.Expr) -> exp.Expr | None:
    """Return the condition of WHERE; None without one."""
    where = tree.args.get("where")
    return where.this if where is not None else None


def target_table(table: exp.Expr, text: str) -> tuple[str, str]:
    """Return the name and the alias of the table that a statement changes."""
    if not isinstance(table, exp.Table):
        refuse(construct_name(table), table, text)
    allow_only(table, text, "this", "alias", "db", "only")
    alias = table.args.get("alias")
    if alias is not None:
        allow_only(alias, text, "this")
    return relation_name(table), table.alias or table.name


def _convert_insert(tree: exp.Insert, text: str, span: StatementSpan) -> ast.Insert:
    allow_only(
        tree,
        text,
        *("this", "expression", "conflict", "default", "returning", "with_", "alternative", "by_name"),
    )
    alternative = str(tree.args.get("alternative") or "").upper()
    if alternative not in ("", "REPLACE", "IGNORE"):
        refuse(f"INSERT OR {alternative}", tree, text, "write ON CONFLICT")
    table = tree.this
    columns: tuple[str, ...] = ()
    if isinstance(table, exp.Schema):
        allow_only(table, text, "this", "expressions")
        columns = tuple(column.name for column in table.expressions)
        table = table.this
    query = tree.args.get("expression")
    if tree.args.get("default"):
        row = exp.Tuple(expressions=[])
        row.meta["default"] = True
        query = exp.Values(expressions=[row])
    if query is None:
        refuse("INSERT without VALUES or a query", table, text)
    place = span.narrow(span_of(query, text))
    if tree.args.get("by_name"):
        columns = _columns_by_name(query, columns, text)
    if query.args.get("alias") is not None:
        fail("the rows of an INSERT have no name", query.args["alias"], text)
    clause = tree.args.get("conflict")
    conflict = _convert_conflict(clause, text, span) if clause is not None else None
    name, alias = target_table(table, text)
    common = tree.args.get("with_")
    if common is not None and query.args.get("with_") is None:
        query = query.copy()
        query.set("with_", common.copy())
    select = ast.Select(query, place)
    returning = _returning_items(tree, text)
    return ast.Insert(
        name, alias, columns, select, conflict, span, "", returning, common, alternative=alternative
    )


def _columns_by_name(query: exp.Expr, columns: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return the names of a query's columns, for INSERT BY NAME."""
    listed = query.expressions if isinstance(query, exp.Select) else []
    names = [part.alias or (part.name if isinstance(part, exp.Column) else "") for part in listed]
    if columns or not names or not all(names) or any(part.is_star for part in query.expressions):
        hint = "its columns need names"
        fail("INSERT BY NAME takes a SELECT, and no list of columns", query, text, hint)
    return tuple(names)


def _convert_conflict(clause: exp.Expr, text: str, span: Span) -> ast.Conflict:
    if clause.args.get("action") is None:
        fail("ON CONFLICT needs DO NOTHING or DO UPDATE", clause, text)
    allow_only(
        clause, text, "expressions", "action", "conflict_keys", "where", "constraint", "index_predicate"
    )
    constraint = clause.args.get("constraint")
    keys = [
        key.this if isinstance(key, exp.Ordered) else key for key in clause.args.get("conflict_keys") or ()
    ]
    index_predicate = clause.args.get("index_predicate")
    elements: tuple[str, ...] = ()
    if index_predicate is not None or not all(isinstance(key, exp.Column) for key in keys):
        elements = tuple(key.sql(dialect="postgres") for key in keys)
    assignments = _assignments(clause.expressions, text)
    place = span_of(clause, text) or span
    constraint_name = constraint.name if constraint is not None else ""
    predicate = "" if index_predicate is None else index_predicate.this.sql(dialect="postgres")
    columns = () if elements else tuple(key.name for key in keys)
    return ast.Conflict(
        columns, assignments, where_condition(clause), place, constraint_name, elements, predicate
    )


def _convert_update(tree: exp.Update, text: str, span: StatementSpan) -> ast.Update:
    allow_only(tree, text, "this", "where", "expressions", "from_", "returning", "with_")
    assignments = _assignments(tree.expressions, text)
    if not assignments:
        fail("UPDATE needs SET with an assignment", tree, text)
    source = tree.args.get("from_")
    if source is not None:
        allow_only(source, text, "this")
    name, alias = target_table(tree.this, text)
    sources = () if source is None else (source.this,)
    clauses = _returning_items(tree, text), tree.args.get("with_")
    alone = bool(tree.this.args.get("only"))
    return ast.Update(name, alias, assignments, sources, where_condition(tree), span, *clauses, only=alone)


def _assignments(parts: list[exp.Expr], text: str) -> tuple[tuple[exp.Identifier, exp.Expr], ...]:
    assignments: list[tuple[exp.Expr, exp.Expr]] = []
    for assignment in parts:
        if not isinstance(assignment, exp.EQ):
            refuse(f"SET with {construct_name(assignment)}", assignment, text)
        target = assignment.this
        if isinstance(target, exp.Tuple | exp.Paren):
            targets = target.expressions if isinstance(target, exp.Tuple) else [target.this]
            assignments += zip(targets, _row_values(assignment.expression, len(targets), text), strict=True)
        else:
            assignments.append((target, assignment.expression))
    return tuple((target.this, value) for target, value in _combine_assignments(assignments, text))


def _combine_assignments(
    assignments: list[tuple[exp.Expr, exp.Expr]], text: str
) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return the assignments, with those of parts combined into assignments of whole columns."""
    found: dict[str, tuple[exp.Expr, exp.Expr]] = {}
    result: list[tuple[exp.Expr, exp.Expr]] = []
    for target, value in assignments:
        part = assign_part(target, value)
        if part is None:
            if not isinstance(target, exp.Column):
                refuse("SET of anything but a column", target, text)
            allow_only(target, text, "this")
            result.append((target, value))
            continue
        column, assigned = part
        earlier = found.get(column.name.lower())
        if earlier is not None:
            assigned = chain_assignment(assigned, earlier[1])
            result.remove(earlier)
        found[column.name.lower()] = (column, assigned)
        result.append(found[column.name.lower()])
    return result


def _row_values(value: exp.Expr, count: int, text: str) -> list[exp.Expr]:
    """Return the values of SET (a, b) = (x, y), ROW (x, y) or a subquery."""
    if isinstance(value, exp.Subquery) and isinstance(value.this, exp.Query | exp.Values):
        inner = value.this
        plain = isinstance(inner, exp.Select) and not any(part.find(exp.Star) for part in inner.expressions)
        if plain and len(inner.expressions) != count:
            fail(f"SET has {len(inner.expressions)} values for {count} columns", value, text)
        return [subquery_column(value, place, count) for place in range(count)]
    if isinstance(value, exp.Anonymous) and str(value.this).upper() == "ROW":
        parts = list(value.expressions)
    else:
        if not isinstance(value, exp.Tuple):
            fail("SET of several columns takes ROW (...) or a subquery", value, text)
        parts = list(value.expressions)
    if len(parts) != count:
        fail(f"SET has {len(parts)} values for {count} columns", value, text)
    return parts


def subquery_column(subquery: exp.Subquery, position: int, count: int) -> exp.Expr:
    """Return one column of a subquery as a subquery."""
    columns = [exp.to_identifier(f"c{index}") for index in range(count)]
    alias = exp.TableAlias(this=exp.to_identifier("q"), columns=columns)
    inner = exp.Subquery(this=subquery.this.copy(), alias=alias)
    select = exp.Select(expressions=[exp.column(f"c{position}", table="q")], from_=exp.From(this=inner))
    return exp.Subquery(this=select)


VALUE_PREFIX = "value_"
AFTER_INTO = 2
"""Index of the first token after INSERT INTO."""


def split_insert_list(tokens: list[Token], text: str) -> tuple[list[Token], list[exp.Expr]]:
    """Return the tokens of an INSERT with plain column names, and its column list as targets.

    The list is empty if all targets are whole columns.
    """
    open_index = next((i for i, one in enumerate(tokens[:8]) if one.token_type is TokenType.L_PAREN), 0)
    words = [one.text.upper() for one in tokens[AFTER_INTO:open_index]]
    if open_index <= AFTER_INTO or {"VALUES", "SELECT", "WITH", "DEFAULT", "TABLE"} & set(words):
        return tokens, []
    close_index = next(
        (i for i in range(open_index, len(tokens)) if tokens[i].token_type is TokenType.R_PAREN), 0
    )
    inside = tokens[open_index + 1 : close_index]
    if not any(one.token_type in (TokenType.DOT, TokenType.L_BRACKET) for one in inside):
        return tokens, []
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in inside:
        depth += (token.token_type is TokenType.L_BRACKET) - (token.token_type is TokenType.R_BRACKET)
        if token.token_type is TokenType.COMMA and not depth:
            groups.append([])
        else:
            groups[-1].append(token)

    targets = [parse_expression(text[one[0].start : one[-1].end + 1]) for one in groups if one]
    commas = [one for one in inside if one.token_type is TokenType.COMMA]
    plain: list[Token] = []
    for place, group in enumerate(groups):
        plain += [*commas[:1], group[0]] if place else [group[0]]
    return [*tokens[: open_index + 1], *plain, *tokens[close_index:]], targets


def combine_part_values(statement: ast.Insert, targets: Sequence[exp.Expr]) -> ast.Insert:
    """Return the statement with one value per column, built from the values of its parts."""
    query = statement.query.query
    new_query: exp.Expr = query.copy()
    if isinstance(query, exp.Values):
        rows: list[exp.Expr] = []
        for row in new_query.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row.this]
            if len(cells) != len(targets):
                return statement  # the wrong width is an error later
            values = _combine_values(targets, cells)
            rows.append(exp.Tuple(expressions=list(values.values())))
        new_query.set("expressions", rows)
    else:
        names = [f"{VALUE_PREFIX}{place}" for place in range(len(targets))]
        alias = exp.TableAlias(this=exp.to_identifier("given"), columns=list(map(exp.to_identifier, names)))
        values = _combine_values(targets, [exp.column(name, table="given") for name in names])
        source = exp.Subquery(this=query.copy(), alias=alias)
        new_query = exp.Select(expressions=list(values.values()), from_=exp.From(this=source))
    return replace(
        statement,
        columns=tuple(_combine_values(targets, targets)),
        query=replace(statement.query, query=new_query),
    )


def _combine_values(targets: Sequence[exp.Expr], cells: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """Return the value of each column by name."""
    found: dict[str, exp.Expr] = {}
    for target, cell in zip(targets, cells, strict=True):
        part = assign_part(target, cell.copy())
        if part is None:
            found[target.name] = cell.copy()
            continue
        column, value = part
        if column.name in found:
            value = chain_assignment(value, found[column.name])
        else:
            for one in list(value.find_all(exp.Column)):
                if one.name == column.name and not one.table and one.find_ancestor(exp.Query) is None:
                    one.replace(UntypedNull(this=exp.to_identifier(column.name)))
        found[column.name] = value
    return found


CURRENT_OF: Final = ["WHERE", "CURRENT", "OF"]


def extract_cursor(tokens: list[Token]) -> tuple[list[Token], str]:
    """Return the tokens without WHERE CURRENT OF, and the cursor's name; "" without one."""
    words = [token.text.upper() for token in tokens]
    for place in range(len(words) - len(CURRENT_OF)):
        if words[place : place + len(CURRENT_OF)] == CURRENT_OF:
            end = place + len(CURRENT_OF)
            quoted = tokens[end].token_type is TokenType.IDENTIFIER
            name = tokens[end].text if quoted else tokens[end].text.lower()
            return [*tokens[:place], *tokens[end + 1 :]], name
    return tokens, ""
