"""SQLSTATE, the five letters by which clients tell errors apart."""

import re
from typing import Final

from kpg.listeners.told import told
from kpg.runtime.errors import (
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    PrivilegeError,
    ProgrammingError,
    SerializationError,
)

BY_MESSAGE: Final = tuple(
    (kind, re.compile(pattern), state)
    for kind, pattern, state in (
        (IntegrityError, r"NULL|not-null", "23502"),
        (IntegrityError, r"CHECK|check constraint", "23514"),
        (IntegrityError, r"FOREIGN KEY|foreign key", "23503"),
        (IntegrityError, r"", "23505"),
        (DataError, r"invalid byte sequence for encoding", "22021"),
        (DataError, r"division by zero|by zero", "22012"),
        (DataError, r"cannot take logarithm", "2201E"),
        (DataError, r"cannot take square root|raised to a", "2201F"),
        (DataError, r"^count must be|lower bound|lower and upper bounds", "2201G"),
        (DataError, r"^invalid regular expression: ", "2201B"),
        (DataError, r"^invalid escape string", "22025"),
        (DataError, r"negative substring length", "22011"),
        (DataError, r"(date|time) field value|stride must|timestamp cannot be", "22008"),
        (DataError, r"^(origin|timestamp) out of range", "22008"),
        (DataError, r"^invalid value .* for|12-hour clock|source string too short", "22007"),
        (DataError, r"^value too long|bit string length", "22001"),
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
        (ProgrammingError, r"column .* (does not exist|is unknown)|unknown column", "42703"),
        (
            ProgrammingError,
            r"(function|routine|aggregate) .* does not exist|unknown function|no function",
            "42883",
        ),
        (ProgrammingError, r"must be type boolean|but expression is of type", "42804"),
        (ProgrammingError, r"^cannot cast type", "42846"),
        (ProgrammingError, r"^operator|cannot compare|no operator", "42883"),
        (ProgrammingError, r"schema .* does not exist", "3F000"),
        (ProgrammingError, r"^policy .* does not exist", "42704"),
        (ProgrammingError, r"^policy .* already exists", "42710"),
        (ProgrammingError, r"(type|role|domain) .* does not exist", "42704"),
        (ProgrammingError, r"role .* already exists", "42710"),
        (ProgrammingError, r"role name .* is reserved", "42939"),
        (ProgrammingError, r"^ON CONFLICT needs a PRIMARY KEY or UNIQUE", "42P10"),
        (ProgrammingError, r"^role .* is a member of role|^ADMIN option", "0LP01"),
        (ProgrammingError, r"invalid privilege type|invalid grant operation|grant options", "0LP01"),
        (ProgrammingError, r"dependent privileges exist|some objects depend on it", "2BP01"),
        (ProgrammingError, r"prepared statement .* does not exist", "26000"),
        (ProgrammingError, r"prepared statement .* already exists", "42P05"),
        (ProgrammingError, r"cursor .* does not exist", "34000"),
        (ProgrammingError, r"(relation|table|view|sequence) .* does not exist", "42P01"),
        (ProgrammingError, r"ambiguous", "42702"),
        (ProgrammingError, r"already exists", "42P07"),
        (ProgrammingError, r"unknown setting", "42704"),
        (ProgrammingError, r"^FOR .*(UPDATE|SHARE) (is not allowed with|cannot be applied)", "0A000"),
        (ProgrammingError, r"^relation .* clause not found in FROM", "42P01"),
        (ProgrammingError, r"GROUP BY|aggregate", "42803"),
        (ProgrammingError, r"cannot be dropped", "2BP01"),
        (ProgrammingError, r"no view|is a table|is a view|not materialized", "42809"),
        (ProgrammingError, r"expected|type", "42804"),
        (ProgrammingError, r"", "42601"),
        (InterfaceError, r"rolled back by an earlier error|transaction is aborted", "25P02"),
        (InterfaceError, r"savepoint .* does not exist", "3B001"),
        (InterfaceError, r"needs a transaction", "25P01"),
        (InterfaceError, r"a transaction is already open", "25001"),
        (InterfaceError, r"", "08P01"),
        (OperationalError, r"disk|space", "53100"),
        (OperationalError, r"", "58000"),
        (NotSupportedError, r"", "0A000"),
        (InternalError, r"", "XX000"),
    )
)
"""The first that fits an error's class and message."""


def state_of(error: BaseException) -> str:
    """The SQLSTATE of an error."""
    if isinstance(error, Error) and error.sqlstate is not None:
        return error.sqlstate
    if isinstance(error, SerializationError):
        return "40001"
    if isinstance(error, PrivilegeError):
        return "42501"
    if isinstance(error, Error):
        message = told(error)
        for kind, pattern, state in BY_MESSAGE:
            if isinstance(error, kind) and pattern.search(message):
                return state
    return "53200" if isinstance(error, MemoryError) else "XX000"
