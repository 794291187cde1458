"""Whose rows are whose where workers have no memory in common: each is sent its own, and has no others."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.table import Table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.sharing.owners import Owners
from kpg.runtime.workers.messages import Changed, Each, shortened

Words = NDArray[np.int64]


class Shares:
    """Parts what tables have among ``count`` members, by the words of one column of each."""

    def __init__(self, dictionary: Dictionary, count: int) -> None:
        self._owners = Owners(dictionary, count, apart=True)

    def changed(
        self, table: Table, home: int, epoch: int, name: str, gone: Words | None, rowids: Words
    ) -> list[Changed]:
        """What each member is told of an epoch: its rows that came; of those that went it knows its own."""
        after = table.count, table.rows
        return [
            Changed(epoch, name, gone, shortened(some), words, after)
            for some, words in self._parts(table, home, rowids)
        ]

    def fill(self, table: Table, home: int, rowids: Words) -> tuple[Each, Each]:
        """Of rows that a table has had for long each member's rowids, and their words."""
        rowids_of, words_of = zip(*self._parts(table, home, rowids), strict=True)
        return Each(rowids_of), Each(words_of)

    def _parts(self, table: Table, home: int, rowids: Words) -> list[tuple[Words, Words]]:
        words = table.read(rowids)
        places = self._owners.places(words[home], interned=table.schema.types[home].is_interned)
        return [(rowids[some], np.ascontiguousarray(words[:, some])) for some in places]
