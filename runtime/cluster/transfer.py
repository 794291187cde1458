"""Authenticated connections between machines, and two uses of them: views out, loads in.

Handshake: the listener sends a nonce. The visitor answers with its own nonce, a :class:`Card` that identifies
it, and an HMAC of all three under the shared secret. The listener answers likewise, so both sides are
authenticated. No other byte of an unauthenticated peer is interpreted, and no peer may take longer than
``PATIENCE``.

* :class:`Offer`: a worker's rows of a view as an Arrow stream, fixed at the moment of the offer. Clients
  fetch it any number of times until it is withdrawn.
* :class:`Dock`: a worker's receiver of bulk loads. A task sends each worker one Arrow stream (:func:`ship`);
  the worker stores it in a file under the number of the task's attempt. The driver learns that number only
  from successful attempts, so the files of failed ones are never read.
"""

import hmac
import os
import queue
import secrets
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

LOOKS: Final = 0.1
"""Seconds after which it is seen that an offer was withdrawn."""


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


MOST_DIGITS: Final = 38
"""Of decimals in 128 bits."""


class Offer:
    """A table that others fetch."""

    def __init__(self, table: pa.Table, host: str, secret: bytes) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self._content = memoryview(sink.getvalue())
        self._door = Door(host, secret)
        self.port = self._door.port
        self._over = False
        self._server = threading.Thread(target=self._serve, name="kpg-offer", daemon=True)
        self._server.start()

    def _serve(self) -> None:
        while not self._over:
            come = self._door.wait(LOOKS)
            if come is not None:
                threading.Thread(target=self._send, args=(come[1],), daemon=True).start()

    def _send(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(self._content)
            except OSError:
                return  # who has come for it comes again, or is told what is wrong by Spark

    def withdraw(self) -> None:
        """Let nobody come for it any more."""
        self._over = True
        self._server.join()
        self._door.close()


def types_of(table: pa.Table) -> pa.Schema:
    """The types of the columns; ``null`` of one in which there is nothing else."""
    fields = zip(table.schema, table.columns, strict=True)
    return pa.schema(
        [
            field.with_type(pa.null()) if column.null_count == len(column) else field
            for field, column in fields
        ]
    )


def in_common(schemas: list[pa.Schema], nothing: pa.Schema) -> pa.Schema:
    """Types that all places have, or can have: those of numbers of any digits are by their values.

    ``nothing`` has the types of no rows.
    """
    fields = []
    for place, field in enumerate(nothing):
        types = {schema.field(place).type for schema in schemas} - {pa.null()}
        fields.append(field.with_type(_for_all(types, field.type)))
    return pa.schema(fields)


def _for_all(types: set[pa.DataType], nothing: pa.DataType) -> pa.DataType:
    if len(types) == 1:
        return types.pop()
    if types and all(map(pa.types.is_decimal, types)):
        scale = max(one.scale for one in types)
        digits = scale + max(one.precision - one.scale for one in types)
        return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else pa.string()
    return nothing


def fetched(address: tuple[str, int], secret: bytes) -> pa.Table:
    """What is offered there; OSError or StrangerError if nothing is."""
    with visit(address, secret, Card(b"v", 0, 0, 0)) as connection, connection.makefile("rb") as file:
        return pa.ipc.open_stream(file).read_all()


PIECE: Final = 1 << 20
ATTEMPT: Final = struct.Struct("<q")
KEPT: Final = b"k"
"""What a worker says once it has a stream."""
LOAD: Final = b"l"
"""The kind of these connections."""


def ship(
    places: Sequence[tuple[str, int]], secret: bytes, attempt: int, batches: "Iterable[pa.RecordBatch]"
) -> int:
    """Send rows to the places that their last column tells by number; how many.

    OSError or StrangerError if one is not there, or goes away.
    """
    rows = 0
    with ExitStack() as stack:
        connections = [stack.enter_context(_opened(place, secret, attempt)) for place in places]
        files = [stack.enter_context(connection.makefile("wb")) for connection in connections]
        writers: list[pa.RecordBatchStreamWriter] = []
        for batch in batches:
            owners = batch.column(batch.num_columns - 1).to_numpy()
            batch = batch.select(range(batch.num_columns - 1))
            writers = writers or [pa.ipc.new_stream(file, batch.schema) for file in files]
            for number, writer in enumerate(writers):
                writer.write_batch(batch.take(pa.array(np.flatnonzero(owners == number))))
            rows += batch.num_rows
        for writer in writers:
            writer.close()
        for file, connection in zip(files, connections, strict=True):
            file.flush()
            connection.shutdown(socket.SHUT_WR)
        for connection in connections:
            if connection.recv(1) != KEPT:
                raise ConnectionError("a worker has not kept what was sent to it")
    return rows


def _opened(place: tuple[str, int], secret: bytes, attempt: int) -> socket.socket:
    connection = visit(place, secret, Card(LOAD, 0, 0, os.getpid()))
    connection.sendall(ATTEMPT.pack(attempt))
    return connection


class Dock:
    """Where a worker takes what tasks send it, until it is closed."""

    def __init__(self, host: str, secret: bytes, folder: Path, name: str) -> None:
        """``name`` begins those of files, and no other worker's."""
        self._folder = folder
        self._name = name
        self._door = Door(host, secret)
        self.port = self._door.port
        self._over = False
        self._server = threading.Thread(target=self._serve, name="kpg-dock", daemon=True)
        self._server.start()

    def file(self, attempt: int) -> Path:
        """Where what an attempt has sent is."""
        return self._folder / f"{self._name}-{attempt}.arrow"

    def _serve(self) -> None:
        while not self._over:
            come = self._door.wait(LOOKS)
            if come is not None:
                threading.Thread(target=self._take, args=(come[1],), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        with connection:
            try:
                head = connection.recv(ATTEMPT.size, socket.MSG_WAITALL)
                if len(head) < ATTEMPT.size:
                    return
                target = self.file(*ATTEMPT.unpack(head))
                with target.open("wb") as file:
                    while piece := connection.recv(PIECE):
                        file.write(piece)
                connection.sendall(KEPT)
            except OSError:
                return  # the task hears that, and its attempt does not count

    def close(self) -> None:
        """Take nothing more."""
        if not self._over:
            self._over = True
            self._server.join()
            self._door.close()

    def keep(self, attempts: Sequence[int]) -> list[Path]:
        """The files of attempts, in their order; those of all others are removed."""
        kept = [self.file(attempt) for attempt in attempts]
        for path in set(self._folder.glob(f"{self._name}-*.arrow")) - set(kept):
            path.unlink()
        return kept


def read(paths: Iterable[Path], least: int) -> Iterator[pa.Table]:
    """What files have, at least so many rows at a time if they follow each other alike; none of tasks that

    had no rows.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for path in paths:
        if not path.stat().st_size:
            continue
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                if held and (rows >= least or batch.schema != held[0].schema):
                    yield pa.Table.from_batches(held)
                    held, rows = [], 0
                if batch.num_rows:
                    held.append(batch)
                    rows += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)
