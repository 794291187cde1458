"""What a text that is no SQL was perhaps meant as: a statement with a mistyped word, or Datalog."""

import re
from dataclasses import replace
from typing import Final

from kpg.compiler.catalog import did_you_mean
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.unsupported_features import unsupported_syntax

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
    *("GRANT", "REVOKE", "PREPARE", "EXECUTE", "DEALLOCATE", "DECLARE", "FETCH", "SUBSCRIBE", "SET"),
)
"""What most statements begin with."""
INNER: Final = (
    *(
        "FROM",
        "WHERE",
        "GROUP",
        "ORDER",
        "HAVING",
        "LIMIT",
        "OFFSET",
        "JOIN",
        "LEFT",
        "RIGHT",
        "CROSS",
        "UNION",
    ),
    *("DISTINCT", "BETWEEN", "VALUES", "INTO", "TABLE", "VIEW", "MATERIALIZED", "INDEX", "COLUMN", "PRIMARY"),
    *("REFERENCES", "RETURNING", "PARTITION", "USING", "WHEN", "THEN", "ELSE"),
)
"""What is mistyped within them, and then taken for a name: the word behind is where it shows."""
ALIKE: Final = 0.75
"""As `form` is like FROM; names of columns are less like words of SQL, mostly."""
CLOSE: Final = 0.8
"""As `selct` is to SELECT, and RESET is not to SET."""
SKIPPED: Final = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
FIRST: Final = re.compile(r"[A-Za-z_]+")
LAST: Final = re.compile(r"(?<![\w.\"'])([A-Za-z]+)\s+$")
RULE: Final = re.compile(r"create\s+(or\s+replace\s+)?rule\b", re.IGNORECASE)
PROMPTED: Final = re.compile(r"\.(help|tables|arrangements|read|timing|quit|exit)\b")
DATALOG: Final = re.compile(r"\.[a-z]+\b|[\w.]+\s*\([^;]*\)\s*(?::-|\.\s*$)", re.DOTALL)


def hinted(error: ProgrammingError | NotSupportedError, text: str) -> ProgrammingError | NotSupportedError:
    """The error, with what the statement was perhaps meant as if it is of syntax."""
    if error.span is None:
        return error
    if isinstance(error, NotSupportedError):
        words = FIRST.findall(text[error.span.start : error.span.end])[1:3]
        error.hint = error.hint or next(filter(None, map(_misspelt, words)), None)
        return error
    if not error.message.startswith("syntax error"):
        return error
    start = text.rfind(";", 0, max(error.span.start, 0)) + 1
    skipped = SKIPPED.match(text, start)
    start = start if skipped is None else skipped.end()
    if RULE.match(text, start):  # its statements stand in parentheses, with semicolons
        return unsupported_syntax("RULE", error.span, verb="CREATE")
    first = FIRST.match(text, start)
    meant = None if first is None else _first_meant(first[0], CLOSE)
    if first is not None and meant is not None:  # that word is the mistake, not what cannot follow it
        span = replace(error.span, start=first.start(), end=first.end())
        return ProgrammingError(f'syntax error at "{first[0]}"', span=span, hint=meant)
    found = _hint(text[start:]) or _misspelt_before(text[start : error.span.start])
    if found is not None:
        error.hint = found
    return error


def _misspelt_before(text: str) -> str | None:
    """A hint about the last word before the place of an error."""
    word = LAST.search(text)
    return None if word is None else _misspelt(word[1])


def _misspelt(word: str) -> str | None:
    return None if word.upper() in INNER else did_you_mean(word, INNER, likeness=ALIKE)


def _hint(text: str) -> str | None:
    if text.startswith("?-"):
        return 'a goal of Datalog: db.prepare("?- ...")() answers it, as program.query does'
    if PROMPTED.match(text):
        return "that is a command of the prompt: kpg sql, without a script"
    if DATALOG.match(text):
        return "this is Datalog: db.datalog takes it"
    word = FIRST.match(text)
    return None if word is None else _first_meant(word[0])


def _first_meant(word: str, likeness: float = 0.6) -> str | None:
    return None if word.upper() in WORDS else did_you_mean(word, WORDS, likeness=likeness)
