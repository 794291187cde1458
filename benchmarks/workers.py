"""Two workers beside one, as a table: `python benchmarks/workers.py --scale 1`.

Each workload is run by one worker and by several, by turns. Printed are seconds, their ratio, and processor
time: that of the one worker, of the busiest of the several, and of their coordinator. Where other programs
use the machine, the ratio of processor times is what the work would come to on cores of their own: time that
is spent waiting for others is not in it. `--workloads streams refresh tc-grid` runs some of them only.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from _crew_loads import (
    CLOSURE,
    COMPONENTS,
    GENERATIONS,
    REACHED,
    Step,
    indexing,
    recursion,
    refresh,
    stream,
    strong_components,
    with_data,
)
from _graphs import gnp, grid
from _tpch import Encoded, add_arguments, folder

import kpg
from kpg.tpch.data import TABLES


@dataclass(frozen=True, slots=True)
class Used:
    """What a run took: seconds, the processor time of each worker, and of the coordinator."""

    seconds: float
    workers: Sequence[float]
    here: float

    @property
    def busiest(self) -> float:
        return max(self.workers)


def processor(db: Any) -> list[float]:
    return [row[3] / 1e6 for row in db.workers().fetchall()]


def measured(db: Any, steps: Iterator[Step]) -> Used:
    """The steps after the first third, in which processes load what they call."""
    listed = list(steps)
    warm = max(1, len(listed) // 3)
    for step in listed[:warm]:
        step()
    before, here, start = processor(db), time.process_time(), time.perf_counter()
    for step in listed[warm:]:
        step()
    seconds, here = time.perf_counter() - start, time.process_time() - here
    return Used(seconds, [after - one for after, one in zip(processor(db), before, strict=True)], here)


def one_row(db: Any) -> Iterator[Step]:
    """Commits of one row, into a sum over a join."""
    db.sql("create table c(k int primary key, kind int); create table o(k int primary key, c int, v int)")
    db.sql("insert into c select i, i % 20 from generate_series(0, 19999) i(i)")
    db.sql("create materialized view s as select c.kind, sum(o.v) as v from o join c on o.c = c.k group by 1")
    for number in range(400):
        yield lambda number=number: db.sql("insert into o values ($1, $2, 3)", (number, number))  # type: ignore[misc]


# Running them


def database(count: int, data: Encoded | None = None) -> Any:
    db = kpg.connect(workers=count)
    if data is not None:
        with_data(db, data)
    return db


def compare(
    name: str, steps: Callable[[Any], Iterator[Step]], count: int, data: Encoded | None = None
) -> float:
    """Print a line; the ratio by processor time."""
    found = []
    for workers in (1, count):
        with database(workers, data) as db:
            found.append(measured(db, steps(db)))
    one, many = found
    ratio = one.busiest / many.busiest
    print(
        f"{name:12} one worker {one.seconds:7.2f} s (cpu {one.busiest:7.2f}), {count} workers"
        f" {many.seconds:7.2f} s (cpu {', '.join(f'{each:.2f}' for each in many.workers)};"
        f" coordinator {many.here:.2f}): {one.seconds / many.seconds:.2f} times; by cpu {ratio:.2f} times",
        flush=True,
    )
    return ratio


def row_latency(count: int) -> None:
    for workers in (1, count):
        with database(workers) as db:
            steps, times = one_row(db), list[float]()
            for step in steps:
                start = time.perf_counter()
                step()
                times.append(time.perf_counter() - start)
        times = sorted(times[100:])
        print(
            f"one row      {workers} worker{'s' * (workers > 1)}: p50 {1e3 * times[len(times) // 2]:.2f} ms"
        )


def tpch(options: argparse.Namespace, names: Sequence[str]) -> None:
    path = folder(options)
    whole = Encoded.of(path, TABLES)
    if "streams" in names:
        ratios = []
        for number in options.queries:
            data = whole.used_by(number, all_columns=False, keys=True)
            steps = lambda db, data=data, number=number: stream(data, number, options.step, db)  # noqa: E731
            ratios.append(compare(f"stream q{number}", steps, options.workers, data))
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"streams      geometric mean {mean:.2f} times, least {min(ratios):.2f}")
    if "refresh" in names:
        compare("refresh", lambda db: refresh(whole, path, options.queries, db), options.workers, whole)


def main() -> None:
    recursions = {
        "sg-grid": (lambda size: grid(size), GENERATIONS, 150),
        "tc-grid": (lambda size: grid(size), CLOSURE, 100),
        "tc-random": (lambda size: gnp(size, 10 * size), CLOSURE, 3000),
        "reach": (lambda size: gnp(size // 10, size), REACHED, 10_000_000),
        "wcc": (lambda size: gnp(size // 10, size), COMPONENTS, 100_000),
    }
    known = ("streams", "refresh", *recursions, "scc", "index", "one-row")
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, 0.1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--step", type=int, default=100_000, help="tuples a step of a stream")
    parser.add_argument("--workloads", nargs="+", choices=known, default=known)
    parser.add_argument("--small", type=int, default=1, help="graphs are so many times smaller")
    options = parser.parse_args()
    if {"streams", "refresh"} & set(options.workloads):
        tpch(options, options.workloads)
    for name, (edges, view, size) in recursions.items():
        if name in options.workloads:
            made = edges(size // options.small)
            compare(name, lambda db, made=made, view=view: recursion(made, view, db), options.workers)  # type: ignore[misc]
    if "scc" in options.workloads:
        made = gnp(10_000 // options.small, 100_185 // options.small)
        compare("scc", lambda db: strong_components(made, db), options.workers)
    if "index" in options.workloads:
        made = gnp(1_000_000 // options.small, 10_000_000 // options.small)
        compare("index", lambda db: indexing(made, db), options.workers)
    if "one-row" in options.workloads:
        row_latency(options.workers)


if __name__ == "__main__":
    main()
