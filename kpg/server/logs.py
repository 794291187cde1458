"""What a server logs: lines for people, or JSON, one object a line; statements that took long among it."""

import json
import logging
import logging.handlers
import re
import sys
import time
from pathlib import Path
from typing import Final

from kpg.runtime.errors import OperationalError

log = logging.getLogger("kpg.server")
FIELDS: Final = ("client", "user", "statement", "milliseconds", "sqlstate")
"""What a line may say besides, as a field of its own in JSON."""
LONGEST: Final = 2_000
"""Letters of a statement that are logged."""


SECRET: Final = re.compile(r"""(\bpassword\b[\s=(]*)(?:e|u&|n)?['$"].*""", re.IGNORECASE | re.DOTALL)


def shown(text: str) -> str:
    """A statement as it is logged: cut where it is long, and where a password begins."""
    text = SECRET.sub(r"\1<hidden>", text.strip())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


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
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(level.upper())


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
