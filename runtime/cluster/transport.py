"""Groups of members on connections: processes of this machine, or members on other hosts.

:class:`ConnectedMembers` implements the message exchange of ``messages.Crew``; its subclasses start and end
members. :class:`ProcessMembers` starts member processes here, which end when the coordinator ends.
:class:`NetworkMembers` waits for members that a :class:`MemberStarter` starts anywhere; they share no memory.

With :class:`NetworkMembers`, the coordinator listens only while members connect. Each opens two connections:
one for commands and one for abort requests during a step. Each then listens for connections of the members
after it. A broken connection ends all members; the next request starts them again.
"""

import contextlib
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from kpg.runtime.cluster.messages import (
    STEP_METHODS,
    Command,
    Connection,
    ConnectionLostError,
    MemberLostError,
    Reply,
    commands_by_member,
    connection_pair,
    encode_command,
    encode_message,
    exchange,
)
from kpg.runtime.cluster.shared_memory import SharedMemory
from kpg.runtime.cluster.transfer import Hello, Listener
from kpg.runtime.errors import InterfaceError, OperationalError

POLL: Final = 0.02
"""Seconds between checks for Ctrl-C, and for members that have ended, by the coordinator."""
MAX_WORKERS: Final = 256


class ConnectedMembers:
    """Message exchange of a ``messages.Crew``; subclasses start and end the members."""

    def __init__(self, count: int) -> None:
        """Set the number of members.

        Raises:
            InterfaceError: If the number is out of range.
        """
        if not 1 <= count <= MAX_WORKERS:
            raise InterfaceError(
                f"there cannot be {count} workers", hint=f"1 to {MAX_WORKERS}, as many as cores"
            )
        self.count = count
        self.hosts: list[str] = []
        self._reset()

    def _reset(self) -> None:
        """Reset the state before members are started."""
        self._failure: str | None = None
        self._connections: list[Connection] = []
        self._command_number = 0
        """Number of commands sent."""

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """Run a command at all members and return their replies, and the error of ``poll`` if it raised."""
        if self._failure is not None:
            raise MemberLostError(self._failure)
        stopped: BaseException | None = None

        def check() -> None:
            nonlocal stopped
            self._check_members()
            if command.method in STEP_METHODS and stopped is None:
                try:
                    poll()
                except BaseException as error:
                    stopped = error
                    self._abort_step()

        by_member = commands_by_member(command, self.count)
        pieces = encode_command(by_member[0])
        pieces_by_member = [pieces if one is by_member[0] else encode_command(one) for one in by_member]
        self._command_number += 1
        try:
            out = [(end, list(each)) for end, each in zip(self._connections, pieces_by_member, strict=True)]
            replies = exchange(out, self._connections, check, POLL)
        except ConnectionLostError:
            raise self._fail() from None
        return [_make_reply(found) for found in replies], stopped

    def send(self, command: Command) -> None:
        """Run a one-way command at all members."""
        if self._failure is not None:
            raise MemberLostError(self._failure)
        pieces = encode_command(command)
        self._command_number += 1
        try:
            exchange([(end, list(pieces)) for end in self._connections], [])
        except ConnectionLostError:
            raise self._fail() from None

    def _fail(self) -> MemberLostError:
        self._failure = self._describe_failure()
        self._end_members()
        hint = "commits are not lost: the next statement starts the workers again"
        return MemberLostError(self._failure, hint=hint)

    def restart(self) -> None:
        """Start new members in place of the lost ones."""
        self._end_members()
        self._start_members()

    def _start_members(self) -> None:
        """Start all members."""
        raise NotImplementedError

    def _check_members(self) -> None:
        """Raise ConnectionLostError if a member is known to have ended."""
        raise NotImplementedError

    def _abort_step(self) -> None:
        """Request that members abort the current step."""
        raise NotImplementedError

    def _describe_failure(self) -> str:
        """Return which member has ended, and how."""
        raise NotImplementedError

    def _end_members(self) -> None:
        """End all members."""
        raise NotImplementedError


def _make_reply(fields: Any) -> Reply:
    value, delta, error, is_secondary, order = fields
    return Reply(value, delta, error, is_secondary, order)


COMMAND_KIND: Final = b"c"
ABORT_KIND: Final = b"b"
PEER_KIND: Final = b"p"
"""Kind of connections between members."""
ABORT_REQUEST: Final = struct.Struct("<Q")
"""Format of an abort request: the number of the command to abort."""
SECONDS_TO_CONNECT: Final = 180.0
"""Time limit for members to connect after their start."""
SECONDS_TO_REPORT: Final = 5.0
"""Time limit for the starter to report why a member has ended."""


@cache
def runtime_version() -> str:
    """Return the version of kpg with a digest of its runtime.

    The digest distinguishes states of a development version.
    """
    root = Path(__file__).parents[1]
    digest = sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    number = vars(sys.modules["kpg"])["__version__"]  # the runtime must not import the package kpg
    return f"{number} ({digest.hexdigest()[:12]})"


class MemberConfig(NamedTuple):
    """The data with which a member connects to its coordinator."""

    host: str
    port: int
    secret: bytes
    workers: int
    merge_effort: int


class MemberStarter(Protocol):
    """Starts and ends members."""

    @property
    def addresses(self) -> tuple[str, str]:
        """Address to listen at, and address at which members reach it."""

    def start(self, config: MemberConfig) -> None:
        """Start ``config.workers`` members, which run ``member_process.run_member``."""

    def failure(self) -> str | None:
        """Return why a member has ended; None if none is known to have ended."""

    def end(self) -> None:
        """End all members."""


class NetworkMembers(ConnectedMembers):
    """Members on any hosts; implements ``messages.Crew``."""

    memory = None

    def __init__(self, count: int, merge_effort: int, starter: MemberStarter) -> None:
        """Start the members.

        Raises:
            OperationalError: If they do not connect.
        """
        super().__init__(count)
        self._merge_effort = merge_effort
        self._starter = starter
        self.processes: list[int] = []
        """Process ids of the members, each on its host."""
        self._start_members()

    def _start_members(self) -> None:
        self._reset()
        self._abort_sockets: list[socket.socket] = []
        listen_address, reach_address = self._starter.addresses
        secret = secrets.token_bytes(32)
        try:
            listener = Listener(listen_address, secret)
        except OSError as error:
            raise OperationalError(
                f"cannot listen for workers at {listen_address}: {error}",
                hint="kpg listens where Spark's driver does: see spark.driver.host, spark.driver.bindAddress",
            ) from None
        with listener:
            try:
                self._starter.start(
                    MemberConfig(reach_address, listener.port, secret, self.count, self._merge_effort)
                )
                self._accept_members(listener)
            except BaseException as error:
                self._failure = str(error)
                self._end_members()
                raise

    def _accept_members(self, listener: Listener) -> None:
        """Accept the connections of all members, and send them each other's addresses."""
        connections: dict[tuple[bytes, int], tuple[Hello, socket.socket]] = {}
        try:
            deadline = time.monotonic() + SECONDS_TO_CONNECT
            while len(connections) < 2 * self.count:
                self._check_deadline(deadline, len({index for _, index in connections}))
                accepted = listener.accept(POLL)
                if accepted is not None:
                    hello, connection = accepted
                    previous = connections.pop((hello.kind, hello.worker), None)
                    if previous is not None:
                        previous[1].close()
                    connections[hello.kind, hello.worker] = hello, connection
            command_connections = [connections[COMMAND_KIND, index] for index in range(self.count)]
            addresses = [(connection.getpeername()[0], card.port) for card, connection in command_connections]
            self._abort_sockets = [connections.pop((ABORT_KIND, index))[1] for index in range(self.count)]
            self._connections = [
                Connection(connections.pop((COMMAND_KIND, i))[1].detach()) for i in range(self.count)
            ]
            self.hosts = [host for host, _ in addresses]
            self.processes = [card.process for card, _ in command_connections]
            exchange(
                [(end, encode_message(addresses)) for end in self._connections],
                self._connections,
                lambda: self._check_deadline(deadline, self.count),
                POLL,
            )
        except ConnectionLostError:
            raise OperationalError(f"workers did not find each other: {self._describe_failure()}") from None
        finally:
            for _, connection in connections.values():
                connection.close()

    def _check_deadline(self, deadline: float, connected: int) -> None:
        failure = self._starter.failure()
        if failure is not None:
            raise OperationalError(f"workers did not start: {failure}")
        if time.monotonic() > deadline:
            raise OperationalError(
                f"{connected} of {self.count} workers have come within {SECONDS_TO_CONNECT:.0f} seconds",
                hint="can their machines reach the driver, and each other, by any port?",
            )

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """Run a command at all members, unless one of their executors is lost: then end the others."""
        if self._failure is None and self._starter.failure() is not None:
            raise self._fail()
        return super().call(command, poll)

    def _check_members(self) -> None:
        if self._starter.failure() is not None:
            raise ConnectionLostError

    def _abort_step(self) -> None:
        for connection in self._abort_sockets:
            with suppress(OSError):
                connection.send(ABORT_REQUEST.pack(self._command_number))

    def _describe_failure(self) -> str:
        until = time.monotonic() + SECONDS_TO_REPORT
        while (failure := self._starter.failure()) is None and time.monotonic() < until:
            time.sleep(POLL)
        return failure or "the connection to a worker, or between two, has broken"

    def _end_members(self) -> None:
        for connection in (*self._connections, *self._abort_sockets):
            connection.close()
        self._starter.end()

    def close(self) -> None:
        """End all members."""
        if self._failure is None:
            self._failure = "the database is closed"
            self._end_members()


THREAD_VARIABLES: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables that limit threads of libraries in a worker; those that the user has set stay."""


class ProcessMembers(ConnectedMembers):
    """Members in processes of this machine; implements ``messages.Crew``."""

    def __init__(self, count: int, merge_effort: int) -> None:
        """Start the processes.

        Raises:
            InterfaceError: If the number is out of range.
        """
        super().__init__(count)
        self._merge_effort = merge_effort
        self._memory = SharedMemory()
        self._start_members()

    def _start_members(self) -> None:
        self._reset()
        self._processes: list[subprocess.Popen[bytes]] = []
        count = self.count
        command_pairs = [connection_pair() for _ in range(count)]
        peers = {(i, j): connection_pair() for i in range(count) for j in range(i + 1, count)}
        try:
            for index in range(count):
                ends = [command_pairs[index][1]]
                for other in range(count):
                    if other != index:
                        first, second = peers[min(index, other), max(index, other)]
                        ends.append(first if index < other else second)
                self._start_process(index, ends)
                self._connections.append(command_pairs[index][0])
        finally:
            for _, theirs in command_pairs:
                theirs.close()
            for both in peers.values():
                for end in both:
                    end.close()

    def _start_process(self, index: int, connections: list[Connection]) -> None:
        numbers = [end.fileno() for end in connections]
        code = "from kpg.runtime.cluster.member_process import main; main()"
        arguments = [
            str(index),
            str(self.count),
            str(self._merge_effort),
            str(os.getpid()),
            *map(str, (*self._memory.files, *numbers)),
        ]
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**dict.fromkeys(THREAD_VARIABLES, "1"), **os.environ, "PYTHONPATH": path}
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            pass_fds=(*self._memory.files, *numbers),
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # only the coordinator handles Ctrl-C
        )
        self._processes.append(process)

    @property
    def memory(self) -> SharedMemory:
        """Memory shared with this process."""
        return self._memory

    @property
    def processes(self) -> list[int]:
        """Process ids of the members."""
        return [one.pid for one in self._processes]

    def _check_members(self) -> None:
        for index, process in enumerate(self._processes):
            if process.poll() is not None:
                raise ConnectionLostError(index)

    def _abort_step(self) -> None:
        for one in self._processes:
            one.send_signal(signal.SIGUSR1)

    def _describe_failure(self) -> str:
        ended: list[tuple[int, int]] = []
        for index, process in enumerate(self._processes):
            with contextlib.suppress(subprocess.TimeoutExpired):
                ended.append((index, process.wait(0.2)))
        # Members that have lost a neighbour end with status 0.
        for index, code in sorted(ended, key=lambda one: one[1] == 0)[:1]:
            description = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
            return f"worker {index} (process {self._processes[index].pid}) {description}"
        return "a worker does not answer"

    def _end_members(self) -> None:
        for end in self._connections:
            end.close()
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def close(self) -> None:
        """End all processes."""
        if self._failure is None:
            self._failure = "the database is closed"
            for end in self._connections:
                end.close()
            for process in self._processes:
                try:
                    process.wait(2)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._memory.close()
