"""What a table was at earlier epochs: which rowids each epoch gave out, and which it took away.

Rowids ascend with epochs and rows are immutable, so that a table at an epoch is its rows below a rowid, and
of those deleted since, the ones below it. Nothing is kept for a row but the rowid of one that was deleted,
whose place the vacuum leaves alone until the epoch of its deletion is forgotten.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]

NOTHING = np.empty(0, np.int64)


class TablePast:
    """The past of one table from the epoch ``since`` on, at which it had ``count`` rowids.

    ``born`` is the epoch after which there was a table of this form: before it nothing can be told.
    ``made``, if it is known, is the one at which the table was made: before it there were no rows.
    """

    __slots__ = ("_buried", "_counts", "_epochs", "_gone", "born", "count", "made", "since")

    def __init__(self, born: int) -> None:
        self.born = born
        self.since = born
        self.made: int | None = None
        self.count = 0
        self._epochs: list[int] = []
        self._counts: list[int] = []
        self._gone: list[Words] = []
        self._buried: list[tuple[int, list[Words]]] = []

    @property
    def rows(self) -> int:
        """Deleted rows that are remembered."""
        return sum(gone.shape[0] for gone in self._gone)

    def tells(self, epoch: int) -> bool:
        """Whether the rows at an epoch are known to whoever saw that epoch, and sees the table now."""
        return epoch >= self.since or (self.made is not None and epoch <= self.made)

    def note(self, epoch: int, inserted: Words, deleted: Words) -> None:
        """Remember the net change of an epoch, which comes after all others."""
        before = self._counts[-1] if self._counts else self.count
        self._epochs.append(epoch)
        self._counts.append(max(before, int(inserted[-1]) + 1 if inserted.shape[0] else 0))
        self._gone.append(deleted)

    def keep(self, deletions: list[Words]) -> None:
        """Have the places of rows kept that were deleted no later than in the last epoch that was noted."""
        self._buried.append((self._epochs[-1] if self._epochs else self.since, deletions))

    def forget(self, since: int) -> list[Words]:
        """Forget what was before an epoch; the deleted rows whose places may be given up."""
        gone = bisect_right(self._epochs, since)
        if gone:
            self.count = self._counts[gone - 1]
            del self._epochs[:gone], self._counts[:gone], self._gone[:gone]
        self.since = max(self.since, since)
        ready = next((i for i, (epoch, _) in enumerate(self._buried) if epoch > since), len(self._buried))
        freed = [rowids for _, deletions in self._buried[:ready] for rowids in deletions]
        del self._buried[:ready]
        return freed

    def at(self, epoch: int) -> tuple[int, list[Words]]:
        """How many rowids were given out up to an epoch, and which of them have been deleted since."""
        later = bisect_right(self._epochs, epoch)
        count = self._counts[later - 1] if later else self.count
        return count, [gone[gone < count] for gone in self._gone[later:]]
