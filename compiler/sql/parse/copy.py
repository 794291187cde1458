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
from kpg.compiler.sql.parse.call_syntax import decode_escape_string
from kpg.compiler.sql.parse.features import statement_span
from kpg.compiler.sql.parse.reader import Reader, parse_tree
from kpg.runtime.errors import ProgrammingError, Span

COPY_FROM_STDIN: Final = re.compile(
    r"^[ \t]*copy\s[^;']*?\sfrom\s+stdin\b(?:[^;']|'[^']*')*;[^\n]*\n", re.IGNORECASE | re.MULTILINE
)
END_OF_DATA: Final = re.compile(r"^\\\.[ \t\r]*$", re.MULTILINE)


def extract_copy_data(text: str) -> tuple[str, list[str]]:
    """Return a script with the data lines of COPY FROM STDIN blanked, and the data of each COPY.

    Offsets in the script stay valid.
    """
    if "stdin" not in text.lower():
        return text, []
    blocks: list[str] = []
    parts: list[str] = []
    end_offset = 0
    for found in COPY_FROM_STDIN.finditer(text):
        if found.start() < end_offset:
            continue
        end = END_OF_DATA.search(text, found.end())
        if end is None:
            continue
        data = text[found.end() : end.start()]
        blocks.append(data)
        parts += [text[end_offset : found.end()], re.sub(r"[^\n]", " ", text[found.end() : end.end()])]
        end_offset = end.end()
    return "".join((*parts, text[end_offset:])), blocks


def attach_copy_data(statements: Sequence[ast.Statement], blocks: Sequence[str]) -> list[ast.Statement]:
    """Return the statements with the data of each COPY FROM STDIN."""
    rest = list(blocks)
    found: list[ast.Statement] = []
    for statement in statements:
        if isinstance(statement, ast.CopyFrom) and not statement.path and rest:
            statement = replace(statement, text=rest.pop(0))
        found.append(statement)
    return found


OPTIONS: Final = (
    *("format", "header", "delimiter", "null", "quote", "escape", "default", "encoding", "freeze"),
    *("force_quote", "force_not_null", "force_null"),
)
OPTION_ALIASES: Final = {"delim": "delimiter", "sep": "delimiter"}
COLUMN_LIST_OPTIONS: Final = ("force_quote", "force_not_null", "force_null")
FORMATS: Final = ("csv", "parquet", "text")
BINARY: Final = "binary"
"""Format of Postgres' binary protocol; there are no such files."""
SUFFIXES: Final = {"parquet": "parquet", "csv": "csv", "tbl": "csv", "tsv": "csv"}
UNSUPPORTED_SUFFIXES: Final = (
    "json",
    "jsonl",
    "ndjson",
    "xlsx",
    "arrow",
    "feather",
    "orc",
    "avro",
    "xml",
    "gz",
    "zip",
)
"""Suffixes of files in formats that COPY does not read."""
ENCODINGS: Final = ("utf8", "utf-8", "unicode", "sql_ascii")


def parse_copy(reader: Reader) -> ast.CopyFrom | ast.CopyTo:
    """Parse COPY."""
    reader.expect("COPY")
    query, name, columns = _parse_source(reader)
    direction = reader.expect_one_of("FROM", "TO")
    if reader.at("PROGRAM"):
        reader.refuse("COPY with a PROGRAM")
    place = reader.here()
    path = "" if reader.accept("STDOUT" if direction == "TO" else "STDIN") else reader.string()
    options = _parse_options(reader)
    where = reader.condition() if direction == "FROM" and reader.accept("WHERE") else ""
    reader.expect_end()
    copy_format = options.pop("format", None) or _format_of_path(path, place)
    if copy_format == BINARY and path:
        reader.refuse("a file in Postgres' binary form", "the formats of files are csv, text and parquet")
    if copy_format == BINARY and options:
        reader.fail(f"COPY in binary form takes no option {next(iter(options))}")
    if copy_format not in FORMATS and copy_format != BINARY:
        reader.skip(-1)
        reader.fail(f'unknown COPY format "{copy_format}"', f"the formats are {', '.join(FORMATS)}")
    rest = tuple(options.items())
    if direction == "FROM":
        if query is not None:
            reader.skip(-1)
            reader.fail("COPY FROM needs a table")
        return ast.CopyFrom(name, columns, path, copy_format, rest, reader.span, where=where)
    if query is None:
        query = _select_all(name, columns, reader)
    return ast.CopyTo(query, path, copy_format, rest, reader.span)


def _parse_source(reader: Reader) -> tuple[ast.Select | None, str, tuple[str, ...]]:
    if not reader.at("("):
        name = reader.relation()
        return None, name, reader.names() if reader.at("(") else ()
    start = reader.position
    reader.skip_parentheses()
    tokens = reader.tokens[start + 1 : reader.position - 1]
    if not tokens:
        reader.fail_unexpected("a query")
    tree = parse_tree(list(tokens), reader.text)
    if not isinstance(tree, exp.Query | exp.Values):
        reader.refuse("COPY of anything but a query")
    return ast.Select(tree, statement_span(tokens, reader.text)), "", ()


def _select_all(name: str, columns: tuple[str, ...], reader: Reader) -> ast.Select:
    schema, _, plain = name.rpartition(".")
    table = exp.Table(this=exp.to_identifier(plain, quoted=True))
    if schema:
        table.set("db", exp.to_identifier(schema, quoted=True))
    items: list[exp.Expr] = [exp.column(exp.to_identifier(one, quoted=True)) for one in columns]
    return ast.Select(
        exp.Select(expressions=items or [exp.Star()], from_=exp.From(this=table)), reader.statement_span()
    )


def _format_of_path(path: str, place: Span) -> str:
    """Return the format of a path's suffix, or text, Postgres' default."""
    suffix = path.lower().rpartition(".")[2]
    if suffix in UNSUPPORTED_SUFFIXES:
        hint = "add (FORMAT csv), (FORMAT text) or (FORMAT parquet)"
        raise ProgrammingError(f'cannot tell the format of "{path}"', span=place, hint=hint)
    return SUFFIXES.get(suffix, "text")


def _parse_options(reader: Reader) -> dict[str, str]:
    reader.accept("WITH")
    if reader.accept("("):
        found = {}
        while True:
            name, value = _parse_option(reader)
            found[name] = value
            if not reader.accept(","):
                break
        reader.expect(")")
        return found
    found = {}
    while not reader.at_end and not reader.at("WHERE"):
        name, value = _parse_old_option(reader)
        found[name] = value
    return found


def _parse_option(reader: Reader) -> tuple[str, str]:
    word = reader.tokens[reader.position].text.lower() if not reader.at_end else ""
    name = OPTION_ALIASES.get(word, word)
    if name not in OPTIONS:
        reader.fail(f'unknown COPY option "{name}"', f"known: {', '.join(OPTIONS)}")
    reader.skip(1)
    if name in COLUMN_LIST_OPTIONS:
        return name, "*" if reader.accept("*") else "\n".join(reader.names())
    if reader.at(",") or reader.at(")"):
        return name, "true"
    value = _parse_value(reader)
    if name in ("format", "header", "freeze", "encoding"):
        value = value.lower()
    if name == "encoding" and value not in ENCODINGS:
        reader.skip(-1)
        reader.refuse(f"COPY in encoding {value}", "files are UTF-8")
    return name, value


def _parse_value(reader: Reader) -> str:
    if reader.at_end:
        reader.fail_unexpected("a value")
    token = reader.tokens[reader.position]
    reader.skip(1)
    if token.token_type is TokenType.BYTE_STRING:
        return decode_escape_string(reader.text[token.start : token.end + 1])
    return str(token.text)


def _parse_old_option(reader: Reader) -> tuple[str, str]:
    """Parse an option in the syntax without parentheses."""
    if reader.accept("CSV"):
        return "format", "csv"
    if reader.accept("BINARY"):
        return "format", "binary"
    if reader.accept("HEADER"):
        return "header", "true"
    for words, name in (
        ("FORCE QUOTE", "force_quote"),
        ("FORCE NOT NULL", "force_not_null"),
        ("FORCE NULL", "force_null"),
    ):
        if reader.accept(*words.split()):
            if reader.accept("*"):
                return name, "*"
            names = [reader.name()]
            while reader.accept(","):
                names.append(reader.name())
            return name, "\n".join(names)
    name = reader.expect_one_of("DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING").lower()
    reader.accept("AS")
    return name, _parse_value(reader)
