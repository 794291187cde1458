"""Choice of a family of partial aggregates for each call, and measured costs of each family.

Aggregates without a compiled family, including user-defined ones, run their algorithm on states in Python.
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
from kpg.runtime.ego.overlay import WRITER, Edges, Overlay, reached
from kpg.runtime.ego.partial_aggregates import Counts, Extremes, Family, Sums
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.functions import aggregate_named
from kpg.runtime.mfp.python_calls import values_of, word_of
from kpg.runtime.plan.nodes import EgoCall, EgoFamily
from kpg.runtime.scalar import shown
from kpg.runtime.types import BIGINT, ERROR, INTEGER, NULL, array

Words = NDArray[np.int64]


Row = tuple[Any, ...]


class States:
    """Of each writer its rows and their state, of each pushed node a state.

    Where the algorithm can take rows back, a pushed node takes those of a change; else it is merged again of
    its inputs. The states before a step are copied when they are first touched.
    """

    timed = False

    def __init__(self, calls: tuple[EgoCall, ...], dictionary: Dictionary) -> None:
        (self._call,) = calls
        self._dictionary = dictionary
        function = aggregate_named(self._call.function)
        self._algorithm = function.algorithm(self._call.argument_types)
        self.subtracts = self._algorithm.subtract is not None
        self.repeats = function.idempotent
        self._rows: dict[int, dict[Row, int]] = {}
        self._states: dict[int, Any] = {}
        self._before: dict[int, tuple[dict[Row, int] | None, Any]] = {}

    def grow(self, room: int) -> None:
        """Nodes without a state need no place."""

    def moved(self, writers: Words, room: int) -> None:
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
                of = changes.setdefault(node, {})
                of[value] = of.get(value, 0) + diff
        for node, change in changes.items():
            self._keep(node)
            held = self._rows.setdefault(node, {})
            for value, diff in change.items():
                left = held.pop(value, 0) + diff
                if left:
                    held[value] = left
        try:
            if self.subtracts:
                self._add(overlay, changes)
            else:
                self._merge_below(overlay, changes)
        except (ValueError, ArithmeticError) as error:
            raise self._failed(error) from error

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        raise InternalError("writes of states are not tried out")

    def listed(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Answers are no lists."""
        return None

    def _keep(self, node: int) -> None:
        if node not in self._before:
            rows = self._rows.get(node)
            state = copy.deepcopy(self._states.get(node))
            self._before[node] = None if rows is None else dict(rows), state

    def _add(self, overlay: Overlay, changes: dict[int, dict[Row, int]]) -> None:
        """Have each pushed node that a writer reaches take the writer's changes."""
        writers = np.array(list(changes), np.int64)
        for items, origin in reached(overlay, writers):
            of = writers[origin].tolist()
            signs = (1 - 2 * (items & 1)).tolist()
            for node, writer, sign in zip((items >> 1).tolist(), of, signs, strict=True):
                self._keep(node)
                state = self._states.get(node)
                state = self._algorithm.initialize() if state is None else state
                self._states[node] = self._changed(state, changes[writer], sign)

    def _changed(self, state: Any, change: dict[Row, int], sign: int) -> Any:
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
        """Compute the states of changed writers, and of what is pushed below, anew, each after its inputs."""
        below: dict[int, None] = {}
        waiting = list(changes)
        while waiting:
            node = waiting.pop()
            for item in overlay.outputs.of(node).tolist():
                if overlay.pushed[item >> 1] and item >> 1 not in below:
                    below[item >> 1] = None
                    waiting.append(item >> 1)
        for writer in changes:
            self._states[writer] = self._of_rows(writer)
        for node in _sorted(overlay, below):
            self._keep(node)
            self._states[node] = self._merged(overlay, node)

    def _of_rows(self, writer: int) -> Any:
        state = self._algorithm.initialize()
        for value, times in self._rows.get(writer, {}).items():
            state = self._algorithm.add(state, value, times)
        return state

    def _merged(self, overlay: Overlay, node: int) -> Any:
        """The state of a node's inputs, those that are not kept computed as well."""
        algorithm = self._algorithm
        state = algorithm.initialize()
        waiting = [(int(item) >> 1, 1 - 2 * (int(item) & 1)) for item in overlay.inputs.of(node)]
        removed: list[int] = []
        while waiting:
            source, sign = waiting.pop()
            if sign < 0:
                removed.append(source)
            elif not overlay.pushed[source]:
                waiting += [(int(item) >> 1, 1 - 2 * (int(item) & 1)) for item in overlay.inputs.of(source)]
            elif source in self._states:
                state = algorithm.merge(state, self._states[source])
        for source in removed:
            _, writers = overlay.writers_of(np.array([source]))
            for writer in writers.tolist() if overlay.kinds[source] != WRITER else [source]:
                rows = self._rows.get(writer, {})
                if rows:
                    state = self._changed(state, rows, -1)
        return state

    def fill(self, overlay: Overlay, order: Words) -> None:
        try:
            for node in order[(overlay.pushed[order] == 1) & (overlay.kinds[order] != WRITER)].tolist():
                self._keep(node)
                self._states[node] = self._merged(overlay, node)
        except (ValueError, ArithmeticError) as error:
            raise self._failed(error) from error

    def drop(self, nodes: Words) -> None:
        for node in nodes.tolist():
            self._states.pop(node, None)

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        words = np.full((1, nodes.shape[0]), NULL, np.int64)
        there = np.zeros(nodes.shape[0], np.bool_)
        for place, node in enumerate(nodes.tolist()):
            there[place] = self._has_rows(overlay, node)
            if there[place]:
                words[0, place] = self._word(overlay, node)
        return there, words

    def _has_rows(self, overlay: Overlay, node: int) -> bool:
        _, writers = overlay.writers_of(np.array([node]))
        return any(self._rows.get(writer) for writer in writers.tolist())

    def _word(self, overlay: Overlay, node: int) -> int:
        call = self._call
        try:
            state = self._states.get(node) if overlay.pushed[node] else self._merged(overlay, node)
            value = self._algorithm.finish(self._algorithm.initialize() if state is None else state)
        except (ValueError, ArithmeticError) as error:
            raise self._failed(error) from error
        word = word_of(value, call.type, self._dictionary) if value is not None else NULL
        if word == ERROR:
            raise DataError(f"{shown(call.function)} of what neighbours wrote is no {call.type}: {value}")
        return word

    def _failed(self, error: Exception) -> DataError:
        return DataError(f"{shown(self._call.function)} of what neighbours wrote cannot be computed: {error}")

    def commit(self) -> None:
        self._before.clear()

    def rollback(self) -> None:
        for node, (rows, state) in self._before.items():
            _put(self._rows, node, rows)
            _put(self._states, node, state)
        self._before.clear()

    @property
    def bytes(self) -> int:
        return 200 * (len(self._rows) + len(self._states))


def _put(place: dict[int, Any], node: int, value: Any) -> None:
    if value is None:
        place.pop(node, None)
    else:
        place[node] = value


def _sorted(overlay: Overlay, nodes: dict[int, None]) -> list[int]:
    """Nodes, each after those of them that feed it."""
    done: dict[int, None] = {}
    for begin in nodes:
        waiting = [begin]
        while waiting:
            node = waiting[-1]
            inputs = [item >> 1 for item in overlay.inputs.of(node).tolist()]
            more = [source for source in inputs if source in nodes and source not in done]
            if more:
                waiting += more
            else:
                waiting.pop()
                done[node] = None
    return list(done)


def family_of(kind: EgoFamily, calls: tuple[EgoCall, ...], few: int, dictionary: Dictionary) -> Family:
    """Partial aggregates of a kind."""
    match kind:
        case EgoFamily.SUMS:
            return Sums(calls)
        case EgoFamily.LEAST:
            return Extremes(greatest=False)
        case EgoFamily.GREATEST:
            return Extremes(greatest=True)
        case EgoFamily.COUNTS:
            return Counts(calls, few, dictionary)
        case EgoFamily.STATES:
            return States(calls, dictionary)
        case _:
            assert_never(kind)


SIZES: Final = (2, 64)
"""Numbers of inputs that costs are measured with."""
HOT: Final = 1 << 11
"""How many writers there are when costs are timed of what is at hand."""
COLD: Final = 1 << 17
"""How many there are if what is written and read shall not be at hand."""
EACH: Final = 8
"""How many readers each of them has."""
BATCH: Final = 1 << 10
"""So many are written, or read, at once."""
SAMPLED: Final = 16
"""So many batches, at most, are timed at once, and then others."""
LEAST: Final = 0.002
"""Microseconds: what is timed as less is the clock's."""


@lru_cache(maxsize=8)
def calibrated(kind: EgoFamily, *, answers: bool = False) -> Costs:
    """What an update, and a read, of a node costs in microseconds more than without it, as timed.

    ``answers`` if what is read has to be made of more than a number.
    """
    if kind is EgoFamily.STATES:
        return Costs(push=2.0, push_log=0.0, pull=2.0, pull_each=2.0)
    low, high = (_pushing(kind, size, HOT) for size in SIZES)
    push = max(low, LEAST)
    grows = max((high - low) / math.log2(SIZES[1] / SIZES[0]), 0.0)
    pull, each = _line([_pulling(kind, size, HOT) for size in SIZES])
    far, far_each = _line([_pulling(kind, size, COLD) for size in SIZES])
    return Costs(
        push, min(grows, push), pull, each, _answering() if answers else 0.0,
        max(_pushing(kind, SIZES[0], COLD) - push, 0.0), max(far - pull, 0.0), max(far_each - each, 0.0),
    )  # fmt: skip


def _line(took: list[float]) -> tuple[float, float]:
    """What is the same for all sizes, and what is more for each input."""
    each = max((took[1] - took[0]) / (SIZES[1] - SIZES[0]), LEAST)
    return max(took[0] - each * SIZES[0], LEAST), each


def _pushing(kind: EgoFamily, size: int, count: int) -> float:
    """Microseconds that an update is more for each node of so many inputs that is pushed."""
    random = np.random.default_rng(1)
    family, overlay = _example(kind, size, count, random)
    batches = random.permutation(count).reshape(-1, BATCH)
    turns = np.zeros(batches.shape[0], np.int64)
    places = itertools.cycle(range(batches.shape[0]))

    def write() -> None:
        for place in itertools.islice(places, some):
            _replace(family, overlay, batches[place], int(turns[place]))
            turns[place] += 1

    some = min(SAMPLED, batches.shape[0])

    took = []
    for pushed in (0, 1):
        overlay.pushed[count:] = pushed
        overlay.settle(every=True)
        family.fill(overlay, overlay.order())
        took.append(_seconds(write) / EACH / (some * BATCH))
    return took[1] - took[0]


def _pulling(kind: EgoFamily, size: int, writers: int) -> float:
    """Microseconds that reading a node of so many inputs takes, if all are read in turns."""
    random = np.random.default_rng(1)
    family, overlay = _example(kind, size, writers, random)
    overlay.settle(every=True)
    order = writers + random.permutation(overlay.count - writers)
    batches = itertools.cycle(np.split(order, range(BATCH, order.shape[0], BATCH)))
    some = min(SAMPLED, -(-order.shape[0] // BATCH))

    def read() -> None:
        for _ in range(some):
            family.read(overlay, next(batches))

    return _seconds(read) / min(some * BATCH, order.shape[0])


def _example(kind: EgoFamily, size: int, writers: int, random: np.random.Generator) -> tuple[Family, Overlay]:
    """So many writers, each of whom has written, and readers of ``size`` of them."""
    call = EgoCall("distinct_count", (0,), (BIGINT,), BIGINT)
    family = family_of(kind, (call,), 0, Dictionary())
    stars = EACH * writers // size
    overlay = Overlay(writers, stars, _stars(writers, stars, size, random), EACH * writers)
    family.grow(overlay.room)
    nodes = random.permutation(writers)
    family.write(overlay, nodes, _values(nodes, 0), np.ones(writers, np.int64))
    family.commit()
    return family, overlay


def _answering() -> float:
    """Microseconds that it takes to make an answer of ten words, which was made before."""
    call = EgoCall("top_k", (0, 1), (BIGINT, INTEGER), array(BIGINT))
    family = family_of(EgoFamily.COUNTS, (call,), 10, Dictionary())
    nothing = np.zeros(128, np.int64)
    overlay = Overlay(128, 0, Edges(nothing, nothing.copy(), np.empty(0, np.int32)), 0)
    family.grow(overlay.room)
    nodes, ones = np.arange(128), np.ones(128, np.int64)

    def read() -> None:
        for value in (1, 2):  # what has changed is not known
            family.write(overlay, nodes, np.full((1, 128), value), ones * (2 * value - 3))
        family.listed(overlay, nodes)

    for value in range(10):
        family.write(overlay, nodes, np.full((1, 128), value), 40 * ones)
    return max(_seconds(read) - _seconds(lambda: family.listed(overlay, nodes)), 0.0) / nodes.shape[0]


def _values(writers: Words, turn: int) -> Words:
    return ((writers * 7919 + 31 * turn) % 97).reshape(1, -1)


def _replace(family: Family, overlay: Overlay, writers: Words, turn: int) -> None:
    """Have another value of each writer in the place of the one there is."""
    nodes = np.repeat(writers, 2)
    rows = np.stack((_values(writers, turn)[0], _values(writers, turn + 1)[0]), axis=1).reshape(1, -1)
    family.write(overlay, nodes, rows, np.tile(np.array([-1, 1]), writers.shape[0]))
    family.commit()


def _stars(writers: int, stars: int, size: int, random: np.random.Generator) -> Edges:
    """Readers of so many writers each, in no order."""
    each = np.concatenate([random.permutation(writers) for _ in range(EACH)])
    sizes = np.zeros(writers + stars, np.int64)
    sizes[writers:] = size
    start = np.zeros(writers + stars, np.int64)
    start[writers:] = size * np.arange(stars)
    return Edges(start, sizes, (2 * each[: stars * size]).astype(np.int32))


def _seconds(run: Callable[[], object]) -> float:
    """Microseconds, of the best of a few times after a first one: others may have the processor meanwhile."""
    took = []
    for _ in range(5):
        begun = time.thread_time()
        run()
        took.append(time.thread_time() - begun)
    return min(took[1:]) * 1e6
