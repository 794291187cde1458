"""Workers on two hosts: two networks of their own on this machine, with a cable that can be pulled.

What is pulled says nothing to anybody: no connection ends, packets do not arrive. The seconds after which
a silent end is given up are few here.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kpg.api.database import Database
from kpg.runtime.cluster import transfer
from kpg.runtime.cluster.transport import NetworkMembers
from kpg.runtime.errors import OperationalError
from kpg.runtime.trace.merge import EFFORT
from kpg.session.distribution import Workers
from tests.unit.workers.apart import Apart
from tests.unit.workers.test_processes import TEXT, answer_alike, rows
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.mounts
ROOT = Path(__file__).parents[3]
HERE, THERE = "10.77.0.1", "10.77.0.2"
QUICK = """
from kpg.runtime.cluster import member_process, transfer
transfer.KEEPALIVE_IDLE = transfer.KEEPALIVE_INTERVAL = transfer.KEEPALIVE_COUNT = 1
member_process.SECONDS_TO_END = 2.0
"""


class TwoHosts(Apart):
    """Worker 1 is on another host than the coordinator and worker 0."""

    addresses = (HERE, HERE)

    def __init__(self) -> None:
        super().__init__()
        quiet = subprocess.DEVNULL  # nobody waits for what it says
        self._there = subprocess.Popen(["unshare", "-n", "sleep", "infinity"], stdout=quiet, stderr=quiet)
        here = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{self._there.pid}/ns/net") != here)
        run("ip link add end0 type veth peer name end1", f"ip link set end1 netns {self._there.pid}")
        run("ip link set lo up", f"ip addr add {HERE}/24 dev end0", "ip link set end0 up")
        run(*(f"{self._in} {one}" for one in ("ip link set lo up", f"ip addr add {THERE}/24 dev end1")))
        self.plug("up")

    @property
    def _in(self) -> str:
        return f"nsenter -n -t {self._there.pid}"

    def where(self, index: int) -> list[str]:
        return self._in.split() if index else []

    def plug(self, state: str) -> None:
        """Have the cable be in (up), or out (down)."""
        run(f"{self._in} ip link set end1 {state}")

    def end(self) -> None:
        for process in self.running:  # who is cut off ends by itself, later
            process.terminate()
        super().end()

    def leave(self) -> None:
        """There is one host again."""
        self._there.kill()
        self._there.wait()


def run(*commands: str) -> None:
    """Run commands."""
    for command in commands:
        subprocess.run(command.split(), check=True)


def alike() -> None:
    hosts = TwoHosts()
    one = Database()
    with Database(workers=Workers(NetworkMembers(2, EFFORT, hosts), 0)) as db:
        assert db._engine.executor.crew.hosts == [HERE, THERE]
        answer_alike(db, one)
    hosts.leave()


def pulled(folder: str) -> None:
    hosts = TwoHosts()
    exec(QUICK, {})
    assert transfer.KEEPALIVE_IDLE == 1
    with Database(workers=Workers(NetworkMembers(2, EFFORT, hosts), 0), folder=folder) as db:
        db.sql(TEXT)
        db.sql("insert into t select i, 'g' || i % 3, i / 2 from generate_series(1, 3000) g(i)")
        before, told = rows(db, "select * from sums"), list[object]()
        db.view("sums").subscribe(told.append)
        hosts.plug("down")
        with pytest.raises(OperationalError, match=r"connection to a worker|ended with status"):
            db.sql("insert into t values (4000, 'x', 3)")
        threading.Timer(1, hosts.plug, ("up",)).start()
        while True:
            try:
                assert rows(db, "select * from sums") == before and not told
                break
            except OperationalError as error:
                assert "did not" in str(error) or "workers have come" in str(error)
        db.sql("insert into t values (4000, 'x', 3)")
        assert rows(db, "select * from sums") == sorted([*before, ("X", 3)]) and len(told) == 1
    with Database(folder=folder) as db:
        assert rows(db, "select * from sums") == sorted([*before, ("X", 3)])
    hosts.leave()


def in_own_network(call: str) -> None:
    """Run a function of this file where networks may be made."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    code = f"from tests.unit.workers.test_hosts import alike, pulled; {call}"
    alone = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    command = [*alone, sys.executable, "-c", code]
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE
    )
    assert found.returncode == 0, found.stderr


def test_workers_on_two_hosts_answer_as_one() -> None:
    in_own_network("alike()")


def test_a_cable_that_is_pulled_loses_nothing(tmp_path: Path) -> None:
    in_own_network(f"pulled({str(tmp_path / 'db')!r})")
