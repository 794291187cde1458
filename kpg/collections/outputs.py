"""Outputs of a dataflow: probes, inspections by callback, and captured changes."""

from collections.abc import Callable, Iterator, Sequence
from operator import le
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Row
from kpg.execute.queries.result_rows import Reader
from kpg.runtime.convert.callbacks import to_arrays
from kpg.runtime.errors import InterfaceError
from kpg.runtime.handles import Installation
from kpg.runtime.monitor import Monitor, synchronized
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema, Type
from kpg.session.notification_queue import Guarded

Callback = Callable[[Row, Any, int], object]
"""Gets a row, the time of its change, and how often it came (negative: went)."""
ColumnsCallback = Callable[[tuple[NDArray[Any], ...], NDArray[np.int64], NDArray[np.int64]], object]
"""Gets one array a column, the times (in a loop an array of epochs and one of each loop's rounds), and the
multiplicities."""


class OutputFlow(Protocol):
    """The dataflow of an output."""

    @property
    def monitor(self) -> Monitor:
        """The database's monitor."""

    @property
    def epoch(self) -> int:
        """The last epoch that is complete in the whole dataflow."""

    @property
    def label(self) -> str:
        """The dataflow's name among the users of tables and operators."""

    def close_output(self, output: "Output", installed: Installation) -> None:
        """Uninstall what an output reads."""


@synchronized("attach", "installed", "notifications")
class Output:
    """One reader of a collection, until it or its dataflow is closed.

    Where the collection is in a loop, times are tuples (epoch, round, ...), and it reads once the block of
    the outermost loop is written.
    """

    def __init__(self, flow: OutputFlow, reader: Reader, depth: int) -> None:
        self._monitor = flow.monitor
        self._flow = flow
        self._reader = reader
        self._depth = depth
        self._installed: Installation | None = None
        self._listener: int | None = None
        self._static = False
        self._closed = False

    def attach(self, installed: Installation, listener: int | None, static: bool) -> None:
        """Begin to read, from the sink of that number; ``static`` if only inputs can change what is read."""
        self._installed, self._listener, self._static = installed, listener, static

    @property
    def installed(self) -> Installation | None:
        """What it keeps up to date, None once closed."""
        return self._installed

    @property
    def time(self) -> Any:
        """The first time at which the collection may still change; None if nothing more can come."""
        if self._closed or (self._static and self._finished()):
            return None
        first = self._flow.epoch + 1
        return first if self._depth == 1 else (first, *(0,) * (self._depth - 1))

    def _finished(self) -> bool:
        """Whether nothing that is computed for it can change again."""
        return self._installed is not None and self._installed.is_final()

    def close(self) -> None:
        """Read no more; what only this output needed is freed. Closing twice is allowed."""
        if self._closed:
            return
        self._finish()
        self._closed = True
        if self._installed is not None:
            if self._listener is not None:
                self._installed.ignore(self._listener)
            self._flow.close_output(self, self._installed)
        self._installed = None

    def notifications(self) -> Iterator[Callable[[], object]]:
        """What is to be called after a step."""
        return iter(())

    def _finish(self) -> None:
        """Take what is there before it is closed."""

    def _drained(self) -> list[Updates]:
        if self._installed is None or self._listener is None:
            return []
        return self._installed.heard(self._listener)


@synchronized()
class Probe(Output):
    """How far a collection has come. It computes the collection, even if nobody else reads it."""

    def less_than(self, time: Any) -> bool:
        """Whether something may still change before ``time``, in a loop a tuple (epoch, round, ...)."""
        now, then = self._first(), self._checked(time)
        return now is not None and now != then and all(map(le, now, then))

    def done(self, time: Any) -> bool:
        """Whether the collection is what it is at ``time`` for good."""
        now, then = self._first(), self._checked(time)
        return now is None or not all(map(le, now, then))

    def _first(self) -> tuple[int, ...] | None:
        now = self.time
        return (now,) if isinstance(now, int) else now

    def _checked(self, time: Any) -> tuple[int, ...]:
        given = tuple(time) if isinstance(time, (tuple, list)) else (time,)
        if len(given) != self._depth or not all(isinstance(part, int) for part in given):
            shown = "an int" if self._depth == 1 else f"a tuple of {self._depth} ints, the epoch and rounds"
            raise InterfaceError(f"a time here is {shown}, not {time!r}")
        return given


class Inspection(Output):
    """A callback that is told of every change."""

    def __init__(self, flow: OutputFlow, reader: Reader, depth: int, callback: Callback) -> None:
        super().__init__(flow, reader, depth)
        self._callback = callback
        self._tell = Guarded(f"a callback of {flow.label}", self._each, self.close)

    def notifications(self) -> Iterator[Callable[[], object]]:
        changes = self._reader.changes(self._drained())
        if changes:
            yield lambda: self._tell(changes)

    def _each(self, changes: Sequence[tuple[Row, Any, int]]) -> None:
        for change in changes:
            self._callback(*change)


class ColumnsInspection(Output):
    """A callback that is told of every change, by columns."""

    def __init__(
        self, flow: OutputFlow, reader: Reader, depth: int, schema: Schema, callback: ColumnsCallback
    ) -> None:
        super().__init__(flow, reader, depth)
        self._schema = schema
        self._callback = callback
        self._tell = Guarded(f"a callback of {flow.label}", self._arrays, self.close)

    def notifications(self) -> Iterator[Callable[[], object]]:
        parts = self._drained()
        if parts:
            yield lambda: self._tell(Updates.concat(parts))

    def _arrays(self, changes: Updates) -> None:
        arrays = to_arrays(changes.data, self._schema, self._reader.dictionary)
        times = changes.times()
        self._callback(arrays, times[0] if self._depth == 1 else times, changes.diffs())


@synchronized()
class Captured(Output):
    """The changes of a collection, each a tuple (row, time, diff), in order of time within a step.

    Iterating gives all so far, again each time. It can be replayed into another dataflow, also of another
    database, while it grows.
    """

    def __init__(self, flow: OutputFlow, reader: Reader, depth: int) -> None:
        super().__init__(flow, reader, depth)
        self._kept: list[Updates] = []

    def __iter__(self) -> Iterator[tuple[Row, Any, int]]:
        return self._monitor.iterate(self._all())

    def _all(self) -> Iterator[tuple[Row, Any, int]]:
        self._finish()
        for updates in list(self._kept):
            yield from self._reader.changes([updates])

    @property
    def depth(self) -> int:
        """The number of parts of a time."""
        return self._depth

    @property
    def columns(self) -> Sequence[str]:
        """The column names."""
        return self._reader.names

    @property
    def types(self) -> Sequence[Type]:
        """The SQL types of the columns."""
        return self._reader.types

    def since(self, position: int) -> tuple[list[tuple[Row, Any, int]], int]:
        """The changes of steps from ``position`` on, and the next position."""
        self._finish()
        found = [change for updates in self._kept[position:] for change in self._reader.changes([updates])]
        return found, len(self._kept)

    def _finish(self) -> None:
        self._kept.extend(self._drained())
