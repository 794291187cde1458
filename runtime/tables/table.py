"""The row store of a base table: every row once, addressed by rowid, with its indexes and undo log.

Rows are immutable, and a rowid is not reused, except after a rollback. A deleted row stays readable until the
step that takes the deletion has committed, because the dataflow retracts what it derived from the row. The
vacuum frees it later. The dataflow receives each change once, in net form, through :meth:`Table.drain`.

:class:`UniqueIndex` and :class:`LookupIndex` index columns besides the primary key. Their *loose* variants
serve keys whose equal values may be different words, such as 1.5 and 1.50, or a month and 30 days.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.python_values import show
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import IntegrityError, InternalError, ProgrammingError
from kpg.runtime.functions.comparison import key_string
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.kernels import rowgroups
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.kernels import rows as kernels_rows
from kpg.runtime.records import dataclass
from kpg.runtime.tables.row_groups import RowGroups, Vacuum
from kpg.runtime.tables.row_index import BagIndex, KeyIndex, is_full, slots_for
from kpg.runtime.types import NULL, Schema, is_loose

if TYPE_CHECKING:
    from kpg.runtime.storage.packs import Sharded
    from kpg.runtime.tables.row_groups import TablePast

Words = NDArray[np.int64]


class Foreseen:
    """By the rowids of the rows, which never change; but rowids are given out again after a rollback."""

    def __init__(self) -> None:
        self._said: list[tuple[int, int, Any]] = []

    def add(self, rowids: Words, said: Any) -> None:
        """Something of rows that have come, whose rowids follow each other and all others."""
        self._said.append((int(rowids[0]), int(rowids[-1]) + 1, said))

    def cut(self, count: int) -> None:
        """Forget rows whose rowids are given out again."""
        self._said = [one for one in self._said if one[1] <= count]

    def among(self, rowids: Words) -> list[tuple[int, int, Any]]:
        """What was said of rows that are all among ascending rowids: from which place to which, and it."""
        found = []
        for first, end, said in self._said:
            at = int(np.searchsorted(rowids, first))
            beyond = at + end - first
            if beyond <= rowids.shape[0] and rowids[at] == first and rowids[beyond - 1] == end - 1:
                found.append((at, beyond, said))
        return found


SEED: Final = np.uint64(0x9E3779B97F4A7C15)
FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
MOST_RUNS: Final = 12
SLACK: Final = 1024
"""Entries of dead rows that are kept, besides as many as there are live ones."""


class UniqueIndex:
    """The live row of each key. Rows with a NULL in the key are left out if NULLs are distinct."""

    def __init__(
        self, name: str, groups: RowGroups, columns: tuple[int, ...], *, nulls_distinct: bool
    ) -> None:
        self.name = name
        self.columns = columns
        self.nulls_distinct = nulls_distinct
        self._groups = groups
        self._key: Words = np.array(columns, np.int64)
        self._given: Words = np.arange(len(columns), dtype=np.int64)
        self._asked: Words = np.zeros((2, rowgroups.FIELDS), np.int64)
        self._tally: Words = np.zeros(1, np.int64)
        self._slots: Words = np.zeros(slots_for(0), np.int64)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def insert(self, rowids: Words, count: int, live: int) -> int:
        """Take in stored rows next to the ``live`` ones below ``count``.

        The position of the first whose key is taken, and then none is taken in; -1 if none is.
        """
        places = self._places(rowids)
        known = rowids if places is None else rowids[places]
        if is_full(self._slots.shape[0], int(self._tally[0]), known.shape[0]):
            self.build(self._groups.live(0, count, live), known.shape[0])
        found = self._push(known)
        return found if found < 0 or places is None else int(places[found])

    def build(self, rowids: Words, more: int = 0) -> int:
        """Index these rows and no others, as :meth:`insert`, with room for ``more``."""
        self._slots = np.zeros(slots_for(rowids.shape[0] + more), np.int64)
        self._tally[0] = 0
        places = self._places(rowids)
        found = self._push(rowids if places is None else rowids[places])
        return found if found < 0 or places is None else int(places[found])

    def remove(self, rowids: Words) -> None:
        """Take indexed rows out."""
        places = self._places(rowids)
        known = np.ascontiguousarray(rowids if places is None else rowids[places])
        kernels_rows.key_remove(self._slots, self._tally, self._groups.directory, self._key, known)

    def find(self, keys: Words) -> Words:
        """Rowid of each key ``keys[k, n]``, or -1."""
        out = np.empty(keys.shape[1], np.int64)
        given = np.ascontiguousarray(keys)
        directory = self._groups.directory
        kernels_rows.key_find(self._slots, directory, self._key, given, self._given, self._asked, out)
        return out

    def _push(self, rowids: Words) -> int:
        rowids = np.ascontiguousarray(rowids)
        return int(
            kernels_rows.key_insert(self._slots, self._tally, self._groups.directory, self._key, rowids)
        )

    def _places(self, rowids: Words) -> Words | None:
        """Which of some rows belong into the index; None if all do."""
        if not self.nulls_distinct:
            return None
        keys = self._groups.read(self._key, np.ascontiguousarray(rowids))
        absent = (keys == NULL).any(axis=0)
        return np.flatnonzero(~absent) if absent.any() else None


class LookupIndex:
    """The rows of each key, of which there may be many: sorted runs of hashes with rowids.

    It covers the rows below a rowid and catches up when it is asked. What it finds are candidates: a row may
    be dead, or have come with another key after one that was rolled back, so each is looked at.
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
        """Positions of keys ``keys[k, n]`` and rowids of rows that have them, ``dead`` ones among them."""
        self._catch_up(count, live)
        wanted = _hashes(keys)
        positions, rowids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for hashes, rows in self._runs:
            first, last = np.searchsorted(hashes, wanted, "left"), np.searchsorted(hashes, wanted, "right")
            counts = last - first
            place = np.repeat(np.arange(wanted.shape[0]), counts)
            offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            positions.append(place)
            rowids.append(rows[np.repeat(first, counts) + offset])
        place, found = np.concatenate(positions), np.concatenate(rowids)
        below = found < count
        place, found = place[below], found[below]
        same = (self._groups.read(self._key, np.ascontiguousarray(found)) == keys[:, place]).all(axis=0)
        pairs = np.unique(np.stack((place[same], found[same])), axis=1)
        return pairs[0], pairs[1]

    def restore(self, count: int, revived: Words) -> None:
        """Rows from ``count`` on are gone, others may take their rowids; ``revived`` ones are live again."""
        self.indexed = min(self.indexed, count)
        self._add(revived[revived < self.indexed])

    def _catch_up(self, count: int, live: int) -> None:
        if sum(rowids.shape[0] for _, rowids in self._runs) > 2 * live + SLACK:
            self.indexed, self._runs = 0, []
        if self.indexed < count:
            self._add(self._groups.live(self.indexed, count, live))
            self.indexed = count

    def _add(self, rowids: Words) -> None:
        if not rowids.shape[0]:
            return
        rowids = np.ascontiguousarray(rowids)
        self._runs.append(_sorted(_hashes(self._groups.read(self._key, rowids)), rowids))
        while len(self._runs) > 1 and (
            self._runs[-2][0].shape[0] <= 2 * self._runs[-1][0].shape[0] or len(self._runs) > MOST_RUNS
        ):
            (one, its), (other, theirs) = self._runs.pop(), self._runs.pop()
            self._runs.append(_sorted(np.concatenate((one, other)), np.concatenate((its, theirs))))


def _sorted(hashes: Words, rowids: Words) -> tuple[Words, Words]:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], rowids[order]


def _hashes(keys: Words) -> Words:
    """A hash of each key ``keys[k, n]``."""
    state = np.full(keys.shape[1], SEED, np.uint64)
    for words in keys:
        state = (state ^ np.ascontiguousarray(words).view(np.uint64)) * FACTOR
        state ^= state >> np.uint64(31)
    return state.view(np.int64)


def take_in(table: "Table", words: Words, state: int, highest: Words) -> Words:
    """Index the rows ``words`` that lie behind the last one, and have them count; their rowids.

    ``state`` and ``highest`` are what ``rowgroups.append`` has made of them. IntegrityError, with nothing
    changed, for a NULL where none may be, or a key that another row has.
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
    table.touched[table] = None
    table.count = end
    if table._bag:
        table._bag.insert(rowids, end, table.rows)
    return rowids


def _insert_unique(table: "Table", words: Words, rowids: Words) -> None:
    """Index new rows in all that the table is unique in, or, raising IntegrityError, in nothing."""
    for place, index in enumerate(table._unique):
        duplicate = index.insert(rowids, table.count, table.rows)
        if duplicate >= 0:
            for taken in table._unique[:place]:
                taken.remove(rowids)
            if table._key:
                table._key.forget(rowids)

            raise unique_error(table, index, words, duplicate)


Key = tuple[Any, ...]
ENTRY_BYTES = 200
"""About what one entry takes."""


def is_loose_key(table: "Table", columns: Sequence[int]) -> bool:
    """Whether some columns of a table have values that are equal and look different."""
    return any(is_loose(table.schema.columns[place].type) for place in columns)


class LooseIndex(UniqueIndex):
    """As its base, by what equal values have in common; in Python, a few microseconds a row.

    What a table that was restored has is read when it is first asked.
    """

    def __init__(self, name: str, table: "Table", columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        super().__init__(name, table.groups, columns, nulls_distinct=nulls_distinct)
        self._table = table
        self._rows: dict[Key, int] | None = None

    @property
    def bytes(self) -> int:
        return ENTRY_BYTES * len(self._rows or ())

    def insert(self, rowids: Words, count: int, live: int) -> int:
        known = self._known()
        taken: list[Key] = []
        for place, (key, rowid) in enumerate(zip(self._keys(rowids), rowids.tolist(), strict=True)):
            if key is None:
                continue
            if known.get(key, rowid) != rowid:
                for one in taken:
                    del known[one]
                return place
            if key not in known:
                known[key] = rowid
                taken.append(key)
        return -1

    def build(self, rowids: Words, more: int = 0) -> int:
        self._rows = {}
        return self.insert(rowids, 0, 0)

    def remove(self, rowids: Words) -> None:
        known = self._known()
        for key, rowid in zip(self._keys(rowids), rowids.tolist(), strict=True):
            if key is not None and known.get(key) == rowid:
                del known[key]

    def find(self, keys: Words) -> Words:
        known = self._known()
        given = shared(self._table, self.columns, keys, nulls_distinct=self.nulls_distinct)
        found = [-1 if key is None else known.get(key, -1) for key in given]
        return np.array(found, np.int64).reshape(-1)

    def _known(self) -> dict[Key, int]:
        if self._rows is None:
            self.build(self._table.live())
        assert self._rows is not None
        return self._rows

    def _keys(self, rowids: Words) -> list[Key | None]:
        words = self._groups.read(self._key, np.ascontiguousarray(rowids))
        return shared(self._table, self.columns, words, nulls_distinct=self.nulls_distinct)


class LooseLookup(LookupIndex):
    """As its base, by what equal values have in common."""

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
            for place, key in enumerate(shared(self._table, self.columns, keys, nulls_distinct=True))
            for rowid in sorted(set(self._rows.get(key, ()) if key is not None else ()))
            if rowid < count
        ]
        found = np.array(pairs, np.int64).reshape(-1, 2)
        same = self._keys(found[:, 1])
        given = shared(self._table, self.columns, keys, nulls_distinct=True)
        kept = [key == given[place] for key, place in zip(same, found[:, 0].tolist(), strict=True)]
        chosen = found[np.array(kept, np.bool_)] if kept else found
        return chosen[:, 0], chosen[:, 1]

    def _add(self, rowids: Words) -> None:
        for key, rowid in zip(self._keys(rowids), rowids.tolist(), strict=True):
            if key is not None:
                self._rows.setdefault(key, []).append(rowid)

    def _keys(self, rowids: Words) -> list[Key | None]:
        words = self._groups.read(self._key, np.ascontiguousarray(rowids))
        return shared(self._table, self.columns, words, nulls_distinct=True)


def shared(table: "Table", columns: Sequence[int], words: Words, *, nulls_distinct: bool) -> list[Key | None]:
    """What equal keys share, None for one with a NULL that is like no other."""
    parts: list[list[Any]] = []
    for place, column in zip(columns, words, strict=True):
        type_ = table.schema.columns[place].type
        if not is_loose(type_):
            parts.append(column.tolist())
            continue
        of_key, strings = key_string(type_), table.dictionary.decode(np.ascontiguousarray(column))
        parts.append([None if string is None else of_key(string) for string in strings])
    absent = (words == NULL).any(axis=0) if nulls_distinct else np.zeros(words.shape[1], np.bool_)
    keys = zip(*parts, strict=True)
    return [None if gone else key for gone, key in zip(absent.tolist(), keys, strict=True)]


def index_of(table: "Table", name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> UniqueIndex:
    """An empty index of what a table is to be unique in."""
    if is_loose_key(table, columns):
        return LooseIndex(name, table, columns, nulls_distinct=nulls_distinct)
    return UniqueIndex(name, table.groups, columns, nulls_distinct=nulls_distinct)


def lookup_of(table: "Table", columns: tuple[int, ...]) -> LookupIndex:
    """An index of what a table is to be asked by."""
    return LooseLookup(table, columns) if is_loose_key(table, columns) else LookupIndex(table.groups, columns)


def loose_key(table: "Table") -> LooseIndex | None:
    """What else holds a primary key to be unique, if its equal values may be different words."""
    key = table.schema.primary_key
    loose = bool(key) and is_loose_key(table, key)
    return LooseIndex(f"{table.name}_pkey", table, key, nulls_distinct=True) if loose else None


MOST_ROWIDS: Final = 1 << 40
"""What an entry of an index has room for (see ``kernels.rows``)."""

NO_KEY = (np.empty(0, np.int64), np.empty(0, np.int64), 0)


class Change(NamedTuple):
    """Rows that appeared (``diff`` +1) or went (``diff`` -1)."""

    rowids: Words
    diff: int


class Closed(NamedTuple):
    """What one epoch changed in one table."""

    epoch: int
    table: str
    changes: list[Change]


@dataclass(slots=True)
class Savepoint:
    """A state of a table to return to: its rowids in use, and what it had told the dataflow."""

    count: int
    told: int
    highest: Words | None
    known: int
    deletions: int
    untold: tuple[Words, ...]


class Table:
    """Rows, key index and undo log of one base table. Ctrl-C never leaves a change half made.

    ``count`` rowids have been given out; the rows of ``dead`` of them are deleted and still have their
    places, those of ``reclaimed`` are gone.
    """

    sharded: "Sequence[tuple[int, Sharded]]" = ()
    """Where rows begin that are not here, as workers have written them."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt | None = None,
        touched: "dict[Table, None] | None" = None,
        groups: RowGroups | None = None,
    ) -> None:
        if not schema.columns:
            raise ProgrammingError(f"table {name} has no columns", hint="give it at least one column")
        self.name = name
        self.schema = schema
        self.dictionary = dictionary
        self._interrupt = interrupt or DeferredInterrupt()
        self.touched = {} if touched is None else touched
        """The tables among which it puts itself when there may be changes to drain."""
        self.groups = RowGroups(len(schema.columns)) if groups is None else groups
        self.count = 0
        self.dead = 0
        self.reclaimed = 0
        key = schema.primary_key
        required = {i for i, column in enumerate(schema.columns) if not column.nullable} | set(key)
        self._required = np.zeros(len(schema.columns), np.uint8)
        self._required[sorted(required)] = 1
        self._key = KeyIndex(self.groups, key) if key else None
        self._bag: BagIndex | None = None
        self._loose_key = loose_key(self)
        self._unique: list[UniqueIndex] = [self._loose_key] if self._loose_key else []
        self._lookups: dict[tuple[int, ...], LookupIndex] = {}
        self._told = 0
        self._untold: list[Words] = []
        self._deletions: list[Words] = []
        self._vacuum = Vacuum(self.groups)
        self.foreseen: Foreseen | None = None
        """What a recorder has said of rows that no commit has."""
        self.past: TablePast | None = None
        """What it was before, if that is kept."""

    @property
    def directory(self) -> Words:
        """What kernels find rows by (see ``kernels.rowgroups``); read it anew after an insert."""
        return self.groups.directory

    @property
    def rows(self) -> int:
        """Number of live rows."""
        return self.count - self.reclaimed - self.dead

    @property
    def bytes(self) -> int:
        """Memory that the rows in use and their indexes take."""
        index = (self._key.bytes if self._key else 0) + (self._bag.bytes if self._bag else 0)
        index += sum(one.bytes for one in self._unique) + sum(one.bytes for one in self._lookups.values())
        row = 8 * len(self.schema.columns) + 1 + (16 if self._bag else 0)
        return (self.count - self.reclaimed) * row + index

    def live(self) -> Words:
        """Rowids of all live rows, ascending."""
        return self._live_below(self.count)

    def _live_below(self, count: int) -> Words:
        if self.rows == self.count:
            return np.arange(count, dtype=np.int64)
        return self.groups.live(0, count, self.rows)

    def is_live(self, rowids: Words) -> NDArray[np.bool_]:
        """For each rowid, whether its row is live."""
        out = np.empty(rowids.shape[0], np.uint8)
        kernels.are_live(self.directory, self.count, np.ascontiguousarray(rowids), out)
        return out == 1

    def read(self, rowids: Words, columns: Sequence[int] | None = None) -> Words:
        """The rows ``int64[ncols, n]``, or those columns of them; NULL where a row was reclaimed."""
        chosen = np.arange(self.groups.width) if columns is None else np.array(columns, np.int64)
        return self.groups.read(chosen, np.ascontiguousarray(rowids))

    def reserve(self, rows: int) -> None:
        """Make room for that many more rows, so that a bulk load does not copy as it grows."""
        self.groups.reserve(self.count + rows, self.count)

    def index(self) -> None:
        """Bring the key index up to date now, rather than at the first lookup or unordered insert."""
        if self._key:
            self._key.catch_up(self.count, self.rows)

    def insert(self, words: Words) -> Words:
        """Append the rows ``words[ncols, n]``; their rowids, contiguous and ascending.

        IntegrityError, with nothing changed, for a NULL where none may be, or a key that another row has.
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
        # Ctrl-C may come before the count: what is beyond it does not count.
        self.touched[self] = None
        state = kernels.append(self.groups.directory, words, start, self._required, key, highest, known)
        if state != 1 or start == end or self._unique or self._bag is not None:
            with self._interrupt:
                return take_in(self, words, state, highest)
        if index is not None:
            # Ctrl-C here has other keys looked for than need be.
            index.highest, index.known = highest, 1
        self.count = end
        return np.arange(start, end)

    def _make_room(self, start: int, end: int) -> None:
        if end > MOST_ROWIDS:
            raise ProgrammingError(f"table {self.name} has had 2^40 rows", hint="copy it to a new table")
        with self._interrupt:
            self.groups.reserve(end, start)

    def add_unique(self, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """Have no two rows be the same in some columns from now on; IntegrityError if two are."""
        index = index_of(self, name, columns, nulls_distinct=nulls_distinct)
        rowids = self.live()
        duplicate = index.build(rowids)
        if duplicate >= 0:
            raise unique_error(self, index, self.read(rowids[: duplicate + 1]), duplicate)
        self._unique.append(index)

    def drop_unique(self, name: str) -> None:
        """Let rows be the same in what :meth:`add_unique` said."""
        self._unique = [index for index in self._unique if index.name != name]

    def find_unique(self, columns: tuple[int, ...], keys: Words) -> Words:
        """As :meth:`find`, by the columns of the primary key or of one that was added, in their order."""
        if self._key is not None and columns == self.schema.primary_key:
            return self.find(keys)
        index = next(one for one in self._unique if one.columns == columns)
        return index.find(keys)

    def find_all(self, columns: tuple[int, ...], keys: Words) -> tuple[Words, Words]:
        """Of live rows with one of the keys ``keys[k, n]`` in some columns the key and the rowid."""
        index = self._lookups.get(columns)
        if index is None:
            index = self._lookups[columns] = lookup_of(self, columns)
        positions, rowids = index.find(np.ascontiguousarray(keys), self.count, self.rows)
        live = self.is_live(rowids)
        return positions[live], rowids[live]

    def set_required(self, column: int, *, required: bool) -> None:
        """Let NULLs into a column no more, or again; IntegrityError if there are some."""
        if required:
            rowids = self.live()
            words = self.read(rowids)
            absent = np.flatnonzero(words[column] == NULL)
            if absent.size:
                raise null_error(self, words, column, int(absent[0]))
        self._required[column] = int(required)

    def delete(self, rowids: Words) -> None:
        """Delete live rows. IntegrityError, with nothing changed, if one is not live or given twice."""
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
        self.dead += rowids.shape[0]
        self._deletions.append(rowids)
        self._untold.append(rowids)
        self.touched[self] = None

    def find(self, keys: Words) -> Words:
        """The rowid of the live row with each primary key ``keys[k, n]``, or -1."""
        if self._key is None:
            raise InternalError(f"table {self.name} has no primary key to find rows by")
        if self._loose_key is not None:
            return self._loose_key.find(keys)
        return self._key.find(self.count, self.rows, keys)

    def match(self, rows: Words) -> Words:
        """For each given row ``rows[ncols, n]`` a live row equal to it (NULL equals NULL), or -1.

        Equal given rows get different live rows. The first match in a table without key builds an index.
        """
        rows = np.ascontiguousarray(rows)
        if self._key:
            rowids = self._key.find_in(self.count, self.rows, rows)
            kernels.claim(self.directory, rows, rowids)
            return rowids
        if self._bag is None:
            self._bag = BagIndex(self.groups, self.live())
        return self._bag.match(rows)

    def savepoint(self) -> Savepoint:
        """The present state, for :meth:`rollback`."""
        highest, known = (self._key.highest, self._key.known) if self._key else (None, 0)
        untold = tuple(self._untold) if self._untold else ()
        return Savepoint(self.count, self._told, highest, known, len(self._deletions), untold)

    def rollback(self, savepoint: Savepoint) -> None:
        """Undo all inserts and deletes since; the savepoint must be from after the last commit."""
        self.touched[self] = None
        if savepoint.count == self.count and savepoint.deletions == len(self._deletions):
            self._told, self._untold = savepoint.told, list(savepoint.untold)
            return
        undone = self._deletions[savepoint.deletions :]
        gone = self.groups.live(savepoint.count, self.count)
        revived = np.concatenate(undone) if undone else np.empty(0, np.int64)
        self.dead -= revived.shape[0]
        revived = np.ascontiguousarray(revived[revived < savepoint.count])
        if self._key:
            self._key.remove(gone)
        if self._bag:
            self._bag.remove(gone)
        for index in self._unique:
            index.remove(gone)
        kernels.revive(self.directory, revived)
        self.count = savepoint.count
        if self.foreseen is not None:
            self.foreseen.cut(self.count)
        if self._key:
            assert savepoint.highest is not None
            self._key.highest, self._key.known = savepoint.highest, savepoint.known
            self._key.restore(self.count, self.rows, revived)
        if self._bag:
            self._bag.insert(revived, self.count, self.rows)
        for index in self._unique:
            index.insert(revived, self.count, self.rows)
        for lookup in self._lookups.values():
            lookup.restore(self.count, revived)
        del self._deletions[savepoint.deletions :]
        self._told = savepoint.told
        self._untold = list(savepoint.untold)

    def changed_since(self, savepoint: Savepoint) -> tuple[Words, Words]:
        """Rowids that were deleted since a savepoint from after the last commit, and that came; ascending."""
        deleted = np.sort(np.concatenate((NO_KEY[0], *self._deletions[savepoint.deletions :])))
        return deleted[deleted < savepoint.count], self.groups.live(savepoint.count, self.count)

    def live_at(self, savepoint: Savepoint) -> Words:
        """Rowids of the rows that were live at a savepoint from after the last commit, ascending."""
        return self._with_deleted(savepoint.count, self._deletions[savepoint.deletions :])

    def live_then(self, epoch: int) -> Words:
        """Rowids of the rows that were live after an epoch, ascending; its past must be kept."""
        assert self.past is not None
        count, gone = self.past.at(epoch)
        return self._with_deleted(count, [*self._deletions, *gone])

    def _with_deleted(self, count: int, undone: Sequence[Words]) -> Words:
        """Rowids below ``count`` that are live or among the deleted ones, ascending."""
        live = self._live_below(count)
        if not undone:
            return live
        gone = [rowids[rowids < count] for rowids in undone]
        return np.sort(np.concatenate((live, *gone)))

    def commit(self) -> None:
        """Forget how to undo; earlier savepoints become invalid. What is pending stays pending.

        Once nothing is pending, nobody reads a deleted row any more: places of such rows are given up,
        about twice as many as were deleted since.
        """
        self.foreseen = None
        if self._deletions:
            if self.past is None:
                self._vacuum.bury(self._deletions)
            else:
                self.past.keep(self._deletions.copy())
            self._deletions.clear()
        if self._vacuum.waits and not self._untold and self._told == self.count:
            with self._interrupt:
                given_up = self._vacuum.run(self.count)
                self.dead -= given_up
                self.reclaimed += given_up

    def forget(self, epoch: int) -> None:
        """Forget what it was before an epoch. Between steps, with nothing pending."""
        if self.past is not None and (freed := self.past.forget(epoch)):
            self._vacuum.bury(freed)
            self.commit()

    @property
    def has_pending(self) -> bool:
        """Whether there may be a change since the last :meth:`drain`."""
        return self._told < self.count or bool(self._untold)

    @property
    def pending(self) -> list[Change]:
        """The net change since the last :meth:`drain`, without rows that came and went in between."""
        told, count = self._told, self.count
        if not self._untold:
            return [Change(np.arange(told, count), 1)] if told < count else []
        changes = []
        deleted = np.concatenate(self._untold)
        deleted = np.sort(deleted[deleted < told])
        if deleted.shape[0]:
            changes.append(Change(deleted, -1))
        inserted = self.groups.live(told, count)
        if inserted.shape[0]:
            changes.append(Change(inserted, 1))
        return changes

    def drain(self) -> list[Change]:
        """The net change since the last drain, which is then no longer pending; deletions come first."""
        changes = self.pending
        self._told = self.count
        self._untold.clear()
        return changes


def null_error(table: "Table", words: Words, column: int, row: int) -> IntegrityError:
    """A NULL where none may be."""
    name = table.schema.columns[column].name
    key = " of the primary key" if column in table.schema.primary_key else ""
    values = _describe(table, words, tuple(range(len(table.schema.columns))), row)
    return IntegrityError(
        f"NULL in column {name}{key} of table {table.name}: row {values}",
        hint=f"{name} is NOT NULL: give it a value",
    )


def duplicate_error(table: "Table", words: Words, row: int, exists: bool | None = None) -> IntegrityError:
    """A primary key that is there already, or is given twice: which of them is looked for if not told."""
    key = table.schema.primary_key
    names = ", ".join(table.schema.columns[i].name for i in key)
    if exists is None:
        given = np.ascontiguousarray(words[list(key), row : row + 1])
        exists = table.find(given)[0] >= 0
    where = "exists already" if exists else "is given twice"
    return IntegrityError(
        f"duplicate key in table {table.name}: ({names}) = {_describe(table, words, key, row)} {where}",
        hint="delete the old row first, or say ON CONFLICT (upsert in Python)"
        if exists
        else "give each key once",
    )


def unique_error(
    table: "Table", index: UniqueIndex, words: Words, row: int, exists: bool | None = None
) -> IntegrityError:
    """The same, of other columns that the table is unique in."""
    names = ", ".join(table.schema.columns[i].name for i in index.columns)
    if exists is None:
        given = np.ascontiguousarray(words[list(index.columns), row : row + 1])
        exists = index.find(given)[0] >= 0 and bool(table.is_live(index.find(given))[0])
    where = "exists already" if exists else "is given twice"
    return IntegrityError(
        f"duplicate key in table {table.name}: ({names}) = {_describe(table, words, index.columns, row)} "
        f"{where}, against constraint {index.name}",
        hint=f"of the row {_describe(table, words, tuple(range(len(table.schema.columns))), row)}",
    )


def _describe(table: "Table", words: Words, columns: tuple[int, ...], row: int) -> str:
    shown = (show(int(words[i, row]), table.schema.columns[i].type, table.dictionary) for i in columns)
    return f"({', '.join(shown)})"
