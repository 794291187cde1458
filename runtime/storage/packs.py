"""Packs: checksummed files of blocks that are written once and memory-mapped for reading.

A pack is a sequence of 4 KB blocks, then one checksum for each block, then a footer with the checksum of
these checksums. Every stored object starts at a block. Spare room for a growing array is blocks that are
never written, which most file systems store as holes.

* Column compression (:func:`pack`, :func:`unpack`): a column of equal words is one word; other columns are
  bit-packed as offsets from the least word. The lowest codes stand for NULL and ERROR.
* :class:`Manifest`: the pack files of a database and the log segment to replay from. It is written beside the
  old one and renamed over it, so one complete manifest always exists.
* :class:`Placed` and :class:`PlacedStrings`: log records that refer to rows and strings in packs.
* :class:`Shard`: rows that one worker of many wrote to a pack of its own. Its text columns refer to strings
  in the same pack, so any worker can read it.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import OperationalError
from kpg.runtime.kernels.checksum import checksums
from kpg.runtime.kernels.frames import bounds, encode
from kpg.runtime.records import dataclass
from kpg.runtime.storage.codec import Codec, DamagedError
from kpg.runtime.storage.files import Bytes, Disk, File, Files, Piece, checksum_of, read_in
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]


Packed = int | Words | tuple[int, int, Words] | tuple[int, NDArray[Any]]
"""A column: the word of all rows; or the words; or the least word, the bits of a code, and words of codes;
or, in logs of version 2 and before, the least word and an array of codes."""

FEW: Final = 16
"""So few rows are written as they are."""
RESERVED: Final = {0: NULL, 1: ERROR}
BITS: Final = 64
WIDEST: Final = 32
"""Bits of a code at most: of wider ones no two go into a word."""


def pack(words: Words) -> Words | tuple[Packed, ...]:
    """Rows ``int64[ncols, n]``: themselves if they are few, else by columns."""
    if words.shape[1] <= FEW:
        return words
    found = np.zeros(2, np.int64)
    return tuple(_packed(np.ascontiguousarray(column), found) for column in words)


def _packed(column: Words, found: Words) -> Packed:
    reserved = bounds(column, found)
    least, most = found.tolist()
    if reserved == column.shape[0]:
        least = most = 0
    if reserved in (0, column.shape[0]) and least == most and not (column != column[0]).any():
        return int(column[0])
    below = least - len(RESERVED)
    width = (most - below).bit_length()
    if width > WIDEST:
        return column
    codes = np.empty(-(-column.shape[0] // (BITS // width)), np.int64)
    encode(column, below, width, codes)
    return least, width, codes


def unpack(packed: Words | tuple[Packed, ...], count: int) -> Words:
    """The rows that were packed, ``count`` of them."""
    if isinstance(packed, np.ndarray):
        return packed
    words = np.empty((len(packed), count), np.int64)
    for column, out in zip(packed, words, strict=True):
        if isinstance(column, tuple):
            out[:] = column[1] if len(column) == 2 else _decoded(*column[1:], count)
            _add(column[0], out)
        else:
            out[:] = column
    return words


def _decoded(width: int, words: Words, count: int) -> Words:
    """The codes of some rows; see ``kernels.frames.encode``."""
    shifts = np.arange(0, BITS - width + 1, width)[:, None]
    return ((words >> shifts) & ((1 << width) - 1)).reshape(-1)[:count]


def _add(least: int, codes: Words) -> None:
    """Have words stand where codes are."""
    reserved = {word: np.flatnonzero(codes == code) for code, word in RESERVED.items()}
    codes += least - len(RESERVED)
    for word, rows in reserved.items():
        codes[rows] = word


NAME: Final = "manifest"
NEW: Final = "manifest.new"
MANIFEST_MAGIC: Final = int.from_bytes(b"kpgmanif", "little")
MANIFEST_VERSION: Final = 1
HEADER_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class PackFacts:
    """A pack of a checkpoint: the blocks that were in use when it was written, and those that are now."""

    number: int
    used: int
    live: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is in packs: the state as of an epoch, whose description is at a block of the newest pack."""

    epoch: int
    packs: tuple[PackFacts, ...]
    block: int
    size: int
    """Bytes of the description."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A database, known by a number; its log begins with a segment."""

    database: int
    segment: int
    checkpoint: Checkpoint | None = None


CODEC: Final = Codec((Manifest, Checkpoint, PackFacts))


def write_beside(files: Files, manifest: Manifest, name: str = NEW) -> None:
    """Write a manifest that :func:`swap` makes the one that counts."""
    if name in files.list():
        files.remove(name)
    data = CODEC.dumps(manifest)
    header = np.array([MANIFEST_MAGIC, MANIFEST_VERSION, len(data)], np.int64).tobytes()
    header += np.array([checksum_of([header, data])], np.int64).tobytes()
    file = files.create(name)
    try:
        file.write(0, [header, data])
        file.sync()
    finally:
        file.close()


def swap(files: Files, name: str = NEW) -> None:
    """Have the manifest written beside be the one that counts, whatever happens."""
    files.rename(name, NAME)
    files.sync()


def read_manifest(files: Files, name: str = NAME) -> Manifest | None:
    """The manifest; None if there is none. OperationalError if it is newer, DamagedError if it is none."""
    where = f"{files.where}/{name}"
    if name not in files.list():
        return None
    data = files.map(name)
    read_in(data)
    header = data[: 8 * HEADER_WORDS].copy().view(np.int64).tolist() if data.shape[0] >= 32 else [0]
    if header[0] != MANIFEST_MAGIC:
        raise DamagedError(f"{where} is no manifest of kpg", hint="the folder is damaged, or not kpg's")
    if header[1] > MANIFEST_VERSION:
        raise OperationalError(
            f"{where} has format {header[1]}, and this kpg knows formats up to {MANIFEST_VERSION}",
            hint="open it with a newer kpg",
        )
    rest = data[8 * HEADER_WORDS :]
    if rest.shape[0] != header[2] or checksum_of([data[:24].tobytes(), rest.tobytes()]) != header[3]:
        raise DamagedError(f"{where} is damaged: it has another checksum", hint="restore a backup")
    manifest = CODEC.decode(rest)
    assert isinstance(manifest, Manifest)
    return manifest


BLOCK: Final = 4096
WORDS: Final = BLOCK // 8
PACK_MAGIC: Final = int.from_bytes(b"kpgpack\n", "little")
PACK_VERSION: Final = 5
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
            [PACK_MAGIC, PACK_VERSION, self._database, self.number, self.blocks, contents, 0, 0], np.int64
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
        if words[0] != PACK_MAGIC or words[-1] != checksum_of([footer[:-8].tobytes()]):
            raise self.damaged(data.shape[0] - 8 * FOOTER_WORDS, "its end is not that of a pack")
        if words[1] > PACK_VERSION:
            raise OperationalError(
                f"{self.where} has format {words[1]}, and this kpg knows formats up to {PACK_VERSION}",
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


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows of a group of a table, in a pack from a block on: ``width`` columns with ``stride`` words each."""

    group: int
    pack: int
    block: int
    width: int
    stride: int


@dataclass(frozen=True, slots=True)
class PlacedStrings:
    """All strings of the dictionary, ``count`` of them, in a pack: their bytes, and where each begins.

    Those that a record brings are from its first code on.
    """

    pack: int
    block: int
    size: int
    offsets: int
    count: int


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows that one worker has written into a pack of its own, with their text; no pack without rows."""

    pack: int
    rows: int
    strings: tuple[int, int, int, int]
    """The block and the bytes of where each string begins, and of all of them."""
    chunks: tuple[tuple[int, int, int], ...]
    """Of some rows at a time their block, bytes and number."""

    @property
    def blocks(self) -> int:
        """How many blocks the pack has."""
        places = [self.strings[:2], self.strings[2:], *(one[:2] for one in self.chunks)]
        return max(block + blocks_of(size) for block, size in places)


@dataclass(frozen=True, slots=True)
class Sharded:
    """Rows that several workers have written: those of the first, of the second, and so on."""

    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(one.rows for one in self.shards)


def packs_of(rows: Iterable[tuple[object, ...]], strings: tuple[object, ...] | None = None) -> set[int]:
    """The packs that the rows and strings of a record are in."""
    parts = [one[-1] for one in (*rows, strings) if one is not None]
    named = {one.pack for one in parts if isinstance(one, Placed | PlacedStrings)}
    shards = [one for some in parts if isinstance(some, Sharded) for one in some.shards]
    return named | {one.pack for one in shards if one.rows}


Strings = tuple[Words, Bytes]
"""Strings ``data[bounds[i]:bounds[i + 1]]``."""

SHARDS_CODEC: Final = Codec()
SPECIAL: Final = max(NULL, ERROR)
"""Words up to it are no strings."""


def through(codes: Words, words: Words) -> Words:
    """What ``codes`` has for each word of text, NULL and ERROR as they are."""
    special = words <= SPECIAL
    if not special.any():
        return codes[words]
    found = words.copy()
    found[~special] = codes[words[~special]]
    return found


def recoded(words: Words, texts: Sequence[int], codes: Words) -> Words:
    """Rows with other codes for their text."""
    if not texts:
        return words
    words = words.copy()
    for column in texts:
        words[column] = through(codes, words[column])
    return words


def spoken(parts: Iterable[Words], texts: Sequence[int], count: int) -> Words:
    """Which of ``count`` codes stand in columns of text, ascending."""
    found = np.zeros(count, np.bool_)
    for words in parts:
        for column in texts:
            found[words[column][words[column] > SPECIAL]] = True
    return np.flatnonzero(found)


def seen(folder: str, database: int) -> Files | None:
    """The files of a database, if this machine sees its folder."""
    files = Disk(folder)
    try:
        manifest = read_manifest(files)
    except (OSError, OperationalError):
        return None
    return files if manifest is not None and manifest.database == database else None


def write(files: Files, number: int, database: int, strings: Strings, parts: Iterable[Words]) -> Shard:
    """Write rows, in words of ``strings``, as the pack of a number, and have it be there whatever happens.

    If that fails, nothing is left of it, if it can be helped.
    """
    writer = PackWriter(files, number, database)
    try:
        bounds, data = strings
        where = [_put(writer, some) for some in (bounds.view(np.uint8), data)]
        chunks, rows = [], 0
        for words in parts:
            block, size = _put(writer, np.frombuffer(SHARDS_CODEC.dumps(pack(words)), np.uint8))
            chunks.append((block, size, words.shape[1]))
            rows += words.shape[1]
        writer.finish()
        files.sync()
    except BaseException:
        with suppress(OSError):
            writer.abandon()
        raise
    return Shard(number, rows, (*where[0], *where[1]), tuple(chunks))


def _put(writer: PackWriter, data: Bytes) -> tuple[int, int]:
    return writer.add(data, sums_of(data), data.shape[0]), data.shape[0]


class Vault:
    """The shards of a database. ``folder`` is where workers see them; None where they are not to look."""

    def __init__(self, files: Files, database: int, folder: str | None = None) -> None:
        self.files = files
        self.database = database
        self.folder = folder

    def strings(self, shard: Shard) -> Strings:
        """The strings of its text; DamagedError if they are not what was written."""
        pack, (bounds, bounds_size, data, data_size) = self._pack(shard), shard.strings
        return _bytes(pack, bounds, bounds_size).view(np.int64), _bytes(pack, data, data_size)

    def parts(self, shard: Shard) -> Iterator[Words]:
        """Its rows, some at a time, in numbers of its strings; DamagedError as of :meth:`strings`."""
        pack = self._pack(shard)
        for block, size, rows in shard.chunks:
            yield unpack(SHARDS_CODEC.decode(_bytes(pack, block, size)), rows)

    def sees(self, shard: Shard) -> bool:
        """Whether what another process has written is there."""
        try:
            return self._pack(shard).blocks == shard.blocks
        except (DamagedError, OSError):
            return False

    def _pack(self, shard: Shard) -> Pack:
        return Pack(self.files, shard.pack, self.database, written=False)


def _bytes(pack: Pack, block: int, size: int) -> Bytes:
    pack.verify(block, block + blocks_of(size))
    return pack.data[block * BLOCK : block * BLOCK + size]


def without_rows() -> Shard:
    """What a worker that has no rows has written: nothing."""
    return Shard(0, 0, (0, 0, 0, 0), ())
