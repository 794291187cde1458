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

from kpg.postgres.passwords import Verifier, certificate_hash, make_verifier
from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.server.listener import Server
from kpg.server.logs import Limits

if TYPE_CHECKING:
    from kpg.api.database import Database
    from kpg.server.web import site as web_site
    from kpg.server.web.site import Site
else:
    web_site = LazyModule("kpg.server.web.site")


def socket_path(folder: Path, port: int) -> Path:
    """Return the path of the Unix-domain socket of a port in a folder."""
    return folder / f".s.PGSQL.{port}"


@contextmanager
def local_socket(folder: Path, port: int, *, trusted: bool) -> Iterator[socket.socket]:
    """Yield a bound Unix-domain socket, and remove its file at the end.

    ``trusted``: only this user may connect, otherwise every user of this machine. OperationalError if
    the path cannot be bound or another server uses it.
    """
    path = socket_path(folder, port)
    _remove_stale_socket(path)
    bound_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        old_mask = os.umask(0o177 if trusted else 0o111)
        try:
            bound_socket.bind(str(path))
        finally:
            os.umask(old_mask)
    except OSError as error:
        bound_socket.close()
        raise OperationalError(f"cannot listen on {path}: {error.strerror or error}") from error
    inode = path.stat().st_ino
    try:
        yield bound_socket
    finally:
        bound_socket.close()
        with suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket file of a server that was killed."""
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


def notify_service_manager(state: str) -> None:
    """Report a state to the service manager, if there is one that listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagram_socket,
    ):
        datagram_socket.sendto(state.encode(), address)


PASSWORD: Final = "KPG_PASSWORD"  # name of an environment variable
CANCEL_GRACE: Final = 3.0
"""Seconds within which canceled statements must end, after the grace period."""
SWITCH_INTERVAL: Final = 0.0005
"""Seconds after which the engine's thread yields to the event loop's; a tenth of Python's default."""
GC_THRESHOLD: Final = 20_000
"""New objects that start a garbage collection; waiting requests of 64 clients are fewer."""
StartCallback = Callable[[str, int, tuple[str, int] | None], object]
"""Called with the host, the port and the HTTP address when clients can connect."""
LOCAL_HOSTS: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Options:
    """Where to listen, and how clients log in."""

    host: str = "127.0.0.1"
    port: int = 5433
    trust: bool = False
    user: str = "kpg"
    certificate: Path | None = None
    key: Path | None = None
    http: tuple[str, int] | None = None
    """HTTP address to listen on; None for no HTTP."""
    socket: Path | None = None
    """Folder of a Unix-domain socket; None for none."""
    limits: Limits = Limits()
    grace: float = 10.0
    """Seconds for running statements to end after a stop signal. A second signal ends the wait."""


def parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT. InterfaceError if it is malformed."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InterfaceError(f"{text!r} is not an address", hint="write HOST:PORT, such as 127.0.0.1:5433")
    return host.strip("[]") or "127.0.0.1", int(port)


def server_users(options: Options) -> dict[str, Verifier] | None:
    """Return the verifiers of the server's users; None if no password is required.

    InterfaceError if that would admit the whole network, or if no password is set.
    """
    http_host = options.host if options.http is None else options.http[0]
    if options.trust:
        for host in (options.host, http_host):
            if host not in LOCAL_HOSTS:
                raise InterfaceError(
                    f"--trust lets in anybody who reaches {host}",
                    hint=f"listen on 127.0.0.1, or give a password in {PASSWORD}",
                )
        return None
    if options.http is not None and http_host not in LOCAL_HOSTS and options.certificate is None:
        raise InterfaceError(
            f"passwords would come to {http_host} by HTTP without being encrypted",
            hint="give a --certificate, or listen on 127.0.0.1, behind a proxy that speaks TLS",
        )
    password = os.environ.get(PASSWORD)
    if not password:
        raise InterfaceError(
            "no password is set for clients",
            hint=f"set {PASSWORD}, or use --trust to admit all users of this machine",
        )
    return {options.user: make_verifier(password)}


class TlsContext(ssl.SSLContext):
    """TLS context of the server that knows its certificate's hash."""

    end_point = b""
    """Channel binding data of logins: see :mod:`kpg.postgres.passwords`."""

    def load_cert_chain(self, certfile: Any, keyfile: Any = None, password: Any = None) -> None:
        """Use a certificate for new connections."""
        super().load_cert_chain(certfile, keyfile, password)
        self.end_point = certificate_hash(Path(certfile).read_bytes())


def load_tls(options: Options) -> ssl.SSLContext | None:
    """Return a context with the certificate of the options. OperationalError if it cannot be used."""
    if options.certificate is None:
        return None
    context = TlsContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.certificate, options.key)
    except FileNotFoundError as error:
        files = (options.certificate, options.key or options.certificate)
        missing = next((str(one) for one in files if not Path(one).exists()), "")
        message = f"the certificate cannot be used: there is no file {missing}"
        raise OperationalError(message, hint="--certificate and --key name PEM files") from error
    except (OSError, ssl.SSLError) as error:
        raise OperationalError(f"the certificate cannot be used: {error}") from error
    return context


def reload_tls(options: Options, tls: ssl.SSLContext | None) -> None:
    """Load the certificate file again for new connections. After an error the old one stays in use."""
    log = logging.getLogger("kpg.server")
    if tls is None or options.certificate is None:
        return
    try:
        load_tls(options)  # check a separate context first: a failed load must not change the live one
        tls.load_cert_chain(options.certificate, options.key)
    except (OperationalError, OSError, ssl.SSLError) as error:
        log.error("%s; the one before stays", error)
    else:
        log.info("the certificate has been reloaded")


def serve(db: "Database", options: Options, on_start: StartCallback) -> None:
    """Serve a database until SIGTERM or Ctrl-C. ``on_start`` is called once clients can connect."""
    users, tls = server_users(options), load_tls(options)
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
    asyncio.run(_serve(db, options, users, tls, on_start))


async def _serve(
    db: "Database",
    options: Options,
    users: dict[str, Verifier] | None,
    tls: ssl.SSLContext | None,
    on_start: StartCallback,
) -> None:
    server = Server(db.hub, users, tls, options.limits)
    with _convert_listen_errors(options.host, options.port):
        listening = await server.start(options.host, options.port)
    with ExitStack() as stack:
        if options.socket is not None:
            port = listening.sockets[0].getsockname()[1]
            await server.start_local(
                stack.enter_context(local_socket(options.socket, port, trusted=users is None))
            )
        await _run_until_stopped(server, options, tls, listening, on_start)


async def _run_until_stopped(
    server: "Server",
    options: Options,
    tls: ssl.SSLContext | None,
    listening: asyncio.Server,
    on_start: StartCallback,
) -> None:
    log = logging.getLogger("kpg.server")
    stop_requested, hurry_requested = asyncio.Event(), asyncio.Event()

    def request_stop() -> None:
        (hurry_requested if stop_requested.is_set() else stop_requested).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, ValueError):
            loop.add_signal_handler(number, request_stop)
    with suppress(NotImplementedError, ValueError, AttributeError):
        loop.add_signal_handler(signal.SIGHUP, reload_tls, options, tls)
    site = None if options.http is None else await _open_site(server, *options.http, tls)
    host, port = listening.sockets[0].getsockname()[:2]
    on_start(host, port, None if site is None else site.address)
    notify_service_manager(READY)
    await stop_requested.wait()
    notify_service_manager(STOPPING)
    log.info("the server stops: running statements have %g seconds to end", options.grace)
    listening.close()
    server.close_local()
    if site is not None:
        await site.stop()
    with _exit_after(options.grace + CANCEL_GRACE):
        stopping = asyncio.ensure_future(server.stop(options.grace))
        hurry = asyncio.ensure_future(hurry_requested.wait())
        await asyncio.wait((stopping, hurry), return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not stopping.done():
            with _exit_after(CANCEL_GRACE):
                stopping.cancel()
                await server.stop()
    log.info("no client is left: the database is closed, with a checkpoint if it is in a folder")


@contextmanager
def _exit_after(seconds: float) -> Iterator[None]:
    """Exit the process if the block takes longer, because some statements cannot be interrupted.

    Acknowledged commits are not lost: the effect is that of killing the process.
    """

    def exit_process() -> None:
        logging.getLogger("kpg.server").error("a statement cannot be canceled: the process exits")
        os._exit(1)

    timer = threading.Timer(seconds, exit_process)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


async def _open_site(server: "Server", host: str, port: int, tls: ssl.SSLContext | None) -> "Site":
    site = web_site.Site(server)
    with _convert_listen_errors(host, port):
        await site.start(host, port, tls)
    return site


@contextmanager
def _convert_listen_errors(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise OperationalError(message, hint="another server may use that port") from error
