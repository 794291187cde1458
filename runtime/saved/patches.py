"""What has changed of an array since it was written, beside it: lines of 64 bytes, and what blocks are then.

An insert into a hash table changes a word somewhere in a block of 4 KB, so blocks are only what finds that
something has changed: their checksums tell. The lines that have are found by looking at what is on the disk.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.records import dataclass
from kpg.runtime.storage.files import Bytes
from kpg.runtime.storage.packs import BLOCK, Pack, PackWriter, blocks_of, sums_of

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
