"""Packs that no checkpoint has yet, because their rows went straight into them: records of the log name them.

A checkpoint finds what they have as it finds what it wrote itself, and keeps it where it is. Which packs
count is what the log says: those of records that were never finished are left over.
"""

from collections.abc import Mapping
from typing import Any, Final
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.records import dataclass
from kpg.runtime.saved.rowgroups import columns_path
from kpg.runtime.saved.stored import Reader, Stored
from kpg.runtime.storage.files import Bytes, Files
from kpg.runtime.storage.manifest import PackFacts
from kpg.runtime.storage.packs import PackWriter, sums_of
from kpg.runtime.storage.placed import Placed, PlacedStrings

Words = NDArray[np.int64]
WORD: Final = "<i8"
ARENA: Final = "/executor/dictionary/arena"
OFFSETS: Final = "/executor/dictionary/offsets"
"""Where the strings are in the state of a checkpoint."""


@dataclass(frozen=True, slots=True)
class Written:
    """A pack that was written, and by path where what is in it is."""

    facts: PackFacts
    places: Mapping[str, Stored]


def written(pack: int, blocks: int) -> Written:
    """A pack that a worker has written, in which there is nothing that a checkpoint looks for."""
    return Written(PackFacts(pack, blocks, blocks), {})


class Loose:
    """The packs of one database that records of the log name."""

    def __init__(self) -> None:
        self._packs: dict[int, tuple[Written, int]] = {}

    @property
    def numbers(self) -> set[int]:
        """Which they are."""
        return set(self._packs)

    @property
    def facts(self) -> dict[int, PackFacts]:
        """What each takes, all of it as if it were in use."""
        return {number: one.facts for number, (one, _) in self._packs.items()}

    @property
    def places(self) -> dict[str, Stored]:
        """Where what is in them is, by path."""
        return {path: place for one, _ in self._packs.values() for path, place in one.places.items()}

    def add(self, pack: Written, segment: int) -> None:
        """One more, which a record in a segment of the log names."""
        self._packs[pack.facts.number] = pack, segment

    def read(self, placed: Placed, table: int, segment: int, reader: Reader) -> Words:
        """Rows that a record names, which is in a segment; DamagedError if they are not what was written."""
        self._add(placed.pack, {columns_path(table, placed.group): stored(placed)}, segment, reader)
        words: Words = reader(stored(placed))
        return words

    def strings(self, placed: PlacedStrings, segment: int, reader: Reader) -> tuple[Words, Bytes]:
        """Where the strings begin that a record names, which is in a segment, and their bytes."""
        used, count = placed.size, placed.count + 1
        arena = Stored(placed.pack, placed.block, "|u1", (2 * used,), used)
        offsets = Stored(placed.pack, placed.offsets, WORD, (2 * count,), count)
        self._add(placed.pack, {ARENA: arena, OFFSETS: offsets}, segment, reader)
        return reader(offsets)[:count], reader(arena)[:used]

    def _add(self, pack: int, places: Mapping[str, Stored], segment: int, reader: Reader) -> None:
        known = {} if pack not in self._packs else self._packs[pack][0].places
        blocks = reader.packs.get(pack).blocks
        self.add(Written(PackFacts(pack, blocks, blocks), {**known, **places}), segment)

    def settle(self, segment: int) -> set[int]:
        """A checkpoint has all that the log had before a segment: packs that only it still names."""
        gone = {number for number, (_, named) in list(self._packs.items()) if named < segment}
        for number in gone:
            del self._packs[number]
        return gone


class Straight:
    """A pack that rows are written to as they are committed; it is made when there are some."""

    def __init__(self, files: Files, number: int, database: int, reader: Reader) -> None:
        self.number = number
        self._writer = PackWriter(files, number, database)
        self._files = files
        self._reader = reader
        self._places: dict[str, Stored] = {}

    def put(self, table: int, group: int, columns: Words, count: int) -> Placed:
        """Write ``count`` rows of a group, whose arrays are ``columns[width, stride]``."""
        width, stride = columns.shape
        full = count == stride
        if not full:
            whole = np.zeros(columns.shape, np.int64)
            whole[:, :count] = columns[:, :count]
        data = (columns if full else whole).reshape(-1).view(np.uint8)
        block = self._writer.add(data, sums_of(data), data.shape[0])
        placed = Placed(group, self.number, block, width, stride)
        self._places[columns_path(table, group)] = stored(placed)
        if full:
            self._reader.given[id(columns)] = (ref(columns), stored(placed))
        return placed

    def put_strings(self, arena: Bytes, offsets: Words, count: int) -> PlacedStrings:
        """Write all strings there are; both arrays have room to grow, as in a checkpoint."""
        size = int(offsets[count])
        block = self._put(ARENA, arena, size, "|u1")
        return PlacedStrings(self.number, block, size, self._put(OFFSETS, offsets, count + 1, WORD), count)

    def _put(self, path: str, array: NDArray[Any], used: int, kind: str) -> int:
        data = array[:used].view(np.uint8)
        block = self._writer.add(data, sums_of(data), 2 * data.shape[0])
        self._places[path] = Stored(self.number, block, kind, (2 * used,), used)
        return block

    def finish(self) -> Written:
        """Have it be there whatever happens."""
        self._writer.finish()
        self._files.sync()
        facts = PackFacts(self.number, self._writer.used, self._writer.used)
        return Written(facts, self._places)

    def abandon(self) -> None:
        """Leave no file behind, if it can be helped."""
        self._writer.abandon()


def stored(placed: Placed) -> Stored:
    """Where rows are, as checkpoints say it."""
    return Stored(placed.pack, placed.block, WORD, (placed.width, placed.stride), placed.width)
