"""The row store of a base table: every row once, addressed by rowid, with its indexes and undo log.

Rows are immutable, and a rowid is not reused, except after a rollback. A deleted row stays readable
until the step that processes the deletion has committed, because the dataflow retracts what it
derived from the row. The vacuum frees it later. The dataflow receives each net change once, through
:meth:`Table.drain`.

:class:`UniqueIndex` and :class:`LookupIndex` index columns besides the primary key. Their *loose*
variants serve keys whose equal values may be different words, such as 1.5 and 1.50, or a month and
30 days.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.python_values import show_plain, show_word
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import IntegrityError, InternalError, ProgrammingError, Violation
from kpg.runtime.functions.comparison import equality_key_encoder
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.kernels import rowgroups
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.kernels import rows as kernels_rows
from kpg.runtime.records import dataclass
from kpg.runtime.tables.row_groups import RowGroups, Vacuum
from kpg.runtime.tables.row_index import BagIndex, KeyIndex, is_full, slots_for
from kpg.runtime.types import NULL, Schema, Type, is_loose

if TYPE_CHECKING:
    from kpg.runtime.storage.packs import Sharded
    from kpg.runtime.tables.row_groups import TableHistory

Words = NDArray[np.int64]


class PreparedRows:
    """A recorder's tokens for inserted rows, by rowid. Rowids are reused only after a rollback."""

    def __init__(self) -> None:
        self._tokens: list[tuple[int, int, Any]] = []

    def add(self, rowids: Words, token: Any) -> None:
        """Add the token of the newest rows, whose rowids are consecutive."""
        self._tokens.append((int(rowids[0]), int(rowids[-1]) + 1, token))

    def truncate(self, count: int) -> None:
        """Remove the tokens of rows from ``count`` on."""
        self._tokens = [entry for entry in self._tokens if entry[1] <= count]

    def find(self, rowids: Words) -> list[tuple[int, int, Any]]:
        """Return (start, end, token) for tokens of rows that are all among the ascending ``rowids``."""
        result = []
        for first, end, token in self._tokens:
            at = int(np.searchsorted(rowids, first))
            beyond = at + end - first
            if beyond <= rowids.shape[0] and rowids[at] == first and rowids[beyond - 1] == end - 1:
                result.append((at, beyond, token))
        return result


SEED: Final = np.uint64(0x9E3779B97F4A7C15)
FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
MAX_RUNS: Final = 12
MAX_DEAD_ENTRIES: Final = 1024
"""Entries of dead rows that are kept besides as many as there are live ones."""


class UniqueIndex:
    """Index from each key to its live row.

    With ``nulls_distinct``, rows with a NULL in the key are left out.
    """

    def __init__(
        self, name: str, groups: RowGroups, columns: tuple[int, ...], *, nulls_distinct: bool
    ) -> None:
        self.name = name
        self.columns = columns
        self.nulls_distinct = nulls_distinct
        self._groups = groups
        self._key: Words = np.array(columns, np.int64)
        self._whole_key: Words = np.arange(len(columns), dtype=np.int64)
        self._probe_directory: Words = np.zeros((2, rowgroups.FIELDS), np.int64)
        self._tally: Words = np.zeros(1, np.int64)
        self._slots: Words = np.zeros(slots_for(0), np.int64)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def insert(self, rowids: Words, count: int, live: int) -> int:
        """Add stored rows besides the ``live`` ones below ``count``.

        Return the position of the first duplicate, or -1. With a duplicate, no row is added.
        """
        places = self._indexed_positions(rowids)
        indexed = rowids if places is None else rowids[places]
        if is_full(self._slots.shape[0], int(self._tally[0]), indexed.shape[0]):
            self.build(self._groups.live(0, count, live), indexed.shape[0])
        duplicate = self._insert(indexed)
        return duplicate if duplicate < 0 or places is None else int(places[duplicate])

    def build(self, rowids: Words, more: int = 0) -> int:
        """Rebuild the index from these rows, as :meth:`insert`, with room for ``more``."""
        self._slots = np.zeros(slots_for(rowids.shape[0] + more), np.int64)
        self._tally[0] = 0
        places = self._indexed_positions(rowids)
        duplicate = self._insert(rowids if places is None else rowids[places])
        return duplicate if duplicate < 0 or places is None else int(places[duplicate])

    def remove(self, rowids: Words) -> None:
        """Remove indexed rows."""
        places = self._indexed_positions(rowids)
        indexed_rows = np.ascontiguousarray(rowids if places is None else rowids[places])
        kernels_rows.key_remove(self._slots, self._tally, self._groups.directory, self._key, indexed_rows)

    def find(self, keys: Words) -> Words:
        """Return the rowid of each key ``keys[k, n]``, or -1."""
        out = np.empty(keys.shape[1], np.int64)
        key_words = np.ascontiguousarray(keys)
        directory = self._groups.directory
        kernels_rows.key_find(
            self._slots, directory, self._key, key_words, self._whole_key, self._probe_directory, out
        )
        return out

    def _insert(self, rowids: Words) -> int:
        rowids = np.ascontiguousarray(rowids)
        return int(
            kernels_rows.key_insert(self._slots, self._tally, self._groups.directory, self._key, rowids)
        )

    def _indexed_positions(self, rowids: Words) -> Words | None:
        """Return the positions of the rows to index; None for all."""
        if not self.nulls_distinct:
            return None
        keys = self._groups.read(self._key, np.ascontiguousarray(rowids))
        absent = (keys == NULL).any(axis=0)
        return np.flatnonzero(~absent) if absent.any() else None


class LookupIndex:
    """Index from each key to any number of rows: sorted runs of hashes with rowids.

    It covers the rows below ``indexed`` and catches up on use. Its entries are candidates, which
    ``find`` checks: a row may be dead, or have reused the rowid of a row that was rolled back.
    """

    def __init__(self, groups: RowGroups, columns: tuple[int, ...]) -> None:
        self.columns = columns
        self.indexed = 0
        self._groups = groups
        self._key: Words = np.array(columns, np.int64)
        self._runs: list[tuple[Words, Words]] = []

    @property
    def bytes(self) -> int:
        return sum(hashes.nbytes + rowids.nbytes for hashes, rowids in self._runs)

    def find(self, keys: Words, count: int, live: int) -> tuple[Words, Words]:
        """Return positions of keys ``keys[k, n]`` and rowids of rows with them; dead rows may be included."""
        self._catch_up(count, live)
        key_hashes = _hash_keys(keys)
        positions, rowids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for hashes, rows in self._runs:
            first, last = (
                np.searchsorted(hashes, key_hashes, "left"),
                np.searchsorted(hashes, key_hashes, "right"),
            )
            counts = last - first
            place = np.repeat(np.arange(key_hashes.shape[0]), counts)
            offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            positions.append(place)
            rowids.append(rows[np.repeat(first, counts) + offset])
        place, candidates = np.concatenate(positions), np.concatenate(rowids)
        below = candidates < count
        place, candidates = place[below], candidates[below]
        same = (self._groups.read(self._key, np.ascontiguousarray(candidates)) == keys[:, place]).all(axis=0)
        pairs = np.unique(np.stack((place[same], candidates[same])), axis=1)
        return pairs[0], pairs[1]

    def restore(self, count: int, revived: Words) -> None:
        """Return to ``count`` rows, whose later rowids may be reused; the ``revived`` ones are live again."""
        self.indexed = min(self.indexed, count)
        self._add(revived[revived < self.indexed])

    def _catch_up(self, count: int, live: int) -> None:
        if sum(rowids.shape[0] for _, rowids in self._runs) > 2 * live + MAX_DEAD_ENTRIES:
            self.indexed, self._runs = 0, []
        if self.indexed < count:
            self._add(self._groups.live(self.indexed, count, live))
            self.indexed = count

    def _add(self, rowids: Words) -> None:
        if not rowids.shape[0]:
            return
        rowids = np.ascontiguousarray(rowids)
        self._runs.append(_sort_run(_hash_keys(self._groups.read(self._key, rowids)), rowids))
        while len(self._runs) > 1 and (
            self._runs[-2][0].shape[0] <= 2 * self._runs[-1][0].shape[0] or len(self._runs) > MAX_RUNS
        ):
            (newer_hashes, newer_rowids), (older_hashes, older_rowids) = self._runs.pop(), self._runs.pop()
            self._runs.append(
                _sort_run(
                    np.concatenate((newer_hashes, older_hashes)), np.concatenate((newer_rowids, older_rowids))
                )
            )


def _sort_run(hashes: Words, rowids: Words) -> tuple[Words, Words]:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], rowids[order]


def _hash_keys(keys: Words) -> Words:
    """Return a hash of each key ``keys[k, n]``."""
    state = np.full(keys.shape[1], SEED, np.uint64)
    for words in keys:
        state = (state ^ np.ascontiguousarray(words).view(np.uint64)) * FACTOR
        state ^= state >> np.uint64(31)
    return state.view(np.int64)


def index_new_rows(table: "Table", words: Words, state: int, highest: Words) -> Words:
    """Index the appended rows ``words``, extend the table by them, and return their rowids.

    ``state`` and ``highest`` are results of ``rowgroups.append``.

    Raises:
        IntegrityError: With nothing changed, for a NULL in a required column or a duplicate key.
    """
    start, end = table.count, table.count + words.shape[1]
    index = table._key
    if state < 0:
        raise null_error(table, words, *divmod(-1 - state, words.shape[1]))
    rowids = np.arange(start, end)
    if index is not None and end > start:
        duplicate = -1 if state else index.insert(rowids, table.rows)
        if duplicate >= 0:
            raise duplicate_error(table, words, duplicate)
        if table._unique:
            _insert_unique(table, words, rowids)
        index.highest, index.known = highest, 1
    elif table._unique:
        _insert_unique(table, words, rowids)
    table.touched_tables[table] = None
    table.count = end
    if table._bag:
        table._bag.insert(rowids, end, table.rows)
    return rowids


def _insert_unique(table: "Table", words: Words, rowids: Words) -> None:
    """Add new rows to all unique indexes; with a duplicate, raise IntegrityError and leave all unchanged."""
    for place, index in enumerate(table._unique):
        duplicate = index.insert(rowids, table.count, table.rows)
        if duplicate >= 0:
            for earlier in table._unique[:place]:
                earlier.remove(rowids)
            if table._key:
                table._key.remove_newest(rowids)

            raise unique_error(table, index, words, duplicate)


Key = tuple[Any, ...]
ENTRY_BYTES = 200
"""Approximate bytes of an index entry in Python."""


def is_loose_key(table: "Table", columns: Sequence[int]) -> bool:
    """Return whether a column of the key has equal values with different words."""
    return any(is_loose(table.schema.columns[place].type) for place in columns)


class LooseIndex(UniqueIndex):
    """Unique index by normalized values, in Python: a few microseconds a row.

    After a restore it is built on first use.
    """

    def __init__(self, name: str, table: "Table", columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        super().__init__(name, table.groups, columns, nulls_distinct=nulls_distinct)
        self._table = table
        self._rows: dict[Key, int] | None = None

    @property
    def bytes(self) -> int:
        return ENTRY_BYTES * len(self._rows or ())

    def insert(self, rowids: Words, count: int, live: int) -> int:
        entries = self._entries()
        added: list[Key] = []
        for place, (key, rowid) in enumerate(zip(self._keys(rowids), rowids.tolist(), strict=True)):
            if key is None:
                continue
            if entries.get(key, rowid) != rowid:
                for added_key in added:
                    del entries[added_key]
                return place
            if key not in entries:
                entries[key] = rowid
                added.append(key)
        return -1

    def build(self, rowids: Words, more: int = 0) -> int:
        self._rows = {}
        return self.insert(rowids, 0, 0)

    def remove(self, rowids: Words) -> None:
        entries = self._entries()
        for key, rowid in zip(self._keys(rowids), rowids.tolist(), strict=True):
            if key is not None and entries.get(key) == rowid:
                del entries[key]

    def find(self, keys: Words) -> Words:
        entries = self._entries()
        normalized = normalize_keys(self._table, self.columns, keys, nulls_distinct=self.nulls_distinct)
        rowids = [-1 if key is None else entries.get(key, -1) for key in normalized]
        return np.array(rowids, np.int64).reshape(-1)

    def _entries(self) -> dict[Key, int]:
        if self._rows is None:
            self.build(self._table.live())
        assert self._rows is not None
        return self._rows

    def _keys(self, rowids: Words) -> list[Key | None]:
        words = self._groups.read(self._key, np.ascontiguousarray(rowids))
        return normalize_keys(self._table, self.columns, words, nulls_distinct=self.nulls_distinct)


class LooseLookupIndex(LookupIndex):
    """Lookup index by normalized values."""

    def __init__(self, table: "Table", columns: tuple[int, ...]) -> None:
        super().__init__(table.groups, columns)
        self._table = table
        self._rows: dict[Key, list[int]] = {}

    @property
    def bytes(self) -> int:
        return ENTRY_BYTES * len(self._rows)

    def find(self, keys: Words, count: int, live: int) -> tuple[Words, Words]:
        self._catch_up(count, live)
        pairs = [
            (place, rowid)
            for place, key in enumerate(normalize_keys(self._table, self.columns, keys, nulls_distinct=True))
            for rowid in sorted(set(self._rows.get(key, ()) if key is not None else ()))
            if rowid < count
        ]
        candidate_pairs = np.array(pairs, np.int64).reshape(-1, 2)
        same = self._keys(candidate_pairs[:, 1])
        normalized = normalize_keys(self._table, self.columns, keys, nulls_distinct=True)
        matches = [
            key == normalized[place] for key, place in zip(same, candidate_pairs[:, 0].tolist(), strict=True)
        ]
        selected_pairs = candidate_pairs[np.array(matches, np.bool_)] if matches else candidate_pairs
        return selected_pairs[:, 0], selected_pairs[:, 1]

    def _add(self, rowids: Words) -> None:
        for key, rowid in zip(self._keys(rowids), rowids.tolist(), strict=True):
            if key is not None:
                self._rows.setdefault(key, []).append(rowid)

    def _keys(self, rowids: Words) -> list[Key | None]:
        words = self._groups.read(self._key, np.ascontiguousarray(rowids))
        return normalize_keys(self._table, self.columns, words, nulls_distinct=True)


def normalize_keys(
    table: "Table", columns: Sequence[int], words: Words, *, nulls_distinct: bool
) -> list[Key | None]:
    """Return keys in a form that is equal for equal values.

    A key with a NULL becomes None if NULLs are distinct.
    """
    parts: list[list[Any]] = []
    for place, column in zip(columns, words, strict=True):
        type_ = table.schema.columns[place].type
        if not is_loose(type_):
            parts.append(column.tolist())
            continue
        of_key, strings = equality_key_encoder(type_), table.dictionary.decode(np.ascontiguousarray(column))
        parts.append([None if string is None else of_key(string) for string in strings])
    absent = (words == NULL).any(axis=0) if nulls_distinct else np.zeros(words.shape[1], np.bool_)
    keys = zip(*parts, strict=True)
    return [None if is_absent else key for is_absent, key in zip(absent.tolist(), keys, strict=True)]


def make_unique_index(
    table: "Table", name: str, columns: tuple[int, ...], *, nulls_distinct: bool
) -> UniqueIndex:
    """Return an empty unique index of the right kind."""
    if is_loose_key(table, columns):
        return LooseIndex(name, table, columns, nulls_distinct=nulls_distinct)
    return UniqueIndex(name, table.groups, columns, nulls_distinct=nulls_distinct)


def make_lookup_index(table: "Table", columns: tuple[int, ...]) -> LookupIndex:
    """Return an empty lookup index of the right kind."""
    return (
        LooseLookupIndex(table, columns)
        if is_loose_key(table, columns)
        else LookupIndex(table.groups, columns)
    )


def make_loose_key_index(table: "Table") -> LooseIndex | None:
    """Return the additional index of a primary key whose equal values may be different words, else None."""
    key = table.schema.primary_key
    loose = bool(key) and is_loose_key(table, key)
    return LooseIndex(f"{table.name}_pkey", table, key, nulls_distinct=True) if loose else None


MAX_ROWIDS: Final = 1 << 40
"""Limit of an index entry's rowid (see ``runtime.kernels.rows``)."""

NO_KEY = (np.empty(0, np.int64), np.empty(0, np.int64), 0)


class Change(NamedTuple):
    """Rows that were inserted (``diff`` 1) or deleted (``diff`` -1)."""

    rowids: Words
    diff: int


class EpochChanges(NamedTuple):
    """Changes of one table in one epoch."""

    epoch: int
    table: str
    changes: list[Change]


@dataclass(slots=True)
class Savepoint:
    """State of a table for a rollback: its rowids in use, and the changes drained by then."""

    count: int
    drained_count: int
    highest: Words | None
    has_highest: int
    deletions: int
    undrained_deletions: tuple[Words, ...]


class Table:
    """Rows, key index and undo log of one base table. Changes are atomic with respect to Ctrl-C.

    ``count`` rowids are in use. Of these, ``dead_rows`` are deleted but still stored, and the storage
    of ``reclaimed_rows`` is freed.
    """

    shard_ranges: "Sequence[tuple[int, Sharded]]" = ()
    """First rowids of ranges whose rows only workers have, with the shards that they wrote."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt | None = None,
        touched_tables: "dict[Table, None] | None" = None,
        groups: RowGroups | None = None,
    ) -> None:
        if not schema.columns:
            raise ProgrammingError(f"table {name} has no columns", hint="give it at least one column")
        self.name = name
        self.schema = schema
        self.dictionary = dictionary
        self._interrupt = interrupt or DeferredInterrupt()
        self.touched_tables = {} if touched_tables is None else touched_tables
        """The caller's set of tables to drain; the table adds itself when it changes."""
        self.groups = RowGroups(len(schema.columns)) if groups is None else groups
        self.count = 0
        self.dead_rows = 0
        self.reclaimed_rows = 0
        key = schema.primary_key
        required = {i for i, column in enumerate(schema.columns) if not column.nullable} | set(key)
        self._required_columns = np.zeros(len(schema.columns), np.uint8)
        self._required_columns[sorted(required)] = 1
        self._key = KeyIndex(self.groups, key) if key else None
        self._bag: BagIndex | None = None
        self._loose_key = make_loose_key_index(self)
        self._unique: list[UniqueIndex] = [self._loose_key] if self._loose_key else []
        self._lookups: dict[tuple[int, ...], LookupIndex] = {}
        self._drained_count = 0
        self._undrained_deletions: list[Words] = []
        self._deletions: list[Words] = []
        self._vacuum = Vacuum(self.groups)
        self.prepared_rows: PreparedRows | None = None
        """Tokens of a recorder for uncommitted rows."""
        self.history: TableHistory | None = None
        """History for AS OF, if it is enabled."""

    @property
    def directory(self) -> Words:
        """Directory by which kernels find rows (``runtime.kernels.rowgroups``); read anew after an insert."""
        return self.groups.directory

    @property
    def rows(self) -> int:
        """Number of live rows."""
        return self.count - self.reclaimed_rows - self.dead_rows

    @property
    def bytes(self) -> int:
        """Bytes of the rows in use and their indexes."""
        index = (self._key.bytes if self._key else 0) + (self._bag.bytes if self._bag else 0)
        index += sum(unique_index.bytes for unique_index in self._unique) + sum(
            unique_index.bytes for unique_index in self._lookups.values()
        )
        row = 8 * len(self.schema.columns) + 1 + (16 if self._bag else 0)
        return (self.count - self.reclaimed_rows) * row + index

    def live(self) -> Words:
        """Return the rowids of all live rows, ascending."""
        return self._live_below(self.count)

    def _live_below(self, count: int) -> Words:
        if self.rows == self.count:
            return np.arange(count, dtype=np.int64)
        return self.groups.live(0, count, self.rows)

    def is_live(self, rowids: Words) -> NDArray[np.bool_]:
        """Return for each rowid whether its row is live."""
        out = np.empty(rowids.shape[0], np.uint8)
        kernels.are_live(self.directory, self.count, np.ascontiguousarray(rowids), out)
        return out == 1

    def read(self, rowids: Words, columns: Sequence[int] | None = None) -> Words:
        """Return the rows ``int64[ncols, n]``, or some columns of them; NULL for reclaimed rows."""
        column_numbers = np.arange(self.groups.width) if columns is None else np.array(columns, np.int64)
        return self.groups.read(column_numbers, np.ascontiguousarray(rowids))

    def reserve(self, rows: int) -> None:
        """Make room for more rows, so that a bulk load does not copy arrays as it grows."""
        self.groups.reserve(self.count + rows, self.count)

    def build_index(self) -> None:
        """Build the key index now rather than at the first lookup or unordered insert."""
        if self._key:
            self._key.catch_up(self.count, self.rows)

    def insert(self, words: Words) -> Words:
        """Append the rows ``words[ncols, n]`` and return their rowids, contiguous and ascending.

        Raises:
            IntegrityError: With nothing changed, for a NULL in a required column or a duplicate key.
        """
        words = np.ascontiguousarray(words)
        start, end = self.count, self.count + words.shape[1]
        if end > self.groups.capacity:
            self._make_room(start, end)
        index = self._key
        if index is None:
            key, highest, known = NO_KEY
        else:
            key, highest, known = index.key, index.highest.copy(), index.known
        # After Ctrl-C before ``count`` is set, the appended rows are ignored.
        self.touched_tables[self] = None
        state = kernels.append(
            self.groups.directory, words, start, self._required_columns, key, highest, known
        )
        if state != 1 or start == end or self._unique or self._bag is not None:
            with self._interrupt:
                return index_new_rows(self, words, state, highest)
        if index is not None:
            # After Ctrl-C here, some keys are looked up needlessly.
            index.highest, index.known = highest, 1
        self.count = end
        return np.arange(start, end)

    def _make_room(self, start: int, end: int) -> None:
        if end > MAX_ROWIDS:
            raise ProgrammingError(f"table {self.name} has had 2^40 rows", hint="copy it to a new table")
        with self._interrupt:
            self.groups.reserve(end, start)

    def add_unique(self, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """Add a unique constraint on some columns.

        Raises:
            IntegrityError: If existing rows violate it.
        """
        index = make_unique_index(self, name, columns, nulls_distinct=nulls_distinct)
        rowids = self.live()
        duplicate = index.build(rowids)
        if duplicate >= 0:
            raise unique_error(self, index, self.read(rowids[: duplicate + 1]), duplicate)
        self._unique.append(index)

    def drop_unique(self, name: str) -> None:
        """Drop the unique constraint of that name."""
        self._unique = [index for index in self._unique if index.name != name]

    def find_unique(self, columns: tuple[int, ...], keys: Words) -> Words:
        """Return the rowid of each key ``keys[k, n]`` of the primary key or a unique constraint, or -1."""
        if self._key is not None and columns == self.schema.primary_key:
            return self.find(keys)
        index = next(unique_index for unique_index in self._unique if unique_index.columns == columns)
        return index.find(keys)

    def find_all(self, columns: tuple[int, ...], keys: Words) -> tuple[Words, Words]:
        """Return key position and rowid of live rows with one of the keys ``keys[k, n]`` in some columns."""
        index = self._lookups.get(columns)
        if index is None:
            index = self._lookups[columns] = make_lookup_index(self, columns)
        positions, rowids = index.find(np.ascontiguousarray(keys), self.count, self.rows)
        live = self.is_live(rowids)
        return positions[live], rowids[live]

    def set_required(self, column: int, *, required: bool) -> None:
        """Set or drop NOT NULL on a column.

        Raises:
            IntegrityError: If the column has NULLs.
        """
        if required:
            rowids = self.live()
            words = self.read(rowids)
            absent = np.flatnonzero(words[column] == NULL)
            if absent.size:
                raise null_error(self, words, column, int(absent[0]))
        self._required_columns[column] = int(required)

    def delete(self, rowids: Words) -> None:
        """Delete live rows.

        Raises:
            IntegrityError: With nothing changed, if a row is not live or occurs twice.
        """
        rowids = np.array(rowids, np.int64)
        if rowids.shape[0]:
            with self._interrupt:
                self._delete(rowids)

    def _delete(self, rowids: Words) -> None:
        bad = kernels.kill(self.directory, self.count, rowids)
        if bad >= 0:
            raise IntegrityError(
                f"table {self.name} has no row {int(rowids[bad])} to delete",
                hint="the row was deleted before, or the same row is deleted twice",
            )
        if self._key:
            self._key.remove(rowids)
        if self._bag:
            self._bag.remove(rowids)
        for index in self._unique:
            index.remove(rowids)
        self.dead_rows += rowids.shape[0]
        self._deletions.append(rowids)
        self._undrained_deletions.append(rowids)
        self.touched_tables[self] = None

    def find(self, keys: Words) -> Words:
        """Return the rowid of the live row with each primary key ``keys[k, n]``, or -1."""
        if self._key is None:
            raise InternalError(f"table {self.name} has no primary key to find rows by")
        if self._loose_key is not None:
            return self._loose_key.find(keys)
        return self._key.find(self.count, self.rows, keys)

    def match(self, rows: Words) -> Words:
        """Return for each row ``rows[ncols, n]`` an equal live row (NULL equals NULL), or -1.

        Equal rows get different live rows. Without a primary key, the first call builds an index.
        """
        rows = np.ascontiguousarray(rows)
        if self._key:
            rowids = self._key.find_rows(self.count, self.rows, rows)
            kernels.claim(self.directory, rows, rowids)
            return rowids
        if self._bag is None:
            self._bag = BagIndex(self.groups, self.live())
        return self._bag.match(rows)

    def savepoint(self) -> Savepoint:
        """Return the current state, for :meth:`rollback`."""
        highest, known = (self._key.highest, self._key.known) if self._key else (None, 0)
        untold = tuple(self._undrained_deletions) if self._undrained_deletions else ()
        return Savepoint(self.count, self._drained_count, highest, known, len(self._deletions), untold)

    def rollback(self, savepoint: Savepoint) -> None:
        """Undo all inserts and deletes since a savepoint, which must be later than the last commit."""
        self.touched_tables[self] = None
        if savepoint.count == self.count and savepoint.deletions == len(self._deletions):
            self._drained_count, self._undrained_deletions = (
                savepoint.drained_count,
                list(savepoint.undrained_deletions),
            )
            return
        undone = self._deletions[savepoint.deletions :]
        removed = self.groups.live(savepoint.count, self.count)
        revived = np.concatenate(undone) if undone else np.empty(0, np.int64)
        self.dead_rows -= revived.shape[0]
        revived = np.ascontiguousarray(revived[revived < savepoint.count])
        if self._key:
            self._key.remove(removed)
        if self._bag:
            self._bag.remove(removed)
        for index in self._unique:
            index.remove(removed)
        kernels.revive(self.directory, revived)
        self.count = savepoint.count
        if self.prepared_rows is not None:
            self.prepared_rows.truncate(self.count)
        if self._key:
            assert savepoint.highest is not None
            self._key.highest, self._key.known = savepoint.highest, savepoint.has_highest
            self._key.restore(self.count, self.rows, revived)
        if self._bag:
            self._bag.insert(revived, self.count, self.rows)
        for index in self._unique:
            index.insert(revived, self.count, self.rows)
        for lookup in self._lookups.values():
            lookup.restore(self.count, revived)
        del self._deletions[savepoint.deletions :]
        self._drained_count = savepoint.drained_count
        self._undrained_deletions = list(savepoint.undrained_deletions)

    def changes_since(self, savepoint: Savepoint) -> tuple[Words, Words]:
        """Return the rowids deleted and inserted since a savepoint, each ascending.

        The savepoint must be later than the last commit.
        """
        deleted = np.sort(np.concatenate((NO_KEY[0], *self._deletions[savepoint.deletions :])))
        return deleted[deleted < savepoint.count], self.groups.live(savepoint.count, self.count)

    def live_at(self, savepoint: Savepoint) -> Words:
        """Return the rowids that were live at a savepoint later than the last commit, ascending."""
        return self._with_deleted(savepoint.count, self._deletions[savepoint.deletions :])

    def live_as_of(self, epoch: int) -> Words:
        """Return the rowids that were live after an epoch, ascending; needs the history."""
        assert self.history is not None
        count, deleted = self.history.state_at(epoch)
        return self._with_deleted(count, [*self._deletions, *deleted])

    def _with_deleted(self, count: int, undone: Sequence[Words]) -> Words:
        """Return the rowids below ``count`` that are live or among the deleted ones, ascending."""
        live = self._live_below(count)
        if not undone:
            return live
        deleted = [rowids[rowids < count] for rowids in undone]
        return np.sort(np.concatenate((live, *deleted)))

    def commit(self) -> None:
        """Clear the undo log, which invalidates savepoints; pending changes stay pending.

        Without pending changes no reader reads a deleted row. The vacuum then frees about twice as many
        rows as were deleted since.
        """
        self.prepared_rows = None
        if self._deletions:
            if self.history is None:
                self._vacuum.add_deleted(self._deletions)
            else:
                self.history.retain(self._deletions.copy())
            self._deletions.clear()
        if self._vacuum.has_work and not self._undrained_deletions and self._drained_count == self.count:
            with self._interrupt:
                freed = self._vacuum.run(self.count)
                self.dead_rows -= freed
                self.reclaimed_rows += freed

    def drop_history_before(self, epoch: int) -> None:
        """Drop the history before an epoch; only between steps, without pending changes."""
        if self.history is not None and (freed := self.history.drop_before(epoch)):
            self._vacuum.add_deleted(freed)
            self.commit()

    @property
    def has_pending(self) -> bool:
        """Whether there may be a change since the last :meth:`drain`."""
        return self._drained_count < self.count or bool(self._undrained_deletions)

    @property
    def pending(self) -> list[Change]:
        """Net change since the last :meth:`drain`, without rows that were inserted and deleted in between."""
        drained, count = self._drained_count, self.count
        if not self._undrained_deletions:
            return [Change(np.arange(drained, count), 1)] if drained < count else []
        changes = []
        deleted = np.concatenate(self._undrained_deletions)
        deleted = np.sort(deleted[deleted < drained])
        if deleted.shape[0]:
            changes.append(Change(deleted, -1))
        inserted = self.groups.live(drained, count)
        if inserted.shape[0]:
            changes.append(Change(inserted, 1))
        return changes

    def drain(self) -> list[Change]:
        """Return the pending net change, deletions first, and clear it."""
        changes = self.pending
        self._drained_count = self.count
        self._undrained_deletions.clear()
        return changes


class TableDescription(Protocol):
    """The properties of a table that an error names."""

    @property
    def name(self) -> str:
        """The table's name."""

    @property
    def schema(self) -> Schema:
        """The table's columns."""

    @property
    def dictionary(self) -> Dictionary:
        """The texts of its words."""


def null_error(table: TableDescription, words: Words, column: int, row: int) -> IntegrityError:
    """Return the error for a NULL in a required column."""
    name = table.schema.columns[column].name
    key = " of the primary key" if column in table.schema.primary_key else ""
    columns = tuple(range(len(table.schema.columns)))
    error = IntegrityError(
        f"NULL in column {name}{key} of table {table.name}: row {_values_text(table, words, columns, row)}",
        hint=f"{name} is NOT NULL: give it a value",
    )
    message = (
        f'null value in column "{name}" of relation "{_plain_name(table.name)}" violates not-null constraint'
    )
    detail = f"Failing row contains {_values_text(table, words, columns, row, show_plain)}."
    return error.of_constraint(Violation("23502", message, detail, table.name, column=name))


def duplicate_error(table: "Table", words: Words, row: int, exists: bool | None = None) -> IntegrityError:
    """Return the error for a duplicate primary key.

    ``exists`` (looked up if None) means that a row has it.
    """
    key = table.schema.primary_key
    names = ", ".join(table.schema.columns[i].name for i in key)
    if exists is None:
        key_words = np.ascontiguousarray(words[list(key), row : row + 1])
        exists = table.find(key_words)[0] >= 0
    where = "exists already" if exists else "is given twice"
    error = IntegrityError(
        f"duplicate key in table {table.name}: ({names}) = {_values_text(table, words, key, row)} {where}",
        hint="delete the old row first, or say ON CONFLICT (upsert in Python)"
        if exists
        else "give each key once",
    )
    found = f"({names})={_values_text(table, words, key, row, show_plain)}"
    return error.of_constraint(
        _duplicate_violation(table, f"{_plain_name(table.name)}_pkey", found if exists else None)
    )


def unique_error(
    table: "Table", index: UniqueIndex, words: Words, row: int, exists: bool | None = None
) -> IntegrityError:
    """Return the error for a duplicate key of a unique constraint.

    ``exists`` as in :func:`duplicate_error`.
    """
    names = ", ".join(table.schema.columns[i].name for i in index.columns)
    if exists is None:
        key_words = np.ascontiguousarray(words[list(index.columns), row : row + 1])
        exists = index.find(key_words)[0] >= 0 and bool(table.is_live(index.find(key_words))[0])
    where = "exists already" if exists else "is given twice"
    error = IntegrityError(
        f"duplicate key in table {table.name}: ({names}) = {_values_text(table, words, index.columns, row)} "
        f"{where}, against constraint {index.name}",
        hint=f"of the row {_values_text(table, words, tuple(range(len(table.schema.columns))), row)}",
    )
    found = f"({names})={_values_text(table, words, index.columns, row, show_plain)}"
    return error.of_constraint(_duplicate_violation(table, index.name, found if exists else None))


def _duplicate_violation(table: "Table", constraint: str, key: str | None) -> Violation:
    """Return the violation of a unique constraint; ``key`` is the existing key."""
    message = f'duplicate key value violates unique constraint "{_plain_name(constraint)}"'
    detail = None if key is None else f"Key {key} already exists."
    return Violation("23505", message, detail, table.name, constraint)


def _plain_name(name: str) -> str:
    """Return a name without its schema."""
    return name.rpartition(".")[2]


def _values_text(
    table: TableDescription,
    words: Words,
    columns: tuple[int, ...],
    row: int,
    show: Callable[[int, Type, Dictionary], str] = show_word,
) -> str:
    texts = (show(int(words[i, row]), table.schema.columns[i].type, table.dictionary) for i in columns)
    return f"({', '.join(texts)})"
