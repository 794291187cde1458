"""States in packs: what was written before and has not changed keeps its place, the rest is written.

Of an array that changes, the blocks that have are written beside what was written before, until there are so
many that the array is written whole again. Small arrays are written into the description of the state, which
is written anew each time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, Final
from weakref import ReferenceType, ref

import numpy as np

from kpg.runtime.records import dataclass
from kpg.runtime.saved.form import Array, Later, Life, Part, State, changing, mapped
from kpg.runtime.storage.codec import Codec
from kpg.runtime.storage.files import Bytes
from kpg.runtime.storage.packs import BLOCK, Packs, PackWriter, Words, blocks_of, sums_of

INLINE: Final = 1024
"""Bytes up to which an array is written into the description."""
MOST_CHANGED: Final = 4
"""An array is written whole once more than one in so many of its blocks have been written beside it."""
ROOM: Final = 64
"""Rows for which there is room at least, where there may be."""


@dataclass(frozen=True, slots=True)
class Change:
    """Blocks of an array that were written later: ``count`` of them, behind the words of their numbers."""

    pack: int
    block: int
    count: int

    @property
    def blocks(self) -> int:
        """How many blocks it takes."""
        return blocks_of(8 * self.count) + self.count


@dataclass(frozen=True, slots=True)
class Stored:
    """Where an array is, how much room it has, and how much of it, along its first axis, is in use."""

    pack: int
    block: int
    dtype: str
    shape: tuple[int, ...]
    used: int
    changes: tuple[Change, ...] = ()

    @property
    def size(self) -> int:
        """Bytes in use."""
        return prod(self.shape[1:]) * self.used * np.dtype(self.dtype).itemsize

    @property
    def room(self) -> int:
        """Bytes that there is room for."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def places(self) -> Iterator[tuple[int, int, int]]:
        """The blocks in use: pack, first and end."""
        yield self.pack, self.block, self.block + blocks_of(self.size)
        for change in self.changes:
            yield change.pack, change.block, change.block + change.blocks


@dataclass(frozen=True, slots=True, eq=False)
class Small:
    """A small array, of a certain shape."""

    array: Array
    shape: tuple[int, ...]


CODEC: Final = Codec((Stored, Change, Small))


def bytes_of(array: Array, rows: int | None = None) -> Bytes:
    """The bytes of an array, or of its first rows."""
    return np.ascontiguousarray(array[:rows]).reshape(-1).view(np.uint8)


class Reader:
    """Arrays of what is stored, each checked when it is read, once."""

    def __init__(self, packs: Packs) -> None:
        self.packs = packs
        self.given: dict[int, tuple[ReferenceType[Array], Stored]] = {}
        """Of arrays that are alive, by identity, where they came from."""

    def __call__(self, found: Stored | Small) -> Array:
        """The array, for who asked to keep; DamagedError if it is not what was written."""
        if isinstance(found, Small):
            array = np.empty(found.shape, found.array.dtype)
            array[: found.array.shape[0]] = found.array
            return array
        for pack, first, end in found.places:
            self.packs.get(pack).verify(first, end)
        array = self.view(found)
        self._apply(found, array)
        self.given[id(array)] = (ref(array), found)
        return array

    def view(self, found: Stored) -> Array:
        """The array as it was written first."""
        data = self.packs.get(found.pack).data[found.block * BLOCK :][: found.room]
        return data.view(found.dtype).reshape(found.shape)

    def _apply(self, found: Stored, array: Array) -> None:
        target = array.reshape(-1).view(np.uint8)
        for change in found.changes:
            numbers, data = self.change(change)
            for place, number in enumerate(numbers.tolist()):
                part = target[number * BLOCK : (number + 1) * BLOCK]
                part[:] = data[place * BLOCK : place * BLOCK + part.shape[0]]

    def change(self, change: Change) -> tuple[Words, Bytes]:
        """The numbers of changed blocks, and the blocks."""
        data = self.packs.get(change.pack).data
        behind = change.block + blocks_of(8 * change.count)
        numbers = data[change.block * BLOCK :][: 8 * change.count].view(np.int64)
        return numbers, data[behind * BLOCK : (behind + change.count) * BLOCK]

    def sums(self, found: Stored) -> Words:
        """The checksum of each block of an array, as it is with all changes."""
        sums = np.zeros(blocks_of(found.room), np.int64)
        count = blocks_of(found.size)
        sums[:count] = self.packs.get(found.pack).sums[found.block : found.block + count]
        for change in found.changes:
            behind = change.block + blocks_of(8 * change.count)
            sums[self.change(change)[0]] = self.packs.get(change.pack).sums[behind : behind + change.count]
        return sums


class Storer:
    """Writes a state into a new pack, as far as it is not in packs that are there."""

    def __init__(
        self,
        writer: PackWriter,
        reader: Reader,
        before: Mapping[str, Any],
        fixed: Mapping[int, Stored],
        current: frozenset[int],
        poll: Callable[[], None],
    ) -> None:
        """What was stored ``before`` by path, arrays that never change by identity, and the packs to keep."""
        self._writer = writer
        self._reader = reader
        self._before = before
        self._fixed = fixed
        self._current = current
        self._poll = poll
        self.live: Counter[int] = Counter()
        """Blocks in use of each pack."""

    def store(self, state: State) -> tuple[int, int]:
        """Write a state; at which block its description is, and its size."""
        described = CODEC.dumps(mapped(state, self._stored))
        data = np.frombuffer(bytearray(described), np.uint8)
        block = self._writer.add(data, sums_of(data), len(described))
        self.live[self._writer.number] += blocks_of(len(described))
        return block, len(described)

    def _stored(self, path: str, found: Any) -> Stored | Small:
        if isinstance(found, Later):
            found = changing(np.frombuffer(bytearray(found.make()), np.uint8))
        stored = self._part(path, found) if isinstance(found, Part) else self._again(path, found)
        self._poll()
        if isinstance(stored, Stored):
            for pack, first, end in stored.places:
                self.live[pack] += end - first
        return stored

    def _again(self, path: str, found: Stored | Small) -> Stored | Small:
        """What nobody has read since it was stored."""
        if isinstance(found, Small) or self._is_kept(found):
            return found
        later = self._before.get(path)
        if isinstance(later, Stored) and self._is_kept(later):
            return later
        array = self._reader(found)
        return self._whole(array, found.used, found.shape)

    def _is_kept(self, stored: Stored) -> bool:
        return all(pack in self._current for pack, _, _ in stored.places)

    def _part(self, path: str, part: Part) -> Stored | Small:
        array, used = part.array, part.array.shape[0] if part.used is None else part.used
        rows = array.shape[0] if part.used is None else min(array.shape[0], max(2 * used, ROOM))
        shape = (rows, *array.shape[1:])
        if prod(array.shape[1:]) * used * array.itemsize <= INLINE:
            return Small(array[:used], shape)
        known = self._fixed.get(id(array)) if part.life is Life.FIXED else None
        if known is not None and self._is_kept(known):
            return known
        before = self._before.get(path)
        if isinstance(before, Stored) and _fits(before, part, used) and self._is_kept(before):
            changed = self._changed(part, used, before)
            if changed is not None:
                return changed
        return self._whole(array, used, shape)

    def _whole(self, array: Array, used: int, shape: tuple[int, ...]) -> Stored:
        data = bytes_of(array, used)
        block = self._writer.add(data, sums_of(data), prod(shape) * array.itemsize)
        return Stored(self._writer.number, block, array.dtype.str, shape, used)

    def _changed(self, part: Part, used: int, before: Stored) -> Stored | None:
        """The array with what has changed written beside it; None if that is too much."""
        data = bytes_of(part.array, used)
        old = self._reader.sums(before)[: blocks_of(data.shape[0])]
        same = before.size // BLOCK if part.life is Life.GROWING else 0
        sums = np.concatenate((old[:same], sums_of(data[same * BLOCK :])))
        old[blocks_of(before.size) :] = ~sums[blocks_of(before.size) :]
        numbers = np.flatnonzero(sums != old)
        count = numbers.shape[0]
        changes = before.changes
        if count:
            if MOST_CHANGED * (count + sum(one.count for one in changes)) > sums.shape[0]:
                return None
            padded = np.zeros((count, BLOCK), np.uint8)
            for place, number in enumerate(numbers.tolist()):
                block = data[number * BLOCK : (number + 1) * BLOCK]
                padded[place, : block.shape[0]] = block
            index = bytes_of(numbers)
            first = self._writer.add(index, sums_of(index), index.shape[0])
            self._writer.add(padded.reshape(-1), sums[numbers], padded.size)
            changes = (*changes, Change(self._writer.number, first, count))
        return Stored(before.pack, before.block, before.dtype, before.shape, used, changes)


def _fits(before: Stored, part: Part, used: int) -> bool:
    """Whether an array can stay where it was: it has the same shape, or room."""
    shape = part.array.shape
    if before.dtype != part.array.dtype.str or before.shape[1:] != shape[1:]:
        return False
    return before.shape[0] == shape[0] if part.used is None else used <= before.shape[0]


def read_state(packs: Packs, pack: int, block: int, size: int) -> State:
    """The state whose description is at a block."""
    found = packs.get(pack)
    found.verify(block, block + blocks_of(size))
    return CODEC.decode(found.data[block * BLOCK : block * BLOCK + size])


def stored_at(state: State) -> dict[str, Any]:
    """What is stored by its path."""
    places: dict[str, Any] = {}

    def note(path: str, found: Any) -> Any:
        places[path] = found
        return found

    mapped(state, note)
    return places


def arrays_at(state: State) -> dict[str, ReferenceType[Array]]:
    """The arrays of a captured state by path, not kept alive."""
    places: dict[str, ReferenceType[Array]] = {}

    def note(path: str, found: Any) -> Any:
        if isinstance(found, Part) and found.life is Life.FIXED:
            places[path] = ref(found.array)
        return found

    mapped(state, note)
    return places
