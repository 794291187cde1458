"""``user.UserReduce``: a user function from the rows of a group to rows; and ``user.EnterAt``.

The update at time t is the function's result for the group accumulated at t, minus the recorded
output accumulated at t. So the function is called once for each (group, time).

EnterAt lets a row enter a loop at a round that the row itself names.
"""

from collections.abc import Iterator
from dataclasses import field
from operator import le
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.callbacks import from_rows, to_arrays
from kpg.runtime.convert.python_values import to_rows
from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, Error
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.topk import ScheduledGroups, distinct_columns
from kpg.runtime.operators.user import function_error
from kpg.runtime.plan.user import UserReduce as Node
from kpg.runtime.records import dataclass
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.updates import ONE, Updates
from kpg.runtime.types import Schema

ROUND_LIMIT = 2**62
"""Rounds are below it, so that a variable can move each update to the next round."""


@dataclass(slots=True, eq=False, kw_only=True)
class EnterAt(Operator):
    """``user.EnterAt``: each update at the later of its round and its last column, without that column.

    At every time this equals the input filtered by whether the round has begun. Rounds without entering
    rows cost nothing.
    """

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        time = updates.times().copy()
        np.maximum(time[-1], updates.data[-1], out=time[-1])
        last = int(time[-1].max(initial=0))
        if last >= ROUND_LIMIT:
            raise DataError(f"a row cannot enter at round {last}", hint="rounds are below 2^62")
        self.place.scope.deliver(self, port, Updates(updates.data[:-1].copy(), time, updates.diff))

    def flush(self) -> None:
        for updates in self.take_pending():
            self.emit(updates)

    def snapshot(self) -> Iterator[Updates]:
        for updates in self.inputs[0].snapshot():
            yield updates.with_data(updates.data[:-1].copy())


Words = NDArray[np.int64]
Time = tuple[int, ...]
Group = tuple[int, ...]
Output = dict[tuple[int, ...], int]
"""Rows of words with their multiplicities."""
GROUPS_BETWEEN_POLLS = 64
"""Calls of a user's function between checks for Ctrl-C: fewer than for rows, as a group has many."""
CLOSED_EPOCH = -1
"""Epoch that represents all closed ones in the record."""


@dataclass(slots=True)
class OutputRecord:
    """Output changes of each group by time.

    ``committed`` has those of earlier steps, ``uncommitted`` those of this step.
    """

    committed: dict[Group, dict[Time, Output]] = field(default_factory=dict)
    uncommitted: dict[Group, dict[Time, Output]] = field(default_factory=dict)

    def output_at(self, group: Group, time: Time) -> Output:
        """Return the group's output accumulated at a time."""
        result: Output = {}
        for record in (self.committed, self.uncommitted):
            for when, output in record.get(group, {}).items():
                if all(map(le, when, time)):
                    for row, diff in output.items():
                        result[row] = result.get(row, 0) + diff
        return result

    def add(self, group: Group, time: Time, output: Output) -> None:
        """Record an output change of this step."""
        self.uncommitted.setdefault(group, {})[time] = output

    def commit(self) -> None:
        """Merge this step's changes into the committed ones, at the closed epoch."""
        for group, outputs in self.uncommitted.items():
            committed = self.committed.setdefault(group, {})
            for (_, *rounds), output in outputs.items():
                total = committed.setdefault((CLOSED_EPOCH, *rounds), {})
                for row, diff in output.items():
                    total[row] = total.get(row, 0) + diff
                    if not total[row]:
                        del total[row]
                if not total:
                    del committed[(CLOSED_EPOCH, *rounds)]
            if not committed:
                del self.committed[group]
        self.uncommitted.clear()


class Caller:
    """Calls the user's function on groups of words."""

    def __init__(self, node: Node, dictionary: Dictionary) -> None:
        self._node = node
        self._dictionary = dictionary
        self._values = Schema(node.input_schema.columns[node.key :])

    def output(self, rows: Words, counts: Words) -> Output:
        """Return the function's result for a group.

        ``rows int64[width, n]``, n > 0, have multiplicities ``counts``.
        """
        key, types = self._node.key, self._node.input_schema.types
        name = self._node.function.name
        (group,) = to_rows(rows[:key, :1], types[:key], self._dictionary)
        if counts.min() < 0:
            worst = np.ascontiguousarray(rows[:, [int(counts.argmin())]])
            (row,) = to_rows(worst, types, self._dictionary)
            raise DataError(
                f"row {row} has multiplicity {int(counts.min())}: {name} cannot reduce a negative count",
                hint="a row was removed that was never inserted, or a negated collection is reduced",
            )
        values_data = np.ascontiguousarray(rows[key:])
        arguments: tuple[Any, ...]
        if self._node.columns:
            arrays = to_arrays(values_data, self._values, self._dictionary)
            arguments = (group, arrays, counts)
        else:
            values = to_rows(values_data, types[key:], self._dictionary)
            arguments = (group, list(zip(values, counts.tolist(), strict=True)))
        try:
            results = list(self._node.function.value(*arguments))
        except Exception as error:
            raise function_error(name, f"on the group {group}", error) from error
        return self._encode(tuple(rows[:key, 0].tolist()), group, results)

    def _encode(self, prefix: Group, group: tuple[Any, ...], results: list[Any]) -> Output:
        try:
            words = from_rows(results, self._node.result, self._dictionary)
        except Error as error:
            raise DataError(
                f"{self._node.function.name} gave a wrong row for the group {group}: {error.message}",
                hint=error.hint,
            ) from error
        output: Output = {}
        for row in words.T.tolist():
            whole = (*prefix, *row)
            output[whole] = output.get(whole, 0) + 1
        return output


@dataclass(slots=True, eq=False, kw_only=True)
class UserReduce(Operator):
    """``user.UserReduce``: rows (key..., values...), updated for each group that changes."""

    arrangement: Arrange
    group: int
    caller: Caller
    record: OutputRecord = field(default_factory=OutputRecord)
    scheduled_groups: ScheduledGroups = field(default_factory=ScheduledGroups)

    def flush(self) -> None:
        step, layers = self.step, self.arrangement.layers
        parts = [updates.data[: self.group] for updates in self.take_pending()] + self.scheduled_groups.pop(
            step.rounds
        )
        if not parts or not layers:
            return
        prefix = distinct_columns(np.ascontiguousarray(np.concatenate(parts, axis=1)))
        groups, epochs, later = self.scheduled_groups.add_changed(prefix, layers, step)
        for rounds in later:
            self.place.scope.schedule_at(self, rounds)
        times = np.empty((1 + len(step.rounds), groups.shape[0]), np.int64)
        times[0] = epochs
        for i, r in enumerate(step.rounds):
            times[i + 1] = r
        tasks = np.ascontiguousarray(prefix[:, groups])
        self._emit_changes(tasks, times)

    def _emit_changes(self, tasks: Words, times: Words) -> None:
        """Emit the difference between each task's result, read at its time, and the record."""
        rows, counts, task = self._read_groups(tasks, times)
        bounds = np.searchsorted(task, np.arange(times.shape[1] + 1)).tolist()
        out: list[tuple[int, ...]] = []
        when: list[Time] = []
        diffs: list[int] = []
        for i, (group, time) in enumerate(zip(tasks.T.tolist(), times.T.tolist(), strict=True)):
            if not i % GROUPS_BETWEEN_POLLS:
                self.place.scope.interrupt.check()
            start, end = bounds[i], bounds[i + 1]
            output = self.caller.output(rows[:, start:end], counts[start:end]) if end > start else {}
            key, at = tuple(group), tuple(time)
            change = dict(output)
            for row, count in self.record.output_at(key, at).items():
                change[row] = change.get(row, 0) - count
            change = {row: diff for row, diff in change.items() if diff}
            if change:
                self.record.add(key, at, change)
                out.extend(change)
                when.extend([at] * len(change))
                diffs.extend(change.values())
        if out:
            self.emit(Updates.of(np.array(out, np.int64).T, np.array(when, np.int64).T, diffs).consolidate())

    def _read_groups(self, tasks: Words, times: Words) -> tuple[Words, Words, Words]:
        """Return each task's group at its time: (rows, multiplicities, task of each).

        Rows may have negative multiplicities.
        """
        width, group = self.arrangement.width, self.group
        numbered = np.concatenate((tasks, np.arange(times.shape[1]).reshape(1, -1)))
        stream = Updates(numbered, times, ONE)
        keep = np.array([group], np.int64), np.arange(width, dtype=np.int64)
        parts = list(lookup(stream, tuple(range(group)), self.arrangement.layers, *keep, Order.ANY))
        if not parts:
            nothing = np.empty(0, np.int64)
            return np.empty((width, 0), np.int64), nothing, nothing
        matches = Updates.concat(parts)
        is_visible = (matches.times() == times[:, matches.data[0]]).all(axis=0)
        matches = matches.take(np.flatnonzero(is_visible))
        net = Updates(matches.data, np.zeros((1, 1), np.int64), matches.diff).consolidate()
        return np.ascontiguousarray(net.data[1:]), net.diffs(), np.ascontiguousarray(net.data[0])

    def snapshot(self) -> Iterator[Updates]:
        rows: list[tuple[int, ...]] = []
        diffs: list[int] = []
        for outputs in self.record.committed.values():
            for output in outputs.values():
                rows.extend(output)
                diffs.extend(output.values())
        if rows:
            data = np.ascontiguousarray(np.array(rows, np.int64).T)
            yield Updates(data, self.step.stamp, np.array(diffs, np.int64))

    def size(self) -> int:
        return len(self.record.committed)

    def commit(self) -> None:
        self.pending.clear()
        self.scheduled_groups.clear()
        self.record.commit()

    def rollback(self) -> None:
        self.pending.clear()
        self.scheduled_groups.clear()
        self.record.uncommitted.clear()

    @property
    def rows(self) -> int:
        """Number of rows in the record."""
        return sum(len(output) for outputs in self.record.committed.values() for output in outputs.values())
