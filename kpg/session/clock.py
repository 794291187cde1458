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
        """Holds the clock row."""

    @property
    def journal(self) -> Journal:
        """Undo entries of definitions."""

    def step_unlogged(self) -> None:
        """Run a step that is not written to the log."""


class Clock:
    """Database clock. Times are microseconds since 1970, in UTC."""

    __slots__ = ("_engine", "advanced_time", "has_row")

    def __init__(self, engine: ClockHost) -> None:
        self._engine = engine
        self.advanced_time: int | None = None
        """Time to which the user has advanced the clock; None while it is the system's."""
        self.has_row = False
        """Whether the clock row exists, which views read."""

    def read(self) -> int:
        """Return the present time."""
        return time.time_ns() // 1000 if self.advanced_time is None else self.advanced_time

    def copy_from(self, other: "Clock") -> None:
        """Take over the state of the clock of a database with the same tables."""
        self.advanced_time, self.has_row = other.advanced_time, other.has_row

    def create_row(self) -> None:
        """Create the clock row, before the first view that reads it is installed.

        The view's commit logs the row. Definitions of the same transaction must not be logged earlier.
        """
        executor = self._engine.executor
        if self.has_row:
            return
        if executor.tables.has_pending:
            raise NotSupportedError(
                "the first view of the present time in a transaction that has changed rows is not supported",
                hint="create it before the changes",
            )
        executor.create_table(CLOCK, CLOCK_SCHEMA)
        executor.tables.insert(CLOCK, np.array([[self.read()]], np.int64))
        with self._engine.journal.restart_after_commit():
            self._engine.step_unlogged()
        self.has_row = True

    def tick(self) -> bool:
        """Advance the clock row to the present time. Return whether it changed; it never goes back."""
        executor = self._engine.executor
        if not self.has_row:
            return False
        row = executor.tables.scan(CLOCK, None)
        now = self.read()
        if now <= int(row[0, 0]):
            return False
        executor.tables.delete(CLOCK, executor.tables.match(CLOCK, row))
        executor.tables.insert(CLOCK, np.array([[now]], np.int64))
        return True

    def advance_to(self, moment: datetime.datetime | str) -> None:
        """Set the time, until the next call. InterfaceError if ``moment`` is in the past."""
        if isinstance(moment, str):
            moment = _parse_moment(moment)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        word = (moment - EPOCH) // MICROSECOND
        former = self.advanced_time
        if self.has_row:  # views read the clock row, which may lag behind the system's time
            former = max(int(self._engine.executor.tables.scan(CLOCK, None)[0, 0]), former or 0)
        if former is not None and word < former:
            former_moment = EPOCH + former * MICROSECOND
            raise InterfaceError(f"the time is {former_moment} already", hint="the time never goes back")
        self.advanced_time = word


def _parse_moment(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InterfaceError(
            f"{text!r} is no moment", hint="write it as 2024-02-29 12:00:00+00:00, or give a datetime"
        ) from None
