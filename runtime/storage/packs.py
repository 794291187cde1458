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
  in
  the same pack, so any worker can read it.
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
from kpg.runtime.storage.files import Bytes, Disk, File, Files, Piece, checksum_of, prefault
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]


PackedColumn = int | Words | tuple[int, int, Words] | tuple[int, NDArray[Any]]
"""A packed column, in one of these forms.

The word of all rows; all words; or the least word, the bits of a code, and words of codes. Logs up to version
2
also have the least word and an array of codes.
"""

MAX_UNPACKED_ROWS: Final = 16
"""Rows up to which they are not packed."""
SPECIAL_CODES: Final = {0: NULL, 1: ERROR}
WORD_BITS: Final = 64
MAX_CODE_BITS: Final = 32
"""Maximum bits of a code: a word has room for two."""


def pack(words: Words) -> Words | tuple[PackedColumn, ...]:
    """Pack rows ``int64[ncols, n]`` by columns; few rows are returned unchanged."""
    if words.shape[1] <= MAX_UNPACKED_ROWS:
        return words
    scratch = np.zeros(2, np.int64)
    return tuple(_pack_column(np.ascontiguousarray(column), scratch) for column in words)


def _pack_column(column: Words, scratch: Words) -> PackedColumn:
    reserved = bounds(column, scratch)
    least, greatest = scratch.tolist()
    if reserved == column.shape[0]:
        least = greatest = 0
    if reserved in (0, column.shape[0]) and least == greatest and not (column != column[0]).any():
        return int(column[0])
    base = least - len(SPECIAL_CODES)
    width = (greatest - base).bit_length()
    if width > MAX_CODE_BITS:
        return column
    codes = np.empty(-(-column.shape[0] // (WORD_BITS // width)), np.int64)
    encode(column, base, width, codes)
    return least, width, codes


def unpack(packed: Words | tuple[PackedColumn, ...], count: int) -> Words:
    """Return the ``count`` rows that were packed."""
    if isinstance(packed, np.ndarray):
        return packed
    words = np.empty((len(packed), count), np.int64)
    for column, out in zip(packed, words, strict=True):
        if isinstance(column, tuple):
            out[:] = column[1] if len(column) == 2 else _unpack_codes(*column[1:], count)
            _codes_to_words(column[0], out)
        else:
            out[:] = column
    return words


def _unpack_codes(width: int, words: Words, count: int) -> Words:
    """Return the codes of ``count`` rows; see ``kernels.frames.encode``."""
    shifts = np.arange(0, WORD_BITS - width + 1, width)[:, None]
    return ((words >> shifts) & ((1 << width) - 1)).reshape(-1)[:count]


def _codes_to_words(least: int, codes: Words) -> None:
    """Replace codes by words, in place."""
    reserved = {word: np.flatnonzero(codes == code) for code, word in SPECIAL_CODES.items()}
    codes += least - len(SPECIAL_CODES)
    for word, rows in reserved.items():
        codes[rows] = word


MANIFEST_NAME: Final = "manifest"
NEW_MANIFEST_NAME: Final = "manifest.new"
MANIFEST_MAGIC: Final = int.from_bytes(b"kpgmanif", "little")
MANIFEST_VERSION: Final = 1
HEADER_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class PackFacts:
    """A pack of a checkpoint: its blocks in use when it was written, and now."""

    number: int
    used: int
    live: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state as of an epoch in packs; its description begins at a block of the newest pack."""

    epoch: int
    packs: tuple[PackFacts, ...]
    block: int
    size: int
    """Bytes of the description."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The identifying number of a database, the first segment of its log, and its checkpoint."""

    database: int
    segment: int
    checkpoint: Checkpoint | None = None


CODEC: Final = Codec((Manifest, Checkpoint, PackFacts))


def write_manifest(files: Files, manifest: Manifest, name: str = NEW_MANIFEST_NAME) -> None:
    """Write a manifest under a name from which :func:`activate_manifest` makes it current."""
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


def activate_manifest(files: Files, name: str = NEW_MANIFEST_NAME) -> None:
    """Make a written manifest current, durably.

    ``CheckpointStore.adopt`` does the same, and takes over the new state between the two steps.
    """
    files.rename(name, MANIFEST_NAME)
    files.sync()


def read_manifest(files: Files, name: str = MANIFEST_NAME) -> Manifest | None:
    """Return the manifest; None if there is no file of that name.

    Raises:
        OperationalError: If its format is newer.
        DamagedError: If the file is damaged, or no manifest.
    """
    where = f"{files.where}/{name}"
    if name not in files.list():
        return None
    data = files.map(name)
    prefault(data)
    header = data[: 8 * HEADER_WORDS].copy().view(np.int64).tolist() if data.shape[0] >= 32 else [0]
    if header[0] != MANIFEST_MAGIC:
        raise DamagedError(f"{where} is not a manifest of kpg", hint="the folder is damaged, or not from kpg")
    if header[1] > MANIFEST_VERSION:
        raise OperationalError(
            f"{where} has format {header[1]}, and this kpg knows formats up to {MANIFEST_VERSION}",
            hint="open it with a newer kpg",
        )
    content = data[8 * HEADER_WORDS :]
    if content.shape[0] != header[2] or checksum_of([data[:24].tobytes(), content.tobytes()]) != header[3]:
        raise DamagedError(f"{where} is damaged: its checksum is wrong", hint="restore a backup")
    manifest = CODEC.decode(content)
    assert isinstance(manifest, Manifest)
    return manifest


BLOCK: Final = 4096
"""Bytes of a block."""
BLOCK_WORDS: Final = BLOCK // 8
PACK_MAGIC: Final = int.from_bytes(b"kpgpack\n", "little")
PACK_VERSION: Final = 5
FOOTER_WORDS: Final = 8
RUN_BLOCKS: Final = 1 << 10
"""Blocks that are verified or written at a time, and after which a yielding writer syncs."""


def pack_name(number: int) -> str:
    """Return the file name of a pack."""
    return f"pack-{number:08}"


def pack_number(name: str) -> int | None:
    """Return the number of a pack from its file name; None for other files."""
    return int(name[5:]) if name.startswith("pack-") and name[5:].isdigit() else None


def blocks_of(size: int) -> int:
    """Return the number of blocks for ``size`` bytes."""
    return -(-size // BLOCK)


def sums_of(data: Bytes) -> Words:
    """Return the checksum of each block of the data, the last one padded with zeros."""
    data = data if data.flags.writeable else data.copy()
    whole = data.shape[0] // BLOCK
    sums = np.empty(blocks_of(data.shape[0]), np.int64)
    checksums(data[: whole * BLOCK].view(np.int64), BLOCK_WORDS, sums[:whole])
    if whole < sums.shape[0]:
        last = np.zeros(BLOCK, np.uint8)
        last[: data.shape[0] - whole * BLOCK] = data[whole * BLOCK :]
        checksums(last.view(np.int64), BLOCK_WORDS, sums[whole:])
    return sums


MAX_YIELD_SECONDS: Final = 0.02
"""Maximum pause of a writer that yields the disk to others."""
ZERO_BLOCK_SUM: Final = 7707748550911621600
"""Checksum of a block of zeros."""


class PackWriter:
    """Writes a pack block by block; blocks of zeros become holes.

    With ``yields_disk`` it often syncs and pauses, so that a sync of another writer has little to wait for.
    """

    def __init__(self, files: Files, number: int, database: int, *, yields_disk: bool = False) -> None:
        self.number = number
        self._yields_disk = yields_disk
        self._unsynced_blocks = 0
        self.blocks = 0
        self.used = 0
        """Blocks with data, in contrast to spare room."""
        self._files = files
        self._database = database
        self._sums: list[Words] = []
        self._file: File = files.create(pack_name(number))

    def add(self, data: Bytes, sums: Words, room: int) -> int:
        """Write data with these block checksums, with room up to ``room`` bytes; return the first block."""
        first = self.blocks
        for start, end in _runs(sums != ZERO_BLOCK_SUM):
            part: list[Piece] = [data[start * BLOCK : end * BLOCK].data]
            if end * BLOCK > data.shape[0]:
                part.append(bytes(end * BLOCK - data.shape[0]))
            self._file.write((first + start) * BLOCK, part)
            self._unsynced_blocks += end - start
            if self._yields_disk and self._unsynced_blocks >= RUN_BLOCKS:
                self._yield_disk()
        self.used += sums.shape[0]
        free = blocks_of(max(room, data.shape[0])) - sums.shape[0]
        self._sums += [sums, np.full(free, ZERO_BLOCK_SUM, np.int64)]
        self.blocks += sums.shape[0] + free
        return first

    def _yield_disk(self) -> None:
        start = time.perf_counter()
        self._file.sync()
        self._unsynced_blocks = 0
        time.sleep(min(MAX_YIELD_SECONDS, time.perf_counter() - start))

    def finish(self) -> None:
        """Write checksums and footer, and make the pack durable."""
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
        """Close and remove the file, as far as possible."""
        self._file.close()
        self._files.remove(pack_name(self.number))


def _runs(is_selected: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of selected blocks, of bounded length."""
    edges = np.flatnonzero(np.diff(is_selected, prepend=False, append=False)).tolist()
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        for first in range(start, end, RUN_BLOCKS):
            yield first, min(end, first + RUN_BLOCKS)


class Pack:
    """A mapped pack.

    It is mapped twice: ``data`` is read, and ``writable`` holds arrays that may be written. After a write to
    a mapping, ``fork`` copies the page tables of the whole mapping, and most of a pack is never written.

    Raises:
        DamagedError: With the file and the first byte of the damaged block.
        OperationalError: If the disk fails.
    """

    def __init__(self, files: Files, number: int, database: int, *, is_writable: bool = True) -> None:
        self.where = f"{files.where}/{pack_name(number)}"
        try:
            data = files.map(pack_name(number))
            own = files.map(pack_name(number)) if is_writable else data
        except FileNotFoundError:
            raise DamagedError(f"{self.where} is missing", hint="restore a backup") from None
        footer = data[data.shape[0] - 8 * FOOTER_WORDS :] if data.shape[0] % 8 == 0 else data[:0]
        self._prefault(footer)
        words = footer.view(np.int64).tolist() if footer.shape[0] == 8 * FOOTER_WORDS else [0]
        if words[0] != PACK_MAGIC or words[-1] != checksum_of([footer[:-8].tobytes()]):
            raise self.damage_error(data.shape[0] - 8 * FOOTER_WORDS, "its end is not that of a pack")
        if words[1] > PACK_VERSION:
            raise OperationalError(
                f"{self.where} has format {words[1]}, and this kpg knows formats up to {PACK_VERSION}",
                hint="open it with a newer kpg",
            )
        if (words[2], words[3]) != (database, number):
            raise DamagedError(f"{self.where} is a pack of another database, or another pack")
        self.blocks: int = words[4]
        end = self.blocks * BLOCK
        sums = data[end : data.shape[0] - 8 * FOOTER_WORDS]
        self._prefault(sums)
        if sums.shape[0] != 8 * self.blocks or checksum_of([sums.tobytes()]) != words[5]:
            raise self.damage_error(end, "its checksums are not what was written")
        self.data: Bytes = data[:end]
        self.writable: Bytes = own[:end]
        self.sums: Words = sums.view(np.int64).copy()  # where it is mapped it might have to be read again

    def _prefault(self, data: Bytes) -> None:
        try:
            prefault(data)
        except OSError as error:
            raise OperationalError(
                f"{self.where} cannot be read: {error.strerror}", hint="see to the disk, or restore a backup"
            ) from error

    def damage_error(self, at: int, reason: str) -> DamagedError:
        """Return the error for damage at a byte."""
        hint = "restore a backup; kpg check FOLDER finds all damage"
        return DamagedError(f"{self.where} is damaged at byte {max(at, 0)}: {reason}", hint=hint)

    def verify(self, first: int, end: int) -> None:
        """Check that blocks are as they were written.

        Raises:
            DamagedError: If they are not.
        """
        for start in range(first, end, RUN_BLOCKS):
            stop = min(end, start + RUN_BLOCKS)
            data = self.data[start * BLOCK : stop * BLOCK]
            self._prefault(data)
            found = sums_of(data)
            wrong = np.flatnonzero(found != self.sums[start:stop])
            if wrong.shape[0]:
                raise self.damage_error(BLOCK * (start + int(wrong[0])), "it is not what was written there")


class Packs:
    """The packs of a database, mapped on first use; with ``is_writable`` their arrays may be written."""

    def __init__(self, files: Files, database: int, *, is_writable: bool = True) -> None:
        self.files = files
        self.database = database
        self._is_writable = is_writable
        self.mapped: dict[int, Pack] = {}

    def get(self, number: int) -> Pack:
        """Return a pack."""
        found = self.mapped.get(number)
        if found is None:
            found = self.mapped[number] = Pack(
                self.files, number, self.database, is_writable=self._is_writable
            )
        return found


@dataclass(frozen=True, slots=True)
class Placed:
    """Location in a pack of the rows of a table's group: ``width`` columns of ``stride`` words each."""

    group: int
    pack: int
    block: int
    width: int
    stride: int


@dataclass(frozen=True, slots=True)
class PlacedStrings:
    """Location in a pack of all ``count`` strings of the dictionary: their bytes and offsets.

    The strings that a record adds are those from its first code on.
    """

    pack: int
    block: int
    size: int
    offsets: int
    count: int


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows, with their text, that one worker has written to a pack of its own; without rows, no pack."""

    pack: int
    rows: int
    strings: tuple[int, int, int, int]
    """Block and size of the strings' bounds, then of their bytes."""
    chunks: tuple[tuple[int, int, int], ...]
    """Block, size and number of rows of each chunk."""

    @property
    def blocks(self) -> int:
        """Number of blocks of the pack."""
        places = [self.strings[:2], self.strings[2:], *(one[:2] for one in self.chunks)]
        return max(block + blocks_of(size) for block, size in places)


@dataclass(frozen=True, slots=True)
class Sharded:
    """Rows that several workers have written, in the order of the workers."""

    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(one.rows for one in self.shards)


def packs_of(rows: Iterable[tuple[object, ...]], strings: tuple[object, ...] | None = None) -> set[int]:
    """Return the packs that contain rows and strings of a log record."""
    parts = [one[-1] for one in (*rows, strings) if one is not None]
    numbers = {one.pack for one in parts if isinstance(one, Placed | PlacedStrings)}
    shards = [one for some in parts if isinstance(some, Sharded) for one in some.shards]
    return numbers | {one.pack for one in shards if one.rows}


Strings = tuple[Words, Bytes]
"""Strings ``data[bounds[i]:bounds[i + 1]]``."""

SHARDS_CODEC: Final = Codec()
MAX_SPECIAL: Final = max(NULL, ERROR)
"""Words up to this one are NULL or ERROR."""


def translate(codes: Words, words: Words) -> Words:
    """Return ``codes[word]`` for each word of text; NULL and ERROR stay."""
    special = words <= MAX_SPECIAL
    if not special.any():
        return codes[words]
    translated = words.copy()
    translated[~special] = codes[words[~special]]
    return translated


def translate_columns(words: Words, text_columns: Sequence[int], codes: Words) -> Words:
    """Return rows whose text columns have other codes."""
    if not text_columns:
        return words
    words = words.copy()
    for column in text_columns:
        words[column] = translate(codes, words[column])
    return words


def used_codes(parts: Iterable[Words], text_columns: Sequence[int], count: int) -> Words:
    """Return which of ``count`` codes occur in text columns, ascending."""
    occurs = np.zeros(count, np.bool_)
    for words in parts:
        for column in text_columns:
            occurs[words[column][words[column] > MAX_SPECIAL]] = True
    return np.flatnonzero(occurs)


def find_database(folder: str, database: int) -> Files | None:
    """Return the files of a database if this machine can read its folder; else None."""
    files = Disk(folder)
    try:
        manifest = read_manifest(files)
    except (OSError, OperationalError):
        return None
    return files if manifest is not None and manifest.database == database else None


def write_shard(files: Files, number: int, database: int, strings: Strings, parts: Iterable[Words]) -> Shard:
    """Write rows whose words are codes of ``strings`` as the pack of that number, durably.

    If this fails, the file is removed as far as possible.
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


class ShardStore:
    """The shards of a database; ``folder`` is where workers find them, or None if they cannot read them."""

    def __init__(self, files: Files, database: int, folder: str | None = None) -> None:
        self.files = files
        self.database = database
        self.folder = folder

    def strings(self, shard: Shard) -> Strings:
        """Return the strings of a shard's text.

        Raises:
            DamagedError: If they are not what was written.
        """
        pack, (bounds, bounds_size, data, data_size) = self._pack(shard), shard.strings
        return _read_bytes(pack, bounds, bounds_size).view(np.int64), _read_bytes(pack, data, data_size)

    def parts(self, shard: Shard) -> Iterator[Words]:
        """Yield the rows of a shard in chunks; text words are numbers of its strings.

        Raises:
            DamagedError: If they are not what was written.
        """
        pack = self._pack(shard)
        for block, size, rows in shard.chunks:
            yield unpack(SHARDS_CODEC.decode(_read_bytes(pack, block, size)), rows)

    def is_visible(self, shard: Shard) -> bool:
        """Return whether a shard that another process has written is readable here."""
        try:
            return self._pack(shard).blocks == shard.blocks
        except (DamagedError, OSError):
            return False

    def _pack(self, shard: Shard) -> Pack:
        return Pack(self.files, shard.pack, self.database, is_writable=False)


def _read_bytes(pack: Pack, block: int, size: int) -> Bytes:
    pack.verify(block, block + blocks_of(size))
    return pack.data[block * BLOCK : block * BLOCK + size]


def empty_shard() -> Shard:
    """Return the shard of a worker without rows."""
    return Shard(0, 0, (0, 0, 0, 0), ())
