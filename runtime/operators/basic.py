"""``plan.BasicReduce``: aggregates that are recomputed from their whole group when it changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.operators.topk import GroupReader, Tasks
from kpg.runtime.plan import BasicAggregate
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.collect import collect
from kpg.runtime.types import NULL

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
    match aggregate.function:
        case "string_agg":
            return _string_agg(aggregate, dictionary)
        case name:
            raise InternalError(f"{name} is not a basic aggregate")


def _string_agg(aggregate: BasicAggregate, dictionary: Dictionary) -> Evaluate:
    """The group's non-NULL strings in their own order, the separator of each before it."""
    value, separator = aggregate.arguments

    def evaluate(rows: Words, counts: Words) -> int:
        texts = dictionary.decode(rows[value])
        separators = dictionary.decode(rows[separator])
        pairs = sorted(
            (text, between or "", count)
            for text, between, count in zip(texts, separators, counts.tolist(), strict=True)
            if text is not None
        )
        if not pairs:
            return NULL
        parts = [part for text, between, count in pairs for part in (between, text) * count]
        return dictionary.code("".join(parts[1:]))

    return evaluate
