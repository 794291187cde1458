"""Whole relations of Datalog programs, beside the same queries in the Collection API.

    python benchmarks/datalog_full.py
    python benchmarks/datalog_full.py --workloads tc-grid --tc-grid 20 --profile

The rows of ``edge`` are there and nothing is indexed when the clock starts; the figure is the time until all
pairs are known, of the processor. The two take turns. The number of pairs is checked: grids in closed form,
random graphs by squaring a matrix, their generations by the other side's answer. The aim is the Collection
API's time and a fifth.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from _common import Elapsed, Measurement, arguments, elapsed, keep_memory, report
from _flows import graph_input, note, profiled, rows_of, step
from _graphs import Edges, gnp, grid, grid_closure, grid_generations
from closure import closure

import kpg
from kpg import graph

Query = Callable[[kpg.Collection], kpg.Collection]

EDGES = """
.decl edge(from: number, to: number)
.input edge
"""
CLOSURE = """
.decl pairs(from: number, to: number)
pairs(x, y) :- edge(x, y).
pairs(x, z) :- pairs(x, y), edge(y, z).
"""
GENERATIONS = """
.decl pairs(x: number, y: number)
pairs(x, y) :- edge(p, x), edge(p, y), x != y.
pairs(x, y) :- edge(a, x), pairs(a, b), edge(b, y).
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """The same pairs by rules and by a query; ``pairs`` is None where only the other side can tell."""

    name: str
    edges: Edges
    rules: str
    query: Query
    pairs: int | None


def workload(name: str, options: argparse.Namespace) -> Workload:
    """The workload of that name."""
    nodes, degree = options.nodes, options.degree
    title = f"G({nodes}, degree {degree})"
    match name:
        case "tc-grid":
            size = options.tc_grid
            found = grid_closure(size)
            return Workload(f"tc(grid-{size})", grid(size), CLOSURE, graph.transitive_closure, found)
        case "sg-grid":
            size = options.sg_grid
            found = grid_generations(size)
            return Workload(f"sg(grid-{size})", grid(size), GENERATIONS, graph.same_generation, found)
        case "tc-random":
            edges = gnp(nodes, nodes * degree)
            return Workload(f"tc({title})", edges, CLOSURE, graph.transitive_closure, closure(nodes, edges))
        case _:
            edges = gnp(nodes, nodes * degree)
            return Workload(f"sg({title})", edges, GENERATIONS, graph.same_generation, None)


def by_rules(work: Workload, profile: bool) -> tuple[Elapsed, int]:
    """The time that the program's relation takes, and how many pairs it has."""
    with kpg.connect() as database:
        program = database.datalog(EDGES + work.rules)
        database.insert("edge", {"from": work.edges[0], "to": work.edges[1]})
        spent = watched(lambda: program["pairs"], database, profile)
        return spent, len(program["pairs"])


def by_query(work: Workload, profile: bool) -> tuple[Elapsed, int]:
    """As :func:`by_rules`, of the collection."""
    with kpg.connect() as database:
        flow = database.dataflow("full")
        edges = graph_input(flow, work.edges)
        probes: list[kpg.Probe] = []

        def index_and_query() -> None:
            kept = edges.arrange_by_key("src")
            step(flow, edges)
            probes.append(work.query(kept).probe())

        spent = watched(index_and_query, database, profile)
        return spent, rows_of(probes[0])


def watched(do: Callable[[], object], database: kpg.Database, profile: bool) -> Elapsed:
    """What ``do`` takes; under the profiler, nothing is known."""
    if profile:
        profiled(do, database)
        return Elapsed(0.0, 0.0)
    return elapsed(do)


def measure(work: Workload, options: argparse.Namespace) -> Measurement:
    """The processor's seconds for the rules, and as a reference the median of those for the query."""
    rules, queries = [], []
    for _ in range(options.runs):
        query, expected = by_query(work, False)
        spent, found = by_rules(work, False)
        if found != expected or work.pairs not in (None, found):
            raise SystemExit(f"{work.name}: {found:,} pairs by rules, {expected:,} by a query, {work.pairs}")
        note(f"{work.name}: {spent.processor:.2f} s by rules, {query.processor:.2f} s by a query")
        rules.append(spent)
        queries.append(query)
    if options.profile:
        by_query(work, True)
        by_rules(work, True)
    other = float(np.median([one.processor for one in queries]))
    details = {
        "pairs": found,
        "edges": work.edges.shape[1],
        "wall_seconds": [one.wall for one in rules],
        "collection_processor_seconds": [one.processor for one in queries],
        "collection_wall_seconds": [one.wall for one in queries],
    }
    seconds = tuple(one.processor for one in rules)
    return Measurement(work.name, "s", seconds, {"collection": other, "aim": 1.2 * other}, details)


def main() -> None:
    parser = arguments(__doc__ or "")
    names = ("sg-grid", "tc-grid", "tc-random", "sg-random")
    parser.add_argument("--workloads", nargs="+", choices=names, default=names)
    parser.add_argument("--tc-grid", type=int, default=100, help="size of the grid for tc")
    parser.add_argument("--sg-grid", type=int, default=150, help="size of the grid for sg")
    parser.add_argument("--nodes", type=int, default=3000, help="nodes of the random graph")
    parser.add_argument("--degree", type=int, default=10, help="edges a node of the random graph")
    parser.add_argument("--profile", action="store_true", help="one more run, under the profiler")
    options = parser.parse_args()
    keep_memory()
    for rules, query in ((CLOSURE, graph.transitive_closure), (GENERATIONS, graph.same_generation)):
        warm = Workload("warm-up", grid(3), rules, query, None)
        by_query(warm, False)
        by_rules(warm, False)
    measured = [measure(workload(name, options), options) for name in options.workloads]
    report("whole relations by Datalog and by collections", measured, options.json)


if __name__ == "__main__":
    main()
