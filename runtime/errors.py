"""Every error kpg raises, in the hierarchy of the Python DB-API (PEP 249).

An error says *what* went wrong (``message``), *where* (``span``, a stretch of the text that the user
wrote) and *what to do next* (``hint``). ``str(error)`` renders all three, with a caret under the place.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from kpg.runtime.records import dataclass

MAX_EXCERPT: Final = 100
"""Maximum characters of a line in a message."""
PACKAGE: Final = f"{Path(__file__).parents[1]}/"
"""Folder of this package, whose frames are left out of users' tracebacks."""
EXCERPT_BEFORE: Final = 30
"""Maximum characters before the position in a shortened line."""


@dataclass(frozen=True, slots=True)
class Span:
    """Range ``source[start:end]`` of a text that the user wrote, in ``file`` if it has a name."""

    source: str
    start: int
    end: int
    file: str = ""

    @property
    def line(self) -> int:
        """Line of the start, from 1."""
        return self.source.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """Position of the start in its line, from 1."""
        return self.start - self.source.rfind("\n", 0, self.start)

    def at(self, name: str) -> "Span":
        """Return the span of a name within this one, if it occurs exactly once; else this span."""
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
        places = (
            [match.span() for match in pattern.finditer(self.source, self.start, self.end)] if name else []
        )
        return replace(self, start=places[0][0], end=places[0][1]) if len(places) == 1 else self

    def excerpt(self, *, column: bool = False) -> str:
        """Return the line of the span's start, with its number and with carets below the span.

        Long lines are cut around the start, marked by …. With ``column``, the column follows the line
        number.
        """
        line_start = self.source.rfind("\n", 0, self.start) + 1
        line_end = self.source.find("\n", self.start)
        line_end = len(self.source) if line_end < 0 else line_end
        place = f"{self.line}:{self.column}" if column else f"{self.line}"
        prefix = f"{self.file} line {place}: ".lstrip()
        first, last = line_start, line_end
        if line_end - line_start > MAX_EXCERPT:
            first = max(line_start, min(self.start - EXCERPT_BEFORE, line_end - MAX_EXCERPT))
            last = min(line_end, first + MAX_EXCERPT)
            prefix += "…" if first > line_start else ""
        visible = self.source[first:last] + ("…" if last < line_end else "")
        width = max(1, min(self.end, last) - self.start)
        caret = " " * (len(prefix) + self.start - first) + "^" * width
        return f"{prefix}{visible}\n{caret}"


class Error(Exception):
    """Base of all kpg errors; no other exception leaves the public API for a user's mistake."""

    detail: str | None = None
    """Details, for clients of the wire protocol."""
    short: str | None = None
    """Postgres' message, without the position and the operands that ours names."""
    sqlstate: str | None = None
    """SQLSTATE, if it does not follow from the class and the message."""
    routine: str | None = None
    """Postgres' routine name for this error, if drivers depend on it."""

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        hint: str | None = None,
        sqlstate: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint
        if sqlstate is not None:
            self.sqlstate = sqlstate

    def with_detail(self, detail: str) -> Self:
        """Set the details and return the error."""
        self.detail = detail
        return self

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints: the caller's own frames, and the message.

        Frames of this package and handled errors are left out; an InternalError has all.
        """
        import traceback  # lazy: start-up does without it

        if isinstance(self, InternalError):
            return traceback.format_exception(self)
        frames = traceback.extract_tb(self.__traceback__)
        last = next((place for place, frame in enumerate(frames) if frame.filename.startswith(PACKAGE)), None)
        users = [frame for frame in frames[:last] if "/IPython/" not in frame.filename]
        lines = [*traceback.format_list(users), f"{type(self).__name__}: {self}"]
        cause = (
            [] if self.__cause__ is None else [f"caused by {type(self.__cause__).__name__}: {self.__cause__}"]
        )
        return "\n".join([*(frame.rstrip("\n") for frame in lines), *cause]).split("\n")

    def __str__(self) -> str:
        parts = [self.message]
        if self.span is not None:
            parts.append(self.span.excerpt())
        if self.hint is not None:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class InterfaceError(Error):
    """The Python API was used in a way it does not allow (a closed connection, a wrong argument)."""


def check_argument(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise InterfaceError for an argument of the wrong type; a bool is not a number."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise InterfaceError(f"{name} is {value!r}, a {type(value).__name__}", hint=f"it is {expected}")


class DatabaseError(Error):
    """Base of the errors that concern the database itself."""


class DataError(DatabaseError):
    """A value is wrong: overflow, division by zero, a bad cast, a scalar subquery with two rows."""

    exceeds_decimal: bool = False
    """Whether a sum or product exceeds DECIMAL but would fit NUMERIC."""
    operation: object = None
    """Scalar that failed, from which the position in the text is found."""


class EndlessError(DataError):
    """A recursion has not reached its fixed point within its limit of rounds."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated constraint in Postgres' words, for clients. Names of tables have their schemas."""

    sqlstate: str
    message: str
    detail: str | None
    table: str
    constraint: str = ""
    column: str = ""


class IntegrityError(DatabaseError):
    """A constraint is violated: duplicate key, NULL in a NOT NULL column, delete of an absent row."""

    sqlstate = "23505"
    violation: Violation | None = None

    def of_constraint(self, violation: Violation) -> Self:
        """Set the violated constraint and return the error."""
        self.violation, self.sqlstate, self.detail = violation, violation.sqlstate, violation.detail
        return self


class OperationalError(DatabaseError):
    """Something outside the statement failed: a file, Spark or Java, an interrupt."""


class CanceledError(OperationalError):
    """A statement was canceled by its user or by its time limit; it has no effect."""

    sqlstate = "57014"


class ProgrammingError(DatabaseError):
    """The text is wrong: syntax, an unknown or ambiguous name, a type error."""


class PrivilegeError(ProgrammingError):
    """The role lacks a privilege; ``detail`` says why."""

    sqlstate = "42501"

    def __init__(
        self, message: str, *, span: Span | None = None, hint: str | None = None, detail: str | None = None
    ) -> None:
        super().__init__(message, span=span, hint=hint)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault in a program, as data. ``severity`` is ``error`` or ``warning``.

    ``notes`` are related positions, each with an explanation.
    """

    code: str
    message: str
    span: Span | None
    hint: str | None = None
    notes: tuple[tuple[str, Span | None], ...] = ()
    severity: str = "error"

    def text(self) -> str:
        """Return the message, the position with a caret, the notes and the hint."""
        parts = [f"{self.severity}: {self.message}" if self.severity != "error" else self.message]
        if self.span is not None:
            parts.append(self.span.excerpt(column=True))
        for text, span in self.notes:
            parts.append(text if span is None else f"{text}\n{span.excerpt(column=True)}")
        if self.hint is not None:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class DatalogError(ProgrammingError):
    """A Datalog program is wrong; ``diagnostics`` has all errors and warnings, at least one error."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        first = next(diagnostic for diagnostic in diagnostics if diagnostic.severity == "error")
        super().__init__(first.message, span=first.span, hint=first.hint)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return "\n\n".join(
            diagnostic.text() for diagnostic in self.diagnostics if diagnostic.severity == "error"
        )


class SerializationError(OperationalError):
    """A transaction conflicts with a committed change of another one and was rolled back.

    Run it again from its beginning.
    """

    sqlstate = "40001"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="the transaction was rolled back: run it again")


class NotSupportedError(DatabaseError):
    """The text is valid SQL that kpg does not support."""

    sqlstate = "0A000"


class InternalError(DatabaseError):
    """A broken invariant of kpg itself: please report it."""

    sqlstate = "XX000"


class WaitRequest(BaseException):
    """A statement has to wait: it is rolled back and run again later.

    Not an Exception, since only the code that runs the statement may catch it. ``lock`` is the lock
    that it waits for; without one it waits ``seconds``. ``is_sleeping`` means that it has called
    pg_sleep.
    """

    def __init__(self, lock: Any, seconds: float = 0.0, *, is_sleeping: bool = False) -> None:
        super().__init__(lock)
        self.lock = lock
        self.seconds = seconds
        self.is_sleeping = is_sleeping


def encoding_error(invalid: bytes = b"\0") -> DataError:
    """Return the error for bytes that are not text: invalid UTF-8, or a zero byte."""
    hex_bytes = " ".join(f"0x{byte:02x}" for byte in invalid)
    error = DataError(f'invalid byte sequence for encoding "UTF8": {hex_bytes}')
    error.sqlstate = "22021"
    return error
