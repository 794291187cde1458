"""Doubles and their words, whole arrays at a time: vectorised ``types.float_to_word`` and its inverse."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]

FLIP: Final = np.int64(0x7FFFFFFFFFFFFFFF)
"""XOR of a negative double's bits with it has words order as the values do."""
NAN_WORD: Final = 0x7FF8000000000000
"""The one word of every NaN, above that of infinity."""


def float_words(values: NDArray[np.float64]) -> Words:
    """The order-preserving words of doubles."""
    bits = (values + 0.0).view(np.int64)
    words = np.where(bits < 0, bits ^ FLIP, bits)
    words[np.isnan(values)] = NAN_WORD
    return words


def word_floats(words: Words) -> NDArray[np.float64]:
    """The doubles of words: inverse of :func:`float_words`."""
    return np.where(words < 0, words ^ FLIP, words).view(np.float64)
