"""``kpg serve``: its options, and its messages at start and stop."""

import logging
import math
import sys
from pathlib import Path
from typing import Any

import kpg
from kpg.runtime.errors import InterfaceError
from kpg.runtime.native import ahead
from kpg.server.logs import Limits, set_up
from kpg.server.process import Options, address_of, path_in, serve
from kpg.session.memory_limit import STATUS, machine_bytes, statement_limit
from kpg.session.setting_values import DURATION, seconds_of


def run_serve(
    folder: Path | None,
    listen: str,
    *,
    trust: bool,
    user: str,
    certificate: Path | None,
    key: Path | None,
    memory_limit: str | None,
    statement_memory_limit: str = "",
    http: str | None = None,
    history: str | None = None,
    max_connections: int = 1_000,
    reserved_connections: int = 3,
    query_processes: int = 2,
    log_slow: str = "",
    log_format: str = "text",
    log_level: str = "warning",
    log_file: Path | None = None,
    grace: str = "10s",
    synchronous: str = "full",
    workers: int = 1,
    socket: Path | None = None,
) -> None:
    """Serve a database until the process is told to stop."""
    host, port = address_of(listen)
    web = None if http is None else address_of(http)
    if log_format not in ("text", "json"):
        raise InterfaceError(f"log format {log_format} is not known", hint="--log-format text or json")
    if log_level.upper() not in logging.getLevelNamesMapping():
        hint = "--log-level debug, info, warning or error"
        raise InterfaceError(f"log level {log_level} is not known", hint=hint)
    set_up(log_format, log_level, log_file)
    if reserved_connections >= max_connections:
        reserved_connections = max_connections - 1
    slow = _seconds("--log-slow", log_slow) if log_slow else math.inf
    memory = _bytes(statement_memory_limit)
    limits = Limits(max_connections, slow, memory, reserved_connections, query_processes)
    ending = _seconds("--grace", grace)
    options = Options(host, port, trust, user, certificate, key, web, socket, limits, ending)

    def started(host: str, port: int, web: tuple[str, int] | None) -> None:
        at = "" if web is None else f", http{'s' if certificate else ''}://{_shown(web[0])}:{web[1]}"
        local = "" if socket is None else f", {path_in(socket, port)}"
        print(f"kpg serves on {_shown(host)}:{port}{at}{local}; Ctrl-C ends it", file=sys.stderr, flush=True)
        if sys.stderr.isatty() and (missing := ahead.begin()):
            said = (
                f"kpg compiles {missing} kernels, once on a machine: meanwhile statements may wait for some"
            )
            print(said, file=sys.stderr, flush=True)

    how: dict[str, Any] = {} if folder is None else {"synchronous": synchronous}
    with kpg.connect(folder, memory_limit=memory_limit, history=history, workers=workers, **how) as db:
        kpg.show_progress(False)  # its standard error is a log
        serve(db, options, started)
    logging.getLogger("kpg.server").info("the server has stopped")


def _bytes(limit: str) -> int:
    """What a statement may take: half of what there is, unless something is said."""
    if limit:
        return statement_limit("--statement-memory-limit", limit)
    return machine_bytes() // 2 if STATUS.exists() else 0


def _seconds(option: str, text: str) -> float:
    if DURATION.fullmatch(text) is None:
        raise InterfaceError(f"{option} {text!r} is no time", hint="write 500ms, 2s or 1min")
    return seconds_of(text)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
