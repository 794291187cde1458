"""The overlay graph: writers, readers and partial aggregates, connected by signed edges.

A node is a number. Writers come first, then readers, then partial aggregates, in order of
construction; a later node takes the next number. Nodes are renumbered by traffic from time to time
(``decisions.order_by_traffic``). The *item* of an edge is ``2 * node``, plus one if the edge is
negative.

Invariant (digest, E17): the products of signs over all paths from a writer to a reader add up to 1
if the writer is a neighbour of the reader, else to 0. For aggregates that ignore repetition, at
least one path is enough, and there are no negative edges.

:class:`NodeIndex` maps words to nodes. :class:`FollowedReaders` is the set of continuous readers: their
results are reported when they change, so they are pushed. :func:`add_pair` and :func:`remove_pair`
change the pairs of a built overlay with few edges: an added pair is a direct edge; a removed pair
deletes that edge or adds a negative one. If the aggregate cannot subtract, the paths from the
writer to the reader are dissolved.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import ids as kernels
from kpg.runtime.kernels import overlays
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]


MAX_GAP: Final = 8
"""Average distance of words up to which they index an array."""


class NodeIndex:
    """Nodes by word: in an array if words are dense, else in a hash table at most three quarters full."""

    def __init__(self, words: Words, nodes: Words) -> None:
        self._count = words.shape[0]
        self._first = 0
        self._dense: NDArray[np.int32] | None = None
        self._table = _table(0)
        self._rebuild(words, nodes)

    def _rebuild(self, words: Words, nodes: Words) -> None:
        """Replace the contents."""
        first, last = (int(words.min()), int(words.max())) if words.shape[0] else (0, 0)
        if last - first < MAX_GAP * words.shape[0]:
            margin = words.shape[0] // 4
            self._first = max(first - margin, -(2**62))
            self._dense = np.full(last + margin + 1 - self._first, -1, np.int32)
            self._dense[words - self._first] = nodes
            self._table = _table(0)
        else:
            self._dense = None
            self._table = _table(2 * words.shape[0])
            kernels.put(self._table, np.ascontiguousarray(words), np.ascontiguousarray(nodes))

    def find(self, words: Words) -> Words:
        """Return the node of each word, -1 if it has none."""
        nodes = np.empty(words.shape[0], np.int64)
        words = np.ascontiguousarray(words)
        if self._dense is not None:
            kernels.find_listed(self._dense, self._first, words, nodes)
        else:
            kernels.find(self._table, words, nodes)
        return nodes

    def find_and_count(self, words: Words, diffs: Words, counts: Words) -> tuple[Words, int]:
        """Return the node of each word, -1 if it has none, and the number of words without one.

        Increments a node's element of ``counts`` for each word with a positive diff.
        """
        nodes = np.empty(words.shape[0], np.int64)
        words = np.ascontiguousarray(words)
        if self._dense is not None:
            missing = kernels.observe_listed(self._dense, self._first, words, diffs, nodes, counts)
        else:
            missing = kernels.observe(self._table, words, diffs, nodes, counts)
        return nodes, int(missing)

    def add(self, words: Words, nodes: Words) -> None:
        """Add new words."""
        self._count += words.shape[0]
        if self._dense is not None:
            last = self._first + self._dense.shape[0] - 1
            if ((words >= self._first) & (words <= last)).all():
                self._dense[words - self._first] = nodes
                return
        elif 4 * self._count <= 3 * self._table.shape[0]:
            kernels.put(self._table, np.ascontiguousarray(words), np.ascontiguousarray(nodes))
            return
        old_words, old_nodes = self.items()
        self._rebuild(np.concatenate((old_words, words)), np.concatenate((old_nodes, nodes)))

    def items(self) -> tuple[Words, Words]:
        """Return all words and their nodes."""
        if self._dense is not None:
            positions = np.flatnonzero(self._dense >= 0)
            return positions + self._first, self._dense[positions].astype(np.int64)
        is_used = self._table[:, 1] >= 0
        return np.ascontiguousarray(self._table[is_used, 0]), np.ascontiguousarray(self._table[is_used, 1])

    def words_by_node(self, room: int) -> Words:
        """Return the word of each of ``room`` nodes; 0 for other nodes."""
        words, nodes = self.items()
        result = np.zeros(room, np.int64)
        result[nodes] = words
        return result

    def renumber(self, number: Words) -> "NodeIndex":
        """Return the index of the same words with other node numbers."""
        words, nodes = self.items()
        return NodeIndex(words, number[nodes])

    @property
    def bytes(self) -> int:
        """Bytes of the index."""
        return self._table.nbytes if self._dense is None else self._dense.nbytes


def _table(count: int) -> NDArray[np.int64]:
    places = 16
    while 3 * places < 4 * (count + 1):
        places *= 2
    table = np.zeros((places, 2), np.int64)
    table[:, 1] = -1
    return table


Items = NDArray[np.int32]
Flags = NDArray[np.uint8]

WRITER: Final = 0
READER: Final = 1
PARTIAL: Final = 2
CACHE_LINE: Final = 8
"""Words of a cache line."""


def extend_with_zeros(array: Words, length: int) -> Words:
    """Return the array extended with zeros."""
    result: Words = np.zeros((length, *array.shape[1:]), np.int64)
    result[: array.shape[0]] = array
    return result


def extend_aligned(rows: Words, length: int) -> Words:
    """Return the rows extended with zeros, in an array that starts at a cache line."""
    width = rows.shape[1]
    buffer = np.zeros(length * width + CACHE_LINE, np.int64)
    first = -(buffer.ctypes.data // buffer.itemsize) % CACHE_LINE
    result: Words = buffer[first : first + length * width].reshape(length, width)
    result[: rows.shape[0]] = rows
    return result


class Edges:
    """A list of items for each node, in one array: ``items[start[node]:start[node] + size[node]]``."""

    def __init__(self, start: Words, size: Words, items: Items) -> None:
        self.start, self.size, self.items = start, size, items
        self._room = size.copy()
        self._end = items.shape[0]

    def items_of(self, node: int) -> Items:
        """Return the items of a node."""
        first = self.start[node]
        return self.items[first : first + self.size[node]]

    def replace(self, node: int, items: list[int]) -> None:
        """Set a node's items."""
        if len(items) > self._room[node]:
            self._move(node, max(len(items), 4))
        first = self.start[node]
        self.items[first : first + len(items)] = items
        self.size[node] = len(items)

    def append(self, node: int, item: int) -> None:
        """Append an item."""
        if self.size[node] == self._room[node]:
            self._move(node, max(4, 2 * int(self.size[node])))
        self.items[self.start[node] + self.size[node]] = item
        self.size[node] += 1

    def remove(self, node: int, item: int) -> bool:
        """Remove an item and return whether it existed."""
        positions = np.flatnonzero(self.items_of(node) == item)
        if not positions.shape[0]:
            return False
        last = self.start[node] + self.size[node] - 1
        self.items[self.start[node] + positions[0]] = self.items[last]
        self.size[node] -= 1
        return True

    def writers_of(self, nodes: Words) -> tuple[Words, Words]:
        """Return the writers that reach nodes through these inputs, as (position in ``nodes``, writer)."""
        ends = np.zeros(nodes.shape[0], np.int64)
        items = np.empty(max(1024, int(self.size[nodes].sum())), np.int64)
        total = overlays.sources(nodes, self.start, self.size, self.items, items, ends)
        if total > items.shape[0]:
            items = np.empty(total, np.int64)
            overlays.sources(nodes, self.start, self.size, self.items, items, ends)
        items = items[:total]
        key = np.repeat(np.arange(nodes.shape[0]) << 32, np.diff(ends, prepend=0))
        key |= items >> 1
        negative = (items & 1).astype(np.bool_)
        del items
        if negative.any():
            distinct, place = np.unique(key, return_inverse=True)
            net = np.bincount(place[~negative], minlength=distinct.shape[0])
            pairs = distinct[net > np.bincount(place[negative], minlength=distinct.shape[0])]
        else:
            pairs = np.unique(key)
        return pairs >> 32, pairs & np.int64(2**32 - 1)

    def copy(self) -> "Edges":
        """Return an independent copy."""
        return Edges(self.start.copy(), self.size.copy(), self.items.copy())

    def _move(self, node: int, room: int) -> None:
        if self._end + room > self.items.shape[0]:
            self.items = np.concatenate((self.items[: self._end], np.empty(self._end + room, np.int32)))
        first = self.start[node]
        self.items[self._end : self._end + self.size[node]] = self.items[first : first + self.size[node]]
        self.start[node], self._room[node] = self._end, room
        self._end += room

    def grow(self, nodes: int) -> None:
        """Make room for ``nodes`` nodes; new ones have no items."""
        fresh = np.zeros(nodes, np.int64)
        self.start, self.size, self._room = (
            np.concatenate((old, fresh[old.shape[0] :])) for old in (self.start, self.size, self._room)
        )

    @property
    def bytes(self) -> int:
        """Bytes of the arrays."""
        return self.items.nbytes + 3 * self.start.nbytes


class Overlay:
    """Nodes and edges; ``inputs`` are the edges into each node, ``outputs`` those out of it.

    ``pushed`` is 1 where the partial aggregate is maintained: at all writers, and at all inputs of a
    pushed node.
    """

    def __init__(self, writers: int, readers: int, inputs: Edges, edges: int) -> None:
        """Create the overlay; ``edges`` is the number of edges without partial aggregates."""
        self.count = inputs.start.shape[0]
        self.kinds: Flags = np.full(self.count, PARTIAL, np.uint8)
        self.kinds[:writers] = WRITER
        self.kinds[writers : writers + readers] = READER
        self.inputs = inputs
        self.outputs = reverse_edges(inputs)
        self.pushed: Flags = (self.kinds == WRITER).astype(np.uint8)
        self.write_counts: Words = np.zeros(self.count, np.int64)
        """Number of writes of each writer."""
        self.read_counts: Words = np.zeros(self.count, np.int64)
        """Number of reads of each reader."""
        self.pushed_outputs: Words = np.zeros(self.count, np.int64)
        """Number of pushed outputs of each node, which come first in its outputs."""
        self._unordered: set[int] = set()
        self.pair_count = edges
        """Number of pairs of a reader and one of its writers."""
        self.patches = 0
        """Number of edges changed since construction."""
        self._order: Words | None = None
        """Cached result of :meth:`topological_order`."""

    @property
    def room(self) -> int:
        """Number of nodes for which the arrays have room."""
        return self.kinds.shape[0]

    def add_node(self, kind: int) -> int:
        """Add a node without edges and return its number."""
        node = self.count
        if node == self.room:
            room = max(16, 2 * node)
            self.inputs.grow(room)
            self.outputs.grow(room)
            self.kinds = np.concatenate((self.kinds, np.full(room - node, PARTIAL, np.uint8)))
            self.pushed = np.concatenate((self.pushed, np.zeros(room - node, np.uint8)))
            self.write_counts = np.concatenate((self.write_counts, np.zeros(room - node, np.int64)))
            self.read_counts = np.concatenate((self.read_counts, np.zeros(room - node, np.int64)))
            self.pushed_outputs = extend_with_zeros(self.pushed_outputs, room)
        self.count += 1
        self._order = None
        self.kinds[node] = kind
        self.pushed[node] = kind == WRITER
        return node

    def connect(self, target: int, item: int) -> None:
        """Add an edge into a node."""
        self.inputs.append(target, item)
        self.outputs.append(item >> 1, 2 * target + (item & 1))
        self._unordered.add(item >> 1)
        self._order = None
        self.patches += 1

    def disconnect(self, target: int, item: int) -> bool:
        """Remove an edge and return whether it existed."""
        if not self.inputs.remove(target, item):
            return False
        self.outputs.remove(item >> 1, 2 * target + (item & 1))
        self._unordered.add(item >> 1)
        self._order = None
        self.patches += 1
        return True

    def set_edges(self, inputs: Edges, outputs: Edges | None = None) -> None:
        """Replace all edges; ``outputs``, if given, are the reverse of ``inputs``."""
        self.inputs, self.outputs = inputs, outputs or reverse_edges(inputs)
        self._unordered.clear()
        self._order = None

    def renumber(self, order: Words) -> Words:
        """Give node ``order[i]`` the number i, for all i, and return the new number of each old one."""
        number = np.empty(self.room, np.int64)
        number[order] = np.arange(self.room)
        old_inputs = self.inputs
        size, start = old_inputs.size[order], np.empty(self.room, np.int64)
        items = np.empty(int(size.sum()), np.int32)
        overlays.renumber(order, number, old_inputs.start, old_inputs.size, old_inputs.items, start, items)
        self.kinds, self.pushed = self.kinds[order], self.pushed[order]
        self.write_counts, self.read_counts = self.write_counts[order], self.read_counts[order]
        self.set_edges(Edges(start, size, items))
        self.order_outputs(all_nodes=True)
        return number

    def mark_relabelled(self, nodes: Words) -> None:
        """Record that labels of nodes have changed."""
        if nodes.shape[0]:
            items = np.concatenate([self.inputs.items_of(node) for node in nodes.tolist()])
            self._unordered.update(np.unique(items >> 1).tolist())

    def decay_counts(self, bits: int) -> None:
        """Shift all write and read counts right by ``bits``."""
        self.write_counts >>= bits
        self.read_counts >>= bits

    def is_patched_beyond(self, share: float) -> bool:
        """Return whether more than this share of the edges was changed since construction."""
        return self.patches > share * self.edges

    def order_outputs(self, *, all_nodes: bool = False) -> None:
        """Move pushed outputs to the front, for nodes with changed outputs or labels, or for all nodes."""
        if not all_nodes and not self._unordered:
            return
        nodes = np.arange(self.room) if all_nodes else np.array(list(self._unordered), np.int64)
        edges = self.outputs
        overlays.settle(nodes, edges.start, edges.size, edges.items, self.pushed, self.pushed_outputs)
        self._unordered.clear()

    def topological_order(self) -> Words:
        """Return all nodes, inputs first; the caller must not modify the array."""
        if self._order is None:
            order = np.empty(self.room, np.int64)
            outputs = self.outputs
            waiting = self.inputs.size.copy()
            count = overlays.arrange(outputs.start, outputs.size, outputs.items, waiting, order)
            assert count == self.room, "an overlay has a circle"
            self._order = order
        return self._order

    def writers_of(self, nodes: Words) -> tuple[Words, Words]:
        """Return the writers that reach nodes, as pairs (position in ``nodes``, writer), sorted."""
        return self.inputs.writers_of(nodes)

    def levels(self) -> Words:
        """Return for each node the length of the longest path from a writer to it."""
        level = np.zeros(self.room, np.int64)
        inputs = self.inputs
        overlays.deepen(self.topological_order(), inputs.start, inputs.size, inputs.items, level)
        return level

    @property
    def edges(self) -> int:
        """Number of edges."""
        return int(self.inputs.size[: self.count].sum())

    @property
    def sharing(self) -> float:
        """Sharing index: the share of edges that partial aggregates save."""
        return 1 - self.edges / self.pair_count if self.pair_count else 0.0

    @property
    def bytes(self) -> int:
        """Bytes of the arrays."""
        return self.inputs.bytes + self.outputs.bytes + 2 * self.kinds.nbytes + 3 * self.pushed_outputs.nbytes


def reverse_edges(inputs: Edges) -> Edges:
    """Return the edges by their source."""
    nodes = inputs.start.shape[0]
    size = np.zeros(nodes, np.int64)
    overlays.count_sources(inputs.start, inputs.size, inputs.items, size)
    start = np.zeros(nodes, np.int64)
    np.cumsum(size[:-1], out=start[1:])
    items = np.empty(int(size.sum()), np.int32)
    filled = np.zeros(nodes, np.int64)
    overlays.transpose(inputs.start, inputs.size, inputs.items, 0, start, filled, items)
    return Edges(start, size, items)


def group_edges(keys: Words, values: Words, count: int) -> Edges:
    """Return for each of ``count`` keys the items of its values."""
    size = np.bincount(keys, minlength=count).astype(np.int64)
    start = np.zeros(count, np.int64)
    np.cumsum(size[:-1], out=start[1:])
    items = np.empty(keys.shape[0], np.int32)
    keys = np.ascontiguousarray(keys)
    overlays.bucket(keys, 2 * values, start, np.zeros(count, np.int64), items)
    return Edges(start, size, items)


Test = Callable[[Words], Words]
"""Function that returns those readers, by word, that pass a test."""
NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class FollowedReaders:
    """Readers that a consumer follows: all, or those of ``words`` (sorted) and those that pass a test.

    ``key`` is equal for equal sets.
    """

    is_all: bool
    words: Words
    tests: tuple[Test, ...] = ()
    key: tuple[object, ...] = ()

    def contains(self, words: Words) -> NDArray[np.bool_]:
        """Return which words are followed."""
        if self.is_all:
            return np.ones(words.shape[0], np.bool_)
        result = is_in_sorted(self.words, words)
        for test in self.tests:
            result |= np.isin(words, test(words))
        return result

    @property
    def is_empty(self) -> bool:
        """Whether no reader is followed."""
        return not (self.is_all or self.words.shape[0] or self.tests)


NO_READERS: Final = FollowedReaders(False, NONE)
ALL_READERS: Final = FollowedReaders(True, NONE)


def is_in_sorted(sorted_words: Words, words: Words) -> NDArray[np.bool_]:
    """Return which words occur in the sorted array."""
    if not sorted_words.shape[0]:
        return np.zeros(words.shape[0], np.bool_)
    places = np.minimum(np.searchsorted(sorted_words, words), sorted_words.shape[0] - 1)
    there: NDArray[np.bool_] = sorted_words[places] == words
    return there


def with_ancestors(overlay: Overlay, nodes: Words) -> Words:
    """Return nodes and everything that feeds them, directly or indirectly."""
    is_visited = np.zeros(overlay.room, np.bool_)
    is_visited[nodes] = True
    edges, waiting = overlay.inputs, nodes
    while waiting.shape[0]:
        size, start = edges.size[waiting], edges.start[waiting]
        heads = np.cumsum(size) - size
        places = np.repeat(start - heads, size) + np.arange(int(size.sum()))
        sources = np.unique(edges.items[places] >> 1).astype(np.int64)
        waiting = sources[~is_visited[sources]]
        is_visited[waiting] = True
    return np.flatnonzero(is_visited)


def add_pair(overlay: Overlay, reader: int, writer: int, *, can_subtract: bool) -> None:
    """Make the writer a neighbour of the reader."""
    if not (can_subtract and overlay.disconnect(reader, 2 * writer + 1)):
        overlay.connect(reader, 2 * writer)


def remove_pair(overlay: Overlay, reader: int, writer: int, *, can_subtract: bool) -> None:
    """Remove the writer from the reader's neighbours."""
    if overlay.disconnect(reader, 2 * writer):
        if can_subtract or not has_path(overlay, writer, reader):
            return
    elif can_subtract:
        overlay.connect(reader, 2 * writer + 1)
        return
    for item in overlay.inputs.items_of(reader).tolist():
        if has_path(overlay, writer, item >> 1):
            overlay.disconnect(reader, item)
            for source in _inputs_without(overlay, item >> 1, writer):
                if 2 * source not in overlay.inputs.items_of(reader):
                    overlay.connect(reader, 2 * source)


def has_path(overlay: Overlay, writer: int, node: int) -> bool:
    """Return whether a path leads from the writer to the node."""
    _, writers = overlay.writers_of(np.array([node]))
    return writer in writers if overlay.kinds[node] != WRITER else node == writer


def _inputs_without(overlay: Overlay, node: int, writer: int) -> list[int]:
    """Return nodes that together replace a node without one writer."""
    if overlay.kinds[node] == WRITER:
        return [node] if node != writer else []
    if not has_path(overlay, writer, node):
        return [node]
    return [
        part
        for item in overlay.inputs.items_of(node).tolist()
        for part in _inputs_without(overlay, item >> 1, writer)
    ]


def has_pushed_inputs(overlay: Overlay, node: int) -> bool:
    """Return whether all inputs of a node are pushed."""
    return bool(overlay.pushed[overlay.inputs.items_of(node) >> 1].all())


def nodes_with_pushed_inputs(overlay: Overlay, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return those nodes whose inputs are all pushed; each must have inputs."""
    if not nodes.shape[0]:
        return nodes
    size, start = overlay.inputs.size[nodes], overlay.inputs.start[nodes]
    heads = np.cumsum(size) - size
    places = np.repeat(start - heads, size) + np.arange(int(size.sum()))
    flags = overlay.pushed[overlay.inputs.items[places] >> 1]
    return np.ascontiguousarray(nodes[np.minimum.reduceat(flags, heads) == 1])


PART_ITEMS: Final = 1 << 12
"""Entries of a part, few enough to stay in the cache."""


def reachable_nodes(
    overlay: Overlay, writers: Words, *, pulled: bool = False
) -> Iterator[tuple[Words, Words]]:
    """Yield the pushed nodes that writers reach, including the writers, in parts.

    With ``pulled``, yield all nodes. Each path gives an item and the position of its writer in ``writers``,
    the first one of equal adjacent writers.
    """
    edges = overlay.outputs
    live = edges.size if pulled else overlay.pushed_outputs
    room, begun = PART_ITEMS, np.zeros(1, np.int64)
    while begun[0] < writers.shape[0]:
        items, origin = (np.empty(room, np.int64) for _ in range(2))
        count = overlays.reach(writers, begun, edges.start, live, edges.items, overlay.kinds, items, origin)
        if count:
            yield items[:count], origin[:count]
        room *= 1 if count else 4


def readers_below(overlay: Overlay, writers: Words) -> Words:
    """Return the readers that the writers reach, possibly with repetitions."""
    nodes = [np.empty(0, np.int64)]
    for items, _ in reachable_nodes(overlay, writers, pulled=True):
        nodes_of_part = items >> 1
        nodes.append(np.unique(nodes_of_part[overlay.kinds[nodes_of_part] == READER]))
    return np.concatenate(nodes)
