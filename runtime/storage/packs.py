"""Packs: files of blocks that are written once, and mapped when they are read.

A pack is blocks of 4 KB, then the checksum of each, then a footer with the checksum of these; so every bit of
it is under one. What is stored begins at a block of its own. Room that an array may grow into is blocks that
were never written, which take no place on most disks.
"""

import time
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import OperationalError
from kpg.runtime.kernels.checksum import checksums
from kpg.runtime.storage.checksum import checksum_of
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.files import Bytes, File, Files, Piece
from kpg.runtime.storage.mapped import read_in

Words = NDArray[np.int64]

BLOCK: Final = 4096
WORDS: Final = BLOCK // 8
MAGIC: Final = int.from_bytes(b"kpgpack\n", "little")
VERSION: Final = 5
FOOTER_WORDS: Final = 8
RUN: Final = 1 << 10
"""Blocks that are checked or written at a time; who writes beside others syncs as often."""


def pack_name(number: int) -> str:
    """The file of a pack."""
    return f"pack-{number:08}"


def pack_number(name: str) -> int | None:
    """The number of the pack that a file is, None if it is none."""
    return int(name[5:]) if name.startswith("pack-") and name[5:].isdigit() else None


def blocks_of(size: int) -> int:
    """How many blocks so many bytes take."""
    return -(-size // BLOCK)


def sums_of(data: Bytes) -> Words:
    """The checksum of each block of some bytes, the last one filled up with zeros."""
    data = data if data.flags.writeable else data.copy()
    whole = data.shape[0] // BLOCK
    sums = np.empty(blocks_of(data.shape[0]), np.int64)
    checksums(data[: whole * BLOCK].view(np.int64), WORDS, sums[:whole])
    if whole < sums.shape[0]:
        last = np.zeros(BLOCK, np.uint8)
        last[: data.shape[0] - whole * BLOCK] = data[whole * BLOCK :]
        checksums(last.view(np.int64), WORDS, sums[whole:])
    return sums


LONGEST: Final = 0.02
"""Seconds that who writes beside others waits for them at a time."""
EMPTY: Final = 7707748550911621600
"""The checksum of a block of zeros."""


class PackWriter:
    """A pack that is being written: blocks in order, of which those of zeros are left out.

    One that is written ``beside`` what others write is synced and waited with again and again: a sync of
    theirs then has little to wait for.
    """

    def __init__(self, files: Files, number: int, database: int, *, beside: bool = False) -> None:
        self.number = number
        self._beside = beside
        self._unsynced = 0
        self.blocks = 0
        self.used = 0
        """Blocks that are more than room."""
        self._files = files
        self._database = database
        self._sums: list[Words] = []
        self._file: File = files.create(pack_name(number))

    def add(self, data: Bytes, sums: Words, room: int) -> int:
        """Write bytes whose blocks have these checksums, and leave blocks free up to ``room`` bytes.

        The first of the blocks.
        """
        first = self.blocks
        for start, end in _runs(sums != EMPTY):
            part: list[Piece] = [data[start * BLOCK : end * BLOCK].data]
            if end * BLOCK > data.shape[0]:
                part.append(bytes(end * BLOCK - data.shape[0]))
            self._file.write((first + start) * BLOCK, part)
            self._unsynced += end - start
            if self._beside and self._unsynced >= RUN:
                self._give_way()
        self.used += sums.shape[0]
        free = blocks_of(max(room, data.shape[0])) - sums.shape[0]
        self._sums += [sums, np.full(free, EMPTY, np.int64)]
        self.blocks += sums.shape[0] + free
        return first

    def _give_way(self) -> None:
        start = time.perf_counter()
        self._file.sync()
        self._unsynced = 0
        time.sleep(min(LONGEST, time.perf_counter() - start))

    def finish(self) -> None:
        """Write what ends the pack, and have all of it be there whatever happens."""
        sums = np.concatenate(self._sums) if self._sums else np.empty(0, np.int64)
        contents = checksum_of([sums.tobytes()])
        footer = np.array(
            [MAGIC, VERSION, self._database, self.number, self.blocks, contents, 0, 0], np.int64
        )
        footer[-1] = checksum_of([footer[:-1].tobytes()])
        self._file.write(self.blocks * BLOCK, [sums.tobytes(), footer.tobytes()])
        self._file.sync()
        self._file.close()

    def abandon(self) -> None:
        """Leave no file behind, if it can be helped."""
        self._file.close()
        self._files.remove(pack_name(self.number))


def _runs(wanted: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """The stretches that are wanted, of bounded length."""
    edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False)).tolist()
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        for first in range(start, end, RUN):
            yield first, min(end, first + RUN)


class Pack:
    """A pack that is mapped. DamagedError names the file, and the first byte of the block that is wrong.

    OperationalError if the disk fails.

    It is mapped twice, ``data`` to be read and ``own`` for arrays that may be written to: a page that was
    written has ``fork`` copy what is known of all pages of its mapping, and most of a pack is never written.
    """

    def __init__(self, files: Files, number: int, database: int, *, written: bool = True) -> None:
        self.where = f"{files.where}/{pack_name(number)}"
        try:
            data = files.map(pack_name(number))
            own = files.map(pack_name(number)) if written else data
        except FileNotFoundError:
            raise DamagedError(f"{self.where} is missing", hint="restore a backup") from None
        footer = data[data.shape[0] - 8 * FOOTER_WORDS :] if data.shape[0] % 8 == 0 else data[:0]
        self._read_in(footer)
        words = footer.view(np.int64).tolist() if footer.shape[0] == 8 * FOOTER_WORDS else [0]
        if words[0] != MAGIC or words[-1] != checksum_of([footer[:-8].tobytes()]):
            raise self.damaged(data.shape[0] - 8 * FOOTER_WORDS, "its end is not that of a pack")
        if words[1] > VERSION:
            raise OperationalError(
                f"{self.where} has format {words[1]}, and this kpg knows formats up to {VERSION}",
                hint="open it with a newer kpg",
            )
        if (words[2], words[3]) != (database, number):
            raise DamagedError(f"{self.where} is a pack of another database, or another part of this one's")
        self.blocks: int = words[4]
        end = self.blocks * BLOCK
        sums = data[end : data.shape[0] - 8 * FOOTER_WORDS]
        self._read_in(sums)
        if sums.shape[0] != 8 * self.blocks or checksum_of([sums.tobytes()]) != words[5]:
            raise self.damaged(end, "its checksums are not what was written")
        self.data: Bytes = data[:end]
        self.own: Bytes = own[:end]
        self.sums: Words = sums.view(np.int64).copy()  # where it is mapped it might have to be read again

    def _read_in(self, data: Bytes) -> None:
        try:
            read_in(data)
        except OSError as error:
            raise OperationalError(
                f"{self.where} cannot be read: {error.strerror}", hint="see to the disk, or restore a backup"
            ) from error

    def damaged(self, at: int, why: str) -> DamagedError:
        """The error for what is wrong there."""
        hint = "restore a backup; kpg check FOLDER tells what else is wrong"
        return DamagedError(f"{self.where} is damaged at byte {max(at, 0)}: {why}", hint=hint)

    def verify(self, first: int, end: int) -> None:
        """Have blocks be what was written."""
        for start in range(first, end, RUN):
            stop = min(end, start + RUN)
            data = self.data[start * BLOCK : stop * BLOCK]
            self._read_in(data)
            found = sums_of(data)
            wrong = np.flatnonzero(found != self.sums[start:stop])
            if wrong.shape[0]:
                raise self.damaged(BLOCK * (start + int(wrong[0])), "it is not what was written there")


class Packs:
    """The packs of a database, mapped when they are first asked for; ``written`` if arrays of them may be."""

    def __init__(self, files: Files, database: int, *, written: bool = True) -> None:
        self.files = files
        self.database = database
        self._written = written
        self.mapped: dict[int, Pack] = {}

    def get(self, number: int) -> Pack:
        """A pack."""
        found = self.mapped.get(number)
        if found is None:
            found = self.mapped[number] = Pack(self.files, number, self.database, written=self._written)
        return found
