"""All queries in one engine against each in an engine of its own.

    python benchmarks/sharing.py --scale 0.1 --json sharing.json

Install: time of each query in its own engine, as the next one in the shared engine, and again in the
shared engine after it was dropped while the others were there (parsing and planning included, as in the
others). Bytes: row store, and arrangements with all other operator state; the memory of the process is
measured in processes of their own. Refresh: one transaction of ``--orders`` orders out and in.
"""

import gc
import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from _common import Measurement, arguments, report, timed
from _tpch import Encoded, add_arguments, folder, install, worker_of

from kpg import Database
from kpg.tpch.data import TABLES
from kpg.tpch.job import apply_batch
from kpg.tpch.refresh import RefreshStream


@dataclass(frozen=True, slots=True)
class Task:
    """What a process is to measure: these queries in one engine."""

    path: Path
    queries: tuple[int, ...]
    orders: int
    runs: int
    again: bool


@dataclass(slots=True)
class Engine:
    """One engine's figures. Lists are by query, in the order of installation; bytes are live ones."""

    installs: list[float]
    again: list[list[float]]
    added_bytes: list[int]
    row_store: int
    state: int
    resident: int
    refreshes: list[float]


def run(task: Task) -> Engine:
    """Fill an engine, install the queries, drop each and install it again, and refresh."""
    data = Encoded.of(task.path, TABLES)
    stream = RefreshStream(task.path, seed=5, orders=task.orders)
    batches = [stream.next_batch() for _ in range(task.runs + 1)]
    empty = resident()
    database = data.database()
    installs, added = [], []
    for number in task.queries:
        before = state_bytes(database)
        installs.append(timed(partial(install, database, number)))
        added.append(state_bytes(database) - before)
    memory = resident() - empty
    again = [reinstall(database, number, task.runs) for number in task.queries] if task.again else []
    tables = sum(table.bytes for table in worker_of(database).tables.by_name.values())
    state = state_bytes(database)
    refreshes = [timed(partial(apply_batch, database, batch)) for batch in batches]
    return Engine(installs, again, added, tables, state, memory, refreshes[1:])


def reinstall(database: Database, number: int, runs: int) -> list[float]:
    """Seconds to install a query again, its operators that nobody shares having been freed."""
    seconds = []
    for _ in range(runs):
        database.sql(f"drop materialized view q{number}")
        seconds.append(timed(partial(install, database, number)))
    return seconds


def state_bytes(database: Database) -> int:
    """Bytes of the state of all operators, those of arrangements included."""
    return sum(one.bytes for one in worker_of(database).operators())


def resident() -> int:
    """Resident memory of this process, in bytes."""
    gc.collect()
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    return 0


def in_own_process(task: Task) -> Engine:
    """As :func:`run`, where nothing else was allocated before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run, (task,))


def compare(shared: Engine, separate: Sequence[Engine], queries: Sequence[int]) -> list[Measurement]:
    """One measurement for each total, and three for each query."""
    rows = [
        Measurement(
            "row store", "bytes", (shared.row_store,), {"separate": sum(e.row_store for e in separate)}
        ),
        Measurement("operator state", "bytes", (shared.state,), {"separate": sum(e.state for e in separate)}),
        Measurement(
            "resident memory", "bytes", (shared.resident,), {"separate": sum(e.resident for e in separate)}
        ),
        Measurement(
            "install all", "s", (sum(shared.installs),), {"separate": sum(e.installs[0] for e in separate)}
        ),
        Measurement(
            "refresh all",
            "s",
            tuple(shared.refreshes),
            {"separate": sum(sorted(e.refreshes)[len(e.refreshes) // 2] for e in separate)},
        ),
    ]
    for i, number in enumerate(queries):
        alone = {"separate": separate[i].installs[0]}
        rows.append(Measurement(f"install q{number} as the next", "s", (shared.installs[i],), alone))
        rows.append(Measurement(f"install q{number} again", "s", tuple(shared.again[i]), alone))
        rows.append(
            Measurement(
                f"state q{number} adds", "bytes", (shared.added_bytes[i],), {"separate": separate[i].state}
            )
        )
    return rows


def main() -> None:
    parser = arguments(__doc__ or "")
    add_arguments(parser, 0.1)
    parser.add_argument("--orders", type=int, default=150, help="orders that leave and enter in a refresh")
    options = parser.parse_args()
    path = folder(options)
    shared = in_own_process(Task(path, options.queries, options.orders, options.runs, True))
    separate = []
    for number in options.queries:
        separate.append(in_own_process(Task(path, (number,), options.orders, options.runs, False)))
        print(f"q{number} alone: install {separate[-1].installs[0]:.3f} s", file=sys.stderr)
    title = (
        f"sharing, scale factor {options.scale:g}: {len(options.queries)} queries in one engine or in as many"
    )
    report(title, compare(shared, separate, options.queries), options.json)


if __name__ == "__main__":
    main()
