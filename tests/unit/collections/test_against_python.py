"""Every operator against naive Python, at every time, however epochs are grouped into steps."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import kpg
from tests.unit.collections.watching import watch

Bag = Counter[tuple[Any, ...]]
Pipeline = Callable[[kpg.Collection, kpg.Collection], kpg.Collection]
Oracle = Callable[[Bag, Bag], Iterable[tuple[tuple[Any, ...], int]]]


def groups(bag: Bag, *key: int) -> dict[tuple[Any, ...], list[tuple[tuple[Any, ...], int]]]:
    """The rows by some of their columns."""
    found = defaultdict(list)
    for row, count in sorted(bag.items()):
        found[tuple(row[place] for place in key)].append((row, count))
    return found


def matches(left: Bag, right: Bag, i: int, j: int) -> Iterable[tuple[tuple[Any, ...], tuple[Any, ...], int]]:
    return [(a, b, m * n) for a, m in left.items() for b, n in right.items() if a[i] == b[j]]


def expanded(rows: list[tuple[tuple[Any, ...], int]]) -> list[tuple[Any, ...]]:
    return [row for row, count in rows for _ in range(count)]


def first_two(key: tuple[Any, ...], rows: list[Any]) -> list[tuple[Any, ...]]:
    return [(min(values), count) for (values,), count in rows[:2] for values in [[values]]]


def total(key: tuple[Any, ...], arrays: tuple[Any, ...], counts: Any) -> list[tuple[int]]:
    return [(int((arrays[0] * counts).sum()),)]


CASES: dict[str, tuple[Pipeline, Oracle]] = {
    "map": (
        lambda a, b: a.map(lambda r: (r.y, r.x + r.y)),
        lambda a, b: [((y, x + y), n) for (x, y), n in a.items()],
    ),
    "filter": (
        lambda a, b: a.filter(lambda r: r.x < r.y),
        lambda a, b: [(r, n) for r, n in a.items() if r[0] < r[1]],
    ),
    "concat": (lambda a, b: a.concat(b, b), lambda a, b: [*a.items(), *b.items(), *b.items()]),
    "negate": (
        lambda a, b: a.concat(b.negate()),
        lambda a, b: [*a.items(), *((r, -n) for r, n in b.items())],
    ),
    "join": (
        lambda a, b: a.join(b, key="x", result=lambda r, s: {"x": r.x, "y": r.y, "z": s.y}),
        lambda a, b: [((p[0], p[1], q[1]), n) for p, q, n in matches(a, b, 0, 0)],
    ),
    "join on all": (lambda a, b: a.join(b), lambda a, b: [(r, a[r] * b[r]) for r in a]),
    "self join": (
        lambda a, b: a.join(a, key={"y": "x"}, result=lambda r, s: (r.x, s.y)),
        lambda a, b: [((p[0], q[1]), n) for p, q, n in matches(a, a, 1, 0)],
    ),
    "cross": (
        lambda a, b: a.project("x").join(b.project("y"), key=()),
        lambda a, b: [((p[0], q[1]), m * n) for p, m in a.items() for q, n in b.items()],
    ),
    "semijoin": (
        lambda a, b: a.semijoin(b, key={"y": "x"}),
        lambda a, b: [(r, n) for r, n in a.items() if any(s[0] == r[1] for s in b)],
    ),
    "antijoin": (
        lambda a, b: a.antijoin(b, key="x"),
        lambda a, b: [(r, n) for r, n in a.items() if all(s[0] != r[0] for s in b)],
    ),
    "count": (lambda a, b: a.count(), lambda a, b: [((*r, n), 1) for r, n in a.items()]),
    "count by key": (
        lambda a, b: a.count("y", name="n"),
        lambda a, b: [((*k, sum(n for _, n in g)), 1) for k, g in groups(a, 1).items()],
    ),
    "count of all": (lambda a, b: a.count(()), lambda a, b: [((sum(a.values()),), 1)]),
    "sum": (
        lambda a, b: a.sum("y", key="x"),
        lambda a, b: [((*k, sum(r[1] * n for r, n in g)), 1) for k, g in groups(a, 0).items()],
    ),
    "min": (
        lambda a, b: a.min("y", key="x"),
        lambda a, b: [((*k, g[0][0][1]), 1) for k, g in groups(a, 0).items()],
    ),
    "max": (
        lambda a, b: a.max("x", key="y"),
        lambda a, b: [((*k, g[-1][0][0]), 1) for k, g in groups(a, 1).items()],
    ),
    "max of all": (lambda a, b: a.max("x"), lambda a, b: [((max(r[0] for r in a),), 1)] if a else []),
    "top_k": (
        lambda a, b: a.top_k(3, by="-y", key="x"),
        lambda a, b: [(r, 1) for g in groups(a, 0).values() for r in expanded(g[::-1])[:3]],
    ),
    "top_k of all": (
        lambda a, b: a.top_k(2, by=("y", "-x")),
        lambda a, b: [(r, 1) for r in sorted(expanded(list(a.items())), key=lambda r: (r[1], -r[0]))[:2]],
    ),
    "distinct": (
        lambda a, b: a.concat(b.negate()).distinct(),
        lambda a, b: [(r, 1) for r in a if a[r] > b[r]],
    ),
    "threshold": (
        lambda a, b: a.concat(b.negate()).threshold(),
        lambda a, b: [(r, a[r] - b[r]) for r in a if a[r] > b[r]],
    ),
    "threshold of a function": (
        lambda a, b: a.threshold(lambda row, n: n // 2 + row[0]),
        lambda a, b: [(r, n // 2 + r[0]) for r, n in a.items()],
    ),
    "reduce": (
        lambda a, b: a.reduce(first_two, key="x", low=int, n=int),
        lambda a, b: [((*k, r[1], n), 1) for k, g in groups(a, 0).items() for r, n in g[:2]],
    ),
    "reduce columns": (
        lambda a, b: a.reduce_columns(total, key="y", total=int),
        lambda a, b: [((*k, sum(r[0] * n for r, n in g)), 1) for k, g in groups(a, 1).items()],
    ),
    "reduce of all": (
        lambda a, b: a.reduce(lambda key, rows: [len(rows)], key=(), n=int),
        lambda a, b: [((len(a),), 1)] if a else [],
    ),
    "reduce by an arrangement": (
        lambda a, b: a.arrange_by_key("y").reduce(lambda key, rows: [len(rows)], key="y", n=int),
        lambda a, b: [((*k, len(g)), 1) for k, g in groups(a, 1).items()],
    ),
    "consolidate": (lambda a, b: a.concat(a.negate(), b).consolidate(), lambda a, b: b.items()),
    "map_columns": (
        lambda a, b: a.map_columns(lambda x, y: (x + y, np.maximum(x, y)), s=int, m=int),
        lambda a, b: [((x + y, max(x, y)), n) for (x, y), n in a.items()],
    ),
    "flat_map": (
        lambda a, b: a.flat_map(lambda x, y: [(x, i) for i in range(y)], x=int, i=int),
        lambda a, b: [((x, i), n) for (x, y), n in a.items() for i in range(y)],
    ),
    "arranged join": (
        lambda a, b: a.arrange_by_key("y").join(
            b.arrange_by_key("x", "y"), key={"y": "x"}, result=lambda r, s: (r.x, s.y)
        ),
        lambda a, b: [((p[0], q[1]), n) for p, q, n in matches(a, b, 1, 0)],
    ),
}


def summed(pairs: Iterable[tuple[tuple[Any, ...], int]]) -> dict[tuple[Any, ...], int]:
    result: Bag = Counter()
    for row, count in pairs:
        result[row] += count
    return {row: count for row, count in result.items() if count}


def at_top(flow: kpg.Dataflow, pipeline: Pipeline, a: kpg.Collection, b: kpg.Collection) -> kpg.Collection:
    return pipeline(a, b)


def in_a_loop(flow: kpg.Dataflow, pipeline: Pipeline, a: kpg.Collection, b: kpg.Collection) -> kpg.Collection:
    """The inputs arrive in rounds: each row (x, y) in round y."""
    with flow.scope() as loop:
        left, right = loop.variable(x=int, y=int, wait=int), loop.variable(x=int, y=int, wait=int)
        results = []
        for variable, collection in ((left, a), (right, b)):
            start = collection.map(lambda r: {"x": r.x, "y": r.y, "wait": r.y})
            waiting = variable.filter(lambda r: r.wait > 0).map(
                lambda r: {"x": r.x, "y": r.y, "wait": r.wait - 1}
            )
            variable.set(start.concat(waiting))
            results.append(variable.filter(lambda r: r.wait == 0).project("x", "y"))
        return loop.leave(pipeline(*results))


@pytest.mark.parametrize("epochs_in_a_step", [1, 4])
@pytest.mark.parametrize("place", [at_top, in_a_loop])
@pytest.mark.parametrize("name", CASES)
def test_against_python(
    name: str, place: Callable[..., Any], epochs_in_a_step: int, flow: kpg.Dataflow
) -> None:
    pipeline, oracle = CASES[name]
    a, b = flow.input("a", x=int, y=int), flow.input("b", x=int, y=int)
    seen = watch(place(flow, pipeline, a, b))
    rng = random.Random(name)
    bags: tuple[Bag, Bag] = Counter(), Counter()
    expected = {}
    for time in range(1, 25):
        for session, bag in zip((a, b), bags, strict=True):
            for _ in range(rng.randrange(4)):
                row = rng.randrange(4), rng.randrange(4)
                diff = rng.randint(1, 3) if rng.random() < 0.5 else -bag[row]
                session.update(row, diff)
                bag[row] += diff
            session.advance_to(5 * time + 1)  # epochs are sparse
        now = tuple(Counter({row: n for row, n in bag.items() if n}) for bag in bags)
        expected[5 * time] = summed(oracle(*now))
        if time % epochs_in_a_step == 0:
            flow.step()
    assert flow.epoch == 120
    for time, rows in expected.items():
        assert seen.at(time) == rows, time
