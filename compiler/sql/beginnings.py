"""What a text that is no SQL was perhaps meant as: a statement whose first word is mistyped, or Datalog."""

import re
from typing import Final

from kpg.compiler.catalog import did_you_mean
from kpg.runtime.errors import ProgrammingError

WORDS: Final = (
    *(
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "CREATE",
        "DROP",
        "ALTER",
        "TRUNCATE",
        "WITH",
        "VALUES",
    ),
    *("EXPLAIN", "COPY", "BEGIN", "COMMIT", "ROLLBACK", "SHOW", "DESCRIBE", "VERIFY", "COMMENT", "REFRESH"),
    *("GRANT", "REVOKE", "PREPARE", "EXECUTE", "DEALLOCATE", "DECLARE", "FETCH", "SUBSCRIBE", "CALL", "SET"),
)
"""What most statements begin with."""
SKIPPED: Final = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
FIRST: Final = re.compile(r"[A-Za-z_]+")
DATALOG: Final = re.compile(r"\.[a-z]+\b|[\w.]+\s*\([^;]*\)\s*(?::-|\.\s*$)", re.DOTALL)


def hinted(error: ProgrammingError, text: str) -> ProgrammingError:
    """The error, with what the statement was perhaps meant as if it is of syntax."""
    if not error.message.startswith("syntax error") or error.span is None:
        return error
    start = text.rfind(";", 0, max(error.span.start, 0)) + 1
    skipped = SKIPPED.match(text, start)
    start = start if skipped is None else skipped.end()
    found = _hint(text[start:])
    if found is not None:
        error.hint = found
    return error


def _hint(text: str) -> str | None:
    if text.startswith("?-"):
        return 'a goal of Datalog: db.prepare("?- ...")() answers it, as program.query does'
    if DATALOG.match(text):
        return "this is Datalog: db.datalog takes it"
    word = FIRST.match(text)
    if word is None or word[0].upper() in WORDS:
        return None
    return did_you_mean(word[0], WORDS)
