"""From a view's words to rows: multiplicities spelled out, ORDER BY applied, hidden columns dropped."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kpg.runtime.types import NULL, Type

if TYPE_CHECKING:
    import pyarrow

Words = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class Order(Protocol):
    """One sort key, as ``compiler.algebra.rel.OrderBy``."""

    @property
    def column(self) -> int: ...
    @property
    def descending(self) -> bool: ...
    @property
    def nulls_first(self) -> bool: ...


class Strings(Protocol):
    """What is needed of ``runtime.data.dictionary.Dictionary``."""

    def decode(self, words: Words) -> list[str | None]: ...


def expand(data: Words, diff: Words) -> Words:
    """Each row of ``data`` (int64[w, n]) as often as ``diff`` (int64[n] or [1]) says."""
    diff = np.broadcast_to(diff, (data.shape[1],))
    if (diff == 1).all():
        return data
    return np.repeat(data, np.maximum(diff, 0), axis=1)


def permutation(data: Words, order: Sequence[Order], types: Sequence[Type], strings: Strings) -> Words:
    """The stable order of the columns of ``data`` (int64[w, n]) by ``order``; text compares by code point."""
    keys: list[Words] = []
    for item in order:
        words = data[item.column]
        ranks = _text_ranks(words, strings) if types[item.column].is_text else words
        null = words == NULL
        keys.append((null != item.nulls_first).astype(np.int64))
        # NULL is the smallest word, whose complement is the largest: complementing never overflows.
        keys.append(np.where(null, 0, ~ranks if item.descending else ranks))
    if not keys:
        return np.arange(data.shape[1])
    return np.lexsort(keys[::-1])


def _text_ranks(words: Words, strings: Strings) -> Words:
    codes, positions = np.unique(words, return_inverse=True)
    texts = strings.decode(codes)
    ranks = np.empty(len(codes), np.int64)
    ranks[sorted(range(len(codes)), key=lambda index: texts[index] or "")] = np.arange(len(codes))
    return ranks[positions]


def named(table: "pyarrow.Table", names: Sequence[str]) -> "pyarrow.Table":
    """The table under these column names, which may repeat."""
    return table.rename_columns(list(names))
