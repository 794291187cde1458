"""``kpg serve``: options, and what is said at the start and the end."""

import sys
from pathlib import Path

import kpg
from kpg.server.run import Options, address_of, serve


def run_serve(
    folder: Path | None,
    listen: str,
    *,
    trust: bool,
    user: str,
    certificate: Path | None,
    key: Path | None,
    memory_limit: str | None,
) -> None:
    """Serve a database until the process is told to stop."""
    host, port = address_of(listen)
    options = Options(host, port, trust, user, certificate, key)

    def started(host: str, port: int) -> None:
        print(f"kpg serves on {host}:{port}; Ctrl-C ends it", file=sys.stderr, flush=True)

    with kpg.connect(folder, memory_limit=memory_limit) as db:
        serve(db, options, started)
