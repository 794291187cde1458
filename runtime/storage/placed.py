"""What stands in a record of the log for rows that are in a pack."""

from collections.abc import Iterable

from kpg.runtime.records import dataclass


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


def packs_of(rows: Iterable[tuple[object, ...]], strings: tuple[object, ...] | None = None) -> set[int]:
    """The packs that the rows and strings of a record are in."""
    parts = [one[-1] for one in (*rows, strings) if one is not None]
    return {one.pack for one in parts if isinstance(one, Placed | PlacedStrings)}
