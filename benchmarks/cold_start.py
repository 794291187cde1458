"""The first seconds with kpg: import, connect and a small query, in fresh processes.

    python benchmarks/cold_start.py --json cold_start.json

In a checkout, ``first`` starts with an empty cache of compiled kernels, ``second`` with the cache that the
first left; both write bytecode where there is none, whatever PYTHONDONTWRITEBYTECODE says.
Times within the process are its own; ``process`` is from outside, the interpreter's start and end included.
"""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from _common import Measurement, arguments, report, timed

STAGES = ("import", "connect", "table", "view", "insert", "query")
PROGRAM = """
import time
clock, marks = time.perf_counter, [time.perf_counter()]
import kpg
marks.append(clock())
db = kpg.connect()
marks.append(clock())
db.sql("create table sales (id int primary key, region text, amount decimal(10, 2))")
db.insert("sales", [(1, "north", 10), (2, "south", 20), (3, "north", 30)])
marks.append(clock())
db.sql("create materialized view totals as select region, sum(amount) as total from sales group by region")
marks.append(clock())
db.insert("sales", [(4, "south", 5)])
assert len(db.view("totals").fetchall()) == 2
marks.append(clock())
db.sql("select a.region, count(*) from sales a join sales b using (region) group by a.region").fetchall()
marks.append(clock())
print(*(after - before for before, after in zip(marks, marks[1:])))
"""


def environment(cache: Path) -> dict[str, str]:
    """That of a start with the kernels of ``cache``."""
    return {**os.environ, "KPG_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": ""}


def start(cache: Path) -> dict[str, float]:
    """Run the program with the kernels of ``cache``; the seconds of its stages and of the process."""
    output: list[str] = []

    def work() -> None:
        command = [sys.executable, "-c", PROGRAM]
        output.append(
            subprocess.run(command, env=environment(cache), check=True, capture_output=True, text=True).stdout
        )

    process = timed(work)
    stages = dict(zip(STAGES, map(float, output[0].split()), strict=True))
    return {**stages, "all stages": sum(stages.values()), "process": process}


def help_text(cache: Path) -> None:
    """``kpg --help``."""
    command = [sys.executable, "-m", "kpg", "--help"]
    subprocess.run(command, env=environment(cache), check=True, capture_output=True)


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    first, second, helps = [], [], []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="kernels-") as name:
            first.append(start(Path(name)))
            second.append(start(Path(name)))
            helps.append(timed(partial(help_text, Path(name))))
    measured = [
        Measurement(f"{kind}: {stage}", "s", tuple(run[stage] for run in runs))
        for kind, runs in (("first", first), ("second", second))
        for stage in first[0]
    ]
    measured.append(Measurement("kpg --help", "s", tuple(helps)))
    report("cold start", measured, options.json)


if __name__ == "__main__":
    main()
