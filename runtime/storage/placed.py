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


def packs_of(rows: Iterable[tuple[object, ...]]) -> set[int]:
    """The packs that the rows of a record are in."""
    return {one[-1].pack for one in rows if isinstance(one[-1], Placed)}
