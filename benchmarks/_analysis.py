"""Made-up programs and an ontology, as facts for analyses: skewed, with small cycles and long chains.

A program has functions, few of which have most of the calls (Zipf). As an analysis does that tells call
sites apart, each call has a copy of its function's body: ``Copies``. Bodies have 4 to 60 nodes, log-normal;
most nodes take from the one before (long chains), some from further back, and a few edges lead back (small
strongly connected parts). A copy is tied to the call in its caller by an edge into its first node and,
mostly, one from its last node back. One call in some starts afresh, so that chains of calls end.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
Facts = dict[str, Words]
"""Relations by name, each ``int64[arity, n]``, no row twice."""

FUNCTIONS = 2000
MOST_NODES = 60


@dataclass(frozen=True, slots=True)
class Shape:
    """How a body's edges go: shares of its nodes, and of calls."""

    skips: float = 0.25
    """Nodes that take from further back as well."""
    loops: float = 0.03
    """Nodes from which an edge leads back."""
    breaks: float = 0.15
    """Nodes that do not take from the one before."""
    fresh: float = 0.3
    """Calls from nowhere: entry points."""
    returns: float = 0.7


@dataclass(frozen=True, slots=True)
class Copies:
    """Copied bodies: ``edges int64[2, n]`` lead from a node to one that takes its value."""

    nodes: int
    edges: Words


def copies(edges: int, shape: Shape, seed: int) -> Copies:
    """About so many edges."""
    rng = np.random.default_rng(seed)
    sizes = np.clip(rng.lognormal(2.6, 0.7, FUNCTIONS), 4, MOST_NODES).astype(np.int64)
    bodies = [_body(int(size), shape, rng) for size in sizes]
    popular = 1.0 / np.arange(1, FUNCTIONS + 1)
    counts = np.array([body.shape[1] + 1 for body in bodies])
    calls = int(edges / (popular @ counts / popular.sum())) + 1
    chosen = rng.choice(FUNCTIONS, calls, p=popular / popular.sum())
    first = np.concatenate(([0], np.cumsum(sizes[chosen])))
    parts = [bodies[function] + start for function, start in zip(chosen, first, strict=False)]
    parts.append(_calls(first, shape, rng))
    found = np.unique(np.concatenate(parts, axis=1), axis=1)[:, : max(edges, 1)]
    return Copies(int(first[-1]), _shuffled(found, rng))


def _body(size: int, shape: Shape, rng: np.random.Generator) -> Words:
    """Edges of one body over nodes from 0."""
    nodes = np.arange(1, size, dtype=np.int64)
    chain = nodes[rng.random(size - 1) >= shape.breaks]
    skip = nodes[rng.random(size - 1) < shape.skips]
    back = nodes[rng.random(size - 1) < shape.loops]
    far = np.maximum(skip - 1 - rng.geometric(0.3, skip.shape[0]), 0)
    near = np.maximum(back - rng.geometric(0.4, back.shape[0]), 0)
    sources = np.concatenate((chain - 1, far, back))
    return np.stack((sources, np.concatenate((chain, skip, near))))


def _calls(first: Words, shape: Shape, rng: np.random.Generator) -> Words:
    """Edges between callers and copies, whose nodes begin at ``first``; most callers come shortly before."""
    count = first.shape[0] - 1
    called = np.arange(1, count, dtype=np.int64)
    called = called[rng.random(count - 1) >= shape.fresh]
    callers = np.maximum(called - rng.geometric(0.05, called.shape[0]), 0)
    place = rng.random(called.shape[0])
    sites = first[callers] + (place * (first[callers + 1] - first[callers] - 1)).astype(np.int64)
    back = rng.random(called.shape[0]) < shape.returns
    into = np.stack((sites, first[called]))
    out = np.stack((first[called + 1] - 1, sites + 1))[:, back]
    return np.concatenate((into, out), axis=1)


def _shuffled(rows: Words, rng: np.random.Generator) -> Words:
    return np.ascontiguousarray(rows[:, rng.permutation(rows.shape[1])])


def dataflow(arcs: int, origins: int, seed: int = 1) -> Facts:
    """``arc(from, to)``, and ``null(x, y)``: nulls and where they are assigned first."""
    rng = np.random.default_rng(seed + 1)
    graph = copies(arcs, Shape(breaks=0.01, fresh=0.05), seed)
    sources = rng.choice(graph.nodes, min(origins, graph.nodes), replace=False).astype(np.int64)
    chosen = graph.edges[:, np.isin(graph.edges[0], sources)]
    return {"arc": graph.edges, "null": chosen}


def pointers(facts: int, seed: int = 1) -> Facts:
    """``assign(to, from)`` and ``dereference(pointer, value)``, so many facts in all.

    A third of the nodes are dereferenced, at a node of its own each, which takes the place of some of its
    pointer's occurrences in assignments.
    """
    rng = np.random.default_rng(seed + 1)
    graph = copies(int(facts * 0.8), Shape(fresh=0.5, breaks=0.3, skips=0.15, returns=0.4), seed)
    cells = rng.permutation(graph.nodes)[: facts - graph.edges.shape[1]].astype(np.int64)
    value = np.full(graph.nodes, -1, np.int64)
    value[cells] = graph.nodes + np.arange(cells.shape[0], dtype=np.int64)
    ends = graph.edges.copy()
    through = (value[ends] >= 0) & (rng.random(ends.shape) < 0.25)
    ends[through] = value[ends][through]
    assign = np.unique(ends[::-1], axis=1)
    return {"assign": _shuffled(assign, rng), "dereference": np.stack((cells, value[cells]))}


def statements(facts: int, seed: int = 1) -> Facts:
    """``address_of(p, object)``, ``copy(p, q)``, ``load(p, q)`` and ``store(p, q)``: half are copies."""
    rng = np.random.default_rng(seed + 1)
    graph = copies(int(facts * 5 / 6), Shape(fresh=0.4, breaks=0.23), seed)
    kind = rng.random(graph.edges.shape[1])
    edges = np.ascontiguousarray(graph.edges[::-1])
    addressed = rng.choice(graph.nodes, min(graph.nodes, facts - edges.shape[1]), replace=False)
    near = np.maximum(addressed - rng.geometric(0.1, addressed.shape[0]), 0)
    return {
        "address_of": np.stack((addressed, near)).astype(np.int64),
        "copy": edges[:, kind < 0.6],
        "load": edges[:, (kind >= 0.6) & (kind < 0.8)],
        "store": edges[:, kind >= 0.8],
    }


def ontology(facts: int, seed: int = 1) -> Facts:
    """Axioms over concepts in normal form, after the shape of Galen: about so many facts in all.

    ``isa(x, y)``: a hierarchy some fifteen levels deep, most concepts under one parent, with a few cycles
    of equals. ``has(x, r, z)``: x has a z by role r; role 0 is of parts in wholes near them.
    ``some(w, r, z)``: who has a w by role r is a z. ``both(y, w, z)``: who is y and w is a z; these z are
    general. ``sub(r, t)``, ``chain(r, u, e)``: thirty roles, few of which have most of the rows, in a
    hierarchy; a part of a part is one.
    """
    rng = np.random.default_rng(seed)
    concepts, roles = max(60, int(facts * 0.42)), 30
    child = np.arange(1, concepts, dtype=np.int64)
    parent = _above(child, rng)
    second, equal = rng.choice(child, concepts // 20), rng.choice(child, concepts // 200)
    pairs = (np.stack((child, parent)), np.stack((second, _above(second, rng))))
    isa = np.unique(np.concatenate((*pairs, np.stack((parent[equal - 1], equal))), axis=1), axis=1)
    rest = max(12, facts - isa.shape[1])
    general, rules = concepts // 20, int(rest * 0.08)

    def some(count: int, first: int = 0, last: int = concepts) -> Words:
        return rng.integers(first, last, count)

    def role(count: int) -> Words:
        return np.minimum(rng.zipf(1.6, count), roles - 1)

    plain, parts = int(rest * 0.6), rng.permutation(child[general:])[: int(rest * 0.2)]
    has = (
        np.stack((some(plain, general), role(plain), some(plain, general))),
        np.stack((parts, np.zeros_like(parts), np.maximum(parts - rng.geometric(0.2, parts.shape[0]), 0))),
    )
    upper = np.arange(2, roles, dtype=np.int64)
    return {
        "isa": isa,
        "has": np.unique(np.concatenate(has, axis=1), axis=1),
        "some": np.unique(np.stack((some(rules), role(rules), some(rules, 0, general))), axis=1),
        "both": np.unique(np.stack((some(rules), some(rules), some(rules, 0, general))), axis=1),
        "sub": np.stack((upper, upper // 2)),
        "chain": np.zeros((3, 1), np.int64),
    }


def _above(concepts: Words, rng: np.random.Generator) -> Words:
    """A more general concept for each."""
    return (concepts * rng.beta(2, 2, concepts.shape[0])).astype(np.int64)
