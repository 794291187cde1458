"""``kpg serve``: one process that serves one database until it is stopped.

Besides TCP it can listen on a Unix-domain socket in a folder, as Postgres does (clients connect with
``-h /folder``). It reports its state to a service manager by systemd's ``NOTIFY_SOCKET`` protocol.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
import ssl
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kpg.postgres.passwords import Verifier, end_point_of, verifier_of
from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.runtime.records import dataclass
from kpg.server.listener import Server
from kpg.server.logs import Limits

if TYPE_CHECKING:
    from kpg.api.database import Database
    from kpg.server.listener import Server
    from kpg.server.web.site import Site


def path_in(folder: Path, port: int) -> Path:
    """Where clients look for the server of a port."""
    return folder / f".s.PGSQL.{port}"


@contextmanager
def local_socket(folder: Path, port: int, *, trusted: bool) -> Iterator[socket.socket]:
    """A socket to listen on, which is taken away at the end.

    ``trusted``: nobody but this user may connect, else everybody of this machine. OperationalError where that
    cannot be, or another server has it.
    """
    path = path_in(folder, port)
    _make_room(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177 if trusted else 0o111)
        try:
            made.bind(str(path))
        finally:
            os.umask(before)
    except OSError as error:
        made.close()
        raise OperationalError(f"cannot listen on {path}: {error.strerror or error}") from error
    here = path.stat().st_ino
    try:
        yield made
    finally:
        made.close()
        with suppress(OSError):
            if path.stat().st_ino == here:
                path.unlink()


def _make_room(path: Path) -> None:
    """Take away what a server that was killed has left."""
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
            return
    raise OperationalError(f"another server listens on {path}")


READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def tell(state: str) -> None:
    """Tell the manager of a state; without one, or one that does not listen any more, nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as one:
        one.sendto(state.encode(), address)


PASSWORD: Final = "KPG_PASSWORD"  # the name of an environment variable
LAST: Final = 3.0
"""Seconds after the grace period within which statements that are cancelled have to end."""
SWITCH: Final = 0.0005
"""Seconds after which the engine's thread lets that of the connections go on; Python has ten times that."""
MANY: Final = 20_000
"""New objects after which cycles are looked for: what waits with 64 clients is no garbage."""
Started = Callable[[str, int, tuple[str, int] | None], object]
"""What is told where clients can come, and where by HTTP."""
LOCAL: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Options:
    """Where to listen, and who may come in."""

    host: str = "127.0.0.1"
    port: int = 5433
    trust: bool = False
    user: str = "kpg"
    certificate: Path | None = None
    key: Path | None = None
    http: tuple[str, int] | None = None
    """Where to listen for HTTP, if anywhere."""
    socket: Path | None = None
    """A folder in which to listen, too."""
    limits: Limits = Limits()
    grace: float = 10.0
    """Seconds that statements have to end when the server is told to stop; told twice, they have none."""


def address_of(text: str) -> tuple[str, int]:
    """HOST:PORT; InterfaceError if it is none."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InterfaceError(
            f"{text!r} is no address to listen on", hint="write HOST:PORT, as 127.0.0.1:5433"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def users_of(options: Options) -> dict[str, Verifier] | None:
    """Who may come in; None for anybody. InterfaceError where that would let in the whole network."""
    web = options.host if options.http is None else options.http[0]
    if options.trust:
        for host in (options.host, web):
            if host not in LOCAL:
                raise InterfaceError(
                    f"--trust lets in anybody who reaches {host}",
                    hint=f"listen on 127.0.0.1, or give a password in {PASSWORD}",
                )
        return None
    if options.http is not None and web not in LOCAL and options.certificate is None:
        raise InterfaceError(
            f"passwords would come to {web} by HTTP without being encrypted",
            hint="give a --certificate, or listen on 127.0.0.1, behind a proxy that speaks TLS",
        )
    password = os.environ.get(PASSWORD)
    if not password:
        raise InterfaceError(
            "there is no password for clients",
            hint=f"set {PASSWORD}, or say --trust to let in everybody on this machine",
        )
    return {options.user: verifier_of(password)}


class Tls(ssl.SSLContext):
    """The server's side of TLS, which knows the certificate that it shows."""

    end_point = b""
    """What logins are bound to: see :mod:`kpg.postgres.passwords`."""

    def load_cert_chain(self, certfile: Any, keyfile: Any = None, password: Any = None) -> None:
        """Show another certificate to clients that come."""
        super().load_cert_chain(certfile, keyfile, password)
        self.end_point = end_point_of(Path(certfile).read_bytes())


def tls_of(options: Options) -> ssl.SSLContext | None:
    """The certificate to show; OperationalError if it cannot be read."""
    if options.certificate is None:
        return None
    context = Tls(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.certificate, options.key)
    except FileNotFoundError as error:
        files = (options.certificate, options.key or options.certificate)
        missing = next((str(one) for one in files if not Path(one).exists()), "")
        message = f"the certificate cannot be used: there is no file {missing}"
        raise OperationalError(message, hint="--certificate and --key name files of PEM") from error
    except (OSError, ssl.SSLError) as error:
        raise OperationalError(f"the certificate cannot be used: {error}") from error
    return context


def reload_tls(options: Options, tls: ssl.SSLContext | None) -> None:
    """Show the certificate that the file has now to clients that come; one that cannot be used is logged."""
    log = logging.getLogger("kpg.server")
    if tls is None or options.certificate is None:
        return
    try:
        tls_of(options)  # first another: what fails half-way must not be what clients are shown
        tls.load_cert_chain(options.certificate, options.key)
    except (OperationalError, OSError, ssl.SSLError) as error:
        log.error("%s; the one before stays", error)
    else:
        log.info("the certificate is read again")


def serve(db: "Database", options: Options, started: Started) -> None:
    """Serve a database until SIGTERM or Ctrl-C; ``started`` is told the address once clients can come."""
    users, tls = users_of(options), tls_of(options)
    sys.setswitchinterval(SWITCH)
    gc.freeze()
    gc.set_threshold(MANY, *gc.get_threshold()[1:])
    asyncio.run(_serve(db, options, users, tls, started))


async def _serve(
    db: "Database",
    options: Options,
    users: dict[str, Verifier] | None,
    tls: ssl.SSLContext | None,
    started: Started,
) -> None:
    server = Server(db.hub, users, tls, options.limits)
    with _taking(options.host, options.port):
        listening = await server.start(options.host, options.port)
    with ExitStack() as stack:
        if options.socket is not None:
            port = listening.sockets[0].getsockname()[1]
            await server.start_local(
                stack.enter_context(local_socket(options.socket, port, trusted=users is None))
            )
        await _until_told(server, options, tls, listening, started)


async def _until_told(
    server: "Server",
    options: Options,
    tls: ssl.SSLContext | None,
    listening: asyncio.Server,
    started: Started,
) -> None:
    log = logging.getLogger("kpg.server")
    done, at_once = asyncio.Event(), asyncio.Event()

    def told() -> None:
        (at_once if done.is_set() else done).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, ValueError):
            loop.add_signal_handler(number, told)
    with suppress(NotImplementedError, ValueError, AttributeError):
        loop.add_signal_handler(signal.SIGHUP, reload_tls, options, tls)
    site = None if options.http is None else await _open_site(server, *options.http, tls)
    host, port = listening.sockets[0].getsockname()[:2]
    started(host, port, None if site is None else site.address)
    tell(READY)
    await done.wait()
    tell(STOPPING)
    log.info("the server stops: statements have %g seconds to end", options.grace)
    listening.close()
    server.close_local()
    if site is not None:
        await site.stop()
    with _leaving(options.grace + LAST):
        stopping = asyncio.ensure_future(server.stop(options.grace))
        hurried = asyncio.ensure_future(at_once.wait())
        await asyncio.wait((stopping, hurried), return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not stopping.done():
            with _leaving(LAST):
                stopping.cancel()
                await server.stop()
    log.info("no client is left: the database is closed, with a checkpoint if it is in a folder")


@contextmanager
def _leaving(seconds: float) -> Iterator[None]:
    """End the process if the block takes longer: a statement may be where nothing can interrupt it.

    That loses nothing that has been acknowledged: it is as if the process had been killed.
    """

    def leave() -> None:
        logging.getLogger("kpg.server").error("a statement cannot be ended: the server ends without it")
        os._exit(1)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


async def _open_site(server: "Server", host: str, port: int, tls: ssl.SSLContext | None) -> "Site":
    from kpg.server.web.site import Site  # lazy: only for a server that listens for HTTP

    site = Site(server)
    with _taking(host, port):
        await site.start(host, port, tls)
    return site


@contextmanager
def _taking(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise OperationalError(message, hint="perhaps another server has that port") from error
