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

from kpg.compiler.catalog.constraints import ForeignKey, descendant_tables
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.runtime.convert.python_values import show_plain, show_word
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import IntegrityError, ProgrammingError, Violation
from kpg.runtime.executor import Executor
from kpg.runtime.interrupts import safe_point
from kpg.runtime.records import dataclass
from kpg.runtime.types import NULL, Schema, Type

Words = NDArray[np.int64]
KEYS_AT_ONCE: Final = 1 << 16
"""Keys that are looked up between two safe points."""


@dataclass(frozen=True, slots=True)
class NewReferences:
    """New foreign key values, whose targets must exist."""

    link: "Link"
    rowids: Words
    keys: Words


@dataclass(frozen=True, slots=True)
class LoadedReferences:
    """Rows loaded into workers, in a range of rowids, whose targets must exist."""

    link: "Link"
    rowids: tuple[int, int]


@dataclass(frozen=True, slots=True)
class RemovedKeys:
    """Former keys of deleted rows, or of updated rows with their new keys in the same order."""

    link: "Link"
    old: Words
    new: Words | None
    is_acted_on: bool = False


class WritableTable(Protocol):
    """The methods of a table that referential actions use."""

    def delete(self, rowids: Words) -> None: ...

    def update(self, rowids: Words, words: Words, *, completed: bool = False) -> Words: ...


class References:
    """The foreign keys of a database, and their pending checks."""

    def __init__(
        self,
        executor: Executor,
        table: Callable[[str], WritableTable],
        check_rows: Callable[[str, Words], Words],
    ) -> None:
        """``check_rows`` returns the rows that an action writes to a table after the table's pipeline."""
        self._executor = executor
        self._table = table
        self._check_rows = check_rows
        self._outgoing: dict[str, list[Link]] = {}
        self._incoming: dict[str, list[Link]] = {}
        self.inserts: list[NewReferences | LoadedReferences] = []
        """New references to check."""
        self.removals: list[RemovedKeys] = []
        """Removed keys to act on or to check."""
        self._moving: dict[str, Words] = {}
        self.immediate_keys: set[str] = set()
        """Names of keys that SET CONSTRAINTS has made immediate."""
        self.deferred_keys: set[str] = set()
        """Names of keys that SET CONSTRAINTS has deferred."""
        self._defaults: Callable[[str, tuple[int, ...], int], Words] | None = None

    def refresh(self, catalog: Catalog, defaults: Callable[[str, tuple[int, ...], int], Words]) -> None:
        """Read the catalog's foreign keys; ``defaults`` returns the words of a table's DEFAULTs."""

        self._defaults = defaults
        self._outgoing.clear()
        self._incoming.clear()
        for entry in catalog:
            if isinstance(entry, TableEntry):
                for key in entry.constraints.foreign_keys:
                    link = resolve_link(entry, key, catalog)
                    self._outgoing.setdefault(link.table, []).append(link)
                    self._incoming.setdefault(link.target, []).append(link)
                    for leaf, columns in link.leaves:
                        schema = catalog.table(leaf).schema
                        leaf_link = replace(link, target=leaf, target_schema=schema, target_columns=columns)
                        self._incoming.setdefault(leaf, []).append(leaf_link)

    def has_foreign_keys(self, table: str) -> bool:
        """Whether a table has foreign keys or is referenced."""
        return table in self._outgoing or table in self._incoming

    def incoming(self, table: str) -> "list[Link]":
        """Return the foreign keys that refer to a table, including its own."""
        return self._incoming.get(table, [])

    def referring_keys(self, table: str) -> "list[Link]":
        """Return the foreign keys of other tables that refer to a table."""
        return [link for link in self._incoming.get(table, ()) if link.table != table]

    def all_keys(self) -> "list[Link]":
        """Return every foreign key."""
        return [link for links in self._outgoing.values() for link in links]

    def defer(self, names: set[str], *, deferred: bool) -> None:
        """Defer the check of keys until the commit, or not, until the transaction ends.

        Without names, reset all keys to their definitions.
        """
        if not names:
            self.immediate_keys.clear()
            self.deferred_keys.clear()
        into, out = (
            (self.deferred_keys, self.immediate_keys)
            if deferred
            else (self.immediate_keys, self.deferred_keys)
        )
        into |= names
        out -= names

    def clear(self) -> None:
        """Drop all pending checks."""
        self.defer(set(), deferred=False)
        self.inserts.clear()
        self.removals.clear()
        self._moving.clear()

    @property
    def pending_counts(self) -> tuple[int, int]:
        """Numbers of pending inserts and removals."""
        return len(self.inserts), len(self.removals)

    def truncate(self, pending_counts: tuple[int, int]) -> None:
        """Drop the pending checks after a state of :attr:`pending_counts`."""
        inserts, removals = pending_counts
        del self.inserts[inserts:], self.removals[removals:]

    # Record changes

    def record_insert(self, table: str, rowids: Words, words: Words) -> None:
        """Record inserted rows."""
        for link in self._outgoing.get(table, ()):
            self.inserts.append(NewReferences(link, rowids, words[list(link.columns)]))

    def record_load(self, table: str, rowids: tuple[int, int]) -> None:
        """Record rows loaded into workers."""
        self.inserts += [LoadedReferences(link, rowids) for link in self._outgoing.get(table, ())]

    def record_move(self, table: str, new: Words) -> None:
        """Record that rows move to other partitions, which is an update for referencing tables.

        Raises ProgrammingError if a foreign key refers to their partition only.
        """
        for link in self._incoming.get(table, ()):
            if not link.leaves:
                what = "a non-root ancestor of the source partition is directly referenced in a foreign key"
                raise ProgrammingError(f"cannot move tuple across partitions when {what}")
            self._moving[table] = new

    def record_delete(self, table: str, old: Words) -> None:
        """Record deleted rows."""
        new = self._moving.pop(table, None)
        for link in self._incoming.get(table, ()):
            columns = list(link.target_columns)
            if new is None or new.shape != old.shape:
                self.removals.append(RemovedKeys(link, old[columns], None))
                continue
            changed = (old[columns] != new[columns]).any(axis=0)
            self.removals.append(RemovedKeys(link, old[columns][:, changed], new[columns][:, changed]))

    def record_update(self, table: str, old: Words, new: Words, rowids: Words) -> None:
        """Record updated rows, in the same order."""
        for link in self._outgoing.get(table, ()):
            columns = list(link.columns)
            changed = (old[columns] != new[columns]).any(axis=0)
            if changed.any():
                self.inserts.append(NewReferences(link, rowids[changed], new[columns][:, changed]))
        for link in self._incoming.get(table, ()):
            columns = list(link.target_columns)
            changed = (old[columns] != new[columns]).any(axis=0)
            if changed.any():
                self.removals.append(RemovedKeys(link, old[columns][:, changed], new[columns][:, changed]))

    # Actions and checks

    def run_actions(self) -> None:
        """Run the referential actions of removed keys; those to check stay pending."""
        waiting: list[RemovedKeys] = []
        while self.removals:
            events, self.removals = self.removals, []
            for event in events:
                if event.is_acted_on or not self._run_action(event):
                    waiting.append(event)
        self.removals = waiting

    def run_actions_and_check(self, *, at_commit: bool) -> None:
        """Run actions (ON DELETE CASCADE), then check. Deferred foreign keys are checked only at commit."""
        if not self.inserts and not self.removals:
            return
        self.run_actions()
        waiting, self.removals = self.removals, []
        deferred = []
        for event in waiting:
            if at_commit or _restricts(event) or not self._is_deferred(event.link.key):
                self._check_removed(event)
            else:
                deferred.append(event)
        inserts, self.inserts = self.inserts, []
        for references in inserts:
            if not at_commit and self._is_deferred(references.link.key):
                self.inserts.append(references)
            elif isinstance(references, LoadedReferences):
                self._check_loaded(references)
            else:
                self._check_inserted(references)
        self.removals = [RemovedKeys(one.link, one.old, one.new, is_acted_on=True) for one in deferred]

    def _is_deferred(self, key: ForeignKey) -> bool:
        name = key.name.lower()
        if name in self.immediate_keys or name in self.deferred_keys:
            return key.deferrable and name in self.deferred_keys
        return key.deferrable and key.deferred

    def _run_action(self, event: RemovedKeys) -> bool:
        """Run a key's referential action; return False if it has none, so that the key must be checked."""
        link = event.link
        action = _action(event)
        if action in ("NO ACTION", "RESTRICT"):
            return False
        if link.leaves and event.new is None:
            # A row that moved to another partition still exists.
            event = replace(
                event, old=np.ascontiguousarray(event.old[:, self._find_targets(link, event.old) < 0])
            )
        positions, rowids = self._find_referring(event)
        if not rowids.size:
            return True
        rowids, first = np.unique(rowids, return_index=True)
        positions = positions[first]
        table = self._table(link.table)
        if action == "CASCADE" and event.new is None:
            table.delete(rowids)
            return True
        words = self._executor.tables.fetch(link.table, rowids)
        columns = list(link.columns)
        if action == "CASCADE":
            assert event.new is not None
            words[columns] = event.new[:, positions]
        else:
            columns = list(link.set_columns or link.columns) if event.new is None else columns
            assert self._defaults is not None
            words[columns] = (
                NULL if action == "SET NULL" else self._defaults(link.table, tuple(columns), words.shape[1])
            )
        words = self._check_rows(link.table, words)
        rowids = table.update(rowids, words, completed=True)
        if action == "SET DEFAULT":
            # The default may equal the removed key: then the update records no change to check.
            self.inserts.append(NewReferences(link, rowids, words[list(link.columns)]))
        return True

    def _find_targets(self, link: "Link", keys: Words) -> Words:
        """Return the rowid of the target row for each key, or -1."""
        keys = np.ascontiguousarray(keys)
        if not link.leaves:
            return self._executor.tables.find_unique(link.target, link.target_columns, keys)
        found = np.full(keys.shape[1], -1, np.int64)
        for leaf, columns in link.leaves:
            found = np.maximum(found, self._executor.tables.find_unique(leaf, columns, keys))
        return found

    def check_detach(self, table: str) -> None:
        """Raise IntegrityError if rows refer to rows of a partition that is about to be detached."""
        for link in self._incoming.get(table, ()):
            old = self._executor.tables.scan(table)[list(link.target_columns)]
            _, rowids = self._find_referring(RemovedKeys(link, np.ascontiguousarray(old), None))
            if link.leaves and rowids.size:
                row = self._format_row(link, self._executor.tables.fetch(link.table, rowids[:1]))
                error = IntegrityError(
                    f'removing partition "{table}" violates foreign key constraint "{link.key.name}"',
                    hint=f"row {row} of {link.table} refers to it",
                )
                error.sqlstate = "23503"
                raise error

    def _find_referring(self, event: RemovedKeys) -> tuple[Words, Words]:
        """Return the positions of removed keys with the rowids that refer to them."""
        whole = np.flatnonzero((event.old != NULL).all(axis=0))
        if not whole.size:
            return whole, whole
        keys = np.ascontiguousarray(event.old[:, whole])
        places, rowids = self._executor.tables.find_all(event.link.table, event.link.columns, keys)
        return whole[places], rowids

    def _check_removed(self, event: RemovedKeys) -> None:
        link = event.link
        unmatched = event
        if not _restricts(event):
            targets = self._find_targets(link, event.old)
            unmatched = RemovedKeys(link, np.ascontiguousarray(event.old[:, targets < 0]), None)
        places, rowids = self._find_referring(unmatched)
        if rowids.size:
            key_parts = link.target_schema, link.target_columns, unmatched.old[:, places[0]], self._executor
            key = "({}) = ({})".format(*_format_key(*key_parts))
            message = (
                f'update or delete on table "{_plain_name(link.target)}" violates foreign key constraint '
                f'"{link.key.name}" on table "{_plain_name(link.table)}"'
            )
            detail = 'Key ({})=({}) is still referenced from table "{}".'.format(
                *_format_key(*key_parts, show_plain), link.table
            )
            row = self._format_row(link, self._executor.tables.fetch(link.table, rowids[:1]))
            raise IntegrityError(
                f"{key} of table {link.target} is still referred to by table {link.table}, against "
                f"FOREIGN KEY {link.key.name}",
                hint=f"row {row} of {link.table} refers to it",
            ).of_constraint(Violation("23503", message, detail, link.table, link.key.name))

    def _check_inserted(self, event: NewReferences) -> None:
        link = event.link
        absent = event.keys == NULL
        is_checked = ~absent.any(axis=0)
        if link.key.match == "FULL":
            is_checked = ~absent.all(axis=0)
        if not is_checked.any():
            return
        rowids, keys = event.rowids[is_checked], np.ascontiguousarray(event.keys[:, is_checked])
        targets = self._find_targets(link, keys)
        bad = np.flatnonzero(targets < 0)
        bad = (
            bad[np.isin(rowids[bad], self._executor.tables.filter_live(link.table, rowids[bad]))]
            if bad.size
            else bad
        )
        if bad.size:
            raise self._violation(link, self._executor.tables.fetch(link.table, rowids[bad[:1]]))

    def _check_loaded(self, event: LoadedReferences) -> None:
        """Check loaded rows in the workers if possible, otherwise in this process."""
        link, landing, found = event.link, self._executor.load_staging, None
        if landing is not None and not link.leaves:
            sides = link.table, event.rowids, link.columns, link.target, link.target_columns
            found = landing.find_dangling_row(*sides, is_full=link.key.match == "FULL")
        if found is None:
            rowids = np.arange(*event.rowids)
            keys = self._executor.tables.fetch(link.table, rowids)[list(link.columns)]
            self._check_inserted(NewReferences(link, rowids, keys))
        elif found.shape[1]:
            raise self._violation(link, found)

    def _violation(self, link: "Link", words: Words) -> IntegrityError:
        key_parts = link.schema, link.columns, words[list(link.columns), 0], self._executor
        key = "({}) = ({})".format(*_format_key(*key_parts))
        message = (
            f'insert or update on table "{_plain_name(link.table)}" '
            f'violates foreign key constraint "{link.key.name}"'
        )
        detail = 'Key ({})=({}) is not present in table "{}".'.format(
            *_format_key(*key_parts, show_plain), link.target
        )
        return IntegrityError(
            f"{key} of table {link.table} is no row of table {link.target}, against "
            f"FOREIGN KEY {link.key.name}",
            hint=f"of row {self._format_row(link, words)}",
        ).of_constraint(Violation("23503", message, detail, link.table, link.key.name))

    def _format_row(self, link: "Link", words: Words) -> str:
        values = zip(words[:, 0].tolist(), link.schema.types, strict=True)
        return f"({', '.join(show_word(word, type_, self._executor.dictionary) for word, type_ in values)})"

    def check_existing_rows(self, link: "Link") -> None:
        """Check all rows of a table for a new foreign key."""
        words = self._executor.tables.scan(link.table)
        rowids = np.empty(0, np.int64)
        if words.shape[1]:
            # Look up each distinct key once.
            keys = np.ascontiguousarray(np.unique(words[list(link.columns)], axis=1))
            found = []
            for start in range(0, keys.shape[1], KEYS_AT_ONCE):
                safe_point()
                some = keys[:, start : start + KEYS_AT_ONCE]
                found.append(self._executor.tables.find_all(link.table, link.columns, some)[1])
            rowids = np.unique(np.concatenate(found))
            words = self._executor.tables.fetch(link.table, rowids)
        self._check_inserted(NewReferences(link, rowids, words[list(link.columns)]))


def _action(event: RemovedKeys) -> str:
    return event.link.key.on_delete if event.new is None else event.link.key.on_update


def _restricts(event: RemovedKeys) -> bool:
    """Whether the key is RESTRICT, which is checked at once and never deferred."""
    return _action(event) == "RESTRICT"


def _format_key(
    schema: Schema,
    columns: tuple[int, ...],
    key: Words,
    executor: Executor,
    show: Callable[[int, Type, Dictionary], str] = show_word,
) -> tuple[str, str]:
    """Return the names of a key's columns, and their values."""
    values = (
        show(word, schema.types[place], executor.dictionary)
        for word, place in zip(key.tolist(), columns, strict=True)
    )
    return ", ".join(schema.names[place] for place in columns), ", ".join(values)


def _plain_name(name: str) -> str:
    """Return a name without its schema."""
    return name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key by positions: referencing ``columns`` and referenced ``target_columns``."""

    key: ForeignKey
    table: str
    schema: Schema
    columns: tuple[int, ...]
    target: str
    target_schema: Schema
    target_columns: tuple[int, ...]
    set_columns: tuple[int, ...]
    leaves: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Leaf partitions of a partitioned target, with the key columns in each."""


def resolve_link(entry: TableEntry, key: ForeignKey, catalog: Catalog) -> Link:
    """Return a foreign key by column positions."""
    target = catalog.table(key.target)
    leaves: tuple[str, ...] = ()
    if target.name.lower() in catalog.partitioned:
        below = descendant_tables(catalog.partitions, target.name)
        leaves = tuple(child for child in below if child.lower() not in catalog.partitioned)
    return Link(
        key,
        entry.name,
        entry.schema,
        column_positions(entry.schema, key.columns),
        target.name,
        target.schema,
        column_positions(target.schema, key.target_columns),
        column_positions(entry.schema, key.set_columns),
        tuple((leaf, column_positions(catalog.table(leaf).schema, key.target_columns)) for leaf in leaves),
    )


def column_positions(schema: Schema, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the positions of columns."""
    known = [name.lower() for name in schema.names]
    return tuple(known.index(name.lower()) for name in names)
