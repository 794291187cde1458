"""Session manager: runs the jobs of all sessions on one engine, oldest first.

Any thread may submit a job. The thread that holds the engine's monitor runs all jobs that wait. Statements
outside of a transaction whose commits may wait for each other share a step (``group_commit``).
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from threading import get_ident
from typing import Any, Final, TypeVar

from kpg.execute.definitions.ddl import end
from kpg.execute.queries.cursors import forget
from kpg.runtime.errors import CanceledError, Error, InterfaceError, Waiting
from kpg.session import group_commit
from kpg.session.cancel import Cancellation
from kpg.session.engine import Engine, Point
from kpg.session.group_commit import Group, Job, SessionState
from kpg.session.isolation import Snapshots
from kpg.session.locks import DeadlockError, Own
from kpg.session.memory_limit import relieved
from kpg.session.scheduler import SLICE, Paused, Slices, Suspended
from kpg.session.transaction import State
from kpg.session.transaction_swap import Points, Segment, park, unpark

Given = TypeVar("Given")
MOST_GATHERED: Final = 256
"""Commits that share a step at most: each of them waits until it is over."""


class Owner:
    """The database beside its sessions: the transaction, settings and role of calls without a session."""

    def __init__(self, engine: Engine) -> None:
        self.transactions = engine.transactions
        self.settings, self.prepared = engine.settings, engine.prepared
        self.path, self.asker = engine.catalog.search_path, engine.catalog.asker
        self.parked: list[Segment] | None = None

    def leave(self, engine: Engine) -> None:
        """Take the uncommitted changes out of the tables, and lock the rows that they concern."""
        self.path, self.asker = engine.catalog.search_path, engine.catalog.asker
        transactions, locks = self.transactions, engine.locks
        if transactions.in_batch:
            raise InterfaceError("the database is in a batch", hint="use sessions after its block has ended")
        waits = bool(transactions.points) or engine.executor.has_pending
        if transactions.state is not State.NONE and waits and self.parked is None:
            self.parked = park(engine, transactions.points)
            if locks.parked(self.asker.number, [one.parts for one in self.parked]):
                transactions.locks = Own(locks, self.asker.number)

    def come_back(self, engine: Engine) -> None:
        """Put the uncommitted changes back; if they cannot be, the transaction fails."""
        segments, self.parked = self.parked or [], None
        points: Points = []
        self.transactions.points = points
        try:
            unpark(engine, segments, points)
        except BaseException:
            self.transactions.state = State.FAILED
            raise


class Hub:
    """The engine, the session whose changes are in its tables, and the work that waits."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.locks = engine.locks
        engine.changed = {}
        self.current: SessionState | None = None
        self.closed = False
        self._monitor = engine.monitor
        self._thread = 0
        """The thread that is at work, if one is."""
        self._waiting: deque[Job] = deque()
        self._held: deque[Job] = deque()
        self._looks: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._apart: list[Job] = []
        self._owner = Owner(engine)
        self.cancellation = Cancellation(engine.interrupt)
        self.group, self.snapshots = Group(self), Snapshots(engine)
        self.suspended = Suspended(self)
        self.slices = Slices(self)
        self.locks.freed = self.suspended.freed
        self.stand_in: Callable[[], Callable[[], object]] | None = None
        """See ``SchedulerHub``."""
        self.done: tuple[Callable[[], object], ...] = ()
        """Called when work has been done, by whoever did it."""
        self.sessions: dict[int, SessionState] = {}
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
        """As :class:`kpg.session.engine.Sessions` says."""
        return self.cancellation.memory.most

    def export(self) -> str:
        """As :class:`kpg.session.engine.Sessions` says."""
        return self._asking().isolation.export()

    def join(self, name: str) -> None:
        """As :class:`kpg.session.engine.Sessions` says."""
        self._asking().isolation.join(name)

    def _asking(self) -> SessionState:
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

    def run(self, session: SessionState, work: Callable[[], Given], **how: Any) -> Given:
        """Do a piece of work for a session as soon as it is its turn, and give its result, or its error."""
        if nested := self._monitor.owner == get_ident():
            if self._thread:
                return group_commit.amid(self, session, work, how)
            if self.engine.executor.stepping:
                raise InterfaceError("the database cannot be used by a function that its own step calls")
        future = self.submit(session, work, **how)
        while not future.done():
            self.serve()
            if nested:
                self.admit_owner()  # a call of the database goes on
            if not future.done():
                # Another session has the engine to itself until its transaction is over, or a lock.
                group_commit.wait_a_little(future)
        return future.result()

    def submit(self, session: SessionState, work: Callable[[], Given], **how: Any) -> "Future[Given]":
        """Hand in a piece of work; somebody has to call :meth:`work`."""
        future: Future[Given] = Future()
        self.hand_in(group_commit.Given(session, work, future, **how))
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
        self._monitor.run(self.work, leaves=self._monitor.owner != get_ident())

    def serve_light(self) -> int:
        """Do what waits, if all of it is light and nobody is at work; how much it was.

        Commits of several that wait for the disk are another thread's.
        """
        return self._monitor.run_at_once(self._light, 0) if self._waiting and not self._thread else 0

    def _light(self) -> int:
        waits = list(self._waiting)  # other threads hand in meanwhile
        count = sum(1 if job.sessions is None else len(job.sessions) for job in waits)
        if self._thread or not 0 < count <= MOST_GATHERED:
            return 0
        if self._looks or self._held or not all(job.is_light(self.engine) for job in waits):
            return 0
        if count > 1 and self.engine.keeper is not None and any(self._gathers(job) for job in waits):
            return 0
        self.work()
        return count

    def work(self, *, leaves: bool = False) -> None:
        """Do all that waits, inside the monitor, which statements may leave for a while if ``leaves``."""
        self._thread, self.slices.leaves = get_ident(), leaves
        try:
            if self.closed:
                self._refuse()
            else:
                self._work()
        finally:
            self._thread = 0

    @property
    def works(self) -> bool:
        """Whether work is being done."""
        return self._thread != 0

    def step_out(self) -> None:
        """Let the thread that has the engine leave it between two lines of a statement: see ``scheduler``."""
        self._leave()
        self._put_in(self._owner)
        self._thread = 0

    def step_in(self, session: SessionState) -> None:
        """The thread goes on with the session's statement."""
        self._thread = get_ident()
        self.enter(session)

    @property
    def waits(self) -> bool:
        """Whether work has been handed in, and is not begun."""
        return bool(self._waiting or self._looks)

    def keeps_waiting(self, session: SessionState) -> bool:
        """Return whether other sessions wait while this one has the engine."""
        beside = any(job.session is not session for job in list(self._waiting))
        return beside or bool(self._looks or self._monitor.queue)

    def hand_back(self, jobs: list[Job]) -> None:
        """Have jobs be done next."""
        self._waiting.extendleft(reversed(jobs))

    def before_defining(self) -> None:
        """As :class:`kpg.session.engine.Sessions` says."""
        if self._thread and self.current is not None and not self.group.gathering:
            self.slices.before_defining()

    def close(self) -> None:
        """The database is closed: end all work that waits with an error, now and later."""
        self.slices.end_all()
        self.closed = True
        self.work()

    def _refuse(self) -> None:
        """End all work that waits with an error."""
        waiting = [*self._held, *self.suspended.take_all()]
        self._held.clear()
        while self._waiting:
            job = self._waiting.popleft()
            if job.begin():
                waiting.append(job)
        for job in waiting:
            job.fail(InterfaceError("the database is closed"))
        while self._looks:
            _, future = self._looks.popleft()
            if future.set_running_or_notify_cancel():
                future.set_exception(InterfaceError("the database is closed"))
        for done in self.done:
            done()

    def _work(self) -> None:
        ready, begun = self.suspended.ready, time.monotonic()
        if self._held or self.suspended.later:
            self._admit()
        while self._waiting or self._looks or ready:
            if self.slices.planning and time.monotonic() > begun + SLICE:
                break  # who is aside comes back, and sees to the rest
            if self._looks:
                self._look()
                continue
            if ready:
                self.suspended.look_after(ready.popleft(), self.do, self._held)
            else:
                self._next(self._waiting.popleft())
            for done in self.done:
                done()
            if not ready and (self._held or self.suspended.later):
                self._admit()

    def _admit(self) -> None:
        """Let those go on who have waited for the end of a transaction that had the database to itself."""
        if not self.has_engine():
            self.suspended.admit()
        self._let_in()

    def _next(self, job: Job) -> None:
        if job.rolls_back and job.session.closed:
            self.suspended.end(job.session)
        if self.slices.aside and self.slices.keeps_back(job):
            return
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
        some = [job for job in self._held if not self._must_wait(job.session)]
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
        """Whether the present transaction has changed definitions, so that nobody else may come in."""
        engine = self.engine
        return bool(engine.journal) and engine.transactions.state is not State.NONE

    def _must_wait(self, session: SessionState) -> bool:
        return session in self.suspended or self.keeps_out(session)

    def keeps_out(self, session: SessionState) -> bool:
        """Whether another session has the database to itself."""
        return session is not self.current and self.has_engine()

    def enter(self, session: SessionState, *, rolls_back: bool = False) -> None:
        """Let the engine be a session's, with its uncommitted changes in the tables."""
        engine = self.engine
        if session is not self.current:
            self._leave()
            self._put_in(session)
            self.current = session
        transactions = session.transactions
        if session.parked is None:
            return
        segments, session.parked = session.parked, None
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

    def _put_in(self, one: SessionState | Owner) -> None:
        """Have the engine work by somebody's transaction, settings and role."""
        engine = self.engine
        engine.transactions = one.transactions
        engine.settings, engine.prepared = one.settings, one.prepared
        engine.catalog.search_path, engine.catalog.asker = one.path, one.asker

    def _leave(self) -> None:
        """Take the present session's, or the database's own, uncommitted changes out."""
        session = self.current
        if session is None:
            self._owner.leave(self.engine)
            return
        session.path, session.asker = self.engine.catalog.search_path, self.engine.catalog.asker
        self.current = None
        transactions = session.transactions
        # Savepoints are of the tables as they are now: they have to be made anew, too, after others' commits.
        waits = bool(transactions.points) or self.engine.executor.has_pending
        if transactions.state is not State.NONE and waits:
            session.parked = park(self.engine, transactions.points)
            self._lock_changed(session)

    def _lock_changed(self, session: SessionState) -> None:
        """What a session has changed, and not committed, nobody else changes before its transaction ends."""
        transactions, locks = session.transactions, self.locks
        if locks.parked(session.number, [one.parts for one in session.parked or ()]):
            transactions.locks = Own(locks, session.number)

    def _abandon(self, session: SessionState) -> None:
        session.parked = None
        session.transactions.abandon(current=self.engine.transactions is session.transactions)

    def admit_owner(self) -> None:
        """As :class:`kpg.session.engine.Sessions` says; the thread is inside the monitor."""
        if self._thread:
            return
        if self.current is not None:
            if self.has_engine():
                raise InterfaceError("a session has changed definitions in a transaction that is still open")
            self._leave()
            self._put_in(self._owner)
        if self._owner.parked is not None:
            self._owner.come_back(self.engine)

    def forget(self, session: SessionState) -> None:
        """A session is over, and what it has not committed gone."""
        if self.current is session:
            if session.transactions.state is not State.NONE:
                session.transactions.rollback()
            if self.engine.catalog.temporary in self.engine.catalog.schemas:
                end(self.engine)
            self._abandon(session)
            self.current = None
            self._put_in(self._owner)
        self._abandon(session)
        if self.engine.cursors:
            forget(self.engine, session.number)
        if self.engine.used_sequences is not None:
            self.engine.sequences.over(session.number)
        session.mailbox.close()
        self.locks.forget(session.number)
        self.sessions.pop(session.number, None)

    # Doing it

    def do(self, job: Job, paused: Paused | None = None) -> None:
        """Do one piece of work, with a step of its own; ``paused`` if it has been begun, and had to wait."""
        locks, running = self.locks, None
        try:
            self._enter_for(job)
            if job.rolls_back or job.returns:
                result = job.work()
            else:
                running = self.slices.begin(job.session, self.suspended.point())
                with self.cancellation.watching(job.session, None if paused is None else paused.limit):
                    locks.begin(self.engine, 0 if paused is None else paused.naps)
                    result = job.work()
        except BaseException as error:
            self.slices.end()
            wrong = self._wrong(job, error, None if running is None else running.point, paused)
            if wrong is not None:
                self._over(job, paused)
                job.fail(relieved(wrong))
        else:
            self.slices.end()
            self._over(job, paused)
            job.succeed(result)

    def _wrong(
        self, job: Job, error: BaseException, point: Point | None, paused: Paused | None
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
        locks, transactions = self.locks, job.session.transactions
        locks.over()
        if paused is not None:
            locks.give_up(job.session.number)
        if transactions.state is State.NONE:
            transactions.release_locks()
        notices = self.engine.notices
        if notices:
            job.session.notices.extend(notices)
            notices.clear()
        job.session.isolation.ended()
        self.slices.over(job.session)
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
                self._abandon(job.session)
            raise

    def _gathers(self, job: Job) -> bool:
        """Whether a piece of work may share its step with others."""
        return job.session.transactions.state is State.NONE and job.gathers(self.engine)

    def _others(self) -> list[Job]:
        """Those after it that can share its step: others wait for that, each session's in its order."""
        jobs: list[Job] = []
        passed: list[Job] = []
        before: set[SessionState] = set()
        while self._waiting and len(jobs) < MOST_GATHERED - 1:
            job = self._waiting.popleft()
            if self.slices.aside and self.slices.keeps_back(job):
                before.add(job.session)
            elif job.session not in before and not self._must_wait(job.session) and self._gathers(job):
                jobs.append(job)
            else:
                passed.append(job)
                before.add(job.session)
        self._waiting.extendleft(reversed(passed))
        return jobs
