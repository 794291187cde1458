"""Tables and bulk loads at a member: staged rows, their uniqueness checks, and their shard files.

A load sends each row to the member that owns it; the coordinator learns only the number of rows. Staged rows
are in no table until a step processes them. Their files stay while the rows exist nowhere else, so that a
restarted member can read them too.

A row has the same rowid at every worker. A member sees the coordinator's tables in shared memory, or holds
its own share (:class:`SparseTable`): the rowids of other members' rows are holes. :class:`LoadKeyIndex`
checks uniqueness of rows that bypass the coordinator.

:class:`MemberShards` writes the rows of loads to the folder of the database and reads them again. With the
same number of members, each reads its own shard; else each reads all shards and keeps the rows that it owns.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.messages import ChangeMessage
from kpg.runtime.cluster.shared_memory import GroupUpdates, MappedTable, SharedMemory, make_changes
from kpg.runtime.cluster.transfer import LoadReceiver, read_tables
from kpg.runtime.convert.arrow import Origin, encode_table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError, OperationalError
from kpg.runtime.handles import Unique
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.operators.text_exchange import Owners
from kpg.runtime.operators.worker_group import WorkerGroup
from kpg.runtime.records import dataclass
from kpg.runtime.storage.files import LOAD_FOLDER_PREFIX, ScratchFolder
from kpg.runtime.storage.packs import (
    Shard,
    Sharded,
    ShardStore,
    empty_shard,
    find_database,
    translate_columns,
    used_codes,
    write_shard,
)
from kpg.runtime.tables.epochs import NONE, replay
from kpg.runtime.tables.row_groups import LARGE_PAGES_FROM, RowGroups
from kpg.runtime.tables.row_index import KeyIndex
from kpg.runtime.tables.table import NO_KEY, EpochChanges, Savepoint, Table, UniqueIndex
from kpg.runtime.types import NULL, Schema
from kpg.runtime.worker.base_tables import BaseTables

Words = NDArray[np.int64]


REWRITE_SHARE: Final = 16
"""A group is rewritten if more than 1/REWRITE_SHARE of its rows are missing."""


class SparseTable(Table):
    """A table with this member's rows under their global rowids.

    Whole groups of other members' rowids take no memory. In groups with rows of several members, the room of
    missing rows is freed when the group is full.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt | None = None,
        touched_tables: "dict[Table, None] | None" = None,
        groups: RowGroups | None = None,
    ) -> None:
        super().__init__(name, schema, dictionary, interrupt, touched_tables, groups)
        self._vacuum.fullness = REWRITE_SHARE

    def append_range(self, start: int, parts: Iterable[Words], end: int) -> None:
        """Append consecutive rows from rowid ``start`` on, in parts ``int64[ncols, n]``.

        All other rowids below ``end`` become holes.
        """
        self._skip_to(start)
        for words in parts:
            replay(self, NONE, np.arange(self.count, self.count + words.shape[1]), words)
        self._skip_to(end)

    def append_rows(self, parts: Iterable[tuple[Words, Words]], end: int) -> None:
        """Append rows with ascending rowids; other rowids below ``end`` are holes."""
        for rowids, words in parts:
            if rowids.shape[0]:
                self._skip_to(int(rowids[0]))
                replay(self, NONE, rowids, words)
        self._skip_to(end)

    def _skip_to(self, end: int) -> None:
        """Make all unassigned rowids below ``end`` holes."""
        groups, size = self.groups, 1 << self.groups.bits
        first, last = -(-self.count // size), end // size
        with self._interrupt:
            if first < last and groups.capacity <= first * size:
                self._append_dead(first * size)
                groups.directory[0, kernels.REWRITTEN] = 1
                for _ in range(first, last):
                    groups.add_freed()
                groups.capacity = self.count = last * size
                self.reclaimed_rows += (last - first) * size
                self.touched_tables[self] = None
            while self.count < end:
                self._append_dead(min(end, (self.count // size + 1) * size))

    def _append_dead(self, end: int) -> None:
        """Append dead rows up to ``end``, within one group."""
        start = self.count
        if start == end:
            return
        if end > self.groups.capacity:
            self.groups.reserve(end, start)
        words = np.zeros((self.groups.width, end - start), np.int64)
        key, highest, known = NO_KEY
        required = np.zeros_like(self._required_columns)
        kernels.append(self.groups.directory, words, start, required, key, highest, known)
        dead = np.arange(start, end)
        kernels.kill(self.groups.directory, end, dead)
        self.count = end
        self.dead_rows += end - start
        self._deletions.append(dead)
        self._undrained_deletions.append(dead)
        self.touched_tables[self] = None

    def rollback(self, savepoint: Savepoint) -> None:
        size = 1 << self.groups.bits
        first = -(-savepoint.count // size)
        skipped = [number for number, group in enumerate(self.groups.groups[first:], first) if group is None]
        self.reclaimed_rows -= len(skipped) * size
        super().rollback(savepoint)
        if skipped:
            self.groups.truncate(skipped[0])


def make_sparse_table(
    name: str,
    schema: Schema,
    number: int,
    dictionary: Dictionary,
    interrupt: DeferredInterrupt,
    touched_tables: dict[Table, None],
) -> Table:
    """Return a new table; see ``TableFactory``."""
    return SparseTable(name, schema, dictionary, interrupt, touched_tables)


class SharedTables:
    """The tables of a member in memory that it shares with the coordinator, by number."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._tables: dict[int, MappedTable] = {}

    def make_table(
        self,
        name: str,
        schema: Schema,
        number: int,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt,
        touched_tables: dict[Table, None],
    ) -> Table:
        """Return a new table; see ``TableFactory``."""
        table = self._tables[number] = MappedTable(name, schema, dictionary, self._memory)
        return table

    def drop(self, number: int) -> None:
        """Forget a table."""
        del self._tables[number]

    def apply_updates(self, updates: GroupUpdates) -> None:
        """Take over the locations of rows of one table, if it exists."""
        if updates.table in self._tables:
            self._tables[updates.table].mapped_groups.apply_updates(updates)

    def set_contents(self, number: int, count: int, rows: int, hidden: Words) -> None:
        """Set the contents of a table, as committed rows."""
        self._tables[number].set_contents(count, rows, hidden)


class MemberTables:
    """Changes of a member's tables, which the coordinator sends."""

    def __init__(self, tables: BaseTables, group: WorkerGroup) -> None:
        self._tables = tables
        self._group = group

    def fill(self, name: str, rowids: Words, words: Words) -> None:
        """Append committed rows to a table, in words of the coordinator."""
        table = self._tables.by_name[name]
        replay(table, NONE, rowids, self._decode(table, words))
        table.drain()
        self._tables.commit((name,))

    def apply(self, message: ChangeMessage) -> None:
        """Apply the changes of a table that a step processes."""
        table = self._tables.by_name[message.table]
        rowids = NONE if message.rowids is None else message.rowids
        if isinstance(rowids, tuple):
            rowids = np.arange(*rowids)
        deleted = NONE if message.deleted is None else message.deleted
        if isinstance(table, MappedTable):
            table.set_contents(*message.size_after, NONE)
            self._tables.mark_uncommitted(table)
            changes = make_changes(deleted, rowids)
        else:
            assert message.words is not None
            words = self._decode(table, message.words)
            replay(table, deleted[table.is_live(deleted)], rowids, words)
            changes = table.drain()
        self._tables.closed_changes.append(EpochChanges(message.epoch, message.table, changes))

    def _decode(self, table: Table, words: Words) -> Words:
        return self._group.strings.decode_rows(words, self._group.text_columns(table.schema.types))


NO_ROWIDS: Final[Words] = np.empty(0, np.int64)
MAX_WORD: Final = (1 << 63) - 1


class LoadKeyIndex:
    """Index of one table's local keys, whose rows are never deleted while only members have them."""

    def __init__(self, table: Table, columns: tuple[int, ...], *, nulls_distinct: bool = True) -> None:
        self.columns = columns
        self._table = table
        self._nulls_distinct = nulls_distinct
        self._index = UniqueIndex("", table.groups, columns, nulls_distinct=nulls_distinct)
        self._indexed = 0
        """Rows from this one on are not in the index yet."""
        self._highest: Words | None = np.full(len(columns), MAX_WORD) if table.count else None
        """Highest key, as long as all keys were inserted in ascending order."""
        self._next_highest: Words | None = None

    def find_duplicates(self, keys: Words) -> tuple[Words, Words]:
        """Return the positions of keys ``[k, n]`` that are repeated, and of those that exist."""
        self._next_highest = self._last_ascending(keys)
        if self._next_highest is not None:
            return NO_ROWIDS, NO_ROWIDS
        positions = checked_positions(keys, skips_nulls=self._nulls_distinct)
        keys = np.ascontiguousarray(keys[:, positions])
        return positions[repeated_positions(keys)], positions[self.find(keys) >= 0]

    def record_insert(self) -> None:
        """Record that the keys checked last have been inserted."""
        self._highest = np.full(len(self.columns), MAX_WORD)
        if self._next_highest is not None:
            self._highest = self._next_highest

    def find(self, keys: Words) -> Words:
        """Return the local rowid of each key ``[k, n]``, or -1."""
        table = self._table
        if self._indexed < table.count:
            rowids = table.groups.live(self._indexed, table.count)
            if rowids.shape[0]:
                self._index.insert(rowids, self._indexed, table.rows)
            self._indexed = table.count
        return self._index.find(keys)

    def _last_ascending(self, keys: Words) -> Words | None:
        """Return the last key if the keys ascend from above all existing ones; else None."""
        if not keys.shape[1]:
            return np.full(len(self.columns), NULL) if self._highest is None else self._highest
        first = () if self._highest is None else (self._highest[:, None],)
        all_keys = np.concatenate((*first, keys), axis=1)
        is_above = np.zeros(all_keys.shape[1] - 1, np.bool_)
        is_equal = np.ones(all_keys.shape[1] - 1, np.bool_)
        for words in all_keys:
            is_above |= is_equal & (words[1:] > words[:-1])
            is_equal &= words[1:] == words[:-1]
        return keys[:, -1].copy() if is_above.all() else None


def checked_positions(keys: Words, *, skips_nulls: bool) -> Words:
    """Return the positions of keys to check: all, or with ``skips_nulls`` those without a NULL."""
    if not skips_nulls:
        return np.arange(keys.shape[1])
    return np.flatnonzero((keys != NULL).all(axis=0))


def contains_keys(known: Words, keys: Words) -> NDArray[np.bool_]:
    """Return whether each key ``[k, n]`` is one of ``known``, which has no duplicates."""
    if not known.shape[1] or not keys.shape[1]:
        return np.zeros(keys.shape[1], np.bool_)
    index = KeyIndex(RowGroups.from_columns(known), tuple(range(known.shape[0])))
    found: Words = index.find(known.shape[1], known.shape[1], keys)
    return found >= 0


def repeated_positions(keys: Words) -> Words:
    """Return the positions of keys that occur more than once."""
    if not keys.shape[1]:
        return NO_ROWIDS
    index = KeyIndex(RowGroups.from_columns(keys), tuple(range(keys.shape[0])))
    if index.insert(np.arange(keys.shape[1]), 0) < 0:
        return NO_ROWIDS
    _, group_of_key, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[group_of_key.reshape(-1)] > 1)


TOKEN_FILE = "token"
"""File by which a member finds out whether it sees the coordinator's folder."""


class StagedRows(NamedTuple):
    """Staged rows at a member: their number, how many have another owner, and their files."""

    rows: int
    foreign_rows: int
    files: list[str]


@dataclass(slots=True)
class Load:
    """Rows of a load that are being received or are staged."""

    receiver: LoadReceiver | None
    private_folder: ScratchFolder | None
    """A folder that only this member sees."""
    parts: list[Words] | None = None
    """The rows in parts; None once a step has processed them, which may be rolled back."""
    reread: "Callable[[], list[Words]] | None" = None
    """Reads the rows again."""
    keys: list[LoadKeyIndex] = field(default_factory=list)
    """The indexes that were used to check these rows."""
    is_processed: bool = False
    """Whether a step has processed the rows."""
    read_shards: "Callable[[], Iterator[tuple[Words, Words]]] | None" = None
    """Yields rowids and rows of a load that was committed before; None for other loads."""


def _consume(parts: list[Words]) -> Iterator[Words]:
    """Yield the parts and release each when the next is requested, since together they are large."""
    while parts:
        yield parts.pop(0)


class LoadKeys:
    """Indexes by the unique keys of tables whose rows only members have."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self._indexes: dict[str, list[LoadKeyIndex]] = {}

    def index(self, name: str, unique: Unique) -> LoadKeyIndex:
        """Return the index of a table's local rows by a unique key."""
        indexes = self._indexes.setdefault(name, [])
        for keys in indexes:
            if keys.columns == unique.columns:
                return keys
        table = self._tables[name]
        indexes.append(LoadKeyIndex(table, unique.columns, nulls_distinct=unique.nulls_distinct))
        return indexes[-1]

    def drop(self, name: str) -> None:
        """Drop the indexes of a table, which do not contain rows that are appended without a check."""
        self._indexes.pop(name, None)

    def rename(self, old: str, new: str) -> None:
        """Rename a table."""
        if old in self._indexes:
            self._indexes[new] = self._indexes.pop(old)


class MemberLoads:
    """Loads at a member, which bypass the coordinator: their rows until a step processes them."""

    def __init__(self, tables: BaseTables, group: WorkerGroup, keys: LoadKeys) -> None:
        self._tables = tables
        self._group = group
        self._keys = keys
        self._loads: dict[str, Load] = {}

    def add(self, load: str, staged: Load) -> None:
        """Add a load whose rows a step will process."""
        self._loads[load] = staged

    def receive(self, load: str, hosts: list[str], secret: bytes, folder: str) -> tuple[int, bool]:
        """Receive rows of a load; return the port, and whether this member sees the coordinator's folder."""
        try:
            is_shared = Path(folder, TOKEN_FILE).read_text() == load
        except OSError:
            is_shared = False
        private_folder = None if is_shared else ScratchFolder(LOAD_FOLDER_PREFIX)
        index = self._group.index
        receiver = LoadReceiver(
            hosts[index], secret, Path(folder if private_folder is None else private_folder.name), str(index)
        )
        self._loads[load] = Load(receiver, private_folder)
        return receiver.port, is_shared

    def stage(self, load: str, name: str, schema: Schema, attempts: Sequence[int], home: int) -> StagedRows:
        """Stop receiving, and encode the rows of these attempts in their order."""
        staged = self.get(load)
        assert staged.receiver is not None
        staged.receiver.close()
        files = staged.receiver.keep_attempts(attempts)
        staged.reread = partial(self._read_files, name, schema, files)
        parts = staged.parts = staged.reread()
        interned, owners = schema.types[home].is_interned, self._group.owners
        foreign_rows = 0
        for words in parts:
            foreign_rows += int((owners.owners(words[home], interned=interned) != self._group.index).sum())
        return StagedRows(sum(one.shape[1] for one in parts), foreign_rows, [str(path) for path in files])

    def _read_files(self, name: str, schema: Schema, files: Sequence[Path]) -> list[Words]:
        origin, min_rows = Origin(f"table {name}"), -(-LARGE_PAGES_FROM // (8 * len(schema.columns)))
        return [
            encode_table(rows, schema, self._tables.dictionary, origin)
            for rows in read_tables(files, min_rows)
        ]

    def staged_part(self, load: str, name: str, first: int, end: int) -> Words:
        """Return a range of staged rows, in common words."""
        parts, start = [np.empty((len(self._tables.by_name[name].schema.columns), 0), np.int64)], 0
        for one in self.parts(self.get(load)):
            parts.append(one[:, max(first - start, 0) : max(end - start, 0)])
            start += one.shape[1]
        return self.encode_rows(name, np.concatenate(parts, axis=1))

    def parts(self, load: Load) -> list[Words]:
        """Return the rows of a load in parts."""
        if load.parts is None:
            assert load.reread is not None
            load.parts = load.reread()
        return load.parts

    def rows(self, name: str, first: int, end: int) -> Words:
        """Return a range of this member's rows, by rowids, in common words."""
        return self.encode_rows(name, self._tables.by_name[name].read(np.arange(first, end)))

    def encode_rows(self, name: str, words: Words) -> Words:
        """Return rows of a table in common words."""
        text_columns = self._group.text_columns(self._tables.by_name[name].schema.types)
        return self._group.strings.encode_rows(words, text_columns)

    def discard(self, load: str) -> None:
        """Discard a load whose rows are not needed, or are in a table."""
        discarded = self._loads.pop(load, None)
        if discarded is not None:
            if discarded.receiver is not None:
                discarded.receiver.close()
            if discarded.private_folder is not None:
                discarded.private_folder.cleanup()

    def restore(self, name: str, schema: Schema, files: list[str], start: int, rows: int, end: int) -> None:
        """Read the rows of a predecessor of this member, as committed rows."""
        parts = self._read_files(name, schema, [Path(file) for file in files])
        if sum(one.shape[1] for one in parts) != rows:
            raise InternalError(f"files of table {name} do not have {rows} rows")
        table = self._tables.by_name[name]
        assert isinstance(table, SparseTable)
        self._keys.drop(name)  # these indexes do not contain the rows
        table.append_range(start, _consume(parts), end)
        table.drain()
        self._tables.commit((name,))

    def finish_step(self) -> None:
        """Discard the loads that the committed step has processed."""
        for load, processed in [one for one in self._loads.items() if one[1].is_processed]:
            for keys in processed.keys:
                keys.record_insert()
            self.discard(load)

    def get(self, load: str) -> Load:
        """Return a load."""
        staged = self._loads.get(load)
        if staged is None:
            raise OperationalError(
                "rows that were being loaded are gone with a worker",
                hint="nothing was loaded: load them again",
            )
        return staged

    def apply(self, message: ChangeMessage) -> None:
        """Append the rows of a load that a step processes."""
        assert message.load is not None
        load, table = self.get(message.load), self._tables.by_name[message.table]
        assert isinstance(table, SparseTable) and isinstance(message.rowids, tuple)
        if load.read_shards is not None:
            table.append_rows(load.read_shards(), message.size_after[0])
        else:
            parts, load.parts = self.parts(load), None
            table.append_range(message.rowids[0], _consume(parts), message.size_after[0])
        load.is_processed = True
        self._tables.closed_changes.append(EpochChanges(message.epoch, message.table, table.drain()))


NO_CODE = -1


class MemberShards:
    """Shards of a member in the folder of the database."""

    def __init__(self, tables: BaseTables, group: WorkerGroup, loads: MemberLoads, keys: LoadKeys) -> None:
        self._tables = tables
        self._group = group
        self._loads = loads
        self._keys = keys

    def find_folder(self, folder: str, database: int) -> bool:
        """Return whether this machine sees the folder of a database."""
        files = find_database(folder, database)
        self._tables.shard_store = None if files is None else ShardStore(files, database, folder)
        return files is not None

    def write(self, load: str, name: str, number: int) -> Shard:
        """Write the staged rows of a load to the pack with that number, durably."""
        staged, schema = self._loads.get(load), self._tables.by_name[name].schema
        parts = self._loads.parts(staged)
        if not any(one.shape[1] for one in parts):
            return empty_shard()
        vault = self._require_store()
        text_columns = self._group.text_columns(schema.types)
        codes = used_codes(parts, text_columns, len(self._tables.dictionary))
        numbers = np.full(len(self._tables.dictionary), NO_CODE)
        numbers[codes] = np.arange(codes.shape[0])
        encoded = (translate_columns(one, text_columns, numbers) for one in parts)
        try:
            shard = write_shard(
                vault.files, number, vault.database, self._tables.dictionary.parts(codes), encoded
            )
        except OSError as error:
            raise OperationalError(
                f"worker {self._group.index} could not write rows to {vault.folder}: {error.strerror}",
                hint="nothing was loaded; free some space, or check the disk, and try again",
            ) from error
        staged.reread = partial(self._read_own_shard, schema, shard)
        return shard

    def _require_store(self) -> ShardStore:
        if self._tables.shard_store is None:
            raise OperationalError(
                f"worker {self._group.index} does not see the folder of the database",
                hint="workers have to see the folder that rows were loaded into",
            )
        return self._tables.shard_store

    def _read_own_shard(self, schema: Schema, shard: Shard) -> list[Words]:
        return list(self._tables.read_shards(schema, Sharded((shard,))))

    def attach(
        self, name: str, schema: Schema, start: int, sharded: Sharded, home_column: int, load: str | None
    ) -> None:
        """Append this member's rows of shards to a table, now or with the step that processes ``load``."""
        self._require_store()
        rows = partial(self._own_shard_rows, schema, start, sharded, home_column)
        if load is not None:
            self._loads.add(load, Load(None, None, read_shards=rows))
            return
        table = self._tables.by_name[name]
        assert isinstance(table, SparseTable)
        self._keys.drop(name)
        table.append_rows(rows(), start + sharded.rows)
        table.drain()
        self._tables.commit((name,))

    def _own_shard_rows(
        self, schema: Schema, start: int, sharded: Sharded, home_column: int
    ) -> Iterator[tuple[Words, Words]]:
        """Yield rowids and rows of this member in shards."""
        index, count = self._group.index, self._group.count
        for number, shard in enumerate(sharded.shards):
            if len(sharded.shards) != count:
                yield from self._filter_shard(schema, start, shard, home_column)
            elif number == index:
                first = start
                for words in self._tables.read_shards(schema, Sharded((shard,))):
                    yield np.arange(first, first + words.shape[1]), words
                    first += words.shape[1]
            start += shard.rows

    def _filter_shard(
        self, schema: Schema, start: int, shard: Shard, home_column: int
    ) -> Iterator[tuple[Words, Words]]:
        """Yield this member's rows of a shard of any members; only their strings are interned."""
        if not shard.rows:
            return
        vault, text_columns = self._require_store(), self._group.text_columns(schema.types)
        strings = Dictionary()
        strings.intern_parts(*vault.strings(shard))
        owners = Owners(strings, self._group.count, has_local_codes=True)
        codes = np.full(len(strings), NO_CODE)
        for words in vault.parts(shard):
            is_own = (
                owners.owners(words[home_column], interned=schema.types[home_column].is_interned)
                == self._group.index
            )
            positions = np.flatnonzero(is_own)
            own_rows = np.ascontiguousarray(words[:, positions])
            new_codes = used_codes([own_rows], text_columns, len(strings))
            new_codes = new_codes[codes[new_codes] == NO_CODE]
            codes[new_codes] = self._tables.dictionary.intern_parts(*strings.parts(new_codes))
            yield start + positions, translate_columns(own_rows, text_columns, codes)
            start += words.shape[1]
