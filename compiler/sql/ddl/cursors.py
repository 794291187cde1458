"""DECLARE, FETCH, MOVE and CLOSE."""

from typing import Final

from kpg.compiler.sql import session as ast
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.statements import Select

ALL: Final = 1 << 62
"""More rows than there are."""


def declare(reader: Reader) -> ast.Declare:
    """What follows DECLARE."""
    name, scrolls, holds = reader.folded(), True, False
    while not reader.take("CURSOR"):
        if reader.take("NO", "SCROLL"):
            scrolls = False
        else:
            reader.choice("BINARY", "INSENSITIVE", "ASENSITIVE", "SCROLL")
    if reader.take("WITH", "HOLD"):
        holds = True
    else:
        reader.take("WITHOUT", "HOLD")
    reader.need("FOR")
    tree, span = reader.query()
    return ast.Declare(name, Select(tree, span), scrolls, holds, reader.span)


def fetch(reader: Reader, *, moves: bool) -> ast.Fetch:
    """What follows FETCH or MOVE."""
    direction, count = _direction(reader)
    if not reader.take("FROM"):
        reader.take("IN")
    name = reader.folded()
    reader.end()
    return ast.Fetch(name, direction, count, moves, reader.span)


def _direction(reader: Reader) -> tuple[str, int]:
    for word, found in (
        ("NEXT", ("FORWARD", 1)),
        ("PRIOR", ("FORWARD", -1)),
        ("FIRST", ("ABSOLUTE", 1)),
        ("LAST", ("ABSOLUTE", -1)),
        ("ALL", ("FORWARD", ALL)),
    ):
        if reader.take(word):
            return found
    for word in ("ABSOLUTE", "RELATIVE"):
        if reader.take(word):
            return word, reader.number()
    sign = -1 if reader.take("BACKWARD") else 1
    if sign > 0:
        reader.take("FORWARD")
    if reader.take("ALL"):
        return "FORWARD", sign * ALL
    plain = not reader.done and reader.tokens[reader.place].text.lstrip("+-").isdigit()
    signed = reader.at("-") or reader.at("+")
    return "FORWARD", sign * (reader.number() if plain or signed else 1)


def close(reader: Reader) -> ast.Close:
    """What follows CLOSE."""
    name = "" if reader.take("ALL") else reader.folded()
    reader.end()
    return ast.Close(name, reader.span)
