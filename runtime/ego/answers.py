"""Lists of the most frequent, or the distinct, values: as elements, and as the words of arrays.

An array's string is its elements' strings one after the other and an end, so that many are put together, and
interned, at once. Whoever is content with elements interns nothing.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.bags import Bags
from kpg.runtime.ego.ids import Ids
from kpg.runtime.kernels import bags as kernels
from kpg.runtime.mfp.memo import values_of
from kpg.runtime.types import NULL, Type
from kpg.runtime.values import parts
from kpg.runtime.values.codec import codec_of

Words = NDArray[np.int64]
MANY_PIECES: Final = 1 << 20
"""Elements' strings that are remembered: of more all are forgotten."""
LEAST_ROOM: Final = 1 << 18
"""Words of lists that are known: so many there may always be, or twice as many as bags' tables have rows."""


class Answers:
    """Arrays of elements of a type, of ``few`` each at most, or all."""

    def __init__(self, type_: Type, few: int, dictionary: Dictionary) -> None:
        self._type = type_
        self._few = few
        self._dictionary = dictionary
        self._codec = codec_of(type_)
        self.sorts = type_.is_interned
        """Whether words are in another order than values: elements come in no order then, and too many."""
        self._begin()

    def _begin(self) -> None:
        """Know no elements."""
        self._pieces = Dictionary()
        self._end = self._pieces.code(parts.joined(()))
        nothing = np.empty(0, np.int64)
        self._piece_of = Ids(nothing, nothing)
        self._values: dict[int, Any] = {}
        """The value of each piece, if words are in another order."""

    def ordered(self, found: Words, sizes: Words) -> tuple[Words, Words]:
        """Elements of lists that stand one after the other, ``sizes`` of each, in order; and how many then.

        ``found`` has their words, and for each the number of its group, within which elements go by their
        values; whoever is behind the few is left out.
        """
        elements, groups = found[:, : int(sizes.sum())]
        if not self.sorts:
            return elements, sizes
        owner = np.repeat(np.arange(sizes.shape[0]), sizes)
        elements = elements[np.lexsort((self._ranks(self._found(elements)), groups, owner))]
        if not self._few:
            return elements, sizes
        heads = np.cumsum(sizes) - sizes
        kept = np.arange(elements.shape[0]) - np.repeat(heads, sizes) < self._few
        return elements[kept], np.minimum(sizes, self._few)

    def words(self, sizes: Words, elements: Words) -> Words:
        """Words of arrays of elements that stand one after the other, ``sizes`` of each: NULL for none."""
        pieces = self._found(elements)
        there = np.flatnonzero(sizes)
        ends = np.cumsum(sizes)[there]
        bounds, data = self._pieces.parts(np.insert(pieces, ends, self._end))
        places = np.concatenate((np.zeros(1, np.int64), ends + np.arange(1, there.shape[0] + 1)))
        words = np.full(sizes.shape[0], NULL, np.int64)
        words[there] = self._dictionary.intern_parts(bounds[places], data)
        return words

    def _found(self, elements: Words) -> Words:
        """The piece of each element."""
        if len(self._pieces) > MANY_PIECES:
            self._begin()
        pieces = self._piece_of.find(elements)
        if (pieces < 0).any():
            fresh = np.unique(elements[pieces < 0])
            values = values_of(fresh, self._type, self._dictionary)
            strings = [parts.joined((self._codec.encode(value),))[:-1] for value in values]
            made = self._pieces.intern(strings)
            self._piece_of.put(fresh, made)
            if self.sorts:
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


class Known:
    """What pushed nodes were found to answer, in one log; their bags' heads say where, until they change.

    Where the log is full, much of it of what has changed since, all of it is forgotten.
    """

    def __init__(self) -> None:
        self._log: Words = np.empty(1 << 12, np.int64)
        self._state: Words = np.zeros(2, np.int64)
        """How many words of the log are taken, and of how many lists there was no room for the last ones."""

    def make_room(self, bags: Bags) -> None:
        """If there was too little the last time."""
        if not self._state[1]:
            return
        self._state[1] = 0
        if self._log.shape[0] < max(LEAST_ROOM, 2 * bags.table.shape[0]):
            self._log = np.concatenate((self._log, np.empty_like(self._log)))
        else:
            bags.answer[:] = kernels.FREE
            self._state[0] = 0

    def hand_out(
        self, nodes: Words, size: Words, found: Words, pushed: NDArray[np.uint8], bags: Bags
    ) -> Words:
        """The elements of all nodes' lists, of which those are ``found`` that were not known.

        ``size`` is how many there are of each of these, ``KNOWN``, or ``SAME`` and where the node came
        before; afterwards it is how many there are of each.
        """
        places = np.empty(nodes.shape[0], np.int64)
        elements = np.empty(kernels.placed(nodes, size, bags.heads, self._log, places), np.int64)
        kernels.handed(nodes, size, places, found, pushed, bags.heads, self._log, self._state, elements)
        return elements

    @property
    def bytes(self) -> int:
        """What is kept."""
        return self._log.nbytes
