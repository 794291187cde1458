"""What a text is, at a look: one statement that may have a plan already, an INSERT that reads nothing."""

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from kpg.engine.engine import Engine

WORD: Final = re.compile(r"\s*(select|insert|update|delete)\b", re.IGNORECASE)
ADDS: Final = re.compile(r"\s*insert\b(?!.*\b(?:select|default|with)\b).*\bvalues\b", re.I | re.S)
CHANGES: Final = ("update", "delete")
MOST_TEXTS: Final = 1024
"""So many texts are known."""
SHORT: Final = 1_000
"""Letters of a text that is remembered."""
LONGEST: Final = 2_000
"""Letters of a statement that are logged."""
SECRET: Final = re.compile(r"""(\bpassword\b[\s=(]*)(?:e|u&|n)?['$"].*""", re.IGNORECASE | re.DOTALL)


def shown(text: str) -> str:
    """A statement as it is logged: cut where it is long, and where a password begins."""
    text = SECRET.sub(r"\1<hidden>", text.strip())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


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


def gathers(text: str) -> "bool | Callable[[Engine], bool]":
    """Whether it may share its step: an INSERT that reads nothing, a change of a row by its key."""
    word, adds = _seen(text)
    return partial(_looks_up, text) if word in CHANGES else adds


def is_light(text: str, engine: "Engine") -> bool:
    """Whether it takes about as long as to have another thread do it: a few rows are added, or looked up."""
    return len(text) <= SHORT and (_read(text)[1] or _looks_up(text, engine))


def _looks_up(text: str, engine: "Engine") -> bool:
    if not len(engine.remembered.keyed):
        return False
    from kpg.statements.planned import looks_up

    return looks_up(engine, text)
