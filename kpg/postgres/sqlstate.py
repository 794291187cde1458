"""Postgres' form of an error: SQLSTATE, message, detail, context and fields of a violated constraint.

The wire protocol sends these to clients, and PL/pgSQL functions read them (SQLSTATE, SQLERRM). The
context holds the parts of the message that Postgres' wording lacks, such as the place and the
operands.
"""

import re
from collections.abc import Callable
from typing import Final

from kpg.runtime.errors import (
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)

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
TYPE_WITH_MODIFIER: Final = re.compile(r"(VARCHAR|CHAR|DECIMAL|NUMERIC|BIT|BIT VARYING)\([\d, -]+\)")
MODIFIED_TYPE_NAMES: Final = {"VARCHAR": "character varying", "CHAR": "character", "DECIMAL": "numeric"}


def postgres_type_name(text: str) -> str:
    """Return Postgres' name of a type in a message."""
    if text.endswith("[]"):
        return postgres_type_name(text[:-2]) + "[]"
    match = TYPE_WITH_MODIFIER.fullmatch(text)
    if match:
        return MODIFIED_TYPE_NAMES.get(match[1], match[1].lower())
    return TYPE_NAMES.get(text, text.lower() if text.isupper() else text)


def _too_long_message(match: re.Match[str]) -> str:
    name = "character" if match[1] == "CHAR" else "character varying"
    return f"value too long for type {name}({match[2]})"


def _out_of_range_message(match: re.Match[str]) -> str:
    name = postgres_type_name(match[1])
    if name == "numeric":
        return "numeric field overflow"
    return (
        f"{name} out of range"
        if name in ("smallint", "integer", "bigint")
        else "value out of range: overflow"
    )


def _undefined_function_message(match: re.Match[str]) -> str:
    name, types = match[1], [postgres_type_name(one) for one in _split_types(match[2])]
    if re.match(r"\w", name):
        return f"function {name}({', '.join(types)}) does not exist"
    parts = (types[0], name, types[1]) if len(types) == 2 else (name, *types)
    return f"operator does not exist: {' '.join(parts)}"


def _split_types(text: str) -> list[str]:
    return re.split(r", (?![^()]*\))", text) if text else []


MESSAGE_TRANSLATIONS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"value .* is too long for column .* (CHAR|VARCHAR)\((\d+)\).*", _too_long_message),
        (r'.*out of range for column ".*?" ([A-Z]+(?:\([\d, -]+\))?).*', _out_of_range_message),
        (
            r"(.+) needs a BOOLEAN, not (.*)",
            lambda found: (
                f"argument of {'CASE/WHEN' if found[1] == 'WHEN' else found[1]} must be type boolean, "
                f"not type {postgres_type_name(found[2])}"
            ),
        ),
        (
            r"cannot cast (.+) to (.+)",
            lambda found: (
                f"cannot cast type {postgres_type_name(found[1])} to {postgres_type_name(found[2])}"
            ),
        ),
        (
            r'column "(.+)" is ([A-Z].*), not ([A-Z].*)',
            lambda found: (
                f'column "{found[1]}" is of type {postgres_type_name(found[2])} '
                f"but expression is of type {postgres_type_name(found[3])}"
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
        (r"(\S+) does not take \((.*)\)", _undefined_function_message),
    )
)


def client_message(error: Error) -> str:
    """Return the error's message in Postgres' wording."""
    if isinstance(error, IntegrityError) and error.violation is not None:
        return error.violation.message
    message = error.short or error.message
    for pattern, words in MESSAGE_TRANSLATIONS:
        found = pattern.fullmatch(message)
        if found is not None:
            return words(found)
    return message


def client_context(error: Error) -> str | None:
    """Return the parts of the message that Postgres' wording lacks; None if there are none."""
    if error.short is None or not error.message.startswith(error.short):
        return error.message if error.short is not None else None
    return error.message[len(error.short) :].strip() or None


STATES_BY_MESSAGE: Final = tuple(
    (kind, re.compile(pattern), state)
    for kind, pattern, state in (
        (DataError, r"invalid byte sequence for encoding", "22021"),
        (DataError, r"division by zero|by zero", "22012"),
        (DataError, r"cannot take logarithm", "2201E"),
        (DataError, r"cannot take square root|raised to a", "2201F"),
        (DataError, r"^count must be|lower bound|lower and upper bounds", "2201G"),
        (DataError, r"^invalid regular expression: ", "2201B"),
        (DataError, r"^invalid escape string", "22025"),
        (DataError, r"negative substring length", "22011"),
        (DataError | ProgrammingError, r"^LIMIT must not be negative", "2201W"),
        (DataError | ProgrammingError, r"^OFFSET must not be negative", "2201X"),
        (DataError, r"(date|time) field value|stride must|timestamp cannot be", "22008"),
        (DataError, r"^(origin|timestamp) out of range", "22008"),
        (DataError, r"^invalid value .* for|12-hour clock|source string too short", "22007"),
        (DataError, r"^bit string length", "22026"),
        (DataError, r"^value too long|bit string too long", "22001"),
        (DataError, r"multidimensional arrays is not supported", "0A000"),
        (DataError, r"trim must be|incompatible arrays|of valid range|array expr|accumulate", "2202E"),
        (DataError, r"must not contain NULLs|cannot be null|be formatted as an SQL", "22004"),
        (DataError, r"null character|too large for encoding", "54000"),
        (DataError, r"^(requested length too large|array size exceeds)", "54000"),
        (DataError, r"step size|regular expression option|for parameter|option$", "22023"),
        (DataError, r"field position|unrecognized|character number|format\(\)|identifier: ", "22023"),
        (DataError, r"^invalid (size|hexadecimal|encoding)|setseed|sample size|arguments are", "22023"),
        (DataError, r"overflow|out of range|does not fit", "22003"),
        (DataError, r"more than one row|two rows", "21000"),
        (DataError, r"cannot be cast|invalid|no such value|is no |is not a|cannot be read", "22P02"),
        (DataError, r"", "22000"),
        (ProgrammingError, r"^(identity )?column .* takes no value but DEFAULT", "428C9"),
        (ProgrammingError, r"^column .* is generated$|is a generated column$", "42P10"),
        (ProgrammingError, r"column .* (does not exist|is unknown)|unknown column", "42703"),
        (
            ProgrammingError,
            r"(function|routine|aggregate) .* does not exist|unknown function|no function",
            "42883",
        ),
        (ProgrammingError, r"must be type boolean|but expression is of type", "42804"),
        (ProgrammingError, r"^cannot cast type", "42846"),
        (ProgrammingError, r"^operator|cannot compare|no operator", "42883"),
        (ProgrammingError, r"^ON CONFLICT needs a PRIMARY KEY or UNIQUE", "42P10"),
        (ProgrammingError, r"dependent privileges exist|some objects depend on it", "2BP01"),
        (ProgrammingError, r"(relation|table|view|sequence) .* does not exist", "42P01"),
        (ProgrammingError, r"ambiguous", "42702"),
        (ProgrammingError, r"already exists", "42P07"),
        (ProgrammingError, r"^FOR .*(UPDATE|SHARE) (is not allowed with|cannot be applied)", "0A000"),
        (ProgrammingError, r"^relation .* clause not found in FROM", "42P01"),
        (ProgrammingError, r"GROUP BY|aggregate", "42803"),
        (ProgrammingError, r"cannot be dropped", "2BP01"),
        (ProgrammingError, r"no view|is a table|is a view|not (a )?materialized", "42809"),
        (ProgrammingError, r"expected|type", "42804"),
        (ProgrammingError, r"", "42601"),
        (InterfaceError, r"", "08P01"),
        (OperationalError, r"disk|space", "53100"),
        (OperationalError, r"", "58000"),
    )
)
"""SQLSTATEs by error class and message; the first match counts."""


def sqlstate_of(error: BaseException) -> str:
    """Return the SQLSTATE of an error."""
    if isinstance(error, Error) and error.sqlstate is not None:
        return error.sqlstate
    if isinstance(error, Error):
        message = client_message(error)
        for kind, pattern, state in STATES_BY_MESSAGE:
            if isinstance(error, kind) and pattern.search(message):
                return state
    return "53200" if isinstance(error, MemoryError) else "XX000"


def violation_fields(error: IntegrityError) -> dict[str, str]:
    """Return fields of an ErrorResponse: s schema, t table, c column, n constraint."""
    if error.violation is None:
        return {}
    schema, _, table = error.violation.table.rpartition(".")
    fields = {"c": error.violation.column, "n": error.violation.constraint}
    return {"s": schema or "public", "t": table} | {name: text for name, text in fields.items() if text}
