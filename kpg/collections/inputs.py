"""Input sessions: a program sends updates at times of its choice into a dataflow."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from kpg.collections.collection import Collection, Flow
from kpg.collections.rows import plain
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

FEW: Final = 8
"""So many rows are encoded one by one; more of them by columns."""


@synchronized()
class Input(Collection):
    """A collection whose changes the program gives, and the session through which it does.

    Changes happen at ``time``, or later, and are taken by a step once the input has advanced beyond them.
    It is a stream: whoever is to read it later must find it arranged, or exported, from the start.
    """

    def __init__(self, flow: Flow, name: str, schema: Schema, handle: InputHandle) -> None:
        identity = handle.identity

        def make(refs: Sequence[Ref]) -> plan.AnyNode:
            return user.Input(identity, schema.types)

        term = Term((), schema.types, make, None, input=handle)
        super().__init__(flow, plain(term, schema.names, [column.nullable for column in schema.columns]))
        self.name = name
        self._schema = schema
        self._handle = handle
        self._encoder = RowEncoder(schema, flow.dictionary)

    @property
    def identity(self) -> str:
        """What plans call the input."""
        return self._handle.identity

    @property
    def time(self) -> int:
        """The time of the next changes."""
        return self._handle.time

    @property
    def closed(self) -> bool:
        """Whether nothing more can come."""
        return not self._handle.open

    def insert(self, *values: Any) -> None:
        """Insert a row, ``insert(1, 2)`` or ``insert((1, 2))``, or rows, ``insert([(1, 2), (3, 4)])``."""
        self._change(self._rows_of(values), 1)

    def remove(self, *values: Any) -> None:
        """Remove a row or rows, given as for :meth:`insert`: the multiplicity falls, even below zero."""
        self._change(self._rows_of(values), -1)

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
        """Insert many rows: an array for each column, by name or in order.

        ``diff`` and ``time`` are one for all rows, or arrays; times are not before the input's.
        """
        self._check_open()
        arrays = self._arrays(columns)
        words = from_arrays(arrays, self._schema, self._flow.dictionary, None)
        rows = words.shape[1]
        diffs = _numbers("diff", diff, rows)
        times = _numbers("time", self.time if time is None else time, rows)
        if rows and int(times.min()) < self.time:
            raise self._too_early(int(times.min()))
        updates = Updates(words, np.ascontiguousarray(times.reshape(1, -1)), diffs)
        self._handle.add(updates if diffs.all() else updates.take(np.flatnonzero(updates.diffs())))

    def advance_to(self, time: int) -> None:
        """Say that everything before ``time`` has been given. Time does not go back.

        Where a transaction has moved the input on, a time that it has reached by itself is refused.
        """
        self._check_open()
        if isinstance(time, bool) or not isinstance(time, int) or time >= MAX_TIME:
            raise InterfaceError(f"a time is an int, not {time!r}")
        handle = self._handle
        if time < handle.time or handle.asked < time == handle.time:
            reason = "" if handle.asked == handle.time else ", where a transaction has moved it"
            raise InterfaceError(
                f"input {self.name} cannot advance to {time}: it is at {handle.time}{reason}",
                hint=f"advance it to {handle.time + 1} or later",
            )
        handle.advance_to(time)

    def flush(self) -> None:
        """Add up equal rows in the buffer, which a step does too."""
        self._handle.gather()

    def discard(self) -> int:
        """Forget what no step has taken; how many updates."""
        return self._handle.clear()

    def close(self) -> None:
        """Say that nothing more will come, ever: nobody waits for this input then. Twice is allowed.

        What only closed inputs could change retires when they have brought everything.
        """
        self._handle.close()
        self._flow.closing()

    def __enter__(self) -> "Input":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def update_many(self, rows: Sequence[Any], diffs: Words, times: Words) -> None:
        """Change the multiplicity of each row by its diff at its time, which is not before the input's."""
        words = from_rows(rows, self._schema, self._flow.dictionary)
        self._handle.add(Updates(words, times.reshape(1, -1), diffs))

    def _change(self, rows: Sequence[Any], diff: int, time: int | None = None) -> None:
        self._check_open()
        at = self.time if time is None else time
        if isinstance(at, bool) or not isinstance(at, int) or not self.time <= at < MAX_TIME:
            raise self._too_early(at)
        if len(rows) > FEW:
            words = from_rows(rows, self._schema, self._flow.dictionary)
            diffs = ONE if diff == 1 else np.array([diff], np.int64)
            if diff:
                self._handle.add(Updates(words, np.array([[at]], np.int64), diffs))
            return
        encoded = [self._encoder.words(row) for row in rows]
        if diff:
            for one in encoded:
                self._handle.stage((*one, at, diff))

    def _rows_of(self, values: tuple[Any, ...]) -> Sequence[Any]:
        """The rows of a call's arguments."""
        width = len(self._schema.columns)
        if len(values) != 1:
            return [values]
        (only,) = values
        if isinstance(only, tuple) or (width == 1 and not _is_many(only)):
            return [only]
        if not _is_many(only):
            raise InterfaceError(
                f"{only!r} is no row of {self.name} ({', '.join(self.columns)})",
                hint="give the values, a tuple of them, or a list of such tuples",
            )
        return list(only)

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

    def _too_early(self, time: Any) -> InterfaceError:
        return InterfaceError(
            f"input {self.name} is at time {self.time} and takes no update at {time!r}",
            hint="give times, ints, from there on; time does not go back",
        )


def _is_many(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, tuple))


def _numbers(what: str, given: Any, rows: int) -> Words:
    """One int64 for all rows, ``int64[1]``, or one for each."""
    array = np.atleast_1d(np.asarray(given))
    if array.dtype.kind not in "iu" or array.dtype == np.uint64 or array.shape not in ((1,), (rows,)):
        raise DataError(
            f"{what} is an int or an array of {rows} ints, not {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.int64)
