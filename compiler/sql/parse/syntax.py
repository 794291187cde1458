"""Spans and errors for sqlglot's trees, and their traversal."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token

from kpg.compiler.qualified_names import DATABASE
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.scalar import Scalar

ANNOTATIONS: Final = frozenset({"typed", "safe", "dialect", "big_int", "coalesce", "_type", "nested"})
"""Keys of a node's ``args`` that sqlglot sets about the dialect; the text has nothing of them."""


class ScalarNode(exp.Expression):
    """Syntax node that holds a bound scalar."""

    arg_types: ClassVar[dict[str, bool]] = {"scalar": True}


def scalar_of(node: ScalarNode) -> Scalar:
    """Return the scalar of a node."""
    scalar: Scalar = node.args["scalar"]
    return scalar


def scalar_node(scalar: Scalar) -> ScalarNode:
    """Return a node for a scalar."""
    return ScalarNode(scalar=scalar)


CONSTRUCT_NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.Bracket: "a subscript",
    exp.Lock: "FOR UPDATE or FOR SHARE",
    exp.RecursiveWithSearch: "SEARCH or CYCLE",
    exp.TableSample: "TABLESAMPLE",
    exp.JSONExtract: "a JSON operator",
    exp.JSONExtractScalar: "a JSON operator",
}


def span_of(node: exp.Expr, source: str) -> Span | None:
    """Return the span from the first to the last token with a known position in the tree.

    A node without positions takes the span of its closest ancestor with one; None if there is none.
    """
    ancestor: exp.Expr | None = node
    while ancestor is not None:
        starts = [part.meta["start"] for part in ancestor.walk() if "start" in part.meta]
        if starts:
            return Span(source, min(starts), max(_end(part) for part in ancestor.walk()))
        ancestor = ancestor.parent
    return None


def transform_tree(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return a copy of the tree with nodes replaced by ``change``; replacements are not changed further.

    Like ``exp.Expr.transform``, which takes time quadratic in the length of a list.
    """
    copy = tree.copy()
    result = change(copy)
    pending = [result] if result is copy else []
    while pending:
        node = pending.pop()
        for key, old in list(node.args.items()):
            if isinstance(old, exp.Expr):
                new: Any = change(old)
                pending += [old] if new is old else []
            elif isinstance(old, list):
                new = [change(part) if isinstance(part, exp.Expr) else part for part in old]
                unchanged = [part for part, changed in zip(old, new, strict=True) if changed is part]
                pending += [part for part in unchanged if isinstance(part, exp.Expr)]
                new = old if len(unchanged) == len(old) else new
            else:
                continue
            if new is not old:
                node.set(key, new)
    return result


def relation_name(table: exp.Expr) -> str:
    """Return the name of a table, with its schema if it has one."""
    schema = table.args.get("db")
    return table.name if schema is None else f"{schema.name}.{table.name}"


def strip_database(parts: Sequence[str], span: Span) -> list[str]:
    """Return a name without its database; NotSupportedError unless that is the current database."""
    if len(parts) > 3 or parts[0].lower() != DATABASE:
        message = f'cross-database references are not implemented: "{".".join(parts)}"'
        raise NotSupportedError(message, span=span, hint=f'the database is "{DATABASE}"')
    return list(parts[1:])


def _end(node: exp.Expr) -> int:
    return int(node.meta["end"]) + 1 if "end" in node.meta else 0


def refuse(construct: str, node: exp.Expr, source: str, hint: str | None = None) -> NoReturn:
    """Raise NotSupportedError for a construct at the node's span."""
    span = span_of(node, source) or whole_span(source)
    raise NotSupportedError(f"{construct} is not supported", span=span, hint=hint)


def fail(
    message: str, node: exp.Expr, source: str, hint: str | None = None, *, sqlstate: str | None = None
) -> NoReturn:
    """Raise ProgrammingError at the node's span, with an SQLSTATE if the message does not determine it."""
    raise ProgrammingError(
        message, span=span_of(node, source) or whole_span(source), hint=hint, sqlstate=sqlstate
    )


def whole_span(source: str) -> Span:
    """Return the span of a text without the surrounding whitespace."""
    start = len(source) - len(source.lstrip())
    return Span(source, start, max(start, len(source.rstrip())))


def allow_only(node: exp.Expr, source: str, *allowed: str) -> None:
    """Refuse the node if it has parts other than the ``allowed`` ones, so that none is ignored."""
    for name, value in node.args.items():
        if name in allowed or name in ANNOTATIONS or value is None or value is False or value == []:
            continue
        part = value[0] if isinstance(value, list) else value
        part_node = part if isinstance(part, exp.Expr) else node
        refuse(f"{construct_name(part_node)}{_location(name, part_node, node)}", part_node, source)


def _location(name: str, place: exp.Expr, node: exp.Expr) -> str:
    return f" ({name.rstrip('_')})" if place is node else f" in {construct_name(node)}"


def construct_name(node: exp.Expr) -> str:
    """Return the SQL keyword of a syntax node, derived from sqlglot's class name."""
    if type(node) in CONSTRUCT_NAMES:
        return CONSTRUCT_NAMES[type(node)]
    if isinstance(node, exp.Var):
        return node.name.upper()
    name = type(node).__name__
    words = "".join(
        f" {c}" if c.isupper() and i and not name[i - 1].isupper() else c for i, c in enumerate(name)
    )
    return words.upper()


def convert_parse_error(error: ParseError, tokens: list[Token], text: str) -> ProgrammingError:
    """Convert an error of sqlglot's parser to a ProgrammingError at its position."""
    details = error.errors[0] if error.errors else {}
    highlight = details.get("highlight") or tokens[-1].text
    column = int(details.get("col") or tokens[-1].col)
    start = _offset(text, int(details.get("line") or tokens[-1].line), column - len(highlight) + 1)
    at_end = start + len(highlight) >= tokens[-1].end + 1
    location = "at the end of the statement" if at_end and "Required" in str(error) else f'at "{highlight}"'
    return ProgrammingError(f"syntax error {location}", span=Span(text, start, start + len(highlight)))


def _offset(text: str, line: int, column: int) -> int:
    """Return the offset of a 1-based line and column, clamped to the text."""
    start = sum(len(part) for part in text.splitlines(keepends=True)[: line - 1])
    return max(0, min(start + column - 1, len(text) - 1))
