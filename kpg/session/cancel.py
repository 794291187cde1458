"""Cancellation of a statement from another thread, and the statement's limits of time and memory."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from kpg.runtime.errors import CanceledError, Waiting
from kpg.runtime.interrupts import DeferredInterrupt, Watch, checked
from kpg.session.memory_limit import StatementMemory
from kpg.session.setting_values import seconds_of


class Token:
    """What another thread cancels the present statement of a session by."""

    def __init__(self) -> None:
        self.canceled = False


class Watched(Protocol):
    """A session: its token, and how long a statement may take, as SET takes it."""

    token: Token
    deadline: float
    rests: bool

    @property
    def time_limit(self) -> str:
        """As text; nothing, or 0, is for ever."""

    @property
    def memory_limit(self) -> str:
        """How much memory one may take, as SET takes it; nothing, or 0, is no limit of its own."""


class Limits(NamedTuple):
    """What may end a statement."""

    tokens: Sequence[Token]
    end: float
    memory: StatementMemory

    def check(self) -> None:
        """Raise CanceledError if a statement has to end: it is cancelled, or has taken too long."""
        _check(self.tokens, self.end)


def _check(tokens: Sequence[Token], end: float) -> None:
    for token in tokens:
        if token.canceled:
            raise CanceledError("canceling statement due to user request")
    if end and time.monotonic() > end:
        raise CanceledError("canceling statement due to statement timeout")


def deadline_of(session: Watched) -> float:
    """When a statement that begins now has taken too long, by the monotonic clock; 0 for never."""
    limit = seconds_of(text) if (text := session.time_limit) else 0.0
    return time.monotonic() + limit if limit else 0.0


class Cancellation:
    """The watch that is asked at safe points (between operators, and pieces of a join)."""

    def __init__(self, interrupt: DeferredInterrupt) -> None:
        self._next: Watch | None = interrupt.watch
        self._interrupt = interrupt
        self._raised = False
        self._tokens: Sequence[Token] = ()
        self._end = 0.0
        self.memory = StatementMemory()
        self.pause: Callable[[], object] | None = None
        """Called at checkpoints: lets others in."""
        self.yields: Callable[[], object] | None = None
        """Called at safe points of a query that may be given up, to run outside of the engine."""
        interrupt.watch = self

    def begin(self) -> None:
        """A step begins."""
        if self._next is not None:
            self._next.begin()

    def __call__(self) -> None:
        """Raise CanceledError if the present statement, or one of those that share a step, has to end."""
        _check(self._tokens, self._end)
        self.memory()
        if self._next is not None:
            self._next()
        if self.yields is not None:
            self.yields()

    def between(self) -> None:
        """As :meth:`__call__`, at checkpoints: once for a statement, whose undoing may come by some.

        A step is not ended there: it has safe points of its own.
        """
        if self._raised or self._interrupt.busy:
            return
        try:
            self()
            if self.pause is not None:
                self.pause()
        except BaseException:
            self._raised = True
            raise

    def take_out(self) -> "Limits":
        """Give up watching the present statement until :meth:`put_back`."""
        limits = Limits(self._tokens, self._end, self.memory)
        self._tokens, self._end, self.memory = (), 0.0, StatementMemory()
        self.memory.most = limits.memory.most
        return limits

    def put_back(self, limits: "Limits") -> None:
        """Watch a statement again."""
        limits.memory.most = self.memory.most
        self._tokens, self._end, self.memory = limits.tokens, limits.end, limits.memory
        self._raised = False

    def room(self, wanted: int) -> None:
        """As Watch."""
        self.memory.room(wanted)
        if self._next is not None:
            self._next.room(wanted)

    @contextmanager
    def watching(self, session: Watched, end: float | None = None) -> Iterator[None]:
        """The block is a statement of a session; ``end`` is when it ends if it has begun before."""
        token = session.token
        if token.canceled:
            token.canceled = False
            raise CanceledError("canceling statement due to user request")
        self._tokens = (token,)
        if end is not None:
            self._end = 0.0 if end == float("inf") else end
        else:
            self._end = session.deadline or deadline_of(session)
        self.memory.begin(session.memory_limit)
        try:
            if end is not None or session.deadline:
                self()
            self._raised = False
            with checked(self.between):
                yield
        except Waiting:
            if token.canceled:
                raise CanceledError("canceling statement due to user request") from None
            raise
        finally:
            self._tokens = ()
            self._end = 0.0
            self.memory.end()
            if not session.rests:
                token.canceled = False

    @contextmanager
    def watching_all(self, sessions: Sequence[Watched]) -> Iterator[None]:
        """The block is the step that statements share: each of them can end it, by the least of their limits.

        Who has ended it is still told so when it comes to be done alone.
        """
        limits = [seconds for one in sessions if (text := one.time_limit) and (seconds := seconds_of(text))]
        self._tokens = [one.token for one in sessions]
        self._end = time.monotonic() + min(limits) if limits else 0.0
        self.memory.begin("")
        try:
            yield
        finally:
            self._tokens = ()
            self._end = 0.0
            self.memory.end()


class Owner:
    """The database's own settings, for calls without a session: nobody cancels these but by Ctrl-C."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.token = Token()
        self.deadline = 0.0
        self.rests = False
        self.time_limit = settings.get("statement_timeout", "")
        self.memory_limit = settings.get("statement_memory_limit", "")


@contextmanager
def limited(interrupt: DeferredInterrupt, settings: Mapping[str, str]) -> Iterator[None]:
    """The block is a statement without a session."""
    before = interrupt.watch
    cancellation = Cancellation(interrupt)
    try:
        with cancellation.watching(Owner(settings)):
            yield
    finally:
        interrupt.watch = before
