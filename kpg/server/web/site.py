"""HTTP site of a server: routes, the web page's files, authentication, and ``GET /metrics``.

The page's files come from the package and are read once. The users of the wire protocol log in by Basic
authentication. ``Guard`` refuses requests that pages of other sites make a browser send: it checks the
headers Origin and Sec-Fetch-Site. If no password is required, the Host must also be a name of this machine,
which prevents DNS rebinding. Metrics use the Prometheus text format.
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
from kpg.postgres.passwords import NOBODY, Verifier
from kpg.server import logs
from kpg.server.logs import address_of
from kpg.server.web import dataflow_page, event_streams, statement_api
from kpg.server.web.http import Connection, Gone, Refused, Request, refuse
from kpg.session.engine import Steps
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
def page() -> dict[str, tuple[str, bytes]]:
    """What lies at which address: its type and its bytes."""
    found = {}
    for file in (files(__package__) / "page").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            found["/" + file.name] = (kind, file.read_bytes())
    found["/"] = found.pop("/index.html")
    return found


async def answer(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET of one of them."""
    found = page().get(request.path)
    if found is None:
        raise Refused(404, f"there is nothing at {request.path[:100]}")
    await connection.reply(200, *found)


LOCAL: Final = ("127.0.0.1", "::1", "localhost")
KNOWN: Final = 1000
"""So many passwords are known to be right, so that they need not be checked by the slow hash again."""


class Known(Protocol):
    """Verifiers by users' names."""

    def get(self, name: str, default: Verifier) -> Verifier:
        """That of a user, ``default`` for nobody."""


Users = Callable[[], Known | None]


class Guard:
    """Tells users by their requests."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, Verifier] = {}
        self._turn = asyncio.Semaphore(1)

    async def user_of(self, request: Request, *, secure: bool, address: str = "") -> str:
        """Who asks, from an address; Refused for nobody that may."""
        check_site(request, secure=secure, trusting=self._users() is None)
        users = self._users()
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        name, password = _pair(given) if kind.lower() == "basic" else ("", "")
        if users is None:
            return name or "kpg"
        if not name or not await self._fits(users.get(name, NOBODY), name, password):
            problem = "no user of that name and password" if name else "a user's name and password are needed"
            if name:  # without one a browser asks first whether it needs one
                logs.refused(name, address, f"{problem} (HTTP)")
            raise Refused(
                401,
                problem,
                headers=[("www-authenticate", 'Basic realm="kpg", charset="UTF-8"')],
            )
        return name

    async def _fits(self, verifier: Verifier, name: str, password: str) -> bool:
        mark = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        if self._known.get(mark) == verifier:
            return True
        async with self._turn:  # a guesser has one processor at most, and no more than others
            right = await asyncio.to_thread(is_password, verifier, password)
        if right:
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[mark] = verifier
        return right


def is_password(verifier: Verifier, password: str) -> bool:
    """Whether a password is the one of which that was kept."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), verifier.salt, verifier.rounds)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return hmac.compare_digest(hashlib.sha256(client).digest(), verifier.stored)


def _pair(given: str) -> tuple[str, str]:
    try:
        name, _, password = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise Refused(400, "the header authorization cannot be read") from None
    return name, password


def check_site(request: Request, *, secure: bool, trusting: bool) -> None:
    """Refused for what a page of another site asks."""
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name is None or (trusting and name not in LOCAL):
        raise Refused(403, f"this server is not called {host!r}", hint="call it 127.0.0.1 or localhost")
    origin = request.headers.get("origin")
    own = f"{'https' if secure else 'http'}://{host}"
    if origin is not None and origin.lower() != own.lower():
        raise Refused(403, f"pages of {origin} may not ask this server")
    site = request.headers.get("sec-fetch-site", "none")
    navigates = request.headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
    if site not in ("none", "same-origin") and not (navigates and request.path == "/"):
        raise Refused(403, "pages of other sites may not ask this server")


KIND: Final = "text/plain; version=0.0.4; charset=utf-8"
HELP: Final = {
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
"""Of each figure what it is and what it tells."""
STARTED: Final = time.time()
Labels = dict[str, str]
Samples = dict[str, list[tuple[Labels, float]]]


async def answer_metrics(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /metrics."""
    found = await server.look(read)
    found["kpg_connections"] = [
        ({"protocol": "postgres"}, len(server.clients)),
        ({"protocol": "http"}, len(server.web)),
    ]
    found |= _process()
    await connection.reply(200, KIND, written(found).encode())


def read(engine: "Engine") -> Samples:
    """The figures of the engine, on its thread."""
    executor, operators = engine.executor, engine.executor.operators()
    tables = [entry.name for entry in engine.catalog if isinstance(entry, TableEntry)]
    views = {name: view.installed.stats for name, view in engine.views.items()}
    steps = engine.steps
    return {
        "kpg_epoch": [({}, executor.epoch)],
        "kpg_steps_total": [({}, steps.count if steps else 0)],
        "kpg_step_seconds_total": [({}, steps.seconds if steps else 0.0)],
        "kpg_table_rows": [({"table": name}, executor.count(name)) for name in tables],
        "kpg_table_bytes": [({"table": name}, executor.table_bytes(name)) for name in tables],
        "kpg_view_rows": [({"view": name}, one.rows) for name, one in views.items()],
        "kpg_view_install_seconds": [({"view": name}, one.install_seconds) for name, one in views.items()],
        "kpg_view_last_step_seconds": [
            ({"view": name}, one.last_step_seconds) for name, one in views.items()
        ],
        "kpg_operators": [({}, len(operators))],
        "kpg_arrangements": [({}, sum(one.arranged for one in operators))],
        "kpg_state_rows": [({}, sum(one.rows for one in operators if one.loop is None))],
        "kpg_state_bytes": [({}, sum(one.bytes for one in operators if one.loop is None))],
        "kpg_subscriptions": [({}, sum(view.feed.listeners for view in engine.views.values()))],
    }


def _process() -> Samples:
    times = os.times()
    found: Samples = {
        "process_cpu_seconds_total": [({}, times.user + times.system)],
        "process_start_time_seconds": [({}, STARTED)],
    }
    if STATUS.exists():
        found["process_resident_memory_bytes"] = [({}, int(STATUS.read_bytes().split()[1]) * PAGE)]
    return found


def written(found: Samples) -> str:
    """Figures as Prometheus reads them."""
    lines = []
    for name, (kind, text) in HELP.items():
        if name in found:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in found[name]]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


log = logging.getLogger("kpg.server.web")
MOST_CONNECTIONS: Final = 1000
"""Connections at one time; more are closed as they come."""
Handler = Callable[["Server", Connection, Request, str], Awaitable[None]]
"""What answers a request of a user."""
ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/sql"): statement_api.sql,
    ("POST", "/datalog"): statement_api.datalog,
    ("GET", "/metrics"): answer_metrics,
    ("GET", "/dataflow"): dataflow_page.dataflow,
    ("GET", "/relation"): dataflow_page.relation,
    ("GET", "/subscribe"): event_streams.subscribe,
    ("GET", "/ws"): event_streams.socket,
}


class Site:
    """Answers the requests of clients of one server."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        server.sampler = dataflow_page.Sampler(server)
        self._listening: asyncio.Server | None = None
        self._guard = Guard(lambda: server.users)
        self._tasks: dict[asyncio.Task[None], Connection] = {}
        server.web = self._tasks.keys()
        if server.hub.engine.steps is None:
            server.hub.engine.steps = Steps()

    async def start(self, host: str | None, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Begin to listen."""
        self._listening = await asyncio.start_server(self._came, host, port, ssl=tls)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        assert self._listening is not None
        host, port = self._listening.sockets[0].getsockname()[:2]
        return host, port

    async def stop(self) -> None:
        """Let all clients go."""
        if self._listening is not None:
            self._listening.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = self._tasks[task] = Connection(reader, writer)
        try:
            if len(self._tasks) <= MOST_CONNECTIONS:
                await self._serve(connection)
        except (Gone, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            del self._tasks[task]
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _serve(self, connection: Connection) -> None:
        while True:
            try:
                await self._answer(connection, await connection.next())
            except Refused as error:
                await refuse(connection, error)
                if connection.is_last:
                    await connection.linger()
            except (Gone, ConnectionError):
                raise
            except Exception:
                # A fault of ours must not take the server with it, nor tell strangers what it was.
                log.exception("a request failed")
                await refuse(connection, Refused(500, "internal error"))

    async def _answer(self, connection: Connection, request: Request) -> None:
        if request.path == "/healthz" and request.method in ("GET", "HEAD"):
            await connection.body()
            await connection.reply(200, "text/plain", b"ok\n")
            return
        address = address_of(connection.writer.get_extra_info("peername"))
        user = await self._guard.user_of(request, secure=connection.secure, address=address)
        method = "GET" if request.method == "HEAD" else request.method
        found = ROUTES.get((method, request.path))
        if found is None and method == "GET" and request.path in page():
            found = answer
        if found is None:
            methods = [known for known, path in ROUTES if path == request.path]
            if methods:
                raise Refused(
                    405,
                    f"{request.path} takes {' or '.join(methods)}",
                    headers=[("allow", ", ".join(methods))],
                )
            raise Refused(404, f"there is nothing at {request.path[:100]}")
        if method == "GET":
            await connection.body()
        await found(self.server, connection, request, user)
