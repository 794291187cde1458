"""Text columns between workers: each string is sent once from one worker to another, then its code.

Codes are local to a worker. In messages, a text is a *common* word: its code at the coordinator, where most
strings originate, or ``OWN`` plus a number that the sender gave the string. For each sender, the receiver
maps these numbers to its own codes. Numbers used among members are separate from those used with the
coordinator: the coordinator sends everything it knows to all members and does not see their exchanges.

:class:`Owners` finds the owner of a row by hashing the value, not the code.
"""

from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.kernels import shards as kernels
from kpg.runtime.records import dataclass
from kpg.runtime.tables.row_groups import RowGroups
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]


Bytes = NDArray[np.uint8]

OWN: Final = 1 << 61
"""From here on common words are numbers of strings that the sender has made."""
LOWEST: Final = max(NULL, ERROR)
UNSAID: Final = -1
"""The common word of a string that nobody has been told of: it has none yet."""
FIRST_ROOM: Final = 64
MANY: Final = 32
"""Of so many times fewer codes than there are it is quicker to sort them than to look through all."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Strings that the receiver does not know: ``data[bounds[i]:bounds[i + 1]]``."""

    bounds: Words
    data: Bytes

    def __len__(self) -> int:
        return self.bounds.shape[0] - 1


NOTHING: Final = Delta(np.zeros(1, np.int64), np.empty(0, np.uint8))


class _Grown:
    """Words to which more are added, in the time that these take."""

    def __init__(self) -> None:
        self._room: Words = np.empty(FIRST_ROOM, np.int64)
        self.count = 0

    @property
    def words(self) -> Words:
        """All of them."""
        return self._room[: self.count]

    def add(self, more: Words) -> None:
        """Have more words behind them."""
        end = self.count + more.shape[0]
        if end > self._room.shape[0]:
            room = np.empty(max(end, 2 * self._room.shape[0]), np.int64)
            room[: self.count] = self.words
            self._room = room
        self._room[self.count : end] = more
        self.count = end


class _Spoken:
    """What a worker says to some others, all of which hear of the same strings by the same numbers."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._common = _Grown()
        """Of each own code the common word."""
        self._said = _Grown()
        """The codes of the strings that this worker had to speak of, by their numbers."""

    def _note(self) -> None:
        """Make room for the strings that have come since."""
        more = len(self._dictionary) - self._common.count
        if more > 0:
            self._common.add(np.full(more, UNSAID))

    def learn(self, codes: Words, first: int) -> None:
        """The strings of these codes have numbers from ``first`` on at the coordinator."""
        self._note()
        self._common.words[codes] = np.arange(first, first + codes.shape[0])

    def outgoing(self, words: Words) -> Words:
        """Own words as common ones."""
        self._note()
        common = self._common.words
        found = _through(common, words)
        unsaid = found == UNSAID
        if not unsaid.any():
            return found
        codes = self._distinct(words[unsaid])
        first = OWN + self._said.count
        common[codes] = np.arange(first, first + codes.shape[0])
        self._said.add(codes)
        return _through(common, words)

    def _distinct(self, codes: Words) -> Words:
        if MANY * codes.shape[0] < self._common.count:
            return np.unique(codes)
        found = np.zeros(self._common.count, np.bool_)
        found[codes] = True
        return np.flatnonzero(found)

    @property
    def count(self) -> int:
        """How many strings others were to hear of."""
        return self._said.count

    def since(self, first: int) -> Delta:
        """The strings from a number on."""
        if first == self._said.count:
            return NOTHING
        return Delta(*self._dictionary.parts(self._said.words[first:]))


class Strings:
    """Both sides of all channels of one worker; ``peers`` are the others, by number."""

    def __init__(self, dictionary: Dictionary, peers: int) -> None:
        self.dictionary = dictionary
        self._local = _Grown()
        """Of each code of the coordinator the own one."""
        self._among = _Spoken(dictionary)
        self._upwards = _Spoken(dictionary)
        self._theirs = [_Grown() for _ in range(peers)]
        self._sent = [0] * peers
        self._reported = 0

    apart: ClassVar[bool] = True
    """Whether a code means another string elsewhere."""

    def learn(self, delta: Delta) -> None:
        """Take strings that the coordinator has come to know."""
        if not len(delta):
            return
        codes = self.dictionary.intern_parts(delta.bounds, delta.data)
        for spoken in (self._among, self._upwards):
            spoken.learn(codes, self._local.count)
        self._local.add(codes)

    def from_coordinator(self, words: Words) -> Words:
        """Its words as own ones."""
        return _through(self._local.words, words)

    def outgoing(self, words: Words) -> Words:
        """Own words as common ones, for other workers."""
        return self._among.outgoing(words)

    def reported(self, words: Words) -> Words:
        """Own words as common ones, for the coordinator."""
        return self._upwards.outgoing(words)

    def delta(self, peer: int) -> Delta:
        """What a peer has to know in order to understand all that was outgoing."""
        first, self._sent[peer] = self._sent[peer], self._among.count
        return self._among.since(first)

    def news(self) -> Delta | None:
        """What the coordinator has to know in order to understand what was reported; None if nothing."""
        first, self._reported = self._reported, self._upwards.count
        return self._upwards.since(first) if first < self._reported else None

    def hear(self, peer: int, delta: Delta) -> None:
        """Take strings that a peer has made."""
        if len(delta):
            self._theirs[peer].add(self.dictionary.intern_parts(delta.bounds, delta.data))

    def incoming(self, peer: int, words: Words) -> Words:
        """Common words of a peer as own ones."""
        made = words >= OWN
        if not made.any():
            return _through(self._local.words, words)
        out = np.empty_like(words)
        out[made] = self._theirs[peer].words[words[made] - OWN]
        out[~made] = _through(self._local.words, words[~made])
        return out


class OneForAll(Strings):
    """Workers that have one dictionary: a code is the same everywhere, and nobody need be told of any."""

    apart = False

    def learn(self, delta: Delta) -> None:
        """Nothing is sent."""

    def from_coordinator(self, words: Words) -> Words:
        return words

    def outgoing(self, words: Words) -> Words:
        return words

    def reported(self, words: Words) -> Words:
        return words

    def delta(self, peer: int) -> Delta:
        return NOTHING

    def news(self) -> Delta | None:
        return None

    def incoming(self, peer: int, words: Words) -> Words:
        return words


class Told:
    """The coordinator's side: what it has told its workers, and what they have told it."""

    def __init__(self, dictionary: Dictionary, workers: int, *, apart: bool = True) -> None:
        """``apart``: they have dictionaries of their own."""
        self.dictionary = dictionary
        self._apart = apart
        self._told = 0
        self._theirs = [_Grown() for _ in range(workers)]

    def delta(self) -> Delta:
        """What all workers are to learn before anything else."""
        first, count = self._told, len(self.dictionary)
        if count == first or not self._apart:
            return NOTHING
        self._told = count
        bounds, data = self.dictionary.parts(np.arange(first, count))
        return Delta(bounds, data)

    def news(self) -> Delta | None:
        """As :meth:`delta`; None if that is nothing."""
        delta = self.delta()
        return delta if len(delta) else None

    def untold(self, delta: Delta | None) -> None:
        """What was to be told last was not."""
        if delta is not None:
            self._told -= len(delta)

    def hear(self, worker: int, delta: Delta | None) -> None:
        """Take strings that a worker has made."""
        if delta is not None and len(delta):
            self._theirs[worker].add(self.dictionary.intern_parts(delta.bounds, delta.data))

    def words(self, worker: int, words: Words) -> Words:
        """Common words of a worker as those of the coordinator."""
        made = words >= OWN
        if not made.any():
            return words
        out = words.copy()
        out[made] = self._theirs[worker].words[words[made] - OWN]
        return out


def _through(table: Words, words: Words) -> Words:
    """What a table has for each word, NULL and ERROR as they are."""
    if not words.shape[0]:
        return words
    special = words <= LOWEST
    if special.any():
        out = words.copy()
        out[~special] = table[words[~special]]
        return out
    return table[words]


FEW: Final = 4
"""Workers up to which it is quickest to look for the rows of each."""


class Owners:
    """The owners of words among ``count`` workers; those of texts are found once."""

    def __init__(self, dictionary: Dictionary, count: int, *, apart: bool) -> None:
        """``apart``: codes are a worker's own, so that whose a text is, is told by what it is."""
        self.count = count
        self._apart = apart
        self._dictionary = dictionary
        self._texts: Words = np.empty(0, np.int64)

    def of(self, words: Words, *, interned: bool) -> Words:
        """The number of each word's worker."""
        out = np.empty(words.shape[0], np.int64)
        words = np.ascontiguousarray(words)
        if not self._apart:
            kernels.near_owners(words, self.count, out)
            return out
        if not interned:
            kernels.owners(words, self.count, out)
            return out
        self._extend()
        special = words <= LOWEST
        out[~special] = self._texts[words[~special]]
        out[special] = 0
        return out

    def places(self, words: Words, *, interned: bool) -> list[Words]:
        """Of each worker the places of its words, ascending."""
        owners, count = self.of(words, interned=interned), self.count
        if count <= FEW:
            return [np.flatnonzero(owners == worker) for worker in range(count)]
        narrow = owners.astype(np.uint8 if count <= 1 << 8 else np.uint16)  # which are sorted by counting
        order = np.argsort(narrow, kind="stable")
        ends = np.cumsum(np.bincount(owners, minlength=count)).tolist()
        return [order[start:end] for start, end in pairwise([0, *ends])]

    def mine(self, words: Words, values: Words, index: int, *, interned: bool) -> Words:
        """The values beside the words that are worker ``index``'s."""
        if self._apart:
            return values[self.of(words, interned=interned) == index]
        out = np.empty(words.shape[0], np.int64)
        words, values = np.ascontiguousarray(words), np.ascontiguousarray(values)
        return out[: kernels.near_mine(words, values, self.count, index, out)]

    def rows(self, groups: RowGroups, column: int, rowids: Words, index: int, *, interned: bool) -> Words:
        """The rowids whose rows have a word of worker ``index`` in a column."""
        rowids = np.ascontiguousarray(rowids)
        if self._apart:
            words = groups.read(np.array([column], np.int64), rowids)[0]
            return self.mine(words, rowids, index, interned=interned)
        out = np.empty(rowids.shape[0], np.int64)
        return out[: kernels.near_rows(groups.directory, column, rowids, self.count, index, out)]

    def _extend(self) -> None:
        known, count = self._texts.shape[0], len(self._dictionary)
        if count > known:
            more = np.empty(count - known, np.int64)
            kernels.text_owners(self._dictionary.arena, self._dictionary.offsets, known, self.count, more)
            self._texts = np.concatenate((self._texts, more))
