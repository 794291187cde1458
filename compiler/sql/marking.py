"""Statements with markers in the place of their constants and parameters."""

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.normal import Asked, Given
from kpg.compiler.sql.parameters import Binder, has_marks, rewritten
from kpg.compiler.sql.parse import parse
from kpg.compiler.sql.slots import Beyond, Marker
from kpg.compiler.sql.syntax import transformed
from kpg.runtime.scalar import Literal
from kpg.runtime.types import UNKNOWN


def marked_statement(asked: Asked, pins: tuple[int, ...]) -> ast.Statement:
    """The statement with markers in the place of its constants."""
    normal = asked.normal
    markers = {
        normal.places[place]: Marker.of(place, literal.type)
        for place, literal in enumerate(normal.constants)
        if place not in pins
    }

    def mark(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Literal) or node.meta.get("start") not in markers:
            return node
        marked = node.copy()
        marked.set("this", markers[node.meta["start"]])
        return marked

    (statement,) = parse(asked.text)
    statement = rewritten(statement, lambda tree: transformed(tree, mark))
    if not asked.given:
        return statement
    if not has_marks(asked.text):
        raise Beyond
    first = len(normal.constants)
    names = [name for name, _ in asked.given]
    values = [_marker(place, one) for place, (_, one) in enumerate(asked.given, first)]
    by_name = isinstance(asked.parameters(), Mapping)
    binder = Binder(dict(zip(map(str, names), values, strict=True)) if by_name else values)
    bound = binder.bind(statement)
    binder.finish()
    return bound


def _marker(place: int, given: Given) -> Any:
    """What the binder of parameters is given for a value."""
    if not isinstance(given, Literal):
        return given
    return exp.Literal(this=Marker.of(place, given.type), is_string=given.type == UNKNOWN)
