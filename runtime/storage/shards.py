"""Shards: rows that one of many workers has written, in a pack of their own, with their text.

A shard means the same to whoever reads it: text is the numbers of strings that are in the same pack. So it is
read by the worker that wrote it, by any number of others, or by one that has all rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.codec import Codec, DamagedError
from kpg.runtime.storage.columns import pack, unpack
from kpg.runtime.storage.files import Bytes, Disk, Files
from kpg.runtime.storage.manifest import read_manifest
from kpg.runtime.storage.packs import BLOCK, Pack, PackWriter, blocks_of, sums_of
from kpg.runtime.storage.placed import Shard
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]
Strings = tuple[Words, Bytes]
"""Strings ``data[bounds[i]:bounds[i + 1]]``."""

CODEC: Final = Codec()
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
            block, size = _put(writer, np.frombuffer(CODEC.dumps(pack(words)), np.uint8))
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
            yield unpack(CODEC.decode(_bytes(pack, block, size)), rows)

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
