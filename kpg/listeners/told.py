"""What clients of the wire protocol, and bodies by SQLERRM, are told of an error: Postgres' words for it.

What the message names beside (the place, the operands) is its context.
"""

import re
from collections.abc import Callable
from typing import Final

from kpg.runtime.errors import Error, IntegrityError

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
QUOTED: Final = re.compile(r"(?:^|(?<=, ))(?:'(.*?)'|NULL)(?=, |$)", re.DOTALL)
"""A text, or a NULL, as messages show them."""
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


def plain(name: str) -> str:
    """A name without its schema."""
    return name.rpartition(".")[2]


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
        (
            r"duplicate key in table \S+: .* against constraint (\S+)",
            lambda found: f'duplicate key value violates unique constraint "{plain(found[1])}"',
        ),
        (
            r"duplicate key in table ([^\s:]+): .*",
            lambda found: f'duplicate key value violates unique constraint "{plain(found[1])}_pkey"',
        ),
        (
            r"row \(.*\) of table (\S+) fails CHECK ([^\s:]+): .*",
            lambda found: (
                f'new row for relation "{plain(found[1])}" violates check constraint "{plain(found[2])}"'
            ),
        ),
        (
            r"NULL in column (\S+?)(?: of the primary key)? of table ([^\s:]+): .*",
            lambda found: (
                f'null value in column "{found[1]}" of relation "{plain(found[2])}" '
                "violates not-null constraint"
            ),
        ),
        (
            r"\(.*\) of table (\S+) is no row of table \S+, against FOREIGN KEY (\S+)",
            lambda found: (
                f'insert or update on table "{plain(found[1])}" violates foreign key constraint "{found[2]}"'
            ),
        ),
        (
            r"\(.*\) of table (\S+) is still referred to by table (\S+), against FOREIGN KEY (\S+)",
            lambda found: (
                f'update or delete on table "{plain(found[1])}" violates foreign key constraint '
                f'"{found[3]}" on table "{plain(found[2])}"'
            ),
        ),
        (
            r"the transaction was rolled back by an earlier error",
            lambda found: "current transaction is aborted, commands ignored until end of transaction block",
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


DETAILS: Final = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"duplicate key in table [^\s:]+: \((.*?)\) = \((.*)\) exists.*", "Key ({0})=({1}) already exists."),
        (
            r"\((.*?)\) = \((.*)\) of table \S+ is no row of table (\S+), .*",
            'Key ({0})=({1}) is not present in table "{2}".',
        ),
        (
            r"\((.*?)\) = \((.*)\) of table \S+ is still referred to by table (\S+), .*",
            'Key ({0})=({1}) is still referenced from table "{2}".',
        ),
        (r"row \((.*)\) of table \S+ fails CHECK .*", "Failing row contains ({0})."),
        (r"NULL in column .*: row \((.*)\)", "Failing row contains ({0})."),
    )
)


def detail(error: Error) -> str | None:
    """What else clients are told: which row or key it is about."""
    if error.detail is not None or not isinstance(error, IntegrityError):
        return error.detail
    for pattern, words in DETAILS:
        found = pattern.fullmatch(error.message)
        if found is not None:
            parts = [QUOTED.sub(_unquoted, part) for part in found.groups()]
            return words.format(*parts)
    return None


def _unquoted(found: re.Match[str]) -> str:
    return "null" if found[1] is None else found[1]


def context(error: Error) -> str | None:
    """Where it happened, and with what, if the message says so and what clients are told does not."""
    if error.short is None or not error.message.startswith(error.short):
        return error.message if error.short is not None else None
    return error.message[len(error.short) :].strip() or None
