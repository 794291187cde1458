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

from kpg.api.result import row_count
from kpg.compiler.catalog.privileges import Asker
from kpg.execute.changes.keyed_changes import Keyed, Merged, Recipe, change_some
from kpg.runtime.errors import InterfaceError, OperationalError, Waiting
from kpg.runtime.records import dataclass
from kpg.session.cancel import Cancellation, Watched
from kpg.session.channels import Mailbox
from kpg.session.engine import Engine, Opened, PreparedStatements
from kpg.session.isolation import TransactionIsolation
from kpg.session.locks import ROW_EXCLUSIVE
from kpg.session.notices import Notice
from kpg.session.transaction import Transactions
from kpg.session.transaction_swap import Segment

if TYPE_CHECKING:
    from concurrent.futures import Future


class SessionState(Watched, Protocol):
    """A session, as the session manager sees it: what the engine works by during its statements."""

    number: int
    """By which others know it, as Postgres' process id."""
    user: str
    transactions: Transactions
    isolation: TransactionIsolation
    parked: list[Segment] | None
    """What its transaction has changed, while that is not in the tables."""
    settings: dict[str, str]
    prepared: PreparedStatements
    path: tuple[str, ...]
    """The schemas in which names are looked up."""
    asker: Asker
    portals: Callable[[], list[Opened]]
    mailbox: Mailbox
    notices: deque[Notice]
    asked: str
    """The last text that it has sent, as far as that is known."""
    ender: Callable[[bool], object] | None
    """Ends, on any thread, its statement or its connection."""
    closed: bool

    @property
    def listed(self) -> tuple[object, ...]:
        """Its row of pg_stat_activity."""

    def cancel(self) -> None:
        """Cancel its statement."""


class GroupHub(Protocol):
    """What statements that share a step need of the session manager."""

    engine: Engine
    cancellation: Cancellation

    def enter(self, session: SessionState) -> None:
        """Let the engine be a session's, with its uncommitted changes in the tables."""

    def apart(self, job: "Job") -> None:
        """Run a job of the group, which is undone, by itself."""

    def do(self, job: "Job") -> None:
        """Run one job, with a step of its own."""

    def submit(self, session: SessionState, work: Callable[[], Any], **how: Any) -> "Future[Any]":
        """Hand in a piece of work."""


class Ready(NamedTuple):
    """Rows that a statement only has to add to a table, and what it gives once they are there."""

    table: str
    words: NDArray[np.int64] | list[int]
    """``int64[w, n]``, or the words of one row."""
    result: Any
    recipe: Recipe | None = None
    """By which the row was made, if it was by one."""
    many: bool = False
    """Whether each row is a statement's of its own."""


class Job(Protocol):
    """Work of a session, and who waits for it."""

    @property
    def session(self) -> SessionState:
        """Whose work it is."""

    rolls_back: bool
    commits: bool
    """Whether it ends the transaction, whatever comes of it."""
    returns: bool
    """Whether it returns to a savepoint, or as far as an error takes back."""

    @property
    def sessions(self) -> Sequence[SessionState] | None:
        """Of statements of several sessions, which are only done together: they fail where that cannot be."""

    def work(self) -> Any:
        """Do it now: the engine is the session's."""

    def gathers(self, engine: Engine) -> bool:
        """Whether it is a statement whose commit may wait for others."""

    def ready(self, engine: Engine) -> Ready | Keyed | Merged | None:
        """The rows, if adding these is all that it does, or the plan, if it changes one row by its key."""

    def is_light(self, engine: Engine) -> bool:
        """Whether it takes about as long as to have another thread do it."""

    def begin(self) -> bool:
        """The work begins; False if nobody wants it any more."""

    def succeed(self, result: Any) -> None:
        """It is done."""

    def fail(self, error: BaseException) -> None:
        """It has failed."""


class Promise(Protocol):
    """Who waits for work: a ``concurrent.futures.Future``, or what is told as one is."""

    def set_running_or_notify_cancel(self) -> bool:
        """The work begins; False if nobody wants it any more."""

    def set_result(self, result: Any, /) -> None:
        """It is done."""

    def set_exception(self, exception: BaseException, /) -> None:
        """It has failed."""


@dataclass(slots=True, eq=False)
class Given:
    """A job that is made of functions. ``adds``: whether it gathers, if that is so in any case."""

    session: SessionState
    do: Callable[[], Any]
    promise: Promise
    adds: "bool | Callable[[Engine], bool]" = False
    rows: "Callable[[Engine], Ready | Keyed | Merged | None] | None" = None
    light: "Callable[[Engine], bool] | None" = None
    rolls_back: bool = False
    commits: bool = False
    returns: bool = False

    @property
    def sessions(self) -> None:
        """See Job."""

    def work(self) -> Any:
        """See Job."""
        return self.do()

    def gathers(self, engine: Engine) -> bool:
        """See Job."""
        return self.adds if isinstance(self.adds, bool) else self.adds(engine)

    def ready(self, engine: Engine) -> Ready | Keyed | Merged | None:
        """See Job."""
        return None if self.rows is None else self.rows(engine)

    def is_light(self, engine: Engine) -> bool:
        """See Job."""
        return self.light is not None and self.light(engine)

    def begin(self) -> bool:
        """See Job."""
        return self.promise.set_running_or_notify_cancel()

    def succeed(self, result: Any) -> None:
        """See Job."""
        self.promise.set_result(result)

    def fail(self, error: BaseException) -> None:
        """See Job."""
        self.promise.set_exception(error)


def wait_a_little(future: "Future[Any]") -> None:
    """Return when it is done, or soon."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    done.wait(0.005)


def amid(hub: GroupHub, session: SessionState, work: Callable[[], Any], how: Mapping[str, Any]) -> Any:
    """What comes in the middle of a statement of the same thread: only an end, which is done after that.

    The collector of garbage may bring one at any instant, of a connection that nobody has any more.
    """
    if not how.get("rolls_back"):
        raise InterfaceError("a statement is running in this thread", hint="ask in another thread, or later")
    hub.submit(session, work, **how)
    return None


Done = list[tuple[Job, Any]]


class ApartError(OperationalError):
    """Statements of several sessions cannot be done together; each is handed in again."""


class Failed(NamedTuple):
    """The error of a piece of work, which stands if the step succeeds: it may come of what others did."""

    error: BaseException


class Group:
    """Where commits wait for each other."""

    def __init__(self, hub: GroupHub) -> None:
        self._hub = hub
        self._engine = hub.engine
        self._point: Any = None
        self._said: list[tuple[SessionState, list[Notice]]] = []
        """What the present pieces of work have said."""
        self.gathering = False

    def undo_statement(self) -> None:
        """Throw away what the present piece of work has changed."""
        self._engine.rollback_to(self._point)

    def run(self, jobs: list[Job]) -> None:
        """Do pieces of work, none of whose sessions is in a transaction."""
        done: Done = []
        self._said.clear()
        self.gathering = True
        try:
            self._do([job for job in jobs if job.begin()], done)
        finally:
            self.gathering = False
        try:
            fine = [sessions_of(job) for job, result in done if not isinstance(result, Failed)]
            with self._hub.cancellation.watching_all(list(chain.from_iterable(fine))):
                self._engine.step()
        except BaseException as error:
            self._one_by_one(done, error)
            return
        for session, said in self._said:
            session.notices.extend(said)
        for job, result in done:
            if isinstance(result, Failed):
                job.fail(result.error)
                continue
            for session in sessions_of(job):
                session.token.canceled = False
            job.succeed(result)
        self._engine.notifications.deliver()

    def _do(self, jobs: list[Job], done: Done) -> None:
        together: list[tuple[Job, Ready | Keyed | Merged]] = []
        for job in jobs:
            ready = self._ready(job)
            if together and (ready is None or _kind(ready) != _kind(together[0][1])):
                self._all(together, done)
                together = []
            if ready is None:
                self._one(job, done)
            else:
                together.append((job, ready))
        self._all(together, done)

    def _ready(self, job: Job) -> Ready | Keyed | Merged | None:
        if job.session.token.canceled:
            return None
        try:
            return job.ready(self._engine)
        except Exception:
            # Done as all other work, it will say what is wrong.
            return None

    def _all(self, together: list[tuple[Job, Ready | Keyed | Merged]], done: Done) -> None:
        """Do several pieces of work of one kind at once; if that fails, one half after the other."""
        while together:
            jobs = [job for job, _ in together]
            point = None
            try:
                self._hub.enter(jobs[0].session)
                point = self._engine.savepoint()
                results = self._done([what for _, what in together])
            except (Exception, Waiting):
                results = None
            if results is None:
                if point is not None:
                    self._engine.rollback_to(point)
                half = len(together) // 2
                if half:
                    self._all(together[:half], done)
                    self._all(together[half:], done)
                else:
                    self._one(jobs[0], done)
                return
            done += zip(jobs, results, strict=False)
            together = together[len(results) :]

    def _done(self, what: list[Ready | Keyed | Merged]) -> list[Any] | None:
        """The results of the first of them, which are done; None if they are to be done alone."""
        ready = [one for one in what if isinstance(one, Ready)]
        if not ready:
            counts = change_some(self._engine, [one for one in what if not isinstance(one, Ready)])
            return None if counts is None else [row_count(count) for count in counts]
        if self._engine.tables.watching and self._engine.locks.closed_to(ready[0].table, ROW_EXCLUSIVE):
            return None
        words, counts = _joined(ready)
        self._engine.executor.insert(ready[0].table, words)
        self._engine.table(ready[0].table).tally.inserted += words.shape[1]
        self._engine.close_epochs(ready[0].table, counts)
        return [one.result for one in ready]

    def _one(self, job: Job, done: Done) -> None:
        if job.sessions is not None:
            done.append((job, Failed(ApartError("statements of several sessions are done one by one"))))
            return
        try:
            self._hub.enter(job.session)
            self._point = self._engine.savepoint()
            self._engine.locks.begin(self._engine, 0)
            with self._hub.cancellation.watching(job.session):
                done.append((job, job.work()))
            self._said.append((job.session, list(self._engine.notices)))
        except Waiting:
            self._engine.locks.undo()
            self._hub.apart(job)
        except BaseException as error:
            done.append((job, Failed(error)))
        finally:
            self._engine.notices.clear()
            self._engine.locks.over()  # what is done together does not wait

    def _one_by_one(self, done: Done, error: BaseException) -> None:
        """Everything was rolled back: do each piece again, now with a step of its own."""
        if len(done) == 1:
            _, result = done[0]
            done[0][0].fail(result.error if isinstance(result, Failed) else error)
            return
        for job, _ in done:
            if job.sessions is None:
                self._hub.do(job)
            else:
                job.fail(error)


def sessions_of(job: Job) -> Sequence[SessionState]:
    """Whose work it is."""
    return (job.session,) if job.sessions is None else job.sessions


def _joined(ready: Sequence[Ready]) -> tuple[NDArray[np.int64], list[int]]:
    """Rows of several statements in one array, and how many each has."""
    given = [one.words for one in ready]
    if all(isinstance(one, list) for one in given):
        return np.ascontiguousarray(np.array(given, np.int64).T), [1] * len(given)
    parts = [np.array(one, np.int64).reshape(len(one), -1) for one in given]
    counts: list[int] = []
    for one, part in zip(ready, parts, strict=True):
        counts += [1] * part.shape[1] if one.many else [part.shape[1]]
    return np.concatenate(parts, axis=1), counts


def _kind(what: Ready | Keyed | Merged) -> object:
    """What is done together: rows of one table, statements of one plan."""
    return what.table if isinstance(what, Ready) else id(what.template)
