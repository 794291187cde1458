"""What the job needs of a database, so that tests can put another one in its place."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from kpg.tpch.batch import Batch


class Stats(Protocol):
    """What a view says of itself."""

    @property
    def install_seconds(self) -> float:
        """Time to install the view, its first answer included."""

    @property
    def arrangements_built(self) -> int:
        """Arrangements that had to be made for the view."""

    @property
    def arrangements_reused(self) -> int:
        """Arrangements that were there already."""

    @property
    def last_step_seconds(self) -> float:
        """Time from the start of the last step until the view's answer was final."""


class View(Protocol):
    """A maintained view."""

    @property
    def stats(self) -> Stats:
        """Counters of the view."""

    def arrow(self) -> pa.Table:
        """The view's rows, in the order that its query asks for."""


class Engine(Protocol):
    """A database."""

    def sql(self, query: str, /) -> object:
        """Run a statement."""

    def load_all(
        self, sources: Mapping[str, object], *, mode: str, progress: Callable[[str, int], None]
    ) -> object:
        """Load files into tables, in one epoch; ``mode`` is ``spark`` or ``arrow``.

        ``progress`` is told of a table and its rows so far, 0 while Spark is at work on it.
        """

    def view(self, name: str, /) -> View:
        """A maintained view by name."""

    def transaction(self) -> AbstractContextManager[object]:
        """One epoch, all or nothing."""

    def delete(self, name: str, keys: pa.Table, /) -> object:
        """Delete rows by primary key."""

    def insert(self, name: str, rows: pa.Table, /) -> object:
        """Insert rows."""


def apply(engine: Engine, batch: Batch) -> None:
    """Give the engine a refresh as one transaction."""
    with engine.transaction():
        for table, change in batch.changes.items():
            engine.delete(table, change.deletes)
            engine.insert(table, change.inserts)
