"""HTTP site of a server: routes, the web page's files, authentication, and ``GET /metrics``.

The page's files are read from the package once. The users of the wire protocol log in by Basic
authentication. :class:`Authenticator` rejects requests that pages of other sites make a browser
send: it checks the headers Origin and Sec-Fetch-Site. If no password is required, the Host must
also be a name of this machine, which prevents DNS rebinding. Metrics use the Prometheus text
format.
"""

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from kpg.compiler.catalog.entries import TableEntry
from kpg.postgres.passwords import DUMMY_VERIFIER, Verifier
from kpg.server import logs
from kpg.server.logs import format_address
from kpg.server.web import dataflow_page, event_streams, statement_api
from kpg.server.web.http import ClientDisconnected, Connection, HttpError, Request, respond_error
from kpg.session.engine import StepStatistics
from kpg.session.memory_limit import PAGE, STATUS

if TYPE_CHECKING:
    from kpg.server.listener import Server
    from kpg.session.engine import Engine


KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def page_files() -> dict[str, tuple[str, bytes]]:
    """Return the content type and bytes of the web page's files, by path."""
    page_by_path = {}
    for file in (files(__package__) / "page").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            page_by_path["/" + file.name] = (kind, file.read_bytes())
    page_by_path["/"] = page_by_path.pop("/index.html")
    return page_by_path


async def answer_file(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET of a file of the web page."""
    file = page_files().get(request.path)
    if file is None:
        raise HttpError(404, f"there is nothing at {request.path[:100]}")
    await connection.respond(200, *file)


LOCAL: Final = ("127.0.0.1", "::1", "localhost")
MAX_VERIFIED: Final = 1000
"""Number of verified passwords that are cached, because the password hash is slow."""


class VerifierLookup(Protocol):
    """Verifiers by user name."""

    def get(self, name: str, default: Verifier) -> Verifier:
        """Return the verifier of a user; ``default`` if there is none."""


Users = Callable[[], VerifierLookup | None]


class Authenticator:
    """Authenticates requests."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        self._verified: dict[bytes, Verifier] = {}
        self._hash_lock = asyncio.Semaphore(1)

    async def authenticate(self, request: Request, *, secure: bool, address: str = "") -> str:
        """Return the user of a request. Raises HttpError if it is not allowed."""
        check_site(request, secure=secure, trusts_all=self._users() is None)
        users = self._users()
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        name, password = _decode_credentials(credentials) if kind.lower() == "basic" else ("", "")
        if users is None:
            return name or "kpg"
        if not name or not await self._verify(users.get(name, DUMMY_VERIFIER), name, password):
            problem = "no user of that name and password" if name else "user name and password are required"
            if name:  # browsers first send a request without credentials
                logs.log_failed_login(name, address, f"{problem} (HTTP)")
            raise HttpError(
                401,
                problem,
                headers=[("www-authenticate", 'Basic realm="kpg", charset="UTF-8"')],
            )
        return name

    async def _verify(self, verifier: Verifier, name: str, password: str) -> bool:
        digest = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        if self._verified.get(digest) == verifier:
            return True
        async with self._hash_lock:  # one hash at a time, so that guessing passwords uses at most one CPU
            is_correct = await asyncio.to_thread(is_password, verifier, password)
        if is_correct:
            if len(self._verified) >= MAX_VERIFIED:
                self._verified.clear()
            self._verified[digest] = verifier
        return is_correct


def is_password(verifier: Verifier, password: str) -> bool:
    """Return whether a password matches a verifier."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), verifier.salt, verifier.iterations)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return hmac.compare_digest(hashlib.sha256(client).digest(), verifier.stored_key)


def _decode_credentials(credentials: str) -> tuple[str, str]:
    try:
        name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise HttpError(400, "invalid authorization header") from None
    return name, password


def check_site(request: Request, *, secure: bool, trusts_all: bool) -> None:
    """Raise HttpError if a page of another site sent the request."""
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name is None or (trusts_all and name not in LOCAL):
        raise HttpError(403, f"invalid host {host!r}", hint="use 127.0.0.1 or localhost")
    origin = request.headers.get("origin")
    own_origin = f"{'https' if secure else 'http'}://{host}"
    if origin is not None and origin.lower() != own_origin.lower():
        raise HttpError(403, f"requests of pages of {origin} are not allowed")
    site = request.headers.get("sec-fetch-site", "none")
    navigates = request.headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
    if site not in ("none", "same-origin") and not (navigates and request.path == "/"):
        raise HttpError(403, "requests of pages of other sites are not allowed")


METRICS_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
METRICS: Final = {
    "kpg_epoch": ("gauge", "The number of the last commit."),
    "kpg_steps_total": ("counter", "Steps through the views since the server began."),
    "kpg_step_seconds_total": ("counter", "Seconds that all these steps took."),
    "kpg_table_rows": ("gauge", "Rows of a table."),
    "kpg_table_bytes": ("gauge", "Bytes of a table and its own indexes."),
    "kpg_view_rows": ("gauge", "About how many rows a maintained view has."),
    "kpg_view_install_seconds": ("gauge", "What it took to install a view."),
    "kpg_view_last_step_seconds": (
        "gauge",
        "What a view's operators, shared ones too, took in the last step.",
    ),
    "kpg_operators": ("gauge", "Operators of all views."),
    "kpg_arrangements": ("gauge", "Indexes that operators share."),
    "kpg_state_rows": ("gauge", "Rows that operators keep."),
    "kpg_state_bytes": ("gauge", "Bytes of what operators keep."),
    "kpg_connections": ("gauge", "Clients that are connected."),
    "kpg_subscriptions": ("gauge", "Subscriptions of views that are open."),
    "process_resident_memory_bytes": ("gauge", "Memory of the process."),
    "process_cpu_seconds_total": ("counter", "Processor time of the process."),
    "process_start_time_seconds": ("gauge", "When the server began, in seconds since 1970."),
}
"""Type and help text of each metric."""
START_TIME: Final = time.time()
Labels = dict[str, str]
Samples = dict[str, list[tuple[Labels, float]]]


async def answer_metrics(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /metrics."""
    samples = await server.read_engine(read_metrics)
    samples["kpg_connections"] = [
        ({"protocol": "postgres"}, len(server.clients)),
        ({"protocol": "http"}, len(server.http_connections)),
    ]
    samples |= _process_metrics()
    await connection.respond(200, METRICS_CONTENT_TYPE, format_metrics(samples).encode())


def read_metrics(engine: "Engine") -> Samples:
    """Return the engine's metrics, on its thread."""
    executor, operators = engine.executor, engine.executor.operators()
    tables = [entry.name for entry in engine.catalog if isinstance(entry, TableEntry)]
    views = {name: view.installation.stats for name, view in engine.views.items()}
    steps = engine.step_statistics
    return {
        "kpg_epoch": [({}, executor.epoch)],
        "kpg_steps_total": [({}, steps.count if steps else 0)],
        "kpg_step_seconds_total": [({}, steps.seconds if steps else 0.0)],
        "kpg_table_rows": [({"table": name}, executor.tables.count(name)) for name in tables],
        "kpg_table_bytes": [({"table": name}, executor.tables.table_bytes(name)) for name in tables],
        "kpg_view_rows": [({"view": name}, one.rows) for name, one in views.items()],
        "kpg_view_install_seconds": [({"view": name}, one.install_seconds) for name, one in views.items()],
        "kpg_view_last_step_seconds": [
            ({"view": name}, one.last_step_seconds) for name, one in views.items()
        ],
        "kpg_operators": [({}, len(operators))],
        "kpg_arrangements": [({}, sum(one.arranged for one in operators))],
        "kpg_state_rows": [({}, sum(one.rows for one in operators if one.loop is None))],
        "kpg_state_bytes": [({}, sum(one.bytes for one in operators if one.loop is None))],
        "kpg_subscriptions": [({}, sum(view.feed.subscription_count for view in engine.views.values()))],
    }


def _process_metrics() -> Samples:
    times = os.times()
    samples: Samples = {
        "process_cpu_seconds_total": [({}, times.user + times.system)],
        "process_start_time_seconds": [({}, START_TIME)],
    }
    if STATUS.exists():
        samples["process_resident_memory_bytes"] = [({}, int(STATUS.read_bytes().split()[1]) * PAGE)]
    return samples


def format_metrics(samples: Samples) -> str:
    """Return metrics in the Prometheus text format."""
    lines = []
    for name, (kind, text) in METRICS.items():
        if name in samples:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples[name]]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


log = logging.getLogger("kpg.server.web")
MAX_CONNECTIONS: Final = 1000
"""Number of open connections from which new ones are closed."""
Handler = Callable[["Server", Connection, Request, str], Awaitable[None]]
"""Answers the request of a user."""
ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/sql"): statement_api.sql,
    ("POST", "/datalog"): statement_api.datalog,
    ("GET", "/metrics"): answer_metrics,
    ("GET", "/dataflow"): dataflow_page.dataflow,
    ("GET", "/relation"): dataflow_page.relation,
    ("GET", "/subscribe"): event_streams.subscribe,
    ("GET", "/ws"): event_streams.websocket,
}


class Site:
    """Answers the HTTP requests of one server's clients."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        server.sampler = dataflow_page.StatisticsSampler(server)
        self._http_server: asyncio.Server | None = None
        self._authenticator = Authenticator(lambda: server.users)
        self._tasks: dict[asyncio.Task[None], Connection] = {}
        server.http_connections = self._tasks.keys()
        if server.session_manager.engine.step_statistics is None:
            server.session_manager.engine.step_statistics = StepStatistics()

    async def start(self, host: str | None, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Start listening."""
        self._http_server = await asyncio.start_server(self._serve_connection, host, port, ssl=tls)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the listening socket."""
        assert self._http_server is not None
        host, port = self._http_server.sockets[0].getsockname()[:2]
        return host, port

    async def stop(self) -> None:
        """Close all connections."""
        if self._http_server is not None:
            self._http_server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = self._tasks[task] = Connection(reader, writer)
        try:
            if len(self._tasks) <= MAX_CONNECTIONS:
                await self._serve(connection)
        except (ClientDisconnected, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            del self._tasks[task]
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _serve(self, connection: Connection) -> None:
        while True:
            try:
                await self._route(connection, await connection.next_request())
            except HttpError as error:
                await respond_error(connection, error)
                if connection.is_last:
                    await connection.linger()
            except (ClientDisconnected, ConnectionError):
                raise
            except Exception:
                # An internal error must neither stop the server nor reveal details.
                log.exception("a request failed")
                await respond_error(connection, HttpError(500, "internal error"))

    async def _route(self, connection: Connection, request: Request) -> None:
        if request.path == "/healthz" and request.method in ("GET", "HEAD"):
            await connection.read_body()
            await connection.respond(200, "text/plain", b"ok\n")
            return
        address = format_address(connection.writer.get_extra_info("peername"))
        user = await self._authenticator.authenticate(request, secure=connection.secure, address=address)
        method = "GET" if request.method == "HEAD" else request.method
        handler = ROUTES.get((method, request.path))
        if handler is None and method == "GET" and request.path in page_files():
            handler = answer_file
        if handler is None:
            methods = [known for known, path in ROUTES if path == request.path]
            if methods:
                raise HttpError(
                    405,
                    f"{request.path} takes {' or '.join(methods)}",
                    headers=[("allow", ", ".join(methods))],
                )
            raise HttpError(404, f"there is nothing at {request.path[:100]}")
        if method == "GET":
            await connection.read_body()
        await handler(self.server, connection, request, user)
