"""The rows of an executor's tables as who records them asks for them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.foreseen import Foreseen
from kpg.runtime.data.table import Table
from kpg.runtime.lasting import MANY, Recorder

Words = NDArray[np.int64]


class Recorded:
    """A part of ``runtime.access.Access``."""

    tables: dict[str, Table]
    recorder: Recorder | None

    def insert(self, table: str, words: Words) -> Words:
        """Append rows; their rowids."""
        store = self.tables[table]
        if self.recorder is None or words.shape[1] < MANY:
            return store.insert(words)
        words = np.ascontiguousarray(words)
        foreseen = self.recorder.foresee(words)
        rowids = store.insert(words)
        # The words are the caller's, who may change them from here on.
        if foreseen is not None and (said := foreseen()) is not None:
            store.foreseen = store.foreseen or Foreseen()
            store.foreseen.add(rowids, said)
        return rowids

    def foreseen(self, table: str, rowids: Words) -> list[tuple[int, int, Any]]:
        """Stretches of rows that have come, ascending: their places, and what was foreseen of them."""
        found = self.tables[table].foreseen
        return [] if found is None else found.among(rowids)

    def parts(self, table: str, rowids: Words) -> list[tuple[Words, Words]]:
        """The rows with these rowids, where they are if they lie beside each other."""
        groups = self.tables[table].groups
        return groups.parts(rowids) or [(rowids, groups.read(np.arange(groups.width), rowids))]

    def filled(self, table: str, rowids: Words) -> list[tuple[int, int, int, Words]]:
        """Stretches of rows that have come that begin a group: their places, the group, and its columns."""
        return self.tables[table].groups.begun(rowids)
