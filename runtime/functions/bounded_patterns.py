"""Patterns whose matching ends: those in which repetitions are nested are tried for a while only."""

import re
from re import _parser
from typing import Any, Final

LONGEST_TRY: Final = 1.0
"""Seconds after which a match is given up."""
MANY: Final = 255
"""Repetitions beyond which there are as good as any number of them."""


class Bounded:
    """A pattern in which repetitions are nested: it is given up, and not tried in ever more ways."""

    def __init__(self, text: str, flags: int) -> None:
        import regex

        self._pattern = regex.compile(text, flags)

    def search(self, string: str, start: int = 0) -> re.Match[str] | None:
        """As of Python's patterns."""
        return self._bounded(self._pattern.search, string, start, len(string))

    def fullmatch(self, string: str, start: int, stop: int) -> re.Match[str] | None:
        """As of Python's patterns."""
        return self._bounded(self._pattern.fullmatch, string, start, stop)

    def _bounded(self, match: Any, string: str, start: int, stop: int) -> re.Match[str] | None:
        try:
            found: re.Match[str] | None = match(string, start, stop, timeout=LONGEST_TRY)
        except TimeoutError:
            raise ValueError("regular expression is too complex") from None
        return found


def _nests(parts: Any) -> bool:
    """Whether a repetition without an end has another, or alternatives, in it."""
    return any(_repeats(operator, operand, inside=False) for operator, operand in parts)


def _repeats(operator: Any, operand: Any, *, inside: bool) -> bool:
    name = str(operator)
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        _, most, inner = operand
        if inside and most > 1:
            return True
        inside = inside or most > MANY
        return any(_repeats(*one, inside=inside) for one in inner)
    if name == "SUBPATTERN":
        return any(_repeats(*one, inside=inside) for one in operand[3])
    if name == "BRANCH":
        return inside or any(_repeats(*one, inside=inside) for way in operand[1] for one in way)
    return False


def compiled_python(text: str, flags: int = re.NOFLAG) -> re.Pattern[str] | Bounded:
    """A pattern of Python's, made so that matching ends."""
    python = re.compile(text, flags)
    if ")" in text and _nests(_parser.parse(text, flags)):  # which most have not
        return Bounded(text, flags)
    return python
