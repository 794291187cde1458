"""Queries of a graph that users ask while it changes: one set of indexes for all, or one for each use.

    python benchmarks/interactive_graph.py --nodes 1000000 --edges 6400000 --rate 2000

Look-up of a node's state, states one and two hops away, and paths of up to four hops, over a uniform random
graph (K-Pg's section 6.2, Table 10 and Figures 5b, 5c; theirs had 10 M nodes, 64 M edges and 32 cores).
First one class at a time: ``--batches`` questions come together, the figure is the step that answers them,
graph at rest, and they leave again. Then an open loop: half of the requests replace the oldest edge, half a
question of one class in turn, each at a time of its own; latencies count from when a request was due.
``unshared`` gives each of the seven hops and three look-ups of states an index of its own.
"""

import argparse
import gc
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np
from _common import Measurement, arguments, keep_memory, report
from _flows import loaded, note, profiled, quantiles, resident, step, survival, survival_table, worker_of
from _graphs import Edges, uniform
from _plot import plot_survival
from numpy.typing import NDArray

import kpg
from kpg import graph
from kpg.collections.operators import Index

Words = NDArray[np.int64]
CLASSES = ("look-up", "one hop", "two hops", "four-hop path")
TABLE_10 = {
    1: (0.64, 0.92, 1.28, 1.89),
    10: (0.81, 1.19, 1.65, 2.79),
    100: (1.26, 1.79, 2.92, 8.01),
    1000: (5.71, 6.88, 10.14, 72.20),
}
AIMS = {("two hops", 1): 0.005}
_copies = count()


class Unshared(kpg.Collection):
    """A collection that whoever looks it up indexes for himself."""

    def _index_by(self, key: Sequence[str], *, inline: bool = False) -> Index:
        mark = -1 - next(_copies)  # no node is negative, so all pass, but no two conditions are equal
        return self.filter(lambda row: row[0] != mark)._index_by(key, inline=inline)


class System:
    """The graph, its states, and the questions of each class."""

    def __init__(self, nodes: int, edges: Edges, *, shared: bool) -> None:
        self.nodes, self.shared = nodes, shared
        self.database = kpg.connect()
        flow = self.flow = self.database.dataflow("interactive")
        given = self.given = loaded(flow, "edges", src=edges[0], dst=edges[1])
        ids = np.arange(nodes, dtype=np.int64)
        states = loaded(flow, "states", node=ids, state=ids)
        self.questions = [flow.input(name, node=int) for name in ("q1", "q2", "q3")]
        self.questions.append(flow.input("q4", src=int, dst=int))
        first, second, third, fourth = self.questions
        graph_, state = self._kept(given, states)
        self.probes = [
            graph.look_up(state, first).probe(),
            graph.one_hop(graph_, state, second).probe(),
            graph.two_hops(graph_, state, third).probe(),
            graph.four_hop_path(graph_, fourth).probe(),
        ]
        states.close()
        self.loading = step(flow, given, *self.questions)

    def _kept(self, edges: kpg.Input, states: kpg.Input) -> tuple[kpg.Collection, kpg.Collection]:
        if self.shared:
            forward = edges.arrange_by_key("src")
            forward.arrange_by_key("dst")
            return forward, states.arrange_by_key("node")
        return Unshared(self.flow, edges._rows), Unshared(self.flow, states._rows)

    def ask(self, kind: int, columns: Sequence[Words], diff: int | Words, times: Words | None = None) -> None:
        """Change the questions of a class."""
        self.questions[kind].insert_columns(list(columns), diff, times)

    def step(self, count: int = 1) -> None:
        """Take what has come in ``count`` times."""
        later = self.given.time + count
        for one in (self.given, *self.questions):
            one.advance_to(later)
        self.flow.step()
        for probe in self.probes:
            if probe.less_than(later):
                raise SystemExit("a step left something undone")

    @property
    def index_bytes(self) -> int:
        """Bytes of all arrangements."""
        return sum(one.bytes for one in worker_of(self.database).arrangements())


def at_rest(system: System, kind: int, batch: int, samples: int) -> list[float]:
    """Seconds to answer so many new questions of a class."""
    rng = np.random.default_rng(kind + batch)
    width = 2 if kind == 3 else 1
    seconds = []
    for _ in range(samples):
        columns = rng.integers(0, system.nodes, (width, batch)).astype(np.int64)
        start = time.perf_counter()
        system.ask(kind, columns, 1)
        system.step()
        seconds.append(time.perf_counter() - start)
        system.ask(kind, columns, -1)
        system.step()
    return seconds


class Requests:
    """What is to come: edges and questions, of which the oldest goes when a new one comes."""

    def __init__(self, system: System, edges: Edges, total: int, standing: int) -> None:
        rng = np.random.default_rng(5)
        self.system = system
        fresh = rng.integers(0, system.nodes, (2, total // 2 + 1)).astype(np.int64)
        self._edges, self._size = np.concatenate((edges, fresh), axis=1), edges.shape[1]
        each = total // 8 + 2
        self._asked = [
            rng.integers(0, system.nodes, (2 if kind == 3 else 1, standing + each)).astype(np.int64)
            for kind in range(4)
        ]
        self._standing = standing
        for kind in range(4):
            system.ask(kind, self._asked[kind][:, :standing], 1)
        system.step()

    def take(self, first: int, last: int) -> None:
        """Requests ``first`` to ``last`` in one step: even ones change the graph, odd ones questions."""
        system = self.system
        number = np.arange(first, last, dtype=np.int64)
        times = system.given.time + number - first
        even = number % 2 == 0
        columns, diffs = self._replaced(self._edges, self._size, number[even] // 2)
        system.given.insert_columns(list(columns), diffs, np.tile(times[even], 2))
        for kind in range(4):
            mine = number % 8 == 2 * kind + 1
            columns, diffs = self._replaced(self._asked[kind], self._standing, number[mine] // 8)
            system.ask(kind, columns, diffs, np.tile(times[mine], 2))
        system.step(last - first)

    @staticmethod
    def _replaced(queue: Words, standing: int, places: Words) -> tuple[Words, Words]:
        """The new rows and then the old ones, with their multiplicities."""
        columns = np.concatenate((queue[:, places + standing], queue[:, places]), axis=1)
        return columns, np.repeat(np.array([1, -1], np.int64), places.shape[0])


def open_loop(requests: Requests, rate: int, seconds: float) -> dict[str, NDArray[np.float64]]:
    """Latencies by class, of the second half; ``graph`` are changes of edges."""
    total = int(rate * seconds)
    done = 0
    latencies = np.empty(total, np.float64)
    clock = time.perf_counter
    start = clock()
    while done < total:
        now = clock() - start
        ready = min(total, int(now * rate) + 1)
        if ready <= done:
            continue
        if now > 3 * seconds:
            break
        requests.take(done, ready)
        latencies[done:ready] = clock() - start - np.arange(done, ready) / rate
        done = ready
    number = np.arange(done // 2, done)
    kept = latencies[done // 2 : done]
    found = {"graph": kept[number % 2 == 0]}
    for kind, name in enumerate(CLASSES):
        found[name] = kept[number % 8 == 2 * kind + 1]
    note(f"{done / (clock() - start):,.0f} requests a second of {rate:,}")
    return found


def measure(
    options: argparse.Namespace, *, shared: bool
) -> tuple[list[Measurement], dict[str, NDArray[np.float64]]]:
    """All figures of one system."""
    mode = "shared" if shared else "unshared"
    edges = uniform(options.nodes, options.edges)
    gc.collect()
    before = resident()
    system = System(options.nodes, edges, shared=shared)
    indexes, memory = system.index_bytes, resident() - before
    note(
        f"{mode}: loaded in {system.loading:.1f} s, indexes {indexes / 2**20:,.0f} MB,"
        f" resident {memory / 2**20:,.0f} MB more"
    )
    measured = [
        Measurement(
            f"{mode}, indexes", "bytes", (indexes,), {}, {"resident": memory, "loading": system.loading}
        )
    ]
    for batch in options.batches:
        for kind, name in enumerate(CLASSES):
            at_rest(system, kind, batch, 2)
            values = at_rest(system, kind, batch, options.samples)
            table = {"K-Pg": TABLE_10[batch][kind] / 1000} if batch in TABLE_10 else {}
            aim = {"aim": AIMS[name, batch]} if (name, batch) in AIMS else {}
            title = f"{mode}, {name}, {batch} at once"
            measured.append(Measurement(title, "s", tuple(values), table | aim, quantiles(values)))
    requests = Requests(system, edges, int(options.rate * options.seconds), options.standing)
    series = {
        f"{mode}, {name}": values
        for name, values in open_loop(requests, options.rate, options.seconds).items()
    }
    for name, values in series.items():
        details = {"survival": survival(values), **quantiles(values)}
        measured.append(Measurement(f"{name}, open loop p99", "s", (details["p99"],), {}, details))
    measured.append(Measurement(f"{mode}, indexes at the end", "bytes", (system.index_bytes,)))
    if options.profile:
        done = int(options.rate * options.seconds)
        profiled(
            lambda: [requests.take(done - 64 + place, done - 63 + place) for place in range(64)],
            system.database,
        )
    system.database.close()
    return measured, series


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=6_400_000)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 10, 100, 1000])
    parser.add_argument("--samples", type=int, default=50, help="measurements of each class and batch")
    parser.add_argument("--rate", type=int, default=2000, help="requests a second in the open loop")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the open loop")
    parser.add_argument(
        "--standing", type=int, default=10, help="questions of each class that stand in the open loop"
    )
    parser.add_argument("--modes", nargs="+", choices=("shared", "unshared"), default=["shared", "unshared"])
    parser.add_argument("--plot", type=Path, help="file for a plot of the open loop's distributions, in SVG")
    parser.add_argument("--profile", action="store_true", help="64 more requests, under the profiler")
    options = parser.parse_args()
    keep_memory()
    warm = System(50, uniform(50, 200), shared=True)
    Requests(warm, uniform(50, 200), 64, 4).take(0, 64)
    measured: list[Measurement] = []
    series: dict[str, NDArray[np.float64]] = {}
    for mode in options.modes:
        found, latencies = measure(options, shared=mode == "shared")
        measured += found
        series |= latencies
    report(f"interactive queries, {options.nodes:,} nodes, {options.edges:,} edges", measured, options.json)
    print("\nlatency in ms that so large a share of the requests exceeds\n" + survival_table(series))
    panels: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, values in series.items():
        mode, kind = name.split(", ")
        panels.setdefault(mode, {})[kind] = values
    title = f"{options.rate:,} requests a second, {options.nodes:,} nodes, {options.edges:,} edges"
    plot_survival(panels, title, options.plot)
    sizes = {one.name: one.median for one in measured if one.unit == "bytes"}
    if len(options.modes) == 2:
        ratio = sizes["unshared, indexes"] / sizes["shared, indexes"]
        print(f"\nindexes take {ratio:.2f} times as many bytes where nothing is shared")


if __name__ == "__main__":
    main()
