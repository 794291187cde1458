"""The overlay graph: writers, readers and partial aggregates, connected by signed edges in flat arrays.

A node is a number. Writers come first, then readers, then partial aggregates, in order of construction; a
later node takes the next number. Nodes are renumbered by traffic from time to time
(``decisions.by_traffic``). The *item* of an edge is ``2 * node``, plus one if the edge is negative.

Invariant (digest, E17): the products of signs over all paths from a writer to a reader add up to 1 if the
writer is a neighbour of the reader, else to 0. For aggregates that ignore repetition, at least one path is
enough, and there are no negative edges.

:class:`Ids` maps words to nodes. :class:`Followed` says which readers are continuous: their answers are
reported when they change, so they are pushed. :func:`add` and :func:`remove` change the pairs of a built
overlay with few edges: an added pair is a direct edge; a removed pair deletes that edge or adds a negative
one. Where the aggregate cannot subtract, the paths from the writer to the reader are taken apart.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import ids as kernels
from kpg.runtime.kernels import overlays
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]


SPARSE: Final = 8
"""Words are listed if so many of them have one that is known, at least, on average."""


class Ids:
    """Nodes by word: in a list where words are near each other, else in a table, three quarters full."""

    def __init__(self, words: Words, nodes: Words) -> None:
        self._count = words.shape[0]
        self._first = 0
        self._listed: NDArray[np.int32] | None = None
        self._table = _table(0)
        self._place(words, nodes)

    def _place(self, words: Words, nodes: Words) -> None:
        """Have these be all that are known."""
        first, last = (int(words.min()), int(words.max())) if words.shape[0] else (0, 0)
        if last - first < SPARSE * words.shape[0]:
            more = words.shape[0] // 4
            self._first = max(first - more, -(2**62))
            self._listed = np.full(last + more + 1 - self._first, -1, np.int32)
            self._listed[words - self._first] = nodes
            self._table = _table(0)
        else:
            self._listed = None
            self._table = _table(2 * words.shape[0])
            kernels.put(self._table, np.ascontiguousarray(words), np.ascontiguousarray(nodes))

    def find(self, words: Words) -> Words:
        """The node of each word, -1 where there is none."""
        found = np.empty(words.shape[0], np.int64)
        words = np.ascontiguousarray(words)
        if self._listed is not None:
            kernels.find_listed(self._listed, self._first, words, found)
        else:
            kernels.find(self._table, words, found)
        return found

    def observe(self, words: Words, diffs: Words, counts: Words) -> tuple[Words, int]:
        """The node of each word, -1 where there is none, and how many there are not.

        ``counts`` has one more at each node for what comes to it.
        """
        found = np.empty(words.shape[0], np.int64)
        words = np.ascontiguousarray(words)
        if self._listed is not None:
            missing = kernels.observe_listed(self._listed, self._first, words, diffs, found, counts)
        else:
            missing = kernels.observe(self._table, words, diffs, found, counts)
        return found, int(missing)

    def put(self, words: Words, nodes: Words) -> None:
        """Words that were not known."""
        self._count += words.shape[0]
        if self._listed is not None:
            last = self._first + self._listed.shape[0] - 1
            if ((words >= self._first) & (words <= last)).all():
                self._listed[words - self._first] = nodes
                return
        elif 4 * self._count <= 3 * self._table.shape[0]:
            kernels.put(self._table, np.ascontiguousarray(words), np.ascontiguousarray(nodes))
            return
        known, of = self.every()
        self._place(np.concatenate((known, words)), np.concatenate((of, nodes)))

    def every(self) -> tuple[Words, Words]:
        """All words and their nodes."""
        if self._listed is not None:
            there = np.flatnonzero(self._listed >= 0)
            return there + self._first, self._listed[there].astype(np.int64)
        found = self._table[:, 1] >= 0
        return np.ascontiguousarray(self._table[found, 0]), np.ascontiguousarray(self._table[found, 1])

    def by_node(self, room: int) -> Words:
        """The word of each of so many nodes; 0 where it is none of these."""
        words, nodes = self.every()
        found = np.zeros(room, np.int64)
        found[nodes] = words
        return found

    def renumbered(self, number: Words) -> "Ids":
        """The same words, of nodes with other numbers."""
        words, nodes = self.every()
        return Ids(words, number[nodes])

    @property
    def bytes(self) -> int:
        """What is kept."""
        return self._table.nbytes if self._listed is None else self._listed.nbytes


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
LINE: Final = 8
"""Words of a line of the processor's caches."""


def stretched(array: Words, length: int) -> Words:
    """The array with zeros behind it."""
    grown: Words = np.zeros((length, *array.shape[1:]), np.int64)
    grown[: array.shape[0]] = array
    return grown


def aligned(rows: Words, length: int) -> Words:
    """The rows with zeros behind them, in an array that begins with a line of the processor's caches."""
    width = rows.shape[1]
    given = np.zeros(length * width + LINE, np.int64)
    first = -(given.ctypes.data // given.itemsize) % LINE
    grown: Words = given[first : first + length * width].reshape(length, width)
    grown[: rows.shape[0]] = rows
    return grown


class Edges:
    """For each node a list of items, in one array: ``items[start[node]:start[node] + size[node]]``."""

    def __init__(self, start: Words, size: Words, items: Items) -> None:
        self.start, self.size, self.items = start, size, items
        self._room = size.copy()
        self._end = items.shape[0]

    def of(self, node: int) -> Items:
        """The items of a node."""
        first = self.start[node]
        return self.items[first : first + self.size[node]]

    def replace(self, node: int, items: list[int]) -> None:
        """Have a node's items be these."""
        if len(items) > self._room[node]:
            self._move(node, max(len(items), 4))
        first = self.start[node]
        self.items[first : first + len(items)] = items
        self.size[node] = len(items)

    def append(self, node: int, item: int) -> None:
        """One item more."""
        if self.size[node] == self._room[node]:
            self._move(node, max(4, 2 * int(self.size[node])))
        self.items[self.start[node] + self.size[node]] = item
        self.size[node] += 1

    def remove(self, node: int, item: int) -> bool:
        """One item less; whether it was there."""
        found = np.flatnonzero(self.of(node) == item)
        if not found.shape[0]:
            return False
        last = self.start[node] + self.size[node] - 1
        self.items[self.start[node] + found[0]] = self.items[last]
        self.size[node] -= 1
        return True

    def writers_of(self, nodes: Words) -> tuple[Words, Words]:
        """Of nodes' inputs: what reaches nodes from writers, a place of ``nodes`` and a writer for each."""
        ends = np.zeros(nodes.shape[0], np.int64)
        found = np.empty(max(1024, int(self.size[nodes].sum())), np.int64)
        total = overlays.sources(nodes, self.start, self.size, self.items, found, ends)
        if total > found.shape[0]:
            found = np.empty(total, np.int64)
            overlays.sources(nodes, self.start, self.size, self.items, found, ends)
        found = found[:total]
        key = np.repeat(np.arange(nodes.shape[0]) << 32, np.diff(ends, prepend=0))
        key |= found >> 1
        negative = (found & 1).astype(np.bool_)
        del found
        if negative.any():
            distinct, place = np.unique(key, return_inverse=True)
            net = np.bincount(place[~negative], minlength=distinct.shape[0])
            kept = distinct[net > np.bincount(place[negative], minlength=distinct.shape[0])]
        else:
            kept = np.unique(key)
        return kept >> 32, kept & np.int64(2**32 - 1)

    def copy(self) -> "Edges":
        """The same, apart."""
        return Edges(self.start.copy(), self.size.copy(), self.items.copy())

    def _move(self, node: int, room: int) -> None:
        if self._end + room > self.items.shape[0]:
            self.items = np.concatenate((self.items[: self._end], np.empty(self._end + room, np.int32)))
        first = self.start[node]
        self.items[self._end : self._end + self.size[node]] = self.items[first : first + self.size[node]]
        self.start[node], self._room[node] = self._end, room
        self._end += room

    def grow(self, nodes: int) -> None:
        """Have room for so many nodes, the new ones without items."""
        fresh = np.zeros(nodes, np.int64)
        self.start, self.size, self._room = (
            np.concatenate((old, fresh[old.shape[0] :])) for old in (self.start, self.size, self._room)
        )

    @property
    def bytes(self) -> int:
        """What the arrays take."""
        return self.items.nbytes + 3 * self.start.nbytes


class Overlay:
    """The nodes and edges. ``inputs`` are what feeds each node, ``outputs`` whom it feeds.

    ``pushed`` is 1 where the partial aggregate is kept: at writers always, and above whatever is kept.
    """

    def __init__(self, writers: int, readers: int, inputs: Edges, edges: int) -> None:
        """``edges`` is how many there would be without partial aggregates."""
        self.count = inputs.start.shape[0]
        self.kinds: Flags = np.full(self.count, PARTIAL, np.uint8)
        self.kinds[:writers] = WRITER
        self.kinds[writers : writers + readers] = READER
        self.inputs = inputs
        self.outputs = turned(inputs)
        self.pushed: Flags = (self.kinds == WRITER).astype(np.uint8)
        self.arrivals: Words = np.zeros(self.count, np.int64)
        """How often each writer was written."""
        self.asked: Words = np.zeros(self.count, np.int64)
        """How often each reader was read."""
        self.live: Words = np.zeros(self.count, np.int64)
        """How many of a node's outputs, which come first, are pushed."""
        self._unsettled: set[int] = set()
        self.direct = edges
        """Pairs of a reader and one of its writers."""
        self.patches = 0
        """Edges that were changed since it was built."""
        self._order: Words | None = None
        """What :meth:`order` has found, as long as edges are the same."""

    @property
    def room(self) -> int:
        """How many nodes the arrays have places for."""
        return self.kinds.shape[0]

    def add(self, kind: int) -> int:
        """A new node without edges; its number."""
        node = self.count
        if node == self.room:
            room = max(16, 2 * node)
            self.inputs.grow(room)
            self.outputs.grow(room)
            self.kinds = np.concatenate((self.kinds, np.full(room - node, PARTIAL, np.uint8)))
            self.pushed = np.concatenate((self.pushed, np.zeros(room - node, np.uint8)))
            self.arrivals = np.concatenate((self.arrivals, np.zeros(room - node, np.int64)))
            self.asked = np.concatenate((self.asked, np.zeros(room - node, np.int64)))
            self.live = stretched(self.live, room)
        self.count += 1
        self._order = None
        self.kinds[node] = kind
        self.pushed[node] = kind == WRITER
        return node

    def connect(self, target: int, item: int) -> None:
        """An edge more into a node."""
        self.inputs.append(target, item)
        self.outputs.append(item >> 1, 2 * target + (item & 1))
        self._unsettled.add(item >> 1)
        self._order = None
        self.patches += 1

    def disconnect(self, target: int, item: int) -> bool:
        """An edge less; whether it was there."""
        if not self.inputs.remove(target, item):
            return False
        self.outputs.remove(item >> 1, 2 * target + (item & 1))
        self._unsettled.add(item >> 1)
        self._order = None
        self.patches += 1
        return True

    def replaced(self, inputs: Edges, outputs: Edges | None = None) -> None:
        """All edges are these from now on; ``outputs``, if they are known, are the same the other way."""
        self.inputs, self.outputs = inputs, outputs or turned(inputs)
        self._unsettled.clear()
        self._order = None

    def renumber(self, order: Words) -> Words:
        """Have node ``order[i]`` be node i, for all i; returns which number each has got."""
        number = np.empty(self.room, np.int64)
        number[order] = np.arange(self.room)
        given = self.inputs
        size, start = given.size[order], np.empty(self.room, np.int64)
        items = np.empty(int(size.sum()), np.int32)
        overlays.renumber(order, number, given.start, given.size, given.items, start, items)
        self.kinds, self.pushed = self.kinds[order], self.pushed[order]
        self.arrivals, self.asked = self.arrivals[order], self.asked[order]
        self.replaced(Edges(start, size, items))
        self.settle(every=True)
        return number

    def labelled(self, nodes: Words) -> None:
        """Labels of nodes have changed."""
        if nodes.shape[0]:
            items = np.concatenate([self.inputs.of(node) for node in nodes.tolist()])
            self._unsettled.update(np.unique(items >> 1).tolist())

    def forget(self, bits: int) -> None:
        """Have all been written and read so much seldomer."""
        self.arrivals >>= bits
        self.asked >>= bits

    def decayed(self, share: float) -> bool:
        """Whether such a share of the edges was changed since it was built."""
        return self.patches > share * self.edges

    def settle(self, *, every: bool = False) -> None:
        """Have pushed outputs come first: of nodes whose outputs, or the labels of these, have changed."""
        if not every and not self._unsettled:
            return
        nodes = np.arange(self.room) if every else np.array(list(self._unsettled), np.int64)
        edges = self.outputs
        overlays.settle(nodes, edges.start, edges.size, edges.items, self.pushed, self.live)
        self._unsettled.clear()

    def order(self) -> Words:
        """All nodes, each after what feeds it: not to be changed."""
        if self._order is None:
            order = np.empty(self.room, np.int64)
            outputs = self.outputs
            waiting = self.inputs.size.copy()
            found = overlays.arrange(outputs.start, outputs.size, outputs.items, waiting, order)
            assert found == self.room, "an overlay has a circle"
            self._order = order
        return self._order

    def writers_of(self, nodes: Words) -> tuple[Words, Words]:
        """What reaches nodes from writers, a place of ``nodes`` and a writer for each, in order."""
        return self.inputs.writers_of(nodes)

    def levels(self) -> Words:
        """Of each node, how many edges the longest path from a writer to it has."""
        level = np.zeros(self.room, np.int64)
        inputs = self.inputs
        overlays.deepen(self.order(), inputs.start, inputs.size, inputs.items, level)
        return level

    @property
    def edges(self) -> int:
        """How many edges there are."""
        return int(self.inputs.size[: self.count].sum())

    @property
    def sharing(self) -> float:
        """The sharing index: the share of edges that partial aggregates save."""
        return 1 - self.edges / self.direct if self.direct else 0.0

    @property
    def bytes(self) -> int:
        """What the arrays take."""
        return self.inputs.bytes + self.outputs.bytes + 2 * self.kinds.nbytes + 3 * self.live.nbytes


def turned(inputs: Edges) -> Edges:
    """The same edges by what they come from."""
    nodes = inputs.start.shape[0]
    size = np.zeros(nodes, np.int64)
    overlays.count_sources(inputs.start, inputs.size, inputs.items, size)
    start = np.zeros(nodes, np.int64)
    np.cumsum(size[:-1], out=start[1:])
    items = np.empty(int(size.sum()), np.int32)
    filled = np.zeros(nodes, np.int64)
    overlays.transpose(inputs.start, inputs.size, inputs.items, 0, start, filled, items)
    return Edges(start, size, items)


def grouped(keys: Words, values: Words, count: int) -> Edges:
    """For each of ``count`` keys the items of its values."""
    size = np.bincount(keys, minlength=count).astype(np.int64)
    start = np.zeros(count, np.int64)
    np.cumsum(size[:-1], out=start[1:])
    items = np.empty(keys.shape[0], np.int32)
    keys = np.ascontiguousarray(keys)
    overlays.bucket(keys, 2 * values, start, np.zeros(count, np.int64), items)
    return Edges(start, size, items)


Test = Callable[[Words], Words]
"""Gives those of some readers, by their words, that pass."""
NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Followed:
    """The readers that somebody follows: all, or those of ``words`` (in order) and those that pass a test.

    ``name`` tells two such choices apart.
    """

    every: bool
    words: Words
    tests: tuple[Test, ...] = ()
    name: tuple[object, ...] = ()

    def picks(self, words: Words) -> NDArray[np.bool_]:
        """Which of some words are followed."""
        if self.every:
            return np.ones(words.shape[0], np.bool_)
        found = among(self.words, words)
        for test in self.tests:
            found |= np.isin(words, test(words))
        return found

    @property
    def nobody(self) -> bool:
        """Whether no reader is followed."""
        return not (self.every or self.words.shape[0] or self.tests)


NOBODY: Final = Followed(False, NONE)
EVERYBODY: Final = Followed(True, NONE)


def among(known: Words, words: Words) -> NDArray[np.bool_]:
    """Which words are among those that are in order."""
    if not known.shape[0]:
        return np.zeros(words.shape[0], np.bool_)
    places = np.minimum(np.searchsorted(known, words), known.shape[0] - 1)
    there: NDArray[np.bool_] = known[places] == words
    return there


def above(overlay: Overlay, nodes: Words) -> Words:
    """Nodes and all that feeds them, by way of others, too: what is pushed where these are."""
    seen = np.zeros(overlay.room, np.bool_)
    seen[nodes] = True
    edges, waiting = overlay.inputs, nodes
    while waiting.shape[0]:
        size, start = edges.size[waiting], edges.start[waiting]
        heads = np.cumsum(size) - size
        places = np.repeat(start - heads, size) + np.arange(int(size.sum()))
        found = np.unique(edges.items[places] >> 1).astype(np.int64)
        waiting = found[~seen[found]]
        seen[waiting] = True
    return np.flatnonzero(seen)


def add(overlay: Overlay, reader: int, writer: int, *, subtracts: bool) -> None:
    """The writer is one of the reader's neighbours from now on."""
    if not (subtracts and overlay.disconnect(reader, 2 * writer + 1)):
        overlay.connect(reader, 2 * writer)


def remove(overlay: Overlay, reader: int, writer: int, *, subtracts: bool) -> None:
    """The writer is not one of them any more."""
    if overlay.disconnect(reader, 2 * writer):
        if subtracts or not leads(overlay, writer, reader):
            return
    elif subtracts:
        overlay.connect(reader, 2 * writer + 1)
        return
    for item in overlay.inputs.of(reader).tolist():
        if leads(overlay, writer, item >> 1):
            overlay.disconnect(reader, item)
            for source in _without(overlay, item >> 1, writer):
                if 2 * source not in overlay.inputs.of(reader):
                    overlay.connect(reader, 2 * source)


def leads(overlay: Overlay, writer: int, node: int) -> bool:
    """Whether there is a path."""
    _, writers = overlay.writers_of(np.array([node]))
    return writer in writers if overlay.kinds[node] != WRITER else node == writer


def _without(overlay: Overlay, node: int, writer: int) -> list[int]:
    """What together gives all that a node does, but for a writer."""
    if overlay.kinds[node] == WRITER:
        return [node] if node != writer else []
    if not leads(overlay, writer, node):
        return [node]
    return [
        part for item in overlay.inputs.of(node).tolist() for part in _without(overlay, item >> 1, writer)
    ]


def may_be_pushed(overlay: Overlay, node: int) -> bool:
    """Whether all that feeds a node is pushed."""
    return bool(overlay.pushed[overlay.inputs.of(node) >> 1].all())


def all_pushed(overlay: Overlay, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of some nodes with inputs all of whose inputs are pushed."""
    if not nodes.shape[0]:
        return nodes
    size, start = overlay.inputs.size[nodes], overlay.inputs.start[nodes]
    heads = np.cumsum(size) - size
    places = np.repeat(start - heads, size) + np.arange(int(size.sum()))
    flags = overlay.pushed[overlay.inputs.items[places] >> 1]
    return np.ascontiguousarray(nodes[np.minimum.reduceat(flags, heads) == 1])


ROOM: Final = 1 << 12
"""Entries of a part: so many are at hand when they are used."""


def reached(overlay: Overlay, writers: Words, *, every: bool = False) -> Iterator[tuple[Words, Words]]:
    """The pushed nodes that writers reach, these too, in parts; with ``every`` those that are pulled as well.

    Of each path the item and the place of its writer among ``writers``: the first of several in a row.
    """
    edges = overlay.outputs
    live = edges.size if every else overlay.live
    room, begun = ROOM, np.zeros(1, np.int64)
    while begun[0] < writers.shape[0]:
        found, origin = (np.empty(room, np.int64) for _ in range(2))
        count = overlays.reach(writers, begun, edges.start, live, edges.items, overlay.kinds, found, origin)
        if count:
            yield found[:count], origin[:count]
        room *= 1 if count else 4


def readers_below(overlay: Overlay, writers: Words) -> Words:
    """The readers that writers reach, once or oftener."""
    nodes = [np.empty(0, np.int64)]
    for items, _ in reached(overlay, writers, every=True):
        found = items >> 1
        nodes.append(np.unique(found[overlay.kinds[found] == READER]))
    return np.concatenate(nodes)
