"""Rows of a load at the member that owns them: kept in files, staged as words, taken by a step.

The coordinator hears how many there are. Until the step that takes them they are in no table; the files stay
as long as nobody else has the rows, so that a member that is started again has them, too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import Origin, encode
from kpg.runtime.data.holes import HoledTable
from kpg.runtime.data.rowgroups import LARGE
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

    dock: Dock | None
    own: Scratch | None
    """A folder that only this member sees."""
    parts: list[Words] | None = None
    """Its rows, some at a time; None once a step has had them, which may be undone."""
    again: "Callable[[], list[Words]] | None" = None
    """Reads them anew."""
    keys: list[Keys] = field(default_factory=list)
    """Those of its table that it was asked for."""
    landed: bool = False
    """Whether a step has taken it."""
    shelved: "Callable[[], Iterator[tuple[Words, Words]]] | None" = None
    """Of rows that were committed before: gives them, with their rowids."""


def _drained(parts: list[Words]) -> Iterator[Words]:
    """The parts, each of which is given up once the next is asked for: together they are much."""
    while parts:
        yield parts.pop(0)


class Landing(Holding):
    """The part of a member to which rows come past the coordinator."""

    _loads: dict[str, Load]
    _keys: dict[str, list[Keys]]

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

    def stage(self, load: str, name: str, schema: Schema, attempts: Sequence[int], home: int) -> Staged:
        """Have what these attempts have sent, in their order, as words."""
        found = self._load(load)
        assert found.dock is not None
        found.dock.close()
        files = found.dock.keep(attempts)
        found.again = partial(self._read, name, schema, files)
        parts = found.parts = found.again()
        interned, owners = schema.types[home].is_interned, self.sharing.owners
        astray = 0
        for one in parts:
            astray += int((owners.of(one[home], interned=interned) != self.sharing.index).sum())
        return Staged(sum(one.shape[1] for one in parts), astray, [str(path) for path in files])

    def _read(self, name: str, schema: Schema, files: Sequence[Path]) -> list[Words]:
        origin, many = Origin(f"table {name}"), -(-LARGE // (8 * len(schema.columns)))
        return [encode(rows, schema, self.dictionary, origin) for rows in read(files, many)]

    def staged_part(self, load: str, name: str, first: int, end: int) -> Words:
        """Rows that are staged, in common words."""
        found, start = [np.empty((len(self.tables[name].schema.columns), 0), np.int64)], 0
        for one in self._staged(self._load(load)):
            found.append(one[:, max(first - start, 0) : max(end - start, 0)])
            start += one.shape[1]
        return self._said(name, np.concatenate(found, axis=1))

    def _staged(self, load: Load) -> list[Words]:
        """The rows of a load."""
        if load.parts is None:
            assert load.again is not None
            load.parts = load.again()
        return load.parts

    def held(self, name: str, first: int, end: int) -> Words:
        """Rows that this member has, by rowids, in common words."""
        return self._said(name, self.tables[name].read(np.arange(first, end)))

    def _said(self, name: str, words: Words) -> Words:
        words = words.copy()
        for column in self.sharing.texts(self.tables[name].schema.types):
            words[column] = self.sharing.strings.reported(words[column])
        return words

    def unload(self, load: str) -> None:
        """Nobody wants what has come any more, or all who want it have it."""
        found = self._loads.pop(load, None)
        if found is not None:
            if found.dock is not None:
                found.dock.close()
            if found.own is not None:
                found.own.cleanup()

    def again(self, name: str, schema: Schema, files: list[str], start: int, rows: int, end: int) -> None:
        """Rows that another member had, whose number this one has now."""
        parts = self._read(name, schema, [Path(file) for file in files])
        if sum(one.shape[1] for one in parts) != rows:
            raise InternalError(f"files of table {name} do not have {rows} rows")
        table = self.tables[name]
        assert isinstance(table, HoledTable)
        self._keys.pop(name, None)  # which are no keys of these rows in their order
        table.take_block(start, _drained(parts), end)
        table.drain()
        self._settle((name,))

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
            for keys in found.keys:
                keys.taken()
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
            assert isinstance(table, HoledTable) and isinstance(one.rowids, tuple)
            if load.shelved is not None:
                table.take_rows(load.shelved(), one.after[0])
            else:
                parts, load.parts = self._staged(load), None
                table.take_block(one.rowids[0], _drained(parts), one.after[0])
            load.landed = True
            self._closed.append(Closed(one.epoch, one.table, table.drain()))
