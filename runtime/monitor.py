"""Monitors: mutual exclusion around an engine, entered at the boundary of the public API.

An engine has one `Monitor`, which its branches share. `synchronized` wraps the public methods of a
class, so that each call holds its object's monitor. Sessions run their statements in the same
monitor. So the results of calls from many threads equal those of the same calls in some serial
order.

* A monitor is re-entrant: a callback may use the objects whose call it runs in.
* Threads enter in order of arrival.
* The thread inside may admit others by `step_aside`, at points where no change is half done; long planning
  does.
* A thread that waits for a monitor in a cycle of monitors raises `OperationalError` (deadlock). The
  monitor does not know what a callback or a user's block waits for: threads that wait for its end
  issue a warning.

Source: C. A. R. Hoare, "Monitors: an operating system structuring concept", CACM 17(10), 1974.
"""

import gc
import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial, wraps
from types import FrameType, FunctionType
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

from kpg.runtime.errors import InterfaceError, OperationalError

Class = TypeVar("Class")
Item = TypeVar("Item")
Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

POLL: Final = 1.0
"""Seconds between checks of a waiting thread for deadlocks and abandoned monitors."""
PATIENCE: Final = 10.0
"""Seconds after which it warns that another thread holds the monitor in user code."""
SPECIAL: Final = frozenset({"__call__", "__contains__", "__getitem__", "__iter__", "__len__", "__repr__"})
"""Special methods that `synchronized` wraps."""
EXITED: Final = -1
"""Owner of a monitor in a child process if another thread of the parent was inside."""
_get_ident: Final = threading.get_ident
_awaited: dict[int, "Monitor"] = {}
"""Monitor that each waiting thread waits for."""
_monitors: "WeakSet[Monitor]" = WeakSet()


def _synchronize(method: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """Return the method, called inside the monitor of its object.

    Python raises interrupts after calls, and ``with`` of a lock is not a call. Between acquiring the
    lock, setting the owner and the code that undoes both there is no point for an interrupt. So Ctrl-C
    never leaves a monitor locked.
    """

    @wraps(method)
    def synchronized_method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        monitor: Monitor = self._monitor
        me = _get_ident()
        if monitor.owner == me:
            return call(self, *args, **kwargs)
        if monitor.queue or monitor.entry.locked():
            return monitor.run_in_turn(partial(call, self, *args, **kwargs), me)
        try:
            with monitor.entry:
                monitor.owner = me
                try:
                    return call(self, *args, **kwargs)
                finally:
                    monitor.owner = 0
        finally:
            if monitor.queue:
                monitor.wake_next()

    call: Any = method
    result: Any = synchronized_method
    return result


class Monitor:
    """Re-entrant lock that threads enter in order of arrival."""

    __slots__ = ("__weakref__", "_entered_thread", "_monitor", "entry", "owner", "queue")

    def __init__(self) -> None:
        self._monitor = self
        self.entry = threading.Lock()
        self.queue: deque[threading.Lock] = deque()
        self.owner = 0
        """Identifier of the thread inside; 0 if there is none."""
        self._entered_thread: threading.Thread | None = None
        """Thread that entered by `enter`; it may end without leaving."""
        _monitors.add(self)

    @_synchronize
    def run(
        self, call: Callable[Parameters, Value], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Value:
        """Call a function inside the monitor."""
        return call(*args, **kwargs)

    def try_run(self, call: Callable[[], Value], otherwise: Value) -> Value:
        """Call a function inside the monitor if it is free or the thread is inside.

        Otherwise return ``otherwise``.
        """
        if self.owner == _get_ident():
            return call()
        if self.queue or not self.entry.acquire(blocking=False):
            return otherwise
        try:
            self.owner = _get_ident()
            return call()
        finally:
            self._leave()

    def enter(self) -> bool:
        """Enter the monitor until `leave`; return False if the thread is inside and must not leave."""
        me = _get_ident()
        if self.owner == me:
            return False
        thread, ticket = threading.current_thread(), self._enqueue(me)
        try:
            self._wait(ticket, me)
            self.entry.acquire()
            self._entered_thread, self.owner = thread, me
        finally:
            self._dequeue(ticket, me)
        return True

    def leave(self) -> None:
        """Leave the monitor after `enter`."""
        self._entered_thread = None
        self._leave()

    def step_aside(self, meanwhile: Callable[[], object]) -> None:
        """Admit other threads in the middle of a call, call ``meanwhile`` outside, and enter again in turn.

        The thread is inside when this returns or raises, even after Ctrl-C.
        """
        me, pending_error = _get_ident(), None
        self._leave()
        try:
            meanwhile()
        except BaseException as error:
            pending_error = error
        while self.owner != me:
            entered: list[bool] = []
            try:
                ticket = self._enqueue(me)
                try:
                    self._wait(ticket, me)
                    entered.extend(map(self.entry.acquire, (True,)))  # no interrupt comes between these two
                finally:
                    if entered:
                        self.owner = me
                    self._dequeue(ticket, me)
            except InterfaceError:
                raise  # the owner will never leave
            except OperationalError:
                time.sleep(POLL / 100)  # a deadlock, which the other thread detects too and can end
            except BaseException as error:
                pending_error = error
        if pending_error is not None:
            raise pending_error

    def check_inside(self) -> None:
        """Raise InterfaceError unless the thread is inside."""
        if self.owner != _get_ident():
            raise InterfaceError("a block ends in another thread than it began in")

    def iterate(self, items: Iterator[Item], before: Callable[[], object] = lambda: None) -> Iterator[Item]:
        """Return an iterator that takes each step inside the monitor, after a call of ``before``."""
        return MonitorIterator(self, items, before)

    def _leave(self) -> None:
        self.owner = 0
        self.entry.release()
        if self.queue:
            self.wake_next()

    def run_in_turn(self, call: Callable[[], Value], me: int) -> Value:
        """Call a function inside the monitor, after the threads that wait already."""
        ticket = self._enqueue(me)
        try:
            self._wait(ticket, me)
            with self.entry:
                self.owner = me
                try:
                    self._dequeue(ticket, me)
                    return call()
                finally:
                    self.owner = 0
        finally:
            self._dequeue(ticket, me)
            if self.queue:
                self.wake_next()

    # Waiting

    def _enqueue(self, me: int) -> threading.Lock:
        ticket = threading.Lock()
        ticket.acquire()
        _awaited[me] = self
        self.queue.append(ticket)
        return ticket

    def _dequeue(self, ticket: threading.Lock, me: int) -> None:
        if _awaited.pop(me, None) is not None:
            self.queue.remove(ticket)

    def _wait(self, ticket: threading.Lock, me: int) -> None:
        """Return when the thread is first in the queue and no thread is inside."""
        self._check_owner(me)
        waited_seconds = 0.0
        while self.queue[0] is not ticket or self.entry.locked():
            if not ticket.acquire(timeout=POLL):
                waited_seconds += POLL
                self._check_owner(me)
                if waited_seconds == PATIENCE:
                    self._warn()

    def wake_next(self) -> None:
        """Wake the first thread in the queue."""
        with suppress(IndexError, RuntimeError):  # it has left the queue, or has been woken already
            self.queue[0].release()

    def _check_owner(self, me: int) -> None:
        """Raise an error if the thread inside waits for this one, or has ended."""
        monitor: Monitor | None = self
        for _ in range(len(_awaited) + 1):
            if monitor is None or not (owner := monitor.owner):
                return
            if owner == me:
                error = OperationalError(
                    "deadlock detected: threads wait for each other's databases",
                    hint="do not call a database in a callback or transaction block of another one's",
                )
                error.sqlstate = "40P01"
                raise error
            if monitor._is_abandoned(owner):
                raise InterfaceError(
                    "the thread that used the database has ended in the middle of it",
                    hint="open the database anew: a process must not be forked while another thread uses it",
                )
            monitor = _awaited.get(owner)

    def _is_abandoned(self, owner: int) -> bool:
        """Return whether the thread inside has ended.

        Only a user's block can stay open when its thread ends, since calls leave when they return. So there
        is no need to inspect the frames of all threads here, which is unsafe (see `_frame_of`).
        """
        blocked = self._entered_thread
        ended = blocked is not None and blocked.ident == owner and not blocked.is_alive()
        return owner == self.owner and (ended or owner == EXITED)

    def _warn(self) -> None:
        """Warn if the thread inside runs user code."""
        owner = self.owner
        frame = _frame_of(owner)
        if frame is None or frame.f_globals.get("__name__", "").startswith("kpg."):
            return
        name = next((thread.name for thread in threading.enumerate() if thread.ident == owner), "unknown")
        warnings.warn(
            f"a call of a database has waited {PATIENCE:.0f} seconds for thread {name}, which is in a"
            f" callback or a block of that database, at {frame.f_code.co_filename}:{frame.f_lineno}",
            RuntimeWarning,
            stacklevel=2,
        )

    @staticmethod
    def reset_after_fork() -> None:
        """In a child process, clear the parent's waiting threads and mark monitors of its other threads."""
        _awaited.clear()
        for monitor in list(_monitors):
            monitor.queue.clear()
            if monitor.owner not in (0, _get_ident()):
                monitor.owner = EXITED


def _frame_of(thread: int) -> FrameType | None:
    """Return the current frame of a thread.

    CPython creates the frames under a lock of its own. A garbage collection in between may run Python
    code and switch threads: if the other thread starts a thread, or requests frames too, the process
    hangs (gh-106883).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)
    finally:
        if enabled:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Monitor.reset_after_fork)


class MonitorIterator(Iterator[Item]):
    """Iterator of `Monitor.iterate`."""

    __slots__ = ("_before", "_items", "_monitor")

    def __init__(self, monitor: Monitor, items: Iterator[Item], before: Callable[[], object]) -> None:
        self._monitor = monitor
        self._items = items
        self._before = before

    @_synchronize
    def __next__(self) -> Item:
        self._before()
        return next(self._items)


def synchronized(*exempt: str) -> Callable[[type[Class]], type[Class]]:
    """Return a class decorator that runs public members inside the monitor ``self._monitor``.

    Args:
        exempt: Names of members that do not: the engine calls them itself, or they must not wait.
    """

    def wrap(cls: type[Class]) -> type[Class]:
        for name, member in list(vars(cls).items()):
            if name in exempt or (name.startswith("_") and name not in SPECIAL):
                continue
            if isinstance(member, FunctionType):
                setattr(cls, name, _synchronize(member))
            elif isinstance(member, property) and member.fget is not None:
                get, set_value = member.fget, member.fset
                setattr(
                    cls,
                    name,
                    property(_synchronize(get), set_value and _synchronize(set_value), doc=member.__doc__),
                )
        return cls

    return wrap
