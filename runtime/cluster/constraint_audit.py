"""Constraint checks that need the rows of several members.

Checks of a load that bypasses the coordinator: the members check all constraints together. Rows with equal
keys have one owner if the key contains the home column. Other keys are sent to a member by a hash of their
first column; foreign keys are sent to the owner of the row that they reference. The violations are sent to
all members, and each finds its own rows among them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.table_shards import (
    NO_ROWIDS,
    Load,
    LoadKeys,
    MemberLoads,
    checked_positions,
    contains_keys,
    repeated_positions,
)
from kpg.runtime.convert.arrow import WORD_ORDER_KINDS
from kpg.runtime.handles import Unique
from kpg.runtime.operators.worker_group import Parcel, WorkerGroup
from kpg.runtime.plan import Mfp
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import ONE, Updates
from kpg.runtime.types import ERROR, NULL, ColumnDef, Schema
from kpg.runtime.worker.base_tables import BaseTables

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


class ConstraintAudit:
    """Constraint checks of a member."""

    def __init__(
        self,
        tables: BaseTables,
        evaluate: Callable[[Mfp, Words], tuple[Words, Words | None]],
        group: WorkerGroup,
        loads: MemberLoads,
        keys: LoadKeys,
    ) -> None:
        self._tables = tables
        self._evaluate = evaluate
        self._group = group
        self._loads = loads
        self._keys = keys
        self._hashed_keys: dict[tuple[str, tuple[int, ...]], tuple[Table, int]] = {}
        """Keys distributed by a hash: those at this member, and the row up to which local keys were sent."""

    def check(
        self, load: str, name: str, schema: Schema, checks: Mfp | None, local: list[Unique],
        spread: list[Unique],
    ) -> list[ViolationCandidates]:  # fmt: skip
        """Check staged rows against all constraints; return candidates for each, CHECKs first.

        Equal keys of ``local`` constraints have the same owner; those of ``spread`` ones need not.
        """
        self._group.begin_step(is_done=not spread)
        staged = self._loads.get(load)
        violations = self._check_violations(staged, checks)
        suspects = [
            self._make_candidates(staged, name, schema, positions, positions) for positions in violations
        ]
        for unique in local:
            keys = self._keys.index(name, unique)
            staged.keys.append(keys)
            repeats, existing = keys.find_duplicates(self._staged_columns(staged, unique.columns))
            both = np.unique(np.concatenate((repeats, existing)))
            suspects.append(self._make_candidates(staged, name, schema, both, existing))
        if spread:
            suspects += self._check_distributed_keys(staged, name, schema, spread)
        return suspects

    def find_dangling(self, reference: ForeignKeyCheck, target_keys: Words | None) -> ViolationCandidates:
        """Return staged rows whose key no row of the target has.

        ``target_keys`` are the target's keys if the coordinator has them; None if members do.
        """
        group = self._group
        group.begin_step(is_done=target_keys is not None)
        staged = self._loads.get(reference.load)
        keys = self._staged_columns(staged, reference.columns)
        positions = (
            np.flatnonzero((keys != NULL).any(axis=0))
            if reference.is_full
            else checked_positions(keys, skips_nulls=True)
        )
        keys = np.ascontiguousarray(keys[:, positions])
        if target_keys is not None:
            text_positions = self._text_positions(reference.table, reference.columns)
            is_dangling = ~contains_keys(self._group.strings.decode_rows(target_keys, text_positions), keys)
        else:
            missing = self._missing_keys(reference, keys)
            is_dangling = contains_keys(missing, keys)
        schema, positions = reference.schema, positions[is_dangling]
        return self._make_candidates(staged, reference.table, schema, positions, positions)

    def forget_keys(self, name: str) -> None:
        """Forget the distributed keys of a table after an aborted check, so that they are sent again."""
        for book in [book for book in self._hashed_keys if book[0] == name]:
            del self._hashed_keys[book]

    def rename(self, old: str, new: str) -> None:
        """Rename a table."""
        for book in [book for book in self._hashed_keys if book[0] == old]:
            self._hashed_keys[new, book[1]] = self._hashed_keys.pop(book)

    # Local checks

    def _staged_columns(self, load: Load, columns: Sequence[int]) -> Words:
        parts = [np.empty((len(columns), 0), np.int64)]
        return np.concatenate(parts + [one[list(columns)] for one in self._loads.parts(load)], axis=1)

    def _check_violations(self, load: Load, checks: Mfp | None) -> list[Words]:
        """Return the positions of staged rows that fail each CHECK."""
        if checks is None:
            return []
        violations: list[list[Words]] = [[NO_ROWIDS] for _ in checks.outputs]
        start = 0
        for words in self._loads.parts(load):
            results, _ = self._evaluate(checks, words)
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
        return ViolationCandidates(self._loads.encode_rows(name, rows), order, np.isin(positions, certain))

    def _check_distributed_keys(
        self, load: Load, name: str, schema: Schema, spread: list[Unique]
    ) -> list[ViolationCandidates]:
        """Return candidates for unique constraints whose equal keys may have several owners."""
        group = self._group
        staged_keys = [self._staged_columns(load, unique.columns) for unique in spread]
        parcels: list[tuple[int, Words]] = []
        for number, (unique, keys) in enumerate(zip(spread, staged_keys, strict=True)):
            _, sent = self._hashed_key_table(name, schema, unique)
            table = self._tables.by_name[name]
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
            self._hashed_keys[name, unique.columns] = table_of_keys, self._tables.by_name[name].count
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
            table = Table(name, Schema(tuple(columns)), self._tables.dictionary)
            table.add_unique("", tuple(range(len(columns))), nulls_distinct=False)
            entry = self._hashed_keys[name, unique.columns] = table, 0
        return entry

    def _missing_keys(self, reference: ForeignKeyCheck, keys: Words) -> Words:
        """Return, of the keys of all members, those that no row of the target has."""
        target, columns = reference.target, reference.target_columns
        changes = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        distinct_keys = keys[:, np.concatenate((np.ones(min(keys.shape[1], 1), np.bool_), changes))]
        parcels, types, owner_columns = [(0, distinct_keys)], [columns], [reference.home_position or 0]
        table = self._tables.by_name[target]
        load = None if reference.target_load is None else self._loads.get(reference.target_load)
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
            is_found |= self._keys.index(target, Unique(columns, nulls_distinct=True)).find(received[0]) >= 0
        missing = self._broadcast(target, [(0, received[0][:, ~is_found])], types)[0]
        self._group.is_done = True
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
        group = self._group
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
        group = self._group
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
        for position, updates, _ in self._group.exchange_parcels(out):
            own[position].append(updates.data)
        return [np.ascontiguousarray(np.concatenate(each, axis=1)) for each in own]

    def _make_parcel(self, position: int, keys: Words, text_positions: tuple[int, ...]) -> Parcel:
        data = np.array(keys, np.int64, order="C")
        for column in text_positions:
            data[column] = self._group.strings.encode(data[column])
        return Parcel(position, Updates(data, np.zeros((1, 1), np.int64), ONE), text_positions)

    def _text_positions(self, name: str, columns: Sequence[int]) -> tuple[int, ...]:
        """Return the positions, among columns of a table, of those whose words differ between members."""
        types = self._tables.by_name[name].schema.types
        return self._group.text_columns(tuple(types[place] for place in columns))
