"""Overlay construction: shared parts of the readers' input lists become partial aggregates.

Every construction starts with one edge for each (writer, reader) pair. The VNM algorithms mine
bicliques from chunks of similar lists. IOB covers one list after the other with existing partial
aggregates.

:func:`build` runs in the caller. :class:`BackgroundBuild` builds in a thread while the old overlay
stays in use: the thread works on copies, and compiled loops release the GIL. Changes that arrive
meanwhile are recorded and applied to the new overlay.
"""

import enum
import threading
import time
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import Edges, Overlay, group_edges
from kpg.runtime.kernels import bicliques, covering
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]


Items = NDArray[np.int32]


class Construction(enum.Enum):
    """Construction algorithm of an overlay."""

    NONE = "none"
    VNM = "vnm"
    VNM_A = "vnm_a"
    VNM_N = "vnm_n"
    VNM_D = "vnm_d"
    IOB = "iob"


CHUNK: Final = 100
"""Readers that are mined together in the first round."""
KEPT_SAVINGS: Final = 0.9
"""Share of the savings that a smaller chunk must retain (VNM_A)."""
MAX_MISSING: Final = 5
"""Items of a path that a list may lack (VNM_N)."""
OVERLAP: Final = 0.2
"""Share of a chunk that the next one contains too (VNM_D)."""
HASHES: Final = 3
MAX_ROUNDS: Final = 10
MIN_SAVINGS: Final = 0.005
"""Share of all edges that a round must save, or it is the last one."""
EDGES_PER_SPARE_ITEM: Final = 3
"""Edges per item of room for the sets of an IOB round; the items that they cover get as much room.

A round needs about a seventh as many items as edges. Without room no more sets are made.
"""
EDGES_PER_SET: Final = 8
"""Edges per set of an IOB round at most; a round needs about one set for 25 edges."""
MIN_SPARE_ITEMS: Final = 1 << 12
"""Room in items that is added for small overlays."""
PACK_LISTS: Final = 1 << 14
"""Lists copied at a time: the positions of their items take twice their memory."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """Statistics of a build: the sharing index and the chunk size after each round, and the seconds."""

    construction: Construction
    sharing: tuple[float, ...]
    chunks: tuple[int, ...]
    seconds: float


def build(
    construction: Construction, writers: int, readers: int, lists: Edges, *, chunk: int = CHUNK
) -> tuple[Overlay, BuildReport]:
    """Return an overlay for readers' lists of distinct writers; consumes ``lists``."""
    started = time.perf_counter()
    edges = int(lists.size.sum())
    sharing: tuple[float, ...] = ()
    chunks: tuple[int, ...] = ()
    match construction:
        case Construction.NONE:
            partials = _no_partials()
        case Construction.IOB:
            lists, partials, sharing = _cover_lists(writers, lists, edges)
        case _:
            partials, sharing, chunks = _mine_bicliques(construction, writers, lists, edges, chunk)
    overlay = Overlay(writers, readers, _join_inputs(writers, readers, lists, partials), edges)
    return overlay, BuildReport(construction, sharing, chunks, time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class PartialSets:
    """Input lists of partial aggregates, by end position.

    Item ``2 * (writers + i)`` is the i-th partial aggregate.
    """

    ends: Words
    items: Items


def _no_partials() -> PartialSets:
    return PartialSets(np.empty(0, np.int64), np.empty(0, np.int32))


def _mine_bicliques(
    construction: Construction, writers: int, lists: Edges, edges: int, chunk: int
) -> tuple[PartialSets, tuple[float, ...], tuple[int, ...]]:
    variant = {Construction.VNM_N: bicliques.NEGATIVE, Construction.VNM_D: bicliques.AGAIN}.get(
        construction, bicliques.PLAIN
    )
    ends = np.empty(max(edges // 4, 16), np.int64)
    items = np.empty(max(edges, 16), np.int32)
    marks = np.zeros(2 * (writers + ends.shape[0]), np.int32)
    account = np.zeros(bicliques.FIELDS, np.int64)
    sharing: list[float] = []
    chunks: list[int] = []
    for number in range(MAX_ROUNDS if edges else 0):
        before = int(account[bicliques.SAVED])
        by_size = np.zeros(chunk + 1, np.int64)
        step = max(1, int(chunk * (1 - OVERLAP))) if variant == bicliques.AGAIN else chunk
        bicliques.mine(
            _order_by_similarity(lists, number), chunk, step, lists.start, lists.size, lists.items, variant,
            MAX_MISSING, writers, marks, ends, items, by_size, account,
        )  # fmt: skip
        if variant == bicliques.AGAIN:
            bicliques.drop_odd(lists.start, lists.size, lists.items)
        chunks.append(chunk)
        sharing.append(int(account[bicliques.SAVED]) / edges)
        if construction is not Construction.VNM:
            chunk = _smaller_chunk(by_size, chunk)
        if account[bicliques.SAVED] - before < MIN_SAVINGS * edges:
            break
    nodes, members = int(account[bicliques.NODES]), int(account[bicliques.MEMBERS])
    return PartialSets(ends[:nodes].copy(), items[:members].copy()), tuple(sharing), tuple(chunks)


def _smaller_chunk(by_size: Words, chunk: int) -> int:
    """Return the least chunk size that retains nearly all savings of this one."""
    total = np.cumsum(by_size)
    return (
        max(2, min(chunk, int(np.searchsorted(total, KEPT_SAVINGS * total[-1], side="right"))))
        if total[-1]
        else 2
    )


def _order_by_similarity(lists: Edges, seed: int) -> Words:
    """Return the lists of at least two items, with similar ones adjacent."""
    shingles = np.empty((HASHES, lists.size.shape[0]), np.int64)
    bicliques.shingles(lists.start, lists.size, lists.items, seed, shingles)
    long = np.flatnonzero(lists.size > 1)
    return long[np.lexsort(shingles[::-1, long])]


def _cover_lists(writers: int, lists: Edges, edges: int) -> tuple[Edges, PartialSets, tuple[float, ...]]:
    """Cover the readers' lists in rounds; later rounds also cover the sets made so far."""
    partials = _no_partials()
    sharing: list[float] = []
    edge_count = edges
    readers = lists.size.shape[0]
    for number in range(4 if edges else 0):
        lists, partials = _cover_round(
            writers + partials.ends.shape[0], readers, lists, partials, number, writers
        )
        now = int(lists.size.sum()) + partials.items.shape[0]
        sharing.append(1 - now / edges)
        if edge_count - now < MIN_SAVINGS * edges:
            break
        edge_count = now
    return lists, partials, tuple(sharing)


def _cover_round(
    items: int, readers: int, lists: Edges, partials: PartialSets, seed: int, writers: int
) -> tuple[Edges, PartialSets]:
    """Cover all readers' lists and sets; new sets follow the old ones."""
    old = partials.ends.shape[0]
    size = np.concatenate((lists.size, np.diff(partials.ends, prepend=0)))
    start = np.cumsum(size) - size
    rows, total = size.shape[0], int(size.sum())
    inputs = np.empty(total + total // EDGES_PER_SPARE_ITEM + MIN_SPARE_ITEMS, np.int32)
    _pack_items(lists, inputs)
    inputs[total - partials.items.shape[0] : total] = partials.items
    order = _order_by_similarity(Edges(start, size, inputs[:total]), seed)
    room = rows + max(total // EDGES_PER_SET, 16)
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
    return fresh, PartialSets(np.cumsum(sizes), inputs[places])


def _pack_items(lists: Edges, into: Items) -> None:
    """Write the items of all lists, one list after the other, to the beginning of an array."""
    written = 0
    for first in range(0, lists.size.shape[0], PACK_LISTS):
        size, start = lists.size[first : first + PACK_LISTS], lists.start[first : first + PACK_LISTS]
        places = np.repeat(start - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        into[written : written + places.shape[0]] = lists.items[places]
        written += places.shape[0]


def _join_inputs(writers: int, readers: int, lists: Edges, partials: PartialSets) -> Edges:
    """Return the inputs of all nodes: writers have none; partial aggregates follow readers."""
    size = np.concatenate((np.zeros(writers, np.int64), lists.size, np.diff(partials.ends, prepend=0)))
    items = np.empty(int(size.sum()), np.int32)
    _pack_items(lists, items)
    items[items.shape[0] - partials.items.shape[0] :] = partials.items
    np.add(items, 2 * readers, out=items, where=items >= 2 * writers)
    return Edges(np.cumsum(size) - size, size.astype(np.int64), items)


Pairs = Callable[[], tuple[Words, Words]]
"""Function that returns words of readers and of writers, a pair at each position."""


@dataclass(frozen=True, slots=True)
class Build:
    """An overlay whose first nodes are ``writers``, then ``readers``, by their words in order."""

    overlay: Overlay
    report: BuildReport
    writers: Words
    readers: Words


def build_from_pairs(construction: Construction, pairs: Pairs, more_writers: Words) -> Build:
    """Return an overlay for pairs and additional writers."""
    readers, writers = pairs()
    words = np.unique(np.concatenate((more_writers, writers)))
    reader_words, reader_places = np.unique(readers, return_inverse=True)
    writer_places = np.searchsorted(words, writers)
    lists = group_edges(reader_places, writer_places, reader_words.shape[0])
    del readers, writers, reader_places, writer_places
    overlay, report = build(construction, words.shape[0], reader_words.shape[0], lists)
    return Build(overlay, report, words, reader_words)


def apply_pair_changes(readers: Words, writers: Words, pairs: Words, diffs: Words) -> tuple[Words, Words]:
    """Return the pairs after changes."""
    both = np.concatenate((np.stack((readers, writers)), pairs), axis=1)
    rows, counts = consolidate_pairs(both, np.concatenate((np.ones(readers.shape[0], np.int64), diffs)))
    remaining = counts > 0
    return np.ascontiguousarray(rows[0, remaining]), np.ascontiguousarray(rows[1, remaining])


def consolidate_pairs(pairs: Words, diffs: Words) -> tuple[Words, Words]:
    """Return the distinct pairs and the sums of their diffs."""
    order = np.lexsort(pairs[::-1])
    pairs, diffs = pairs[:, order], diffs[order]
    heads = np.flatnonzero(np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)))
    if not diffs.shape[0]:
        return pairs, diffs
    return pairs[:, heads], np.add.reduceat(diffs, heads)


class BackgroundBuild:
    """Build of an overlay in a thread."""

    def __init__(self, construction: Construction, pairs: Pairs, more_writers: Words) -> None:
        self._pairs: list[Words] = [np.empty((2, 0), np.int64)]
        self._diffs: list[Words] = [np.empty(0, np.int64)]
        self._result: Build | None = None
        self.error: Exception | None = None

        def run() -> None:
            try:
                self._result = build_from_pairs(construction, pairs, more_writers)
            except Exception as error:  # reported as a build without a result; the old overlay stays in use
                self.error = error

        self._thread = threading.Thread(target=run, name="kpg overlay", daemon=True)
        self._thread.start()

    def record_changes(self, pairs: Words, diffs: Words) -> None:
        """Record pairs that were inserted or deleted since the start."""
        if diffs.shape[0]:
            self._pairs.append(pairs)
            self._diffs.append(diffs)

    @property
    def is_done(self) -> bool:
        """Whether the build has ended, perhaps with an error."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the end of the build."""
        self._thread.join()

    @property
    def result(self) -> Build | None:
        """The finished build; None if it is running or has failed."""
        return self._result if self.is_done else None

    def pair_changes(self) -> tuple[Words, Words]:
        """Return the net changes of pairs since the start, with diff 1 or -1."""
        rows, counts = consolidate_pairs(np.concatenate(self._pairs, axis=1), np.concatenate(self._diffs))
        is_changed = counts != 0
        return np.ascontiguousarray(rows[:, is_changed]), counts[is_changed]
