"""Aggregates over frames: counts and exact sums by running totals, extremes by tables of powers of two.

All others, and sums of doubles, run their algorithm along the rows: a row that enters the frame is added and
one that leaves it subtracted, if states allow that; else a frame that loses rows is added up anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.functions import (
    AccumulatorKind,
    AggregateFunction,
    Basic,
    Hierarchical,
    Trend,
    aggregate_named,
)
from kpg.runtime.functions.aggregation import Algorithm, Rows, Types, Value
from kpg.runtime.mfp.memo import values_of, word_of
from kpg.runtime.operators.windows import doubles
from kpg.runtime.operators.windows.doubles import totalled
from kpg.runtime.operators.windows.frames import Part, ranked
from kpg.runtime.operators.windows.layout import Layout
from kpg.runtime.operators.windows.moments import comoments
from kpg.runtime.operators.windows.operands import PLAIN
from kpg.runtime.operators.windows.partials import Partial
from kpg.runtime.plan import WindowCall
from kpg.runtime.types import ERROR, MAX_DECIMAL_PRECISION, MAX_WORD, MIN_WORD, NULL, Kind

Words = NDArray[np.int64]
LOW = np.int64((1 << 32) - 1)


def aggregated(
    layout: Layout,
    call: WindowCall,
    args: tuple[Words, ...],
    parts: tuple[Part, ...],
    dictionary: Dictionary,
    ends: Sequence[Partial] = (),
) -> Words:
    """The aggregate of each frame, that it has ``parts`` of the rows and all that ``ends`` are of."""
    function = aggregate_named(call.function)
    type_ = call.args[0].type if call.args else call.type
    if function.accumulator is AccumulatorKind.COUNT:
        there = args[0] != NULL if args else np.ones(layout.start.shape[0], np.bool_)
        return totalled(there.astype(np.int64), parts) + sum(ends)
    if function.accumulator is AccumulatorKind.SUM and type_.kind in PLAIN and call.type.kind in PLAIN:
        return _summed(call, args[0], parts, ends)
    if isinstance(function.maintenance, Hierarchical):
        largest = function.trend is Trend.UP
        beyond = [end[1] for end in ends if end is not None]
        if type_.is_interned:
            return _extreme_text(args[0], parts, dictionary, beyond, largest=largest)
        return _extreme(args[0], parts, beyond, largest=largest)
    if function.accumulator is AccumulatorKind.COMOMENT and not ends:
        return _comoments(call, args, parts)
    if function.accumulator is AccumulatorKind.SUM and type_.is_float and not ends:
        found = _summed_doubles(call, args[0], parts)
        if found is not None:
            return found
    return _by_algorithm(call, args, parts, dictionary, ends)


def _comoments(call: WindowCall, args: tuple[Words, ...], parts: tuple[Part, ...]) -> Words:
    try:
        return comoments(args[0], args[-1], call.args[0].type, parts)
    except OverflowError as error:
        raise DataError(f"{call.text or call.function} cannot be computed: {error}") from error


def _summed_doubles(call: WindowCall, words: Words, parts: tuple[Part, ...]) -> Words | None:
    try:
        return doubles.summed(words, parts)
    except OverflowError as error:
        raise DataError(f"{call.text or call.function} cannot be computed: {error}") from error


def _summed(call: WindowCall, words: Words, parts: tuple[Part, ...], ends: Sequence[Partial]) -> Words:
    """Exact sums, as two halves of 32 bits and more, of which no total overflows."""
    there = words != NULL
    values = np.where(there, words, 0)
    beyond = sum(total for _, total in ends)
    number = totalled(there.astype(np.int64), parts) + sum(count for count, _ in ends)
    high = totalled(values >> 32, parts) + (beyond >> 32)
    low = totalled(values & LOW, parts) + (beyond & int(LOW))
    high = high + (low >> 32)
    if call.type.kind is Kind.DECIMAL:
        most = 10**MAX_DECIMAL_PRECISION - 1
        least = -most
    else:
        least, most = MIN_WORD, MAX_WORD
    wide = (high > (most >> 32)) | (high < (least >> 32))
    total = (np.where(wide, 0, high) << 32) + (low & LOW)
    if (wide | (total < least) | (total > most)).any():
        error = DataError(f"{call.text or call.function} is out of range for {call.type}")
        error.narrow = call.type.kind is Kind.DECIMAL
        raise error
    return np.where(number > 0, total, NULL)


def _extreme(words: Words, parts: tuple[Part, ...], beyond: Sequence[int], *, largest: bool) -> Words:
    """The largest or smallest word that is not NULL, NULL if there is none."""
    values = words if largest else np.where(words == NULL, NULL, -words)
    found = _largest(values, parts)
    for word in beyond:
        found = np.maximum(found, word if largest else -word)
    return found if largest else np.where(found == NULL, NULL, -found)


def _largest(values: Words, parts: tuple[Part, ...]) -> Words:
    """The largest word of each stretch: that of two stretches of a power of two of places, which overlap."""
    result = np.full(parts[0][0].shape[0], NULL, np.int64)
    sizes = [end - start for start, end in parts]
    longest = max((int(size.max(initial=0)) for size in sizes), default=0)
    level, width = values, 1
    while width <= longest:
        for (start, end), size in zip(parts, sizes, strict=True):
            here = np.flatnonzero((size >= width) & (size < 2 * width))
            if here.shape[0]:
                best = np.maximum(level[start[here]], level[end[here] - width])
                result[here] = np.maximum(result[here], best)
        level = np.maximum(level[:-width], level[width:]) if 2 * width <= values.shape[0] else level[:0]
        width *= 2
    return result


def _extreme_text(
    words: Words, parts: tuple[Part, ...], dictionary: Dictionary, beyond: Sequence[int], *, largest: bool
) -> Words:
    """As ``_extreme``, by the strings' places among the distinct ones in order."""
    ranks, codes = ranked(np.append(words, np.array(beyond, np.int64)), dictionary)
    count = words.shape[0]
    found = _extreme(ranks[:count], parts, ranks[count:].tolist(), largest=largest)
    if not codes.shape[0]:
        return found
    return np.where(found == NULL, NULL, codes[np.where(found == NULL, 0, found)])


def _by_algorithm(
    call: WindowCall,
    args: tuple[Words, ...],
    parts: tuple[Part, ...],
    dictionary: Dictionary,
    ends: Sequence[Partial],
) -> Words:
    types = tuple(arg.type for arg in call.args)
    function = aggregate_named(call.function)
    columns = [values_of(words, type_, dictionary) for words, type_ in zip(args, types, strict=True)]
    rows = list(zip(*columns, strict=True))
    bounds = [(start.tolist(), end.tolist()) for start, end in parts]
    try:
        if function.in_order is not None:
            values = _in_order(function.in_order(types), rows, bounds)
        elif len(bounds) == 1:
            values = _along(_beyond(_moving(function, types), ends), rows, *bounds[0])
        else:
            values = _piecewise(_beyond(function.algorithm(types), ends), rows, bounds)
    except (ValueError, ArithmeticError) as error:
        raise DataError(f"{call.text or call.function} cannot be computed: {error}") from error
    return np.array([_word(call, value, dictionary) for value in values], np.int64)


def _word(call: WindowCall, value: Value, dictionary: Dictionary) -> int:
    word = word_of(value, call.type, dictionary)
    if word == ERROR:
        raise DataError(f"{call.text or call.function} is no {call.type}: {value}")
    return word


def _moving(function: AggregateFunction, types: Types) -> Algorithm:
    """The algorithm; what keeps all its rows does not get smaller as rows are subtracted, so none are."""
    algorithm = function.algorithm(types)
    return replace(algorithm, subtract=None) if isinstance(function.maintenance, Basic) else algorithm


def _beyond(algorithm: Algorithm, ends: Sequence[Partial]) -> Algorithm:
    """The algorithm over rows that come to those of partial aggregates."""

    def initialize() -> Partial:
        state = algorithm.initialize()
        for end in ends:
            state = algorithm.merge(state, end)
        return state

    return replace(algorithm, initialize=initialize) if ends else algorithm


def _along(
    algorithm: Algorithm, rows: Sequence[tuple[Value, ...]], starts: list[int], ends: list[int]
) -> list[Value]:
    """The values for frames of one stretch: from one row to the next, what enters and what leaves."""
    add, subtract = algorithm.add, algorithm.subtract
    values: list[Value] = []
    state, low, high, value = algorithm.initialize(), 0, 0, None
    fresh = True
    for start, end in zip(starts, ends, strict=True):
        if (start, end) == (low, high) and not fresh:
            values.append(value)
            continue
        kept = low <= start <= high <= end and (start == low or subtract is not None)
        if fresh or not kept or start - low > end - start:
            state, low, high = algorithm.initialize(), start, start
        for row in rows[low:start]:
            if subtract is not None and row[0] is not None:
                state = subtract(state, row, 1)
        for row in rows[high:end]:
            if row[0] is not None:
                state = add(state, row, 1)
        low, high, fresh = start, end, False
        value = algorithm.finish(state)
        values.append(value)
    return values


def _in_order(
    finish: Callable[[Rows], Value],
    rows: Sequence[tuple[Value, ...]],
    bounds: list[tuple[list[int], list[int]]],
) -> list[Value]:
    """The values of what minds the order of rows, which is that of the window."""
    values: list[Value] = []
    before: list[tuple[int, int]] = []
    for number in range(len(bounds[0][0])):
        here = [(starts[number], ends[number]) for starts, ends in bounds]
        if here == before:
            values.append(values[-1])
            continue
        taken = [(row, 1) for start, end in here for row in rows[start:end] if row[0] is not None]
        values.append(finish(taken) if taken else None)
        before = here
    return values


def _piecewise(
    algorithm: Algorithm, rows: Sequence[tuple[Value, ...]], bounds: list[tuple[list[int], list[int]]]
) -> list[Value]:
    """The values for frames with rows left out: each added up anew."""
    values: list[Value] = []
    for number in range(len(bounds[0][0])):
        state = algorithm.initialize()
        for starts, ends in bounds:
            for row in rows[starts[number] : ends[number]]:
                if row[0] is not None:
                    state = algorithm.add(state, row, 1)
        values.append(algorithm.finish(state))
    return values
