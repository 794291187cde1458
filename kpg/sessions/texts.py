"""What a text is, at a look: one statement that may have a plan already, an INSERT that reads nothing."""

import re
from functools import lru_cache
from typing import Any, Final

WORD: Final = re.compile(r"\s*(select|insert|update|delete)\b", re.IGNORECASE)
ADDS: Final = re.compile(
    r"\s*insert\b(?!.*\b(?:select|returning|conflict|default|with)\b).*\bvalues\b", re.I | re.S
)
MOST_TEXTS: Final = 1024
"""So many texts are known."""
SHORT: Final = 1_000
"""Letters of a text that is remembered."""


@lru_cache(MOST_TEXTS)
def _read(text: str) -> tuple[str | None, bool]:
    found = WORD.match(text)
    if found is None or ";" in text.rstrip().rstrip(";"):
        return None, False
    return found[1].lower(), ADDS.match(text) is not None


def _seen(text: str) -> tuple[str | None, bool]:
    """The word of a statement, and whether it only adds rows; long texts are not remembered."""
    return _read(text) if len(text) <= SHORT else _read.__wrapped__(text)


def word_of(text: str) -> str | None:
    """The word that a statement begins with, if the text is one statement that may have a plan already."""
    return _seen(text)[0]


def how(text: str) -> dict[str, Any]:
    """How the hub may treat it: an INSERT that reads nothing shares its step with others."""
    return {"gathers": _seen(text)[1]}
