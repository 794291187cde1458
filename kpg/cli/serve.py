"""``kpg serve``: parses its options, starts the server, and prints messages at its start and stop."""

import logging
import math
import sys
from pathlib import Path
from typing import Any

import kpg
from kpg.runtime.errors import InterfaceError
from kpg.runtime.native import ahead
from kpg.server.logs import Limits, configure_logging
from kpg.server.process import Options, parse_address, serve, socket_path
from kpg.session.memory_limit import STATUS, machine_bytes, parse_statement_limit
from kpg.session.setting_values import DURATION, parse_duration


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
    """Serve a database until the process is stopped."""
    host, port = parse_address(listen)
    http_address = None if http is None else parse_address(http)
    if log_format not in ("text", "json"):
        raise InterfaceError(f"log format {log_format} is not known", hint="--log-format text or json")
    if log_level.upper() not in logging.getLevelNamesMapping():
        hint = "--log-level debug, info, warning or error"
        raise InterfaceError(f"log level {log_level} is not known", hint=hint)
    configure_logging(log_format, log_level, log_file)
    if reserved_connections >= max_connections:
        reserved_connections = max_connections - 1
    slow = _parse_duration("--log-slow", log_slow) if log_slow else math.inf
    memory = _statement_memory(statement_memory_limit)
    limits = Limits(max_connections, slow, memory, reserved_connections, query_processes)
    grace_seconds = _parse_duration("--grace", grace)
    options = Options(host, port, trust, user, certificate, key, http_address, socket, limits, grace_seconds)

    def announce(host: str, port: int, http_address: tuple[str, int] | None) -> None:
        http_url = (
            ""
            if http_address is None
            else f", http{'s' if certificate else ''}://{_format_host(http_address[0])}:{http_address[1]}"
        )
        socket_name = "" if socket is None else f", {socket_path(socket, port)}"
        print(
            f"kpg serves on {_format_host(host)}:{port}{http_url}{socket_name}; Ctrl-C ends it",
            file=sys.stderr,
            flush=True,
        )
        if sys.stderr.isatty() and (missing := ahead.begin()):
            message = (
                f"kpg compiles {missing} kernels, once on a machine: meanwhile statements may wait for some"
            )
            print(message, file=sys.stderr, flush=True)

    connect_options: dict[str, Any] = {} if folder is None else {"synchronous": synchronous}
    with kpg.connect(
        folder, memory_limit=memory_limit, history=history, workers=workers, **connect_options
    ) as db:
        kpg.show_progress(False)  # standard error is the log
        serve(db, options, announce)
    logging.getLogger("kpg.server").info("the server has stopped")


def _statement_memory(limit: str) -> int:
    """Return a statement's memory limit in bytes; half of the machine's memory if none is given."""
    if limit:
        return parse_statement_limit("--statement-memory-limit", limit)
    return machine_bytes() // 2 if STATUS.exists() else 0


def _parse_duration(option: str, text: str) -> float:
    if DURATION.fullmatch(text) is None:
        raise InterfaceError(f"{option} {text!r} is no time", hint="write 500ms, 2s or 1min")
    return parse_duration(text)


def _format_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
