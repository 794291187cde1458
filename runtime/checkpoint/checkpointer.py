"""The checkpointer: writes each checkpoint as a new pack and a manifest that makes it current.

A checkpoint has three phases: :meth:`Keeper.prepare` captures the state, :meth:`Keeper.write` writes the pack
and may run in a forked child, :meth:`Keeper.adopt` swaps the manifest and removes unreferenced files. Nothing
changes for anyone before the last phase.

:class:`Background` writes in a forked child while commits go on. The child sees exactly the epoch of the
fork; commits wait only for the fork. The child exits when its parent does. Where fork is not available, or
the files are not on a disk, this process writes.
"""

import gc
import os
import signal
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

import numpy as np

from kpg.runtime.checkpoint.captured_state import (
    Described,
    Known,
    Leaf,
    State,
    Taken,
    Versions,
    base_of,
    leaves_of,
    mapped,
)
from kpg.runtime.checkpoint.pack_store import CODEC, Reader, Stored, Storer, arrays_at, read_state, stored_at
from kpg.runtime.checkpoint.table_state import Loose, Straight
from kpg.runtime.errors import OperationalError
from kpg.runtime.progress_report import work
from kpg.runtime.records import dataclass
from kpg.runtime.storage.background_work import Ahead
from kpg.runtime.storage.files import Disk, Files
from kpg.runtime.storage.packs import (
    BLOCK,
    NAME,
    NEW,
    Checkpoint,
    Manifest,
    PackFacts,
    Packs,
    PackWriter,
    pack_name,
    pack_number,
    read_manifest,
    sums_of,
    write_beside,
)

MOST_PACKS: Final = 32
"""Of more packs the smaller half is written into one."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A state to be written as the pack of a number; the log goes on from a segment."""

    state: State
    epoch: int
    segment: int
    number: int
    kept: Mapping[int, PackFacts]
    """The packs that stay."""


class Keeper:
    """The checkpoints of one database. ``read`` gives the arrays of what is stored."""

    def __init__(self, files: Files, database: int, pinned: Callable[[], set[int]] = set) -> None:
        """``pinned`` tells the packs that others read by their numbers: they are not written anew."""
        self.database = database
        self._pinned = pinned
        self.checkpoint: Checkpoint | None = None
        self._files = files
        self._packs = Packs(files, database)
        self.read = Reader(self._packs)
        self.loose = Loose()
        self._given_out = 0
        self._new = f"{NEW}-{os.urandom(6).hex()}"
        """Nobody else's: a process that was stopped may go on after the one that it writes for is gone."""
        self._leaves: dict[str, Known] = {}
        """The leaves of the checkpoint, and under "" what is in its root."""
        self._next: dict[str, Known] = {}
        self.members: dict[str, tuple[str, ...]] = {}
        """What is in the leaves that were opened, by path."""
        self.described = 0
        """How many leaves have been captured to be described."""

    def open(self, checkpoint: Checkpoint) -> State:
        """The state of a checkpoint. DamagedError if what describes it is not what was written."""
        self.checkpoint = checkpoint
        return self._root(checkpoint)

    def _root(self, checkpoint: Checkpoint) -> Any:
        return read_state(self._packs, checkpoint.packs[-1].number, checkpoint.block, checkpoint.size)

    def unfolded(self, root: State, path: str = "") -> State:
        """A part of the state of a checkpoint with the members of its leaves in their places."""
        found: dict[str, Any] = {}
        for name, one in root.items():
            if isinstance(one, Described):
                members = CODEC.decode(one.read(self._packs))
                self.members[f"{path}/{name}"] = tuple(members)
                self._leaves[f"{path}/{name}"] = Known(None, one)
                found.update(members)
            else:
                found[name] = one
        return found

    def text(self, path: str, leaf: Described) -> Any:
        """The bytes of a leaf that was described as bytes."""
        self._leaves[path] = Known(None, leaf)
        return leaf.read(self._packs)

    def learn(self, path: str, versions: Versions) -> None:
        """What the members of a leaf were when the checkpoint was opened."""
        self._leaves[path].versions = versions

    def map_all(self) -> None:
        """Have all packs at hand from now on, whether they stay or not."""
        for number in self._numbers():
            self._packs.get(number)

    @property
    def bytes(self) -> int:
        """What the checkpoint has, in bytes."""
        return 0 if self.checkpoint is None else BLOCK * sum(one.live for one in self.checkpoint.packs)

    def prepare(self, state: State, epoch: int, segment: int) -> Job:
        """What is to be written of a state just captured, as of ``epoch``."""
        kept, self._next = self._kept(), {}

        def taken(path: str, found: Any) -> Any:
            if not isinstance(found, Leaf):
                return found
            known = self._leaves.get(path)
            if known is not None and known.stays(found, kept):
                self._next[path] = known
                return known.place
            self.described += 1
            captured = found.make()
            self._next[path] = Known(found.versions, arrays=arrays_at(captured, base_of(path)))
            return Taken(captured)

        state = mapped(state, taken)
        self._next[""] = Known(None, arrays=arrays_at(state))
        return Job(state, epoch, segment, self._number(), kept)

    def straight(self) -> Straight:
        """A new pack for rows that go straight into it."""
        return Straight(self._files, self._number(), self.database, self.read)

    def numbers(self, count: int) -> list[int]:
        """So many that no pack has."""
        first = self._number()
        self._given_out += count - 1
        return list(range(first, first + count))

    def _number(self) -> int:
        """One that no pack has."""
        numbers = [number for name in self._files.list() if (number := pack_number(name)) is not None]
        self._given_out = max(self._given_out, *numbers, 0) + 1
        return self._given_out

    def write(self, job: Job, poll: Callable[[], None] | None = None) -> None:
        """Write the pack, and a manifest beside the one that counts. If it fails, nothing is left.

        With ``poll``, which is called again and again, beside what others write.
        """
        writer = PackWriter(self._files, job.number, self.database, beside=poll is not None)
        if poll is not None:
            self._write(job, writer, poll)
            return
        with work("checkpoint", "bytes") as tell:
            self._write(job, writer, lambda: tell(BLOCK * writer.used))

    def _write(self, job: Job, writer: PackWriter, poll: Callable[[], None]) -> None:
        try:
            kept, before = job.kept, self._before(job.state)
            originals = Packs(self._files, self.database, written=False)
            storer = Storer(writer, self.read, before, self._fixed(before), frozenset(kept), poll, originals)
            block, size = storer.store(job.state)
            poll()
            writer.finish()
            facts = [*(kept[number] for number in sorted(kept)), PackFacts(job.number, writer.used, 0)]
            packs = (PackFacts(one.number, one.used, storer.live[one.number]) for one in facts)
            found = tuple(one for one in packs if one.live)
            poll()
            manifest = Manifest(self.database, job.segment, Checkpoint(job.epoch, found, block, size))
            write_beside(self._files, manifest, self._new)
            self._files.sync()
        except BaseException:
            poll()
            with suppress(OSError):
                writer.abandon()
            raise

    def _before(self, state: State) -> dict[str, Any]:
        """What is stored by path: in the root, and in leaves that are written again."""
        found: dict[str, Any] = {}
        if self.checkpoint is not None:
            root = self._root(self.checkpoint)
            found = stored_at(root)
            old = leaves_of(root)

            def read(path: str, one: Any) -> Any:
                if isinstance(one, Taken) and path in old and isinstance(one.state, dict):
                    found.update(stored_at(CODEC.decode(old[path].read(self._packs)), base_of(path)))
                return one

            mapped(state, read)
        return found | self.loose.places

    def adopt(self, job: Job) -> Manifest:
        """Have what was written be the checkpoint; the manifest. OSError if that is not certain.

        Then files stay that the checkpoint before needs.
        """
        before = self._numbers()
        manifest = read_manifest(self._files, self._new)
        if job.number not in _packs_of(manifest):
            raise FileNotFoundError(f"{self._files.where}/{self._new} was not written")
        assert manifest is not None and manifest.checkpoint is not None
        leaves = leaves_of(self._root(manifest.checkpoint))
        self._files.rename(self._new, NAME)
        self.checkpoint = manifest.checkpoint
        self._leaves, self._next = self._next, {}
        for path, place in leaves.items():
            self._leaves[path].place = place
        self._files.sync()
        gone = (before | self.loose.settle(manifest.segment)) - self._numbers()
        for number in gone:
            with suppress(OSError, OperationalError):
                self._packs.get(number)  # arrays that nobody has asked for yet may be there
        self.remove(gone)
        return manifest

    def give_up(self, job: Job) -> None:
        """Remove what a writer that failed has left behind, as far as that can be done.

        Not what the manifest names: a file may have its new name though to rename it has failed.
        """
        with suppress(OSError, OperationalError):
            if job.number in _packs_of(read_manifest(self._files)):
                return
            self._next = {}
            there = self._files.list()
            for name in {pack_name(job.number), self._new}.intersection(there):
                with suppress(OSError):
                    self._files.remove(name)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove packs, as far as that can be done: who opens the database next will try again."""
        for number in numbers:
            with suppress(OSError):
                self._files.remove(pack_name(number))

    def tidy(self) -> None:
        """Remove files that neither manifest nor log names, which a crash has left behind."""
        found = {number for name in self._files.list() if (number := pack_number(name)) is not None}
        self.remove(found - self._numbers() - self.loose.numbers)
        with suppress(OSError):
            for name in self._files.list():
                if name.startswith(NEW):
                    self._files.remove(name)

    def _numbers(self) -> set[int]:
        return _numbers_of(self.checkpoint)

    def _kept(self) -> dict[int, PackFacts]:
        """The packs that are worth keeping."""
        known = () if self.checkpoint is None else self.checkpoint.packs
        pinned = self._pinned()
        stay = [one for one in known if one.number in pinned]
        packs = [one for one in known if 2 * one.live >= one.used and one.number not in pinned]
        if len(packs) > MOST_PACKS:
            packs = sorted(packs, key=lambda one: one.used)[len(packs) // 2 :]
        return {one.number: one for one in (*stay, *packs)} | self.loose.facts

    def _fixed(self, before: dict[str, object]) -> dict[int, Stored]:
        """Where arrays are that never change, by identity."""
        found: dict[int, Stored] = {}
        for identity, (reference, stored) in list(self.read.given.items()):
            if reference() is None:
                del self.read.given[identity]
            else:
                found[identity] = stored
        for known in self._leaves.values():
            for path, reference in (known.arrays or {}).items():
                array, place = reference(), before.get(path)
                if array is not None and isinstance(place, Stored):
                    found[id(array)] = place
        return found


def _numbers_of(checkpoint: Checkpoint | None) -> set[int]:
    return set() if checkpoint is None else {one.number for one in checkpoint.packs}


def _packs_of(manifest: Manifest | None) -> set[int]:
    return set() if manifest is None else _numbers_of(manifest.checkpoint)


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
    import kpg.runtime.checkpoint.worker_state  # noqa: F401  # lazy: before the first checkpoint

    sums_of(np.zeros(BLOCK, np.uint8))
