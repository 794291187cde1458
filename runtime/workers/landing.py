"""Rows of a load at the member that owns them: kept in files, staged as words, taken by a step.

The coordinator hears how many there are. Until the step that takes them they are in no table; the files stay
as long as nobody else has the rows, so that a member that is started again has them, too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import Origin, encode
from kpg.runtime.data.holes import HoledTable
from kpg.runtime.data.table import Closed
from kpg.runtime.errors import InternalError, OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.storage.scratch import LOADS, Scratch
from kpg.runtime.types import Schema
from kpg.runtime.workers.holding import Holding
from kpg.runtime.workers.keys import Keys
from kpg.runtime.workers.messages import Changed
from kpg.runtime.workers.shipping import Dock, read

Words = NDArray[np.int64]
TOKEN = "token"
"""The file of a folder that tells whether a member sees the coordinator's."""


class Staged(NamedTuple):
    """What a member has of a load: rows, how many of them are not its own, and its files."""

    rows: int
    astray: int
    files: list[str]


@dataclass(slots=True)
class Load:
    """Rows that come, or have come."""

    dock: Dock
    own: Scratch | None
    """A folder that only this member sees."""
    words: Words | None = None
    keys: Keys | None = None
    """Those of its table, if they are here to be checked."""
    landed: bool = False
    """Whether a step has taken it."""


class Landing(Holding):
    """The part of a member to which rows come past the coordinator."""

    _loads: dict[str, Load]
    _keys: dict[str, Keys]

    def dock(self, load: str, hosts: list[str], secret: bytes, folder: str) -> tuple[int, bool]:
        """Take rows of a load from now on: the port, and whether the coordinator's folder is seen here."""
        try:
            shared = Path(folder, TOKEN).read_text() == load
        except OSError:
            shared = False
        own = None if shared else Scratch(LOADS)
        index = self.sharing.index
        dock = Dock(hosts[index], secret, Path(folder if own is None else own.name), str(index))
        self._loads[load] = Load(dock, own)
        return dock.port, shared

    def stage(
        self, load: str, name: str, schema: Schema, attempts: Sequence[int], home: int, keys: bool
    ) -> Staged:
        """Have what these attempts have sent, in their order, as words; IntegrityError if keys collide."""
        found = self._load(load)
        found.dock.close()
        files = found.dock.keep(attempts)
        words = self._read(name, schema, files)
        interned = schema.types[home].is_interned
        owners = self.sharing.owners.of(words[home], interned=interned)
        if keys and schema.primary_key:
            found.keys = self._keys.setdefault(name, Keys(self.tables[name], schema))
            found.keys.check(words)
        found.words = words
        astray = int(np.count_nonzero(owners != self.sharing.index))
        return Staged(words.shape[1], astray, [str(path) for path in files])

    def _read(self, name: str, schema: Schema, files: Sequence[Path]) -> Words:
        origin = Origin(f"table {name}")
        parts = [encode(rows, schema, self.dictionary, origin) for rows in read(files)]
        return np.concatenate([np.empty((len(schema.columns), 0), np.int64), *parts], axis=1)

    def staged_part(self, load: str, name: str, first: int, end: int) -> Words:
        """Rows that are staged, in common words."""
        words = self._load(load).words
        assert words is not None
        return self._said(name, words[:, first:end])

    def held(self, name: str, first: int, end: int) -> Words:
        """Rows that this member has, by rowids, in common words."""
        return self._said(name, self.tables[name].read(np.arange(first, end)))

    def _said(self, name: str, words: Words) -> Words:
        words = words.copy()
        for column in self.sharing.texts(self.tables[name].schema.types):
            words[column] = self.sharing.strings.outgoing(words[column])
        return words

    def unload(self, load: str) -> None:
        """Nobody wants what has come any more, or all who want it have it."""
        found = self._loads.pop(load, None)
        if found is not None:
            found.dock.close()
            if found.own is not None:
                found.own.cleanup()

    def again(self, name: str, schema: Schema, files: list[str], start: int, rows: int, end: int) -> None:
        """Rows that another member had, whose number this one has now."""
        words = self._read(name, schema, [Path(file) for file in files])
        if words.shape[1] != rows:
            raise InternalError(f"files of table {name} have {words.shape[1]} rows, not {rows}")
        table = self.tables[name]
        assert isinstance(table, HoledTable)
        table.take_block(start, words, end)
        table.drain()
        self._settle((name,))
        if schema.primary_key:
            self._keys.setdefault(name, Keys(table, schema)).taken(words)

    def drop_table(self, name: str) -> None:
        """There is a table no more."""
        self._keys.pop(name, None)
        super().drop_table(name)

    def rename_table(self, old: str, new: str) -> None:
        """A table has another name."""
        super().rename_table(old, new)
        if old in self._keys:
            self._keys[new] = self._keys.pop(old)

    def _land(self) -> None:
        """What a step has taken is final."""
        for load, found in [one for one in self._loads.items() if one[1].landed]:
            if found.keys is not None and found.words is not None:
                found.keys.taken(found.words)
            self.unload(load)

    def _load(self, load: str) -> Load:
        found = self._loads.get(load)
        if found is None:
            raise OperationalError(
                "rows that were being loaded are gone with a worker",
                hint="nothing was loaded: load them again",
            )
        return found

    def _redo(self, changes: list[Changed]) -> None:
        for one in changes:
            if one.load is None:
                super()._redo([one])
                continue
            load, table = self._load(one.load), self.tables[one.table]
            assert isinstance(table, HoledTable) and isinstance(one.rowids, tuple) and load.words is not None
            table.take_block(one.rowids[0], load.words, one.after[0])
            load.landed = True
            self._closed.append(Closed(one.epoch, one.table, table.drain()))
