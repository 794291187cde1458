"""Words, rows and times at random, and columns as lists of tuples."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.types import ERROR, MAX_WORD, MIN_WORD, NULL
from tests.model.references import Random

Words = NDArray[np.int64]
Row = tuple[int, ...]
EDGES = np.array([NULL, ERROR, MIN_WORD, MIN_WORD + 1, -1, 0, 1, MAX_WORD - 1, MAX_WORD])
SIZES = (0, 1, 2, 3, 17, 24, 25, 63, 64, 65, 200, 700)
"""Of inputs: nothing, and what lies at both sides of the sizes at which kernels change their ways."""


def size(random: Random, least: int = 0) -> int:
    """A number of rows."""
    return max(least, int(random.choice(SIZES)))


def words(random: Random, *shape: int) -> Words:
    """Few values, all values, or those at the edges."""
    kind = random.integers(4)
    if kind == 0:
        return random.integers(0, 4, shape)
    if kind == 1:
        return random.integers(-(2**63), 2**63 - 1, shape, endpoint=True)
    if kind == 2:
        return EDGES[random.integers(0, len(EDGES), shape)]
    return random.integers(-40, 40, shape)


def times(random: Random, depth: int, n: int) -> Words:
    """Times ``int64[depth, n]``, or one of all."""
    return random.integers(0, 4, (depth, n if random.random() < 0.6 else 1))


def diffs(random: Random, n: int) -> Words:
    """Diffs ``int64[n]`` other than 0, or one of all."""
    if random.random() < 0.3:
        return random.choice([-1, 1, 2], 1).astype(np.int64)
    return random.choice([-2, -1, 1, 1, 3], n).astype(np.int64)


def tuples(columns: Words, n: int | None = None) -> list[Row]:
    """The columns ``int64[width, n]`` as rows; one column stands for ``n`` that are equal."""
    count = columns.shape[1] if n is None else n
    if columns.shape[1] == 1 != count:
        columns = np.repeat(columns, count, axis=1)
    return [tuple(row) for row in columns[:, :count].T.tolist()] if columns.shape[0] else [()] * count


def spread(values: Words, n: int) -> list[int]:
    """The values, of which one stands for ``n`` that are equal."""
    return values.tolist() if values.shape[0] == n else values.tolist() * n


def columns(rows: list[Row], width: int) -> Words:
    """Rows as ``int64[width, n]``."""
    return np.ascontiguousarray(np.array(rows, np.int64).reshape(len(rows), width).T)


def fits(value: int) -> bool:
    """Whether a sum is a signed number of 64 bits."""
    return -(2**63) <= value < 2**63


def wrapped(value: int) -> int:
    """A sum as 64 bits have it."""
    return (value + 2**63) % 2**64 - 2**63
