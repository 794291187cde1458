"""What the programs over collections share: graphs as inputs, steps, memory, profiles, distributions."""

import cProfile
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _common import timed
from _graphs import Edges
from numpy.typing import NDArray

import kpg
from kpg.runtime.operators.loop import Loop
from kpg.runtime.worker.worker import Worker

PROFILED = 15
BUCKETS = 16
"""Buckets of a histogram for each doubling."""


def loaded(flow: kpg.Dataflow, name: str, **columns: NDArray[np.int64]) -> kpg.Input:
    """An input of BIGINT columns with rows at its first time, which no step has taken."""
    given = flow.input(name, **dict.fromkeys(columns, int))
    given.insert_columns(columns)
    return given


def graph_input(flow: kpg.Dataflow, edges: Edges, name: str = "edges") -> kpg.Input:
    """The edges as an input."""
    return loaded(flow, name, src=edges[0], dst=edges[1])


def step(flow: kpg.Dataflow, *inputs: kpg.Input) -> float:
    """Advance the inputs by one and take the step; its seconds."""
    later = max(one.time for one in inputs) + 1
    for one in inputs:
        one.advance_to(later)
    return timed(flow.step)


def worker_of(database: kpg.Database) -> Worker:
    """The worker inside."""
    return database._engine.executor


def rows_of(probe: kpg.Probe) -> int:
    """The number of distinct rows of a probed collection that an operator holds as a set."""
    assert probe.installation is not None
    return probe.installation.output.size()


def resident() -> int:
    """Bytes of memory that the process has now."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4096


def state_bytes(database: kpg.Database) -> int:
    """Bytes of all operators' state; those inside of loops are part of the loop's."""
    inside = {id(inner) for one in _operators(database) if isinstance(one, Loop) for inner in one.body}
    return sum(one.bytes for one in _operators(database) if id(one) not in inside)


def _operators(database: kpg.Database) -> list[Any]:
    return list(dict.fromkeys(worker_of(database).all_operators()))


def profiled(work: Callable[[], object], database: kpg.Database) -> None:
    """Run under Python's profiler; print functions by their own time, and operators."""
    plain = Loop.flush
    Loop.flush = _timed_flush  # type: ignore[method-assign]
    profile = cProfile.Profile()
    try:
        profile.runcall(work)
    finally:
        Loop.flush = plain  # type: ignore[method-assign]
    entries = sorted(profile.getstats(), key=lambda entry: -entry.inlinetime)
    total = sum(entry.inlinetime for entry in entries)
    for entry in entries[:PROFILED]:
        where = entry.code
        name = where if isinstance(where, str) else f"{Path(where.co_filename).stem}.{where.co_qualname}"
        share = f"{entry.inlinetime:8.3f} s {100 * entry.inlinetime / total:5.1f}%"
        print(f"{share} {entry.totaltime:8.3f} s with callees {entry.callcount:>9,} calls  {name}")
    print_operators(database)


def _timed_flush(loop: Loop) -> None:
    """``Loop.flush`` that notes the seconds of the operators inside."""
    clock = time.perf_counter
    for round_ in loop.body_scope.iterate_rounds(loop.step):
        while (operator := round_.next()) is not None:
            loop.touched_operators[operator] = None
            start = clock()
            operator.flush()
            operator.counters.seconds += clock() - start


def print_operators(database: kpg.Database) -> None:
    """The operators by seconds of their flushes, and what they hold."""
    for one in sorted(worker_of(database).operators(), key=lambda one: -one.seconds)[:PROFILED]:
        flow = f"{one.updates_in:>12,} in {one.updates_out:>12,} out {one.rows:>12,} held"
        print(f"{one.seconds:8.3f} s {flow}  {one.position:>3} {one.description} <- {one.inputs}")


def note(text: str) -> None:
    """Progress, on the error stream."""
    print(text, file=sys.stderr, flush=True)


def quantiles(seconds: Sequence[float] | NDArray[np.float64]) -> dict[str, float]:
    """Median, 95, 99, 99.9 percent and the most."""
    points = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
    found = np.quantile(np.asarray(seconds, np.float64), list(points.values()), method="higher")
    return dict(zip(points, found.tolist(), strict=True))


def survival(seconds: Iterable[float]) -> list[tuple[float, float]]:
    """The complementary distribution: for rising x, the share of values above x; logarithmic buckets."""
    values = np.sort(np.fromiter(seconds, np.float64))
    if not values.shape[0]:
        return []
    first, last = np.log2(max(float(values[0]), 1e-7)), np.log2(max(float(values[-1]), 1e-7))
    edges = 2.0 ** (np.arange(np.floor(first * BUCKETS), np.ceil(last * BUCKETS) + 1) / BUCKETS)
    above = values.shape[0] - np.searchsorted(values, edges, "right")
    return [(float(x), int(n) / values.shape[0]) for x, n in zip(edges, above, strict=True)]


def survival_table(series: Mapping[str, Sequence[float] | NDArray[np.float64]]) -> str:
    """The latency, in ms, that so large a share of each series exceeds."""
    shares = (0.5, 0.1, 0.05, 0.01, 0.001, 0.0001)
    lines = [" ".join(["share above".ljust(28), *(f"{share:>10g}" for share in shares), "      most"])]
    for name, values in series.items():
        array = np.asarray(values, np.float64) * 1000
        cells = [f"{np.quantile(array, 1 - share, method='higher'):10.3f}" for share in shares]
        lines.append(" ".join([name.ljust(28), *cells, f"{array.max():10.3f}"]))
    return "\n".join(lines)
