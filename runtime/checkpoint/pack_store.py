"""States stored in packs: unchanged arrays stay where they are, changed ones are patched or rewritten.

:class:`StateWriter` writes to a new pack the parts of a state that existing packs do not have. Small arrays
are inlined in the description, which is written each time.

A changed array gets a patch: its changed lines of 64 bytes, and new checksums of its changed 4 KB blocks.
Hash
tables change single words, so blocks are compared by checksum first, and lines by comparison with the disk.
When
the patches grow too large, the array is written whole.

:class:`BranchReader` reads stored arrays for a second worker. It maps the packs again, copy-on-write, so that
neither worker sees writes of the other. If a later checkpoint has removed the file, arrays are copied when
they
are first read.
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
    CapturedLeaf,
    DeferredBytes,
    Described,
    DescriptionWriter,
    Mutability,
    Part,
    State,
    map_state,
    member_path,
)
from kpg.runtime.errors import OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.storage.codec import Codec
from kpg.runtime.storage.files import Bytes
from kpg.runtime.storage.packs import (
    BLOCK,
    RUN_BLOCKS,
    Pack,
    Packs,
    PackWriter,
    blocks_of,
    pack_name,
    sums_of,
)

Words = NDArray[np.int64]


LINE: Final = 64
"""Bytes of a line, the unit of a patch."""
LINES: Final = BLOCK // LINE
"""Lines of a block."""


@dataclass(frozen=True, slots=True)
class Change:
    """Changed blocks of an array: ``count`` block numbers as words, then the blocks. Never written."""

    pack: int
    block: int
    count: int

    @property
    def blocks(self) -> int:
        """Number of blocks that the change occupies."""
        return blocks_of(8 * self.count) + self.count


@dataclass(frozen=True, slots=True)
class Patch:
    """Numbers and checksums of ``changed`` blocks, numbers of ``lines``, and the contents of these lines."""

    pack: int
    block: int
    changed: int
    lines: int

    @property
    def size(self) -> int:
        """Bytes of the patch."""
        return 8 * (2 * self.changed + self.lines) + LINE * self.lines

    @property
    def blocks(self) -> int:
        """Number of blocks that the patch occupies."""
        return blocks_of(self.size)


@dataclass(frozen=True, slots=True, eq=False)
class PatchContents:
    """Contents of a patch: block numbers with checksums, and line numbers with lines, both ascending."""

    blocks: Words
    sums: Words
    line_numbers: Words
    lines: NDArray[np.uint8]

    def apply(self, lines: NDArray[np.uint8]) -> None:
        """Apply the patch to all lines of an array."""
        lines[self.line_numbers] = self.lines

    def apply_to_blocks(self, numbers: Words, lines: NDArray[np.uint8]) -> None:
        """Apply the patch to blocks with these ascending numbers, stored one after the other."""
        at = np.minimum(np.searchsorted(numbers, self.line_numbers // LINES), numbers.shape[0] - 1)
        is_selected = numbers[at] == self.line_numbers // LINES
        lines[(at * LINES + self.line_numbers % LINES)[is_selected]] = self.lines[is_selected]


def read_change(pack: Pack, change: Change | Patch) -> PatchContents:
    """Return the contents of a patch in a pack."""
    data = pack.data[change.block * BLOCK : (change.block + change.blocks) * BLOCK]
    if isinstance(change, Change):
        behind = blocks_of(8 * change.count)
        blocks = data[: 8 * change.count].view(np.int64)
        sums = pack.sums[change.block + behind :][: change.count]
        places = (blocks[:, None] * LINES + np.arange(LINES)).reshape(-1)
        return PatchContents(blocks, sums, places, data[behind * BLOCK :].reshape(-1, LINE))
    words = data[: 8 * (2 * change.changed + change.lines)].view(np.int64)
    blocks, sums, places = np.split(words, (change.changed, 2 * change.changed))
    lines = data[words.nbytes : change.size].reshape(-1, LINE)
    return PatchContents(blocks, sums, places, lines)


def write_patch(
    writer: PackWriter, numbers: Words, sums: Words, line_numbers: Words, lines: NDArray[np.uint8]
) -> Patch:
    """Write a patch to a pack."""
    words = np.concatenate((numbers, sums, line_numbers)).view(np.uint8)
    data = np.concatenate((words, lines.reshape(-1)))
    block = writer.add(data, sums_of(data), data.shape[0])
    return Patch(writer.number, block, numbers.shape[0], line_numbers.shape[0])


def gather_blocks(data: Bytes, numbers: Words) -> Bytes:
    """Return numbered blocks of an array, one after the other, the last one padded with zeros."""
    whole = data.shape[0] // BLOCK
    blocks = np.zeros((numbers.shape[0], BLOCK), np.uint8)
    inner = numbers < whole
    blocks[inner] = data[: whole * BLOCK].reshape(-1, BLOCK)[numbers[inner]]
    if not inner.all():
        blocks[-1, : data.shape[0] - whole * BLOCK] = data[whole * BLOCK :]
    return blocks.reshape(-1)


def changed_lines(current: Bytes, previous: Bytes, numbers: Words) -> tuple[Words, NDArray[np.uint8]]:
    """Return the numbers and contents of lines that differ, in blocks that are stored one after the other."""
    lines, old = current.reshape(-1, LINE), previous.reshape(-1, LINE)
    changed = np.flatnonzero((lines.view(np.int64) != old.view(np.int64)).any(axis=1))
    return numbers[changed // LINES] * LINES + changed % LINES, lines[changed]


def read_previous_blocks(
    pack: Pack, block: int, changes: Sequence[Change | Patch], numbers: Words, find: Callable[[int], Pack]
) -> Bytes:
    """Return numbered blocks of an array as first written, with some changes applied.

    ``pack``, and the packs that ``find`` returns, must be new mappings: restored objects write to older ones.
    """
    base = pack.data[block * BLOCK :]
    base = base[: base.shape[0] // BLOCK * BLOCK].reshape(-1, BLOCK)
    lines = base[numbers].reshape(-1, LINE)
    for change in changes:
        read_change(find(change.pack), change).apply_to_blocks(numbers, lines)
    return lines.reshape(-1)


MAX_INLINE_BYTES: Final = 1024
"""Bytes up to which an array is inlined in the description."""
PATCH_SHARE: Final = 4
"""An array is rewritten if its patches have more than 1/PATCH_SHARE of its bytes."""
MAX_PATCHES: Final = 8
"""Patches of an array that are merged into one."""
SMALL_BYTES: Final = 1 << 15
"""Bytes up to which an array is rewritten rather than patched."""
MIN_ROOM: Final = 64
"""Minimum number of rows for which a growing array has room."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Location of an array, its capacity, and how much of it, along the first axis, is in use."""

    pack: int
    block: int
    dtype: str
    shape: tuple[int, ...]
    used: int
    changes: tuple[Change | Patch, ...] = ()
    fixed: bool = False
    """Whether the array never changes, so readers need not copy it.

    A row group that is still filled becomes such an array when it is full, as the same object.
    """

    @property
    def size(self) -> int:
        """Bytes in use."""
        return prod(self.shape[1:]) * self.used * np.dtype(self.dtype).itemsize

    @property
    def room(self) -> int:
        """Bytes of the capacity."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def block_ranges(self) -> Iterator[tuple[int, int, int]]:
        """Pack, first and end block of all blocks in use."""
        yield self.pack, self.block, self.block + blocks_of(self.size)
        for change in self.changes:
            yield change.pack, change.block, change.block + change.blocks


@dataclass(frozen=True, slots=True, eq=False)
class Small:
    """An inlined array with the shape of its capacity."""

    array: Array
    shape: tuple[int, ...]


CODEC: Final = Codec((Stored, Change, Small, Patch, Described))
"""Codec of descriptions; the names of these classes and their fields are part of the file format."""


def bytes_of(array: Array, rows: int | None = None) -> Bytes:
    """Return the bytes of an array, or of its first rows."""
    return np.ascontiguousarray(array[:rows]).reshape(-1).view(np.uint8)


class Reader:
    """Reads stored arrays; each block is verified on the first read."""

    def __init__(self, packs: Packs) -> None:
        self.packs = packs
        self.locations: dict[int, tuple[ReferenceType[Array], Stored]] = {}
        """Locations of live arrays that never change, by identity."""

    def __call__(self, stored: Stored | Small) -> Array:
        """Return the array, which the caller owns.

        Raises:
            DamagedError: If it is not what was written.
        """
        if isinstance(stored, Small):
            array = np.empty(stored.shape, stored.array.dtype)
            array[: stored.array.shape[0]] = stored.array
            return array
        for pack, first, end in stored.block_ranges:
            self.packs.get(pack).verify(first, end)
        array = self.read_base(stored)
        self._apply_changes(stored)
        if stored.fixed:
            self.locations[id(array)] = (ref(array), stored)
        return array

    def read_base(self, stored: Stored) -> Array:
        """Return the array as it was first written, without patches."""
        return self._bytes(stored)[: stored.room].view(stored.dtype).reshape(stored.shape)

    def _bytes(self, stored: Stored) -> Bytes:
        pack = self.packs.get(stored.pack)
        data = pack.data if stored.fixed and not stored.changes else pack.writable
        return data[stored.block * BLOCK :][: blocks_of(stored.room) * BLOCK]

    def _apply_changes(self, stored: Stored) -> None:
        if stored.changes:
            lines = self._bytes(stored).reshape(-1, LINE)
            for change in stored.changes:
                self.patch_contents(change).apply(lines)

    def patch_contents(self, change: Change | Patch) -> PatchContents:
        """Return the contents of a patch."""
        return read_change(self.packs.get(change.pack), change)

    def checksums(self, stored: Stored) -> Words:
        """Return the checksum of each block of an array with all patches applied."""
        sums = np.zeros(blocks_of(stored.room), np.int64)
        count = blocks_of(stored.size)
        sums[:count] = self.packs.get(stored.pack).sums[stored.block : stored.block + count]
        for change in stored.changes:
            patch = self.patch_contents(change)
            sums[patch.blocks] = patch.sums
        return sums


class StateWriter:
    """Writes a state to a new pack, without the parts that existing packs have.

    ``originals`` are new mappings of the packs: those of the reader have been written to.
    """

    def __init__(
        self,
        writer: PackWriter,
        reader: Reader,
        previous: Mapping[str, Any],
        fixed: Mapping[int, Stored],
        current: frozenset[int],
        poll: Callable[[], None],
        originals: Packs,
    ) -> None:
        """Create a writer.

        Args:
            previous: Arrays stored by the previous checkpoint, by path.
            fixed: Locations of arrays that never change, by identity.
            current: Numbers of the packs to retain.
        """
        self._writer = writer
        self._reader = reader
        self._previous = previous
        self._fixed = fixed
        self._current = current
        self._poll = poll
        self._originals = originals
        self._descriptions = DescriptionWriter(writer.number)
        self.live: Counter[int] = Counter()
        """Number of blocks in use of each pack."""

    def write_state(self, state: State) -> tuple[int, int]:
        """Write a state; return the block of its root's description, and the size of the description."""
        root = map_state(state, self._write_value)
        if self._descriptions.text:
            root = self._descriptions.set_block(root, self._write_bytes(self._descriptions.text))
        self.live.update(self._descriptions.live)
        description = bytearray(CODEC.dumps(root))
        self.live[self._writer.number] += blocks_of(len(description))
        return self._write_bytes(description), len(description)

    def _write_bytes(self, text: bytearray) -> int:
        data = np.frombuffer(text, np.uint8)
        return self._writer.add(data, sums_of(data), len(text))

    def _write_leaf(self, path: str, leaf: CapturedLeaf | Described) -> Described:
        """Write a captured leaf, or count one that stays."""
        if isinstance(leaf, CapturedLeaf):
            live, self.live = self.live, Counter()
            try:
                if isinstance(leaf.state, DeferredBytes):
                    text = leaf.state.make()
                else:
                    text = CODEC.dumps(map_state(leaf.state, self._write_value, member_path(path)))
                leaf = self._descriptions.add(text, self.live)
            finally:
                self.live = live
        self.live.update(dict(leaf.live))
        self._descriptions.count_live(leaf)
        return leaf

    def _write_value(self, path: str, value: Any) -> Stored | Small | Described:
        if isinstance(value, CapturedLeaf | Described):
            return self._write_leaf(path, value)
        stored = self._write_part(path, value) if isinstance(value, Part) else self._write_stored(path, value)
        self._poll()
        if isinstance(stored, Stored):
            for pack, first, end in stored.block_ranges:
                self.live[pack] += end - first
        return stored

    def _write_stored(self, path: str, stored: Stored | Small) -> Stored | Small:
        """Return the location of an array that was not read since it was stored; copy it if its pack goes."""
        if isinstance(stored, Small) or self._is_retained(stored):
            return stored
        newer = self._previous.get(path)
        if isinstance(newer, Stored) and self._is_retained(newer):
            return newer
        if stored.pack in self._current:
            numbers = np.unique(
                np.concatenate([self._reader.patch_contents(one).blocks for one in stored.changes])
            )
            sums = self._reader.checksums(stored)[numbers]
            read_current = partial(self._read_stored, stored)
            patched = self._add_patch(
                stored, stored.used, numbers, sums, (), read_current, _max_patch_bytes(stored)
            )
            if patched is not None:
                return patched
        array = self._reader(stored)
        return self._write_whole(array, stored.used, stored.shape, fixed=stored.fixed)

    def _is_retained(self, stored: Stored) -> bool:
        return all(pack in self._current for pack, _, _ in stored.block_ranges)

    def _write_part(self, path: str, part: Part) -> Stored | Small:
        if part.rows is not None:
            # Here, not when captured: it takes as long as reading the whole array.
            room = part.array[:, part.rows :]
            if room.any():
                room[:] = 0
        array, used = part.array, part.array.shape[0] if part.used is None else part.used
        rows = array.shape[0] if part.used is None else max(2 * used, MIN_ROOM)
        if part.mutability is not Mutability.GROWING:
            rows = min(array.shape[0], rows)
        shape = (rows, *array.shape[1:])
        if prod(array.shape[1:]) * used * array.itemsize <= MAX_INLINE_BYTES:
            return Small(array[:used], shape)
        location = self._fixed.get(id(array)) if part.mutability is Mutability.FIXED else None
        if location is not None and self._is_retained(location):
            return location
        previous = self._previous.get(path)
        if (
            isinstance(previous, Stored)
            and _fits_in_place(previous, part, used)
            and previous.pack in self._current
        ):
            patched = self._write_patched(part, used, previous)
            if patched is not None:
                return patched
        return self._write_whole(array, used, shape, fixed=part.mutability is Mutability.FIXED)

    def _write_whole(self, array: Array, used: int, shape: tuple[int, ...], *, fixed: bool) -> Stored:
        data = bytes_of(array, used)
        block = self._writer.add(data, sums_of(data), prod(shape) * array.itemsize)
        return Stored(self._writer.number, block, array.dtype.str, shape, used, fixed=fixed)

    def _write_patched(self, part: Part, used: int, previous: Stored) -> Stored | None:
        """Write the changes of an array as a patch; return None if the patch is too large."""
        data = bytes_of(part.array, used)
        old_sums = self._reader.checksums(previous)[: blocks_of(data.shape[0])]
        unchanged_blocks = previous.size // BLOCK if part.mutability is Mutability.GROWING else 0
        sums = np.concatenate((old_sums[:unchanged_blocks], sums_of(data[unchanged_blocks * BLOCK :])))
        old_sums[blocks_of(previous.size) :] = ~sums[blocks_of(previous.size) :]
        numbers = np.flatnonzero(sums != old_sums)
        changes = previous.changes
        if len(changes) >= MAX_PATCHES or not self._is_retained(previous):
            # All changes since it was written whole become one patch.
            earlier = [self._reader.patch_contents(one).blocks for one in changes]
            numbers, changes = np.unique(np.concatenate((numbers, *earlier))), ()
            numbers = numbers[numbers < sums.shape[0]]
        if PATCH_SHARE * numbers.shape[0] > sums.shape[0] and data.shape[0] <= SMALL_BYTES:
            return None
        location = replace(previous, fixed=part.mutability is Mutability.FIXED)
        # Rows added to a group replace nothing, so a patch wastes no space.
        is_filling = part.rows is not None or (location.fixed and not previous.fixed)
        limit = previous.size if is_filling else _max_patch_bytes(previous)
        return self._add_patch(
            location, used, numbers, sums[numbers], changes, lambda some: gather_blocks(data, some), limit
        )

    def _add_patch(
        self,
        stored: Stored,
        used: int,
        numbers: Words,
        sums: Words,
        changes: tuple[Change | Patch, ...],
        current: Callable[[Words], Bytes],
        limit: int,
    ) -> Stored | None:
        """Write a patch for blocks that differ between ``current`` and the array with some changes.

        Return None if all patches together have more than ``limit`` bytes.
        """
        limit -= sum(BLOCK * one.blocks for one in changes)
        size, places, lines = 16 * numbers.shape[0], list[Words](), list[NDArray[np.uint8]]()
        for start in range(0, numbers.shape[0], RUN_BLOCKS):
            chunk = numbers[start : start + RUN_BLOCKS]
            place, line = changed_lines(current(chunk), self._read_previous(stored, chunk, changes), chunk)
            size += 8 * place.shape[0] + line.nbytes
            if size > limit:
                return None
            places.append(place)
            lines.append(line)
        if places:
            patch = write_patch(self._writer, numbers, sums, np.concatenate(places), np.concatenate(lines))
            changes = (*changes, patch)
        return replace(stored, used=used, changes=changes)

    def _read_previous(self, stored: Stored, numbers: Words, changes: tuple[Change | Patch, ...]) -> Bytes:
        pack = self._originals.get(stored.pack)
        return read_previous_blocks(pack, stored.block, changes, numbers, self._originals.get)

    def _read_stored(self, stored: Stored, numbers: Words) -> Bytes:
        """Return blocks of an array that no one has read.

        Raises:
            DamagedError: If they are not what was written.
        """
        blocks = self._read_previous(stored, numbers, stored.changes)
        wrong = np.flatnonzero(sums_of(blocks) != self._reader.checksums(stored)[numbers])
        if wrong.shape[0]:
            number = stored.block + int(numbers[wrong[0]])
            raise self._originals.get(stored.pack).damage_error(
                BLOCK * number, "it is not what was written there"
            )
        return blocks


def _max_patch_bytes(stored: Stored) -> int:
    """Return the limit for the patches of an array."""
    return max(stored.size, SMALL_BYTES) // PATCH_SHARE


def _fits_in_place(stored: Stored, part: Part, used: int) -> bool:
    """Return whether an array can stay at its location: it has the same shape, or enough room."""
    shape = part.array.shape
    if stored.dtype != part.array.dtype.str or stored.shape[1:] != shape[1:]:
        return False
    return stored.shape[0] == shape[0] if part.used is None else used <= stored.shape[0]


def read_state(packs: Packs, pack: int, block: int, size: int) -> State:
    """Return the state whose description begins at a block."""
    found = packs.get(pack)
    found.verify(block, block + blocks_of(size))
    return CODEC.decode(found.data[block * BLOCK : block * BLOCK + size].copy())


def values_by_path(state: State, path: str = "") -> dict[str, Any]:
    """Return the stored values of a state by path; ``path`` is that of the state."""
    values: dict[str, Any] = {}

    def collect(path: str, value: Any) -> Any:
        values[path] = value
        return value

    map_state(state, collect, path)
    return values


def fixed_arrays_by_path(state: State, path: str = "") -> dict[str, ReferenceType[Array]]:
    """Return weak references to the fixed arrays of a captured state, by path."""
    arrays: dict[str, ReferenceType[Array]] = {}

    def collect(path: str, value: Any) -> Any:
        if isinstance(value, Part) and value.mutability is Mutability.FIXED:
            arrays[path] = ref(value.array)
        return value

    map_state(state, collect, path)
    return arrays


class BranchReader:
    """Reader for a second worker, which shares no writable memory with the first one's reader."""

    def __init__(self, reader: Reader) -> None:
        """Map all packs that exist now: their files may be removed later."""
        self._reader = reader
        self._branch_maps: dict[int, Bytes] = {}
        for number, pack in list(reader.packs.mapped.items()):  # a checkpointing thread may map more packs
            with suppress(OSError, OperationalError):
                own = reader.packs.files.map(pack_name(number))
                if not np.may_share_memory(own, pack.data) and not np.may_share_memory(own, pack.writable):
                    self._branch_maps[number] = own

    def __call__(self, stored: Stored | Small) -> Array:
        """Return the array, which the caller owns.

        Raises:
            DamagedError: If it is not what was written.
        """
        if isinstance(stored, Small) or (stored.fixed and not stored.changes):
            return self._reader(stored)
        for pack, first, end in stored.block_ranges:
            self._reader.packs.get(pack).verify(first, end)
        data = self._bytes(stored)
        for change in stored.changes:
            self._reader.patch_contents(change).apply(data.reshape(-1, LINE))
        return data[: stored.room].view(stored.dtype).reshape(stored.shape)

    def _bytes(self, stored: Stored) -> Bytes:
        start, room = stored.block * BLOCK, blocks_of(stored.room) * BLOCK
        own = self._branch_maps.get(stored.pack)
        if own is not None:
            return own[start : start + room]
        data, size = np.empty(room, np.uint8), blocks_of(stored.size) * BLOCK
        data[:size] = self._reader.packs.get(stored.pack).data[start : start + size]
        data[size:] = 0
        return data
