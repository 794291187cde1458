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
    http: str | None = None,
    history: str | None = None,
) -> None:
    """Serve a database until the process is told to stop."""
    host, port = address_of(listen)
    web = None if http is None else address_of(http)
    options = Options(host, port, trust, user, certificate, key, web)

    def started(host: str, port: int, web: tuple[str, int] | None) -> None:
        at = "" if web is None else f", http{'s' if certificate else ''}://{_shown(web[0])}:{web[1]}"
        print(f"kpg serves on {_shown(host)}:{port}{at}; Ctrl-C ends it", file=sys.stderr, flush=True)

    with kpg.connect(folder, memory_limit=memory_limit, history=history) as db:
        serve(db, options, started)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
