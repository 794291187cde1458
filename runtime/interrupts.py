"""Interrupts: Ctrl-C and cancellation take effect only at safe points.

:class:`DeferredInterrupt` defers SIGINT during a change until the step reaches a point where it can
be undone. Parsing, binding and planning change nothing; they call :func:`checkpoint` throughout,
and :func:`install_check` sets the check that a checkpoint runs in this thread. :class:`DeepCalls`
raises the recursion limit for deeply nested texts.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Lock, get_ident
from types import FrameType, TracebackType
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

EVERY: Final = 16
"""Calls of :func:`checkpoint` per check; a call without a check costs 50 ns."""
_calls_left: Final = [EVERY]
_checks: Final = dict[int, Callable[[], object]]()
"""Check by thread."""
_lock: Final = Lock()


def checkpoint() -> None:
    """Run this thread's check, now and then.

    It raises the error that ends a canceled or timed-out statement. Called often during parsing,
    binding and planning, which change nothing.
    """
    _calls_left[0] -= 1
    if _calls_left[0] < 0:
        _calls_left[0] = EVERY
        check = _checks.get(get_ident())
        if check is not None:
            check()


@contextmanager
def install_check(check: Callable[[], object]) -> Iterator[None]:
    """Run ``check`` at the checkpoints of this thread within the block."""
    thread = get_ident()
    before = _checks.get(thread)
    _checks[thread] = check
    try:
        yield
    finally:
        if before is None:
            del _checks[thread]
        else:
            _checks[thread] = before


Item = TypeVar("Item")
PIECE: Final = 1024
"""Values between two safe points: some milliseconds, where each is a function's in Python."""
_steps: Final = dict[int, "DeferredInterrupt"]()
"""By thread: the interrupts of the step that it is in the middle of, and that can be undone."""


def begin_step(interrupt: "DeferredInterrupt") -> None:
    """Begin a step of this thread that can be rolled back, wherever an error is raised in it."""
    _steps[get_ident()] = interrupt


def end_step() -> None:
    """End the step of this thread: it must not be interrupted from now on."""
    _steps.pop(get_ident(), None)


def safe_point() -> None:
    """Raise the error that ends the present statement; called where values may raise errors of their own."""
    thread = get_ident()
    interrupt = _steps.get(thread)
    if interrupt is not None:
        interrupt.check()
    elif (check := _checks.get(thread)) is not None:
        check()


def pieces(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items in pieces, before each of which the present statement may be ended."""
    if len(items) <= PIECE:
        yield items
        return
    for start in range(0, len(items), PIECE):
        safe_point()
        yield items[start : start + PIECE]


class DeepCalls:
    """Context that allows recursion up to ``max_depth``.

    Python has one limit for all threads: the first context of any thread raises it, the last one
    restores it.
    """

    _entered = 0
    _previous_limit = 0

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth

    def __enter__(self) -> None:
        with _lock:
            limit = sys.getrecursionlimit()
            if not DeepCalls._entered:
                DeepCalls._previous_limit = limit
            if limit < self._max_depth:
                sys.setrecursionlimit(self._max_depth)
            DeepCalls._entered += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with _lock:
            DeepCalls._entered -= 1
            if not DeepCalls._entered:
                sys.setrecursionlimit(DeepCalls._previous_limit)


Rows = tuple[NDArray[np.int64], NDArray[np.int64]]
SIGINT: Final = int(signal.SIGINT)
_signal = import_module("_signal")
"""Module behind ``signal``, which takes 0.2 us instead of 2.7 because it makes no enum members."""
_main_thread = [threading.main_thread().ident]
"""Thread to which Python delivers signals; after a fork, the one that forked."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _main_thread.__setitem__(0, threading.get_ident()))
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Watch(Protocol):
    """Check of a running step, which raises the error that ends it."""

    def begin_step(self) -> None:
        """Start to measure a step."""

    def __call__(self) -> None:
        """Raise an error if the step has to end."""

    def check_room(self, size: int) -> None:
        """Raise an error if there is no memory for ``size`` more bytes."""


class DeferredInterrupt:
    """Context in which SIGINT only sets a flag.

    :meth:`check`, and the end of the context, call its handler. That is the previous handler: Python's
    own raises KeyboardInterrupt. Contexts nest: the outermost one installs a handler and removes it,
    unless other code has replaced it in between. Between calls the process's handler is unchanged, so
    code that inspects or replaces it is not affected.

    The context has no effect outside the main thread, to which Python delivers signals, and where
    SIGINT is ignored, ends the process, or has a handler that is not Python code.
    """

    __slots__ = ("_active", "_depth", "_handler", "_previous", "pending", "watch")

    def __init__(self) -> None:
        self.pending = False
        """Whether Ctrl-C was pressed and its handler has not been called."""
        self.watch: Watch | None = None
        """Additional check at safe points."""
        self._depth = 0
        self._active = False
        self._previous: Any = None
        self._handler = self._record_signal

    def __enter__(self) -> "DeferredInterrupt":
        if not self._depth:
            if threading.get_ident() == _main_thread[0]:
                self._begin()
            if self.watch is not None:
                self.watch.begin_step()
        # Last: after Ctrl-C before the handler is installed, the context is not entered.
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._active and not self._depth:
            self._active = False
            current = _signal.signal(SIGINT, self._previous)
            if current is not self._handler:
                _signal.signal(SIGINT, current)
            if self.pending:
                self._handle()

    @property
    def is_entered(self) -> bool:
        """Whether a context is active."""
        return self._depth > 0

    def check(self) -> None:
        """Call the handler if Ctrl-C was pressed, which usually raises KeyboardInterrupt.

        Then call the watch.
        """
        if self.pending:
            self._handle()
        if self.watch is not None:
            self.watch()

    def check_room(self, rows: Rows) -> Rows:
        """Return rows ``int64[width, n]`` and their multiplicities if memory suffices to repeat each row."""
        if self.watch is not None:
            data, diff = rows
            self.watch.check_room(data.itemsize * data.shape[0] * int(diff.clip(0).sum()))
        return rows

    def _handle(self) -> None:
        self.pending = False
        self._previous(SIGINT, sys._getframe(2))

    def _begin(self) -> None:
        previous = _signal.getsignal(SIGINT)
        if previous is not self._handler:
            if not callable(previous):
                return
            self._previous = previous
        self.pending = False
        self._active = True
        _signal.signal(SIGINT, self._handler)

    def _record_signal(self, number: int, frame: FrameType | None) -> None:
        if self._active:
            self.pending = True
            return
        # Other code has read this handler during a context and has reinstalled it afterwards.
        _signal.signal(SIGINT, self._previous)
        self._previous(number, frame)
