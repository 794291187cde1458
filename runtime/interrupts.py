"""Interrupts: Ctrl-C and cancellation take effect only at safe points, so no state is half changed.

:class:`DeferredInterrupt` defers SIGINT during a change until the step reaches a point where it can be
undone. Parsing, binding and planning change nothing; they call :func:`checkpoint` at every step into the text
or plan, and :func:`checked` sets the test that a checkpoint makes in this thread. Python code that goes
through many values takes them in :func:`pieces`, with a safe point before each. :class:`DeepCalls` raises the
recursion limit for deeply nested texts.
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
"""Calls of which one asks: each of the others costs 50 ns."""
_left: Final = [EVERY]
_checks: Final = dict[int, Callable[[], object]]()
"""By thread: what is asked at these."""
_lock: Final = Lock()


def checkpoint() -> None:
    """Raise the error that ends the present statement, if it is cancelled or has taken too long.

    Called often while a statement is parsed, bound and planned, which changes nothing.
    """
    _left[0] -= 1
    if _left[0] < 0:
        _left[0] = EVERY
        check = _checks.get(get_ident())
        if check is not None:
            check()


@contextmanager
def checked(check: Callable[[], object]) -> Iterator[None]:
    """Ask ``check`` at the checkpoints of this thread, within the block."""
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
    """From now on this thread is in the middle of what can be undone, wherever an error is raised in it."""
    _steps[get_ident()] = interrupt


def end_step() -> None:
    """What this thread does now must not be interrupted."""
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
    """A context in which calls may go as deep as ``most``.

    Python has one limit for all threads: the first context of any thread raises it, the last sets it back.
    """

    _inside = 0
    _before = 0

    def __init__(self, most: int) -> None:
        self._most = most

    def __enter__(self) -> None:
        with _lock:
            limit = sys.getrecursionlimit()
            if not DeepCalls._inside:
                DeepCalls._before = limit
            if limit < self._most:
                sys.setrecursionlimit(self._most)
            DeepCalls._inside += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with _lock:
            DeepCalls._inside -= 1
            if not DeepCalls._inside:
                sys.setrecursionlimit(DeepCalls._before)


Rows = tuple[NDArray[np.int64], NDArray[np.int64]]
SIGINT: Final = int(signal.SIGINT)
_signal = import_module("_signal")
"""What ``signal`` wraps in order to make enum members, which takes ten times as long: 2.7 us, not 0.2."""
_main = [threading.main_thread().ident]
"""The thread to which Python delivers signals: after a fork, the one that forked."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _main.__setitem__(0, threading.get_ident()))
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Watch(Protocol):
    """What looks at a step while it runs, and raises what ends it."""

    def begin(self) -> None:
        """Note that a step begins."""

    def __call__(self) -> None:
        """Raise an error if the step has to end."""

    def room(self, wanted: int) -> None:
        """Raise an error if there is no room for so many bytes more."""


class DeferredInterrupt:
    """Context in which SIGINT only sets a flag; on :meth:`check`, and on leaving, its handler is called.

    That is the handler that was in place before: Python's own raises KeyboardInterrupt, another may do
    otherwise. Contexts nest: the outermost puts a handler in place and takes it away, unless somebody has
    put another in its place meanwhile. Nothing is left behind, so whoever looks at the process's handler
    between calls, or replaces it, need not know of this.

    It does nothing where it cannot or must not: outside the main thread, to which Python delivers signals,
    and where SIGINT is ignored, ends the process, or is handled by something that is not Python.
    """

    __slots__ = ("_active", "_depth", "_handler", "_previous", "pending", "watch")

    def __init__(self) -> None:
        self.pending = False
        """Whether Ctrl-C was pressed, and its handler has not been called."""
        self.watch: Watch | None = None
        """Who is asked at safe points, too, whether to go on."""
        self._depth = 0
        self._active = False
        self._previous: Any = None
        self._handler = self._note

    def __enter__(self) -> "DeferredInterrupt":
        if not self._depth:
            if threading.get_ident() == _main[0]:
                self._begin()
            if self.watch is not None:
                self.watch.begin()
        # Last: where Ctrl-C is pressed before the handler is in place, the context is not entered.
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._active and not self._depth:
            self._active = False
            found = _signal.signal(SIGINT, self._previous)
            if found is not self._handler:
                _signal.signal(SIGINT, found)
            if self.pending:
                self._handle()

    @property
    def busy(self) -> bool:
        """Whether a context is entered."""
        return self._depth > 0

    def check(self) -> None:
        """Call the handler, which usually raises KeyboardInterrupt, if Ctrl-C was pressed; then the watch."""
        if self.pending:
            self._handle()
        if self.watch is not None:
            self.watch()

    def having_room(self, rows: Rows) -> Rows:
        """Rows ``int64[width, n]`` and their multiplicities, if there is room for each as often as that."""
        if self.watch is not None:
            data, diff = rows
            self.watch.room(data.itemsize * data.shape[0] * int(diff.clip(0).sum()))
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

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._active:
            self.pending = True
            return
        # Somebody saw this handler during a context and has put it back after the end of it.
        _signal.signal(SIGINT, self._previous)
        self._previous(number, frame)
