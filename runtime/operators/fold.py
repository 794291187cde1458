"""``plan.Fold``: aggregates whose states, one for each group and in Python, rows are added to and taken from.

The states before the step are copied when a group is first touched in it, so that it can be undone whatever
a user's function has done to them.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.functions import aggregate_named
from kpg.runtime.functions.aggregation import Algorithm
from kpg.runtime.functions.named import shown
from kpg.runtime.mfp.memo import values_of, word_of
from kpg.runtime.plan import BasicAggregate
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]
Key = tuple[int, ...]
Changes = list[tuple[tuple[int, ...], int]]
"""Rows with the differences of their multiplicities."""


@dataclass(slots=True)
class Group:
    """A group's number of rows, the state of each aggregate, and the aggregates' words as last emitted."""

    rows: int
    states: list[Any]
    words: tuple[int, ...] = ()


class Folder:
    """One aggregate over the operands of rows of words."""

    def __init__(self, aggregate: BasicAggregate, dictionary: Dictionary) -> None:
        algorithm: Algorithm = aggregate_named(aggregate.function).algorithm(aggregate.argument_types)
        assert algorithm.subtract is not None
        self.initialize, self._add, self._finish = algorithm.initialize, algorithm.add, algorithm.finish
        self._subtract = algorithm.subtract
        self._aggregate = aggregate
        self._dictionary = dictionary

    def change(self, state: Any, rows: Words, diffs: Sequence[int]) -> Any:
        """The state after rows ``int64[width, n]`` have come and gone: first what comes."""
        operands = zip(self._aggregate.arguments, self._aggregate.argument_types, strict=True)
        columns = [values_of(rows[place], type_, self._dictionary) for place, type_ in operands]
        values = list(zip(*columns, strict=True)) if columns else [()] * rows.shape[1]
        known = [(value, diff) for value, diff in zip(values, diffs, strict=True) if value[:1] != (None,)]
        try:
            for value, diff in known:
                if diff > 0:
                    state = self._add(state, value, diff)
            for value, diff in known:
                if diff < 0:
                    state = self._subtract(state, value, -diff)
        except (ValueError, ArithmeticError) as error:
            raise self._failed(error) from error
        return state

    def word(self, state: Any) -> int:
        """The aggregate's word."""
        try:
            value = self._finish(state)
        except (ValueError, ArithmeticError) as error:
            raise self._failed(error) from error
        word = word_of(value, self._aggregate.type, self._dictionary) if value is not None else NULL
        if word == ERROR:
            raise DataError(f"{self._name} of a group is no {self._aggregate.type}: {value}")
        return word

    @property
    def _name(self) -> str:
        return shown(self._aggregate.function)

    def _failed(self, error: Exception) -> DataError:
        return DataError(f"{self._name} of a group cannot be computed: {error}")


def folders(aggregates: Sequence[BasicAggregate], dictionary: Dictionary) -> tuple[Folder, ...]:
    """What computes each aggregate."""
    return tuple(Folder(aggregate, dictionary) for aggregate in aggregates)


@dataclass(slots=True, eq=False, kw_only=True)
class Fold(Operator):
    """One row (key..., aggregates...) for each group that has rows."""

    group: int
    folders: tuple[Folder, ...]
    groups: dict[Key, Group] = field(default_factory=dict)
    before: dict[Key, Group | None] = field(default_factory=dict)
    """The groups that this step has touched, as they were."""

    def flush(self) -> None:
        pending = self.take()
        if not pending:
            return
        updates = Updates.concat(pending).consolidate()
        epochs = updates.times()[0]
        for epoch in np.unique(epochs).tolist():
            chosen = updates.take(np.flatnonzero(epochs == epoch))
            time = np.full((1, 1), epoch, np.int64)
            now = Updates(chosen.data, time, chosen.diff).consolidate()
            changes = self._changed(now) if len(now) else []
            if changes:
                rows = np.array([row for row, _ in changes], np.int64).T
                diffs = np.array([diff for _, diff in changes], np.int64)
                self.emit(Updates(np.ascontiguousarray(rows), time, diffs))

    def _changed(self, updates: Updates) -> Changes:
        """Take the updates of one epoch, in order, into the states; how the output changes."""
        data, diffs = updates.data, updates.diffs()
        keys = data[: self.group]
        heads = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
        result: Changes = []
        for start, end in pairwise([0, *heads.tolist(), len(updates)]):
            key = tuple(keys[:, start].tolist())
            result += self._change(key, data[:, start:end], diffs[start:end].tolist())
        return result

    def _change(self, key: Key, rows: Words, diffs: list[int]) -> Changes:
        old = self.groups.get(key)
        if key not in self.before:
            self.before[key] = copy.deepcopy(old)
        group = old or Group(0, [folder.initialize() for folder in self.folders])
        words = group.words if group.rows else None
        self.groups[key] = group
        group.rows += sum(diffs)
        for place, folder in enumerate(self.folders):
            group.states[place] = folder.change(group.states[place], rows, diffs)
        if not group.rows:
            del self.groups[key]
            return [] if words is None else [((*key, *words), -1)]
        group.words = tuple(
            folder.word(state) for folder, state in zip(self.folders, group.states, strict=True)
        )
        if words == group.words:
            return []
        return ([] if words is None else [((*key, *words), -1)]) + [((*key, *group.words), 1)]

    def snapshot(self) -> Iterator[Updates]:
        if self.groups:
            rows = [(*key, *group.words) for key, group in self.groups.items()]
            data = np.ascontiguousarray(np.array(rows, np.int64).T)
            yield Updates(data, self.step.stamp, np.ones(1, np.int64))

    def size(self) -> int:
        return len(self.groups)

    def commit(self) -> None:
        self.pending.clear()
        self.before.clear()

    def rollback(self) -> None:
        self.pending.clear()
        for key, group in self.before.items():
            if group is None:
                self.groups.pop(key, None)
            else:
                self.groups[key] = group
        self.before.clear()

    @property
    def rows(self) -> int:
        """Groups that have a state."""
        return len(self.groups)
