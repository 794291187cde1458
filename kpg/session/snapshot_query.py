"""Snapshot queries: a long query runs in a forked child, on the child's copy-on-write snapshot of memory.

A query that only reads stops at a safe point when it has run for `SLICE` and other sessions wait.
Then the process forks. The child runs the query again, from its beginning, and sends the answer
through a pipe. The statement is outside the monitor meanwhile (``scheduler``), and other sessions
use the engine.

* The answer is as of the epoch of the fork: later commits change only the parent's memory.
* The child sends words. Codes below the fork's number of strings mean the same in both processes.
  The child sends the strings of all other codes, and the parent interns them.
* Only a statement leaves that has read no rows yet, and taken no lock, whose transaction has
  changed nothing, and that calls no Python function of a user, which may need other threads
  (``TimeSlices.may_read_outside``).
* A statement that reads again after its answer is undone if the epoch has changed
  (``Engine.answered_epoch``). It then runs inside.

The child holds nothing that belongs to the server. It closes all inherited files except the pipe,
keeps only the forking thread, ignores the signals that stop a server, and dies with that thread
(PR_SET_PDEATHSIG). Linux only; elsewhere every query runs inside.

Source: A. Kemper and T. Neumann, "HyPer: a hybrid OLTP&OLAP main memory database system based on
virtual memory snapshots", ICDE 2011.
"""

import ctypes
import gc
import os
import pickle
import select
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.execute.queries.query_plan import PlannedStatement, calls_user_functions
from kpg.runtime.errors import InternalError, OperationalError
from kpg.session.cancel import Cancellation, StatementLimits
from kpg.session.engine import Engine
from kpg.session.group_commit import SessionState
from kpg.session.memory_limit import release_memory
from kpg.session.scheduler import RunningStatement, TimeSlices

Words = NDArray[np.int64]
Rows = tuple[Words, Words]
"""Rows ``int64[w, n]`` and their multiplicities."""

SLICE: Final = 0.05
"""Seconds for which a query may keep other sessions waiting, in addition to the duration of the last
fork.
"""
POLL_INTERVAL: Final = 10
"""Seconds between two checks of the limits of a statement whose child runs."""
DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2): signal sent when the forking thread or its process ends."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or a service manager also sends to a server's children: the parent ends
them.
"""
OOM_SCORE: Final = "800"
"""oom_score_adj of a child: short of memory, the system ends it before the server."""
STANDARD_ERROR: Final = 2
SIZE_FORMAT: Final = struct.Struct("<q")


class QueryHandover(BaseException):
    """Ends the query in this process, as a child will run it."""


class LostQueryError(OperationalError):
    """The child process ended without a result."""

    sqlstate = "58000"


class ChildResult(NamedTuple):
    """Rows, and the strings of new dictionary codes, in order of the codes."""

    data: Words
    diff: Words
    codes: Words
    bounds: Words
    text: NDArray[np.uint8]


class SnapshotQueryHost(Protocol):
    """The members of the session manager that snapshot queries use."""

    engine: Engine
    cancellation: Cancellation
    time_slices: TimeSlices

    def has_others_waiting(self, session: SessionState) -> bool:
        """Return whether other sessions wait for the engine."""


class SnapshotQueries:
    """Queries that run in child processes, at most ``max_children`` at once."""

    def __init__(self, session_manager: SnapshotQueryHost, max_children: int) -> None:
        self.children: set[Child] = set()
        self._session_manager, self._max_children = session_manager, max_children
        self._fork_seconds = 0.0
        """Duration of the last fork in seconds."""
        if max_children and session_manager.engine.workers is None and sys.platform == "linux":
            session_manager.engine.query_runner = self.run

    def run(self, planned: PlannedStatement, query: Callable[[], Rows]) -> Rows:
        """Return the rows of a query; it moves to a child if it takes long and other sessions wait."""
        hub, running = self._session_manager, self._session_manager.time_slices.running
        if running is None or not running.can_leave or hub.engine.interrupt.is_entered:
            return query()
        earliest = time.monotonic() + SLICE + self._fork_seconds
        hub.cancellation.on_safe_point = lambda: self._hand_over_if_due(running, planned, earliest)
        try:
            return query()
        except QueryHandover:
            pass
        finally:
            hub.cancellation.on_safe_point = None
        return self._run_in_child(running, planned, query)

    def _hand_over_if_due(
        self, running: RunningStatement, planned: PlannedStatement, earliest: float
    ) -> None:
        """Hand the query over to a child if it may leave; called at safe points."""
        hub = self._session_manager
        if time.monotonic() < earliest or len(self.children) >= self._max_children:
            return
        if hub.has_others_waiting(running.session) and hub.time_slices.may_read_outside(running):
            if not calls_user_functions(planned.rel):
                raise QueryHandover
            hub.cancellation.on_safe_point = None

    def _run_in_child(
        self, running: RunningStatement, planned: PlannedStatement, query: Callable[[], Rows]
    ) -> Rows:
        engine, session = self._session_manager.engine, running.session
        dictionary, epoch = engine.executor.dictionary, engine.executor.epoch
        known = len(dictionary)
        texts = [place for place, type_ in enumerate(planned.types) if type_.is_interned]

        def compute() -> ChildResult:
            self._session_manager.cancellation.memory.begin_step(session.memory_limit)
            data, diff = query()
            codes = np.unique(data[texts])
            codes = codes[codes >= known]
            bounds, text = dictionary.parts(codes)
            return ChildResult(np.ascontiguousarray(data), np.ascontiguousarray(diff), codes, bounds, text)

        before = time.monotonic()
        try:
            child = Child(compute)
        except OSError:
            return query()  # no memory or no process is available
        self._fork_seconds = time.monotonic() - before
        self.children.add(child)
        try:
            answer = self._session_manager.time_slices.read_outside(running, child.result)
        finally:
            self.children.discard(child)
            child.kill()
        engine.answered_epoch = epoch
        if answer.codes.size:
            codes = dictionary.intern_parts(answer.bounds, answer.text)
            for place in texts:
                new = answer.data[place] >= known
                answer.data[place, new] = codes[np.searchsorted(answer.codes, answer.data[place, new])]
        return answer.data, answer.diff


class Child:
    """A forked process that runs a function and sends its result. OSError if the fork fails."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._pipe, write_end = os.pipe()
        self._is_killed = False
        self._status: int | None = None
        libc, parent = ctypes.CDLL(None), os.getpid()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", DeprecationWarning
                )  # the child needs nothing that other threads hold
                self._pid = os.fork()
            if not self._pid:
                _run_child(work, write_end, libc, parent, mask)
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(write_end)

    def result(self, limits: StatementLimits) -> Any:
        """Return the result of the child's function, or raise its exception.

        Raises:
            CanceledError: If the statement has to end.
            LostQueryError: If the child has ended without a result.
        """
        (count,) = SIZE_FORMAT.unpack(self._read(SIZE_FORMAT.size, limits))
        sizes = struct.unpack(f"<{count}q", self._read(count * SIZE_FORMAT.size, limits))
        header, *parts = [self._read(size, limits) for size in sizes]
        result, error = pickle.loads(header, buffers=parts)
        if error is not None:
            raise error
        return result

    def kill(self) -> None:
        """End the process, whether or not it has finished."""
        if not self._is_killed:
            self._is_killed = True
            os.close(self._pipe)
            with suppress(OSError):
                if self._status is None:
                    os.kill(self._pid, signal.SIGKILL)
                self._reap(0)

    def _read(self, size: int, limits: StatementLimits) -> memoryview:
        target = np.empty(size, np.uint8).data
        rest, poll = target, select.poll()  # select has no numbers beyond 1,023
        poll.register(self._pipe, select.POLLIN)
        while rest:
            limits.check()
            if poll.poll(POLL_INTERVAL):
                count = os.readv(self._pipe, [rest])
                if not count:
                    raise self._lost_error()
                rest = rest[count:]
        return target

    def _reap(self, options: int) -> None:
        if self._status is None:
            with suppress(ChildProcessError):  # another thread has waited for it
                pid, status = os.waitpid(self._pid, options)
                self._status = os.waitstatus_to_exitcode(status) if pid else None

    def _lost_error(self) -> LostQueryError:
        self._reap(0)
        how = f"was ended by signal {-self._status}" if self._status and self._status < 0 else "has ended"
        return LostQueryError(
            f"the process that ran the query {how}",
            hint="the system may have been short of memory; the statement can be tried again",
        )


def _run_child(work: Callable[[], Any], pipe: int, libc: Any, parent: int, mask: Any) -> NoReturn:
    """Run the child: compute, send the result and exit."""
    try:
        gc.disable()  # a collection writes to every object, which copies all their pages
        libc.prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            _drop_inherited(pipe)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _send(pipe, _run_work(work))
    finally:
        os._exit(0)


def _drop_inherited(pipe: int) -> None:
    """Close the parent's files and sockets and reset its signal handlers."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if number in STOP_SIGNALS or callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN if number in STOP_SIGNALS else signal.SIG_DFL)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > STANDARD_ERROR and int(name) != pipe:
            with suppress(OSError):
                os.close(int(name))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OOM_SCORE)


def _run_work(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:
        return None, _make_picklable(release_memory(error))


def _make_picklable(error: BaseException) -> BaseException:
    """Return an error that can be pickled: without its operation, or reduced to its message."""
    for attribute in ("", "operation"):
        if attribute in vars(error):
            delattr(error, attribute)
        with suppress(Exception):
            pickle.loads(pickle.dumps(error))
            return error
    return InternalError(f"a query failed with {type(error).__name__}: {error}")


def _send(pipe: int, outcome: tuple[Any, BaseException | None]) -> None:
    parts: list[pickle.PickleBuffer] = []
    header = pickle.dumps(outcome, 5, buffer_callback=parts.append)
    pieces = [memoryview(header), *(part.raw() for part in parts)]
    sizes = struct.pack(f"<{len(pieces)}q", *map(len, pieces))
    for piece in (memoryview(SIZE_FORMAT.pack(len(pieces)) + sizes), *pieces):
        rest = piece
        while rest:
            rest = rest[os.write(pipe, rest) :]
