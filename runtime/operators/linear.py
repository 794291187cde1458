"""Stateless operators: map-filter-project, concatenation, negation, constants."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.errors import DataError
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column
from kpg.runtime.trace.updates import Updates


def apply(compiled: CompiledMfp, updates: Updates) -> Updates:
    """Rows that pass the predicates, mapped; times and diffs go along."""
    data, kept = compiled.run(updates.data)
    if data is updates.data:
        return updates
    return updates.with_data(data) if kept is None else _selected(updates, data, kept)


def apply_one(compiled: CompiledMfp, updates: Updates) -> Updates:
    """As :func:`apply` on updates that are all there are: those that cancel out are none."""
    try:
        return apply(compiled, updates)
    except DataError:
        return apply(compiled, updates.consolidate())


def apply_all(compiled: CompiledMfp, parts: Iterable[Updates]) -> Iterator[Updates]:
    """As :func:`apply`, part by part.

    Raises DataError if the expressions fail on a row that is there. One that came and went, whose updates
    cancel out over all parts, is not: parts on which the expressions fail are looked at again together.
    """
    failed = []
    for updates in parts:
        try:
            result = apply(compiled, updates)
        except DataError:
            failed.append(updates)
        else:
            if len(result):
                yield result
    if failed:
        yield apply(compiled, Updates.concat(failed).consolidate())


def snapshot_where(operator: Operator, equal: Mapping[int, int]) -> Iterator[Updates]:
    """The contents of an operator; rows with other words than these in these columns may be left out.

    So they are if the columns are there before the rows are mapped, which may be dear.
    """
    known: dict[int, int] = {}
    if isinstance(operator, Linear):
        for column, word in equal.items():
            if isinstance(output := operator.mfp.source.outputs[column], Column):
                known[output.index] = word
    if not known or not isinstance(operator, Linear):
        return operator.snapshot()
    return apply_all(operator.mfp, _among(operator.inputs[0].snapshot(), known))


def _among(parts: Iterable[Updates], known: Mapping[int, int]) -> Iterator[Updates]:
    for updates in parts:
        same = [updates.data[column] == word for column, word in known.items()]
        yield updates.take(np.flatnonzero(np.logical_and.reduce(same)))


def _selected(updates: Updates, data: NDArray[np.int64], kept: NDArray[np.int64]) -> Updates:
    """``data`` with the times and diffs of the updates at positions ``kept``."""
    time = updates.time if updates.constant_time else np.ascontiguousarray(updates.time[:, kept])
    diff = updates.diff if updates.constant_diff else updates.diff[kept]
    return Updates(data, time, diff)


@dataclass(slots=True, eq=False, kw_only=True)
class Stateless(Operator):
    """Base of operators to which times mean nothing: they pass on updates of later rounds at once."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.place.scope.pass_on(self, port, updates)


@dataclass(slots=True, eq=False, kw_only=True)
class Linear(Stateless):
    """``plan.Linear``: an mfp over every row."""

    mfp: CompiledMfp

    def absorb(self) -> None:
        for updates in self.take():
            try:
                result = apply(self.mfp, updates)
            except DataError:
                self.pending.append(updates)
            else:
                self.emit(result, more=True)

    def flush(self) -> None:
        pending = self.take()
        if len(pending) == 1:
            self.emit(apply_one(self.mfp, pending[0]))
            return
        for result in apply_all(self.mfp, pending):
            self.emit(result)

    def snapshot(self) -> Iterator[Updates]:
        yield from apply_all(self.mfp, self.inputs[0].snapshot())


@dataclass(slots=True, eq=False, kw_only=True)
class Late(Linear):
    """A ``Linear`` with columns that are dear to compute: it waits for readers, while no operator hears it.

    A step only looks whether it could be done: by the ``guard``, which fails on the same rows. None: it can
    always.
    """

    guard: CompiledMfp | None

    @property
    def sleeps(self) -> bool:
        """Whether there is nothing to do in a step."""
        return self.guard is None and not self.consumers

    def push(self, port: int, updates: Updates) -> None:
        if not self.sleeps:
            Stateless.push(self, port, updates)

    def absorb(self) -> None:
        if self.consumers:
            Linear.absorb(self)

    def flush(self) -> None:
        if self.consumers or self.guard is None:
            Linear.flush(self)
            return
        pending = self.take()
        try:
            for _ in apply_all(self.guard, pending):
                pass
        except DataError:
            for _ in apply_all(self.mfp, pending):  # its error tells what the user has written
                pass

    def late(self, updates: Updates) -> Updates:
        """The changes of the output for all changes of the input that a step has made."""
        return apply_one(self.mfp, updates).consolidate()


@dataclass(slots=True, eq=False, kw_only=True)
class Passing(Operator):
    """Base of operators that pass on what they are given at once: they are never scheduled."""

    def absorb(self) -> None:
        for consumer, _ in self.consumers:
            consumer.absorb()

    def flush(self) -> None:
        """Nothing is ever left to do."""


@dataclass(slots=True, eq=False, kw_only=True)
class Concat(Passing):
    """``plan.Concat``: the sum of its inputs; one port each."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.emit(updates)

    def snapshot(self) -> Iterator[Updates]:
        for source in self.inputs:
            yield from source.snapshot()


@dataclass(slots=True, eq=False, kw_only=True)
class Negate(Passing):
    """``plan.Negate``: every diff times -1."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.emit(updates.negate())

    def snapshot(self) -> Iterator[Updates]:
        for updates in self.inputs[0].snapshot():
            yield updates.negate()


@dataclass(slots=True, eq=False, kw_only=True)
class Constant(Operator):
    """``plan.Constant``: rows that are there from the start."""

    data: NDArray[np.int64]

    def flush(self) -> None:
        if self.step.hydrating:
            for updates in self.snapshot():
                self.emit(updates)

    def snapshot(self) -> Iterator[Updates]:
        time = self.step.stamp
        yield Updates(self.data, time, np.ones(1, np.int64))

    def size(self) -> int:
        return self.data.shape[1]
