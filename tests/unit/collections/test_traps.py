"""Traps of incremental dataflow that show in collections, by their numbers in docs/explanation/traps.md.

T27 (the same order and hash in all workers) is in tests/unit/workers; that order is total with None and NaN
in it, and the same in every process, is in tests/unit/data. Others are in tests/unit/trace/test_traps.py,
tests/properties/test_step_traps.py and test_loop_traps.py, and beside what they are about.
"""

import random
from collections import Counter
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import pytest

import kpg
from kpg import graph
from tests.unit.collections.test_sharing import arrangements
from tests.unit.collections.watching import step, watch

Time = tuple[int, int]
Row = tuple[Any, ...]
Bag = dict[Row, int]
Timed = list[tuple[Row, Time, int]]


def timed(flow: kpg.Dataflow, body: Callable[[kpg.Collection], kpg.Collection]) -> tuple[kpg.Input, Timed]:
    """An input (at, k, v) whose rows enter a loop at round ``at``, and the changes of the body."""
    given = flow.input("given", at=int, k=int, v=int)
    changes: Timed = []
    with flow.scope() as loop:
        result = body(loop.enter_at(given, lambda r: r["at"]).project("k", "v"))
        result.inspect(lambda row, time, diff: changes.append((row, time, diff)))
    return given, changes


def up_to(changes: Timed, time: Time) -> Bag:
    total: Counter[Row] = Counter()
    for row, when, diff in changes:
        if when[0] <= time[0] and when[1] <= time[1]:
            total[row] += diff
    return {row: count for row, count in total.items() if count}


@pytest.mark.parametrize("steps", [1, 2])
def test_t1_output_at_a_least_upper_bound(flow: kpg.Dataflow, steps: int) -> None:
    given, changes = timed(flow, lambda c: c.count("k"))
    given.insert(1, 7, 100)
    given.advance_to(2)
    if steps == 2:
        flow.step()
    given.insert(0, 7, 200)
    given.advance_to(3)
    flow.step()
    assert sorted(changes) == [
        ((7, 1), (1, 1), 1),
        ((7, 1), (2, 0), 1),
        ((7, 1), (2, 1), -2),
        ((7, 2), (2, 1), 1),
    ]


def counted(bag: Bag) -> Bag:
    groups: Counter[int] = Counter()
    for (k, _), n in bag.items():
        groups[k] += n
    return {(k, n): 1 for k, n in groups.items() if n}


def least(bag: Bag) -> Bag:
    found: dict[int, int] = {}
    for (k, v), n in bag.items():
        if n > 0:
            found[k] = min(found.get(k, v), v)
    return dict.fromkeys(found.items(), 1)


def paired(bag: Bag) -> Bag:
    pairs: Counter[Row] = Counter()
    for ((k, v), n), ((other, w), m) in product(bag.items(), repeat=2):
        if k == other:
            pairs[v, w] += n * m
    return {row: n for row, n in pairs.items() if n}


BODIES: dict[str, tuple[Callable[[kpg.Collection], kpg.Collection], Callable[[Bag], Bag]]] = {
    "count": (lambda c: c.count("k"), counted),
    "distinct": (lambda c: c.distinct(), lambda bag: {row: 1 for row, n in bag.items() if n > 0}),
    "min": (lambda c: c.min("v", key="k"), least),
    "reduce": (
        lambda c: c.reduce(lambda key, rows: [sum(n for _, n in rows)], key="k", n=int),
        counted,
    ),
    "join": (lambda c: c.join(c, {"k": "k"}, lambda a, b: {"v": a.v, "w": b.v}), paired),
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_t2_t5_right_at_every_point_of_the_lattice(flow: kpg.Dataflow, body: str, seed: int) -> None:
    """Times interesting for a key are closed under least upper bounds; random steps, rounds and removals."""
    generator = random.Random(seed)
    build, model = BODIES[body]
    given, changes = timed(flow, build)
    inserted: Timed = []
    present: list[tuple[int, int, int]] = []
    for epoch in range(1, 13):
        for _ in range(generator.randrange(3)):
            if present and generator.random() < 0.4:
                at, k, v = present.pop(generator.randrange(len(present)))
                given.remove(at, k, v)
                inserted.append(((k, v), (epoch, at), -1))
            else:
                at, k, v = row = tuple(generator.randrange(n) for n in (5, 2, 3))
                present.append(row)
                given.insert(at, k, v)
                inserted.append(((k, v), (epoch, at), 1))
        given.advance_to(epoch + 1)
        if generator.random() < 0.6:
            flow.step()
    flow.step()
    for time in product(range(1, 13), range(7)):
        assert up_to(changes, time) == model(up_to(inserted, time)), time


def test_t3_the_probe_does_not_pass_what_is_owed(flow: kpg.Dataflow) -> None:
    """The correction at (2, 1), for which no input stands, is there before (2, 1) is said to be over."""
    given = flow.input("given", at=int, k=int)
    changes: Timed = []
    with flow.scope() as loop:
        counts = loop.enter_at(given, lambda r: r["at"]).count("k")
        counts.inspect(lambda row, time, diff: changes.append((row, time, diff)))
        probe = counts.probe()
    given.insert(1, 7)
    step(flow, given)
    given.insert(0, 7)
    assert not probe.done((2, 1)) and probe.done((1, 10))
    step(flow, given)
    assert probe.done((2, 1)) and ((7, 2), (2, 1), 1) in changes


class Recorded(kpg.Operator):
    """The times of its messages, as they come; each is passed on at a later round and a later epoch."""

    def __init__(self) -> None:
        self.times: list[Time] = []

    def on_recv(self, batch: kpg.Batch, time: Time) -> None:
        self.times.append(time)

    def save(self) -> list[Time]:
        return list(self.times)

    def restore(self, state: list[Time]) -> None:
        self.times = state


def test_t4_times_are_processed_in_a_linear_extension_of_their_order(flow: kpg.Dataflow) -> None:
    generator = random.Random(4)
    operator = Recorded()
    given, _ = timed(flow, lambda c: c.apply(operator, k=int, v=int))
    for epoch in range(1, 40):
        given.insert(generator.randrange(8), 1, 2)
        given.advance_to(epoch + 1)
        if epoch % 7 == 0:
            flow.step()
    flow.step()
    times = operator.times
    assert len(times) == 39 and times != sorted(times)
    for earlier, later in combinations(times, 2):
        assert not (later[0] <= earlier[0] and later[1] <= earlier[1])


def test_t5_a_pair_is_there_when_both_are(flow: kpg.Dataflow) -> None:
    given, changes = timed(
        flow, lambda c: c.join(c.filter(lambda r: r.v == 2), {"k": "k"}, lambda a, b: {"v": a.v + b.v})
    )
    given.insert(3, 7, 1)
    step(flow, given)
    given.insert(1, 7, 2)
    step(flow, given)
    assert sorted(changes) == [((3,), (2, 3), 1), ((4,), (2, 1), 1)]


def test_t29_a_step_tells_of_the_times_that_it_closes_and_of_no_others(flow: kpg.Dataflow) -> None:
    """What was given for later, in one message with what is for now, waits for its time."""
    generator = random.Random(29)
    fine, coarse = flow.input("fine", n=int), flow.input("coarse", n=int)
    seen = watch(fine.concat(coarse).map(lambda r: {"n": r.n % 3}).distinct())
    raw = watch(fine.concat(coarse))
    given: Counter[int] = Counter()
    number = 0
    while fine.time < 60:
        rows = generator.randrange(6)
        session = generator.choice((fine, coarse))
        times = [session.time + generator.randrange(12) for _ in range(rows)]
        session.insert_columns([list(range(number, number + rows))], time=times) if rows else None
        given.update(times)
        number += rows
        fine.advance_to(fine.time + generator.randrange(3))
        coarse.advance_to(max(coarse.time, fine.time // 10 * 10 + 1))
        before = flow.epoch
        flow.step()
        told = raw.new()
        assert all(before < time <= flow.epoch for _, time, _ in (*told, *seen.new()))
        for _, time, diff in told:
            given[time] -= diff
        assert not any(n for time, n in given.items() if time <= flow.epoch)
    assert sum(given.values()) > 0


def test_t39_a_map_does_not_pretend_to_keep_the_index(db: kpg.Database, flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=int, dst=int)
    by_src = edges.arrange_by_key("src")
    moved = by_src.map(lambda e: {"src": e.src + 1, "dst": e.dst})
    few = by_src.filter(lambda e: e.dst > 1)
    assert (by_src.key, moved.key, few.key) == (("src",), None, None)
    seen, some = (
        watch(moved.join(by_src, "src", lambda a, b: {"a": a.dst, "b": b.dst})),
        watch(few.join(moved, "src", lambda a, b: {"a": a.dst, "b": b.dst})),
    )
    assert len(arrangements(db)) == 3
    edges.insert([(1, 1), (2, 2), (2, 3), (3, 1)])
    step(flow, edges)
    assert seen.at() == {(1, 2): 1, (1, 3): 1, (2, 1): 1, (3, 1): 1}
    assert some.at() == {(2, 1): 1, (3, 1): 1}


def test_t48_t50_two_who_ask_the_same_count_once_and_one_may_go(flow: kpg.Dataflow) -> None:
    """Questions and the demand that they raise are distinct; an answer is each asker's own."""
    edges, asked = flow.input("edges", src=int, dst=int), flow.input("asked", node=int)
    reached = watch(graph.reachability(edges, asked))
    demanded = watch(edges.semijoin(asked, {"src": "node"}))
    answers = watch(asked.join(edges, {"node": "src"}, lambda a, e: (a.node, e.dst)))
    edges.insert([(1, 2), (2, 3), (3, 1), (4, 1)])
    asked.insert([1, 1, 4])
    step(flow, edges, asked)
    assert reached.at() == {(1,): 1, (2,): 1, (3,): 1, (4,): 1}
    assert demanded.at() == {(1, 2): 1, (4, 1): 1}
    assert answers.at() == {(1, 2): 2, (4, 1): 1}
    reached.new(), demanded.new()
    asked.remove(1)
    step(flow, edges, asked)
    assert reached.new() == demanded.new() == []  # the other still asks
    assert answers.at() == {(1, 2): 1, (4, 1): 1}
    asked.remove([1, 4])
    step(flow, edges, asked)
    assert {row: diff for row, _, diff in reached.new()} == {(node,): -1 for node in (1, 2, 3, 4)}
    assert answers.at() == {}
