"""Every error kpg raises, in the hierarchy of the Python DB-API (PEP 249).

An error says *what* went wrong (``message``), *where* (``span``, a stretch of the text that the user
wrote) and *what to do next* (``hint``). ``str(error)`` renders all three, with a caret under the place.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from kpg.runtime.records import dataclass

MOST_SHOWN: Final = 100
"""How many characters of a line a message shows at most."""
PACKAGE: Final = f"{Path(__file__).parents[1]}/"
"""The folder of this package: its frames say nothing to who calls it."""
BEFORE: Final = 30
"""How many of them may stand before the place, where the line is longer."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch ``source[start:end]`` of a text that the user wrote, in ``file`` if it has a name."""

    source: str
    start: int
    end: int
    file: str = ""

    @property
    def line(self) -> int:
        """The line of the start, from 1."""
        return self.source.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """The place of the start in its line, from 1."""
        return self.start - self.source.rfind("\n", 0, self.start)

    def at(self, name: str) -> "Span":
        """Where a name stands in the stretch, if that is one place; else all of it."""
        written = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
        places = (
            [found.span() for found in written.finditer(self.source, self.start, self.end)] if name else []
        )
        return replace(self, start=places[0][0], end=places[0][1]) if len(places) == 1 else self

    def excerpt(self, *, column: bool = False) -> str:
        """The line that holds the span's start, with carets under the span, and its number.

        Of a long line, only what surrounds the start, with … where something is left out. With ``column``,
        the number of the line is followed by that of the column.
        """
        line_start = self.source.rfind("\n", 0, self.start) + 1
        line_end = self.source.find("\n", self.start)
        line_end = len(self.source) if line_end < 0 else line_end
        place = f"{self.line}:{self.column}" if column else f"{self.line}"
        prefix = f"{self.file} line {place}: ".lstrip()
        first, last = line_start, line_end
        if line_end - line_start > MOST_SHOWN:
            first = max(line_start, min(self.start - BEFORE, line_end - MOST_SHOWN))
            last = min(line_end, first + MOST_SHOWN)
            prefix += "…" if first > line_start else ""
        shown = self.source[first:last] + ("…" if last < line_end else "")
        width = max(1, min(self.end, last) - self.start)
        caret = " " * (len(prefix) + self.start - first) + "^" * width
        return f"{prefix}{shown}\n{caret}"


class Error(Exception):
    """Base of all kpg errors; nothing else escapes the public API on a user's mistake."""

    detail: str | None = None
    """More of what is wrong, for clients of the wire protocol."""
    short: str | None = None
    """What is wrong, in Postgres' words, without the place and the operands that the message names."""
    sqlstate: str | None = None
    """The SQLSTATE, if it is not that of the class and the message."""
    routine: str | None = None
    """Postgres' name of the routine that raises this error, if drivers look for it."""

    def __init__(self, message: str, *, span: Span | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint

    def with_detail(self, detail: str) -> Self:
        """The same error, which says more."""
        self.detail = detail
        return self

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows: where the caller's own code was, and the message.

        Frames of this package, and errors that it has handled, are left out; an InternalError has all.
        """
        import traceback  # lazy: start-up does without it

        if isinstance(self, InternalError):
            return traceback.format_exception(self)
        frames = traceback.extract_tb(self.__traceback__)
        last = next((place for place, one in enumerate(frames) if one.filename.startswith(PACKAGE)), None)
        users = [one for one in frames[:last] if "/IPython/" not in one.filename]
        shown = [*traceback.format_list(users), f"{type(self).__name__}: {self}"]
        cause = (
            [] if self.__cause__ is None else [f"caused by {type(self.__cause__).__name__}: {self.__cause__}"]
        )
        return "\n".join([*(one.rstrip("\n") for one in shown), *cause]).split("\n")

    def __str__(self) -> str:
        parts = [self.message]
        if self.span is not None:
            parts.append(self.span.excerpt())
        if self.hint is not None:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class InterfaceError(Error):
    """The Python API was used in a way it does not allow (a closed connection, a wrong argument)."""


def check_argument(name: str, value: object, kinds: type | tuple[type, ...], what: str) -> None:
    """Raise InterfaceError for an argument of a wrong type; a bool is no number."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise InterfaceError(f"{name} is {value!r}, a {type(value).__name__}", hint=f"it is {what}")


class DatabaseError(Error):
    """Base of the errors that concern the database itself."""


class DataError(DatabaseError):
    """A value is wrong: overflow, division by zero, a bad cast, a scalar subquery with two rows."""

    narrow: bool = False
    """Whether a DECIMAL could not hold a sum or a product, which a NUMERIC can."""
    operation: object = None
    """The scalar that failed while rows were computed, by which the text's place is found."""


class EndlessError(DataError):
    """A recursion has not come to its end after the rounds that it may take."""


class IntegrityError(DatabaseError):
    """A constraint is violated: duplicate key, NULL in a NOT NULL column, delete of an absent row."""


class OperationalError(DatabaseError):
    """Something outside the statement failed: a file, Spark or Java, an interrupt."""


class CanceledError(OperationalError):
    """A statement was cancelled, by its user or by its time limit; nothing of it has happened."""

    sqlstate = "57014"


class ProgrammingError(DatabaseError):
    """The text is wrong: syntax, an unknown or ambiguous name, a type error."""


class PrivilegeError(ProgrammingError):
    """Who asks may not do that. ``detail`` says more of why."""

    def __init__(
        self, message: str, *, span: Span | None = None, hint: str | None = None, detail: str | None = None
    ) -> None:
        super().__init__(message, span=span, hint=hint)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault that was found in a program, as data. ``severity`` is ``error`` or ``warning``.

    ``notes`` are other places that the fault is about, each with what it has to do with it.
    """

    code: str
    message: str
    span: Span | None
    hint: str | None = None
    notes: tuple[tuple[str, Span | None], ...] = ()
    severity: str = "error"

    def text(self) -> str:
        """The message, the place with a caret under it, the notes and the hint."""
        parts = [f"{self.severity}: {self.message}" if self.severity != "error" else self.message]
        if self.span is not None:
            parts.append(self.span.excerpt(column=True))
        for text, span in self.notes:
            parts.append(text if span is None else f"{text}\n{span.excerpt(column=True)}")
        if self.hint is not None:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class DatalogError(ProgrammingError):
    """A Datalog program is wrong; ``diagnostics`` are all its errors and warnings, at least one of them an
    error.
    """

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        first = next(found for found in diagnostics if found.severity == "error")
        super().__init__(first.message, span=first.span, hint=first.hint)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return "\n\n".join(found.text() for found in self.diagnostics if found.severity == "error")


class SerializationError(OperationalError):
    """A transaction cannot go on: another one has changed, and committed, what it changed or read.

    It has been rolled back; to try it again from its beginning is the right thing to do.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="the transaction was rolled back: run it again")


class NotSupportedError(DatabaseError):
    """The text is valid SQL that kpg does not support."""


class InternalError(DatabaseError):
    """A broken invariant of kpg itself: please report it."""


class Waiting(BaseException):
    """A statement cannot go on now: it is undone, and done again later.

    No Exception: none but who runs the statement may catch it. ``wish`` is the lock that it waits for;
    without one it waits ``seconds``. ``naps``: because it has called pg_sleep.
    """

    def __init__(self, wish: Any, seconds: float = 0.0, *, naps: bool = False) -> None:
        super().__init__(wish)
        self.wish = wish
        self.seconds = seconds
        self.naps = naps


def no_text(wrong: bytes = b"\0") -> DataError:
    """What bytes are refused with that are no text: those that are no UTF-8, and zero, which no text has."""
    shown = " ".join(f"0x{byte:02x}" for byte in wrong)
    error = DataError(f'invalid byte sequence for encoding "UTF8": {shown}')
    error.sqlstate = "22021"
    return error
