"""Authenticated connections between machines, and two uses of them: exports of views, and loads.

Handshake: the listener sends a nonce. The client answers with its own nonce, a :class:`Hello` that identifies
it, and an HMAC of all three under the shared secret. The listener answers likewise, so both sides are
authenticated. No other byte of an unauthenticated peer is interpreted, and no peer may take longer than
``HANDSHAKE_SECONDS``.

* :class:`Export`: a worker's rows of a view as an Arrow stream, fixed at its creation. Clients fetch it any
  number of times until it is closed.
* :class:`LoadReceiver`: a worker's receiver of bulk loads. A task sends each worker one Arrow stream
  (:func:`send_batches`); the worker stores it in a file under the number of the task's attempt. The driver
  learns that number only from successful attempts, so the files of failed ones are never read.
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

POLL_SECONDS: Final = 0.1
"""Seconds between checks whether a server has been closed."""


HANDSHAKE_SECONDS: Final = 5.0
"""Time limit of each step of a handshake."""
MAX_HANDSHAKES: Final = 64
"""Handshakes at a time; further connections are closed."""
NONCE: Final = 32
HELLO: Final = struct.Struct("<cIHI")
CLIENT_ROLE: Final = b"kpg guest 1"
SERVER_ROLE: Final = b"kpg host 1"
KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_COUNT = 15, 5, 4
"""Keepalive: seconds of silence before the first probe, seconds between probes, and the number of
unanswered probes after which the connection is closed."""


class AuthenticationError(Exception):
    """The peer does not know the secret, or is no process of ours."""


class Hello(NamedTuple):
    """Identity of a client: the kind of connection, its worker, the port it listens on, and its process."""

    kind: bytes
    worker: int
    port: int
    process: int


class Listener:
    """A listening socket that authenticates clients."""

    def __init__(self, host: str, secret: bytes) -> None:
        """Start to listen.

        Raises:
            OSError: If the address is not available.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=MAX_HANDSHAKES)
        self.port: int = self._socket.getsockname()[1]
        self._secret = secret
        self._accepted: queue.SimpleQueue[tuple[Hello, socket.socket]] = queue.SimpleQueue()
        self._handshake_slots = threading.Semaphore(MAX_HANDSHAKES)
        self._is_closed = False
        threading.Thread(target=self._listen, name="kpg-door", daemon=True).start()

    def accept(self, seconds: float) -> tuple[Hello, socket.socket] | None:
        """Return the next authenticated connection; None after ``seconds`` without one."""
        try:
            return self._accepted.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Stop listening, and close the connections that were not accepted."""
        self._is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        while (accepted := self.accept(0)) is not None:
            accepted[1].close()

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if self._is_closed:
                connection.close()
                return
            if self._handshake_slots.acquire(blocking=False):
                threading.Thread(target=self._authenticate, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _authenticate(self, connection: socket.socket) -> None:
        try:
            self._accepted.put((authenticate_client(connection, self._secret), connection))
        except (OSError, AuthenticationError):
            connection.close()
        finally:
            self._handshake_slots.release()


def authenticate_client(connection: socket.socket, secret: bytes) -> Hello:
    """Perform the listener's side of the handshake.

    Raises:
        AuthenticationError: If the client does not know the secret.
        OSError: If the connection breaks.
    """
    connection.settimeout(HANDSHAKE_SECONDS)
    nonce = secrets.token_bytes(NONCE)
    connection.sendall(nonce)
    answer = _receive_exactly(connection, NONCE + HELLO.size + NONCE)
    client_nonce, hello, code = answer[:NONCE], answer[NONCE:-NONCE], answer[-NONCE:]
    if not hmac.compare_digest(code, _authentication_code(secret, CLIENT_ROLE, nonce, client_nonce, hello)):
        raise AuthenticationError
    connection.sendall(_authentication_code(secret, SERVER_ROLE, nonce, client_nonce, hello))
    _configure(connection)
    return Hello(*HELLO.unpack(hello))


def connect(address: tuple[str, int], secret: bytes, hello: Hello) -> socket.socket:
    """Return an authenticated connection to a listener.

    Raises:
        AuthenticationError: If the listener does not know the secret.
        OSError: If it cannot be reached.
    """
    connection = socket.create_connection(address, HANDSHAKE_SECONDS)
    try:
        nonce = _receive_exactly(connection, NONCE)
        client_nonce, encoded = secrets.token_bytes(NONCE), HELLO.pack(*hello)
        connection.sendall(
            client_nonce + encoded + _authentication_code(secret, CLIENT_ROLE, nonce, client_nonce, encoded)
        )
        if not hmac.compare_digest(
            _receive_exactly(connection, NONCE),
            _authentication_code(secret, SERVER_ROLE, nonce, client_nonce, encoded),
        ):
            raise AuthenticationError
        _configure(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _authentication_code(secret: bytes, role: bytes, *parts: bytes) -> bytes:
    return hmac.digest(secret, b"".join((role, *parts)), "sha256")


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    """Return ``size`` bytes; the time limit holds for each receive."""
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise AuthenticationError
        data += more
    return data


def _configure(connection: socket.socket) -> None:
    """Send small messages at once, and detect a peer that disappears without closing."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT),
    ):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        silence = 1000 * (KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_COUNT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence)


MAX_DECIMAL_DIGITS: Final = 38
"""Digits of a 128-bit decimal."""


class Export:
    """A table that clients fetch."""

    def __init__(self, table: pa.Table, host: str, secret: bytes) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self._content = memoryview(sink.getvalue())
        self._listener = Listener(host, secret)
        self.port = self._listener.port
        self._is_closed = False
        self._server = threading.Thread(target=self._serve, name="kpg-offer", daemon=True)
        self._server.start()

    def _serve(self) -> None:
        while not self._is_closed:
            accepted = self._listener.accept(POLL_SECONDS)
            if accepted is not None:
                threading.Thread(target=self._send, args=(accepted[1],), daemon=True).start()

    def _send(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(self._content)
            except OSError:
                return  # the client fetches it again, or reports the failure through Spark

    def close(self) -> None:
        """Stop serving the table."""
        self._is_closed = True
        self._server.join()
        self._listener.close()


def schema_of(table: pa.Table) -> pa.Schema:
    """Return the schema of a table; the type of a column with only NULLs is ``null``."""
    fields = zip(table.schema, table.columns, strict=True)
    return pa.schema(
        [
            field.with_type(pa.null()) if column.null_count == len(column) else field
            for field, column in fields
        ]
    )


def common_schema(schemas: list[pa.Schema], empty_schema: pa.Schema) -> pa.Schema:
    """Return a schema to which all schemas can be cast.

    Numbers without fixed digits have types by their values.

    ``empty_schema`` is the schema of a table without rows.
    """
    fields = []
    for position, field in enumerate(empty_schema):
        types = {schema.field(position).type for schema in schemas} - {pa.null()}
        fields.append(field.with_type(_common_type(types, field.type)))
    return pa.schema(fields)


def _common_type(types: set[pa.DataType], default: pa.DataType) -> pa.DataType:
    if len(types) == 1:
        return types.pop()
    if types and all(map(pa.types.is_decimal, types)):
        scale = max(one.scale for one in types)
        digits = scale + max(one.precision - one.scale for one in types)
        return pa.decimal128(digits, scale) if digits <= MAX_DECIMAL_DIGITS else pa.string()
    return default


def fetch_table(address: tuple[str, int], secret: bytes) -> pa.Table:
    """Return the exported table.

    Raises:
        OSError: If nothing is exported there.
        AuthenticationError: If another process listens there.
    """
    with connect(address, secret, Hello(b"v", 0, 0, 0)) as connection, connection.makefile("rb") as file:
        return pa.ipc.open_stream(file).read_all()


RECEIVE_BYTES: Final = 1 << 20
ATTEMPT: Final = struct.Struct("<q")
"""Format of the attempt's number."""
ACKNOWLEDGEMENT: Final = b"k"
"""Answer of a worker that has stored a stream."""
LOAD_KIND: Final = b"l"
"""Kind of connections of loads."""


def send_batches(
    addresses: Sequence[tuple[str, int]], secret: bytes, attempt: int, batches: "Iterable[pa.RecordBatch]"
) -> int:
    """Send rows to the addresses whose numbers are in their last column; return the number of rows.

    Raises:
        OSError: If a worker cannot be reached, or disconnects.
        AuthenticationError: If another process listens there.
    """
    rows = 0
    with ExitStack() as stack:
        connections = [
            stack.enter_context(_connect_receiver(address, secret, attempt)) for address in addresses
        ]
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
            if connection.recv(1) != ACKNOWLEDGEMENT:
                raise ConnectionError("a worker has not stored the rows that were sent to it")
    return rows


def _connect_receiver(address: tuple[str, int], secret: bytes, attempt: int) -> socket.socket:
    connection = connect(address, secret, Hello(LOAD_KIND, 0, 0, os.getpid()))
    connection.sendall(ATTEMPT.pack(attempt))
    return connection


class LoadReceiver:
    """Receives streams of tasks for one worker until it is closed."""

    def __init__(self, host: str, secret: bytes, folder: Path, name: str) -> None:
        """Start to receive; ``name`` is a prefix of file names that no other worker uses."""
        self._folder = folder
        self._name = name
        self._listener = Listener(host, secret)
        self.port = self._listener.port
        self._is_closed = False
        self._server = threading.Thread(target=self._serve, name="kpg-dock", daemon=True)
        self._server.start()

    def file(self, attempt: int) -> Path:
        """Return the path of the rows of an attempt."""
        return self._folder / f"{self._name}-{attempt}.arrow"

    def _serve(self) -> None:
        while not self._is_closed:
            accepted = self._listener.accept(POLL_SECONDS)
            if accepted is not None:
                threading.Thread(target=self._receive, args=(accepted[1],), daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        with connection:
            try:
                head = connection.recv(ATTEMPT.size, socket.MSG_WAITALL)
                if len(head) < ATTEMPT.size:
                    return
                target = self.file(*ATTEMPT.unpack(head))
                with target.open("wb") as file:
                    while piece := connection.recv(RECEIVE_BYTES):
                        file.write(piece)
                connection.sendall(ACKNOWLEDGEMENT)
            except OSError:
                return  # the task's attempt fails, so its file is never read

    def close(self) -> None:
        """Stop receiving."""
        if not self._is_closed:
            self._is_closed = True
            self._server.join()
            self._listener.close()

    def keep_attempts(self, attempts: Sequence[int]) -> list[Path]:
        """Return the files of attempts in their order, and remove all others."""
        paths = [self.file(attempt) for attempt in attempts]
        for path in set(self._folder.glob(f"{self._name}-*.arrow")) - set(paths):
            path.unlink()
        return paths


def read_tables(paths: Iterable[Path], min_rows: int) -> Iterator[pa.Table]:
    """Yield the rows of files in tables of at least ``min_rows`` rows, where consecutive schemas are equal.

    Empty files, of tasks without rows, are skipped.
    """
    pending: list[pa.RecordBatch] = []
    rows = 0
    for path in paths:
        if not path.stat().st_size:
            continue
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                if pending and (rows >= min_rows or batch.schema != pending[0].schema):
                    yield pa.Table.from_batches(pending)
                    pending, rows = [], 0
                if batch.num_rows:
                    pending.append(batch)
                    rows += batch.num_rows
    if pending:
        yield pa.Table.from_batches(pending)
