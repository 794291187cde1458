"""The eight TPC-H tables through Spark into one worker and into several on its session, by turns.

    python benchmarks/spark_workers.py --scale 1 --workers 2 --runs 2 --keys
    python benchmarks/spark_workers.py --scale 1 --runs 1 --durable

One session of as many slots as there are cores and workers. ``--keys`` has the tables refer to each other as
the specification of TPC-H says; with ``--durable`` databases are in folders, of which is told what they have,
and what opening them again costs by as many workers, and by one. Told are seconds by the clock, and of
processor time: of this process, of the busiest worker, of all workers, of Spark's other tasks and its JVM (of
tasks whose processes Spark ends meanwhile, after a minute without work, it is missing); and the most memory
that processes have had, this one since it began. Linux only.
"""

import os
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _common import Measurement, arguments, report
from _tpch import add_arguments, folder
from spark_load import TICKS, processor_seconds

import kpg
from kpg.runtime.spark import session
from kpg.tpch.data import TABLES, create_statements, table_path

REFERENCES = {
    "nation": ["n_regionkey references region"],
    "supplier": ["s_nationkey references nation"],
    "customer": ["c_nationkey references nation"],
    "partsupp": ["ps_partkey references part", "ps_suppkey references supplier"],
    "orders": ["o_custkey references customer"],
    "lineitem": ["l_orderkey references orders", "l_partkey, l_suppkey references partsupp"],
}


def of_process(process: int) -> float:
    """Processor seconds of one process."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def high_water(process: int) -> float:
    """The most memory that a process has had, in GB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1e6


def load(db: Any, data: Path, members: list[int], *, keys: bool) -> dict[str, float]:
    """One load into an empty database."""
    for statement in create_statements().values():
        db.sql(statement)
    for table, found in REFERENCES.items() if keys else ():
        for text in found:
            columns, _, target = text.partition(" references ")
            db.sql(f"alter table {table} add foreign key ({columns}) references {target}")
    paths = {table: str(table_path(data, table)) for table in TABLES}
    workers = [of_process(member) for member in members]
    before, start = processor_seconds(), time.perf_counter()
    rows = sum(db.load_all(paths, mode="spark").values())
    seconds = time.perf_counter() - start
    spent: Counter[str] = processor_seconds()
    spent.subtract(before)
    workers = [of_process(member) - one for member, one in zip(members, workers, strict=True)]
    return {
        "clock": seconds,
        "rows": rows / seconds,
        "this process": spent["self"],
        "busiest worker": max(workers, default=0.0),
        "workers": sum(workers),
        "tasks": sum(spent.values()) - spent["self"] - spent["java"] - sum(workers),
        "JVM": spent["java"],
        "all": sum(spent.values()),
        "memory of this process": high_water(os.getpid()),
        "memory of the workers": sum(map(high_water, members)),
    }


def process_seconds(members: list[int]) -> list[float]:
    """Processor seconds of this process, and of the busiest worker."""
    return [time.process_time(), max(map(of_process, members), default=0.0)]


def opened(path: Path, spark: Any, workers: int) -> dict[str, float]:
    """What it costs until a folder answers that was loaded into."""
    start, before = time.perf_counter(), time.process_time()
    how = {"workers": workers, "spark": spark} if workers > 1 else {}
    with kpg.connect(path, **how) as db:
        db.sql("select count(*), max(l_comment) from lineitem").fetchall()
        members = db._engine.executor.crew.processes if workers > 1 else []
        mine, busiest = process_seconds(members)
        return {
            f"opening by {workers}: clock": time.perf_counter() - start,
            f"opening by {workers}: this process": mine - before,
            f"opening by {workers}: busiest worker": busiest,
        }


def durable(data: Path, spark: Any, workers: int, *, keys: bool) -> dict[str, float]:
    """One load into an empty folder, which is opened again."""
    with TemporaryDirectory(prefix="kpg-spark-workers-") as path:
        how = {"workers": workers, "spark": spark} if workers > 1 else {}
        with kpg.connect(Path(path), **how) as db:
            members = db._engine.executor.crew.processes if workers > 1 else []
            found = load(db, data, members, keys=keys)
        found["bytes in the folder"] = sum(one.stat().st_blocks for one in Path(path).iterdir()) * 512 / 1e9
        for count in {workers, 1}:
            found |= opened(Path(path), spark, count)
        return found


def main() -> None:
    parser = arguments(__doc__ or "")
    add_arguments(parser, 1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keys", action="store_true", help="with foreign keys")
    parser.add_argument("--durable", action="store_true", help="in folders")
    options = parser.parse_args()
    data = folder(options)
    slots = options.workers + (os.cpu_count() or 1)
    session.SETTINGS["spark.master"] = f"local[{slots}]"
    session.SETTINGS["spark.driver.memory"] = "1g"
    runs: list[tuple[str, dict[str, float]]] = []
    with session.own_session(session.SessionWork.READING) as mine:
        spark = mine.get()
        mine.wait_for_readers()
        for _ in range(options.runs if options.durable else 0):
            for count in (1, options.workers):
                name = "one" if count == 1 else str(count)
                runs.append((name, durable(data, spark, count, keys=options.keys)))
        for _ in range(0 if options.durable else options.runs):
            with kpg.connect() as db:
                runs.append(("one", load(db, data, [], keys=options.keys)))
            with kpg.connect(spark=spark, workers=options.workers) as db:
                members = db._engine.executor.crew.processes
                runs.append((str(options.workers), load(db, data, members, keys=options.keys)))
    for workers, run in runs:
        print(workers, {name: round(value, 2) for name, value in run.items()}, file=sys.stderr)
    units = {"rows": "rows/s", "memory of this process": "GB", "memory of the workers": "GB"}
    units["bytes in the folder"] = "GB"
    measured = [
        Measurement(
            f"{workers}: {name}",
            units.get(name, "s"),
            tuple(r[name] for w, r in runs if w == workers and name in r),
        )
        for workers in ("one", str(options.workers))
        for name in next(run for label, run in runs if label == workers)
    ]
    report(f"TPC-H through Spark into workers, scale factor {options.scale:g}", measured, options.json)


if __name__ == "__main__":
    main()
