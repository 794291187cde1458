"""Time slices: a statement whose planning takes long lets the statements of other sessions in between.

Parsing, binding and planning change nothing. A statement that has done nothing else yet leaves the engine's
monitor at a checkpoint when it has been inside for `SLICE` and others wait. It comes back in its turn.
Meanwhile the engine is as between two statements: any thread may enter the monitor and use it.

* A statement leaves only while all that it has seen is its text, its session and the catalog (`_may_leave`):
  it has read no rows, run no body, and taken no lock, and no change of rows or definitions is pending.
* When it is back and the catalog is as before, it goes on. Otherwise it is undone and run again, after
  `REPEATS` times without leaving. So its result is that of a statement that began when it was back last.
* What is asked for by a session whose statement is aside waits for the end of that statement.
* A definition in an open transaction keeps others out until its end, so it waits until nobody is aside.

Source: H. T. Kung and J. T. Robinson, "On optimistic methods for concurrency control", TODS 6(2), 1981: the
catalog's version is validated.
"""

import threading
import time
from typing import TYPE_CHECKING, Final

from kpg.engine.engine import Point
from kpg.runtime.errors import InterfaceError, Waiting
from kpg.runtime.records import dataclass

if TYPE_CHECKING:
    from kpg.sessions.hub import Hub
    from kpg.sessions.jobs import Job
    from kpg.sessions.session import Session

SLICE: Final = 0.05
"""Seconds for which a statement is planned without letting others in."""
MOST: Final = 8
"""So many statements may be aside: each has a thread, and what is planned of it."""
REPEATS: Final = 3
"""How often a statement is run again because definitions have changed; then it keeps the engine."""
PATIENCE: Final = 0.005
"""Seconds between two looks at whether somebody else has done with the engine."""


@dataclass(slots=True, eq=False)
class Running:
    """The statement that runs now."""

    session: "Session"
    point: Point | None
    """What is returned to if it has to wait."""
    leaves: bool
    touched: int
    epoch: int
    since: float = 0.0
    """When it was seen first, or has come back."""


class Slices:
    """The statements of one hub that are aside: others have been let in while they are planned."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self.leaves = False
        """Whether the thread that is at work has entered the monitor for that only."""
        self.running: Running | None = None
        self.aside: set[Session] = set()
        self._behind: list[Job] = []
        """What their sessions have asked for since."""
        self._repeats: dict[Session, int] = {}
        self._closing = False
        """Whether no statement leaves until those that are aside have come back: somebody waits for that."""
        hub.cancellation.pause = self._pause

    def begin(self, session: "Session", point: Point | None) -> Running:
        """A statement begins."""
        engine = self._hub.engine
        self.running = Running(session, point, self.leaves, engine.touched, engine.executor.epoch)
        return self.running

    def over(self, session: "Session") -> None:
        """A statement is over."""
        if self._repeats:
            self._repeats.pop(session, None)

    def keeps_back(self, job: "Job") -> bool:
        """Keep a job for later if the statement before it, of the same session, is aside."""
        sessions = (job.session,) if job.sessions is None else job.sessions
        if self.aside.isdisjoint(sessions):
            return False
        self._behind.append(job)
        return True

    def before_defining(self) -> None:
        """Have the present statement wait until nobody is aside."""
        if self.aside and self._hub.engine.locks.suspends:
            self._closing = True
            raise Waiting(None, PATIENCE)

    def end_all(self) -> None:
        """Cancel the statements that are aside, and return when they are over; inside the monitor."""
        while self.aside:
            self._closing = True
            for session in self.aside:
                session.token.canceled = True
            self._hub.engine.monitor.step_aside(lambda: time.sleep(PATIENCE))

    # Leaving and coming back

    def _pause(self) -> None:
        """Let others in if it is time for that; called at checkpoints."""
        running = self.running
        if running is None:
            return
        now = time.monotonic()
        if not running.since:
            running.since = now
        elif now - running.since >= SLICE and self._is_asked() and self._may_leave(running):
            self._let_in(running)

    def _is_asked(self) -> bool:
        return self._hub.waits or bool(self._hub.engine.monitor.queue)

    def _may_leave(self, running: Running) -> bool:
        """Whether all that the statement has seen is its text, its session and the catalog."""
        engine, transactions = self._hub.engine, running.session.transactions
        changes = engine.executor.has_pending or transactions.points or engine.journal
        return (
            running.leaves
            and not (self._closing or changes or engine.attached or engine.catalog.parts)
            and len(self.aside) < MOST
            and self._repeats.get(running.session, 0) < REPEATS
            and (engine.touched, engine.executor.epoch) == (running.touched, running.epoch)
            and engine.transactions is transactions
            and engine.locks.untouched
        )

    def _let_in(self, running: Running) -> None:
        hub, engine, session = self._hub, self._hub.engine, running.session
        seen, moment, notices = engine.seen, engine.catalog.moment, list(engine.notices)
        limits, progress, known = hub.cancellation.take_out(), engine.locks.progress, self._known(session)
        engine.seen, self.running = None, None
        engine.notices.clear()
        engine.locks.over()
        engine.executor.dictionary.end_reply(kept=True)
        self.aside.add(session)
        hub.step_out()
        raised = self._outside(session)
        self.aside.discard(session)
        self._closing = self._closing and bool(self.aside)
        self._return_jobs(session)
        hub.step_in(session)
        engine.seen, engine.catalog.moment = seen, moment
        engine.notices[:] = notices
        hub.cancellation.put_back(limits)
        engine.locks.go_on(progress)
        self.running, self.leaves = running, running.leaves
        running.since, running.epoch = time.monotonic(), engine.executor.epoch
        running.touched = engine.touched
        running.point = hub.suspended.point()
        if raised is not None:
            raise raised
        if self._known(session) != known:
            self._repeats[session] = self._repeats.get(session, 0) + 1
            raise Waiting(None)

    def _outside(self, session: "Session") -> BaseException | None:
        """Leave the monitor and come back when the engine is free; what was raised meanwhile."""
        raised: BaseException | None = None
        meanwhile = self._serve
        while True:
            try:
                self._hub.engine.monitor.step_aside(meanwhile)
            except InterfaceError:
                raise  # the monitor is nobody's any more
            except BaseException as error:
                raised = error
            if not self._hub.keeps_out(session):
                return raised
            meanwhile = self._serve_or_wait

    def _known(self, session: "Session") -> tuple[object, ...]:
        """What must be the same for a statement to go on."""
        engine = self._hub.engine
        snapshot = 0 if session.transactions.sees_latest else engine.executor.epoch
        return engine.catalog.version, engine.remembered.forgotten, snapshot, engine.locks.strong

    def _return_jobs(self, session: "Session") -> None:
        jobs = [one for one in self._behind if self.aside.isdisjoint(one.sessions or (one.session,))]
        if jobs:
            self._behind = [one for one in self._behind if one not in jobs]
            self._hub.hand_back(jobs)

    # Outside of the monitor

    def _serve(self) -> None:
        """Have another thread do what waits; return when it, or whoever came before it, has the engine."""
        if not self._hub.waits:
            return
        entered = threading.Event()
        thread = threading.Thread(target=self._serve_apart, args=(entered,), name="kpg-slice", daemon=True)
        thread.start()
        entered.wait()

    def _serve_apart(self, entered: threading.Event) -> None:
        def work() -> None:
            entered.set()
            self._hub.work(leaves=True)

        try:
            self._hub.engine.monitor.run(work)
        finally:
            entered.set()

    def _serve_or_wait(self) -> None:
        if self._hub.waits:
            self._serve()
        else:
            time.sleep(PATIENCE)
