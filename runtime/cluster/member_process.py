"""The main function of a member process: serve the coordinator's commands and exit when it ends.

A member is either started by its coordinator on the same machine, or connects to it over a network.
"""

import ctypes
import os
import pickle
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any, Final, Protocol

from kpg.runtime.cluster.member import Member
from kpg.runtime.cluster.messages import (
    ONE_WAY_METHODS,
    Command,
    Connection,
    ConnectionLostError,
    Reply,
    encode_message,
    exchange,
)
from kpg.runtime.cluster.shared_memory import SharedMemory
from kpg.runtime.cluster.transfer import AuthenticationError, Hello, Listener, connect
from kpg.runtime.cluster.transport import ABORT_KIND, ABORT_REQUEST, COMMAND_KIND, PEER_KIND, MemberConfig
from kpg.runtime.errors import InternalError
from kpg.runtime.operators.worker_group import BarrierResult, Parcel, PeerFailedError, Phase, StepAbortError
from kpg.runtime.trace.updates import Updates

PR_SET_PDEATHSIG: Final = 1
SPINS: Final = 40
"""Polls for messages of the other members before sleeping: about 50 microseconds."""
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
MMAP_THRESHOLD: Final = 32 << 20
"""Bytes below which arrays reuse freed memory: new pages cost more than filling them."""
TRIM_THRESHOLD: Final = 256 << 20
"""Bytes of freed memory that the process retains for reuse."""


class SocketPeers:
    """Connections to the other members; implements ``worker_group.Peers``."""

    def __init__(self, index: int, connections: list[Connection]) -> None:
        self._index = index
        self._others = [peer for peer in range(len(connections) + 1) if peer != index]
        self._connections = connections
        self._spins = SPINS if (os.cpu_count() or 1) > len(connections) else 0
        self.member: Member | None = None

    def exchange_parcels(
        self, parcels: list[list[Parcel]], phase: Phase | None, loops: list[int]
    ) -> BarrierResult:
        """Send each worker its parcels and wait for those of all workers."""
        assert self.member is not None
        strings = self.member.worker_group.strings
        out = []
        for peer, connection in zip(self._others, self._connections, strict=True):
            delta = strings.take_delta(peer)
            fields = [
                (one.position, one.updates.data, one.updates.time, one.updates.diff, one.text_columns)
                for one in parcels[peer]
            ]
            out.append((connection, encode_message((fields, delta if len(delta) else None, phase, loops))))
        messages = exchange(out, self._connections, spins=self._spins)
        received, phases, all_loops = [], [phase], set(loops)
        for peer, message in zip(self._others, messages, strict=True):
            if message is None:
                raise PeerFailedError
            fields, delta, peer_phase, peer_loops = message
            if delta is not None:
                strings.add_peer_strings(peer, delta)
            phases.append(peer_phase)
            all_loops |= set(peer_loops)
            received += [self._decode_parcel(peer, one) for one in fields]
        least = min((one for one in phases if one is not None), default=None)
        return BarrierResult(received, least, sorted(all_loops))

    def _decode_parcel(self, peer: int, parcel: tuple[int, Any, Any, Any, tuple[int, ...]]) -> Parcel:
        assert self.member is not None
        position, data, time, diff, text_columns = parcel
        for column in text_columns:
            data[column] = self.member.worker_group.strings.decode_from_peer(peer, data[column])
        return Parcel(position, Updates(data, time, diff), ())

    def fail(self) -> None:
        """Notify the waiting workers that the step has failed."""
        exchange([(end, encode_message(None)) for end in self._connections], self._connections)


class AbortWatch(Protocol):
    """Watch that ends a step when the coordinator requests it."""

    def begin_command(self) -> None:
        """Forget requests that concerned earlier commands."""

    def begin_step(self) -> None:
        """Begin a step; see ``interrupts.Watch``."""

    def __call__(self) -> None:
        """Raise StepAbortError if the coordinator has requested it."""

    def check_room(self, size: int) -> None:
        """Check for memory; see ``interrupts.Watch``."""


class SignalWatch:
    """Watch for requests by SIGUSR1."""

    def __init__(self) -> None:
        self._is_requested = False
        signal.signal(signal.SIGUSR1, self._record_signal)

    def _record_signal(self, number: int, frame: object) -> None:
        self._is_requested = True

    def begin_command(self) -> None:
        """Forget requests that concerned earlier commands."""
        self._is_requested = False

    def begin_step(self) -> None:
        """Do nothing."""

    def __call__(self) -> None:
        """Raise StepAbortError if the coordinator has requested it."""
        if self._is_requested:
            self._is_requested = False
            raise StepAbortError

    def check_room(self, size: int) -> None:
        """Do nothing: memory is not limited."""


def with_picklable_error(reply: Reply) -> Reply:
    """Return a reply whose error can be pickled; another error is replaced by its text."""
    if reply.error is None:
        return reply
    try:
        pickle.loads(pickle.dumps(reply.error))
    except Exception:
        text = f"{type(reply.error).__name__}: {reply.error}"
        return reply._replace(error=InternalError(f"a worker failed with {text}"))
    return reply


def retain_freed_memory() -> ctypes.CDLL:
    """Configure malloc to reuse freed memory; return the C library."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
        libc.mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD)
    return libc


def serve(member: Member, connection: Connection, watch: AbortWatch) -> None:
    """Run the commands of the coordinator until it disconnects or another member is lost."""
    member.set_watch(watch)
    while True:
        try:
            (fields,) = exchange([], [connection])
            watch.begin_command()
            command = Command(*fields)
            if command.method in ONE_WAY_METHODS:
                member.execute_one_way(command)
                continue
            reply = with_picklable_error(member.execute(command))
            if isinstance(reply.error, ConnectionLostError):
                return  # another member, or the connection to it, is lost: the coordinator restarts all
            exchange([(connection, encode_message(tuple(reply)))], [])
            if member.is_broken:
                return
        except ConnectionLostError:
            return


def main() -> None:
    """Serve until the coordinator disconnects or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    index, count, effort, parent, file, lock, *numbers = map(int, sys.argv[1:])
    retain_freed_memory().prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    ends = [Connection(number) for number in numbers]
    lines = SocketPeers(index, ends[1:])
    member = lines.member = Member(index, count, lines, effort, SharedMemory((file, lock)))
    serve(member, ends[0], SignalWatch())


SECONDS_TO_MEET: Final = 60.0
"""Seconds to wait for connections of the other members."""
SECONDS_TO_END: Final = 10.0
"""Seconds that a step may take after the coordinator has disconnected; then the process ends."""


class ConnectionWatch:
    """Watch for requests on a connection of its own; ends the step when the connection ends."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._command_number = 0
        """Number of commands received."""
        self._abort_number = -1
        self._is_disconnected = False
        self._closing = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="kpg-bell", daemon=True)
        self._listener.start()

    def begin_command(self) -> None:
        """Count a command; a request to abort it may have arrived already."""
        self._command_number += 1

    def begin_step(self) -> None:
        """Do nothing."""

    def check_room(self, size: int) -> None:
        """Do nothing: memory is not limited."""

    def __call__(self) -> None:
        """Raise StepAbortError if the coordinator has requested it or has disconnected."""
        if self._abort_number == self._command_number:
            self._abort_number = -1
            raise StepAbortError
        if self._is_disconnected:
            raise StepAbortError

    def _listen(self) -> None:
        received = b""
        while more := self._receive():
            received += more
            while len(received) >= ABORT_REQUEST.size:
                (self._abort_number,) = ABORT_REQUEST.unpack(received[: ABORT_REQUEST.size])
                received = received[ABORT_REQUEST.size :]
        self._is_disconnected = True
        if not self._closing.wait(SECONDS_TO_END):
            os._exit(1)

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(ABORT_REQUEST.size)
        except OSError:
            return b""

    def close(self) -> None:
        """Stop listening and close the connection."""
        self._closing.set()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._listener.join()
        self._connection.close()


def run_member(index: int, config: MemberConfig) -> None:
    """Run member number ``index`` until the coordinator disconnects or dies.

    Raises:
        AuthenticationError: If the caller does not know the secret.
        OSError: If the coordinator cannot be reached.
    """
    address = config.host, config.port
    process = os.getpid()
    with Listener(_own_address(address), config.secret) as listener:
        commands = connect(address, config.secret, Hello(COMMAND_KIND, index, listener.port, process))
        watch = ConnectionWatch(
            connect(address, config.secret, Hello(ABORT_KIND, index, listener.port, process))
        )
        coordinator = Connection(commands.detach())
        connections = []
        try:
            connections = _connect_peers(index, config, listener, coordinator)
            listener.close()
            peers = SocketPeers(index, connections)
            member = peers.member = Member(index, config.workers, peers, config.merge_effort, None)
            retain_freed_memory()
            exchange([(coordinator, encode_message("ready"))], [])
            serve(member, coordinator, watch)
            member.close()
        except (ConnectionLostError, AuthenticationError, OSError):
            return
        finally:
            watch.close()
            for connection in (coordinator, *connections):
                connection.close()


def _own_address(other: tuple[str, int]) -> str:
    """Return the address of this machine on the route to another one; sends nothing."""
    family, kind, *_, address = socket.getaddrinfo(*other, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def _connect_peers(
    index: int, config: MemberConfig, listener: Listener, coordinator: Connection
) -> list[Connection]:
    """Return connections to the other members, in their order."""
    (addresses,) = exchange([], [coordinator])
    connections: dict[int, Connection] = {}
    for other, address in enumerate(addresses[:index]):
        card = Hello(PEER_KIND, index, listener.port, os.getpid())
        connections[other] = Connection(connect(tuple(address), config.secret, card).detach())
    while len(connections) < config.workers - 1:
        accepted = listener.accept(SECONDS_TO_MEET)
        if accepted is None:
            raise ConnectionLostError
        connections[accepted[0].worker] = Connection(accepted[1].detach())
    return [connections[other] for other in sorted(connections)]
