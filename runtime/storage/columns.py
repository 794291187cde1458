"""Columns of words as they are written: one word if all are the same, few bytes a word if they are close.

A code is what a word is above the least one, after those of NULL and ERROR.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels.frames import bounds, encode_bytes, encode_fours, encode_pairs
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]
Packed = int | Words | tuple[int, NDArray[Any]]
"""A column: the word of all rows; or the words; or the least word, and codes."""

FEW: Final = 16
"""So few rows are written as they are."""
RESERVED: Final = {0: NULL, 1: ERROR}
ENCODED: Final = {"<u1": encode_bytes, "<u2": encode_pairs, "<u4": encode_fours}
"""Kinds of codes, the smaller ones first, and the kernel that writes them."""


def pack(words: Words) -> Words | tuple[Packed, ...]:
    """Rows ``int64[ncols, n]``: themselves if they are few, else by columns."""
    if words.shape[1] <= FEW:
        return words
    found = np.zeros(2, np.int64)
    return tuple(_packed(np.ascontiguousarray(column), found) for column in words)


def _packed(column: Words, found: Words) -> Packed:
    reserved = bounds(column, found)
    least, most = found.tolist()
    if reserved == column.shape[0]:
        least = most = 0
    if reserved in (0, column.shape[0]) and least == most and not (column != column[0]).any():
        return int(column[0])
    below = least - len(RESERVED)
    for kind, encode in ENCODED.items():
        if most - below < 1 << 8 * np.dtype(kind).itemsize:
            codes = np.empty(column.shape, kind)
            encode(column, below, codes)
            return least, codes
    return column


def unpack(packed: Words | tuple[Packed, ...], count: int) -> Words:
    """The rows that were packed, ``count`` of them."""
    if isinstance(packed, np.ndarray):
        return packed
    words = np.empty((len(packed), count), np.int64)
    for place, column in enumerate(packed):
        if isinstance(column, tuple):
            least, codes = column
            np.add(codes, np.int64(least - len(RESERVED)), out=words[place], casting="unsafe")
            if codes.min() < len(RESERVED):
                for code, word in RESERVED.items():
                    words[place][codes == code] = word
        else:
            words[place] = column
    return words
