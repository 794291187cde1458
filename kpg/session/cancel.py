"""Cancellation of a statement from another thread, and the statement's limits of time and memory."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from kpg.runtime.errors import CanceledError, WaitRequest
from kpg.runtime.interrupts import DeferredInterrupt, Watch, install_check
from kpg.session.memory_limit import StatementMemory
from kpg.session.setting_values import parse_duration


class CancelToken:
    """Flag by which another thread cancels the current statement of a session."""

    def __init__(self) -> None:
        self.is_canceled = False


class LimitedSession(Protocol):
    """A session with its cancel token and its limits."""

    token: CancelToken
    deadline: float
    has_explicit_end: bool

    @property
    def time_limit(self) -> str:
        """The setting statement_timeout; empty or 0 for none."""

    @property
    def memory_limit(self) -> str:
        """The setting statement_memory_limit; empty or 0 for none."""


class StatementLimits(NamedTuple):
    """The cancel tokens, the deadline and the memory limit of a statement."""

    tokens: Sequence[CancelToken]
    deadline: float
    memory: StatementMemory

    def check(self) -> None:
        """Raise CanceledError if the statement is cancelled or its deadline has passed."""
        _check_limits(self.tokens, self.deadline)


def _check_limits(tokens: Sequence[CancelToken], deadline: float) -> None:
    for token in tokens:
        if token.is_canceled:
            raise CanceledError("canceling statement due to user request")
    if deadline and time.monotonic() > deadline:
        raise CanceledError("canceling statement due to statement timeout")


def statement_deadline(session: LimitedSession) -> float:
    """Return the deadline of a statement that begins now, by the monotonic clock; 0 for none."""
    limit = parse_duration(text) if (text := session.time_limit) else 0.0
    return time.monotonic() + limit if limit else 0.0


class Cancellation:
    """Watch that ends statements at safe points: between operators, and within joins."""

    def __init__(self, interrupt: DeferredInterrupt) -> None:
        self._next: Watch | None = interrupt.watch
        self._interrupt = interrupt
        self._has_raised = False
        self._tokens: Sequence[CancelToken] = ()
        self._deadline = 0.0
        self.memory = StatementMemory()
        self.on_checkpoint: Callable[[], object] | None = None
        """Called at checkpoints, where it may let other sessions run."""
        self.on_safe_point: Callable[[], object] | None = None
        """Called at safe points of a query that may move to a child process."""
        interrupt.watch = self

    def begin_step(self) -> None:
        """Begin a step."""
        if self._next is not None:
            self._next.begin_step()

    def __call__(self) -> None:
        """Raise CanceledError if the current statement, or one of those that share a step, has to end."""
        _check_limits(self._tokens, self._deadline)
        self.memory()
        if self._next is not None:
            self._next()
        if self.on_safe_point is not None:
            self.on_safe_point()

    def check_at_checkpoint(self) -> None:
        """Check limits at a checkpoint, and raise once per statement, whose undo may also pass checkpoints.

        A step is not ended at a checkpoint: it has safe points.
        """
        if self._has_raised or self._interrupt.is_entered:
            return
        try:
            self()
            if self.on_checkpoint is not None:
                self.on_checkpoint()
        except BaseException:
            self._has_raised = True
            raise

    def detach_limits(self) -> "StatementLimits":
        """Remove and return the limits of the current statement."""
        limits = StatementLimits(self._tokens, self._deadline, self.memory)
        self._tokens, self._deadline, self.memory = (), 0.0, StatementMemory()
        self.memory.bound = limits.memory.bound
        return limits

    def attach_limits(self, limits: "StatementLimits") -> None:
        """Restore the limits of a statement."""
        limits.memory.bound = self.memory.bound
        self._tokens, self._deadline, self.memory = limits.tokens, limits.deadline, limits.memory
        self._has_raised = False

    def check_room(self, size: int) -> None:
        """Raise an error if ``size`` more bytes exceed a limit."""
        self.memory.check_room(size)
        if self._next is not None:
            self._next.check_room(size)

    @contextmanager
    def limiting(self, session: LimitedSession, deadline: float | None = None) -> Iterator[None]:
        """Apply the limits of a session to the block; ``deadline`` is the deadline of a resumed statement."""
        token = session.token
        if token.is_canceled:
            token.is_canceled = False
            raise CanceledError("canceling statement due to user request")
        self._tokens = (token,)
        if deadline is not None:
            self._deadline = 0.0 if deadline == float("inf") else deadline
        else:
            self._deadline = session.deadline or statement_deadline(session)
        self.memory.begin_step(session.memory_limit)
        try:
            if deadline is not None or session.deadline:
                self()
            self._has_raised = False
            with install_check(self.check_at_checkpoint):
                yield
        except WaitRequest:
            if token.is_canceled:
                raise CanceledError("canceling statement due to user request") from None
            raise
        finally:
            self._tokens = ()
            self._deadline = 0.0
            self.memory.end()
            if not session.has_explicit_end:
                token.is_canceled = False

    @contextmanager
    def limiting_group(self, sessions: Sequence[LimitedSession]) -> Iterator[None]:
        """Apply the strictest limits of several sessions to the block, their shared step.

        The session that ends the step gets its error when its statement runs again alone.
        """
        limits = [
            seconds
            for session in sessions
            if (text := session.time_limit) and (seconds := parse_duration(text))
        ]
        self._tokens = [session.token for session in sessions]
        self._deadline = time.monotonic() + min(limits) if limits else 0.0
        self.memory.begin_step("")
        try:
            yield
        finally:
            self._tokens = ()
            self._deadline = 0.0
            self.memory.end()


class DatabaseLimits:
    """Limits of calls without a session, by the database's settings; only Ctrl-C cancels these."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.token = CancelToken()
        self.deadline = 0.0
        self.has_explicit_end = False
        self.time_limit = settings.get("statement_timeout", "")
        self.memory_limit = settings.get("statement_memory_limit", "")


@contextmanager
def within_limits(interrupt: DeferredInterrupt, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply the database's own limits to the block."""
    before = interrupt.watch
    cancellation = Cancellation(interrupt)
    try:
        with cancellation.limiting(DatabaseLimits(settings)):
            yield
    finally:
        interrupt.watch = before
