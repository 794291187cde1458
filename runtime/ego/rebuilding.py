"""An overlay built anew of the pairs there are: at once, or in the background while the old one goes on.

In the background a thread builds, which has copies of all it reads and touches nothing else; compiled loops
let others go on meanwhile. What changes in the meantime is noted, and patched into the overlay that is made.
"""

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.building import Construction, Report, build
from kpg.runtime.ego.overlay import Overlay, grouped
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]
Pairs = Callable[[], tuple[Words, Words]]
"""Gives words of readers and of writers, a pair at each place."""


@dataclass(frozen=True, slots=True)
class Built:
    """An overlay, whose first nodes are ``writers`` and then ``readers``, by their words, in order."""

    overlay: Overlay
    report: Report
    writers: Words
    readers: Words


def built(construction: Construction, pairs: Pairs, known: Words) -> Built:
    """An overlay for pairs, and for writers that are known besides."""
    readers, writers = pairs()
    words = np.unique(np.concatenate((known, writers)))
    reader_words, reader_places = np.unique(readers, return_inverse=True)
    writer_places = np.searchsorted(words, writers)
    lists = grouped(reader_places, writer_places, reader_words.shape[0])
    del readers, writers, reader_places, writer_places
    overlay, report = build(construction, words.shape[0], reader_words.shape[0], lists)
    return Built(overlay, report, words, reader_words)


def merged(readers: Words, writers: Words, pairs: Words, diffs: Words) -> tuple[Words, Words]:
    """Pairs after changes."""
    both = np.concatenate((np.stack((readers, writers)), pairs), axis=1)
    rows, counts = netted(both, np.concatenate((np.ones(readers.shape[0], np.int64), diffs)))
    kept = counts > 0
    return np.ascontiguousarray(rows[0, kept]), np.ascontiguousarray(rows[1, kept])


def netted(pairs: Words, diffs: Words) -> tuple[Words, Words]:
    """Distinct pairs, and what their diffs add up to."""
    order = np.lexsort(pairs[::-1])
    pairs, diffs = pairs[:, order], diffs[order]
    heads = np.flatnonzero(np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)))
    if not diffs.shape[0]:
        return pairs, diffs
    return pairs[:, heads], np.add.reduceat(diffs, heads)


class Rebuilding:
    """An overlay that is being built in the background."""

    def __init__(self, construction: Construction, pairs: Pairs, known: Words) -> None:
        self._pairs: list[Words] = [np.empty((2, 0), np.int64)]
        self._diffs: list[Words] = [np.empty(0, np.int64)]
        self._made: Built | None = None
        self.failed: Exception | None = None

        def run() -> None:
            try:
                self._made = built(construction, pairs, known)
            except Exception as error:  # whoever waits is told that there is none: the old one goes on
                self.failed = error

        self._thread = threading.Thread(target=run, name="kpg overlay", daemon=True)
        self._thread.start()

    def note(self, pairs: Words, diffs: Words) -> None:
        """Pairs have come or gone since it began."""
        if diffs.shape[0]:
            self._pairs.append(pairs)
            self._diffs.append(diffs)

    @property
    def over(self) -> bool:
        """Whether it is done, or has failed."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Until it is."""
        self._thread.join()

    @property
    def made(self) -> Built | None:
        """The overlay, if there is one."""
        return self._made if self.over else None

    def missed(self) -> tuple[Words, Words]:
        """The pairs that came, and went, since it began, and how often: 1 or -1."""
        rows, counts = netted(np.concatenate(self._pairs, axis=1), np.concatenate(self._diffs))
        kept = counts != 0
        return np.ascontiguousarray(rows[:, kept]), counts[kept]
