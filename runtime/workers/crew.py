"""What crews have in common whose members are reached over lines, wherever they run."""

from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.errors import InterfaceError
from kpg.runtime.workers.messages import STEPS, Command, MemberGoneError, Reply, commands, sent
from kpg.runtime.workers.wire import GoneError, Line, exchange

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
