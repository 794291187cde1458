"""Outputs inside loops: what is there at each (epoch, round), against the body applied round by round."""

import random
from collections import Counter
from typing import Any

import pytest

import kpg
from tests.unit.collections.test_sharing import operators
from tests.unit.collections.watching import step, watch

Change = tuple[tuple[Any, ...], Any, int]


def at(changes: list[Change], time: tuple[int, ...]) -> set[tuple[Any, ...]]:
    """The rows whose changes at or before a time, in the product order, add up to one."""
    total: Counter[tuple[Any, ...]] = Counter()
    for row, when, diff in changes:
        if all(part <= bound for part, bound in zip(when, time, strict=True)):
            total[row] += diff
    assert set(total.values()) <= {0, 1}
    return {row for row, count in total.items() if count}


@pytest.mark.parametrize("per_step", [1, 3])
def test_inspect_shows_each_round_of_each_epoch(flow: kpg.Dataflow, per_step: int) -> None:
    edges = flow.input("edges", src=int, dst=int)
    changes: list[Change] = []

    def body(reached: kpg.Collection) -> kpg.Collection:
        reached.inspect(lambda row, time, diff: changes.append((row, time, diff)))
        further = reached.join(edges, {"node": "src"}, lambda r, e: {"node": e.dst})
        return further.concat(reached).distinct()

    record = flow.constant([0], node=int).iterate(body).capture()
    generator = random.Random(5)
    present: set[tuple[int, int]] = set()
    history = []
    for time in range(1, 10):
        edge = (generator.randrange(6), generator.randrange(6))
        if edge in present:
            edges.remove(*edge)
        else:
            edges.insert(*edge)
        present ^= {edge}
        history.append(set(present))
        edges.advance_to(time + 1)
        if time % per_step == 0:
            flow.step()
    for epoch, graph in enumerate(history, 1):
        reached = {0}
        for round_ in range(8):
            assert at(changes, (epoch, round_)) == {(node,) for node in reached}
            reached |= {dst for src, dst in graph if src in reached}
        assert {(node,) for node in reached} == {
            row for row, _, _ in record if sum(d for r, t, d in record if r == row and t <= epoch)
        }


def test_nested_loops_scopes_probes_records_and_columns(db: kpg.Database, flow: kpg.Dataflow) -> None:
    numbers = flow.input("numbers", n=int)
    seen: list[Any] = []
    with flow.scope() as outer:
        high = outer.variable(n=int)
        with flow.scope() as inner:
            low = inner.variable(high)
            grown = low.map(lambda r: {"n": r.n + 1}).filter(lambda r: r.n % 3 > 0).concat(low).distinct()
            low.set(grown)
            record, deep = grown.capture(), grown.probe()
            shallow, entered = high.probe(), inner.enter(numbers).capture()
            outside = numbers.probe()
        high.set(numbers.concat(high.filter(lambda r: r.n < 0)).distinct())
    high_seen = seen.append
    with flow.scope() as again:
        variable = again.variable(n=int)
        variable.inspect_columns(
            lambda columns, times, diffs: high_seen((columns[0].tolist(), times.tolist(), diffs.tolist()))
        )
        variable.set(numbers.concat(variable).distinct())
    assert (deep.time, shallow.time, outside.time) == ((1, 0, 0), (1, 0), 1)
    assert deep.done((0, 9, 9)) and not deep.done((1, 0, 0))
    assert deep.less_than((1, 0, 1)) and not deep.less_than((1, 0, 0)) and not deep.less_than((0, 5, 5))
    numbers.insert(3)
    step(flow, numbers)
    assert (
        list(record)
        == [((3,), (1, 1, 0), 1), ((4,), (1, 1, 1), 1), ((5,), (1, 1, 2), 1)][:1] + list(record)[1:]
    )
    assert [row for row, _, _ in record] == [(3,), (4,), (5,)]
    assert list(entered) == [((3,), (1, 0, 0), 1)]
    assert seen == [([3], [[1], [1]], [1])]
    assert (deep.time, shallow.time) == ((2, 0, 0), (2, 0)) and deep.done((1, 100, 100))
    for wrong in (1, (1, 0), (1, 0, 0, 0), ("a", 0, 0)):
        with pytest.raises(kpg.InterfaceError, match="a tuple of 3 ints"):
            deep.done(wrong)
    with pytest.raises(kpg.InterfaceError, match="in a loop cannot be replayed"):
        db.dataflow("copy").replay("r", record)
    record.close()
    numbers.insert(6)
    step(flow, numbers)
    assert len(list(record)) == 3 and len(list(entered)) == 2
    numbers.close()
    assert (deep.time, shallow.time, operators(db)) == (None, None, [])


def test_outputs_inside_share_the_loop_and_go_with_it(db: kpg.Database, flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=int, dst=int)
    inside: list[kpg.Inspection] = []

    def body(paths: kpg.Collection) -> kpg.Collection:
        longer = (
            paths.join(edges, {"dst": "src"}, lambda p, e: {"src": p.src, "dst": e.dst})
            .concat(edges)
            .distinct()
        )
        inside.append(longer.inspect(lambda row, time, diff: None))
        return longer

    outside = watch(edges.iterate(body))
    assert [type(one).__name__ for one in operators(db)].count("Loop") == 1
    edges.insert([(1, 2), (2, 3)])
    step(flow, edges)
    assert outside.at() == {(1, 2): 1, (2, 3): 1, (1, 3): 1}
    inside[-1].close()
    edges.insert(3, 4)
    step(flow, edges)
    assert len(outside.at()) == 6
    outside.inspection.close()
    assert operators(db) == []


def test_a_body_that_is_read_again_is_inspected_once(flow: kpg.Dataflow) -> None:
    """The first reading of the body finds that a column can be None; what it inspects is given up."""
    numbers = flow.input("numbers", n=int)
    changes: list[Change] = []

    def body(found: kpg.Collection) -> kpg.Collection:
        found.inspect(lambda row, time, diff: changes.append((row, time, diff)))
        return found.map(lambda r: {"n": kpg.function("nullif", r.n, 1)}).distinct()

    left = watch(numbers.iterate(body))
    numbers.insert([1, 2])
    step(flow, numbers)
    assert left.at() == {(None,): 1, (2,): 1}
    assert sorted(changes, key=repr) == [
        ((1,), (1, 0), 1),
        ((1,), (1, 1), -1),
        ((2,), (1, 0), 1),
        ((None,), (1, 1), 1),
    ]


def test_reading_inside_is_said_inside(flow: kpg.Dataflow) -> None:
    numbers = flow.input("numbers", n=int)
    with flow.scope() as loop:
        variable = loop.variable(n=int)
        variable.set(numbers)
    with pytest.raises(
        kpg.InterfaceError, match="a collection of a loop is read inside the loop's with block"
    ):
        variable.probe()
    with pytest.raises(ValueError, match="no"), flow.scope() as loop:
        variable = loop.variable(n=int)
        variable.inspect(print)
        raise ValueError("no")
    numbers.insert(1)
    step(flow, numbers)


def test_a_failed_step_is_not_seen_inside(flow: kpg.Dataflow) -> None:
    numbers = flow.input("numbers", n=int)
    changes: list[Change] = []

    def body(found: kpg.Collection) -> kpg.Collection:
        found.inspect(lambda row, time, diff: changes.append((row, time, diff)))
        grown = found.map(lambda r: {"n": r.n + 1 + 0 * kpg.function("mod", 1, r.n - 2)})
        return grown.filter(lambda r: r.n < 4).concat(numbers).distinct()

    left = watch(numbers.iterate(body))
    numbers.insert(1)
    numbers.advance_to(2)
    with pytest.raises(kpg.DataError, match="division by zero"):
        flow.step()
    assert changes == [] and left.at() == {}
    numbers.discard()
    numbers.insert(3)
    step(flow, numbers)
    assert left.at() == {(3,): 1}


def test_columns_of_any_name(flow: kpg.Dataflow) -> None:
    given = flow.input("given", name=str, self=int, rows=int, f=int, changes=int, start=int, initial=int)
    with flow.scope() as loop:
        variable = loop.variable(name=str, self=int, rows=int, f=int, changes=int, start=int, initial=int)
        variable.set(given.distinct())
        left = loop.leave(variable)
    seen = watch(left)
    other = flow.constant([(1, "a")], rows=int, name=str).map_rows(
        lambda rows, name: (rows, name), self=int, f=str
    )
    replayed = flow.replay("r", [((1, 2), 1, 1)], name=int, changes=int)
    assert (other.columns, replayed.columns) == (["self", "f"], ["name", "changes"])
    given.insert("n", 1, 2, 3, 4, 5, 6)
    given.advance_to(5)
    flow.step()
    assert seen.at() == {("n", 1, 2, 3, 4, 5, 6): 1}
