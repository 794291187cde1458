"""What clients of the wire protocol, and bodies by SQLERRM, are told of an error: Postgres' words for it.

What the message names beside (the place, the operands) is its context.
"""

import re
from collections.abc import Callable
from typing import Final

from kpg.runtime.errors import Error

TYPE_NAMES: Final = {
    "NULL": "unknown",
    "VARCHAR": "text",
    "DOUBLE": "double precision",
    "TIMESTAMP": "timestamp without time zone",
    "TIMESTAMPTZ": "timestamp with time zone",
    "TIME": "time without time zone",
    "TIMETZ": "time with time zone",
    "INTERVAL DAY": "interval",
    "INTERVAL MONTH": "interval",
    "BIT VARYING": "bit varying",
    "RECORD": "record",
}
SIZED: Final = re.compile(r"(VARCHAR|CHAR|DECIMAL|NUMERIC|BIT|BIT VARYING)\([\d, -]+\)")
SIZED_NAMES: Final = {"VARCHAR": "character varying", "CHAR": "character", "DECIMAL": "numeric"}


def type_name(shown: str) -> str:
    """Postgres' name of a type that a message shows."""
    if shown.endswith("[]"):
        return type_name(shown[:-2]) + "[]"
    sized = SIZED.fullmatch(shown)
    if sized:
        return SIZED_NAMES.get(sized[1], sized[1].lower())
    return TYPE_NAMES.get(shown, shown.lower() if shown.isupper() else shown)


def _sized(found: re.Match[str]) -> str:
    name = "character" if found[1] == "CHAR" else "character varying"
    return f"value too long for type {name}({found[2]})"


def _stored(found: re.Match[str]) -> str:
    name = type_name(found[1])
    if name == "numeric":
        return "numeric field overflow"
    return (
        f"{name} out of range"
        if name in ("smallint", "integer", "bigint")
        else "value out of range: overflow"
    )


def _called(found: re.Match[str]) -> str:
    name, types = found[1], [type_name(one) for one in _split(found[2])]
    if re.match(r"\w", name):
        return f"function {name}({', '.join(types)}) does not exist"
    parts = (types[0], name, types[1]) if len(types) == 2 else (name, *types)
    return f"operator does not exist: {' '.join(parts)}"


def _split(shown: str) -> list[str]:
    return re.split(r", (?![^()]*\))", shown) if shown else []


WORDS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"value .* is too long for column .* (CHAR|VARCHAR)\((\d+)\).*", _sized),
        (r'.*out of range for column ".*?" ([A-Z]+(?:\([\d, -]+\))?).*', _stored),
        (
            r"(.+) needs a BOOLEAN, not (.*)",
            lambda found: (
                f"argument of {'CASE/WHEN' if found[1] == 'WHEN' else found[1]} must be type boolean, "
                f"not type {type_name(found[2])}"
            ),
        ),
        (
            r"cannot cast (.+) to (.+)",
            lambda found: f"cannot cast type {type_name(found[1])} to {type_name(found[2])}",
        ),
        (
            r'column "(.+)" is ([A-Z].*), not ([A-Z].*)',
            lambda found: (
                f'column "{found[1]}" is of type {type_name(found[2])} '
                f"but expression is of type {type_name(found[3])}"
            ),
        ),
        (r"syntax error at the end of the statement", lambda found: "syntax error at end of input"),
        (r'syntax error at "(.*)"', lambda found: f'syntax error at or near "{found[1]}"'),
        (
            r"(?:.+ of a group cannot be computed: |)((?:step size|start value|cannot|invalid regular"
            r"|JSON object|left operand|right operand).*?)(?: in \$?[a-z_]+\(.*\))?",
            lambda found: found[1],
        ),
        (r"(\S+) does not take \((.*)\)", _called),
    )
)


def told(error: Error) -> str:
    """The message that clients are told."""
    message = error.short or error.message
    for pattern, words in WORDS:
        found = pattern.fullmatch(message)
        if found is not None:
            return words(found)
    return message


def context(error: Error) -> str | None:
    """Where it happened, and with what, if the message says so and what clients are told does not."""
    if error.short is None or not error.message.startswith(error.short):
        return error.message if error.short is not None else None
    return error.message[len(error.short) :].strip() or None
