"""Constraint checks and recursion ranks that need the rows of several members.

Checks of a load that bypasses the coordinator: the members check all constraints together. Rows with equal
keys have one owner if the key contains the home column. Other keys are sent to a member by a hash of their
first column; foreign keys are sent to the owner of the row that they reference. The violations are sent to
all members, and each finds its own rows among them.

Ranks: each member has the recursion rounds of its own rows. All members run the same rounds, so ranks at
several
members equal those at one worker.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.table_shards import (
    NO_ROWIDS,
    Load,
    LoadKeyIndex,
    MemberShards,
    checked_positions,
    contains_keys,
    repeated_positions,
)
from kpg.runtime.convert.arrow import WORD_ORDER_KINDS
from kpg.runtime.errors import InternalError
from kpg.runtime.handles import RankLookup, Unique
from kpg.runtime.operators.worker_group import Parcel
from kpg.runtime.plan import Mfp
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import ONE, Updates
from kpg.runtime.types import ERROR, NULL, ColumnDef, Schema

Words = NDArray[np.int64]


Flags = NDArray[np.bool_]
MAX_CANDIDATES = 1000
"""Maximum number of candidates that a member reports, the first ones."""


class ViolationCandidates(NamedTuple):
    """Rows in common words, some of which violate a constraint.

    Those with ``is_certain`` do. Others do if a row that is earlier by ``order`` has the same key.
    """

    rows: Words
    order: Words
    is_certain: Flags


class ForeignKeyCheck(NamedTuple):
    """A foreign key of a table with a staged load, and the staged load of its target, if any."""

    load: str
    table: str
    columns: tuple[int, ...]
    schema: Schema
    is_full: bool
    """Whether a key with some NULLs violates it (MATCH FULL); a key of NULLs never does."""
    target: str
    target_columns: tuple[int, ...]
    target_load: str | None
    home_position: int | None
    """Position in the key of the target's home column; None if the key does not contain it."""


class MemberConstraints(MemberShards):
    """Constraint checks of a member."""

    _hashed_keys: dict[tuple[str, tuple[int, ...]], tuple[Table, int]]
    """For keys distributed by a hash: those at this member, and the row up to which local keys were sent."""

    def audit(
        self, load: str, name: str, schema: Schema, checks: Mfp | None, local: list[Unique],
        spread: list[Unique],
    ) -> list[ViolationCandidates]:  # fmt: skip
        """Check staged rows against all constraints; return candidates for each, CHECKs first.

        Equal keys of ``local`` constraints have the same owner; those of ``spread`` ones need not.
        """
        self.worker_group.begin_step(is_done=not spread)
        staged = self._get_load(load)
        violations = self._check_violations(staged, checks)
        suspects = [
            self._make_candidates(staged, name, schema, positions, positions) for positions in violations
        ]
        for unique in local:
            keys = self._key_index(name, unique)
            staged.keys.append(keys)
            repeats, existing = keys.find_duplicates(self._staged_columns(staged, unique.columns))
            both = np.unique(np.concatenate((repeats, existing)))
            suspects.append(self._make_candidates(staged, name, schema, both, existing))
        if spread:
            suspects += self._check_distributed_keys(staged, name, schema, spread)
        return suspects

    def dangling(self, reference: ForeignKeyCheck, target_keys: Words | None) -> ViolationCandidates:
        """Return staged rows whose key no row of the target has.

        ``target_keys`` are the target's keys if the coordinator has them; None if members do.
        """
        group = self.worker_group
        group.begin_step(is_done=target_keys is not None)
        staged = self._get_load(reference.load)
        keys = self._staged_columns(staged, reference.columns)
        positions = (
            np.flatnonzero((keys != NULL).any(axis=0))
            if reference.is_full
            else checked_positions(keys, skips_nulls=True)
        )
        keys = np.ascontiguousarray(keys[:, positions])
        if target_keys is not None:
            text_positions = self._text_positions(reference.table, reference.columns)
            is_dangling = ~contains_keys(self._decode_words(target_keys, text_positions), keys)
        else:
            missing = self._missing_keys(reference, keys)
            is_dangling = contains_keys(missing, keys)
        schema, positions = reference.schema, positions[is_dangling]
        return self._make_candidates(staged, reference.table, schema, positions, positions)

    def forget_keys(self, name: str) -> None:
        """Forget the distributed keys of a table after an aborted check, so that they are sent again."""
        for book in [book for book in self._hashed_keys if book[0] == name]:
            del self._hashed_keys[book]

    def drop_table(self, name: str) -> None:
        """Drop a table."""
        self.forget_keys(name)
        super().drop_table(name)

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table."""
        super().rename_table(old, new)
        for book in [book for book in self._hashed_keys if book[0] == old]:
            self._hashed_keys[new, book[1]] = self._hashed_keys.pop(book)

    # Local checks

    def _key_index(self, name: str, unique: Unique) -> LoadKeyIndex:
        """Return the index of a table's local rows by a unique key."""
        indexes = self._keys.setdefault(name, [])
        for keys in indexes:
            if keys.columns == unique.columns:
                return keys
        indexes.append(LoadKeyIndex(self.tables[name], unique.columns, nulls_distinct=unique.nulls_distinct))
        return indexes[-1]

    def _staged_columns(self, load: Load, columns: Sequence[int]) -> Words:
        parts = [np.empty((len(columns), 0), np.int64)]
        return np.concatenate(parts + [one[list(columns)] for one in self._staged_parts(load)], axis=1)

    def _check_violations(self, load: Load, checks: Mfp | None) -> list[Words]:
        """Return the positions of staged rows that fail each CHECK."""
        if checks is None:
            return []
        violations: list[list[Words]] = [[NO_ROWIDS] for _ in checks.outputs]
        start = 0
        for words in self._staged_parts(load):
            results, _ = self.evaluate(checks, words)
            for bad, result in zip(violations, results, strict=True):
                bad.append(start + np.flatnonzero((result == 0) | (result == ERROR)))
            start += words.shape[1]
        return [np.concatenate(bad) for bad in violations]

    def _make_candidates(
        self, load: Load, name: str, schema: Schema, positions: Words, certain: Words
    ) -> ViolationCandidates:
        """Return the first of the rows at these positions, in the order of a single worker's checks."""
        if not positions.shape[0]:
            empty = np.empty((len(schema.columns), 0), np.int64)
            return ViolationCandidates(empty, empty, np.zeros(0, np.bool_))
        rows = np.ascontiguousarray(self._staged_columns(load, range(len(schema.columns)))[:, positions])
        key = list(schema.primary_key)
        is_sorted_by_key = bool(key) and all(schema.types[place].kind in WORD_ORDER_KINDS for place in key)
        order = rows[key] if is_sorted_by_key else positions.reshape(1, -1)
        first = np.lexsort(order[::-1])[:MAX_CANDIDATES]
        rows, order, positions = rows[:, first], order[:, first], positions[first]
        return ViolationCandidates(self._encode_rows(name, rows), order, np.isin(positions, certain))

    def _check_distributed_keys(
        self, load: Load, name: str, schema: Schema, spread: list[Unique]
    ) -> list[ViolationCandidates]:
        """Return candidates for unique constraints whose equal keys may have several owners."""
        group = self.worker_group
        staged_keys = [self._staged_columns(load, unique.columns) for unique in spread]
        parcels: list[tuple[int, Words]] = []
        for number, (unique, keys) in enumerate(zip(spread, staged_keys, strict=True)):
            _, sent = self._hashed_key_table(name, schema, unique)
            table = self.tables[name]
            rowids = table.groups.live(sent, table.count) if sent < table.count else NO_ROWIDS
            unsent_keys = table.read(rowids, unique.columns)
            for position, keys_to_send in ((2 * number, keys), (2 * number + 1, unsent_keys)):
                parcels.append(
                    (
                        position,
                        keys_to_send[:, checked_positions(keys_to_send, skips_nulls=unique.nulls_distinct)],
                    )
                )
        types = [unique.columns for unique in spread for _ in range(2)]
        received = self._exchange_by_owner(name, parcels, types, [0] * len(types))
        violations: list[tuple[int, Words]] = []
        for number, unique in enumerate(spread):
            table_of_keys, _ = self._hashed_key_table(name, schema, unique)
            keys, unsent_keys = received[2 * number], received[2 * number + 1]
            columns = tuple(range(len(unique.columns)))
            table_of_keys.insert(unsent_keys[:, table_of_keys.find_unique(columns, unsent_keys) < 0])
            self._hashed_keys[name, unique.columns] = table_of_keys, self.tables[name].count
            is_existing = table_of_keys.find_unique(columns, keys) >= 0
            violations += [
                (2 * number, keys[:, repeated_positions(keys)]),
                (2 * number + 1, keys[:, is_existing]),
            ]
        reported = self._broadcast(name, violations, types)
        group.is_done = True
        suspects = []
        for number, keys in enumerate(staged_keys):
            repeats, existing = (
                np.flatnonzero(contains_keys(reported[2 * number + i], keys)) for i in (0, 1)
            )
            both = np.unique(np.concatenate((repeats, existing)))
            suspects.append(self._make_candidates(load, name, schema, both, existing))
        return suspects

    def _hashed_key_table(self, name: str, schema: Schema, unique: Unique) -> tuple[Table, int]:
        """Return the table of distributed keys at this member, and the row to which local keys were sent."""
        entry = self._hashed_keys.get((name, unique.columns))
        if entry is None:
            columns = [
                ColumnDef(f"c{i}", schema.types[place], True) for i, place in enumerate(unique.columns)
            ]
            table = Table(name, Schema(tuple(columns)), self.dictionary)
            table.add_unique("", tuple(range(len(columns))), nulls_distinct=False)
            entry = self._hashed_keys[name, unique.columns] = table, 0
        return entry

    def _missing_keys(self, reference: ForeignKeyCheck, keys: Words) -> Words:
        """Return, of the keys of all members, those that no row of the target has."""
        target, columns = reference.target, reference.target_columns
        changes = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        distinct_keys = keys[:, np.concatenate((np.ones(min(keys.shape[1], 1), np.bool_), changes))]
        parcels, types, owner_columns = [(0, distinct_keys)], [columns], [reference.home_position or 0]
        table = self.tables[target]
        load = None if reference.target_load is None else self._get_load(reference.target_load)
        staged_keys = (
            np.empty((len(columns), 0), np.int64) if load is None else self._staged_columns(load, columns)
        )
        staged_keys = np.ascontiguousarray(staged_keys[:, checked_positions(staged_keys, skips_nulls=True)])
        if reference.home_position is None:
            existing_keys = table.read(table.live(), columns)
            existing_keys = existing_keys[:, checked_positions(existing_keys, skips_nulls=True)]
            parcels.append((1, np.concatenate((existing_keys, staged_keys), axis=1)))
            types, owner_columns = [columns, columns], [0, 0]
        received = self._exchange_by_owner(target, parcels, types, owner_columns)
        target_keys = staged_keys if reference.home_position is not None else received[1]
        is_found = contains_keys(target_keys, received[0])
        if reference.home_position is not None and table.rows:
            is_found |= self._key_index(target, Unique(columns, nulls_distinct=True)).find(received[0]) >= 0
        missing = self._broadcast(target, [(0, received[0][:, ~is_found])], types)[0]
        self.worker_group.is_done = True
        return missing

    # Exchanges of keys

    def _exchange_by_owner(
        self,
        name: str,
        parcels: list[tuple[int, Words]],
        columns: Sequence[Sequence[int]],
        owner_columns: Sequence[int],
    ) -> list[Words]:
        """Send keys to the owners of one of their columns; return the received keys by position."""
        group = self.worker_group
        out: list[list[Parcel]] = [[] for _ in range(group.count)]
        own: list[list[Words]] = []
        for (position, keys), places, column in zip(parcels, columns, owner_columns, strict=True):
            text_positions = self._text_positions(name, places)
            owners = group.owners.positions_by_worker(keys[column], interned=column in text_positions)
            own.append([np.ascontiguousarray(keys[:, owners[group.index]])])
            for worker, some in enumerate(owners):
                if worker != group.index:
                    out[worker].append(self._make_parcel(position, keys[:, some], text_positions))
        return self._exchange_keys(out, own)

    def _broadcast(
        self, name: str, parcels: list[tuple[int, Words]], columns: Sequence[Sequence[int]]
    ) -> list[Words]:
        """Send keys to all members; return all members' keys by position, each key once."""
        group = self.worker_group
        out: list[list[Parcel]] = [[] for _ in range(group.count)]
        for worker in range(group.count):
            if worker != group.index:
                out[worker] = [
                    self._make_parcel(position, keys, self._text_positions(name, places))
                    for (position, keys), places in zip(parcels, columns, strict=False)
                ]
        received = self._exchange_keys(out, [[keys] for _, keys in parcels])
        return [np.unique(keys, axis=1) if keys.shape[1] else keys for keys in received]

    def _exchange_keys(self, out: list[list[Parcel]], own: list[list[Words]]) -> list[Words]:
        for position, updates, _ in self.worker_group.exchange_parcels(out):
            own[position].append(updates.data)
        return [np.ascontiguousarray(np.concatenate(each, axis=1)) for each in own]

    def _make_parcel(self, position: int, keys: Words, text_positions: tuple[int, ...]) -> Parcel:
        data = np.array(keys, np.int64, order="C")
        for column in text_positions:
            data[column] = self.worker_group.strings.encode(data[column])
        return Parcel(position, Updates(data, np.zeros((1, 1), np.int64), ONE), text_positions)

    def _text_positions(self, name: str, columns: Sequence[int]) -> tuple[int, ...]:
        """Return the positions, among columns of a table, of those whose words differ between members."""
        types = self.tables[name].schema.types
        return self.worker_group.text_columns(tuple(types[place] for place in columns))


class MemberRanks(MemberConstraints):
    """Ranks of rows at a member."""

    _text_columns: dict[str, tuple[int, ...]]
    """For each installation the columns whose words differ between members."""

    def rank_width(self, name: str) -> tuple[int, int] | None:
        """Return the width of a recursive set's rows and their number here; None for other installations."""
        lookup = self.views[name].ranks()
        return None if lookup is None else (lookup.width, len(lookup))

    def ranks_of(self, name: str, rows: Words, include_deleted: bool) -> Words:
        """Return the ranks of the coordinator's rows that are at this member, -1 for others."""
        own = rows.copy()
        for column in self._text_columns[name]:
            own[column] = self.worker_group.strings.decode_from_coordinator(own[column])
        return self._lookup(name).ranks_of(own, include_deleted=include_deleted)

    def ranked(self, name: str, include_deleted: bool) -> tuple[Words, Words]:
        """Return all rows at this member, and their ranks."""
        rows, ranks = self._lookup(name).all_ranks(include_deleted=include_deleted)
        return self._encode_rows_of(name, rows), ranks

    def first_rounds(self, name: str) -> tuple[Words, Words] | None:
        """Return ``Installation.first_rounds`` for the rows at this member."""
        found = self.views[name].first_rounds()
        return None if found is None else (self._encode_rows_of(name, found[0]), found[1])

    def _lookup(self, name: str) -> RankLookup:
        lookup = self.views[name].ranks()
        if lookup is None:
            raise InternalError(f"{name} is no recursive set")
        return lookup

    def _encode_rows_of(self, name: str, rows: Words) -> Words:
        """Translate local words of an installation's rows to common words."""
        return self._encode_updates(
            Updates(rows, np.zeros((1, 1), np.int64), ONE), self._text_columns[name]
        ).data

    def _encode_updates(self, updates: Updates, text_columns: tuple[int, ...]) -> Updates:
        if not text_columns:
            return updates
        data = updates.data.copy()
        for column in text_columns:
            data[column] = self.worker_group.strings.encode_for_coordinator(data[column])
        return updates.with_data(data)
