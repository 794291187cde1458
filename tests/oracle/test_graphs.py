"""Loops against closed forms and networkx: the model of plans, and the engine after every change."""

import random
from collections import Counter
from collections.abc import Callable, Iterable

import networkx as nx
import pytest

from kpg.runtime.plan import Plan
from tests.model.plan import rows_of_plan
from tests.properties import loops
from tests.properties.engine import Engine, Row

Pair = tuple[int, int]
Answer = set[Row]


def grid(n: int) -> list[Pair]:
    """Edges right and down between (n + 1)^2 nodes."""
    side = n + 1
    right = [(side * i + j, side * i + j + 1) for i in range(side) for j in range(n)]
    return right + [(a // side + a % side * side, b // side + b % side * side) for a, b in right]


def tree(seed: int, levels: int) -> tuple[list[Pair], list[int]]:
    """Edges from parents to children, and the size of each level."""
    rng = random.Random(seed)
    edges: list[Pair] = []
    level, sizes, nodes = [0], [1], 1
    for _ in range(levels):
        children = []
        for parent in level:
            for _ in range(2 if parent == 0 else rng.choice((0, 0, 2, 3))):
                edges.append((parent, nodes))
                children.append(nodes)
                nodes += 1
        level = children
        sizes.append(len(level))
    return edges, sizes


def weighted(pairs: Iterable[Pair]) -> list[Row]:
    return [(x, y, (7 * x + y) % 3 + 1) for x, y in pairs]


def naive(plan: Plan, edges: Iterable[Row], roots: Iterable[int]) -> Counter[Row]:
    return rows_of_plan(plan, {"edge": list(edges), "root": [(root,) for root in roots]})


def maintained(plan: Plan, edges: Iterable[Row], roots: Iterable[int]) -> Counter[Row]:
    """The edges inserted in three steps, after the view is there."""
    engine = Engine({"view": plan})
    rows = list(edges)
    engine.insert("root", *((root,) for root in roots))
    for part in range(3):
        engine.insert("edge", *rows[part::3])
        engine.step()
    return engine.rows("view")


def installed(plan: Plan, edges: Iterable[Row], roots: Iterable[int]) -> Counter[Row]:
    """The view installed when the edges are there."""
    engine = Engine()
    engine.insert("root", *((root,) for root in roots))
    engine.insert("edge", *edges)
    engine.step()
    engine.install("view", plan)
    return engine.rows("view")


Evaluate = Callable[[Plan, Iterable[Row], Iterable[int]], Counter[Row]]
EVALUATORS = {"naive": naive, "maintained": maintained, "installed": installed}


@pytest.fixture(params=EVALUATORS)
def evaluate(request: pytest.FixtureRequest) -> Evaluate:
    return EVALUATORS[request.param]


@pytest.mark.parametrize(("n", "closed", "same"), [(5, 405, 135), (10, 4_235, 870)])
def test_grid(n: int, closed: int, same: int, evaluate: Evaluate) -> None:
    """With m = n + 1, |tc| = (m(m + 1)/2)^2 - m^2; |sg| = S(m) + S(n) + n^2 for S(m) = m(m + 1)(m - 1)/3."""
    edges = weighted(grid(n))
    m = n + 1
    assert closed == (m * (m + 1) // 2) ** 2 - m * m
    assert same == m * (m + 1) * (m - 1) // 3 + n * m * (n - 1) // 3 + n * n
    kinds = ("left", "right", "double") if n == 5 else ("left",)
    for kind in kinds:
        assert sum(evaluate(loops.transitive_closure(kind), edges, ()).values()) == closed
    for plan in (loops.same_generation(), loops.same_generation_delta()):
        assert sum(evaluate(plan, edges, ()).values()) == same


@pytest.mark.parametrize("evaluate", [maintained, installed])
def test_larger_grid(evaluate: Evaluate) -> None:
    edges = weighted(grid(20))
    assert sum(evaluate(loops.transitive_closure("left"), edges, ()).values()) == 52_920
    assert sum(evaluate(loops.same_generation_delta(), edges, ()).values()) == 6_140


@pytest.mark.parametrize("seed", range(3))
def test_tree(seed: int, evaluate: Evaluate) -> None:
    """|tc| is the sum of the nodes' depths, |sg| the sum of s(s - 1) over the sizes of levels."""
    pairs, sizes = tree(seed, 6)
    edges = weighted(pairs)
    closed = evaluate(loops.transitive_closure("left"), edges, ())
    assert sum(closed.values()) == sum(depth * size for depth, size in enumerate(sizes))
    same = evaluate(loops.same_generation(), edges, ())
    assert sum(same.values()) == sum(size * (size - 1) for size in sizes)


def graph_of(edges: Iterable[Row]) -> "nx.DiGraph":
    """The directed graph, with the least weight of parallel edges."""
    graph = nx.DiGraph()
    for x, y, w in sorted(edges, reverse=True):
        graph.add_edge(x, y, weight=w)
    return graph


def reach(graph: "nx.DiGraph", roots: set[int]) -> Answer:
    inside = roots & set(graph)
    return {(node,) for root in inside for node in nx.descendants(graph, root)} | {(root,) for root in roots}


def distances(weight: str | None) -> Callable[["nx.DiGraph", set[int]], Answer]:
    def answer(graph: "nx.DiGraph", roots: set[int]) -> Answer:
        found = dict.fromkeys(roots, 0)
        for root in roots & set(graph):
            for node, far in nx.single_source_dijkstra_path_length(
                graph, root, weight=weight or unit
            ).items():
                found[node] = min(far, found.get(node, far))
        return set(found.items())

    return answer


def unit(x: int, y: int, data: object) -> int:
    return 1


def components(graph: "nx.DiGraph", roots: set[int]) -> Answer:
    return {(node, min(part)) for part in nx.weakly_connected_components(graph) for node in part}


def strongly_connected(graph: "nx.DiGraph", roots: set[int]) -> Answer:
    part = {node: i for i, nodes in enumerate(nx.strongly_connected_components(graph)) for node in nodes}
    return {(x, y) for x, y in graph.edges if part[x] == part[y]}


def closure(graph: "nx.DiGraph", roots: set[int]) -> Answer:
    return set(nx.transitive_closure(graph, reflexive=False).edges)


def core(graph: "nx.DiGraph", roots: set[int]) -> Answer:
    simple = nx.Graph(graph)
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    return {(node,) for node in nx.k_core(simple, 2)}


ORACLES: dict[str, Callable[["nx.DiGraph", set[int]], Answer]] = {
    "reach": reach,
    "reach by rowid": reach,
    "grown": reach,
    "three deep": lambda graph, roots: reach(graph, roots),
    "refined by 2 hops": reach,
    "tc left": closure,
    "tc double": closure,
    "distances": distances(None),
    "weighted distances": distances("weight"),
    "components": components,
    "strongly connected": strongly_connected,
    "2-core": core,
}


def change(rng: random.Random, edges: list[Row], nodes: int) -> tuple[Row | None, Row | None]:
    """An edge to insert and one to delete, or one of the two."""
    new = (rng.randrange(nodes), rng.randrange(nodes), rng.randrange(3))
    gone = rng.choice(edges) if edges and rng.random() < 0.25 + 0.05 * len(edges) else None
    return (None if gone and rng.random() < 0.7 else new), gone


@pytest.mark.parametrize("seed", range(3))
def test_model_agrees_with_networkx(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(8):
        nodes = rng.randint(1, 9)
        edges = [
            (rng.randrange(nodes), rng.randrange(nodes), rng.randrange(3)) for _ in range(rng.randint(0, 14))
        ]
        roots = {rng.randrange(nodes) for _ in range(2)}
        for name, oracle in ORACLES.items():
            found = naive(loops.LOOPS[name](), edges, sorted(roots))
            assert found == Counter(oracle(graph_of(edges), roots)), (name, edges, roots)


@pytest.mark.parametrize("seed", range(2))
def test_engine_agrees_with_networkx_after_every_edge(seed: int) -> None:
    rng = random.Random(seed)
    engine = Engine({name: loops.LOOPS[name]() for name in ORACLES})
    roots = {0, 3}
    engine.insert("root", *((root,) for root in roots))
    edges: list[Row] = []
    for _ in range(60):
        new, gone = change(rng, edges, 8)
        if gone:
            engine.delete("edge", gone)
            edges.remove(gone)
        if new:
            engine.insert("edge", new)
            edges.append(new)
        engine.step()
        for name, oracle in ORACLES.items():
            assert engine.rows(name) == Counter(oracle(graph_of(edges), roots)), (name, edges)
