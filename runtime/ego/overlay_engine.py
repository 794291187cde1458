"""The overlay engine: maintains an overlay and its partial aggregates under changes.

Its results depend only on the pairs and the writers' windows, not on the overlay or its labels. So
applying the opposite change undoes a change.
"""

import time
from dataclasses import field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego import decisions, overlay
from kpg.runtime.ego.construction import (
    BackgroundBuild,
    Build,
    BuildReport,
    Construction,
    Pairs,
    apply_pair_changes,
    build_from_pairs,
)
from kpg.runtime.ego.decisions import Costs, Decision, Workload, choose_by_trial, order_by_traffic
from kpg.runtime.ego.overlay import (
    NO_READERS,
    NONE,
    READER,
    WRITER,
    FollowedReaders,
    NodeIndex,
    Overlay,
    group_edges,
    is_in_sorted,
    readers_below,
    with_ancestors,
)
from kpg.runtime.ego.partial_aggregates import Family
from kpg.runtime.errors import DataError
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]
FEW_CHANGES: Final = 64
"""Changed pairs up to which the overlay is always patched."""
REBUILD_SHARE: Final = 0.2
"""Share of all pairs from which a change rebuilds the overlay."""
DECAY_BITS: Final = 2
"""Bits by which observed frequencies are shifted down after labels were adapted to them."""
MAX_PATCHED: Final = 0.25
"""Share of patched edges from which the overlay is rebuilt in the background."""


@dataclass(frozen=True, slots=True)
class Change:
    """Inserted and deleted rows (reader, writer) and (writer, columns...)."""

    pairs: Words
    pair_diffs: Words
    writes: Words
    write_diffs: Words
    readers: Words = field(default_factory=NONE.copy)
    """Readers that become continuous (diff 1) or stop being so (-1)."""
    reader_diffs: Words = field(default_factory=NONE.copy)

    def opposite(self) -> "Change":
        """Return the change that undoes this one."""
        return Change(
            self.pairs, -self.pair_diffs, self.writes, -self.write_diffs, self.readers, -self.reader_diffs
        )


class OverlayEngine:
    """Readers' aggregates over an overlay; readers and writers are given by words."""

    def __init__(self, family: Family, construction: Construction, mode: str, costs: Costs) -> None:
        self.family = family
        self.construction = construction
        self.mode = mode
        self.costs = costs
        self.fitted_costs = costs
        """Costs as measured on the current overlay."""
        self.followed_readers = NO_READERS
        """Readers whose changes a consumer receives; they are pushed."""
        self.continuous = NONE
        """Sorted readers that are always pushed."""
        self.report: BuildReport | None = None
        self.decision: Decision | None = None
        self.flip_count = 0
        self.rebuild_count = 0
        self.background_build: BackgroundBuild | None = None
        """Next overlay, while it is being built."""
        self._patch_limit = 0
        """Patches that do not trigger a rebuild, after a build has failed."""
        nothing = np.empty(0, np.int64)
        self._writers, self._readers = NodeIndex(nothing, nothing), NodeIndex(nothing, nothing)
        self.overlay = Overlay(0, 0, group_edges(nothing, nothing, 0), 0)
        self._workload = Workload()

    # Changes

    def apply(self, change: Change) -> None:
        """Apply a change; if it raises, nothing has changed."""
        before, begun = self.continuous, time.perf_counter()
        try:
            self._set_continuous(change.readers, change.reader_diffs)
            self._apply(change)
        except DataError:
            self.continuous = before
            raise
        if change.readers.shape[0]:
            self._push_forced()
        self._workload.seconds += time.perf_counter() - begun

    def _set_continuous(self, readers: Words, diffs: Words) -> None:
        """Add and remove continuous readers; removed ones stay pushed until labels change."""
        if readers.shape[0]:
            remaining = np.setdiff1d(self.continuous, readers[diffs < 0])
            self.continuous = np.union1d(remaining, readers[diffs > 0])

    def _apply(self, change: Change) -> None:
        large = change.pairs.shape[1] > (
            max(FEW_CHANGES, REBUILD_SHARE * self.overlay.pair_count) if self.overlay.pair_count else 0
        )
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
            self.overlay.order_outputs()
            if self.background_build is not None:
                self.background_build.record_changes(change.pairs, change.pair_diffs)

    def _write(self, rows: Words, diffs: Words) -> None:
        nodes, missing = self._writers.find_and_count(rows[0], diffs, self.overlay.write_counts)
        if missing:
            for word in np.unique(rows[0][nodes < 0]).tolist():
                self._new_writer(word)
            nodes = self._writers.find(rows[0])
        self._workload.visits += nodes.shape[0]
        self.family.write(self.overlay, nodes, rows[1:], diffs)

    def _new_writer(self, word: int) -> int:
        node = self.overlay.add_node(WRITER)
        self._writers.add(np.array([word]), np.array([node]))
        self.family.grow(self.overlay.room)
        return node

    def _new_reader(self, word: int) -> int:
        node = self.overlay.add_node(READER)
        self._readers.add(np.array([word]), np.array([node]))
        self.family.grow(self.overlay.room)
        self.overlay.pushed[node] = self.mode == "push" or bool(self._must_push(np.array([word]))[0])
        return node

    def _must_push(self, words: Words) -> NDArray[np.bool_]:
        """Return which readers must be pushed at any cost."""
        return self.followed_readers.contains(words) | is_in_sorted(self.continuous, words)

    def forced_nodes(self) -> Words:
        """Return the nodes of the readers that must be pushed."""
        words, nodes = self._readers.items()
        return nodes[self._must_push(words)]

    def _patch(self, pairs: Words, diffs: Words) -> None:
        """Apply changes of pairs one by one, deletions first."""
        touched: dict[int, None] = {}
        for place in np.argsort(diffs, kind="stable").tolist():
            reader_word, writer_word = pairs[:, place].tolist()
            (reader,) = self._readers.find(pairs[:1, place]).tolist()
            (writer,) = self._writers.find(pairs[1:, place]).tolist()
            reader = self._new_reader(reader_word) if reader < 0 else reader
            writer = self._new_writer(writer_word) if writer < 0 else writer
            if diffs[place] > 0:
                overlay.add_pair(self.overlay, reader, writer, can_subtract=self.family.can_subtract)
            else:
                overlay.remove_pair(self.overlay, reader, writer, can_subtract=self.family.can_subtract)
            self.overlay.pair_count += int(diffs[place])
            touched[reader] = None
        pushed_readers = [node for node in touched if self.overlay.pushed[node]]
        for node in pushed_readers:
            if overlay.has_pushed_inputs(self.overlay, node):
                self._fill(np.array([node]))
            elif node in self.forced_nodes():
                self._push(np.array([node]))
                self._fill(np.array([node]))
            else:
                self.overlay.pushed[node] = 0
                self.overlay.mark_relabelled(np.array([node]))
                self.family.drop(np.array([node]))

    def _fill(self, nodes: Words) -> None:
        decisions.fill_pushed(self.overlay, self.family, nodes)

    # The overlay

    def _make_pairs_reader(self) -> Pairs:
        """Return a function that returns all current pairs; it uses copies, for another thread."""
        words, nodes = self._readers.items()
        word_of, inputs = self._writers.words_by_node(self.overlay.room), self.overlay.inputs.copy()

        def read_pairs() -> tuple[Words, Words]:
            place, writers = inputs.writers_of(nodes)
            return words[place], word_of[writers]

        return read_pairs

    def _rebuild(self, pairs: Words, diffs: Words, writer_words: Words, *, label: bool) -> None:
        """Build an overlay for the current pairs with these changes; ``writer_words`` are further writers."""
        self.background_build = None
        old = self._make_pairs_reader()
        writers = np.concatenate((self._writers.items()[0], writer_words))
        self._install(
            build_from_pairs(self.construction, lambda: apply_pair_changes(*old(), pairs, diffs), writers)
        )
        if label:
            self._label()

    def _install(self, build: Build) -> None:
        """Replace the overlay and transfer the writers, with their windows, to it."""
        overlay, before = build.overlay, self.overlay
        count = build.writers.shape[0]
        late = np.setdiff1d(self._writers.items()[0], build.writers)
        words = np.concatenate((build.writers, late))
        new_nodes = np.array([overlay.add_node(WRITER) for _ in late], np.int64)
        nodes = np.concatenate((np.arange(count), new_nodes))
        old_readers = self._readers.find(build.readers)
        read_counts = overlay.read_counts[count : count + build.readers.shape[0]]
        read_counts[old_readers >= 0] = before.read_counts[old_readers[old_readers >= 0]]
        self._readers = NodeIndex(build.readers, np.arange(count, count + build.readers.shape[0]))
        old_nodes = self._writers.find(words)
        is_known = old_nodes >= 0
        overlay.write_counts[nodes[is_known]] = before.write_counts[old_nodes[is_known]]
        origin = np.full(int(nodes.max(initial=-1)) + 1, before.room)
        origin[nodes[is_known]] = old_nodes[is_known]
        if not is_known.all() or late.shape[0]:  # new nodes take the empty state of an unused node
            self.family.grow(before.room + 1)
        self.family.renumber(origin, overlay.room)
        self._writers = NodeIndex(words, nodes)
        self.overlay, self.report = overlay, build.report
        self.rebuild_count += 1

    def _order_by_traffic(self) -> None:
        """Renumber nodes so that frequently visited ones are adjacent, if enough traffic was observed."""
        overlay, order = self.overlay, order_by_traffic(self.overlay)
        if order is None:
            return
        number = overlay.renumber(order)
        self._writers, self._readers = self._writers.renumber(number), self._readers.renumber(number)
        self.family.grow(overlay.room + 1)
        self.family.renumber(np.where(overlay.kinds == WRITER, order, overlay.room), overlay.room)

    def _label(self) -> None:
        self._order_by_traffic()
        mode = "push" if self.followed_readers.is_all else self.mode
        forced = self.forced_nodes() if mode != "push" else NONE
        best = choose_by_trial(self.overlay, self.family, self.costs, forced) if mode == "auto" else None
        plain = self.overlay, mode, self.costs, forced
        self.decision, self.fitted_costs = best or (decisions.decide(*plain), self.costs)
        if mode == "auto":
            self.overlay.order_outputs(all_nodes=True)
            if best is None:
                decisions.dissolve(self.overlay, self.fitted_costs)
                if decisions.split(self.overlay, self.fitted_costs):
                    self.family.grow(self.overlay.room)
        self.overlay.patches = 0
        self._fill(self.overlay.topological_order())
        self.overlay.order_outputs(all_nodes=True)
        self._workload.record_decision(int(self.overlay.write_counts.sum() + self.overlay.read_counts.sum()))

    def follow(self, readers: FollowedReaders) -> None:
        """Set the followed readers, push these, and relabel if needed."""
        before, self.followed_readers = self.followed_readers, readers
        if readers.is_all != before.is_all:
            self._label()
        elif readers.key != before.key:
            if self.mode == "pull" and not before.is_empty:
                self._label()
            self._push_forced()

    def _push_forced(self) -> None:
        """Push the readers that must be pushed, and everything that feeds them."""
        if self.followed_readers.is_all or self.mode == "push":
            return
        self._push(self.forced_nodes())

    def _push(self, nodes: Words) -> None:
        """Push nodes, and everything that feeds them."""
        overlay = self.overlay
        needed = with_ancestors(overlay, nodes)
        rising = needed[overlay.pushed[needed] == 0]
        if not rising.shape[0]:
            return
        overlay.pushed[rising] = 1
        order = overlay.topological_order()
        is_rising = np.zeros(overlay.room, np.bool_)
        is_rising[rising] = True
        self._fill(order[is_rising[order]])
        overlay.mark_relabelled(rising)
        overlay.order_outputs()

    def relabel(self) -> None:
        """Recompute all labels from the observed frequencies."""
        self.family.drop(np.flatnonzero((self.overlay.kinds != WRITER) & (self.overlay.pushed == 1)))
        self._label()

    def rebuild(self) -> None:
        """Rebuild and relabel the overlay."""
        nothing = np.empty((2, 0), np.int64)
        self._rebuild(nothing, nothing[0], nothing[0], label=True)

    def maintain(self) -> None:
        """Adapt labels to the observed frequencies, and rebuild the overlay if much of it was patched.

        Call it between steps.
        """
        if self.background_build is not None:
            self._switch_overlay()
        elif self.overlay.patches > max(FEW_CHANGES, self._patch_limit) and self.overlay.is_patched_beyond(
            MAX_PATCHED
        ):
            self.background_build = BackgroundBuild(
                self.construction, self._make_pairs_reader(), self._writers.items()[0]
            )
        elif self.mode == "auto" and not self.followed_readers.is_all and self._workload.is_due:
            begun, flips = time.perf_counter(), self.flip_count
            self.adapt(anew=self._workload.has_shifted)
            changed = (self.flip_count - flips) / self.overlay.count
            self._workload.record_check(changed, time.perf_counter() - begun)

    def _switch_overlay(self) -> None:
        """Switch to the overlay that was built in the background, if it is done."""
        rebuilding = self.background_build
        assert rebuilding is not None
        if not rebuilding.is_done:
            return
        self.background_build, build = None, rebuilding.result
        if build is None:
            self._patch_limit = 2 * self.overlay.patches
            return
        self._install(build)
        self._label()
        self._patch(*rebuilding.pair_changes())
        self.overlay.order_outputs()
        self._patch_limit = 0

    def adapt(self, *, anew: bool = False) -> None:
        """Adapt labels at the frontier, or all labels, to the observed frequencies, and decay these.

        Costs fitted to other frequencies are discarded with ``anew``.
        """
        change = decisions.relabel_all if anew else decisions.flip_at_frontier
        self.fitted_costs = self.costs if anew else self.fitted_costs
        self.flip_count += change(self.overlay, self.family, self.fitted_costs, self.forced_nodes())
        self.overlay.decay_counts(DECAY_BITS)

    # Reads

    def read(self, words: Words) -> tuple[NDArray[np.bool_], Words]:
        """Return for each reader's word whether it has a result, and the results ``int64[calls, n]``."""
        begun = time.perf_counter()
        nodes, is_known = self._observe_reads(words)
        has_result, answers = self.family.read(self.overlay, nodes)
        self._workload.seconds += time.perf_counter() - begun
        if is_known is None:
            return has_result, answers
        all_has_result, result = (
            np.zeros(len(words), np.bool_),
            np.zeros((len(answers), len(words)), np.int64),
        )
        all_has_result[is_known], result[:, is_known] = has_result, answers
        return all_has_result, result

    def read_arrays(self, words: Words) -> tuple[Words, Words] | None:
        """Return the result of :meth:`Family.read_arrays` without interning arrays."""
        begun = time.perf_counter()
        nodes, is_known = self._observe_reads(words)
        arrays = self.family.read_arrays(self.overlay, nodes)
        self._workload.seconds += time.perf_counter() - begun
        if arrays is None or is_known is None:
            return arrays
        sizes = np.zeros(words.shape[0], np.int64)
        sizes[is_known] = arrays[0]
        return sizes, arrays[1]

    def _observe_reads(self, words: Words) -> tuple[Words, NDArray[np.bool_] | None]:
        """Return the nodes of known readers, and which these are (None for all); counts the reads."""
        nodes, missing = self._readers.find_and_count(words, np.ones_like(words), self.overlay.read_counts)
        self._workload.visits += nodes.shape[0]
        if not missing:
            return nodes, None
        is_known = nodes >= 0
        return np.ascontiguousarray(nodes[is_known]), is_known

    def rows(self) -> Words:
        """Return all results, ``int64[1 + calls, n]``: readers and their aggregates."""
        words, nodes = self._readers.items()
        there, results = self.family.read(self.overlay, nodes)
        return np.concatenate((words[there].reshape(1, -1), results[:, there]))

    def affected_readers(self, change: Change) -> Words:
        """Return the words of followed readers whose results a change may affect, with the current pairs."""
        writers = np.unique(self._writers.find(np.unique(change.writes[0])))
        nodes = readers_below(self.overlay, writers[writers >= 0])
        words = self._readers.words_by_node(self.overlay.room)[nodes]
        candidates = np.unique(np.concatenate((words, change.pairs[0])))
        return candidates[self.followed_readers.contains(candidates)]

    @property
    def size(self) -> int:
        """Number of readers."""
        return int((self.overlay.kinds[: self.overlay.count] == READER).sum())

    @property
    def bytes(self) -> int:
        """Bytes of the state."""
        return self.overlay.bytes + self.family.bytes + self._writers.bytes + self._readers.bytes
