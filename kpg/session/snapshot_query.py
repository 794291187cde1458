"""Snapshot queries: a long query runs in a forked child, on the child's copy-on-write snapshot of memory.

A query that only reads gives up at a safe point when it has run for `SLICE` and other sessions wait. Then the
process forks. The child runs the query again, from its beginning, and sends the answer through a pipe. The
statement is aside meanwhile (``scheduler``), and other sessions use the engine.

* The answer is as of the epoch of the fork: what others commit meanwhile changes only the parent's memory.
* The child sends words. Codes below the fork's number of strings mean the same in both processes. The child
  sends the strings of all other codes, and the parent interns them.
* Only a statement leaves that has read no rows yet, and taken no lock, whose transaction has changed nothing,
  and that calls no Python function of a user, which may need other threads (``Slices.may_read_outside``).
* A statement that reads again after its answer is undone if the epoch has changed (``Engine.answered``). It
  then runs inside.

The child holds nothing that belongs to the server. It closes all inherited files except the pipe, keeps only
the forking thread, ignores the signals that stop a server, and dies with that thread (PR_SET_PDEATHSIG).
Linux only; elsewhere every query runs inside.

Source: A. Kemper and T. Neumann, "HyPer: a hybrid OLTP&OLAP main memory database system based on virtual
memory snapshots", ICDE 2011.
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

from kpg.execute.queries.query_plan import Planned, calls_own_functions
from kpg.runtime.errors import InternalError, OperationalError
from kpg.session.cancel import Cancellation, Limits
from kpg.session.engine import Engine
from kpg.session.group_commit import SessionState
from kpg.session.memory_limit import relieved
from kpg.session.scheduler import Running, Slices

Words = NDArray[np.int64]
Rows = tuple[Words, Words]
"""Rows ``int64[w, n]``, and how often there is each."""

SLICE: Final = 0.05
"""Seconds for which a query keeps other sessions waiting, beside those that the last fork took."""
LOOK: Final = 10
"""Milliseconds between two looks at whether a statement whose child works has to end."""
DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2): the signal comes when the forking thread, or its process, ends."""
STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or a service manager sends to the children of a server, too: its parent ends it."""
FIRST_TO_GO: Final = "800"
"""Where memory is short, the system ends a child (oom_score_adj) before the server."""
STANDARD_ERROR: Final = 2
SIZE: Final = struct.Struct("<q")


class GivenUp(BaseException):
    """The present query is given up: a child runs it."""


class LostQueryError(OperationalError):
    """The child that ran a query has ended without an answer."""

    sqlstate = "58000"


class Answer(NamedTuple):
    """What a child sends: rows, and the strings of the codes that are new, in order."""

    data: Words
    diff: Words
    codes: Words
    bounds: Words
    text: NDArray[np.uint8]


class QueryHub(Protocol):
    """What snapshot queries need of the session manager."""

    engine: Engine
    cancellation: Cancellation
    slices: Slices

    def keeps_waiting(self, session: SessionState) -> bool:
        """Return whether other sessions wait while this one has the engine."""


class SnapshotQueries:
    """The queries of one hub that run in children, ``most`` at once."""

    def __init__(self, hub: QueryHub, most: int) -> None:
        self.children: set[Child] = set()
        self._hub, self._most = hub, most
        self._cost = 0.0
        """Seconds that the last fork took."""
        if most and hub.engine.workers is None and sys.platform == "linux":
            hub.engine.reads_outside = self.rows

    def rows(self, planned: Planned, query: Callable[[], Rows]) -> Rows:
        """Return the rows of a query: run it here, or in a child if it takes long and others wait."""
        hub, running = self._hub, self._hub.slices.running
        if running is None or not running.leaves or hub.engine.interrupt.busy:
            return query()
        earliest = time.monotonic() + SLICE + self._cost
        hub.cancellation.yields = lambda: self._give_up(running, planned, earliest)
        try:
            return query()
        except GivenUp:
            pass
        finally:
            hub.cancellation.yields = None
        return self._outside(running, planned, query)

    def _give_up(self, running: Running, planned: Planned, earliest: float) -> None:
        """Give the present query up if it may leave; called at safe points."""
        hub = self._hub
        if time.monotonic() < earliest or len(self.children) >= self._most:
            return
        if hub.keeps_waiting(running.session) and hub.slices.may_read_outside(running):
            if not calls_own_functions(planned.rel):
                raise GivenUp
            hub.cancellation.yields = None

    def _outside(self, running: Running, planned: Planned, query: Callable[[], Rows]) -> Rows:
        engine, session = self._hub.engine, running.session
        dictionary, epoch = engine.executor.dictionary, engine.executor.epoch
        known = len(dictionary)
        texts = [place for place, type_ in enumerate(planned.types) if type_.is_interned]

        def work() -> Answer:
            self._hub.cancellation.memory.begin(session.memory_limit)
            data, diff = query()
            codes = np.unique(data[texts])
            codes = codes[codes >= known]
            bounds, text = dictionary.parts(codes)
            return Answer(np.ascontiguousarray(data), np.ascontiguousarray(diff), codes, bounds, text)

        before = time.monotonic()
        try:
            child = Child(work)
        except OSError:
            return query()  # no memory or no process is to be had
        self._cost = time.monotonic() - before
        self.children.add(child)
        try:
            answer = self._hub.slices.read_outside(running, child.answer)
        finally:
            self.children.discard(child)
            child.end()
        engine.answered = epoch
        if answer.codes.size:
            codes = dictionary.intern_parts(answer.bounds, answer.text)
            for place in texts:
                new = answer.data[place] >= known
                answer.data[place, new] = codes[np.searchsorted(answer.codes, answer.data[place, new])]
        return answer.data, answer.diff


class Child:
    """A forked process that does one piece of work and sends what comes of it.

    OSError if there is no process to be had.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._pipe, telling = os.pipe()
        self._ended = False
        self._status: int | None = None
        libc, parent = ctypes.CDLL(None), os.getpid()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", DeprecationWarning
                )  # other threads hold nothing that it needs
                self._pid = os.fork()
            if not self._pid:
                _work(work, telling, libc, parent, mask)
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(telling)

    def answer(self, limits: Limits) -> Any:
        """Return what the child's work returned, or raise what it raised.

        Raises:
            CanceledError: The statement has to end.
            LostQueryError: The child has ended without an answer.
        """
        (count,) = SIZE.unpack(self._read(SIZE.size, limits))
        sizes = struct.unpack(f"<{count}q", self._read(count * SIZE.size, limits))
        header, *parts = [self._read(size, limits) for size in sizes]
        result, error = pickle.loads(header, buffers=parts)
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        """Have the child be gone, whether it is done or not."""
        if not self._ended:
            self._ended = True
            os.close(self._pipe)
            with suppress(OSError):
                if self._status is None:
                    os.kill(self._pid, signal.SIGKILL)
                self._reap(0)

    def _read(self, size: int, limits: Limits) -> memoryview:
        target = np.empty(size, np.uint8).data
        rest, poll = target, select.poll()  # select has no numbers beyond 1,023
        poll.register(self._pipe, select.POLLIN)
        while rest:
            limits.check()
            if poll.poll(LOOK):
                count = os.readv(self._pipe, [rest])
                if not count:
                    raise self._lost()
                rest = rest[count:]
        return target

    def _reap(self, how: int) -> None:
        if self._status is None:
            with suppress(ChildProcessError):  # somebody else has waited for it
                pid, status = os.waitpid(self._pid, how)
                self._status = os.waitstatus_to_exitcode(status) if pid else None

    def _lost(self) -> LostQueryError:
        self._reap(0)
        how = f"was ended by signal {-self._status}" if self._status and self._status < 0 else "has ended"
        return LostQueryError(
            f"the process that ran the query {how}",
            hint="the system may have been short of memory; the statement can be tried again",
        )


def _work(work: Callable[[], Any], pipe: int, libc: Any, parent: int, mask: Any) -> NoReturn:
    """What a child does, and all that it does."""
    try:
        gc.disable()  # a collection writes to every object, which copies all their pages
        libc.prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            _let_go(pipe)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _send(pipe, _outcome(work))
    finally:
        os._exit(0)


def _let_go(pipe: int) -> None:
    """Give up the parent's files, sockets and signal handlers, so that none of them outlives it here."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if number in STOPPING or callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN if number in STOPPING else signal.SIG_DFL)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > STANDARD_ERROR and int(name) != pipe:
            with suppress(OSError):
                os.close(int(name))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(FIRST_TO_GO)


def _outcome(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:
        return None, _sendable(relieved(error))


def _sendable(error: BaseException) -> BaseException:
    """An error as it can be sent: without the operation, or only in words, if that cannot be pickled."""
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
    for piece in (memoryview(SIZE.pack(len(pieces)) + sizes), *pieces):
        rest = piece
        while rest:
            rest = rest[os.write(pipe, rest) :]
