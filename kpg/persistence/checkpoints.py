"""Checkpoints: when they are made, and how they store the executor's state and the catalog.

A checkpoint begins with a new log segment. Once it is complete, earlier segments are removed. It is
triggered by the size or the age of the log, by CHECKPOINT, or by closing the database.

Definitions are stored in small groups (``DefinitionGroups``), each encoded separately. So a
checkpoint rewrites only the groups that changed, however many definitions there are.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.persistence.database_state import HISTORY_ENTRY, Key, State, capture_state, diff_states
from kpg.runtime.checkpoint.captured_state import DeferredBytes, Described, Leaf
from kpg.runtime.checkpoint.checkpointer import BackgroundCheckpointer
from kpg.runtime.checkpoint.checkpointer import CheckpointStore as Packer
from kpg.runtime.checkpoint.pack_store import BranchReader
from kpg.runtime.checkpoint.table_state import RowPack, WrittenPack, worker_pack
from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.codec import Codec
from kpg.runtime.storage.files import Bytes, Disk, Files
from kpg.runtime.storage.log import segment_name, segment_number
from kpg.runtime.storage.packs import BLOCK, Checkpoint, Manifest, Placed, PlacedStrings, Sharded, ShardStore

if TYPE_CHECKING:
    from kpg.session.engine import Engine


GROUP_SIZE: Final = 32
"""Maximum number of definitions in a new group."""
VERSION_MEMBER: Final = "version"


class DefinitionGroups:
    """The definitions of a state in groups. A definition stays in its group; new ones join the last group."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._state: State = {}
        self._group_of: dict[Key, int] = {}
        self._groups: dict[int, State] = {}
        self._versions: dict[int, int] = {}
        self._last = 0

    def load_group(self, number: int, definitions: State) -> None:
        """Add a group of a checkpoint, as the last one."""
        self._state.update(definitions)
        self._group_of.update(dict.fromkeys(definitions, number))
        self._groups[number] = dict(definitions)
        self._versions[number] = 0
        self._last = number

    @property
    def state(self) -> State:
        """All definitions."""
        return self._state

    def update(self, state: State) -> None:
        """Change the definitions to those of another state."""
        diff = diff_states(self._state, state)
        for key in diff.removed:
            number = self._group_of.pop(key)
            del self._groups[number][key]
            self._increment_version(number)
        for key, value in diff.updated:
            number = self._group_of.get(key, self._last)
            if key not in self._group_of and len(self._groups.get(number, ())) >= GROUP_SIZE:
                number = self._last = self._last + 1
            self._group_of[key] = number
            self._groups.setdefault(number, {})[key] = value
            self._increment_version(number)
        self._state = state

    def _increment_version(self, number: int) -> None:
        self._versions[number] = self._versions.get(number, 0) + 1

    def version(self, number: int) -> Mapping[str, int]:
        """Return the version of a group, which changes with its definitions."""
        return {VERSION_MEMBER: self._versions[number]}

    def leaves(self) -> dict[str, Leaf]:
        """Return a leaf for each group that is not empty."""
        return {
            str(number): Leaf(
                self.version(number), partial(DeferredBytes, partial(self._codec.dumps, definitions))
            )
            for number, definitions in self._groups.items()
            if definitions
        }


Words = NDArray[np.int64]

MIN_LOG_BYTES: Final = 1 << 26
"""Bytes of log from which a checkpoint is made.

The log must also be large relative to the last checkpoint.
"""
MIN_LOG_FRACTION: Final = 4
"""A log is large from one fourth of the last checkpoint's size."""
MAX_LOG_AGE: Final = 300.0
"""Age in seconds of the log's first record from which a checkpoint is made: opening replays the log."""


LEAF_KINDS: Final = ("tables", "operators")
"""The parts of an executor's state that consist of leaves."""


def _shared_folder(files: Files) -> str | None:
    """Return the folder where workers find the files, or None if only this process has them."""
    return str(Path(files.where).resolve()) if isinstance(files, Disk) else None


class Checkpoints:
    """The checkpoints of a database."""

    def __init__(
        self,
        engine: "Engine",
        files: Files,
        codec: Codec,
        database: int,
        next_segment: Callable[[], int],
        release: Callable[[], None],
    ) -> None:
        """Create the checkpoints of a database.

        ``next_segment`` continues the log in a new segment and returns its number. ``release`` runs in a
        child process and releases what only the parent may hold.
        """
        self._engine = engine
        self._files = files
        self._codec = codec
        self._next_segment = next_segment
        self._store = Packer(files, database, lambda: engine.executor.tables.pinned_packs)
        engine.executor.tables.shard_store = ShardStore(files, database, _shared_folder(files))
        self._background = BackgroundCheckpointer(self._store, files, self._on_adopted, release)
        self._definitions = DefinitionGroups(codec)
        self._log_bytes = 0
        self._log_start: float | None = None

    # Opening

    def restore(self, checkpoint: Checkpoint) -> State:
        """Restore a new executor from a checkpoint, and return the catalog's state.

        All files are mapped now, because they may be removed later and no statement may fail for that.
        """
        state = self._store.open(checkpoint)
        self._store.map_all_packs()
        executor = state["executor"]
        for kind in LEAF_KINDS:
            executor[kind] = self._store.expand_leaves(executor[kind], f"/executor/{kind}")
        read = self._store.read
        self._engine.executor.restore(executor, read, partial(BranchReader, read))
        return self._restore_catalog(state["catalog"])

    def _restore_catalog(self, stored: Any) -> State:
        """Return the catalog's state."""
        if not isinstance(stored, dict):  # earlier formats
            state: State = self._codec.decode(self._store.read(stored))
            return state
        for name, leaf in sorted(stored.items(), key=lambda item: int(item[0])):
            assert isinstance(leaf, Described)
            path = f"/catalog/{name}"
            self._definitions.load_group(int(name), self._codec.decode(self._store.read_leaf(path, leaf)))
            self._store.set_versions(path, self._definitions.version(int(name)))
        return self._definitions.state

    def record_versions(self) -> None:
        """Record the restored versions, so that unchanged leaves are not written again."""
        versions = self._engine.executor.restored_versions
        for path, members in self._store.members.items():
            self._store.set_versions(path, {name: versions.get(name) for name in members})

    def remove_unreferenced(self, first: int) -> None:
        """Remove the leftovers of a crash: unreferenced packs, and segments before ``first``."""
        self._store.remove_unreferenced()
        self._remove_segments(first)

    # Rows that are written to packs at commit

    def open_row_pack(self) -> RowPack:
        """Return a new pack for rows of a commit."""
        return self._store.open_row_pack()

    def reserve_numbers(self, count: int) -> list[int]:
        """Reserve the numbers of ``count`` new packs that workers write."""
        return self._store.reserve_numbers(count)

    def add_log_packs(self, packs: Iterable[WrittenPack], segment: int) -> None:
        """Register packs that a record in a log segment refers to."""
        for pack in packs:
            self._store.log_packs.add(pack, segment)
            self.count_log_bytes(BLOCK * pack.facts.used)

    def remove_packs(self, packs: Iterable[WrittenPack]) -> None:
        """Remove packs that no record refers to."""
        self._store.remove_packs(pack.facts.number for pack in packs)

    def read_rows(self, location: Placed, table: int, segment: int) -> Words:
        """Return the columns of a row group that a record in a log segment refers to."""
        return self._store.log_packs.read_rows(location, table, segment, self._store.read)

    def read_strings(self, location: PlacedStrings, segment: int) -> tuple[Words, Bytes]:
        """Return the offsets and the bytes of strings that a record in a log segment refers to."""
        return self._store.log_packs.read_strings(location, segment, self._store.read)

    def add_shards(self, sharded: Sharded, segment: int) -> None:
        """Register the workers' packs that a record in a log segment refers to."""
        for shard in sharded.shards:
            if shard.rows:
                self._store.log_packs.add(worker_pack(shard.pack, shard.blocks), segment)

    def log_packs(self) -> set[int]:
        """Return the numbers of the packs that log records refer to."""
        return self._store.log_packs.numbers

    # Making them

    def count_log_bytes(self, size: int) -> None:
        """Count bytes that were added to the log."""
        self._log_bytes += size
        if self._log_start is None:
            self._log_start = time.monotonic()

    @property
    def has_work(self) -> bool:
        """Whether :meth:`advance` may have work."""
        return self._background.is_busy or self.is_due

    @property
    def is_due(self) -> bool:
        """Whether the log's size or age requires a checkpoint."""
        if not self._log_bytes or self._background.is_busy:
            return False
        is_old = self._log_start is not None and time.monotonic() - self._log_start > MAX_LOG_AGE
        return is_old or self._log_bytes > max(MIN_LOG_BYTES, self._store.bytes // MIN_LOG_FRACTION)

    def advance(self) -> None:
        """Adopt a written checkpoint, or begin one that is due. Called between commits."""
        if self._background.is_busy:
            self._background.poll()
        elif self.is_due and self._background.is_ready:
            self.begin(in_background=True)

    def wait_for_adoption(self) -> None:
        """Wait until no file is renamed before the next commit."""
        self._background.wait_for_adoption()

    def begin(self, *, in_background: bool) -> None:
        """Begin a checkpoint of the present state. Raises OperationalError if it is impossible now."""
        executor, catalog, history = self._engine.executor, capture_state(self._engine), self._engine.history
        if executor.tables.has_pending:
            raise OperationalError("no checkpoint can be made while changes are pending")
        if history is not None:
            # The log does not need it: each record has its epoch and its time.
            catalog["extra", HISTORY_ENTRY] = history.encode()
        self._definitions.update(catalog)
        state = {"executor": executor.capture(), "catalog": self._definitions.leaves()}
        try:
            segment = self._next_segment()
        except OSError as error:
            raise OperationalError(f"no checkpoint could be made: {error.strerror or error}") from error
        self._log_bytes, self._log_start = 0, None
        self._background.begin(state, executor.epoch, segment, in_background=in_background)

    def make(self) -> None:
        """Make a checkpoint and wait until it is adopted. Raises OperationalError if that fails."""
        self._background.poll(wait=True)
        if self._has_new_log or self._store.checkpoint is None:
            self.begin(in_background=False)

    def close(self) -> None:
        """Make a checkpoint if the log has grown. If that fails, the log has all commits."""
        with suppress(OSError, OperationalError):
            self._background.poll(wait=True)
            if self._has_new_log:
                self.begin(in_background=False)

    def stop(self) -> None:
        """Stop the checkpoint in progress, if there is one."""
        self._background.stop()

    @property
    def _has_new_log(self) -> bool:
        """Whether the log has records that no checkpoint includes."""
        return bool(self._log_bytes or self._background.failure)

    def _on_adopted(self, manifest: Manifest) -> None:
        self._remove_segments(manifest.segment)

    def _remove_segments(self, first: int) -> None:
        for name in self._files.list():
            number = segment_number(name)
            if number is not None and number < first:
                with suppress(OSError):
                    self._files.remove(segment_name(number))
