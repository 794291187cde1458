"""Engine thread: runs the engine for an event loop, which hands it jobs and receives their results.

The requests of one loop iteration are handed over together, and so are the results.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from kpg.session.group_commit import Given, Job
from kpg.session.session import Session
from kpg.session.session_manager import Hub
from kpg.session.transaction import State

LONG: Final = 0.003
EACH: Final = 0.0002
REST: Final = 1.0
"""Seconds that light work takes which is not light, more for each piece, and for which none is tried then."""


class Ending(NamedTuple):
    """What came of a piece of work, and where the session's transaction stood then."""

    result: Any
    error: BaseException | None
    state: State


Callback = Callable[[Ending], object]


class Told:
    """A promise whose callback is called on the loop."""

    __slots__ = ("_callback", "_session", "_turns")

    def __init__(self, turns: "Turns", session: Session, callback: Callback) -> None:
        self._turns = turns
        self._session = session
        self._callback = callback

    def set_running_or_notify_cancel(self) -> bool:
        """It is wanted, whatever has become of the client: others may see its effect."""
        return True

    def set_result(self, result: Any, /) -> None:
        """It is done."""
        ending = Ending(result, None, self._session.transactions.state)
        self._turns.finished(partial(self._callback, ending))

    def set_exception(self, exception: BaseException, /) -> None:
        """It has failed."""
        ending = Ending(None, exception, self._session.transactions.state)
        self._turns.finished(partial(self._callback, ending))


class Turns:
    """See the module. Made, and used but for :meth:`finished`, on the loop."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finished: deque[Callable[[], object]] = deque()
        self._wake = threading.Lock()
        self._wake.acquire()
        self._waking = self._telling = self._stopping = self._holding = self._held = False
        self._rests = 0.0
        self._home = 0
        """The thread of the loop."""
        self._threads = set[threading.Thread]()
        """One that runs the engine, and those that wait outside of it for the rows of a statement."""
        self._spare = threading.Semaphore(0)
        """How many of these threads are more than that."""

    def start(self) -> None:
        """Begin to work, for the loop that runs."""
        self._loop, self._home = asyncio.get_running_loop(), threading.get_ident()
        self.hub.done += (self._done,)
        self.hub.suspended.wakes += (self._roused,)
        self.hub.stand_in = self._stand_in
        self._begin(at_once=False)

    async def stop(self) -> None:
        """Wait for the end of what is being done, and do nothing more."""
        self._stopping = True
        self._release()
        for thread in list(self._threads):
            await asyncio.to_thread(thread.join)
        self.hub.stand_in = None
        self.hub.done = tuple(one for one in self.hub.done if one != self._done)
        self.hub.suspended.wakes = tuple(one for one in self.hub.suspended.wakes if one != self._roused)

    def hand_in(self, session: Session, work: Callable[[], Any], callback: Callback, **how: Any) -> None:
        """Have work done when it is the session's turn."""
        self.take(Given(session, work, Told(self, session, callback), **how))

    def take(self, job: Job) -> None:
        """Have a job done when it is its session's turn."""
        self.hub.hand_in(job)
        self.wake()

    def hold(self) -> None:
        """What is handed in until :meth:`go` is handed over together."""
        self._holding = True

    def go(self) -> None:
        """Have done what has been handed in meanwhile."""
        self._holding = False
        if self._held:
            self._held = False
            self._release()

    def wake(self) -> None:
        """Have done what the hub has been given."""
        assert self._loop is not None
        if threading.get_ident() != self._home:
            self._loop.call_soon_threadsafe(self.wake)
        elif self._holding:
            self._held = True
        elif not self._waking:
            # Not before all that has come in this turn of the loop is handed in.
            self._waking = True
            self._loop.call_soon(self._release)

    def _roused(self) -> None:
        """Have what waits be looked after, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.wake)

    def finished(self, tell: Callable[[], object]) -> None:
        """Have the loop tell of something soon; on the thread that has the engine."""
        self._finished.append(tell)

    def _done(self) -> None:
        if self._finished and not self._telling:
            assert self._loop is not None
            self._telling = True
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._telling = False
        while self._finished:
            self._finished.popleft()()

    def _release(self) -> None:
        self._waking = False
        if not self._here() and self._wake.locked():
            self._wake.release()

    def _here(self) -> bool:
        """Do what waits on this thread, if it is light; whether it is done.

        That spares two changes of threads. While it runs the loop stands still: where that has taken long
        it is not tried for a while.
        """
        begun = time.monotonic()
        if begun < self._rests or self._telling or self._stopping:
            return False
        self._telling = True  # by this very thread, at once
        try:
            done = self.hub.serve_light()
        finally:
            self._telling = False
        if time.monotonic() - begun > LONG + done * EACH:
            self._rests = begun + REST
        self._tell()
        return done > 0

    def _begin(self, *, at_once: bool) -> None:
        thread = threading.Thread(target=self._work, args=(at_once,), name="kpg-engine", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _stand_in(self) -> Callable[[], object]:
        """Have another thread run the engine, until what is returned is called: then one of them ends."""
        self._begin(at_once=True)
        return self._spare.release

    def _work(self, at_once: bool) -> None:
        while True:
            if not at_once:
                self._wake.acquire()
                if self._stopping:
                    self._wake.release()  # for the next one
                    break
            at_once = False
            self.hub.serve()
            if self._spare.acquire(blocking=False):
                break
        self._threads.discard(threading.current_thread())
