"""Choice of a family of partial aggregates for each call, and measured costs of each family.

Aggregates without a compiled family, including user-defined ones, run their algorithm on states in
Python.
"""

import copy
import itertools
import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.decisions import Costs
from kpg.runtime.ego.overlay import WRITER, Edges, Overlay, reachable_nodes
from kpg.runtime.ego.partial_aggregates import Counts, Extremes, Family, Sums
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.functions import lookup_aggregate
from kpg.runtime.mfp.python_calls import values_of, word_of
from kpg.runtime.plan.nodes import EgoCall, EgoFamily
from kpg.runtime.scalar import display_name
from kpg.runtime.types import BIGINT, ERROR, INTEGER, NULL, array

Words = NDArray[np.int64]


Row = tuple[Any, ...]


class States:
    """Family with algorithm states in Python.

    It has the rows and the state of each writer, and the state of each pushed node. If the algorithm
    can subtract, a pushed node applies the rows of a change. Otherwise its inputs are merged again.
    States are copied when a step first touches them.
    """

    can_sample = False

    def __init__(self, calls: tuple[EgoCall, ...], dictionary: Dictionary) -> None:
        (self._call,) = calls
        self._dictionary = dictionary
        function = lookup_aggregate(self._call.function)
        self._algorithm = function.algorithm(self._call.argument_types)
        self.can_subtract = self._algorithm.subtract is not None
        self.ignores_repetition = function.idempotent
        self._rows: dict[int, dict[Row, int]] = {}
        self._states: dict[int, Any] = {}
        self._undo: dict[int, tuple[dict[Row, int] | None, Any]] = {}

    def grow(self, room: int) -> None:
        """Do nothing: nodes without a state need no room."""

    def renumber(self, writers: Words, room: int) -> None:
        old = writers.tolist()
        self._rows = {new: self._rows[node] for new, node in enumerate(old) if node in self._rows}
        self._states = {new: self._states[node] for new, node in enumerate(old) if node in self._states}

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        call = self._call
        operands = zip(call.arguments, call.argument_types, strict=True)
        columns = [values_of(rows[place], type_, self._dictionary) for place, type_ in operands]
        values = list(zip(*columns, strict=True)) if columns else [()] * nodes.shape[0]
        changes: dict[int, dict[Row, int]] = {}
        for node, value, diff in zip(nodes.tolist(), values, diffs.tolist(), strict=True):
            if value[:1] != (None,):
                row_diffs = changes.setdefault(node, {})
                row_diffs[value] = row_diffs.get(value, 0) + diff
        for node, change in changes.items():
            self._save_undo(node)
            rows_held = self._rows.setdefault(node, {})
            for value, diff in change.items():
                remaining = rows_held.pop(value, 0) + diff
                if remaining:
                    rows_held[value] = remaining
        try:
            if self.can_subtract:
                self._add_changes(overlay, changes)
            else:
                self._merge_below(overlay, changes)
        except (ValueError, ArithmeticError) as error:
            raise self._evaluation_error(error) from error

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        raise InternalError("states do not support test writes")

    def read_arrays(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Return None: results are words."""
        return None

    def _save_undo(self, node: int) -> None:
        if node not in self._undo:
            rows = self._rows.get(node)
            state = copy.deepcopy(self._states.get(node))
            self._undo[node] = None if rows is None else dict(rows), state

    def _add_changes(self, overlay: Overlay, changes: dict[int, dict[Row, int]]) -> None:
        """Apply a writer's changes to each pushed node that it reaches."""
        writers = np.array(list(changes), np.int64)
        for items, origin in reachable_nodes(overlay, writers):
            of = writers[origin].tolist()
            signs = (1 - 2 * (items & 1)).tolist()
            for node, writer, sign in zip((items >> 1).tolist(), of, signs, strict=True):
                self._save_undo(node)
                state = self._states.get(node)
                state = self._algorithm.initialize() if state is None else state
                self._states[node] = self._apply_rows(state, changes[writer], sign)

    def _apply_rows(self, state: Any, change: dict[Row, int], sign: int) -> Any:
        algorithm = self._algorithm
        assert algorithm.subtract is not None
        for value, diff in change.items():
            if sign * diff > 0:
                state = algorithm.add(state, value, sign * diff)
        for value, diff in change.items():
            if sign * diff < 0:
                state = algorithm.subtract(state, value, -sign * diff)
        return state

    def _merge_below(self, overlay: Overlay, changes: dict[int, dict[Row, int]]) -> None:
        """Recompute the states of changed writers and of the pushed nodes below, inputs first."""
        below: dict[int, None] = {}
        waiting = list(changes)
        while waiting:
            node = waiting.pop()
            for item in overlay.outputs.items_of(node).tolist():
                if overlay.pushed[item >> 1] and item >> 1 not in below:
                    below[item >> 1] = None
                    waiting.append(item >> 1)
        for writer in changes:
            self._states[writer] = self._state_of_rows(writer)
        for node in _topological_order(overlay, below):
            self._save_undo(node)
            self._states[node] = self._merge_inputs(overlay, node)

    def _state_of_rows(self, writer: int) -> Any:
        state = self._algorithm.initialize()
        for value, times in self._rows.get(writer, {}).items():
            state = self._algorithm.add(state, value, times)
        return state

    def _merge_inputs(self, overlay: Overlay, node: int) -> Any:
        """Return the state of a node's inputs, of which pulled ones are computed."""
        algorithm = self._algorithm
        state = algorithm.initialize()
        waiting = [(int(item) >> 1, 1 - 2 * (int(item) & 1)) for item in overlay.inputs.items_of(node)]
        removed: list[int] = []
        while waiting:
            source, sign = waiting.pop()
            if sign < 0:
                removed.append(source)
            elif not overlay.pushed[source]:
                waiting += [
                    (int(item) >> 1, 1 - 2 * (int(item) & 1)) for item in overlay.inputs.items_of(source)
                ]
            elif source in self._states:
                state = algorithm.merge(state, self._states[source])
        for source in removed:
            _, writers = overlay.writers_of(np.array([source]))
            for writer in writers.tolist() if overlay.kinds[source] != WRITER else [source]:
                rows = self._rows.get(writer, {})
                if rows:
                    state = self._apply_rows(state, rows, -1)
        return state

    def fill(self, overlay: Overlay, order: Words) -> None:
        try:
            for node in order[(overlay.pushed[order] == 1) & (overlay.kinds[order] != WRITER)].tolist():
                self._save_undo(node)
                self._states[node] = self._merge_inputs(overlay, node)
        except (ValueError, ArithmeticError) as error:
            raise self._evaluation_error(error) from error

    def drop(self, nodes: Words) -> None:
        for node in nodes.tolist():
            self._states.pop(node, None)

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        words = np.full((1, nodes.shape[0]), NULL, np.int64)
        has_rows = np.zeros(nodes.shape[0], np.bool_)
        for place, node in enumerate(nodes.tolist()):
            has_rows[place] = self._has_rows(overlay, node)
            if has_rows[place]:
                words[0, place] = self._word(overlay, node)
        return has_rows, words

    def _has_rows(self, overlay: Overlay, node: int) -> bool:
        _, writers = overlay.writers_of(np.array([node]))
        return any(self._rows.get(writer) for writer in writers.tolist())

    def _word(self, overlay: Overlay, node: int) -> int:
        call = self._call
        try:
            state = self._states.get(node) if overlay.pushed[node] else self._merge_inputs(overlay, node)
            value = self._algorithm.finish(self._algorithm.initialize() if state is None else state)
        except (ValueError, ArithmeticError) as error:
            raise self._evaluation_error(error) from error
        word = word_of(value, call.type, self._dictionary) if value is not None else NULL
        if word == ERROR:
            raise DataError(
                f"{display_name(call.function)} of what neighbours wrote is no {call.type}: {value}"
            )
        return word

    def _evaluation_error(self, error: Exception) -> DataError:
        return DataError(
            f"{display_name(self._call.function)} of what neighbours wrote cannot be computed: {error}"
        )

    def commit(self) -> None:
        self._undo.clear()

    def rollback(self) -> None:
        for node, (rows, state) in self._undo.items():
            _set_or_delete(self._rows, node, rows)
            _set_or_delete(self._states, node, state)
        self._undo.clear()

    @property
    def bytes(self) -> int:
        return 200 * (len(self._rows) + len(self._states))


def _set_or_delete(place: dict[int, Any], node: int, value: Any) -> None:
    if value is None:
        place.pop(node, None)
    else:
        place[node] = value


def _topological_order(overlay: Overlay, nodes: dict[int, None]) -> list[int]:
    """Return the nodes, each after those of them that feed it."""
    done: dict[int, None] = {}
    for begin in nodes:
        waiting = [begin]
        while waiting:
            node = waiting[-1]
            inputs = [item >> 1 for item in overlay.inputs.items_of(node).tolist()]
            missing = [source for source in inputs if source in nodes and source not in done]
            if missing:
                waiting += missing
            else:
                waiting.pop()
                done[node] = None
    return list(done)


def make_family(kind: EgoFamily, calls: tuple[EgoCall, ...], limit: int, dictionary: Dictionary) -> Family:
    """Return an empty family of a kind."""
    match kind:
        case EgoFamily.SUMS:
            return Sums(calls)
        case EgoFamily.LEAST:
            return Extremes(greatest=False)
        case EgoFamily.GREATEST:
            return Extremes(greatest=True)
        case EgoFamily.COUNTS:
            return Counts(calls, limit, dictionary)
        case EgoFamily.STATES:
            return States(calls, dictionary)
        case _:
            assert_never(kind)


INPUT_COUNTS: Final = (2, 64)
"""Numbers of inputs with which costs are measured."""
CACHED_WRITERS: Final = 1 << 11
"""Number of writers with which costs are measured in the cache."""
UNCACHED_WRITERS: Final = 1 << 17
"""Number of writers with which costs are measured outside the cache."""
READERS_PER_WRITER: Final = 8
"""Number of readers of each writer."""
BATCH_NODES: Final = 1 << 10
"""Nodes written or read at a time."""
MAX_TIMED_BATCHES: Final = 16
"""Maximum number of batches in one measurement."""
MIN_MICROSECONDS: Final = 0.002
"""Smallest measurable cost in microseconds."""


@lru_cache(maxsize=8)
def measure_costs(kind: EgoFamily, *, builds_arrays: bool = False) -> Costs:
    """Return the additional microseconds of an update and of a read per node, as measured.

    ``builds_arrays`` means that results are arrays, which take time to build.
    """
    if kind is EgoFamily.STATES:
        return Costs(push=2.0, push_log=0.0, pull=2.0, pull_each=2.0)
    low, high = (_measure_push(kind, size, CACHED_WRITERS) for size in INPUT_COUNTS)
    push = max(low, MIN_MICROSECONDS)
    grows = max((high - low) / math.log2(INPUT_COUNTS[1] / INPUT_COUNTS[0]), 0.0)
    pull, each = _fit_line([_measure_pull(kind, size, CACHED_WRITERS) for size in INPUT_COUNTS])
    far, far_each = _fit_line([_measure_pull(kind, size, UNCACHED_WRITERS) for size in INPUT_COUNTS])
    return Costs(
        push, min(grows, push), pull, each, _measure_arrays() if builds_arrays else 0.0,
        max(_measure_push(kind, INPUT_COUNTS[0], UNCACHED_WRITERS) - push, 0.0), max(far - pull, 0.0),
        max(far_each - each, 0.0),
    )  # fmt: skip


def _fit_line(took: list[float]) -> tuple[float, float]:
    """Return the constant part of the costs, and the part per input."""
    each = max((took[1] - took[0]) / (INPUT_COUNTS[1] - INPUT_COUNTS[0]), MIN_MICROSECONDS)
    return max(took[0] - each * INPUT_COUNTS[0], MIN_MICROSECONDS), each


def _measure_push(kind: EgoFamily, size: int, count: int) -> float:
    """Return the additional microseconds of an update per pushed node with ``size`` inputs."""
    random = np.random.default_rng(1)
    family, overlay = _make_example(kind, size, count, random)
    batches = random.permutation(count).reshape(-1, BATCH_NODES)
    turns = np.zeros(batches.shape[0], np.int64)
    places = itertools.cycle(range(batches.shape[0]))

    def write() -> None:
        for place in itertools.islice(places, some):
            _replace_values(family, overlay, batches[place], int(turns[place]))
            turns[place] += 1

    some = min(MAX_TIMED_BATCHES, batches.shape[0])

    took = []
    for pushed in (0, 1):
        overlay.pushed[count:] = pushed
        overlay.order_outputs(all_nodes=True)
        family.fill(overlay, overlay.topological_order())
        took.append(_microseconds(write) / READERS_PER_WRITER / (some * BATCH_NODES))
    return took[1] - took[0]


def _measure_pull(kind: EgoFamily, size: int, writers: int) -> float:
    """Return the microseconds of a read of a node with ``size`` inputs, over all nodes in turn."""
    random = np.random.default_rng(1)
    family, overlay = _make_example(kind, size, writers, random)
    overlay.order_outputs(all_nodes=True)
    order = writers + random.permutation(overlay.count - writers)
    batches = itertools.cycle(np.split(order, range(BATCH_NODES, order.shape[0], BATCH_NODES)))
    some = min(MAX_TIMED_BATCHES, -(-order.shape[0] // BATCH_NODES))

    def read() -> None:
        for _ in range(some):
            family.read(overlay, next(batches))

    return _microseconds(read) / min(some * BATCH_NODES, order.shape[0])


def _make_example(
    kind: EgoFamily, size: int, writers: int, random: np.random.Generator
) -> tuple[Family, Overlay]:
    """Return an overlay whose writers have written, with readers of ``size`` writers each."""
    call = EgoCall("distinct_count", (0,), (BIGINT,), BIGINT)
    family = make_family(kind, (call,), 0, Dictionary())
    stars = READERS_PER_WRITER * writers // size
    overlay = Overlay(
        writers, stars, _random_edges(writers, stars, size, random), READERS_PER_WRITER * writers
    )
    family.grow(overlay.room)
    nodes = random.permutation(writers)
    family.write(overlay, nodes, _test_values(nodes, 0), np.ones(writers, np.int64))
    family.commit()
    return family, overlay


def _measure_arrays() -> float:
    """Return the microseconds to rebuild an array of ten words that was built before."""
    call = EgoCall("top_k", (0, 1), (BIGINT, INTEGER), array(BIGINT))
    family = make_family(EgoFamily.COUNTS, (call,), 10, Dictionary())
    nothing = np.zeros(128, np.int64)
    overlay = Overlay(128, 0, Edges(nothing, nothing.copy(), np.empty(0, np.int32)), 0)
    family.grow(overlay.room)
    nodes, ones = np.arange(128), np.ones(128, np.int64)

    def read() -> None:
        for value in (1, 2):  # invalidate the cached arrays
            family.write(overlay, nodes, np.full((1, 128), value), ones * (2 * value - 3))
        family.read_arrays(overlay, nodes)

    for value in range(10):
        family.write(overlay, nodes, np.full((1, 128), value), 40 * ones)
    return (
        max(_microseconds(read) - _microseconds(lambda: family.read_arrays(overlay, nodes)), 0.0)
        / nodes.shape[0]
    )


def _test_values(writers: Words, turn: int) -> Words:
    return ((writers * 7919 + 31 * turn) % 97).reshape(1, -1)


def _replace_values(family: Family, overlay: Overlay, writers: Words, turn: int) -> None:
    """Replace each writer's value by another."""
    nodes = np.repeat(writers, 2)
    rows = np.stack((_test_values(writers, turn)[0], _test_values(writers, turn + 1)[0]), axis=1).reshape(
        1, -1
    )
    family.write(overlay, nodes, rows, np.tile(np.array([-1, 1]), writers.shape[0]))
    family.commit()


def _random_edges(writers: int, stars: int, size: int, random: np.random.Generator) -> Edges:
    """Return readers of ``size`` writers each, at random."""
    each = np.concatenate([random.permutation(writers) for _ in range(READERS_PER_WRITER)])
    sizes = np.zeros(writers + stars, np.int64)
    sizes[writers:] = size
    start = np.zeros(writers + stars, np.int64)
    start[writers:] = size * np.arange(stars)
    return Edges(start, sizes, (2 * each[: stars * size]).astype(np.int32))


def _microseconds(run: Callable[[], object]) -> float:
    """Return the microseconds of the fastest of several runs after a first one.

    Other processes may interfere with some runs.
    """
    took = []
    for _ in range(5):
        begun = time.thread_time()
        run()
        took.append(time.thread_time() - begun)
    return min(took[1:]) * 1e6
