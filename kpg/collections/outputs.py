"""What is read of a dataflow: callbacks, probes, records."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.reading import Reader
from kpg.result import Row
from kpg.runtime.data.foreign import to_arrays
from kpg.runtime.installed import Installed
from kpg.runtime.operators.custom import Custom
from kpg.runtime.operators.input import Input, Sink
from kpg.runtime.operators.loop import everything
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema, Type

if TYPE_CHECKING:
    from kpg.collections.dataflow import Dataflow

Callback = Callable[[Row, int, int], object]
"""Gets a row, the time of its change, and how often it came (negative: went)."""
ColumnsCallback = Callable[[tuple[NDArray[Any], ...], NDArray[np.int64], NDArray[np.int64]], object]
"""Gets one array a column, the times, and the multiplicities."""


class Output:
    """One reader of a collection, until it or its dataflow is closed."""

    def __init__(self, flow: "Dataflow", installed: Installed, reader: Reader, static: bool) -> None:
        self._flow = flow
        self._installed: Installed | None = installed
        self._reader = reader
        self._static = static

    @property
    def installed(self) -> Installed | None:
        """What it keeps up to date, None once closed."""
        return self._installed

    @property
    def time(self) -> int | None:
        """The first time at which the collection may still change; None if nothing more can come."""
        installed = self._installed
        if installed is None or (self._static and all(map(_finished, everything(installed.operators)))):
            return None
        return self._flow.epoch + 1

    def close(self) -> None:
        """Read no more; what only this output needed is freed. Closing twice is allowed."""
        if self._installed is not None:
            self._finish()
            self._flow.close_output(self, self._installed)
            self._installed = None

    def letters(self) -> Iterator[Callable[[], object]]:
        """What is to be called after a step."""
        return iter(())

    def _finish(self) -> None:
        """Take what is there before it is closed."""

    def _drained(self) -> list[Updates]:
        if self._installed is None:
            return []
        output = self._installed.output
        assert isinstance(output, Sink)
        return output.drain()


def _finished(operator: Any) -> bool:
    """Whether nothing more comes from here by itself."""
    if isinstance(operator, Input):
        return not operator.open and operator.earliest is None
    return not (isinstance(operator, Custom) and operator.wishes.times())


class Probe(Output):
    """How far a collection has come. It computes the collection, even if nobody else reads it."""

    def less_than(self, time: int) -> bool:
        """Whether something may still change before ``time``."""
        now = self.time
        return now is not None and now < time

    def done(self, time: int) -> bool:
        """Whether the collection is what it is at ``time`` for good."""
        return not self.less_than(time + 1)


class Inspection(Output):
    """A callback that is told of every change."""

    def __init__(
        self, flow: "Dataflow", installed: Installed, reader: Reader, static: bool, callback: Callback
    ) -> None:
        super().__init__(flow, installed, reader, static)
        self._callback = callback

    def letters(self) -> Iterator[Callable[[], object]]:
        changes = self._reader.changes(self._drained())
        if changes:
            yield lambda: [self._callback(*change) for change in changes]


class ColumnsInspection(Output):
    """A callback that is told of every change, by columns."""

    def __init__(
        self,
        flow: "Dataflow",
        installed: Installed,
        reader: Reader,
        static: bool,
        schema: Schema,
        callback: ColumnsCallback,
    ) -> None:
        super().__init__(flow, installed, reader, static)
        self._schema = schema
        self._callback = callback

    def letters(self) -> Iterator[Callable[[], object]]:
        parts = self._drained()
        if parts:
            yield lambda: self._tell(Updates.concat(parts))

    def _tell(self, changes: Updates) -> None:
        arrays = to_arrays(changes.data, self._schema, self._reader.dictionary)
        self._callback(arrays, changes.times()[0], changes.diffs())


class Captured(Output):
    """The changes of a collection, each a tuple (row, time, diff), in order of time within a step.

    Iterating gives all so far, again each time. It can be replayed into another dataflow, also of another
    database, while it grows.
    """

    def __init__(self, flow: "Dataflow", installed: Installed, reader: Reader, static: bool) -> None:
        super().__init__(flow, installed, reader, static)
        self._kept: list[Updates] = []

    def __iter__(self) -> Iterator[tuple[Row, int, int]]:
        self._finish()
        for updates in list(self._kept):
            yield from self._reader.changes([updates])

    @property
    def columns(self) -> Sequence[str]:
        """The column names."""
        return self._reader.names

    @property
    def types(self) -> Sequence[Type]:
        """The SQL types of the columns."""
        return self._reader.types

    def since(self, position: int) -> tuple[list[tuple[Row, int, int]], int]:
        """The changes of steps from ``position`` on, and the next position."""
        self._finish()
        found = [change for updates in self._kept[position:] for change in self._reader.changes([updates])]
        return found, len(self._kept)

    def _finish(self) -> None:
        self._kept.extend(self._drained())
