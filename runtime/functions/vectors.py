"""Numpy functions on columns of words, for what the expression machine has no instruction for."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kpg.runtime.types import ERROR, MIN_WORD, NULL

Words = np.ndarray[Any, np.dtype[np.int64]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]

SIGN_FLIP = 0x7FFFFFFFFFFFFFFF
"""XOR of a negative double's bits with it has words order as the values do."""
NAN_WORD = 0x7FF8000000000000
"""The one word of every NaN, above that of infinity."""


def to_doubles(words: Words) -> Doubles:
    """The doubles of words."""
    return np.where(words >= 0, words, words ^ SIGN_FLIP).view(np.float64)


def from_doubles(values: Doubles) -> Words:
    """The words of doubles; inverse of :func:`to_doubles`."""
    bits = (values + 0.0).view(np.int64)
    words = np.where(bits >= 0, bits, bits ^ SIGN_FLIP)
    return np.where(np.isnan(values), NAN_WORD, words)


def combine(result: Words, *operands: Words) -> Words:
    """``result``, but NULL or ERROR where an operand is; ERROR wins."""
    lowest = np.minimum.reduce(operands)
    if len(result) and lowest.min() < MIN_WORD:
        result = np.where(lowest < MIN_WORD, NULL, result)
        for operand in operands:
            result[operand == ERROR] = ERROR
    return result


def on_doubles(function: Callable[..., Doubles]) -> Callable[..., Words]:
    """A function of doubles as one of words; NaN from numbers and infinity from finite ones are ERROR."""

    def apply(*words: Words) -> Words:
        operands = [to_doubles(word) for word in words]
        with np.errstate(all="ignore"):
            values = np.asarray(function(*operands), dtype=np.float64)
            finite = np.logical_and.reduce([np.isfinite(operand) for operand in operands])
            numbers = ~np.logical_or.reduce([np.isnan(operand) for operand in operands])
        result = from_doubles(values)
        result[(finite & np.isinf(values)) | (numbers & np.isnan(values))] = ERROR
        return combine(result, *words)

    return apply


def unbounded(function: Callable[[Doubles], Doubles]) -> Callable[[Words], Words]:
    """A function of doubles as one of words, which is infinite where it is too large for a double."""

    def apply(words: Words) -> Words:
        with np.errstate(all="ignore"):
            return combine(from_doubles(function(to_doubles(words))), words)

    return apply


def _power(base: Doubles, exponent: Doubles) -> Doubles:
    values = np.power(base, exponent)
    complex_ = np.isneginf(base) & np.isfinite(exponent) & (exponent != np.trunc(exponent))
    values = np.where(complex_ | ((base == 0) & np.isneginf(exponent)), np.nan, values)
    vanished = (values == 0) & (base != 0) & np.isfinite(base) & np.isfinite(exponent)
    return np.where(vanished, np.inf, values)


floor = on_doubles(np.floor)
ceil = on_doubles(np.ceil)
trunc = on_doubles(np.trunc)
sqrt = on_doubles(np.sqrt)
cbrt = on_doubles(np.cbrt)
exp = on_doubles(np.exp)
ln = on_doubles(np.log)
log10 = on_doubles(np.log10)
power = on_doubles(_power)
remainder = on_doubles(np.fmod)
log_base = on_doubles(lambda base, value: np.log(value) / np.log(base))
round_half_even = on_doubles(np.rint)


def _round_places(value: Doubles, places: Doubles) -> Doubles:
    factor = 10.0**places
    scaled = np.abs(value) * factor
    rounded = np.copysign(np.floor(scaled + 0.5) / factor, value)
    return np.where(scaled < 2.0**52, rounded, value)


def round_places(words: Words, places: Words) -> Words:
    """A double rounded to some decimal places, half away from zero."""
    exact = from_doubles(np.clip(places, -300, 300).astype(np.float64))
    return combine(on_doubles(_round_places)(words, exact), words, places)


def to_real(words: Words) -> Words:
    """Doubles rounded to the nearest single-precision number; ERROR for those that would become 0."""
    result = on_doubles(lambda values: values.astype(np.float32).astype(np.float64))(words)
    result[(result == 0) & (words != 0)] = ERROR
    return result
