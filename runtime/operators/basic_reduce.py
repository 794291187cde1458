"""``plan.BasicReduce`` and ``plan.Fold``: aggregates that run their algorithm in Python.

BasicReduce recomputes an aggregate from the whole group when the group changes. Fold keeps a Python
state for each group and adds and subtracts rows. It copies a state when a step first touches the
group, so that a rollback works whatever a user function does to the state.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.functions import AggregateFunction, Basic, algorithm_of, compute_aggregate, lookup_aggregate
from kpg.runtime.functions.aggregation.definition import Algorithm, PositionalAccess
from kpg.runtime.mfp.python_calls import value_of, values_of, word_of
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.topk import (
    GroupRows,
    ScheduledGroups,
    Tasks,
    flush_groups,
    group_snapshot,
    read_differences,
)
from kpg.runtime.plan import BasicAggregate
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import display_name
from kpg.runtime.trace.batch import Layers, collect
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import ERROR, NULL, Type

Words = NDArray[np.int64]


Evaluator = Callable[[Words, Words], int]
"""Function from a group's rows ``int64[width, n]`` and their multiplicities to the aggregate's word."""


@dataclass(slots=True, eq=False, kw_only=True)
class BasicReduce(Operator):
    """One row (key..., aggregates...) for each nonempty group."""

    arrangement: Arrange
    group: int
    scheduled_groups: ScheduledGroups = field(default_factory=ScheduledGroups)
    evaluators: tuple[Evaluator, ...]

    def flush(self) -> None:
        for rounds in flush_groups(self, partial(read_differences, self)):
            self.place.scope.schedule_at(self, rounds)

    def snapshot(self) -> Iterator[Updates]:
        return group_snapshot(self)

    def commit(self) -> None:
        self.pending.clear()
        self.scheduled_groups.clear()

    def rollback(self) -> None:
        self.pending.clear()
        self.scheduled_groups.clear()

    def read_groups(self, layers: Layers, tasks: Tasks, visible_layers: Words) -> GroupRows:
        rows, count, task, _ = collect(
            layers, tasks.prefix, tasks.times, visible_layers, self.arrangement.width
        )
        starts = np.flatnonzero(np.diff(task, prepend=-1))
        out = np.empty((self.width, starts.shape[0]), np.int64)
        out[: self.group] = rows[: self.group, starts]
        ends = np.append(starts[1:], task.shape[0]).tolist()[: starts.shape[0]]
        for i, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
            for j, evaluate in enumerate(self.evaluators):
                out[self.group + j, i] = evaluate(rows[:, start:end], count[start:end])
        return out, np.ones(starts.shape[0], np.int64), task[starts]


def make_evaluators(aggregates: Sequence[BasicAggregate], dictionary: Dictionary) -> tuple[Evaluator, ...]:
    """Return a function for each aggregate that computes it for a group."""
    return tuple(_make_evaluator(aggregate, dictionary) for aggregate in aggregates)


def _make_evaluator(aggregate: BasicAggregate, dictionary: Dictionary) -> Evaluator:
    function = lookup_aggregate(aggregate.function)
    basic = function.maintenance
    if isinstance(basic, Basic) and basic.positions is not None and _is_ordered_by_operand(aggregate):
        return _evaluate_at_positions(basic.positions(aggregate.argument_types), aggregate, dictionary)
    return _evaluate_values(function, aggregate, dictionary)


def _is_ordered_by_operand(aggregate: BasicAggregate) -> bool:
    """Return whether the rows are in the order of the first operand or need no order."""
    return not aggregate.order or aggregate.arguments[len(aggregate.arguments) - len(aggregate.order) :] == (
        aggregate.arguments[0],
    )


def _evaluate_at_positions(
    places: PositionalAccess, aggregate: BasicAggregate, dictionary: Dictionary
) -> Evaluator:
    """Return an evaluator on words that decodes only the values at the positions that the aggregate needs."""
    operand, type_ = aggregate.arguments[0], aggregate.argument_types[0]
    with_direct = len(aggregate.arguments) - len(aggregate.order) > 1
    descending = bool(aggregate.order) and aggregate.order[0].descending

    def evaluate(rows: Words, counts: Words) -> int:
        non_null = np.flatnonzero(rows[operand] != NULL)
        if not non_null.size:
            return NULL
        words = rows[operand, non_null]
        order = _value_order(words, type_, dictionary)
        words, ends = words[order], np.cumsum(counts[non_null[order]])
        direct = None
        if with_direct:
            direct = value_of(rows.item(aggregate.arguments[1], 0), aggregate.argument_types[1], dictionary)
        total = int(ends[-1])
        with _data_errors(aggregate):
            positions = places.positions(direct, total)
            sorted_positions = [total - 1 - place for place in positions] if descending else positions
            words_at = words[np.searchsorted(ends, np.array(sorted_positions, np.int64), "right")]
            return _word(
                aggregate, places.finish(values_of(words_at, type_, dictionary), direct, total), dictionary
            )

    return evaluate


def _value_order(words: Words, type_: Type, dictionary: Dictionary) -> Words:
    """Return the positions of the words in the order of their values."""
    if not type_.is_interned:
        return np.argsort(words, kind="stable")
    strings = dictionary.decode(words)
    return np.array(sorted(range(len(strings)), key=lambda row: strings[row] or ""), np.int64)


@contextmanager
def _data_errors(aggregate: BasicAggregate) -> Iterator[None]:
    """Turn arithmetic errors and ValueErrors into DataErrors that name the aggregate."""
    try:
        yield
    except (ValueError, ArithmeticError) as error:
        raise DataError(f"{aggregate.function} of a group cannot be computed: {error}") from error


def _word(aggregate: BasicAggregate, value: Any, dictionary: Dictionary) -> int:
    word = word_of(value, aggregate.type, dictionary)
    if word == ERROR:
        raise DataError(f"{aggregate.function} of a group is no {aggregate.type}: {value}")
    return word


def _evaluate_values(
    function: AggregateFunction, aggregate: BasicAggregate, dictionary: Dictionary
) -> Evaluator:
    """Return an evaluator that runs the aggregate's algorithm on the Python values of a group."""
    algorithm = algorithm_of(function, aggregate.argument_types, aggregate.order)
    operands = tuple(zip(aggregate.arguments, aggregate.argument_types, strict=True))

    first_key = len(operands) - len(aggregate.order)

    def evaluate(rows: Words, counts: Words) -> int:
        columns = [
            dictionary.decode(rows[column])
            if place >= first_key and type_.is_interned  # sort keys: their strings sort as the values do
            else values_of(rows[column], type_, dictionary)
            for place, (column, type_) in enumerate(operands)
        ]
        with _data_errors(aggregate):
            value = compute_aggregate(
                algorithm, zip(zip(*columns, strict=True), counts.tolist(), strict=True)
            )
        return _word(aggregate, value, dictionary)

    return evaluate


Key = tuple[int, ...]
Changes = list[tuple[tuple[int, ...], int]]
"""Rows with the differences of their multiplicities."""


@dataclass(slots=True)
class Group:
    """A group's number of rows, the state of each aggregate, and the words that were emitted last."""

    rows: int
    states: list[Any]
    words: tuple[int, ...] = ()


class Folder:
    """Incremental evaluation of one aggregate with a Python state."""

    def __init__(self, aggregate: BasicAggregate, dictionary: Dictionary) -> None:
        algorithm: Algorithm = lookup_aggregate(aggregate.function).algorithm(aggregate.argument_types)
        assert algorithm.subtract is not None
        self.initialize, self._add, self._finish = algorithm.initialize, algorithm.add, algorithm.finish
        self._subtract = algorithm.subtract
        self._aggregate = aggregate
        self._dictionary = dictionary

    def update(self, state: Any, rows: Words, diffs: Sequence[int]) -> Any:
        """Return the state after adding rows of positive diff, then subtracting the others."""
        operands = zip(self._aggregate.arguments, self._aggregate.argument_types, strict=True)
        columns = [values_of(rows[place], type_, self._dictionary) for place, type_ in operands]
        values = list(zip(*columns, strict=True)) if columns else [()] * rows.shape[1]
        non_null = [(value, diff) for value, diff in zip(values, diffs, strict=True) if value[:1] != (None,)]
        try:
            for value, diff in non_null:
                if diff > 0:
                    state = self._add(state, value, diff)
            for value, diff in non_null:
                if diff < 0:
                    state = self._subtract(state, value, -diff)
        except (ValueError, ArithmeticError) as error:
            raise self._evaluation_error(error) from error
        return state

    def word(self, state: Any) -> int:
        """Return the aggregate's word."""
        try:
            value = self._finish(state)
        except (ValueError, ArithmeticError) as error:
            raise self._evaluation_error(error) from error
        word = word_of(value, self._aggregate.type, self._dictionary) if value is not None else NULL
        if word == ERROR:
            raise DataError(f"{self._name} of a group is no {self._aggregate.type}: {value}")
        return word

    @property
    def _name(self) -> str:
        return display_name(self._aggregate.function)

    def _evaluation_error(self, error: Exception) -> DataError:
        return DataError(f"{self._name} of a group cannot be computed: {error}")


def make_folders(aggregates: Sequence[BasicAggregate], dictionary: Dictionary) -> tuple[Folder, ...]:
    """Return the folder of each aggregate."""
    return tuple(Folder(aggregate, dictionary) for aggregate in aggregates)


@dataclass(slots=True, eq=False, kw_only=True)
class Fold(Operator):
    """One row (key..., aggregates...) for each nonempty group."""

    group: int
    folders: tuple[Folder, ...]
    groups: dict[Key, Group] = field(default_factory=dict)
    undo_groups: dict[Key, Group | None] = field(default_factory=dict)
    """Copies of the groups that this step has touched; None for new ones."""

    def flush(self) -> None:
        pending = self.take_pending()
        if not pending:
            return
        updates = Updates.concat(pending).consolidate()
        epochs = updates.times()[0]
        for epoch in np.unique(epochs).tolist():
            epoch_updates = updates.take(np.flatnonzero(epochs == epoch))
            time = np.full((1, 1), epoch, np.int64)
            now = Updates(epoch_updates.data, time, epoch_updates.diff).consolidate()
            changes = self._apply_updates(now) if len(now) else []
            if changes:
                rows = np.array([row for row, _ in changes], np.int64).T
                diffs = np.array([diff for _, diff in changes], np.int64)
                self.emit(Updates(np.ascontiguousarray(rows), time, diffs))

    def _apply_updates(self, updates: Updates) -> Changes:
        """Apply the sorted updates of one epoch to the states and return the output's changes."""
        data, diffs = updates.data, updates.diffs()
        keys = data[: self.group]
        heads = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
        result: Changes = []
        for start, end in pairwise([0, *heads.tolist(), len(updates)]):
            key = tuple(keys[:, start].tolist())
            result += self._update_group(key, data[:, start:end], diffs[start:end].tolist())
        return result

    def _update_group(self, key: Key, rows: Words, diffs: list[int]) -> Changes:
        old = self.groups.get(key)
        if key not in self.undo_groups:
            self.undo_groups[key] = copy.deepcopy(old)
        group = old or Group(0, [folder.initialize() for folder in self.folders])
        words = group.words if group.rows else None
        self.groups[key] = group
        group.rows += sum(diffs)
        for place, folder in enumerate(self.folders):
            group.states[place] = folder.update(group.states[place], rows, diffs)
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
        self.undo_groups.clear()

    def rollback(self) -> None:
        self.pending.clear()
        for key, group in self.undo_groups.items():
            if group is None:
                self.groups.pop(key, None)
            else:
                self.groups[key] = group
        self.undo_groups.clear()

    @property
    def rows(self) -> int:
        """Number of groups."""
        return len(self.groups)
