"""Checkpoints of a database: when they are made, and how they store the executor's state and the catalog.

A checkpoint begins with a new log segment; once it is complete the earlier log is removed. It is triggered
by the size or the age of the log, by CHECKPOINT, or by closing the database.

Definitions are stored in groups of a few (``Shelves``), each encoded by itself. A checkpoint therefore
rewrites only the groups that changed, however many definitions there are.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.persistence.database_state import PAST, Key, State, changes, state_of
from kpg.runtime.checkpoint.captured_state import Described, Later, Leaf
from kpg.runtime.checkpoint.checkpointer import Background
from kpg.runtime.checkpoint.checkpointer import Keeper as Packer
from kpg.runtime.checkpoint.pack_store import Apart
from kpg.runtime.checkpoint.table_state import Straight, Written, written
from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.codec import Codec
from kpg.runtime.storage.files import Bytes, Disk, Files
from kpg.runtime.storage.log import segment_name, segment_number
from kpg.runtime.storage.packs import BLOCK, Checkpoint, Manifest, Placed, PlacedStrings, Sharded, Vault

if TYPE_CHECKING:
    from kpg.session.engine import Engine


ROOM: Final = 32
"""Definitions on a shelf."""
VERSION: Final = "version"


class Shelves:
    """The definitions of a state, each on a shelf that it stays on; new ones are put on the last."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._state: State = {}
        self._places: dict[Key, int] = {}
        self._shelves: dict[int, State] = {}
        self._versions: dict[int, int] = {}
        self._last = 0

    def put(self, number: int, some: State) -> None:
        """Have a shelf, the last one, be what it was when it was described."""
        self._state.update(some)
        self._places.update(dict.fromkeys(some, number))
        self._shelves[number] = dict(some)
        self._versions[number] = 0
        self._last = number

    @property
    def state(self) -> State:
        """All definitions."""
        return self._state

    def become(self, state: State) -> None:
        """Have the definitions of another state."""
        found = changes(self._state, state)
        for key in found.gone:
            number = self._places.pop(key)
            del self._shelves[number][key]
            self._changed(number)
        for key, value in found.now:
            number = self._places.get(key, self._last)
            if key not in self._places and len(self._shelves.get(number, ())) >= ROOM:
                number = self._last = self._last + 1
            self._places[key] = number
            self._shelves.setdefault(number, {})[key] = value
            self._changed(number)
        self._state = state

    def _changed(self, number: int) -> None:
        self._versions[number] = self._versions.get(number, 0) + 1

    def version(self, number: int) -> Mapping[str, int]:
        """What tells whether a shelf has changed."""
        return {VERSION: self._versions[number]}

    def leaves(self) -> dict[str, Leaf]:
        """All shelves that have anything."""
        return {
            str(number): Leaf(self.version(number), partial(Later, partial(self._codec.dumps, some)))
            for number, some in self._shelves.items()
            if some
        }


Words = NDArray[np.int64]

LARGE: Final = 1 << 26
"""Bytes of log after which a checkpoint is made, if that is also a part of what the last one has."""
SHARE: Final = 4
"""A log is large if it is a fourth of the last checkpoint."""
SECONDS: Final = 300.0
"""A log is old when its first record is: opening does it all again."""


MEMBERS: Final = ("tables", "operators")
"""What an executor's state has leaves of."""


def _seen(files: Files) -> str | None:
    """The folder in which workers see files; None of those that only this process has."""
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
        """``next_segment`` has the log go on in a new segment, of which it gives the number.

        ``release`` gives up, in a child of this process, what only this one is to hold.
        """
        self._engine = engine
        self._files = files
        self._codec = codec
        self._next_segment = next_segment
        self._packer = Packer(files, database, lambda: engine.executor.pinned)
        engine.executor.vault = Vault(files, database, _seen(files))
        self._background = Background(self._packer, files, self._done, release)
        self._shelves = Shelves(codec)
        self._bytes = 0
        self._since: float | None = None

    # Opening

    def open(self, checkpoint: Checkpoint) -> State:
        """Have the executor, which is new, take on the state of a checkpoint; the catalog's, decoded.

        All files are found now: they may be gone later, and no statement is to fail for that.
        """
        state = self._packer.open(checkpoint)
        self._packer.map_all()
        executor = state["executor"]
        for kind in MEMBERS:
            executor[kind] = self._packer.unfolded(executor[kind], f"/executor/{kind}")
        read = self._packer.read
        self._engine.executor.restore(executor, read, partial(Apart, read))
        return self._catalog(state["catalog"])

    def _catalog(self, found: Any) -> State:
        """The catalog in a state that was stored."""
        if not isinstance(found, dict):  # as earlier formats have it
            state: State = self._codec.decode(self._packer.read(found))
            return state
        for name, leaf in sorted(found.items(), key=lambda one: int(one[0])):
            assert isinstance(leaf, Described)
            path = f"/catalog/{name}"
            self._shelves.put(int(name), self._codec.decode(self._packer.text(path, leaf)))
            self._packer.learn(path, self._shelves.version(int(name)))
        return self._shelves.state

    def opened(self) -> None:
        """All is there: what is as the checkpoint has it need not be described again."""
        versions = self._engine.executor.versions_restored
        for path, members in self._packer.members.items():
            self._packer.learn(path, {name: versions.get(name) for name in members})

    def tidy(self, first: int) -> None:
        """Remove what a crash has left behind: packs that do not count, segments before the first."""
        self._packer.tidy()
        self._drop(first)

    # Rows that go straight into packs

    def straight(self) -> Straight:
        """A new pack for rows of a commit."""
        return self._packer.straight()

    def numbers(self, count: int) -> list[int]:
        """Of so many new packs, which others write."""
        return self._packer.numbers(count)

    def named(self, written: Iterable[Written], segment: int) -> None:
        """A record in a segment of the log names packs."""
        for one in written:
            self._packer.loose.add(one, segment)
            self.written(BLOCK * one.facts.used)

    def unnamed(self, written: Iterable[Written]) -> None:
        """No record names packs."""
        self._packer.remove(one.facts.number for one in written)

    def placed(self, placed: Placed, table: int, segment: int) -> Words:
        """The columns of a group of a table that a record in a segment names."""
        return self._packer.loose.read(placed, table, segment, self._packer.read)

    def strings(self, placed: PlacedStrings, segment: int) -> tuple[Words, Bytes]:
        """Where the strings begin that a record in a segment names, and their bytes."""
        return self._packer.loose.strings(placed, segment, self._packer.read)

    def sharded(self, sharded: Sharded, segment: int) -> None:
        """A record in a segment of the log names what workers have written."""
        for one in sharded.shards:
            if one.rows:
                self._packer.loose.add(written(one.pack, one.blocks), segment)

    def loose(self) -> set[int]:
        """The packs that records of the log name."""
        return self._packer.loose.numbers

    # Making them

    def written(self, size: int) -> None:
        """So many bytes of log have been written."""
        self._bytes += size
        if self._since is None:
            self._since = time.monotonic()

    @property
    def pressing(self) -> bool:
        """Whether :meth:`tend` may have anything to do."""
        return self._background.busy or self.due

    @property
    def due(self) -> bool:
        """Whether a checkpoint is to be made."""
        if not self._bytes or self._background.busy:
            return False
        old = self._since is not None and time.monotonic() - self._since > SECONDS
        return old or self._bytes > max(LARGE, self._packer.bytes // SHARE)

    def tend(self) -> None:
        """Between commits: let a checkpoint count that is written, and begin one if it is due."""
        if self._background.busy:
            self._background.poll()
        elif self.due and self._background.ready:
            self.begin(aside=True)

    def rest(self) -> None:
        """Return when files have names that nobody changes until the next commit."""
        self._background.rest()

    def begin(self, *, aside: bool) -> None:
        """Make a checkpoint of the database as it is; OperationalError if it cannot be made here."""
        executor, catalog, past = self._engine.executor, state_of(self._engine), self._engine.past
        if executor.has_pending:
            raise OperationalError("no checkpoint can be made while changes are pending")
        if past is not None:
            # The log need not have it: its records are of an epoch and a moment each.
            catalog["extra", PAST] = past.told()
        self._shelves.become(catalog)
        state = {"executor": executor.capture(), "catalog": self._shelves.leaves()}
        try:
            segment = self._next_segment()
        except OSError as error:
            raise OperationalError(f"no checkpoint could be made: {error.strerror or error}") from error
        self._bytes, self._since = 0, None
        self._background.begin(state, executor.epoch, segment, aside=aside)

    def make(self) -> None:
        """Make a checkpoint that counts when this returns; OperationalError if it cannot be made."""
        self._background.poll(wait=True)
        if self._behind or self._packer.checkpoint is None:
            self.begin(aside=False)

    def close(self) -> None:
        """Make one if there is anything new; if that fails, the log has everything."""
        with suppress(OSError, OperationalError):
            self._background.poll(wait=True)
            if self._behind:
                self.begin(aside=False)

    def end(self) -> None:
        """Have nothing of them be under way."""
        self._background.end()

    @property
    def _behind(self) -> bool:
        """Whether there is log that no checkpoint has."""
        return bool(self._bytes or self._background.failure)

    def _done(self, manifest: Manifest) -> None:
        self._drop(manifest.segment)

    def _drop(self, first: int) -> None:
        for name in self._files.list():
            number = segment_number(name)
            if number is not None and number < first:
                with suppress(OSError):
                    self._files.remove(segment_name(number))
