"""Plan nodes for many workers: where rows go from one to the next. With one worker no plan has any."""

import enum

from kpg.runtime.records import dataclass

Ref = int
"""Position of a node in the list that holds it."""


class Route(enum.Enum):
    """Which workers get a row."""

    OWNER = "owner"
    """The one that a column's word belongs to."""
    EVERYWHERE = "everywhere"
    """All of them."""
    PIECES = "pieces"
    """Of a table's rows, that all hold: by rowid, so many in a row for each."""
    FIRST = "first"
    """Worker 0."""


@dataclass(frozen=True, slots=True)
class Combine:
    """What rows may become on their way to a reduce: fewer of them, of which it makes the same.

    The first ``key`` columns are the group. Of the other columns those of ``summed`` are added up; of the
    rest it only counts whether they are NULL.
    """

    key: int
    summed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """The input's rows at the workers that need them: by ``route``, those of column ``by`` or, of a rowid in

    that column, of the table's column that is ``fetched``. Where every worker has all rows already they are
    ``held``: each keeps its share, and nothing is sent. O(change).
    """

    input: Ref
    route: Route
    by: int | None = None
    held: bool = False
    fetched: tuple[str, int] | None = None
    combine: Combine | None = None
