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

from kpg.session.group_commit import FunctionJob, Job
from kpg.session.session import Session
from kpg.session.session_manager import SessionManager
from kpg.session.transaction import State

INLINE_SECONDS: Final = 0.003
INLINE_SECONDS_PER_JOB: Final = 0.0002
INLINE_PAUSE: Final = 1.0
"""Seconds. Inline jobs that take longer than ``INLINE_SECONDS`` plus ``INLINE_SECONDS_PER_JOB`` each
disable inline execution for ``INLINE_PAUSE``.
"""


class JobOutcome(NamedTuple):
    """Result or error of a job, and the state of the session's transaction after it."""

    result: Any
    error: BaseException | None
    state: State


Callback = Callable[[JobOutcome], object]


class LoopPromise:
    """A promise whose callback runs on the event loop."""

    __slots__ = ("_callback", "_engine_thread", "_session")

    def __init__(self, engine_thread: "EngineThread", session: Session, callback: Callback) -> None:
        self._engine_thread = engine_thread
        self._session = session
        self._callback = callback

    def set_running_or_notify_cancel(self) -> bool:
        """Return True: the job runs even if the client has gone, as others may see its effect."""
        return True

    def set_result(self, result: Any, /) -> None:
        """Schedule the callback with the result."""
        outcome = JobOutcome(result, None, self._session.transactions.state)
        self._engine_thread.call_soon(partial(self._callback, outcome))

    def set_exception(self, exception: BaseException, /) -> None:
        """Schedule the callback with the error."""
        outcome = JobOutcome(None, exception, self._session.transactions.state)
        self._engine_thread.call_soon(partial(self._callback, outcome))


class EngineThread:
    """Hands jobs from the event loop to the engine. Only :meth:`call_soon` may be called off the loop."""

    def __init__(self, session_manager: SessionManager) -> None:
        self.session_manager = session_manager
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callbacks: deque[Callable[[], object]] = deque()
        self._wake = threading.Lock()
        self._wake.acquire()
        self._waking = self._callbacks_scheduled = self._stopping = self._is_batching = self._has_batch = (
            False
        )
        self._inline_after = 0.0
        self._loop_thread = 0
        """Thread of the loop."""
        self._threads = set[threading.Thread]()
        """The thread that runs the engine, and those that wait outside of it for a statement's rows."""
        self._surplus = threading.Semaphore(0)
        """Number of threads that are to end."""

    def start(self) -> None:
        """Start the thread, for the running loop."""
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self.session_manager.after_job += (self._schedule_callbacks,)
        self.session_manager.waiting_statements.wake_hooks += (self._wake_threadsafe,)
        self.session_manager.start_relief_thread = self._start_relief_thread
        self._start_thread(runs_at_once=False)

    async def stop(self) -> None:
        """Wait for the current job, and stop the thread."""
        self._stopping = True
        self._release()
        for thread in list(self._threads):
            await asyncio.to_thread(thread.join)
        self.session_manager.start_relief_thread = None
        self.session_manager.after_job = tuple(
            one for one in self.session_manager.after_job if one != self._schedule_callbacks
        )
        self.session_manager.waiting_statements.wake_hooks = tuple(
            one for one in self.session_manager.waiting_statements.wake_hooks if one != self._wake_threadsafe
        )

    def submit(self, session: Session, work: Callable[[], Any], callback: Callback, **how: Any) -> None:
        """Run ``work`` when it is the session's turn, and call ``callback`` with the outcome."""
        self.submit_job(FunctionJob(session, work, LoopPromise(self, session, callback), **how))

    def submit_job(self, job: Job) -> None:
        """Run a job when it is its session's turn."""
        self.session_manager.submit_job(job)
        self.wake()

    def begin_batch(self) -> None:
        """Collect jobs until :meth:`end_batch`, which hands them over together."""
        self._is_batching = True

    def end_batch(self) -> None:
        """Hand over the collected jobs."""
        self._is_batching = False
        if self._has_batch:
            self._has_batch = False
            self._release()

    def wake(self) -> None:
        """Wake the engine for submitted jobs."""
        assert self._loop is not None
        if threading.get_ident() != self._loop_thread:
            self._loop.call_soon_threadsafe(self.wake)
        elif self._is_batching:
            self._has_batch = True
        elif not self._waking:
            # Deferred, so that all requests of this loop iteration are handed over together.
            self._waking = True
            self._loop.call_soon(self._release)

    def _wake_threadsafe(self) -> None:
        """Wake the engine, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.wake)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Schedule a callback on the loop. Called on the engine's thread."""
        self._callbacks.append(callback)

    def _schedule_callbacks(self) -> None:
        if self._callbacks and not self._callbacks_scheduled:
            assert self._loop is not None
            self._callbacks_scheduled = True
            self._loop.call_soon_threadsafe(self._run_callbacks)

    def _run_callbacks(self) -> None:
        self._callbacks_scheduled = False
        while self._callbacks:
            self._callbacks.popleft()()

    def _release(self) -> None:
        self._waking = False
        if not self._run_inline() and self._wake.locked():
            self._wake.release()

    def _run_inline(self) -> bool:
        """Run waiting light jobs on this thread; return whether any ran.

        That saves two thread switches. The loop stands still meanwhile, so slow jobs disable it for a
        while.
        """
        start = time.monotonic()
        if start < self._inline_after or self._callbacks_scheduled or self._stopping:
            return False
        self._callbacks_scheduled = True  # this thread runs the callbacks below
        try:
            done = self.session_manager.serve_if_light()
        finally:
            self._callbacks_scheduled = False
        if time.monotonic() - start > INLINE_SECONDS + done * INLINE_SECONDS_PER_JOB:
            self._inline_after = start + INLINE_PAUSE
        self._run_callbacks()
        return done > 0

    def _start_thread(self, *, runs_at_once: bool) -> None:
        thread = threading.Thread(target=self._run, args=(runs_at_once,), name="kpg-engine", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _start_relief_thread(self) -> Callable[[], object]:
        """Start another thread that runs the engine; return a function that ends one thread."""
        self._start_thread(runs_at_once=True)
        return self._surplus.release

    def _run(self, runs_at_once: bool) -> None:
        while True:
            if not runs_at_once:
                self._wake.acquire()
                if self._stopping:
                    self._wake.release()  # for the next thread
                    break
            runs_at_once = False
            self.session_manager.serve()
            if self._surplus.acquire(blocking=False):
                break
        self._threads.discard(threading.current_thread())
