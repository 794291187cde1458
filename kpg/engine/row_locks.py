"""Locks of rows and tables: by LOCK TABLE, SELECT ... FOR UPDATE, and what open transactions have changed.

A row is known by its rowid: who waits for one that somebody else has changed finds, when done again, the
row that took its place. What a transaction has changed is locked when it is taken out of the tables, since
nobody else is asked before; so that costs nothing where there is one session. The rows that it has inserted
are nobody else's to find.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import TableEntry
from kpg.engine.lock_modes import CHANGED, CLOSED, KEY_SHARE, NO_KEY_UPDATE, ROW_EXCLUSIVE, STRONG, UPDATE
from kpg.engine.locks import Hold, Key, Locks, NoLockError, Own, Wish

if TYPE_CHECKING:
    from kpg.engine.kept import Kept
    from kpg.engine.transaction import Transactions

Words = NDArray[np.int64]
FEW: Final = 1_000
"""So many rows of a table that a transaction has changed are locked one by one; of more the array is kept."""


class Part(Protocol):
    """What a transaction has changed in one table."""

    @property
    def table(self) -> str: ...
    @property
    def deleted(self) -> Words: ...
    @property
    def inserted(self) -> Words: ...
    @property
    def words(self) -> Words: ...


class Many(NamedTuple):
    """Rows that are locked together, in order of their rowids."""

    rowids: Words
    hold: Hold


class RowLocks(Locks):
    """All locks of one database."""

    def __init__(self, engine: "Kept") -> None:
        super().__init__()
        self._engine = engine
        self._rows: dict[str, dict[int, None]] = {}
        """The rows of each table that are locked one by one."""
        self._many: dict[str, dict[int, list[Many]]] = {}
        self._strong: dict[Key, int] = {}
        """The tables that are locked, or waited for, in strong modes, and how often."""
        self._changes: dict[int, Sequence[Sequence[Part]]] = {}
        """What open transactions have changed, as far as others may have seen that it is locked."""

    # What is held

    def _add(self, number: int, key: Key, one: Hold) -> None:
        super()._add(number, key, one)
        table, *rowid = key
        if isinstance(table, str) and rowid:
            self._rows.setdefault(table, {})[int(rowid[0])] = None
            self._watch()
        else:
            self._count(key, one[0], 1)

    def _count(self, key: Key, mode: str, more: int) -> None:
        """Who changes a table asks first while it is locked in a strong mode, or somebody waits for that."""
        if mode not in STRONG or not isinstance(key[0], str) or len(key) > 1:
            return
        count = self._strong.get(key, 0) + more
        if count:
            self._strong[key] = count
        else:
            del self._strong[key]
        self._watch()

    def _queue(self, number: int, wish: Wish) -> None:
        super()._queue(number, wish)
        self._count(wish.key, wish.mode, 1)

    def _leave(self, number: int) -> None:
        wish = self._wishes.get(number)
        if wish is not None:
            self._count(wish.key, wish.mode, -1)
        super()._leave(number)

    def _remove(self, number: int, key: Key, one: Hold) -> None:
        super()._remove(number, key, one)
        table, *rowid = key
        if isinstance(table, str) and rowid:
            if key not in self._held:
                rows = self._rows[table]
                del rows[int(rowid[0])]
                if not rows:
                    del self._rows[table]
        else:
            self._count(key, one[0], -1)
        self._watch()

    def _watch(self) -> None:
        """Be asked before changes while there is something to be asked for."""
        held = bool(self._rows or self._many or self._strong)
        if held != bool(self._engine.watching):
            self._engine.watching[:] = [self.changing] if held else []

    def _holders(self, key: Key) -> Mapping[int, Sequence[Hold]]:
        held = super()._holders(key)
        many = self._many.get(str(key[0])) if self._many and len(key) > 1 else None
        if not many:
            return held
        found = {number: list(holds) for number, holds in held.items()}
        for number, sets in many.items():
            for one in sets:
                if _has(one.rowids, int(key[1])):
                    found.setdefault(number, []).append(one.hold)
        return found

    def blockers(self, number: int, wish: Wish) -> set[int]:
        """As in Postgres, who can share a row with those who have it goes before who waits for it."""
        if len(wish.key) > 1 and isinstance(wish.key[0], str):
            holders = self._holders(wish.key).items()
            others = ((one, mode) for one, holds in holders if one != number for mode, _ in holds)
            if not any(self._excludes(one, mode, wish) for one, mode in others):
                return set()
        return super().blockers(number, wish)

    def _excludes(self, holder: int, mode: str, wish: Wish) -> bool:
        if mode == CHANGED and wish.mode == KEY_SHARE:
            return not self._keeps_keys(holder, str(wish.key[0]), int(wish.key[1]))
        return super()._excludes(holder, mode, wish)

    def _keeps_keys(self, number: int, table: str, rowid: int) -> bool:
        """Whether a row that a transaction has changed has the keys still that it had."""
        keys = self._keys_of(table)
        old = self._engine.executor.fetch(table, np.array([rowid], np.int64))[keys]
        for part in (
            part for parts in self._changes.get(number, ()) for part in parts if part.table == table
        ):
            if rowid in part.deleted:
                same = np.flatnonzero((part.words[keys] == old).all(axis=0))
                if not same.size:
                    return False
                rowid = int(part.inserted[same[0]])
        return True

    def _keys_of(self, table: str) -> list[int]:
        """The columns that rows of a table are told apart by."""
        entry = self._engine.catalog.entries[table.lower()]
        assert isinstance(entry, TableEntry)
        names = [name.lower() for name in entry.schema.names]
        keys = {*entry.schema.primary_key}
        keys.update(names.index(one.lower()) for key in entry.constraints.uniques for one in key.columns)
        return sorted(keys)

    def end(self, number: int, least: int = 0) -> None:
        """See Locks."""
        super().end(number, least)
        if least <= 0:
            self._changes.pop(number, None)
        for table in [table for table, holders in self._many.items() if number in holders]:
            holders = self._many[table]
            holders[number] = [one for one in holders[number] if one.hold[1] < least]
            if not holders[number]:
                del holders[number]
            if not holders:
                del self._many[table]
            for key in [key for key in self._queues if key[0] == table]:
                self._tell(key)
        self._watch()

    def release(self, number: int, place: int) -> None:
        """See Locks."""
        super().release(number, place)
        for holders in self._many.values():
            if number in holders:
                kept = holders[number]
                holders[number] = [Many(one.rowids, (one.hold[0], min(one.hold[1], place))) for one in kept]

    # What transactions have changed

    def parked(self, number: int, segments: Sequence[Sequence[Part]]) -> bool:
        """Lock what a transaction has changed, which no table has now; parts by savepoints, oldest first."""
        if number in self._changes or any(segments):
            self._changes[number] = segments
        own: dict[str, list[Words]] = {}
        for depth, parts in enumerate(segments):
            for part in parts:
                self._once(number, (part.table,), (ROW_EXCLUSIVE, depth))
                gone = part.deleted
                for inserted in own.get(part.table, ()):
                    gone = gone[~np.isin(gone, inserted)]
                if gone.size > FEW:
                    self._add_many(number, part.table, np.sort(gone), (CHANGED, depth))
                else:
                    for rowid in gone.tolist():
                        self._once(number, (part.table, rowid), (CHANGED, depth))
            for part in parts:
                own.setdefault(part.table, []).append(part.inserted)
        return number in self._keys

    def _once(self, number: int, key: Key, one: Hold) -> None:
        if one not in self._held.get(key, {}).get(number, ()):
            self._add(number, key, one)

    def _add_many(self, number: int, table: str, rowids: Words, hold: Hold) -> None:
        """They may be other ones than they were: what was locked before, and is not among them, stays so."""
        sets = self._many.setdefault(table, {}).setdefault(number, [])
        before = next((one for one in sets if one.hold == hold), None)
        if before is not None:
            sets.remove(before)
            rowids = np.union1d(before.rowids, rowids)
        sets.append(Many(rowids, hold))
        self._watch()

    # Who is about to change something

    def changing(self, table: str, rowids: Words | None, words: Words | None) -> None:
        """Have the present statement wait if others have what it is about to change."""
        engine = self._engine
        if self._strong:
            wish = Wish((table,), ROW_EXCLUSIVE)
            if self.blocked(wish):
                self._check_suspends(wish, table)
                self.wait_for(engine, wish)
        if rowids is None:
            return
        locked = self.locked(table, rowids)
        for rowid in locked:
            wish = Wish((table, rowid), UPDATE if words is None else self._mode(table, rowid, rowids, words))
            if self.blocked(wish):
                self._check_suspends(wish, table)
                self.hold(Wish((table,), ROW_EXCLUSIVE))
                before = rowids[rowids < rowid]
                for other in before.tolist() if before.size <= FEW else ():
                    self.hold(Wish((table, other), wish.mode))
                self.wait_for(engine, wish)

    def _check_suspends(self, wish: Wish, table: str) -> None:
        """An error where nobody waits: then nothing is held, either, for which nobody would let go of it."""
        if not self.suspends:
            raise refusal(table, row=len(wish.key) > 1, hint="wait in a session")

    def locked(self, table: str, rowids: Words) -> list[int]:
        """Those of the rows that anybody has locked, in their order."""
        found: set[int] = set()
        rows = self._rows.get(table)
        if rows and rowids.size <= len(rows):
            found.update(rowid for rowid in rowids.tolist() if rowid in rows)
        elif rows:
            here = np.fromiter(rows, np.int64, len(rows))
            found.update(here[np.isin(here, rowids)].tolist())
        for sets in self._many.get(table, {}).values():
            for one in sets:
                found.update(rowids[np.isin(rowids, one.rowids)].tolist())
        return sorted(found)

    def _mode(self, table: str, rowid: int, rowids: Words, words: Words) -> str:
        """As what a row is locked that is to become another: KEY SHARE does not mind if its keys stay."""
        columns = self._keys_of(table)
        old = self._engine.executor.fetch(table, np.array([rowid], np.int64))[columns]
        new = words[columns][:, rowids == rowid]
        return NO_KEY_UPDATE if (old == new).all() else UPDATE

    # Who locks something

    def blocked(self, wish: Wish) -> bool:
        """Whether others keep who asks from having a lock now."""
        return bool(self.blockers(self._engine.catalog.asker.number, wish))

    def hold(self, wish: Wish) -> None:
        """Let who asks have a lock, which nobody keeps it from, until its transaction ends."""
        engine = self._engine
        transactions, number = engine.transactions, engine.catalog.asker.number
        if transactions.idle and not self.suspends:
            return
        if number in self._wishes and self._wishes[number].key == wish.key:
            self._leave(number)
        self._once(number, wish.key, (wish.mode, transactions.depth))
        transactions.locks = Own(self, number)

    def handed(self, number: int, wish: Wish, transactions: "Transactions") -> bool:
        """Let a session have the row that it waited for; False if others still have it."""
        if len(wish.key) < 2 or not isinstance(wish.key[0], str):
            return True
        if self.blockers(number, wish):
            return False
        self._leave(number)
        self._once(number, wish.key, (wish.mode, transactions.depth))
        transactions.locks = Own(self, number)
        return True

    def hold_rows(self, table: str, rowids: Words, mode: str) -> None:
        """As :meth:`hold`, of rows of a table, in order of their rowids."""
        engine = self._engine
        transactions, number = engine.transactions, engine.catalog.asker.number
        if transactions.idle and not self.suspends:
            return
        if rowids.size > FEW:
            self._add_many(number, table, rowids, (mode, transactions.depth))
            transactions.locks = Own(self, number)
        else:
            for rowid in rowids.tolist():
                self.hold(Wish((table, rowid), mode))

    def closed_to(self, table: str, mode: str) -> bool:
        """Whether LOCK TABLE keeps who asks from a table in a mode."""
        return bool(self._strong) and self.blocked(Wish((table,), mode))

    def others(self, number: int) -> list[str]:
        """The tables that sessions other than one have locked, or rows of them."""
        keys = (key for one, keys in self._keys.items() if one != number for key in keys)
        return sorted({key[0] for key in keys if isinstance(key[0], str)})

    @property
    def strong(self) -> frozenset[Key]:
        """The tables that LOCK TABLE keeps others from."""
        return frozenset(self._strong)

    @property
    def closed(self) -> bool:
        """Whether there are tables that LOCK TABLE keeps readers from."""
        return any(
            mode == CLOSED
            for key in self._strong
            for holds in self._held.get(key, {}).values()
            for mode, _ in holds
        )

    def busy(self, tables: Sequence[str]) -> int:
        """How many rows of tables are locked at most."""
        one_by_one = sum(len(self._rows.get(table, ())) for table in tables)
        many = (self._many.get(table, {}).values() for table in tables)
        return one_by_one + sum(one.rowids.size for holders in many for sets in holders for one in sets)


def refusal(table: str, *, row: bool, hint: str | None = None) -> NoLockError:
    """The error of what cannot be had at once."""
    name = table.rpartition(".")[2]
    what = f'row in relation "{name}"' if row else f'relation "{name}"'
    return NoLockError(f"could not obtain lock on {what}", hint=hint)


def _has(rowids: Words, rowid: int) -> bool:
    place = int(np.searchsorted(rowids, rowid))
    return place < rowids.size and int(rowids[place]) == rowid
