"""INSERT, UPDATE, DELETE and MERGE, with their WITH queries: syntax trees to statements.

SET of a field or element becomes an assignment of the whole column. ``INSERT INTO t (id, point.x, list[2])``
likewise: the column list is taken apart before sqlglot reads it. Each column with parts gets one value, a
NULL with those parts set, whose type the catalog supplies later.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.compiler.sql.parse.syntax import construct_name, only, refuse, relation_name, span_of, wrong
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.types import Schema

TYPE = "type"
"""What is known of a :class:`Blank`."""


class Assigned(exp.Expression):
    """The value ``this`` with ``expression`` as its ``part``: a field's name, or a subscript of nothing."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "part": True, "expression": True}


class Blank(exp.Expression):
    """The NULL of the column that is named, whose type is known later (:data:`TYPE`)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def parted(target: exp.Expr, value: exp.Expr) -> tuple[exp.Column, exp.Expr] | None:
    """The column of which a target is a part, and the column's new value; None if it is none."""
    parts: list[exp.Expr] = []
    while True:
        if isinstance(target, exp.Bracket):
            behind = parts.pop(0).expressions if parts and isinstance(parts[0], exp.Bracket) else []
            parts.insert(0, exp.Bracket(this=exp.Null(), expressions=[*target.expressions, *behind]))
            target = target.this
        elif isinstance(target, exp.Dot) and isinstance(target.expression, exp.Identifier):
            parts.insert(0, target.expression)
            target = target.this
        elif isinstance(target, exp.Column) and len(target.parts) > 1:
            first, *fields = target.parts  # what a query would take for the schema, the table and the column
            parts = [*fields, *parts]
            target = exp.Column(this=first)
        else:
            break
    if not parts or not isinstance(target, exp.Column):
        return None
    return target, _with(exp.Column(this=target.this.copy()), parts, value)


def _with(whole: exp.Expr, parts: list[exp.Expr], value: exp.Expr) -> exp.Expr:
    first, *rest = parts
    if rest:
        value = _with(_taken(whole, first), rest, value)
    return Assigned(this=whole, part=first.copy(), expression=value)


def _taken(whole: exp.Expr, part: exp.Expr) -> exp.Expr:
    if isinstance(part, exp.Identifier):
        return exp.Dot(this=exp.Paren(this=whole.copy()), expression=part.copy())
    return exp.Bracket(this=whole.copy(), expressions=[one.copy() for one in part.expressions])


def again(value: exp.Expr, before: exp.Expr) -> exp.Expr:
    """A part's assignment over what another part's has made of the same column."""
    made = value.copy()
    assert isinstance(made, Assigned)
    _over(made, before)
    return made


def _over(made: Assigned, whole: exp.Expr) -> None:
    inner = made.expression
    if isinstance(inner, Assigned):
        _over(inner, _taken(whole, made.args["part"]))
    made.set("this", whole.copy())


def typed(node: exp.Expr, schema: Schema) -> None:
    """Gives each blank the type of its column."""
    types = {name.lower(): type_ for name, type_ in zip(schema.names, schema.types, strict=True)}
    for blank in node.find_all(Blank):
        blank.meta[TYPE] = types.get(blank.name.lower())


CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


def is_modifying(tree: exp.Expr) -> bool:
    """Whether a WITH query of a statement changes a table."""
    clause = tree.args.get("with_")
    return clause is not None and any(isinstance(part.this, CHANGES) for part in clause.expressions)


def modifying(tree: exp.Expr, text: str, span: Span) -> ast.Modifying:
    """A statement with WITH queries of which some change tables; each gets those before it as its WITH."""
    clause = tree.args["with_"]
    only(clause, text, "expressions", "recursive")
    before: list[exp.Expr] = []
    parts: list[tuple[str, tuple[str, ...], ast.Change]] = []
    for common in clause.expressions:
        only(common, text, "this", "alias")
        if not isinstance(common.this, CHANGES):
            before.append(common)
            continue
        part = common.this.copy()
        if before and part.args.get("with_") is None:
            part.set(
                "with_",
                exp.With(expressions=[one.copy() for one in before], recursive=clause.args.get("recursive")),
            )
        columns = tuple(column.name for column in common.args["alias"].args.get("columns") or ())
        place = span_of(common.this, text) or span
        parts.append((common.alias, columns, change(part, text, place)))
    main = tree.copy()
    recursive = clause.args.get("recursive")
    main.set(
        "with_", exp.With(expressions=[one.copy() for one in before], recursive=recursive) if before else None
    )
    last = change(main, text, span) if isinstance(main, CHANGES) else ast.Select(main, span)
    return ast.Modifying(tuple(parts), last, span)


def change(tree: exp.Expr, text: str, span: Span) -> ast.Change:
    """A statement that changes a table."""
    match tree:
        case exp.Insert():
            return _insert(tree, text, span)
        case exp.Update():
            return _update(tree, text, span)
        case exp.Delete():
            if tree.args.get("tables"):
                place = span_of(tree.args["tables"][0], text) or span
                raise ProgrammingError(
                    "syntax error: DELETE lacks FROM", span=place, hint="DELETE FROM table ..."
                )
            only(tree, text, "this", "using", "where", "returning", "with_")
            name, alias = target(tree.this, text)
            using = tuple(tree.args.get("using") or ())
            given = _returning(tree, text), tree.args.get("with_")
            alone = bool(tree.this.args.get("only"))
            return ast.Delete(name, alias, using, condition(tree), span, *given, alone=alone)
        case _:
            assert isinstance(tree, exp.Merge)
            return _merge(tree, text, span)


def _returning(tree: exp.Expr, text: str) -> tuple[exp.Expr, ...]:
    clause = tree.args.get("returning")
    if clause is None:
        return ()
    only(clause, text, "expressions")
    return tuple(clause.expressions)


def _merge(tree: exp.Merge, text: str, span: Span) -> ast.Merge:
    only(tree, text, "this", "using", "on", "whens", "with_")
    name, alias = target(tree.this, text)
    if tree.args.get("on") is None:
        wrong("MERGE needs ON and a condition", tree, text)
    whens = tuple(_when(when, text) for when in tree.args["whens"].expressions)
    return ast.Merge(name, alias, (tree.args["using"],), tree.args["on"], whens, span, tree.args.get("with_"))


def _when(when: exp.Expr, text: str) -> ast.When:
    only(when, text, "matched", "source", "condition", "then")
    matched, source, then = when.args.get("matched"), when.args.get("source"), when.args["then"]
    kind = "matched" if matched else "source" if source else "target"
    found = ast.When(kind, when.args.get("condition"))
    match then:
        case exp.Update() if kind != "target":
            return replace(found, assignments=_assignments(then.expressions, text))
        case exp.Insert() if kind == "target":
            columns = then.this.expressions if isinstance(then.this, exp.Tuple | exp.Schema) else []
            values = then.args.get("expression")
            cells = (
                values.expressions if isinstance(values, exp.Tuple) else [] if values is None else [values]
            )
            names = tuple(column.name for column in columns)
            if values is None and [name.lower() for name in names] == ["default"]:
                names = ()  # INSERT DEFAULT VALUES
            return replace(found, columns=names, values=tuple(cells))
        case exp.Var() if then.name.upper() == "DELETE" and kind != "target":
            return replace(found, deletes=True)
        case exp.Var() if then.name.upper() == "DO NOTHING":
            return found
        case _:
            wrong(f"WHEN {'MATCHED' if matched else 'NOT MATCHED'} cannot do this", then, text)


def overriding(tokens: list[Token]) -> tuple[str, list[Token]]:
    """SYSTEM or USER of OVERRIDING ... VALUE, and the tokens without these."""
    words = [token.text.upper() for token in tokens]
    for index in range(2, min(len(words) - 2, 2000)):
        if (
            words[index] == "OVERRIDING"
            and words[index + 1] in ("SYSTEM", "USER")
            and words[index + 2] == "VALUE"
        ):
            return words[index + 1], tokens[:index] + tokens[index + 3 :]
    return "", tokens


def condition(tree: exp.Expr) -> exp.Expr | None:
    """The condition of WHERE."""
    where = tree.args.get("where")
    return where.this if where is not None else None


def target(table: exp.Expr, text: str) -> tuple[str, str]:
    """Name and alias of the table that a statement changes."""
    if not isinstance(table, exp.Table):
        refuse(construct_name(table), table, text)
    only(table, text, "this", "alias", "db", "only")
    alias = table.args.get("alias")
    if alias is not None:
        only(alias, text, "this")
    return relation_name(table), table.alias or table.name


def _insert(tree: exp.Insert, text: str, span: Span) -> ast.Insert:
    only(
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
        only(table, text, "this", "expressions")
        columns = tuple(column.name for column in table.expressions)
        table = table.this
    query = tree.args.get("expression")
    if tree.args.get("default"):
        row = exp.Tuple(expressions=[])
        row.meta["default"] = True
        query = exp.Values(expressions=[row])
    if query is None:
        refuse("INSERT without VALUES or a query", table, text)
    place = span_of(query, text) or span
    if tree.args.get("by_name"):
        columns = _by_name(query, columns, text)
    if query.args.get("alias") is not None:
        wrong("the rows of an INSERT have no name", query.args["alias"], text)
    clause = tree.args.get("conflict")
    conflict = _conflict(clause, text, span) if clause is not None else None
    name, alias = target(table, text)
    common = tree.args.get("with_")
    if common is not None and query.args.get("with_") is None:
        query = query.copy()
        query.set("with_", common.copy())
    select = ast.Select(query, place)
    returning = _returning(tree, text)
    return ast.Insert(
        name, alias, columns, select, conflict, span, "", returning, common, alternative=alternative
    )


def _by_name(query: exp.Expr, columns: tuple[str, ...], text: str) -> tuple[str, ...]:
    """The columns that a query's columns are for: those of their names."""
    listed = query.expressions if isinstance(query, exp.Select) else []
    names = [part.alias or (part.name if isinstance(part, exp.Column) else "") for part in listed]
    if columns or not names or not all(names) or any(part.is_star for part in query.expressions):
        hint = "its columns need names"
        wrong("INSERT BY NAME takes a SELECT, and no list of columns", query, text, hint)
    return tuple(names)


def _conflict(clause: exp.Expr, text: str, span: Span) -> ast.Conflict:
    if clause.args.get("action") is None:
        wrong("ON CONFLICT needs DO NOTHING or DO UPDATE", clause, text)
    only(clause, text, "expressions", "action", "conflict_keys", "where", "constraint", "index_predicate")
    constraint = clause.args.get("constraint")
    keys = [
        key.this if isinstance(key, exp.Ordered) else key for key in clause.args.get("conflict_keys") or ()
    ]
    given = clause.args.get("index_predicate")
    elements: tuple[str, ...] = ()
    if given is not None or not all(isinstance(key, exp.Column) for key in keys):
        elements = tuple(key.sql(dialect="postgres") for key in keys)
    assignments = _assignments(clause.expressions, text)
    place = span_of(clause, text) or span
    named = constraint.name if constraint is not None else ""
    predicate = "" if given is None else given.this.sql(dialect="postgres")
    columns = () if elements else tuple(key.name for key in keys)
    return ast.Conflict(columns, assignments, condition(clause), place, named, elements, predicate)


def _update(tree: exp.Update, text: str, span: Span) -> ast.Update:
    only(tree, text, "this", "where", "expressions", "from_", "returning", "with_")
    assignments = _assignments(tree.expressions, text)
    if not assignments:
        wrong("UPDATE needs SET and what to set", tree, text)
    source = tree.args.get("from_")
    if source is not None:
        only(source, text, "this")
    name, alias = target(tree.this, text)
    sources = () if source is None else (source.this,)
    given = _returning(tree, text), tree.args.get("with_")
    alone = bool(tree.this.args.get("only"))
    return ast.Update(name, alias, assignments, sources, condition(tree), span, *given, alone=alone)


def _assignments(parts: list[exp.Expr], text: str) -> tuple[tuple[exp.Identifier, exp.Expr], ...]:
    assignments: list[tuple[exp.Expr, exp.Expr]] = []
    for assignment in parts:
        if not isinstance(assignment, exp.EQ):
            refuse(f"SET with {construct_name(assignment)}", assignment, text)
        target = assignment.this
        if isinstance(target, exp.Tuple | exp.Paren):
            targets = target.expressions if isinstance(target, exp.Tuple) else [target.this]
            assignments += zip(targets, _parts(assignment.expression, len(targets), text), strict=True)
        else:
            assignments.append((target, assignment.expression))
    return tuple((target.this, value) for target, value in _whole(assignments, text))


def _whole(assignments: list[tuple[exp.Expr, exp.Expr]], text: str) -> list[tuple[exp.Expr, exp.Expr]]:
    """The assignments with whole columns in the place of their parts."""
    found: dict[str, tuple[exp.Expr, exp.Expr]] = {}
    result: list[tuple[exp.Expr, exp.Expr]] = []
    for target, value in assignments:
        part = parted(target, value)
        if part is None:
            if not isinstance(target, exp.Column):
                refuse("SET of anything but a column", target, text)
            only(target, text, "this")
            result.append((target, value))
            continue
        column, made = part
        before = found.get(column.name.lower())
        if before is not None:
            made = again(made, before[1])
            result.remove(before)
        found[column.name.lower()] = (column, made)
        result.append(found[column.name.lower()])
    return result


def _parts(value: exp.Expr, count: int, text: str) -> list[exp.Expr]:
    """The values of SET (a, b) = (x, y), ROW (x, y) or a subquery, one by one."""
    if isinstance(value, exp.Subquery) and isinstance(value.this, exp.Query | exp.Values):
        inner = value.this
        plain = isinstance(inner, exp.Select) and not any(part.find(exp.Star) for part in inner.expressions)
        if plain and len(inner.expressions) != count:
            wrong(f"SET has {len(inner.expressions)} values for {count} columns", value, text)
        return [column_of(value, place, count) for place in range(count)]
    if isinstance(value, exp.Anonymous) and str(value.this).upper() == "ROW":
        parts = list(value.expressions)
    else:
        if not isinstance(value, exp.Tuple):
            wrong("SET of several columns takes ROW (...) or a subquery", value, text)
        parts = list(value.expressions)
    if len(parts) != count:
        wrong(f"SET has {len(parts)} values for {count} columns", value, text)
    return parts


def column_of(subquery: exp.Subquery, place: int, count: int) -> exp.Expr:
    """One column of a subquery, as a subquery."""
    columns = [exp.to_identifier(f"c{index}") for index in range(count)]
    alias = exp.TableAlias(this=exp.to_identifier("q"), columns=columns)
    inner = exp.Subquery(this=subquery.this.copy(), alias=alias)
    select = exp.Select(expressions=[exp.column(f"c{place}", table="q")], from_=exp.From(this=inner))
    return exp.Subquery(this=select)


VALUE = "value_"
INTO = 2


def split(tokens: list[Token], text: str) -> tuple[list[Token], list[exp.Expr]]:
    """The tokens of an INSERT with plain names in its list, and what is listed; nothing if all are plain."""
    opened = next((i for i, one in enumerate(tokens[:8]) if one.token_type is TokenType.L_PAREN), 0)
    before = [one.text.upper() for one in tokens[INTO:opened]]
    if opened <= INTO or {"VALUES", "SELECT", "WITH", "DEFAULT", "TABLE"} & set(before):
        return tokens, []
    closed = next((i for i in range(opened, len(tokens)) if tokens[i].token_type is TokenType.R_PAREN), 0)
    inside = tokens[opened + 1 : closed]
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

    listed = [parsed_expression(text[one[0].start : one[-1].end + 1]) for one in groups if one]
    commas = [one for one in inside if one.token_type is TokenType.COMMA]
    plain: list[Token] = []
    for place, group in enumerate(groups):
        plain += [*commas[:1], group[0]] if place else [group[0]]
    return [*tokens[: opened + 1], *plain, *tokens[closed:]], listed


def combined(statement: ast.Insert, listed: Sequence[exp.Expr]) -> ast.Insert:
    """The statement with one value for each column, of the values for its parts."""
    query = statement.query.query
    made: exp.Expr = query.copy()
    if isinstance(query, exp.Values):
        rows: list[exp.Expr] = []
        for row in made.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row.this]
            if len(cells) != len(listed):
                return statement  # told later, of the width
            values = _combined(listed, cells)
            rows.append(exp.Tuple(expressions=list(values.values())))
        made.set("expressions", rows)
    else:
        names = [f"{VALUE}{place}" for place in range(len(listed))]
        alias = exp.TableAlias(this=exp.to_identifier("given"), columns=list(map(exp.to_identifier, names)))
        values = _combined(listed, [exp.column(name, table="given") for name in names])
        source = exp.Subquery(this=query.copy(), alias=alias)
        made = exp.Select(expressions=list(values.values()), from_=exp.From(this=source))
    return replace(
        statement, columns=tuple(_combined(listed, listed)), query=replace(statement.query, query=made)
    )


def _combined(listed: Sequence[exp.Expr], cells: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """The value of each column by its name."""
    found: dict[str, exp.Expr] = {}
    for target, cell in zip(listed, cells, strict=True):
        part = parted(target, cell.copy())
        if part is None:
            found[target.name] = cell.copy()
            continue
        column, value = part
        if column.name in found:
            value = again(value, found[column.name])
        else:
            for one in list(value.find_all(exp.Column)):
                if one.name == column.name and not one.table and one.find_ancestor(exp.Query) is None:
                    one.replace(Blank(this=exp.to_identifier(column.name)))
        found[column.name] = value
    return found


CURRENT_OF: Final = ["WHERE", "CURRENT", "OF"]


def without_cursor(tokens: list[Token]) -> tuple[list[Token], str]:
    """A statement's tokens without WHERE CURRENT OF, and the cursor's name; none if there is none."""
    words = [token.text.upper() for token in tokens]
    for place in range(len(words) - len(CURRENT_OF)):
        if words[place : place + len(CURRENT_OF)] == CURRENT_OF:
            end = place + len(CURRENT_OF)
            quoted = tokens[end].token_type is TokenType.IDENTIFIER
            name = tokens[end].text if quoted else tokens[end].text.lower()
            return [*tokens[:place], *tokens[end + 1 :]], name
    return tokens, ""
