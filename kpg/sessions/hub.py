"""One engine for many sessions: whose turn it is.

Any thread hands in work; whoever holds the engine does all that waits, oldest first. Statements whose commits
may wait for each other, outside of a transaction, share a step (see ``gathering.py``).
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kpg.engine.engine import Engine
from kpg.engine.locks import DeadlockError, Own
from kpg.engine.memory import relieved
from kpg.engine.transaction import State
from kpg.runtime.errors import Error, InterfaceError, Waiting
from kpg.sessions import jobs
from kpg.sessions.cancel import CanceledError, Cancellation
from kpg.sessions.gathering import Group
from kpg.sessions.jobs import Job
from kpg.sessions.parking import park, unpark
from kpg.sessions.snapshots import Snapshots
from kpg.sessions.suspended import Paused, Suspended

if TYPE_CHECKING:
    from kpg.engine.engine import Point
    from kpg.sessions.session import Session

Given = TypeVar("Given")
MOST_GATHERED: Final = 256
"""Commits that share a step at most: each of them waits until it is over."""


class Hub:
    """The engine, the session whose changes are in its tables, and the work that waits."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        engine.changed = {}
        self.current: Session | None = None
        self.closed = False
        self._lock = threading.Lock()
        self._thread = 0
        """The thread that is at work, if one is."""
        self._waiting: deque[Job] = deque()
        self._held: deque[Job] = deque()
        self._looks: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._apart: list[Job] = []
        self._own = (engine.transactions, engine.settings, engine.prepared, engine.catalog.search_path)
        self._owner = engine.catalog.asker
        self.cancellation = Cancellation(engine.interrupt)
        self.group, self.snapshots = Group(self), Snapshots(engine)
        self.suspended = Suspended(self)
        engine.locks.freed = self.suspended.freed
        self.done: Callable[[], object] | None = None
        """Called when work has been done, by whoever did it."""
        self.sessions: dict[int, Session] = {}
        """Those that are not closed, by their numbers."""
        self._numbers = count(1)
        engine.catalog.activity, engine.sessions = self.activity, self

    def next_number(self) -> int:
        """A number for a session."""
        return next(self._numbers)

    def activity(self) -> list[tuple[object, ...]]:
        """As ``Catalog.activity`` says."""
        return [one.listed for one in list(self.sessions.values())]

    @property
    def memory_bound(self) -> int:
        """As :class:`kpg.engine.client.Sessions` says."""
        return self.cancellation.memory.most

    def export(self) -> str:
        """As :class:`kpg.engine.client.Sessions` says."""
        return self._asking().transactions.export()

    def join(self, name: str) -> None:
        """As :class:`kpg.engine.client.Sessions` says."""
        self._asking().transactions.join(name)

    def _asking(self) -> "Session":
        if self.current is None:
            raise InterfaceError("only sessions have snapshots", hint="ask by db.session()")
        return self.current

    def end(self, number: int, wholly: bool) -> bool:
        """End what a session does or, ``wholly``, its connection; whether there is such a session."""
        session = self.sessions.get(number)
        if session is None:
            return False
        if session.ender is not None:
            session.ender(wholly)
        else:
            session.cancel()
        return True

    def run(self, session: "Session", work: Callable[[], Given], **how: Any) -> Given:
        """Do a piece of work for a session as soon as it is its turn, and give its result, or its error."""
        if self._thread == threading.get_ident():
            return jobs.amid(self, session, work, how)
        future = self.submit(session, work, **how)
        while not future.done():
            with self._lock:
                self.work()
                held = bool(self.suspended)
            if held and not future.done():
                # Another session has the engine to itself until its transaction is over, or a lock.
                jobs.wait_a_little(future)
        return future.result()

    def submit(self, session: "Session", work: Callable[[], Given], **how: Any) -> "Future[Given]":
        """Hand in a piece of work; somebody has to call :meth:`work`."""
        future: Future[Given] = Future()
        self.hand_in(jobs.Given(session, work, future, **how))
        return future

    def hand_in(self, job: Job) -> None:
        """As :meth:`submit`, for work that tells of its end itself."""
        if self.closed:
            raise InterfaceError("the database is closed")
        self._waiting.append(job)

    def look(self, work: Callable[[Engine], Given]) -> "Future[Given]":
        """Have something be read of the engine between statements, by nobody in particular.

        It sees definitions and figures, and views as of the last step; somebody has to call :meth:`serve`.
        """
        future: Future[Given] = Future()
        self._looks.append((lambda: work(self.engine), future))
        return future

    def serve(self) -> None:
        """Do all that waits, for the thread that has the engine."""
        with self._lock:
            self.work()

    def serve_light(self) -> int:
        """Do what waits, if all of it is light and nobody is at work; how much it was.

        Commits of several that wait for the disk are another thread's.
        """
        if not self._waiting or not self._lock.acquire(blocking=False):
            return 0
        try:
            waits = list(self._waiting)  # other threads hand in meanwhile
            count = sum(1 if job.sessions is None else len(job.sessions) for job in waits)
            if not 0 < count <= MOST_GATHERED:
                return 0
            if self._looks or self._held or not all(job.is_light(self.engine) for job in waits):
                return 0
            if count > 1 and self.engine.keeper is not None and any(self._gathers(job) for job in waits):
                return 0
            self.work()
            return count
        finally:
            self._lock.release()

    def work(self) -> None:
        """Do all that waits, the lock being held."""
        self._thread = threading.get_ident()
        try:
            self._work()
        finally:
            self._thread = 0

    def _work(self) -> None:
        ready = self.suspended.ready
        while self._waiting or self._looks or ready:
            if self._looks:
                self._look()
                continue
            if ready:
                self.suspended.look_after(ready.popleft(), self.do, self._held)
            else:
                self._next(self._waiting.popleft())
            if self.done is not None:
                self.done()
            if not ready and (self._held or self.suspended.later) and not self.has_engine():
                self.suspended.admit()
                self._let_in()

    def _next(self, job: Job) -> None:
        if job.rolls_back and job.session.closed:
            self.suspended.end(job.session)
        if self._must_wait(job.session):
            self._held.append(job)
            self.suspended.hold(job)
        elif (self._waiting or job.sessions is not None) and self._gathers(job):
            self.group.run([job, *self._others()])
            while self._apart:
                self.do(self._apart.pop(0))
        elif job.begin():
            self.do(job)

    def apart(self, job: Job) -> None:
        """Have a piece of work of a group, which is undone, be done by itself."""
        self._apart.append(job)

    def _let_in(self) -> None:
        """Let go on those who need not wait any more."""
        some = [job for job in self._held if job.session not in self.suspended]
        for job in some:
            self._held.remove(job)
            self.suspended.let_in(job)
        self._waiting.extendleft(reversed(some))

    def _look(self) -> None:
        work, future = self._looks.popleft()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

    # Whose turn it is

    def has_engine(self) -> bool:
        """Whether the present session has changed definitions, so that nobody may come in, error or not."""
        current, journal = self.current, self.engine.journal
        return current is not None and bool(journal) and current.transactions.state is not State.NONE

    def _must_wait(self, session: "Session") -> bool:
        return session in self.suspended or self.keeps_out(session)

    def keeps_out(self, session: "Session") -> bool:
        """Whether another session has the database to itself."""
        return session is not self.current and self.has_engine()

    def enter(self, session: "Session", *, rolls_back: bool = False) -> None:
        """Let the engine be a session's, with its uncommitted changes in the tables."""
        engine = self.engine
        if session is not self.current:
            self._leave()
            engine.transactions = session.transactions
            engine.settings, engine.prepared = session.settings, session.prepared
            engine.catalog.search_path = session.path
            engine.catalog.asker = session.asker
            self.current = session
        transactions = session.transactions
        if transactions.parked is None:
            return
        segments, transactions.parked = transactions.parked, None
        if rolls_back:
            transactions.points.clear()
            return
        transactions.points = []
        try:
            unpark(engine, segments, transactions.points)
        except BaseException:
            transactions.lost = {segment.name for segment in segments[len(transactions.points) :]}
            if transactions.state is not State.NONE:
                transactions.state = State.FAILED
            raise

    def _leave(self) -> None:
        """Take the present session's uncommitted changes out."""
        session, self.current = self.current, None
        asker = self.engine.catalog.asker
        if session is None:
            self._owner = self._owner if asker.number else asker
            return
        session.path, session.asker = self.engine.catalog.search_path, asker
        transactions = session.transactions
        # Savepoints are of the tables as they are now: they have to be made anew, too, after others' commits.
        waits = bool(transactions.points) or self.engine.executor.has_pending
        if transactions.state is not State.NONE and waits:
            transactions.parked = park(self.engine, transactions.points)
            self._lock_changed(session)

    def _lock_changed(self, session: "Session") -> None:
        """What a session has changed, and not committed, nobody else changes before its transaction ends."""
        transactions, locks = session.transactions, self.engine.locks
        if locks.parked(session.number, [one.parts for one in transactions.parked or ()]):
            transactions.locks = Own(locks, session.number)

    def admit_owner(self) -> None:
        """Let the engine be the database's own again, which is no session: between sessions' statements."""
        if self.current is None or self._lock.locked():
            return
        with self._lock:
            if self.has_engine():
                raise InterfaceError("a session has changed definitions in a transaction that is still open")
            self._leave()
            engine = self.engine
            engine.transactions, engine.settings, engine.prepared, engine.catalog.search_path = self._own
            engine.catalog.asker = self._owner

    def forget(self, session: "Session") -> None:
        """A session is over, and what it has not committed gone."""
        if self.current is session:
            if session.transactions.state is not State.NONE:
                session.transactions.rollback()
            if self.engine.catalog.temporary in self.engine.catalog.schemas:
                from kpg.ddl.temporary import end

                end(self.engine)
            self.current = None
        session.transactions.abandon()
        if self.engine.cursors:
            from kpg.statements.cursors import forget

            forget(self.engine, session.number)
        if "sequences" in vars(self.engine):
            self.engine.sequences.over(session.number)
        session.mailbox.close()
        self.engine.locks.forget(session.number)
        self.sessions.pop(session.number, None)

    # Doing it

    def do(self, job: Job, paused: Paused | None = None) -> None:
        """Do one piece of work, with a step of its own; ``paused`` if it has been begun, and had to wait."""
        point, locks = None, self.engine.locks
        try:
            self._enter_for(job)
            if job.rolls_back or job.returns:
                result = job.work()
            else:
                point = self.suspended.point()
                with self.cancellation.watching(job.session, None if paused is None else paused.limit):
                    locks.begin(self.engine, 0 if paused is None else paused.naps)
                    result = job.work()
        except BaseException as error:
            wrong = self._wrong(job, error, point, paused)
            if wrong is not None:
                self._over(job, paused)
                job.fail(relieved(wrong))
        else:
            self._over(job, paused)
            job.succeed(result)

    def _wrong(
        self, job: Job, error: BaseException, point: "Point | None", paused: Paused | None
    ) -> BaseException | None:
        """What a piece of work has failed by; None if it only waits."""
        transactions = job.session.transactions
        try:
            if isinstance(error, Waiting):
                self.engine.notices.clear()
                self.suspended.pause(job, error, point, paused)
                return None
        except BaseException as refused:
            error = refused
        undone = paused is not None or isinstance(error, DeadlockError | CanceledError)
        if undone and transactions.state is State.OPEN:
            transactions.fail()
        if job.commits and transactions.state is not State.NONE:
            # It was cancelled before it began.
            transactions.rollback()
        return error

    def _over(self, job: Job, paused: Paused | None) -> None:
        locks, transactions = self.engine.locks, job.session.transactions
        locks.over()
        if paused is not None:
            locks.give_up(job.session.number)
        if transactions.state is State.NONE:
            transactions.release_locks()
        notices = self.engine.notices
        if notices:
            job.session.notices.extend(notices)
            notices.clear()
        transactions.ended()
        self.snapshots.tidy()

    def _enter_for(self, job: Job) -> None:
        transactions = job.session.transactions
        try:
            self.enter(job.session, rolls_back=job.rolls_back)
        except Error:
            if job.returns and transactions.state is State.FAILED:
                return  # to a savepoint, before which nothing may be wrong
            if job.commits:
                if transactions.points:
                    self.engine.rollback()
                transactions.abandon()
            raise

    def _gathers(self, job: Job) -> bool:
        """Whether a piece of work may share its step with others."""
        return job.session.transactions.state is State.NONE and job.gathers(self.engine)

    def _others(self) -> list[Job]:
        """Those after it that can share its step: others wait for that, each session's in its order."""
        jobs: list[Job] = []
        passed: list[Job] = []
        before: set[Session] = set()
        while self._waiting and len(jobs) < MOST_GATHERED - 1:
            job = self._waiting.popleft()
            if job.session not in before and not self._must_wait(job.session) and self._gathers(job):
                jobs.append(job)
            else:
                passed.append(job)
                before.add(job.session)
        self._waiting.extendleft(reversed(passed))
        return jobs
