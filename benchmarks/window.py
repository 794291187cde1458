"""Reach from 10 roots in a random graph under a sliding window: an update removes an edge and adds one.

    python benchmarks/window.py --nodes 1000 --edges 2000 --marks 1000 10000 100000 1000000
    python benchmarks/window.py --nodes 1000000 --edges 2000000 --rates 1 100 --updates 10000

With ``--marks``: the latencies of the last 100 updates before each mark, and the memory there; all updates
are one to a step unless ``--stride`` has more of them, each at a time of its own, share a step far from the
marks. Without: updates a second, ``--rates`` of them to a step, each at a time of its own. The figures
beside are of the differential dataflow blog (10^6 nodes, batches of 1 and 100, one worker).
"""

import argparse
import gc
from collections.abc import Iterator

import numpy as np
from _common import Measurement, arguments, keep_memory, report, timed
from _flows import graph_input, loaded, note, profiled, quantiles, resident, state_bytes, step
from _graphs import Edges, uniform
from numpy.typing import NDArray

import kpg
from kpg import graph

ROOTS = 10
MEASURED = 100
CHUNK = 1 << 16
BLOG = {1: 1244.96, 100: 1563.32}
AIMS = {1: 1000.0, 100: 15000.0}


class Window:
    """A graph of which the oldest edge goes when a new one comes, and what it reaches."""

    def __init__(self, nodes: int, size: int, seed: int) -> None:
        self.nodes, self.size = nodes, size
        self.taken = 0
        self.database = kpg.connect()
        self.flow = self.database.dataflow("window")
        self._rng = np.random.default_rng(seed)
        self._queue, self._start = uniform(nodes, size, seed + 1), 0
        self.edges = graph_input(self.flow, self._queue)
        roots = loaded(self.flow, "roots", node=np.arange(ROOTS, dtype=np.int64))
        roots.close()
        self.probe = graph.reachability(self.edges, roots).probe()
        self.loading = step(self.flow, self.edges)

    def _next(self, count: int) -> tuple[Edges, Edges]:
        """The oldest ``count`` edges, and as many new ones."""
        if self._start + count + self.size > self._queue.shape[1]:
            more = self._rng.integers(0, self.nodes, (2, CHUNK + count)).astype(np.int64)
            self._queue = np.concatenate((self._queue[:, self._start :], more), axis=1)
            self._start = 0
        old, new = self._start, self._start + self.size
        self._start += count
        return self._queue[:, old : old + count], self._queue[:, new : new + count]

    def one(self) -> float:
        """One update in a step; its seconds."""
        old, new = self._next(1)
        gone, come = (int(old[0, 0]), int(old[1, 0])), (int(new[0, 0]), int(new[1, 0]))
        self.taken += 1
        return timed(lambda: self._take(gone, come))

    def _take(self, gone: tuple[int, int], come: tuple[int, int]) -> None:
        self.edges.remove(gone)
        self.edges.insert(come)
        self.edges.advance_to(self.edges.time + 1)
        self.flow.step()

    def many(self, count: int) -> float:
        """So many updates in a step, each at a time of its own; the seconds."""
        old, new = self._next(count)
        self.taken += count
        return timed(lambda: self._take_all(old, new))

    def _take_all(self, old: Edges, new: Edges) -> None:
        count = old.shape[1]
        first = self.edges.time
        times: NDArray[np.int64] = np.tile(np.arange(first, first + count, dtype=np.int64), 2)
        diffs = np.repeat(np.array([-1, 1], np.int64), count)
        both = np.concatenate((old, new), axis=1)
        self.edges.insert_columns({"src": both[0], "dst": both[1]}, diffs, times)
        self.edges.advance_to(first + count)
        self.flow.step()


def at_marks(window: Window, marks: list[int], stride: int) -> Iterator[Measurement]:
    """The last latencies before each mark, and the memory at it."""
    first = 0.0
    for mark in marks:
        while stride > 1 and window.taken + stride <= mark - 2 * MEASURED:
            window.many(stride)
        while window.taken < mark - MEASURED:
            window.one()
        seconds = [window.one() for _ in range(mark - window.taken)]
        first = first or float(np.median(seconds))
        state, memory = state_bytes(window.database), resident()
        details = {"state_bytes": state, "resident_bytes": memory, "updates": mark, **quantiles(seconds)}
        ratio = float(np.median(seconds)) / first
        note(f"after {mark:,}: p50 {1000 * details['p50']:.3f} ms, p99 {1000 * details['p99']:.3f} ms,"
             f" {ratio:.2f} of the first, state {state:,}, resident {memory:,}")  # fmt: skip
        yield Measurement(f"after {mark:,} updates", "s", tuple(seconds), {"first mark": first}, details)


def at_rate(window: Window, rate: int, options: argparse.Namespace) -> Measurement:
    """Updates a second, so many to a step."""
    values = []
    for _ in range(min(20, options.updates // rate)):
        window.one() if rate == 1 else window.many(rate)
    for _ in range(options.runs):
        gc.collect()
        count = max(1, options.updates // rate)
        seconds = [window.one() if rate == 1 else window.many(rate) for _ in range(count)]
        values.append(count * rate / sum(seconds))
        note(f"{rate} to a step: {values[-1]:,.0f} updates a second, {quantiles(seconds)}")
    if options.profile:
        profiled(
            lambda: [window.many(rate) for _ in range(max(1, options.updates // rate // 4))], window.database
        )
    full = (options.nodes, options.edges) == (10**6, 2 * 10**6)
    references = {"blog": BLOG[rate], "aim": AIMS[rate]} if full and rate in BLOG else {}
    details = {"loading_seconds": window.loading, "state_bytes": state_bytes(window.database)}
    return Measurement(f"{rate} to a step", "updates/s", tuple(values), references, details)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--edges", type=int, default=2000)
    parser.add_argument("--marks", type=int, nargs="*", default=[], help="updates after which to measure")
    parser.add_argument("--stride", type=int, default=1, help="updates to a step between the marks")
    parser.add_argument("--rates", type=int, nargs="*", default=[1, 100], help="updates to a step")
    parser.add_argument("--updates", type=int, default=10_000, help="updates in a run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="updates under the profiler, after each rate")
    options = parser.parse_args()
    keep_memory()
    warm = Window(100, 200, 1)
    warm.one(), warm.many(10)
    window = Window(options.nodes, options.edges, options.seed)
    note(f"{options.edges:,} edges in {window.loading:.2f} s")
    if options.marks:
        measured = list(at_marks(window, sorted(options.marks), options.stride))
    else:
        measured = [at_rate(window, rate, options) for rate in options.rates]
    title = f"reach from {ROOTS} of {options.nodes:,} nodes, a window of {options.edges:,} edges"
    report(title, measured, options.json)


if __name__ == "__main__":
    main()
