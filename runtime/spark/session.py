"""Spark sessions: the caller's, which is left unchanged, or a local one of our own.

pyspark is imported only when a session is needed. Our own session starts concurrently with other work,
several loads share it, and the last one stops it with its JVM. Slots are the tasks that a session runs at
once; workers on Spark occupy slots until they end.
"""

import enum
import glob
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpg.runtime.errors import InterfaceError, NotSupportedError, OperationalError
from kpg.runtime.spark.load_jobs import start_readers
from kpg.runtime.spark.source import format_by_suffix
from kpg.runtime.storage.files import ScratchFolder

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


WITHOUT_SPARK: Final = "or load without Spark: COPY and paths to parquet or CSV files go through pyarrow"
SECONDS_TO_STOP: Final = 20
"""Time limit for the JVM to exit by itself before it is killed."""

SETTINGS: Final = {
    "spark.master": "local[*]",
    "spark.app.name": "kpg load",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The files of a load are read once and deleted: they need no checksums and no success markers.
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
"""Settings that a load requires of any session."""


class SessionWork(enum.Enum):
    """Work for which our own session is started."""

    LONG = "long"
    """Spark's own code processes many rows."""
    BRIEF = "brief"
    """Spark's own code processes few rows."""
    READING = "reading"
    """Python tasks read the rows; their processes start together with the session."""


BRIEF_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a JVM that runs for seconds: its optimizing compiler would take more time than it saves."""
BRIEF_BYTES: Final = 1 << 28
"""Bytes of files up to which a load is brief."""


class OwnSession:
    """A local session in a JVM that a thread starts; the JVM writes to a log file instead of the terminal.

    The thread is not the main one, so that pyspark leaves the program's handling of Ctrl-C alone.
    """

    def __init__(self, work: SessionWork) -> None:
        self.user_count = 0
        self._work = work
        self._folder = ScratchFolder("kpg-spark-")
        self._gateway: Any = None
        self._session: Future[SparkSession] = Future()
        self._starter = threading.Thread(target=self._run, name="kpg-spark-start", daemon=True)
        self._starter.start()

    def get(self) -> "SparkSession":
        """Wait for the start and return the session.

        Raises:
            OperationalError: With Spark's output, if it did not start.
        """
        return self._session.result()

    def wait_for_readers(self) -> None:
        """Wait for the processes of tasks, if they start together with the session."""
        self._starter.join()

    def stop(self) -> None:
        """Stop the session and its JVM, after its start has ended."""
        try:
            if self._session.exception() is None:
                self.wait_for_readers()
                self._session.result().stop()
        finally:
            self._stop_jvm()
            self._folder.cleanup()

    def _run(self) -> None:
        try:
            self._session.set_result(self._start())
        except BaseException as error:
            self._session.set_exception(error)
            return
        if self._work is SessionWork.READING:
            with suppress(Exception):  # the first load that needs them reports the error
                start_readers(self.get())

    def _start(self) -> "SparkSession":
        from pyspark import SparkConf, SparkContext  # lazy: an optional dependency
        from pyspark.sql import SparkSession  # lazy: an optional dependency

        conf = SparkConf()
        conf.setAll(list((SETTINGS | LOAD_SETTINGS).items()))
        conf.set("spark.local.dir", self._folder.name)
        conf.set("spark.sql.warehouse.dir", f"{self._folder.name}/warehouse")
        if self._work is not SessionWork.LONG:
            conf.set("spark.driver.extraJavaOptions", BRIEF_JVM)
        if not SparkContext._gateway:
            self._gateway = _launch_gateway(conf, Path(self._folder.name, "spark.log"))
        context = SparkContext(conf=conf, gateway=self._gateway)
        if "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # not python3 of PATH: tasks need pyarrow
        return SparkSession(context)

    def _stop_jvm(self) -> None:
        """End the JVM that we started: it exits when its standard input closes."""
        from pyspark import SparkContext  # lazy: an optional dependency

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
def own_session(work: SessionWork) -> Iterator[OwnSession]:
    """Yield our own session, which concurrent callers share; the last one stops it.

    The session may still be starting. ``work`` applies if this caller starts it. After Ctrl-C a thread stops
    the session, so that the caller need not wait.
    """
    with _lock:
        if not _running:
            _running.append(OwnSession(work))
        own = _running[0]
        own.user_count += 1
    try:
        yield own
    except KeyboardInterrupt:
        threading.Thread(target=_release, args=(own,), name="kpg-spark-stop").start()
        raise
    except BaseException:
        _release(own)
        raise
    _release(own)


def _release(session: OwnSession) -> None:
    with _lock:
        session.user_count -= 1
        if not session.user_count:
            try:
                session.stop()
            finally:
                _running.remove(session)  # only now: callers wait for the lock meanwhile, and start a new one


def has_own_session() -> bool:
    """Return whether a session of our own is running or starting."""
    return bool(_running)


def _launch_gateway(conf: Any, log: Path) -> Any:
    from pyspark.java_gateway import launch_gateway  # lazy: an optional dependency

    try:
        with log.open("wb") as sink:
            return launch_gateway(conf, {"stdout": sink, "stderr": sink})
    except Exception as error:
        output = log.read_text(errors="replace").strip()
        raise OperationalError(
            f"Spark did not start: {error}\n{output}".rstrip(), hint=WITHOUT_SPARK
        ) from error


LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?$")
SECONDS_TO_REGISTER: Final = 30.0
"""Time limit for executors of a cluster to register."""


class OccupiedSlots(NamedTuple):
    """Slots of a session that workers occupy."""

    slots: int
    session: "SparkSession"


occupied_slots: Final[dict[str, OccupiedSlots]] = {}
"""Occupied slots by the job group of the workers; Python has one Spark context at a time."""


def get_setting(context: "SparkContext", name: str, default: str) -> str:
    """Return a setting of the session."""
    return context.getConf().get(name, default) or default


def count_slots(context: "SparkContext") -> int | None:
    """Return how many tasks the session runs at once; None if unknown."""
    cores: int | None = None
    local = LOCAL.match(context.master)
    if local is not None:
        cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    elif not get_setting(context, "spark.default.parallelism", ""):
        cores = context.defaultParallelism
    return None if cores is None else cores // int(get_setting(context, "spark.task.cpus", "1"))


def require_slots(context: "SparkContext", count: int) -> None:
    """Raise InterfaceError if the session does not have ``count`` slots within a time limit."""
    deadline = time.monotonic() + SECONDS_TO_REGISTER
    while (available := count_slots(context)) is not None and available < count:
        if LOCAL.match(context.master) or time.monotonic() > deadline:
            raise InterfaceError(
                f"{count} workers are more than the Spark session has slots: it has {available}",
                hint=f"workers={available}, or a session with more cores, as master local[{count}] has",
            )
        time.sleep(0.2)


def require_free_slot(context: "SparkContext") -> None:
    """Raise OperationalError if workers occupy all slots, so that a job would wait for their end."""
    workers, total = sum(one.slots for one in occupied_slots.values()), count_slots(context)
    if workers and total is not None and total <= workers:
        raise OperationalError(
            f"Spark cannot read: all {total} slots of its session run workers",
            hint=f"give it more cores than workers, as master local[{workers + 2}] has",
        )


OLDEST_JAVA: Final = 17
OLDEST_SPARK: Final = 4
CLUSTER_VARIABLES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME")
"""Variables with which a path may be on another file system than this machine's."""
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
SPARK_PATTERNS: Final = frozenset("{}^\\")
"""Characters that Spark interprets in patterns and Python does not."""


@contextmanager
def open_session(
    existing: "SparkSession | None", work: SessionWork = SessionWork.LONG
) -> "Iterator[SparkSession]":
    """Yield a session for a load: the given one, else the active one, else a temporary one of our own.

    ``work`` applies to our own session.

    Raises:
        OperationalError: If pyspark or Java is missing, or Spark does not start.
        NotSupportedError: For a Spark Connect session.
    """
    require_pyspark()
    session = existing or (None if has_own_session() else _active())
    if session is not None and not hasattr(session, "_jsparkSession"):
        raise NotSupportedError(
            "a Spark Connect session cannot load tables",
            hint="use a classic session, or none: kpg starts its own",
        )
    if session is not None:
        require_free_slot(session.sparkContext)
        match_python(session.sparkContext)
        with _with_load_settings(session):
            yield session
        return
    require_java()
    with own_session(work) as own:
        yield own.get()


def may_exist(source: str) -> bool:
    """Return whether a path or table may exist for Spark; False for a missing local file."""
    return _may_be_remote(source) or Path(source).exists() or any(glob.iglob(source, recursive=True))


def may_have_format(source: str) -> bool:
    """Return whether Spark may know the format; False for local files with unknown suffixes."""
    return _may_be_remote(source) or format_by_suffix(Path(source)) is not None


def _may_be_remote(source: str) -> bool:
    """Return whether a name may be more than a local file; the catalog of our own session has no tables."""
    if any(map(os.environ.get, CLUSTER_VARIABLES)) or SCHEME.match(source) or SPARK_PATTERNS & set(source):
        return True
    if occupied_slots:
        return True  # the session of the workers may have a catalog
    return "pyspark.sql" in sys.modules and not has_own_session() and _active() is not None


def _active() -> "SparkSession | None":
    from pyspark.sql import SparkSession  # lazy: an optional dependency

    return SparkSession.getActiveSession()


@contextmanager
def start_early(work: SessionWork) -> Iterator[None]:
    """Start our own session while the block does other work; loads within the block share it.

    Does nothing if Spark cannot run, which the load reports, or a session is active.
    """
    if unavailability_error() is not None or (not has_own_session() and _active() is not None):
        yield
        return
    with own_session(work):
        yield


def unavailability_error() -> OperationalError | None:
    """Return why Spark cannot run here, for callers with an alternative; None if it can."""
    try:
        require_pyspark()
        require_java()
    except OperationalError as error:
        return error
    return None


def require_pyspark() -> None:
    """Raise OperationalError with an instruction if pyspark cannot be imported or is too old."""
    try:
        import pyspark  # lazy: an optional dependency
    except ImportError as error:
        raise OperationalError(
            "Spark is not installed: pyspark cannot be imported",
            hint=f"pip install 'kpg[spark]' (and Java {OLDEST_JAVA} or newer), {WITHOUT_SPARK}",
        ) from error
    if int(pyspark.__version__.partition(".")[0]) < OLDEST_SPARK:
        raise OperationalError(
            f"pyspark {pyspark.__version__} is too old: kpg needs Spark {OLDEST_SPARK} or newer",
            hint=f"pip install 'pyspark>={OLDEST_SPARK}'",
        )


def match_python(context: "SparkContext") -> None:
    """Let the tasks of a local session use the driver's Python, unless the user has chosen one.

    Spark uses python3 from PATH, which differs if the virtual environment is not activated.
    """
    is_chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if context.master.startswith("local") and not is_chosen:
        context.pythonExec = sys.executable


def require_java() -> None:
    """Raise OperationalError with an instruction if there is no suitable Java."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    hint = f"install Java {OLDEST_JAVA} or newer and put it on PATH or in JAVA_HOME, {WITHOUT_SPARK}"
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise OperationalError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and there is no java {where}", hint=hint
        )
    version = _version_of(java)
    if version < OLDEST_JAVA:
        raise OperationalError(
            f"Spark needs Java {OLDEST_JAVA} or newer; {java} is Java {version}", hint=hint
        )


@cache
def _version_of(java: str) -> int:
    return java_version(subprocess.run([java, "-version"], capture_output=True, text=True).stderr)


def java_version(banner: str) -> int:
    """Return the major version in the output of ``java -version``, or 0."""
    found = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(found.group(1)) if found else 0


@contextmanager
def _with_load_settings(session: "SparkSession") -> Iterator[None]:
    """Apply the settings of a load within the block."""
    previous = {name: session.conf.get(name, None) for name in LOAD_SETTINGS}
    try:
        for name, value in LOAD_SETTINGS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in previous.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)
