"""Server log: lines of text, or JSON with one object per line, including slow statements.

``Limits`` holds the server's limits: connections, memory per statement, and the time after which a
statement
counts as slow.
"""

import json
import logging
import logging.handlers
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kpg.execute.scripts import redact
from kpg.runtime.errors import OperationalError
from kpg.runtime.records import dataclass

if TYPE_CHECKING:
    from kpg.session.session import Session


log = logging.getLogger("kpg.server")
LOGGERS: Final = ("kpg", "asyncio")
"""Loggers whose records are the server's. asyncio logs failed TLS handshakes and tasks."""
FIELDS: Final = ("client", "user", "address", "statement", "milliseconds", "sqlstate", "sessions")
"""Record attributes that are separate fields in JSON."""
MAX_USER_NAME: Final = 100
"""Characters of a user's name that are logged."""


class TextFormatter(logging.Formatter):
    """Formats a record as a line of text."""

    def __init__(self) -> None:
        self.converter = time.gmtime
        super().__init__("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object: time, level, message and ``FIELDS``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logging(log_format: str, level: str, file: Path | None = None) -> None:
    """Log records of a level or above, as text or JSON, to standard error or a file.

    A file that was renamed or removed, as by logrotate, is created again. OperationalError if it cannot
    be opened.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        try:
            handler = logging.handlers.WatchedFileHandler(file, encoding="utf-8")
        except OSError as error:
            raise OperationalError(f"cannot log to {file}: {error.strerror or error}") from error
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())


@contextmanager
def log_slow_statements(limits: "Limits", session: "Session", text: str) -> Iterator[None]:
    """Log the statement that runs in the context if it is slow, also if it fails."""
    start = time.monotonic()
    try:
        yield
    finally:
        seconds = time.monotonic() - start
        if seconds >= limits.slow:
            log_slow_statement(session.number, session.user, text, seconds)


def log_failed_login(user: str, address: str, reason: str) -> None:
    """Log a failed login. The user's name is untrusted, so it is quoted and truncated."""
    log.warning(
        "login as %r from %s failed: %s",
        user[:MAX_USER_NAME],
        address,
        reason,
        extra={"user": user[:MAX_USER_NAME], "address": address},
    )


def format_address(peer: Any) -> str:
    """Return a peer's network address for messages; Unix-domain sockets have none."""
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "a local socket"


def log_slow_statement(client: int, user: str, text: str, seconds: float) -> None:
    """Log a slow statement."""
    statement = redact(text)
    milliseconds = round(1000 * seconds, 3)
    log.warning(
        "client %d: %.3f ms: %s",
        client,
        milliseconds,
        statement,
        extra={"client": client, "user": user, "statement": statement, "milliseconds": milliseconds},
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the server: connections, duration before a statement is logged, and memory per statement."""

    connections: int = 1_000
    slow: float = math.inf
    """Seconds from which a statement is logged."""
    memory: int = 0
    """Bytes that one statement may allocate; 0 for no limit."""
    reserved: int = 0
    """Number of connections that are reserved for superusers."""
    query_processes: int = 2
    """How many long queries may run in processes of their own at once."""
