"""Goals over transitive closure and same generation, one after the other, beside K-Pg's figures.

    python benchmarks/datalog_goals.py --workloads tc-forward-gnp1 sg-tree-11 --goals 20
    python benchmarks/datalog_goals.py --workloads tc-forward-gnp1 --profile

``warm``: the goal's dataflow is there, and other values were asked for before. ``cold``: the first question
after preparing the goal. Both are the time from the question to the answer as rows in memory; the figure is
the median over so many values, chosen at random. Answers are checked against a search of the graph.
K-Pg's are of Table 2 of the paper, with 32 workers.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _common import Elapsed, Measurement, arguments, elapsed, keep_memory, report
from _flows import note, profiled
from _graphs import Edges, gnp, grid, tree

import kpg
from kpg.datalog import Goal
from kpg.tpch.report import quantile

RULES = """
.decl arc(a: number, b: number)
.input arc
.decl tc(a: number, b: number)
tc(x, y) :- arc(x, y).
tc(x, y) :- tc(x, z), arc(z, y).
.decl sg(a: number, b: number)
sg(x, y) :- arc(p, x), arc(p, y), x != y.
sg(x, y) :- arc(a, x), sg(a, b), arc(b, y).
"""
GRAPHS: dict[str, Callable[[], Edges]] = {
    "tree-11": tree,
    "grid-150": lambda: grid(150),
    "gnp1": lambda: gnp(10_000, 100_185),
}
TEXTS = {"tc-forward": "?- tc($v, x).", "tc-backward": "?- tc(x, $v).", "sg": "?- sg($v, x)."}
KPG = {
    ("tc-forward", "tree-11"): 2.6e-3,
    ("tc-forward", "grid-150"): 346e-3,
    ("tc-forward", "gnp1"): 18e-3,
    ("tc-backward", "tree-11"): 15.6e-3,
    ("tc-backward", "grid-150"): 321e-3,
    ("tc-backward", "gnp1"): 15.6e-3,
    ("sg", "tree-11"): 68e-3,
    ("sg", "grid-150"): 1.075,
}
AIM_OF_COUNTING = 100e-3


@dataclass(frozen=True, slots=True)
class Workload:
    """A way of asking a graph."""

    way: str
    graph: str

    @property
    def name(self) -> str:
        return f"{self.way}-{self.graph}"

    @property
    def references(self) -> dict[str, float]:
        """Seconds that others take, or that are aimed at."""
        known = KPG[self.way, self.graph]
        counted = (self.way, self.graph) == ("sg", "grid-150")
        return {"K-Pg": known, "aim": AIM_OF_COUNTING if counted else known}


WORKLOADS = {one.name: one for one in (Workload(*pair) for pair in KPG)}


class Oracle:
    """How many answers there are, by search."""

    def __init__(self, edges: Edges) -> None:
        self.forward = _adjacent(edges)
        self.backward = _adjacent(edges[::-1])

    def count(self, way: str, value: int) -> int:
        """The number of answers for a value."""
        match way:
            case "tc-forward":
                return len(_reached(self.forward, value))
            case "tc-backward":
                return len(_reached(self.backward, value))
            case _:
                return len(self._generation(value))

    def _generation(self, value: int) -> set[int]:
        """Level by level: up, then down from the different nodes with a common parent."""
        levels = [{value}]
        while levels[-1]:
            levels.append({above for one in levels[-1] for above in self.backward.get(one, ())})
        found: set[int] = set()
        for level in reversed(levels):
            found = {below for one in found for below in self.forward.get(one, ())}
            for one in level:
                for parent in self.backward.get(one, ()):
                    found.update(child for child in self.forward[parent] if child != one)
        return found


def _adjacent(edges: Edges) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one, other in edges.T.tolist():
        found.setdefault(one, []).append(other)
    return found


def _reached(adjacent: dict[int, list[int]], value: int) -> set[int]:
    found: set[int] = set()
    pending = [value]
    while pending:
        for other in adjacent.get(pending.pop(), ()):
            if other not in found:
                found.add(other)
                pending.append(other)
    return found


@dataclass(slots=True)
class Asking:
    """A database with a graph's edges, and the values that are asked for."""

    work: Workload
    database: kpg.Database
    oracle: Oracle
    first: int
    values: Sequence[int]

    def goal(self) -> Goal:
        """The goal, prepared anew."""
        return self.database.prepare(TEXTS[self.work.way])

    def ask(self, goal: Goal, value: int) -> Elapsed:
        """The time to the answer, which is checked."""
        answer = None

        def work() -> None:
            nonlocal answer
            answer = goal(v=value)

        taken = elapsed(work)
        assert answer is not None
        found, expected = len(answer), self.oracle.count(self.work.way, value)
        if found != expected:
            raise SystemExit(f"{self.work.name} of {value} has {expected} answers, not {found}")
        return taken

    def warm(self) -> list[Elapsed]:
        """The times of the questions, of one goal; the first is not counted."""
        with self.goal() as goal:
            self.ask(goal, self.first)
            return [self.ask(goal, value) for value in self.values]

    def cold(self) -> tuple[list[Elapsed], list[float]]:
        """The times of the first question of a goal, and the seconds to prepare it."""
        asked, prepared = [], []
        for value in self.values:
            start = time.perf_counter()
            with self.goal() as goal:
                prepared.append(time.perf_counter() - start)
                asked.append(self.ask(goal, value))
        return asked, prepared


def asking(work: Workload, edges: Edges, goals: int) -> Asking:
    """The workload over its graph."""
    database = kpg.connect()
    database.datalog(RULES)
    database.insert("arc", {"a": edges[0], "b": edges[1]})
    nodes = np.unique(edges).tolist()
    first, *values = random.Random(1).sample(nodes, min(goals + 1, len(nodes)))
    return Asking(work, database, Oracle(edges), first, values)


def measure(work: Workload, edges: Edges, options: argparse.Namespace) -> list[Measurement]:
    """Warm and cold seconds."""
    found = asking(work, edges, options.goals)
    with found.database:
        warm = found.warm()
        cold, prepared = found.cold()
        if options.profile:
            with found.goal() as goal:
                found.ask(goal, found.first)
                profiled(lambda: [goal(v=value) for value in found.values], found.database)
                print(goal.explain())
    measured = [
        _measurement(f"{work.name} warm", warm, work, {}),
        _measurement(f"{work.name} cold", cold, work, {"prepare_seconds": prepared}),
    ]
    return measured


def _measurement(name: str, taken: Sequence[Elapsed], work: Workload, details: dict[str, Any]) -> Measurement:
    processor = [one.processor for one in taken]
    details = {**details, "processor_seconds": processor}
    made = Measurement(name, "s", tuple(one.wall for one in taken), work.references, details)
    note(f"{name}: {made.median * 1000:.1f} ms, {quantile(processor, 0.5) * 1000:.1f} of the processor")
    return made


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--goals", type=int, default=100, help="values that are asked for")
    parser.add_argument("--profile", action="store_true", help="once more, under the profiler")
    options = parser.parse_args()
    keep_memory()
    for way in TEXTS:  # compiles
        small = asking(Workload(way, "grid-150"), grid(3), 2)
        small.warm()
    graphs = {WORKLOADS[name].graph: GRAPHS[WORKLOADS[name].graph]() for name in options.workloads}
    chosen = [WORKLOADS[name] for name in options.workloads]
    measured = [one for work in chosen for one in measure(work, graphs[work.graph], options)]
    report(f"goals, medians over {options.goals} values", measured, options.json)


if __name__ == "__main__":
    main()
