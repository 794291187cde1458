"""The overlay engine: an overlay and its partial aggregates, maintained under changes of pairs and writes.

Its answers depend only on the pairs and the writers' windows, not on the overlay or its labels. So applying
the opposite change undoes a change.
"""

import time
from dataclasses import field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego import decisions, overlay
from kpg.runtime.ego.construction import Built, Construction, Pairs, Rebuilding, Report, built, merged
from kpg.runtime.ego.decisions import Costs, Decision, Watching, by_traffic, tried
from kpg.runtime.ego.overlay import (
    NOBODY,
    NONE,
    READER,
    WRITER,
    Followed,
    Ids,
    Overlay,
    above,
    among,
    grouped,
    readers_below,
)
from kpg.runtime.ego.partial_aggregates import Family
from kpg.runtime.errors import DataError
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]
FEW: Final = 64
"""So many changes of pairs are always taken one by one."""
MANY: Final = 0.2
"""A larger share of all pairs that changes at once has the overlay built anew."""
FORGET: Final = 2
"""Bits of what was observed that are forgotten once labels were compared with it."""
DECAYED: Final = 0.25
"""An overlay of which this share of edges was patched is built anew, in the background."""


@dataclass(frozen=True, slots=True)
class Change:
    """Rows (reader, writer) and (writer, columns...) that came or went."""

    pairs: Words
    pair_diffs: Words
    writes: Words
    write_diffs: Words
    readers: Words = field(default_factory=NONE.copy)
    """Readers that become, or are no more, continuous."""
    reader_diffs: Words = field(default_factory=NONE.copy)

    def opposite(self) -> "Change":
        """What undoes it."""
        return Change(
            self.pairs, -self.pair_diffs, self.writes, -self.write_diffs, self.readers, -self.reader_diffs
        )


class Engine:
    """Readers' aggregates; nodes are told by words."""

    def __init__(self, family: Family, construction: Construction, mode: str, costs: Costs) -> None:
        self.family = family
        self.construction = construction
        self.mode = mode
        self.costs = costs
        self.fitted = costs
        """What costs are on the overlay that there is."""
        self.followed = NOBODY
        """The readers whose changes are asked for, which are pushed."""
        self.continuous = NONE
        """Those that are pushed anyway, in order."""
        self.report: Report | None = None
        self.decision: Decision | None = None
        self.flips = 0
        self.rebuilt = 0
        self.rebuilding: Rebuilding | None = None
        """The overlay that comes after this one, while it is being built."""
        self._borne = 0
        """So many patches are borne with, as building did not succeed."""
        nothing = np.empty(0, np.int64)
        self._writers, self._readers = Ids(nothing, nothing), Ids(nothing, nothing)
        self.overlay = Overlay(0, 0, grouped(nothing, nothing, 0), 0)
        self._work = Watching()

    # What changes

    def apply(self, change: Change) -> None:
        """Take changes; if it raises, nothing has changed."""
        before, begun = self.continuous, time.perf_counter()
        try:
            self._demand(change.readers, change.reader_diffs)
            self._apply(change)
        except DataError:
            self.continuous = before
            raise
        if change.readers.shape[0]:
            self._raise_followed()
        self._work.busy += time.perf_counter() - begun

    def _demand(self, readers: Words, diffs: Words) -> None:
        """Have readers be continuous, or not any more: what is pushed then stays so until labels change."""
        if readers.shape[0]:
            kept = np.setdiff1d(self.continuous, readers[diffs < 0])
            self.continuous = np.union1d(kept, readers[diffs > 0])

    def _apply(self, change: Change) -> None:
        large = change.pairs.shape[1] > (max(FEW, MANY * self.overlay.direct) if self.overlay.direct else 0)
        if large:
            self._rebuild(change.pairs, change.pair_diffs, change.writes[0], label=False)
        if change.writes.shape[1]:
            try:
                self._write(change.writes, change.write_diffs)
            except DataError:
                self.family.rollback()
                if large:
                    opposite = change.opposite()
                    self._rebuild(opposite.pairs, opposite.pair_diffs, change.writes[0], label=True)
                raise
            self.family.commit()
        if large:
            self._label()
        else:
            self._patch(change.pairs, change.pair_diffs)
            self.overlay.settle()
            if self.rebuilding is not None:
                self.rebuilding.note(change.pairs, change.pair_diffs)

    def _write(self, rows: Words, diffs: Words) -> None:
        nodes, missing = self._writers.observe(rows[0], diffs, self.overlay.arrivals)
        if missing:
            for word in np.unique(rows[0][nodes < 0]).tolist():
                self._new_writer(word)
            nodes = self._writers.find(rows[0])
        self._work.seen += nodes.shape[0]
        self.family.write(self.overlay, nodes, rows[1:], diffs)

    def _new_writer(self, word: int) -> int:
        node = self.overlay.add(WRITER)
        self._writers.put(np.array([word]), np.array([node]))
        self.family.grow(self.overlay.room)
        return node

    def _new_reader(self, word: int) -> int:
        node = self.overlay.add(READER)
        self._readers.put(np.array([word]), np.array([node]))
        self.family.grow(self.overlay.room)
        self.overlay.pushed[node] = self.mode == "push" or bool(self._forced(np.array([word]))[0])
        return node

    def _forced(self, words: Words) -> NDArray[np.bool_]:
        """Which readers are pushed whatever it costs."""
        return self.followed.picks(words) | among(self.continuous, words)

    def forced(self) -> Words:
        """The nodes of those readers."""
        words, nodes = self._readers.every()
        return nodes[self._forced(words)]

    def _patch(self, pairs: Words, diffs: Words) -> None:
        """Take changes of pairs one by one: those that go first."""
        touched: dict[int, None] = {}
        for place in np.argsort(diffs, kind="stable").tolist():
            reader_word, writer_word = pairs[:, place].tolist()
            (reader,) = self._readers.find(pairs[:1, place]).tolist()
            (writer,) = self._writers.find(pairs[1:, place]).tolist()
            reader = self._new_reader(reader_word) if reader < 0 else reader
            writer = self._new_writer(writer_word) if writer < 0 else writer
            if diffs[place] > 0:
                overlay.add(self.overlay, reader, writer, subtracts=self.family.subtracts)
            else:
                overlay.remove(self.overlay, reader, writer, subtracts=self.family.subtracts)
            self.overlay.direct += int(diffs[place])
            touched[reader] = None
        kept = [node for node in touched if self.overlay.pushed[node]]
        for node in kept:
            if overlay.may_be_pushed(self.overlay, node):
                self._fill(np.array([node]))
            elif node in self.forced():
                self._push(np.array([node]))
                self._fill(np.array([node]))
            else:
                self.overlay.pushed[node] = 0
                self.overlay.labelled(np.array([node]))
                self.family.drop(np.array([node]))

    def _fill(self, nodes: Words) -> None:
        decisions.fill(self.overlay, self.family, nodes)

    # The overlay

    def _pairs(self) -> Pairs:
        """All pairs there are now, whenever they are asked for: what they are told by is copied."""
        words, nodes = self._readers.every()
        word_of, inputs = self._writers.by_node(self.overlay.room), self.overlay.inputs.copy()

        def found() -> tuple[Words, Words]:
            place, writers = inputs.writers_of(nodes)
            return words[place], word_of[writers]

        return found

    def _rebuild(self, pairs: Words, diffs: Words, more: Words, *, label: bool) -> None:
        """Build an overlay for the pairs there are and these changes; ``more`` are words of writers."""
        self.rebuilding = None
        old = self._pairs()
        known = np.concatenate((self._writers.every()[0], more))
        self._adopt(built(self.construction, lambda: merged(*old(), pairs, diffs), known))
        if label:
            self._label()

    def _adopt(self, made: Built) -> None:
        """Have that be the overlay, with the writers that there are, and what they have written."""
        overlay, before = made.overlay, self.overlay
        count = made.writers.shape[0]
        late = np.setdiff1d(self._writers.every()[0], made.writers)
        words = np.concatenate((made.writers, late))
        added = np.array([overlay.add(WRITER) for _ in late], np.int64)
        nodes = np.concatenate((np.arange(count), added))
        old_readers = self._readers.find(made.readers)
        asked = overlay.asked[count : count + made.readers.shape[0]]
        asked[old_readers >= 0] = before.asked[old_readers[old_readers >= 0]]
        self._readers = Ids(made.readers, np.arange(count, count + made.readers.shape[0]))
        moved = self._writers.find(words)
        known = moved >= 0
        overlay.arrivals[nodes[known]] = before.arrivals[moved[known]]
        origin = np.full(int(nodes.max(initial=-1)) + 1, before.room)
        origin[nodes[known]] = moved[known]
        if not known.all() or late.shape[0]:  # what is new has what an unused node has: nothing
            self.family.grow(before.room + 1)
        self.family.moved(origin, overlay.room)
        self._writers = Ids(words, nodes)
        self.overlay, self.report = overlay, made.report
        self.rebuilt += 1

    def _place(self) -> None:
        """Have those nodes that are visited often be near each other, if it is known which these are."""
        overlay, order = self.overlay, by_traffic(self.overlay)
        if order is None:
            return
        number = overlay.renumber(order)
        self._writers, self._readers = self._writers.renumbered(number), self._readers.renumbered(number)
        self.family.grow(overlay.room + 1)
        self.family.moved(np.where(overlay.kinds == WRITER, order, overlay.room), overlay.room)

    def _label(self) -> None:
        self._place()
        mode = "push" if self.followed.every else self.mode
        forced = self.forced() if mode != "push" else NONE
        best = tried(self.overlay, self.family, self.costs, forced) if mode == "auto" else None
        plain = self.overlay, mode, self.costs, forced
        self.decision, self.fitted = best or (decisions.decide(*plain), self.costs)
        if mode == "auto":
            self.overlay.settle(every=True)
            if best is None:
                decisions.dissolve(self.overlay, self.fitted)
                if decisions.split(self.overlay, self.fitted):
                    self.family.grow(self.overlay.room)
        self.overlay.patches = 0
        self._fill(self.overlay.order())
        self.overlay.settle(every=True)
        self._work.decided(int(self.overlay.arrivals.sum() + self.overlay.asked.sum()))

    def follow(self, followed: Followed) -> None:
        """Have those readers be pushed that are followed, and of the others those that it pays for."""
        before, self.followed = self.followed, followed
        if followed.every != before.every:
            self._label()
        elif followed.name != before.name:
            if self.mode == "pull" and not before.nobody:
                self._label()
            self._raise_followed()

    def _raise_followed(self) -> None:
        """Push what is forced to be, and all that feeds it."""
        if self.followed.every or self.mode == "push":
            return
        self._push(self.forced())

    def _push(self, nodes: Words) -> None:
        """Push nodes, and all that feeds them."""
        overlay = self.overlay
        needed = above(overlay, nodes)
        rising = needed[overlay.pushed[needed] == 0]
        if not rising.shape[0]:
            return
        overlay.pushed[rising] = 1
        order = overlay.order()
        chosen = np.zeros(overlay.room, np.bool_)
        chosen[rising] = True
        self._fill(order[chosen[order]])
        overlay.labelled(rising)
        overlay.settle()

    def relabel(self) -> None:
        """Decide anew, by what was observed."""
        self.family.drop(np.flatnonzero((self.overlay.kinds != WRITER) & (self.overlay.pushed == 1)))
        self._label()

    def rebuild(self) -> None:
        """Build the overlay anew, and decide."""
        nothing = np.empty((2, 0), np.int64)
        self._rebuild(nothing, nothing[0], nothing[0], label=True)

    def maintain(self) -> None:
        """Between steps: follow what is observed, and build the overlay anew when it has decayed."""
        if self.rebuilding is not None:
            self._go_over()
        elif self.overlay.patches > max(FEW, self._borne) and self.overlay.decayed(DECAYED):
            self.rebuilding = Rebuilding(self.construction, self._pairs(), self._writers.every()[0])
        elif self.mode == "auto" and not self.followed.every and self._work.due:
            begun, flips = time.perf_counter(), self.flips
            self.adapt(anew=self._work.shifted)
            changed = (self.flips - flips) / self.overlay.count
            self._work.compared(changed, time.perf_counter() - begun)

    def _go_over(self) -> None:
        """Go over to the overlay that was built in the background, if there is one."""
        rebuilding = self.rebuilding
        assert rebuilding is not None
        if not rebuilding.over:
            return
        self.rebuilding, made = None, rebuilding.made
        if made is None:
            self._borne = 2 * self.overlay.patches
            return
        self._adopt(made)
        self._label()
        self._patch(*rebuilding.missed())
        self.overlay.settle()
        self._borne = 0

    def adapt(self, *, anew: bool = False) -> None:
        """Change labels by what was observed, at the frontier or all of them, and forget most of that.

        What costs were with other writes and reads says nothing of those that there are now.
        """
        change = decisions.everywhere if anew else decisions.at_frontier
        self.fitted = self.costs if anew else self.fitted
        self.flips += change(self.overlay, self.family, self.fitted, self.forced())
        self.overlay.forget(FORGET)

    # What is read

    def read(self, words: Words) -> tuple[NDArray[np.bool_], Words]:
        """Of each node, by its word, whether it has an answer; and the answers' words ``int64[calls, n]``."""
        begun = time.perf_counter()
        nodes, known = self._asked(words)
        there, answers = self.family.read(self.overlay, nodes)
        self._work.busy += time.perf_counter() - begun
        if known is None:
            return there, answers
        every, result = np.zeros(len(words), np.bool_), np.zeros((len(answers), len(words)), np.int64)
        every[known], result[:, known] = there, answers
        return every, result

    def listed(self, words: Words) -> tuple[Words, Words] | None:
        """See :meth:`Family.listed`: nothing is interned."""
        begun = time.perf_counter()
        nodes, known = self._asked(words)
        found = self.family.listed(self.overlay, nodes)
        self._work.busy += time.perf_counter() - begun
        if found is None or known is None:
            return found
        sizes = np.zeros(words.shape[0], np.int64)
        sizes[known] = found[0]
        return sizes, found[1]

    def _asked(self, words: Words) -> tuple[Words, NDArray[np.bool_] | None]:
        """The nodes of those that there are, and which these are unless they are all: they are asked now."""
        nodes, missing = self._readers.observe(words, np.ones_like(words), self.overlay.asked)
        self._work.seen += nodes.shape[0]
        if not missing:
            return nodes, None
        known = nodes >= 0
        return np.ascontiguousarray(nodes[known]), known

    def rows(self) -> Words:
        """All answers, ``int64[1 + calls, n]``: readers, and what they read."""
        words, nodes = self._readers.every()
        there, found = self.family.read(self.overlay, nodes)
        return np.concatenate((words[there].reshape(1, -1), found[:, there]))

    def affected(self, change: Change) -> Words:
        """The followed readers whose answers a change may change, as words, as pairs are now."""
        writers = np.unique(self._writers.find(np.unique(change.writes[0])))
        nodes = readers_below(self.overlay, writers[writers >= 0])
        words = self._readers.by_node(self.overlay.room)[nodes]
        found = np.unique(np.concatenate((words, change.pairs[0])))
        return found[self.followed.picks(found)]

    @property
    def size(self) -> int:
        """How many readers there are."""
        return int((self.overlay.kinds[: self.overlay.count] == READER).sum())

    @property
    def bytes(self) -> int:
        """What is kept."""
        return self.overlay.bytes + self.family.bytes + self._writers.bytes + self._readers.bytes
