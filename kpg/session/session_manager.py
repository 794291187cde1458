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

from kpg.execute.definitions.ddl import drop_temporary
from kpg.execute.queries.cursors import close_all
from kpg.runtime.errors import CanceledError, Error, InterfaceError, WaitRequest
from kpg.session import group_commit
from kpg.session.cancel import Cancellation
from kpg.session.engine import Engine, EngineSavepoint
from kpg.session.group_commit import GroupCommit, Job, SessionState
from kpg.session.isolation import Snapshots
from kpg.session.locks import DeadlockError, TransactionLocks
from kpg.session.memory_limit import release_memory
from kpg.session.scheduler import SLICE, TimeSlices, WaitingStatement, WaitingStatements
from kpg.session.transaction import State
from kpg.session.transaction_swap import Savepoints, Segment, swap_in, swap_out

T = TypeVar("T")
MAX_GROUP_SIZE: Final = 256
"""Maximum number of commits that share a step: each waits until the step ends."""


class DefaultSession:
    """The state of calls without a session: transaction, settings and role of the database itself."""

    def __init__(self, engine: Engine) -> None:
        self.transactions = engine.transactions
        self.settings, self.prepared_statements = engine.settings, engine.prepared_statements
        self.search_path, self.asker = engine.catalog.search_path, engine.catalog.asker
        self.pending_segments: list[Segment] | None = None

    def swap_out(self, engine: Engine) -> None:
        """Take the uncommitted changes out of the tables and lock their rows."""
        self.search_path, self.asker = engine.catalog.search_path, engine.catalog.asker
        transactions, locks = self.transactions, engine.locks
        if transactions.in_batch:
            raise InterfaceError("the database is in a batch", hint="use sessions after its block has ended")
        has_changes = bool(transactions.savepoints) or engine.executor.tables.has_pending
        if transactions.state is not State.NONE and has_changes and self.pending_segments is None:
            self.pending_segments = swap_out(engine, transactions.savepoints)
            if locks.lock_swapped_changes(
                self.asker.number, [segment.parts for segment in self.pending_segments]
            ):
                transactions.locks = TransactionLocks(locks, self.asker.number)

    def swap_in(self, engine: Engine) -> None:
        """Put the uncommitted changes back; if that fails, the transaction fails."""
        segments, self.pending_segments = self.pending_segments or [], None
        points: Savepoints = []
        self.transactions.savepoints = points
        try:
            swap_in(engine, segments, points)
        except BaseException:
            self.transactions.state = State.FAILED
            raise


class SessionManager:
    """Owns the engine, and queues the jobs of all sessions."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.locks = engine.locks
        engine.last_change_epochs = {}
        self.current: SessionState | None = None
        """The session whose uncommitted changes are in the tables."""
        self.closed = False
        self._monitor = engine.monitor
        self._running_thread = 0
        """Thread that is running jobs, or 0."""
        self._waiting: deque[Job] = deque()
        self._blocked: deque[Job] = deque()
        self._reads: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._single_jobs: list[Job] = []
        self._default_session = DefaultSession(engine)
        self.cancellation = Cancellation(engine.interrupt)
        self.group_commit, self.snapshots = GroupCommit(self), Snapshots(engine)
        self.waiting_statements = WaitingStatements(self)
        self.time_slices = TimeSlices(self)
        self.locks.on_available = self.waiting_statements.on_lock_available
        self.start_relief_thread: Callable[[], Callable[[], object]] | None = None
        """Starts a thread that runs the engine in place of this one; returns a function that ends one such
        thread.
        """
        self.after_job: tuple[Callable[[], object], ...] = ()
        """Callbacks after each job, on the thread that ran it."""
        self.sessions: dict[int, SessionState] = {}
        """Open sessions by number."""
        self._numbers = count(1)
        engine.catalog.activity, engine.sessions = self.activity, self

    def next_number(self) -> int:
        """Return a new session number."""
        return next(self._numbers)

    def activity(self) -> list[tuple[object, ...]]:
        """Return the rows of pg_stat_activity."""
        return [session.activity_row for session in list(self.sessions.values())]

    @property
    def memory_bound(self) -> int:
        """Upper bound in bytes of each statement's memory; 0 for none."""
        return self.cancellation.memory.bound

    def export_snapshot(self) -> str:
        """Export the current transaction's snapshot and return its name."""
        return self._require_session().isolation.export_snapshot()

    def import_snapshot(self, name: str) -> None:
        """Make the current transaction use an exported snapshot."""
        self._require_session().isolation.import_snapshot(name)

    def _require_session(self) -> SessionState:
        if self.current is None:
            raise InterfaceError("only sessions have snapshots", hint="open a session with db.session()")
        return self.current

    def signal(self, number: int, terminates: bool) -> bool:
        """Cancel a session's statement or, with ``terminates``, end its connection; return if it exists."""
        session = self.sessions.get(number)
        if session is None:
            return False
        if session.terminate is not None:
            session.terminate(terminates)
        else:
            session.cancel()
        return True

    def run(self, session: SessionState, work: Callable[[], T], **how: Any) -> T:
        """Run work of a session when it is its turn, and return its result."""
        if nested := self._monitor.owner == get_ident():
            if self._running_thread:
                return group_commit.submit_reentrant(self, session, work, how)
            if self.engine.executor.is_stepping:
                raise InterfaceError("the database cannot be used by a function that its own step calls")
            if self.current is None and self.is_exclusive():
                raise InterfaceError(
                    "a session would wait for ever for this thread's transaction, "
                    "which has changed definitions",
                    hint="commit the transaction first, or use sessions only",
                )
        future = self.submit(session, work, **how)
        while not future.done():
            self.serve()
            if nested:
                self.swap_in_default()  # the call of the database continues
                if self.waiting_statements.waits_for_lock(session):
                    session.cancel()
                    self.serve()
                    raise InterfaceError(
                        "a session would wait for ever for a lock, since this thread's transaction keeps the "
                        "database",
                        hint="commit the transaction first, or use sessions only",
                    )
            if not future.done():
                # Another session has exclusive use of the engine, or holds a lock.
                group_commit.wait_briefly(future)
        return future.result()

    def submit(self, session: SessionState, work: Callable[[], T], **how: Any) -> "Future[T]":
        """Queue work of a session and return its future. Some thread has to call :meth:`serve`."""
        future: Future[T] = Future()
        self.submit_job(group_commit.FunctionJob(session, work, future, **how))
        return future

    def submit_job(self, job: Job) -> None:
        """Queue a job that reports its result itself."""
        if self.closed:
            raise InterfaceError("the database is closed")
        self._waiting.append(job)

    def submit_read(self, work: Callable[[Engine], T]) -> "Future[T]":
        """Queue a read of the engine between statements, without a session, and return its future.

        It sees definitions, statistics, and views as of the last step. Some thread has to call
        :meth:`serve`.
        """
        future: Future[T] = Future()
        self._reads.append((lambda: work(self.engine), future))
        return future

    def serve(self) -> None:
        """Run all waiting jobs, once this thread has the monitor."""
        self._monitor.run(self.run_jobs, can_leave=self._monitor.owner != get_ident())

    def serve_if_light(self) -> int:
        """Run the waiting jobs if all are light and no thread is running jobs; return their number.

        Shared commits that wait for the disk are left to the engine thread.
        """
        return (
            self._monitor.try_run(self._serve_if_light, 0)
            if self._waiting and not self._running_thread
            else 0
        )

    def _serve_if_light(self) -> int:
        jobs = list(self._waiting)  # other threads may submit meanwhile
        count = sum(1 if job.sessions is None else len(job.sessions) for job in jobs)
        if self._running_thread or not 0 < count <= MAX_GROUP_SIZE:
            return 0
        if self._reads or self._blocked or not all(job.is_light(self.engine) for job in jobs):
            return 0
        if (
            count > 1
            and self.engine.write_ahead_log is not None
            and any(self._may_share_step(job) for job in jobs)
        ):
            return 0
        self.run_jobs()
        return count

    def run_jobs(self, *, can_leave: bool = False) -> None:
        """Run all waiting jobs inside the monitor, which statements may leave at times with ``can_leave``."""
        self._running_thread, self.time_slices.can_leave = get_ident(), can_leave
        try:
            if self.closed:
                self._fail_all()
            else:
                self._run_queue()
        finally:
            self._running_thread = 0

    @property
    def is_running(self) -> bool:
        """Whether jobs are running."""
        return self._running_thread != 0

    def release_engine(self) -> None:
        """Swap out the session of a statement that leaves the engine between two lines; see ``scheduler``."""
        self._swap_out()
        self._activate(self._default_session)
        self._running_thread = 0

    def reacquire_engine(self, session: SessionState) -> None:
        """Continue the session's statement on this thread."""
        self._running_thread = get_ident()
        self.swap_in(session)

    @property
    def has_waiting_jobs(self) -> bool:
        """Whether submitted jobs have not begun."""
        return bool(self._waiting or self._reads)

    def has_others_waiting(self, session: SessionState) -> bool:
        """Return whether other sessions wait for the engine."""
        beside = any(job.session is not session for job in list(self._waiting))
        return beside or bool(self._reads or self._monitor.queue)

    def requeue(self, jobs: list[Job]) -> None:
        """Put jobs at the front of the queue."""
        self._waiting.extendleft(reversed(jobs))

    def wait_for_planned_statements(self) -> None:
        """Suspend a definition in a transaction until no statement is being planned outside the monitor."""
        if self._running_thread and self.current is not None and not self.group_commit.is_running:
            self.time_slices.wait_for_planned_statements()

    def close(self) -> None:
        """Close: fail all waiting and later jobs."""
        self.time_slices.cancel_all()
        self.closed = True
        self.run_jobs()

    def _fail_all(self) -> None:
        """Fail all waiting jobs."""
        waiting = [*self._blocked, *self.waiting_statements.remove_all()]
        self._blocked.clear()
        while self._waiting:
            job = self._waiting.popleft()
            if job.begin():
                waiting.append(job)
        for job in waiting:
            job.fail(InterfaceError("the database is closed"))
        while self._reads:
            _, future = self._reads.popleft()
            if future.set_running_or_notify_cancel():
                future.set_exception(InterfaceError("the database is closed"))
        for done in self.after_job:
            done()

    def _run_queue(self) -> None:
        ready, begun = self.waiting_statements.ready, time.monotonic()
        if self._blocked or self.waiting_statements.excluded:
            self._admit_waiting()
        while self._waiting or self._reads or ready:
            if self.time_slices.planning_count and time.monotonic() > begun + SLICE:
                break  # the statement outside of the monitor returns and runs the rest
            if self._reads:
                self._run_read()
                continue
            if ready:
                self.waiting_statements.check(ready.popleft(), self.run_job, self._blocked)
            else:
                self._start(self._waiting.popleft())
            for done in self.after_job:
                done()
            if not ready and (self._blocked or self.waiting_statements.excluded):
                self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Requeue the jobs that waited for the end of an exclusive transaction."""
        if not self.is_exclusive():
            self.waiting_statements.admit_excluded()
        self._requeue_admitted()

    def _start(self, job: Job) -> None:
        if job.rolls_back and job.session.closed:
            self.waiting_statements.cancel(job.session)
        if self.time_slices.aside and self.time_slices.defer_job(job):
            return
        if self._must_wait(job.session):
            self._blocked.append(job)
            self.waiting_statements.exclude(job)
        elif (self._waiting or job.sessions is not None) and self._may_share_step(job):
            self.group_commit.run([job, *self._take_group()])
            while self._single_jobs:
                self.run_job(self._single_jobs.pop(0))
        elif job.begin():
            self.run_job(job)

    def run_alone(self, job: Job) -> None:
        """Queue a job that was undone in a group to run by itself."""
        self._single_jobs.append(job)

    def _requeue_admitted(self) -> None:
        """Requeue jobs that need not wait any longer."""
        admitted = [job for job in self._blocked if not self._must_wait(job.session)]
        for job in admitted:
            self._blocked.remove(job)
            self.waiting_statements.admit_job(job)
        self._waiting.extendleft(reversed(admitted))

    def _run_read(self) -> None:
        work, future = self._reads.popleft()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

    # Turns

    def is_exclusive(self) -> bool:
        """Whether the current transaction has changed definitions, so that no other session may run."""
        engine = self.engine
        return bool(engine.journal) and engine.transactions.state is not State.NONE

    def _must_wait(self, session: SessionState) -> bool:
        return session in self.waiting_statements or self.is_excluded(session)

    def is_excluded(self, session: SessionState) -> bool:
        """Whether another session has exclusive use of the engine."""
        return session is not self.current and self.is_exclusive()

    def swap_in(self, session: SessionState, *, rolls_back: bool = False) -> None:
        """Give the engine to a session: swap out the current one, put this one's changes into the tables."""
        engine = self.engine
        if session is not self.current:
            self._swap_out()
            self._activate(session)
            self.current = session
        transactions = session.transactions
        if session.pending_segments is None:
            return
        segments, session.pending_segments = session.pending_segments, None
        if rolls_back:
            transactions.savepoints.clear()
            return
        transactions.savepoints = []
        try:
            swap_in(engine, segments, transactions.savepoints)
        except BaseException:
            transactions.lost_savepoints = {
                segment.name for segment in segments[len(transactions.savepoints) :]
            }
            if transactions.state is not State.NONE:
                transactions.state = State.FAILED
            raise

    def _activate(self, session: SessionState | DefaultSession) -> None:
        """Make the engine use a session's transaction, settings and role."""
        engine = self.engine
        engine.transactions = session.transactions
        engine.settings, engine.prepared_statements = session.settings, session.prepared_statements
        engine.catalog.search_path, engine.catalog.asker = session.search_path, session.asker

    def _swap_out(self) -> None:
        """Take the uncommitted changes of the current session, or of the default one, out of the tables."""
        session = self.current
        if session is None:
            self._default_session.swap_out(self.engine)
            return
        session.search_path, session.asker = self.engine.catalog.search_path, self.engine.catalog.asker
        self.current = None
        transactions = session.transactions
        # Savepoints refer to the present tables: they are created again after other sessions' commits.
        has_changes = bool(transactions.savepoints) or self.engine.executor.tables.has_pending
        if transactions.state is not State.NONE and has_changes:
            session.pending_segments = swap_out(self.engine, transactions.savepoints)
            self._lock_changes(session)

    def _lock_changes(self, session: SessionState) -> None:
        """Lock the rows of a session's uncommitted changes until its transaction ends."""
        transactions, locks = session.transactions, self.locks
        if locks.lock_swapped_changes(
            session.number, [segment.parts for segment in session.pending_segments or ()]
        ):
            transactions.locks = TransactionLocks(locks, session.number)

    def _abandon(self, session: SessionState) -> None:
        session.pending_segments = None
        session.transactions.abandon(current=self.engine.transactions is session.transactions)

    def swap_in_default(self) -> None:
        """Make the engine use the database's own transaction and settings, unless a statement is running."""
        if self._running_thread:
            return
        if self.current is not None:
            if self.is_exclusive():
                raise InterfaceError("a session has changed definitions in a transaction that is still open")
            self._swap_out()
            self._activate(self._default_session)
        if self._default_session.pending_segments is not None:
            self._default_session.swap_in(self.engine)

    def end_session(self, session: SessionState) -> None:
        """End a session, whose uncommitted changes are rolled back."""
        if self.current is session:
            if session.transactions.state is not State.NONE:
                session.transactions.rollback()
            if self.engine.catalog.temporary_schema in self.engine.catalog.schemas:
                drop_temporary(self.engine)
            self._abandon(session)
            self.current = None
            self._activate(self._default_session)
        self._abandon(session)
        if self.engine.cursors:
            close_all(self.engine, session.number)
        if self.engine.used_sequences is not None:
            self.engine.sequences.end_session(session.number)
        session.mailbox.close()
        self.locks.end_session(session.number)
        self.sessions.pop(session.number, None)

    # Running jobs

    def run_job(self, job: Job, waiting: WaitingStatement | None = None) -> None:
        """Run one job with a step of its own; ``waiting`` if it is resumed after a wait."""
        locks, running = self.locks, None
        try:
            self._swap_in_for(job)
            if job.rolls_back or job.returns:
                result = job.work()
            else:
                running = self.time_slices.begin(job.session, self.waiting_statements.make_savepoint())
                with self.cancellation.limiting(job.session, None if waiting is None else waiting.deadline):
                    locks.begin_statement(self.engine, 0 if waiting is None else waiting.sleeps)
                    result = job.work()
        except BaseException as error:
            self.time_slices.end_run()
            wrong = self._handle_error(job, error, None if running is None else running.savepoint, waiting)
            if wrong is not None:
                self._finish_job(job, waiting)
                job.fail(release_memory(wrong))
        else:
            self.time_slices.end_run()
            self._finish_job(job, waiting)
            job.succeed(result)

    def _handle_error(
        self, job: Job, error: BaseException, point: EngineSavepoint | None, waiting: WaitingStatement | None
    ) -> BaseException | None:
        """Return the error of a job; None if it only waits."""
        transactions = job.session.transactions
        try:
            if isinstance(error, WaitRequest):
                self.engine.notices.clear()
                self.waiting_statements.suspend(job, error, point, waiting)
                return None
        except BaseException as refused:
            error = refused
        was_undone = waiting is not None or isinstance(error, DeadlockError | CanceledError)
        if was_undone and transactions.state is State.OPEN:
            transactions.roll_back_and_fail()
        if job.commits and transactions.state is not State.NONE:
            # The job was cancelled before it began.
            transactions.rollback()
        return error

    def _finish_job(self, job: Job, waiting: WaitingStatement | None) -> None:
        locks, transactions = self.locks, job.session.transactions
        locks.end_statement()
        if waiting is not None:
            locks.cancel_request(job.session.number)
        if transactions.state is State.NONE:
            transactions.release_locks()
        notices = self.engine.notices
        if notices:
            job.session.notices.extend(notices)
            notices.clear()
        job.session.isolation.end_snapshot()
        self.time_slices.end_statement(job.session)
        self.snapshots.drop_unneeded()

    def _swap_in_for(self, job: Job) -> None:
        transactions = job.session.transactions
        try:
            self.swap_in(job.session, rolls_back=job.rolls_back)
        except Error:
            if job.returns and transactions.state is State.FAILED:
                return  # the savepoint to return to may be intact
            if job.commits:
                if transactions.savepoints:
                    self.engine.rollback()
                self._abandon(job.session)
            raise

    def _may_share_step(self, job: Job) -> bool:
        """Whether a job may share its step with others."""
        return job.session.transactions.state is State.NONE and job.may_share_step(self.engine)

    def _take_group(self) -> list[Job]:
        """Take later jobs that can share the step. The jobs of each session keep their order."""
        jobs: list[Job] = []
        passed: list[Job] = []
        passed_sessions: set[SessionState] = set()
        while self._waiting and len(jobs) < MAX_GROUP_SIZE - 1:
            job = self._waiting.popleft()
            if self.time_slices.aside and self.time_slices.defer_job(job):
                passed_sessions.add(job.session)
            elif (
                job.session not in passed_sessions
                and not self._must_wait(job.session)
                and self._may_share_step(job)
            ):
                jobs.append(job)
            else:
                passed.append(job)
                passed_sessions.add(job.session)
        self._waiting.extendleft(reversed(passed))
        return jobs
