"""``plan.BasicReduce``: aggregates that are recomputed from their whole group when it changes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.functions import (
    AggregateFunction,
    Basic,
    aggregate_named,
    aggregated,
    algorithm_of,
)
from kpg.runtime.functions.aggregation import Places
from kpg.runtime.mfp.memo import value_of, values_of, word_of
from kpg.runtime.operators.topk import GroupReader, Tasks
from kpg.runtime.plan import BasicAggregate
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.collect import collect
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
