"""Patterns of SIMILAR TO, as regular expressions of Postgres."""

import re
from functools import lru_cache

from kpg.runtime.functions.posix import Regexp, compiled


@lru_cache(maxsize=256)
def similar(pattern: str, escape: str = "\\") -> Regexp:
    """The expression that a SIMILAR TO pattern means, matched against whole texts."""
    if len(escape) > 1:
        raise ValueError("invalid escape string")
    parts = _separated(pattern, escape)
    if len(parts) == 3:
        before, middle, after = (_from_similar(part, escape) for part in parts)
        lazily = before.replace(".*", ".*?")
        return compiled(f"^(?:{lazily})({middle})(?:{after})$".replace("(?:)", ""))
    if len(parts) > 1:
        raise ValueError("more than two separators (escape and double quote) in the pattern")
    return compiled(f"^(?:{_from_similar(pattern, escape)})$")


def _separated(pattern: str, escape: str) -> list[str]:
    """The parts between an escape and a double quote."""
    if not escape:
        return [pattern]
    parts = [""]
    place = 0
    while place < len(pattern):
        if pattern[place] == escape and pattern[place + 1 : place + 2] == '"':
            parts.append("")
            place += 2
        else:
            step = 2 if pattern[place] == escape else 1
            parts[-1] += pattern[place : place + step]
            place += step
    return parts


def _from_similar(pattern: str, escape: str) -> str:
    result: list[str] = []
    place, bracket = 0, False
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if escape and character == escape:
            if place >= len(pattern):
                result.append("\\\\" if escape == "\\" else re.escape(character))
                break
            following = pattern[place]
            place += 1
            result.append(f"\\{following}")
        elif bracket:
            result.append("\\\\" if character == "\\" else character)
            bracket = character != "]"
        elif character == "[":
            result.append(character)
            bracket = True
        else:
            known = {"%": ".*", "_": ".", "(": "(?:"}
            result.append(known.get(character) or (f"\\{character}" if character in ".^$\\" else character))
    return "".join(result)
