"""Rows of a member in the folder of the database: it writes those of a load there, and reads them again.

What the members of an earlier life have written are these rows, whoever is to have them now: by as many
members each reads its own, else each looks through all for those that it owns.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.holes import HoledTable
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import OperationalError
from kpg.runtime.sharing.owners import Owners
from kpg.runtime.storage.placed import Shard, Sharded
from kpg.runtime.storage.shards import Vault, recoded, seen, spoken, without_rows, write
from kpg.runtime.types import Schema
from kpg.runtime.workers.landing import Landing, Load

Words = NDArray[np.int64]
UNKNOWN = -1


class Shelving(Landing):
    """The part of a member that has to do with the folder."""

    def see(self, folder: str, database: int) -> bool:
        """Whether this machine sees the folder of a database."""
        files = seen(folder, database)
        self.vault = None if files is None else Vault(files, database, folder)
        return files is not None

    def shelve(self, load: str, name: str, number: int) -> Shard:
        """Write what is staged of a load as the pack of a number, and have it be there whatever happens."""
        found, schema = self._load(load), self.tables[name].schema
        parts = self._staged(found)
        if not any(one.shape[1] for one in parts):
            return without_rows()
        vault = self._vault()
        texts = self.sharing.texts(schema.types)
        codes = spoken(parts, texts, len(self.dictionary))
        numbers = np.full(len(self.dictionary), UNKNOWN)
        numbers[codes] = np.arange(codes.shape[0])
        said = (recoded(one, texts, numbers) for one in parts)
        try:
            shard = write(vault.files, number, vault.database, self.dictionary.parts(codes), said)
        except OSError as error:
            raise OperationalError(
                f"worker {self.sharing.index} could not write rows to {vault.folder}: {error.strerror}",
                hint="nothing was loaded; free some space, or see to the disk, and try again",
            ) from error
        found.again = partial(self._shelved, schema, shard)
        return shard

    def _vault(self) -> Vault:
        if self.vault is None:
            raise OperationalError(
                f"worker {self.sharing.index} does not see the folder of the database",
                hint="workers have to see the folder that rows were loaded into",
            )
        return self.vault

    def _shelved(self, schema: Schema, shard: Shard) -> list[Words]:
        return list(self.rows_in(schema, Sharded((shard,))))

    def moor(
        self, name: str, schema: Schema, start: int, sharded: Sharded, home: int, load: str | None
    ) -> None:
        """Have the rows of shards that are this member's: now, or with the step that takes a load."""
        self._vault()
        rows = partial(self._own, schema, start, sharded, home)
        if load is not None:
            self._loads[load] = Load(None, None, shelved=rows)
            return
        table = self.tables[name]
        assert isinstance(table, HoledTable)
        self._keys.pop(name, None)
        table.take_rows(rows(), start + sharded.rows)
        table.drain()
        self._settle((name,))

    def _own(self, schema: Schema, start: int, sharded: Sharded, home: int) -> Iterator[tuple[Words, Words]]:
        """The rows of shards that are this member's, with their rowids."""
        index, count = self.sharing.index, self.sharing.count
        for number, shard in enumerate(sharded.shards):
            if len(sharded.shards) != count:
                yield from self._sorted_out(schema, start, shard, home)
            elif number == index:
                first = start
                for words in self.rows_in(schema, Sharded((shard,))):
                    yield np.arange(first, first + words.shape[1]), words
                    first += words.shape[1]
            start += shard.rows

    def _sorted_out(
        self, schema: Schema, start: int, shard: Shard, home: int
    ) -> Iterator[tuple[Words, Words]]:
        """Of a shard that other members have written; only text of these rows becomes known here."""
        if not shard.rows:
            return
        vault, texts = self._vault(), self.sharing.texts(schema.types)
        strings = Dictionary()
        strings.intern_parts(*vault.strings(shard))
        owners = Owners(strings, self.sharing.count, apart=True)
        codes = np.full(len(strings), UNKNOWN)
        for words in vault.parts(shard):
            mine = owners.of(words[home], interned=schema.types[home].is_interned) == self.sharing.index
            places = np.flatnonzero(mine)
            some = np.ascontiguousarray(words[:, places])
            new = spoken([some], texts, len(strings))
            new = new[codes[new] == UNKNOWN]
            codes[new] = self.dictionary.intern_parts(*strings.parts(new))
            yield start + places, recoded(some, texts, codes)
            start += words.shape[1]
