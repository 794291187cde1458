"""Families of partial aggregates: the state of each overlay node for one kind of aggregate.

A :class:`Family` is the interface that the overlay engine uses. It has the partial aggregates of
all writers, and of the other nodes that are pushed.

* :class:`Sums`: counts and sums, a few words for each node. They can be added and subtracted.
* :class:`Counts`: a bag of words for each node, for the most frequent and the distinct values. Bags
  are added and subtracted like sums, so negative edges are allowed. All bags share one pool
  (``runtime/kernels/bags.py``).
* :class:`Extremes`: least and greatest words. A writer keeps its whole window, a pushed node only
  the extreme of its inputs. Repetition does not matter.
* :class:`BagWrites`: the writes since the last commit, for rollback.
* :class:`ArrayBuilder`: arrays of elements as output. The string of an array is the strings of its
  elements and an end mark, so that many arrays are built and interned in one call.
"""

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.overlay import (
    WRITER,
    Edges,
    NodeIndex,
    Overlay,
    extend_aligned,
    extend_with_zeros,
    reachable_nodes,
)
from kpg.runtime.errors import DataError
from kpg.runtime.kernels import bags as kernels
from kpg.runtime.kernels import overlays
from kpg.runtime.mfp.python_calls import values_of
from kpg.runtime.plan.nodes import EgoCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import display_name
from kpg.runtime.types import NULL, Type
from kpg.runtime.values import codec
from kpg.runtime.values.codec import codec_of

Words = NDArray[np.int64]


FILL_NODES: Final = 1 << 14
"""Nodes filled at a time."""
NO_WORD: Final = 2**63 - 1
"""Least word of an empty bag."""


class Bags:
    """A bag of words for each node, initially empty."""

    def __init__(self) -> None:
        self.heads: Words = np.zeros((0, 4), np.int64)
        self.table: Words = np.empty((1024, 2), np.int64)
        self._state: Words = np.zeros(2, np.int64)

    @property
    def cached_result(self) -> Words:
        """Cached result of each bag; FREE if the bag has changed."""
        return self.heads[:, kernels.FOUND]

    def grow(self, nodes: int) -> None:
        """Make room for ``nodes`` bags."""
        self.heads = extend_aligned(self.heads, nodes)
        self.cached_result[:] = kernels.FREE

    def renumber(self, nodes: Words, room: int) -> None:
        """Give node i the bag of ``nodes[i]``, and make room for ``room`` bags."""
        self.heads = extend_aligned(self.heads[nodes], room)
        self.cached_result[:] = kernels.FREE
        self._compact()

    def add(self, nodes: Words, words: Words, diffs: Words) -> None:
        """Add words to nodes' bags, with multiplicities ``diffs``."""
        first = 0
        while first < nodes.shape[0]:
            first = kernels.add(nodes, words, diffs, first, self.heads, self.table, self._state)
            if first < nodes.shape[0]:
                self._make_room(nodes[first])

    def spread(self, items: Words, origin: Words, nodes: Words, words: Words, diffs: Words) -> None:
        """Add to each of ``items`` the rows of its writer: those of ``nodes`` from ``origin`` on."""
        done, bag = np.zeros(2, np.int64), 0
        while bag >= 0:
            bag = kernels.spread(
                items, origin, nodes, words, diffs, done, self.heads, self.table, self._state
            )
            if bag >= 0:
                self._make_room(bag)

    def gather(self, nodes: Words, edges: Edges) -> None:
        """Set nodes' bags to the sums of their inputs' bags; none of the inputs is among the nodes."""
        self.clear(nodes)
        for first in range(0, nodes.shape[0], FILL_NODES):
            some = nodes[first : first + FILL_NODES]
            rows = np.empty((3, 0), np.int64)
            for _ in range(2):
                count = kernels.gathered(
                    some, edges.start, edges.size, edges.items, self.heads, self.table, rows
                )
                if count > rows.shape[1]:
                    rows = np.empty((3, count), np.int64)
            self.add(rows[0], rows[1], rows[2])

    def _make_room(self, node: int) -> None:
        """Make room in the pool: compact it if it has many gaps, else enlarge it."""
        needed = max(64, 8 * int(self.heads[node, kernels.TABLE_ROWS]))
        if 2 * int(self.heads[:, kernels.TABLE_ROWS].sum()) < self._state[0]:
            self._compact()
        if self._state[0] + needed > self.table.shape[0]:
            self.table = extend_with_zeros(self.table, 2 * self.table.shape[0] + needed)

    def _compact(self) -> None:
        used = np.flatnonzero(self.heads[:, kernels.TABLE_ROWS])
        order = np.ascontiguousarray(used[np.argsort(self.heads[used, kernels.TABLE_AT], kind="stable")])
        self._state[0] = kernels.compact(self.heads, self.table, order)

    def clear(self, nodes: Words) -> None:
        """Empty the bags of nodes."""
        self.heads[nodes] = (0, 0, 0, kernels.FREE)

    def read_bag(self, node: int) -> tuple[Words, Words]:
        """Return the words of a node and their multiplicities."""
        words, times = (np.empty(int(self.heads[node, kernels.TABLE_ROWS]), np.int64) for _ in range(2))
        count = kernels.listed(node, self.heads, self.table, words, times)
        return words[:count], times[:count]

    def least(self, nodes: Words) -> Words:
        """Return the least word of each node; ``NO_WORD`` for an empty bag."""
        words = np.empty(nodes.shape[0], np.int64)
        kernels.least(nodes, self.heads, self.table, words)
        return words

    def sample_exchange(self, nodes: Words) -> tuple[Words, Words, Words]:
        """Return nodes, words and diffs of a test write in which nonempty bags exchange one word each."""
        words = self.least(nodes)
        is_filled = words != NO_WORD
        nodes, words = nodes[is_filled], words[is_filled]
        pairs = np.stack((words, np.roll(words, 1)), axis=1)
        return np.repeat(nodes, 2), pairs.reshape(-1), np.tile(np.array([-1, 1]), nodes.shape[0])

    @property
    def bytes(self) -> int:
        """Bytes of the state."""
        return self.table.nbytes + self.heads.nbytes


MANY_PIECES: Final = 1 << 20
"""Cached strings of elements; beyond this the cache is cleared."""
LEAST_ROOM: Final = 1 << 18
"""Minimum words of the log of cached lists; otherwise it may have twice the rows of the bags' tables."""


class ArrayBuilder:
    """Builder of arrays of elements of one type, with at most ``limit`` elements (0: all)."""

    def __init__(self, type_: Type, limit: int, dictionary: Dictionary) -> None:
        self._type = type_
        self._limit = limit
        self._dictionary = dictionary
        self._codec = codec_of(type_)
        self.must_sort = type_.is_interned
        """Whether words are not ordered as values; then elements arrive unsorted, and possibly too many."""
        self._reset()

    def _reset(self) -> None:
        """Clear the cache of elements."""
        self._pieces = Dictionary()
        self._end = self._pieces.code(codec.encode_parts(()))
        nothing = np.empty(0, np.int64)
        self._piece_of = NodeIndex(nothing, nothing)
        self._values: dict[int, Any] = {}
        """Value of each piece, if words are not ordered as values."""

    def sort_elements(self, candidates: Words, sizes: Words) -> tuple[Words, Words]:
        """Return the elements of concatenated lists in order, cut to the limit, and the lists' sizes.

        ``candidates`` has the elements' words and, for each, the number of its group, within which elements
        are
        ordered by value.
        """
        elements, groups = candidates[:, : int(sizes.sum())]
        if not self.must_sort:
            return elements, sizes
        owner = np.repeat(np.arange(sizes.shape[0]), sizes)
        elements = elements[np.lexsort((self._rank_values(self._pieces_of(elements)), groups, owner))]
        if not self._limit:
            return elements, sizes
        heads = np.cumsum(sizes) - sizes
        is_kept = np.arange(elements.shape[0]) - np.repeat(heads, sizes) < self._limit
        return elements[is_kept], np.minimum(sizes, self._limit)

    def array_words(self, sizes: Words, elements: Words) -> Words:
        """Return the words of arrays, of concatenated elements and ``sizes``; NULL for an empty one."""
        pieces = self._pieces_of(elements)
        nonempty = np.flatnonzero(sizes)
        ends = np.cumsum(sizes)[nonempty]
        bounds, data = self._pieces.parts(np.insert(pieces, ends, self._end))
        places = np.concatenate((np.zeros(1, np.int64), ends + np.arange(1, nonempty.shape[0] + 1)))
        words = np.full(sizes.shape[0], NULL, np.int64)
        words[nonempty] = self._dictionary.intern_parts(bounds[places], data)
        return words

    def _pieces_of(self, elements: Words) -> Words:
        """Return the piece of each element."""
        if len(self._pieces) > MANY_PIECES:
            self._reset()
        pieces = self._piece_of.find(elements)
        if (pieces < 0).any():
            fresh = np.unique(elements[pieces < 0])
            values = values_of(fresh, self._type, self._dictionary)
            strings = [codec.encode_parts((self._codec.encode(value),))[:-1] for value in values]
            codes = self._pieces.intern(strings)
            self._piece_of.add(fresh, codes)
            if self.must_sort:
                self._values |= zip(codes.tolist(), values, strict=True)
            pieces = self._piece_of.find(elements)
        return pieces

    def _rank_values(self, pieces: Words) -> Words:
        """Return ranks in the order of the elements' values."""
        distinct, place = np.unique(pieces, return_inverse=True)
        values = [self._values[piece] for piece in distinct.tolist()]
        ranks = np.empty(distinct.shape[0], np.int64)
        ranks[sorted(range(distinct.shape[0]), key=values.__getitem__)] = np.arange(distinct.shape[0])
        return ranks[place]

    @property
    def bytes(self) -> int:
        """Bytes of the cache."""
        return self._pieces.bytes + self._piece_of.bytes


class ListCache:
    """Lists of pushed nodes, in one log; the bags' heads have the positions until the bags change.

    When the log is full, mostly of outdated lists, it is cleared.
    """

    def __init__(self) -> None:
        self._log: Words = np.empty(1 << 12, np.int64)
        self._state: Words = np.zeros(2, np.int64)
        """Used words of the log, and the number of the latest lists without room."""

    def make_room(self, bags: Bags) -> None:
        """Enlarge or clear the log if the last lists had no room."""
        if not self._state[1]:
            return
        self._state[1] = 0
        if self._log.shape[0] < max(LEAST_ROOM, 2 * bags.table.shape[0]):
            self._log = np.concatenate((self._log, np.empty_like(self._log)))
        else:
            bags.cached_result[:] = kernels.FREE
            self._state[0] = 0

    def collect_lists(
        self, nodes: Words, size: Words, computed: Words, pushed: NDArray[np.uint8], bags: Bags
    ) -> Words:
        """Return the elements of all nodes' lists, given the ``computed`` ones that were not cached.

        ``size`` has the length of each computed list, ``KNOWN``, or ``SAME`` with the position of the
        node's earlier occurrence. Afterwards it has all lengths.
        """
        places = np.empty(nodes.shape[0], np.int64)
        elements = np.empty(kernels.placed(nodes, size, bags.heads, self._log, places), np.int64)
        kernels.handed(nodes, size, places, computed, pushed, bags.heads, self._log, self._state, elements)
        return elements

    @property
    def bytes(self) -> int:
        """Bytes of the log."""
        return self._log.nbytes


class Family(Protocol):
    """Partial aggregates of an overlay: of all writers, and of other nodes that are pushed."""

    can_subtract: bool
    """Whether an input's contribution can be subtracted, so that negative edges are allowed."""
    ignores_repetition: bool
    """Whether repeated contributions of an input do not matter."""

    can_sample: bool
    """Whether test writes are possible, to measure their time."""

    def grow(self, room: int) -> None:
        """Make room for ``room`` nodes."""

    def renumber(self, writers: Words, room: int) -> None:
        """Clear all nodes but writers; node i takes over the state of ``writers[i]``."""

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        """Apply rows ``int64[width, n]`` of writers with their diffs, and update the pushed nodes below.

        After an error, call :meth:`rollback`.
        """

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        """Return nodes, rows and diffs of a test write, in which distinct writers exchange values.

        Only for families with ``can_sample``.
        """

    def fill(self, overlay: Overlay, order: Words) -> None:
        """Compute the pushed nodes among ``order``, which has inputs before the nodes that they feed."""

    def drop(self, nodes: Words) -> None:
        """Clear nodes that are no longer pushed."""

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        """Return for each node whether it has a result, and words ``int64[calls, n]``.

        Raises:
            DataError: If a computation fails.
        """

    def read_arrays(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Return the length of each node's array, 0 without a result, and all elements as words.

        None if results are not arrays.
        """

    def commit(self) -> None:
        """Make the writes final."""

    def rollback(self) -> None:
        """Undo the writes since the last commit."""

    @property
    def bytes(self) -> int:
        """Bytes of the state."""


@dataclass(frozen=True, slots=True)
class SumWrites:
    """Contribution of a write to writers' sums."""

    overlay: Overlay
    nodes: Words
    deltas: Words


class Sums:
    """Family with the number of rows, and for each operand the number of non-NULLs and their sum."""

    can_subtract = True
    can_sample = True
    ignores_repetition = False

    def __init__(self, calls: tuple[EgoCall, ...]) -> None:
        self._calls = calls
        parts = [
            (call.arguments[0], summed) for call in calls if call.arguments for summed in _operand_parts(call)
        ]
        self._parts = tuple(dict.fromkeys(parts))
        self._columns = np.array([column for column, _ in self._parts], np.int64)
        self._is_sum = np.array([summed for _, summed in self._parts], np.uint8)
        self._state: Words = np.zeros((0, 1 + len(self._parts)), np.int64)
        self._row_of_node = np.empty(0, np.int32)
        """Scratch array for a kernel, which finds each writer's rows with it."""
        self._writes: list[SumWrites] = []

    def grow(self, room: int) -> None:
        self._state = extend_with_zeros(self._state, room)
        self._row_of_node = np.full(room, -1, np.int32)

    def renumber(self, writers: Words, room: int) -> None:
        self._state = extend_with_zeros(self._state[writers], room)
        self._row_of_node = np.full(room, -1, np.int32)

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        writers = np.empty(nodes.shape[0], np.int64)
        deltas = np.empty((nodes.shape[0], self._state.shape[1]), np.int64)
        count = overlays.gather_sums(
            nodes, rows, diffs, self._columns, self._is_sum, self._row_of_node, writers, deltas
        )
        if count:
            self._writes.append(SumWrites(overlay, writers[:count], deltas[:count]))
            if self._push(overlay, writers[:count], deltas[:count]):
                raise _overflow_error()

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        ones = np.ones(nodes.shape[0], np.int64)  # the time does not depend on the values
        return nodes, np.zeros((1 + int(self._columns.max(initial=0)), nodes.shape[0]), np.int64), ones

    def read_arrays(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Return None: results are words."""
        return None

    def _push(self, overlay: Overlay, nodes: Words, deltas: Words) -> bool:
        edges = overlay.outputs
        return bool(
            overlays.push_sums(
                nodes, deltas, edges.start, overlay.pushed_outputs, edges.items, overlay.kinds, self._state
            )
        )

    def fill(self, overlay: Overlay, order: Words) -> None:
        edges = overlay.inputs
        self._state[order[(edges.size[order] == 0) & (overlay.kinds[order] != WRITER)]] = 0
        overlays.fill_sums(order, edges.start, edges.size, edges.items, overlay.pushed, self._state)

    def drop(self, nodes: Words) -> None:
        self._state[nodes] = 0

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        sums = np.empty((nodes.shape[0], self._state.shape[1]), np.int64)
        edges = overlay.inputs
        if overlays.pull_sums(nodes, edges.start, edges.size, edges.items, overlay.pushed, self._state, sums):
            raise _overflow_error()
        words = np.empty((len(self._calls), nodes.shape[0]), np.int64)
        for place, call in enumerate(self._calls):
            if not call.arguments:
                words[place] = sums[:, 0]
                continue
            non_null = sums[:, 1 + self._parts.index((call.arguments[0], False))]
            if call.counts:
                words[place] = non_null
            else:
                total = sums[:, 1 + self._parts.index((call.arguments[0], True))]
                words[place] = np.where(non_null == 0, NULL, total)
        return sums[:, 0] > 0, words

    def commit(self) -> None:
        self._writes.clear()

    def rollback(self) -> None:
        for write in reversed(self._writes):
            self._push(write.overlay, write.nodes, -write.deltas)
        self._writes.clear()

    @property
    def bytes(self) -> int:
        return self._state.nbytes + self._row_of_node.nbytes


def _operand_parts(call: EgoCall) -> tuple[bool, ...]:
    """Return the parts of a call's operand: whether each is its sum, else its count of non-NULLs."""
    return (False,) if call.counts else (False, True)


def _overflow_error() -> DataError:
    return DataError("sum overflows: a sum of what neighbours wrote does not fit 64 bits")


@dataclass(frozen=True, slots=True)
class BagWrites:
    """Words added to writers' bags, with the overlay at that time."""

    overlay: Overlay
    nodes: Words
    words: Words
    diffs: Words


class BagFamily:
    """Base of families whose changes are undone by the opposite changes."""

    def __init__(self) -> None:
        self._writes: list[BagWrites] = []

    def _apply(self, write: BagWrites) -> None:
        """Apply and record a write."""
        self._writes.append(write)
        self._apply_diffs(write, write.diffs)

    def _apply_diffs(self, write: BagWrites, diffs: Words) -> None:
        """Apply a write with other diffs."""
        raise NotImplementedError

    def commit(self) -> None:
        """Make the writes final."""
        self._writes.clear()

    def rollback(self) -> None:
        """Undo the writes since the last commit."""
        for write in reversed(self._writes):
            self._apply_diffs(write, -write.diffs)
        self._writes.clear()


RESULT_KINDS: Final = {"distinct_count": kernels.NUMBER, "distinct_values": kernels.BY_WORD}


class Counts(BagFamily):
    """Family with a bag of the words of one column for each writer and each pushed node."""

    can_subtract = True
    can_sample = True
    ignores_repetition = False

    def __init__(self, calls: tuple[EgoCall, ...], limit: int, dictionary: Dictionary) -> None:
        super().__init__()
        (self._call,) = calls
        self._limit = limit
        self._result_kind = RESULT_KINDS.get(display_name(self._call.function), kernels.BY_COUNT)
        self._arrays = ArrayBuilder(self._call.argument_types[0], limit, dictionary)
        self._cache = ListCache()
        self._bags = Bags()

    def grow(self, room: int) -> None:
        self._bags.grow(room)

    def renumber(self, writers: Words, room: int) -> None:
        self._bags.renumber(writers, room)

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        words = rows[self._call.arguments[0]]
        non_null = words != NULL
        if not non_null.all():
            nodes, words, diffs = nodes[non_null], np.ascontiguousarray(words[non_null]), diffs[non_null]
        self._apply(BagWrites(overlay, nodes, words, diffs))

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        nodes, words, diffs = self._bags.sample_exchange(nodes)
        rows = np.zeros((1 + self._call.arguments[0], nodes.shape[0]), np.int64)
        rows[-1] = words
        return nodes, rows, diffs

    def _apply_diffs(self, write: BagWrites, diffs: Words) -> None:
        for items, origin in reachable_nodes(write.overlay, write.nodes):
            self._bags.spread(items, origin, write.nodes, write.words, diffs)

    def fill(self, overlay: Overlay, order: Words) -> None:
        chosen = order[(overlay.pushed[order] == 1) & (overlay.kinds[order] != WRITER)]
        if chosen.shape[0] > 1:  # inputs may be among them, so by level
            level = overlay.levels()[chosen]
            by_level = np.argsort(level, kind="stable")
            parts = np.split(chosen[by_level], np.flatnonzero(np.diff(level[by_level])) + 1)
        else:
            parts = [chosen]
        for nodes in parts:
            self._bags.gather(nodes, overlay.inputs)

    def drop(self, nodes: Words) -> None:
        self._bags.clear(nodes)

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        arrays = self.read_arrays(overlay, nodes)
        if arrays is None:
            size = np.zeros(nodes.shape[0], np.int64)
            self._frequent_words(overlay, nodes, 0, size, 0)
            return size > 0, size.reshape(1, -1)
        words = self._arrays.array_words(*arrays)
        return words != NULL, words.reshape(1, -1)

    def read_arrays(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        if self._result_kind == kernels.NUMBER:
            return None
        size = np.zeros(nodes.shape[0], np.int64)
        self._cache.make_room(self._bags)
        try:
            computed = self._compute_lists(overlay, nodes, size)
        except BaseException:
            self._bags.cached_result[nodes] = kernels.FREE
            raise
        return size, self._cache.collect_lists(nodes, size, computed, overlay.pushed, self._bags)

    def _compute_lists(self, overlay: Overlay, nodes: Words, size: Words) -> Words:
        """Return the lists of nodes that are not cached and do not occur earlier in ``nodes``."""
        first, room, parts = 0, max(1024, 4 * self._limit * nodes.shape[0]), [np.empty(0, np.int64)]
        while first < nodes.shape[0]:
            candidates, done = self._frequent_words(overlay, nodes, first, size, room)
            fresh = first + np.flatnonzero(size[first:done] >= 0)
            elements, size[fresh] = self._arrays.sort_elements(candidates, size[fresh])
            parts.append(elements)
            first, room = done, 4 * room
        return np.concatenate(parts)

    def _frequent_words(
        self, overlay: Overlay, nodes: Words, first: int, size: Words, room: int
    ) -> tuple[Words, int]:
        bags, edges, words = self._bags, overlay.inputs, np.empty((2, room), np.int64)
        done = kernels.frequent(
            nodes, first, edges.start, edges.size, edges.items, overlay.pushed, bags.heads, bags.table,
            self._limit, self._result_kind, self._arrays.must_sort, words, size,
        )  # fmt: skip
        return words, int(done)

    @property
    def bytes(self) -> int:
        return self._bags.bytes + self._arrays.bytes + self._cache.bytes


class Extremes(BagFamily):
    """Family with one word per node; the greatest word is the complement of the least complement.

    Repetition does not matter. A pushed node reads all its inputs, which are pushed too, when its best
    one gets worse.
    """

    can_subtract = False
    can_sample = True
    ignores_repetition = True

    def __init__(self, *, greatest: bool) -> None:
        super().__init__()
        self._flip = np.int64(-1 if greatest else 0)
        self._bags = Bags()
        self._best: Words = np.empty(0, np.int64)

    def grow(self, room: int) -> None:
        self._bags.grow(room)
        best = self._best
        self._best = np.full(room, overlays.EMPTY, np.int64)
        self._best[: best.shape[0]] = best

    def renumber(self, writers: Words, room: int) -> None:
        self._bags.renumber(writers, room)
        best = np.full(room, overlays.EMPTY, np.int64)
        best[: writers.shape[0]] = self._best[writers]
        self._best = best

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        self._apply(BagWrites(overlay, nodes, rows[0] ^ self._flip, diffs))

    def _apply_diffs(self, write: BagWrites, diffs: Words) -> None:
        overlay = write.overlay
        self._bags.add(write.nodes, write.words, diffs)
        nodes = write.nodes[np.flatnonzero(np.diff(write.nodes, prepend=-1))]
        outputs, inputs = overlay.outputs, overlay.inputs
        overlays.push_least(
            nodes, self._bags.least(nodes), outputs.start, overlay.pushed_outputs, outputs.items,
            inputs.start, inputs.size, inputs.items, self._best,
        )  # fmt: skip

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        nodes, words, diffs = self._bags.sample_exchange(nodes)
        return nodes, (words ^ self._flip).reshape(1, -1), diffs

    def read_arrays(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Return None: results are words."""
        return None

    def fill(self, overlay: Overlay, order: Words) -> None:
        empty = order[(overlay.inputs.size[order] == 0) & (overlay.kinds[order] != WRITER)]
        self._best[empty] = overlays.EMPTY
        edges = overlay.inputs
        overlays.fill_least(order, edges.start, edges.size, edges.items, overlay.pushed, self._best)

    def drop(self, nodes: Words) -> None:
        self._best[nodes] = overlays.EMPTY

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        words = np.empty(nodes.shape[0], np.int64)
        edges = overlay.inputs
        overlays.pull_least(nodes, edges.start, edges.size, edges.items, overlay.pushed, self._best, words)
        has_result = words != overlays.EMPTY
        return has_result, np.where(has_result, words ^ self._flip, NULL).reshape(1, -1)

    @property
    def bytes(self) -> int:
        return self._bags.bytes + self._best.nbytes
