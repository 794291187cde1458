"""States stored in packs: unchanged arrays stay where they are, changed ones are patched or rewritten.

:class:`Storer` writes a state into a new pack, as far as it is not in existing packs. Small arrays are part
of the description, which is written each time.

A changed array gets a patch: its changed lines of 64 bytes, and new checksums of its changed 4 KB blocks.
Hash tables change single words, so blocks are compared by checksum first, and lines by comparison with the
disk. When the patches grow too large, the array is written whole.

:class:`Apart` reads stored arrays for a second worker. It maps the packs again, copy-on-write, so that the
two workers do not see each other's writes. If a later checkpoint has removed the file, arrays are copied when
they are first read.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.checkpoint.captured_state import (
    Array,
    Described,
    Later,
    Life,
    Part,
    Sheet,
    State,
    Taken,
    base_of,
    mapped,
)
from kpg.runtime.errors import OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.storage.codec import Codec
from kpg.runtime.storage.files import Bytes
from kpg.runtime.storage.packs import BLOCK, RUN, Pack, Packs, PackWriter, blocks_of, pack_name, sums_of

Words = NDArray[np.int64]


LINE: Final = 64
LINES: Final = BLOCK // LINE


@dataclass(frozen=True, slots=True)
class Change:
    """Whole blocks of an array: ``count`` of them, behind the words of their numbers. No longer written."""

    pack: int
    block: int
    count: int

    @property
    def blocks(self) -> int:
        """How many blocks it takes."""
        return blocks_of(8 * self.count) + self.count


@dataclass(frozen=True, slots=True)
class Patch:
    """Words: numbers of ``changed`` blocks and their checksums, numbers of ``lines``; then these lines."""

    pack: int
    block: int
    changed: int
    lines: int

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return 8 * (2 * self.changed + self.lines) + LINE * self.lines

    @property
    def blocks(self) -> int:
        """How many blocks it takes."""
        return blocks_of(self.size)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a patch has: blocks with their checksums and lines with their contents, both ascending."""

    blocks: Words
    sums: Words
    places: Words
    lines: NDArray[np.uint8]

    def onto(self, lines: NDArray[np.uint8]) -> None:
        """Have the lines of a whole array be what they are with the patch."""
        lines[self.places] = self.lines

    def onto_blocks(self, numbers: Words, lines: NDArray[np.uint8]) -> None:
        """The same, of blocks with these numbers, ascending, that ``lines`` has one behind the other."""
        at = np.minimum(np.searchsorted(numbers, self.places // LINES), numbers.shape[0] - 1)
        mine = numbers[at] == self.places // LINES
        lines[(at * LINES + self.places % LINES)[mine]] = self.lines[mine]


def read_change(pack: Pack, change: Change | Patch) -> Found:
    """What stands in a pack."""
    data = pack.data[change.block * BLOCK : (change.block + change.blocks) * BLOCK]
    if isinstance(change, Change):
        behind = blocks_of(8 * change.count)
        blocks = data[: 8 * change.count].view(np.int64)
        sums = pack.sums[change.block + behind :][: change.count]
        places = (blocks[:, None] * LINES + np.arange(LINES)).reshape(-1)
        return Found(blocks, sums, places, data[behind * BLOCK :].reshape(-1, LINE))
    words = data[: 8 * (2 * change.changed + change.lines)].view(np.int64)
    blocks, sums, places = np.split(words, (change.changed, 2 * change.changed))
    lines = data[words.nbytes : change.size].reshape(-1, LINE)
    return Found(blocks, sums, places, lines)


def write_patch(
    writer: PackWriter, numbers: Words, sums: Words, places: Words, lines: NDArray[np.uint8]
) -> Patch:
    """A patch in a pack that is being written."""
    words = np.concatenate((numbers, sums, places)).view(np.uint8)
    data = np.concatenate((words, lines.reshape(-1)))
    block = writer.add(data, sums_of(data), data.shape[0])
    return Patch(writer.number, block, numbers.shape[0], places.shape[0])


def padded(data: Bytes, numbers: Words) -> Bytes:
    """Blocks of an array, one behind the other, the last one filled up with zeros."""
    whole = data.shape[0] // BLOCK
    blocks = np.zeros((numbers.shape[0], BLOCK), np.uint8)
    inner = numbers < whole
    blocks[inner] = data[: whole * BLOCK].reshape(-1, BLOCK)[numbers[inner]]
    if not inner.all():
        blocks[-1, : data.shape[0] - whole * BLOCK] = data[whole * BLOCK :]
    return blocks.reshape(-1)


def differing(now: Bytes, before: Bytes, numbers: Words) -> tuple[Words, NDArray[np.uint8]]:
    """Of blocks that are one behind the other, and have these numbers, the lines that are others."""
    lines, old = now.reshape(-1, LINE), before.reshape(-1, LINE)
    changed = np.flatnonzero((lines.view(np.int64) != old.view(np.int64)).any(axis=1))
    return numbers[changed // LINES] * LINES + changed % LINES, lines[changed]


def blocks_before(
    pack: Pack, block: int, changes: Sequence[Change | Patch], numbers: Words, find: Callable[[int], Pack]
) -> Bytes:
    """Blocks of an array with these numbers as they were written, with some changes.

    ``pack`` and those that are found must be mapped anew: arrays of restored objects are what is mapped.
    """
    base = pack.data[block * BLOCK :]
    base = base[: base.shape[0] // BLOCK * BLOCK].reshape(-1, BLOCK)
    lines = base[numbers].reshape(-1, LINE)
    for change in changes:
        read_change(find(change.pack), change).onto_blocks(numbers, lines)
    return lines.reshape(-1)


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


class Apart:
    """A reader beside another one, which has read some of the same or will."""

    def __init__(self, reader: Reader) -> None:
        """Finds all files that there are: they may be gone later."""
        self._reader = reader
        self._own: dict[int, Bytes] = {}
        for number, pack in list(reader.packs.mapped.items()):  # a checkpoint's thread may map more
            with suppress(OSError, OperationalError):
                own = reader.packs.files.map(pack_name(number))
                if not np.may_share_memory(own, pack.data) and not np.may_share_memory(own, pack.own):
                    self._own[number] = own

    def __call__(self, found: Stored | Small) -> Array:
        """The array, for who asked to keep; DamagedError if it is not what was written."""
        if isinstance(found, Small) or (found.fixed and not found.changes):
            return self._reader(found)
        for pack, first, end in found.places:
            self._reader.packs.get(pack).verify(first, end)
        data = self._bytes(found)
        for change in found.changes:
            self._reader.change(change).onto(data.reshape(-1, LINE))
        return data[: found.room].view(found.dtype).reshape(found.shape)

    def _bytes(self, found: Stored) -> Bytes:
        start, room = found.block * BLOCK, blocks_of(found.room) * BLOCK
        own = self._own.get(found.pack)
        if own is not None:
            return own[start : start + room]
        data, size = np.empty(room, np.uint8), blocks_of(found.size) * BLOCK
        data[:size] = self._reader.packs.get(found.pack).data[start : start + size]
        data[size:] = 0
        return data
