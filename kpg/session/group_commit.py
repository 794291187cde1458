"""Group commit: several jobs share one step.

Each job ends an epoch of its own and has its own error. A failed job is undone at once. Consecutive inserts
into the same table become one. If the step fails, all jobs are undone and each runs again alone, so that only
the failing one reports the error.

``Job`` is the interface of work that sessions submit, ``Promise`` the receiver of its result.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import row_count_result
from kpg.compiler.catalog.privileges import Asker
from kpg.execute.changes.keyed_changes import InsertPlan, KeyedChange, UpsertRow, apply_batch
from kpg.runtime.errors import InterfaceError, OperationalError, WaitRequest
from kpg.runtime.records import dataclass
from kpg.session.cancel import Cancellation, LimitedSession
from kpg.session.channels import Mailbox
from kpg.session.engine import Engine, OpenPortal, PreparedStatements
from kpg.session.isolation import TransactionIsolation
from kpg.session.locks import ROW_EXCLUSIVE
from kpg.session.notices import Notice
from kpg.session.transaction import Transactions
from kpg.session.transaction_swap import Segment

if TYPE_CHECKING:
    from concurrent.futures import Future


class SessionState(LimitedSession, Protocol):
    """A session as the session manager sees it: the state that the engine uses during its statements."""

    number: int
    """Backend process id, as Postgres calls it."""
    user: str
    transactions: Transactions
    isolation: TransactionIsolation
    pending_segments: list[Segment] | None
    """Changes of its transaction while they are swapped out of the tables."""
    settings: dict[str, str]
    prepared_statements: PreparedStatements
    search_path: tuple[str, ...]
    """Schemas in which names are looked up."""
    asker: Asker
    portals: Callable[[], list[OpenPortal]]
    mailbox: Mailbox
    notices: deque[Notice]
    last_query: str
    """Text of the last query, as far as known."""
    terminate: Callable[[bool], object] | None
    """Ends the statement or the connection, on any thread."""
    closed: bool

    @property
    def activity_row(self) -> tuple[object, ...]:
        """Row of pg_stat_activity."""

    def cancel(self) -> None:
        """Cancel the running statement."""


class GroupCommitHost(Protocol):
    """The members of the session manager that group commit uses."""

    engine: Engine
    cancellation: Cancellation

    def swap_in(self, session: SessionState) -> None:
        """Give the engine to a session: its uncommitted changes are put into the tables."""

    def run_alone(self, job: "Job") -> None:
        """Queue a job that was undone in the group to run by itself."""

    def run_job(self, job: "Job") -> None:
        """Run one job with a step of its own."""

    def submit(self, session: SessionState, work: Callable[[], Any], **how: Any) -> "Future[Any]":
        """Queue work of a session and return its future."""


class PreparedInsert(NamedTuple):
    """Encoded rows to insert into a table, and the result of the statement."""

    table: str
    words: NDArray[np.int64] | list[int]
    """``int64[w, n]``, or the words of one row."""
    result: Any
    insert_plan: InsertPlan | None = None
    """Cached plan that made the row, if any."""
    has_statement_per_row: bool = False
    """Whether each row belongs to a statement of its own."""


class Job(Protocol):
    """Work of a session, and the receiver of its result."""

    @property
    def session(self) -> SessionState:
        """The session that submitted it."""

    rolls_back: bool
    commits: bool
    """Whether it ends the transaction in every case."""
    returns: bool
    """Whether it rolls back to a savepoint, which is possible in a failed transaction."""

    @property
    def sessions(self) -> Sequence[SessionState] | None:
        """Sessions of a batch of statements, which run together or fail; None for one session."""

    def work(self) -> Any:
        """Run the job. The engine belongs to the session."""

    def may_share_step(self, engine: Engine) -> bool:
        """Whether its commit may wait for others to share a step."""

    def prepare_change(self, engine: Engine) -> PreparedInsert | KeyedChange | UpsertRow | None:
        """Return its encoded rows or keyed change if that is all that it does; else None."""

    def is_light(self, engine: Engine) -> bool:
        """Whether it takes about as long as a thread switch."""

    def begin(self) -> bool:
        """Start the job; False if it was cancelled."""

    def succeed(self, result: Any) -> None:
        """Pass on the result."""

    def fail(self, error: BaseException) -> None:
        """Pass on the error."""


class Promise(Protocol):
    """Receiver of a result: a ``concurrent.futures.Future`` or an object with the same methods."""

    def set_running_or_notify_cancel(self) -> bool:
        """Start the job; False if it was cancelled."""

    def set_result(self, result: Any, /) -> None:
        """Receive the result."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Receive the error."""


@dataclass(slots=True, eq=False)
class FunctionJob:
    """A job made of functions.

    Args:
        adds: Whether it may share a step, or a function that tells.
        rows: Prepares its change.
        light: Tells whether it is light.
    """

    session: SessionState
    function: Callable[[], Any]
    promise: Promise
    adds: "bool | Callable[[Engine], bool]" = False
    rows: "Callable[[Engine], PreparedInsert | KeyedChange | UpsertRow | None] | None" = None
    light: "Callable[[Engine], bool] | None" = None
    rolls_back: bool = False
    commits: bool = False
    returns: bool = False

    @property
    def sessions(self) -> None:
        """None: the job has one session."""

    def work(self) -> Any:
        """Run the job."""
        return self.function()

    def may_share_step(self, engine: Engine) -> bool:
        """Whether its commit may wait for others to share a step."""
        return self.adds if isinstance(self.adds, bool) else self.adds(engine)

    def prepare_change(self, engine: Engine) -> PreparedInsert | KeyedChange | UpsertRow | None:
        """Return its encoded rows or keyed change, if ``rows`` is given."""
        return None if self.rows is None else self.rows(engine)

    def is_light(self, engine: Engine) -> bool:
        """Whether it takes about as long as a thread switch."""
        return self.light is not None and self.light(engine)

    def begin(self) -> bool:
        """Start the job; False if it was cancelled."""
        return self.promise.set_running_or_notify_cancel()

    def succeed(self, result: Any) -> None:
        """Pass on the result."""
        self.promise.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Pass on the error."""
        self.promise.set_exception(error)


def wait_briefly(future: "Future[Any]") -> None:
    """Return when ``future`` is done, or after 5 ms."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    done.wait(0.005)


def submit_reentrant(
    hub: GroupCommitHost, session: SessionState, work: Callable[[], Any], how: Mapping[str, Any]
) -> Any:
    """Accept work submitted during a statement of the same thread: only a rollback, which runs after it.

    The garbage collector may close an abandoned connection at any instant.
    """
    if not how.get("rolls_back"):
        raise InterfaceError("a statement is running in this thread", hint="ask in another thread, or later")
    hub.submit(session, work, **how)
    return None


JobResults = list[tuple[Job, Any]]


class BatchSplitError(OperationalError):
    """Statements of several sessions cannot run together; each is submitted again."""


class JobFailure(NamedTuple):
    """Error of a job, final only if the step succeeds: changes of other jobs may have caused it."""

    error: BaseException


class GroupCommit:
    """Runs jobs of several sessions with one shared step."""

    def __init__(self, session_manager: GroupCommitHost) -> None:
        self._session_manager = session_manager
        self._engine = session_manager.engine
        self._savepoint: Any = None
        self._notices: list[tuple[SessionState, list[Notice]]] = []
        """Notices of the jobs of this group."""
        self.is_running = False

    def undo_statement(self) -> None:
        """Undo the changes of the current job."""
        self._engine.rollback_to(self._savepoint)

    def run(self, jobs: list[Job]) -> None:
        """Run jobs whose sessions are not in a transaction."""
        results: JobResults = []
        self._notices.clear()
        self.is_running = True
        try:
            self._run_jobs([job for job in jobs if job.begin()], results)
        finally:
            self.is_running = False
        try:
            succeeded = [sessions_of(job) for job, result in results if not isinstance(result, JobFailure)]
            with self._session_manager.cancellation.limiting_group(list(chain.from_iterable(succeeded))):
                self._engine.step()
        except BaseException as error:
            self._rerun_singly(results, error)
            return
        for session, notices in self._notices:
            session.notices.extend(notices)
        for job, result in results:
            if isinstance(result, JobFailure):
                job.fail(result.error)
                continue
            for session in sessions_of(job):
                session.token.is_canceled = False
            job.succeed(result)
        self._engine.notifications.deliver()

    def _run_jobs(self, jobs: list[Job], results: JobResults) -> None:
        batch: list[tuple[Job, PreparedInsert | KeyedChange | UpsertRow]] = []
        for job in jobs:
            ready = self._prepare_change(job)
            if batch and (ready is None or _batch_key(ready) != _batch_key(batch[0][1])):
                self._run_batch(batch, results)
                batch = []
            if ready is None:
                self._run_single(job, results)
            else:
                batch.append((job, ready))
        self._run_batch(batch, results)

    def _prepare_change(self, job: Job) -> PreparedInsert | KeyedChange | UpsertRow | None:
        if job.session.token.is_canceled:
            return None
        try:
            return job.prepare_change(self._engine)
        except Exception:
            # Run as an ordinary job, it reports the error.
            return None

    def _run_batch(
        self, batch: list[tuple[Job, PreparedInsert | KeyedChange | UpsertRow]], done: JobResults
    ) -> None:
        """Run jobs of one kind at once. On failure, run one half after the other."""
        while batch:
            jobs = [job for job, _ in batch]
            point = None
            try:
                self._session_manager.swap_in(jobs[0].session)
                point = self._engine.savepoint()
                results = self._apply_changes([what for _, what in batch])
            except (Exception, WaitRequest):
                results = None
            if results is None:
                if point is not None:
                    self._engine.rollback_to(point)
                half = len(batch) // 2
                if half:
                    self._run_batch(batch[:half], done)
                    self._run_batch(batch[half:], done)
                else:
                    self._run_single(jobs[0], done)
                return
            done += zip(jobs, results, strict=False)
            batch = batch[len(results) :]

    def _apply_changes(self, changes: list[PreparedInsert | KeyedChange | UpsertRow]) -> list[Any] | None:
        """Apply the first of the changes and return their results; None if they must run one by one."""
        ready = [change for change in changes if isinstance(change, PreparedInsert)]
        if not ready:
            counts = apply_batch(
                self._engine, [change for change in changes if not isinstance(change, PreparedInsert)]
            )
            return None if counts is None else [row_count_result(count) for count in counts]
        if self._engine.tables.change_hooks and self._engine.locks.is_table_blocked(
            ready[0].table, ROW_EXCLUSIVE
        ):
            return None
        words, counts = _concatenate(ready)
        self._engine.executor.tables.insert(ready[0].table, words)
        self._engine.table(ready[0].table).tally.inserted += words.shape[1]
        self._engine.close_epochs(ready[0].table, counts)
        return [change.result for change in ready]

    def _run_single(self, job: Job, results: JobResults) -> None:
        if job.sessions is not None:
            results.append(
                (job, JobFailure(BatchSplitError("statements of several sessions are done one by one")))
            )
            return
        try:
            self._session_manager.swap_in(job.session)
            self._savepoint = self._engine.savepoint()
            self._engine.locks.begin_statement(self._engine, 0)
            with self._session_manager.cancellation.limiting(job.session):
                results.append((job, job.work()))
            self._notices.append((job.session, list(self._engine.notices)))
        except WaitRequest:
            self._engine.locks.undo_statement()
            self._session_manager.run_alone(job)
        except BaseException as error:
            results.append((job, JobFailure(error)))
        finally:
            self._engine.notices.clear()
            self._engine.locks.end_statement()  # jobs of a group do not wait

    def _rerun_singly(self, results: JobResults, error: BaseException) -> None:
        """Run each job again with a step of its own, after the shared step was rolled back."""
        if len(results) == 1:
            _, result = results[0]
            results[0][0].fail(result.error if isinstance(result, JobFailure) else error)
            return
        for job, _ in results:
            if job.sessions is None:
                self._session_manager.run_job(job)
            else:
                job.fail(error)


def sessions_of(job: Job) -> Sequence[SessionState]:
    """Return the sessions of a job."""
    return (job.session,) if job.sessions is None else job.sessions


def _concatenate(ready: Sequence[PreparedInsert]) -> tuple[NDArray[np.int64], list[int]]:
    """Return the rows of several statements as one array, and the number of rows of each."""
    row_words = [one.words for one in ready]
    if all(isinstance(one, list) for one in row_words):
        return np.ascontiguousarray(np.array(row_words, np.int64).T), [1] * len(row_words)
    parts = [np.array(one, np.int64).reshape(len(one), -1) for one in row_words]
    counts: list[int] = []
    for item, part in zip(ready, parts, strict=True):
        counts += [1] * part.shape[1] if item.has_statement_per_row else [part.shape[1]]
    return np.concatenate(parts, axis=1), counts


def _batch_key(change: PreparedInsert | KeyedChange | UpsertRow) -> object:
    """Return the key by which changes are batched: the table of inserts, the template of keyed changes."""
    return change.table if isinstance(change, PreparedInsert) else id(change.template)
