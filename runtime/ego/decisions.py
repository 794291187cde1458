"""Push and pull labels of an overlay: the dataflow decisions of least expected cost.

A pushed node is maintained on every write; a pulled node is computed on every read. Pushing a node with k
inputs costs its push frequency times H(k); pulling it costs its pull frequency times L(k). Every input of a
pushed node is pushed. The weight of a node is the cost of pulling it minus the cost of pushing it. The best
labels are then the sides of a minimum cut, and pruning (P1 and P2 of the paper) decides most nodes without a
cut.

Four parts:

* Labels: :func:`decide` labels all nodes, :func:`dissolve` removes partial aggregates that save next to
  nothing, :func:`split` pushes the inputs of pulled nodes that seldom change.
* Adaptation: :func:`at_frontier` flips single nodes when frequencies drift. It misses gains that need several
  nodes to flip together, so :func:`everywhere` labels all nodes again when the frequencies shift.
* Node order: :func:`by_traffic` gives frequently visited nodes adjacent numbers, so that their state shares
  cache lines and pages.
* Trials: :func:`tried` serves a sample of the observed writes and reads under several labellings and keeps
  the fastest. H and L are measured on unordered graphs (``families.py``) and may not hold for a given graph.
"""

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego import overlay as patching
from kpg.runtime.ego.overlay import NONE, PARTIAL, READER, WRITER, Edges, Overlay, above, grouped, turned
from kpg.runtime.ego.partial_aggregates import Family
from kpg.runtime.errors import DataError
from kpg.runtime.kernels import deciding
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]


Floats = NDArray[np.float64]
SCALE: Final = 2**30
"""What all weights of a cut add up to: capacities are whole numbers of 32 bits."""

UNSEEN: Final = 0.1
"""Of the mean: what a node that was not written, or read, may yet have."""
CLEARLY: Final = 1.25
"""A label changes where the other one costs less by more than this."""

AT_HAND: Final = 1 << 11
"""After so many writes and reads, about, a node is not in the processor's nearer caches any more."""
WORTH: Final = 0.1
"""Of what a node costs on average: a partial aggregate that saves less is more in the way."""
SMALL: Final = 1024
"""Edges that a partial aggregate is in the place of, at most, to be done without."""
OFTEN: Final = 32
"""Of fewer writes and reads together it is not said what a node costs."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of an update at a node with k inputs, and that of reading it, in microseconds."""

    push: float
    push_log: float
    pull: float
    pull_each: float
    answer: float = 0.0
    """What a reader's answer costs to make: a pushed one's is remembered until it changes."""
    cold_push: float = 0.0
    """What an update costs more at a node that has not been at hand for long."""
    cold_pull: float = 0.0
    """What reading such a node costs more."""
    cold_each: float = 0.0
    """And what it costs more for each of its inputs."""

    def times(self, push: float, pull: float) -> "Costs":
        """Where all pushes, and all pulls, cost so many times as much."""
        return Costs(
            push * self.push, push * self.push_log, pull * self.pull, pull * self.pull_each,
            pull * self.answer, push * self.cold_push, pull * self.cold_pull, pull * self.cold_each,
        )  # fmt: skip

    def pushing(self, inputs: Words, far: Floats | float = 0.0) -> Floats:
        """H(k), of nodes that are so seldom at hand."""
        costs: Floats = self.push + self.push_log * np.log2(np.maximum(inputs, 1)).astype(np.float64)
        return costs + self.cold_push * far

    def passing(self, far: Floats | float = 0.0) -> Floats | float:
        """What it costs more to push a node that feeds others: these are looked up, as to pull one."""
        return self.pull + self.cold_pull * far

    def pulling(self, inputs: Words, far: Floats | float = 0.0) -> Floats:
        """L(k), of nodes that are so seldom at hand."""
        costs: Floats = (self.pull + self.pull_each * inputs).astype(np.float64)
        return costs + (self.cold_pull + self.cold_each * inputs) * far


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, by which way, of how many nodes that needed more than pruning, and what it costs.

    ``write`` and ``read`` are expected microseconds for a write, and for a read.
    """

    method: str
    left: int
    write: float
    read: float


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How often each node would be told of a write if all were pushed, and asked if all were pulled."""

    push: Floats
    pull: Floats
    total: float
    """Writes and reads together."""

    def far(self, times: Floats) -> Floats:
        """How probable it is that a node that is visited so often is not at hand: others were since."""
        shares: Floats = 1.0 / (1.0 + times * (AT_HAND / max(self.total, 1.0)))
        return shares


def frequencies(overlay: Overlay, order: Words) -> Frequencies:
    """As observed at writers and readers, each of which is taken to have had a part of the mean besides."""
    push, pull = _observed(overlay, WRITER, overlay.arrivals), _observed(overlay, READER, overlay.asked)
    return flowing(overlay, order, push, pull)


def flowing(overlay: Overlay, order: Words, push: Floats, pull: Floats) -> Frequencies:
    """What writers' frequencies add up to below them, and readers' above."""
    inputs, outputs = overlay.inputs, overlay.outputs
    total = float(push.sum() + pull.sum())
    deciding.add_up(order, inputs.start, inputs.size, inputs.items, push)
    backwards = np.ascontiguousarray(order[::-1])
    deciding.add_up(backwards, outputs.start, outputs.size, outputs.items, pull)
    return Frequencies(push, pull, total)


def _observed(overlay: Overlay, kind: int, times: Words) -> Floats:
    """How often nodes of a kind were written, or read; if none ever was, each once."""
    here = overlay.kinds == kind
    total = float(times[here].sum())
    more = UNSEEN * total / max(1, int(here[: overlay.count].sum())) if total else 1.0
    return np.where(here, times + more, 0.0)


def decide(overlay: Overlay, mode: str, costs: Costs, forced: Words) -> Decision:
    """Label all nodes: in mode ``auto`` by cost, else ``push`` or ``pull`` all but writers.

    ``forced`` nodes, and all that feeds them, are pushed in any mode.
    """
    order = overlay.order()
    often = frequencies(overlay, order)
    left, method = 0, mode
    needed = above(overlay, forced)
    if mode == "auto":
        weight = often.pull * costs.pulling(overlay.inputs.size, often.far(often.pull))
        weight -= pushed_cost(overlay, often, costs)
        known = np.maximum(often.pull - often.push, 0.0) * (overlay.kinds == READER)
        weight += costs.answer * known
        decided, left, method = labels(overlay, order, weight, needed)
        overlay.pushed[:] = decided == deciding.PUSH
    else:
        overlay.pushed[:] = mode == "push"
    overlay.pushed[overlay.kinds == WRITER] = 1
    overlay.pushed[needed] = 1
    return Decision(method, left, *expected(overlay, often, costs))


def pushed_cost(overlay: Overlay, often: Frequencies, costs: Costs) -> Floats:
    """What each node costs if it is pushed."""
    far = often.far(often.push)
    each = costs.pushing(overlay.inputs.size, far) + costs.passing(far) * (overlay.kinds == PARTIAL)
    return often.push * each


def labels(
    overlay: Overlay, order: Words, weight: Floats, pushed: Words = NONE
) -> tuple[NDArray[np.uint8], int, str]:
    """The label of each node, how many pruning left over, and how these were decided.

    ``pushed`` are nodes, with all that feeds them, of which it is known.
    """
    decided = np.where(overlay.kinds == WRITER, deciding.PUSH, deciding.UNDECIDED).astype(np.uint8)
    decided[pushed] = deciding.PUSH
    inputs, outputs = overlay.inputs, overlay.outputs
    left = deciding.prune(
        weight, inputs.start, inputs.size, inputs.items, outputs.start, outputs.size, outputs.items, decided
    )
    if not left:
        return decided, 0, "pruning"
    if find_spec("scipy") is not None:
        _cut(overlay, weight, decided)
        return decided, left, "minimum cut"
    deciding.greedy(order, weight, inputs.start, inputs.size, inputs.items, decided)
    return decided, left, "greedy"


def _cut(overlay: Overlay, weight: Floats, decided: NDArray[np.uint8]) -> None:
    """Decide the rest by a minimum cut: what the source still reaches is pulled."""
    from scipy.sparse import coo_array  # lazy: an optional dependency
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow  # lazy: an optional dependency

    rest = np.flatnonzero(decided == deciding.UNDECIDED)
    number = np.full(overlay.room, -1, np.int64)
    number[rest] = np.arange(rest.shape[0])
    source, sink = rest.shape[0], rest.shape[0] + 1
    size = overlay.outputs.size[rest]
    start = overlay.outputs.start[rest]
    places = np.repeat(start - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
    target = number[overlay.outputs.items[places] >> 1]
    origin = np.repeat(np.arange(rest.shape[0]), size)
    inside = target >= 0
    total = float(np.abs(weight[rest]).sum()) or 1.0
    capacity = np.rint(np.abs(weight[rest]) * (SCALE / total)).astype(np.int64)
    negative = weight[rest] < 0
    here = np.arange(rest.shape[0])
    froms = np.concatenate((origin[inside], np.full(int(negative.sum()), source), here[~negative]))
    tos = np.concatenate((target[inside], here[negative], np.full(int((~negative).sum()), sink)))
    unbounded = np.full(int(inside.sum()), 2 * SCALE - 1, np.int64)
    amounts = np.concatenate((unbounded, capacity[negative], capacity[~negative]))
    key = np.unique(froms * np.int64(sink + 1) + tos, return_index=True)[1]
    graph = coo_array(
        (amounts[key].astype(np.int32), (froms[key].astype(np.int32), tos[key].astype(np.int32))),
        shape=(sink + 1, sink + 1),
    ).tocsr()
    residual = graph - maximum_flow(graph, source, sink).flow
    residual.data[residual.data < 0] = 0
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, source, return_predecessors=False)
    decided[rest] = deciding.PUSH
    decided[rest[reached[reached < source]]] = deciding.PULL


def shares(overlay: Overlay, often: Frequencies, costs: Costs) -> tuple[float, float]:
    """Microseconds that pushing, and pulling with what answers take, is expected to cost as labels are."""
    readers, pushed = overlay.kinds == READER, overlay.pushed == 1
    pushing = float(pushed_cost(overlay, often, costs)[pushed & (overlay.kinds != WRITER)].sum())
    pulling = float((often.pull * costs.pulling(overlay.inputs.size, often.far(often.pull)))[~pushed].sum())
    pulling += (costs.pull + costs.answer) * float(often.pull[readers & pushed].sum())
    pulling += costs.answer * float(often.pull[readers & ~pushed].sum())
    pulling -= costs.answer * float(np.maximum(often.pull - often.push, 0.0)[readers & pushed].sum())
    return pushing, pulling


def expected(overlay: Overlay, often: Frequencies, costs: Costs) -> tuple[float, float]:
    """Microseconds that a write, and a read, is expected to take."""
    pushing, pulling = shares(overlay, often, costs)
    writes = float(often.push[overlay.kinds == WRITER].sum()) or 1.0
    reads = float(often.pull[overlay.kinds == READER].sum()) or 1.0
    return pushing / writes, pulling / reads


def savings(overlay: Overlay, often: Frequencies, costs: Costs) -> Floats:
    """What each partial aggregate saves as labels are: a pulled consumer looks at one node and not at many.

    One that is pulled, or feeds only pushed ones, is a step more on each way.
    """
    outputs, size = overlay.outputs, overlay.inputs.size
    asked = np.zeros(overlay.room)
    deciding.ask(outputs.start, outputs.size, outputs.items, overlay.pushed, often.pull, asked)
    each = costs.pull_each + costs.cold_each * often.far(asked)
    saved: Floats = asked * each * (size - 1) - pushed_cost(overlay, often, costs)
    saved[overlay.pushed == 0] = 0.0
    return saved


def worthwhile(overlay: Overlay, often: Frequencies, costs: Costs) -> float:
    """What a node has to save: a part of what writes and reads cost, a node."""
    write, read = expected(overlay, often, costs)
    writes, reads = (
        float(one[overlay.kinds == kind].sum()) for one, kind in ((often.push, WRITER), (often.pull, READER))
    )
    return WORTH * (write * writes + read * reads) / max(1, overlay.count)


def dissolve(overlay: Overlay, costs: Costs) -> int:
    """Do without partial aggregates that save next to nothing as labels are; how many.

    Those in the place of many edges stay, for they save memory.
    """
    count = overlay.count
    often = frequencies(overlay, overlay.order())
    inputs, outputs = overlay.inputs.size[:count], overlay.outputs.size[:count]
    idle = savings(overlay, often, costs)[:count] <= worthwhile(overlay, often, costs)
    small = (inputs - 1) * (outputs - 1) <= SMALL
    chosen = (overlay.kinds[:count] == PARTIAL) & (inputs > 0) & idle & small
    if not chosen.any():
        return 0
    dissolved = np.zeros(overlay.room, np.uint8)
    dissolved[:count] = chosen
    edges, begins, sizes = overlay.inputs, np.zeros(overlay.room, np.int64), np.zeros(overlay.room, np.int64)
    found = np.empty(0, np.int32)
    for _ in range(2):
        total = deciding.expand(edges.start, edges.size, edges.items, dissolved, begins, sizes, found)
        if total > found.shape[0]:
            found = np.empty(total, np.int32)
    overlay.replaced(Edges(begins, sizes, found))
    return int(chosen.sum())


def split(overlay: Overlay, costs: Costs, *, least: int = 4) -> int:
    """Give pulled nodes pushed ones for those of their inputs that seldom change; how many were made."""
    often = frequencies(overlay, overlay.order())
    worth, edges = worthwhile(overlay, often, costs), overlay.inputs
    most = often.pull * costs.pulling(edges.size)
    nodes = np.flatnonzero((overlay.pushed == 0) & (edges.size >= least) & (most > worth))
    counts = np.zeros(nodes.shape[0], np.int64)
    each = np.array([costs.push, costs.push_log, costs.pull, costs.pull_each])
    if not deciding.divide(
        nodes, often.push, often.pull, each, CLEARLY, worth, edges.start, edges.size, edges.items,
        overlay.pushed, counts,
    ):  # fmt: skip
        return 0
    nodes, counts = nodes[counts > 0], counts[counts > 0]
    fresh = np.array([overlay.add(PARTIAL) for _ in nodes], np.int64)
    overlay.pushed[fresh] = 1
    _part(overlay, nodes, fresh, counts)
    return fresh.shape[0]


def _part(overlay: Overlay, nodes: Words, fresh: Words, counts: Words) -> None:
    """Have the first ``counts`` inputs of each of ``nodes`` be those of a fresh one, which feeds the node."""
    edges = overlay.inputs
    heads = np.cumsum(counts) - counts
    moved = np.repeat(edges.start[nodes] - heads, counts) + np.arange(int(counts.sum()))
    start, size = edges.start.copy(), edges.size.copy()
    start[fresh], size[fresh] = edges.items.shape[0] + heads, counts
    items = np.concatenate((edges.items, edges.items[moved]))
    start[nodes] += counts - 1
    size[nodes] -= counts - 1
    items[start[nodes]] = 2 * fresh
    overlay.replaced(Edges(start, size, items))


def adapt(overlay: Overlay, costs: Costs) -> Iterator[Words]:
    """The nodes between what is pushed and what is not that clearly cost less the other way, as observed.

    Of nodes that were seldom written and read nothing is said. Once whoever asks has changed their labels,
    the next ones are those that are at the frontier then.
    """
    inputs, outputs = overlay.inputs, overlay.outputs
    often = flowing(overlay, overlay.order(), overlay.arrivals.astype(float), overlay.asked.astype(float))
    enough = often.push + often.pull >= OFTEN
    nodes = np.flatnonzero(enough & (overlay.kinds != WRITER) & (inputs.size > 0))
    size, push, pull = inputs.size[nodes], often.push[nodes], often.pull[nodes]
    pushing = pushed_cost(overlay, often, costs)[nodes]
    pulling = pull * costs.pulling(size, often.far(pull))
    pulling += costs.answer * np.maximum(pull - push, 0) * (overlay.kinds[nodes] == READER)
    better = [pushing > CLEARLY * pulling, pulling > CLEARLY * pushing]
    found = np.empty(nodes.shape[0], np.int64)
    while True:
        dearer = nodes[np.where(overlay.pushed[nodes] == 1, *better)]
        count = deciding.frontier(
            dearer, inputs.start, inputs.size, inputs.items, outputs.start, outputs.size, outputs.items,
            overlay.pushed, found,
        )  # fmt: skip
        if not count:
            return
        yield found[:count].copy()


LEVELS: Final = 8
"""So often at most the frontier is looked at again when labels at it have changed."""
BETTER: Final = 1.05
"""Labels that were decided anew are taken if the old ones are expected to cost more by this."""


def fill(overlay: Overlay, family: Family, nodes: Words) -> None:
    """Compute pushed nodes; what cannot be computed is pulled, and says so when it is read."""
    try:
        family.fill(overlay, nodes)
    except DataError:
        family.rollback()
        overlay.pushed[nodes] = overlay.kinds[nodes] == WRITER
        overlay.labelled(nodes)
    family.commit()


def at_frontier(overlay: Overlay, family: Family, costs: Costs, forced: Words) -> int:
    """Flip what costs less the other way at the frontier, and what is at it then; how many nodes were."""
    flips = 0
    for found in itertools.islice(adapt(overlay, costs), LEVELS):
        nodes = np.setdiff1d(found, forced)
        pushed = overlay.pushed[nodes] == 1
        _pull(overlay, family, nodes[pushed])
        _push(overlay, family, patching.all_pushed(overlay, np.ascontiguousarray(nodes[~pushed])))
        flips += nodes.shape[0]
    overlay.settle()
    return flips


def everywhere(overlay: Overlay, family: Family, costs: Costs, forced: Words) -> int:
    """Decide all labels, and have them be those if that is expected to pay; how many nodes have changed."""
    often = frequencies(overlay, overlay.order())
    before, was = overlay.pushed.copy(), sum(shares(overlay, often, costs))
    decide(overlay, "auto", costs, forced)
    after, now = overlay.pushed.copy(), sum(shares(overlay, often, costs))
    overlay.pushed[:] = before
    if was < BETTER * now:
        return 0
    _pull(overlay, family, np.flatnonzero(before > after))
    order = overlay.order()
    _push(overlay, family, order[(before < after)[order]])
    overlay.settle(every=True)
    return int((before != after)[: overlay.count].sum())


def _pull(overlay: Overlay, family: Family, nodes: Words) -> None:
    overlay.pushed[nodes] = 0
    family.drop(nodes)
    overlay.labelled(nodes)


def _push(overlay: Overlay, family: Family, nodes: Words) -> None:
    """Push nodes that come in order: each after what feeds it, which is pushed."""
    overlay.pushed[nodes] = 1
    fill(overlay, family, nodes)
    overlay.labelled(nodes)


def by_traffic(overlay: Overlay) -> Words | None:
    """The nodes in a better order, those first that are visited oftenest; None if too little was observed.

    Nodes that are visited about as often, up to twice, stay as they are to each other: they may have been
    built side by side.
    """
    observed = int(overlay.arrivals.sum() + overlay.asked.sum())
    if observed < overlay.count:
        return None
    often = frequencies(overlay, overlay.order())
    visits = (often.push + often.pull)[: overlay.count]
    order = np.arange(overlay.room)
    order[: overlay.count] = np.argsort(-np.floor(np.log2(visits + 1.0)), kind="stable")
    return order


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
        self._often = frequencies(overlay, overlay.order())
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
        decision = decide(overlay, mode, costs, self._forced)
        if mode == "auto" and edges is self._given:
            dissolve(overlay, costs)
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
        if not split(overlay, costs):
            return
        self._family.grow(overlay.room)
        overlay.settle(every=True)
        self._time(before)

    def _time(self, decision: Decision) -> None:
        """Serve the traffic as edges and labels are."""
        overlay, order = self._overlay, self._fill()
        expected = shares(overlay, frequencies(overlay, order), self._costs)
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
    write, read = expected(overlay, frequencies(overlay, overlay.order()), found)
    return replace(decision, write=write, read=read), found


def _direct(overlay: Overlay) -> tuple[Edges, Edges]:
    """An edge from each writer to each of its readers, and no partial aggregate; and these the other way."""
    readers = np.flatnonzero(overlay.kinds == READER)
    place, writers = overlay.inputs.writers_of(readers)
    inputs = grouped(readers[place], writers, overlay.room)
    return inputs, turned(inputs)


WATCHED: Final = 1 << 16
"""After so many writes and reads labels are compared with what was observed."""
PATIENCE: Final = 25
"""So many times as long as that took writes and reads take before anything of the kind is done again."""
STEADY: Final = 0.005
"""Where a smaller share of nodes changed labels it is twice as many times, and so on."""
SHIFTED: Final = 0.02
"""Where a larger share did, what is written and read has changed: all labels are to be decided soon."""
HURRY: Final = 8
"""So many times as long as it took is the next comparison away then."""
LONGEST: Final = 5.0
"""Seconds, to which that is let grow: so late is it noticed that what is written and read has changed."""


@dataclass(slots=True, eq=False)
class Watching:
    """The work that there was since the last time."""

    seen: int = 0
    """Writes and reads."""
    busy: float = 0.0
    """Seconds that they have taken."""
    patience: float = 0.0
    """Seconds that they are to take."""
    waits: int = PATIENCE
    shifted: bool = False
    """Whether what is written and read has changed, so that labels at the frontier are not enough."""

    @property
    def due(self) -> bool:
        """Whether there was enough of it."""
        return self.seen > WATCHED and self.busy > self.patience

    def compared(self, changed: float, took: float) -> None:
        """Labels were compared; such a share of them has changed, and it took so many seconds."""
        if changed >= STEADY:
            self.waits = PATIENCE if changed < SHIFTED else HURRY
        else:
            self.waits = max(self.waits, min(2 * self.waits, int(LONGEST / max(took, 1e-6))))
        self.shifted = changed >= SHIFTED
        self.seen, self.busy, self.patience = 0, 0.0, self.waits * took

    def decided(self, observed: int) -> None:
        """All labels are new, by so many writes and reads; if these are many there is time."""
        self.waits, self.shifted = PATIENCE, False
        if observed > WATCHED:
            self.busy, self.patience = 0.0, LONGEST / 2
