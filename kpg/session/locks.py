"""Lock manager: advisory locks, table locks and row locks, in Postgres' modes.

A lock is held by a session until it is released or its transaction ends. The manager never blocks: a lock
that is not available raises ``Waiting``. The caller undoes the statement and runs it again after a release.
A queue per lock gives the waiting sessions their turns.

A row lock is on a rowid. After a wait the statement runs again, and finds the row's new version. The rows
that a transaction changed are locked only when the transaction is swapped out of the tables, since no other
session can ask before. With a single session they therefore cost nothing. Inserted rows need no lock, since
no other session sees them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.runtime.errors import OperationalError, Waiting
from kpg.runtime.executor import Executor
from kpg.session.tables import Tables
from kpg.session.transaction import Transactions

SHARED: Final = "ShareLock"
EXCLUSIVE: Final = "ExclusiveLock"
"""Those of advisory locks, and of tables, too."""
ROW_SHARE: Final = "RowShareLock"
ROW_EXCLUSIVE: Final = "RowExclusiveLock"
"""What a table is held in by who has locked, or changed, rows of it."""
ACCESS_SHARE: Final = "AccessShareLock"
CLOSED: Final = "AccessExclusiveLock"
"""The mode that keeps readers out."""
TABLE_MODES: Final = (
    ACCESS_SHARE,
    ROW_SHARE,
    ROW_EXCLUSIVE,
    "ShareUpdateExclusiveLock",
    SHARED,
    "ShareRowExclusiveLock",
    EXCLUSIVE,
    CLOSED,
)
"""From the weakest on."""
KEY_SHARE: Final = "FOR KEY SHARE"
SHARE: Final = "FOR SHARE"
NO_KEY_UPDATE: Final = "FOR NO KEY UPDATE"
UPDATE: Final = "FOR UPDATE"
"""The modes of rows, which are no modes of tables: SQL's words for them."""
ROW_MODES: Final = (KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE)
CHANGED: Final = "changed"
"""Of rows that an open transaction has changed: NO KEY UPDATE if they keep their keys, else UPDATE."""
SHOWN: Final = {
    CHANGED: CLOSED,
    KEY_SHARE: ACCESS_SHARE,
    SHARE: ROW_SHARE,
    NO_KEY_UPDATE: EXCLUSIVE,
    UPDATE: CLOSED,
}
"""As which modes of rows are listed."""
CONFLICTS: Final[dict[str, frozenset[str]]] = {
    ACCESS_SHARE: frozenset(TABLE_MODES[7:]),
    ROW_SHARE: frozenset(TABLE_MODES[6:]),
    ROW_EXCLUSIVE: frozenset(TABLE_MODES[4:]),
    TABLE_MODES[3]: frozenset(TABLE_MODES[3:]),
    SHARED: frozenset((ROW_EXCLUSIVE, TABLE_MODES[3], *TABLE_MODES[5:])),
    TABLE_MODES[5]: frozenset(TABLE_MODES[2:]),
    EXCLUSIVE: frozenset(TABLE_MODES[1:]),
    CLOSED: frozenset(TABLE_MODES),
    KEY_SHARE: frozenset((CHANGED, *ROW_MODES[3:])),
    SHARE: frozenset((CHANGED, *ROW_MODES[2:])),
    NO_KEY_UPDATE: frozenset((CHANGED, *ROW_MODES[1:])),
    UPDATE: frozenset((CHANGED, *ROW_MODES)),
}
"""The modes in which nobody else may have what one has in a mode."""
STRONG: Final = frozenset(TABLE_MODES[3:])
"""The modes of tables that only LOCK TABLE and definitions take."""


Key = tuple[int | str, ...]
"""One number of 64 bits, or two of 32; the name of a table; the name of a table and a rowid."""
FOREVER: Final = -1
"""In place of the number of savepoints for what outlives the transaction."""
Hold = tuple[str, int]
"""A mode, and how many savepoints there were, or FOREVER."""


class Wish(NamedTuple):
    """What a statement waits for."""

    key: Key
    mode: str


class Waits(NamedTuple):
    """One session of a circle: what it waits for, and the session that keeps it from that."""

    number: int
    wish: Wish
    blocker: int

    def __str__(self) -> str:
        mode = SHOWN.get(self.wish.mode, self.wish.mode)
        what = f"Process {self.number} waits for {mode} on {_named(self.wish.key)}"
        return f"{what}; blocked by process {self.blocker}."


class DeadlockError(OperationalError):
    """Sessions wait for each other: ``circle`` says which, and for what."""

    sqlstate = "40P01"

    def __init__(self, circle: Sequence[Waits]) -> None:
        super().__init__("deadlock detected", hint="see the server log for query details")
        self.circle = circle
        self.detail = "\n".join(map(str, circle))


class NoLockError(OperationalError):
    """A lock cannot be had, or not in time."""

    sqlstate = "55P03"


class LockHost(Protocol):
    """The members of the engine that locks use."""

    @property
    def catalog(self) -> Catalog:
        """Names the tables, and the session that runs the statement."""

    @property
    def executor(self) -> Executor:
        """Has the rows."""

    @property
    def transactions(self) -> Transactions:
        """The open transaction."""

    @property
    def tables(self) -> Tables:
        """Tell before rows of a table change."""


class Locks:
    """The locks of one database. Sessions are known by their numbers."""

    def __init__(self) -> None:
        self._held: dict[Key, dict[int, list[Hold]]] = {}
        self._keys: dict[int, dict[Key, None]] = {}
        """What each session holds."""
        self._queues: dict[Key, list[tuple[int, str]]] = {}
        self._wishes: dict[int, Wish] = {}
        self.suspends = False
        """Whether who runs the present statement can undo it, and run it again."""
        self.naps = self.napped = 0
        """How often the statement has slept before, and how many of these times have come up again."""
        self._journal: list[tuple[int, Key, Hold, bool]] = []
        """What the present statement has taken (True) and let go."""
        self.freed: Callable[[int], object] = lambda number: None
        """Told of each session that may have what it waits for now."""

    # Taking

    def take(self, engine: LockHost, wish: Wish, *, until_end: bool, waits: bool) -> bool:
        """Take a lock for who asks; False if that cannot be now, or, with ``waits``, Waiting or an error."""
        number = engine.catalog.asker.number
        if self.blockers(number, wish):
            if not waits:
                return False
            self.wait_for(engine, wish)
        self._leave(number)
        if until_end and engine.transactions.idle:
            return True  # until the end of the statement, while which nobody else is asked
        depth = engine.transactions.depth if until_end else FOREVER
        self._add(number, wish.key, (wish.mode, depth))
        self._note(number, wish.key, (wish.mode, depth), taken=True)
        if until_end:
            engine.transactions.locks = Own(self, number)
        return True

    def wait_for(self, engine: LockHost, wish: Wish) -> NoReturn:
        """Have the present statement wait for what it cannot have; an error if it cannot wait."""
        self._check_waiting(engine)
        raise Waiting(wish)

    def let_go(self, number: int, wish: Wish) -> bool:
        """Let go of a lock once that was taken for the session; whether it was held."""
        holds = self._held.get(wish.key, {}).get(number, [])
        one = (wish.mode, FOREVER)
        if one not in holds:
            return False
        self._remove(number, wish.key, one)
        self._note(number, wish.key, one, taken=False)
        self._tell(wish.key)
        return True

    def let_all_go(self, number: int) -> None:
        """Let go of all that was taken for the session."""
        for key in list(self._keys.get(number, ())):
            for one in [one for one in self._held[key][number] if one[1] == FOREVER]:
                self._remove(number, key, one)
                self._note(number, key, one, taken=False)
            self._tell(key)

    def end(self, number: int, least: int = 0) -> None:
        """Let go of what a transaction has taken since it had so many savepoints."""
        for key in list(self._keys.get(number, ())):
            gone = [one for one in self._held[key][number] if one[1] >= least]
            for one in gone:
                self._remove(number, key, one)
            if gone:
                self._tell(key)

    def release(self, number: int, place: int) -> None:
        """What a transaction has taken after a savepoint, of that number, is as if it had been before."""
        for key in self._keys.get(number, ()):
            holders = self._held[key]
            holders[number] = [(mode, min(depth, place)) for mode, depth in holders[number]]

    def forget(self, number: int) -> None:
        """A session is over."""
        self._leave(number)
        self.end(number, FOREVER)

    def _add(self, number: int, key: Key, one: Hold) -> None:
        self._held.setdefault(key, {}).setdefault(number, []).append(one)
        self._keys.setdefault(number, {})[key] = None

    def _remove(self, number: int, key: Key, one: Hold) -> None:
        holders = self._held[key]
        holders[number].remove(one)
        if not holders[number]:
            del holders[number]
            del self._keys[number][key]
            if not self._keys[number]:
                del self._keys[number]
        if not holders:
            del self._held[key]

    def _check_waiting(self, engine: LockHost) -> None:
        """An error if the present statement cannot wait."""
        if not self.suspends:
            raise NoLockError("could not obtain lock: a session has it", hint="wait in a session")

    # What a statement has done, which is undone if it has to wait

    def begin(self, engine: LockHost, naps: int) -> None:
        """A statement begins whose work can be done again, after so many naps."""
        self.suspends = True
        self.naps, self.napped = naps, 0

    @property
    def untouched(self) -> bool:
        """Whether the present statement can be undone, and has neither taken a lock nor let one go."""
        return self.suspends and not self._journal

    @property
    def progress(self) -> tuple[int, int]:
        """What is known of the present statement, for :meth:`go_on` with it after another one."""
        return self.naps, self.napped

    def go_on(self, progress: tuple[int, int]) -> None:
        """Go on with a statement whose work can be done again."""
        self.suspends = True
        self.naps, self.napped = progress

    def over(self) -> None:
        """It is over."""
        self.suspends = False
        self._journal.clear()

    def undo(self) -> None:
        """Have locks be as they were before the present statement."""
        for number, key, one, taken in reversed(self._journal):
            if taken and one in self._held.get(key, {}).get(number, []):
                self._remove(number, key, one)
                self._tell(key)
            elif not taken:
                self._add(number, key, one)
        self.over()

    def sleep(self, seconds: float) -> None:
        """Have the present statement wait, unless it has done so."""
        if self.napped == self.naps:
            raise Waiting(None, seconds, naps=True)
        self.napped += 1

    def _note(self, number: int, key: Key, one: Hold, *, taken: bool) -> None:
        if self.suspends:
            self._journal.append((number, key, one, taken))

    # Waiting

    def wait(self, number: int, wish: Wish) -> None:
        """Have a session wait for a lock; DeadlockError if those who have it wait for the session."""
        before = self._wishes.get(number)
        if before != wish:
            self._leave(number)
            self._queue(number, wish)
        circle = self._circle(number)
        if circle:
            self._leave(number)
            raise DeadlockError(circle)

    def _queue(self, number: int, wish: Wish) -> None:
        self._queues.setdefault(wish.key, []).append((number, wish.mode))
        self._wishes[number] = wish

    def _circle(self, number: int) -> list[Waits]:
        """The sessions that wait for each other, from one on; nothing if that is not so."""
        before: dict[int, int] = {}
        """Who waits for each session that has been seen."""
        ahead = [(one, number) for one in self.blockers(number, self._wishes[number])]
        while ahead:
            one, waits = ahead.pop()
            if one == number:
                found = [Waits(waits, self._wishes[waits], number)]
                while (last := found[-1].number) != number:
                    found.append(Waits(before[last], self._wishes[before[last]], last))
                return found[::-1]
            if one not in before:
                before[one] = waits
                if one in self._wishes:
                    ahead += [(other, one) for other in self.blockers(one, self._wishes[one])]
        return []

    def event(self, number: int) -> str:
        """What a session waits for, as ``pg_stat_activity`` calls it; nothing if it waits for no lock."""
        wish = self._wishes.get(number)
        if wish is None:
            return ""
        if not isinstance(wish.key[0], str):
            return "advisory"
        if len(wish.key) == 1:
            return "relation"
        return "transactionid" if self._queues[wish.key][0][0] == number else "tuple"

    def give_up(self, number: int) -> None:
        """A session waits no more."""
        self._leave(number)

    def _leave(self, number: int) -> None:
        wish = self._wishes.pop(number, None)
        if wish is None:
            return
        queue = self._queues[wish.key]
        queue.remove((number, wish.mode))
        if not queue:
            del self._queues[wish.key]
        self._tell(wish.key)

    def blockers(self, number: int, wish: Wish) -> set[int]:
        """The sessions that have to let go, or come first, before one can have a lock."""
        conflicts = CONFLICTS[wish.mode]
        found = {
            one
            for one, holds in self._holders(wish.key).items()
            if one != number and any(self._excludes(one, mode, wish) for mode, _ in holds)
        }
        if number in self._held.get(wish.key, ()):
            return found
        for one, mode in self._queues.get(wish.key, ()):
            if one == number:
                break
            if mode in conflicts:
                found.add(one)
        return found

    def _excludes(self, holder: int, mode: str, wish: Wish) -> bool:
        """Whether who holds a lock in a mode keeps others from having it."""
        return mode in CONFLICTS[wish.mode]

    def _holders(self, key: Key) -> Mapping[int, Sequence[Hold]]:
        return self._held.get(key, {})

    def _tell(self, key: Key) -> None:
        """Tell those who can have a lock now."""
        for number, mode in list(self._queues.get(key, ())):
            if not self.blockers(number, Wish(key, mode)):
                self.freed(number)

    # Looking

    def alone(self, number: int) -> bool:
        """Whether no other session holds anything, or waits for it."""
        return all(one == number for one in self._keys) and all(one == number for one in self._wishes)

    def listed(self) -> Iterator[tuple[Key, int, str, bool]]:
        """The key, the session, the mode, and whether it has it or waits for it."""
        for key, holders in self._held.items():
            for number, holds in holders.items():
                for mode in sorted({mode for mode, _ in holds}):
                    yield key, number, mode, True
        for number, wish in self._wishes.items():
            yield wish.key, number, wish.mode, False

    def __len__(self) -> int:
        """How many are held or waited for."""
        return len(self._held) + len(self._queues)


def _named(key: Key) -> str:
    """What is locked, in words."""
    if not isinstance(key[0], str):
        return f"advisory lock [{','.join(map(str, key))}]"
    name = key[0].rpartition(".")[2]
    return f'relation "{name}"' if len(key) == 1 else f'row {key[1]} of relation "{name}"'


class Own(NamedTuple):
    """The locks of one session's transaction."""

    locks: Locks
    number: int

    def end(self, least: int) -> None:
        """See Locks."""
        self.locks.end(self.number, least)

    def release(self, place: int) -> None:
        """See Locks."""
        self.locks.release(self.number, place)


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

    def __init__(self, engine: LockHost) -> None:
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
        if held != bool(self._engine.tables.watching):
            self._engine.tables.watching[:] = [self.changing] if held else []

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

    def handed(self, number: int, wish: Wish, transactions: Transactions) -> bool:
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
