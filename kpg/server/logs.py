"""Server log: lines of text, or JSON with one object per line, including slow statements.

``Limits`` holds the server's limits: connections, memory per statement, and the time after which a statement
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

from kpg.execute.scripts import shown
from kpg.runtime.errors import OperationalError
from kpg.runtime.records import dataclass

if TYPE_CHECKING:
    from kpg.session.session import Session


log = logging.getLogger("kpg.server")
LOGGERS: Final = ("kpg", "asyncio")
"""Those whose lines are the server's: asyncio tells of TLS that fails, and of tasks."""
FIELDS: Final = ("client", "user", "address", "statement", "milliseconds", "sqlstate", "sessions")
"""What a line may say besides, as a field of its own in JSON."""
LONGEST_NAME: Final = 100
"""Letters of a user's name."""


class Lines(logging.Formatter):
    """Lines for people."""

    def __init__(self) -> None:
        self.converter = time.gmtime
        super().__init__("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")


class Objects(logging.Formatter):
    """An object a line: time, level, message, and what ``FIELDS`` has."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as JSON."""
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


def set_up(form: str, level: str, file: Path | None = None) -> None:
    """Log, as text or as JSON, what is of a level or above: to standard error, or at the end of a file.

    A file that was renamed or removed, as by logrotate, is made anew. OperationalError if it cannot be.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        try:
            handler = logging.handlers.WatchedFileHandler(file, encoding="utf-8")
        except OSError as error:
            raise OperationalError(f"cannot log to {file}: {error.strerror or error}") from error
    handler.setFormatter(Objects() if form == "json" else Lines())
    for name in LOGGERS:
        one = logging.getLogger(name)
        one.handlers[:] = [handler]
        one.propagate = False
        one.setLevel(level.upper())


@contextmanager
def timed(limits: "Limits", session: "Session", text: str) -> Iterator[None]:
    """Tell of a statement if what is done here took long, also if it failed, or ran out of its time."""
    begun = time.monotonic()
    try:
        yield
    finally:
        took = time.monotonic() - begun
        if took >= limits.slow:
            slow(session.number, session.user, text, took)


def refused(user: str, address: str, reason: str) -> None:
    """Tell of somebody who did not get in, by what may be anything: it is quoted, and cut."""
    log.warning(
        "login as %r from %s is refused: %s",
        user[:LONGEST_NAME],
        address,
        reason,
        extra={"user": user[:LONGEST_NAME], "address": address},
    )


def address_of(peer: Any) -> str:
    """Whence somebody comes, as a transport tells it; a socket of this machine has no address."""
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "a local socket"


def slow(client: int, user: str, text: str, seconds: float) -> None:
    """Tell of a statement that took long."""
    statement = shown(text)
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
    """How many clients may be there at once, and what a statement may take."""

    connections: int = 1_000
    slow: float = math.inf
    """Seconds that a statement may take before it is logged."""
    memory: int = 0
    """Bytes that one may take, 0: as many as there are."""
    reserved: int = 0
    """Of the clients, so many are only superusers."""
    query_processes: int = 2
    """How many long queries may run in processes of their own at once."""
