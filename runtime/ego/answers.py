"""The words of arrays: what the most frequent, and the distinct, values are told in.

An array's string is its elements' strings one after the other and an end, so that many are put together, and
interned, at once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.ids import Ids
from kpg.runtime.mfp.memo import values_of
from kpg.runtime.types import NULL, Type
from kpg.runtime.values import parts
from kpg.runtime.values.codec import codec_of

Words = NDArray[np.int64]


class Answers:
    """Arrays of elements of a type, of ``few`` each at most, or all: words of ``into``."""

    def __init__(self, type_: Type, few: int, dictionary: Dictionary, into: Dictionary) -> None:
        self._type = type_
        self._few = few
        self._dictionary = dictionary
        self._into = into
        self._codec = codec_of(type_)
        self._pieces = Dictionary()
        self._end = self._pieces.code(parts.joined(()))
        nothing = np.empty(0, np.int64)
        self._piece_of = Ids(nothing, nothing)
        self._values: dict[int, Any] = {}
        """The value of each piece, if words are in another order."""

    def words(self, elements: Words, groups: Words, sizes: Words) -> Words:
        """Arrays of words that stand one after the other, ``sizes`` of each: NULL for none.

        Within a group elements go by their values; whoever is behind the few is left out.
        """
        owner = np.repeat(np.arange(sizes.shape[0]), sizes)
        pieces = self._found(elements)
        if self._type.is_interned:
            order = np.lexsort((self._ranks(pieces), groups, owner))
            pieces = pieces[order]
        heads = np.cumsum(sizes) - sizes
        if self._few:
            kept = np.arange(pieces.shape[0]) - np.repeat(heads, sizes) < self._few
            pieces, owner = pieces[kept], owner[kept]
        there = np.flatnonzero(sizes)
        ends = np.searchsorted(owner, there, side="right")
        bounds, data = self._pieces.parts(np.insert(pieces, ends, self._end))
        places = np.concatenate((np.zeros(1, np.int64), ends + np.arange(1, there.shape[0] + 1)))
        words = np.full(sizes.shape[0], NULL, np.int64)
        words[there] = self._into.intern_parts(bounds[places], data)
        return words

    def _found(self, elements: Words) -> Words:
        """The piece of each element."""
        pieces = self._piece_of.find(elements)
        if (pieces < 0).any():
            fresh = np.unique(elements[pieces < 0])
            values = values_of(fresh, self._type, self._dictionary)
            strings = [parts.joined((self._codec.encode(value),))[:-1] for value in values]
            made = self._pieces.intern(strings)
            self._piece_of.put(fresh, made)
            if self._type.is_interned:
                self._values |= zip(made.tolist(), values, strict=True)
            pieces = self._piece_of.find(elements)
        return pieces

    def _ranks(self, pieces: Words) -> Words:
        """Numbers in the order of the elements' values."""
        known, place = np.unique(pieces, return_inverse=True)
        values = [self._values[piece] for piece in known.tolist()]
        ranks = np.empty(known.shape[0], np.int64)
        ranks[sorted(range(known.shape[0]), key=values.__getitem__)] = np.arange(known.shape[0])
        return ranks[place]

    @property
    def bytes(self) -> int:
        """What is kept."""
        return self._pieces.bytes + self._piece_of.bytes
