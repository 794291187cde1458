"""Connections between machines, to those who know a secret: anybody else is turned away.

Who listens sends a nonce. Who has come answers with one of its own, a card that says who it is, and the HMAC
of all three under the secret, and is answered likewise, so that both know the other. Until then no byte that
a stranger has sent is read as anything but these, and none takes longer than ``PATIENCE``.
"""

import hmac
import queue
import secrets
import socket
import struct
import threading
from contextlib import suppress
from typing import Final, NamedTuple

PATIENCE: Final = 5.0
"""Seconds that somebody who has come has to say who it is."""
CROWD: Final = 64
"""So many are asked at once; more are turned away unheard."""
NONCE: Final = 32
CARD: Final = struct.Struct("<cIHI")
GUEST: Final = b"kpg guest 1"
HOST: Final = b"kpg host 1"
IDLE, BETWEEN, LOST = 15, 5, 4
"""Seconds without a word after which the other end is asked whether it is there, how often, and how many
times it may say nothing."""


class StrangerError(Exception):
    """Who is at the other end does not know the secret, or is nobody of ours."""


class Card(NamedTuple):
    """Who has come: the kind of connection, which worker, the port where it listens, and its process."""

    kind: bytes
    worker: int
    port: int
    process: int


class Door:
    """A place to listen at, open until it is closed."""

    def __init__(self, host: str, secret: bytes) -> None:
        """OSError where one cannot listen."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, 0), family=family, backlog=CROWD)
        self.port: int = self._listening.getsockname()[1]
        self._secret = secret
        self._come: queue.SimpleQueue[tuple[Card, socket.socket]] = queue.SimpleQueue()
        self._room = threading.Semaphore(CROWD)
        self._closed = False
        threading.Thread(target=self._listen, name="kpg-door", daemon=True).start()

    def wait(self, seconds: float) -> tuple[Card, socket.socket] | None:
        """Somebody who has come and knows the secret; None if nobody has."""
        try:
            return self._come.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Let nobody in any more; who has come and was not waited for is turned away."""
        self._closed = True
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        while (found := self.wait(0)) is not None:
            found[1].close()

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            if self._closed:
                connection.close()
                return
            if self._room.acquire(blocking=False):
                threading.Thread(target=self._ask, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _ask(self, connection: socket.socket) -> None:
        try:
            self._come.put((admit(connection, self._secret), connection))
        except (OSError, StrangerError):
            connection.close()
        finally:
            self._room.release()


def admit(connection: socket.socket, secret: bytes) -> Card:
    """Who has come; StrangerError or OSError if that is nobody who knows the secret."""
    connection.settimeout(PATIENCE)
    nonce = secrets.token_bytes(NONCE)
    connection.sendall(nonce)
    said = _read(connection, NONCE + CARD.size + NONCE)
    theirs, card, proof = said[:NONCE], said[NONCE:-NONCE], said[-NONCE:]
    if not hmac.compare_digest(proof, _proof(secret, GUEST, nonce, theirs, card)):
        raise StrangerError
    connection.sendall(_proof(secret, HOST, nonce, theirs, card))
    _settle(connection)
    return Card(*CARD.unpack(card))


def visit(address: tuple[str, int], secret: bytes, card: Card) -> socket.socket:
    """A connection to a door; StrangerError if nobody there knows the secret, OSError if nobody is there."""
    connection = socket.create_connection(address, PATIENCE)
    try:
        nonce = _read(connection, NONCE)
        own, shown = secrets.token_bytes(NONCE), CARD.pack(*card)
        connection.sendall(own + shown + _proof(secret, GUEST, nonce, own, shown))
        if not hmac.compare_digest(_read(connection, NONCE), _proof(secret, HOST, nonce, own, shown)):
            raise StrangerError
        _settle(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _proof(secret: bytes, role: bytes, *parts: bytes) -> bytes:
    return hmac.digest(secret, b"".join((role, *parts)), "sha256")


def _read(connection: socket.socket, size: int) -> bytes:
    """So many bytes, within the time of the whole conversation or nearly."""
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise StrangerError
        found += more
    return found


def _settle(connection: socket.socket) -> None:
    """Small messages go at once, and an end that is gone without a word is noticed."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", IDLE), ("TCP_KEEPINTVL", BETWEEN), ("TCP_KEEPCNT", LOST)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        silence = 1000 * (IDLE + BETWEEN * LOST)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence)
