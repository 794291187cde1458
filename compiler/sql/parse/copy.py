r"""COPY: its source or target, and its options in both syntaxes.

In a script, the lines after COPY ... FROM STDIN are data, ended by ``\.`` as in a dump.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.call_syntax import escaped
from kpg.compiler.sql.parse.reader import Reader, tree_of
from kpg.runtime.errors import ProgrammingError, Span

COPY: Final = re.compile(
    r"^[ \t]*copy\s[^;']*?\sfrom\s+stdin\b(?:[^;']|'[^']*')*;[^\n]*\n", re.IGNORECASE | re.MULTILINE
)
END: Final = re.compile(r"^\\\.[ \t\r]*$", re.MULTILINE)


def without_data(text: str) -> tuple[str, list[str]]:
    """The script with blanks in the place of such lines, so that places stay what they are; and the lines."""
    if "stdin" not in text.lower():
        return text, []
    blocks: list[str] = []
    parts: list[str] = []
    place = 0
    for found in COPY.finditer(text):
        if found.start() < place:
            continue
        end = END.search(text, found.end())
        if end is None:
            continue
        data = text[found.end() : end.start()]
        blocks.append(data)
        parts += [text[place : found.end()], re.sub(r"[^\n]", " ", text[found.end() : end.end()])]
        place = end.end()
    return "".join((*parts, text[place:])), blocks


def with_data(statements: Sequence[ast.Statement], blocks: Sequence[str]) -> list[ast.Statement]:
    """The statements with their lines."""
    rest = list(blocks)
    found: list[ast.Statement] = []
    for statement in statements:
        if isinstance(statement, ast.CopyFrom) and not statement.path and rest:
            statement = replace(statement, text=rest.pop(0))
        found.append(statement)
    return found


KNOWN: Final = (
    *("format", "header", "delimiter", "null", "quote", "escape", "default", "encoding", "freeze"),
    *("force_quote", "force_not_null", "force_null"),
)
ALSO: Final = {"delim": "delimiter", "sep": "delimiter"}
LISTS: Final = ("force_quote", "force_not_null", "force_null")
FORMATS: Final = ("csv", "parquet", "text")
BINARY: Final = "binary"
"""The form of rows that clients send and get; there are no such files."""
SUFFIXES: Final = {"parquet": "parquet", "csv": "csv", "tbl": "csv", "tsv": "csv"}
FOREIGN: Final = ("json", "jsonl", "ndjson", "xlsx", "arrow", "feather", "orc", "avro", "xml", "gz", "zip")
"""The ends of names of files that are surely none of these."""
ENCODINGS: Final = ("utf8", "utf-8", "unicode", "sql_ascii")


def copy(reader: Reader) -> ast.CopyFrom | ast.CopyTo:
    """A COPY."""
    reader.need("COPY")
    query, name, columns = _copied(reader)
    direction = reader.choice("FROM", "TO")
    if reader.at("PROGRAM"):
        reader.refuse("COPY with a PROGRAM")
    place = reader.here()
    path = "" if reader.take("STDOUT" if direction == "TO" else "STDIN") else reader.string()
    options = _options(reader)
    where = reader.condition() if direction == "FROM" and reader.take("WHERE") else ""
    reader.end()
    form = options.pop("format", None) or _format_of(path, place)
    if form == BINARY and path:
        reader.refuse("a file in Postgres' binary form", "the formats of files are csv, text and parquet")
    if form == BINARY and options:
        reader.wrong(f"COPY in binary form takes no option {next(iter(options))}")
    if form not in FORMATS and form != BINARY:
        reader.skip(-1)
        reader.wrong(f'unknown COPY format "{form}"', f"the formats are {', '.join(FORMATS)}")
    rest = tuple(options.items())
    if direction == "FROM":
        if query is not None:
            reader.skip(-1)
            reader.wrong("COPY FROM needs a table")
        return ast.CopyFrom(name, columns, path, form, rest, reader.span, where=where)
    if query is None:
        query = _all_of(name, columns, reader)
    return ast.CopyTo(query, path, form, rest, reader.span)


def _copied(reader: Reader) -> tuple[ast.Select | None, str, tuple[str, ...]]:
    if not reader.at("("):
        name = reader.relation()
        return None, name, reader.names() if reader.at("(") else ()
    start = reader.place
    reader.skip_enclosed()
    tokens = reader.tokens[start + 1 : reader.place - 1]
    if not tokens:
        reader.unexpected("a query")
    tree = tree_of(list(tokens), reader.text)
    if not isinstance(tree, exp.Query | exp.Values):
        reader.refuse("COPY of anything but a query")
    span = Span(reader.text, tokens[0].start, tokens[-1].end + 1)
    return ast.Select(tree, span), "", ()


def _all_of(name: str, columns: tuple[str, ...], reader: Reader) -> ast.Select:
    schema, _, plain = name.rpartition(".")
    table = exp.Table(this=exp.to_identifier(plain, quoted=True))
    if schema:
        table.set("db", exp.to_identifier(schema, quoted=True))
    items: list[exp.Expr] = [exp.column(exp.to_identifier(one, quoted=True)) for one in columns]
    return ast.Select(exp.Select(expressions=items or [exp.Star()], from_=exp.From(this=table)), reader.span)


def _format_of(path: str, place: Span) -> str:
    """What the end of a file's name tells, else Postgres' own."""
    suffix = path.lower().rpartition(".")[2]
    if suffix in FOREIGN:
        hint = "add (FORMAT csv), (FORMAT text) or (FORMAT parquet)"
        raise ProgrammingError(f'cannot tell the format of "{path}"', span=place, hint=hint)
    return SUFFIXES.get(suffix, "text")


def _options(reader: Reader) -> dict[str, str]:
    reader.take("WITH")
    if reader.take("("):
        found = {}
        while True:
            name, value = _option(reader)
            found[name] = value
            if not reader.take(","):
                break
        reader.need(")")
        return found
    found = {}
    while not reader.done and not reader.at("WHERE"):
        name, value = _older(reader)
        found[name] = value
    return found


def _option(reader: Reader) -> tuple[str, str]:
    word = reader.tokens[reader.place].text.lower() if not reader.done else ""
    name = ALSO.get(word, word)
    if name not in KNOWN:
        reader.wrong(f'unknown COPY option "{name}"', f"known: {', '.join(KNOWN)}")
    reader.skip(1)
    if name in LISTS:
        return name, "*" if reader.take("*") else "\n".join(reader.names())
    if reader.at(",") or reader.at(")"):
        return name, "true"
    value = _value(reader)
    if name in ("format", "header", "freeze", "encoding"):
        value = value.lower()
    if name == "encoding" and value not in ENCODINGS:
        reader.skip(-1)
        reader.refuse(f"COPY in encoding {value}", "files are UTF-8")
    return name, value


def _value(reader: Reader) -> str:
    if reader.done:
        reader.unexpected("a value")
    token = reader.tokens[reader.place]
    reader.skip(1)
    if token.token_type is TokenType.BYTE_STRING:
        return escaped(reader.text[token.start : token.end + 1])
    return str(token.text)


def _older(reader: Reader) -> tuple[str, str]:
    """An option as it was written before there were parentheses."""
    if reader.take("CSV"):
        return "format", "csv"
    if reader.take("BINARY"):
        return "format", "binary"
    if reader.take("HEADER"):
        return "header", "true"
    for words, name in (
        ("FORCE QUOTE", "force_quote"),
        ("FORCE NOT NULL", "force_not_null"),
        ("FORCE NULL", "force_null"),
    ):
        if reader.take(*words.split()):
            if reader.take("*"):
                return name, "*"
            names = [reader.name()]
            while reader.take(","):
                names.append(reader.name())
            return name, "\n".join(names)
    name = reader.choice("DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING").lower()
    reader.take("AS")
    return name, _value(reader)
