"""``plan.BasicReduce`` and ``plan.Fold``: aggregates that run their algorithm in Python.

BasicReduce computes an aggregate again from the whole group when the group changes. Fold keeps a Python state
for each group and adds and subtracts rows. It copies a state when a step first touches the group, so that a
rollback is safe whatever a user function did to the state.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.functions import AggregateFunction, Basic, aggregate_named, aggregated, algorithm_of
from kpg.runtime.functions.aggregation.definition import Algorithm, Places
from kpg.runtime.mfp.python_calls import value_of, values_of, word_of
from kpg.runtime.operators.topk import GroupReader, Tasks
from kpg.runtime.plan import BasicAggregate
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import shown
from kpg.runtime.trace.batch import Layers, collect
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import ERROR, NULL, Type

Words = NDArray[np.int64]


Evaluate = Callable[[Words, Words], int]
"""From a group's rows ``int64[width, n]`` and their multiplicities to the aggregate's word."""


@dataclass(slots=True, eq=False, kw_only=True)
class BasicReduce(GroupReader):
    """One row (key..., aggregates...) for each group that has rows."""

    evaluators: tuple[Evaluate, ...]

    def read(self, layers: Layers, tasks: Tasks, seen: Words) -> tuple[Words, Words, Words]:
        rows, count, task, _ = collect(layers, tasks.prefix, tasks.times, seen, self.arrangement.width)
        starts = np.flatnonzero(np.diff(task, prepend=-1))
        out = np.empty((self.width, starts.shape[0]), np.int64)
        out[: self.group] = rows[: self.group, starts]
        ends = np.append(starts[1:], task.shape[0]).tolist()[: starts.shape[0]]
        for i, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
            for j, evaluate in enumerate(self.evaluators):
                out[self.group + j, i] = evaluate(rows[:, start:end], count[start:end])
        return out, np.ones(starts.shape[0], np.int64), task[starts]


def evaluators(aggregates: Sequence[BasicAggregate], dictionary: Dictionary) -> tuple[Evaluate, ...]:
    """The functions that compute each aggregate of a group."""
    return tuple(_evaluator(aggregate, dictionary) for aggregate in aggregates)


def _evaluator(aggregate: BasicAggregate, dictionary: Dictionary) -> Evaluate:
    function = aggregate_named(aggregate.function)
    basic = function.maintenance
    if isinstance(basic, Basic) and basic.places is not None and _by_value(aggregate):
        return _at_places(basic.places(aggregate.argument_types), aggregate, dictionary)
    return _over_values(function, aggregate, dictionary)


def _by_value(aggregate: BasicAggregate) -> bool:
    """Whether the rows are in order by the first operand, or by what it is not and in Python only."""
    return not aggregate.order or aggregate.arguments[len(aggregate.arguments) - len(aggregate.order) :] == (
        aggregate.arguments[0],
    )


def _at_places(places: Places, aggregate: BasicAggregate, dictionary: Dictionary) -> Evaluate:
    """The aggregate by the words of a group's rows, of which a few become Python values."""
    operand, type_ = aggregate.arguments[0], aggregate.argument_types[0]
    with_direct = len(aggregate.arguments) - len(aggregate.order) > 1
    descending = bool(aggregate.order) and aggregate.order[0].descending

    def evaluate(rows: Words, counts: Words) -> int:
        known = np.flatnonzero(rows[operand] != NULL)
        if not known.size:
            return NULL
        words = rows[operand, known]
        order = _order(words, type_, dictionary)
        words, ends = words[order], np.cumsum(counts[known[order]])
        direct = None
        if with_direct:
            direct = value_of(rows.item(aggregate.arguments[1], 0), aggregate.argument_types[1], dictionary)
        total = int(ends[-1])
        with _errors_of(aggregate):
            at = places.at(direct, total)
            chosen = [total - 1 - place for place in at] if descending else at
            found = words[np.searchsorted(ends, np.array(chosen, np.int64), "right")]
            return _word(
                aggregate, places.finish(values_of(found, type_, dictionary), direct, total), dictionary
            )

    return evaluate


def _order(words: Words, type_: Type, dictionary: Dictionary) -> Words:
    """Positions in the order of the values: words are in it, and strings where these stand for values."""
    if not type_.is_interned:
        return np.argsort(words, kind="stable")
    strings = dictionary.decode(words)
    return np.array(sorted(range(len(strings)), key=lambda row: strings[row] or ""), np.int64)


@contextmanager
def _errors_of(aggregate: BasicAggregate) -> Iterator[None]:
    """What cannot be computed is an error of the data."""
    try:
        yield
    except (ValueError, ArithmeticError) as error:
        raise DataError(f"{aggregate.function} of a group cannot be computed: {error}") from error


def _word(aggregate: BasicAggregate, value: Any, dictionary: Dictionary) -> int:
    word = word_of(value, aggregate.type, dictionary)
    if word == ERROR:
        raise DataError(f"{aggregate.function} of a group is no {aggregate.type}: {value}")
    return word


def _over_values(function: AggregateFunction, aggregate: BasicAggregate, dictionary: Dictionary) -> Evaluate:
    """The aggregate's algorithm over the Python values of a group's rows."""
    algorithm = algorithm_of(function, aggregate.argument_types, aggregate.order)
    operands = tuple(zip(aggregate.arguments, aggregate.argument_types, strict=True))

    first_key = len(operands) - len(aggregate.order)

    def evaluate(rows: Words, counts: Words) -> int:
        columns = [
            dictionary.decode(rows[column])
            if place >= first_key and type_.is_interned  # strings are in order as values are
            else values_of(rows[column], type_, dictionary)
            for place, (column, type_) in enumerate(operands)
        ]
        with _errors_of(aggregate):
            value = aggregated(algorithm, zip(zip(*columns, strict=True), counts.tolist(), strict=True))
        return _word(aggregate, value, dictionary)

    return evaluate


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
