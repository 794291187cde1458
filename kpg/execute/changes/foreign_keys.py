"""Foreign keys: referential actions, and the check that each reference has its row.

Changes are collected as they happen. They are checked at the end of the statement, or of the transaction for
deferred keys. The work is proportional to the changed rows: both sides are looked up in the tables' indexes.
``Link`` is a foreign key resolved to column positions.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import ForeignKey, heirs
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.runtime.convert.python_values import show
from kpg.runtime.errors import IntegrityError, ProgrammingError
from kpg.runtime.executor import Executor
from kpg.runtime.interrupts import safe_point
from kpg.runtime.records import dataclass
from kpg.runtime.types import NULL, Schema

Words = NDArray[np.int64]
KEYS_AT_ONCE: Final = 1 << 16
"""Keys that are looked up between two safe points."""


@dataclass(frozen=True, slots=True)
class Inserted:
    """Rows that must refer to a row."""

    link: "Link"
    rowids: Words
    keys: Words


@dataclass(frozen=True, slots=True)
class Landed:
    """Rows that must refer to a row, and that workers have: from a rowid on, before another."""

    link: "Link"
    rowids: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Removed:
    """Keys that rows had, and ``new`` ones in their order if they were updated; ``checked``: acted on."""

    link: "Link"
    old: Words
    new: Words | None
    checked: bool = False


class Rows(Protocol):
    """What acting on a row needs of a table."""

    def delete(self, rowids: Words) -> None: ...

    def update(self, rowids: Words, words: Words) -> Words: ...


class References:
    """The foreign keys of a database, and what is still to be settled."""

    def __init__(self, executor: Executor, table: Callable[[str], Rows]) -> None:
        self._executor = executor
        self._table = table
        self._outgoing: dict[str, list[Link]] = {}
        self._incoming: dict[str, list[Link]] = {}
        self.inserts: list[Inserted | Landed] = []
        self.removals: list[Removed] = []
        self._moving: dict[str, Words] = {}
        self.immediate: set[str] = set()
        self.deferred: set[str] = set()
        self._defaults: Callable[[str, tuple[int, ...], int], Words] | None = None

    def refresh(self, catalog: Catalog, defaults: Callable[[str, tuple[int, ...], int], Words]) -> None:
        """Take the catalog's foreign keys anew; ``defaults`` gives the words of a table's DEFAULTs."""

        self._defaults = defaults
        self._outgoing.clear()
        self._incoming.clear()
        for entry in catalog:
            if isinstance(entry, TableEntry):
                for key in entry.constraints.foreign_keys:
                    link = link_of(entry, key, catalog)
                    self._outgoing.setdefault(link.table, []).append(link)
                    self._incoming.setdefault(link.target, []).append(link)
                    for leaf, columns in link.leaves:
                        schema = catalog.table(leaf).schema
                        below = replace(link, target=leaf, target_schema=schema, target_columns=columns)
                        self._incoming.setdefault(leaf, []).append(below)

    def concerns(self, table: str) -> bool:
        """Whether a table has foreign keys or is referred to."""
        return table in self._outgoing or table in self._incoming

    def incoming(self, table: str) -> "list[Link]":
        """The foreign keys that refer to a table, its own among them."""
        return self._incoming.get(table, [])

    def users(self, table: str) -> "list[Link]":
        """The foreign keys of other tables that refer to a table."""
        return [link for link in self._incoming.get(table, ()) if link.table != table]

    def all(self) -> "list[Link]":
        """Every foreign key there is."""
        return [link for links in self._outgoing.values() for link in links]

    def defer(self, names: set[str], *, deferred: bool) -> None:
        """Until the transaction is over check some keys late, or not; no names: as they are defined."""
        if not names:
            self.immediate.clear()
            self.deferred.clear()
        into, out = (self.deferred, self.immediate) if deferred else (self.immediate, self.deferred)
        into |= names
        out -= names

    def clear(self) -> None:
        """Forget what is to be settled."""
        self.defer(set(), deferred=False)
        self.inserts.clear()
        self.removals.clear()
        self._moving.clear()

    @property
    def waiting(self) -> tuple[int, int]:
        """How much there is to be settled."""
        return len(self.inserts), len(self.removals)

    def return_to(self, waiting: tuple[int, int]) -> None:
        """Forget what is to be settled since there was so much of it."""
        inserts, removals = waiting
        del self.inserts[inserts:], self.removals[removals:]

    # What has changed

    def inserted(self, table: str, rowids: Words, words: Words) -> None:
        """Rows have come."""
        for link in self._outgoing.get(table, ()):
            self.inserts.append(Inserted(link, rowids, words[list(link.columns)]))

    def landed(self, table: str, rowids: tuple[int, int]) -> None:
        """Rows have come to workers."""
        self.inserts += [Landed(link, rowids) for link in self._outgoing.get(table, ())]

    def moves(self, table: str, new: Words) -> None:
        """Rows are about to go to other partitions, as new ones: to who refers to them that is an update.

        ProgrammingError if somebody refers to rows of their partition only.
        """
        for link in self._incoming.get(table, ()):
            if not link.leaves:
                what = "a non-root ancestor of the source partition is directly referenced in a foreign key"
                raise ProgrammingError(f"cannot move tuple across partitions when {what}")
            self._moving[table] = new

    def deleted(self, table: str, old: Words) -> None:
        """Rows have gone."""
        new = self._moving.pop(table, None)
        for link in self._incoming.get(table, ()):
            columns = list(link.target_columns)
            if new is None or new.shape != old.shape:
                self.removals.append(Removed(link, old[columns], None))
                continue
            changed = (old[columns] != new[columns]).any(axis=0)
            self.removals.append(Removed(link, old[columns][:, changed], new[columns][:, changed]))

    def updated(self, table: str, old: Words, new: Words, rowids: Words) -> None:
        """Rows have become others, in the same order."""
        for link in self._outgoing.get(table, ()):
            columns = list(link.columns)
            changed = (old[columns] != new[columns]).any(axis=0)
            if changed.any():
                self.inserts.append(Inserted(link, rowids[changed], new[columns][:, changed]))
        for link in self._incoming.get(table, ()):
            columns = list(link.target_columns)
            changed = (old[columns] != new[columns]).any(axis=0)
            if changed.any():
                self.removals.append(Removed(link, old[columns][:, changed], new[columns][:, changed]))

    # Settling

    def act(self) -> None:
        """Do what keys say about the rows that have changed; what has to be checked is left."""
        waiting: list[Removed] = []
        while self.removals:
            events, self.removals = self.removals, []
            for event in events:
                if event.checked or not self._act(event):
                    waiting.append(event)
        self.removals = waiting

    def settle(self, *, committing: bool) -> None:
        """Act on what has changed, and check that rows refer to one; what is deferred, when committing."""
        if not self.inserts and not self.removals:
            return
        self.act()
        waiting, self.removals = self.removals, []
        late = []
        for removed in waiting:
            if committing or _restricts(removed) or not self._is_deferred(removed.link.key):
                self._check_removed(removed)
            else:
                late.append(removed)
        inserts, self.inserts = self.inserts, []
        for one in inserts:
            if not committing and self._is_deferred(one.link.key):
                self.inserts.append(one)
            elif isinstance(one, Landed):
                self._check_landed(one)
            else:
                self._check_inserted(one)
        self.removals = [Removed(one.link, one.old, one.new, checked=True) for one in late]

    def _is_deferred(self, key: ForeignKey) -> bool:
        """Whether a key is checked only when the transaction commits."""
        name = key.name.lower()
        if name in self.immediate or name in self.deferred:
            return key.deferrable and name in self.deferred
        return key.deferrable and key.deferred

    def _act(self, event: Removed) -> bool:
        """Do what a key's action says; False if it says nothing, so that it has to be checked."""
        link = event.link
        action = _action(event)
        if action in ("NO ACTION", "RESTRICT"):
            return False
        if link.leaves and event.new is None:
            # A row that has gone to another partition is still there.
            event = replace(event, old=np.ascontiguousarray(event.old[:, self._found(link, event.old) < 0]))
        places, rowids = self._referring(event)
        if not rowids.size:
            return True
        rowids, first = np.unique(rowids, return_index=True)
        places = places[first]
        table = self._table(link.table)
        if action == "CASCADE" and event.new is None:
            table.delete(rowids)
            return True
        words = self._executor.fetch(link.table, rowids)
        columns = list(link.columns)
        if action == "CASCADE":
            assert event.new is not None
            words[columns] = event.new[:, places]
        else:
            columns = list(link.set_columns or link.columns) if event.new is None else columns
            assert self._defaults is not None
            words[columns] = (
                NULL if action == "SET NULL" else self._defaults(link.table, tuple(columns), words.shape[1])
            )
        rowids = table.update(rowids, words)
        if action == "SET DEFAULT":
            # The default may be the very key that is gone: then nothing has changed that would be checked.
            self.inserts.append(Inserted(link, rowids, words[list(link.columns)]))
        return True

    def _found(self, link: "Link", keys: Words) -> Words:
        """The row of the target for each key, or -1."""
        keys = np.ascontiguousarray(keys)
        if not link.leaves:
            return self._executor.find_unique(link.target, link.target_columns, keys)
        found = np.full(keys.shape[1], -1, np.int64)
        for leaf, columns in link.leaves:
            found = np.maximum(found, self._executor.find_unique(leaf, columns, keys))
        return found

    def check_left(self, table: str) -> None:
        """IntegrityError if rows refer to those of a partition that is about to be one no more."""
        for link in self._incoming.get(table, ()):
            old = self._executor.scan(table)[list(link.target_columns)]
            _, rowids = self._referring(Removed(link, np.ascontiguousarray(old), None))
            if link.leaves and rowids.size:
                row = self._row(link, self._executor.fetch(link.table, rowids[:1]))
                error = IntegrityError(
                    f'removing partition "{table}" violates foreign key constraint "{link.key.name}"',
                    hint=f"row {row} of {link.table} refers to it",
                )
                error.sqlstate = "23503"
                raise error

    def _referring(self, event: Removed) -> tuple[Words, Words]:
        """The rows that refer to keys that are gone, and to which of them."""
        whole = np.flatnonzero((event.old != NULL).all(axis=0))
        if not whole.size:
            return whole, whole
        keys = np.ascontiguousarray(event.old[:, whole])
        places, rowids = self._executor.find_all(event.link.table, event.link.columns, keys)
        return whole[places], rowids

    def _check_removed(self, event: Removed) -> None:
        link = event.link
        gone = event
        if not _restricts(event):
            there = self._found(link, event.old)
            gone = Removed(link, np.ascontiguousarray(event.old[:, there < 0]), None)
        places, rowids = self._referring(gone)
        if rowids.size:
            key = _shown(link.target_schema, link.target_columns, gone.old[:, places[0]], self._executor)
            row = self._row(link, self._executor.fetch(link.table, rowids[:1]))
            raise IntegrityError(
                f"{key} of table {link.target} is still referred to by table {link.table}, against "
                f"FOREIGN KEY {link.key.name}",
                hint=f"row {row} of {link.table} refers to it",
            )

    def _check_inserted(self, event: Inserted) -> None:
        link = event.link
        absent = event.keys == NULL
        asking = ~absent.any(axis=0)
        if link.key.match == "FULL":
            asking = ~absent.all(axis=0)
        if not asking.any():
            return
        rowids, keys = event.rowids[asking], np.ascontiguousarray(event.keys[:, asking])
        found = self._found(link, keys)
        bad = np.flatnonzero(found < 0)
        bad = bad[np.isin(rowids[bad], self._executor.live(link.table, rowids[bad]))] if bad.size else bad
        if bad.size:
            raise self._dangling(link, self._executor.fetch(link.table, rowids[bad[:1]]))

    def _check_landed(self, event: Landed) -> None:
        """Have workers check their rows; or, where they cannot, have the rows here."""
        link, landing, found = event.link, self._executor.landing, None
        if landing is not None and not link.leaves:
            sides = link.table, event.rowids, link.columns, link.target, link.target_columns
            found = landing.dangling(*sides, whole=link.key.match == "FULL")
        if found is None:
            rowids = np.arange(*event.rowids)
            keys = self._executor.fetch(link.table, rowids)[list(link.columns)]
            self._check_inserted(Inserted(link, rowids, keys))
        elif found.shape[1]:
            raise self._dangling(link, found)

    def _dangling(self, link: "Link", words: Words) -> IntegrityError:
        key = _shown(link.schema, link.columns, words[list(link.columns), 0], self._executor)
        return IntegrityError(
            f"{key} of table {link.table} is no row of table {link.target}, against "
            f"FOREIGN KEY {link.key.name}",
            hint=f"of row {self._row(link, words)}",
        )

    def _row(self, link: "Link", words: Words) -> str:
        values = zip(words[:, 0].tolist(), link.schema.types, strict=True)
        return f"({', '.join(show(word, type_, self._executor.dictionary) for word, type_ in values)})"

    def check_all(self, link: "Link") -> None:
        """Raise IntegrityError if a row of a table does not refer to one: for a key that is new."""
        words = self._executor.scan(link.table)
        rowids = np.empty(0, np.int64)
        if words.shape[1]:
            # Each key once: all rows that have it are found by it.
            keys = np.ascontiguousarray(np.unique(words[list(link.columns)], axis=1))
            found = []
            for start in range(0, keys.shape[1], KEYS_AT_ONCE):
                safe_point()
                some = keys[:, start : start + KEYS_AT_ONCE]
                found.append(self._executor.find_all(link.table, link.columns, some)[1])
            rowids = np.unique(np.concatenate(found))
            words = self._executor.fetch(link.table, rowids)
        self._check_inserted(Inserted(link, rowids, words[list(link.columns)]))


def _action(event: Removed) -> str:
    return event.link.key.on_delete if event.new is None else event.link.key.on_update


def _restricts(event: Removed) -> bool:
    """Whether rows must not refer to the keys even for a moment: nothing that comes later makes that good."""
    return _action(event) == "RESTRICT"


def _shown(schema: Schema, columns: tuple[int, ...], key: Words, executor: Executor) -> str:
    names = ", ".join(schema.names[place] for place in columns)
    values = (
        show(word, schema.types[place], executor.dictionary)
        for word, place in zip(key.tolist(), columns, strict=True)
    )
    return f"({names}) = ({', '.join(values)})"


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key by positions: ``columns`` of the table that has it, ``target_columns`` of the other."""

    key: ForeignKey
    table: str
    schema: Schema
    columns: tuple[int, ...]
    target: str
    target_schema: Schema
    target_columns: tuple[int, ...]
    set_columns: tuple[int, ...]
    leaves: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Of a target that is partitioned: the tables that have its rows, and the columns there."""


def link_of(entry: TableEntry, key: ForeignKey, catalog: Catalog) -> Link:
    """A foreign key by positions."""
    target = catalog.table(key.target)
    leaves: tuple[str, ...] = ()
    if ("partitioned", target.name.lower(), "") in catalog.others:
        below = heirs(catalog.others, target.name)
        leaves = tuple(one for one in below if ("partitioned", one.lower(), "") not in catalog.others)
    return Link(
        key,
        entry.name,
        entry.schema,
        places(entry.schema, key.columns),
        target.name,
        target.schema,
        places(target.schema, key.target_columns),
        places(entry.schema, key.set_columns),
        tuple((leaf, places(catalog.table(leaf).schema, key.target_columns)) for leaf in leaves),
    )


def places(schema: Schema, names: tuple[str, ...]) -> tuple[int, ...]:
    """The positions of columns."""
    known = [name.lower() for name in schema.names]
    return tuple(known.index(name.lower()) for name in names)
