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
from kpg.session.notification_queue import GuardedCallback

Callback = Callable[[Row, Any, int], object]
"""Receives a row, the time of its change, and the difference of its multiplicity."""
ColumnsCallback = Callable[[tuple[NDArray[Any], ...], NDArray[np.int64], NDArray[np.int64]], object]
"""Receives one array per column, the times, and the differences.

In a loop, ``times`` has an array of epochs and one of rounds per loop.
"""


class OutputFlow(Protocol):
    """The dataflow of an output."""

    @property
    def monitor(self) -> Monitor:
        """The database's monitor."""

    @property
    def epoch(self) -> int:
        """The latest epoch that is complete in the whole dataflow."""

    @property
    def label(self) -> str:
        """The dataflow's name among the users of tables and operators."""

    def close_output(self, output: "Output", installed: Installation) -> None:
        """Uninstall an output."""


@synchronized("attach", "installation", "notifications")
class Output:
    """A reader of a collection, until it or its dataflow is closed.

    If the collection is in a loop, times are tuples (epoch, round, ...), and reading begins when the
    block of the outermost loop ends.
    """

    def __init__(self, flow: OutputFlow, reader: Reader, depth: int) -> None:
        self._monitor = flow.monitor
        self._flow = flow
        self._reader = reader
        self._depth = depth
        self._installed: Installation | None = None
        self._listener: int | None = None
        self._depends_on_inputs_only = False
        self._closed = False

    def attach(self, installation: Installation, listener: int | None, inputs_only: bool) -> None:
        """Begin to read from the sink with the number ``listener``.

        ``inputs_only``: whether only inputs can change the collection.
        """
        self._installed, self._listener, self._depends_on_inputs_only = installation, listener, inputs_only

    @property
    def installation(self) -> Installation | None:
        """The installation that the output reads, None after it is closed."""
        return self._installed

    @property
    def time(self) -> Any:
        """The earliest time at which the collection may still change, None if it cannot change."""
        if self._closed or (self._depends_on_inputs_only and self._is_final()):
            return None
        first = self._flow.epoch + 1
        return first if self._depth == 1 else (first, *(0,) * (self._depth - 1))

    def _is_final(self) -> bool:
        return self._installed is not None and self._installed.is_final()

    def close(self) -> None:
        """Stop reading, and free what has no other reader. Closing twice is allowed."""
        if self._closed:
            return
        self._read_remaining()
        self._closed = True
        if self._installed is not None:
            if self._listener is not None:
                self._installed.close_sink(self._listener)
            self._flow.close_output(self, self._installed)
        self._installed = None

    def notifications(self) -> Iterator[Callable[[], object]]:
        """Yield the calls to make after a step."""
        return iter(())

    def _read_remaining(self) -> None:
        """Read the remaining updates before closing."""

    def _drain(self) -> list[Updates]:
        if self._installed is None or self._listener is None:
            return []
        return self._installed.drain_sink(self._listener)


@synchronized()
class Probe(Output):
    """The progress of a collection. A probe causes the collection to be computed."""

    def less_than(self, time: Any) -> bool:
        """Return whether the collection may still change before ``time``.

        In a loop, a time is a tuple (epoch, round, ...).
        """
        frontier, bound = self._frontier(), self._check_time(time)
        return frontier is not None and frontier != bound and all(map(le, frontier, bound))

    def done(self, time: Any) -> bool:
        """Return whether the collection cannot change any more at ``time`` or earlier."""
        frontier, bound = self._frontier(), self._check_time(time)
        return frontier is None or not all(map(le, frontier, bound))

    def _frontier(self) -> tuple[int, ...] | None:
        time = self.time
        return (time,) if isinstance(time, int) else time

    def _check_time(self, time: Any) -> tuple[int, ...]:
        coordinates = tuple(time) if isinstance(time, (tuple, list)) else (time,)
        if len(coordinates) != self._depth or not all(isinstance(part, int) for part in coordinates):
            expected = (
                "an int" if self._depth == 1 else f"a tuple of {self._depth} ints, the epoch and rounds"
            )
            raise InterfaceError(f"a time here is {expected}, not {time!r}")
        return coordinates


class Inspection(Output):
    """A callback that is called for every change."""

    def __init__(self, flow: OutputFlow, reader: Reader, depth: int, callback: Callback) -> None:
        super().__init__(flow, reader, depth)
        self._callback = callback
        self._guarded_callback = GuardedCallback(
            f"a callback of {flow.label}", self._call_for_each, self.close
        )

    def notifications(self) -> Iterator[Callable[[], object]]:
        changes = self._reader.changes(self._drain())
        if changes:
            yield lambda: self._guarded_callback(changes)

    def _call_for_each(self, changes: Sequence[tuple[Row, Any, int]]) -> None:
        for change in changes:
            self._callback(*change)


class ColumnsInspection(Output):
    """A callback that is called with the changes of a step, as one array per column."""

    def __init__(
        self, flow: OutputFlow, reader: Reader, depth: int, schema: Schema, callback: ColumnsCallback
    ) -> None:
        super().__init__(flow, reader, depth)
        self._schema = schema
        self._callback = callback
        self._guarded_callback = GuardedCallback(
            f"a callback of {flow.label}", self._call_with_arrays, self.close
        )

    def notifications(self) -> Iterator[Callable[[], object]]:
        parts = self._drain()
        if parts:
            yield lambda: self._guarded_callback(Updates.concat(parts))

    def _call_with_arrays(self, changes: Updates) -> None:
        arrays = to_arrays(changes.data, self._schema, self._reader.dictionary)
        times = changes.times()
        self._callback(arrays, times[0] if self._depth == 1 else times, changes.diffs())


@synchronized()
class Captured(Output):
    """A recording of a collection's changes, tuples (row, time, diff), in order of time within a step.

    Each iteration yields all changes so far. It can be replayed into another dataflow, also of another
    database, while it grows.
    """

    def __init__(self, flow: OutputFlow, reader: Reader, depth: int) -> None:
        super().__init__(flow, reader, depth)
        self._recorded: list[Updates] = []

    def __iter__(self) -> Iterator[tuple[Row, Any, int]]:
        return self._monitor.iterate(self._all_changes())

    def _all_changes(self) -> Iterator[tuple[Row, Any, int]]:
        self._read_remaining()
        for updates in list(self._recorded):
            yield from self._reader.changes([updates])

    @property
    def depth(self) -> int:
        """The number of coordinates of a time."""
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
        """Return the changes of steps from ``position`` on, and the next position."""
        self._read_remaining()
        changes = [
            change for updates in self._recorded[position:] for change in self._reader.changes([updates])
        ]
        return changes, len(self._recorded)

    def _read_remaining(self) -> None:
        self._recorded.extend(self._drain())
