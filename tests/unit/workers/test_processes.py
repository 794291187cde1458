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
from kpg.api.database import Database
from kpg.runtime.cluster.messages import (
    Connection,
    ConnectionLostError,
    connection_pair,
    encode_message,
    exchange,
)
from kpg.runtime.errors import DataError, InterfaceError, OperationalError
from kpg.session.memory_limit import used_bytes

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


def answer_alike(*databases: Database) -> None:
    """Two databases have the same answers, tell the same changes, and undo what fails."""
    said = []
    for each in databases:
        each.sql(TEXT)
        heard = each.view("sums").changes()
        each.sql("insert into t select i, 'g' || i % 3, i / 2 from generate_series(1, 3000) g(i)")
        each.sql("delete from t where k % 7 = 0")
        with pytest.raises(DataError, match="out of range"):
            each.sql("insert into t values (100000, 'g1', 2147483647 + 1)")
        said.append([rows(each, "select * from sums"), rows(each, "select * from below")])
        said.append([sorted(map(repr, heard))])
    assert said[:2] == said[2:]


def test_two_processes_answer_as_one() -> None:
    with kpg.connect(workers=2) as db, kpg.connect() as one:
        answer_alike(db, one)
        work = db.workers()
        assert [row[0] for row in work] == [0, 1] and all(row[1] > 0 for row in work)


def test_a_worker_that_dies_is_named_the_others_end_and_new_ones_go_on() -> None:
    with kpg.connect(workers=2) as db:
        db.sql(TEXT)
        told: list[list[tuple[object, int, int]]] = []
        db.view("sums").subscribe(told.append)
        db.sql("insert into t values (1, 'x', 2), (2, 'y', 1)")
        processes = db._engine.executor.crew.processes
        os.kill(processes[1], signal.SIGKILL)
        message = rf"worker 1 \(process {processes[1]}\) was ended by signal 9"
        with pytest.raises(OperationalError, match=message):
            db.sql("insert into t values (3, 'x', 3)")
        assert all(map(gone, processes))
        assert rows(db, "select * from sums") == [("X", 2), ("Y", 1)]
        db.sql("insert into t values (4, 'y', 4)")
        os.kill(db._engine.executor.crew.processes[0], signal.SIGKILL)
        assert rows(db, "select * from sums") == [("X", 2), ("Y", 5)]
        changes = [sorted(((row, diff) for row, _, diff in each), key=repr) for each in told]
        assert changes == [[(("X", 2), 1), (("Y", 1), 1)], [(("Y", 1), -1), (("Y", 5), 1)]]


def test_a_folder_is_opened_by_any_number_of_workers(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql(TEXT.replace("v int)", "v int) distributed by (g)"))
        db.sql("insert into t select i, 'g' || i % 3, i / 2 from generate_series(1, 300) g(i)")
        db.sql("delete from t where k = 7")
        expected = [rows(db, "select * from sums"), rows(db, "select * from below")]
    for count in (2, 1, 3):
        with kpg.connect(tmp_path / "db", workers=count) as db:
            if count > 1:
                assert db._engine.workers is not None and db._engine.workers.declared_column("t") == 1
            assert [rows(db, "select * from sums"), rows(db, "select * from below")] == expected
            db.sql(f"update t set v = v + {count} where k % 10 = {count}")
            expected = [rows(db, "select * from sums"), rows(db, "select * from below")]


def test_what_was_committed_outlives_the_database_and_all_its_workers(tmp_path: Path) -> None:
    code = (
        "import kpg, os, signal\n"
        f"db = kpg.connect({str(tmp_path / 'db')!r}, workers=2)\n"
        f"db.sql('''{TEXT}''')\n"
        "db.sql(\"insert into t values (1, 'x', 2)\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    with kpg.connect(tmp_path / "db", workers=2) as db:
        assert rows(db, "select * from sums") == [("X", 2)]


def half(value: int) -> int:
    return value // 2


def test_views_call_functions_that_workers_can_get() -> None:
    with kpg.connect(workers=2) as db:
        db.sql("create table t(k int primary key); insert into t values (4), (10)")
        db.create_function("half", half)
        db.create_function("twice", lambda value: 2 * value, args=["int"], returns="int")
        lock = threading.Lock()
        db.create_function("locked", lambda value: value + lock.locked(), args=["int"], returns="int")
        db.sql("create materialized view h as select half(k) as h from t")
        assert rows(db, "select * from h") == [(2,), (5,)]
        assert rows(db, "select twice(k) from t") == [(8,), (20,)]
        with pytest.raises(InterfaceError, match="an object that cannot be sent to workers"):
            db.sql("create materialized view w as select locked(k), 'new text' from t")
        db.sql("create materialized view w as select twice(k) as k, 'new text' as s from t")
        assert rows(db, "select * from w") == [(8, "new text"), (20, "new text")]
        assert rows(db, "select locked(k) from t") == [(4,), (10,)]


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


WAIT = "import select, sys; sys.exit(not select.select([int(sys.argv[1])], [], [], 300)[0])"


def exchange_both_ways(here: Connection, there: Connection, most: int) -> None:
    """Arrays of up to so many words go there while the largest comes back."""
    arrays = [np.arange(size, dtype=np.int64) for size in (0, most, 3, 500_000, *range(100))]
    received: list[object] = []
    other = threading.Thread(
        target=lambda: received.extend(exchange([(there, encode_message(("back", arrays[1])))], [there]))
    )
    other.start()
    ((name, back),) = exchange([(here, encode_message(arrays))], [here])
    other.join()
    assert name == "back" and np.array_equal(back, arrays[1])
    (found,) = received
    assert [one.tolist() for one in found] == [one.tolist() for one in arrays]  # type: ignore[attr-defined]


def test_large_messages_arrive_as_they_were_sent_both_ways_at_once() -> None:
    here, there = connection_pair()
    exchange_both_ways(here, there, 700_001)
    there.close()
    with pytest.raises(ConnectionLostError):
        exchange([], [here])
    here.close()


def test_a_closed_database_leaves_no_process() -> None:
    with kpg.connect(workers=3) as db:
        processes = db._engine.executor.crew.processes
        assert len(processes) == 3
    assert all(map(gone, processes))


def test_what_goes_beyond_the_memory_of_all_workers_is_taken_back() -> None:
    """What grows is at the workers; the process that asks has hardly more than before."""
    with kpg.connect(workers=2) as db:
        assert db._engine.workers is not None
        used = db._engine.workers.used_bytes()
        db.sql("create table t (a int); insert into t select * from generate_series(1, 2000000)")
        assert db._engine.workers.used_bytes() > used + 16_000_000
    with kpg.connect(workers=2, memory_limit=used + (200 << 20)) as db:
        db.sql("create table t (a int); create table switch (b int)")
        db.sql("insert into t select * from generate_series(1, 2000)")
        db.sql(
            "create materialized view v as select x.a, y.a as b, z.a as c, b as d from t x, t y, t z, switch"
        )
        processes, before = db._engine.executor.crew.processes, used_bytes()
        message = "the memory limit of .* MB is reached: the process and its workers have"
        with pytest.raises(OperationalError, match=message):
            db.sql("insert into switch values (1)")
        assert used_bytes() < before + (100 << 20)
        assert rows(db, "select count(*) from switch") == [(0,)] and rows(db, "select * from v") == []
        assert db._engine.executor.crew.processes == processes
        db.sql("drop view v; create materialized view w as select count(*) as n from t, switch")
        db.sql("insert into switch values (1)")
        assert rows(db, "select * from w") == [(2000,)]


def test_a_number_of_workers_that_nobody_can_have_is_refused() -> None:
    with pytest.raises(InterfaceError, match="there cannot be 0 workers"):
        kpg.connect(workers=0)


def test_libraries_start_one_thread_in_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with kpg.connect(workers=2) as db:
        db.sql("create table t(k int primary key)")
        for process in db._engine.executor.crew.processes:
            told = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            assert b"OPENBLAS_NUM_THREADS=1" in told and b"OMP_NUM_THREADS=3" in told
