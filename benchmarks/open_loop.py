"""Open loop: keys arranged and probed while requests come at a given rate, whether the last are done or not.

    python benchmarks/open_loop.py --keys 10000000 --rates 100000 500000 1000000 --efforts eager default lazy

K-Pg's Figures 6a and 6e. A request inserts a random key and removes the one inserted earliest, two updates
at a time of their own. Its latency is from when it was due, not from when it was taken (nothing is omitted
because the system was busy), until the probe tells that it is complete; counted in the second half of the
run. A step takes all requests that are due. ``--count`` keeps the number of each key besides. Merge effort
is that of ``kpg.connect``.
"""

import argparse
import gc
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _common import Measurement, arguments, keep_memory, report
from _flows import loaded, note, quantiles, resident, step, survival, survival_table
from _plot import plot_survival
from numpy.typing import NDArray

import kpg

EFFORTS = ("eager", "default", "lazy")
AIM_RATE, AIM = 1_000_000, 1.0
PATIENCE = 3.0
"""Times the run's length after which a rate that is too high is given up."""

Words = NDArray[np.int64]


@dataclass(slots=True)
class Arranged:
    """The collection, and the keys of all requests that are to come."""

    flow: kpg.Dataflow
    given: kpg.Input
    probe: kpg.Probe
    keys: Words
    size: int
    next: int = 0

    def take(self, count: int) -> None:
        """The next ``count`` requests, each at a time of its own."""
        first, given = self.next, self.given
        self.next += count
        times = np.arange(given.time, given.time + count, dtype=np.int64)
        both = np.concatenate(
            (self.keys[first + self.size : self.next + self.size], self.keys[first : self.next])
        )
        diffs = np.ones(2 * count, np.int64)
        diffs[count:] = -1
        given.insert_columns([both], diffs, np.concatenate((times, times)))
        given.advance_to(given.time + count)
        self.flow.step()
        if self.probe.less_than(given.time):
            raise SystemExit("a step left something undone")


def prepared(keys: int, requests: int, effort: str, *, count: bool) -> tuple[kpg.Database, Arranged]:
    """A database with so many random keys, arranged."""
    database = kpg.connect(merge_effort=effort)
    flow = database.dataflow("open loop")
    order = np.random.default_rng(1).integers(0, keys, keys + requests).astype(np.int64)
    given = loaded(flow, "keys", key=order[:keys])
    arranged = given.arrange_by_key("key")
    probe = (arranged.count("key") if count else arranged).probe()
    seconds = step(flow, given)
    note(f"{keys:,} keys loaded in {seconds:.2f} s, resident {resident() / 2**20:,.0f} MB")
    return database, Arranged(flow, given, probe, order, keys)


def run(arranged: Arranged, rate: int, seconds: float) -> tuple[NDArray[np.float64], float]:
    """Latencies of the requests of the second half, and the updates a second that were really done."""
    total = int(rate // 2 * seconds)
    due = np.arange(total, dtype=np.float64) / (rate / 2)
    done = 0
    latencies = np.empty(total, np.float64)
    clock = time.perf_counter
    start = clock()
    while done < total:
        now = clock() - start
        ready = total if now >= due[-1] else int(now * (rate / 2)) + 1
        if ready <= done:
            continue
        if now > PATIENCE * seconds:
            break
        arranged.take(ready - done)
        latencies[done:ready] = clock() - start - due[done:ready]
        done = ready
    elapsed = clock() - start
    return latencies[done // 2 : done], 2 * done / elapsed


def measure(options: argparse.Namespace) -> tuple[list[Measurement], dict[str, NDArray[np.float64]]]:
    """Each effort at each rate."""
    measured: list[Measurement] = []
    series: dict[str, NDArray[np.float64]] = {}
    requests = int(sum(rate // 2 * options.seconds for rate in options.rates)) + 10_000
    for name in options.efforts:
        database, arranged = prepared(options.keys, requests, name, count=options.count)
        for _ in range(100):
            arranged.take(10)
        for rate in options.rates:
            gc.collect()
            latencies, reached = run(arranged, rate, options.seconds)
            title = f"{name}, {rate:,} updates/s"
            found = quantiles(latencies)
            note(f"{title}: {reached:,.0f} done a second, p50 {found['p50']:.4f} s, p99 {found['p99']:.4f} s")
            series[title] = latencies
            details = {"done_per_second": reached, "survival": survival(latencies), **found}
            aim = {"aim": AIM} if rate == AIM_RATE and options.keys == 10**7 else {}
            measured.append(Measurement(f"p99, {title}", "s", (found["p99"],), aim, details))
        database.close()
    return measured, series


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument(
        "--rates", type=int, nargs="+", default=[10_000, 100_000, 250_000, 500_000, 1_000_000]
    )
    parser.add_argument("--efforts", nargs="+", choices=EFFORTS, default=EFFORTS)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the run at each rate")
    parser.add_argument("--count", action="store_true", help="keep the number of each key besides")
    parser.add_argument("--plot", type=Path, help="file for a plot of the distributions, in SVG")
    options = parser.parse_args()
    keep_memory()
    measured, series = measure(options)
    report(f"open loop on {options.keys:,} keys", measured, options.json)
    print("\nlatency in ms that so large a share of the requests exceeds\n" + survival_table(series))
    panels: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, latencies in series.items():
        effort, rate = name.split(", ")
        panels.setdefault(f"merging {effort}", {})[rate] = latencies
    plot_survival(panels, f"open loop, {options.keys:,} keys", options.plot)


if __name__ == "__main__":
    main()
