"""Two workers beside one: `python benchmarks/workers.py [rows]`.

Each workload is run by both, by turns; printed are seconds, their ratio, and the processor time of each
worker. Where other programs use the machine, the ratio of one worker's processor time to the most of the
others' is what their work would come to on cores of their own.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import kpg

WORKERS = 2


def cpu(db: Any) -> list[float]:
    return [row[3] / 1e6 for row in db.workers().fetchall()]


def groups(db: Any, rows: int) -> Callable[[int], None]:
    """Sums by group over a table that grows."""
    db.sql("create table t(k bigint primary key, g int, h int, v int)")
    db.sql("create materialized view a as select g, sum(v) as s, count(*) as n from t group by g")
    db.sql("create materialized view b as select h, sum(v * 3) as s, max(v) as m from t group by h")

    def step(number: int) -> None:
        first = number * rows
        db.sql(
            "insert into t select i, i % 100, i % 50021, i % 977"
            f" from generate_series({first}, {first + rows - 1}) i(i)"
        )

    return step


def joins(db: Any, rows: int) -> Callable[[int], None]:
    """Orders with their customers, by the customers' kinds."""
    db.sql("create table c(k int primary key, kind int)")
    db.sql("create table o(k bigint primary key, c int, v int)")
    db.sql(
        "create materialized view s as select c.kind, o.c % 1000 as part, sum(o.v) as v"
        " from o join c on o.c = c.k group by 1, 2"
    )
    db.sql("insert into c select i, i % 20 from generate_series(0, 19999) i(i)")

    def step(number: int) -> None:
        first = number * rows
        db.sql(
            "insert into o select i, i * 7919 % 20000, i % 10"
            f" from generate_series({first}, {first + rows - 1}) i(i)"
        )

    return step


def closure(db: Any, rows: int) -> Callable[[int], None]:
    """Transitive closure of random edges."""
    db.sql("create table e(x int, y int, primary key (x, y))")
    db.sql(
        "create materialized view p as with recursive p(x, y) as"
        " (select x, y from e union select p.x, e.y from p join e on p.y = e.x) select * from p"
    )

    def step(number: int) -> None:
        db.sql(
            f"insert into e select i * 7907 % 700, (i * 104729 + {number}) % 700"
            f" from generate_series({number * 400}, {number * 400 + 399}) i(i) on conflict do nothing"
        )

    return step


def measure(make: Callable[[Any, int], Callable[[int], None]], rows: int, steps: int) -> None:
    databases = [kpg.connect(), kpg.connect(workers=WORKERS)]
    runs = [make(db, rows) for db in databases]
    seconds = [0.0, 0.0]
    for step in runs:
        step(0)
    before = [cpu(db) for db in databases]
    for number in range(1, steps + 1):
        for which, step in enumerate(runs):
            start = time.perf_counter()
            step(number)
            seconds[which] += time.perf_counter() - start
    used = [
        [after - start for after, start in zip(cpu(db), each, strict=True)]
        for db, each in zip(databases, before, strict=True)
    ]
    for db in databases:
        db.close()
    shown = ", ".join(f"{one:.2f}" for one in used[1])
    print(
        f"{make.__name__:8} one worker {seconds[0]:.2f} s (cpu {used[0][0]:.2f}),"
        f" {WORKERS} workers {seconds[1]:.2f} s (cpu {shown}):"
        f" {seconds[0] / seconds[1]:.2f} times; by cpu {used[0][0] / max(used[1]):.2f} times"
    )


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for make in (groups, joins, closure):
        measure(make, rows, 4)


if __name__ == "__main__":
    main()
