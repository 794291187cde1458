"""What of an overlay is pushed and what is pulled: the labelling of least expected cost, or nearly.

Pushing a node costs its push frequency times H(k), pulling it its pull frequency times L(k), where k is its
number of inputs; whatever feeds a pushed node is pushed. With a node's weight what pulling costs more than
pushing, the best labels are the sides of a minimum cut; most nodes need no cut to be decided (P1 and P2 of
the paper).
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.followed import NONE, above
from kpg.runtime.ego.overlay import PARTIAL, READER, WRITER, Edges, Overlay
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
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

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
