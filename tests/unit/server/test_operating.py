"""A server as a service: how it stops, what it logs, how many clients it takes."""

import asyncio
import base64
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[3]
ENDLESS = (
    "with recursive r(a) as (select 1 union select a + 1 from r where a < 50000000) select count(*) from r"
)


UNPLANNABLE = b"select " + b"(select " * 600 + b"1" + b")" * 600
"""Subqueries this deep take hours to plan."""


class Service:
    """``kpg serve`` in a process of its own; ``lines`` is what it logs."""

    def __init__(self, *options: str, trusting: bool = True, **variables: str) -> None:
        command = [sys.executable, "-m", "kpg", "serve", "--listen", "127.0.0.1:0", *options]
        command += ["--trust"] if trusting else []
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "serves on" in line)
        self.port = int(re.split("[:;,]", line)[1])
        self.http = f"http://{line.split('http://')[1].split(';')[0]}" if "http://" in line else ""
        self.dsn = f"host=127.0.0.1 port={self.port} user=kpg dbname=kpg"

    def stop(self, times: int = 1) -> list[str]:
        self.process.send_signal(signal.SIGTERM)
        if times > 1:
            assert self.process.stderr is not None
            assert any("statements have" in line for line in self.process.stderr)
            self.process.send_signal(signal.SIGTERM)
        _, logged = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, logged
        return logged.splitlines()


def test_it_stops_gracefully_and_logs_objects(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    service = Service(str(folder), "--log-format", "json", "--log-level", "info", "--log-slow", "0ms")
    with psycopg.connect(service.dsn, autocommit=True) as one:
        one.execute("create table t (a int)")
        one.execute("insert into t values (1)")
        other = psycopg.connect(service.dsn)
        other.execute("insert into t values (2)")
        lines: list[dict[str, Any]] = [json.loads(line) for line in service.stop()]
        with pytest.raises(psycopg.OperationalError, match="terminating connection due to administrator"):
            one.execute("select 1")
        other.close()
    slow = [line for line in lines if "statement" in line]
    assert [line["statement"] for line in slow[:2]] == ["create table t (a int)", "insert into t values (1)"]
    assert all(line["milliseconds"] >= 0 and line["level"] == "warning" for line in slow)
    messages = [line["message"] for line in lines if line["level"] == "info"]
    assert messages[0] == "client 1 logs in as kpg"
    assert messages[-2:] == [
        "no client is left: the database is closed, with a checkpoint if it is in a folder",
        "the server has stopped",
    ]
    again = Service(str(folder))
    with psycopg.connect(again.dsn, autocommit=True) as one:
        assert one.execute("select a from t").fetchall() == [(1,)]
    assert again.stop() == []


@pytest.mark.soak
@pytest.mark.parametrize(("times", "grace"), [(1, "50ms"), (2, "1h")])
def test_a_statement_without_end_does_not_keep_it(times: int, grace: str) -> None:
    service = Service("--grace", grace, "--log-level", "info")
    with closing(psycopg.connect(service.dsn, autocommit=True)) as one:
        one.pgconn.send_query(ENDLESS.encode())
        shown_certificate(service)  # what was sent before has been read when this is answered
        service.stop(times)
        found = one.pgconn.get_result()
        assert found is not None and found.status == psycopg.pq.ExecStatus.FATAL_ERROR


def test_a_statement_that_takes_hours_to_plan_ends() -> None:
    service = Service("--grace", "50ms")
    with closing(psycopg.connect(service.dsn, autocommit=True)) as other:
        with closing(psycopg.connect(service.dsn, autocommit=True)) as one:
            one.execute("set statement_timeout = '200ms'")
            with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
                one.execute(UNPLANNABLE)
            one.execute("set statement_timeout = 0")
            one.pgconn.send_query(UNPLANNABLE)
            shown_certificate(service)  # what was sent before has been read when this is answered
            one.cancel()
            found = one.pgconn.get_result()
            assert found is not None and found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"57014"
            assert one.pgconn.get_result() is None
        with closing(psycopg.connect(service.dsn, autocommit=True)) as one:
            one.pgconn.send_query(UNPLANNABLE)
            shown_certificate(service)
            one.pgconn.finish()
        assert other.execute("select 1").fetchone() == (1,)
        other.pgconn.send_query(UNPLANNABLE)
        shown_certificate(service)
        service.stop()


def test_a_process_that_cannot_end_a_statement_ends() -> None:
    code = "import time; from kpg.server.process import _exit_after\nwith _exit_after(0.1): time.sleep(1000)"
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=PATIENCE
    )
    assert ended.returncode == 1


def test_a_join_without_its_condition_kills_nobody() -> None:
    service = Service("--statement-memory-limit", "300 MB")
    with psycopg.connect(service.dsn, autocommit=True) as one, psycopg.connect(service.dsn) as other:
        one.execute("create table t (a int)")
        one.execute("insert into t select * from generate_series(1, 6000)")
        one.execute("create materialized view v as select count(*) as n from t")
        other.execute("insert into t values (0)")  # which is not committed yet
        assert one.execute("show statement_memory_limit").fetchone() == ("300 MB",)
        one.execute("set statement_memory_limit = '1 GB'")
        assert one.execute("select current_setting('statement_memory_limit')").fetchone() == ("300 MB",)
        one.execute("set statement_memory_limit = '100 MB'")
        assert one.execute("show statement_memory_limit").fetchone() == ("100 MB",)
        held = []
        statements = (
            "create table u as select x.a, y.a as b from t x, t y",
            "create materialized view w as select x.a, y.a as b from t x, t y",
            "insert into t select x.a + y.a from t x, t y",  # 12,000 values, but 36 million rows
            "select * from generate_series(1, 100000000)",
        )
        for statement in statements * 3:
            with pytest.raises(psycopg.errors.OutOfMemory, match=r"the statement takes \d+ MB") as raised:
                one.execute(statement)
            assert "may take 100 MB" in str(raised.value)
            assert "a join may lack its condition" in (raised.value.diag.message_hint or "")
            held.append(own_megabytes(service.process.pid))
        # Nothing is kept of each of them, which was 200 MB and more; the system may lag behind by one or two.
        assert held[-1] - held[len(statements) - 1] < 500, held
        other.execute("select count(*) from v")
        other.commit()
        assert one.execute("select count(*) from t").fetchone() == (6001,)
        assert one.execute("select n from v").fetchone() == (6001,)
        one.execute("set statement_memory_limit = 0")
        with pytest.raises(psycopg.errors.OutOfMemory, match="may take 300 MB"):
            one.execute("select x.a, y.a from t x, t y")
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="statement_memory_limit"):
            one.execute("set statement_memory_limit = 'much'")
    assert service.stop() == []


def own_megabytes(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) >> 10


@pytest.mark.soak
def test_some_connections_are_for_superusers() -> None:
    service = Service("--max-connections", "3", "--superuser-reserved-connections", "1")
    with psycopg.connect(service.dsn, autocommit=True) as one:
        one.execute("create role ann login; create role bob login connection limit 1")
        ann = service.dsn.replace("user=kpg", "user=ann")
        with psycopg.connect(ann):
            with pytest.raises(psycopg.OperationalError, match="slots are reserved for roles with the SUPER"):
                psycopg.connect(ann)
            psycopg.connect(service.dsn).close()
        bob = service.dsn.replace("user=kpg", "user=bob")
        with psycopg.connect(bob), pytest.raises(psycopg.OperationalError):
            psycopg.connect(bob)
    service.stop()


@pytest.mark.soak
def test_reserved_connections_hold_for_clients_that_come_at_once() -> None:
    service = Service("--max-connections", "5", "--superuser-reserved-connections", "2")
    with psycopg.connect(service.dsn, autocommit=True) as one:
        one.execute("create role ann login; create role bob login connection limit 1")

    async def come(user: str) -> list[Any]:
        dsn = service.dsn.replace("user=kpg", f"user={user}")
        # A setting is set before the client is greeted, which takes a turn of the engine.
        coming = [psycopg.AsyncConnection.connect(dsn, options="-c work_mem=1MB") for _ in range(8)]
        found = await asyncio.gather(*coming, return_exceptions=True)
        there = [one for one in found if isinstance(one, psycopg.AsyncConnection)]
        for connection in there:
            await connection.close()
        return there

    assert len(asyncio.run(come("ann"))) == 3
    assert len(asyncio.run(come("bob"))) == 1
    service.stop()


def test_a_service_manager_is_told(tmp_path: Path) -> None:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(PATIENCE)
    service = Service(NOTIFY_SOCKET=str(tmp_path / "notify"))
    assert manager.recv(100) == b"READY=1"
    service.stop()
    assert manager.recv(100) == b"STOPPING=1"
    manager.close()


def test_a_log_may_be_rotated_and_has_no_passwords(tmp_path: Path) -> None:
    log, old = tmp_path / "log", tmp_path / "log.1"
    service = Service("--log-file", str(log), "--log-format", "json", "--log-slow", "0ms")
    with psycopg.connect(service.dsn, autocommit=True) as one:
        one.execute("create role ann login password 'secret'")
        one.execute("alter role ann with encrypted password 'secret' valid until '2030-01-01'")
        one.execute("select length(%s)", ("secret",))
        log.rename(old)
        one.execute("select 1")
    assert service.stop() == []
    before, after = ([json.loads(one) for one in file.read_text().splitlines()] for file in (old, log))
    assert [one["statement"] for one in before] == [
        "create role ann login password <hidden>",
        "alter role ann with encrypted password <hidden>",
        "select length($1)",
    ]
    assert [one["statement"] for one in after] == ["select 1"]
    assert "secret" not in old.read_text() + log.read_text()


def test_who_does_not_get_in_is_logged() -> None:
    options = ["--http", "127.0.0.1:0", "--log-format", "json"]
    service = Service(*options, trusting=False, KPG_PASSWORD="s3cret")
    for user, password in (("kpg", "wr0ng"), ("no\nbody", "s3cret"), ("kpg", "s3cret")):
        try:
            psycopg.connect(service.dsn, user=user, password=password, sslmode="disable").close()
        except psycopg.OperationalError:
            assert password == "wr0ng" or user != "kpg"
    with pytest.raises(psycopg.OperationalError, match='database "shop" does not exist'):
        psycopg.connect(service.dsn, password="s3cret", dbname="shop", sslmode="disable")
    request = urllib.request.Request(f"{service.http}/sql", b"select 1")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"kpg:wr0ng").decode())
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request)
    logged = service.stop()
    assert not any(secret in line for line in logged for secret in ("wr0ng", "s3cret"))
    lines = [json.loads(line) for line in logged]
    assert [line["level"] for line in lines] == ["warning"] * 4
    assert all(line["address"].startswith("127.0.0.1:") for line in lines)
    assert [line["user"] for line in lines] == ["kpg", "no\nbody", "kpg", "kpg"]
    assert [line["message"].split(" failed: ", 1)[1] for line in lines] == [
        'password authentication failed for user "kpg"',
        'password authentication failed for user "no\nbody"',
        'database "shop" does not exist',
        "no user of that name and password (HTTP)",
    ]
    assert "login as 'no\\nbody' from" in lines[1]["message"]


def test_a_deadlock_is_logged_with_its_statements() -> None:
    service = Service("--log-format", "json")
    with (
        psycopg.connect(service.dsn) as one,
        psycopg.connect(service.dsn) as other,
        psycopg.connect(service.dsn, autocommit=True) as third,
    ):
        third.execute("create table t (id int primary key, a int)")
        third.execute("insert into t values (1, 1), (2, 2)")
        one.execute("update t set a = 10 where id = 1")
        other.execute("update t set a = 20 where id = 2")
        waiting = threading.Thread(target=one.execute, args=("update t set a = 11 where id = 2",))
        waiting.start()
        await_event(third, one.info.backend_pid, ("Lock", "transactionid"))
        with pytest.raises(psycopg.errors.DeadlockDetected) as raised:
            other.execute("update t set a = 21 where id = 1")
        assert "see the server log" in (raised.value.diag.message_hint or "")
        first, second = one.info.backend_pid, other.info.backend_pid
        waits = (
            f'Process {second} waits for ExclusiveLock on row 0 of relation "t"; blocked by process {first}.'
        )
        assert (raised.value.diag.message_detail or "").startswith(waits)
        other.rollback()
        waiting.join()
    lines = [json.loads(line) for line in service.stop()]
    (line,) = (line for line in lines if "deadlock" in line["message"])
    assert waits in line["message"]
    assert line["sessions"] == [
        {"client": second, "user": "kpg", "statement": "update t set a = 21 where id = 1"},
        {"client": first, "user": "kpg", "statement": "update t set a = 11 where id = 2"},
    ]


def await_event(one: psycopg.Connection[Any], pid: int, event: tuple[str, str]) -> None:
    """Return once a session waits for something."""
    asked = "select wait_event_type, wait_event from pg_stat_activity where pid = %s"
    until(lambda: one.execute(asked, (pid,)).fetchone() == event, event)


def test_what_asyncio_says_of_tls_is_an_object_too(tmp_path: Path) -> None:
    certified(tmp_path, "here")
    files = "--certificate", str(tmp_path / "certificate"), "--key", str(tmp_path / "key")
    service = Service(*files, "--log-format", "json", "--log-level", "debug")
    with socket.create_connection(("127.0.0.1", service.port)) as plain:
        plain.sendall(struct.pack("!ii", 8, 80877103))
        assert plain.recv(1) == b"S"
        plain.sendall(b"this is no handshake" * 10)
        with suppress(ConnectionError):  # a server that closes with bytes unread resets the connection
            while plain.recv(100):
                pass
    lines = [json.loads(line) for line in service.stop()]
    assert any("SSL" in line["message"] + line.get("exception", "") for line in lines)


@pytest.mark.soak
def test_statements_that_run_out_of_their_time_are_logged() -> None:
    service = Service("--http", "127.0.0.1:0", "--log-slow", "100ms", "--log-format", "json")
    body = json.dumps({"query": ENDLESS, "timeout": "200ms"}).encode()
    request = urllib.request.Request(f"{service.http}/sql", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(request)
    with psycopg.connect(service.dsn, autocommit=True) as one:
        one.execute("set statement_timeout = '200ms'")
        for text in (ENDLESS, f"explain analyze {ENDLESS}"):
            with pytest.raises(psycopg.errors.QueryCanceled):
                one.execute(text)
    statements = [json.loads(line)["statement"] for line in service.stop()]
    assert statements == [ENDLESS, ENDLESS, f"explain analyze {ENDLESS}"]


def certified(tmp_path: Path, name: str) -> None:
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
    ]
    command += ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate")]
    subprocess.run(command, check=True, capture_output=True)


def shown_certificate(service: Service) -> bytes | None:
    """What the server shows who asks for TLS, if it has that."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = int(service.dsn.split("port=")[1].split()[0])
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(struct.pack("!ii", 8, 80877103))
        if plain.recv(1) == b"N":
            return None
        with context.wrap_socket(plain) as one:
            found = one.getpeercert(binary_form=True)
    assert found is not None
    return found


@pytest.mark.soak
def test_sighup_has_the_certificate_be_read_again(tmp_path: Path) -> None:
    certified(tmp_path, "first")
    files = "--certificate", str(tmp_path / "certificate"), "--key", str(tmp_path / "key")
    service = Service(*files, "--log-level", "info")
    assert b"first" in (shown_certificate(service) or b"")
    assert service.process.stderr is not None
    certified(tmp_path, "second")
    service.process.send_signal(signal.SIGHUP)
    assert any("certificate has been reloaded" in line for line in service.process.stderr)
    assert b"second" in (shown_certificate(service) or b"")
    (tmp_path / "certificate").write_text("nothing")
    service.process.send_signal(signal.SIGHUP)
    assert any("the one before stays" in line for line in service.process.stderr)
    assert b"second" in (shown_certificate(service) or b"")
    service.stop()


def test_clients_are_limited() -> None:
    service = Service("--max-connections", "2")
    with psycopg.connect(service.dsn), psycopg.connect(service.dsn) as other:
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            psycopg.connect(service.dsn)
        other.close()
    with psycopg.connect(service.dsn) as one:
        assert one.execute("select 1").fetchone() == (1,)
    lines = service.stop()
    assert lines
    assert all("WARNING login as 'kpg' from 127.0.0.1:" in line for line in lines)
    assert all(line.endswith(" failed: sorry, too many clients already") for line in lines)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--grace", "soon"], "--grace 'soon' is no time"),
        (["--log-slow", "x"], "--log-slow 'x' is no time"),
        (["--log-format", "xml"], "log format xml"),
        (["--log-level", "loud"], "level loud"),
    ],
)
def test_what_is_not_understood_is_said(option: list[str], message: str) -> None:
    command = [sys.executable, "-m", "kpg", "serve", "--trust", "--listen", "127.0.0.1:0", *option]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=False,
    )
    assert found.returncode == 1
    assert message in found.stderr


def test_examples_of_services_say_what_there_is() -> None:
    """The options of the unit, the Dockerfile and the table are those of the command."""
    text = (ROOT / "docs" / "howto" / "operate.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith(("| `--", "ExecStart=", "ENTRYPOINT"))]
    named = {option for line in lines for option in re.findall(r"--[a-z-]+", line.split(" | ")[0])}
    assert {"--listen", "--http", "--log-slow", "--superuser-reserved-connections"} <= named
    command = [sys.executable, "-m", "kpg", "serve", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300", "TERM": "dumb"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    assert named <= set(re.findall(r"--[a-z-]+", said.stdout))
