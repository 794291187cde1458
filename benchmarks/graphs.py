"""Reach, distances and components of a uniform random graph, beside a hash-map program of one thread.

    python benchmarks/graphs.py --nodes 1000000 --edges 10000000

Edges come in memory, sorted by source, as in K-Pg's Tables 7 to 9: ``index-f`` and ``index-r`` are the times
to arrange them by source and by destination; the other figures are the times to install each query over these
and run it to its end, from the first node with an edge out. The program beside is compiled by numba and keeps
all of a node in hash maps; it takes the sorted edges, and its index is the map from node to first edge.
All answers are compared, node by node.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import _hashed
import numpy as np
from _common import Elapsed, Measurement, arguments, elapsed, keep_memory, report
from _flows import graph_input, loaded, note, profiled, step, worker_of
from _graphs import Edges, uniform
from numpy.typing import NDArray

import kpg
from kpg import graph

Words = NDArray[np.int64]
NOTHING = Elapsed(0.0, 0.0)
Query = Callable[[kpg.Collection, kpg.Collection], kpg.Collection]
QUERIES: dict[str, Query] = {
    "reach": graph.reachability,
    "sssp": graph.distances,
    "wcc": lambda edges, _: graph.connected_components(edges),
}


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the single thread took, and what it found: arrays by node, -1 for none."""

    seconds: dict[str, Elapsed]
    answers: dict[str, Words]


def by_node(keys: Words, values: Words, nodes: int) -> Words:
    """A map as an array."""
    found = np.full(nodes, -1, np.int64)
    there = keys != -1
    found[keys[there]] = values[there]
    return found


def single_thread(edges: Edges, nodes: int) -> Baseline:
    """The hash-map programs over sorted edges."""
    src, dst = edges
    root = int(src[0])
    seconds: dict[str, Elapsed] = {}
    kept: list[tuple[Words, ...]] = []
    seconds["index-f"] = elapsed(lambda: kept.append(_hashed.index(src, nodes)))
    keys, firsts = kept.pop()
    answers = {}
    seconds["reach"] = elapsed(lambda: kept.append((_hashed.reached(src, dst, keys, firsts, root, nodes),)))
    (reached,) = kept.pop()
    answers["reach"] = by_node(reached, reached, nodes)
    seconds["sssp"] = elapsed(lambda: kept.append(_hashed.distances(src, dst, keys, firsts, root, nodes)))
    answers["sssp"] = by_node(*kept.pop(), nodes)
    seconds["wcc"] = elapsed(lambda: kept.append(_hashed.components(src, dst, nodes)))
    answers["wcc"] = by_node(*kept.pop(), nodes)
    return Baseline(seconds, answers)


def dataflow(
    edges: Edges, baseline: Baseline | None, queries: list[str], *, profile: bool = False
) -> dict[str, Elapsed]:
    """Seconds to arrange the edges and to run each query; its answers are compared."""
    seconds = {}
    with kpg.connect() as database:
        flow = database.dataflow("graphs")
        roots = loaded(flow, "roots", node=edges[0, :1])
        roots.close()
        kept_roots = roots.arrange_by_key("node")
        given = graph_input(flow, edges)
        forward = given.arrange_by_key("src")
        seconds["index-f"] = elapsed(lambda: step(flow, given))
        arranged = [forward]
        seconds["index-r"] = elapsed(lambda: arranged.append(forward.arrange_by_key("dst")))
        for name in queries:
            found: list[kpg.Probe] = []
            install = lambda: found.append(QUERIES[name](forward, kept_roots).probe())  # noqa: B023, E731
            if profile:
                print(f"\n{name}")
                profiled(install, database)
            else:
                seconds[name] = elapsed(install)
                if baseline is not None:
                    compare(name, found[0], baseline.answers[name])
            found[0].close()
        note(f"{sum(one.bytes for one in worker_of(database).arrangements()) / 2**20:,.0f} MB of indexes")
    return seconds


def compare(name: str, found: kpg.Probe, expected: Words) -> None:
    """Exit unless a query found what the program did."""
    assert found.installation is not None
    rows, counts = found.installation.rows()
    mine = by_node(rows[0], rows[-1], expected.shape[0])
    if (counts != 1).any() or (mine != expected).any():
        raise SystemExit(f"{name} differs at {int((mine != expected).sum()):,} nodes")


def measure(options: argparse.Namespace) -> list[Measurement]:
    """All figures."""
    edges = uniform(options.nodes, options.edges)
    edges = np.ascontiguousarray(edges[:, np.lexsort(edges[::-1])])
    names = ["index-f", "index-r", *options.queries]
    mine: dict[str, list[Elapsed]] = {name: [] for name in names}
    theirs: dict[str, list[Elapsed]] = {name: [] for name in names}
    for _ in range(options.runs):
        baseline = single_thread(edges, options.nodes)
        seconds = dataflow(edges, baseline, options.queries)
        note("; ".join(_shown(name, seconds[name], baseline.seconds.get(name)) for name in names))
        for name in names:
            mine[name].append(seconds[name])
            theirs[name].append(baseline.seconds.get(name, NOTHING))
    if options.profile:
        dataflow(edges, None, options.queries, profile=True)
    return [
        Measurement(name, "s", tuple(one.wall for one in mine[name]), *_beside(mine[name], theirs[name]))
        for name in names
    ]


def _beside(mine: list[Elapsed], theirs: list[Elapsed]) -> tuple[dict[str, float], dict[str, Any]]:
    """The other program's median, and what both took of the processor."""
    processor = {"processor_seconds": [one.processor for one in mine]}
    others = {"hash_maps_processor_seconds": [one.processor for one in theirs]}
    return {"hash maps": float(np.median([one.wall for one in theirs]))}, processor | others


def _shown(name: str, mine: Elapsed, theirs: Elapsed | None) -> str:
    beside = "" if theirs is None else f", hash maps {theirs.wall:.3f} ({theirs.processor:.3f})"
    return f"{name} {mine.wall:.3f} s ({mine.processor:.3f} of the processor){beside}"


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--profile", action="store_true", help="one more run, under the profiler")
    options = parser.parse_args()
    keep_memory()
    small = uniform(100, 200)
    small = np.ascontiguousarray(small[:, np.lexsort(small[::-1])])
    dataflow(small, single_thread(small, 100), list(QUERIES))
    report(f"{options.nodes:,} nodes, {options.edges:,} edges", measure(options), options.json)


if __name__ == "__main__":
    main()
