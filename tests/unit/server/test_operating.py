"""A server as a service: how it stops, what it logs, how many clients it takes."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

ROOT = Path(__file__).parents[3]
ENDLESS = (
    "with recursive r(a) as (select 1 union select a + 1 from r where a < 50000000) select count(*) from r"
)


class Service:
    """``kpg serve`` in a process of its own; ``lines`` is what it logs."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "kpg", "serve", "--trust", "--listen", "127.0.0.1:0", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "serves on" in line)
        self.dsn = f"host=127.0.0.1 port={line.split(':')[1].split(';')[0]} user=kpg dbname=kpg"

    def stop(self, times: int = 1) -> list[str]:
        self.process.send_signal(signal.SIGTERM)
        if times > 1:
            assert self.process.stderr is not None
            assert any("statements have" in line for line in self.process.stderr)
            self.process.send_signal(signal.SIGTERM)
        _, logged = self.process.communicate(timeout=60)
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
    assert messages[0] == "client 1 comes as kpg"
    assert messages[-1] == "the server has stopped"
    again = Service(str(folder))
    with psycopg.connect(again.dsn, autocommit=True) as one:
        assert one.execute("select a from t").fetchall() == [(1,)]
    assert again.stop() == []


@pytest.mark.parametrize(("times", "grace"), [(1, "50ms"), (2, "1h")])
def test_a_statement_without_end_does_not_keep_it(times: int, grace: str) -> None:
    service = Service("--grace", grace, "--log-level", "info")
    errors: list[psycopg.Error] = []
    begun = threading.Event()

    def ask() -> None:
        with psycopg.connect(service.dsn, autocommit=True) as one:
            begun.set()
            try:
                one.execute(ENDLESS)
            except psycopg.Error as error:
                errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    begun.wait()
    service.stop(times)
    thread.join()
    assert len(errors) == 1


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
    assert all(line.endswith("WARNING client refused: there are 2") for line in lines)


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
