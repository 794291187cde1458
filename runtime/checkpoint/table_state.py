"""Tables and the dictionary as data: rows, indexes, deleted rows, past epochs, and strings.

Rows of full groups never change; only their live bits do. :class:`Straight` is a pack that large commits
write their rows to directly, and the log refers to it. A checkpoint treats such a pack as its own and leaves
the rows in place. The log decides which of these packs count; packs of unfinished records are left over.
Tables whose rows are in workers' shards keep these shards.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.checkpoint.captured_state import (
    Life,
    Part,
    Read,
    State,
    changing,
    fixed,
    growing,
    lull,
    state_of,
)
from kpg.runtime.checkpoint.pack_store import Reader, Stored
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.operators.input import Memory
from kpg.runtime.records import dataclass
from kpg.runtime.storage.files import Bytes, Files
from kpg.runtime.storage.packs import PackFacts, PackWriter, Placed, PlacedStrings, Shard, Sharded, sums_of
from kpg.runtime.tables.row_groups import Group, RowGroups, TablePast
from kpg.runtime.tables.row_index import BagIndex, KeyIndex
from kpg.runtime.tables.table import LookupIndex, LooseIndex, Table, UniqueIndex, index_of, is_loose_key
from kpg.runtime.trace.updates import Updates


def capture_table_past(past: TablePast) -> State:
    """What a table was, between steps."""
    return {
        "born": past.born,
        "since": past.since,
        "count": past.count,
        "epochs": tuple(past._epochs),
        "counts": tuple(past._counts),
        "gone": tuple(map(fixed, past._gone)),
        "buried": tuple((epoch, tuple(map(fixed, rowids))) for epoch, rowids in past._buried),
    }


def restored_table_past(state: Any, read: Read) -> TablePast:
    """The past of a table."""
    past = TablePast(state["born"])
    past.since, past.count = state["since"], state["count"]
    past._epochs, past._counts = list(state["epochs"]), list(state["counts"])
    past._gone = [read(rowids) for rowids in state["gone"]]
    past._buried = [(epoch, [read(one) for one in rowids]) for epoch, rowids in state["buried"]]
    return past


def capture_memory(memory: Memory) -> State:
    """The changes that a view has had, or, where it is computed late, what it is computed of."""
    changes = ((fixed(one.data), fixed(one.time), fixed(one.diff)) for one in memory.changes)
    return {"since": memory.since, "late": int(memory.late is not None), "changes": tuple(changes)}


def restore_memory(memory: Memory, state: Any, read: Read) -> None:
    """Have a view that is remembered from now on be remembered since before.

    Unless one of the two has what it is computed of, and the other not: versions of kpg may differ in that.
    """
    if state.get("late", 0) != (memory.late is not None):
        return
    memory.since = state["since"]
    memory.changes = [Updates(read(data), read(time), read(diff)) for data, time, diff in state["changes"]]


def columns_path(table: int, group: int) -> str:
    """Where the rows of a group are in the state of a checkpoint."""
    return f"/executor/tables/{table}/groups/groups/{group}/columns"


def capture_groups(groups: RowGroups, count: int) -> State:
    """The groups of a table that has given out ``count`` rowids."""
    asleep = state_of(groups)
    if asleep is not None:
        return asleep
    full = count >> groups.bits
    return {
        "bits": groups.bits,
        "capacity": groups.capacity,
        "linked": int(groups.linked),
        "rewritten": int(groups.directory[0, kernels.REWRITTEN]),
        "groups": tuple(
            None
            if group is None
            else _capture_group(
                groups, number, group, None if number < full else count - (number << groups.bits)
            )
            for number, group in enumerate(groups.held_groups)
        ),
    }


def _capture_group(groups: RowGroups, number: int, group: Group, rows: int | None) -> State:
    """A group, full unless it has so many ``rows``: behind them is what memory held before."""
    entry = groups.directory[1 + number]
    columns = group.columns
    return {
        "columns": fixed(columns) if rows is None else Part(columns, Life.CHANGING, rows=max(rows, 0)),
        "live": changing(group.live),
        "chart": None if group.chart is None else fixed(group.chart),
        "links": None if group.links is None else changing(group.links),
        "dead": int(entry[kernels.DEAD]),
        "waiting": int(entry[kernels.WAITING]),
    }


def restore_groups(groups: RowGroups, state: State, read: Read) -> RowGroups:
    """Have new groups take on a state once they are needed."""
    return lull(groups, state, lambda one, found: _fill(one, found, read))


def _fill(groups: RowGroups, state: Any, read: Read) -> None:
    groups.bits, groups.linked = state["bits"], bool(state["linked"])
    groups.directory[0, 0] = groups.bits
    for number, one in enumerate(state["groups"]):
        if one is None:
            groups.add_nothing()
            continue
        chart, links = (None if one[name] is None else read(one[name]) for name in ("chart", "links"))
        groups.add(Group(read(one["columns"]), read(one["live"]), chart, links))
        entry = groups.directory[1 + number]
        entry[kernels.DEAD], entry[kernels.WAITING] = one["dead"], one["waiting"]
    groups.directory[0, kernels.REWRITTEN] = state["rewritten"]
    groups.capacity = state["capacity"]


Words = NDArray[np.int64]
WORD: Final = "<i8"
ARENA: Final = "/executor/dictionary/arena"
OFFSETS: Final = "/executor/dictionary/offsets"
"""Where the strings are in the state of a checkpoint."""


@dataclass(frozen=True, slots=True)
class Written:
    """A pack that was written, and by path where what is in it is."""

    facts: PackFacts
    places: Mapping[str, Stored]


def written(pack: int, blocks: int) -> Written:
    """A pack that a worker has written, in which there is nothing that a checkpoint looks for."""
    return Written(PackFacts(pack, blocks, blocks), {})


class Loose:
    """The packs of one database that records of the log name."""

    def __init__(self) -> None:
        self._packs: dict[int, tuple[Written, int]] = {}

    @property
    def numbers(self) -> set[int]:
        """Which they are."""
        return set(self._packs)

    @property
    def facts(self) -> dict[int, PackFacts]:
        """What each takes, all of it as if it were in use."""
        return {number: one.facts for number, (one, _) in self._packs.items()}

    @property
    def places(self) -> dict[str, Stored]:
        """Where what is in them is, by path."""
        return {path: place for one, _ in self._packs.values() for path, place in one.places.items()}

    def add(self, pack: Written, segment: int) -> None:
        """One more, which a record in a segment of the log names."""
        self._packs[pack.facts.number] = pack, segment

    def read(self, placed: Placed, table: int, segment: int, reader: Reader) -> Words:
        """Rows that a record names, which is in a segment; DamagedError if they are not what was written."""
        self._add(placed.pack, {columns_path(table, placed.group): stored(placed)}, segment, reader)
        words: Words = reader(stored(placed))
        return words

    def strings(self, placed: PlacedStrings, segment: int, reader: Reader) -> tuple[Words, Bytes]:
        """Where the strings begin that a record names, which is in a segment, and their bytes."""
        used, count = placed.size, placed.count + 1
        arena = Stored(placed.pack, placed.block, "|u1", (2 * used,), used)
        offsets = Stored(placed.pack, placed.offsets, WORD, (2 * count,), count)
        self._add(placed.pack, {ARENA: arena, OFFSETS: offsets}, segment, reader)
        return reader(offsets)[:count], reader(arena)[:used]

    def _add(self, pack: int, places: Mapping[str, Stored], segment: int, reader: Reader) -> None:
        known = {} if pack not in self._packs else self._packs[pack][0].places
        blocks = reader.packs.get(pack).blocks
        self.add(Written(PackFacts(pack, blocks, blocks), {**known, **places}), segment)

    def settle(self, segment: int) -> set[int]:
        """A checkpoint has all that the log had before a segment: packs that only it still names."""
        gone = {number for number, (_, named) in list(self._packs.items()) if named < segment}
        for number in gone:
            del self._packs[number]
        return gone


class Straight:
    """A pack that rows are written to as they are committed; it is made when there are some."""

    def __init__(self, files: Files, number: int, database: int, reader: Reader) -> None:
        self.number = number
        self._writer = PackWriter(files, number, database)
        self._files = files
        self._reader = reader
        self._places: dict[str, Stored] = {}

    def put(self, table: int, group: int, columns: Words, count: int) -> Placed:
        """Write ``count`` rows of a group, whose arrays are ``columns[width, stride]``."""
        width, stride = columns.shape
        full = count == stride
        if not full:
            whole = np.zeros(columns.shape, np.int64)
            whole[:, :count] = columns[:, :count]
        data = (columns if full else whole).reshape(-1).view(np.uint8)
        block = self._writer.add(data, sums_of(data), data.shape[0])
        placed = Placed(group, self.number, block, width, stride)
        self._places[columns_path(table, group)] = stored(placed)
        if full:
            self._reader.given[id(columns)] = (ref(columns), stored(placed))
        return placed

    def put_strings(self, arena: Bytes, offsets: Words, count: int) -> PlacedStrings:
        """Write all strings there are; both arrays have room to grow, as in a checkpoint."""
        size = int(offsets[count])
        block = self._put(ARENA, arena, size, "|u1")
        return PlacedStrings(self.number, block, size, self._put(OFFSETS, offsets, count + 1, WORD), count)

    def _put(self, path: str, array: NDArray[Any], used: int, kind: str) -> int:
        data = array[:used].view(np.uint8)
        block = self._writer.add(data, sums_of(data), 2 * data.shape[0])
        self._places[path] = Stored(self.number, block, kind, (2 * used,), used)
        return block

    def finish(self) -> Written:
        """Have it be there whatever happens."""
        self._writer.finish()
        self._files.sync()
        facts = PackFacts(self.number, self._writer.used, self._writer.used)
        return Written(facts, self._places)

    def abandon(self) -> None:
        """Leave no file behind, if it can be helped."""
        self._writer.abandon()


def stored(placed: Placed) -> Stored:
    """Where rows are, as checkpoints say it."""
    return Stored(placed.pack, placed.block, WORD, (placed.width, placed.stride), placed.width)


BYTES = "|u1"


def capture_shards(found: Iterable[tuple[int, Sharded]]) -> State | None:
    """Where the rows of a table are, from which rowids on; None if they are in no shards."""
    state = tuple((start, tuple(map(_captured, sharded.shards))) for start, sharded in found)
    return {"sharded": state} if state else None


def _captured(shard: Shard) -> State:
    if not shard.rows:
        return None
    bounds, bounds_size, data, data_size = shard.strings
    return {
        "rows": shard.rows,
        "strings": (_stored(shard, bounds, bounds_size), _stored(shard, data, data_size)),
        "chunks": tuple((_stored(shard, block, size), rows) for block, size, rows in shard.chunks),
    }


def _stored(shard: Shard, block: int, size: int) -> Stored:
    return Stored(shard.pack, block, BYTES, (size,), size)


def shards_of(state: Any) -> list[tuple[int, Sharded]]:
    """What was captured."""
    return [(start, Sharded(tuple(map(_revived, shards)))) for start, shards in state["sharded"]]


def _revived(state: Any) -> Shard:
    if state is None:
        return Shard(0, 0, (0, 0, 0, 0), ())
    bounds, data = state["strings"]
    chunks = tuple((one.block, one.size, rows) for one, rows in state["chunks"])
    strings = bounds.block, bounds.size, data.block, data.size
    return Shard(bounds.pack, state["rows"], strings, chunks)


def capture_table(table: Table) -> State:
    """The state of a table without pending changes."""
    if table.has_pending or table._deletions:
        raise InternalError(f"table {table.name} has changes that no step has taken")
    vacuum = table._vacuum
    return {
        "count": table.count,
        "dead": table.dead,
        "reclaimed": table.reclaimed,
        "groups": capture_shards(table.sharded) or capture_groups(table.groups, table.count),
        "key": None if table._key is None else _capture_key(table._key),
        "bag": None if table._bag is None else _capture_slots(table._bag),
        "unique": tuple(map(_capture_unique, table._unique)),
        "lookups": tuple(map(_capture_lookup, table._lookups.values())),
        "past": None if table.past is None else capture_table_past(table.past),
        "vacuum": {
            "copied": vacuum.copied,
            "rewritten": vacuum.rewritten,
            "full": vacuum._full,
            "queue": tuple(vacuum._queue),
            "credit": vacuum._credit,
            "buried": tuple(map(changing, vacuum._buried)),
        },
    }


def version_of_table(table: Table) -> object:
    """What is equal as long as a table has the same rows and indexes, between steps; None if it has a past.

    Rowids are given out and rows deleted in numbers that only grow. An index that catches up meanwhile is
    right as it was, too.
    """
    if table.past is not None:
        return None
    vacuum = table._vacuum
    indexes = tuple([(index.name, index.columns) for index in table._unique]) if table._unique else ()
    done = (vacuum.copied, vacuum.rewritten, vacuum._full, len(vacuum._queue), len(vacuum._buried))
    return (
        ref(table), table.count, table.dead, table.reclaimed, done, table._bag is None, indexes,
        tuple(table._lookups),
    )  # fmt: skip


Take = Callable[[Table, int, Sharded], None]
"""Has a table take rows that workers have written, from a rowid on."""


def _restore_sharded(table: Table, state: Any, take: Take) -> None:
    """The same of one whose rows are as workers have written them."""
    for start, sharded in shards_of(state["groups"]):
        take(table, start, sharded)
    table.drain()
    table.commit()
    table.touched.pop(table, None)
    for one in state["unique"]:
        if table._loose_key is None or one["name"] != table._loose_key.name:
            distinct = bool(one["nulls distinct"])
            table.add_unique(one["name"], one["columns"], nulls_distinct=distinct)


def restore_table(table: Table, state: Any, read: Read, take: Take | None = None) -> None:
    """Have a new table take on a state, its arrays once they are needed; not its past."""
    if take is not None and "sharded" in state["groups"]:
        _restore_sharded(table, state, take)
        return
    table.count, table.dead, table.reclaimed = state["count"], state["dead"], state["reclaimed"]
    table._told = table.count
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
        index = index_of(table, one["name"], one["columns"], nulls_distinct=distinct)
        if not isinstance(index, LooseIndex):
            _restore_slots(index, one, read)
        table._unique.append(index)
    for one in state["lookups"]:
        if is_loose_key(table, one["columns"]):
            continue  # it is made when it is asked
        lookup = LookupIndex(groups, one["columns"])
        table._lookups[one["columns"]] = lull(
            lookup, one, lambda index, found: _fill_lookup(index, found, read)
        )
    vacuum, found = table._vacuum, state["vacuum"]
    vacuum.copied, vacuum.rewritten = found["copied"], found["rewritten"]
    vacuum._full, vacuum._credit = found["full"], found["credit"]
    vacuum._queue = deque(found["queue"])
    vacuum._buried = [read(rowids) for rowids in found["buried"]]


def _capture_key(index: KeyIndex) -> State:
    asleep = state_of(index)
    if asleep is not None:
        return asleep
    facts = {"indexed": index.indexed, "known": index.known, "highest": tuple(index.highest.tolist())}
    return facts | _capture_slots(index)


def _restore_key(index: KeyIndex, state: Any, read: Read) -> None:
    index.indexed, index.known = state["indexed"], state["known"]
    index.highest = np.array(state["highest"], np.int64)
    lull(
        index, state, lambda one, found: _fill_slots(one, found, read), ("highest", "known", "key", "indexed")
    )


def _capture_slots(index: KeyIndex | BagIndex | UniqueIndex) -> State:
    asleep = state_of(index)
    if asleep is not None:
        return asleep
    return {"slots": changing(index._slots), "tally": int(index._tally[0])}


def _restore_slots(index: BagIndex | UniqueIndex, state: State, read: Read) -> None:
    shown = ("name", "columns", "nulls_distinct")
    lull(index, state, lambda one, found: _fill_slots(one, found, read), shown)


def _fill_slots(index: KeyIndex | BagIndex | UniqueIndex, state: Any, read: Read) -> None:
    index._slots = read(state["slots"])
    index._tally[0] = state["tally"]


def _capture_unique(index: UniqueIndex) -> State:
    facts = {"name": index.name, "columns": index.columns, "nulls distinct": int(index.nulls_distinct)}
    return _capture_slots(index) | facts


def _capture_lookup(index: LookupIndex) -> State:
    asleep = state_of(index)
    if asleep is not None:
        return asleep
    runs = tuple((fixed(hashes), fixed(rowids)) for hashes, rowids in index._runs)
    return {"columns": index.columns, "indexed": index.indexed, "runs": runs}


def _fill_lookup(index: LookupIndex, state: Any, read: Read) -> None:
    index.indexed = state["indexed"]
    index._runs = [(read(hashes), read(rowids)) for hashes, rowids in state["runs"]]


SEEN_ASLEEP: Final = ("_count", "_before", "memos")
"""What is asked of a dictionary that sleeps, and does not wake it."""


def capture_dictionary(dictionary: Dictionary) -> State:
    """All strings and their codes."""
    asleep = state_of(dictionary)
    if asleep is not None:
        return asleep
    dictionary.fit()
    count = len(dictionary)
    return {
        "count": count,
        "arena": growing(dictionary.arena, int(dictionary.offsets[count])),
        "offsets": growing(dictionary.offsets, count + 1),
        "slots": changing(dictionary._slots),
    }


def restore_dictionary(dictionary: Dictionary, state: Any, read: Read) -> None:
    """Have a new dictionary take on strings and codes, once they are needed."""
    if not dictionary.lazy:
        _fill_dictionary(dictionary, state, read)
        return
    dictionary._count = state["count"]
    lull(dictionary, state, lambda one, found: _fill_dictionary(one, found, read), SEEN_ASLEEP)


def _fill_dictionary(dictionary: Dictionary, state: Any, read: Read) -> None:
    arena, offsets, slots = (read(state[name]) for name in ("arena", "offsets", "slots"))
    dictionary.adopt(state["count"], arena, offsets, slots)
