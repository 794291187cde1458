"""``plan.BasicReduce``: aggregates that are recomputed from their whole group when it changes."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.functions import aggregate_named, aggregated, algorithm_of
from kpg.runtime.mfp.memo import values_of, word_of
from kpg.runtime.operators.topk import GroupReader, Tasks
from kpg.runtime.plan import BasicAggregate
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.collect import collect
from kpg.runtime.types import ERROR

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
    """The aggregate's algorithm over the Python values of a group's rows."""
    function = aggregate_named(aggregate.function)
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
        try:
            value = aggregated(algorithm, zip(zip(*columns, strict=True), counts.tolist(), strict=True))
        except (ValueError, ArithmeticError) as error:
            raise DataError(f"{aggregate.function} of a group cannot be computed: {error}") from error
        word = word_of(value, aggregate.type, dictionary)
        if word == ERROR:
            raise DataError(f"{aggregate.function} of a group is no {aggregate.type}: {value}")
        return word

    return evaluate
