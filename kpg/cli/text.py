"""Where a typed statement ends."""

import re
from typing import Final

WORDS: Final = frozenset({"help", "exit", "quit"})
"""Commands that need no dot."""
OF_PSQL: Final = {
    "\\d": ".tables",
    "\\dt": ".tables",
    "\\dv": ".tables",
    "\\dm": ".tables",
    "\\i": ".read",
    "\\timing": ".timing",
    "\\?": ".help",
    "\\h": ".help",
    "\\q": ".quit",
}
"""What psql's users type, and which command that is here."""

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)   # what does not count
      | '(?:[^']|'')*' | "(?:[^"]|"")*"      # quoted, closed
      | (?P<open>['"]|/\*)                   # quoted or comment, not closed
      | (?P<end>;)
      | .""",
    re.VERBOSE | re.DOTALL,
)


def command_of(text: str) -> tuple[str, str] | None:
    """The command that an entry is, with a dot or as psql has it, and its argument; None for SQL."""
    stripped = text.strip().rstrip(";").rstrip()
    if stripped.lower() in WORDS:
        return f".{stripped.lower()}", ""
    if not stripped.startswith((".", "\\")):
        return None
    name, _, argument = stripped.partition(" ")
    return OF_PSQL.get(name, name), argument.strip()


def is_complete(text: str) -> bool:
    """Whether an entry can be run: nothing, a dot command, or statements that all have their semicolon."""
    if not text.strip() or command_of(text) is not None:
        return True
    ended = True
    for token in _TOKEN.finditer(text):
        if token["open"]:
            return False
        if not token["space"]:
            ended = token["end"] is not None
    return ended
