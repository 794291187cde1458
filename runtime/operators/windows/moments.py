"""Comoments over frames, ``sum(x * y) - sum(x) * sum(y) / n``: running totals of whole numbers without limit.

Doubles are whole numbers times a power of two that all of them share.
"""

from itertools import accumulate
from math import ldexp, nan

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.operators.windows.frames import Part, floats
from kpg.runtime.types import NULL, Type, float_to_word

Words = NDArray[np.int64]


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
