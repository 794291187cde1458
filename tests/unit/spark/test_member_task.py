"""What a task of workers says where it cannot be one, and that none is left when its driver is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kpg.runtime.cluster.transport import runtime_version
from kpg.runtime.spark import member_task
from tests.markdown import blocks
from tests.unit.workers.test_processes import gone
from tests.waiting import until

ROOT = Path(__file__).parents[3]
CALLING = ("127.0.0.1", 1, b"secret", 2, 4)


class Task:
    """A ``BarrierTaskContext``."""

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt

    def partitionId(self) -> int:
        return 0

    def attemptNumber(self) -> int:
        return 0

    def stageAttemptNumber(self) -> int:
        return self.attempt


def run(monkeypatch: pytest.MonkeyPatch, version: str, attempt: int = 0) -> list[int]:
    monkeypatch.setattr("pyspark.BarrierTaskContext.get", lambda: Task(attempt))
    return list(member_task.run_worker(CALLING, version, [0]))


def test_an_executor_without_kpg_or_with_another_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"kpg worker: .* has kpg .*, the driver has 0\.0"):
        run(monkeypatch, "0.0")
    monkeypatch.setitem(sys.modules, "kpg.runtime.cluster.member_process", None)
    with pytest.raises(RuntimeError, match=r"kpg worker: .* has no kpg, or another version of it"):
        run(monkeypatch, "0.0")


def test_a_driver_that_is_not_reached_is_named_but_not_where_spark_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RuntimeError, match=r"does not reach the driver at 127\.0\.0\.1:1"):
        run(monkeypatch, runtime_version())
    assert run(monkeypatch, runtime_version(), attempt=1) == []


KILLED = """
import os, signal
from kpg.runtime.spark import session
session.SETTINGS["spark.driver.memory"] = "1g"
with session.own_session(session.SessionWork.BRIEF) as mine:
    import kpg
    db = kpg.connect(spark=mine.get(), workers=1)
    db.sql("create table t(k int primary key); insert into t values (1)")
    print(*db._engine.executor.crew.processes, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.java
def test_workers_end_with_a_driver_that_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (process,) = map(int, done.stdout.split())
    until(lambda: gone(process))
    assert process != os.getpid()


@pytest.mark.java
def test_the_ten_lines_of_the_guide_print_what_they_say() -> None:
    """Whether there is a log of Spark beside it is the reader's settings."""
    guide = (ROOT / "docs" / "howto" / "workers.md").read_text()
    (example,) = [block.code for block in blocks(guide) if block.language == "py"]
    assert len([line for line in example.splitlines() if line]) <= 10
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.stdout, done.returncode) == (example.rpartition("# ")[2], 0), done.stderr
