"""A server with a durable database is killed under load: every insert that it acknowledged is there."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest

from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[3]


class Served:
    """A server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "kpg", "serve", str(folder), "--trust", "--listen", "127.0.0.1:0"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "serves on" in line)
        self.dsn = f"host=127.0.0.1 port={line.split(':')[1].split(';')[0]} user=kpg dbname=kpg"

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


@pytest.mark.slow
def test_what_is_acknowledged_survives_kill(tmp_path: Path) -> None:
    acknowledged: list[int] = []

    def insert(dsn: str, first: int) -> None:
        number = first
        try:
            with psycopg.connect(dsn, autocommit=True) as one:
                while True:
                    one.execute("insert into t values (%s, %s)", (number, number % 7))
                    acknowledged.append(number)
                    number += 1
        except psycopg.Error:
            return

    served = Served(tmp_path / "db")
    with psycopg.connect(served.dsn, autocommit=True) as one:
        one.execute("create table t (id int primary key, g int)")
        one.execute("create materialized view v as select g, count(*) as n from t group by g")
    for life in range(3):
        starts = [10**6 * (10 * life + client) for client in range(4)]
        clients = [threading.Thread(target=insert, args=(served.dsn, start)) for start in starts]
        for client in clients:
            client.start()
        enough = len(acknowledged) + 100 * (life + 1)
        until(lambda enough=enough: len(acknowledged) >= enough)
        served.end(signal.SIGKILL)
        for client in clients:
            client.join()
        served = Served(tmp_path / "db")
        with psycopg.connect(served.dsn, autocommit=True) as one:
            rows = {row[0] for row in one.execute("select id from t").fetchall()}
            counts = dict(one.execute("select * from v").fetchall())
        assert rows.issuperset(acknowledged)
        assert counts == {g: sum(row % 7 == g for row in rows) for g in {row % 7 for row in rows}}
    assert served.end(signal.SIGTERM) == 0
