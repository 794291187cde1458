"""LOCK TABLE: which relations, and in which mode."""

from typing import Final

from kpg.compiler.sql import session as ast
from kpg.compiler.sql.ddl.reader import Reader

LEVELS: Final = (
    "ACCESS SHARE",
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE ROW EXCLUSIVE",
    "SHARE",
    "ACCESS EXCLUSIVE",
    "EXCLUSIVE",
)
"""The modes of LOCK TABLE."""


def locked(reader: Reader) -> ast.LockTable:
    """LOCK TABLE."""
    reader.need("LOCK")
    reader.take("TABLE")
    found: list[tuple[str, bool]] = []
    while not found or reader.take(","):
        only = reader.take("ONLY")
        found.append((reader.relation(), only))
        reader.take("*")
    level: str | None = "ACCESS EXCLUSIVE"
    if reader.take("IN"):
        level = next((one for one in LEVELS if reader.take(*one.split(), "MODE")), None)
        if level is None:
            reader.unexpected("a mode of locks")
    waits = not reader.take("NOWAIT")
    reader.end()
    return ast.LockTable(tuple(found), str(level).title().replace(" ", "") + "Lock", waits, reader.span)
