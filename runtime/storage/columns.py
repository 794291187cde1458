"""Columns of words as they are written: one word if all are the same, few bits a word if they are close.

A code is what a word is above the least one, after those of NULL and ERROR.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels.frames import bounds, encode
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]
Packed = int | Words | tuple[int, int, Words] | tuple[int, NDArray[Any]]
"""A column: the word of all rows; or the words; or the least word, the bits of a code, and words of codes;
or, in logs of version 2 and before, the least word and an array of codes."""

FEW: Final = 16
"""So few rows are written as they are."""
RESERVED: Final = {0: NULL, 1: ERROR}
BITS: Final = 64
WIDEST: Final = 32
"""Bits of a code at most: of wider ones no two go into a word."""


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
    width = (most - below).bit_length()
    if width > WIDEST:
        return column
    codes = np.empty(-(-column.shape[0] // (BITS // width)), np.int64)
    encode(column, below, width, codes)
    return least, width, codes


def unpack(packed: Words | tuple[Packed, ...], count: int) -> Words:
    """The rows that were packed, ``count`` of them."""
    if isinstance(packed, np.ndarray):
        return packed
    words = np.empty((len(packed), count), np.int64)
    for column, out in zip(packed, words, strict=True):
        if isinstance(column, tuple):
            out[:] = column[1] if len(column) == 2 else _decoded(*column[1:], count)
            _add(column[0], out)
        else:
            out[:] = column
    return words


def _decoded(width: int, words: Words, count: int) -> Words:
    """The codes of some rows; see ``kernels.frames.encode``."""
    shifts = np.arange(0, BITS - width + 1, width)[:, None]
    return ((words >> shifts) & ((1 << width) - 1)).reshape(-1)[:count]


def _add(least: int, codes: Words) -> None:
    """Have words stand where codes are."""
    reserved = {word: np.flatnonzero(codes == code) for code, word in RESERVED.items()}
    codes += least - len(RESERVED)
    for word, rows in reserved.items():
        codes[rows] = word
