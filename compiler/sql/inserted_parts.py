"""INSERT into fields and elements of columns: ``INSERT INTO t (id, point.x, list[2]) ...``.

The parser reads names only, so the list is taken apart before it; then each column that has parts gets one
value, made of NULL with those parts set. Of which type that NULL is, the catalog knows later.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.assigning import Blank, again, parted

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
    from kpg.compiler.sql.ddl.reader import parsed_expression

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
