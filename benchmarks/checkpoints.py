"""Checkpoints of TPC-H with its 22 views: what they take, what commits wait meanwhile, and opening.

python benchmarks/checkpoints.py --scale 1 make FOLDER    # load, install, refresh, CHECKPOINT
python benchmarks/checkpoints.py open FOLDER              # in a process of its own: answers and a change
python benchmarks/checkpoints.py --megabytes 1200 limited FOLDER
    # the same in a control group with so much memory, what is mapped included; for root on Linux
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _tpch import install

import kpg
from kpg.tpch.data import QUERIES, TABLES, create_statements, data_folder, table_path
from kpg.tpch.job import apply_batch
from kpg.tpch.refresh import RefreshStream


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    milliseconds = 1e3 * (time.perf_counter() - start)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e9
    print(f"{what:32} {milliseconds:10,.0f} ms   {resident:5.2f} GB resident", flush=True)


def size(folder: Path) -> float:
    """Megabytes of the files, without room that was never written."""
    return sum(one.stat().st_blocks for one in folder.iterdir()) * 512 / 1e6


def make(folder: Path, scale: float) -> None:
    data = data_folder(scale, None)
    db = kpg.connect(folder)
    for statement in create_statements().values():
        db.sql(statement)
    with timed("load"):
        db.load_all({table: str(table_path(data, table)) for table in TABLES}, mode="arrow")
    with timed("install"):
        for number in QUERIES:
            install(db, number)
    with timed("CHECKPOINT"):
        db.sql("checkpoint")
    stream = RefreshStream(data, seed=1)
    for _ in range(3):
        before = size(folder)
        apply_batch(db, stream.next_batch())
        with timed("CHECKPOINT after a refresh"):
            db.sql("checkpoint")
        print(f"{'':32} {size(folder) - before:10,.0f} MB more of {size(folder):,.0f}")
    db.sql("create table tiny (a int)")
    # The first small commits after a definition are seen apart: a chain of all operators is made of one.
    print(f"first commits: {', '.join(f'{one:.1f}' for one in commits(db, 12))} ms")
    for _ in range(5):
        apply_batch(db, stream.next_batch())
        meanwhile(db)
    with timed("close"):
        db.close()


def commits(db: Any, count: int) -> list[float]:
    """Milliseconds of as many commits of one row."""
    waits = []
    for _ in range(count):
        start = time.perf_counter()
        db.sql("insert into tiny values (1)")
        waits.append(1e3 * (time.perf_counter() - start))
    return waits


def meanwhile(db: Any) -> None:
    """Commits of one row while a child of the process writes a checkpoint."""
    checkpoints, waits = db._engine.write_ahead_log.checkpoints, list[float]()
    with timed("begin a checkpoint, fork included"):
        checkpoints.begin(in_background=True)
    while checkpoints._background.is_busy:
        waits += commits(db, 1)
    waits.sort()
    print(
        f"{len(waits)} commits meanwhile: median {waits[len(waits) // 2]:.1f} ms, longest {waits[-1]:.1f} ms"
    )


def opening(folder: Path) -> None:
    with timed("open"):
        db = kpg.connect(folder)
    assert isinstance(db, kpg.Database)
    with timed("first answer"):
        db.query("select * from q1").fetchall()
    with timed("22 answers"):
        for number in QUERIES:
            db.query(f"select count(*) from q{number}").fetchall()
    with timed("a lookup"):
        key = db.query("select o_orderkey from orders where o_orderkey > 4000 limit 1").fetchone()[0]  # type: ignore[index]
    for what in ("first change", "second change"):
        with timed(what):
            db.sql(f"delete from lineitem where l_orderkey = {key}")
        key = db.query(f"select min(o_orderkey) from orders where o_orderkey > {key}").fetchone()[0]  # type: ignore[index]
    with timed("close"):
        db.close()


GROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
PEAKS = ("memory.max_usage_in_bytes", "memory.peak")


def limited(folder: Path, megabytes: int) -> None:
    """``open`` in a process that may have so much memory; nothing of the files is in memory before."""
    for one in folder.iterdir():
        descriptor = os.open(one, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    base, limit = next((Path(base), limit) for base, limit in GROUPS if Path(base, "cgroup.procs").exists())
    group = base / f"kpg-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit).write_text(str(megabytes << 20))
        join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        command = [sys.executable, __file__, "open", str(folder)]
        ended = subprocess.run(command, check=False, preexec_fn=join).returncode
        peak = next(int((group / name).read_text()) for name in PEAKS if (group / name).exists())
        print(f"ended with {ended}; at most {peak / 1e6:,.0f} MB of {megabytes} for {size(folder):,.0f} MB")
    finally:
        group.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--megabytes", type=int, default=1200)
    parser.add_argument("what", choices=("make", "open", "limited"))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.what == "make":
        make(options.folder, options.scale)
    elif options.what == "limited":
        limited(options.folder, options.megabytes)
    else:
        opening(options.folder)


if __name__ == "__main__":
    main()
