"""What a statement's end is announced with: ``SELECT 3``, ``INSERT 0 1``, ``CREATE TABLE``."""

from typing import Final

from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse import statements as ast
from kpg.result import Result
from kpg.sessions.session import Session
from kpg.sessions.texts import word_of

NOISE: Final = frozenset(
    ("OR", "REPLACE", "TEMP", "TEMPORARY", "UNLOGGED", "UNIQUE", "LOCAL", "GLOBAL", "RECURSIVE")
)
SHORT: Final = {
    "BEGIN": "BEGIN",
    "START": "START TRANSACTION",
    "COMMIT": "COMMIT",
    "END": "COMMIT",
    "ABORT": "ROLLBACK",
    "ROLLBACK": "ROLLBACK",
    "DECLARE": "DECLARE CURSOR",
    "TRUNCATE": "TRUNCATE TABLE",
}

COUNTED: Final[dict[type, str]] = {
    ast.Select: "SELECT",
    ast.Insert: "INSERT 0",
    ast.Delete: "DELETE",
    ast.Update: "UPDATE",
    ast.Merge: "MERGE",
    ast.CopyFrom: "COPY",
    ast.CopyTo: "COPY",
    ast.CreateTableAs: "SELECT",
}
"""Statements whose tags tell a number of rows."""
NAMED: Final[dict[type, str]] = {
    statements.LockTable: "LOCK TABLE",
    statements.Close: "CLOSE CURSOR",
    statements.SetConstraints: "SET CONSTRAINTS",
    statements.Show: "SHOW",
}
"""Statements whose tags are others than their first words."""


def tag_of(statement: ast.Statement, outcome: Result | None) -> str:
    """The tag of a statement that has run; of one with changes in its WITH, that of what comes behind it."""
    word = COUNTED.get(type(statement.main if isinstance(statement, ast.Modifying) else statement))
    if word is not None:
        return f"{word} {0 if outcome is None else outcome.rowcount}"
    if isinstance(statement, statements.Savepoint) and statement.kind == "RETURN":
        return "ROLLBACK"
    if isinstance(statement, statements.Close | statements.Deallocate) and not statement.name:
        return "CLOSE CURSOR ALL" if isinstance(statement, statements.Close) else "DEALLOCATE ALL"
    if type(statement) in NAMED:
        return NAMED[type(statement)]
    if isinstance(statement, statements.Fetch):
        return f"{'MOVE' if statement.moves else 'FETCH'} {0 if outcome is None else outcome.rowcount}"
    return _by_words(statement, outcome)


def _by_words(statement: ast.Statement, outcome: Result | None) -> str:
    span = statement.span
    words = span.source[span.start : span.end].upper().split()
    first = words[0].rstrip(";") if words else ""
    if first in SHORT:
        return SHORT[first]
    if first == "WITH" or (outcome is not None and first not in ("CREATE", "EXECUTE", "EXPLAIN")):
        return f"SELECT {0 if outcome is None else outcome.rowcount}"
    if first not in ("CREATE", "DROP", "ALTER"):
        return f"{first} {words[1].rstrip(';')}" if first == "DISCARD" else first
    rest = [word for word in words[1:4] if word not in NOISE]
    two = rest[:2] if rest[:1] == ["MATERIALIZED"] else rest[:1]
    return " ".join([first, *two])


def prepared_by(one: Session, statement: ast.Statement) -> str | None:
    """The word of the statement that an EXECUTE runs, if its tag counts rows; None for another statement."""
    if not isinstance(statement, statements.Execute):
        return None
    found = one.prepared.get(statement.name) or one.prepared.parsed.get(statement.name)
    return None if found is None else word_of(found.text)
