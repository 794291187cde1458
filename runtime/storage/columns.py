"""Columns of words as they are written: one word if all are the same, few bytes a word if they are close.

A code is what a word is above the least one, after those of NULL and ERROR.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels.frames import bounds
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]
Packed = int | Words | tuple[int, NDArray[Any]]
"""A column: the word of all rows; or the words; or the least word, and codes."""

FEW: Final = 16
"""So few rows are written as they are."""
RESERVED: Final = {0: NULL, 1: ERROR}


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
    for size in (1, 2, 4):
        if most - least + len(RESERVED) < 1 << 8 * size:
            return least, _codes(column, least, reserved > 0, np.dtype(f"<u{size}"))
    return column


def _codes(column: Words, least: int, reserved: bool, kind: "np.dtype[Any]") -> NDArray[Any]:
    codes = np.empty(column.shape, kind)
    np.subtract(column, np.int64(least - len(RESERVED)), out=codes, casting="unsafe")
    if reserved:
        for code, word in RESERVED.items():
            codes[column == word] = code
    return codes


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
