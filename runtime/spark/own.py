"""A Spark session of our own: it starts beside other work, several loads share it, the last one stops it."""

import enum
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.errors import OperationalError
from kpg.runtime.spark.handing import start_readers
from kpg.runtime.storage.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHOUT_SPARK: Final = "or load without Spark: COPY and paths to parquet or CSV files go through pyarrow"
SECONDS_TO_STOP: Final = 20
"""For the JVM to end by itself; then it is killed."""

SETTINGS: Final = {
    "spark.master": "local[*]",
    "spark.app.name": "kpg load",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The files of a load are read once and deleted: no checksums beside them, no markers of success.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.parquet.page.write-checksum.enabled": "false",
}
LOAD_SETTINGS: Final = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
"""What a load needs of any session."""


class Work(enum.Enum):
    """What a session of our own is for."""

    LONG = "long"
    """Spark's own code has many rows to go through."""
    BRIEF = "brief"
    """It has few."""
    READING = "reading"
    """Python's tasks read and Spark's code looks on: also brief, and the tasks' processes start with it."""


BRIEF_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a JVM that lives for seconds: its optimising compiler would take more time than it saves."""
BRIEF_BYTES: Final = 1 << 28
"""Bytes of files up to which a load is brief."""


class OwnSession:
    """A local session in a JVM that a thread starts; the JVM writes to a log file of ours, not the terminal.

    The thread is not the main one, so that pyspark leaves the program's handling of Ctrl-C alone.
    """

    def __init__(self, work: Work) -> None:
        self.users = 0
        self._work = work
        self._folder = Scratch("kpg-spark-")
        self._gateway: Any = None
        self._session: Future[SparkSession] = Future()
        self._starter = threading.Thread(target=self._run, name="kpg-spark-start", daemon=True)
        self._starter.start()

    def get(self) -> "SparkSession":
        """The session, once it has started. OperationalError, with what Spark said, if it did not."""
        return self._session.result()

    def wait_for_readers(self) -> None:
        """Return once the processes for tasks have started, if they are to, beside the session."""
        self._starter.join()

    def stop(self) -> None:
        """End the session and its JVM, after its start if it is under way."""
        try:
            if self._session.exception() is None:
                self.wait_for_readers()
                self._session.result().stop()
        finally:
            self._shut_down()
            self._folder.cleanup()

    def _run(self) -> None:
        try:
            self._session.set_result(self._start())
        except BaseException as error:
            self._session.set_exception(error)
            return
        if self._work is Work.READING:
            with suppress(Exception):  # who needs them is told what is wrong
                start_readers(self.get())

    def _start(self) -> "SparkSession":
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        conf = SparkConf()
        conf.setAll(list((SETTINGS | LOAD_SETTINGS).items()))
        conf.set("spark.local.dir", self._folder.name)
        conf.set("spark.sql.warehouse.dir", f"{self._folder.name}/warehouse")
        if self._work is not Work.LONG:
            conf.set("spark.driver.extraJavaOptions", BRIEF_JVM)
        if not SparkContext._gateway:
            self._gateway = _quiet_gateway(conf, Path(self._folder.name, "spark.log"))
        context = SparkContext(conf=conf, gateway=self._gateway)
        if "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # not what python3 happens to be: tasks need pyarrow
        return SparkSession(context)

    def _shut_down(self) -> None:
        """End the JVM that we started: it exits when its standard input closes."""
        from pyspark import SparkContext

        if self._gateway is None:
            return
        self._gateway.shutdown()
        SparkContext._gateway = None
        SparkContext._jvm = None
        process = self._gateway.proc
        process.stdin.close()
        try:
            process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_lock: Final = threading.Lock()
_running: list[OwnSession] = []


@contextmanager
def own_session(work: Work) -> Iterator[OwnSession]:
    """Our own session: the same one for all that need it at the same time; the last of them stops it.

    It may still be starting. ``work`` is what it is for, to the first who asks. Who interrupts does not wait
    until it has started and ended: a thread does.
    """
    with _lock:
        if not _running:
            _running.append(OwnSession(work))
        own = _running[0]
        own.users += 1
    try:
        yield own
    except KeyboardInterrupt:
        threading.Thread(target=_leave, args=(own,), name="kpg-spark-stop").start()
        raise
    except BaseException:
        _leave(own)
        raise
    _leave(own)


def _leave(own: OwnSession) -> None:
    with _lock:
        own.users -= 1
        if not own.users:
            try:
                own.stop()
            finally:
                _running.remove(own)  # not before: who asks meanwhile waits for the lock, and has a new one


def is_running() -> bool:
    """Whether there is a session of our own, or one on its way."""
    return bool(_running)


def _quiet_gateway(conf: Any, log: Path) -> Any:
    from pyspark.java_gateway import launch_gateway

    try:
        with log.open("wb") as sink:
            return launch_gateway(conf, {"stdout": sink, "stderr": sink})
    except Exception as error:
        said = log.read_text(errors="replace").strip()
        raise OperationalError(
            f"Spark did not start: {error}\n{said}".rstrip(), hint=WITHOUT_SPARK
        ) from error
