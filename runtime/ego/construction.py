"""Overlay construction: shared parts of the readers' input lists become partial aggregates.

Every construction starts with one edge for each (writer, reader) pair. The VNM algorithms mine bicliques from
chunks of similar lists. IOB covers one list after the other with existing partial aggregates.

:func:`build` runs in the caller. :class:`Rebuilding` builds in a thread while the old overlay stays in use:
the thread works on copies, and compiled loops release the GIL. Changes that arrive meanwhile are recorded and
applied to the new overlay.
"""

import enum
import threading
import time
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import Edges, Overlay, grouped
from kpg.runtime.kernels import bicliques, covering
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]


Items = NDArray[np.int32]


class Construction(enum.Enum):
    """Which way an overlay is built."""

    NONE = "none"
    VNM = "vnm"
    VNM_A = "vnm_a"
    VNM_N = "vnm_n"
    VNM_D = "vnm_d"
    IOB = "iob"


CHUNK: Final = 100
"""Readers that are mined together, at first."""
KEPT: Final = 0.9
"""The chunk gets as small as this share of the savings allows (VNM_A)."""
LACKS: Final = 5
"""Items that a list may lack of a path (VNM_N)."""
OVERLAP: Final = 0.2
"""The share of a chunk that is in the next one, too (VNM_D)."""
HASHES: Final = 3
MOST_ROUNDS: Final = 10
LEAST_SAVED: Final = 0.005
"""Of all edges: a round that saves less is the last one."""
SPARE: Final = 3
"""Sets that are made in a round (IOB) have one place for so many edges, and the items they cover another;"""
FEWER: Final = 8
"""and they are one for so many edges at most. A round needs some seventh, and 25th; more are not made."""
LEAST: Final = 1 << 12
"""and so many more."""
AT_ONCE: Final = 1 << 14
"""So many lists are copied at once, for the places of their items are twice as large as these."""


@dataclass(frozen=True, slots=True)
class Report:
    """How an overlay was built: the sharing index and the chunk size after each round, and the seconds."""

    construction: Construction
    sharing: tuple[float, ...]
    chunks: tuple[int, ...]
    seconds: float


def build(
    construction: Construction, writers: int, readers: int, lists: Edges, *, chunk: int = CHUNK
) -> tuple[Overlay, Report]:
    """An overlay for readers' lists of writers, each writer once; ``lists`` is used up."""
    begun = time.perf_counter()
    edges = int(lists.size.sum())
    sharing: tuple[float, ...] = ()
    chunks: tuple[int, ...] = ()
    match construction:
        case Construction.NONE:
            made = _nothing()
        case Construction.IOB:
            lists, made, sharing = _covered(writers, lists, edges)
        case _:
            made, sharing, chunks = _mined(construction, writers, lists, edges, chunk)
    overlay = Overlay(writers, readers, _joined(writers, readers, lists, made), edges)
    return overlay, Report(construction, sharing, chunks, time.perf_counter() - begun)


@dataclass(frozen=True, slots=True)
class Made:
    """Partial aggregates: where the items of each end. Item ``2 * (writers + i)`` stands for the i-th."""

    ends: Words
    items: Items


def _nothing() -> Made:
    return Made(np.empty(0, np.int64), np.empty(0, np.int32))


def _mined(
    construction: Construction, writers: int, lists: Edges, edges: int, chunk: int
) -> tuple[Made, tuple[float, ...], tuple[int, ...]]:
    variant = {Construction.VNM_N: bicliques.NEGATIVE, Construction.VNM_D: bicliques.AGAIN}.get(
        construction, bicliques.PLAIN
    )
    ends = np.empty(max(edges // 4, 16), np.int64)
    items = np.empty(max(edges, 16), np.int32)
    seen = np.zeros(2 * (writers + ends.shape[0]), np.int32)
    account = np.zeros(bicliques.FIELDS, np.int64)
    sharing: list[float] = []
    chunks: list[int] = []
    for number in range(MOST_ROUNDS if edges else 0):
        before = int(account[bicliques.SAVED])
        by_size = np.zeros(chunk + 1, np.int64)
        step = max(1, int(chunk * (1 - OVERLAP))) if variant == bicliques.AGAIN else chunk
        bicliques.mine(
            _similar(lists, number), chunk, step, lists.start, lists.size, lists.items, variant, LACKS,
            writers, seen, ends, items, by_size, account,
        )  # fmt: skip
        if variant == bicliques.AGAIN:
            bicliques.drop_odd(lists.start, lists.size, lists.items)
        chunks.append(chunk)
        sharing.append(int(account[bicliques.SAVED]) / edges)
        if construction is not Construction.VNM:
            chunk = _smaller(by_size, chunk)
        if account[bicliques.SAVED] - before < LEAST_SAVED * edges:
            break
    nodes, members = int(account[bicliques.NODES]), int(account[bicliques.MEMBERS])
    return Made(ends[:nodes].copy(), items[:members].copy()), tuple(sharing), tuple(chunks)


def _smaller(by_size: Words, chunk: int) -> int:
    """The least number of readers, up to which nearly as much was saved as up to this chunk."""
    total = np.cumsum(by_size)
    return max(2, min(chunk, int(np.searchsorted(total, KEPT * total[-1], side="right")))) if total[-1] else 2


def _similar(lists: Edges, seed: int) -> Words:
    """Lists of two items or more, those that are alike near each other."""
    found = np.empty((HASHES, lists.size.shape[0]), np.int64)
    bicliques.shingles(lists.start, lists.size, lists.items, seed, found)
    long = np.flatnonzero(lists.size > 1)
    return long[np.lexsort(found[::-1, long])]


def _covered(writers: int, lists: Edges, edges: int) -> tuple[Edges, Made, tuple[float, ...]]:
    """Rounds of covering: first the readers' lists, then theirs and those of the sets that were made."""
    made = _nothing()
    sharing: list[float] = []
    left = edges
    readers = lists.size.shape[0]
    for number in range(4 if edges else 0):
        lists, made = _cover_once(writers + made.ends.shape[0], readers, lists, made, number, writers)
        now = int(lists.size.sum()) + made.items.shape[0]
        sharing.append(1 - now / edges)
        if left - now < LEAST_SAVED * edges:
            break
        left = now
    return lists, made, tuple(sharing)


def _cover_once(
    items: int, readers: int, lists: Edges, made: Made, seed: int, writers: int
) -> tuple[Edges, Made]:
    """Cover all rows, readers' lists and sets; the new sets come after the old ones."""
    old = made.ends.shape[0]
    size = np.concatenate((lists.size, np.diff(made.ends, prepend=0)))
    start = np.cumsum(size) - size
    rows, total = size.shape[0], int(size.sum())
    inputs = np.empty(total + total // SPARE + LEAST, np.int32)
    _pack(lists, inputs)
    inputs[total - made.items.shape[0] : total] = made.items
    order = _similar(Edges(start, size, inputs[:total]), seed)
    room = rows + max(total // FEWER, 16)
    at, count, cover, covers = (np.zeros(room, np.int32) for _ in range(4))
    at[:rows], count[:rows], cover[:rows], covers[:rows] = start, size, start, size
    covered = np.empty_like(inputs)
    np.right_shift(inputs[:total], 1, out=covered[:total])
    slots = np.zeros(items + 1, np.int64)
    recent = np.full(covering.share_out(inputs[:total], slots), -1, np.int32)
    account = np.array([rows, total, total], np.int64)
    covering.cover_all(
        order, rows, at, count, cover, covers, inputs, covered, recent, slots, np.zeros(items, np.int32),
        account,
    )  # fmt: skip
    nodes = int(account[covering.NODES])
    del covered, recent, slots
    sets = inputs & 1
    inputs -= sets
    inputs[sets == 1] += 2 * (writers + old - rows)
    fresh = Edges(at[:readers].astype(np.int64), count[:readers].astype(np.int64), inputs)
    rest = np.arange(readers, nodes)
    sizes = count[rest].astype(np.int64)
    places = np.repeat(at[rest] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
    return fresh, Made(np.cumsum(sizes), inputs[places])


def _pack(lists: Edges, into: Items) -> None:
    """Write the items of all lists, one list after the other, to the beginning of an array."""
    written = 0
    for first in range(0, lists.size.shape[0], AT_ONCE):
        size, start = lists.size[first : first + AT_ONCE], lists.start[first : first + AT_ONCE]
        places = np.repeat(start - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        into[written : written + places.shape[0]] = lists.items[places]
        written += places.shape[0]


def _joined(writers: int, readers: int, lists: Edges, made: Made) -> Edges:
    """The inputs of all nodes: writers have none; partial aggregates come after readers."""
    size = np.concatenate((np.zeros(writers, np.int64), lists.size, np.diff(made.ends, prepend=0)))
    items = np.empty(int(size.sum()), np.int32)
    _pack(lists, items)
    items[items.shape[0] - made.items.shape[0] :] = made.items
    np.add(items, 2 * readers, out=items, where=items >= 2 * writers)
    return Edges(np.cumsum(size) - size, size.astype(np.int64), items)


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
