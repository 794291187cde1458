"""Where a typed statement ends."""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)   # what does not count
      | '(?:[^']|'')*' | "(?:[^"]|"")*"      # quoted, closed
      | (?P<open>['"]|/\*)                   # quoted or comment, not closed
      | (?P<end>;)
      | .""",
    re.VERBOSE | re.DOTALL,
)


def is_complete(text: str) -> bool:
    """Whether an entry can be run: nothing, a dot command, or statements that all have their semicolon."""
    stripped = text.strip()
    if not stripped or stripped.startswith("."):
        return True
    ended = True
    for token in _TOKEN.finditer(text):
        if token["open"]:
            return False
        if not token["space"]:
            ended = token["end"] is not None
    return ended
