"""Transitive closure and same generation from the Collection API, as one batch and with times kept.

    python benchmarks/closure.py --workloads tc-grid tc-random sg-grid
    python benchmarks/closure.py --workloads tc-grid --tc-grid 20 --profile

Edges are arranged before the clock starts (``index`` is what that took); the figure is the time to install
the query, run it to its end, and know it. ``--maintained`` installs it over no edges and times the step that
brings them. The number of pairs is checked: grids in closed form, random graphs by squaring a matrix.
Prototype figures are of a semi-naive program in numba that keeps no times.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from _common import Elapsed, Measurement, arguments, elapsed, keep_memory, report
from _flows import graph_input, note, profiled, rows_of, step
from _graphs import Edges, gnp, grid, grid_closure, grid_generations

import kpg
from kpg import graph


@dataclass(frozen=True, slots=True)
class Workload:
    """A query over a graph, how many pairs it finds, and what others took, in seconds."""

    name: str
    edges: Edges
    query: Callable[[kpg.Collection], kpg.Collection]
    pairs: int
    references: dict[str, float]


def workload(name: str, options: argparse.Namespace) -> Workload:
    """The workload of that name; references belong to the full sizes."""
    match name:
        case "tc-grid":
            size = options.tc_grid
            known = {"prototype": 7.9, "aim": 15.8} if size == 100 else {}
            return Workload(
                f"tc(grid-{size})", grid(size), graph.transitive_closure, grid_closure(size), known
            )
        case "tc-random":
            edges = gnp(options.nodes, options.nodes * options.degree)
            known = {"prototype": 23.8, "aim": 47.6} if (options.nodes, options.degree) == (3000, 10) else {}
            title = f"tc(G({options.nodes}, degree {options.degree}))"
            return Workload(title, edges, graph.transitive_closure, closure(options.nodes, edges), known)
        case _:
            size = options.sg_grid
            known = {"K-Pg": 4.43, "aim": 3.0} if size == 150 else {}
            return Workload(
                f"sg(grid-{size})", grid(size), graph.same_generation, grid_generations(size), known
            )


def closure(nodes: int, edges: Edges) -> int:
    """Pairs of the transitive closure, by squaring the matrix of what is reached."""
    reached = np.zeros((nodes, nodes), np.float32)
    reached[edges[0], edges[1]] = 1
    count = 0
    while int(reached.sum(dtype=np.float64)) > count:
        count = int(reached.sum(dtype=np.float64))
        reached = np.minimum(reached + reached @ reached, 1)
    return count


def run(work: Workload, *, maintained: bool, profile: bool) -> tuple[float, Elapsed]:
    """Seconds to index the edges, and to compute the query."""
    with kpg.connect() as database:
        flow = database.dataflow("closure")
        edges = graph_input(flow, work.edges)
        kept = edges.arrange_by_key("src")
        probes: list[kpg.Probe] = []
        if maintained:
            probes.append(work.query(kept).probe())
            if profile:
                profiled(lambda: step(flow, edges), database)
                return 0.0, Elapsed(0.0, 0.0)
            seconds = elapsed(lambda: step(flow, edges))
            index = 0.0
        else:
            index = step(flow, edges)
            install = lambda: probes.append(work.query(kept).probe())  # noqa: E731
            if profile:
                profiled(install, database)
                return 0.0, Elapsed(0.0, 0.0)
            seconds = elapsed(install)
        found = rows_of(probes[0])
        if found != work.pairs:
            raise SystemExit(f"{work.name} has {work.pairs:,} pairs, not {found:,}")
    return index, seconds


def measure(work: Workload, options: argparse.Namespace) -> Measurement:
    """The seconds of one workload; a first run, on a small graph, compiles."""
    times = []
    for _ in range(options.runs):
        index, seconds = run(work, maintained=options.maintained, profile=False)
        note(f"{work.name}: {seconds.wall:.2f} s, {seconds.processor:.2f} of the processor")
        times.append((index, seconds))
    if options.profile:
        run(work, maintained=options.maintained, profile=True)
    details = {
        "pairs": work.pairs,
        "edges": work.edges.shape[1],
        "index_seconds": [one for one, _ in times],
        "processor_seconds": [seconds.processor for _, seconds in times],
    }
    return Measurement(work.name, "s", tuple(seconds.wall for _, seconds in times), work.references, details)


def main() -> None:
    parser = arguments(__doc__ or "")
    names = ("tc-grid", "tc-random", "sg-grid")
    parser.add_argument("--workloads", nargs="+", choices=names, default=names)
    parser.add_argument("--tc-grid", type=int, default=100, help="size of the grid for tc")
    parser.add_argument("--sg-grid", type=int, default=150, help="size of the grid for sg")
    parser.add_argument("--nodes", type=int, default=3000, help="nodes of the random graph")
    parser.add_argument("--degree", type=int, default=10, help="edges a node of the random graph")
    parser.add_argument("--maintained", action="store_true", help="edges come when the query is there")
    parser.add_argument("--profile", action="store_true", help="one more run, under the profiler")
    options = parser.parse_args()
    keep_memory()
    for query in (graph.transitive_closure, graph.same_generation):
        warm = Workload("warm-up", grid(3), query, rows_expected(query), {})
        run(warm, maintained=options.maintained, profile=False)
    measured = [measure(workload(name, options), options) for name in options.workloads]
    report("closures, one batch", measured, options.json)


def rows_expected(query: Callable[[kpg.Collection], kpg.Collection]) -> int:
    """Pairs of a query over the grid of size 3."""
    return grid_closure(3) if query is graph.transitive_closure else grid_generations(3)


if __name__ == "__main__":
    main()
