"""Queries that run in a forked child: here every query leaves the engine that may."""

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kpg.session import session_manager, snapshot_query
from kpg.session.cancel import StatementLimits
from kpg.session.memory_limit import StatementMemory
from kpg.session.snapshot_query import Child
from tests.unit.server.conftest import Running, serving
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[3]
TABLE = """
create table t (a int primary key, b int, s text, n numeric, l int[], j jsonb, d date);
insert into t select i, nullif(i % 7, 3), 'word ' || i % 11, i / 3.0, array[i, null, -i],
  jsonb_build_object('k', i % 5), date '2026-01-01' + i from generate_series(1, 300) g(i)
"""
LOOKUPS = ("select * from t order by a", "select s || ' and ' || a, upper(s) from t where b = 2 order by a")
QUERIES = (
    *LOOKUPS,
    "select b, sum(n), array_agg(a order by a), min(s), avg(a)::numeric(20, 9) from t group by b order by b",
    "select distinct s || '!' from t order by 1 desc limit 3",
    "select a % 2 = 0, s from t where a < 7 union all select a % 2 = 0, s from t where a < 5 order by 1, 2",
    "select l[1:2], j || '{\"x\": 1}', d + interval '1 day', a::float8 / 7 from t order by a limit 5",
    "with recursive r(x) as (select 1 union select x + 1 from r where x < 9) select max(x) || '~' from r",
    "select u.s || t.s, count(*) from t join t u on u.b = t.b group by 1 order by 2 desc, 1 limit 4",
    "select null::text, row(a, s || '?') from t where a < 3 union all select s, row(b, s) from t where a = 4",
    "select a from t where false",
    "select rank() over (partition by b order by a), s || b from t order by a limit 20",
)


class Outside:
    """The queries that have left, and a gate that holds those that leave."""

    def __init__(self, folder: Path) -> None:
        self.left = 0
        self.gate = folder / "gate"
        self.holds = False

    def hold(self) -> None:
        """From now on children wait."""
        os.mkfifo(self.gate)
        self.holds = True

    def open(self) -> None:
        """Let the child go on that waits."""
        with self.gate.open("wb"):
            pass


@pytest.fixture(autouse=True)
def outside(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    one: psycopg.Connection,  # closed after the children have ended: a connection in use does not close
    other: psycopg.Connection,
) -> Iterator[Outside]:
    found, outcome, begin = Outside(tmp_path), snapshot_query._run_work, Child.__init__
    made: list[Child] = []

    def held(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        if found.holds:
            found.gate.read_bytes()
        return outcome(work)

    def counted(child: Child, work: Callable[[], Any]) -> None:
        found.left += 1
        begin(child, work)
        made.append(child)

    monkeypatch.setattr(snapshot_query, "SLICE", float("-inf"))
    monkeypatch.setattr(snapshot_query, "_run_work", held)
    monkeypatch.setattr(Child, "__init__", counted)
    monkeypatch.setattr(session_manager.SessionManager, "has_others_waiting", lambda *_: True)
    yield found
    for child in made:
        if not child._is_killed:  # the test has failed
            os.kill(child._pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one:
        one.db.sql(TABLE)
        yield one


@pytest.fixture
def one(running: Running) -> Iterator[psycopg.Connection]:
    with psycopg.connect(running.dsn, autocommit=True) as found:
        yield found


@pytest.fixture
def other(running: Running) -> Iterator[psycopg.Connection]:
    with psycopg.connect(running.dsn, autocommit=True) as found:
        yield found


class Asked(threading.Thread):
    """A query in a thread of its own, that has left the engine."""

    def __init__(self, running: Running, one: psycopg.Connection, text: str) -> None:
        super().__init__()
        self.rows: list[Any] | None = None
        self.error: psycopg.Error | None = None
        self._one, self._text = one, text
        self.start()
        until(lambda: running.server.queries.children)
        (self.child,) = running.server.queries.children

    def run(self) -> None:
        try:
            self.rows = self._one.execute(self._text).fetchall()
        except psycopg.Error as error:
            self.error = error

    def result(self) -> list[Any]:
        """Its rows, when they have come."""
        self.join()
        assert self.rows is not None, self.error
        return self.rows

    def state(self) -> str | None:
        """The SQLSTATE of its error, when that has come."""
        self.join()
        assert self.error is not None
        return self.error.sqlstate

    def is_gone(self) -> bool:
        """Whether its child has been waited for."""
        return not Path(f"/proc/{self.child._pid}").exists()


@pytest.mark.parametrize("text", QUERIES)
def test_answers_are_those_of_queries_that_run_inside(
    running: Running, one: psycopg.Connection, outside: Outside, text: str
) -> None:
    running.server.queries._max_children = 0
    inside = [one.execute(text, binary=binary).fetchall() for binary in (False, True)]
    assert outside.left == 0
    running.server.queries._max_children = 2
    assert [one.execute(text, binary=binary).fetchall() for binary in (False, True)] == inside
    assert outside.left or text in LOOKUPS


def test_others_go_on_and_their_commits_do_not_show(
    running: Running, one: psycopg.Connection, other: psycopg.Connection, outside: Outside
) -> None:
    one.execute("create table u as select a, s from t")
    outside.hold()
    asked = Asked(running, one, "select count(*), max(s || 'y'), max(a) from u")
    outside.holds = False
    other.execute("insert into u values (1000, 'zzz'); insert into u values (1001, 'zzz y')")
    assert other.execute("select count(*), max(s || 'y') from u").fetchall() == [(302, "zzzy")]
    other.execute("update u set s = 'zzzz' where a = 5")
    doing = "select state from pg_stat_activity where pid = %s"
    assert other.execute(doing, [one.info.backend_pid]).fetchall() == [("active",)]
    assert asked.is_alive() and not asked.is_gone()
    outside.open()
    assert asked.result() == [(300, "word 9y", 300)]
    assert asked.is_gone()
    assert one.execute("select count(*), max(s) from u").fetchall() == [(302, "zzzz")]
    one.execute("drop table u")


def test_a_transaction_goes_on_with_its_snapshot(
    running: Running, one: psycopg.Connection, other: psycopg.Connection, outside: Outside
) -> None:
    one.execute("create table u as select a from t")
    one.execute("begin isolation level repeatable read")
    outside.hold()
    asked = Asked(running, one, "select sum(a) from u")
    outside.holds = False
    other.execute("insert into u values (1000)")
    outside.open()
    assert asked.result() == [(45150,)]
    assert one.execute("select sum(a) from u").fetchall() == [(45150,)]
    one.execute("insert into u values (5000)")
    one.execute("commit")
    assert one.execute("select sum(a) from u").fetchall() == [(51150,)]
    one.execute("drop table u")


def test_a_statement_reads_one_epoch(
    running: Running, one: psycopg.Connection, other: psycopg.Connection, outside: Outside
) -> None:
    one.execute("create table u as select a from t where a <= 3")
    outside.hold()
    asked = Asked(running, one, "select count(*) over () from u limit (select count(*) from u)")
    other.execute("insert into u values (4)")
    outside.open()
    assert asked.result() == [(4,)] * 4
    assert outside.left == 1
    one.execute("drop table u")


def test_what_it_reads_may_be_dropped_meanwhile(
    running: Running, one: psycopg.Connection, other: psycopg.Connection, outside: Outside
) -> None:
    one.execute("create table u as select a from t")
    outside.hold()
    asked = Asked(running, one, "select sum(a) from u")
    other.execute("begin; drop table u; commit")
    outside.open()
    assert asked.result() == [(45150,)]


def test_a_query_is_cancelled(
    running: Running, one: psycopg.Connection, other: psycopg.Connection, outside: Outside
) -> None:
    outside.hold()
    asked = Asked(running, one, "select count(*) from t")
    one.cancel_safe()
    assert asked.state() == "57014" and asked.is_gone()
    asked = Asked(running, one, "select count(*) from t")
    outside.holds = False
    other.execute("select pg_cancel_backend(%s)", [one.info.backend_pid])
    assert asked.state() == "57014" and asked.is_gone()
    assert one.execute("select count(*) from t").fetchall() == [(300,)]


def test_a_query_takes_too_long(running: Running, one: psycopg.Connection, outside: Outside) -> None:
    one.execute("set statement_timeout = '200ms'; begin")
    outside.hold()
    asked = Asked(running, one, "select count(*) from t")
    assert asked.state() == "57014" and asked.is_gone()
    assert "timeout" in str(asked.error)
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        one.execute("select 1")


def test_its_client_goes(running: Running, one: psycopg.Connection, outside: Outside) -> None:
    outside.hold()
    asked = Asked(running, one, "select count(*) from t")
    number = one.info.backend_pid
    one.close()
    until(asked.is_gone)
    until(lambda: number not in running.db.hub.sessions)
    asked.join()


def test_its_process_is_killed(running: Running, one: psycopg.Connection, outside: Outside) -> None:
    outside.hold()
    for text in ("select count(*) from t", "select count(*) from t where a > 3"):
        asked = Asked(running, one, text)
        os.kill(asked.child._pid, signal.SIGKILL)
        assert asked.state() == "58000" and asked.is_gone()
        assert "was ended by signal 9" in str(asked.error)
    outside.holds = False
    assert one.execute("select count(*) from t").fetchall() == [(300,)]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("select 1 / (a - 5), s || 'q' from t", "22012"),
        ("select s::int from t", "22P02"),
        ("select (select a from t) from t", "21000"),
        ("select a * 1000000000 from t", "22003"),
    ],
)
def test_errors_are_those_of_queries_that_run_inside(
    running: Running, one: psycopg.Connection, outside: Outside, text: str, state: str
) -> None:
    told = []
    for most in (0, 2):
        running.server.queries._max_children = most
        with pytest.raises(psycopg.Error) as caught:
            one.execute(text)
        found = caught.value.diag
        told.append((found.sqlstate, found.message_primary, found.message_detail, found.statement_position))
    assert told[0] == told[1] and told[0][0] == state
    assert outside.left


def test_cursors_portals_copies_and_explain(one: psycopg.Connection, outside: Outside) -> None:
    with one.transaction():
        one.execute("declare c cursor for select a, s || '#' from t order by a")
        assert one.execute("fetch 2 from c").fetchall() == [(1, "word 1#"), (2, "word 2#")]
        assert one.execute("fetch 1 from c").fetchall() == [(3, "word 3#")]
    assert outside.left == 1
    with one.transaction(), one.cursor("d", scrollable=False) as cursor:
        cursor.itersize = 7
        cursor.execute("select a, s || '+' from t order by a")
        assert [row[0] for row in cursor] == list(range(1, 301))
    with one.cursor().copy("copy (select s || '=' from t order by a limit 2) to stdout") as copied:
        assert b"".join(copied) == b"word 1=\nword 2=\n"
    assert outside.left == 3
    assert "Actual Rows: 300" in str(one.execute("explain analyze select s || '-' from t").fetchall())
    assert outside.left == 4
    for _ in range(3):
        got = one.execute("select s || %s from t where a < %s order by a", ["*", 3], prepare=True).fetchall()
        assert got == [("word 1*",), ("word 2*",)]
    assert outside.left > 4


def test_what_does_not_leave(running: Running, one: psycopg.Connection, outside: Outside) -> None:
    running.db.create_function("twice", lambda x: 2 * x, args=["BIGINT"], returns="BIGINT")
    one.execute("create sequence q; create table u (a int)")
    for text in (
        "select sum(twice(a::bigint)) from t",
        "select nextval('q'), a from t",
        "select a from t order by a limit 2 for update",
        "insert into u select a from t returning a",
        "with x as (insert into u values (1) returning a) select count(*) from x, t",
    ):
        one.execute(text)
    with one.transaction():
        one.execute("insert into u values (5)")
        assert one.execute("select count(*) from u where a = 5").fetchall() == [(2,)]
    assert outside.left == 0
    assert one.execute("select nextval('q')").fetchall() == [(301,)]
    one.execute("drop table u; drop sequence q")


def test_more_queries_than_processes_run_inside(
    running: Running, one: psycopg.Connection, other: psycopg.Connection, outside: Outside
) -> None:
    running.server.queries._max_children = 1
    outside.hold()
    asked = Asked(running, one, "select count(*) from t")
    assert other.execute("select count(*) from t").fetchall() == [(300,)]
    outside.open()
    assert asked.result() == [(300,)]
    assert outside.left == 1
    running.server.queries._max_children = 2


def test_a_child_has_nothing_of_its_parent(
    running: Running, one: psycopg.Connection, outside: Outside
) -> None:
    outside.hold()
    asked = Asked(running, one, "select count(*) from t")
    files = Path(f"/proc/{asked.child._pid}/fd")

    def opened() -> set[str]:
        found = set()
        for file in files.iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                if int(file.name) > 2:
                    found.add(os.readlink(file))
        return found

    until(lambda: not any("socket" in name for name in opened()))
    assert len([name for name in opened() if name.startswith("pipe")]) == 1
    assert len(list(Path(f"/proc/{asked.child._pid}/task").iterdir())) == 1
    outside.open()
    asked.result()


def test_the_threads_that_run_the_engine(running: Running, one: psycopg.Connection, outside: Outside) -> None:
    for _ in range(5):
        one.execute("select count(*) from t")
    until(lambda: len(running.server.engine_thread._threads) == 1)


def test_a_server_may_have_many_files() -> None:
    limits, (soft, hard) = (
        StatementLimits((), 0.0, StatementMemory()),
        resource.getrlimit(resource.RLIMIT_NOFILE),
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        child = Child(lambda: b"x" * 1_000_000)
        assert child._pipe > 1023
        assert child.result(limits) == b"x" * 1_000_000
        child.kill()
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_memory_of_a_child_is_limited(one: psycopg.Connection, outside: Outside) -> None:
    one.execute("set statement_memory_limit = '40MB'")
    with pytest.raises(psycopg.errors.OutOfMemory):
        one.execute("select count(*), max(x.s || y.s || z.s) from t x, t y, t z where x.a < 200")
    assert outside.left == 1


HELD = """
import sys
from pathlib import Path
from kpg.cli.serve import run_serve
from kpg.session import session_manager, snapshot_query
snapshot_query.SLICE, outcome = float("-inf"), snapshot_query._run_work
session_manager.SessionManager.has_others_waiting = lambda *_: True
snapshot_query._run_work = lambda work: (Path(sys.argv[2]).read_bytes(), outcome(work))[1]
run_serve(Path(sys.argv[1]), "127.0.0.1:0", trust=True, user="kpg", certificate=None, key=None,
    memory_limit=None, grace=sys.argv[3])
"""


class Served:
    """A server in a process of its own, with a query whose child waits at a gate."""

    def __init__(self, folder: Path, grace: str) -> None:
        self.gate = folder / "gate"
        os.mkfifo(self.gate)
        command = [sys.executable, "-c", HELD, str(folder / "db"), str(self.gate), grace]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "serves on" in line)
        dsn = f"host=127.0.0.1 port={line.split(':')[1].split(';')[0]} user=kpg dbname=kpg"
        with psycopg.connect(dsn, autocommit=True) as one:
            one.execute("create table if not exists t (a int); insert into t values (1), (2)")
        self.error: psycopg.Error | None = None
        self.rows: list[Any] = []
        self._thread = threading.Thread(target=self._ask, args=(dsn,))
        self._thread.start()
        until(self.children)
        (self.child,) = self.children()

    def children(self) -> list[int]:
        number = self.process.pid
        found = Path(f"/proc/{number}/task").glob("*/children")
        return [int(one) for file in found for one in file.read_text().split()]

    def _ask(self, dsn: str) -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as one:
                self.rows = one.execute("select count(*) from t").fetchall()
        except psycopg.Error as error:
            self.error = error

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self._thread.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        until(lambda: not Path(f"/proc/{self.child}").exists())
        return code


def test_a_server_that_is_killed_leaves_no_child(tmp_path: Path) -> None:
    served = Served(tmp_path, "10s")
    assert served.end(signal.SIGKILL) == -signal.SIGKILL
    assert served.error is not None
    served.gate.unlink()
    again = Served(tmp_path, "10s")  # nobody has the folder locked
    os.kill(again.child, signal.SIGTERM)  # as a service manager does
    with again.gate.open("wb"):
        pass
    again._thread.join()
    assert again.rows == [(4,)]
    again.process.terminate()
    assert again.process.wait(PATIENCE) == 0
    assert again.process.stderr is not None
    again.process.stderr.close()


def test_a_server_that_stops_cancels_the_query(tmp_path: Path) -> None:
    served = Served(tmp_path, "100ms")
    assert served.end(signal.SIGTERM) == 0
    assert served.error is not None and served.error.sqlstate in ("57014", "57P01")
