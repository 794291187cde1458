"""Tables and bulk loads at a member: staged rows, their uniqueness checks, and their shard files.

A load sends each row to the member that owns it; the coordinator learns only the number of rows. Staged rows
are in no table until the step that takes them. Their files stay while the rows exist nowhere else, so that a
restarted member has them too.

A row has the same rowid at every worker. A member sees the coordinator's tables in shared memory, or holds
its own share (:class:`HoledTable`): the rowids of other members' rows are holes. :class:`Keys` checks
uniqueness of rows that bypass the coordinator.

:class:`Shelving` writes the rows of loads to the folder of the database and reads them again. With the same
number of members, each reads its own shard; else each reads all shards and keeps the rows that it owns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.messages import Changed, Command
from kpg.runtime.cluster.shared_memory import CommonDictionary, Memory, SeenTable, changes_of
from kpg.runtime.cluster.transfer import Dock, read
from kpg.runtime.convert.arrow import Origin, encode
from kpg.runtime.dataflow.dataflow_graph import Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError, OperationalError
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.operators.text_exchange import Owners
from kpg.runtime.operators.worker_group import Company
from kpg.runtime.records import dataclass
from kpg.runtime.storage.files import LOADS, Scratch
from kpg.runtime.storage.packs import Shard, Sharded, Vault, recoded, seen, spoken, without_rows, write
from kpg.runtime.tables.epochs import NONE, replay
from kpg.runtime.tables.row_groups import LARGE, RowGroups
from kpg.runtime.tables.row_index import KeyIndex
from kpg.runtime.tables.table import NO_KEY, Closed, Savepoint, Table, UniqueIndex
from kpg.runtime.types import NULL, Schema
from kpg.runtime.worker.worker import Worker

Words = NDArray[np.int64]


FULLNESS: Final = 16
"""A group is rewritten if one row in so many is missing."""


class HoledTable(Table):
    """A table that has its own rows under the rowids that they have everywhere.

    Whole groups of rowids that are others' take no memory; in groups that are shared with others, places are
    given up as groups are full.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt | None = None,
        touched: "dict[Table, None] | None" = None,
        groups: RowGroups | None = None,
    ) -> None:
        super().__init__(name, schema, dictionary, interrupt, touched, groups)
        self._vacuum.fullness = FULLNESS

    def take_block(self, start: int, parts: Iterable[Words], end: int) -> None:
        """Have rows from rowid ``start`` on, ``int64[ncols, n]`` after each other; all others below ``end``

        are somebody else's.
        """
        self._pass_over(start)
        for words in parts:
            replay(self, NONE, np.arange(self.count, self.count + words.shape[1]), words)
        self._pass_over(end)

    def take_rows(self, parts: Iterable[tuple[Words, Words]], end: int) -> None:
        """As :meth:`take_block`, of rows under any rowids, all ascending."""
        for rowids, words in parts:
            if rowids.shape[0]:
                self._pass_over(int(rowids[0]))
                replay(self, NONE, rowids, words)
        self._pass_over(end)

    def _pass_over(self, end: int) -> None:
        """Have no rows below ``end`` but those that there are."""
        groups, size = self.groups, 1 << self.groups.bits
        first, last = -(-self.count // size), end // size
        with self._interrupt:
            if first < last and groups.capacity <= first * size:
                self._leave_out(first * size)
                groups.directory[0, kernels.REWRITTEN] = 1
                for _ in range(first, last):
                    groups.add_nothing()
                groups.capacity = self.count = last * size
                self.reclaimed += (last - first) * size
                self.touched[self] = None
            while self.count < end:
                self._leave_out(min(end, (self.count // size + 1) * size))

    def _leave_out(self, end: int) -> None:
        """Give rowids of one group to rows that are dead already."""
        start = self.count
        if start == end:
            return
        if end > self.groups.capacity:
            self.groups.reserve(end, start)
        words = np.zeros((self.groups.width, end - start), np.int64)
        key, highest, known = NO_KEY
        required = np.zeros_like(self._required)
        kernels.append(self.groups.directory, words, start, required, key, highest, known)
        dead = np.arange(start, end)
        kernels.kill(self.groups.directory, end, dead)
        self.count = end
        self.dead += end - start
        self._deletions.append(dead)
        self._untold.append(dead)
        self.touched[self] = None

    def rollback(self, savepoint: Savepoint) -> None:
        size = 1 << self.groups.bits
        first = -(-savepoint.count // size)
        passed = [
            number for number, group in enumerate(self.groups.held_groups[first:], first) if group is None
        ]
        self.reclaimed -= len(passed) * size
        super().rollback(savepoint)
        if passed:
            self.groups.cut(passed[0])


class Holding(Worker):
    """A worker whose tables are told of."""

    sharing: Company
    broken = False
    """Whether it is not what it was before a step that has failed, and has to be started again."""

    def __init__(self, merge_effort: int, memory: Memory | None) -> None:
        super().__init__(merge_effort)
        self._memory = memory
        self._seen: dict[int, SeenTable] = {}
        if memory is not None:
            self.dictionary = CommonDictionary(memory)

    def _learn(self, command: Command) -> None:
        if command.learn is not None:
            self.sharing.strings.learn(command.learn)
        for shown in command.shown:
            if shown.table in self._seen:
                self._seen[shown.table].seen.see(shown)

    def _undo(self, step: Step) -> None:
        """See ``Worker``; what the step has failed for, memory, may be missing here, too."""
        try:
            super()._undo(step)
        except Exception:
            self.broken = True

    def table(self, name: str, schema: Schema, number: int) -> None:
        """There is a table."""
        self.create_table(name, schema, number)

    def _new_table(self, name: str, schema: Schema, number: int) -> Table:
        if self._memory is None:
            return HoledTable(name, schema, self.dictionary, self._interrupt, self._touched)
        table = self._seen[number] = SeenTable(name, schema, self.dictionary, self._memory)
        return table

    def drop_table(self, name: str) -> None:
        """There is a table no more."""
        self._seen.pop(self.table_number(name), None)
        super().drop_table(name)

    def stand(self, name: str, count: int, rows: int, hidden: Words) -> None:
        """Rows that a table has had for long, where they are seen."""
        self._seen[self.table_number(name)].stand(count, rows, hidden)
        self._settle((name,))

    def fill(self, name: str, rowids: Words, words: Words) -> None:
        """Rows that a table has had for long, in words of the coordinator."""
        table = self.tables[name]
        words = self._in_own(words, self.sharing.texts(table.schema.types))
        replay(table, NONE, rowids, words)
        table.drain()
        self._settle((name,))

    def _redo(self, changes: list[Changed]) -> None:
        for one in changes:
            table = self.tables[one.table]
            rowids = NONE if one.rowids is None else one.rowids
            if isinstance(rowids, tuple):
                rowids = np.arange(*rowids)
            gone = NONE if one.gone is None else one.gone
            if isinstance(table, SeenTable):
                table.stand(*one.after, NONE)
                self._unsettled[table] = None
                self._closed.append(Closed(one.epoch, one.table, changes_of(gone, rowids)))
                continue
            assert one.words is not None
            words = self._in_own(one.words, self.sharing.texts(table.schema.types))
            replay(table, gone[table.is_live(gone)], rowids, words)
            self._closed.append(Closed(one.epoch, one.table, table.drain()))

    def _in_own(self, words: Words, texts: tuple[int, ...]) -> Words:
        """The coordinator's words as own ones."""
        if not texts:
            return words
        words = words.copy()
        for column in texts:
            words[column] = self.sharing.strings.from_coordinator(words[column])
        return words


NOTHING: Final[Words] = np.empty(0, np.int64)
HIGHEST: Final = (1 << 63) - 1


class Keys:
    """The keys of one table's rows here, of which none is ever deleted as long as nobody else has them."""

    def __init__(self, table: Table, columns: tuple[int, ...], *, nulls_distinct: bool = True) -> None:
        self.columns = columns
        self._table = table
        self._nulls_distinct = nulls_distinct
        self._index = UniqueIndex("", table.groups, columns, nulls_distinct=nulls_distinct)
        self._indexed = 0
        """Rows from there on are not in the index yet."""
        self._highest: Words | None = np.full(len(columns), HIGHEST) if table.count else None
        """The highest key, as long as all came in their order."""
        self._coming: Words | None = None

    def suspects(self, keys: Words) -> tuple[Words, Words]:
        """Of keys ``[k, n]`` that are to come the places of those that come twice, and that are there."""
        self._coming = self._after(keys)
        if self._coming is not None:
            return NOTHING, NOTHING
        places = asking(keys, none=self._nulls_distinct)
        keys = np.ascontiguousarray(keys[:, places])
        return places[repeated(keys)], places[self.find(keys) >= 0]

    def taken(self) -> None:
        """The rows that were asked for last are in the table now."""
        self._highest = np.full(len(self.columns), HIGHEST)
        if self._coming is not None:
            self._highest = self._coming

    def find(self, keys: Words) -> Words:
        """The row here of each key ``[k, n]``, or -1."""
        table = self._table
        if self._indexed < table.count:
            rowids = table.groups.live(self._indexed, table.count)
            if rowids.shape[0]:
                self._index.insert(rowids, self._indexed, table.rows)
            self._indexed = table.count
        return self._index.find(keys)

    def _after(self, keys: Words) -> Words | None:
        """The last of keys that ascend, from above all that are there; None if they do not."""
        if not keys.shape[1]:
            return np.full(len(self.columns), NULL) if self._highest is None else self._highest
        first = () if self._highest is None else (self._highest[:, None],)
        every = np.concatenate((*first, keys), axis=1)
        above = np.zeros(every.shape[1] - 1, np.bool_)
        same = np.ones(every.shape[1] - 1, np.bool_)
        for words in every:
            above |= same & (words[1:] > words[:-1])
            same &= words[1:] == words[:-1]
        return keys[:, -1].copy() if above.all() else None


def asking(keys: Words, *, none: bool) -> Words:
    """The places of keys that have no NULL in them; without ``none``, of all."""
    if not none:
        return np.arange(keys.shape[1])
    return np.flatnonzero((keys != NULL).all(axis=0))


def among(known: Words, keys: Words) -> NDArray[np.bool_]:
    """Whether each key ``[k, n]`` is one of those known, none of which is there twice."""
    if not known.shape[1] or not keys.shape[1]:
        return np.zeros(keys.shape[1], np.bool_)
    index = KeyIndex(RowGroups.over(known), tuple(range(known.shape[0])))
    found: Words = index.find(known.shape[1], known.shape[1], keys)
    return found >= 0


def repeated(keys: Words) -> Words:
    """The places of keys that are there more than once."""
    if not keys.shape[1]:
        return NOTHING
    index = KeyIndex(RowGroups.over(keys), tuple(range(keys.shape[0])))
    if index.insert(np.arange(keys.shape[1]), 0) < 0:
        return NOTHING
    _, which, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[which.reshape(-1)] > 1)


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
