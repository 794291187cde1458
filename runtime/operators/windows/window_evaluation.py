"""Evaluation of window functions over rows in layout order: one word for each row and call.

:func:`evaluate_calls` is the entry point; calls with equal frames share the frame bounds.

* Counts, exact sums and comoments use running totals. Doubles are split into 32-bit limbs of a
  fixed-point number, so totals are exact; each result is rounded once. Comoments, ``sum(x * y) -
  sum(x) * sum(y) / n``, use unlimited integers instead of limbs.
* Minimum and maximum use sparse tables (one table for each power of two).
* All other aggregates, and sums of doubles whose exponents are too far apart, run their algorithm
  along the rows. A row is subtracted when it leaves the frame if the state allows that; else the
  frame is aggregated again.
* Ranking and offset functions need only row positions and values at other positions.

A :class:`Summary` is the partial aggregate of a range of rows. It replaces the rows of a frame that
reaches the end of a partition. Only calls with an unbounded frame end and a small state have one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from math import inf, ldexp, nan
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.functions import (
    AccumulatorKind,
    AggregateFunction,
    Basic,
    Hierarchical,
    Trend,
    WindowResult,
    lookup_aggregate,
    window_function,
)
from kpg.runtime.functions.aggregation.definition import Algorithm, Rows, Types, Value
from kpg.runtime.mfp.python_calls import values_of, word_of
from kpg.runtime.operators.windows.window_frames import (
    Layout,
    Part,
    floats_to_words,
    frame_parts,
    rank_strings,
    words_to_floats,
)
from kpg.runtime.plan import Edge, Frame, WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import (
    ERROR,
    MAX_DECIMAL_PRECISION,
    MAX_WORD,
    MIN_WORD,
    NULL,
    Kind,
    Type,
    float_to_word,
)

Words = NDArray[np.int64]


BITS: Final = 32
MASK: Final = np.int64((1 << BITS) - 1)
MAX_LIMBS: Final = 20
"""Limbs from which values differ too much in size for the fixed-point method to pay."""


def frame_sums(values: Words, parts: tuple[Part, ...]) -> Words:
    """Return the sum of each frame's values; sums must fit a word."""
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(values)))
    result = np.zeros(parts[0][0].shape[0], np.int64)
    for start, end in parts:
        result += before[end] - before[start]
    return result


def double_frame_sums(words: Words, parts: tuple[Part, ...]) -> Words | None:
    """Return the word of each frame's sum, NULL without values.

    Returns None if the values differ too much in size.

    Raises:
        OverflowError: If a sum is not a double.
    """
    non_null = words != NULL
    values: NDArray[np.float64] = np.where(non_null, words_to_floats(words), 0.0)
    finite = np.isfinite(values)
    split = _split_limbs(np.where(finite, values, 0.0))
    if split is None:
        return None
    base, limbs = split
    special = np.zeros(parts[0][0].shape[0], np.float64)
    if not finite.all():
        up, down, nans = (frame_sums(flags.astype(np.int64), parts) for flags in _infinities(values))
        special = np.where(up > 0, inf, np.where(down > 0, -inf, 0.0))
        special = np.where((nans > 0) | ((up > 0) & (down > 0)), nan, special)
    numbers = zip(*(frame_sums(limb, parts).tolist() for limb in limbs), strict=True)
    pairs = zip(numbers, special.tolist(), strict=True)
    sums = [_join_limbs(number, base) if other == 0.0 else other for number, other in pairs]
    result = np.array([float_to_word(value) for value in sums], np.int64)
    return np.where(frame_sums(non_null.astype(np.int64), parts) > 0, result, NULL)


def _infinities(values: NDArray[np.float64]) -> tuple[NDArray[np.bool_], ...]:
    return values == inf, values == -inf, np.isnan(values)


def _split_limbs(values: NDArray[np.float64]) -> tuple[int, list[Words]] | None:
    """Return an exponent, and finite values as limbs of integers times two to it, lowest limb first."""
    fraction, exponent = np.frexp(values)
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    sign = np.where(fraction < 0, np.int64(-1), np.int64(1))
    some = whole != 0
    base = int(exponent[some].min(initial=1 << 20)) - 53 if some.any() else 0
    shift = np.where(some, exponent.astype(np.int64) - 53 - base, 0)
    first, inside = shift >> 5, shift & 31
    count = int(first.max(initial=0)) + 3
    if count > MAX_LIMBS:
        return None
    low, high = (whole & MASK) << inside, (whole >> BITS) << inside
    pieces = (low & MASK, (low >> BITS) + (high & MASK), high >> BITS)
    limbs = []
    for number in range(count):
        limb = np.zeros(values.shape[0], np.int64)
        for place, piece in enumerate(pieces):
            limb += np.where(first == number - place, piece, 0)
        limbs.append(limb * sign)
    return base, limbs


def _join_limbs(limbs: tuple[int, ...], base: int) -> float:
    total = 0
    for limb in reversed(limbs):
        total = (total << BITS) + limb
    return ldexp(total, base)


def comoments(first: Words, second: Words, type_: Type, parts: tuple[Part, ...]) -> Words:
    """Return the comoment of each frame as the word of a double, over pairs without NULLs.

    The result is NULL if there is none.
    """
    non_null = (first != NULL) & (second != NULL)
    finite = non_null.copy()
    base = 0
    if type_.is_float:
        finite &= np.isfinite(words_to_floats(first)) & np.isfinite(words_to_floats(second))
        base = min(_lowest_exponent(words_to_floats(words)[finite]) for words in (first, second))
    pairs = [
        (x, y) if good else (0, 0)
        for x, y, good in zip(
            _to_integers(first, type_, finite, base),
            _to_integers(second, type_, finite, base),
            finite.tolist(),
            strict=True,
        )
    ]
    totals = [
        list(accumulate(values, initial=0))
        for values in ((x for x, _ in pairs), (y for _, y in pairs), (x * y for x, y in pairs))
    ]
    counts, others = (list(accumulate(flags.tolist(), initial=0)) for flags in (non_null, non_null & ~finite))
    bounds = [(start.tolist(), end.tolist()) for start, end in parts]
    cache: dict[tuple[tuple[int, int], ...], int] = {}
    result = []
    for frame in zip(*(zip(starts, ends, strict=True) for starts, ends in bounds), strict=True):
        word = cache.get(frame)
        if word is None:
            sums = [
                sum(total[end] - total[start] for start, end in frame) for total in (counts, others, *totals)
            ]
            word = cache[frame] = _comoment(sums, base)
        result.append(word)
    return np.array(result, np.int64)


def _comoment(sums: list[int], base: int) -> int:
    count, others, first, second, products = sums
    if not count:
        return NULL
    if others:
        return float_to_word(nan)
    value = (products * count - first * second) / count
    return float_to_word(ldexp(value, 2 * base))


def _lowest_exponent(values: NDArray[np.float64]) -> int:
    """Return the exponent of the lowest bit that any of the values may have."""
    some = values[values != 0]
    return int(np.frexp(some)[1].min()) - 53 if some.shape[0] else 0


def _to_integers(words: Words, type_: Type, finite: NDArray[np.bool_], base: int) -> list[int]:
    if not type_.is_float:
        return words.tolist()
    fraction, exponent = np.frexp(np.where(finite, words_to_floats(words), 0.0))
    parts = zip((fraction * 2.0**53).astype(np.int64).tolist(), (exponent - 53 - base).tolist(), strict=True)
    return [part << shift if part else 0 for part, shift in parts]


EXACT_KINDS: Final = frozenset((Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL))
"""Types whose words are added up directly."""


def operand_words(data: Words, arg: Scalar, dictionary: Dictionary) -> Words:
    """Return an argument's word in each row."""
    match arg:
        case Column(index=index):
            return data[index]
        case Literal(value=value):
            word = NULL if value is None else dictionary.code(value) if isinstance(value, str) else value
            return np.full(data.shape[1], word, np.int64)
        case Call() | If() | Fetch():
            raise InternalError("an argument of a window function is neither a column nor a constant")
        case _:
            assert_never(arg)


Partial = Any
"""A row count; (operand count, exact sum); (sort key, word) or None; or a state."""
UNBOUNDED = (Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING)


@dataclass(frozen=True, slots=True)
class Summary:
    """Functions that compute the partial aggregate of rows and merge those of adjacent ranges."""

    summarize: Callable[[Words], Partial]
    merge: Callable[[Partial, Partial], Partial]
    empty: Partial


NO_SUMMARY = Summary(lambda rows: None, lambda left, right: None, None)


def summary_of(call: WindowCall, dictionary: Dictionary) -> Summary | None:
    """Return the call's summary; None if its partial aggregates are as large as its rows."""
    if window_function(call.function) is not None or not has_unbounded_end(call):
        return NO_SUMMARY
    function = lookup_aggregate(call.function)
    if function.accumulator is AccumulatorKind.COUNT:
        return Summary(_count_rows(call, dictionary), lambda left, right: left + right, 0)
    if isinstance(function.maintenance, Hierarchical):
        return _extreme_summary(call, dictionary, largest=function.trend is Trend.UP)
    plain = bool(call.args) and call.args[0].type.kind in EXACT_KINDS and call.type.kind in EXACT_KINDS
    if function.accumulator is AccumulatorKind.SUM and plain:
        return Summary(_sum_words(call, dictionary), _add_pairs, (0, 0))
    return None if function.accumulator is None else _state_summary(call, dictionary)


def has_unbounded_end(call: WindowCall) -> bool:
    """Return whether the call's frame has an unbounded end."""
    return call.frame.start.edge in UNBOUNDED or call.frame.end.edge in UNBOUNDED


def _count_rows(call: WindowCall, dictionary: Dictionary) -> Callable[[Words], int]:
    def count(rows: Words) -> int:
        if not call.args:
            return rows.shape[1]
        return int((operand_words(rows, call.args[0], dictionary) != NULL).sum())

    return count


def _sum_words(call: WindowCall, dictionary: Dictionary) -> Callable[[Words], tuple[int, int]]:
    def add_up(rows: Words) -> tuple[int, int]:
        words = operand_words(rows, call.args[0], dictionary)
        non_null = words[words != NULL]
        return non_null.shape[0], (int((non_null >> 32).sum()) << 32) + int((non_null & 0xFFFFFFFF).sum())

    return add_up


def _add_pairs(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return left[0] + right[0], left[1] + right[1]


def _extreme_summary(call: WindowCall, dictionary: Dictionary, *, largest: bool) -> Summary:
    """Return the summary of min or max: a word with its sort key, itself or the bytes of its string."""
    better = max if largest else min
    is_text = call.args[0].type.is_interned

    def find(rows: Words) -> tuple[Any, int] | None:
        words = operand_words(rows, call.args[0], dictionary)
        non_null = words[words != NULL]
        if not non_null.shape[0]:
            return None
        if not is_text:
            word = int(non_null.max() if largest else non_null.min())
            return word, word
        codes = np.unique(non_null)
        return better(
            ((text or "").encode(), code)
            for text, code in zip(dictionary.decode(codes), codes.tolist(), strict=True)
        )

    def merge(left: tuple[Any, int] | None, right: tuple[Any, int] | None) -> tuple[Any, int] | None:
        return right if left is None else left if right is None else better(left, right)

    return Summary(find, merge, None)


def _state_summary(call: WindowCall, dictionary: Dictionary) -> Summary:
    """Return the summary with the states of the aggregate's algorithm.

    Merging leaves both states unchanged.
    """
    types = tuple(arg.type for arg in call.args)
    algorithm = lookup_aggregate(call.function).algorithm(types)

    def accumulate(rows: Words) -> Partial:
        words = (operand_words(rows, arg, dictionary) for arg in call.args)
        columns = [
            values_of(column_words, type_, dictionary)
            for column_words, type_ in zip(words, types, strict=True)
        ]
        state = algorithm.initialize()
        for operands in zip(*columns, strict=True):
            if operands[0] is not None:
                state = algorithm.add(state, operands, 1)
        return state

    def merge(left: Partial, right: Partial) -> Partial:
        return algorithm.merge(algorithm.merge(algorithm.initialize(), left), right)

    return Summary(accumulate, merge, algorithm.initialize())


def summaries_of(calls: Sequence[WindowCall], dictionary: Dictionary) -> tuple[Summary, ...] | None:
    """Return the summaries of all calls; None if a call has none."""
    summaries = [summary_of(call, dictionary) for call in calls]
    supported = tuple(summary for summary in summaries if summary is not None)
    return supported if len(supported) == len(summaries) else None


LOW_MASK = np.int64((1 << 32) - 1)


def evaluate_aggregate(
    layout: Layout,
    call: WindowCall,
    args: tuple[Words, ...],
    parts: tuple[Part, ...],
    dictionary: Dictionary,
    ends: Sequence[Partial] = (),
) -> Words:
    """Return the aggregate of each frame, over its ``parts`` and the partial aggregates ``ends``."""
    function = lookup_aggregate(call.function)
    type_ = call.args[0].type if call.args else call.type
    if function.accumulator is AccumulatorKind.COUNT:
        non_null = args[0] != NULL if args else np.ones(layout.start.shape[0], np.bool_)
        return frame_sums(non_null.astype(np.int64), parts) + sum(ends)
    if (
        function.accumulator is AccumulatorKind.SUM
        and type_.kind in EXACT_KINDS
        and call.type.kind in EXACT_KINDS
    ):
        return _exact_sums(call, args[0], parts, ends)
    if isinstance(function.maintenance, Hierarchical):
        largest = function.trend is Trend.UP
        beyond = [end[1] for end in ends if end is not None]
        if type_.is_interned:
            return _extreme_text(args[0], parts, dictionary, beyond, largest=largest)
        return _extreme(args[0], parts, beyond, largest=largest)
    if function.accumulator is AccumulatorKind.COMOMENT and not ends:
        return _comoments_or_error(call, args, parts)
    if function.accumulator is AccumulatorKind.SUM and type_.is_float and not ends:
        sums = _double_sums_or_error(call, args[0], parts)
        if sums is not None:
            return sums
    return _run_algorithm(call, args, parts, dictionary, ends)


def _comoments_or_error(call: WindowCall, args: tuple[Words, ...], parts: tuple[Part, ...]) -> Words:
    try:
        return comoments(args[0], args[-1], call.args[0].type, parts)
    except OverflowError as error:
        raise DataError(f"{call.text or call.function} cannot be computed: {error}") from error


def _double_sums_or_error(call: WindowCall, words: Words, parts: tuple[Part, ...]) -> Words | None:
    try:
        return double_frame_sums(words, parts)
    except OverflowError as error:
        raise DataError(f"{call.text or call.function} cannot be computed: {error}") from error


def _exact_sums(call: WindowCall, words: Words, parts: tuple[Part, ...], ends: Sequence[Partial]) -> Words:
    """Return exact sums, computed as two halves whose totals cannot overflow."""
    non_null = words != NULL
    values = np.where(non_null, words, 0)
    beyond = sum(total for _, total in ends)
    number = frame_sums(non_null.astype(np.int64), parts) + sum(count for count, _ in ends)
    high = frame_sums(values >> 32, parts) + (beyond >> 32)
    low = frame_sums(values & LOW_MASK, parts) + (beyond & int(LOW_MASK))
    high = high + (low >> 32)
    if call.type.kind is Kind.DECIMAL:
        greatest = 10**MAX_DECIMAL_PRECISION - 1
        least = -greatest
    else:
        least, greatest = MIN_WORD, MAX_WORD
    wide = (high > (greatest >> 32)) | (high < (least >> 32))
    total = (np.where(wide, 0, high) << 32) + (low & LOW_MASK)
    if (wide | (total < least) | (total > greatest)).any():
        error = DataError(f"{call.text or call.function} is out of range for {call.type}")
        error.exceeds_decimal = call.type.kind is Kind.DECIMAL
        raise error
    return np.where(number > 0, total, NULL)


def _extreme(words: Words, parts: tuple[Part, ...], beyond: Sequence[int], *, largest: bool) -> Words:
    """Return the largest or smallest word that is not NULL; NULL if there is none."""
    values = words if largest else np.where(words == NULL, NULL, -words)
    result = _largest(values, parts)
    for word in beyond:
        result = np.maximum(result, word if largest else -word)
    return result if largest else np.where(result == NULL, NULL, -result)


def _largest(values: Words, parts: tuple[Part, ...]) -> Words:
    """Return the largest word of each range, from two overlapping ranges of a power of two."""
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
    """Return ``_extreme`` by the ranks of the strings."""
    ranks, codes = rank_strings(np.append(words, np.array(beyond, np.int64)), dictionary)
    count = words.shape[0]
    best = _extreme(ranks[:count], parts, ranks[count:].tolist(), largest=largest)
    if not codes.shape[0]:
        return best
    return np.where(best == NULL, NULL, codes[np.where(best == NULL, 0, best)])


def _run_algorithm(
    call: WindowCall,
    args: tuple[Words, ...],
    parts: tuple[Part, ...],
    dictionary: Dictionary,
    ends: Sequence[Partial],
) -> Words:
    types = tuple(arg.type for arg in call.args)
    function = lookup_aggregate(call.function)
    columns = [values_of(words, type_, dictionary) for words, type_ in zip(args, types, strict=True)]
    rows = list(zip(*columns, strict=True))
    bounds = [(start.tolist(), end.tolist()) for start, end in parts]
    try:
        if function.finish_in_order is not None:
            values = _ordered_values(function.finish_in_order(types), rows, bounds)
        elif len(bounds) == 1:
            values = _sliding_values(
                _with_initial_partials(_sliding_algorithm(function, types), ends), rows, *bounds[0]
            )
        else:
            values = _recomputed_values(_with_initial_partials(function.algorithm(types), ends), rows, bounds)
    except (ValueError, ArithmeticError) as error:
        raise DataError(f"{call.text or call.function} cannot be computed: {error}") from error
    return np.array([_word(call, value, dictionary) for value in values], np.int64)


def _word(call: WindowCall, value: Value, dictionary: Dictionary) -> int:
    word = word_of(value, call.type, dictionary)
    if word == ERROR:
        raise DataError(f"{call.text or call.function} is no {call.type}: {value}")
    return word


def _sliding_algorithm(function: AggregateFunction, types: Types) -> Algorithm:
    """Return the algorithm, without subtraction if its state keeps all rows, which never shrinks."""
    algorithm = function.algorithm(types)
    return replace(algorithm, subtract=None) if isinstance(function.maintenance, Basic) else algorithm


def _with_initial_partials(algorithm: Algorithm, ends: Sequence[Partial]) -> Algorithm:
    """Return the algorithm whose initial state includes partial aggregates."""

    def initialize() -> Partial:
        state = algorithm.initialize()
        for end in ends:
            state = algorithm.merge(state, end)
        return state

    return replace(algorithm, initialize=initialize) if ends else algorithm


def _sliding_values(
    algorithm: Algorithm, rows: Sequence[tuple[Value, ...]], starts: list[int], ends: list[int]
) -> list[Value]:
    """Return the values for frames of one part: each row adds the entering and subtracts the leaving rows."""
    add, subtract = algorithm.add, algorithm.subtract
    values: list[Value] = []
    state, low, high, value = algorithm.initialize(), 0, 0, None
    fresh = True
    for start, end in zip(starts, ends, strict=True):
        if (start, end) == (low, high) and not fresh:
            values.append(value)
            continue
        can_continue = low <= start <= high <= end and (start == low or subtract is not None)
        if fresh or not can_continue or start - low > end - start:
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


def _ordered_values(
    finish: Callable[[Rows], Value],
    rows: Sequence[tuple[Value, ...]],
    bounds: list[tuple[list[int], list[int]]],
) -> list[Value]:
    """Return the values of an aggregate that depends on the row order, which is the window's."""
    values: list[Value] = []
    before: list[tuple[int, int]] = []
    for number in range(len(bounds[0][0])):
        here = [(starts[number], ends[number]) for starts, ends in bounds]
        if here == before:
            values.append(values[-1])
            continue
        frame_rows = [(row, 1) for start, end in here for row in rows[start:end] if row[0] is not None]
        values.append(finish(frame_rows) if frame_rows else None)
        before = here
    return values


def _recomputed_values(
    algorithm: Algorithm, rows: Sequence[tuple[Value, ...]], bounds: list[tuple[list[int], list[int]]]
) -> list[Value]:
    """Return the values for frames with excluded rows, each aggregated from scratch."""
    values: list[Value] = []
    for number in range(len(bounds[0][0])):
        state = algorithm.initialize()
        for starts, ends in bounds:
            for row in rows[starts[number] : ends[number]]:
                if row[0] is not None:
                    state = algorithm.add(state, row, 1)
        values.append(algorithm.finish(state))
    return values


def evaluate_function(
    layout: Layout, answer: WindowResult, args: tuple[Words, ...], parts: tuple[Part, ...], output_rows: slice
) -> Words:
    """Return the function's value in each output row; ``parts`` are of its frame, if it has one."""
    match answer:
        case WindowResult.FIRST_VALUE:
            return _nth(args[0], np.ones(parts[0][0].shape[0], np.int64), parts)
        case WindowResult.LAST_VALUE:
            return _last(args[0], parts)
        case WindowResult.NTH_VALUE:
            number = args[1][output_rows]
            if ((number <= 0) & (number != NULL)).any():
                raise DataError("the argument of nth_value must be greater than zero")
            return _nth(args[0], number, parts)
        case _:
            return _positional_values(layout, answer, args)[output_rows]


def _positional_values(layout: Layout, answer: WindowResult, args: tuple[Words, ...]) -> Words:
    """Return the values, in all rows, of a function that depends only on positions in the partition."""
    match answer:
        case WindowResult.ROW_NUMBER:
            return layout.positions - layout.start + 1 + layout.skipped_rows
        case WindowResult.RANK:
            return _rank(layout)
        case WindowResult.DENSE_RANK:
            return layout.group - layout.group[layout.start] + 1 + layout.skipped_groups
        case WindowResult.PERCENT_RANK:
            others = layout.sizes - 1
            return floats_to_words(np.where(others > 0, (_rank(layout) - 1) / np.maximum(others, 1), 0.0))
        case WindowResult.CUME_DIST:
            return floats_to_words((layout.peer_end - layout.start + layout.skipped_rows) / layout.sizes)
        case WindowResult.NTILE:
            return _bucket(layout, args[0])
        case WindowResult.LAG:
            return _neighbour(layout, args, -1)
        case WindowResult.LEAD:
            return _neighbour(layout, args, 1)
        case WindowResult.FIRST_VALUE | WindowResult.LAST_VALUE | WindowResult.NTH_VALUE:
            raise InternalError(f"{answer.name} depends on the frame")
        case _:
            assert_never(answer)


def _rank(layout: Layout) -> Words:
    return layout.peer_start - layout.start + 1 + layout.skipped_rows


def _bucket(layout: Layout, buckets: Words) -> Words:
    """Return the bucket of each row; ``n`` is that of the partition's first row.

    The first ``rows % n`` buckets have one row more than the others.
    """
    number = buckets[layout.start]
    if ((number <= 0) & (number != NULL)).any():
        raise DataError("the argument of ntile must be greater than zero")
    divisor = np.maximum(number, 1)
    size, larger = np.divmod(layout.sizes, divisor)
    place = layout.positions - layout.start + layout.skipped_rows
    border = larger * (size + 1)
    bucket = np.where(place < border, place // (size + 1), larger + (place - border) // np.maximum(size, 1))
    return np.where(number == NULL, NULL, bucket + 1)


def bucket_starts(rows: int, buckets: int, limit: int) -> Words:
    """Return where each bucket but the first begins among ``rows`` rows, for at most ``limit`` buckets."""
    size, larger = divmod(rows, buckets)
    number = np.arange(1, min(buckets, limit), dtype=np.int64)
    return number * size + np.minimum(number, larger)


def _neighbour(layout: Layout, args: tuple[Words, ...], direction: int) -> Words:
    values = args[0]
    far = np.int64(values.shape[0])
    distance = args[1] if len(args) > 1 else np.ones_like(layout.start)
    place = layout.positions + direction * np.clip(distance, -far, far)
    inside = (place >= layout.start) & (place < layout.end)
    default = args[2] if len(args) > 2 else np.full_like(layout.start, NULL)
    values_at = np.where(inside, values[np.where(inside, place, 0)], default)
    return np.where(distance == NULL, NULL, values_at)


def _nth(values: Words, number: Words, parts: tuple[Part, ...]) -> Words:
    """Return the value of the ``number``-th row of the parts together; NULL if there are fewer."""
    left = number - 1
    result = np.full_like(number, NULL)
    missing = number != NULL
    for start, end in parts:
        here = missing & (left < end - start)
        result = np.where(here, values[np.where(here, start + left, 0)], result)
        missing = missing & ~here
        left = left - (end - start)
    return result


def _last(values: Words, parts: tuple[Part, ...]) -> Words:
    result = np.full(parts[0][0].shape[0], NULL, np.int64)
    for start, end in parts:
        result = np.where(end > start, values[np.where(end > start, end - 1, 0)], result)
    return result


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Context of a partial layout: the ``output_rows``, and partial aggregates of the omitted rows.

    ``before`` and ``behind`` are over the rows omitted before and after the layout.
    """

    output_rows: slice
    before: Sequence[Partial]
    behind: Sequence[Partial]

    def unbounded_ends(self, number: int, call: WindowCall) -> list[Partial]:
        """Return the partial aggregates at the unbounded ends of a call's frames."""
        partials = []
        if call.frame.start.edge is Edge.UNBOUNDED_PRECEDING:
            partials.append(self.before[number])
        if call.frame.end.edge is Edge.UNBOUNDED_FOLLOWING:
            partials.append(self.behind[number])
        return partials


def evaluate_calls(
    layout: Layout,
    calls: Sequence[WindowCall],
    dictionary: Dictionary,
    surroundings: "Surroundings | None" = None,
) -> Words:
    """Return the results ``int64[calls, n]``; frames that several calls share are computed once."""
    output_rows = slice(None) if surroundings is None else surroundings.output_rows
    result = np.empty((len(calls), layout.start[output_rows].shape[0]), np.int64)
    frames: dict[Frame, tuple[Part, ...]] = {}
    for number, call in enumerate(calls):
        function = window_function(call.function)
        parts: tuple[Part, ...] = ()
        if function is None or function.uses_frame:
            if call.frame not in frames:
                all_parts = frame_parts(layout, call.frame, dictionary)
                frames[call.frame] = tuple((start[output_rows], end[output_rows]) for start, end in all_parts)
            parts = frames[call.frame]
        args = tuple(operand_words(layout.data, arg, dictionary) for arg in call.args)
        if function is None:
            ends = () if surroundings is None else surroundings.unbounded_ends(number, call)
            result[number] = evaluate_aggregate(layout, call, args, parts, dictionary, ends)
        else:
            result[number] = evaluate_function(layout, function.answer, args, parts, output_rows)
    return result
