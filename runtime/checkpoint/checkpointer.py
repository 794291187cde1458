"""The checkpointer: writes each checkpoint as a new pack and a manifest that makes it current.

A checkpoint has three phases. :meth:`CheckpointStore.prepare` captures the state.
:meth:`CheckpointStore.write` writes the pack and may run in a forked child. :meth:`CheckpointStore.adopt`
swaps the manifest and removes unreferenced files. Nothing is visible to others before the last phase.

:class:`BackgroundCheckpointer` writes in a forked child while commits go on. The child sees exactly the epoch
of the fork; commits wait only for the fork. The child exits when its parent does. Where fork is not
available,
or the files are not on a disk, this process writes.
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
    CapturedLeaf,
    Described,
    Leaf,
    LeafRecord,
    State,
    Versions,
    leaves_of,
    map_state,
    member_path,
)
from kpg.runtime.checkpoint.pack_store import (
    CODEC,
    Reader,
    StateWriter,
    Stored,
    fixed_arrays_by_path,
    read_state,
    values_by_path,
)
from kpg.runtime.checkpoint.table_state import LogPacks, RowPack
from kpg.runtime.errors import OperationalError
from kpg.runtime.progress_report import report_progress
from kpg.runtime.records import dataclass
from kpg.runtime.storage.background_work import BackgroundWork
from kpg.runtime.storage.files import Disk, Files
from kpg.runtime.storage.packs import (
    BLOCK,
    MANIFEST_NAME,
    NEW_MANIFEST_NAME,
    Checkpoint,
    Manifest,
    PackFacts,
    Packs,
    PackWriter,
    pack_name,
    pack_number,
    read_manifest,
    sums_of,
    write_manifest,
)

MAX_PACKS: Final = 32
"""Packs above which the smaller half is rewritten into one."""


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointJob:
    """A state to be written as the pack ``number``; the log continues in ``segment``."""

    state: State
    epoch: int
    segment: int
    number: int
    retained: Mapping[int, PackFacts]
    """Packs that the checkpoint continues to use."""


class CheckpointStore:
    """The checkpoints of one database; ``read`` returns stored arrays."""

    def __init__(self, files: Files, database: int, pinned: Callable[[], set[int]] = set) -> None:
        """Create a store; ``pinned`` returns the numbers of packs that others read, and are not rewritten."""
        self.database = database
        self._pinned = pinned
        self.checkpoint: Checkpoint | None = None
        self._files = files
        self._packs = Packs(files, database)
        self.read = Reader(self._packs)
        self.log_packs = LogPacks()
        self._last_number = 0
        self._new_manifest = f"{NEW_MANIFEST_NAME}-{os.urandom(6).hex()}"
        """Unique name of the next manifest.

        A suspended process may continue after its database was opened elsewhere.
        """
        self._leaves: dict[str, LeafRecord] = {}
        """Leaves of the checkpoint by path; its root under ""."""
        self._next_leaves: dict[str, LeafRecord] = {}
        self.members: dict[str, tuple[str, ...]] = {}
        """Members of the opened leaves, by path."""
        self.described_leaves = 0
        """Number of leaves that were captured to be described."""

    def open(self, checkpoint: Checkpoint) -> State:
        """Return the state of a checkpoint.

        Raises:
            DamagedError: If its description is damaged.
        """
        self.checkpoint = checkpoint
        return self._root(checkpoint)

    def _root(self, checkpoint: Checkpoint) -> Any:
        return read_state(self._packs, checkpoint.packs[-1].number, checkpoint.block, checkpoint.size)

    def expand_leaves(self, root: State, path: str = "") -> State:
        """Return a part of a checkpoint's state with each leaf replaced by its members."""
        expanded: dict[str, Any] = {}
        for name, one in root.items():
            if isinstance(one, Described):
                members = CODEC.decode(one.read(self._packs))
                self.members[f"{path}/{name}"] = tuple(members)
                self._leaves[f"{path}/{name}"] = LeafRecord(None, one)
                expanded.update(members)
            else:
                expanded[name] = one
        return expanded

    def read_leaf(self, path: str, leaf: Described) -> Any:
        """Return the bytes of a leaf that was described as bytes."""
        self._leaves[path] = LeafRecord(None, leaf)
        return leaf.read(self._packs)

    def set_versions(self, path: str, versions: Versions) -> None:
        """Set the versions that a leaf's members had when the checkpoint was opened."""
        self._leaves[path].versions = versions

    def map_all_packs(self) -> None:
        """Map all packs now, so that they stay readable after their files are removed."""
        for number in self._pack_numbers():
            self._packs.get(number)

    @property
    def bytes(self) -> int:
        """Bytes in use by the checkpoint."""
        return 0 if self.checkpoint is None else BLOCK * sum(one.live for one in self.checkpoint.packs)

    def prepare(self, state: State, epoch: int, segment: int) -> CheckpointJob:
        """Capture what a checkpoint as of ``epoch`` has to write, and return the job."""
        retained, self._next_leaves = self._select_retained(), {}

        def capture_leaf(path: str, value: Any) -> Any:
            if not isinstance(value, Leaf):
                return value
            record = self._leaves.get(path)
            if record is not None and record.is_current(value, retained):
                self._next_leaves[path] = record
                return record.location
            self.described_leaves += 1
            captured = value.make()
            self._next_leaves[path] = LeafRecord(
                value.versions, arrays=fixed_arrays_by_path(captured, member_path(path))
            )
            return CapturedLeaf(captured)

        state = map_state(state, capture_leaf)
        self._next_leaves[""] = LeafRecord(None, arrays=fixed_arrays_by_path(state))
        return CheckpointJob(state, epoch, segment, self._new_number(), retained)

    def open_row_pack(self) -> RowPack:
        """Return a new pack for rows of a commit."""
        return RowPack(self._files, self._new_number(), self.database, self.read)

    def reserve_numbers(self, count: int) -> list[int]:
        """Return ``count`` unused pack numbers."""
        first = self._new_number()
        self._last_number += count - 1
        return list(range(first, first + count))

    def _new_number(self) -> int:
        """Return an unused pack number."""
        numbers = [number for name in self._files.list() if (number := pack_number(name)) is not None]
        self._last_number = max(self._last_number, *numbers, 0) + 1
        return self._last_number

    def write(self, job: CheckpointJob, poll: Callable[[], None] | None = None) -> None:
        """Write the pack, and a manifest beside the current one. If this fails, no file is left.

        With ``poll``, which is called often, the writer yields the disk to other writers.
        """
        writer = PackWriter(self._files, job.number, self.database, yields_disk=poll is not None)
        if poll is not None:
            self._write(job, writer, poll)
            return
        with report_progress("checkpoint", "bytes") as report:
            self._write(job, writer, lambda: report(BLOCK * writer.used))

    def _write(self, job: CheckpointJob, writer: PackWriter, poll: Callable[[], None]) -> None:
        try:
            retained, stored = job.retained, self._stored_parts(job.state)
            originals = Packs(self._files, self.database, is_writable=False)
            storer = StateWriter(
                writer, self.read, stored, self._fixed_arrays(stored), frozenset(retained), poll, originals
            )
            block, size = storer.write_state(job.state)
            poll()
            writer.finish()
            facts = [
                *(retained[number] for number in sorted(retained)),
                PackFacts(job.number, writer.used, 0),
            ]
            packs = (PackFacts(one.number, one.used, storer.live[one.number]) for one in facts)
            found = tuple(one for one in packs if one.live)
            poll()
            manifest = Manifest(self.database, job.segment, Checkpoint(job.epoch, found, block, size))
            write_manifest(self._files, manifest, self._new_manifest)
            self._files.sync()
        except BaseException:
            poll()
            with suppress(OSError):
                writer.abandon()
            raise

    def _stored_parts(self, state: State) -> dict[str, Any]:
        """Return the stored arrays by path: of the root, and of leaves that are rewritten."""
        parts: dict[str, Any] = {}
        if self.checkpoint is not None:
            root = self._root(self.checkpoint)
            parts = values_by_path(root)
            old = leaves_of(root)

            def collect_parts(path: str, one: Any) -> Any:
                if isinstance(one, CapturedLeaf) and path in old and isinstance(one.state, dict):
                    parts.update(values_by_path(CODEC.decode(old[path].read(self._packs)), member_path(path)))
                return one

            map_state(state, collect_parts)
        return parts | self.log_packs.locations

    def adopt(self, job: CheckpointJob) -> Manifest:
        """Make the written checkpoint current and return its manifest.

        Raises:
            OSError: If it is unknown whether the checkpoint is current; then files of the previous one stay.
        """
        old_numbers = self._pack_numbers()
        manifest = read_manifest(self._files, self._new_manifest)
        if job.number not in _packs_of(manifest):
            raise FileNotFoundError(f"{self._files.where}/{self._new_manifest} was not written")
        assert manifest is not None and manifest.checkpoint is not None
        leaves = leaves_of(self._root(manifest.checkpoint))
        self._files.rename(self._new_manifest, MANIFEST_NAME)
        self.checkpoint = manifest.checkpoint
        self._leaves, self._next_leaves = self._next_leaves, {}
        for path, place in leaves.items():
            self._leaves[path].location = place
        self._files.sync()
        obsolete = (old_numbers | self.log_packs.drop_before(manifest.segment)) - self._pack_numbers()
        for number in obsolete:
            with suppress(OSError, OperationalError):
                self._packs.get(number)  # it may contain arrays that are restored later
        self.remove_packs(obsolete)
        return manifest

    def discard(self, job: CheckpointJob) -> None:
        """Remove the files of a failed writer as far as possible, except those that the manifest names.

        The manifest may have been renamed although the rename reported an error.
        """
        with suppress(OSError, OperationalError):
            if job.number in _packs_of(read_manifest(self._files)):
                return
            self._next_leaves = {}
            names = self._files.list()
            for name in {pack_name(job.number), self._new_manifest}.intersection(names):
                with suppress(OSError):
                    self._files.remove(name)

    def remove_packs(self, numbers: Iterable[int]) -> None:
        """Remove packs as far as possible; the next process that opens the database retries."""
        for number in numbers:
            with suppress(OSError):
                self._files.remove(pack_name(number))

    def remove_unreferenced(self) -> None:
        """Remove files, left by a crash, that neither manifest nor log references."""
        existing = {number for name in self._files.list() if (number := pack_number(name)) is not None}
        self.remove_packs(existing - self._pack_numbers() - self.log_packs.numbers)
        with suppress(OSError):
            for name in self._files.list():
                if name.startswith(NEW_MANIFEST_NAME):
                    self._files.remove(name)

    def _pack_numbers(self) -> set[int]:
        return _numbers_of(self.checkpoint)

    def _select_retained(self) -> dict[int, PackFacts]:
        """Return the packs that the next checkpoint keeps: pinned ones, and those in use by at least half."""
        current = () if self.checkpoint is None else self.checkpoint.packs
        pinned = self._pinned()
        pinned_packs = [one for one in current if one.number in pinned]
        packs = [one for one in current if 2 * one.live >= one.used and one.number not in pinned]
        if len(packs) > MAX_PACKS:
            packs = sorted(packs, key=lambda one: one.used)[len(packs) // 2 :]
        return {one.number: one for one in (*pinned_packs, *packs)} | self.log_packs.facts

    def _fixed_arrays(self, stored_parts: dict[str, object]) -> dict[int, Stored]:
        """Return the locations of arrays that never change, by identity."""
        locations: dict[int, Stored] = {}
        for identity, (reference, stored) in list(self.read.locations.items()):
            if reference() is None:
                del self.read.locations[identity]
            else:
                locations[identity] = stored
        for record in self._leaves.values():
            for path, reference in (record.arrays or {}).items():
                array, place = reference(), stored_parts.get(path)
                if array is not None and isinstance(place, Stored):
                    locations[id(array)] = place
        return locations


def _numbers_of(checkpoint: Checkpoint | None) -> set[int]:
    return set() if checkpoint is None else {one.number for one in checkpoint.packs}


def _packs_of(manifest: Manifest | None) -> set[int]:
    return set() if manifest is None else _numbers_of(manifest.checkpoint)


MAX_ERROR_BYTES: Final = 4096
"""Maximum bytes of an error message from the child."""


class CheckpointProcess:
    """A checkpoint that a child process writes; the child sends an error message through ``pipe``."""

    def __init__(self, job: CheckpointJob, pid: int, pipe: int) -> None:
        self.job = job
        self._pid = pid
        self._pipe = pipe
        self.has_ended = False
        self.error = ""

    def poll(self, *, wait: bool) -> bool:
        """Return whether the child has ended; with ``wait``, wait until it has."""
        if self.has_ended:
            return True
        message = self.error.encode()
        if wait:
            while part := os.read(self._pipe, MAX_ERROR_BYTES):
                message += part
        try:
            pid, status = os.waitpid(self._pid, 0 if wait else os.WNOHANG)
        except ChildProcessError:  # other code has waited for it: the written files show whether it succeeded
            pid, status = self._pid, 0
        if not pid:
            return False
        if not wait:
            message = os.read(self._pipe, MAX_ERROR_BYTES)
        os.close(self._pipe)
        failed = "" if os.waitstatus_to_exitcode(status) == 0 else "the process that wrote it was killed"
        self.error = message.decode(errors="replace") or failed
        self.has_ended = True
        return True

    def kill(self) -> None:
        """Kill the child and wait for its end."""
        if not self.has_ended:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            os.close(self._pipe)
            self.has_ended = True


class BackgroundCheckpointer:
    """Writes the checkpoints of one database, one at a time."""

    def __init__(
        self,
        store: CheckpointStore,
        files: Files,
        on_adopted: Callable[[Manifest], None],
        release_in_child: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a checkpointer.

        Args:
            on_adopted: Called with the manifest of each checkpoint that becomes current.
            release_in_child: Called in a child, to release resources that only its parent may hold.
        """
        self._store = store
        self._forks = isinstance(files, Disk) and hasattr(os, "fork")
        self._on_adopted = on_adopted
        self._release_in_child = release_in_child
        self._process: CheckpointProcess | None = None
        self._adoption: BackgroundWork | None = None
        self._preloading: BackgroundWork | None = None
        self.failure = ""
        """Why the last checkpoint failed; empty if it succeeded."""

    @property
    def is_busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._process is not None

    @property
    def is_ready(self) -> bool:
        """Whether a background checkpoint can begin at once; the first call starts to prepare that."""
        if not self._forks:
            return True
        if self._preloading is None:
            self._preloading = BackgroundWork(_preload)
        return self._preloading.is_done

    def begin(self, state: State, epoch: int, segment: int, *, in_background: bool) -> None:
        """Write a captured state, in a child if ``in_background``; the log continues in ``segment``.

        Raises:
            OperationalError: If this process writes it and fails; then nothing has changed.
        """
        assert self._process is None
        job: CheckpointJob | None = None
        try:
            job = self._store.prepare(state, epoch, segment)
            if in_background and self._forks:
                self._process = self._fork(job)
                return
            self._store.write(job)
            self._adopt(job)
        except BaseException as error:
            self._record_failure(job, str(error) or type(error).__name__)
            if isinstance(error, OSError | OperationalError):
                raise self.make_error() from error
            raise

    def poll(self, *, wait: bool = False) -> None:
        """Adopt the checkpoint if the child has written it; with ``wait``, wait for both."""
        process = self._process
        if process is None or not process.poll(wait=wait):
            return
        if self._adoption is None and process.error:
            self._process = None
            self._record_failure(process.job, process.error)
            return
        # A thread adopts it: no commit waits for the sync of names and the removal of large files.
        self._adoption = self._adoption or BackgroundWork(partial(self._adopt, process.job))
        if not wait and not self._adoption.is_done:
            return
        error = self._adoption.wait()
        self._adoption = self._process = None
        if isinstance(error, OSError | OperationalError):
            self._record_failure(process.job, str(error))
        elif error is not None:
            raise error

    def wait_for_adoption(self) -> None:
        """Return when no thread is adopting a checkpoint, so that only the caller renames files."""
        if self._adoption is not None:
            self._adoption.wait()

    def stop(self) -> None:
        """Stop all writers, before others may use the folder."""
        self.wait_for_adoption()
        if self._process is not None:
            self._process.kill()
        self._adoption = self._process = None

    def make_error(self) -> OperationalError:
        """Return the error for a checkpoint that failed."""
        return OperationalError(
            f"no checkpoint could be made: {self.failure}",
            hint="nothing is lost: all commits are in the log",
        )

    def _adopt(self, job: CheckpointJob) -> None:
        self._on_adopted(self._store.adopt(job))
        self.failure = ""

    def _record_failure(self, job: CheckpointJob | None, reason: str) -> None:
        self.failure = reason
        if job is not None:
            self._store.discard(job)

    def _fork(self, job: CheckpointJob) -> CheckpointProcess:
        _preload()
        read_end, write_end = os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads hold nothing that it needs
            try:
                pid = os.fork()
            except OSError:
                os.close(read_end)
                os.close(write_end)
                raise
        if pid:
            os.close(write_end)
            # Only the child writes the state: this process can free unused arrays.
            return CheckpointProcess(replace(job, state=None), pid, read_end)
        self._run_child(job, write_end, parent)

    def _run_child(self, job: CheckpointJob, pipe: int, parent: int) -> NoReturn:
        """Write the checkpoint in the child process and exit."""
        try:
            gc.disable()
            self._release_in_child()
            with suppress(ValueError):
                signal.signal(signal.SIGINT, signal.SIG_IGN)

            def exit_without_parent() -> None:
                if os.getppid() != parent:
                    os._exit(1)

            self._store.write(job, exit_without_parent)
        except BaseException as error:
            with suppress(BaseException):
                os.write(pipe, (str(error) or type(error).__name__).encode()[:MAX_ERROR_BYTES])
            os._exit(1)
        os._exit(0)


def _preload() -> None:
    """Load modules and kernels that the child must not load and no commit should wait for."""
    import kpg.runtime.checkpoint.worker_state  # noqa: F401  # lazy: before the first checkpoint

    sums_of(np.zeros(BLOCK, np.uint8))
