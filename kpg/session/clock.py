"""Database clock: the system's time or one that the user advances, and the clock row that views compare with.

Commits and reads update the clock row. Views without a comparison with the present time do not depend on it.
"""

import datetime
import time
from typing import Protocol

import numpy as np

from kpg.compiler.catalog.entries import CLOCK, CLOCK_SCHEMA
from kpg.runtime.errors import InterfaceError, NotSupportedError
from kpg.runtime.executor import Executor
from kpg.session.undo import Journal

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


class ClockHost(Protocol):
    """The members of the engine that the clock uses."""

    @property
    def executor(self) -> Executor:
        """Keeps the clock's row."""

    @property
    def journal(self) -> Journal:
        """Undo entries of definitions."""

    def step_unkept(self) -> None:
        """Take a step that is not written to the log."""


class Clock:
    """See the module. Times are microseconds since 1970, in UTC."""

    __slots__ = ("_engine", "given", "kept")

    def __init__(self, engine: ClockHost) -> None:
        self._engine = engine
        self.given: int | None = None
        """The time that the user has advanced to; None while it is the system's."""
        self.kept = False
        """Whether there is a row that views may read."""

    def read(self) -> int:
        """The present time."""
        return time.time_ns() // 1000 if self.given is None else self.given

    def follow(self, other: "Clock") -> None:
        """Go on as the clock of a database does that has the same tables."""
        self.given, self.kept = other.given, other.kept

    def keep(self) -> None:
        """Have a row that views may read, before the first of them is installed.

        The commit of that view has it be there when the database is opened again: in a transaction, nothing
        of what has been defined before may be kept earlier.
        """
        executor = self._engine.executor
        if self.kept:
            return
        if executor.has_pending:
            raise NotSupportedError(
                "the first view of the present time in a transaction that has changed rows is not supported",
                hint="make it before the changes",
            )
        executor.create_table(CLOCK, CLOCK_SCHEMA)
        executor.insert(CLOCK, np.array([[self.read()]], np.int64))
        with self._engine.journal.apart():
            self._engine.step_unkept()
        self.kept = True

    def tick(self) -> bool:
        """Have the row show the present time, which never goes back; whether it did not."""
        executor = self._engine.executor
        if not self.kept:
            return False
        shown = executor.scan(CLOCK, None)
        now = self.read()
        if now <= int(shown[0, 0]):
            return False
        executor.delete(CLOCK, executor.match(CLOCK, shown))
        executor.insert(CLOCK, np.array([[now]], np.int64))
        return True

    def advance_to(self, moment: datetime.datetime | str) -> None:
        """Let it be that time, until it is advanced again; InterfaceError if that is in the past."""
        if isinstance(moment, str):
            moment = _moment(moment)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        word = (moment - EPOCH) // MICROSECOND
        reached = self.given
        if self.kept:  # views compare with the system's time, or an earlier one
            reached = max(int(self._engine.executor.scan(CLOCK, None)[0, 0]), reached or 0)
        if reached is not None and word < reached:
            shown = EPOCH + reached * MICROSECOND
            raise InterfaceError(f"the time is {shown} already", hint="it only goes forward")
        self.given = word


def _moment(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InterfaceError(
            f"{text!r} is no moment", hint="it is written as 2024-02-29 12:00:00+00:00, or a datetime"
        ) from None
