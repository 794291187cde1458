"""External tables: files and the caller's data, named in place of a table.

``FROM 'orders.parquet'``, ``FROM read_csv('*.csv', header = true)`` and ``FROM frame``. The statement is
rewritten to read tables made for them. The client API creates these tables and owns their lifetime.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.qualified_names import quote_name
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.dialect import Dialect
from kpg.compiler.sql.parse.parameters import map_trees
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.syntax import construct_name, fail, span_of, whole_span
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.runtime.errors import Error, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type

READERS: Final = {
    "read_csv": "csv",
    "read_csv_auto": "csv",
    "read_parquet": "parquet",
    "parquet_scan": "parquet",
}
"""Functions in FROM that read files, with the format that they read."""
READER_CLASSES: Final[dict[type[exp.Expr], str]] = {exp.ReadCSV: "read_csv", exp.ReadParquet: "read_parquet"}
"""Syntax classes of reader functions that sqlglot parses specially."""
SUFFIX: Final = re.compile(r"\.(?P<format>csv|tsv|parquet)(\.gz|\.zst)?$", re.IGNORECASE)
"""Suffix of a file name: such a name is a file and not a missing table."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files that a statement reads, with the options of the reader call."""

    paths: tuple[str, ...]
    format: str
    options: tuple[tuple[str, Any], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class UnknownName:
    """Name that no table has; it may be a frame of the caller."""

    name: str
    span: Span


ExternalSource = Files | UnknownName
AttachSource = Callable[[ExternalSource], str | None]
"""Function that creates a table for a source and returns its name; None leaves the source as it is."""


def attach_external_tables(
    statement: ast.Statement, is_known: Callable[[str], bool], attach: AttachSource
) -> ast.Statement:
    """Return the statement with tables in place of external sources.

    ``is_known`` tells whether the catalog has a name. ``attach`` is called once for each source. The text
    of CREATE VIEW is rewritten too. ProgrammingError for an invalid call of a reader.
    """
    if isinstance(statement, ast.Insert) and isinstance(statement.query.query, exp.Values):
        return statement  # VALUES can be very long
    source = statement.span.source
    if isinstance(statement, ast.CreateView):
        return _rewrite_view(statement, is_known, attach)
    return map_trees(statement, lambda tree: _replace_sources(tree, source, is_known, attach))


def _replace_sources(
    tree: exp.Expr, source: str, is_known: Callable[[str], bool], attach: AttachSource
) -> exp.Expr:
    tables = _attach_sources(tree, source, is_known, attach)
    if not tables:
        return tree
    copied = tree.copy()
    for node, mention in _external_sources(copied, source, is_known):
        if mention in tables:
            node.set("this", exp.to_identifier(tables[mention], quoted=True))
            if not node.alias:
                node.set(
                    "alias", exp.TableAlias(this=exp.to_identifier(_default_alias(mention), quoted=True))
                )
    return copied


def _rewrite_view(
    view: ast.CreateView, is_known: Callable[[str], bool], attach: AttachSource
) -> ast.CreateView:
    source = view.span.source
    tables = _attach_sources(view.query.query, source, is_known, attach)
    if not tables:
        return view
    tokens = Dialect().tokenize(source)
    places = {token.start: place for place, token in enumerate(tokens)}
    text = source
    for node, mention in sorted(
        _external_sources(view.query.query, source, is_known), key=lambda found: -found[1].span.start
    ):
        if mention in tables:
            first = places[mention.span.start]
            end = tokens[_last_token(tokens, first)].end + 1
            alias = "" if node.alias else f" AS {quote_name(_default_alias(mention))}"
            text = text[: mention.span.start] + quote_name(tables[mention]) + alias + text[end:]
    text = text[view.span.start : view.span.end + len(text) - len(source)]
    (rewritten_view,) = parse(text)
    assert isinstance(rewritten_view, ast.CreateView)
    return rewritten_view


def _last_token(tokens: Sequence[Token], first: int) -> int:
    """Return the index of the last token of a name or call that begins at ``first``."""
    depth = 0
    for place in range(first + 1, len(tokens)):
        kind = tokens[place].token_type
        depth += int(kind is TokenType.L_PAREN) - int(kind is TokenType.R_PAREN)
        if depth == 0:
            return place if kind is TokenType.R_PAREN and place > first + 1 else first
    return first


def _attach_sources(
    tree: exp.Expr, source: str, is_known: Callable[[str], bool], attach: AttachSource
) -> dict[ExternalSource, str]:
    """Create tables for the external sources in a tree; return their names."""
    found = dict.fromkeys(mention for _, mention in _external_sources(tree, source, is_known))
    names = {mention: attach(mention) for mention in found}
    return {mention: name for mention, name in names.items() if name is not None}


def _external_sources(
    tree: exp.Expr, source: str, is_known: Callable[[str], bool]
) -> Iterator[tuple[exp.Table, ExternalSource]]:
    tables = [node for node in tree.find_all(exp.Table) if not is_known(node.name) or node.args.get("db")]
    common = {one.alias.lower() for one in tree.find_all(exp.CTE)} if tables else set[str]()
    for node in tables:
        if node.args.get("db") is not None:
            continue
        relation, span = node.this, span_of(node, source) or whole_span(source)
        reader = READER_CLASSES.get(type(relation)) or (
            relation.name.lower() if isinstance(relation, exp.Anonymous) else ""
        )
        if reader in READERS:
            paths, options = _arguments(relation, reader, source)
            yield node, Files(paths, READERS[reader], options, span)
        elif isinstance(relation, exp.Identifier) and not node.args.get("db"):
            name = relation.name
            if name.lower() in common or is_known(name):
                continue
            file = SUFFIX.search(name)
            if file is None:
                yield node, UnknownName(name, span)
            else:
                format = file["format"].lower()
                yield node, Files((name,), "parquet" if format == "parquet" else "csv", (), span)


def _default_alias(mention: ExternalSource) -> str:
    """Return the alias of a source without one: the name, or the file name without its suffix."""
    if isinstance(mention, UnknownName):
        return mention.name
    return re.split(r"[\\/]", mention.paths[0])[-1].partition(".")[0] or "files"


def option_type(name: str, files: Files) -> Type:
    """Return the type that an option names; ProgrammingError at the call if there is no such type."""
    try:
        return sql_type(exp.DataType.build(name, dialect="postgres"), name)
    except (ParseError, Error):
        raise ProgrammingError(f'there is no type "{name}"', span=files.span) from None


def _arguments(
    call: exp.Expr, reader: str, source: str
) -> tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]:
    """Return the paths and the options of a reader call."""
    parts = [part for part in (call.args.get("this"), *call.expressions) if isinstance(part, exp.Expr)]
    if not parts:
        fail(f"{reader} needs the path of a file", call, source)
    first, rest = parts[0], parts[1:]
    listed = first.expressions if isinstance(first, exp.Array) else [first]
    if not listed or not all(isinstance(path, exp.Literal) and path.is_string for path in listed):
        fail(f"{reader} needs the path of a file, or a list of them, as text", first, source)
    options: dict[str, Any] = {}
    for part in rest:
        if not isinstance(part, exp.EQ | exp.PropertyEQ | exp.Kwarg):
            fail(
                f"{reader} takes its options by name, not {construct_name(part)}",
                part,
                source,
                "name = value",
            )
        name = part.this.name.lower()
        if name in options:
            fail(f'option "{name}" is given twice', part, source)
        options[name] = _option_value(part.expression, source)
    return tuple(path.name for path in listed), tuple(options.items())


def _option_value(node: exp.Expr, source: str) -> Any:
    """Return an option's constant: text, number, boolean, list, or struct as pairs."""
    match node:
        case exp.Literal():
            return (
                node.name if node.is_string else int(node.name) if node.name.isdigit() else float(node.name)
            )
        case exp.Neg(this=exp.Literal(is_string=False) as literal):
            return -_option_value(literal, source)
        case exp.Boolean():
            return bool(node.this)
        case exp.Array():
            return tuple(_option_value(part, source) for part in node.expressions)
        case exp.Struct():
            return tuple(
                (part.this.name, _option_value(part.expression, source)) for part in node.expressions
            )
        case exp.Column() | exp.Var() | exp.Identifier():
            return node.name
        case _:
            fail(f"an option is a constant, not {construct_name(node)}", node, source)
