"""A socket in a folder: psql reaches it, who may not does not, and nothing of it is left."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from kpg.runtime.errors import OperationalError
from kpg.server.process import local_socket, socket_path
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]


def test_a_socket_is_there_for_as_long(tmp_path: Path) -> None:
    path = socket_path(tmp_path, 77)
    with local_socket(tmp_path, 77, trusted=True) as one:
        assert path == tmp_path / ".s.PGSQL.77"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        one.listen()
        with pytest.raises(OperationalError, match="another server listens on"):
            local_socket(tmp_path, 77, trusted=True).__enter__()
    assert not path.exists()
    with local_socket(tmp_path, 77, trusted=False):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
    path.write_text("no socket")
    with pytest.raises(OperationalError, match="Address already in use"):
        local_socket(tmp_path, 77, trusted=True).__enter__()


def test_what_a_killed_server_has_left_is_in_nobodys_way(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(socket_path(tmp_path, 5)))
    left.close()
    with local_socket(tmp_path, 5, trusted=True) as one:
        one.listen()


@pytest.mark.parametrize("password", ["", "secret"])
def test_clients_come_by_a_socket(tmp_path: Path, password: str) -> None:
    command = [sys.executable, "-m", "kpg", "serve", "--listen", "127.0.0.1:0", "--socket", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KPG_PASSWORD": password}
    command += [] if password else ["--trust"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "serves on" in line)
        port = line.split(":")[1].split(",")[0]
        assert str(socket_path(tmp_path, int(port))) in line
        dsn = f"host={tmp_path} port={port} user=kpg dbname=kpg"
        if password:
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(f"{dsn} password=wrong")
        with psycopg.connect(f"{dsn} password={password}", autocommit=True) as one:
            one.execute("create table t (a int)")
            for number in range(100):
                one.execute("insert into t values (%s)", (number,))
            assert one.execute("select count(*) from t").fetchone() == (100,)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert list(tmp_path.iterdir()) == []
