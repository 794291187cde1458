"""Bulk loads at the coordinator: tables whose rows are at their members.

The coordinator knows only how many rows such a table has. The first statement that reads a row of it fetches
all rows from the members, once; from then on it is an ordinary table. Where workers share no memory, each
member is sent only its own rows (:class:`RowDistributor`).

:class:`RemoteLoadStaging` implements ``executor.LoadStaging``. :func:`check_constraints` turns the constraint
violations that members report into the error that a single worker raises.
"""

import secrets
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.checkpoint.captured_state import make_dormant, wake
from kpg.runtime.cluster.constraint_audit import ForeignKeyCheck, ViolationCandidates
from kpg.runtime.cluster.messages import ChangeMessage, PerMember, UnsendableError, shorten_rowids
from kpg.runtime.cluster.table_shards import TOKEN_FILE, StagedRows
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError, OperationalError
from kpg.runtime.handles import LoadResult, LoadRules, LoadTarget, Unique
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.operators.text_exchange import Owners
from kpg.runtime.plan import Types
from kpg.runtime.records import dataclass
from kpg.runtime.storage.files import LOAD_FOLDER_PREFIX, ScratchFolder
from kpg.runtime.storage.packs import Sharded
from kpg.runtime.tables.row_groups import RowGroups
from kpg.runtime.tables.table import (
    NO_KEY,
    EpochChanges,
    LooseIndex,
    Savepoint,
    Table,
    UniqueIndex,
    duplicate_error,
    make_unique_index,
    unique_error,
)
from kpg.runtime.types import NULL, Schema, is_loose
from kpg.runtime.worker.base_tables import BaseTables

Words = NDArray[np.int64]


class MemberCalls(Protocol):
    """Interface of the client of the members for loads."""

    @property
    def count(self) -> int:
        """Number of members."""

    @property
    def hosts(self) -> list[str]:
        """Hosts of the members, if they are reached over a network."""

    def call_members(self, method: str, *args: object) -> list[Any]:
        """Call a method at all members and return their results."""

    def notify_members(self, method: str, *args: object) -> None:
        """Call a method that only transfers this process's state; restarted members receive it anyway."""

    def decode_words(self, worker: int, words: Words, text_columns: tuple[int, ...]) -> Words:
        """Translate words of a member to those of the coordinator, in place."""

    def text_columns(self, types: Types) -> tuple[int, ...]:
        """Return the columns whose words differ at members."""


class HomeColumns:
    """Home columns of tables whose rows were sent: their words determine the member of each row."""

    def __init__(self, choose: Callable[[str], int]) -> None:
        self._choose = choose
        self._columns: dict[str, int] = {}

    def column(self, table: str) -> int:
        """Return the home column of a table."""
        column = self._columns.get(table)
        if column is None:
            column = self._columns[table] = self._choose(table)
        return column

    def drop(self, table: str) -> None:
        """Drop a table."""
        self._columns.pop(table, None)

    def rename(self, old: str, new: str) -> None:
        """Rename a table."""
        if old in self._columns:
            self._columns[new] = self._columns.pop(old)


class RowDistributor:
    """Distributes rows among ``count`` members, by the words of the home column of each table."""

    def __init__(self, dictionary: Dictionary, count: int) -> None:
        self.count = count
        self._owners = Owners(dictionary, count, has_local_codes=True)

    def change_messages(
        self, table: Table, home_column: int, epoch: int, name: str, deleted: Words | None, rowids: Words
    ) -> list[ChangeMessage]:
        """Return each member's message of an epoch's changes: its inserted rows, and all deleted rowids."""
        size_after = table.count, table.rows
        return [
            ChangeMessage(epoch, name, deleted, shorten_rowids(own_rowids), words, size_after)
            for own_rowids, words in self._rows_by_member(table, home_column, rowids)
        ]

    def distribute(self, table: Table, home_column: int, rowids: Words) -> tuple[PerMember, PerMember]:
        """Return each member's rowids and rows of existing rows."""
        rowids_of, words_of = zip(*self._rows_by_member(table, home_column, rowids), strict=True)
        return PerMember(rowids_of), PerMember(words_of)

    def _rows_by_member(self, table: Table, home_column: int, rowids: Words) -> list[tuple[Words, Words]]:
        words = table.read(rowids)
        positions = self._owners.positions_by_worker(
            words[home_column], interned=table.schema.types[home_column].is_interned
        )
        return [(rowids[own], np.ascontiguousarray(words[:, own])) for own in positions]


MAX_SENT_KEYS: Final = 1 << 20
"""Keys of a table of the coordinator up to which they are sent to members, to check foreign keys there."""


def check_constraints(
    client: MemberCalls, target: LoadTarget, store: "RemoteTable", rules: LoadRules
) -> bool:
    """Check staged rows at members; return False if the members cannot check them.

    Raises:
        IntegrityError: For the first row that violates a constraint.
    """
    key = store.schema.primary_key
    uniques = [Unique(key)] if key else []
    uniques += [Unique(one.columns, one.nulls_distinct) for one in store.uniques]
    if rules.checks is None and not uniques:
        return True
    local = [one for one in uniques if target.home in one.columns]
    distributed = [one for one in uniques if target.home not in one.columns]
    try:
        replies = client.call_members(
            "audit", target.load, store.name, store.schema, rules.checks, local, distributed
        )
    except UnsendableError:
        return False
    except BaseException:
        client.notify_members("forget_keys", store.name)
        raise
    check_count = 0 if rules.checks is None else len(rules.checks.outputs)
    order = [*range(check_count), *(check_count + (local + distributed).index(one) for one in uniques)]
    for number in order:
        columns = (local + distributed)[number - check_count].columns if number >= check_count else ()
        row = _first_violation(client, store, [each[number] for each in replies], columns)
        if row is None:
            continue
        if number < check_count:
            assert rules.raise_violation is not None
            rules.raise_violation(row[0])
            raise InternalError(f"a row of table {store.name} fails a CHECK at a worker, and not here")
        _raise_duplicate(store, uniques.index((local + distributed)[number - check_count]), *row)
    return True


def _raise_duplicate(store: "RemoteTable", number: int, row: Words, exists: bool) -> None:
    """Raise the error for a row that violates a unique constraint."""
    number -= bool(store.schema.primary_key)
    if number < 0:
        raise duplicate_error(store, row, 0, exists)
    raise unique_error(store, store.uniques[number], row, 0, exists)


def _first_violation(
    client: MemberCalls, store: Table, replies: Sequence[Any], columns: Sequence[int]
) -> tuple[Words, bool] | None:
    """Return the first row that violates a constraint, and whether it does so without another staged row."""
    candidates = [ViolationCandidates(*one) for one in replies]
    text_columns = client.text_columns(store.schema.types)
    rows = [
        client.decode_words(member, one.rows.copy(), text_columns) for member, one in enumerate(candidates)
    ]
    members = [member for member, one in enumerate(candidates) if one.is_certain.shape[0]]
    if not members:
        return None
    all_rows = np.concatenate([rows[member] for member in members], axis=1)
    order = np.concatenate([candidates[member].order for member in members], axis=1)
    is_certain = np.concatenate([candidates[member].is_certain for member in members])
    earlier_keys: set[tuple[int, ...]] = set()
    positions = np.lexsort(order[::-1]).tolist()
    for position in positions:
        key = tuple(all_rows[list(columns), position].tolist())
        if is_certain[position] or key in earlier_keys:
            break
        earlier_keys.add(key)
    return np.ascontiguousarray(all_rows[:, position : position + 1]), bool(is_certain[position])


def find_dangling_row(
    client: MemberCalls, reference: ForeignKeyCheck, store: Table, target: Table, home_column: int | None
) -> Words | None:
    """Return the first dangling row; ``home_column`` is the target's if its rows are at members, else None.

    See ``executor.LoadStaging``.
    """
    columns = reference.target_columns
    if any(is_loose(target.schema.types[place]) for place in columns):
        return None
    target_keys: Words | None = None
    if home_column is not None:
        reference = reference._replace(
            home_position=columns.index(home_column) if home_column in columns else None
        )
    elif target.rows > MAX_SENT_KEYS:
        return None
    else:
        target_keys = target.read(target.live(), columns)
        target_keys = np.ascontiguousarray(target_keys[:, (target_keys != NULL).all(axis=0)])
    row = _first_violation(client, store, client.call_members("dangling", reference, target_keys), ())
    return np.empty((len(store.schema.columns), 0), np.int64) if row is None else row[0]


CHUNK_ROWS: Final = 1 << 18
"""Rows of each member that are fetched in one message."""
NO_ROWIDS: Final[Words] = np.empty(0, np.int64)
MAX_WORD: Final = (1 << 63) - 1


@dataclass(slots=True, eq=False)
class RemoteRange:
    """Rows of one load from rowid ``start`` on: those of the first member, of the second, and so on."""

    load: str
    schema: Schema
    start: int
    counts: list[int]
    files: list[list[str]]
    folder: ScratchFolder | None
    is_final: bool = False
    recorded_shards: Sharded | None = None
    """The same rows in the folder of the database, as written by current or earlier members."""

    @property
    def starts(self) -> list[int]:
        """First rowid of each member."""
        return [self.start + sum(self.counts[:member]) for member in range(len(self.counts))]

    @property
    def end(self) -> int:
        """First rowid after it."""
        return self.start + sum(self.counts)

    def change_message(self, epoch: int, name: str, member: int) -> ChangeMessage:
        """Return the message for a member about the epoch that inserts these rows."""
        if self.folder is None:  # shards: the number of members may have changed since
            return ChangeMessage(
                epoch, name, None, (self.start, self.end), None, (self.end, self.end), self.load
            )
        first = self.starts[member]
        rowids = first, first + self.counts[member]
        return ChangeMessage(epoch, name, None, rowids, None, (self.end, self.end), self.load)


class RemoteTable(Table):
    """A table whose rows are either all at members, or all in this process."""

    fetch_rows: Callable[["RemoteTable", RemoteRange], list[Words]]
    """Return the rows of a range."""
    discard_range: Callable[[RemoteRange], None]
    """Called for each range that is no longer needed."""
    is_opening: Callable[[], bool]
    """Whether the database is being opened, so that all rows were committed before."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ranges: list[RemoteRange] = []
        """Rows that are at members."""

    @property
    def accepts_ranges(self) -> bool:
        """Whether rows at members can be added: there are no rows in this process, and no pending ranges."""
        if self.ranges:
            return all(block.is_final for block in self.ranges)
        loose = any(isinstance(one, LooseIndex) for one in self._unique)
        return not (self.count or loose or self._bag is not None)

    @property
    def accepts_shards(self) -> bool:
        """Whether recorded rows at members can be added; pending ranges do not matter."""
        return bool(self.ranges) or self.accepts_ranges

    def add_unique(self, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """Add a unique constraint; restored rows at members are known to satisfy it."""
        index = make_unique_index(self, name, columns, nulls_distinct=nulls_distinct)
        if self.ranges and self.is_opening() and not isinstance(index, LooseIndex):
            self._unique.append(index)
        else:
            super().add_unique(name, columns, nulls_distinct=nulls_distinct)

    @property
    def uniques(self) -> list[UniqueIndex]:
        """Unique indexes other than the primary key's."""
        return self._unique

    def add_range(self, rows: RemoteRange) -> None:
        """Add rows that are at members."""
        with self._interrupt:
            if not self.ranges:
                self._lookups.clear()
                make_dormant(self.groups, "far", self._fetch_ranges)
            if self._key is not None:
                # Any key may be there: each that comes is looked for, for which rows have to be here.
                self._key.highest, self._key.known = np.full_like(self._key.highest, MAX_WORD), 1
            self._set_ranges([*self.ranges, rows])
            self.count = rows.end
            self.touched_tables[self] = None

    def fetch_all(self) -> None:
        """Fetch all rows, unless they are in this process."""
        wake(self.groups)

    def _fetch_ranges(self, groups: RowGroups, _: object) -> None:
        parts = [part for block in self.ranges for part in self.fetch_rows(self, block)]
        key, highest, known = NO_KEY
        required, start = np.zeros_like(self._required_columns), 0
        with self._interrupt:
            for words in parts:
                end = start + words.shape[1]
                groups.reserve(end, start)
                kernels.append(
                    groups.directory, np.ascontiguousarray(words), start, required, key, highest, known
                )
                start = end
            for index in self._unique:
                index.build(np.arange(start))
            self._discard_ranges(self.ranges)

    def _discard_ranges(self, ranges: list[RemoteRange]) -> None:
        for block in ranges:
            self.discard_range(block)
        self._set_ranges([block for block in self.ranges if block not in ranges])

    def _set_ranges(self, ranges: list[RemoteRange]) -> None:
        self.ranges = ranges
        self.shard_ranges = [
            (block.start, block.recorded_shards) for block in ranges if block.recorded_shards is not None
        ]

    def discard(self) -> None:
        """Discard all ranges of a dropped table."""
        self._discard_ranges(self.ranges)

    @property
    def bytes(self) -> int:
        return 0 if self.ranges else super().bytes

    def rollback(self, savepoint: Savepoint) -> None:
        if not self.ranges:
            super().rollback(savepoint)
            return
        self.touched_tables[self] = None
        self.count, self._drained_count, self._undrained_deletions = (
            savepoint.count,
            savepoint.drained_count,
            list(savepoint.undrained_deletions),
        )
        self._discard_ranges([block for block in self.ranges if block.end > self.count])
        if not self.ranges:
            self.fetch_all()  # makes the empty groups ordinary ones
            if self._key is not None and savepoint.highest is not None:
                self._key.highest, self._key.known = savepoint.highest, savepoint.has_highest

    def commit(self) -> None:
        for block in self.ranges:
            block.is_final = True
        super().commit()


def change_messages(
    table: Table, home_column: int, epoch_changes: EpochChanges, distributor: RowDistributor
) -> list[list[ChangeMessage]]:
    """Return for each member the messages of an epoch's changes, with words unless it has the rows."""
    name = epoch_changes.table
    deletions = [change.rowids for change in epoch_changes.changes if change.diff < 0]
    insertions = [change.rowids for change in epoch_changes.changes if change.diff > 0]
    rowids = np.sort(np.concatenate([NO_ROWIDS, *insertions]))
    if not isinstance(table, RemoteTable) or not table.ranges:
        deleted = np.concatenate(deletions) if deletions else None
        parts = distributor.change_messages(table, home_column, epoch_changes.epoch, name, deleted, rowids)
        return [[one] for one in parts]
    ranges = [block for block in table.ranges if rowids[0] <= block.start <= rowids[-1]]
    return [
        [block.change_message(epoch_changes.epoch, name, member) for block in ranges]
        for member in range(distributor.count)
    ]


class RemoteLoadStaging:
    """An ``executor.LoadStaging`` at members."""

    def __init__(self, client: MemberCalls, tables: BaseTables, home_columns: HomeColumns) -> None:
        self._client = client
        self._tables = tables
        self._home_columns = home_columns
        self._all_see_folder: bool | None = None
        self._open_loads: dict[str, tuple[ScratchFolder, bool]] = {}
        """Temporary folder of each open load, and whether all members can read it."""

    def open(self, table: str) -> LoadTarget:
        """Prepare workers to receive rows of a table."""
        client, load, secret = self._client, uuid.uuid4().hex, secrets.token_bytes(32)
        folder = ScratchFolder(LOAD_FOLDER_PREFIX)
        try:
            Path(folder.name, TOKEN_FILE).write_text(load)
            hosts = client.hosts
            replies: list[tuple[int, bool]] = client.call_members("dock", load, hosts, secret, folder.name)
            is_shared = all(seen for _, seen in replies)
            self._open_loads[load] = folder, is_shared
            if not is_shared and self._tables.recorder is None:
                self._discard_load(load)
                raise OperationalError(
                    f"a worker does not see the driver's folder {Path(folder.name).parent}: rows that it "
                    "alone has would be gone with it",
                    hint="set TMPDIR to a folder that the driver and all executors share, or open the "
                    "database in a folder, where commits are stored",
                )
        except BaseException:
            folder.cleanup()
            raise
        home_column = self._home_columns.column(table)
        interned = self._tables.by_name[table].schema.types[home_column].is_interned
        owners = Owners(self._tables.dictionary, client.count, has_local_codes=True)
        nulls = int(owners.owners(np.array([NULL], np.int64), interned=interned)[0])
        ports = [port for port, _ in replies]
        return LoadTarget(load, table, list(zip(hosts, ports, strict=True)), secret, home_column, nulls)

    def commit_load(self, target: LoadTarget, attempts: Sequence[int], rules: LoadRules | None) -> LoadResult:
        """Add the rows of these attempts to the table if workers can hold and check them; or return them."""
        client = self._client
        store = self._tables.by_name[target.table]
        assert isinstance(store, RemoteTable)
        folder, is_shared = self._open_loads[target.load]
        schema = store.schema
        replies = client.call_members("stage", target.load, target.table, schema, list(attempts), target.home)
        staged = [StagedRows(*one) for one in replies]
        counts = [one.rows for one in staged]
        stays_at_members = (
            is_shared if self._tables.recorder is None else self.members_see_folder
        ) and store.accepts_ranges
        stays_at_members = stays_at_members and not any(one.foreign_rows for one in staged)
        if stays_at_members and rules is not None and check_constraints(client, target, store, rules):
            files = [one.files for one in staged]
            rows = RemoteRange(target.load, schema, store.count, counts, files, folder)
            if self._tables.recorder is None or self._write_shards(store.name, rows):
                del self._open_loads[target.load]
                store.add_range(rows)
                return LoadResult(sum(counts), iter(()), (rows.start, rows.end))
        return LoadResult(sum(counts), self._staged_rows(target.table, target.load, counts), None)

    # Loads into the folder of a database

    def reset_visibility(self) -> None:
        """Forget whether members see the database's folder, since new members may run elsewhere."""
        self._all_see_folder = None

    @property
    def members_see_folder(self) -> bool:
        """Whether all members see the folder of the database."""
        vault = self._tables.shard_store
        if self._all_see_folder is None:
            self._all_see_folder = False
            if vault is not None and vault.folder is not None:
                self._all_see_folder = all(self._client.call_members("see", vault.folder, vault.database))
        return self._all_see_folder

    def _write_shards(self, name: str, rows: RemoteRange) -> bool:
        """Let members write staged rows to packs; return False if this process cannot read all of them."""
        client, vault = self._client, self._tables.shard_store
        assert self._tables.recorder is not None and vault is not None
        numbers = self._tables.recorder.reserve_packs(len(rows.counts))
        try:
            shards = client.call_members("shelve", rows.load, name, PerMember(tuple(numbers)))
            if not all(vault.is_visible(one) for one in shards if one.rows):
                self._tables.recorder.release_packs(numbers)
                self._all_see_folder = False
                return False
        except BaseException:
            self._tables.recorder.release_packs(numbers)
            raise
        rows.recorded_shards = Sharded(tuple(shards))
        assert rows.folder is not None
        rows.folder.cleanup()
        return True

    def attach_shards(self, table: Table, start: int, shards: Sharded) -> bool:
        """Add recorded rows to a table, without informing members; return False if they cannot read them."""
        if not (isinstance(table, RemoteTable) and table.accepts_shards and self.members_see_folder):
            return False
        counts = [one.rows for one in shards.shards]
        rows = RemoteRange(uuid.uuid4().hex, table.schema, start, counts, [], None, recorded_shards=shards)
        table.add_range(rows)
        return True

    def announce_shards(self, name: str, rows: RemoteRange, *, is_committed: bool) -> None:
        """Let members read the rows of shards: as committed rows, or with the next step."""
        load = None if is_committed else rows.load
        home = self._home_columns.column(name)
        self._client.notify_members("moor", name, rows.schema, rows.start, rows.recorded_shards, home, load)

    def find_dangling_row(
        self, table: str, rowids: tuple[int, int], columns: tuple[int, ...], target: str,
        target_columns: tuple[int, ...], *, is_full: bool,
    ) -> Words | None:  # fmt: skip
        """Return the first loaded row whose key no row of the target table has."""
        store, other = self._tables.by_name[table], self._tables.by_name[target]
        assert isinstance(store, RemoteTable) and isinstance(other, RemoteTable)
        load = next((one.load for one in store.ranges if not one.is_final and one.start == rowids[0]), None)
        if load is None:
            return None
        target_load = next((one.load for one in other.ranges if not one.is_final), None)
        reference = ForeignKeyCheck(
            load, table, columns, store.schema, is_full, target, target_columns, target_load, None
        )
        home_column = self._home_columns.column(target) if other.ranges else None
        return find_dangling_row(self._client, reference, store, other, home_column)

    def close(self, target: LoadTarget) -> None:
        """Discard received rows that were not committed."""
        if target.load in self._open_loads:
            self._discard_load(target.load)

    def _discard_load(self, load: str) -> None:
        folder, _ = self._open_loads.pop(load)
        self._client.notify_members("unload", load)
        folder.cleanup()

    def _staged_rows(self, table: str, load: str, counts: list[int]) -> Iterator[Words]:
        """Yield the staged rows, a chunk of each member at a time."""
        text_columns = self._client.text_columns(self._tables.by_name[table].schema.types)
        for first in range(0, max(counts, default=0), CHUNK_ROWS):
            replies = self._client.call_members("staged_part", load, table, first, first + CHUNK_ROWS)
            for member, words in enumerate(replies):
                yield self._client.decode_words(member, words.copy(), text_columns)

    def fetch_rows(self, table: RemoteTable, rows: RemoteRange) -> list[Words]:
        """Return the rows of a range."""
        client, text_columns = self._client, self._client.text_columns(table.schema.types)
        if rows.recorded_shards is not None:
            return list(self._tables.read_shards(table.schema, rows.recorded_shards))
        parts: list[list[Words]] = [[] for _ in rows.counts]
        for first in range(0, max(rows.counts), CHUNK_ROWS):
            if rows.is_final:
                starts = [start + min(first, n) for start, n in zip(rows.starts, rows.counts, strict=True)]
                ends = [
                    start + min(first + CHUNK_ROWS, n)
                    for start, n in zip(rows.starts, rows.counts, strict=True)
                ]
                replies = client.call_members(
                    "held", table.name, PerMember(tuple(starts)), PerMember(tuple(ends))
                )
            else:
                replies = client.call_members("staged_part", rows.load, table.name, first, first + CHUNK_ROWS)
            for member, words in enumerate(replies):
                parts[member].append(client.decode_words(member, words.copy(), text_columns))
        return [words for each in parts for words in each]

    def discard_range(self, rows: RemoteRange) -> None:
        """Discard a range that is no longer needed."""
        if not rows.is_final:
            self._client.notify_members("unload", rows.load)
            if rows.recorded_shards is not None and self._tables.recorder is not None:
                self._tables.recorder.release_packs(
                    {one.pack for one in rows.recorded_shards.shards if one.rows}
                )
        if rows.folder is not None:
            rows.folder.cleanup()

    def restore_rows(self, table: RemoteTable) -> bool:
        """Let restarted members read the committed rows of a table.

        If they cannot, fetch the rows from the shards into this process and return False.
        """
        if table.shard_ranges and not self.members_see_folder:
            table.fetch_all()
            return False
        for rows in table.ranges:
            if rows.is_final and rows.recorded_shards is not None:
                self.announce_shards(table.name, rows, is_committed=True)
            elif rows.is_final:
                self._client.notify_members(
                    "again", table.name, rows.schema, PerMember(tuple(rows.files)),
                    PerMember(tuple(rows.starts)), PerMember(tuple(rows.counts)), rows.end,
                )  # fmt: skip
        return True
