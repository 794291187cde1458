"""Evaluation of window functions over rows in layout order: one word for each row and call.

:func:`evaluated` is the entry point; calls with equal frames share the frame bounds.

* Counts, exact sums and comoments use running totals. Doubles are split into 32-bit limbs of a fixed-point
  number, so totals are exact; each result is rounded once. Comoments, ``sum(x * y) - sum(x) * sum(y) / n``,
  use unlimited integers instead of limbs.
* Least and greatest values use sparse tables (one table for each power of two).
* All other aggregates, and sums of doubles whose exponents are too far apart, run their algorithm along the
  rows. A row is subtracted when it leaves the frame if the state allows that; else the frame is aggregated
  again.
* Ranking and offset functions need only row positions and values at other positions.

A :class:`Summary` is the partial aggregate of a stretch of rows. It replaces the rows of a frame that reaches
the end of a partition. Only calls with an unbounded frame end and a small state have one.
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
    Answer,
    Basic,
    Hierarchical,
    Trend,
    aggregate_named,
    window_function,
)
from kpg.runtime.functions.aggregation.definition import Algorithm, Rows, Types, Value
from kpg.runtime.mfp.python_calls import values_of, word_of
from kpg.runtime.operators.windows.window_frames import Layout, Part, floats, parts_of, ranked, words
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
MOST_LIMBS: Final = 20
"""Wider numbers, of values of very different sizes, are not worth their room."""


def totalled(values: Words, parts: tuple[Part, ...]) -> Words:
    """The sum of each frame's values; none is beyond a word."""
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(values)))
    result = np.zeros(parts[0][0].shape[0], np.int64)
    for start, end in parts:
        result += before[end] - before[start]
    return result


def summed(words: Words, parts: tuple[Part, ...]) -> Words | None:
    """The word of each frame's sum, NULL of no values; None if the values are too different in size.

    OverflowError if a sum is no double.
    """
    known = words != NULL
    values: NDArray[np.float64] = np.where(known, floats(words), 0.0)
    finite = np.isfinite(values)
    split = _limbs(np.where(finite, values, 0.0))
    if split is None:
        return None
    base, limbs = split
    lost = np.zeros(parts[0][0].shape[0], np.float64)
    if not finite.all():
        up, down, none = (totalled(flags.astype(np.int64), parts) for flags in _infinities(values))
        lost = np.where(up > 0, inf, np.where(down > 0, -inf, 0.0))
        lost = np.where((none > 0) | ((up > 0) & (down > 0)), nan, lost)
    numbers = zip(*(totalled(limb, parts).tolist() for limb in limbs), strict=True)
    pairs = zip(numbers, lost.tolist(), strict=True)
    sums = [_rounded(number, base) if other == 0.0 else other for number, other in pairs]
    result = np.array([float_to_word(value) for value in sums], np.int64)
    return np.where(totalled(known.astype(np.int64), parts) > 0, result, NULL)


def _infinities(values: NDArray[np.float64]) -> tuple[NDArray[np.bool_], ...]:
    return values == inf, values == -inf, np.isnan(values)


def _limbs(values: NDArray[np.float64]) -> tuple[int, list[Words]] | None:
    """An exponent, and finite values as limbs of whole numbers times two to that, the lowest first."""
    fraction, exponent = np.frexp(values)
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    sign = np.where(fraction < 0, np.int64(-1), np.int64(1))
    some = whole != 0
    base = int(exponent[some].min(initial=1 << 20)) - 53 if some.any() else 0
    shift = np.where(some, exponent.astype(np.int64) - 53 - base, 0)
    first, inside = shift >> 5, shift & 31
    count = int(first.max(initial=0)) + 3
    if count > MOST_LIMBS:
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


def _rounded(limbs: tuple[int, ...], base: int) -> float:
    total = 0
    for limb in reversed(limbs):
        total = (total << BITS) + limb
    return ldexp(total, base)


def comoments(first: Words, second: Words, type_: Type, parts: tuple[Part, ...]) -> Words:
    """The comoment of each frame as the word of a double: of pairs without a NULL, NULL if there is none."""
    known = (first != NULL) & (second != NULL)
    finite = known.copy()
    base = 0
    if type_.is_float:
        finite &= np.isfinite(floats(first)) & np.isfinite(floats(second))
        base = min(_lowest(floats(words)[finite]) for words in (first, second))
    pairs = [
        (x, y) if good else (0, 0)
        for x, y, good in zip(
            _whole(first, type_, finite, base),
            _whole(second, type_, finite, base),
            finite.tolist(),
            strict=True,
        )
    ]
    totals = [
        list(accumulate(values, initial=0))
        for values in ((x for x, _ in pairs), (y for _, y in pairs), (x * y for x, y in pairs))
    ]
    counts, others = (list(accumulate(flags.tolist(), initial=0)) for flags in (known, known & ~finite))
    bounds = [(start.tolist(), end.tolist()) for start, end in parts]
    found: dict[tuple[tuple[int, int], ...], int] = {}
    result = []
    for frame in zip(*(zip(starts, ends, strict=True) for starts, ends in bounds), strict=True):
        word = found.get(frame)
        if word is None:
            sums = [
                sum(total[end] - total[start] for start, end in frame) for total in (counts, others, *totals)
            ]
            word = found[frame] = _comoment(sums, base)
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


def _lowest(values: NDArray[np.float64]) -> int:
    """The exponent of the lowest bit that one of the values may have."""
    some = values[values != 0]
    return int(np.frexp(some)[1].min()) - 53 if some.shape[0] else 0


def _whole(words: Words, type_: Type, finite: NDArray[np.bool_], base: int) -> list[int]:
    if not type_.is_float:
        return words.tolist()
    fraction, exponent = np.frexp(np.where(finite, floats(words), 0.0))
    parts = zip((fraction * 2.0**53).astype(np.int64).tolist(), (exponent - 53 - base).tolist(), strict=True)
    return [part << shift if part else 0 for part, shift in parts]


PLAIN: Final = frozenset((Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL))
"""Types whose words are added up as they are."""


def operand(data: Words, arg: Scalar, dictionary: Dictionary) -> Words:
    """An argument's word in each row."""
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
"""A number of rows; (number of operands, exact sum); (what orders a word, word) or None; a state."""
UNBOUNDED = (Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING)


@dataclass(frozen=True, slots=True)
class Summary:
    """How the partial aggregate of a call's rows is made, and how those of adjacent stretches become one."""

    of: Callable[[Words], Partial]
    merge: Callable[[Partial, Partial], Partial]
    empty: Partial


NOTHING = Summary(lambda rows: None, lambda left, right: None, None)


def summary_of(call: WindowCall, dictionary: Dictionary) -> Summary | None:
    """None if the call has no partial aggregates that take less than all its rows."""
    if window_function(call.function) is not None or not is_open(call):
        return NOTHING
    function = aggregate_named(call.function)
    if function.accumulator is AccumulatorKind.COUNT:
        return Summary(_counting(call, dictionary), lambda left, right: left + right, 0)
    if isinstance(function.maintenance, Hierarchical):
        return _extremes(call, dictionary, largest=function.trend is Trend.UP)
    plain = bool(call.args) and call.args[0].type.kind in PLAIN and call.type.kind in PLAIN
    if function.accumulator is AccumulatorKind.SUM and plain:
        return Summary(_adding(call, dictionary), _both, (0, 0))
    return None if function.accumulator is None else _states(call, dictionary)


def is_open(call: WindowCall) -> bool:
    """Whether the call's frame has an end that is unbounded."""
    return call.frame.start.edge in UNBOUNDED or call.frame.end.edge in UNBOUNDED


def _counting(call: WindowCall, dictionary: Dictionary) -> Callable[[Words], int]:
    def of(rows: Words) -> int:
        if not call.args:
            return rows.shape[1]
        return int((operand(rows, call.args[0], dictionary) != NULL).sum())

    return of


def _adding(call: WindowCall, dictionary: Dictionary) -> Callable[[Words], tuple[int, int]]:
    def of(rows: Words) -> tuple[int, int]:
        words = operand(rows, call.args[0], dictionary)
        known = words[words != NULL]
        return known.shape[0], (int((known >> 32).sum()) << 32) + int((known & 0xFFFFFFFF).sum())

    return of


def _both(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return left[0] + right[0], left[1] + right[1]


def _extremes(call: WindowCall, dictionary: Dictionary, *, largest: bool) -> Summary:
    """A word with what orders it: itself, or the bytes of the string that it stands for."""
    better = max if largest else min
    is_text = call.args[0].type.is_interned

    def of(rows: Words) -> tuple[Any, int] | None:
        words = operand(rows, call.args[0], dictionary)
        known = words[words != NULL]
        if not known.shape[0]:
            return None
        if not is_text:
            word = int(known.max() if largest else known.min())
            return word, word
        codes = np.unique(known)
        return better(
            ((text or "").encode(), code)
            for text, code in zip(dictionary.decode(codes), codes.tolist(), strict=True)
        )

    def merge(left: tuple[Any, int] | None, right: tuple[Any, int] | None) -> tuple[Any, int] | None:
        return right if left is None else left if right is None else better(left, right)

    return Summary(of, merge, None)


def _states(call: WindowCall, dictionary: Dictionary) -> Summary:
    """States of the aggregate's algorithm; merging leaves both as they are."""
    types = tuple(arg.type for arg in call.args)
    algorithm = aggregate_named(call.function).algorithm(types)

    def of(rows: Words) -> Partial:
        words = (operand(rows, arg, dictionary) for arg in call.args)
        columns = [values_of(one, type_, dictionary) for one, type_ in zip(words, types, strict=True)]
        state = algorithm.initialize()
        for operands in zip(*columns, strict=True):
            if operands[0] is not None:
                state = algorithm.add(state, operands, 1)
        return state

    def merge(left: Partial, right: Partial) -> Partial:
        return algorithm.merge(algorithm.merge(algorithm.initialize(), left), right)

    return Summary(of, merge, algorithm.initialize())


def summaries_of(calls: Sequence[WindowCall], dictionary: Dictionary) -> tuple[Summary, ...] | None:
    """Those of all calls; None if one has none."""
    found = [summary_of(call, dictionary) for call in calls]
    known = tuple(summary for summary in found if summary is not None)
    return known if len(known) == len(found) else None


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
        return summed(words, parts)
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


def answered(
    layout: Layout, answer: Answer, args: tuple[Words, ...], parts: tuple[Part, ...], shown: slice
) -> Words:
    """The function's value in each row that is shown; ``parts`` are of its frame, where it has one."""
    match answer:
        case Answer.FIRST_VALUE:
            return _nth(args[0], np.ones(parts[0][0].shape[0], np.int64), parts)
        case Answer.LAST_VALUE:
            return _last(args[0], parts)
        case Answer.NTH_VALUE:
            number = args[1][shown]
            if ((number <= 0) & (number != NULL)).any():
                raise DataError("the argument of nth_value must be greater than zero")
            return _nth(args[0], number, parts)
        case _:
            return _placed(layout, answer, args)[shown]


def _placed(layout: Layout, answer: Answer, args: tuple[Words, ...]) -> Words:
    """Of all rows, what their places in the partition tell."""
    match answer:
        case Answer.ROW_NUMBER:
            return layout.places - layout.start + 1 + layout.skipped
        case Answer.RANK:
            return _rank(layout)
        case Answer.DENSE_RANK:
            return layout.group - layout.group[layout.start] + 1 + layout.skipped_groups
        case Answer.PERCENT_RANK:
            others = layout.sizes - 1
            return words(np.where(others > 0, (_rank(layout) - 1) / np.maximum(others, 1), 0.0))
        case Answer.CUME_DIST:
            return words((layout.peer_end - layout.start + layout.skipped) / layout.sizes)
        case Answer.NTILE:
            return _bucket(layout, args[0])
        case Answer.LAG:
            return _neighbour(layout, args, -1)
        case Answer.LEAD:
            return _neighbour(layout, args, 1)
        case Answer.FIRST_VALUE | Answer.LAST_VALUE | Answer.NTH_VALUE:
            raise InternalError(f"{answer.name} is told by the frame")
        case _:
            assert_never(answer)


def _rank(layout: Layout) -> Words:
    return layout.peer_start - layout.start + 1 + layout.skipped


def _bucket(layout: Layout, buckets: Words) -> Words:
    """Of the first ``rows % n`` buckets each has one row more; ``n`` is that of the partition's first row."""
    number = buckets[layout.start]
    if ((number <= 0) & (number != NULL)).any():
        raise DataError("the argument of ntile must be greater than zero")
    known = np.maximum(number, 1)
    size, larger = np.divmod(layout.sizes, known)
    place = layout.places - layout.start + layout.skipped
    border = larger * (size + 1)
    bucket = np.where(place < border, place // (size + 1), larger + (place - border) // np.maximum(size, 1))
    return np.where(number == NULL, NULL, bucket + 1)


def bucket_starts(rows: int, buckets: int, most: int) -> Words:
    """Where each bucket but the first, up to so many, begins among so many rows."""
    size, larger = divmod(rows, buckets)
    number = np.arange(1, min(buckets, most), dtype=np.int64)
    return number * size + np.minimum(number, larger)


def _neighbour(layout: Layout, args: tuple[Words, ...], direction: int) -> Words:
    values = args[0]
    far = np.int64(values.shape[0])
    distance = args[1] if len(args) > 1 else np.ones_like(layout.start)
    place = layout.places + direction * np.clip(distance, -far, far)
    inside = (place >= layout.start) & (place < layout.end)
    default = args[2] if len(args) > 2 else np.full_like(layout.start, NULL)
    found = np.where(inside, values[np.where(inside, place, 0)], default)
    return np.where(distance == NULL, NULL, found)


def _nth(values: Words, number: Words, parts: tuple[Part, ...]) -> Words:
    """The value of the ``number``-th row of the parts together; NULL where there are fewer."""
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
class Around:
    """What is around a part of a partition that is laid out: which rows are ``shown``, and of the rows that
    are left out ``before`` and ``behind`` the partial aggregate of each call.
    """

    shown: slice
    before: Sequence[Partial]
    behind: Sequence[Partial]

    def ends(self, number: int, call: WindowCall) -> list[Partial]:
        """The partial aggregates that belong to a call's frames, at their unbounded ends."""
        found = []
        if call.frame.start.edge is Edge.UNBOUNDED_PRECEDING:
            found.append(self.before[number])
        if call.frame.end.edge is Edge.UNBOUNDED_FOLLOWING:
            found.append(self.behind[number])
        return found


def evaluated(
    layout: Layout, calls: Sequence[WindowCall], dictionary: Dictionary, around: "Around | None" = None
) -> Words:
    """``int64[calls, n]``; frames that several calls have are found once."""
    shown = slice(None) if around is None else around.shown
    result = np.empty((len(calls), layout.start[shown].shape[0]), np.int64)
    frames: dict[Frame, tuple[Part, ...]] = {}
    for number, call in enumerate(calls):
        function = window_function(call.function)
        parts: tuple[Part, ...] = ()
        if function is None or function.framed:
            if call.frame not in frames:
                found = parts_of(layout, call.frame, dictionary)
                frames[call.frame] = tuple((start[shown], end[shown]) for start, end in found)
            parts = frames[call.frame]
        args = tuple(operand(layout.data, arg, dictionary) for arg in call.args)
        if function is None:
            ends = () if around is None else around.ends(number, call)
            result[number] = aggregated(layout, call, args, parts, dictionary, ends)
        else:
            result[number] = answered(layout, function.answer, args, parts, shown)
    return result
