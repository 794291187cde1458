"""What more workers would bring than there are cores, as a projection: `python benchmarks/projection.py`.

Members run one at a time in this process, and each superstep's time is taken of each member alone. A step is
projected to take the slowest member's time of each superstep, the meetings between them on a network that is
stated, and the coordinator's own time. One worker is the engine as it is without others. Nothing here ran on
so many cores: caches are those of one core that all members use in turn, which is worse than what each would
have, and a real network has more to say than a latency and a bandwidth.
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from _clocked import Crew, Network, message_seconds, projected
from _crew_loads import CLOSURE, GENERATIONS, Step, recursion, refresh, stream, with_data
from _graphs import gnp, grid
from _plot import svg_plots
from _tpch import Encoded, add_arguments, folder

import kpg
from kpg.api.database import Database
from kpg.session.distribution import Workers
from kpg.tpch.data import TABLES

NETWORKS = {
    "machine": Network("one machine", 30e-6, 2.5e9, common=True),
    "network": Network("10 Gbit/s", 100e-6, 1.25e9, common=False),
}
"""One machine as ``benchmarks/lines.py`` measures it, and 10 Gbit/s with the latency of TCP within a rack."""
PUBLISHED = {
    "tc-grid": (132.23, 68.13, 34.42, 17.97, 9.74, 6.18),
    "tc-random": (210.25, 111.98, 57.69, 30.90, 16.66, 9.45),
    "sg-grid": (4.43, 2.76, 1.63, 1.06, 0.69, 0.60),
}
"""Seconds of K-Pg by 1, 2, 4, 8, 16, 32 workers (its paper, table 11: grid-150, gnp1, grid-150)."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is measured: a workload, and the data that it has."""

    name: str
    steps: Callable[[Any], Iterator[Step]]
    data: Encoded | None = None

    def listed(self, db: Any) -> tuple[list[Step], list[Step]]:
        """The steps that warm up, and those that count."""
        if self.data is not None:
            with_data(db, self.data)
        found = list(self.steps(db))
        warm = max(1, len(found) // 3)
        return found[:warm], found[warm:]


def alone(load: Load) -> float:
    """The seconds of processor time that one worker takes."""
    with kpg.connect() as db:
        warm, counted = load.listed(db)
        for step in warm:
            step()
        start = time.thread_time()
        for step in counted:
            step()
        return time.thread_time() - start


def together(load: Load, count: int, network: Network, message: float) -> tuple[float, float, float]:
    """What so many workers are projected to take: working, meeting, coordinator."""
    crew = Crew(count, common=network.common)
    with Database(workers=Workers(crew)) as db:
        warm, counted = load.listed(db)
        for step in warm:
            step()
        crew.ledger.clear()
        gc.collect()
        gc.disable()  # one member would look through the objects of all
        start = time.thread_time()
        for step in counted:
            step()
        seconds = time.thread_time() - start
        gc.enable()
        return projected(crew.ledger, seconds, network, message)


def project(load: Load, counts: Sequence[int], network: Network, message: float) -> list[float]:
    """Print a line for each number of workers; how many times as fast each is as one."""
    one = alone(load)
    print(f"{load.name}, {network.name}: one worker {one:.3f} s", flush=True)
    found = []
    for count in counts:
        parts = together(load, count, network, message)
        found.append(one / sum(parts))
        working, meeting, coordinator = parts
        print(
            f"  {count:3} workers {sum(parts):8.3f} s: working {working:.3f}, meeting {meeting:.3f},"
            f" coordinator {coordinator:.3f}; {found[-1]:.2f} times",
            flush=True,
        )
    return found


def loads(options: argparse.Namespace) -> Iterator[Load]:
    """Those that the options ask for."""
    small = options.small
    graphs = {
        "tc-grid": (lambda: grid(100 // small), CLOSURE),
        "sg-grid": (lambda: grid(150 // small), GENERATIONS),
        "tc-random": (lambda: gnp(3000 // small, 30_000 // small), CLOSURE),
    }
    for name, (edges, view) in graphs.items():
        if name in options.workloads:
            yield Load(name, partial(recursion, edges(), view))
    if {"refresh", "streams"} & set(options.workloads):
        path = folder(options)
        whole = Encoded.of(path, TABLES)
        if "refresh" in options.workloads:
            yield Load("refresh", partial(refresh, whole, path, options.queries), whole)
        if "streams" in options.workloads:
            for number in options.queries:
                data = whole.used_by(number, all_columns=False, keys=True)
                yield Load(f"stream q{number}", partial(stream, data, number, options.step), data)


def stated(options: argparse.Namespace) -> Network:
    """The network that the options tell of."""
    network = NETWORKS[options.on]
    if options.latency is not None:
        network = replace(network, name="as stated", latency=options.latency / 1e6)
    if options.bandwidth is not None:
        network = replace(network, name="as stated", bandwidth=options.bandwidth * 1e9)
    return network


def plot(lines: dict[str, dict[str, float]], path: Path | None) -> None:
    """Speedups over workers, both logarithmic, beside those that K-Pg published."""
    if path is None:
        return
    pyplot = svg_plots()
    counts = sorted({int(count) for line in lines.values() for count in line})
    figure, panel = pyplot.subplots(figsize=(6.4, 4.6))
    panel.plot(counts, counts, color="#cccccc", linewidth=1, label="as many times as workers")
    for number, (name, line) in enumerate(lines.items()):
        at = sorted(map(int, line))
        style = {"marker": "o", "markersize": 3, "color": f"C{number}"}
        panel.plot(at, [line[str(one)] for one in at], label=f"{name} (projection)", **style)
    for name, seconds in PUBLISHED.items():
        if name in lines:
            times = [seconds[0] / one for one in seconds]
            style = {"linestyle": "--", "linewidth": 1, "color": f"C{list(lines).index(name)}"}
            panel.plot([1, 2, 4, 8, 16, 32], times, label=f"{name}, K-Pg as published", **style)
    panel.set(xscale="log", yscale="log", xlabel="workers", ylabel="times as fast as one worker")
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.set_yticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    panel.minorticks_off()
    panel.grid(alpha=0.3)
    panel.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Project."""
    known = ("tc-grid", "sg-grid", "tc-random", "refresh", "streams")
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, 0.1)
    parser.add_argument("--counts", type=int, nargs="+", default=[2, 4, 8, 16, 32, 100])
    parser.add_argument("--workloads", nargs="+", choices=known, default=known)
    parser.add_argument("--on", choices=tuple(NETWORKS), default="machine")
    parser.add_argument("--step", type=int, default=1_000_000, help="tuples a step of a stream")
    parser.add_argument("--small", type=int, default=1, help="graphs are so many times smaller")
    parser.add_argument("--latency", type=float, metavar="US", help="of the network, in microseconds")
    parser.add_argument("--bandwidth", type=float, metavar="GB", help="of each worker, in gigabytes a second")
    parser.add_argument(
        "--results", type=Path, help="JSON to which what is found is added; all of it is drawn"
    )
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    message = statistics.median(message_seconds() for _ in range(5))
    network = stated(options)
    print(
        f"{network.name}: {1e6 * network.latency:.0f} us, {network.bandwidth / 1e9:.2f} GB/s for each worker;"
        f" {1e6 * message:.0f} us of processor time for a message sent and one taken"
    )
    found = json.loads(options.results.read_text()) if options.results and options.results.exists() else {}
    for load in loads(options):
        times = project(load, options.counts, network, message)
        found[load.name] = {"1": 1.0, **dict(zip(map(str, options.counts), times, strict=True))}
        if options.results is not None:
            options.results.write_text(json.dumps(found, indent=1))
    plot(found, options.plot)


if __name__ == "__main__":
    main()
