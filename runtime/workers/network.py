"""Members that are reached over a network, whoever has started them, with no memory in common.

The coordinator listens as long as members are coming: each brings two connections, one for commands and one
on which it is told to end a step, and listens itself for those after it. Then no door is open any more. A
connection that breaks ends all members; what is asked next starts them again.
"""

import secrets
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from kpg.runtime.errors import OperationalError
from kpg.runtime.workers.crew import POLL, Lined
from kpg.runtime.workers.door import Card, Door
from kpg.runtime.workers.messages import Command, Reply
from kpg.runtime.workers.wire import GoneError, Line, exchange, packed

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
