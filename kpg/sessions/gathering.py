"""Commits that share a step (group commit).

Each piece of work ends an epoch of its own, and has an error of its own: what it has changed is undone at
once. Rows that follow one another into the same table are inserted together. If the step fails, everything
is undone, and each piece is done again alone, so that only the one which is at fault gets the error.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from kpg.runtime.errors import OperationalError
from kpg.sessions.jobs import Job, Ready

if TYPE_CHECKING:
    from kpg.sessions.hub import Hub

Done = list[tuple[Job, Any]]


class Group:
    """Where commits wait for each other."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._engine = hub.engine
        self._point: Any = None
        self.gathering = False

    def undo_statement(self) -> None:
        """Throw away what the present piece of work has changed."""
        self._engine.rollback_to(self._point)

    def run(self, jobs: list[Job]) -> None:
        """Do pieces of work, none of whose sessions is in a transaction."""
        done: Done = []
        self.gathering = True
        try:
            self._do([job for job in jobs if job.promise.set_running_or_notify_cancel()], done)
        finally:
            self.gathering = False
        try:
            with self._hub.cancellation.watching_all([job.session for job, _ in done]):
                self._engine.step()
        except BaseException as error:
            self._one_by_one(done, error)
            return
        for job, result in done:
            job.session.token.canceled = False
            job.promise.set_result(result)
        self._deliver()

    def _do(self, jobs: list[Job], done: Done) -> None:
        together: list[tuple[Job, Ready]] = []
        for job in jobs:
            ready = self._ready(job)
            if together and (ready is None or ready.table != together[0][1].table):
                self._insert(together, done)
                together = []
            if ready is None:
                self._one(job, done)
            else:
                together.append((job, ready))
        self._insert(together, done)

    def _ready(self, job: Job) -> Ready | None:
        if job.rows is None or job.session.token.canceled:
            return None
        try:
            return job.rows(self._engine)
        except Exception:
            # Done as all other work, it will say what is wrong.
            return None

    def _insert(self, together: list[tuple[Job, Ready]], done: Done) -> None:
        """Insert rows of several pieces of work at once; if that fails, by one after the other."""
        if not together:
            return
        jobs = [job for job, _ in together]
        table = together[0][1].table
        words = [ready.words for _, ready in together]
        point = None
        try:
            self._hub.enter(jobs[0].session)
            point = self._engine.savepoint()
            self._engine.executor.insert(table, np.concatenate(words, axis=1))
            self._engine.close_epochs(table, [one.shape[1] for one in words])
        except Exception:
            if point is not None:
                self._engine.rollback_to(point)
            for job in jobs:
                self._one(job, done)
            return
        done += ((job, ready.result) for job, ready in together)

    def _one(self, job: Job, done: Done) -> None:
        try:
            self._hub.enter(job.session)
            self._point = self._engine.savepoint()
            with self._hub.cancellation.watching(job.session):
                done.append((job, job.work()))
        except BaseException as error:
            job.promise.set_exception(error)

    def _one_by_one(self, done: Done, error: BaseException) -> None:
        """Everything was rolled back: do each piece again, now with a step of its own."""
        if len(done) == 1:
            done[0][0].promise.set_exception(error)
            return
        for job, _ in done:
            self._hub.do(job)

    def _deliver(self) -> None:
        try:
            self._engine.notifications.deliver()
        except OperationalError:
            # A subscriber's callback failed: its owner is told, not those whose commits are done.
            return
