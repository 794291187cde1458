"""Multiplicities that merges could not add up are refused by the step that would bring them."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

import kpg
from kpg.runtime.errors import DataError
from kpg.runtime.trace.updates import MULTIPLICITY_LIMIT, Updates, extend_bound, max_added, max_multiplicity


def exact(updates: Updates) -> int:
    """The largest absolute multiplicity, by row and rounds, after each epoch."""
    changes = defaultdict(lambda: defaultdict(int))
    times, diffs = updates.times().T.tolist(), updates.diffs().tolist()
    for row, (epoch, *rounds), diff in zip(updates.data.T.tolist(), times, diffs, strict=True):
        changes[*row, *rounds][epoch] += diff
    most = 0
    for by_epoch in changes.values():
        total = 0
        for epoch in sorted(by_epoch):
            total += by_epoch[epoch]
            most = max(most, abs(total))
    return most


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_the_largest_multiplicity(depth: int, seed: int) -> None:
    generator = random.Random(seed)
    keys = {tuple(generator.randrange(3) for _ in range(2 + depth)) for _ in range(60)}
    columns = list(map(list, zip(*keys, strict=True)))
    size = generator.choice([3, 2**33, 2**62, 2**63 - 1])
    diffs = [generator.randint(-size, size) or 1 for _ in keys]
    updates = Updates.of(columns[:2], columns[2:], diffs)
    assert exact(updates) <= max_multiplicity(updates) <= exact(updates) + 2**33
    assert max_added(updates) >= exact(updates)


def test_rows_are_looked_at_only_where_the_bound_says_so() -> None:
    held = [Updates.of([range(1000)], (1,), 2**51)]
    more = Updates.of([range(1000, 2000)], (2,), 2**51)
    assert extend_bound(0, lambda: pytest.fail("rows were read"), held[0]) == 1000 * 2**51
    bound = extend_bound(1000 * 2**51, lambda: held, more)
    assert extend_bound(2**61, lambda: held, more) < 2**61 + 2**62
    assert 2**51 <= bound < MULTIPLICITY_LIMIT
    assert extend_bound(MULTIPLICITY_LIMIT - 1, lambda: held, more) == 2**51 + 2**32
    with pytest.raises(DataError, match="multiplicity overflow"):
        extend_bound(
            MULTIPLICITY_LIMIT - 1,
            lambda: [Updates.of([[7]], (1,), MULTIPLICITY_LIMIT - 2**33)],
            Updates.of([[7]], (2,), 2**34),
        )
    with pytest.raises(DataError, match="multiplicity overflow"):
        extend_bound(0, list, Updates.of([[7]], (2,), -(2**63)))


@pytest.mark.parametrize("looped", [False, True])
def test_a_commit_whose_multiplicities_no_merge_could_add_up_is_refused(looped: bool) -> None:
    with kpg.connect() as db:
        flow = db.dataflow()
        numbers = flow.input("numbers", n=int)
        kept = numbers.iterate(lambda c: c.filter(lambda r: r.n >= 0)) if looped else numbers
        kept.export("kept")
        seen = numbers.capture()
        for number, diff in enumerate((2**60, 2**60, 2**60)):
            numbers.update((7,), diff)
            numbers.insert([(k,) for k in range(1000 * number, 1000 * number + 1000)])
            numbers.advance_to(numbers.time + 1)
            flow.step()
        before = list(seen), db.epoch
        for _ in range(3):
            numbers.update((7,), 2**61)
            numbers.insert(-5)
            numbers.advance_to(numbers.time + 1)
            with pytest.raises(kpg.DataError, match="multiplicity overflow"):
                flow.step()
            assert (list(seen), db.epoch) == before
            numbers.discard()
        for number in range(3, 30):  # whatever merges, now or later, goes well
            numbers.update((7,), -(2**59) if number % 2 else 2**59)
            numbers.insert([(k,) for k in range(1000 * number, 1000 * number + 1000)])
            numbers.advance_to(numbers.time + 1)
            flow.step()
        distinct = db.query("SELECT count(*) FROM (SELECT DISTINCT n FROM kept)")
        assert distinct.fetchall() == [(30_000,)]


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize(
    "counted",
    [
        lambda c: c.distinct(),
        lambda c: c.threshold(),
        lambda c: c.count((), name="n"),
        lambda c: c.sum("n", key=()),
    ],
)
def test_rows_that_64_bits_do_not_count_are_refused(
    counted: Callable[[kpg.Collection], kpg.Collection], looped: bool
) -> None:
    """Where nothing keeps the rows, neither, though each comes from far fewer."""
    with kpg.connect() as db:
        flow = db.dataflow()
        numbers = flow.input("numbers", n=int)
        often = numbers.concat(*[numbers] * 4)

        def body(c: kpg.Collection, loop: kpg.LoopScope) -> kpg.Collection:
            return counted(often.concat(c.filter(lambda r: r.n < 0)))

        result = kpg.recursive(counted(often), body) if looped else counted(often)
        seen = result.capture()
        numbers.update((1,), 2**58)
        numbers.advance_to(2)
        flow.step()
        before = list(seen)
        for diff in (2**61, 2**61 + 2**60):
            numbers.update((1,), diff)
            numbers.update((2,), diff)
            numbers.advance_to(numbers.time + 1)
            with pytest.raises(kpg.DataError, match="overflow"):
                flow.step()
            assert list(seen) == before
            numbers.discard()
        for number in range(20):
            numbers.update((1,), 2**58 if number % 2 else -(2**58))
            numbers.advance_to(numbers.time + 1)
            flow.step()
        held: Counter[tuple[int, ...]] = Counter()
        for row, _, diff in seen:
            held[row] += diff
        first: Counter[tuple[int, ...]] = Counter()
        for row, _, diff in before:
            first[row] += diff
        assert +held == +first
