"""Spark sessions: the caller's, left as it was; or one of our own, quiet, stopped with its JVM at the end.

pyspark is imported only when a session is needed.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kpg.runtime.errors import NotSupportedError, OperationalError
from kpg.runtime.spark.own import LOAD_SETTINGS, WITHOUT_SPARK, Work, is_running, own_session
from kpg.runtime.spark.slots import require_room, taken
from kpg.runtime.spark.source import by_ending

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

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
    from pyspark.sql import SparkSession

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
        import pyspark
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
