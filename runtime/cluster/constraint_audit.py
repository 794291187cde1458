"""Constraint checks and recursion ranks that need the rows of several members.

Audit of a load that bypasses the coordinator: the members check all constraints together. Rows with equal
keys have one owner if the key contains the partitioning column. Other keys are sent to a member by a hash of
their first column; foreign keys are sent to the owner of the row that they reference. The violations are sent
to all members, and each finds its own rows among them.

Ranks: each member keeps the recursion round of its own rows. All members run the same rounds, so a rank of
several members is the rank of one worker.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.table_shards import NOTHING, Keys, Load, Shelving, among, asking, repeated
from kpg.runtime.convert.arrow import SORTED_KINDS
from kpg.runtime.errors import InternalError
from kpg.runtime.handles import RankLookup, Unique
from kpg.runtime.operators.worker_group import Parcel
from kpg.runtime.plan import Mfp
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import ONE, Updates
from kpg.runtime.types import ERROR, NULL, ColumnDef, Schema

Words = NDArray[np.int64]


Flags = NDArray[np.bool_]
MOST = 1000
"""So many suspects are told of, the first ones."""


class Suspects(NamedTuple):
    """Rows, in common words, among which is one that breaks a rule; ``sure`` are those that do by themselves.

    Others do if one that comes before, by ``order``, has the same key.
    """

    rows: Words
    order: Words
    sure: Flags


class Reference(NamedTuple):
    """A foreign key of a table of which a load is staged, and the load of its target that is, if any."""

    load: str
    table: str
    columns: tuple[int, ...]
    schema: Schema
    whole: bool
    """Whether a key with a NULL in it has to be there, unless all of it is NULL."""
    target: str
    target_columns: tuple[int, ...]
    target_load: str | None
    by: int | None
    """Which of the key's columns says whose the target's row is; None if none does."""


class Auditing(Shelving):
    """The part of a member that checks."""

    _books: dict[tuple[str, tuple[int, ...]], tuple[Table, int]]
    """Of keys that are spread by a hash those that are here, and up to which row own ones were sent."""

    def audit(
        self, load: str, name: str, schema: Schema, checks: Mfp | None, local: list[Unique],
        spread: list[Unique],
    ) -> list[Suspects]:  # fmt: skip
        """What is wrong with rows that are staged, for each rule: CHECKs first, then what is unique.

        Rows that are the same in ``local`` ones have one owner.
        """
        self.sharing.begin(over=not spread)
        found = self._load(load)
        broken = self._broken(found, checks)
        suspects = [self._suspects(found, name, schema, some, some) for some in broken]
        for unique in local:
            keys = self._keys_of(name, unique)
            found.keys.append(keys)
            twice, there = keys.suspects(self._columns(found, unique.columns))
            both = np.unique(np.concatenate((twice, there)))
            suspects.append(self._suspects(found, name, schema, both, there))
        if spread:
            suspects += self._spread(found, name, schema, spread)
        return suspects

    def dangling(self, reference: Reference, given: Words | None) -> Suspects:
        """Rows that refer to none: of keys ``given`` by the coordinator, or of those that members have."""
        company = self.sharing
        company.begin(over=given is not None)
        found = self._load(reference.load)
        keys = self._columns(found, reference.columns)
        places = np.flatnonzero((keys != NULL).any(axis=0)) if reference.whole else asking(keys, none=True)
        keys = np.ascontiguousarray(keys[:, places])
        if given is not None:
            texts = self._texts_among(reference.table, reference.columns)
            bad = ~among(self._in_own(given, texts), keys)
        else:
            missing = self._missing(reference, keys)
            bad = among(missing, keys)
        schema, places = reference.schema, places[bad]
        return self._suspects(found, reference.table, schema, places, places)

    def forget_keys(self, name: str) -> None:
        """An audit was broken off: what has been sent is to be sent again."""
        for book in [book for book in self._books if book[0] == name]:
            del self._books[book]

    def drop_table(self, name: str) -> None:
        """There is a table no more."""
        self.forget_keys(name)
        super().drop_table(name)

    def rename_table(self, old: str, new: str) -> None:
        """A table has another name."""
        super().rename_table(old, new)
        for book in [book for book in self._books if book[0] == old]:
            self._books[new, book[1]] = self._books.pop(book)

    # Parts of it

    def _keys_of(self, name: str, unique: Unique) -> Keys:
        """The index of the rows that are here."""
        known = self._keys.setdefault(name, [])
        for keys in known:
            if keys.columns == unique.columns:
                return keys
        known.append(Keys(self.tables[name], unique.columns, nulls_distinct=unique.nulls_distinct))
        return known[-1]

    def _columns(self, load: Load, columns: Sequence[int]) -> Words:
        parts = [np.empty((len(columns), 0), np.int64)]
        return np.concatenate(parts + [one[list(columns)] for one in self._staged(load)], axis=1)

    def _broken(self, load: Load, checks: Mfp | None) -> list[Words]:
        """The rows that fail each CHECK."""
        if checks is None:
            return []
        broken: list[list[Words]] = [[NOTHING] for _ in checks.outputs]
        start = 0
        for words in self._staged(load):
            results, _ = self.evaluate(checks, words)
            for bad, result in zip(broken, results, strict=True):
                bad.append(start + np.flatnonzero((result == 0) | (result == ERROR)))
            start += words.shape[1]
        return [np.concatenate(bad) for bad in broken]

    def _suspects(self, load: Load, name: str, schema: Schema, places: Words, sure: Words) -> Suspects:
        """The first of some rows, in the order in which one worker would take them."""
        if not places.shape[0]:
            empty = np.empty((len(schema.columns), 0), np.int64)
            return Suspects(empty, empty, np.zeros(0, np.bool_))
        rows = np.ascontiguousarray(self._columns(load, range(len(schema.columns)))[:, places])
        key = list(schema.primary_key)
        sorted_by = bool(key) and all(schema.types[place].kind in SORTED_KINDS for place in key)
        order = rows[key] if sorted_by else places.reshape(1, -1)
        first = np.lexsort(order[::-1])[:MOST]
        rows, order, places = rows[:, first], order[:, first], places[first]
        return Suspects(self._said(name, rows), order, np.isin(places, sure))

    def _spread(self, load: Load, name: str, schema: Schema, spread: list[Unique]) -> list[Suspects]:
        """What is wrong with keys whose rows have several owners."""
        company = self.sharing
        fresh = [self._columns(load, unique.columns) for unique in spread]
        parcels: list[tuple[int, Words]] = []
        for number, (unique, keys) in enumerate(zip(spread, fresh, strict=True)):
            _, sent = self._book(name, schema, unique)
            table = self.tables[name]
            rowids = table.groups.live(sent, table.count) if sent < table.count else NOTHING
            before = table.read(rowids, unique.columns)
            for position, given in ((2 * number, keys), (2 * number + 1, before)):
                parcels.append((position, given[:, asking(given, none=unique.nulls_distinct)]))
        types = [unique.columns for unique in spread for _ in range(2)]
        came = self._parted(name, parcels, types, [0] * len(types))
        verdicts: list[tuple[int, Words]] = []
        for number, unique in enumerate(spread):
            book, _ = self._book(name, schema, unique)
            keys, before = came[2 * number], came[2 * number + 1]
            columns = tuple(range(len(unique.columns)))
            book.insert(before[:, book.find_unique(columns, before) < 0])
            self._books[name, unique.columns] = book, self.tables[name].count
            known = book.find_unique(columns, keys) >= 0
            verdicts += [(2 * number, keys[:, repeated(keys)]), (2 * number + 1, keys[:, known])]
        told = self._told_to_all(name, verdicts, types)
        company.over = True
        suspects = []
        for number, keys in enumerate(fresh):
            twice, there = (np.flatnonzero(among(told[2 * number + i], keys)) for i in (0, 1))
            both = np.unique(np.concatenate((twice, there)))
            suspects.append(self._suspects(load, name, schema, both, there))
        return suspects

    def _book(self, name: str, schema: Schema, unique: Unique) -> tuple[Table, int]:
        found = self._books.get((name, unique.columns))
        if found is None:
            columns = [
                ColumnDef(f"c{i}", schema.types[place], True) for i, place in enumerate(unique.columns)
            ]
            book = Table(name, Schema(tuple(columns)), self.dictionary)
            book.add_unique("", tuple(range(len(columns))), nulls_distinct=False)
            found = self._books[name, unique.columns] = book, 0
        return found

    def _missing(self, reference: Reference, keys: Words) -> Words:
        """Of all members' keys those that no row of the target has."""
        target, columns = reference.target, reference.target_columns
        changes = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        asked = keys[:, np.concatenate((np.ones(min(keys.shape[1], 1), np.bool_), changes))]
        parcels, types, by = [(0, asked)], [columns], [reference.by or 0]
        table = self.tables[target]
        load = None if reference.target_load is None else self._load(reference.target_load)
        coming = np.empty((len(columns), 0), np.int64) if load is None else self._columns(load, columns)
        coming = np.ascontiguousarray(coming[:, asking(coming, none=True)])
        if reference.by is None:
            there = table.read(table.live(), columns)
            there = there[:, asking(there, none=True)]
            parcels.append((1, np.concatenate((there, coming), axis=1)))
            types, by = [columns, columns], [0, 0]
        came = self._parted(target, parcels, types, by)
        known = coming if reference.by is not None else came[1]
        found = among(known, came[0])
        if reference.by is not None and table.rows:
            found |= self._keys_of(target, Unique(columns, nulls_distinct=True)).find(came[0]) >= 0
        missing = self._told_to_all(target, [(0, came[0][:, ~found])], types)[0]
        self.sharing.over = True
        return missing

    # Meetings

    def _parted(
        self, name: str, parcels: list[tuple[int, Words]], columns: Sequence[Sequence[int]], by: Sequence[int]
    ) -> list[Words]:
        """Keys at who owns them, by one of their columns, each set under its position."""
        company = self.sharing
        out: list[list[Parcel]] = [[] for _ in range(company.count)]
        mine: list[list[Words]] = []
        for (position, keys), places, column in zip(parcels, columns, by, strict=True):
            texts = self._texts_among(name, places)
            owners = company.owners.places(keys[column], interned=column in texts)
            mine.append([np.ascontiguousarray(keys[:, owners[company.index]])])
            for worker, some in enumerate(owners):
                if worker != company.index:
                    out[worker].append(self._parcel(position, keys[:, some], texts))
        return self._met(out, mine)

    def _told_to_all(
        self, name: str, parcels: list[tuple[int, Words]], columns: Sequence[Sequence[int]]
    ) -> list[Words]:
        """What is known at any member, each key once."""
        company = self.sharing
        out: list[list[Parcel]] = [[] for _ in range(company.count)]
        for worker in range(company.count):
            if worker != company.index:
                out[worker] = [
                    self._parcel(position, keys, self._texts_among(name, places))
                    for (position, keys), places in zip(parcels, columns, strict=False)
                ]
        found = self._met(out, [[keys] for _, keys in parcels])
        return [np.unique(keys, axis=1) if keys.shape[1] else keys for keys in found]

    def _met(self, out: list[list[Parcel]], mine: list[list[Words]]) -> list[Words]:
        for position, updates, _ in self.sharing.swap(out):
            mine[position].append(updates.data)
        return [np.ascontiguousarray(np.concatenate(each, axis=1)) for each in mine]

    def _parcel(self, position: int, keys: Words, texts: tuple[int, ...]) -> Parcel:
        data = np.array(keys, np.int64, order="C")
        for column in texts:
            data[column] = self.sharing.strings.outgoing(data[column])
        return Parcel(position, Updates(data, np.zeros((1, 1), np.int64), ONE), texts)

    def _texts_among(self, name: str, columns: Sequence[int]) -> tuple[int, ...]:
        """The places among some columns of a table of those whose words are others elsewhere."""
        types = self.tables[name].schema.types
        return self.sharing.texts(tuple(types[place] for place in columns))


class Recalling(Auditing):
    """The part of a member that tells it."""

    _texts: dict[str, tuple[int, ...]]
    """Of each installation the columns whose words are others elsewhere."""

    def rank_width(self, name: str) -> tuple[int, int] | None:
        """The columns of a recursive set's rows, and how many rows this worker tells of; None: it is none."""
        lookup = self.views[name].ranks()
        return None if lookup is None else (lookup.width, len(lookup))

    def ranks_of(self, name: str, rows: Words, gone: bool) -> Words:
        """The ranks of the coordinator's rows that are kept here, -1 of others."""
        own = rows.copy()
        for column in self._texts[name]:
            own[column] = self.sharing.strings.from_coordinator(own[column])
        return self._lookup(name).of(own, gone=gone)

    def ranked(self, name: str, gone: bool) -> tuple[Words, Words]:
        """All rows that are kept here, and their ranks."""
        rows, found = self._lookup(name).every(gone=gone)
        return self._in_common(name, rows), found

    def first_rounds(self, name: str) -> tuple[Words, Words] | None:
        """See ``Installation``: of what is kept here."""
        found = self.views[name].first_rounds()
        return None if found is None else (self._in_common(name, found[0]), found[1])

    def _lookup(self, name: str) -> RankLookup:
        lookup = self.views[name].ranks()
        if lookup is None:
            raise InternalError(f"{name} is no recursive set")
        return lookup

    def _in_common(self, name: str, rows: Words) -> Words:
        """Own words as those that all understand."""
        return self._common(Updates(rows, np.zeros((1, 1), np.int64), ONE), self._texts[name]).data

    def _common(self, updates: Updates, texts: tuple[int, ...]) -> Updates:
        if not texts:
            return updates
        data = updates.data.copy()
        for column in texts:
            data[column] = self.sharing.strings.reported(data[column])
        return updates.with_data(data)
