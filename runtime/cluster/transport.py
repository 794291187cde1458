"""Groups of members on network connections: processes of this machine, or members on other hosts.

:class:`Lined` implements the message exchange of ``messages.Crew``; its subclasses start and end members.
:class:`Processes` starts member processes here, which end when the coordinator ends. :class:`Network` waits
for members that a :class:`Starter` starts anywhere; they share no memory.

With :class:`Network`, the coordinator listens only while members connect. Each brings two connections: one
for commands and one for abort requests during a step. Each then listens for connections of the members after
it. A broken connection ends all members; the next request starts them again.
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
    STEPS,
    Command,
    GoneError,
    Line,
    MemberGoneError,
    Reply,
    commands,
    exchange,
    packed,
    pair,
    sent,
)
from kpg.runtime.cluster.shared_memory import Memory
from kpg.runtime.cluster.transfer import Card, Door
from kpg.runtime.errors import InterfaceError, OperationalError

POLL: Final = 0.02
"""Seconds after which the coordinator looks whether to go on."""
MOST: Final = 256


class Lined:
    """The part of a ``messages.Crew`` that speaks with its members; how they start and end is of its kind."""

    def __init__(self, count: int) -> None:
        """InterfaceError for a number of workers that nobody can have."""
        if not 1 <= count <= MOST:
            raise InterfaceError(f"there cannot be {count} workers", hint=f"1 to {MOST}, as many as cores")
        self.count = count
        self.hosts: list[str] = []
        self._begin()

    def _begin(self) -> None:
        """Members are about to be there."""
        self._dead: str | None = None
        self._ends: list[Line] = []
        self._said = 0
        """The commands that they have been sent."""

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """See ``messages.Crew``."""
        if self._dead is not None:
            raise MemberGoneError(self._dead)
        stopped: BaseException | None = None

        def look() -> None:
            nonlocal stopped
            self._check()
            if command.method in STEPS and stopped is None:
                try:
                    poll()
                except BaseException as error:
                    stopped = error
                    self._interrupt()

        told = commands(command, self.count)
        pieces = sent(told[0])
        every = [pieces if one is told[0] else sent(one) for one in told]
        self._said += 1
        try:
            out = [(end, list(each)) for end, each in zip(self._ends, every, strict=True)]
            replies = exchange(out, self._ends, look, POLL)
        except GoneError:
            raise self._gone() from None
        return [_reply(found) for found in replies], stopped

    def tell(self, command: Command) -> None:
        """See ``messages.Crew``."""
        if self._dead is not None:
            raise MemberGoneError(self._dead)
        pieces = sent(command)
        self._said += 1
        try:
            exchange([(end, list(pieces)) for end in self._ends], [])
        except GoneError:
            raise self._gone() from None

    def _gone(self) -> MemberGoneError:
        self._dead = self._obituary()
        self._end()
        hint = "what was committed is there: workers are started again by what comes next"
        return MemberGoneError(self._dead, hint=hint)

    def again(self) -> None:
        """See ``messages.Crew``."""
        self._end()
        self._start_all()

    def _start_all(self) -> None:
        """Have members be there."""
        raise NotImplementedError

    def _check(self) -> None:
        """GoneError if one of them is known to have ended."""
        raise NotImplementedError

    def _interrupt(self) -> None:
        """Have them end the step that they are at."""
        raise NotImplementedError

    def _obituary(self) -> str:
        """Which has ended, and how."""
        raise NotImplementedError

    def _end(self) -> None:
        """Have none of them be there."""
        raise NotImplementedError


def _reply(found: Any) -> Reply:
    value, delta, error, aside, order = found
    return Reply(value, delta, error, aside, order)


COMMANDS: Final = b"c"
BELL: Final = b"b"
PEER: Final = b"p"
"""The kinds of connections."""
NUMBER: Final = struct.Struct("<Q")
"""What is said on a bell: which command, by number, is to end."""
SECONDS_TO_COME: Final = 180.0
"""For members to come after they were started."""
SECONDS_TO_TELL: Final = 5.0
"""For who has started them to know why one has ended."""


@cache
def version_here() -> str:
    """The version of this kpg, with a digest of its runtime: between releases the number stays what it is."""
    root = Path(__file__).parents[1]
    digest = sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    number = vars(sys.modules["kpg"])["__version__"]  # the runtime is below the package that has it
    return f"{number} ({digest.hexdigest()[:12]})"


class Calling(NamedTuple):
    """What a member has to know in order to come."""

    host: str
    port: int
    secret: bytes
    workers: int
    merge_effort: int


class Starter(Protocol):
    """What starts members and ends them."""

    @property
    def host(self) -> tuple[str, str]:
        """The address to listen at, and the one by which members reach it."""

    def start(self, calling: Calling) -> None:
        """Have so many members come; ``guest.attend`` is what they run."""

    def failure(self) -> str | None:
        """Why a member has ended, if one is known to have."""

    def end(self) -> None:
        """Have none of them be there."""


class Network(Lined):
    """``messages.Crew``."""

    memory = None

    def __init__(self, count: int, merge_effort: int, starter: Starter) -> None:
        """OperationalError if members do not come."""
        super().__init__(count)
        self._merge_effort = merge_effort
        self._starter = starter
        self.processes: list[int] = []
        """The ids of their processes, each on its machine."""
        self._start_all()

    def _start_all(self) -> None:
        self._begin()
        self._bells: list[socket.socket] = []
        listen, reach = self._starter.host
        secret = secrets.token_bytes(32)
        try:
            door = Door(listen, secret)
        except OSError as error:
            raise OperationalError(
                f"workers cannot be listened for at {listen}: {error}",
                hint="the driver listens where Spark's does: see spark.driver.host, spark.driver.bindAddress",
            ) from None
        with door:
            try:
                self._starter.start(Calling(reach, door.port, secret, self.count, self._merge_effort))
                self._gather(door)
            except BaseException as error:
                self._dead = str(error)
                self._end()
                raise

    def _gather(self, door: Door) -> None:
        """Let all members in, and have them know each other."""
        come: dict[tuple[bytes, int], tuple[Card, socket.socket]] = {}
        try:
            until = time.monotonic() + SECONDS_TO_COME
            while len(come) < 2 * self.count:
                self._refuse_late(until, len({index for _, index in come}))
                found = door.wait(POLL)
                if found is not None:
                    card, connection = found
                    before = come.pop((card.kind, card.worker), None)
                    if before is not None:
                        before[1].close()
                    come[card.kind, card.worker] = card, connection
            lines = [come[COMMANDS, index] for index in range(self.count)]
            addresses = [(connection.getpeername()[0], card.port) for card, connection in lines]
            self._bells = [come.pop((BELL, index))[1] for index in range(self.count)]
            self._ends = [Line(come.pop((COMMANDS, i))[1].detach()) for i in range(self.count)]
            self.hosts = [host for host, _ in addresses]
            self.processes = [card.process for card, _ in lines]
            exchange(
                [(end, packed(addresses)) for end in self._ends],
                self._ends,
                lambda: self._refuse_late(until, self.count),
                POLL,
            )
        except GoneError:
            raise OperationalError(f"workers did not find each other: {self._obituary()}") from None
        finally:
            for _, connection in come.values():
                connection.close()

    def _refuse_late(self, until: float, come: int) -> None:
        failure = self._starter.failure()
        if failure is not None:
            raise OperationalError(f"workers did not start: {failure}")
        if time.monotonic() > until:
            raise OperationalError(
                f"{come} of {self.count} workers have come within {SECONDS_TO_COME:.0f} seconds",
                hint="can their machines reach the driver, and each other, by any port?",
            )

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """See ``messages.Crew``. Members may be there still whose executor has gone: they are to end."""
        if self._dead is None and self._starter.failure() is not None:
            raise self._gone()
        return super().call(command, poll)

    def _check(self) -> None:
        if self._starter.failure() is not None:
            raise GoneError

    def _interrupt(self) -> None:
        for bell in self._bells:
            with suppress(OSError):
                bell.send(NUMBER.pack(self._said))

    def _obituary(self) -> str:
        until = time.monotonic() + SECONDS_TO_TELL
        while (failure := self._starter.failure()) is None and time.monotonic() < until:
            time.sleep(POLL)
        return failure or "the connection to a worker, or between two, has broken"

    def _end(self) -> None:
        for connection in (*self._ends, *self._bells):
            connection.close()
        self._starter.end()

    def close(self) -> None:
        """End all members."""
        if self._dead is None:
            self._dead = "the database is closed"
            self._end()


THREADS: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""How many threads libraries start in a worker, which is one of as many as there are cores; users may say."""


class Processes(Lined):
    """``messages.Crew``."""

    def __init__(self, count: int, merge_effort: int) -> None:
        """InterfaceError for a number of workers that nobody can have."""
        super().__init__(count)
        self._merge_effort = merge_effort
        self._memory = Memory()
        self._start_all()

    def _start_all(self) -> None:
        self._begin()
        self._running: list[subprocess.Popen[bytes]] = []
        count = self.count
        own = [pair() for _ in range(count)]
        peers = {(i, j): pair() for i in range(count) for j in range(i + 1, count)}
        try:
            for index in range(count):
                ends = [own[index][1]]
                for other in range(count):
                    if other != index:
                        first, second = peers[min(index, other), max(index, other)]
                        ends.append(first if index < other else second)
                self._start(index, ends)
                self._ends.append(own[index][0])
        finally:
            for _, theirs in own:
                theirs.close()
            for both in peers.values():
                for end in both:
                    end.close()

    def _start(self, index: int, ends: list[Line]) -> None:
        numbers = [end.fileno() for end in ends]
        code = "from kpg.runtime.cluster.member_process import main; main()"
        arguments = [
            str(index),
            str(self.count),
            str(self._merge_effort),
            str(os.getpid()),
            *map(str, (*self._memory.files, *numbers)),
        ]
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**dict.fromkeys(THREADS, "1"), **os.environ, "PYTHONPATH": path}
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            pass_fds=(*self._memory.files, *numbers),
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the coordinator
        )
        self._running.append(process)

    @property
    def memory(self) -> Memory:
        """What they have in common."""
        return self._memory

    @property
    def processes(self) -> list[int]:
        """Their ids."""
        return [one.pid for one in self._running]

    def _check(self) -> None:
        for index, process in enumerate(self._running):
            if process.poll() is not None:
                raise GoneError(index)

    def _interrupt(self) -> None:
        for one in self._running:
            one.send_signal(signal.SIGUSR1)

    def _obituary(self) -> str:
        ended: list[tuple[int, int]] = []
        for index, process in enumerate(self._running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                ended.append((index, process.wait(0.2)))
        # Those whose neighbour has gone end by themselves.
        for index, code in sorted(ended, key=lambda one: one[1] == 0)[:1]:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
            return f"worker {index} (process {self._running[index].pid}) {how}"
        return "a worker does not answer"

    def _end(self) -> None:
        for end in self._ends:
            end.close()
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()

    def close(self) -> None:
        """End all processes."""
        if self._dead is None:
            self._dead = "the database is closed"
            for end in self._ends:
                end.close()
            for process in self._running:
                try:
                    process.wait(2)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._memory.close()
