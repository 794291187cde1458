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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _flows import graph_input
from _flows import step as taken
from _graphs import Edges, gnp, grid
from _stream import arrived
from _tpch import Encoded, add_arguments, folder, install, worker_of

import kpg
from kpg import graph
from kpg.tpch.engine import apply
from kpg.tpch.refresh import RefreshStream
from kpg.tpch.schema import TABLES

Step = Callable[[], object]
CLOSURE = (
    "create materialized view p as with recursive p(x, y) as"
    " (select x, y from e union select p.x, e.y from p join e on p.y = e.x) select * from p"
)
GENERATIONS = (
    "create materialized view p as with recursive p(x, y) as"
    " (select a.y, b.y from e a join e b on a.x = b.x union"
    " select a.y, b.y from e a join p on a.x = p.x join e b on p.y = b.x) select * from p"
)
REACHED = (
    "create materialized view p as with recursive p(x) as"
    " (select 0::bigint union select e.y from p join e on p.x = e.x) select * from p"
)
COMPONENTS = (
    "create materialized view p as with recursive p(x, c) as"
    " (select x, x from n union select e.y, p.c from p join e on p.x = e.x)"
    " select x, min(c) from p group by x"
)


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


# Workloads: a database with views, and the steps to take


def stream(data: Encoded, number: int, rows: int, db: Any) -> Iterator[Step]:
    """All rows of the tables of a query, round-robin, so many a step."""
    install(db, number)
    worker = worker_of(db)
    counts = [words.shape[1] for words in data.words.values()]
    before = [0] * len(counts)
    for end in [*range(rows, sum(counts), rows), sum(counts)]:
        now = arrived(counts, end)

        def step(before: Sequence[int] = before, now: Sequence[int] = now) -> None:
            for (table, words), first, last in zip(data.words.items(), before, now, strict=True):
                if last > first:
                    worker.insert(table, np.ascontiguousarray(words[:, first:last]))
            worker.step()

        yield step
        before = now


def refresh(data: Encoded, path: Path, queries: Sequence[int], db: Any) -> Iterator[Step]:
    """All views together, of refreshes of 0.1 % of the orders."""
    worker = worker_of(db)
    for table, words in data.words.items():
        worker.insert(table, words)
    worker.step()
    for number in queries:
        install(db, number)
    orders = max(1, data.words["orders"].shape[1] // 1000)
    refreshes = RefreshStream(path, seed=7, orders=orders)
    for _ in range(5):
        batch = refreshes.next_batch()
        yield lambda batch=batch: apply(db, batch)  # type: ignore[misc]


def recursion(edges: Edges, view: str, db: Any) -> Iterator[Step]:
    """A recursive view over a few edges, to which the others come."""
    db.sql("create table e(x bigint, y bigint); create table n(x bigint)")
    worker = worker_of(db)
    worker.insert("n", np.unique(edges)[None, :])
    worker.insert("e", np.ascontiguousarray(edges[:, :50]))
    worker.step()
    db.sql(view)

    def step(first: int, last: int) -> None:
        worker.insert("e", np.ascontiguousarray(edges[:, first:last]))
        worker.step()

    yield partial(step, 50, 100)
    yield partial(step, 100, edges.shape[1])


def strong_components(edges: Edges, db: Any) -> Iterator[Step]:
    """Edges that come to a dataflow of their strongly connected components, a doubly nested loop."""
    flow = db.dataflow("components")
    given = graph_input(flow, edges[:, :50])
    graph.strongly_connected_components(given.arrange_by_key("src", "dst")).probe()
    yield lambda: taken(flow, given)

    def rest() -> None:
        given.insert_columns({"src": edges[0, 50:], "dst": edges[1, 50:]})
        taken(flow, given)

    yield rest


def indexing(edges: Edges, db: Any) -> Iterator[Step]:
    """Edges that come to a view that indexes them both ways."""
    db.sql("create table e(x bigint, y bigint)")
    db.sql("create materialized view p as select count(*) from e a join e b on a.y = b.x where a.x = -1")
    worker = worker_of(db)

    def step(first: int, last: int) -> None:
        worker.insert("e", np.ascontiguousarray(edges[:, first:last]))
        worker.step()

    yield partial(step, 0, 1000)
    yield partial(step, 1000, edges.shape[1])


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
        # Every database has the strings of the data, so that their codes are words of it.
        db._engine.executor.dictionary.restore(*data.dictionary.parts(np.arange(len(data.dictionary))))
        for table, schema in data.schemas.items():
            db._engine.create_table(table, schema)
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
