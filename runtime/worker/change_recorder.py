"""The rows of an executor's tables as who records them asks for them, and as they were recorded."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.executor import MANY, Recorder
from kpg.runtime.tables.epochs import NONE, replay
from kpg.runtime.tables.table import Closed, Foreseen, Table
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from kpg.runtime.storage.packs import Sharded, Vault

Words = NDArray[np.int64]


class Recorded:
    """A part of ``runtime.access.Access``."""

    tables: dict[str, Table]
    dictionary: Dictionary
    recorder: Recorder | None
    vault: "Vault | None" = None
    """Where rows are that workers have written; None if the database is in no folder."""
    _closed: list[Closed]

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

    # Rows that workers have written

    def sharded(self, table: str, rowids: Words) -> "list[tuple[int, Sharded]]":
        """Where rows that have come begin that only workers have, and what they have written; or nothing."""
        found = self.tables[table].sharded
        return [one for one in found if rowids[0] <= one[0] <= rowids[-1]] if found else []

    @property
    def pinned(self) -> set[int]:
        """The packs that workers may still read."""
        found = [one for table in self.tables.values() for _, one in table.sharded]
        return {shard.pack for one in found for shard in one.shards}

    def take_shards(self, table: Table, start: int, sharded: "Sharded") -> None:
        """Have a table, which need not have its name yet, take rows from rowid ``start`` on."""
        for words in self.rows_in(table.schema, sharded):
            replay(table, NONE, np.arange(start, start + words.shape[1]), words)
            start += words.shape[1]

    def rows_in(self, schema: Schema, sharded: "Sharded") -> Iterator[Words]:
        """The rows of shards in words of this process."""
        from kpg.runtime.storage.packs import recoded

        assert self.vault is not None
        texts = [place for place, type_ in enumerate(schema.types) if type_.is_interned]
        for shard in sharded.shards:
            if shard.rows:
                codes = self.dictionary.intern_parts(*self.vault.strings(shard)) if texts else NONE
                for words in self.vault.parts(shard):
                    yield recoded(words, texts, codes)

    def replay_shards(self, epoch: int, table: str, start: int, sharded: "Sharded") -> None:
        """Do again what an epoch did to a table: rows came that workers have written."""
        self.take_shards(self.tables[table], start, sharded)
        self._closed.append(Closed(epoch, table, self.tables[table].drain()))
