"""Families of partial aggregates: the state that each node of an overlay keeps for one kind of aggregate.

A :class:`Family` is the interface that the overlay engine uses. It keeps the partial aggregates of all
writers, and of the other nodes that are pushed.

* :class:`Sums`: counts and sums, a few words for each node. They can be added and subtracted.
* :class:`Counts`: a bag of words for each node, for the most frequent and the distinct values. Bags are added
  and subtracted like sums, so negative edges are allowed. All bags share one pool
  (``runtime/kernels/bags.py``).
* :class:`Extremes`: least and greatest words. A writer keeps its whole window, a pushed node only the extreme
  of its inputs. Repetition does not matter.
* :class:`UncommittedWrites`: the writes since the last commit, for rollback.
* :class:`Answers`: arrays of elements as output. The string of an array is the strings of its elements and an
  end mark, so many arrays are built and interned in one call.
"""

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.overlay import WRITER, Edges, Ids, Overlay, aligned, reached, stretched
from kpg.runtime.errors import DataError
from kpg.runtime.kernels import bags as kernels
from kpg.runtime.kernels import overlays
from kpg.runtime.mfp.python_calls import values_of
from kpg.runtime.plan.nodes import EgoCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import shown
from kpg.runtime.types import NULL, Type
from kpg.runtime.values import codec
from kpg.runtime.values.codec import codec_of

Words = NDArray[np.int64]


MANY: Final = 1 << 14
"""So many nodes are filled at once."""
NOTHING: Final = 2**63 - 1
"""The least word of an empty bag."""


class Bags:
    """A bag for each node, empty at first."""

    def __init__(self) -> None:
        self.heads: Words = np.zeros((0, 4), np.int64)
        self.table: Words = np.empty((1024, 2), np.int64)
        self._state: Words = np.zeros(2, np.int64)

    @property
    def answer(self) -> Words:
        """What was once found of each bag, FREE where that has changed."""
        return self.heads[:, kernels.FOUND]

    def grow(self, nodes: int) -> None:
        """Have bags for so many nodes."""
        self.heads = aligned(self.heads, nodes)
        self.answer[:] = kernels.FREE

    def moved(self, nodes: Words, room: int) -> None:
        """Node i has from now on what ``nodes[i]`` had, and there are bags for ``room``."""
        self.heads = aligned(self.heads[nodes], room)
        self.answer[:] = kernels.FREE
        self._compact()

    def add(self, nodes: Words, words: Words, diffs: Words) -> None:
        """Words come to nodes' bags, or go, as often as ``diffs`` says."""
        first = 0
        while first < nodes.shape[0]:
            first = kernels.add(nodes, words, diffs, first, self.heads, self.table, self._state)
            if first < nodes.shape[0]:
                self._make_room(nodes[first])

    def spread(self, items: Words, origin: Words, nodes: Words, words: Words, diffs: Words) -> None:
        """To each of ``items`` comes what its writer got: the rows of ``nodes`` from ``origin`` on."""
        done, bag = np.zeros(2, np.int64), 0
        while bag >= 0:
            bag = kernels.spread(
                items, origin, nodes, words, diffs, done, self.heads, self.table, self._state
            )
            if bag >= 0:
                self._make_room(bag)

    def gather(self, nodes: Words, edges: Edges) -> None:
        """Have nodes' bags be what is in those of their inputs, none of which is among these nodes."""
        self.clear(nodes)
        for first in range(0, nodes.shape[0], MANY):
            some = nodes[first : first + MANY]
            found = np.empty((3, 0), np.int64)
            for _ in range(2):
                count = kernels.gathered(
                    some, edges.start, edges.size, edges.items, self.heads, self.table, found
                )
                if count > found.shape[1]:
                    found = np.empty((3, count), np.int64)
            self.add(found[0], found[1], found[2])

    def _make_room(self, node: int) -> None:
        """Close gaps if there are many, else have a larger pool."""
        needed = max(64, 8 * int(self.heads[node, kernels.TABLE_ROWS]))
        if 2 * int(self.heads[:, kernels.TABLE_ROWS].sum()) < self._state[0]:
            self._compact()
        if self._state[0] + needed > self.table.shape[0]:
            self.table = stretched(self.table, 2 * self.table.shape[0] + needed)

    def _compact(self) -> None:
        used = np.flatnonzero(self.heads[:, kernels.TABLE_ROWS])
        order = np.ascontiguousarray(used[np.argsort(self.heads[used, kernels.TABLE_AT], kind="stable")])
        self._state[0] = kernels.compact(self.heads, self.table, order)

    def clear(self, nodes: Words) -> None:
        """Have nodes' bags be empty."""
        self.heads[nodes] = (0, 0, 0, kernels.FREE)

    def of(self, node: int) -> tuple[Words, Words]:
        """The words of a node, and how often each is there."""
        found, times = (np.empty(int(self.heads[node, kernels.TABLE_ROWS]), np.int64) for _ in range(2))
        count = kernels.listed(node, self.heads, self.table, found, times)
        return found[:count], times[:count]

    def least(self, nodes: Words) -> Words:
        """The least word of each node; the greatest there is of an empty bag."""
        found = np.empty(nodes.shape[0], np.int64)
        kernels.least(nodes, self.heads, self.table, found)
        return found

    def exchanged(self, nodes: Words) -> tuple[Words, Words, Words]:
        """Nodes, words and diffs with which each node that has a word gets another's for one of its."""
        words = self.least(nodes)
        there = words != NOTHING
        nodes, words = nodes[there], words[there]
        pairs = np.stack((words, np.roll(words, 1)), axis=1)
        return np.repeat(nodes, 2), pairs.reshape(-1), np.tile(np.array([-1, 1]), nodes.shape[0])

    @property
    def bytes(self) -> int:
        """What is kept."""
        return self.table.nbytes + self.heads.nbytes


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
        self._end = self._pieces.code(codec.joined(()))
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
            strings = [codec.joined((self._codec.encode(value),))[:-1] for value in values]
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


class Family(Protocol):
    """The partial aggregates of an overlay: of writers always, of others where they are pushed."""

    subtracts: bool
    """Whether what an input brings can be taken away: negative edges are right."""
    repeats: bool
    """Whether it does not matter how often an input brings something."""

    timed: bool
    """Whether writes may be tried out, and undone, to see how long they take."""

    def grow(self, room: int) -> None:
        """Have places for so many nodes."""

    def moved(self, writers: Words, room: int) -> None:
        """Forget all but writers: node i is now what ``writers[i]`` was."""

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        """Rows ``int64[width, n]`` of writers come and go; and what is pushed below changes with them.

        What this raises, :meth:`rollback` undoes.
        """

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        """Nodes, rows and diffs of a write: distinct writers get what others of them have for what they had.

        Only asked where writes may be tried out.
        """

    def fill(self, overlay: Overlay, order: Words) -> None:
        """Compute the pushed nodes among ``order``, each after what feeds it, of their inputs."""

    def drop(self, nodes: Words) -> None:
        """Nodes are not pushed any more."""

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        """Of each node, whether there is anything, and words ``int64[calls, n]``. DataError if it fails."""

    def listed(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Where an answer is an array: how long each node's is, none if there is nothing, and the elements.

        These are words, one node's after the other's. None where answers are words themselves.
        """

    def commit(self) -> None:
        """The step is over."""

    def rollback(self) -> None:
        """Undo what has been written since the last commit."""

    @property
    def bytes(self) -> int:
        """What is kept."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a write has added to writers."""

    overlay: Overlay
    nodes: Words
    deltas: Words


class Sums:
    """Of each node how many rows there are, and for each operand how many are not NULL, and their sum."""

    subtracts = True
    timed = True
    repeats = False

    def __init__(self, calls: tuple[EgoCall, ...]) -> None:
        self._calls = calls
        parts = [(call.arguments[0], summed) for call in calls if call.arguments for summed in _parts(call)]
        self._parts = tuple(dict.fromkeys(parts))
        self._columns = np.array([column for column, _ in self._parts], np.int64)
        self._summed = np.array([summed for _, summed in self._parts], np.uint8)
        self._state: Words = np.zeros((0, 1 + len(self._parts)), np.int64)
        self._place = np.empty(0, np.int32)
        """What a kernel needs for each node while it looks for each writer's rows."""
        self._written: list[Written] = []

    def grow(self, room: int) -> None:
        self._state = stretched(self._state, room)
        self._place = np.full(room, -1, np.int32)

    def moved(self, writers: Words, room: int) -> None:
        self._state = stretched(self._state[writers], room)
        self._place = np.full(room, -1, np.int32)

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        found = np.empty(nodes.shape[0], np.int64)
        deltas = np.empty((nodes.shape[0], self._state.shape[1]), np.int64)
        count = overlays.gather_sums(
            nodes, rows, diffs, self._columns, self._summed, self._place, found, deltas
        )
        if count:
            self._written.append(Written(overlay, found[:count], deltas[:count]))
            if self._push(overlay, found[:count], deltas[:count]):
                raise _overflow()

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        ones = np.ones(nodes.shape[0], np.int64)  # whatever is added takes as long
        return nodes, np.zeros((1 + int(self._columns.max(initial=0)), nodes.shape[0]), np.int64), ones

    def listed(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Answers are no lists."""
        return None

    def _push(self, overlay: Overlay, nodes: Words, deltas: Words) -> bool:
        edges = overlay.outputs
        return bool(
            overlays.push_sums(
                nodes, deltas, edges.start, overlay.live, edges.items, overlay.kinds, self._state
            )
        )

    def fill(self, overlay: Overlay, order: Words) -> None:
        edges = overlay.inputs
        self._state[order[(edges.size[order] == 0) & (overlay.kinds[order] != WRITER)]] = 0
        overlays.fill_sums(order, edges.start, edges.size, edges.items, overlay.pushed, self._state)

    def drop(self, nodes: Words) -> None:
        self._state[nodes] = 0

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        found = np.empty((nodes.shape[0], self._state.shape[1]), np.int64)
        edges = overlay.inputs
        if overlays.pull_sums(
            nodes, edges.start, edges.size, edges.items, overlay.pushed, self._state, found
        ):
            raise _overflow()
        words = np.empty((len(self._calls), nodes.shape[0]), np.int64)
        for place, call in enumerate(self._calls):
            if not call.arguments:
                words[place] = found[:, 0]
                continue
            known = found[:, 1 + self._parts.index((call.arguments[0], False))]
            if call.counts:
                words[place] = known
            else:
                total = found[:, 1 + self._parts.index((call.arguments[0], True))]
                words[place] = np.where(known == 0, NULL, total)
        return found[:, 0] > 0, words

    def commit(self) -> None:
        self._written.clear()

    def rollback(self) -> None:
        for one in reversed(self._written):
            self._push(one.overlay, one.nodes, -one.deltas)
        self._written.clear()

    @property
    def bytes(self) -> int:
        return self._state.nbytes + self._place.nbytes


def _parts(call: EgoCall) -> tuple[bool, ...]:
    """Of a call's words how many there are, and, if it is no count, their sum."""
    return (False,) if call.counts else (False, True)


def _overflow() -> DataError:
    return DataError("sum overflows: a sum of what neighbours wrote does not fit 64 bits")


@dataclass(frozen=True, slots=True)
class UncommittedWrites:
    """Words that came to writers, or went, while an overlay was what it was."""

    overlay: Overlay
    nodes: Words
    words: Words
    diffs: Words


class Undoable:
    """The part of a family whose changes are undone by their opposites."""

    def __init__(self) -> None:
        self._written: list[UncommittedWrites] = []

    def _take(self, one: UncommittedWrites) -> None:
        """Change what is kept, and remember it."""
        self._written.append(one)
        self._change(one, one.diffs)

    def _change(self, one: UncommittedWrites, diffs: Words) -> None:
        """Have words come, or go, as often as ``diffs`` says."""
        raise NotImplementedError

    def commit(self) -> None:
        """The step is over."""
        self._written.clear()

    def rollback(self) -> None:
        """Undo what has been written since the last commit."""
        for one in reversed(self._written):
            self._change(one, -one.diffs)
        self._written.clear()


WAYS: Final = {"distinct_count": kernels.NUMBER, "distinct_values": kernels.BY_WORD}


class Counts(Undoable):
    """Of each writer and each pushed node a bag of the words of one column."""

    subtracts = True
    timed = True
    repeats = False

    def __init__(self, calls: tuple[EgoCall, ...], few: int, dictionary: Dictionary) -> None:
        super().__init__()
        (self._call,) = calls
        self._few = few
        self._way = WAYS.get(shown(self._call.function), kernels.BY_COUNT)
        self._answers = Answers(self._call.argument_types[0], few, dictionary)
        self._known = Known()
        self._bags = Bags()

    def grow(self, room: int) -> None:
        self._bags.grow(room)

    def moved(self, writers: Words, room: int) -> None:
        self._bags.moved(writers, room)

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        words = rows[self._call.arguments[0]]
        known = words != NULL
        if not known.all():
            nodes, words, diffs = nodes[known], np.ascontiguousarray(words[known]), diffs[known]
        self._take(UncommittedWrites(overlay, nodes, words, diffs))

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        nodes, words, diffs = self._bags.exchanged(nodes)
        rows = np.zeros((1 + self._call.arguments[0], nodes.shape[0]), np.int64)
        rows[-1] = words
        return nodes, rows, diffs

    def _change(self, one: UncommittedWrites, diffs: Words) -> None:
        for items, origin in reached(one.overlay, one.nodes):
            self._bags.spread(items, origin, one.nodes, one.words, diffs)

    def fill(self, overlay: Overlay, order: Words) -> None:
        chosen = order[(overlay.pushed[order] == 1) & (overlay.kinds[order] != WRITER)]
        if chosen.shape[0] > 1:  # whose inputs may be among them: level by level
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
        listed = self.listed(overlay, nodes)
        if listed is None:
            size = np.zeros(nodes.shape[0], np.int64)
            self._frequent(overlay, nodes, 0, size, 0)
            return size > 0, size.reshape(1, -1)
        words = self._answers.words(*listed)
        return words != NULL, words.reshape(1, -1)

    def listed(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        if self._way == kernels.NUMBER:
            return None
        size = np.zeros(nodes.shape[0], np.int64)
        self._known.make_room(self._bags)
        try:
            found = self._find(overlay, nodes, size)
        except BaseException:
            self._bags.answer[nodes] = kernels.FREE
            raise
        return size, self._known.hand_out(nodes, size, found, overlay.pushed, self._bags)

    def _find(self, overlay: Overlay, nodes: Words, size: Words) -> Words:
        """The lists of those nodes of whom none is known, and who were not asked for before in ``nodes``."""
        first, room, parts = 0, max(1024, 4 * self._few * nodes.shape[0]), [np.empty(0, np.int64)]
        while first < nodes.shape[0]:
            found, done = self._frequent(overlay, nodes, first, size, room)
            fresh = first + np.flatnonzero(size[first:done] >= 0)
            elements, size[fresh] = self._answers.ordered(found, size[fresh])
            parts.append(elements)
            first, room = done, 4 * room
        return np.concatenate(parts)

    def _frequent(
        self, overlay: Overlay, nodes: Words, first: int, size: Words, room: int
    ) -> tuple[Words, int]:
        bags, edges, found = self._bags, overlay.inputs, np.empty((2, room), np.int64)
        done = kernels.frequent(
            nodes, first, edges.start, edges.size, edges.items, overlay.pushed, bags.heads, bags.table,
            self._few, self._way, self._answers.sorts, found, size,
        )  # fmt: skip
        return found, int(done)

    @property
    def bytes(self) -> int:
        return self._bags.bytes + self._answers.bytes + self._known.bytes


class Extremes(Undoable):
    """Of each node one word; the greatest is the least of complements. Repetition does not matter.

    A pushed node whose best input has got worse looks at all its inputs, which are pushed too.
    """

    subtracts = False
    timed = True
    repeats = True

    def __init__(self, *, greatest: bool) -> None:
        super().__init__()
        self._flip = np.int64(-1 if greatest else 0)
        self._bags = Bags()
        self._best: Words = np.empty(0, np.int64)

    def grow(self, room: int) -> None:
        self._bags.grow(room)
        known = self._best
        self._best = np.full(room, overlays.EMPTY, np.int64)
        self._best[: known.shape[0]] = known

    def moved(self, writers: Words, room: int) -> None:
        self._bags.moved(writers, room)
        best = np.full(room, overlays.EMPTY, np.int64)
        best[: writers.shape[0]] = self._best[writers]
        self._best = best

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        self._take(UncommittedWrites(overlay, nodes, rows[0] ^ self._flip, diffs))

    def _change(self, one: UncommittedWrites, diffs: Words) -> None:
        overlay = one.overlay
        self._bags.add(one.nodes, one.words, diffs)
        nodes = one.nodes[np.flatnonzero(np.diff(one.nodes, prepend=-1))]
        outputs, inputs = overlay.outputs, overlay.inputs
        overlays.push_least(
            nodes, self._bags.least(nodes), outputs.start, overlay.live, outputs.items,
            inputs.start, inputs.size, inputs.items, self._best,
        )  # fmt: skip

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        nodes, words, diffs = self._bags.exchanged(nodes)
        return nodes, (words ^ self._flip).reshape(1, -1), diffs

    def listed(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Answers are no lists."""
        return None

    def fill(self, overlay: Overlay, order: Words) -> None:
        empty = order[(overlay.inputs.size[order] == 0) & (overlay.kinds[order] != WRITER)]
        self._best[empty] = overlays.EMPTY
        edges = overlay.inputs
        overlays.fill_least(order, edges.start, edges.size, edges.items, overlay.pushed, self._best)

    def drop(self, nodes: Words) -> None:
        self._best[nodes] = overlays.EMPTY

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        found = np.empty(nodes.shape[0], np.int64)
        edges = overlay.inputs
        overlays.pull_least(nodes, edges.start, edges.size, edges.items, overlay.pushed, self._best, found)
        there = found != overlays.EMPTY
        return there, np.where(there, found ^ self._flip, NULL).reshape(1, -1)

    @property
    def bytes(self) -> int:
        return self._bags.bytes + self._best.nbytes
