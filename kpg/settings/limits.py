"""Settings that are times, switches or levels of isolation: what they may be, and how they are read."""

import re
from typing import Final

from kpg.runtime.errors import ProgrammingError, Span

UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1e-3}
DURATION: Final = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(us|ms|s|min|h|d|)\s*")
TIMES: Final = frozenset(
    {"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"}
)
MOST_SECONDS: Final = (2**31 - 1) / 1000
LEVELS: Final = ("read uncommitted", "read committed", "repeatable read", "serializable")
ISOLATION: Final = "transaction_isolation"
ISOLATIONS: Final = frozenset({ISOLATION, f"default_{ISOLATION}"})
CHECKED: Final = TIMES | ISOLATIONS
"""The names of those that :func:`checked` knows."""


def seconds_of(text: str) -> float:
    """A duration as settings have it: a number of milliseconds, or one with a unit. 0 if it is none."""
    found = DURATION.fullmatch(text)
    return 0.0 if found is None else float(found[1]) * UNITS[found[2]]


def checked(name: str, value: str, span: Span) -> str:
    """A time limit, or a level in lower case; ProgrammingError for what is neither.

    In silence it would be no limit, and a weaker level than was asked for.
    """
    if name in ISOLATIONS:
        if value.lower() in LEVELS:
            return value.lower()
        hint = ", ".join(LEVELS)
    else:
        if DURATION.fullmatch(value) is not None and seconds_of(value) <= MOST_SECONDS:
            return value
        hint = "a number of milliseconds, or one with a unit: us, ms, s, min, h, d"
    error = ProgrammingError(f'invalid value for parameter "{name}": "{value}"', span=span, hint=hint)
    error.sqlstate = "22023"
    raise error


def switched(name: str, value: str, span: Span) -> str:
    """``on`` or ``off``, by whatever word."""
    word = value.lower()
    for found, words in (("on", ("on", "true", "yes", "1")), ("off", ("off", "false", "no", "0"))):
        if word in words or (word and word != "o" and any(one.startswith(word) for one in words)):
            return found
    error = ProgrammingError(f'parameter "{name}" requires a Boolean value', span=span)
    error.sqlstate = "22023"
    raise error
