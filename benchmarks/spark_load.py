"""The eight TPC-H tables through Spark: rows a second once it is up, and whose processor time that takes.

    python benchmarks/spark_load.py --scale 1 --runs 2 --json spark_load.json

Spark is up when its session answers and its processes for tasks have started; how long that takes is told,
too. Processor time is that of this process, which encodes and stores rows, of the tasks, which read the
files, and of the JVM. Linux only. Every run starts Spark anew and loads into a new database.
"""

import os
import sys
import time
from collections import Counter
from pathlib import Path

from _common import Measurement, arguments, report
from _tpch import add_arguments, folder

from kpg import connect
from kpg.runtime.spark.session import SessionWork, own_session
from kpg.tpch.data import TABLES, create_statements, table_path

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> Counter[str]:
    """Processor seconds of this process, ``self``, and of all that it started, by name."""
    processes = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = stat.read_text(encoding="utf-8").split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue  # it is gone
        parts = fields.split()
        processes[int(stat.parent.name)] = (int(parts[1]), name, (int(parts[11]) + int(parts[12])) / TICKS)
    seconds: Counter[str] = Counter()
    for process, (parent, name, spent) in processes.items():
        if process == os.getpid():
            seconds["self"] += spent
            continue
        while parent not in (0, os.getpid()):
            parent = processes[parent][0] if parent in processes else 0
        if parent:
            seconds[name] += spent
    return seconds


def load(data: Path) -> dict[str, float]:
    """One load: seconds until Spark is up, and of the load; rows a second; processor seconds by process."""
    db = connect()
    for statement in create_statements().values():
        db.sql(statement)
    paths = {table: str(table_path(data, table)) for table in TABLES}
    start = time.perf_counter()
    with own_session(SessionWork.READING) as own:
        own.get()
        own.wait_for_readers()
        up, before = time.perf_counter(), processor_seconds()
        rows = sum(db.load_all(paths, mode="spark").values())
        loaded, after = time.perf_counter(), processor_seconds()
    spent = after - before
    tasks = spent.total() - spent["self"] - spent["java"]
    return {
        "start": up - start,
        "load": loaded - up,
        "rows": rows / (loaded - up),
        "this process": spent["self"],
        "tasks": tasks,
        "JVM": spent["java"],
    }


def main() -> None:
    parser = arguments(__doc__ or "")
    add_arguments(parser, 1)
    options = parser.parse_args()
    data = folder(options)
    runs = [load(data) for _ in range(options.runs)]
    for run in runs:
        print({name: round(value, 2) for name, value in run.items()}, file=sys.stderr)
    units = {"rows": "rows/s"}
    measured = [Measurement(name, units.get(name, "s"), tuple(run[name] for run in runs)) for name in runs[0]]
    report(f"TPC-H through Spark, scale factor {options.scale:g}", measured, options.json)


if __name__ == "__main__":
    main()
