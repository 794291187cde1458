"""What a planner may know about the data that a plan is for."""

from typing import Protocol

from kpg.runtime.records import dataclass


class Statistics(Protocol):
    """What the planner may know about the data."""

    def rows(self, table: str) -> int:
        """About how many rows the table has."""

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        """The key columns, in order, of the arrangements of the table that exist."""

    @property
    def early(self) -> bool:
        """Whether a row's columns are read before the row goes anywhere: nobody but its owner has it."""


@dataclass(frozen=True, slots=True)
class NoStatistics:
    """Nothing is known: every table is taken to have a thousand rows and no arrangement."""

    def rows(self, table: str) -> int:
        return 1000

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        return ()

    @property
    def early(self) -> bool:
        return False
