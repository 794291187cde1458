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
from kpg.compiler.sql.parse.parameters import rewritten
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.syntax import construct_name, span_of, whole, wrong
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
"""The functions in FROM that read files, and the format that they read."""
SYNTAX: Final[dict[type[exp.Expr], str]] = {exp.ReadCSV: "read_csv", exp.ReadParquet: "read_parquet"}
"""Those for which the parser has a class of its own."""
SUFFIX: Final = re.compile(r"\.(?P<format>csv|tsv|parquet)(\.gz|\.zst)?$", re.IGNORECASE)
"""How a name ends that means a file, and not a table that is missing."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files that a statement reads, with the options of the call that names them."""

    paths: tuple[str, ...]
    format: str
    options: tuple[tuple[str, Any], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Named:
    """A name that no table has: perhaps a frame of the caller's."""

    name: str
    span: Span


Mention = Files | Named
Attach = Callable[[Mention], str | None]
"""Makes a table of what is mentioned, and gives its name; None leaves the mention as it is."""


def attached(statement: ast.Statement, known: Callable[[str], bool], attach: Attach) -> ast.Statement:
    """The statement with tables in the place of what is outside; ``known`` says what the catalog has.

    ``attach`` is asked once for each mention. A view's text, by which it is known, changes too. Raises
    ProgrammingError for a call of a reader that is wrong.
    """
    if isinstance(statement, ast.Insert) and isinstance(statement.query.query, exp.Values):
        return statement  # perhaps a hundred thousand constants
    source = statement.span.source
    if isinstance(statement, ast.CreateView):
        return _spliced(statement, known, attach)
    return rewritten(statement, lambda tree: _replaced(tree, source, known, attach))


def _replaced(tree: exp.Expr, source: str, known: Callable[[str], bool], attach: Attach) -> exp.Expr:
    tables = _tables(tree, source, known, attach)
    if not tables:
        return tree
    copied = tree.copy()
    for node, mention in _mentions(copied, source, known):
        if mention in tables:
            node.set("this", exp.to_identifier(tables[mention], quoted=True))
            if not node.alias:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(_shown(mention), quoted=True)))
    return copied


def _spliced(view: ast.CreateView, known: Callable[[str], bool], attach: Attach) -> ast.CreateView:
    source = view.span.source
    tables = _tables(view.query.query, source, known, attach)
    if not tables:
        return view
    tokens = Dialect().tokenize(source)
    places = {token.start: place for place, token in enumerate(tokens)}
    text = source
    for node, mention in sorted(
        _mentions(view.query.query, source, known), key=lambda found: -found[1].span.start
    ):
        if mention in tables:
            first = places[mention.span.start]
            end = tokens[_last(tokens, first)].end + 1
            alias = "" if node.alias else f" AS {quote_name(_shown(mention))}"
            text = text[: mention.span.start] + quote_name(tables[mention]) + alias + text[end:]
    text = text[view.span.start : view.span.end + len(text) - len(source)]
    (again,) = parse(text)
    assert isinstance(again, ast.CreateView)
    return again


def _last(tokens: Sequence[Token], first: int) -> int:
    """The place of the last token of a name or a call that begins at ``first``."""
    depth = 0
    for place in range(first + 1, len(tokens)):
        kind = tokens[place].token_type
        depth += int(kind is TokenType.L_PAREN) - int(kind is TokenType.R_PAREN)
        if depth == 0:
            return place if kind is TokenType.R_PAREN and place > first + 1 else first
    return first


def _tables(tree: exp.Expr, source: str, known: Callable[[str], bool], attach: Attach) -> dict[Mention, str]:
    """What a tree mentions and is outside, with the names of the tables that were made of it."""
    found = dict.fromkeys(mention for _, mention in _mentions(tree, source, known))
    made = {mention: attach(mention) for mention in found}
    return {mention: name for mention, name in made.items() if name is not None}


def _mentions(
    tree: exp.Expr, source: str, known: Callable[[str], bool]
) -> Iterator[tuple[exp.Table, Mention]]:
    tables = [node for node in tree.find_all(exp.Table) if not known(node.name) or node.args.get("db")]
    common = {one.alias.lower() for one in tree.find_all(exp.CTE)} if tables else set[str]()
    for node in tables:
        if node.args.get("db") is not None:
            continue
        what, span = node.this, span_of(node, source) or whole(source)
        reader = SYNTAX.get(type(what)) or (what.name.lower() if isinstance(what, exp.Anonymous) else "")
        if reader in READERS:
            paths, options = _arguments(what, reader, source)
            yield node, Files(paths, READERS[reader], options, span)
        elif isinstance(what, exp.Identifier) and not node.args.get("db"):
            name = what.name
            if name.lower() in common or known(name):
                continue
            file = SUFFIX.search(name)
            if file is None:
                yield node, Named(name, span)
            else:
                format = file["format"].lower()
                yield node, Files((name,), "parquet" if format == "parquet" else "csv", (), span)


def _shown(mention: Mention) -> str:
    """The name of a relation in a query that gives it none: a file's without what follows its dot."""
    if isinstance(mention, Named):
        return mention.name
    return re.split(r"[\\/]", mention.paths[0])[-1].partition(".")[0] or "files"


def named_type(name: str, files: Files) -> Type:
    """The type that an option names; ProgrammingError at the call if there is none of that name."""
    try:
        return sql_type(exp.DataType.build(name, dialect="postgres"), name)
    except (ParseError, Error):
        raise ProgrammingError(f'there is no type "{name}"', span=files.span) from None


def _arguments(
    call: exp.Expr, reader: str, source: str
) -> tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]:
    """The paths and the options of a reader's call."""
    parts = [part for part in (call.args.get("this"), *call.expressions) if isinstance(part, exp.Expr)]
    if not parts:
        wrong(f"{reader} needs the path of a file", call, source)
    first, rest = parts[0], parts[1:]
    listed = first.expressions if isinstance(first, exp.Array) else [first]
    if not listed or not all(isinstance(path, exp.Literal) and path.is_string for path in listed):
        wrong(f"{reader} needs the path of a file, or a list of them, as text", first, source)
    options: dict[str, Any] = {}
    for part in rest:
        if not isinstance(part, exp.EQ | exp.PropertyEQ | exp.Kwarg):
            wrong(
                f"{reader} takes its options by name, not {construct_name(part)}",
                part,
                source,
                "name = value",
            )
        name = part.this.name.lower()
        if name in options:
            wrong(f'option "{name}" is given twice', part, source)
        options[name] = _value(part.expression, source)
    return tuple(path.name for path in listed), tuple(options.items())


def _value(node: exp.Expr, source: str) -> Any:
    """An option's constant: text, a number, a truth value, a list, or a struct as pairs."""
    match node:
        case exp.Literal():
            return (
                node.name if node.is_string else int(node.name) if node.name.isdigit() else float(node.name)
            )
        case exp.Neg(this=exp.Literal(is_string=False) as literal):
            return -_value(literal, source)
        case exp.Boolean():
            return bool(node.this)
        case exp.Array():
            return tuple(_value(part, source) for part in node.expressions)
        case exp.Struct():
            return tuple((part.this.name, _value(part.expression, source)) for part in node.expressions)
        case exp.Column() | exp.Var() | exp.Identifier():
            return node.name
        case _:
            wrong(f"an option is a constant, not {construct_name(node)}", node, source)
