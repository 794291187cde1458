"""Spark sessions: the caller's, left as it was; or one of our own, quiet, stopped with its JVM at the end.

pyspark is imported only when a session is needed.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.errors import NotSupportedError, OperationalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17
WITHOUT_SPARK: Final = "or load without Spark: COPY and paths to parquet or CSV files go through pyarrow"
SECONDS_TO_STOP: Final = 20

OWN_SETTINGS: Final = {
    "spark.master": "local[*]",
    "spark.app.name": "kpg load",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOAD_SETTINGS: Final = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}


@contextmanager
def opened(given: "SparkSession | None") -> "Iterator[SparkSession]":
    """A session to load with: the given one, else the active one, else one of our own for the time being.

    Raises OperationalError if pyspark or Java is missing or Spark does not start, NotSupportedError for a
    Spark Connect session.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    session = given or SparkSession.getActiveSession()
    if session is not None and not hasattr(session, "_jsparkSession"):
        raise NotSupportedError(
            "a Spark Connect session cannot load tables",
            hint="use a classic session, or none: kpg starts its own",
        )
    if session is not None:
        with _configured(session):
            yield session
        return
    require_java()
    with _own_session() as session, _configured(session):
        yield session


def unavailable() -> OperationalError | None:
    """Why Spark cannot run here, for who can do without; None if it can."""
    try:
        require_pyspark()
        require_java()
    except OperationalError as error:
        return error
    return None


def require_pyspark() -> None:
    """Raise OperationalError, saying what to install, if pyspark cannot be imported."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise OperationalError(
            "Spark is not installed: pyspark cannot be imported",
            hint=f"pip install 'kpg[spark]' (and Java {OLDEST_JAVA} or newer), {WITHOUT_SPARK}",
        ) from error


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
    version = java_version(subprocess.run([java, "-version"], capture_output=True, text=True).stderr)
    if version < OLDEST_JAVA:
        raise OperationalError(
            f"Spark needs Java {OLDEST_JAVA} or newer; {java} is Java {version}", hint=hint
        )


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


@contextmanager
def _own_session() -> "Iterator[SparkSession]":
    """A local session whose JVM writes to a log file of ours, so that nothing reaches the terminal."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="kpg-spark-", ignore_cleanup_errors=True) as folder:
        conf = SparkConf()
        conf.setAll(list(OWN_SETTINGS.items()))
        conf.set("spark.local.dir", folder).set("spark.sql.warehouse.dir", f"{folder}/warehouse")
        gateway = None if SparkContext._gateway else _quiet_gateway(conf, Path(folder, "spark.log"))
        try:
            session = SparkSession(SparkContext(conf=conf, gateway=gateway))
            try:
                yield session
            finally:
                session.stop()
        finally:
            if gateway is not None:
                _shut_down(gateway)
                SparkContext._gateway = None
                SparkContext._jvm = None


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


def _shut_down(gateway: Any) -> None:
    """End the JVM that we started: it exits when its standard input closes."""
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        process.wait(SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
