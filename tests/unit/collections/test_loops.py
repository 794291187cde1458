"""Loops: iterate, variables, mutual recursion, nesting, limits."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

import kpg
from tests.unit.collections.watching import Watched, step, watch

Edges = Iterable[tuple[int, int]]


def reachable(edges: Edges, roots: Iterable[int]) -> set[int]:
    found = set(roots)
    while True:
        more = {dst for src, dst in edges if src in found} - found
        if not more:
            return found
        found |= more


def components(edges: Edges) -> set[tuple[int, int]]:
    """The edges whose ends reach each other."""
    edges = list(edges)
    return {(a, b) for a, b in edges if a in reachable(edges, [b])}


def reach(edges: kpg.Collection, roots: kpg.Collection) -> kpg.Collection:
    def body(found: kpg.Collection) -> kpg.Collection:
        more = found.join(edges, key={"node": "src"}, result=lambda f, e: {"node": e.dst})
        return more.concat(roots).distinct()

    return roots.iterate(body)


def distances(edges: kpg.Collection, roots: kpg.Collection) -> kpg.Collection:
    start = roots.map(lambda r: {"node": r.node, "steps": 0})

    def body(found: kpg.Collection) -> kpg.Collection:
        more = found.join(edges, {"node": "src"}, lambda f, e: {"node": e.dst, "steps": f.steps + 1})
        return more.concat(start).min("steps", key="node")

    return start.iterate(body)


def trimmed(edges: kpg.Collection, labels_from: str, labels_to: str) -> kpg.Collection:
    """The edges whose ends get the same label along edges in one direction."""
    nodes = (
        edges.project(labels_to)
        .rename(**{labels_to: "node"})
        .map(lambda r: {"node": r.node, "label": r.node})
    )
    nodes = nodes.distinct()

    def spread(labels: kpg.Collection) -> kpg.Collection:
        moved = labels.join(
            edges, {"node": labels_from}, lambda a, e: {"node": e[labels_to], "label": a.label}
        )
        return moved.concat(nodes).min("label", key="node")

    labels = nodes.iterate(spread)
    ends = edges.join(
        labels, {labels_from: "node"}, lambda e, a: {"src": e.src, "dst": e.dst, "one": a.label}
    )
    both = ends.join(
        labels, {labels_to: "node"}, lambda e, a: {"src": e.src, "dst": e.dst, "one": e.one, "two": a.label}
    )
    return both.filter(lambda r: r.one == r.two).project("src", "dst")


def strongly_connected(edges: kpg.Collection) -> kpg.Collection:
    return edges.iterate(lambda e: trimmed(trimmed(e, "src", "dst"), "dst", "src"))


def run(
    flow: kpg.Dataflow, edges: kpg.Input, seed: int, nodes: int, per_step: int
) -> Iterable[tuple[int, set[tuple[int, int]]]]:
    """Insert and remove random edges, some epochs to a step; give each time and its edges, after its step."""
    rng = random.Random(seed)
    present: set[tuple[int, int]] = set()
    times = []
    for time in range(edges.time, edges.time + 12):
        for _ in range(rng.randrange(1, 6)):
            edge = rng.randrange(nodes), rng.randrange(nodes)
            if edge in present:
                edges.remove(edge)
                present.remove(edge)
            else:
                edges.insert(edge)
                present.add(edge)
        edges.advance_to(time + 1)
        times.append((time, set(present)))
        if len(times) == per_step:
            flow.step()
            yield from times
            times.clear()


def rows(values: Iterable[Any]) -> dict[tuple[Any, ...], int]:
    return {value if isinstance(value, tuple) else (value,): 1 for value in values}


@pytest.mark.parametrize("per_step", [1, 3])
def test_reach_and_distances(flow: kpg.Dataflow, per_step: int) -> None:
    edges, roots = flow.input("edges", src=int, dst=int), flow.input("roots", node=int)
    found, far = watch(reach(edges, roots)), watch(distances(edges, roots))
    roots.insert([0, 1])
    roots.close()
    for time, now in run(flow, edges, 1, 8, per_step):
        assert found.at(time) == rows(reachable(now, [0, 1]))
        steps: dict[int, int] = {}
        layer, count = {0, 1}, 0
        while layer:
            steps.update((node, count) for node in layer)
            layer, count = {b for a, b in now if a in layer} - set(steps), count + 1
        assert far.at(time) == rows(steps.items())


def test_t44_a_cycle_does_not_support_itself(flow: kpg.Dataflow) -> None:
    edges, roots = flow.input("edges", src=str, dst=str), flow.input("roots", node=str)
    found = watch(reach(edges, roots))
    roots.insert("a")
    edges.insert([("a", "b"), ("b", "c"), ("c", "b")])
    step(flow, edges, roots)
    assert found.at() == rows("abc")
    edges.remove("a", "b")
    step(flow, edges, roots)
    assert found.at() == rows("a")


@pytest.mark.parametrize("per_step", [1, 4])
def test_nested_loops_that_are_not_monotone(flow: kpg.Dataflow, per_step: int) -> None:
    edges = flow.input("edges", src=int, dst=int)
    found = watch(strongly_connected(edges))
    for time, now in run(flow, edges, 2, 6, per_step):
        assert found.at(time) == rows(components(now))


def test_mutual_recursion(flow: kpg.Dataflow) -> None:
    """Nodes at an even and at an odd number of steps from a root."""
    edges, roots = flow.input("edges", src=int, dst=int), flow.input("roots", node=int)
    with flow.scope() as loop:
        even, odd = loop.variable(node=int), loop.variable(node=int)
        one = even.join(edges, {"node": "src"}, lambda n, e: {"node": e.dst}).distinct()
        two = odd.join(edges, {"node": "src"}, lambda n, e: {"node": e.dst}).concat(roots).distinct()
        odd.set(one)
        even.set(two)
        evens, odds = loop.leave(two), loop.leave(one)
    both = watch(evens.semijoin(odds))
    evenly, oddly = watch(evens), watch(odds)
    roots.insert(0)
    edges.insert([(0, 1), (1, 2), (2, 3)])
    step(flow, edges, roots)
    assert (evenly.at(), oddly.at(), both.at()) == (rows([0, 2]), rows([1, 3]), {})
    edges.insert(2, 0)
    step(flow, edges, roots)
    assert both.at() == rows(range(4))
    edges.remove(1, 2)
    step(flow, edges, roots)
    assert (evenly.at(), oddly.at()) == (rows([0]), rows([1]))


def test_a_limit_of_rounds(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    three = watch(n.iterate(lambda c: c.map(lambda r: {"n": r.n + 1}), limit=3))
    n.insert([0, 10])
    step(flow, n)
    assert three.at() == rows([3, 13])
    n.remove(0)
    step(flow, n)
    assert three.at() == rows([13])


def test_an_error_at_the_limit_rolls_back(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    with flow.scope(limit=20, error_at_limit=True) as loop:
        counter = loop.variable(initial=n)
        counter.set(counter.map(lambda r: {"n": kpg.case(r.n < 10, r.n + 1, r.n)}))
        end = loop.leave(counter.result)
    seen = watch(end)
    n.insert(-15)
    n.advance_to(n.time + 1)
    with pytest.raises(kpg.DataError, match="after 20 rounds"):
        flow.step()
    n.discard()
    n.insert(3)
    step(flow, n)
    assert seen.at() == rows([10])


def test_t41_iterate_begins_with_the_input_and_forgets_it(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    half = watch(n.iterate(lambda c: c.map(lambda r: {"n": r.n / 2})))
    n.insert([8, 5, -3])
    step(flow, n)
    assert half.at() == {(0,): 3}


def test_what_a_loop_does_not_change_stays_outside(db: kpg.Database, flow: kpg.Dataflow) -> None:
    """The arrangement of edges that a loop looks up is the one that is there."""
    edges, roots = flow.input("edges", src=int, dst=int), flow.input("roots", node=int)
    by_src = edges.arrange_by_key("src")
    watch(reach(by_src, roots))
    watch(reach(edges, roots.filter(lambda r: r.node > 5)))
    arranged = [row for row in db.arrangements() if "flow" in row[4] and row[0] == "Arrange by 1 columns"]
    assert sum("flow/1" in [reader.split()[-1] for reader in row[4].split(", ")] for row in arranged) == 1


def test_enter_and_leave_by_name(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    with flow.scope() as loop:
        inside = loop.enter(n)
        assert loop.enter(inside) is inside
        variable = loop.variable(n=int)
        variable.set(inside.concat(variable).distinct())
        end = loop.leave(variable.result)
        entered = loop.leave(n.enter(loop))
        assert loop.leave(n) is n
    seen, same = watch(end), watch(entered)
    n.insert([1, 2, 2])
    step(flow, n)
    assert seen.at() == rows([1, 2])
    assert same.at() == {(1,): 1, (2,): 2}


@pytest.mark.parametrize("per_step", [1, 3])
def test_a_users_reduce_inside_a_loop(flow: kpg.Dataflow, per_step: int) -> None:
    edges, roots = flow.input("edges", src=int, dst=int), flow.input("roots", node=int)
    start = roots.map(lambda r: {"node": r.node, "steps": 0})

    def body(found: kpg.Collection) -> kpg.Collection:
        more = found.join(edges, {"node": "src"}, lambda f, e: {"node": e.dst, "steps": f.steps + 1})
        least = more.concat(start).reduce(lambda key, found: [min(found)[0]], key="node", steps=int)
        return least

    mine, built_in = watch(start.iterate(body)), watch(distances(edges, roots))
    roots.insert([0, 1])
    roots.close()
    for time, _ in run(flow, edges, 3, 7, per_step):
        assert mine.at(time) == built_in.at(time)


def test_a_user_function_inside_a_loop(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)

    def body(c: kpg.Collection) -> kpg.Collection:
        return c.flat_map(lambda n: [n, n // 2, 3 * n + 1] if 0 < n < 30 else [n], n=int).distinct()

    seen = watch(n.iterate(body))
    n.insert(5)
    step(flow, n)
    found = {5}
    while (more := found | {m for n in found if 0 < n < 30 for m in (n // 2, 3 * n + 1)}) != found:
        found = more
    assert seen.at() == rows(found)
    n.remove(5)
    step(flow, n)
    assert seen.at() == {}


def test_a_column_that_becomes_none_in_the_loop(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    seen: Watched = watch(
        n.iterate(
            lambda c: c.map(lambda r: {"n": kpg.function("nullif", r.n + 1, 3)}).concat(n).distinct(), limit=5
        )
    )
    n.insert(1)
    step(flow, n)
    assert seen.at() == {(None,): 1, (1,): 1, (2,): 1}


def test_a_variable_that_is_a_collection_from_outside(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    with flow.scope() as loop:
        variable = loop.variable(n=int)
        variable.set(n)
        end, counted = loop.leave(variable), loop.leave(variable.count())
    seen, counts = watch(end), watch(counted)
    n.insert([1, 1])
    step(flow, n)
    assert (seen.at(), counts.at()) == ({(1,): 2}, {(1, 2): 1})


def test_results_of_one_loop_that_are_read_at_different_times(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE n (n BIGINT); INSERT INTO n VALUES (1), (10)")
    n = flow.import_("n")
    with flow.scope(limit=20) as loop:
        variable = loop.variable(initial=n)
        more = variable.map(lambda r: {"n": kpg.case(r.n < 5, r.n + 1, r.n)})
        variable.set(more)
        first, second = loop.leave(more), loop.leave(variable.filter(lambda r: r.n > 5))
    early = watch(first)
    db.sql("INSERT INTO n VALUES (11)")
    late = watch(second)
    assert (early.at(), late.at()) == (rows([5, 10, 11]), rows([10, 11]))
    db.sql("DELETE FROM n WHERE n > 1")
    assert (early.at(), late.at()) == (rows([5]), {})


@pytest.mark.parametrize("per_step", [1, 4])
def test_a_users_reduce_inside_of_nested_loops(flow: kpg.Dataflow, per_step: int) -> None:
    def least(labels: kpg.Collection) -> kpg.Collection:
        return labels.reduce(lambda key, found: [min(found)[0]], key="node", label=int)

    edges = flow.input("edges", src=int, dst=int)

    def half(edges: kpg.Collection, start: str, end: str) -> kpg.Collection:
        nodes = edges.map(lambda e: {"node": e[end], "label": e[end]}).distinct()
        spread = lambda a: least(  # noqa: E731
            a.join(edges, {"node": start}, lambda a, e: {"node": e[end], "label": a.label}).concat(nodes)
        )
        labels = nodes.iterate(spread)
        ends = edges.join(labels, {start: "node"}).rename(label="one").join(labels, {end: "node"})
        return ends.filter(lambda r: r.one == r.label).project("src", "dst")

    found = watch(edges.iterate(lambda e: half(half(e, "src", "dst"), "dst", "src")))
    for time, now in run(flow, edges, 5, 5, per_step):
        assert found.at(time) == rows(components(now))


def test_a_failure_inside_a_loop_takes_everything_back(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    armed = []

    def f(key: tuple[int], found: Any) -> list[Any]:
        if armed and key[0] > 2:
            raise ValueError("armed")
        return [()]

    def body(c: kpg.Collection) -> kpg.Collection:
        return (
            c.map(lambda r: {"n": kpg.case(r.n < 4, r.n + 1, r.n)})
            .concat(n)
            .threshold(lambda row, count: 1)
            .semijoin(
                c.concat(c.map(lambda r: {"n": r.n + 1}), n).reduce(
                    lambda k, g: [k] if f(k, g) else [], key="n", m=int
                )
            )
        )

    seen = watch(n.iterate(body))
    n.insert(0)
    step(flow, n)
    before = seen.at()
    assert before == rows(range(5))
    armed.append(True)
    n.insert(1)
    n.remove(0)
    n.advance_to(n.time + 1)
    with pytest.raises(kpg.DataError, match="ValueError: armed"):
        flow.step()
    armed.clear()
    flow.step()
    assert seen.at() == rows(range(1, 5))
    n.insert(0)
    step(flow, n)
    assert seen.at() == before


def test_tables_in_loops(db: kpg.Database, flow: kpg.Dataflow) -> None:
    """An INTEGER of a table and a BIGINT meet as keys and as columns of a variable."""
    db.sql("CREATE TABLE e (src INT, dst INT); INSERT INTO e VALUES (1, 2), (2, 3), (5, 6)")
    roots = flow.input("roots", node=int)
    seen = watch(reach(flow.import_("e"), roots))
    roots.insert([1])
    step(flow, roots)
    assert seen.at() == rows([1, 2, 3])
    db.sql("UPDATE e SET dst = 5 WHERE src = 2")
    assert seen.at() == rows([1, 2, 5, 6])


def test_mistakes(flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=int, dst=int)
    with pytest.raises(kpg.ProgrammingError, match="the body of iterate needs columns"):
        edges.iterate(lambda c: c.project("src"))
    with pytest.raises(kpg.InterfaceError, match="was not set"), flow.scope() as loop:
        loop.variable(n=int)
    with pytest.raises(kpg.InterfaceError, match="a variable is made inside the loop's with block"):
        flow.scope().variable(n=int)
    with flow.scope() as loop:
        variable = loop.variable(initial=edges)
        with pytest.raises(kpg.InterfaceError, match="still being written"):
            watch(loop.leave(variable))
        with pytest.raises(kpg.InterfaceError, match="inside a loop cannot be kept"):
            variable.export("kept")
        variable.set(variable.distinct())
        with pytest.raises(kpg.InterfaceError, match="was set before"):
            variable.set(edges)
    with pytest.raises(kpg.InterfaceError, match="leaves inside the loop's with block"):
        loop.leave(variable)
    with flow.scope() as other:
        another = other.variable(initial=edges)
        with pytest.raises(kpg.InterfaceError, match="neither of which is inside the other"):
            another.join(variable, key="src", result=lambda a, b: a)
        with pytest.raises(kpg.InterfaceError, match="belongs to another loop"):
            another.set(variable)
        another.set(another)
    with pytest.raises(kpg.InterfaceError, match="can be None"), flow.scope() as loop:
        variable = loop.variable(n=int)
        variable.set(variable.map(lambda r: {"n": kpg.function("nullif", r.n, 1)}))
    with pytest.raises(kpg.InterfaceError, match="positive number of rounds"):
        flow.scope(limit=0)
