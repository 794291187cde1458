"""The thread that has the engine, and the loop that hands it work and is told what comes of it.

What clients ask for in one turn of the loop is handed over together, and what comes of it is told together.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kpg.sessions.hub import Hub
from kpg.sessions.jobs import Job
from kpg.sessions.session import Session
from kpg.transaction import State

LONG: Final = 0.003
REST: Final = 1.0
"""Seconds that a light piece of work takes which is not light, and for which others are not tried then."""


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
        self._turns.finished(self._callback, Ending(result, None, self._session.transactions.state))

    def set_exception(self, exception: BaseException, /) -> None:
        """It has failed."""
        self._turns.finished(self._callback, Ending(None, exception, self._session.transactions.state))


class Turns:
    """See the module. Made, and used but for :meth:`finished`, on the loop."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finished: deque[tuple[Callback, Ending]] = deque()
        self._wake = threading.Lock()
        self._wake.acquire()
        self._waking = self._telling = self._stopping = False
        self._rests = 0.0
        self._thread = threading.Thread(target=self._work, name="kpg-engine", daemon=True)

    def start(self) -> None:
        """Begin to work, for the loop that runs."""
        self._loop = asyncio.get_running_loop()
        self.hub.done = self._done
        self._thread.start()

    async def stop(self) -> None:
        """Wait for the end of what is being done, and do nothing more."""
        self._stopping = True
        self._release()
        await asyncio.to_thread(self._thread.join)

    def hand_in(self, session: Session, work: Callable[[], Any], callback: Callback, **how: Any) -> None:
        """Have work done when it is the session's turn."""
        self.hub.hand_in(Job(session, work, Told(self, session, callback), **how))
        self.wake()

    def wake(self) -> None:
        """Have done what the hub has been given."""
        assert self._loop is not None
        if not self._waking:
            # Not before all that has come in this turn of the loop is handed in.
            self._waking = True
            self._loop.call_soon(self._release)

    def finished(self, callback: Callback, ending: Ending) -> None:
        """Have the loop call a callback soon; on the thread that has the engine."""
        self._finished.append((callback, ending))

    def _done(self) -> None:
        if self._finished and not self._telling:
            assert self._loop is not None
            self._telling = True
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._telling = False
        while self._finished:
            callback, ending = self._finished.popleft()
            callback(ending)

    def _release(self) -> None:
        self._waking = False
        if not self._here() and self._wake.locked():
            self._wake.release()

    def _here(self) -> bool:
        """Do what waits on this thread, if it is one light piece of work; whether it is done.

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
        if time.monotonic() - begun > LONG:
            self._rests = begun + REST
        self._tell()
        return done

    def _work(self) -> None:
        while True:
            self._wake.acquire()
            if self._stopping:
                return
            self.hub.serve()
