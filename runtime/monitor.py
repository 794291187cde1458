"""Monitors: mutual exclusion around an engine, taken at the edge of the public API.

An engine has one `Monitor`, which its branches share. `synchronized` wraps the public methods of a class, so
that a call of any of them holds its object's monitor. Sessions run their statements in the same monitor. So
the results of calls from many threads are those of the same calls one after another.

* A monitor is re-entrant: a callback may use the objects whose call it runs in.
* Threads enter in the order in which they came.
* Whoever is inside may let others in by `step_aside`, where nothing is half done: long planning does.
* A thread that waits for a monitor in a cycle of monitors raises `OperationalError` (deadlock). What a
  callback or a block of the user's waits for is unknown here: threads that wait for its end warn at last.

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
"""Seconds after which a waiting thread looks at what it waits for."""
PATIENCE: Final = 10.0
"""Seconds after which it warns that another thread keeps the monitor while it runs code of the user's."""
SPECIAL: Final = frozenset({"__call__", "__contains__", "__getitem__", "__iter__", "__len__", "__repr__"})
"""The special methods that `synchronized` wraps."""
GONE: Final = -1
"""The owner of a monitor in a child process whose parent had another thread inside."""
_get_ident: Final = threading.get_ident
_wanted: dict[int, "Monitor"] = {}
"""The monitor that each waiting thread waits for."""
_monitors: "WeakSet[Monitor]" = WeakSet()


def _inside(method: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """The method, called inside the monitor of its object.

    Interrupts come after calls, and ``with`` of a lock is none: from taking the lock over setting the owner
    to what undoes both there is no place for one. So Ctrl-C never leaves a monitor locked.
    """

    @wraps(method)
    def inside(self: Any, /, *args: Any, **kwargs: Any) -> Any:
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
                monitor.wake()

    call: Any = method
    found: Any = inside
    return found


class Monitor:
    """A re-entrant lock that threads enter in the order in which they came."""

    __slots__ = ("__weakref__", "_blocked", "_monitor", "entry", "owner", "queue")

    def __init__(self) -> None:
        self._monitor = self
        self.entry = threading.Lock()
        self.queue: deque[threading.Lock] = deque()
        self.owner = 0
        """The identifier of the thread inside, 0 if there is none."""
        self._blocked: threading.Thread | None = None
        """The thread that entered by `enter`: it may end without leaving."""
        _monitors.add(self)

    @_inside
    def run(
        self, call: Callable[Parameters, Value], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Value:
        """Call a function inside the monitor."""
        return call(*args, **kwargs)

    def run_at_once(self, call: Callable[[], Value], otherwise: Value) -> Value:
        """Call a function inside the monitor if that is free, or the thread is inside already."""
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
        """Enter the monitor until `leave`; False if the thread is inside already, and is not to leave."""
        me = _get_ident()
        if self.owner == me:
            return False
        thread, ticket = threading.current_thread(), self._line_up(me)
        try:
            self._wait(ticket, me)
            self.entry.acquire()
            self._blocked, self.owner = thread, me
        finally:
            self._step_out(ticket, me)
        return True

    def leave(self) -> None:
        """Leave the monitor after `enter`."""
        self._blocked = None
        self._leave()

    def step_aside(self, meanwhile: Callable[[], object]) -> None:
        """Let others in, in the middle of a call, and come back in turn; ``meanwhile`` is called outside.

        The thread is inside when this returns, and when it raises: Ctrl-C that is pressed in between, too.
        """
        me, raised = _get_ident(), None
        self._leave()
        try:
            meanwhile()
        except BaseException as error:
            raised = error
        while self.owner != me:
            entered: list[bool] = []
            try:
                ticket = self._line_up(me)
                try:
                    self._wait(ticket, me)
                    entered.extend(map(self.entry.acquire, (True,)))  # nothing comes between these two
                finally:
                    if entered:
                        self.owner = me
                    self._step_out(ticket, me)
            except InterfaceError:
                raise  # nobody will ever leave
            except OperationalError:
                time.sleep(POLL / 100)  # a deadlock, which the other thread sees, too, and can be ended there
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised

    def check_inside(self) -> None:
        """Raise InterfaceError unless the thread is inside."""
        if self.owner != _get_ident():
            raise InterfaceError("a block ends in another thread than it began in")

    def iterate(self, items: Iterator[Item], before: Callable[[], object] = lambda: None) -> Iterator[Item]:
        """An iterator each of whose steps is inside the monitor, where ``before`` is called first."""
        return Synchronized(self, items, before)

    def _leave(self) -> None:
        self.owner = 0
        self.entry.release()
        if self.queue:
            self.wake()

    def run_in_turn(self, call: Callable[[], Value], me: int) -> Value:
        """Call a function inside the monitor, after those who have come before."""
        ticket = self._line_up(me)
        try:
            self._wait(ticket, me)
            with self.entry:
                self.owner = me
                try:
                    self._step_out(ticket, me)
                    return call()
                finally:
                    self.owner = 0
        finally:
            self._step_out(ticket, me)
            if self.queue:
                self.wake()

    # Waiting

    def _line_up(self, me: int) -> threading.Lock:
        ticket = threading.Lock()
        ticket.acquire()
        _wanted[me] = self
        self.queue.append(ticket)
        return ticket

    def _step_out(self, ticket: threading.Lock, me: int) -> None:
        if _wanted.pop(me, None) is not None:
            self.queue.remove(ticket)

    def _wait(self, ticket: threading.Lock, me: int) -> None:
        """Return when the thread is the first in the queue and nobody is inside."""
        self._check_owner(me)
        waited = 0.0
        while self.queue[0] is not ticket or self.entry.locked():
            if not ticket.acquire(timeout=POLL):
                waited += POLL
                self._check_owner(me)
                if waited == PATIENCE:
                    self._warn()

    def wake(self) -> None:
        """Have the first in the queue look."""
        with suppress(IndexError, RuntimeError):  # it has left, or has been told already
            self.queue[0].release()

    def _check_owner(self, me: int) -> None:
        """Raise an error if the thread inside waits for this one, or is no more."""
        monitor: Monitor | None = self
        for _ in range(len(_wanted) + 1):
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
            monitor = _wanted.get(owner)

    def _is_abandoned(self, owner: int) -> bool:
        """Whether the thread inside is no more.

        Only a block of the user's can be left open by a thread that ends: calls leave when they return. So
        nobody looks at the frames of all threads here, which is not safe (see `_frame_of`).
        """
        blocked = self._blocked
        ended = blocked is not None and blocked.ident == owner and not blocked.is_alive()
        return owner == self.owner and (ended or owner == GONE)

    def _warn(self) -> None:
        """Warn that the thread inside runs code that is not ours, if it does."""
        owner = self.owner
        frame = _frame_of(owner)
        if frame is None or frame.f_globals.get("__name__", "").startswith("kpg."):
            return
        name = next((one.name for one in threading.enumerate() if one.ident == owner), "unknown")
        warnings.warn(
            f"a call of a database has waited {PATIENCE:.0f} seconds for thread {name}, which is in a"
            f" callback or a block of that database, at {frame.f_code.co_filename}:{frame.f_lineno}",
            RuntimeWarning,
            stacklevel=2,
        )

    @staticmethod
    def forget_others() -> None:
        """In a child process, forget the waiting threads of the parent, and know that its others are gone."""
        _wanted.clear()
        for monitor in list(_monitors):
            monitor.queue.clear()
            if monitor.owner not in (0, _get_ident()):
                monitor.owner = GONE


def _frame_of(thread: int) -> FrameType | None:
    """The frame that a thread runs.

    CPython makes the frames under a lock of its own. A garbage collection in between may run Python code and
    let another thread go on: if that starts a thread, or asks for frames too, the process hangs (gh-106883).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)
    finally:
        if enabled:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Monitor.forget_others)


class Synchronized(Iterator[Item]):
    """See `Monitor.iterate`."""

    __slots__ = ("_before", "_items", "_monitor")

    def __init__(self, monitor: Monitor, items: Iterator[Item], before: Callable[[], object]) -> None:
        self._monitor = monitor
        self._items = items
        self._before = before

    @_inside
    def __next__(self) -> Item:
        self._before()
        return next(self._items)


def synchronized(*exempt: str) -> Callable[[type[Class]], type[Class]]:
    """Have the public methods and properties of a class run inside the monitor ``self._monitor``.

    Args:
        exempt: The names of those that do not: the engine calls them itself, or they must not wait.
    """

    def wrap(cls: type[Class]) -> type[Class]:
        for name, member in list(vars(cls).items()):
            if name in exempt or (name.startswith("_") and name not in SPECIAL):
                continue
            if isinstance(member, FunctionType):
                setattr(cls, name, _inside(member))
            elif isinstance(member, property) and member.fget is not None:
                get, put = member.fget, member.fset
                setattr(cls, name, property(_inside(get), put and _inside(put), doc=member.__doc__))
        return cls

    return wrap
