"""Strongly connected components of a random graph: a doubly nested loop, at once and then edge by edge.

    python benchmarks/strong_components.py --nodes 10000 --edges 100185

The graph is K-Pg's gnp1, so dense that all nodes are one component: all edges remain, which is checked.
Edges are loaded before the clock starts; the figure is the time to install the query and run it to its end.
Then ``--updates`` edges are taken out and put back, one to a step. K-Pg's figure is of one thread.
"""

import argparse

import networkx as nx
import numpy as np
from _common import Elapsed, Measurement, arguments, elapsed, keep_memory, report
from _flows import graph_input, note, profiled, quantiles, step
from _graphs import Edges, gnp

import kpg
from kpg import graph

GNP1 = (10_000, 100_185)


def remaining(edges: Edges) -> int:
    """How many edges are inside of components."""
    directed = nx.DiGraph(list(zip(*edges.tolist(), strict=True)))
    label = {node: i for i, nodes in enumerate(nx.strongly_connected_components(directed)) for node in nodes}
    return sum(label[a] == label[b] for a, b in directed.edges)


def run(edges: Edges, updates: int, *, profile: bool = False) -> tuple[Elapsed, list[float]]:
    """Seconds to compute the components, and those of each update."""
    expected = remaining(edges)
    with kpg.connect() as database:
        flow = database.dataflow("components")
        given = graph_input(flow, edges)
        kept = given.arrange_by_key("src", "dst")
        step(flow, given)
        found: list[kpg.Probe] = []
        install = lambda: found.append(graph.strongly_connected_components(kept).probe())  # noqa: E731
        if profile:
            profiled(install, database)
            return Elapsed(0.0, 0.0), []
        seconds = elapsed(install)
        assert found[0].installation is not None
        rows, counts = found[0].installation.rows()
        if rows.shape[1] != expected or (counts != 1).any():
            raise SystemExit(f"{rows.shape[1]:,} edges are left in components, not {expected:,}")
        latencies = []
        for place in np.random.default_rng(2).integers(0, edges.shape[1], updates):
            edge = (int(edges[0, place]), int(edges[1, place]))
            for change in (given.remove, given.insert):
                change(edge)
                latencies.append(step(flow, given))
    return seconds, latencies


def measure(options: argparse.Namespace) -> list[Measurement]:
    """The whole computation, and the updates."""
    edges = gnp(options.nodes, options.edges)
    times, latencies = [], []
    for _ in range(options.runs):
        seconds, updates = run(edges, options.updates)
        note(f"{seconds.wall:.3f} s, {seconds.processor:.3f} of the processor")
        times.append(seconds)
        latencies += updates
    if options.profile:
        run(edges, 0, profile=True)
    known = {"K-Pg": 0.274, "aim": 0.3} if (options.nodes, options.edges) == GNP1 else {}
    details = {"processor_seconds": [one.processor for one in times]}
    measured = [Measurement("components", "s", tuple(one.wall for one in times), known, details)]
    if latencies:
        measured.append(Measurement("an edge out or in", "s", tuple(latencies), {}, quantiles(latencies)))
    return measured


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--nodes", type=int, default=GNP1[0])
    parser.add_argument("--edges", type=int, default=GNP1[1])
    parser.add_argument("--updates", type=int, default=50, help="edges to take out and put back")
    parser.add_argument("--profile", action="store_true", help="one more run, under the profiler")
    options = parser.parse_args()
    keep_memory()
    run(gnp(10, 30), 2)
    report(f"components of {options.nodes:,} nodes, {options.edges:,} edges", measure(options), options.json)


if __name__ == "__main__":
    main()
