"""Texts with long lists of VALUES: the parser reads one row of each, the constants are read by columns.

The lists are blanks to the parser, but for a row that says how many columns there are; so everything else has
its place. Where a list is no list after all, or has columns that take more, the parser reads all of the text.
"""

import re
from typing import Any

from sqlglot import exp

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.bind.literals import convert, meant
from kpg.compiler.sql.bind.values import ROWS
from kpg.compiler.sql.bulk import Plain, Region, long_lists
from kpg.compiler.sql.constants import constant
from kpg.compiler.sql.parameters import rewritten
from kpg.compiler.sql.parse import parse, parse_as
from kpg.compiler.sql.slots import Beyond
from kpg.runtime.errors import Error
from kpg.runtime.functions import shown_type
from kpg.runtime.scalar import Literal
from kpg.runtime.types import UNKNOWN, Type


class Columns:
    """The columns of a list, as typed constants. Copies of a tree share them."""

    __slots__ = ("columns",)

    def __init__(self, columns: tuple[tuple[Literal, ...], ...]) -> None:
        self.columns = columns

    def __deepcopy__(self, memo: dict[int, Any]) -> "Columns":
        return self


def parsed(text: str) -> list[ast.Statement]:
    """The statements of a script, as ``parse`` gives them."""
    lists = long_lists(text)
    if not lists:
        return parse(text)
    try:
        rows = {one.start + 1: Columns(tuple(map(_typed, one.columns))) for one in lists}
        statements = parse_as(_without(text, lists), text)
    except (Beyond, Error):
        return parse(text)
    found: set[int] = set()
    for statement in statements:
        rewritten(statement, lambda tree: _with_rows(tree, rows, found))
    return statements if found == rows.keys() else parse(text)


def around(text: str, regions: list[Region]) -> list[ast.Statement] | None:
    """The statements of a script but those of some regions; None if one is in the text of a statement."""
    parts: list[str] = []
    last = 0
    for one in regions:
        parts += (text[last : one.start], re.sub(r"[^\n]", " ", text[one.start : one.stop]))
        last = one.stop
    try:
        statements = parse_as("".join((*parts, text[last:])), text)
    except Error:
        return None
    inside = any(
        statement.span.start < one.start < statement.span.end for one in regions for statement in statements
    )
    return None if inside else statements


def _without(text: str, lists: list[Plain]) -> str:
    """The text with one row for each list."""
    parts: list[str] = []
    last = 0
    for one in lists:
        row = f"({','.join('0' * len(one.columns))})"
        blank = re.sub(r"[^\n]", " ", text[one.start + len(row) : one.stop])
        parts += (text[last : one.start], row, blank)
        last = one.stop
    return "".join((*parts, text[last:]))


def _with_rows(tree: exp.Expr, rows: dict[int, Columns], found: set[int]) -> exp.Expr:
    for node in tree.find_all(exp.Values):
        first = node.expressions[0] if node.expressions else None
        cell = first.expressions[0] if isinstance(first, exp.Tuple) and first.expressions else None
        start = cell.meta.get("start") if isinstance(cell, exp.Literal) else None
        if start in rows and len(node.expressions) == 1:
            node.meta[ROWS] = rows[start]
            found.add(start)
    return tree


def _typed(cells: tuple[str, ...]) -> tuple[Literal, ...]:
    """The constants of a column, of one type, as ``bind_values`` has them; Beyond if there is more to it."""
    known: dict[str, Literal] = {}
    for cell in cells:
        if cell not in known:
            literal = Literal(None, UNKNOWN) if cell[0] in "nN" else constant(cell)
            if literal is None:
                raise Beyond
            known[cell] = literal
    kinds = dict.fromkeys(known[cell].type for cell in cells)
    if set(kinds) != {UNKNOWN}:
        target = shown_type(tuple(kinds))
        if target is None:
            raise Beyond
        known = {cell: _as(literal, target) for cell, literal in known.items()}
    return tuple(map(known.__getitem__, cells))


def _as(literal: Literal, type_: Type) -> Literal:
    if literal.type == type_:
        return literal
    if literal.type == UNKNOWN and literal.value is not None:
        value = meant(literal, Type(type_.kind) if type_.is_text else type_)
        if value is None:
            raise Beyond
        return Literal(value.value, type_)
    found = convert(literal, type_)
    if not isinstance(found, Literal):
        raise Beyond
    return found
