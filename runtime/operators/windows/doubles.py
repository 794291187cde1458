"""Exact sums of doubles over frames: each as limbs of 32 bits, of which there are running totals.

A double is a whole number of up to 53 bits times a power of two, so it has bits in at most three limbs of a
fixed point number that is wide enough for all of them. Limbs are added up without loss; totals are rounded.
"""

from math import inf, ldexp, nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.operators.windows.frames import Part, floats
from kpg.runtime.types import NULL, float_to_word

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
