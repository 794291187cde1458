"""Text between workers: each string is sent once from one worker to another, and columns as codes.

A worker's codes are its own. On the way a text is a *common* word: the code that it has at the coordinator,
where most strings come from, or ``OWN`` and its number among those that the sender has made itself. The
receiver has for each sender an array from these numbers to its own codes.
"""

from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.records import dataclass
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

OWN: Final = 1 << 61
"""From here on common words are numbers of strings that the sender has made."""
LOWEST: Final = max(NULL, ERROR)
UNSAID: Final = -1
"""The common word of a string that nobody has been told of: it has none yet."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Strings that the receiver does not know: ``data[bounds[i]:bounds[i + 1]]``."""

    bounds: Words
    data: Bytes

    def __len__(self) -> int:
        return self.bounds.shape[0] - 1


NOTHING: Final = Delta(np.zeros(1, np.int64), np.empty(0, np.uint8))


class Strings:
    """Both sides of all channels of one worker; ``peers`` are the others, by number."""

    def __init__(self, dictionary: Dictionary, peers: int) -> None:
        self.dictionary = dictionary
        self._common: Words = np.empty(0, np.int64)
        """Of each own code the common word."""
        self._local: Words = np.empty(0, np.int64)
        """Of each code of the coordinator the own one."""
        self._own: list[int] = []
        """The codes of the strings that this worker has made and had to speak of, by their numbers."""
        self._theirs: list[Words] = [np.empty(0, np.int64) for _ in range(peers)]
        self._sent = [0] * peers

    apart: ClassVar[bool] = True
    """Whether a code means another string elsewhere."""

    def learn(self, delta: Delta) -> None:
        """Take strings that the coordinator has come to know."""
        if not len(delta):
            return
        self._note()
        known = len(self.dictionary)
        codes = self.dictionary.intern_parts(delta.bounds, delta.data)
        first = self._local.shape[0]
        self._local = np.concatenate((self._local, codes))
        made = len(self.dictionary) - known
        self._common = np.concatenate((self._common, np.empty(made, np.int64)))
        self._common[codes] = np.arange(first, first + codes.shape[0])

    def _note(self) -> None:
        """Make room for the strings that this worker has made since."""
        count, known = len(self.dictionary), self._common.shape[0]
        if count > known:
            self._common = np.concatenate((self._common, np.full(count - known, UNSAID)))

    def _number(self, codes: Words) -> None:
        """Have strings be spoken of, which others are told with the next delta."""
        made = len(self._own)
        self._own += codes.tolist()
        self._common[codes] = np.arange(OWN + made, OWN + made + codes.shape[0])

    def from_coordinator(self, words: Words) -> Words:
        """Its words as own ones."""
        return _through(self._local, words)

    def outgoing(self, words: Words) -> Words:
        """Own words as common ones."""
        self._note()
        found = _through(self._common, words)
        unsaid = found == UNSAID
        if not unsaid.any():
            return found
        self._number(np.unique(words[unsaid]))
        return _through(self._common, words)

    def delta(self, peer: int) -> Delta:
        """What a peer has to know in order to understand all that was outgoing."""
        codes = self._own[self._sent[peer] :]
        if not codes:
            return NOTHING
        self._sent[peer] = len(self._own)
        bounds, data = self.dictionary.parts(np.array(codes, np.int64))
        return Delta(bounds, data)

    def news(self, peer: int) -> Delta | None:
        """As :meth:`delta`; None if that is nothing."""
        delta = self.delta(peer)
        return delta if len(delta) else None

    def hear(self, peer: int, delta: Delta) -> None:
        """Take strings that a peer has made."""
        if len(delta):
            codes = self.dictionary.intern_parts(delta.bounds, delta.data)
            self._theirs[peer] = np.concatenate((self._theirs[peer], codes))

    def incoming(self, peer: int, words: Words) -> Words:
        """Common words of a peer as own ones."""
        made = words >= OWN
        if not made.any():
            return _through(self._local, words)
        out = np.empty_like(words)
        out[made] = self._theirs[peer][words[made] - OWN]
        out[~made] = _through(self._local, words[~made])
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

    def delta(self, peer: int) -> Delta:
        return NOTHING

    def incoming(self, peer: int, words: Words) -> Words:
        return words


class Told:
    """The coordinator's side: what it has told its workers, and what they have told it."""

    def __init__(self, dictionary: Dictionary, workers: int, *, apart: bool = True) -> None:
        """``apart``: they have dictionaries of their own."""
        self.dictionary = dictionary
        self._apart = apart
        self._told = 0
        self._theirs: list[Words] = [np.empty(0, np.int64) for _ in range(workers)]

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
            codes = self.dictionary.intern_parts(delta.bounds, delta.data)
            self._theirs[worker] = np.concatenate((self._theirs[worker], codes))

    def words(self, worker: int, words: Words) -> Words:
        """Common words of a worker as those of the coordinator."""
        made = words >= OWN
        if not made.any():
            return words
        out = words.copy()
        out[made] = self._theirs[worker][words[made] - OWN]
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
