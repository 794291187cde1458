"""What stands in a record of the log for rows that are in packs."""

from collections.abc import Iterable

from kpg.runtime.records import dataclass
from kpg.runtime.storage.packs import blocks_of


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
