"""Input sessions: a program sends updates at times of its choice into a dataflow."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from kpg.collections.collection import Collection, Flow
from kpg.collections.rows import term_rows
from kpg.collections.term import Term
from kpg.runtime import plan
from kpg.runtime.convert.callbacks import RowEncoder, from_arrays, from_rows
from kpg.runtime.errors import DataError, InterfaceError
from kpg.runtime.executor import MAX_TIME
from kpg.runtime.handles import InputHandle
from kpg.runtime.monitor import synchronized
from kpg.runtime.plan import Ref, user
from kpg.runtime.trace.updates import ONE, Updates, Words
from kpg.runtime.types import Schema

MAX_ROWWISE: Final = 8
"""Maximum number of rows that are encoded row by row instead of by column."""


@synchronized()
class Input(Collection):
    """A collection that the program changes.

    Changes happen at ``time`` or later. A step processes them after the input has advanced beyond their
    time. An input keeps no contents. A later reader sees earlier rows only if they were arranged or
    exported from the start.
    """

    def __init__(self, flow: Flow, name: str, schema: Schema, handle: InputHandle) -> None:
        identity = handle.identity

        def make(refs: Sequence[Ref]) -> plan.AnyNode:
            return user.Input(identity, schema.types)

        term = Term((), schema.types, make, None, input=handle)
        super().__init__(flow, term_rows(term, schema.names, [column.nullable for column in schema.columns]))
        self.name = name
        self._schema = schema
        self._handle = handle
        self._encoder = RowEncoder(schema, flow.dictionary)

    @property
    def identity(self) -> str:
        """The name of the input in plans."""
        return self._handle.identity

    @property
    def time(self) -> int:
        """The time of the next changes."""
        return self._handle.time

    @property
    def closed(self) -> bool:
        """Whether the input accepts no more changes."""
        return not self._handle.is_open

    def insert(self, *values: Any) -> None:
        """Insert a row, ``insert(1, 2)`` or ``insert((1, 2))``, or rows, ``insert([(1, 2), (3, 4)])``."""
        self._change(self._argument_rows(values), 1)

    def remove(self, *values: Any) -> None:
        """Remove a row or rows, with arguments as for :meth:`insert`. A multiplicity can become negative."""
        self._change(self._argument_rows(values), -1)

    def update(self, row: Any, diff: int, time: int | None = None) -> None:
        """Change a row's multiplicity by ``diff``, now or at a later ``time``."""
        if isinstance(diff, bool) or not isinstance(diff, int) or abs(diff) >= 2**63:
            raise InterfaceError(f"a multiplicity is a 64-bit int, not {diff!r}")
        self._change([row], diff, time)

    def insert_columns(
        self,
        columns: Mapping[str, Any] | Sequence[Any],
        diff: Any = 1,
        time: Any = None,
    ) -> None:
        """Insert many rows as one array per column, by name or in order.

        ``diff`` and ``time`` are numbers or arrays. Times must not be before the input's time.
        """
        self._check_open()
        arrays = self._arrays(columns)
        words = from_arrays(arrays, self._schema, self._flow.dictionary, None)
        rows = words.shape[1]
        diffs = _as_int64("diff", diff, rows)
        times = _as_int64("time", self.time if time is None else time, rows)
        if rows and int(times.min()) < self.time:
            raise self._time_error(int(times.min()))
        updates = Updates(words, np.ascontiguousarray(times.reshape(1, -1)), diffs)
        self._handle.add(updates if diffs.all() else updates.take(np.flatnonzero(updates.diffs())))

    def advance_to(self, time: int) -> None:
        """Promise that no change before ``time`` follows. Time never decreases.

        Advancing to the present time is refused if a transaction has moved the input there.
        """
        self._check_open()
        if isinstance(time, bool) or not isinstance(time, int) or time >= MAX_TIME:
            raise InterfaceError(f"a time is an int, not {time!r}")
        handle = self._handle
        if time < handle.time or handle.user_time < time == handle.time:
            reason = "" if handle.user_time == handle.time else ", where a transaction has moved it"
            raise InterfaceError(
                f"input {self.name} cannot advance to {time}: it is at {handle.time}{reason}",
                hint=f"advance it to {handle.time + 1} or later",
            )
        handle.advance_to(time)

    def flush(self) -> None:
        """Consolidate the buffered updates. A step does so too."""
        self._handle.consolidate_buffer()

    def discard(self) -> int:
        """Discard the buffered updates, and return their number."""
        return self._handle.clear()

    def close(self) -> None:
        """Promise that no change follows, so that nothing waits for this input. Closing twice is allowed.

        Outputs that only closed inputs can change retire after the remaining changes are processed.
        """
        self._handle.close()
        self._flow.retire_completed()

    def __enter__(self) -> "Input":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def update_many(self, rows: Sequence[Any], diffs: Words, times: Words) -> None:
        """Change the multiplicity of each row by its diff at its time. No time may be before the input's."""
        words = from_rows(rows, self._schema, self._flow.dictionary)
        self._handle.add(Updates(words, times.reshape(1, -1), diffs))

    def _change(self, rows: Sequence[Any], diff: int, time: int | None = None) -> None:
        self._check_open()
        change_time = self.time if time is None else time
        if (
            isinstance(change_time, bool)
            or not isinstance(change_time, int)
            or not self.time <= change_time < MAX_TIME
        ):
            raise self._time_error(change_time)
        if len(rows) > MAX_ROWWISE:
            words = from_rows(rows, self._schema, self._flow.dictionary)
            diffs = ONE if diff == 1 else np.array([diff], np.int64)
            if diff:
                self._handle.add(Updates(words, np.array([[change_time]], np.int64), diffs))
            return
        encoded = [self._encoder.words(row) for row in rows]
        if diff:
            for row_words in encoded:
                self._handle.stage((*row_words, change_time, diff))

    def _argument_rows(self, values: tuple[Any, ...]) -> Sequence[Any]:
        """Return the rows in a call's arguments."""
        width = len(self._schema.columns)
        if len(values) != 1:
            return [values]
        (argument,) = values
        if isinstance(argument, tuple) or (width == 1 and not _is_row_list(argument)):
            return [argument]
        if not _is_row_list(argument):
            raise InterfaceError(
                f"{argument!r} is no row of {self.name} ({', '.join(self.columns)})",
                hint="give the values, a tuple of them, or a list of such tuples",
            )
        return list(argument)

    def _arrays(self, columns: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        if not isinstance(columns, Mapping):
            return list(columns)
        if set(columns) != set(self._schema.names):
            raise InterfaceError(
                f"input {self.name} has columns {', '.join(self._schema.names)}, not {', '.join(columns)}"
            )
        return [columns[name] for name in self._schema.names]

    def _check_open(self) -> None:
        self._flow.check()
        if self.closed:
            raise InterfaceError(f"input {self.name} is closed", hint="make another with flow.input()")

    def _time_error(self, time: Any) -> InterfaceError:
        return InterfaceError(
            f"input {self.name} is at time {self.time} and takes no update at {time!r}",
            hint="give times, ints, from there on; time does not go back",
        )


def _is_row_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, tuple))


def _as_int64(name: str, values: Any, rows: int) -> Words:
    """Return an int64 for all rows, ``int64[1]``, or one per row."""
    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind not in "iu" or array.dtype == np.uint64 or array.shape not in ((1,), (rows,)):
        raise DataError(
            f"{name} is an int or an array of {rows} ints, not {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.int64)
