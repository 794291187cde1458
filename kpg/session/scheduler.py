"""Scheduler: statements that wait, and time slices for statements whose planning takes long.

A statement waits for a lock, for a duration, or for exclusive use of the database. Its effects are undone
while it waits, other sessions run, and it runs again when its reason to wait is gone.

Time slices. Parsing, binding and planning change nothing. A statement that has done nothing else yet leaves
the engine's monitor at a checkpoint when it has run for `SLICE` and others wait. It returns in its turn.
Meanwhile the engine is as between two statements: any thread may enter the monitor.

* A statement leaves only if it has seen no more than its text, its session and the catalog (`_may_leave`):
  it has read no rows, run no function body, taken no lock, and no change of rows or definitions is pending.
* On return it continues if the catalog is unchanged. Otherwise it is undone and run again, after `REPEATS`
  times without leaving. Its result is therefore that of a statement that began at its last return.
* Further requests of its session wait for its end.
* A definition in an open transaction excludes others until its end, so it waits until no statement is out.
* A statement whose rows a child process computes is aside, too (``snapshot_query``).

Source: H. T. Kung and J. T. Robinson, "On optimistic methods for concurrency control", TODS 6(2), 1981: the
catalog's version is validated.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from kpg.execute.scripts import shown
from kpg.runtime.errors import CanceledError, InterfaceError, Waiting
from kpg.runtime.records import dataclass
from kpg.session.cancel import Cancellation, Limits, deadline_of
from kpg.session.engine import Engine, Point
from kpg.session.group_commit import Job, SessionState
from kpg.session.locks import SHARED, DeadlockError, NoLockError, RowLocks, Waits, Wish
from kpg.session.setting_values import seconds_of
from kpg.session.transaction import State

Value = TypeVar("Value")
SLICE: Final = 0.05
"""Seconds for which a statement is planned without letting others in."""
MOST: Final = 8
"""So many statements may be aside: each has a thread, and what is planned of it."""
REPEATS: Final = 3
"""How often a statement is run again because definitions have changed; then it keeps the engine."""
PATIENCE: Final = 0.005
"""Seconds between two looks at whether somebody else has done with the engine."""


class SchedulerHub(Protocol):
    """What statements that wait, or are aside, need of the session manager."""

    engine: Engine
    locks: RowLocks
    cancellation: Cancellation
    suspended: "Suspended"
    sessions: dict[int, SessionState]
    """Those that are not closed, by their numbers."""
    stand_in: Callable[[], Callable[[], object]] | None
    """Has another thread run the engine instead of this one, until what it returns is called."""

    @property
    def waits(self) -> bool:
        """Whether work has been handed in, and is not begun."""

    @property
    def works(self) -> bool:
        """Whether work is being done."""

    def has_engine(self) -> bool:
        """Return whether the present transaction has changed definitions, so that all others wait."""

    def keeps_out(self, session: SessionState) -> bool:
        """Return whether another session has the database to itself."""

    def work(self, *, leaves: bool = False) -> None:
        """Run all that waits, inside the monitor, which statements may leave for a while if ``leaves``."""

    def hand_back(self, jobs: list[Job]) -> None:
        """Put jobs before all others that wait."""

    def step_out(self) -> None:
        """Let the thread that has the engine leave it in the middle of a statement."""

    def step_in(self, session: SessionState) -> None:
        """Go on with the session's statement."""


@dataclass(slots=True, eq=False)
class Running:
    """The statement that runs now."""

    session: SessionState
    point: Point | None
    """What is returned to if it has to wait."""
    leaves: bool
    touched: int
    epoch: int
    since: float = 0.0
    """When it was seen first, or has come back."""


class Slices:
    """The statements of one hub that are aside: others have been let in while they are planned."""

    def __init__(self, hub: SchedulerHub) -> None:
        self._hub = hub
        self.leaves = False
        """Whether the thread that is at work has entered the monitor for that only."""
        self.running: Running | None = None
        self.aside: set[SessionState] = set()
        self._reading: set[SessionState] = set()
        """Those of them whose rows a child computes."""
        self._behind: list[Job] = []
        """What their sessions have asked for since."""
        self._repeats: dict[SessionState, int] = {}
        self._closing = False
        """Whether no statement leaves until those that are aside have come back: somebody waits for that."""
        hub.cancellation.pause = self._pause

    def begin(self, session: SessionState, point: Point | None) -> Running:
        """A statement begins."""
        engine = self._hub.engine
        self.running = Running(session, point, self.leaves, engine.touched, engine.executor.epoch)
        engine.answered = None
        return self.running

    def end(self) -> None:
        """No statement runs now."""
        self.running = self._hub.engine.answered = None

    @property
    def planning(self) -> int:
        """How many statements that are aside come back soon."""
        return len(self.aside) - len(self._reading)

    def over(self, session: SessionState) -> None:
        """A statement is over."""
        if self._repeats:
            self._repeats.pop(session, None)

    def keeps_back(self, job: Job) -> bool:
        """Keep a job for later if the statement before it, of the same session, is aside."""
        sessions = (job.session,) if job.sessions is None else job.sessions
        if self.aside.isdisjoint(sessions):
            return False
        self._behind.append(job)
        return True

    def before_defining(self) -> None:
        """Have the present statement wait until nobody is aside."""
        if self.planning and self._hub.locks.suspends:
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

    def may_read_outside(self, running: Running) -> bool:
        """Whether a statement may leave while rows are read: it has done nothing else yet."""
        engine = self._hub.engine
        drawn = engine.used_sequences is not None and engine.used_sequences.is_drawn
        return self._hub.stand_in is not None and not drawn and self._may_leave(running, reads=1)

    def _may_leave(self, running: Running, reads: int = 0) -> bool:
        """Whether all that the statement has seen is its text, its session and the catalog."""
        engine, transactions = self._hub.engine, running.session.transactions
        changes = engine.executor.has_pending or transactions.points or engine.journal
        return (
            running.leaves
            and not (self._closing or changes or engine.tables.attached or engine.catalog.parts)
            and self.planning < MOST
            and self._repeats.get(running.session, 0) < REPEATS
            and (engine.touched - reads, engine.executor.epoch) == (running.touched, running.epoch)
            and engine.transactions is transactions
            and self._hub.locks.untouched
        )

    def _let_in(self, running: Running) -> None:
        session = running.session
        known = self._known(session)
        self._leave(running, lambda _: self._outside(session, self._serve))
        if self._known(session) != known:
            self._repeats[session] = self._repeats.get(session, 0) + 1
            raise Waiting(None)

    def read_outside(self, running: Running, read: Callable[[Limits], Value]) -> Value:
        """Return what is read outside of the monitor, or raise what that raises.

        The statement has read something then, and does not leave again.
        """
        session, found = running.session, list[Value]()
        assert self._hub.stand_in is not None
        stand_in = self._hub.stand_in

        def outside(limits: Limits) -> BaseException | None:
            def reading() -> None:
                stand_down = stand_in()
                try:
                    found.append(read(limits))
                finally:
                    self._reading.discard(session)
                    stand_down()

            return self._outside(session, reading)

        self._reading.add(session)
        self._leave(running, outside)
        running.leaves, self._repeats[session] = False, REPEATS
        return found[0]

    def _leave(self, running: Running, outside: Callable[[Limits], BaseException | None]) -> None:
        """Have a statement be aside while others run, and raise what was raised ``outside``."""
        hub, engine, session = self._hub, self._hub.engine, running.session
        seen, moment, notices = engine.seen, engine.catalog.moment, list(engine.notices)
        limits, progress = hub.cancellation.take_out(), hub.locks.progress
        engine.seen, self.running = None, None
        engine.notices.clear()
        self._hub.locks.over()
        engine.executor.dictionary.end_reply(kept=True)
        self.aside.add(session)
        hub.step_out()
        raised = outside(limits)
        self.aside.discard(session)
        self._closing = self._closing and bool(self.planning)
        self._return_jobs(session)
        hub.step_in(session)
        engine.seen, engine.catalog.moment = seen, moment
        engine.notices[:] = notices
        hub.cancellation.put_back(limits)
        self._hub.locks.go_on(progress)
        self.running, self.leaves = running, running.leaves
        running.since, running.epoch = time.monotonic(), engine.executor.epoch
        running.touched = engine.touched
        running.point = hub.suspended.point()
        if raised is not None:
            raise raised

    def _outside(self, session: SessionState, meanwhile: Callable[[], object]) -> BaseException | None:
        """Leave the monitor and come back when the engine is free; what was raised meanwhile."""
        raised: BaseException | None = None
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

    def _known(self, session: SessionState) -> tuple[object, ...]:
        """What must be the same for a statement to go on."""
        engine = self._hub.engine
        snapshot = 0 if session.isolation.sees_latest else engine.executor.epoch
        return engine.catalog.version, engine.remembered.forgotten, snapshot, self._hub.locks.strong

    def _return_jobs(self, session: SessionState) -> None:
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


log = logging.getLogger("kpg.session")


@dataclass(slots=True, eq=False)
class Paused:
    """A statement that waits. Moments are of the monotonic clock; infinity is never."""

    job: Job
    limit: float
    """When it ends for taking too long."""
    locked: float
    """When it ends for waiting too long for one lock."""
    naps: int = 0
    until: float = 0.0
    """When its present pause is over."""
    napping: bool = False
    """Whether that is one of pg_sleep."""
    wish: Wish | None = None


class Suspended:
    """The statements of one hub that wait."""

    def __init__(self, hub: SchedulerHub) -> None:
        self._hub = hub
        self._paused: dict[SessionState, Paused] = {}
        self._held: dict[Job, Paused] = {}
        self.ready: deque[SessionState] = deque()
        """Sessions with a reason to look after what waits."""
        self.later: list[SessionState] = []
        """Those of them who cannot go on before another session has done with the database."""
        self.wakes: tuple[Callable[[], object], ...] = ()
        """Have somebody do what waits, from any thread."""

    def __contains__(self, session: SessionState) -> bool:
        return session in self._paused

    def __len__(self) -> int:
        return len(self._paused) + len(self._held)

    def alarm(self, session: SessionState) -> None:
        """Have somebody look after what a session waits for, from any thread."""
        if session in self._paused or self._held:
            self.ready.append(session)
            self.wake()

    def wake(self) -> None:
        """Have somebody do what waits, from any thread."""
        for wake in self.wakes:
            wake()

    def freed(self, number: int) -> None:
        """A session may have the lock now that it waits for."""
        session = self._hub.sessions.get(number)
        if session in self._paused:
            self.ready.append(session)
            if not self._hub.works:
                self.wake()

    def point(self) -> Point | None:
        """What to return to if a statement has to wait for who has locked something."""
        engine = self._hub.engine
        if engine.transactions.state is not State.OPEN:
            return None
        waits = engine.tables.watching or not self._hub.locks.alone(engine.catalog.asker.number)
        return engine.savepoint() if waits else None

    # Waiting

    def pause(self, job: Job, waiting: Waiting, point: Point | None, before: Paused | None) -> None:
        """Undo a statement, which is to be done again; an error if it is not to wait."""
        hub, number, now = self._hub, job.session.number, time.monotonic()
        locks = hub.locks
        paused = before or self._begun(job)
        locks.undo()
        if point is not None:
            hub.engine.rollback_to(point)
        try:
            if waiting.wish is None:
                paused.until = paused.until if paused.until > now else now + waiting.seconds
                paused.wish, paused.napping = None, waiting.naps
            else:
                self._wish(paused, waiting.wish, now)
                if hub.has_engine():
                    raise self._alone(waiting.wish, job.session)
                locks.wait(number, waiting.wish)
        except DeadlockError as error:
            locks.give_up(number)
            self._log(error)
            raise
        except BaseException:
            locks.give_up(number)
            raise
        self._paused[job.session] = paused
        if job.session.token.canceled:
            self.alarm(job.session)
        if waiting.wish is None and not waiting.seconds:
            self.ready.append(job.session)
            return
        naps = () if waiting.wish is not None else (paused.until,)
        self._alarm_at(min(paused.limit, paused.locked, *naps), job.session)

    def _alone(self, wish: Wish, session: SessionState) -> DeadlockError:
        """Of who has the database to itself, and waits for somebody who can do nothing before it ends."""
        locks, number = self._hub.locks, session.number
        others = sorted(locks.blockers(number, wish))
        error = DeadlockError([Waits(number, wish, one) for one in others])
        whole = (
            f"Process {number} has changed definitions, so that all others wait until its transaction ends."
        )
        return error.with_detail(f"{error.detail}\n{whole}")

    def _log(self, error: DeadlockError) -> None:
        """Tell of those who wait for each other, and of what they have asked."""
        numbers = dict.fromkeys(number for one in error.circle for number in (one.number, one.blocker))
        sessions = [one for number in numbers if (one := self._hub.sessions.get(number)) is not None]
        asked = [{"client": one.number, "user": one.user, "statement": shown(one.asked)} for one in sessions]
        queries = "; ".join(f"process {one['client']} ({one['user']}): {one['statement']}" for one in asked)
        told = (error.detail or "").replace("\n", " ")
        log.warning("%s: %s %s", error.message, told, queries, extra={"sessions": asked})

    def waiting(self, session: SessionState) -> tuple[str, str] | None:
        """The kind and the name of what a session waits for, as ``pg_stat_activity`` has them."""
        paused = self._paused.get(session)
        if paused is not None and paused.wish is None:
            return "Timeout", "PgSleep"
        if paused is not None:
            return "Lock", self._hub.locks.event(session.number) or "relation"
        if any(job.session is session for job in list(self._held)):
            return "Lock", "object"
        return None

    def _begun(self, job: Job) -> Paused:
        never = float("inf")
        return Paused(job, job.session.deadline or deadline_of(job.session) or never, never)

    def _wish(self, paused: Paused, wish: Wish, now: float) -> None:
        if paused.wish != wish:
            limit = seconds_of(paused.job.session.settings.get("lock_timeout", ""))
            paused.wish, paused.locked = wish, now + limit if limit else float("inf")
        elif now >= paused.locked:
            raise NoLockError("canceling statement due to lock timeout")

    def _alarm_at(self, moment: float, session: SessionState) -> None:
        if moment == float("inf"):
            return
        timer = threading.Timer(max(0.0, moment - time.monotonic()), self.alarm, (session,))
        timer.daemon = True
        timer.start()

    def hold(self, job: Job) -> None:
        """A job waits until who has the database to itself has done with it."""
        if job not in self._held:
            self._held[job] = paused = self._begun(job)
            self._wish(paused, Wish((), SHARED), time.monotonic())
            self._alarm_at(min(paused.limit, paused.locked), job.session)
            if job.session.token.canceled:  # while it waited for its turn
                self.alarm(job.session)

    def let_in(self, job: Job) -> None:
        """A job has its turn."""
        self._held.pop(job, None)

    # Going on

    def admit(self) -> None:
        """Nobody has the database to itself any more."""
        self.ready.extend(self.later)
        self.later.clear()

    def look_after(
        self, session: SessionState, do: Callable[[Job, Paused], object], held: deque[Any]
    ) -> None:
        """Do again what a session waits with; end jobs that wait too long."""
        now = time.monotonic()
        paused = self._paused.pop(session, None)
        if paused is not None and self._hub.keeps_out(session):
            self._stay_out(session, paused, now)
        elif paused is not None and self._waits_on(session, paused, now):
            self._paused[session] = paused
        elif paused is not None:
            if paused.wish is None and now >= paused.until and not session.token.canceled:
                paused.naps += paused.napping
            do(paused.job, paused)
        for job in [job for job in held if job.session is session]:
            error = self._over(self._held.get(job), now)
            if error is not None:
                held.remove(job)
                del self._held[job]
                self._fail(job, error)

    def _stay_out(self, session: SessionState, paused: Paused, now: float) -> None:
        """Go on waiting while another session has the database to itself, unless that is for too long."""
        error = self._over(paused, now)
        if error is None:
            self._paused[session] = paused
            self.later.append(session)
        else:
            self._hub.locks.give_up(session.number)
            self._fail(paused.job, error, begun=True)

    def _waits_on(self, session: SessionState, paused: Paused, now: float) -> bool:
        """Whether a row that a session waits for is still, or again, another's; if not it is the session's.

        That row is, too, which another has put in its place meanwhile: who comes next waits for one only.
        """
        wish, locks = paused.wish, self._hub.locks
        if wish is None or session.token.canceled or now >= min(paused.limit, paused.locked):
            return False
        return not locks.handed(session.number, wish, session.transactions)

    def _over(self, paused: Paused | None, now: float) -> Exception | None:
        """Why a job that is held is not to wait any more."""
        if paused is None or paused.job.rolls_back:
            return None
        if paused.job.session.token.canceled:
            return CanceledError("canceling statement due to user request")
        if now >= paused.limit:
            return CanceledError("canceling statement due to statement timeout")
        if paused.wish is None or now < paused.locked:
            return None
        return NoLockError("canceling statement due to lock timeout")

    def _fail(self, job: Job, error: Exception, *, begun: bool = False) -> None:
        """End a job that is not done, and the transaction of its session, whose changes are taken out."""
        transactions = job.session.transactions
        job.session.token.canceled = False
        if transactions.state is State.OPEN:
            parked, job.session.parked = job.session.parked or [], None
            transactions.lost = {segment.name for segment in parked}
            transactions.points = []
            transactions.state = State.FAILED
        transactions.release_locks()
        if begun or job.begin():
            job.fail(error)

    def take_all(self) -> list[Job]:
        """The jobs of all statements that wait, which do not wait any more."""
        jobs = [one.job for one in self._paused.values()]
        self._paused.clear()
        self._held.clear()
        self.ready.clear()
        return jobs

    def end(self, session: SessionState) -> None:
        """A session waits no more, since it is to end."""
        paused = self._paused.pop(session, None)
        if paused is not None:
            self._hub.locks.give_up(session.number)
            paused.job.fail(CanceledError("canceling statement due to user request"))
