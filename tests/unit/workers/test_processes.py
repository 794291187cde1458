"""Workers in processes: the same answers, nothing left behind, and errors that say what is wrong."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import kpg
from kpg.runtime.errors import DataError, InterfaceError, NotSupportedError, OperationalError
from kpg.runtime.workers.wire import GoneError, exchange, packed, pair

TEXT = """
create table t(k int primary key, g text, v int);
create materialized view sums as select upper(g) as g, sum(v) as s from t group by 1;
create materialized view below as
    with recursive r(k, top) as (
        select v, k from t union select t.v, r.top from r join t on r.k = t.k)
    select top, count(*) as n from r group by top
"""


def rows(db: object, query: str) -> list[tuple[object, ...]]:
    return sorted(db.sql(query).fetchall())  # type: ignore[attr-defined]


def gone(process: int) -> bool:
    """Whether a process has ended, or is about to be collected."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_two_processes_answer_as_one() -> None:
    with kpg.connect(workers=2) as db, kpg.connect() as one:
        said = []
        for each in (db, one):
            each.sql(TEXT)
            heard = each.view("sums").changes()
            each.sql("insert into t select i, 'g' || i % 3, i / 2 from generate_series(1, 3000) g(i)")
            each.sql("delete from t where k % 7 = 0")
            with pytest.raises(DataError, match="out of range"):
                each.sql("insert into t values (100000, 'g1', 2147483647 + 1)")
            said.append([rows(each, "select * from sums"), rows(each, "select * from below")])
            said.append([sorted(map(repr, heard))])
        assert said[:2] == said[2:]
        work = db.workers()
        assert [row[0] for row in work] == [0, 1] and all(row[1] > 0 for row in work)


def test_a_worker_that_dies_is_named_and_the_others_end() -> None:
    db = kpg.connect(workers=2)
    db.sql(TEXT)
    processes = db._engine.executor.crew.processes
    os.kill(processes[1], signal.SIGKILL)
    with pytest.raises(OperationalError, match=rf"worker 1 \(process {processes[1]}\) was ended by signal 9"):
        db.sql("insert into t values (1, 'x', 2)")
    assert all(map(gone, processes))
    with pytest.raises(OperationalError, match="worker 1"):
        db.sql("select * from sums")
    db.close()


def test_workers_end_with_their_parent_however_it_ends() -> None:
    code = (
        "import kpg, os, signal\n"
        "db = kpg.connect(workers=2)\n"
        "db.sql('create table t(k int primary key)')\n"
        "print(*db._engine.executor.crew.processes, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    processes = [int(one) for one in done.stdout.split()]
    for process in processes:
        # Its end is told to who has opened it here; a process that has ended cannot be opened.
        try:
            handle = os.pidfd_open(process)
        except ProcessLookupError:
            continue
        signalled = subprocess.run([sys.executable, "-c", WAIT, str(handle)], pass_fds=[handle], check=False)
        os.close(handle)
        assert signalled.returncode == 0
    assert len(processes) == 2 and all(map(gone, processes))


WAIT = "import select, sys; sys.exit(not select.select([int(sys.argv[1])], [], [], 10)[0])"


def test_large_messages_arrive_as_they_were_sent_both_ways_at_once() -> None:
    here, there = pair()
    arrays = [np.arange(size, dtype=np.int64) for size in (0, 700_001, 3, 500_000, *range(100))]
    received: list[object] = []
    other = threading.Thread(
        target=lambda: received.extend(exchange([(there, packed(("back", arrays[1])))], [there]))
    )
    other.start()
    ((name, back),) = exchange([(here, packed(arrays))], [here])
    other.join()
    assert name == "back" and np.array_equal(back, arrays[1])
    (found,) = received
    assert [one.tolist() for one in found] == [one.tolist() for one in arrays]  # type: ignore[attr-defined]
    there.close()
    with pytest.raises(GoneError):
        exchange([], [here])
    here.close()


def test_a_closed_database_leaves_no_process() -> None:
    with kpg.connect(workers=3) as db:
        processes = db._engine.executor.crew.processes
        assert len(processes) == 3
    assert all(map(gone, processes))


def test_what_is_not_there_yet_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match="a durable folder together with workers=2"):
        kpg.connect(tmp_path, workers=2)
    with pytest.raises(NotSupportedError, match="a history together with workers=2"):
        kpg.connect(history=3, workers=2)
    with kpg.connect(workers=2) as db:
        with pytest.raises(NotSupportedError, match="a dataflow of collections with several workers"):
            db.dataflow()
        with pytest.raises(NotSupportedError, match="a branch of a database with several workers"):
            db.branch()
    with pytest.raises(InterfaceError, match="there cannot be 0 workers"):
        kpg.connect(workers=0)
