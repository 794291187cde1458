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


def apply_mfp(mfp: CompiledMfp, updates: Updates) -> Updates:
    """Return the updates that pass the predicates, with the output columns."""
    data, positions = mfp.run(updates.data)
    if data is updates.data:
        return updates
    return updates.with_data(data) if positions is None else _select_updates(updates, data, positions)


def apply_mfp_to_net(mfp: CompiledMfp, updates: Updates) -> Updates:
    """Apply an mfp to all updates of a step; rows that cancel out cannot raise errors."""
    try:
        return apply_mfp(mfp, updates)
    except DataError:
        return apply_mfp(mfp, updates.consolidate())


def apply_mfp_to_parts(mfp: CompiledMfp, parts: Iterable[Updates]) -> Iterator[Updates]:
    """Apply an mfp to all updates of a step, part by part.

    Parts on which an expression fails are evaluated again together, without the rows that cancel out.

    Raises:
        DataError: If the expressions fail on a row of the net change.
    """
    failed_parts = []
    for updates in parts:
        try:
            result = apply_mfp(mfp, updates)
        except DataError:
            failed_parts.append(updates)
        else:
            if len(result):
                yield result
    if failed_parts:
        yield apply_mfp(mfp, Updates.concat(failed_parts).consolidate())


def snapshot_where(operator: Operator, equal: Mapping[int, int]) -> Iterator[Updates]:
    """Yield an operator's contents; rows without the words ``equal`` (by column) may be missing.

    The filter applies to columns that exist before an expensive mfp.
    """
    input_words: dict[int, int] = {}
    if isinstance(operator, Linear):
        for column, word in equal.items():
            if isinstance(output := operator.mfp.source.outputs[column], Column):
                input_words[output.index] = word
    if not input_words or not isinstance(operator, Linear):
        return operator.snapshot()
    return apply_mfp_to_parts(operator.mfp, _filter_equal(operator.inputs[0].snapshot(), input_words))


def _filter_equal(parts: Iterable[Updates], words: Mapping[int, int]) -> Iterator[Updates]:
    for updates in parts:
        same = [updates.data[column] == word for column, word in words.items()]
        yield updates.take(np.flatnonzero(np.logical_and.reduce(same)))


def _select_updates(updates: Updates, data: NDArray[np.int64], positions: NDArray[np.int64]) -> Updates:
    """Return ``data`` with the times and diffs at ``positions`` of the updates."""
    time = updates.time if updates.constant_time else np.ascontiguousarray(updates.time[:, positions])
    diff = updates.diff if updates.constant_diff else updates.diff[positions]
    return Updates(data, time, diff)


@dataclass(frozen=True, slots=True)
class Laziness:
    """Evaluation of an expensive mfp only on reads, as long as no operator consumes the output.

    A step then only evaluates ``guard``, which fails on the same rows; None means that no row fails.
    """

    guard: CompiledMfp | None


@dataclass(slots=True, eq=False, kw_only=True)
class Linear(Operator):
    """``plan.Linear``: an mfp over every row; later rounds of a loop are forwarded at once."""

    mfp: CompiledMfp
    lazy: Laziness | None = None
    """Set if the mfp is expensive; None if every step evaluates it."""

    @property
    def is_idle(self) -> bool:
        """Whether steps need no work."""
        return self.lazy is not None and self.lazy.guard is None and not self.consumers

    def push(self, port: int, updates: Updates) -> None:
        if self.lazy is not None and self.is_idle:
            return
        self.counters.updates_in += len(updates)
        self.place.scope.forward(self, port, updates)

    def absorb(self) -> None:
        if self.lazy is not None and not self.consumers:
            return
        for updates in self.take_pending():
            try:
                result = apply_mfp(self.mfp, updates)
            except DataError:
                self.pending.append(updates)
            else:
                self.emit(result, more=True)

    def flush(self) -> None:
        pending = self.take_pending()
        if self.lazy is not None and self.lazy.guard is not None and not self.consumers:
            self._check(self.lazy.guard, pending)
            return
        if len(pending) == 1:
            self.emit(apply_mfp_to_net(self.mfp, pending[0]))
            return
        for result in apply_mfp_to_parts(self.mfp, pending):
            self.emit(result)

    def _check(self, guard: CompiledMfp, pending: list[Updates]) -> None:
        """Raise an error with the user's expression if a row fails."""
        try:
            for _ in apply_mfp_to_parts(guard, pending):
                pass
        except DataError:
            for _ in apply_mfp_to_parts(self.mfp, pending):
                pass

    def snapshot(self) -> Iterator[Updates]:
        yield from apply_mfp_to_parts(self.mfp, self.inputs[0].snapshot())

    def evaluate_changes(self, updates: Updates) -> Updates:
        """Return the output's changes for all changes of the input in a step."""
        return apply_mfp_to_net(self.mfp, updates).consolidate()


@dataclass(slots=True, eq=False, kw_only=True)
class Concat(Operator):
    """``plan.Concat``: the sum of its inputs, with one port each."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.emit(updates)

    def absorb(self) -> None:
        for consumer, _ in self.consumers:
            consumer.absorb()

    def flush(self) -> None:
        """Do nothing: no work is ever left."""

    def snapshot(self) -> Iterator[Updates]:
        for source in self.inputs:
            yield from source.snapshot()


@dataclass(slots=True, eq=False, kw_only=True)
class Negate(Operator):
    """``plan.Negate``: every diff times -1."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.emit(updates.negate())

    def absorb(self) -> None:
        for consumer, _ in self.consumers:
            consumer.absorb()

    def flush(self) -> None:
        """Do nothing: no work is ever left."""

    def snapshot(self) -> Iterator[Updates]:
        for updates in self.inputs[0].snapshot():
            yield updates.negate()


@dataclass(slots=True, eq=False, kw_only=True)
class Constant(Operator):
    """``plan.Constant``: fixed rows."""

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
