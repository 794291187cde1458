"""WHERE CURRENT OF: the row at which a cursor stands, and queries of which cursors have such rows."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.catalog import Catalog, TableEntry
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.syntax import known, relation_name
from kpg.runtime.scalar import Scalar

WORDS = ["WHERE", "CURRENT", "OF"]
CLAUSES = frozenset({"expressions", "from_", "where", "order", "limit", "offset", "locks", "kind", "hint"})


def without_cursor(tokens: list[Token]) -> tuple[list[Token], str]:
    """A statement's tokens without WHERE CURRENT OF, and the cursor's name; none if there is none."""
    words = [token.text.upper() for token in tokens]
    for place in range(len(words) - len(WORDS)):
        if words[place : place + len(WORDS)] == WORDS:
            end = place + len(WORDS)
            quoted = tokens[end].token_type is TokenType.IDENTIFIER
            name = tokens[end].text if quoted else tokens[end].text.lower()
            return [*tokens[:place], *tokens[end + 1 :]], name
    return tokens, ""


def with_row(query: exp.Expr, catalog: Catalog) -> tuple[exp.Expr, TableEntry] | None:
    """A query with all columns of its one table behind its own; None if it has not one row of it for each."""
    if not isinstance(query, exp.Select) or any(
        value for name, value in query.args.items() if name not in CLAUSES
    ):
        return None
    table = query.args["from_"].this if query.args.get("from_") is not None else None
    if not isinstance(table, exp.Table) or table.args.get("joins"):
        return None
    entry = catalog.find(relation_name(table))
    if not isinstance(entry, TableEntry) or query.find(exp.AggFunc, exp.Window) is not None:
        return None
    columns = [
        exp.alias_(exp.column(name, table=table.alias_or_name, quoted=True), f"{name} (row)", quoted=True)
        for name in entry.schema.names
    ]
    made = query.copy()
    made.set("expressions", [*made.expressions, *columns])
    return made, entry


def at_row(
    statement: ast.Update | ast.Delete, entry: TableEntry, row: Sequence[Scalar]
) -> ast.Update | ast.Delete:
    """The statement for the rows that are as a row, by the table's key if it has one."""
    key = entry.schema.primary_key
    parts: list[exp.Expr] = []
    for place in key or range(len(row)):
        column = exp.column(entry.schema.names[place], table=statement.alias, quoted=True)
        make = exp.EQ if key else exp.NullSafeEQ
        parts.append(make(this=column, expression=known(row[place])))
    return replace(statement, cursor="", where=exp.and_(*parts, copy=False))
