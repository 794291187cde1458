"""Text columns between workers: each string is sent once from one worker to another, then its code.

Codes are local to a worker. In messages, a text is a *common code*: its code at the coordinator,
where most strings originate, or ``FIRST_LOCAL`` plus a number that the sender assigned to the
string. For each sender, the receiver maps these numbers to its own codes. Numbers used among
members are separate from those used with the coordinator: the coordinator sends every string to all
members and does not see their exchanges.

:class:`Owners` finds the owner of a row by hashing the value, not the code.
"""

from collections.abc import Sequence
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

FIRST_LOCAL: Final = 1 << 61
"""Common codes from here on are numbers of strings that the sender has introduced."""
MAX_SPECIAL: Final = max(NULL, ERROR)
"""Words up to this one are NULL or ERROR."""
NO_CODE: Final = -1
"""Common code of a string that has not been sent."""
FIRST_ROOM: Final = 64
SORT_RATIO: Final = 32
"""Codes are sorted if the dictionary is this many times larger.

Otherwise a scan over all codes is faster.
"""


@dataclass(frozen=True, slots=True)
class StringDelta:
    """Strings that the receiver does not have: ``data[bounds[i]:bounds[i + 1]]``."""

    bounds: Words
    data: Bytes

    def __len__(self) -> int:
        return self.bounds.shape[0] - 1


NO_STRINGS: Final = StringDelta(np.zeros(1, np.int64), np.empty(0, np.uint8))


class _GrowingArray:
    """Array of words with amortized appends."""

    def __init__(self) -> None:
        self._room: Words = np.empty(FIRST_ROOM, np.int64)
        self.count = 0

    @property
    def words(self) -> Words:
        """All words."""
        return self._room[: self.count]

    def extend(self, words: Words) -> None:
        """Append words."""
        end = self.count + words.shape[0]
        if end > self._room.shape[0]:
            room = np.empty(max(end, 2 * self._room.shape[0]), np.int64)
            room[: self.count] = self.words
            self._room = room
        self._room[self.count : end] = words
        self.count = end


class _OutgoingStrings:
    """Common codes for a set of receivers that have all received the same strings."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._common_codes = _GrowingArray()
        """Common code of each local code."""
        self._sent_codes = _GrowingArray()
        """Local codes of the strings that this worker has introduced, by number."""

    def _extend_codes(self) -> None:
        """Add the strings that the dictionary has gained."""
        new_count = len(self._dictionary) - self._common_codes.count
        if new_count > 0:
            self._common_codes.extend(np.full(new_count, NO_CODE))

    def set_coordinator_codes(self, codes: Words, first: int) -> None:
        """Record that the strings of these codes have numbers from ``first`` on at the coordinator."""
        self._extend_codes()
        self._common_codes.words[codes] = np.arange(first, first + codes.shape[0])

    def encode(self, words: Words) -> Words:
        """Translate local words to common ones."""
        self._extend_codes()
        common = self._common_codes.words
        translated = _translate(common, words)
        is_new = translated == NO_CODE
        if not is_new.any():
            return translated
        codes = self._distinct(words[is_new])
        first = FIRST_LOCAL + self._sent_codes.count
        common[codes] = np.arange(first, first + codes.shape[0])
        self._sent_codes.extend(codes)
        return _translate(common, words)

    def _distinct(self, codes: Words) -> Words:
        if SORT_RATIO * codes.shape[0] < self._common_codes.count:
            return np.unique(codes)
        occurs = np.zeros(self._common_codes.count, np.bool_)
        occurs[codes] = True
        return np.flatnonzero(occurs)

    @property
    def count(self) -> int:
        """Number of strings introduced."""
        return self._sent_codes.count

    def since(self, first: int) -> StringDelta:
        """Return the strings introduced from number ``first`` on."""
        if first == self._sent_codes.count:
            return NO_STRINGS
        return StringDelta(*self._dictionary.parts(self._sent_codes.words[first:]))


class WorkerStrings:
    """Translation of codes between one worker and the others; peers are numbered."""

    def __init__(self, dictionary: Dictionary, peers: int) -> None:
        self.dictionary = dictionary
        self._coordinator_codes = _GrowingArray()
        """Local code of each code of the coordinator."""
        self._to_peers = _OutgoingStrings(dictionary)
        self._to_coordinator = _OutgoingStrings(dictionary)
        self._peer_codes = [_GrowingArray() for _ in range(peers)]
        self._sent_counts = [0] * peers
        self._reported_count = 0

    has_local_codes: ClassVar[bool] = True
    """Whether workers have dictionaries of their own, so that codes differ between them."""

    def add_coordinator_strings(self, delta: StringDelta) -> None:
        """Add strings of the coordinator."""
        if not len(delta):
            return
        codes = self.dictionary.intern_parts(delta.bounds, delta.data)
        for spoken in (self._to_peers, self._to_coordinator):
            spoken.set_coordinator_codes(codes, self._coordinator_codes.count)
        self._coordinator_codes.extend(codes)

    def decode_from_coordinator(self, words: Words) -> Words:
        """Translate the coordinator's words to local ones."""
        return _translate(self._coordinator_codes.words, words)

    def encode(self, words: Words) -> Words:
        """Translate local words to common ones, for other workers."""
        return self._to_peers.encode(words)

    def encode_for_coordinator(self, words: Words) -> Words:
        """Translate local words to common ones, for the coordinator."""
        return self._to_coordinator.encode(words)

    def decode_rows(self, rows: Words, text_columns: Sequence[int]) -> Words:
        """Return rows ``int64[width, n]`` of the coordinator in local words."""
        if not text_columns:
            return rows
        rows = rows.copy()
        for column in text_columns:
            rows[column] = self.decode_from_coordinator(rows[column])
        return rows

    def encode_rows(self, rows: Words, text_columns: Sequence[int]) -> Words:
        """Return local rows ``int64[width, n]`` in common words, for the coordinator."""
        if not text_columns:
            return rows
        rows = rows.copy()
        for column in text_columns:
            rows[column] = self.encode_for_coordinator(rows[column])
        return rows

    def take_delta(self, peer: int) -> StringDelta:
        """Return the strings that a peer needs to decode everything encoded so far."""
        first, self._sent_counts[peer] = self._sent_counts[peer], self._to_peers.count
        return self._to_peers.since(first)

    def take_coordinator_delta(self) -> StringDelta | None:
        """Return the strings that the coordinator needs to decode everything encoded for it.

        Returns None if there are none.
        """
        first, self._reported_count = self._reported_count, self._to_coordinator.count
        return self._to_coordinator.since(first) if first < self._reported_count else None

    def add_peer_strings(self, peer: int, delta: StringDelta) -> None:
        """Add strings that a peer has introduced."""
        if len(delta):
            self._peer_codes[peer].extend(self.dictionary.intern_parts(delta.bounds, delta.data))

    def decode_from_peer(self, peer: int, words: Words) -> Words:
        """Translate a peer's common words to local ones."""
        is_introduced = words >= FIRST_LOCAL
        if not is_introduced.any():
            return _translate(self._coordinator_codes.words, words)
        out = np.empty_like(words)
        out[is_introduced] = self._peer_codes[peer].words[words[is_introduced] - FIRST_LOCAL]
        out[~is_introduced] = _translate(self._coordinator_codes.words, words[~is_introduced])
        return out


class SharedStrings(WorkerStrings):
    """Workers with a shared dictionary: codes are equal everywhere and no strings are sent."""

    has_local_codes = False

    def add_coordinator_strings(self, delta: StringDelta) -> None:
        """Do nothing: the dictionary has the strings already."""

    def decode_from_coordinator(self, words: Words) -> Words:
        return words

    def encode(self, words: Words) -> Words:
        return words

    def encode_for_coordinator(self, words: Words) -> Words:
        return words

    def take_delta(self, peer: int) -> StringDelta:
        return NO_STRINGS

    def take_coordinator_delta(self) -> StringDelta | None:
        return None

    def decode_from_peer(self, peer: int, words: Words) -> Words:
        return words


class CoordinatorStrings:
    """The coordinator's side: strings sent to its workers and received from them."""

    def __init__(self, dictionary: Dictionary, workers: int, *, has_local_codes: bool = True) -> None:
        """Create the state; with ``has_local_codes`` the workers have dictionaries of their own."""
        self.dictionary = dictionary
        self._has_local_codes = has_local_codes
        self._sent_count = 0
        self._worker_codes = [_GrowingArray() for _ in range(workers)]

    def take_delta(self) -> StringDelta:
        """Return the strings that all workers must add before they process anything else."""
        first, count = self._sent_count, len(self.dictionary)
        if count == first or not self._has_local_codes:
            return NO_STRINGS
        self._sent_count = count
        bounds, data = self.dictionary.parts(np.arange(first, count))
        return StringDelta(bounds, data)

    def take_nonempty_delta(self) -> StringDelta | None:
        """Return :meth:`take_delta`, or None if it is empty."""
        delta = self.take_delta()
        return delta if len(delta) else None

    def restore_delta(self, delta: StringDelta | None) -> None:
        """Mark a delta that could not be sent as unsent."""
        if delta is not None:
            self._sent_count -= len(delta)

    def add_worker_strings(self, worker: int, delta: StringDelta | None) -> None:
        """Add strings that a worker has introduced."""
        if delta is not None and len(delta):
            self._worker_codes[worker].extend(self.dictionary.intern_parts(delta.bounds, delta.data))

    def decode(self, worker: int, words: Words) -> Words:
        """Translate a worker's common words to the coordinator's."""
        is_introduced = words >= FIRST_LOCAL
        if not is_introduced.any():
            return words
        out = words.copy()
        out[is_introduced] = self._worker_codes[worker].words[words[is_introduced] - FIRST_LOCAL]
        return out


def _translate(table: Words, words: Words) -> Words:
    """Look each word up in a table; NULL and ERROR stay."""
    if not words.shape[0]:
        return words
    special = words <= MAX_SPECIAL
    if special.any():
        out = words.copy()
        out[~special] = table[words[~special]]
        return out
    return table[words]


FEW_WORKERS: Final = 4
"""Workers up to which one comparison per worker is fastest."""


class Owners:
    """Owners of words among ``count`` workers; those of texts are computed once per string."""

    def __init__(self, dictionary: Dictionary, count: int, *, has_local_codes: bool) -> None:
        """Create the table; with ``has_local_codes`` a text's owner depends on the string, not the code."""
        self.count = count
        self._has_local_codes = has_local_codes
        self._dictionary = dictionary
        self._text_owners: Words = np.empty(0, np.int64)

    def owners(self, words: Words, *, interned: bool) -> Words:
        """Return the number of each word's worker."""
        out = np.empty(words.shape[0], np.int64)
        words = np.ascontiguousarray(words)
        if not self._has_local_codes:
            kernels.near_owners(words, self.count, out)
            return out
        if not interned:
            kernels.owners(words, self.count, out)
            return out
        self._extend()
        special = words <= MAX_SPECIAL
        out[~special] = self._text_owners[words[~special]]
        out[special] = 0
        return out

    def positions_by_worker(self, words: Words, *, interned: bool) -> list[Words]:
        """Return for each worker the positions of its words, ascending."""
        owners, count = self.owners(words, interned=interned), self.count
        if count <= FEW_WORKERS:
            return [np.flatnonzero(owners == worker) for worker in range(count)]
        narrow = owners.astype(np.uint8 if count <= 1 << 8 else np.uint16)  # numpy sorts these by counting
        order = np.argsort(narrow, kind="stable")
        ends = np.cumsum(np.bincount(owners, minlength=count)).tolist()
        return [order[start:end] for start, end in pairwise([0, *ends])]

    def select_own(self, words: Words, values: Words, index: int, *, interned: bool) -> Words:
        """Return the ``values`` at the positions of worker ``index``'s words."""
        if self._has_local_codes:
            return values[self.owners(words, interned=interned) == index]
        out = np.empty(words.shape[0], np.int64)
        words, values = np.ascontiguousarray(words), np.ascontiguousarray(values)
        return out[: kernels.near_mine(words, values, self.count, index, out)]

    def select_own_rows(
        self, groups: RowGroups, column: int, rowids: Words, index: int, *, interned: bool
    ) -> Words:
        """Return the rowids whose rows have a word of worker ``index`` in ``column``."""
        rowids = np.ascontiguousarray(rowids)
        if self._has_local_codes:
            words = groups.read(np.array([column], np.int64), rowids)[0]
            return self.select_own(words, rowids, index, interned=interned)
        out = np.empty(rowids.shape[0], np.int64)
        return out[: kernels.near_rows(groups.directory, column, rowids, self.count, index, out)]

    def _extend(self) -> None:
        owner_count, count = self._text_owners.shape[0], len(self._dictionary)
        if count > owner_count:
            new_owners = np.empty(count - owner_count, np.int64)
            kernels.text_owners(
                self._dictionary.arena, self._dictionary.offsets, owner_count, self.count, new_owners
            )
            self._text_owners = np.concatenate((self._text_owners, new_owners))
