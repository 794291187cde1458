"""Push and pull labels of an overlay: the dataflow decisions of least expected cost.

A pushed node is maintained on every write; a pulled node is computed on every read. Pushing a node
with k inputs costs its push frequency times H(k); pulling it costs its pull frequency times L(k).
Every input of a pushed node is pushed. The weight of a node is the cost of pulling it minus the
cost of pushing it. The best labels are then the sides of a minimum cut, and pruning (P1 and P2 of
the paper) decides most nodes without a cut.

Four parts:

* Labels: :func:`decide` labels all nodes, :func:`dissolve` removes partial aggregates that save
  next to nothing, :func:`split` pushes the inputs of pulled nodes that seldom change.
* Adaptation: :func:`flip_at_frontier` flips single nodes when frequencies drift. It misses gains that need
  several nodes to flip together, so :func:`relabel_all` labels all nodes again when the frequencies shift.
* Node order: :func:`order_by_traffic` gives frequently visited nodes adjacent numbers, so that
  their state shares cache lines and pages.
* Trials: :func:`choose_by_trial` serves a sample of the observed writes and reads under several
  labellings and keeps the fastest. H and L are measured on unordered graphs (``families.py``) and
  may not hold for a given graph.
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
from kpg.runtime.ego.overlay import (
    NONE,
    PARTIAL,
    READER,
    WRITER,
    Edges,
    Overlay,
    group_edges,
    reverse_edges,
    with_ancestors,
)
from kpg.runtime.ego.partial_aggregates import Family
from kpg.runtime.errors import DataError
from kpg.runtime.kernels import deciding
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]


Floats = NDArray[np.float64]
CAPACITY_SUM: Final = 2**30
"""Sum of all capacities of a cut, which are 32-bit integers."""

PRIOR_SHARE: Final = 0.1
"""Share of the mean frequency that every node gets besides its observed one."""
MIN_GAIN: Final = 1.25
"""Factor by which the other label must be cheaper before a label changes."""

CACHED_VISITS: Final = 1 << 11
"""Approximate number of visits after which a node has left the nearer caches."""
MIN_SAVING: Final = 0.1
"""Share of a node's average cost that a partial aggregate must save."""
MAX_REPLACED_EDGES: Final = 1024
"""Edges that replace a partial aggregate at most when it is dissolved."""
MIN_OBSERVATIONS: Final = 32
"""Writes and reads of a node from which its costs are compared."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost of an update and of a read of a node with k inputs, in microseconds."""

    push: float
    push_log: float
    pull: float
    pull_each: float
    array: float = 0.0
    """Cost of building a reader's array; a pushed reader's is cached until it changes."""
    cold_push: float = 0.0
    """Additional cost of an update of an uncached node."""
    cold_pull: float = 0.0
    """Additional cost of a read of an uncached node."""
    cold_each: float = 0.0
    """Additional cost of such a read per input."""

    def scale(self, push: float, pull: float) -> "Costs":
        """Return the costs with all push costs and all pull costs multiplied."""
        return Costs(
            push * self.push, push * self.push_log, pull * self.pull, pull * self.pull_each,
            pull * self.array, push * self.cold_push, pull * self.cold_pull, pull * self.cold_each,
        )  # fmt: skip

    def push_cost(self, inputs: Words, far: Floats | float = 0.0) -> Floats:
        """Return H(k) for nodes that are uncached with probability ``far``."""
        costs: Floats = self.push + self.push_log * np.log2(np.maximum(inputs, 1)).astype(np.float64)
        return costs + self.cold_push * far

    def forward_cost(self, far: Floats | float = 0.0) -> Floats | float:
        """Return the additional cost of pushing a node that feeds others, looked up as for a pull."""
        return self.pull + self.cold_pull * far

    def pull_cost(self, inputs: Words, far: Floats | float = 0.0) -> Floats:
        """Return L(k) for nodes that are uncached with probability ``far``."""
        costs: Floats = (self.pull + self.pull_each * inputs).astype(np.float64)
        return costs + (self.cold_pull + self.cold_each * inputs) * far


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of labelling: the method, the nodes that pruning left undecided, and the expected costs.

    ``write`` and ``read`` are expected microseconds per write and per read.
    """

    method: str
    undecided: int
    write: float
    read: float


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Writes that reach each node if all are pushed, and reads that reach it if all are pulled."""

    push: Floats
    pull: Floats
    total: float
    """Number of writes and reads together."""

    def uncached_probability(self, times: Floats) -> Floats:
        """Return the probability that a node with ``times`` visits is not in the cache."""
        shares: Floats = 1.0 / (1.0 + times * (CACHED_VISITS / max(self.total, 1.0)))
        return shares


def observed_frequencies(overlay: Overlay, order: Words) -> Frequencies:
    """Return the frequencies observed at writers and readers, each with a share of the mean added."""
    push, pull = (
        _smooth_counts(overlay, WRITER, overlay.write_counts),
        _smooth_counts(overlay, READER, overlay.read_counts),
    )
    return propagate_frequencies(overlay, order, push, pull)


def propagate_frequencies(overlay: Overlay, order: Words, push: Floats, pull: Floats) -> Frequencies:
    """Return the sums of the writers' frequencies below them, and of the readers' above them."""
    inputs, outputs = overlay.inputs, overlay.outputs
    total = float(push.sum() + pull.sum())
    deciding.add_up(order, inputs.start, inputs.size, inputs.items, push)
    backwards = np.ascontiguousarray(order[::-1])
    deciding.add_up(backwards, outputs.start, outputs.size, outputs.items, pull)
    return Frequencies(push, pull, total)


def _smooth_counts(overlay: Overlay, kind: int, times: Words) -> Floats:
    """Return the counts of nodes of a kind, plus a share of the mean; 1 each if there are none."""
    here = overlay.kinds == kind
    total = float(times[here].sum())
    prior = PRIOR_SHARE * total / max(1, int(here[: overlay.count].sum())) if total else 1.0
    return np.where(here, times + prior, 0.0)


def decide(overlay: Overlay, mode: str, costs: Costs, forced: Words) -> Decision:
    """Label all nodes: by cost in mode ``auto``; otherwise push, or pull, all but writers.

    ``forced`` nodes, and everything that feeds them, are pushed in any mode.
    """
    order = overlay.topological_order()
    observed = observed_frequencies(overlay, order)
    undecided, method = 0, mode
    must_push = with_ancestors(overlay, forced)
    if mode == "auto":
        weight = observed.pull * costs.pull_cost(
            overlay.inputs.size, observed.uncached_probability(observed.pull)
        )
        weight -= push_costs(overlay, observed, costs)
        cached_reads = np.maximum(observed.pull - observed.push, 0.0) * (overlay.kinds == READER)
        weight += costs.array * cached_reads
        node_labels, undecided, method = choose_labels(overlay, order, weight, must_push)
        overlay.pushed[:] = node_labels == deciding.PUSH
    else:
        overlay.pushed[:] = mode == "push"
    overlay.pushed[overlay.kinds == WRITER] = 1
    overlay.pushed[must_push] = 1
    return Decision(method, undecided, *expected_costs(overlay, observed, costs))


def push_costs(overlay: Overlay, frequencies: Frequencies, costs: Costs) -> Floats:
    """Return the cost of each node if it is pushed."""
    far = frequencies.uncached_probability(frequencies.push)
    each = costs.push_cost(overlay.inputs.size, far) + costs.forward_cost(far) * (overlay.kinds == PARTIAL)
    return frequencies.push * each


def choose_labels(
    overlay: Overlay, order: Words, weight: Floats, must_push: Words = NONE
) -> tuple[NDArray[np.uint8], int, str]:
    """Return each node's label, the number of nodes left by pruning, and the method that decided these.

    ``must_push`` are nodes that are pushed, with everything that feeds them.
    """
    node_labels = np.where(overlay.kinds == WRITER, deciding.PUSH, deciding.UNDECIDED).astype(np.uint8)
    node_labels[must_push] = deciding.PUSH
    inputs, outputs = overlay.inputs, overlay.outputs
    undecided = deciding.prune(
        weight,
        inputs.start,
        inputs.size,
        inputs.items,
        outputs.start,
        outputs.size,
        outputs.items,
        node_labels,
    )
    if not undecided:
        return node_labels, 0, "pruning"
    if find_spec("scipy") is not None:
        _decide_by_cut(overlay, weight, node_labels)
        return node_labels, undecided, "minimum cut"
    deciding.greedy(order, weight, inputs.start, inputs.size, inputs.items, node_labels)
    return node_labels, undecided, "greedy"


def _decide_by_cut(overlay: Overlay, weight: Floats, node_labels: NDArray[np.uint8]) -> None:
    """Decide the remaining nodes by a minimum cut.

    Nodes that the source reaches in the residual graph are pulled.
    """
    from scipy.sparse import coo_array  # lazy: an optional dependency
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow  # lazy: an optional dependency

    rest = np.flatnonzero(node_labels == deciding.UNDECIDED)
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
    capacity = np.rint(np.abs(weight[rest]) * (CAPACITY_SUM / total)).astype(np.int64)
    negative = weight[rest] < 0
    positions = np.arange(rest.shape[0])
    froms = np.concatenate((origin[inside], np.full(int(negative.sum()), source), positions[~negative]))
    tos = np.concatenate((target[inside], positions[negative], np.full(int((~negative).sum()), sink)))
    unbounded = np.full(int(inside.sum()), 2 * CAPACITY_SUM - 1, np.int64)
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
    node_labels[rest] = deciding.PUSH
    node_labels[rest[reached[reached < source]]] = deciding.PULL


def push_pull_costs(overlay: Overlay, frequencies: Frequencies, costs: Costs) -> tuple[float, float]:
    """Return the expected microseconds of pushing and of pulling with the current labels.

    Pulling includes building arrays.
    """
    readers, pushed = overlay.kinds == READER, overlay.pushed == 1
    pushing = float(push_costs(overlay, frequencies, costs)[pushed & (overlay.kinds != WRITER)].sum())
    pulling = float(
        (
            frequencies.pull
            * costs.pull_cost(overlay.inputs.size, frequencies.uncached_probability(frequencies.pull))
        )[~pushed].sum()
    )
    pulling += (costs.pull + costs.array) * float(frequencies.pull[readers & pushed].sum())
    pulling += costs.array * float(frequencies.pull[readers & ~pushed].sum())
    pulling -= costs.array * float(
        np.maximum(frequencies.pull - frequencies.push, 0.0)[readers & pushed].sum()
    )
    return pushing, pulling


def expected_costs(overlay: Overlay, frequencies: Frequencies, costs: Costs) -> tuple[float, float]:
    """Return the expected microseconds per write and per read."""
    pushing, pulling = push_pull_costs(overlay, frequencies, costs)
    writes = float(frequencies.push[overlay.kinds == WRITER].sum()) or 1.0
    reads = float(frequencies.pull[overlay.kinds == READER].sum()) or 1.0
    return pushing / writes, pulling / reads


def savings(overlay: Overlay, frequencies: Frequencies, costs: Costs) -> Floats:
    """Return what each partial aggregate saves with the current labels.

    A pulled consumer reads one node instead of many. A partial aggregate that is pulled, or feeds only
    pushed nodes, costs an additional step.
    """
    outputs, size = overlay.outputs, overlay.inputs.size
    reads = np.zeros(overlay.room)
    deciding.ask(outputs.start, outputs.size, outputs.items, overlay.pushed, frequencies.pull, reads)
    each = costs.pull_each + costs.cold_each * frequencies.uncached_probability(reads)
    result: Floats = reads * each * (size - 1) - push_costs(overlay, frequencies, costs)
    result[overlay.pushed == 0] = 0.0
    return result


def min_saving(overlay: Overlay, frequencies: Frequencies, costs: Costs) -> float:
    """Return the saving that justifies a node: a share of the average cost per node."""
    write, read = expected_costs(overlay, frequencies, costs)
    writes, reads = (
        float(visits[overlay.kinds == kind].sum())
        for visits, kind in ((frequencies.push, WRITER), (frequencies.pull, READER))
    )
    return MIN_SAVING * (write * writes + read * reads) / max(1, overlay.count)


def dissolve(overlay: Overlay, costs: Costs) -> int:
    """Remove partial aggregates that save next to nothing, and return their number.

    Those that replace many edges stay, as they save memory.
    """
    count = overlay.count
    often = observed_frequencies(overlay, overlay.topological_order())
    inputs, outputs = overlay.inputs.size[:count], overlay.outputs.size[:count]
    idle = savings(overlay, often, costs)[:count] <= min_saving(overlay, often, costs)
    small = (inputs - 1) * (outputs - 1) <= MAX_REPLACED_EDGES
    is_dissolved = (overlay.kinds[:count] == PARTIAL) & (inputs > 0) & idle & small
    if not is_dissolved.any():
        return 0
    dissolved = np.zeros(overlay.room, np.uint8)
    dissolved[:count] = is_dissolved
    edges, begins, sizes = overlay.inputs, np.zeros(overlay.room, np.int64), np.zeros(overlay.room, np.int64)
    items = np.empty(0, np.int32)
    for _ in range(2):
        total = deciding.expand(edges.start, edges.size, edges.items, dissolved, begins, sizes, items)
        if total > items.shape[0]:
            items = np.empty(total, np.int32)
    overlay.set_edges(Edges(begins, sizes, items))
    return int(is_dissolved.sum())


def split(overlay: Overlay, costs: Costs, *, min_inputs: int = 4) -> int:
    """Insert pushed nodes for those inputs of pulled nodes that seldom change, and return their number."""
    often = observed_frequencies(overlay, overlay.topological_order())
    worth, edges = min_saving(overlay, often, costs), overlay.inputs
    pull_costs = often.pull * costs.pull_cost(edges.size)
    nodes = np.flatnonzero((overlay.pushed == 0) & (edges.size >= min_inputs) & (pull_costs > worth))
    counts = np.zeros(nodes.shape[0], np.int64)
    each = np.array([costs.push, costs.push_log, costs.pull, costs.pull_each])
    if not deciding.divide(
        nodes, often.push, often.pull, each, MIN_GAIN, worth, edges.start, edges.size, edges.items,
        overlay.pushed, counts,
    ):  # fmt: skip
        return 0
    nodes, counts = nodes[counts > 0], counts[counts > 0]
    fresh = np.array([overlay.add_node(PARTIAL) for _ in nodes], np.int64)
    overlay.pushed[fresh] = 1
    _move_inputs(overlay, nodes, fresh, counts)
    return fresh.shape[0]


def _move_inputs(overlay: Overlay, nodes: Words, fresh: Words, counts: Words) -> None:
    """Move the first ``counts`` inputs of each node to a fresh node that feeds it."""
    edges = overlay.inputs
    heads = np.cumsum(counts) - counts
    positions = np.repeat(edges.start[nodes] - heads, counts) + np.arange(int(counts.sum()))
    start, size = edges.start.copy(), edges.size.copy()
    start[fresh], size[fresh] = edges.items.shape[0] + heads, counts
    items = np.concatenate((edges.items, edges.items[positions]))
    start[nodes] += counts - 1
    size[nodes] -= counts - 1
    items[start[nodes]] = 2 * fresh
    overlay.set_edges(Edges(start, size, items))


def find_flips(overlay: Overlay, costs: Costs) -> Iterator[Words]:
    """Yield nodes at the frontier that are clearly cheaper with the other label.

    The frontier is between pushed and pulled nodes. Nodes with few observations are skipped. The caller
    flips the nodes before it requests the next ones.
    """
    inputs, outputs = overlay.inputs, overlay.outputs
    often = propagate_frequencies(
        overlay,
        overlay.topological_order(),
        overlay.write_counts.astype(float),
        overlay.read_counts.astype(float),
    )
    enough = often.push + often.pull >= MIN_OBSERVATIONS
    nodes = np.flatnonzero(enough & (overlay.kinds != WRITER) & (inputs.size > 0))
    size, push, pull = inputs.size[nodes], often.push[nodes], often.pull[nodes]
    pushing = push_costs(overlay, often, costs)[nodes]
    pulling = pull * costs.pull_cost(size, often.uncached_probability(pull))
    pulling += costs.array * np.maximum(pull - push, 0) * (overlay.kinds[nodes] == READER)
    better = [pushing > MIN_GAIN * pulling, pulling > MIN_GAIN * pushing]
    flips = np.empty(nodes.shape[0], np.int64)
    while True:
        dearer = nodes[np.where(overlay.pushed[nodes] == 1, *better)]
        count = deciding.frontier(
            dearer, inputs.start, inputs.size, inputs.items, outputs.start, outputs.size, outputs.items,
            overlay.pushed, flips,
        )  # fmt: skip
        if not count:
            return
        yield flips[:count].copy()


MAX_FRONTIERS: Final = 8
"""Times that the frontier is examined again after labels have changed."""
MIN_RELABEL_GAIN: Final = 1.05
"""Factor by which new labels must be cheaper before they replace all labels."""


def fill_pushed(overlay: Overlay, family: Family, nodes: Words) -> None:
    """Compute pushed nodes.

    If the computation fails, they are pulled instead, and raise the error when read.
    """
    try:
        family.fill(overlay, nodes)
    except DataError:
        family.rollback()
        overlay.pushed[nodes] = overlay.kinds[nodes] == WRITER
        overlay.mark_relabelled(nodes)
    family.commit()


def flip_at_frontier(overlay: Overlay, family: Family, costs: Costs, forced: Words) -> int:
    """Flip nodes at the frontier that are cheaper with the other label, repeatedly.

    Return the number of flips.
    """
    flips = 0
    for candidates in itertools.islice(find_flips(overlay, costs), MAX_FRONTIERS):
        nodes = np.setdiff1d(candidates, forced)
        pushed = overlay.pushed[nodes] == 1
        _pull_nodes(overlay, family, nodes[pushed])
        _push_nodes(
            overlay, family, patching.nodes_with_pushed_inputs(overlay, np.ascontiguousarray(nodes[~pushed]))
        )
        flips += nodes.shape[0]
    overlay.order_outputs()
    return flips


def relabel_all(overlay: Overlay, family: Family, costs: Costs, forced: Words) -> int:
    """Recompute all labels, use them if that is expected to pay, and return the number of changed nodes."""
    often = observed_frequencies(overlay, overlay.topological_order())
    before, old_cost = overlay.pushed.copy(), sum(push_pull_costs(overlay, often, costs))
    decide(overlay, "auto", costs, forced)
    after, new_cost = overlay.pushed.copy(), sum(push_pull_costs(overlay, often, costs))
    overlay.pushed[:] = before
    if old_cost < MIN_RELABEL_GAIN * new_cost:
        return 0
    _pull_nodes(overlay, family, np.flatnonzero(before > after))
    order = overlay.topological_order()
    _push_nodes(overlay, family, order[(before < after)[order]])
    overlay.order_outputs(all_nodes=True)
    return int((before != after)[: overlay.count].sum())


def _pull_nodes(overlay: Overlay, family: Family, nodes: Words) -> None:
    overlay.pushed[nodes] = 0
    family.drop(nodes)
    overlay.mark_relabelled(nodes)


def _push_nodes(overlay: Overlay, family: Family, nodes: Words) -> None:
    """Push nodes in topological order; their inputs are pushed."""
    overlay.pushed[nodes] = 1
    fill_pushed(overlay, family, nodes)
    overlay.mark_relabelled(nodes)


def order_by_traffic(overlay: Overlay) -> Words | None:
    """Return the nodes in an order with the most visited ones first; None with too few observations.

    Nodes whose visits differ by less than a factor of two keep their relative order, which construction
    may have chosen.
    """
    visit_count = int(overlay.write_counts.sum() + overlay.read_counts.sum())
    if visit_count < overlay.count:
        return None
    often = observed_frequencies(overlay, overlay.topological_order())
    visits = (often.push + often.pull)[: overlay.count]
    order = np.arange(overlay.room)
    order[: overlay.count] = np.argsort(-np.floor(np.log2(visits + 1.0)), kind="stable")
    return order


BATCHES: Final = 24
BATCH_SIZE: Final = 1024
"""Writes and reads in each batch."""
MAX_COST_FACTOR: Final = 8.0
"""Limit of the factor between measured and assumed costs."""
MAX_TRIAL_EDGES: Final = 1 << 24
"""Edges up to which a trial pushes all nodes: a top-k takes about 50 bytes per edge."""
FINALISTS: Final = 3
"""Number of fastest candidates that are timed again."""
FINAL_RUNS: Final = 2
"""Times that each finalist is timed again."""
SIMPLE_BONUS: Final = 0.97
"""Factor by which other candidates must beat all pushed and all pulled without partial aggregates."""
COST_FACTORS: Final = (1.0, 0.5, 2.0)
"""Factors of the push cost with which labels are tried."""


class Traffic:
    """Sample of writes and reads with the observed frequencies; each write replaces a value."""

    def __init__(self, overlay: Overlay, family: Family, often: Frequencies) -> None:
        random = np.random.default_rng(1)
        push, pull = (
            visits * (overlay.kinds == kind) for visits, kind in ((often.push, WRITER), (often.pull, READER))
        )
        share = float(push.sum() / (push.sum() + pull.sum()))
        writes = min(max(round(share * BATCH_SIZE), 1), BATCH_SIZE - 1)
        self._overlay, self._family = overlay, family
        self._writers = [np.unique(some) for some in _draw_batches(push, writes, random)]
        self._reads = _draw_batches(pull, BATCH_SIZE - writes, random)
        read_nodes = np.unique(self._reads)
        before = (
            often.pull[read_nodes]
            > random.random(read_nodes.shape[0]) * (often.pull + often.push)[read_nodes]
        )
        self._warm_readers = read_nodes[before]
        """Readers that were read after their last write."""

    @property
    def is_empty(self) -> bool:
        """Whether no writer has a value to replace."""
        return not any(self._family.sample(nodes)[0].shape[0] for nodes in self._writers)

    def seconds(self) -> tuple[float, float]:
        """Return the seconds of a batch's writes and of its reads, and undo the writes.

        They are infinite after an error.
        """
        overlay, family, took = self._overlay, self._family, np.zeros((BATCHES, 2))
        try:
            self._read(self._warm_readers)
            for place, (writers, readers) in enumerate(zip(self._writers, self._reads, strict=True)):
                write = family.sample(writers)  # with their current values
                begun = time.thread_time()
                family.write(overlay, *write)
                written = time.thread_time()
                self._read(readers)
                took[place] = written - begun, time.thread_time() - written
        except DataError:
            return math.inf, math.inf
        finally:
            family.rollback()
        writes, reads = np.median(took, axis=0)
        return float(writes), float(reads)

    def _read(self, nodes: Words) -> None:
        """Read nodes as ``read_many`` does."""
        if self._family.read_arrays(self._overlay, nodes) is None:
            self._family.read(self._overlay, nodes)


def _draw_batches(frequency: NDArray[np.float64], size: int, random: np.random.Generator) -> Words:
    """Return batches of nodes, drawn with the given frequencies."""
    chances = np.cumsum(frequency)
    return np.searchsorted(chances, chances[-1] * random.random((BATCHES, size)), side="right")


@dataclass(slots=True, eq=False)
class Candidate:
    """Edges and labels of a trial, with their expected and measured times."""

    count: int
    """Number of nodes."""
    inputs: Edges
    outputs: Edges
    pushed: NDArray[np.uint8]
    decision: Decision
    expected_costs: tuple[float, float]
    seconds: tuple[float, float]
    """Least measured seconds of a batch's writes and reads; other processes may use the caches meanwhile."""


class Trial:
    """Trial of several labellings on an overlay."""

    def __init__(self, overlay: Overlay, family: Family, costs: Costs, forced: Words) -> None:
        self._overlay, self._family, self._costs, self._forced_nodes = overlay, family, costs, forced
        self._often = observed_frequencies(overlay, overlay.topological_order())
        self._traffic = Traffic(overlay, family, self._often)
        self._original_edges = overlay.inputs, overlay.outputs
        self._extremes: list[Candidate] = []
        """Candidates with all nodes pushed, and all pulled."""
        self.finalists: list[Candidate] = []
        """Fastest candidates."""
        self.is_possible = not self._traffic.is_empty

    def run_all(self) -> Costs:
        """Time all candidates and return the costs fitted to them."""
        overlay, original = self._overlay, self._original_edges
        plain = original if overlay.edges == overlay.pair_count else _direct_edges(overlay)
        for mode in ("push", "pull", "auto"):
            self.run(plain, mode)
        if original is not plain:
            self.run(original, "auto")
        fitted = self.fit_costs()
        factor = fitted.push / self._costs.push / (fitted.pull / self._costs.pull)
        for each in COST_FACTORS:
            self.run(original, "auto", factor * each)
        if original is not plain:
            self.run(plain, "auto", factor)
        self.rerun_finalists()
        self.run_split(fitted)
        self.rerun_finalists()
        return fitted

    def run(self, edges: tuple[Edges, Edges], mode: str, factor: float = 1.0) -> None:
        """Time a candidate with these edges; in ``auto`` mode push costs are multiplied by ``factor``.

        Candidates with equal edges share the arrays; the order of outputs is recomputed for each.
        """
        overlay = self._overlay
        overlay.set_edges(*edges)
        costs = self._costs.scale(factor, 1.0)
        decision = decide(overlay, mode, costs, self._forced_nodes)
        if mode == "auto" and edges is self._original_edges:
            dissolve(overlay, costs)
        overlay.order_outputs(all_nodes=True)
        self._time_candidate(decision)

    def rerun_finalists(self) -> None:
        """Time the finalists again, in turn."""
        for _ in range(FINAL_RUNS):
            for way in sorted(self.finalists, key=_comparable_seconds):
                self._install(way)
                self._fill()
                way.seconds = min(way.seconds, self._traffic.seconds(), key=sum)

    def run_split(self, costs: Costs) -> None:
        """Time the fastest candidate with split nodes, where that pays."""
        overlay, before = self._overlay, self.install_best()
        if not split(overlay, costs):
            return
        self._family.grow(overlay.room)
        overlay.order_outputs(all_nodes=True)
        self._time_candidate(before)

    def _time_candidate(self, decision: Decision) -> None:
        """Time the current edges and labels as a candidate."""
        overlay, order = self._overlay, self._fill()
        expected = push_pull_costs(overlay, observed_frequencies(overlay, order), self._costs)
        way = Candidate(
            overlay.count, overlay.inputs, overlay.outputs, overlay.pushed.copy(), decision, expected,
            self._traffic.seconds(),
        )  # fmt: skip
        if len(self._extremes) < 2:
            self._extremes.append(way)
        self.finalists = sorted([*self.finalists, way], key=_comparable_seconds)[:FINALISTS]

    def _fill(self) -> Words:
        """Compute exactly the pushed nodes and return the topological order."""
        order = self._overlay.topological_order()
        self._family.drop(np.flatnonzero(self._overlay.kinds != WRITER))
        self._family.fill(self._overlay, order)
        return order

    def fit_costs(self) -> Costs:
        """Return costs fitted to the times with all pushed and with all pulled."""
        push, pull = self._extremes
        if not math.isfinite(_comparable_seconds(push) + _comparable_seconds(pull)):
            return self._costs
        scale = 1e6 * self._often.total / BATCH_SIZE
        factors = [
            scale
            * (more.seconds[place] - less.seconds[place])
            / max(more.expected_costs[place] - less.expected_costs[place], 1e-9)
            for place, more, less in ((0, push, pull), (1, pull, push))
        ]
        return self._costs.scale(
            *(float(np.clip(factor, 1 / MAX_COST_FACTOR, MAX_COST_FACTOR)) for factor in factors)
        )

    def install_best(self) -> Decision:
        """Set the overlay to the fastest candidate; its pushed nodes are not filled."""
        best = min(self.finalists, key=_comparable_seconds)
        self._install(best)
        return best.decision

    def _install(self, candidate: Candidate) -> None:
        """Set the overlay's edges and labels to those of a candidate."""
        overlay = self._overlay
        for edges in (candidate.inputs, candidate.outputs):
            edges.grow(overlay.room)
        overlay.count = candidate.count
        overlay.set_edges(candidate.inputs, candidate.outputs)
        overlay.pushed[:] = 0
        overlay.pushed[: candidate.pushed.shape[0]] = candidate.pushed
        overlay.order_outputs(all_nodes=True)


def _comparable_seconds(way: Candidate) -> float:
    """Return the seconds of a batch, slightly reduced for candidates without decisions, as times vary."""
    return sum(way.seconds) * (SIMPLE_BONUS if way.decision.method in ("push", "pull") else 1.0)


def choose_by_trial(
    overlay: Overlay, family: Family, costs: Costs, forced: Words = NONE
) -> tuple[Decision, Costs] | None:
    """Set the edges and labels that serve the observed traffic fastest.

    Returns the decision and the fitted costs. None if no trial is possible. Pushed nodes are not filled
    afterwards.
    """
    if not family.can_sample or not 0 < overlay.pair_count <= MAX_TRIAL_EDGES:
        return None
    trial = Trial(overlay, family, costs, forced)
    if not trial.is_possible:
        return None
    fitted = trial.run_all()
    decision = trial.install_best()
    family.drop(np.flatnonzero(overlay.kinds != WRITER))
    write, read = expected_costs(overlay, observed_frequencies(overlay, overlay.topological_order()), fitted)
    return replace(decision, write=write, read=read), fitted


def _direct_edges(overlay: Overlay) -> tuple[Edges, Edges]:
    """Return edges from each writer to each of its readers, and the reverse edges."""
    readers = np.flatnonzero(overlay.kinds == READER)
    place, writers = overlay.inputs.writers_of(readers)
    inputs = group_edges(readers[place], writers, overlay.room)
    return inputs, reverse_edges(inputs)


CHECK_INTERVAL: Final = 1 << 16
"""Writes and reads after which labels are compared with the observed frequencies."""
CHECK_FACTOR: Final = 25
"""Work between comparisons, as a multiple of a comparison's time."""
STEADY_SHARE: Final = 0.005
"""Share of changed labels below which that multiple doubles."""
SHIFTED_SHARE: Final = 0.02
"""Share of changed labels from which the frequencies have shifted: all labels are recomputed soon."""
SHIFTED_CHECK_FACTOR: Final = 8
"""Multiple of a comparison's time until the next one after a shift."""
MAX_CHECK_SECONDS: Final = 5.0
"""Maximum seconds of work between comparisons, which bounds the delay until a shift is noticed."""


@dataclass(slots=True, eq=False)
class Workload:
    """Work since the last comparison of labels."""

    visits: int = 0
    """Number of writes and reads."""
    seconds: float = 0.0
    """Seconds that they have taken."""
    check_after: float = 0.0
    """Seconds of work until the next comparison."""
    check_factor: int = CHECK_FACTOR
    has_shifted: bool = False
    """Whether the frequencies have shifted, so that labels at the frontier are not sufficient."""

    @property
    def is_due(self) -> bool:
        """Whether a comparison is due."""
        return self.visits > CHECK_INTERVAL and self.seconds > self.check_after

    def record_check(self, changed_share: float, seconds: float) -> None:
        """Record a comparison that took ``seconds`` and changed this share of labels."""
        if changed_share >= STEADY_SHARE:
            self.check_factor = CHECK_FACTOR if changed_share < SHIFTED_SHARE else SHIFTED_CHECK_FACTOR
        else:
            self.check_factor = max(
                self.check_factor, min(2 * self.check_factor, int(MAX_CHECK_SECONDS / max(seconds, 1e-6)))
            )
        self.has_shifted = changed_share >= SHIFTED_SHARE
        self.visits, self.seconds, self.check_after = 0, 0.0, self.check_factor * seconds

    def record_decision(self, visits: int) -> None:
        """Record that all labels were recomputed from this many visits."""
        self.check_factor, self.has_shifted = CHECK_FACTOR, False
        if visits > CHECK_INTERVAL:
            self.seconds, self.check_after = 0.0, MAX_CHECK_SECONDS / 2
