"""Scheduler: statements that wait, and time slices for statements whose planning takes long.

A statement waits for a lock, for a duration, or for exclusive use of the database. Its effects are
undone while it waits, other sessions run, and it runs again when its reason to wait is gone.

Time slices. Parsing, binding and planning change nothing. A statement that has done nothing else
yet leaves the engine's monitor at a checkpoint when it has run for `SLICE` and others wait. It
returns in its turn. Meanwhile the engine is between two statements: any thread may enter the
monitor.

* A statement leaves only if it has read no more than its text, its session and the catalog (`_may_leave`): it
  has read no rows, run no function body, taken no lock, and no change of rows or definitions is pending.
* On return it continues if the catalog is unchanged. Otherwise it is undone and run again, after
  `MAX_RESTARTS` times without leaving. Its result is therefore that of a statement that began at its last
  return.
* Further requests of its session wait for its end.
* A definition in an open transaction excludes others until its end, so it waits until no statement
  is planned outside the monitor.
* A statement whose rows a child process computes is outside, too (``snapshot_query``).

Source: H. T. Kung and J. T. Robinson, "On optimistic methods for concurrency control", TODS 6(2),
1981: the catalog's version is validated.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from kpg.execute.scripts import redact
from kpg.runtime.errors import CanceledError, InterfaceError, WaitRequest
from kpg.runtime.records import dataclass
from kpg.session.cancel import Cancellation, StatementLimits, statement_deadline
from kpg.session.engine import Engine, EngineSavepoint
from kpg.session.group_commit import Job, SessionState
from kpg.session.locks import SHARED, DeadlockError, LockManager, LockNotAvailableError, LockRequest, WaitEdge
from kpg.session.setting_values import parse_duration
from kpg.session.transaction import State

T = TypeVar("T")
SLICE: Final = 0.05
"""Seconds for which a statement is planned before others run."""
MAX_ASIDE: Final = 8
"""Maximum number of statements planned outside the monitor: each has a thread and its partial plan."""
MAX_RESTARTS: Final = 3
"""Restarts of a statement after changes of definitions; then it keeps the engine."""
POLL_INTERVAL: Final = 0.005
"""Seconds between two checks whether another session has released the engine."""


class SchedulerHost(Protocol):
    """The members of the session manager that the scheduler uses."""

    engine: Engine
    locks: LockManager
    cancellation: Cancellation
    waiting_statements: "WaitingStatements"
    sessions: dict[int, SessionState]
    """Open sessions by number."""
    start_relief_thread: Callable[[], Callable[[], object]] | None
    """Starts a thread that runs the engine in place of this one; returns a function that ends one such
    thread.
    """

    @property
    def has_waiting_jobs(self) -> bool:
        """Whether submitted jobs have not begun."""

    @property
    def is_running(self) -> bool:
        """Whether jobs are running."""

    def is_exclusive(self) -> bool:
        """Return whether the current transaction has changed definitions, so no other session may run."""

    def is_excluded(self, session: SessionState) -> bool:
        """Return whether another session has exclusive use of the engine."""

    def run_jobs(self, *, can_leave: bool = False) -> None:
        """Run all waiting jobs inside the monitor, which statements may leave at times with ``can_leave``."""

    def requeue(self, jobs: list[Job]) -> None:
        """Put jobs at the front of the queue."""

    def release_engine(self) -> None:
        """Swap out the session of a statement that leaves the engine."""

    def reacquire_engine(self, session: SessionState) -> None:
        """Continue the session's statement."""


@dataclass(slots=True, eq=False)
class RunningStatement:
    """The running statement, and the engine's state when it began or returned."""

    session: SessionState
    savepoint: EngineSavepoint | None
    """Savepoint to which it is rolled back if it has to wait."""
    can_leave: bool
    read_count: int
    """Value of ``Engine.read_count`` at that time."""
    epoch: int
    start: float = 0.0
    """Time of its first checkpoint, or of its return."""


class TimeSlices:
    """The statements that are planned, or read, outside the monitor."""

    def __init__(self, hub: SchedulerHost) -> None:
        self._hub = hub
        self.can_leave = False
        """Whether the running thread has entered the monitor only to run jobs."""
        self.running: RunningStatement | None = None
        self.aside: set[SessionState] = set()
        """Sessions whose statement is outside the monitor."""
        self._reading: set[SessionState] = set()
        """Those whose rows a child process computes."""
        self._deferred_jobs: list[Job] = []
        """Later jobs of these sessions."""
        self._restarts: dict[SessionState, int] = {}
        self._is_draining = False
        """Whether no statement may leave until all have returned."""
        hub.cancellation.on_checkpoint = self._yield_if_due

    def begin(self, session: SessionState, savepoint: EngineSavepoint | None) -> RunningStatement:
        """Begin a statement."""
        engine = self._hub.engine
        self.running = RunningStatement(
            session, savepoint, self.can_leave, engine.read_count, engine.executor.epoch
        )
        engine.answered_epoch = None
        return self.running

    def end_run(self) -> None:
        """Record that no statement runs."""
        self.running = self._hub.engine.answered_epoch = None

    @property
    def planning_count(self) -> int:
        """Number of statements outside the monitor that return soon."""
        return len(self.aside) - len(self._reading)

    def end_statement(self, session: SessionState) -> None:
        """Forget the restarts of a finished statement."""
        if self._restarts:
            self._restarts.pop(session, None)

    def defer_job(self, job: Job) -> bool:
        """Defer a job if its session's statement is outside the monitor; return whether it was deferred."""
        sessions = (job.session,) if job.sessions is None else job.sessions
        if self.aside.isdisjoint(sessions):
            return False
        self._deferred_jobs.append(job)
        return True

    def wait_for_planned_statements(self) -> None:
        """Suspend the current statement until no statement is planned outside the monitor."""
        if self.planning_count and self._hub.locks.can_suspend:
            self._is_draining = True
            raise WaitRequest(None, POLL_INTERVAL)

    def cancel_all(self) -> None:
        """Cancel the statements outside the monitor and wait for their end.

        Call it inside the monitor.
        """
        while self.aside:
            self._is_draining = True
            for session in self.aside:
                session.token.is_canceled = True
            self._hub.engine.monitor.step_aside(lambda: time.sleep(POLL_INTERVAL))

    # Leaving the monitor and returning

    def _yield_if_due(self) -> None:
        """Let other sessions run if the slice is over; called at checkpoints."""
        running = self.running
        if running is None:
            return
        now = time.monotonic()
        if not running.start:
            running.start = now
        elif now - running.start >= SLICE and self._others_wait() and self._may_leave(running):
            self._run_others(running)

    def _others_wait(self) -> bool:
        return self._hub.has_waiting_jobs or bool(self._hub.engine.monitor.queue)

    def may_read_outside(self, running: RunningStatement) -> bool:
        """Whether a statement may read rows outside the monitor: it has done nothing else yet."""
        engine = self._hub.engine
        drawn = engine.used_sequences is not None and engine.used_sequences.has_row_numbers
        return self._hub.start_relief_thread is not None and not drawn and self._may_leave(running, reads=1)

    def _may_leave(self, running: RunningStatement, reads: int = 0) -> bool:
        """Whether the statement has read only its text, its session and the catalog."""
        engine, transactions = self._hub.engine, running.session.transactions
        changes = engine.executor.tables.has_pending or transactions.savepoints or engine.journal
        return (
            running.can_leave
            and not (
                self._is_draining
                or changes
                or engine.tables.attached_tables
                or engine.catalog.changed_partitions
            )
            and self.planning_count < MAX_ASIDE
            and self._restarts.get(running.session, 0) < MAX_RESTARTS
            and (engine.read_count - reads, engine.executor.epoch) == (running.read_count, running.epoch)
            and engine.transactions is transactions
            and self._hub.locks.is_untouched
        )

    def _run_others(self, running: RunningStatement) -> None:
        session = running.session
        known = self._validation_key(session)
        self._leave(running, lambda _: self._run_outside(session, self._serve))
        if self._validation_key(session) != known:
            self._restarts[session] = self._restarts.get(session, 0) + 1
            raise WaitRequest(None)

    def read_outside(self, running: RunningStatement, read: Callable[[StatementLimits], T]) -> T:
        """Return the result of ``read``, which runs outside the monitor.

        After that the statement does not leave again.
        """
        session, found = running.session, list[T]()
        assert self._hub.start_relief_thread is not None
        stand_in = self._hub.start_relief_thread

        def run_outside(limits: StatementLimits) -> BaseException | None:
            def run_read() -> None:
                stand_down = stand_in()
                try:
                    found.append(read(limits))
                finally:
                    self._reading.discard(session)
                    stand_down()

            return self._run_outside(session, run_read)

        self._reading.add(session)
        self._leave(running, run_outside)
        running.can_leave, self._restarts[session] = False, MAX_RESTARTS
        return found[0]

    def _leave(
        self, running: RunningStatement, outside: Callable[[StatementLimits], BaseException | None]
    ) -> None:
        """Leave the monitor, run ``outside``, and raise the exception that it returns."""
        hub, engine, session = self._hub, self._hub.engine, running.session
        seen, moment, notices = engine.snapshot_epoch, engine.catalog.now, list(engine.notices)
        limits, progress = hub.cancellation.detach_limits(), hub.locks.sleep_progress
        engine.snapshot_epoch, self.running = None, None
        engine.notices.clear()
        self._hub.locks.end_statement()
        engine.executor.dictionary.end_reply(keep=True)
        self.aside.add(session)
        hub.release_engine()
        raised = outside(limits)
        self.aside.discard(session)
        self._is_draining = self._is_draining and bool(self.planning_count)
        self._requeue_deferred(session)
        hub.reacquire_engine(session)
        engine.snapshot_epoch, engine.catalog.now = seen, moment
        engine.notices[:] = notices
        hub.cancellation.attach_limits(limits)
        self._hub.locks.resume_statement(progress)
        self.running, self.can_leave = running, running.can_leave
        running.start, running.epoch = time.monotonic(), engine.executor.epoch
        running.read_count = engine.read_count
        running.savepoint = hub.waiting_statements.make_savepoint()
        if raised is not None:
            raise raised

    def _run_outside(self, session: SessionState, meanwhile: Callable[[], object]) -> BaseException | None:
        """Leave the monitor until the engine is free; return the exception that was raised meanwhile."""
        pending_error: BaseException | None = None
        while True:
            try:
                self._hub.engine.monitor.step_aside(meanwhile)
            except InterfaceError:
                raise  # the monitor is closed
            except BaseException as error:
                pending_error = error
            if not self._hub.is_excluded(session):
                return pending_error
            meanwhile = self._serve_or_wait

    def _validation_key(self, session: SessionState) -> tuple[object, ...]:
        """Return the state that must be unchanged for a statement to continue."""
        engine = self._hub.engine
        snapshot = 0 if session.isolation.sees_latest else engine.executor.epoch
        return (
            engine.catalog.version,
            engine.plan_cache.invalidations,
            snapshot,
            self._hub.locks.strong_tables,
        )

    def _requeue_deferred(self, session: SessionState) -> None:
        jobs = [job for job in self._deferred_jobs if self.aside.isdisjoint(job.sessions or (job.session,))]
        if jobs:
            self._deferred_jobs = [job for job in self._deferred_jobs if job not in jobs]
            self._hub.requeue(jobs)

    # Outside of the monitor

    def _serve(self) -> None:
        """Run the queue in another thread; return when that thread, or one before it, has the engine."""
        if not self._hub.has_waiting_jobs:
            return
        entered = threading.Event()
        thread = threading.Thread(
            target=self._serve_in_thread, args=(entered,), name="kpg-slice", daemon=True
        )
        thread.start()
        entered.wait()

    def _serve_in_thread(self, entered: threading.Event) -> None:
        def work() -> None:
            entered.set()
            self._hub.run_jobs(can_leave=True)

        try:
            self._hub.engine.monitor.run(work)
        finally:
            entered.set()

    def _serve_or_wait(self) -> None:
        if self._hub.has_waiting_jobs:
            self._serve()
        else:
            time.sleep(POLL_INTERVAL)


log = logging.getLogger("kpg.session")


@dataclass(slots=True, eq=False)
class WaitingStatement:
    """A statement that waits. Times are of the monotonic clock; infinity means never."""

    job: Job
    deadline: float
    """Time at which statement_timeout ends it."""
    lock_deadline: float
    """Time at which lock_timeout ends it."""
    sleeps: int = 0
    wake_time: float = 0.0
    """End of the present pause."""
    is_sleeping: bool = False
    """Whether the pause is a pg_sleep."""
    request: LockRequest | None = None


class WaitingStatements:
    """The statements of all sessions that wait."""

    def __init__(self, hub: SchedulerHost) -> None:
        self._hub = hub
        self._statements: dict[SessionState, WaitingStatement] = {}
        self._excluded_jobs: dict[Job, WaitingStatement] = {}
        self.ready: deque[SessionState] = deque()
        """Sessions whose waiting statement is to be checked."""
        self.excluded: list[SessionState] = []
        """Those that first wait for another session's exclusive use of the engine."""
        self.wake_hooks: tuple[Callable[[], object], ...] = ()
        """Functions that make a thread run the queue; called from any thread."""

    def __contains__(self, session: SessionState) -> bool:
        return session in self._statements

    def __len__(self) -> int:
        return len(self._statements) + len(self._excluded_jobs)

    def waits_for_lock(self, session: SessionState) -> bool:
        """Return whether a session's statement waits for a lock."""
        statement = self._statements.get(session)
        return statement is not None and statement.request is not None

    def request_check(self, session: SessionState) -> None:
        """Request a check of a session's waiting statement, from any thread."""
        if session in self._statements or self._excluded_jobs:
            self.ready.append(session)
            self.wake()

    def wake(self) -> None:
        """Make a thread run the queue, from any thread."""
        for hook in self.wake_hooks:
            hook()

    def on_lock_available(self, number: int) -> None:
        """Request a check of a session whose lock may be available."""
        session = self._hub.sessions.get(number)
        if session in self._statements:
            self.ready.append(session)
            if not self._hub.is_running:
                self.wake()

    def make_savepoint(self) -> EngineSavepoint | None:
        """Return a savepoint for a statement that may have to wait for a lock; None if none is needed."""
        engine = self._hub.engine
        if engine.transactions.state is not State.OPEN:
            return None
        waits = engine.tables.change_hooks or not self._hub.locks.is_only_session(engine.catalog.asker.number)
        return engine.savepoint() if waits else None

    # Suspend

    def suspend(
        self,
        job: Job,
        reason: WaitRequest,
        savepoint: EngineSavepoint | None,
        former: WaitingStatement | None,
    ) -> None:
        """Undo a statement, which will run again; raise an error if it must not wait."""
        hub, number, now = self._hub, job.session.number, time.monotonic()
        locks = hub.locks
        statement = former or self._make_statement(job)
        locks.undo_statement()
        if savepoint is not None:
            hub.engine.rollback_to(savepoint)
        try:
            if reason.lock is None:
                statement.wake_time = (
                    statement.wake_time if statement.wake_time > now else now + reason.seconds
                )
                statement.request, statement.is_sleeping = None, reason.is_sleeping
            else:
                self._set_request(statement, reason.lock, now)
                if hub.is_exclusive():
                    raise self._exclusive_deadlock(reason.lock, job.session)
                locks.enqueue(number, reason.lock)
        except DeadlockError as error:
            locks.cancel_request(number)
            self._log_deadlock(error)
            raise
        except BaseException:
            locks.cancel_request(number)
            raise
        self._statements[job.session] = statement
        if job.session.token.is_canceled:
            self.request_check(job.session)
        if reason.lock is None and not reason.seconds:
            self.ready.append(job.session)
            return
        naps = () if reason.lock is not None else (statement.wake_time,)
        self._request_check_at(min(statement.deadline, statement.lock_deadline, *naps), job.session)

    def _exclusive_deadlock(self, request: LockRequest, session: SessionState) -> DeadlockError:
        """Return the deadlock of an exclusive transaction that waits for a session it excludes."""
        locks, number = self._hub.locks, session.number
        others = sorted(locks.blockers(number, request))
        error = DeadlockError([WaitEdge(number, request, other) for other in others])
        explanation = (
            f"Process {number} has changed definitions, so that all others wait until its transaction ends."
        )
        return error.with_detail(f"{error.detail}\n{explanation}")

    def _log_deadlock(self, error: DeadlockError) -> None:
        """Log a deadlock with the statements of its sessions."""
        numbers = dict.fromkeys(number for one in error.cycle for number in (one.number, one.blocker))
        sessions = [one for number in numbers if (one := self._hub.sessions.get(number)) is not None]
        asked = [
            {"client": one.number, "user": one.user, "statement": redact(one.last_query)} for one in sessions
        ]
        queries = "; ".join(f"process {one['client']} ({one['user']}): {one['statement']}" for one in asked)
        cycle = (error.detail or "").replace("\n", " ")
        log.warning("%s: %s %s", error.message, cycle, queries, extra={"sessions": asked})

    def wait_event(self, session: SessionState) -> tuple[str, str] | None:
        """Return the type and the name of a session's wait event, as in ``pg_stat_activity``."""
        statement = self._statements.get(session)
        if statement is not None and statement.request is None:
            return "Timeout", "PgSleep"
        if statement is not None:
            return "Lock", self._hub.locks.wait_event(session.number) or "relation"
        if any(job.session is session for job in list(self._excluded_jobs)):
            return "Lock", "object"
        return None

    def _make_statement(self, job: Job) -> WaitingStatement:
        never = float("inf")
        return WaitingStatement(job, job.session.deadline or statement_deadline(job.session) or never, never)

    def _set_request(self, statement: WaitingStatement, request: LockRequest, now: float) -> None:
        if statement.request != request:
            limit = parse_duration(statement.job.session.settings.get("lock_timeout", ""))
            statement.request, statement.lock_deadline = request, now + limit if limit else float("inf")
        elif now >= statement.lock_deadline:
            raise LockNotAvailableError("canceling statement due to lock timeout")

    def _request_check_at(self, moment: float, session: SessionState) -> None:
        if moment == float("inf"):
            return
        timer = threading.Timer(max(0.0, moment - time.monotonic()), self.request_check, (session,))
        timer.daemon = True
        timer.start()

    def exclude(self, job: Job) -> None:
        """Make a job wait for the end of another session's exclusive use of the engine."""
        if job not in self._excluded_jobs:
            self._excluded_jobs[job] = paused = self._make_statement(job)
            self._set_request(paused, LockRequest((), SHARED), time.monotonic())
            self._request_check_at(min(paused.deadline, paused.lock_deadline), job.session)
            if job.session.token.is_canceled:  # cancelled while it was queued
                self.request_check(job.session)

    def admit_job(self, job: Job) -> None:
        """Record that an excluded job may run."""
        self._excluded_jobs.pop(job, None)

    # Resume

    def admit_excluded(self) -> None:
        """Check all excluded statements, as no session has exclusive use of the engine."""
        self.ready.extend(self.excluded)
        self.excluded.clear()

    def check(
        self, session: SessionState, run: Callable[[Job, WaitingStatement], object], excluded_jobs: deque[Any]
    ) -> None:
        """Run a session's waiting statement again if it can continue; fail jobs that have waited too long."""
        now = time.monotonic()
        statement = self._statements.pop(session, None)
        if statement is not None and self._hub.is_excluded(session):
            self._keep_excluded(session, statement, now)
        elif statement is not None and self._still_waits(session, statement, now):
            self._statements[session] = statement
        elif statement is not None:
            if statement.request is None and now >= statement.wake_time and not session.token.is_canceled:
                statement.sleeps += statement.is_sleeping
            run(statement.job, statement)
        for job in [job for job in excluded_jobs if job.session is session]:
            error = self._wait_error(self._excluded_jobs.get(job), now)
            if error is not None:
                excluded_jobs.remove(job)
                del self._excluded_jobs[job]
                self._fail(job, error)

    def _keep_excluded(self, session: SessionState, statement: WaitingStatement, now: float) -> None:
        """Keep a statement waiting for another session's exclusive use, unless it has timed out."""
        error = self._wait_error(statement, now)
        if error is None:
            self._statements[session] = statement
            self.excluded.append(session)
        else:
            self._hub.locks.cancel_request(session.number)
            self._fail(statement.job, error, has_begun=True)

    def _still_waits(self, session: SessionState, statement: WaitingStatement, now: float) -> bool:
        """Whether the requested row is still locked by another session; otherwise lock it for this one.

        That includes a row that replaced it, so that the next session waits for one row only.
        """
        request, locks = statement.request, self._hub.locks
        if (
            request is None
            or session.token.is_canceled
            or now >= min(statement.deadline, statement.lock_deadline)
        ):
            return False
        return not locks.grant_row(session.number, request, session.transactions)

    def _wait_error(self, statement: WaitingStatement | None, now: float) -> Exception | None:
        """Return the error of a job that must not wait longer, or None."""
        if statement is None or statement.job.rolls_back:
            return None
        if statement.job.session.token.is_canceled:
            return CanceledError("canceling statement due to user request")
        if now >= statement.deadline:
            return CanceledError("canceling statement due to statement timeout")
        if statement.request is None or now < statement.lock_deadline:
            return None
        return LockNotAvailableError("canceling statement due to lock timeout")

    def _fail(self, job: Job, error: Exception, *, has_begun: bool = False) -> None:
        """Fail a waiting job and the transaction of its session, whose changes are swapped out."""
        transactions = job.session.transactions
        job.session.token.is_canceled = False
        if transactions.state is State.OPEN:
            parked, job.session.pending_segments = job.session.pending_segments or [], None
            transactions.lost_savepoints = {segment.name for segment in parked}
            transactions.savepoints = []
            transactions.state = State.FAILED
        transactions.release_locks()
        if has_begun or job.begin():
            job.fail(error)

    def remove_all(self) -> list[Job]:
        """Remove and return the jobs of all waiting statements."""
        jobs = [statement.job for statement in self._statements.values()]
        self._statements.clear()
        self._excluded_jobs.clear()
        self.ready.clear()
        return jobs

    def cancel(self, session: SessionState) -> None:
        """Cancel the waiting statement of a session that ends."""
        statement = self._statements.pop(session, None)
        if statement is not None:
            self._hub.locks.cancel_request(session.number)
            statement.job.fail(CanceledError("canceling statement due to user request"))
