"""The history table against brute force: outputs accumulate to the function of the input at every time."""

import heapq
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels.accumulators import COUNT, SUM, SUM_DOUBLE
from kpg.runtime.state.groups import Accumulator
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import ERROR, NULL, float_to_word

Row = tuple[int, ...]
Rounds = tuple[int, ...]
Time = tuple[int, ...]
Change = tuple[int, Rounds, Row, int]
"""Epoch, rounds, row, diff."""
Output = Callable[[int, Counter[Row]], Counter[Row]]
"""What the rows of one key of so many columns make."""

SPEC = (
    Accumulator(COUNT, -1),
    Accumulator(COUNT, 1),
    Accumulator(SUM, 1),
    Accumulator(SUM_DOUBLE, 2),
)
DOUBLES = (0.1, 1e300, -1e300, math.inf, 2.5)


def before(time: Time, other: Time) -> bool:
    return all(a <= b for a, b in zip(time, other, strict=True))


def reduced(key: int, rows: Counter[Row]) -> Counter[Row]:
    """One row of ``SPEC`` for each key; ``key`` is 0 or 1, and the rows have an x and a double."""
    result: Counter[Row] = Counter()
    for k in {row[:key] for row in rows} if key else {()}:
        own = {row: n for row, n in rows.items() if row[:key] == k}
        count = sum(own.values())
        if count <= 0 and key:
            continue
        filled = sum(n for row, n in own.items() if row[1] != NULL)
        total = sum(row[1] * n for row, n in own.items() if row[1] != NULL)
        fits = ERROR < total < 2**63
        result[*k, count, filled, (total if fits else ERROR) if filled else NULL, double_sum(own)] = 1
    return result


def double_sum(rows: dict[Row, int]) -> int:
    """As the kernel's words: ``math.fsum`` is exact too."""
    filled = sum(n for row, n in rows.items() if row[2] != NULL)
    if filled == 0:
        return NULL
    infinite = sum(n for row, n in rows.items() if row[2] == float_to_word(math.inf))
    if infinite > 0:
        return float_to_word(math.inf)
    terms = []
    for value in DOUBLES:
        n = sum(n for row, n in rows.items() if row[2] == float_to_word(value))
        terms += [math.copysign(1, n) * value] * abs(n) if math.isfinite(value) else []
    try:
        return float_to_word(math.fsum(terms))
    except OverflowError:
        return ERROR


def thresholded(key: int, rows: Counter[Row]) -> Counter[Row]:
    return Counter({row: n for row, n in rows.items() if n > 0})


def distinct(key: int, rows: Counter[Row]) -> Counter[Row]:
    return Counter({row: 1 for row, n in rows.items() if n > 0})


@dataclass
class Run:
    """A table, what it was fed and what it gave; ``function`` is what its output should be."""

    table: HistoryTable
    function: Output
    inputs: list[tuple[Time, Row, int]] = field(default_factory=list)
    outputs: list[tuple[Time, Row, int]] = field(default_factory=list)
    visited: list[Rounds] = field(default_factory=list)

    def evaluate(self, rounds: Rounds, hydrating: int | None) -> Updates:
        if self.function is reduced:
            return self.table.evaluate(rounds, hydrating=hydrating is not None, epoch=hydrating or 0)
        return self.table.evaluate_threshold(rounds, self.function is distinct)

    def step(self, changes: list[Change], *, commit: bool = True, hydrating: int | None = None) -> None:
        """Feed and evaluate all rounds in order, then commit or roll back."""
        zero = (0,) * (self.table.depth - 1)
        agenda = sorted({c[1] for c in changes} | ({zero} if hydrating is not None else set()))
        produced: list[tuple[Time, Row, int]] = []
        self.visited = []
        while agenda:
            rounds = heapq.heappop(agenda)
            if rounds in self.visited:
                continue
            self.visited.append(rounds)
            feed(self.table, [c for c in changes if c[1] == rounds])
            updates = self.evaluate(rounds, hydrating)
            produced += listed(updates, rounds)
            for owed in self.table.new_rounds:
                assert owed > rounds
                heapq.heappush(agenda, owed)
        if commit:
            self.table.commit()
            self.inputs += [((epoch, *rounds), row, diff) for epoch, rounds, row, diff in changes]
            self.outputs += produced
        else:
            self.table.rollback()

    def check(self, epochs: int, rounds: int) -> None:
        """At every time of the grid, and in sum, the output is the function of the input."""
        grid = (range(epochs), *(range(rounds) for _ in range(self.table.depth - 1)))
        for point in product(*grid):
            expected = self.function(self.table.key, accumulated(self.inputs, point))
            assert accumulated(self.outputs, point) == expected, point
        pairs = self.contents()
        assert accumulated(self.outputs, (epochs, *(rounds,) * (self.table.depth - 1))) == pairs

    def check_merged(self) -> None:
        """Each key and rounds at which something remains is held once; for distinct and threshold."""
        net: Counter[tuple[Rounds, Row]] = Counter()
        for time, row, diff in self.inputs:
            net[time[1:], row] += diff
        assert self.table.rows == sum(1 for n in net.values() if n)

    def contents(self) -> Counter[Row]:
        chunks = self.table.contents()
        if self.function is not reduced:
            chunks = self.table.threshold_contents(self.function is distinct)
        result: Counter[Row] = Counter()
        for data, diff in chunks:
            result.update(dict(zip(map(tuple, data.T.tolist()), diff.tolist(), strict=True)))
        return result


def accumulated(updates: list[tuple[Time, Row, int]], point: Time) -> Counter[Row]:
    result: Counter[Row] = Counter()
    for time, row, diff in updates:
        if before(time, point):
            result[row] += diff
    return Counter({row: n for row, n in result.items() if n})


def feed(table: HistoryTable, changes: list[Change]) -> None:
    """In two parts, the first with a short time if it can."""
    for part in (changes[: len(changes) // 2], changes[len(changes) // 2 :]):
        if not part:
            continue
        times = np.array([(epoch, *rounds) for epoch, rounds, _, _ in part], np.int64).T
        if (times == times[:, :1]).all():
            times = times[:, :1]
        table.accumulate(
            Updates.of(np.array([c[2] for c in part]).T, times, [c[3] for c in part]), part[0][1]
        )


def listed(updates: Updates, rounds: Rounds) -> list[tuple[Time, Row, int]]:
    """The updates, each (time, row) of which must be there once."""
    result = []
    if len(updates):
        columns = zip(
            updates.times().T.tolist(), updates.data.T.tolist(), updates.diffs().tolist(), strict=True
        )
        result = [(tuple(time), tuple(row), diff) for time, row, diff in columns]
    assert all(time[1:] == rounds and diff for time, _, diff in result)
    assert len({(time, row) for time, row, _ in result}) == len(result)
    return result


@st.composite
def histories(draw: st.DrawFn, rows: st.SearchStrategy[Row], inner: int) -> list[tuple[list[Change], bool]]:
    """Steps of up to three epochs each, and whether each is committed."""
    steps = []
    first = 0
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 3))
        change = st.tuples(
            st.integers(first, first + count - 1),
            st.tuples(*(st.integers(0, 3) for _ in range(inner))),
            rows,
            st.integers(-2, 2).filter(bool),
        )
        steps.append((draw(st.lists(change, max_size=7)), draw(st.booleans())))
        first += count
    return steps


def run_all(run: Run, steps: list[tuple[list[Change], bool]]) -> None:
    for changes, commit in steps:
        run.step(changes, commit=commit)
    run.check(13, 4)


pairs = st.tuples(st.integers(0, 2), st.just(5))
doubles = st.sampled_from([NULL, *map(float_to_word, DOUBLES)])
measured = st.tuples(st.integers(0, 1), st.sampled_from([NULL, 3, -7, 2**62]), doubles)


@pytest.mark.parametrize("function", [distinct, thresholded])
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_multiplicities_match_brute_force(function: Output, depth: int) -> None:
    @settings(max_examples=200 if depth == 2 else 60)
    @given(histories(pairs, depth - 1))
    def check(steps: list[tuple[list[Change], bool]]) -> None:
        run = Run(HistoryTable(2, (), depth), function)
        run_all(run, steps)
        run.check_merged()

    check()


@pytest.mark.parametrize("key", [0, 1])
@pytest.mark.parametrize("depth", [2, 3])
def test_aggregates_match_brute_force(key: int, depth: int) -> None:
    @settings(max_examples=120 if depth == 2 else 40)
    @given(histories(measured, depth - 1), histories(measured, depth - 1))
    def check(first: list[tuple[list[Change], bool]], steps: list[tuple[list[Change], bool]]) -> None:
        run = Run(HistoryTable(key, SPEC, depth), reduced)
        run.step([(0, *change[1:]) for change in first[0][0]], commit=False, hydrating=0)
        assert len(run.table) == 0
        run.step([(0, *change[1:]) for change in first[0][0]], hydrating=0)
        run_all(run, [([(e + 1, *rest) for e, *rest in changes], commit) for changes, commit in steps])

    check()


def test_an_output_is_owed_at_the_least_upper_bound_of_two_inputs() -> None:
    run = Run(HistoryTable(1, (Accumulator(COUNT, -1),), 2), reduced)
    run.step([(0, (1,), (7,), 1)])
    run.step([(1, (0,), (7,), 1)])
    assert run.visited == [(0,), (1,)]
    assert Counter(run.outputs) == Counter(
        [((0, 1), (7, 1), 1), ((1, 0), (7, 1), 1), ((1, 1), (7, 1), -2), ((1, 1), (7, 2), 1)]
    )


def test_the_global_row_over_nothing_appears_once() -> None:
    run = Run(HistoryTable(0, (Accumulator(COUNT, -1), Accumulator(SUM, 1)), 2), reduced)
    run.step([(3, (1,), (0, 5), 2)], hydrating=3)
    assert run.outputs == [((3, 0), (0, NULL), 1), ((3, 1), (0, NULL), -1), ((3, 1), (2, 10), 1)]
    run.step([(4, (1,), (0, 5), -2)])
    assert run.contents() == Counter({(0, NULL): 1})
    run.step([])
    assert run.contents() == Counter({(0, NULL): 1})


def test_changes_that_cancel_owe_nothing() -> None:
    for function in (distinct, reduced):
        run = Run(HistoryTable(1, (), 2), function)
        run.step([(0, (r,), (7,), 1) for r in range(5)])
        run.step([(1, (0,), (7,), 1), (1, (0,), (7,), -1)])
        assert run.visited == [(0,)]
        run.step([(2, (0,), (7,), 1), (2, (1,), (7,), -1)])
        assert run.visited == [(0,), (1,)]


def test_a_key_that_stays_present_is_not_owed_round_after_round() -> None:
    run = Run(HistoryTable(1, (), 2), distinct)
    run.step([(0, (r,), (7,), 1) for r in range(1, 50)])
    run.step([(1, (1,), (7,), 1)])
    assert run.visited == [(1,)]
    run.step([(2, (1,), (7,), -2)])
    assert run.visited == [(1,), (2,)]
    assert run.outputs == [((0, 1), (7,), 1), ((2, 1), (7,), -1), ((2, 2), (7,), 1)]


def test_each_key_is_owed_one_round_at_a_time() -> None:
    run = Run(HistoryTable(1, (Accumulator(COUNT, -1),), 2), reduced)
    run.step([(0, (r,), (7,), 1) for r in (0, 3, 9)])
    run.step([(1, (1,), (7,), 1)])
    assert run.visited == [(1,), (3,), (9,)]


def test_a_commit_of_new_keys_only_relabels_their_records() -> None:
    table = HistoryTable(2, (), 2)
    n = 100_000
    data = np.stack((np.arange(n), np.arange(n) % 7))
    table.accumulate(Updates.of(data, (3, 1), 1), (1,))
    table.evaluate_threshold((1,), True)
    before_commit = table.keys, table.records, table.slots
    table.commit()
    assert all(a is b for a, b in zip(before_commit, (table.keys, table.records, table.slots), strict=True))
    assert (len(table), table.rows) == (n, n)
    assert table.bytes < 130 * n


def test_rounds_are_merged_in_whichever_order_they_come() -> None:
    run = Run(HistoryTable(1, (), 2), distinct)
    for epoch, r in enumerate((5, 3, 5, 1, 3)):
        run.step([(epoch, (r,), (7,), 1)])
    run.check_merged()
    assert run.table.rows == 3
    run.step([(5, (1,), (7,), -1)])
    assert run.visited == [(1,), (3,)]


def test_an_update_of_one_epoch_has_a_short_time_and_diff() -> None:
    table = HistoryTable(1, (), 2)
    table.accumulate(Updates.of([[1, 2, 3]], (5, 2), [1, 4, 2]), (2,))
    updates = table.evaluate_threshold((2,), True)
    assert (updates.time.tolist(), updates.diff.tolist()) == ([[5], [2]], [1])
    assert updates.data.tolist() == [[1, 2, 3]]


def test_updates_behind_an_evaluation_are_refused() -> None:
    table = HistoryTable(1, (), 2)
    table.accumulate(Updates.of([[1]], (0, 2), 1), (2,))
    table.evaluate_threshold((2,), True)
    with pytest.raises(InternalError, match=r"updates at rounds \(1,\), after \(2,\) were evaluated"):
        table.accumulate(Updates.of([[1]], (0, 1), 1), (1,))


def test_many_epochs_of_one_key() -> None:
    run = Run(HistoryTable(0, (Accumulator(COUNT, -1),), 2), reduced)
    run.step([], hydrating=0)
    epochs = 20_000
    order = np.random.default_rng(0).permutation(epochs)
    table = run.table
    times = np.stack((order + 1, np.zeros(epochs, np.int64)))
    table.accumulate(Updates.of(np.empty((0, epochs)), times, 1), (0,))
    updates = table.evaluate((0,))
    assert sorted(listed(updates, (0,)))[:3] == [((1, 0), (0,), -1), ((1, 0), (1,), 1), ((2, 0), (1,), -1)]
    assert len(updates) == 2 * epochs
    table.commit()
    assert (run.contents(), table.rows) == (Counter({(epochs,): 1}), 1)
