"""States in packs: what was written before and has not changed keeps its place, the rest is written.

Of an array that changes, the lines that have are written beside what was written before (``patches``), until
there are so many that the array is written whole again. Small arrays are written into the description of the
state, which is written anew each time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.records import dataclass
from kpg.runtime.saved.form import Array, Later, Life, Part, State, mapped
from kpg.runtime.saved.leaves import Described, Sheet, Taken, base_of
from kpg.runtime.saved.patches import (
    LINE,
    Change,
    Found,
    Patch,
    blocks_before,
    differing,
    padded,
    read_change,
    write_patch,
)
from kpg.runtime.storage.codec import Codec
from kpg.runtime.storage.files import Bytes
from kpg.runtime.storage.packs import BLOCK, RUN, Packs, PackWriter, Words, blocks_of, sums_of

INLINE: Final = 1024
"""Bytes up to which an array is written into the description."""
MOST_CHANGED: Final = 4
"""An array is written whole once what has been written beside it is more than one in so many of its bytes."""
MOST_PATCHES: Final = 8
"""So many patches of an array become one."""
SMALL: Final = 1 << 15
"""Bytes of an array that is rather written whole."""
ROOM: Final = 64
"""Rows for which there is room at least, where there may be."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where an array is, how much room it has, and how much of it, along its first axis, is in use."""

    pack: int
    block: int
    dtype: str
    shape: tuple[int, ...]
    used: int
    changes: tuple[Change | Patch, ...] = ()
    fixed: bool = False
    """Whether the array never changes: who has it may take what is here for it. A group that rows are still
    added to becomes such an array without becoming another one."""

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


CODEC: Final = Codec((Stored, Change, Small, Patch, Described))


def bytes_of(array: Array, rows: int | None = None) -> Bytes:
    """The bytes of an array, or of its first rows."""
    return np.ascontiguousarray(array[:rows]).reshape(-1).view(np.uint8)


class Reader:
    """Arrays of what is stored, each checked when it is read, once."""

    def __init__(self, packs: Packs) -> None:
        self.packs = packs
        self.given: dict[int, tuple[ReferenceType[Array], Stored]] = {}
        """Of arrays that are alive and never change, by identity, where they came from."""

    def __call__(self, found: Stored | Small) -> Array:
        """The array, for who asked to keep; DamagedError if it is not what was written."""
        if isinstance(found, Small):
            array = np.empty(found.shape, found.array.dtype)
            array[: found.array.shape[0]] = found.array
            return array
        for pack, first, end in found.places:
            self.packs.get(pack).verify(first, end)
        array = self.view(found)
        self._apply(found)
        if found.fixed:
            self.given[id(array)] = (ref(array), found)
        return array

    def view(self, found: Stored) -> Array:
        """The array as it was written first."""
        return self._bytes(found)[: found.room].view(found.dtype).reshape(found.shape)

    def _bytes(self, found: Stored) -> Bytes:
        pack = self.packs.get(found.pack)
        data = pack.data if found.fixed and not found.changes else pack.own
        return data[found.block * BLOCK :][: blocks_of(found.room) * BLOCK]

    def _apply(self, found: Stored) -> None:
        if found.changes:
            lines = self._bytes(found).reshape(-1, LINE)
            for change in found.changes:
                self.change(change).onto(lines)

    def change(self, change: Change | Patch) -> Found:
        """What has changed."""
        return read_change(self.packs.get(change.pack), change)

    def sums(self, found: Stored) -> Words:
        """The checksum of each block of an array, as it is with all changes."""
        sums = np.zeros(blocks_of(found.room), np.int64)
        count = blocks_of(found.size)
        sums[:count] = self.packs.get(found.pack).sums[found.block : found.block + count]
        for change in found.changes:
            patch = self.change(change)
            sums[patch.blocks] = patch.sums
        return sums


class Storer:
    """Writes a state into a new pack, as far as it is not in packs that are there.

    ``originals`` are the packs mapped anew: what the reader has mapped has been written to since.
    """

    def __init__(
        self,
        writer: PackWriter,
        reader: Reader,
        before: Mapping[str, Any],
        fixed: Mapping[int, Stored],
        current: frozenset[int],
        poll: Callable[[], None],
        originals: Packs,
    ) -> None:
        """What was stored ``before`` by path, arrays that never change by identity, and the packs to keep."""
        self._writer = writer
        self._reader = reader
        self._before = before
        self._fixed = fixed
        self._current = current
        self._poll = poll
        self._originals = originals
        self._sheet = Sheet(writer.number)
        self.live: Counter[int] = Counter()
        """Blocks in use of each pack."""

    def store(self, state: State) -> tuple[int, int]:
        """Write a state; at which block the root of its description is, and its size."""
        root = mapped(state, self._stored)
        if self._sheet.text:
            root = self._sheet.placed(root, self._add(self._sheet.text))
        self.live.update(self._sheet.live)
        described = bytearray(CODEC.dumps(root))
        self.live[self._writer.number] += blocks_of(len(described))
        return self._add(described), len(described)

    def _add(self, text: bytearray) -> int:
        data = np.frombuffer(text, np.uint8)
        return self._writer.add(data, sums_of(data), len(text))

    def _leaf(self, path: str, leaf: Taken | Described) -> Described:
        """A leaf that stays, or is written."""
        if isinstance(leaf, Taken):
            others, self.live = self.live, Counter()
            try:
                if isinstance(leaf.state, Later):
                    text = leaf.state.make()
                else:
                    text = CODEC.dumps(mapped(leaf.state, self._stored, base_of(path)))
                leaf = self._sheet.add(text, self.live)
            finally:
                self.live = others
        self.live.update(dict(leaf.live))
        self._sheet.note(leaf)
        return leaf

    def _stored(self, path: str, found: Any) -> Stored | Small | Described:
        if isinstance(found, Taken | Described):
            return self._leaf(path, found)
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
        if found.pack in self._current:
            numbers = np.unique(np.concatenate([self._reader.change(one).blocks for one in found.changes]))
            sums = self._reader.sums(found)[numbers]
            now = partial(self._now, found)
            patched = self._patched(found, found.used, numbers, sums, (), now, _most(found))
            if patched is not None:
                return patched
        array = self._reader(found)
        return self._whole(array, found.used, found.shape, fixed=found.fixed)

    def _is_kept(self, stored: Stored) -> bool:
        return all(pack in self._current for pack, _, _ in stored.places)

    def _part(self, path: str, part: Part) -> Stored | Small:
        if part.rows is not None:
            # Whoever writes does it, which takes as long as reading all of the array.
            room = part.array[:, part.rows :]
            if room.any():
                room[:] = 0
        array, used = part.array, part.array.shape[0] if part.used is None else part.used
        rows = array.shape[0] if part.used is None else max(2 * used, ROOM)
        if part.life is not Life.GROWING:
            rows = min(array.shape[0], rows)
        shape = (rows, *array.shape[1:])
        if prod(array.shape[1:]) * used * array.itemsize <= INLINE:
            return Small(array[:used], shape)
        known = self._fixed.get(id(array)) if part.life is Life.FIXED else None
        if known is not None and self._is_kept(known):
            return known
        before = self._before.get(path)
        if isinstance(before, Stored) and _fits(before, part, used) and before.pack in self._current:
            changed = self._changed(part, used, before)
            if changed is not None:
                return changed
        return self._whole(array, used, shape, fixed=part.life is Life.FIXED)

    def _whole(self, array: Array, used: int, shape: tuple[int, ...], *, fixed: bool) -> Stored:
        data = bytes_of(array, used)
        block = self._writer.add(data, sums_of(data), prod(shape) * array.itemsize)
        return Stored(self._writer.number, block, array.dtype.str, shape, used, fixed=fixed)

    def _changed(self, part: Part, used: int, before: Stored) -> Stored | None:
        """The array with what has changed written beside it; None if that is too much."""
        data = bytes_of(part.array, used)
        old = self._reader.sums(before)[: blocks_of(data.shape[0])]
        same = before.size // BLOCK if part.life is Life.GROWING else 0
        sums = np.concatenate((old[:same], sums_of(data[same * BLOCK :])))
        old[blocks_of(before.size) :] = ~sums[blocks_of(before.size) :]
        numbers = np.flatnonzero(sums != old)
        changes = before.changes
        if len(changes) >= MOST_PATCHES or not self._is_kept(before):
            # All that has changed since it was written whole becomes one patch.
            earlier = [self._reader.change(one).blocks for one in changes]
            numbers, changes = np.unique(np.concatenate((numbers, *earlier))), ()
            numbers = numbers[numbers < sums.shape[0]]
        if MOST_CHANGED * numbers.shape[0] > sums.shape[0] and data.shape[0] <= SMALL:
            return None
        found = replace(before, fixed=part.life is Life.FIXED)
        # Rows that are added to a group take the place of nothing: what is written beside it is no waste.
        added = part.rows is not None or (found.fixed and not before.fixed)
        most = before.size if added else _most(before)
        return self._patched(
            found, used, numbers, sums[numbers], changes, lambda some: padded(data, some), most
        )

    def _patched(
        self,
        before: Stored,
        used: int,
        numbers: Words,
        sums: Words,
        changes: tuple[Change | Patch, ...],
        now: Callable[[Words], Bytes],
        most: int,
    ) -> Stored | None:
        """The array with blocks as they are ``now`` in the place of what they are with some changes.

        None if they are more than ``most`` bytes with these.
        """
        most -= sum(BLOCK * one.blocks for one in changes)
        size, places, lines = 16 * numbers.shape[0], list[Words](), list[NDArray[np.uint8]]()
        for start in range(0, numbers.shape[0], RUN):
            some = numbers[start : start + RUN]
            place, line = differing(now(some), self._before_of(before, some, changes), some)
            size += 8 * place.shape[0] + line.nbytes
            if size > most:
                return None
            places.append(place)
            lines.append(line)
        if places:
            patch = write_patch(self._writer, numbers, sums, np.concatenate(places), np.concatenate(lines))
            changes = (*changes, patch)
        return replace(before, used=used, changes=changes)

    def _before_of(self, found: Stored, numbers: Words, changes: tuple[Change | Patch, ...]) -> Bytes:
        pack = self._originals.get(found.pack)
        return blocks_before(pack, found.block, changes, numbers, self._originals.get)

    def _now(self, found: Stored, numbers: Words) -> Bytes:
        """Blocks of what nobody has read; DamagedError if they are not what was written."""
        blocks = self._before_of(found, numbers, found.changes)
        wrong = np.flatnonzero(sums_of(blocks) != self._reader.sums(found)[numbers])
        if wrong.shape[0]:
            number = found.block + int(numbers[wrong[0]])
            raise self._originals.get(found.pack).damaged(BLOCK * number, "it is not what was written there")
        return blocks


def _most(before: Stored) -> int:
    """Bytes that may be written beside an array."""
    return max(before.size, SMALL) // MOST_CHANGED


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
    return CODEC.decode(found.data[block * BLOCK : block * BLOCK + size].copy())


def stored_at(state: State, path: str = "") -> dict[str, Any]:
    """What is stored by its path, of a state that is at one."""
    places: dict[str, Any] = {}

    def note(path: str, found: Any) -> Any:
        places[path] = found
        return found

    mapped(state, note, path)
    return places


def arrays_at(state: State, path: str = "") -> dict[str, ReferenceType[Array]]:
    """The arrays of a captured state by path, not kept alive."""
    places: dict[str, ReferenceType[Array]] = {}

    def note(path: str, found: Any) -> Any:
        if isinstance(found, Part) and found.life is Life.FIXED:
            places[path] = ref(found.array)
        return found

    mapped(state, note, path)
    return places
