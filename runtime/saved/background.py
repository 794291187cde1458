"""Checkpoints that are written while commits go on: by a child of this process, which sees one epoch.

The child is a copy of the process as it is when it is made, so nothing that comes later is in what it writes,
and nobody waits for longer than the copying takes. It ends when its parent has. Where processes cannot be
copied, and where files are not those of a disk, this process writes.
"""

import gc
import os
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NoReturn

import numpy as np

from kpg.runtime.errors import OperationalError
from kpg.runtime.saved.form import State
from kpg.runtime.saved.keeper import Job, Keeper
from kpg.runtime.storage.ahead import Ahead
from kpg.runtime.storage.files import Disk, Files
from kpg.runtime.storage.manifest import Manifest
from kpg.runtime.storage.packs import BLOCK, sums_of

MOST_TOLD: Final = 4096
"""Bytes of what went wrong, as far as it is told."""


class Writing:
    """A checkpoint that is being written by a child, of which ``pipe`` tells what went wrong."""

    def __init__(self, job: Job, pid: int, pipe: int) -> None:
        self.job = job
        self._pid = pid
        self._pipe = pipe
        self.ended = False
        self.error = ""

    def finished(self, *, wait: bool) -> bool:
        """Whether the child has ended, or, with ``wait``, once it has."""
        if self.ended:
            return True
        told = self.error.encode()
        if wait:
            while part := os.read(self._pipe, MOST_TOLD):
                told += part
        try:
            pid, status = os.waitpid(self._pid, 0 if wait else os.WNOHANG)
        except ChildProcessError:  # somebody else has waited for it: what it has left tells how it ended
            pid, status = self._pid, 0
        if not pid:
            return False
        if not wait:
            told = os.read(self._pipe, MOST_TOLD)
        os.close(self._pipe)
        failed = "" if os.waitstatus_to_exitcode(status) == 0 else "the process that wrote it was killed"
        self.error = told.decode(errors="replace") or failed
        self.ended = True
        return True

    def kill(self) -> None:
        """Have the child be gone."""
        if not self.ended:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            os.close(self._pipe)
            self.ended = True


class Background:
    """The checkpoints of one database, one at a time."""

    def __init__(
        self,
        keeper: Keeper,
        files: Files,
        done: Callable[[Manifest], None],
        release: Callable[[], None] = lambda: None,
    ) -> None:
        """``done`` is called with the manifest of each checkpoint that has come to count.

        ``release`` is called by a child, to give up what only its parent is to hold.
        """
        self._keeper = keeper
        self._forks = isinstance(files, Disk) and hasattr(os, "fork")
        self._done = done
        self._release = release
        self._writing: Writing | None = None
        self._adopting: Ahead | None = None
        self._loading: Ahead | None = None
        self.failure = ""
        """Why the last one failed, if it did."""

    @property
    def busy(self) -> bool:
        """Whether one is being written."""
        return self._writing is not None

    @property
    def ready(self) -> bool:
        """Whether one can begin aside at once; once this was asked, it soon can."""
        if not self._forks:
            return True
        if self._loading is None:
            self._loading = Ahead(_load)
        return self._loading.done

    def begin(self, state: State, epoch: int, segment: int, *, aside: bool) -> None:
        """Write a state just captured, ``aside`` while this process goes on; the log goes on at a segment.

        OperationalError if it is written here and fails: then all is as it was.
        """
        assert self._writing is None
        job: Job | None = None
        try:
            job = self._keeper.prepare(state, epoch, segment)
            if aside and self._forks:
                self._writing = self._forked(job)
                return
            self._keeper.write(job)
            self._adopt(job)
        except BaseException as error:
            self._failed(job, str(error) or type(error).__name__)
            if isinstance(error, OSError | OperationalError):
                raise self.error() from error
            raise

    def poll(self, *, wait: bool = False) -> None:
        """Have a checkpoint that is written come to count; with ``wait``, once it is."""
        writing = self._writing
        if writing is None or not writing.finished(wait=wait):
            return
        if self._adopting is None and writing.error:
            self._writing = None
            self._failed(writing.job, writing.error)
            return
        # Names are synced and large files removed, for which no commit is to wait.
        self._adopting = self._adopting or Ahead(partial(self._adopt, writing.job))
        if not wait and not self._adopting.done:
            return
        error = self._adopting.wait()
        self._adopting = self._writing = None
        if isinstance(error, OSError | OperationalError):
            self._failed(writing.job, str(error))
        elif error is not None:
            raise error

    def rest(self) -> None:
        """Return when no names change but by who calls this: a thread may be having a checkpoint count."""
        if self._adopting is not None:
            self._adopting.wait()

    def end(self) -> None:
        """Have nobody write any more: others may have the folder soon."""
        self.rest()
        if self._writing is not None:
            self._writing.kill()
        self._adopting = self._writing = None

    def error(self) -> OperationalError:
        """The error for a checkpoint that failed."""
        return OperationalError(
            f"no checkpoint could be made: {self.failure}",
            hint="nothing is lost: what is committed is in the log",
        )

    def _adopt(self, job: Job) -> None:
        self._done(self._keeper.adopt(job))
        self.failure = ""

    def _failed(self, job: Job | None, why: str) -> None:
        self.failure = why
        if job is not None:
            self._keeper.give_up(job)

    def _forked(self, job: Job) -> Writing:
        _load()
        reading, telling = os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads hold nothing that it needs
            try:
                pid = os.fork()
            except OSError:
                os.close(reading)
                os.close(telling)
                raise
        if pid:
            os.close(telling)
            # The state is the child's to write: arrays that are not used any more can go.
            return Writing(replace(job, state=None), pid, reading)
        self._write(job, telling, parent)

    def _write(self, job: Job, telling: int, parent: int) -> NoReturn:
        """What the child does, and all that it does."""
        try:
            gc.disable()
            self._release()
            with suppress(ValueError):
                signal.signal(signal.SIGINT, signal.SIG_IGN)

            def alive() -> None:
                if os.getppid() != parent:
                    os._exit(1)

            self._keeper.write(job, alive)
        except BaseException as error:
            with suppress(BaseException):
                os.write(telling, (str(error) or type(error).__name__).encode()[:MOST_TOLD])
            os._exit(1)
        os._exit(0)


def _load() -> None:
    """Have at hand what a child must not have to find, nor a commit wait for."""
    import kpg.runtime.saved.worker  # noqa: F401

    sums_of(np.zeros(BLOCK, np.uint8))
