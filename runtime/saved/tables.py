"""Tables and the dictionary as data: indexes, what waits for the vacuum, and strings."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final
from weakref import ref

import numpy as np

from kpg.runtime.data.loose import LooseIndex, index_of, is_loose_key
from kpg.runtime.data.rowindex import BagIndex, KeyIndex
from kpg.runtime.data.table import Table
from kpg.runtime.data.unique import LookupIndex, UniqueIndex
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.saved.dormant import lull, state_of
from kpg.runtime.saved.form import Read, State, changing, fixed, growing
from kpg.runtime.saved.pasts import capture_table_past
from kpg.runtime.saved.rowgroups import capture_groups, restore_groups
from kpg.runtime.saved.sharded import capture_shards, shards_of
from kpg.runtime.storage.placed import Sharded


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
