"""Positions in the text, and errors for unsupported syntax, for sqlglot's trees."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token

from kpg.compiler.qualified_names import DATABASE
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.scalar import Scalar

ANNOTATIONS: Final = frozenset({"typed", "safe", "dialect", "big_int", "coalesce", "_type", "nested"})
"""What sqlglot notes about the dialect that it parsed; nothing that the user wrote."""


class Known(exp.Expression):
    """A scalar in the place of a name."""

    arg_types: ClassVar[dict[str, bool]] = {"scalar": True}


def scalar_of(node: Known) -> Scalar:
    """What a node stands for."""
    found: Scalar = node.args["scalar"]
    return found


def known(scalar: Scalar) -> Known:
    """The node of a scalar."""
    return Known(scalar=scalar)


NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.Bracket: "a subscript",
    exp.Lock: "FOR UPDATE or FOR SHARE",
    exp.RecursiveWithSearch: "SEARCH or CYCLE",
    exp.TableSample: "TABLESAMPLE",
    exp.JSONExtract: "a JSON operator",
    exp.JSONExtractScalar: "a JSON operator",
}


def span_of(node: exp.Expr, source: str) -> Span | None:
    """The stretch of text from the first to the last token that the tree knows the place of.

    A node that knows none takes that of its closest ancestor that does.
    """
    here: exp.Expr | None = node
    while here is not None:
        starts = [part.meta["start"] for part in here.walk() if "start" in part.meta]
        if starts:
            return Span(source, min(starts), max(_end(part) for part in here.walk()))
        here = here.parent
    return None


def transformed(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy of the tree with other nodes in it, which are not changed further.

    As ``Expr.transform``, which takes the square of the length of a list to change all of it.
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
                kept = [part for part, made in zip(old, new, strict=True) if made is part]
                pending += [part for part in kept if isinstance(part, exp.Expr)]
                new = old if len(kept) == len(old) else new
            else:
                continue
            if new is not old:
                node.set(key, new)
    return result


def relation_name(table: exp.Expr) -> str:
    """The name of a table with that of its schema, if it is written."""
    schema = table.args.get("db")
    return table.name if schema is None else f"{schema.name}.{table.name}"


def without_database(parts: Sequence[str], place: Span) -> list[str]:
    """The names behind that of the database, which has to be the present one."""
    if len(parts) > 3 or parts[0].lower() != DATABASE:
        message = f'cross-database references are not implemented: "{".".join(parts)}"'
        raise NotSupportedError(message, span=place, hint=f'the database is "{DATABASE}"')
    return list(parts[1:])


def _end(node: exp.Expr) -> int:
    return int(node.meta["end"]) + 1 if "end" in node.meta else 0


def refuse(construct: str, node: exp.Expr, source: str, hint: str | None = None) -> NoReturn:
    """Raise NotSupportedError that names the construct and its place."""
    span = span_of(node, source) or whole(source)
    raise NotSupportedError(f"{construct} is not supported", span=span, hint=hint)


def wrong(
    message: str, node: exp.Expr, source: str, hint: str | None = None, *, state: str | None = None
) -> NoReturn:
    """Raise ProgrammingError at the node's place, with an SQLSTATE if its message does not say it."""
    error = ProgrammingError(message, span=span_of(node, source) or whole(source), hint=hint)
    error.sqlstate = state
    raise error


def whole(source: str) -> Span:
    """All of a text, without the space around it: the place of what has no other."""
    start = len(source) - len(source.lstrip())
    return Span(source, start, max(start, len(source.rstrip())))


def only(node: exp.Expr, source: str, *known: str) -> None:
    """Refuse the node if it has any part besides the ``known`` ones, so that none is ignored."""
    for name, value in node.args.items():
        if name in known or name in ANNOTATIONS or value is None or value is False or value == []:
            continue
        part = value[0] if isinstance(value, list) else value
        place = part if isinstance(part, exp.Expr) else node
        refuse(
            f"{construct_name(place if place is not node else node)}{_of(name, place, node)}", place, source
        )


def _of(name: str, place: exp.Expr, node: exp.Expr) -> str:
    return f" ({name.rstrip('_')})" if place is node else f" in {construct_name(node)}"


def construct_name(node: exp.Expr) -> str:
    """The SQL word for a kind of syntax node, as far as sqlglot's class name gives it."""
    if type(node) in NAMES:
        return NAMES[type(node)]
    if isinstance(node, exp.Var):
        return node.name.upper()
    name = type(node).__name__
    words = "".join(
        f" {c}" if c.isupper() and i and not name[i - 1].isupper() else c for i, c in enumerate(name)
    )
    return words.upper()


def rendered_error(error: ParseError, tokens: list[Token], text: str) -> ProgrammingError:
    """What sqlglot found wrong with some tokens of a text, at its place."""
    details = error.errors[0] if error.errors else {}
    highlight = details.get("highlight") or tokens[-1].text
    column = int(details.get("col") or tokens[-1].col)
    start = _offset(text, int(details.get("line") or tokens[-1].line), column - len(highlight) + 1)
    at_end = start + len(highlight) >= tokens[-1].end + 1
    where = "at the end of the statement" if at_end and "Required" in str(error) else f'at "{highlight}"'
    return ProgrammingError(f"syntax error {where}", span=Span(text, start, start + len(highlight)))


def _offset(text: str, line: int, column: int) -> int:
    """Offset of the 1-based line and column, within the text."""
    start = sum(len(part) for part in text.splitlines(keepends=True)[: line - 1])
    return max(0, min(start + column - 1, len(text) - 1))
