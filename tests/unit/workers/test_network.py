"""Workers that have nothing but connections: the same answers, and no one left when one of them breaks."""

import importlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.cluster.member_process import serve
from kpg.runtime.cluster.messages import (
    Command,
    ConnectionLostError,
    Reply,
    connection_pair,
    encode_message,
    exchange,
)
from kpg.runtime.cluster.threads import ThreadMembers
from kpg.runtime.cluster.transport import MemberConfig, NetworkMembers
from kpg.runtime.dataflow.dataflow_graph import Step
from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.runtime.trace.merge import EFFORT
from kpg.session.distribution import Workers
from tests.properties.test_workers import history
from tests.unit.workers.apart import Apart, Through, apart
from tests.unit.workers.test_processes import TEXT, answer_alike, gone, rows


def test_answers_changes_and_errors_are_those_of_one() -> None:
    with apart(2, 0) as db, kpg.connect() as one:
        answer_alike(db, one)
        assert [row[0] for row in db.workers()] == [0, 1]


@pytest.mark.soak
def test_a_random_history_is_that_of_one() -> None:
    assert list(history(apart(3, 0), 5)) == list(history(kpg.connect(), 5))


def test_a_worker_that_dies_takes_nothing_with_it() -> None:
    with apart(2) as db:
        db.sql(TEXT)
        told: list[list[tuple[object, int, int]]] = []
        db.view("sums").subscribe(told.append)
        db.sql("insert into t values (1, 'x', 2), (2, 'y', 1)")
        processes = db._engine.executor.crew.processes
        os.kill(processes[1], signal.SIGKILL)
        with pytest.raises(OperationalError, match="worker 1 ended with status -9"):
            db.sql("insert into t values (3, 'x', 3)")
        assert all(map(gone, processes))
        assert rows(db, "select * from sums") == [("X", 2), ("Y", 1)]
        db.sql("insert into t values (4, 'y', 4)")
        changes = [sorted(((row, diff) for row, _, diff in each), key=repr) for each in told]
        assert changes == [[(("X", 2), 1), (("Y", 1), 1)], [(("Y", 1), -1), (("Y", 5), 1)]]


class Losing(Apart):
    """What has lost its members, which do not know it."""

    lost: str | None = None

    def start(self, config: MemberConfig) -> None:
        self.lost = None
        super().start(config)

    def failure(self) -> str | None:
        return self.lost or super().failure()


def test_a_worker_without_a_function_says_so_and_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_the_drivers.py").write_text("def twice(value):\n    return 2 * value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    twice = importlib.import_module("only_the_drivers").twice
    with apart(2) as db:
        db.sql(TEXT)
        db.sql("insert into t select i, 'x' || i, i from generate_series(1, 1000) g(i)")
        before, processes = rows(db, "select * from sums"), db._engine.executor.crew.processes
        db.create_function("twice", twice, args=["int"], returns="int")
        missing = r"worker 0 cannot import what is installed: No module named 'only_the_drivers'"
        with pytest.raises(InterfaceError, match=missing):
            db.sql("create materialized view d as select twice(k) as k from t")
        assert rows(db, "select * from sums") == before
        db.sql("insert into t values (2000, 'z', 1)")
        assert rows(db, "select count(*) from sums") == [(1001,)]
        assert db._engine.executor.crew.processes == processes


@pytest.mark.soak
def test_a_worker_without_memory_says_so_and_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    crew = ThreadMembers(2)
    with Database(workers=Workers(crew, 0)) as db:
        db.sql(TEXT)
        db.sql("insert into t values (1, 'x', 2), (2, 'y', 1)")

        def taken(changes: object) -> None:
            raise MemoryError("unable to allocate 1.5 MiB")

        with monkeypatch.context() as patch:
            patch.setattr(crew.members[1], "_apply_changes", taken)
            with pytest.raises(OperationalError, match="out of memory: worker 1: unable to allocate"):
                db.sql("insert into t select i, 'x' || i, i from generate_series(3, 300) g(i)")
            assert not crew.members[1].is_broken
        assert rows(db, "select * from sums") == [("X", 2), ("Y", 1)]
        db.sql("insert into t values (3, 'z', 7)")
        assert rows(db, "select * from sums") == [("X", 2), ("Y", 1), ("Z", 7)]

        def none_left() -> None:
            raise MemoryError

        monkeypatch.setattr(crew.members[0].worker.tables, "rollback", none_left)
        crew.members[0]._roll_back(Step(1, 2))
        assert crew.members[0].is_broken


@pytest.mark.soak
def test_members_that_their_starter_has_lost_are_asked_nothing_more() -> None:
    starter = Losing()
    with Database(workers=Workers(NetworkMembers(2, EFFORT, starter))) as db:
        db.sql(TEXT)
        db.sql("insert into t values (1, 'x', 2)")
        processes = db._engine.executor.crew.processes
        starter.lost = "the executor has gone"
        with pytest.raises(OperationalError, match="the executor has gone"):
            db.sql("insert into t values (2, 'x', 3)")
        assert rows(db, "select * from sums") == [("X", 2)]
        assert all(map(gone, processes))


@pytest.mark.soak
def test_a_network_that_is_cut_ends_all_workers_and_loses_nothing() -> None:
    starter = Through()
    with Database(workers=Workers(NetworkMembers(2, EFFORT, starter))) as db:
        db.sql(TEXT)
        db.sql("insert into t values (1, 'x', 2), (2, 'y', 1)")
        processes = db._engine.executor.crew.processes
        starter.cut()
        with pytest.raises(OperationalError, match=r"the connection to a worker|ended with status 0"):
            db.sql("insert into t values (3, 'x', 3)")
        assert all(map(gone, processes))
        db.sql("insert into t values (4, 'y', 4)")
        assert rows(db, "select * from sums") == [("X", 2), ("Y", 5)]


@pytest.mark.soak
def test_a_member_that_another_is_gone_for_hangs_up() -> None:
    here, there = connection_pair()

    class Alone:
        is_broken = True

        def set_watch(self, watch: object) -> None:
            """Nobody asks."""

        def execute(self, command: Command) -> Reply:
            return Reply(None, None, ConnectionLostError() if command.method == "rows" else MemoryError())

    class Never:
        def begin_command(self) -> None:
            """Nothing was wanted."""

    alone: Any = Alone()
    never: Any = Never()
    exchange([(here, encode_message(("rows", (), None, ())))], [])
    serve(alone, there, never)
    there.close()
    with pytest.raises(ConnectionLostError):
        exchange([], [here])
    here.close()
    here, there = connection_pair()
    exchange([(here, encode_message(("change", (), None, ())))], [])
    serve(alone, there, never)
    ((*_, error, _, _),) = exchange([], [here])
    assert isinstance(error, MemoryError)  # it says so before it ends, for it cannot be what it was
    here.close()
    there.close()


@pytest.mark.soak
def test_ctrl_c_ends_a_step_at_all_workers() -> None:
    with apart(2) as db:
        db.sql("create table n(i int primary key); insert into n select generate_series(1, 3000)")
        before = db._engine.executor.crew.processes
        alarm = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
        endless = "with recursive r(i) as (select i from n union select i + 1 from r where i < 100000000)"
        with pytest.raises(KeyboardInterrupt):
            alarm.start()
            db.sql(f"create materialized view v as {endless} select max(i) as m from r")
        db.sql("create materialized view w as select count(*) as n from n; insert into n values (0)")
        assert rows(db, "select * from w") == [(3001,)]
        assert db._engine.executor.crew.processes == before


def test_members_that_do_not_come_are_an_error_with_their_reason() -> None:
    class Broken(Apart):
        def start(self, calling: MemberConfig) -> None:
            super().start(calling._replace(secret=b"another"))

    with pytest.raises(OperationalError, match=r"workers did not start: worker . ended with status 1"):
        NetworkMembers(2, EFFORT, Broken())
    with pytest.raises(InterfaceError, match="there cannot be 0 workers"):
        NetworkMembers(0, EFFORT, Apart())


def test_a_folder_is_opened_by_workers_with_nothing_in_common(tmp_path: Path) -> None:
    with apart(2, 0, folder=tmp_path / "db") as db:
        db.sql(TEXT)
        db.sql("insert into t select i, 'g' || i % 3, i / 2 from generate_series(1, 300) g(i)")
        expected = [rows(db, "select * from sums"), rows(db, "select * from below")]
    for opened in (kpg.connect, lambda folder: apart(3, 0, folder=folder)):
        with opened(tmp_path / "db") as db:
            assert [rows(db, "select * from sums"), rows(db, "select * from below")] == expected


def test_a_closed_database_leaves_no_process() -> None:
    with apart(2) as db:
        processes = db._engine.executor.crew.processes
        assert len(processes) == 2 and np.all([not gone(one) for one in processes])
    assert all(map(gone, processes))


def test_a_view_of_one_worker_is_planned_anew_for_workers_with_nothing_in_common(tmp_path: Path) -> None:
    """Who sees all rows reads columns after a join; here that would be where the rows are not."""
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create table t(k int primary key, g int); insert into t values (1, 7), (2, 8), (3, 8)")
        db.sql("create materialized view p as select a.g, b.g as h from t a join t b on a.k + 1 = b.k")
    with apart(2, 0, folder=tmp_path / "db") as db:
        assert rows(db, "select * from p") == [(7, 8), (8, 8)]
        db.sql("insert into t values (4, 9)")
    with kpg.connect(tmp_path / "db") as db:
        assert rows(db, "select * from p") == [(7, 8), (8, 8), (8, 9)]
