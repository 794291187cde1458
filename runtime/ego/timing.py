"""Labels, and whether sharing pays at all, by what writes and reads take on an overlay that is there.

Costs by the number of inputs are timed on graphs without any order (``families.py``). On a graph of its own
a write's readers may lie side by side, or a read's writers anywhere. So some writes and reads are drawn as
they were observed, and served in several ways: with all pushed and all pulled and no partial aggregate, and
with labels by cost, with and without these. What took least stays; what each took tells what costs are here.
"""

import math
import time
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego import deciding
from kpg.runtime.ego.deciding import Costs, Decision, Frequencies
from kpg.runtime.ego.family import Family
from kpg.runtime.ego.followed import NONE
from kpg.runtime.ego.overlay import READER, WRITER, Edges, Overlay, grouped, turned
from kpg.runtime.errors import DataError
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]
BATCHES: Final = 24
SIZE: Final = 1024
"""Writes and reads in each."""
MOST: Final = 8.0
"""Costs are multiplied by this at most, or divided."""
LARGEST: Final = 1 << 24
"""Edges: more are not pushed, all of them, to see what it costs: a top-k keeps some 50 bytes of each."""
FINALISTS: Final = 3
"""So many of the quickest ways are remembered, and served again,"""
TURNS: Final = 2
"""so often."""
SIMPLER: Final = 0.97
"""So much quicker has another way to be than all pushed, or all pulled, without partial aggregates."""
AROUND: Final = (1.0, 0.5, 2.0)
"""Labels are tried by the costs that were found, and with pushes so much cheaper and dearer."""


class Traffic:
    """Writes and reads as often as they were observed; each write puts something in another's place."""

    def __init__(self, overlay: Overlay, family: Family, often: Frequencies) -> None:
        random = np.random.default_rng(1)
        push, pull = (
            one * (overlay.kinds == kind) for one, kind in ((often.push, WRITER), (often.pull, READER))
        )
        share = float(push.sum() / (push.sum() + pull.sum()))
        writes = min(max(round(share * SIZE), 1), SIZE - 1)
        self._overlay, self._family = overlay, family
        self._writers = [np.unique(some) for some in _drawn(push, writes, random)]
        self._reads = _drawn(pull, SIZE - writes, random)
        asked = np.unique(self._reads)
        before = often.pull[asked] > random.random(asked.shape[0]) * (often.pull + often.push)[asked]
        self._known = asked[before]
        """Readers who were asked after what was written last."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing that could be replaced."""
        return not any(self._family.sample(nodes)[0].shape[0] for nodes in self._writers)

    def seconds(self) -> tuple[float, float]:
        """What a batch's writes, and its reads, take; they are undone. Infinite if it cannot be answered."""
        overlay, family, took = self._overlay, self._family, np.zeros((BATCHES, 2))
        try:
            self._ask(self._known)
            for place, (writers, readers) in enumerate(zip(self._writers, self._reads, strict=True)):
                write = family.sample(writers)  # of what they have by now
                begun = time.thread_time()
                family.write(overlay, *write)
                written = time.thread_time()
                self._ask(readers)
                took[place] = written - begun, time.thread_time() - written
        except DataError:
            return math.inf, math.inf
        finally:
            family.rollback()
        writes, reads = np.median(took, axis=0)
        return float(writes), float(reads)

    def _ask(self, nodes: Words) -> None:
        """Read as ``read_many`` does."""
        if self._family.listed(self._overlay, nodes) is None:
            self._family.read(self._overlay, nodes)


def _drawn(frequency: NDArray[np.float64], size: int, random: np.random.Generator) -> Words:
    """Nodes, each as often as it should be, in batches."""
    chances = np.cumsum(frequency)
    return np.searchsorted(chances, chances[-1] * random.random((BATCHES, size)), side="right")


@dataclass(slots=True, eq=False)
class Way:
    """Edges and labels, what writes and reads are expected to cost, and what those of a batch took."""

    count: int
    """Nodes."""
    inputs: Edges
    outputs: Edges
    pushed: NDArray[np.uint8]
    decision: Decision
    expected: tuple[float, float]
    took: tuple[float, float]
    """The least of all times, for others may have the caches meanwhile."""


class Trial:
    """The ways that were tried out on an overlay."""

    def __init__(self, overlay: Overlay, family: Family, costs: Costs, forced: Words) -> None:
        self._overlay, self._family, self._costs, self._forced = overlay, family, costs, forced
        self._often = deciding.frequencies(overlay, overlay.order())
        self._traffic = Traffic(overlay, family, self._often)
        self._given = overlay.inputs, overlay.outputs
        self._ends: list[Way] = []
        """All pushed, and all pulled."""
        self.ways: list[Way] = []
        """The quickest ones."""
        self.possible = not self._traffic.empty

    def serve_all(self) -> Costs:
        """Serve the traffic in all ways; the costs that they tell of."""
        overlay, given = self._overlay, self._given
        plain = given if overlay.edges == overlay.direct else _direct(overlay)
        for mode in ("push", "pull", "auto"):
            self.serve(plain, mode)
        if given is not plain:
            self.serve(given, "auto")
        found = self.costs()
        factor = found.push / self._costs.push / (found.pull / self._costs.pull)
        for each in AROUND:
            self.serve(given, "auto", factor * each)
        if given is not plain:
            self.serve(plain, "auto", factor)
        self.again()
        self.serve_split(found)
        self.again()
        return found

    def serve(self, edges: tuple[Edges, Edges], mode: str, factor: float = 1.0) -> None:
        """Serve it with such edges and labels, in ``auto`` as if pushing cost so many times as much.

        Ways with the same edges have them in common: which outputs come first is settled for each anew.
        """
        overlay = self._overlay
        overlay.replaced(*edges)
        costs = self._costs.times(factor, 1.0)
        decision = deciding.decide(overlay, mode, costs, self._forced)
        if mode == "auto" and edges is self._given:
            deciding.dissolve(overlay, costs)
        overlay.settle(every=True)
        self._time(decision)

    def again(self) -> None:
        """Serve it in the quickest ways again, by turns."""
        for _ in range(TURNS):
            for way in sorted(self.ways, key=_seconds):
                self._take(way)
                self._fill()
                way.took = min(way.took, self._traffic.seconds(), key=sum)

    def serve_split(self, costs: Costs) -> None:
        """Serve it with nodes split where that pays, and keep that if it is quicker."""
        overlay, before = self._overlay, self.keep_best()
        if not deciding.split(overlay, costs):
            return
        self._family.grow(overlay.room)
        overlay.settle(every=True)
        self._time(before)

    def _time(self, decision: Decision) -> None:
        """Serve the traffic as edges and labels are."""
        overlay, order = self._overlay, self._fill()
        expected = deciding.shares(overlay, deciding.frequencies(overlay, order), self._costs)
        way = Way(
            overlay.count, overlay.inputs, overlay.outputs, overlay.pushed.copy(), decision, expected,
            self._traffic.seconds(),
        )  # fmt: skip
        if len(self._ends) < 2:
            self._ends.append(way)
        self.ways = sorted([*self.ways, way], key=_seconds)[:FINALISTS]

    def _fill(self) -> Words:
        """Compute what is pushed, and that only; in which order."""
        order = self._overlay.order()
        self._family.drop(np.flatnonzero(self._overlay.kinds != WRITER))
        self._family.fill(self._overlay, order)
        return order

    def costs(self) -> Costs:
        """Costs as they are here, by what writes and reads take with all pushed and with all pulled."""
        push, pull = self._ends
        if not math.isfinite(_seconds(push) + _seconds(pull)):
            return self._costs
        scale = 1e6 * self._often.total / SIZE
        found = [
            scale
            * (more.took[place] - less.took[place])
            / max(more.expected[place] - less.expected[place], 1e-9)
            for place, more, less in ((0, push, pull), (1, pull, push))
        ]
        return self._costs.times(*(float(np.clip(one, 1 / MOST, MOST)) for one in found))

    def keep_best(self) -> Decision:
        """Have the overlay be as in the quickest way; what is pushed is to be filled."""
        best = min(self.ways, key=_seconds)
        self._take(best)
        return best.decision

    def _take(self, best: Way) -> None:
        """Have the overlay's edges and labels be those of a way."""
        overlay = self._overlay
        for edges in (best.inputs, best.outputs):
            edges.grow(overlay.room)
        overlay.count = best.count
        overlay.replaced(best.inputs, best.outputs)
        overlay.pushed[:] = 0
        overlay.pushed[: best.pushed.shape[0]] = best.pushed
        overlay.settle(every=True)


def _seconds(way: Way) -> float:
    """What a batch took; a little less is said of ways without decisions: times vary by as much."""
    return sum(way.took) * (SIMPLER if way.decision.method in ("push", "pull") else 1.0)


def tried(
    overlay: Overlay, family: Family, costs: Costs, forced: Words = NONE
) -> tuple[Decision, Costs] | None:
    """Have labels, and edges, be those that writes and reads as observed took least with; None if not tried.

    With it come the costs that were found. What is pushed is not filled afterwards.
    """
    if not family.timed or not 0 < overlay.direct <= LARGEST:
        return None
    trial = Trial(overlay, family, costs, forced)
    if not trial.possible:
        return None
    found = trial.serve_all()
    decision = trial.keep_best()
    family.drop(np.flatnonzero(overlay.kinds != WRITER))
    write, read = deciding.expected(overlay, deciding.frequencies(overlay, overlay.order()), found)
    return replace(decision, write=write, read=read), found


def _direct(overlay: Overlay) -> tuple[Edges, Edges]:
    """An edge from each writer to each of its readers, and no partial aggregate; and these the other way."""
    readers = np.flatnonzero(overlay.kinds == READER)
    place, writers = overlay.inputs.writers_of(readers)
    inputs = grouped(readers[place], writers, overlay.room)
    return inputs, turned(inputs)
