"""Spark sessions: the caller's, which is left unchanged, or a local one of our own.

pyspark is imported only when a session is needed. Our own session starts beside other work, several loads
share it, and the last one stops it with its JVM. Slots are the tasks that a session runs at once; workers on
Spark occupy slots until they end.
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
from kpg.runtime.spark.source import by_ending
from kpg.runtime.storage.files import Scratch

if TYPE_CHECKING:
    from pyspark import SparkContext
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
        from pyspark import SparkConf, SparkContext  # lazy: an optional dependency
        from pyspark.sql import SparkSession  # lazy: an optional dependency

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
    from pyspark.java_gateway import launch_gateway  # lazy: an optional dependency

    try:
        with log.open("wb") as sink:
            return launch_gateway(conf, {"stdout": sink, "stderr": sink})
    except Exception as error:
        said = log.read_text(errors="replace").strip()
        raise OperationalError(
            f"Spark did not start: {error}\n{said}".rstrip(), hint=WITHOUT_SPARK
        ) from error


LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?$")
SECONDS_TO_REGISTER: Final = 30.0
"""For executors of a cluster to be there."""


class Taken(NamedTuple):
    """What workers have: so many slots of a session."""

    slots: int
    session: "SparkSession"


taken: Final[dict[str, Taken]] = {}
"""By the groups of the workers' jobs; Python has one Spark context at a time."""


def conf(context: "SparkContext", name: str, default: str) -> str:
    """A setting of the session."""
    return context.getConf().get(name, default) or default


def slots(context: "SparkContext") -> int | None:
    """How many tasks the session runs at once; None if that cannot be told."""
    cores: int | None = None
    local = LOCAL.match(context.master)
    if local is not None:
        cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    elif not conf(context, "spark.default.parallelism", ""):
        cores = context.defaultParallelism
    return None if cores is None else cores // int(conf(context, "spark.task.cpus", "1"))


def require_slots(context: "SparkContext", count: int) -> None:
    """InterfaceError if the session does not have so many, nor gets them soon."""
    until = time.monotonic() + SECONDS_TO_REGISTER
    while (found := slots(context)) is not None and found < count:
        if LOCAL.match(context.master) or time.monotonic() > until:
            raise InterfaceError(
                f"{count} workers are more than the Spark session has slots: it has {found}",
                hint=f"workers={found}, or a session with more cores, as master local[{count}] has",
            )
        time.sleep(0.2)


def require_room(context: "SparkContext") -> None:
    """OperationalError if all slots have workers: what Spark is to do would wait for their end."""
    workers, found = sum(one.slots for one in taken.values()), slots(context)
    if workers and found is not None and found <= workers:
        raise OperationalError(
            f"Spark cannot read: all {found} slots of its session run workers",
            hint=f"give it more cores than workers, as master local[{workers + 2}] has",
        )


OLDEST_JAVA: Final = 17
OLDEST_SPARK: Final = 4
CONFIGURED: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME")
"""Where these are set, a path may mean another file system than this machine's."""
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
OWN_PATTERNS: Final = frozenset("{}^\\")
"""Patterns with these mean more to Spark than to Python."""


@contextmanager
def opened(given: "SparkSession | None", work: Work = Work.LONG) -> "Iterator[SparkSession]":
    """A session to load with: the given one, else the active one, else one of our own for the time being.

    ``work`` is what a session of our own is made for. Raises OperationalError if pyspark or Java is missing
    or Spark does not start, NotSupportedError for a Spark Connect session.
    """
    require_pyspark()
    session = given or (None if is_running() else _active())
    if session is not None and not hasattr(session, "_jsparkSession"):
        raise NotSupportedError(
            "a Spark Connect session cannot load tables",
            hint="use a classic session, or none: kpg starts its own",
        )
    if session is not None:
        require_room(session.sparkContext)
        match_python(session.sparkContext)
        with _configured(session):
            yield session
        return
    require_java()
    with own_session(work) as own:
        yield own.get()


def might_be_there(source: str) -> bool:
    """Whether Spark has to be asked for a path or a table: not for a local file that is not there."""
    return _means_more(source) or Path(source).exists() or any(glob.iglob(source, recursive=True))


def might_have_format(source: str) -> bool:
    """Whether Spark has to be asked how something is read: not local files of endings it does not know."""
    return _means_more(source) or by_ending(Path(source)) is not None


def _means_more(source: str) -> bool:
    """Whether a text may be more than a file here: the catalog of a session of our own has no tables."""
    if any(map(os.environ.get, CONFIGURED)) or SCHEME.match(source) or OWN_PATTERNS & set(source):
        return True
    if taken:
        return True  # the session that has workers may have a catalog
    return "pyspark.sql" in sys.modules and not is_running() and _active() is not None


def _active() -> "SparkSession | None":
    from pyspark.sql import SparkSession  # lazy: an optional dependency

    return SparkSession.getActiveSession()


@contextmanager
def starting(work: Work) -> Iterator[None]:
    """Let a session of our own start while the block does other work; loads within the block share it.

    Does nothing where Spark cannot run or a session is active; who loads is told why.
    """
    if unavailable() is not None or (not is_running() and _active() is not None):
        yield
        return
    with own_session(work):
        yield


def unavailable() -> OperationalError | None:
    """Why Spark cannot run here, for who can do without; None if it can."""
    try:
        require_pyspark()
        require_java()
    except OperationalError as error:
        return error
    return None


def require_pyspark() -> None:
    """Raise OperationalError, saying what to install, if pyspark cannot be imported or is too old."""
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
    """Let the tasks of a local session run the driver's Python, unless the user has chosen one.

    Spark takes python3 from PATH, which is another one where the virtual environment is not activated.
    """
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if context.master.startswith("local") and not chosen:
        context.pythonExec = sys.executable


def require_java() -> None:
    """Raise OperationalError, saying what to install, if there is no Java that Spark runs on."""
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
    """The major version that ``java -version`` tells, 0 if it tells none."""
    found = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(found.group(1)) if found else 0


@contextmanager
def _configured(session: "SparkSession") -> Iterator[None]:
    """The session with the settings of a load, and back."""
    before = {name: session.conf.get(name, None) for name in LOAD_SETTINGS}
    try:
        for name, value in LOAD_SETTINGS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)
