"""What a folder costs: commits of one row by mode, a stream of bulk commits, checkpoints, opening, memory.

    python benchmarks/durable.py --folder /var/tmp --rows 2000000 --commit 100000

The stream inserts lineitems, 16 columns that look like TPC-H's, into a table with a primary key and two views
over it (a group-by as Q1's and a filtered sum as Q6's), in memory and in a folder by mode; data are arrays in
memory before the clock starts. Modes take turns, and the best run of each counts.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kpg
from kpg import Database

Words = NDArray[np.int64]
MODES = ("memory", "off", "normal", "full")
TABLE = """
create table lineitem (orderkey bigint, line int, part bigint, supplier bigint, quantity decimal(12, 2),
    price decimal(12, 2), discount decimal(12, 2), tax decimal(12, 2), returnflag text, status text,
    shipped date, committed date, received date, instruct text, mode text, comment text,
    primary key (orderkey, line));
create materialized view q1 as select returnflag, status, sum(quantity) q, sum(price) p,
    sum(price * (1 - discount)) d, count(*) n from lineitem where shipped <= date '1998-09-02'
    group by returnflag, status;
create materialized view q6 as select sum(price * discount) r from lineitem
    where shipped >= date '1994-01-01' and shipped < date '1995-01-01' and discount between 0.05 and 0.07
    and quantity < 24;
"""


def chunks(database: Database, rows: int, size: int, *, comments: bool) -> Iterator[Words]:
    """Encoded rows, as a loader has them."""
    random = np.random.default_rng(1)
    dictionary = database._engine.executor.dictionary
    few = dictionary.intern(["A", "N", "R", "F", "O", "DELIVER IN PERSON", "NONE", "AIR", "RAIL", "SHIP"])
    for start in range(0, rows, size):
        n = min(size, rows - start)
        number = np.arange(start, start + n)
        texts = [f"comment {i} of {start}" for i in range(n)] if comments else ["no comment"]
        text = dictionary.intern(texts)
        columns = [number // 4 + 1, number % 4 + 1, *random.integers(1, 200_000, (2, n))]
        columns += [100 * random.integers(1, 51, n), random.integers(90_000, 10_500_000, n)]
        columns += [random.integers(0, 11, n), random.integers(0, 9, n)]
        columns += [few[random.integers(0, 3, n)], few[random.integers(3, 5, n)]]
        shipped = random.integers(8036, 10_561, n)
        columns += [shipped, shipped + random.integers(-60, 60, n), shipped + random.integers(1, 30, n)]
        columns += [few[random.integers(5, 7, n)], few[random.integers(7, 10, n)]]
        columns.append(text if comments else np.full(n, text[0]))
        yield np.ascontiguousarray(np.array(columns, np.int64))


def held(folder: Path) -> int:
    """The bytes of a folder's files, of those that a checkpoint in the background does not take away."""
    total = 0
    for one in folder.iterdir():
        with suppress(FileNotFoundError):
            total += one.stat().st_size
    return total


def stream(folder: Path | None, mode: str, options: argparse.Namespace) -> tuple[float, int]:
    """Rows a second, and the bytes of the folder."""
    database = kpg.connect() if folder is None else kpg.connect(folder, synchronous=mode)
    database.sql(TABLE)
    engine = database._engine
    data = list(chunks(database, options.rows, options.commit, comments=options.comments))
    table = engine.table("lineitem")
    start = time.perf_counter()
    for words in data:
        with engine.transactions.statement(changes=True):
            table.insert(words)
    elapsed = time.perf_counter() - start
    size = 0 if folder is None else held(folder)
    database.close()
    return options.rows / elapsed, size


def commits(folder: Path | None, mode: str, options: argparse.Namespace) -> list[float]:
    """Seconds of commits of one row each."""
    database = kpg.connect() if folder is None else kpg.connect(folder, synchronous=mode)
    database.sql(
        "create table t (k int primary key, v int); create materialized view s as select sum(v) from t"
    )
    times = []
    for n in range(options.commits):
        start = time.perf_counter()
        database.insert("t", [(n, n)])
        times.append(time.perf_counter() - start)
    database.close()
    return times[len(times) // 10 :]


def synced(folder: Path, options: argparse.Namespace) -> float:
    """Seconds of what a commit cannot do without: write 256 bytes to a file that has its length, and sync."""
    descriptor = os.open(folder / "probe", os.O_CREAT | os.O_RDWR)
    os.pwrite(descriptor, bytes(1 << 20), 0)
    os.fsync(descriptor)
    times = []
    for n in range(options.commits):
        start = time.perf_counter()
        os.pwrite(descriptor, bytes([n % 255 + 1]) * 256, 256 * (n % 4000))
        os.fdatasync(descriptor)
        times.append(time.perf_counter() - start)
    os.close(descriptor)
    return statistics.median(times)


def sized(folder: Path, rows: int, options: argparse.Namespace) -> None:
    """A table of so many rows with its views: its checkpoints, and opening it in another process."""
    database = kpg.connect(folder, synchronous="off")
    database.sql(TABLE)
    table = database._engine.table("lineitem")
    for words in chunks(database, rows, options.commit, comments=options.comments):
        with database._engine.transactions.statement(changes=True):
            table.insert(words)
    whole = checkpoint(database, folder)
    database.sql("delete from lineitem where orderkey = 1; checkpoint")  # keys are indexed by the first one
    database.sql("delete from lineitem where orderkey between 100 and 350")
    part = checkpoint(database, folder)
    database.close()
    found = subprocess.run(
        [sys.executable, __file__, "--open", str(folder)], check=True, stdout=subprocess.PIPE
    )
    seconds, start, end = map(float, found.stdout.split())
    print(f"{rows:,} rows: CHECKPOINT {whole}, after 1,000 deletes {part};")
    memory = f"{end:,.0f} MB resident ({start:,.0f} before)"
    print(f"    opening and an answer {1e3 * seconds:,.0f} ms, {memory}")


def checkpoint(database: Database, folder: Path) -> str:
    """Make one; its time, and the bytes of the packs that are new."""
    before = {one.name for one in folder.iterdir()}
    start = time.perf_counter()
    database.sql("checkpoint")
    milliseconds = 1e3 * (time.perf_counter() - start)
    new = (one for one in folder.iterdir() if one.name.startswith("pack") and one.name not in before)
    return f"{milliseconds:,.0f} ms, {sum(one.stat().st_size for one in new) / 1e6:,.2f} MB"


def opening(folder: Path) -> None:
    """Print the seconds until a folder answers, and the memory before and after in megabytes."""
    before = resident()
    start = time.perf_counter()
    with kpg.connect(folder) as database:
        database.query("select * from q1").fetchall()
        print(time.perf_counter() - start, before, resident())


def resident() -> float:
    """Megabytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", default=None, help="where folders are made, and removed again")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--commit", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--comments", action="store_true", help="a text of its own for every row")
    parser.add_argument("--open", type=Path, help="only open this folder; see opening()")
    options = parser.parse_args()
    if options.open is not None:
        opening(options.open)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        base = Path(made)
        print(f"a write of 256 bytes and a sync: {1e6 * synced(base, options):,.0f} us")
        rates: dict[str, list[float]] = {mode: [] for mode in MODES}
        sizes = {}
        for run in range(options.runs):
            for mode in MODES:
                folder = None if mode == "memory" else base / f"{mode}{run}"
                rate, sizes[mode] = stream(folder, mode, options)
                rates[mode].append(rate)
                if folder is not None:
                    shutil.rmtree(folder)
        for mode in MODES:
            best, memory = max(rates[mode]), max(rates["memory"])
            per_row = sizes[mode] / options.rows
            print(f"stream, {mode}: {best:,.0f} rows/s, {100 * best / memory:.0f}%, {per_row:.1f} bytes/row")
        for mode in MODES:
            times = commits(None if mode == "memory" else base / f"one {mode}", mode, options)
            worst = sorted(times)[-len(times) // 100]
            print(f"one row, {mode}: {1e6 * statistics.median(times):,.0f} us, 99% {1e6 * worst:,.0f} us")
        for rows in (options.rows // 16, options.rows // 4, options.rows):
            sized(base / f"sized {rows}", rows, options)


if __name__ == "__main__":
    main()
