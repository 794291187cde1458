"""Tables and the dictionary as data: rows, indexes, deleted rows, history, and strings.

Rows of full groups never change; only their live bits do. A large commit writes its rows directly to a pack
of its own (:class:`RowPack`), and the log refers to it. A checkpoint uses such a pack like its own and leaves
the rows in place. The log decides which of these packs count; packs of unfinished records are removed. Tables
whose rows are in workers' shards keep these shards.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.checkpoint.captured_state import (
    ArrayReader,
    Mutability,
    Part,
    State,
    changing_part,
    dormant_state,
    fixed_part,
    growing_part,
    make_dormant,
)
from kpg.runtime.checkpoint.pack_store import Reader, Stored
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.operators.input import Capture
from kpg.runtime.records import dataclass
from kpg.runtime.storage.files import Bytes, Files
from kpg.runtime.storage.packs import PackFacts, PackWriter, Placed, PlacedStrings, Shard, Sharded, sums_of
from kpg.runtime.tables.row_groups import Group, RowGroups, TableHistory
from kpg.runtime.tables.row_index import BagIndex, KeyIndex
from kpg.runtime.tables.table import (
    LookupIndex,
    LooseIndex,
    Table,
    UniqueIndex,
    is_loose_key,
    make_unique_index,
)
from kpg.runtime.trace.updates import Updates


def capture_table_history(history: TableHistory) -> State:
    """Return the history of a table, between steps."""
    return {
        "born": history.defined_at,
        "since": history.since,
        "count": history.count,
        "epochs": tuple(history._epochs),
        "counts": tuple(history._counts),
        "gone": tuple(map(fixed_part, history._deleted)),
        "buried": tuple((epoch, tuple(map(fixed_part, rowids))) for epoch, rowids in history._retained),
    }


def make_table_history(state: Any, read: ArrayReader) -> TableHistory:
    """Return a table's history from its state."""
    history = TableHistory(state["born"])
    history.since, history.count = state["since"], state["count"]
    history._epochs, history._counts = list(state["epochs"]), list(state["counts"])
    history._deleted = [read(rowids) for rowids in state["gone"]]
    history._retained = [(epoch, [read(one) for one in rowids]) for epoch, rowids in state["buried"]]
    return history


def capture_change_history(history: Capture) -> State:
    """Return the changes of a view, or those from which a lazily computed view is computed."""
    changes = ((fixed_part(one.data), fixed_part(one.time), fixed_part(one.diff)) for one in history.changes)
    return {"since": history.since, "late": int(history.lazy_output is not None), "changes": tuple(changes)}


def restore_change_history(history: Capture, state: Any, read: ArrayReader) -> None:
    """Restore the earlier changes of a view whose history is kept.

    Do nothing if only one of the two is computed lazily, which may differ between versions of kpg.
    """
    if state.get("late", 0) != (history.lazy_output is not None):
        return
    history.since = state["since"]
    history.changes = [Updates(read(data), read(time), read(diff)) for data, time, diff in state["changes"]]


def columns_path(table: int, group: int) -> str:
    """Return the path of a row group's columns in the state of a checkpoint."""
    return f"/executor/tables/{table}/groups/groups/{group}/columns"


def capture_groups(groups: RowGroups, count: int) -> State:
    """Return the row groups of a table that has assigned ``count`` rowids."""
    dormant = dormant_state(groups)
    if dormant is not None:
        return dormant
    full = count >> groups.bits
    return {
        "bits": groups.bits,
        "capacity": groups.capacity,
        "linked": int(groups.has_links),
        "rewritten": int(groups.directory[0, kernels.REWRITTEN]),
        "groups": tuple(
            None
            if group is None
            else _capture_group(
                groups, number, group, None if number < full else count - (number << groups.bits)
            )
            for number, group in enumerate(groups.groups)
        ),
    }


def _capture_group(groups: RowGroups, number: int, group: Group, rows: int | None) -> State:
    """Return a row group; ``rows`` is its number of rows if it is not full.

    Memory after these rows is undefined.
    """
    entry = groups.directory[1 + number]
    columns = group.columns
    return {
        "columns": fixed_part(columns)
        if rows is None
        else Part(columns, Mutability.CHANGING, rows=max(rows, 0)),
        "live": changing_part(group.live),
        "chart": None if group.chart is None else fixed_part(group.chart),
        "links": None if group.links is None else changing_part(group.links),
        "dead": int(entry[kernels.DEAD]),
        "waiting": int(entry[kernels.WAITING]),
    }


def restore_groups(groups: RowGroups, state: State, read: ArrayReader) -> RowGroups:
    """Make new row groups restore a state on first use."""
    return make_dormant(groups, state, lambda one, found: _fill_row_groups(one, found, read))


def _fill_row_groups(groups: RowGroups, state: Any, read: ArrayReader) -> None:
    groups.bits, groups.has_links = state["bits"], bool(state["linked"])
    groups.directory[0, 0] = groups.bits
    for number, one in enumerate(state["groups"]):
        if one is None:
            groups.add_freed()
            continue
        chart, links = (None if one[name] is None else read(one[name]) for name in ("chart", "links"))
        groups.add(Group(read(one["columns"]), read(one["live"]), chart, links))
        entry = groups.directory[1 + number]
        entry[kernels.DEAD], entry[kernels.WAITING] = one["dead"], one["waiting"]
    groups.directory[0, kernels.REWRITTEN] = state["rewritten"]
    groups.capacity = state["capacity"]


Words = NDArray[np.int64]
WORD: Final = "<i8"
"""dtype of words in descriptions."""
ARENA: Final = "/executor/dictionary/arena"
"""Path of the strings' bytes in the state of a checkpoint."""
OFFSETS: Final = "/executor/dictionary/offsets"
"""Path of the strings' offsets in the state of a checkpoint."""


@dataclass(frozen=True, slots=True)
class WrittenPack:
    """A complete pack, and the locations of its arrays by path."""

    facts: PackFacts
    locations: Mapping[str, Stored]


def worker_pack(pack: int, blocks: int) -> WrittenPack:
    """Return the record of a pack that a worker has written; it has no arrays for checkpoints."""
    return WrittenPack(PackFacts(pack, blocks, blocks), {})


class LogPacks:
    """The packs of one database that log records refer to."""

    def __init__(self) -> None:
        self._packs: dict[int, tuple[WrittenPack, int]] = {}

    @property
    def numbers(self) -> set[int]:
        """Numbers of the packs."""
        return set(self._packs)

    @property
    def facts(self) -> dict[int, PackFacts]:
        """Facts of each pack, with all blocks counted as in use."""
        return {number: one.facts for number, (one, _) in self._packs.items()}

    @property
    def locations(self) -> dict[str, Stored]:
        """Locations of arrays in these packs, by path."""
        return {path: place for one, _ in self._packs.values() for path, place in one.locations.items()}

    def add(self, pack: WrittenPack, segment: int) -> None:
        """Add a pack that a record in a log segment refers to."""
        self._packs[pack.facts.number] = pack, segment

    def read_rows(self, location: Placed, table: int, segment: int, reader: Reader) -> Words:
        """Return rows that a record in a log segment refers to.

        Raises:
            DamagedError: If they are not what was written.
        """
        self._add_locations(
            location.pack, {columns_path(table, location.group): stored_rows(location)}, segment, reader
        )
        words: Words = reader(stored_rows(location))
        return words

    def read_strings(self, location: PlacedStrings, segment: int, reader: Reader) -> tuple[Words, Bytes]:
        """Return offsets and bytes of strings that a record in a log segment refers to."""
        used, count = location.size, location.count + 1
        arena = Stored(location.pack, location.block, "|u1", (2 * used,), used)
        offsets = Stored(location.pack, location.offsets, WORD, (2 * count,), count)
        self._add_locations(location.pack, {ARENA: arena, OFFSETS: offsets}, segment, reader)
        return reader(offsets)[:count], reader(arena)[:used]

    def _add_locations(
        self, pack: int, locations: Mapping[str, Stored], segment: int, reader: Reader
    ) -> None:
        existing = {} if pack not in self._packs else self._packs[pack][0].locations
        blocks = reader.packs.get(pack).blocks
        self.add(WrittenPack(PackFacts(pack, blocks, blocks), {**existing, **locations}), segment)

    def drop_before(self, segment: int) -> set[int]:
        """Drop packs that only the log before a segment refers to, and return their numbers."""
        dropped = {number for number, (_, named) in list(self._packs.items()) if named < segment}
        for number in dropped:
            del self._packs[number]
        return dropped


class RowPack:
    """A pack to which the rows of a commit are written."""

    def __init__(self, files: Files, number: int, database: int, reader: Reader) -> None:
        self.number = number
        self._writer = PackWriter(files, number, database)
        self._files = files
        self._reader = reader
        self._locations: dict[str, Stored] = {}

    def add_rows(self, table: int, group: int, columns: Words, count: int) -> Placed:
        """Write ``count`` rows of a group, with arrays ``columns[width, stride]``; return their location."""
        width, stride = columns.shape
        is_full = count == stride
        if not is_full:
            padded = np.zeros(columns.shape, np.int64)
            padded[:, :count] = columns[:, :count]
        data = (columns if is_full else padded).reshape(-1).view(np.uint8)
        block = self._writer.add(data, sums_of(data), data.shape[0])
        location = Placed(group, self.number, block, width, stride)
        self._locations[columns_path(table, group)] = stored_rows(location)
        if is_full:
            self._reader.locations[id(columns)] = (ref(columns), stored_rows(location))
        return location

    def add_strings(self, arena: Bytes, offsets: Words, count: int) -> PlacedStrings:
        """Write all strings of the dictionary, with room to grow as checkpoints do; return their location."""
        size = int(offsets[count])
        block = self._add_array(ARENA, arena, size, "|u1")
        return PlacedStrings(
            self.number, block, size, self._add_array(OFFSETS, offsets, count + 1, WORD), count
        )

    def _add_array(self, path: str, array: NDArray[Any], used: int, kind: str) -> int:
        data = array[:used].view(np.uint8)
        block = self._writer.add(data, sums_of(data), 2 * data.shape[0])
        self._locations[path] = Stored(self.number, block, kind, (2 * used,), used)
        return block

    def finish(self) -> WrittenPack:
        """Make the pack durable and return its record."""
        self._writer.finish()
        self._files.sync()
        facts = PackFacts(self.number, self._writer.used, self._writer.used)
        return WrittenPack(facts, self._locations)

    def abandon(self) -> None:
        """Remove the file, as far as possible."""
        self._writer.abandon()


def stored_rows(location: Placed) -> Stored:
    """Return the location of rows as checkpoints describe it."""
    return Stored(location.pack, location.block, WORD, (location.width, location.stride), location.width)


BYTES = "|u1"


def capture_shards(shard_ranges: Iterable[tuple[int, Sharded]]) -> State | None:
    """Return the shards of a table's rows with their first rowids; None if it has none."""
    state = tuple((start, tuple(map(_capture_shard, sharded.shards))) for start, sharded in shard_ranges)
    return {"sharded": state} if state else None


def _capture_shard(shard: Shard) -> State:
    if not shard.rows:
        return None
    bounds, bounds_size, data, data_size = shard.strings
    return {
        "rows": shard.rows,
        "strings": (_shard_array(shard, bounds, bounds_size), _shard_array(shard, data, data_size)),
        "chunks": tuple((_shard_array(shard, block, size), rows) for block, size, rows in shard.chunks),
    }


def _shard_array(shard: Shard, block: int, size: int) -> Stored:
    return Stored(shard.pack, block, BYTES, (size,), size)


def make_shards(state: Any) -> list[tuple[int, Sharded]]:
    """Return the shards from their captured state."""
    return [(start, Sharded(tuple(map(_make_shard, shards)))) for start, shards in state["sharded"]]


def _make_shard(state: Any) -> Shard:
    if state is None:
        return Shard(0, 0, (0, 0, 0, 0), ())
    bounds, data = state["strings"]
    chunks = tuple((one.block, one.size, rows) for one, rows in state["chunks"])
    strings = bounds.block, bounds.size, data.block, data.size
    return Shard(bounds.pack, state["rows"], strings, chunks)


def capture_table(table: Table) -> State:
    """Return the state of a table.

    Raises:
        InternalError: If changes are pending.
    """
    if table.has_pending or table._deletions:
        raise InternalError(f"table {table.name} has changes that no step has processed")
    vacuum = table._vacuum
    return {
        "count": table.count,
        "dead": table.dead_rows,
        "reclaimed": table.reclaimed_rows,
        "groups": capture_shards(table.shard_ranges) or capture_groups(table.groups, table.count),
        "key": None if table._key is None else _capture_key(table._key),
        "bag": None if table._bag is None else _capture_slots(table._bag),
        "unique": tuple(map(_capture_unique, table._unique)),
        "lookups": tuple(map(_capture_lookup, table._lookups.values())),
        "past": None if table.history is None else capture_table_history(table.history),
        "vacuum": {
            "copied": vacuum.copied_rows,
            "rewritten": vacuum.rewritten_groups,
            "full": vacuum._full,
            "queue": tuple(vacuum._queue),
            "credit": vacuum._credit,
            "buried": tuple(map(changing_part, vacuum._deleted)),
        },
    }


def version_of_table(table: Table) -> object:
    """Return a value that stays equal while rows and indexes are unchanged; None for a table with history.

    It consists of counters that only grow. Entries that an index adds when it catches up need not be
    captured.
    """
    if table.history is not None:
        return None
    vacuum = table._vacuum
    indexes = tuple([(index.name, index.columns) for index in table._unique]) if table._unique else ()
    vacuum_progress = (
        vacuum.copied_rows,
        vacuum.rewritten_groups,
        vacuum._full,
        len(vacuum._queue),
        len(vacuum._deleted),
    )
    return (
        ref(table), table.count, table.dead_rows, table.reclaimed_rows, vacuum_progress, table._bag is None,
        indexes, tuple(table._lookups),
    )  # fmt: skip


ShardAppender = Callable[[Table, int, Sharded], None]
"""Function that appends rows written by workers to a table, from a rowid on."""


def _restore_from_shards(table: Table, state: Any, append_shards: ShardAppender) -> None:
    """Restore a table whose rows are in shards."""
    for start, sharded in make_shards(state["groups"]):
        append_shards(table, start, sharded)
    table.drain()
    table.commit()
    table.touched_tables.pop(table, None)
    for one in state["unique"]:
        if table._loose_key is None or one["name"] != table._loose_key.name:
            distinct = bool(one["nulls distinct"])
            table.add_unique(one["name"], one["columns"], nulls_distinct=distinct)


def restore_table(
    table: Table, state: Any, read: ArrayReader, append_shards: ShardAppender | None = None
) -> None:
    """Restore a new table, without its history; arrays are read on first use."""
    if append_shards is not None and "sharded" in state["groups"]:
        _restore_from_shards(table, state, append_shards)
        return
    table.count, table.dead_rows, table.reclaimed_rows = state["count"], state["dead"], state["reclaimed"]
    table._drained_count = table.count
    groups = restore_groups(table.groups, state["groups"], read)
    if state["key"] is not None:
        assert table._key is not None
        _restore_key(table._key, state["key"], read)
    if state["bag"] is not None:
        table._bag = BagIndex(groups, None)
        _restore_slots(table._bag, state["bag"], read)
    for one in state["unique"]:
        if table._loose_key is not None and one["name"] == table._loose_key.name:
            continue
        distinct = bool(one["nulls distinct"])
        index = make_unique_index(table, one["name"], one["columns"], nulls_distinct=distinct)
        if not isinstance(index, LooseIndex):
            _restore_slots(index, one, read)
        table._unique.append(index)
    for one in state["lookups"]:
        if is_loose_key(table, one["columns"]):
            continue  # it is rebuilt on first use
        lookup = LookupIndex(groups, one["columns"])
        table._lookups[one["columns"]] = make_dormant(
            lookup, one, lambda index, found: _fill_lookup(index, found, read)
        )
    vacuum, found = table._vacuum, state["vacuum"]
    vacuum.copied_rows, vacuum.rewritten_groups = found["copied"], found["rewritten"]
    vacuum._full, vacuum._credit = found["full"], found["credit"]
    vacuum._queue = deque(found["queue"])
    vacuum._deleted = [read(rowids) for rowids in found["buried"]]


def _capture_key(index: KeyIndex) -> State:
    dormant = dormant_state(index)
    if dormant is not None:
        return dormant
    facts = {"indexed": index.indexed, "known": index.known, "highest": tuple(index.highest.tolist())}
    return facts | _capture_slots(index)


def _restore_key(index: KeyIndex, state: Any, read: ArrayReader) -> None:
    index.indexed, index.known = state["indexed"], state["known"]
    index.highest = np.array(state["highest"], np.int64)
    make_dormant(
        index, state, lambda one, found: _fill_slots(one, found, read), ("highest", "known", "key", "indexed")
    )


def _capture_slots(index: KeyIndex | BagIndex | UniqueIndex) -> State:
    dormant = dormant_state(index)
    if dormant is not None:
        return dormant
    return {"slots": changing_part(index._slots), "tally": int(index._tally[0])}


def _restore_slots(index: BagIndex | UniqueIndex, state: State, read: ArrayReader) -> None:
    visible = ("name", "columns", "nulls_distinct")
    make_dormant(index, state, lambda one, found: _fill_slots(one, found, read), visible)


def _fill_slots(index: KeyIndex | BagIndex | UniqueIndex, state: Any, read: ArrayReader) -> None:
    index._slots = read(state["slots"])
    index._tally[0] = state["tally"]


def _capture_unique(index: UniqueIndex) -> State:
    facts = {"name": index.name, "columns": index.columns, "nulls distinct": int(index.nulls_distinct)}
    return _capture_slots(index) | facts


def _capture_lookup(index: LookupIndex) -> State:
    dormant = dormant_state(index)
    if dormant is not None:
        return dormant
    runs = tuple((fixed_part(hashes), fixed_part(rowids)) for hashes, rowids in index._runs)
    return {"columns": index.columns, "indexed": index.indexed, "runs": runs}


def _fill_lookup(index: LookupIndex, state: Any, read: ArrayReader) -> None:
    index.indexed = state["indexed"]
    index._runs = [(read(hashes), read(rowids)) for hashes, rowids in state["runs"]]


DORMANT_DICTIONARY_ATTRIBUTES: Final = ("_count", "_before", "memos")
"""Attributes of a dormant dictionary that can be read without waking it."""


def capture_dictionary(dictionary: Dictionary) -> State:
    """Return all strings and their codes."""
    dormant = dormant_state(dictionary)
    if dormant is not None:
        return dormant
    dictionary.shrink()
    count = len(dictionary)
    return {
        "count": count,
        "arena": growing_part(dictionary.arena, int(dictionary.offsets[count])),
        "offsets": growing_part(dictionary.offsets, count + 1),
        "slots": changing_part(dictionary._slots),
    }


def restore_dictionary(dictionary: Dictionary, state: Any, read: ArrayReader) -> None:
    """Make a new dictionary restore strings and codes, on first use if it supports that."""
    if not dictionary.restores_lazily:
        _fill_dictionary(dictionary, state, read)
        return
    dictionary._count = state["count"]
    make_dormant(
        dictionary,
        state,
        lambda one, found: _fill_dictionary(one, found, read),
        DORMANT_DICTIONARY_ATTRIBUTES,
    )


def _fill_dictionary(dictionary: Dictionary, state: Any, read: ArrayReader) -> None:
    arena, offsets, slots = (read(state[name]) for name in ("arena", "offsets", "slots"))
    dictionary.adopt_arrays(state["count"], arena, offsets, slots)
