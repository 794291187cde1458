"""EXPLAIN's options, as Postgres 16 takes them; EXPLAIN ROW: a row, and how that is to be explained."""

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.dialect import Dialect
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.types import Type

FORMATS = ("TEXT", "JSON")
PLAN_FORMATS: Final = ("TEXT", "XML", "JSON", "YAML")
FIELDS: Final = {
    "analyze": "analyze",
    "costs": "costs",
    "timing": "timing",
    "summary": "summary",
    "generic_plan": "generic",
}
"""Options with a meaning here, and what ``Explaining`` calls them."""
IDLE: Final = ("verbose", "buffers", "wal", "settings")
"""Options that are taken, and change nothing."""
QUERIES: Final = ("select", "with", "values", "table", "(")
"""What a query in parentheses begins with."""
TRUE: Final = ("true", "on", "1")
FALSE: Final = ("false", "off", "0")


def explaining(tokens: list[Token], text: str) -> tuple[list[Token], ast.Explaining]:
    """What the options behind EXPLAIN say, and the tokens that follow them."""
    if tokens and tokens[0].text == "(" and len(tokens) > 1 and tokens[1].text.lower() not in QUERIES:
        return _listed(tokens, text)
    analyze = bool(tokens) and tokens[0].text.lower() in ("analyze", "analyse")
    tokens = tokens[1:] if analyze else tokens
    verbose = bool(tokens) and tokens[0].text.lower() == "verbose"
    return tokens[1:] if verbose else tokens, ast.Explaining(analyze=analyze)


def _listed(tokens: list[Token], text: str) -> tuple[list[Token], ast.Explaining]:
    said: dict[str, Any] = {}
    needing: set[str] = set()
    place = 1
    while True:
        start, words = place, list[Token]()
        while place < len(tokens) and tokens[place].text not in (",", ")"):
            words.append(tokens[place])
            place += 1
        if place == len(tokens) or not 1 <= len(words) <= 2:
            raise _wrong("syntax error in the options of EXPLAIN", text, tokens[min(start, len(tokens) - 1)])
        _option(words, text, said, needing)
        place += 1
        if tokens[place - 1].text == ")":
            break
    how = ast.Explaining(**said)
    for name in ("wal", "timing"):
        if name in needing and not how.analyze:
            _invalid(f"EXPLAIN option {name.upper()} requires ANALYZE")
    if how.generic and how.analyze:
        _invalid("EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together")
    return tokens[place:], how


def _option(words: list[Token], text: str, said: dict[str, Any], needing: set[str]) -> None:
    """Note one option, the last word on which counts, and whether it is on."""
    name = words[0].text.lower().replace("analyse", "analyze")
    value = words[1].text if len(words) > 1 else ""
    if name == "format":
        if value.upper() not in PLAN_FORMATS:
            message = f'unrecognized value for EXPLAIN option "format": "{value.lower()}"'
            raise _wrong(message, text, words[0], "22023" if value else "42601")
        said["format"] = value.upper()
        return
    if name not in FIELDS and name not in IDLE:
        raise _wrong(f'unrecognized EXPLAIN option "{name}"', text, words[0])
    if value and value.lower() not in (*TRUE, *FALSE):
        raise _wrong(f"{name} requires a Boolean value", text)
    on = value.lower() not in FALSE
    needing.discard(name)
    if on:
        needing.add(name)
    if name in FIELDS:
        said[FIELDS[name]] = on


def _wrong(message: str, text: str, token: Token | None = None, state: str = "42601") -> ProgrammingError:
    span = None if token is None else Span(text, token.start, token.end + 1)
    error = ProgrammingError(message, span=span)
    error.sqlstate = state
    return error


def _invalid(message: str) -> NoReturn:
    raise _wrong(message, "", state="22023")


def viewed(
    rest: list[Token], stage: str, text: str, span: Span, how: ast.Explaining
) -> ast.ExplainView | None:
    """EXPLAIN [[MATERIALIZED] VIEW] name; None if it is of a statement."""
    words = [token.text.lower() for token in rest]
    named = 2 if words[:2] == ["materialized", "view"] else int(words[0] == "view")
    names = rest[named:]
    is_name = named or (names and names[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER))
    if not names or not is_name or any(token.text != "." for token in names[1::2]):
        return None
    place = Span(text, names[0].start, names[-1].end + 1)
    return ast.ExplainView(stage, Reader(names, text).relation(), place, span, how)


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
