"""Whether written files come in the order of a key: their key columns are read and compared, nothing else."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import encode
from kpg.runtime.convert.encoding import SORTED_KINDS
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import Schema

Words = NDArray[np.int64]
Key = tuple[int, ...]

CHUNK_ROWS: Final = 1 << 18
"""Rows of key columns that are read at a time: a few megabytes."""


def order_key(schema: Schema) -> Schema | None:
    """The columns of the primary key, in its order, if its words have the order of its values."""
    columns = tuple(schema.columns[i] for i in schema.primary_key)
    if not columns or any(column.type.kind not in SORTED_KINDS for column in columns):
        return None
    return Schema(columns)


def in_order(files: Sequence[Path], key: Schema) -> list[Path] | None:
    """The files with rows so ordered that their keys ascend throughout; None if no order does that."""
    bounds: list[tuple[Key, Key, Path]] = []
    for file in files:
        first: Key | None = None
        last: Key | None = None
        for words in _keys(file, key):
            if not ascending(words) or (last is not None and _row(words, 0) < last):
                return None
            first, last = first or _row(words, 0), _row(words, -1)
        if first is not None and last is not None:
            bounds.append((first, last, file))
    bounds.sort()
    if any(earlier[1] > later[0] for earlier, later in pairwise(bounds)):
        return None
    return [file for _, _, file in bounds]


def ascending(words: Words) -> bool:
    """Whether the rows of ``words[ncols, n]`` ascend, compared column by column; equal ones may follow."""
    tie = np.ones(max(0, words.shape[1] - 1), np.bool_)
    for column in words:
        if (tie & (column[1:] < column[:-1])).any():
            return False
        tie &= column[1:] == column[:-1]
    return True


def _keys(file: Path, key: Schema) -> Iterator[Words]:
    with pq.ParquetFile(file, memory_map=True) as opened:
        batches = opened.iter_batches(CHUNK_ROWS, columns=list(key.names))
        yield from (encode(batch, key, Dictionary()) for batch in batches if batch.num_rows)


def _row(words: Words, position: int) -> Key:
    return tuple(int(word) for word in words[:, position])
