"""EXPLAIN ROW: a row of a relation, and how its explanation is to be shown."""

from collections.abc import Sequence

from sqlglot import exp

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.dialect import Dialect
from kpg.runtime.types import Type

FORMATS = ("TEXT", "JSON")


def explain_row(reader: Reader) -> ast.ExplainRow | None:
    """EXPLAIN ROW or EXPLAIN (ROW [, FORMAT JSON]) of a relation's row; None for any other EXPLAIN."""
    reader.need("EXPLAIN")
    as_json = False
    if reader.take("(", "ROW"):
        while reader.take(","):
            reader.need("FORMAT")
            as_json = reader.choice(*FORMATS) == "JSON"
        reader.need(")")
    elif not reader.take("ROW"):
        return None
    reader.take("FOR")
    place = reader.here()
    relation = reader.relation()
    where: exp.Expr | None = None
    found: list[exp.Expr] = []
    if reader.take("WHERE"):
        where = reader.expression()
    else:
        reader.choice("VALUES")
        reader.need("(")
        found = [reader.expression()]
        while reader.take(","):
            found.append(reader.expression())
        reader.need(")")
    reader.end()
    return ast.ExplainRow(relation, place, tuple(found), where, as_json, reader.span)


def meant_rows(statement: ast.ExplainRow, name: str, columns: Sequence[str]) -> ast.Select:
    """The query of the rows of a relation that the statement means; NULL means NULL."""
    query = exp.select("*").from_(exp.to_table(".".join(map(_quoted, name.split(".")))))
    for column, value in zip(columns, statement.values, strict=False):
        named = exp.column(exp.to_identifier(column, quoted=True))
        query = query.where(exp.NullSafeEQ(this=named, expression=value.copy()))
    if statement.where is not None:
        query = query.where(statement.where.copy())
    return ast.Select(query, statement.span)


def meant_values(statement: ast.ExplainRow, types: Sequence[Type]) -> ast.Select:
    """The values of the row that is meant, as a query."""
    pairs = zip(statement.values, types, strict=True)
    casts = [exp.cast(value.copy(), str(type_), dialect=Dialect()) for value, type_ in pairs]
    named = (exp.alias_(one, f"c{number}") for number, one in enumerate(casts))
    return ast.Select(exp.select(*named), statement.span)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
