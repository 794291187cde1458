"""Lock manager: advisory locks, table locks and row locks, in Postgres' modes.

A lock is held by a session until it is released or its transaction ends. The manager never blocks: a lock
that is not available raises ``WaitRequest``. The caller undoes the statement and runs it again after a
release. A queue per lock gives the waiting sessions their turns.

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
from kpg.runtime.errors import OperationalError, WaitRequest
from kpg.runtime.executor import Executor
from kpg.session.tables import Tables
from kpg.session.transaction import Transactions

SHARED: Final = "ShareLock"
EXCLUSIVE: Final = "ExclusiveLock"
"""Modes of advisory locks, and of tables, too."""
ROW_SHARE: Final = "RowShareLock"
ROW_EXCLUSIVE: Final = "RowExclusiveLock"
"""Table modes of sessions that have locked or changed rows of it."""
ACCESS_SHARE: Final = "AccessShareLock"
ACCESS_EXCLUSIVE: Final = "AccessExclusiveLock"
"""The mode that excludes readers."""
TABLE_MODES: Final = (
    ACCESS_SHARE,
    ROW_SHARE,
    ROW_EXCLUSIVE,
    "ShareUpdateExclusiveLock",
    SHARED,
    "ShareRowExclusiveLock",
    EXCLUSIVE,
    ACCESS_EXCLUSIVE,
)
"""Table modes, weakest first."""
KEY_SHARE: Final = "FOR KEY SHARE"
SHARE: Final = "FOR SHARE"
NO_KEY_UPDATE: Final = "FOR NO KEY UPDATE"
UPDATE: Final = "FOR UPDATE"
"""Row modes, as SQL spells them."""
ROW_MODES: Final = (KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE)
CHANGED: Final = "changed"
"""Row mode of rows that an open transaction has changed: NO KEY UPDATE if they keep their keys, else
UPDATE.
"""
LISTED_MODES: Final = {
    CHANGED: ACCESS_EXCLUSIVE,
    KEY_SHARE: ACCESS_SHARE,
    SHARE: ROW_SHARE,
    NO_KEY_UPDATE: EXCLUSIVE,
    UPDATE: ACCESS_EXCLUSIVE,
}
"""The modes that pg_locks shows for row modes."""
CONFLICTS: Final[dict[str, frozenset[str]]] = {
    ACCESS_SHARE: frozenset(TABLE_MODES[7:]),
    ROW_SHARE: frozenset(TABLE_MODES[6:]),
    ROW_EXCLUSIVE: frozenset(TABLE_MODES[4:]),
    TABLE_MODES[3]: frozenset(TABLE_MODES[3:]),
    SHARED: frozenset((ROW_EXCLUSIVE, TABLE_MODES[3], *TABLE_MODES[5:])),
    TABLE_MODES[5]: frozenset(TABLE_MODES[2:]),
    EXCLUSIVE: frozenset(TABLE_MODES[1:]),
    ACCESS_EXCLUSIVE: frozenset(TABLE_MODES),
    KEY_SHARE: frozenset((CHANGED, *ROW_MODES[3:])),
    SHARE: frozenset((CHANGED, *ROW_MODES[2:])),
    NO_KEY_UPDATE: frozenset((CHANGED, *ROW_MODES[1:])),
    UPDATE: frozenset((CHANGED, *ROW_MODES)),
}
"""For each mode the modes of other sessions that conflict with it."""
STRONG_TABLE_MODES: Final = frozenset(TABLE_MODES[3:])
"""Table modes that only LOCK TABLE and DDL take."""


LockKey = tuple[int | str, ...]
"""An advisory number of 64 bits or two of 32; the name of a table; the name of a table and a rowid."""
SESSION_LEVEL: Final = -1
"""Depth of a lock that outlives the transaction."""
Hold = tuple[str, int]
"""A mode, and the number of savepoints when it was taken, or ``SESSION_LEVEL``."""


class LockRequest(NamedTuple):
    """A lock that a statement waits for."""

    key: LockKey
    mode: str


class WaitEdge(NamedTuple):
    """An edge of a deadlock cycle: the session ``number`` waits for ``request``, which ``blocker`` holds."""

    number: int
    request: LockRequest
    blocker: int

    def __str__(self) -> str:
        mode = LISTED_MODES.get(self.request.mode, self.request.mode)
        what = f"Process {self.number} waits for {mode} on {_describe(self.request.key)}"
        return f"{what}; blocked by process {self.blocker}."


class DeadlockError(OperationalError):
    """Sessions wait for each other in a cycle."""

    sqlstate = "40P01"

    def __init__(self, cycle: Sequence[WaitEdge]) -> None:
        super().__init__("deadlock detected", hint="see the server log for query details")
        self.cycle = cycle
        self.detail = "\n".join(map(str, cycle))


class LockNotAvailableError(OperationalError):
    """A lock is not available, or not in time."""

    sqlstate = "55P03"


class LockHost(Protocol):
    """The members of the engine that locks use."""

    @property
    def catalog(self) -> Catalog:
        """Names the tables, and the session that runs the statement."""

    @property
    def executor(self) -> Executor:
        """Holds the rows."""

    @property
    def transactions(self) -> Transactions:
        """The open transaction."""

    @property
    def tables(self) -> Tables:
        """Base tables, whose change hooks the lock manager installs."""


class Locks:
    """The locks of one database, by session numbers."""

    def __init__(self) -> None:
        self._holds: dict[LockKey, dict[int, list[Hold]]] = {}
        self._session_keys: dict[int, dict[LockKey, None]] = {}
        """Keys that each session holds."""
        self._queues: dict[LockKey, list[tuple[int, str]]] = {}
        self._requests: dict[int, LockRequest] = {}
        self.can_suspend = False
        """Whether the current statement can be undone and run again."""
        self.sleeps = self.sleeps_passed = 0
        """Number of completed pg_sleep calls of the statement, and of those that this run has passed again.
        """
        self._journal: list[tuple[int, LockKey, Hold, bool]] = []
        """Locks that the statement has acquired (True) and released."""
        self.on_available: Callable[[int], object] = lambda number: None
        """Called with each session whose requested lock may be available."""

    # Acquire and release

    def acquire(self, engine: LockHost, request: LockRequest, *, until_end: bool, blocks: bool) -> bool:
        """Acquire a lock. If it is taken return False, or with ``blocks`` raise WaitRequest or an error.

        With ``until_end`` the lock ends with the transaction, otherwise with the session.
        """
        number = engine.catalog.asker.number
        if self.blockers(number, request):
            if not blocks:
                return False
            self.suspend(engine, request)
        self._dequeue(number)
        if until_end and engine.transactions.is_idle:
            return True  # held until the end of the statement, during which no other session runs
        depth = engine.transactions.depth if until_end else SESSION_LEVEL
        self._add(number, request.key, (request.mode, depth))
        self._log(number, request.key, (request.mode, depth), is_acquired=True)
        if until_end:
            engine.transactions.locks = TransactionLocks(self, number)
        return True

    def suspend(self, engine: LockHost, request: LockRequest) -> NoReturn:
        """Suspend the statement until a lock is available; an error if it cannot be suspended."""
        self._check_can_suspend(engine)
        raise WaitRequest(request)

    def unlock(self, number: int, request: LockRequest) -> bool:
        """Release a session-level lock once; return whether it was held."""
        holds = self._holds.get(request.key, {}).get(number, [])
        hold = (request.mode, SESSION_LEVEL)
        if hold not in holds:
            return False
        self._remove(number, request.key, hold)
        self._log(number, request.key, hold, is_acquired=False)
        self._signal_available(request.key)
        return True

    def unlock_all(self, number: int) -> None:
        """Release all session-level locks of a session."""
        for key in list(self._session_keys.get(number, ())):
            for hold in [one for one in self._holds[key][number] if one[1] == SESSION_LEVEL]:
                self._remove(number, key, hold)
                self._log(number, key, hold, is_acquired=False)
            self._signal_available(key)

    def end_block(self, number: int, depth: int = 0) -> None:
        """Release the locks that a transaction acquired at savepoint depth ``depth`` or deeper."""
        for key in list(self._session_keys.get(number, ())):
            released = [one for one in self._holds[key][number] if one[1] >= depth]
            for hold in released:
                self._remove(number, key, hold)
            if released:
                self._signal_available(key)

    def release_savepoint(self, number: int, target_depth: int) -> None:
        """Merge the locks of a savepoint into the enclosing one (RELEASE)."""
        for key in self._session_keys.get(number, ()):
            holders = self._holds[key]
            holders[number] = [(mode, min(depth, target_depth)) for mode, depth in holders[number]]

    def end_session(self, number: int) -> None:
        """Release all locks of a session and drop its request."""
        self._dequeue(number)
        self.end_block(number, SESSION_LEVEL)

    def _add(self, number: int, key: LockKey, hold: Hold) -> None:
        self._holds.setdefault(key, {}).setdefault(number, []).append(hold)
        self._session_keys.setdefault(number, {})[key] = None

    def _remove(self, number: int, key: LockKey, hold: Hold) -> None:
        holders = self._holds[key]
        holders[number].remove(hold)
        if not holders[number]:
            del holders[number]
            del self._session_keys[number][key]
            if not self._session_keys[number]:
                del self._session_keys[number]
        if not holders:
            del self._holds[key]

    def _check_can_suspend(self, engine: LockHost) -> None:
        if not self.can_suspend:
            raise LockNotAvailableError(
                "could not obtain lock: another session holds it", hint="wait in a session"
            )

    # Statements, whose locks are undone if they have to wait

    def begin_statement(self, engine: LockHost, sleeps: int) -> None:
        """Begin a statement that can run again, after ``sleeps`` completed sleeps."""
        self.can_suspend = True
        self.sleeps, self.sleeps_passed = sleeps, 0

    @property
    def is_untouched(self) -> bool:
        """Whether the statement can be undone, and has neither acquired nor released a lock."""
        return self.can_suspend and not self._journal

    @property
    def sleep_progress(self) -> tuple[int, int]:
        """State of the statement for :meth:`resume_statement`."""
        return self.sleeps, self.sleeps_passed

    def resume_statement(self, progress: tuple[int, int]) -> None:
        """Continue a statement after another one has run."""
        self.can_suspend = True
        self.sleeps, self.sleeps_passed = progress

    def end_statement(self) -> None:
        """End the statement and keep its locks."""
        self.can_suspend = False
        self._journal.clear()

    def undo_statement(self) -> None:
        """Restore the locks as of the begin of the statement."""
        for number, key, hold, is_acquired in reversed(self._journal):
            if is_acquired and hold in self._holds.get(key, {}).get(number, []):
                self._remove(number, key, hold)
                self._signal_available(key)
            elif not is_acquired:
                self._add(number, key, hold)
        self.end_statement()

    def sleep(self, seconds: float) -> None:
        """Suspend the statement for some seconds, unless this call has already slept."""
        if self.sleeps_passed == self.sleeps:
            raise WaitRequest(None, seconds, is_sleeping=True)
        self.sleeps_passed += 1

    def _log(self, number: int, key: LockKey, hold: Hold, *, is_acquired: bool) -> None:
        if self.can_suspend:
            self._journal.append((number, key, hold, is_acquired))

    # Waiting

    def enqueue(self, number: int, request: LockRequest) -> None:
        """Queue a request of a session; DeadlockError if that closes a cycle."""
        before = self._requests.get(number)
        if before != request:
            self._dequeue(number)
            self._queue(number, request)
        circle = self._find_cycle(number)
        if circle:
            self._dequeue(number)
            raise DeadlockError(circle)

    def _queue(self, number: int, wish: LockRequest) -> None:
        self._queues.setdefault(wish.key, []).append((number, wish.mode))
        self._requests[number] = wish

    def _find_cycle(self, number: int) -> list[WaitEdge]:
        """Return the deadlock cycle through a session; empty if there is none."""
        waiter: dict[int, int] = {}
        """Who waits for each session that has been seen."""
        ahead = [(one, number) for one in self.blockers(number, self._requests[number])]
        while ahead:
            blocker, waits = ahead.pop()
            if blocker == number:
                found = [WaitEdge(waits, self._requests[waits], number)]
                while (last := found[-1].number) != number:
                    found.append(WaitEdge(waiter[last], self._requests[waiter[last]], last))
                return found[::-1]
            if blocker not in waiter:
                waiter[blocker] = waits
                if blocker in self._requests:
                    ahead += [(other, blocker) for other in self.blockers(blocker, self._requests[blocker])]
        return []

    def wait_event(self, number: int) -> str:
        """Return a session's lock event for ``pg_stat_activity``; empty if it waits for no lock."""
        request = self._requests.get(number)
        if request is None:
            return ""
        if not isinstance(request.key[0], str):
            return "advisory"
        if len(request.key) == 1:
            return "relation"
        return "transactionid" if self._queues[request.key][0][0] == number else "tuple"

    def cancel_request(self, number: int) -> None:
        """Drop a session's request."""
        self._dequeue(number)

    def _dequeue(self, number: int) -> None:
        wish = self._requests.pop(number, None)
        if wish is None:
            return
        queue = self._queues[wish.key]
        queue.remove((number, wish.mode))
        if not queue:
            del self._queues[wish.key]
        self._signal_available(wish.key)

    def blockers(self, number: int, request: LockRequest) -> set[int]:
        """Return the sessions that hold a conflicting lock or are ahead in the queue."""
        conflicts = CONFLICTS[request.mode]
        found = {
            one
            for one, holds in self._holders(request.key).items()
            if one != number and any(self._conflicts(one, mode, request) for mode, _ in holds)
        }
        if number in self._holds.get(request.key, ()):
            return found
        for other, mode in self._queues.get(request.key, ()):
            if other == number:
                break
            if mode in conflicts:
                found.add(other)
        return found

    def _conflicts(self, holder: int, mode: str, request: LockRequest) -> bool:
        """Whether a held mode conflicts with a request."""
        return mode in CONFLICTS[request.mode]

    def _holders(self, key: LockKey) -> Mapping[int, Sequence[Hold]]:
        return self._holds.get(key, {})

    def _signal_available(self, key: LockKey) -> None:
        """Call ``on_available`` for the requests that no session blocks."""
        for number, mode in list(self._queues.get(key, ())):
            if not self.blockers(number, LockRequest(key, mode)):
                self.on_available(number)

    # Inspection

    def is_only_session(self, number: int) -> bool:
        """Whether no other session holds or requests a lock."""
        return all(session == number for session in self._session_keys) and all(
            session == number for session in self._requests
        )

    def list_locks(self) -> Iterator[tuple[LockKey, int, str, bool]]:
        """Yield the key, the session, the mode, and whether it is granted, of each lock and request."""
        for key, holders in self._holds.items():
            for number, holds in holders.items():
                for mode in sorted({mode for mode, _ in holds}):
                    yield key, number, mode, True
        for number, wish in self._requests.items():
            yield wish.key, number, wish.mode, False

    def __len__(self) -> int:
        """Number of locks held and requested."""
        return len(self._holds) + len(self._queues)


def _describe(key: LockKey) -> str:
    if not isinstance(key[0], str):
        return f"advisory lock [{','.join(map(str, key))}]"
    name = key[0].rpartition(".")[2]
    return f'relation "{name}"' if len(key) == 1 else f'row {key[1]} of relation "{name}"'


class TransactionLocks(NamedTuple):
    """The locks of one session's transaction."""

    locks: Locks
    number: int

    def end_block(self, depth: int) -> None:
        """Release the locks of savepoint depth ``depth`` or deeper."""
        self.locks.end_block(self.number, depth)

    def release_savepoint(self, target_depth: int) -> None:
        """Merge the locks of a savepoint into the enclosing one."""
        self.locks.release_savepoint(self.number, target_depth)


Words = NDArray[np.int64]
MAX_ROWS_LOCKED_SINGLY: Final = 1_000
"""Up to this number of changed rows per table are locked one by one; for more, the array is kept."""


class TableChanges(Protocol):
    """The changes of a transaction in one table."""

    @property
    def table(self) -> str: ...
    @property
    def deleted(self) -> Words: ...
    @property
    def inserted(self) -> Words: ...
    @property
    def words(self) -> Words: ...


class LockedRows(NamedTuple):
    """Rows with the same lock, in order of rowids."""

    rowids: Words
    hold: Hold


class LockManager(Locks):
    """All locks of one database: advisory, table and row locks."""

    def __init__(self, engine: LockHost) -> None:
        super().__init__()
        self._engine = engine
        self._single_rows: dict[str, dict[int, None]] = {}
        """Rows of each table that are locked one by one."""
        self._row_sets: dict[str, dict[int, list[LockedRows]]] = {}
        self._strong_tables: dict[LockKey, int] = {}
        """Number of locks and requests in strong modes, by table."""
        self._changes: dict[int, Sequence[Sequence[TableChanges]]] = {}
        """Changes of open transactions that are swapped out."""

    # Bookkeeping

    def _add(self, number: int, key: LockKey, hold: Hold) -> None:
        super()._add(number, key, hold)
        table, *rowid = key
        if isinstance(table, str) and rowid:
            self._single_rows.setdefault(table, {})[int(rowid[0])] = None
            self._update_hook()
        else:
            self._count_strong(key, hold[0], 1)

    def _count_strong(self, key: LockKey, mode: str, delta: int) -> None:
        """Count locks and requests of a table in strong modes, during which changes need a check."""
        if mode not in STRONG_TABLE_MODES or not isinstance(key[0], str) or len(key) > 1:
            return
        count = self._strong_tables.get(key, 0) + delta
        if count:
            self._strong_tables[key] = count
        else:
            del self._strong_tables[key]
        self._update_hook()

    def _queue(self, number: int, wish: LockRequest) -> None:
        super()._queue(number, wish)
        self._count_strong(wish.key, wish.mode, 1)

    def _dequeue(self, number: int) -> None:
        wish = self._requests.get(number)
        if wish is not None:
            self._count_strong(wish.key, wish.mode, -1)
        super()._dequeue(number)

    def _remove(self, number: int, key: LockKey, hold: Hold) -> None:
        super()._remove(number, key, hold)
        table, *rowid = key
        if isinstance(table, str) and rowid:
            if key not in self._holds:
                rows = self._single_rows[table]
                del rows[int(rowid[0])]
                if not rows:
                    del self._single_rows[table]
        else:
            self._count_strong(key, hold[0], -1)
        self._update_hook()

    def _update_hook(self) -> None:
        """Install the change hook while there is something to check."""
        is_needed = bool(self._single_rows or self._row_sets or self._strong_tables)
        if is_needed != bool(self._engine.tables.change_hooks):
            self._engine.tables.change_hooks[:] = [self.check_change] if is_needed else []

    def _holders(self, key: LockKey) -> Mapping[int, Sequence[Hold]]:
        held = super()._holders(key)
        many = self._row_sets.get(str(key[0])) if self._row_sets and len(key) > 1 else None
        if not many:
            return held
        found = {number: list(holds) for number, holds in held.items()}
        for number, sets in many.items():
            for row_set in sets:
                if _contains(row_set.rowids, int(key[1])):
                    found.setdefault(number, []).append(row_set.hold)
        return found

    def blockers(self, number: int, request: LockRequest) -> set[int]:
        """As in Postgres, a request that conflicts with no holder goes ahead of those that wait."""
        if len(request.key) > 1 and isinstance(request.key[0], str):
            holders = self._holders(request.key).items()
            others = ((other, mode) for other, holds in holders if other != number for mode, _ in holds)
            if not any(self._conflicts(other, mode, request) for other, mode in others):
                return set()
        return super().blockers(number, request)

    def _conflicts(self, holder: int, mode: str, request: LockRequest) -> bool:
        if mode == CHANGED and request.mode == KEY_SHARE:
            return not self._keeps_keys(holder, str(request.key[0]), int(request.key[1]))
        return super()._conflicts(holder, mode, request)

    def _keeps_keys(self, number: int, table: str, rowid: int) -> bool:
        """Whether a changed row still has its former keys."""
        keys = self._key_columns(table)
        old = self._engine.executor.tables.fetch(table, np.array([rowid], np.int64))[keys]
        for part in (
            part for parts in self._changes.get(number, ()) for part in parts if part.table == table
        ):
            if rowid in part.deleted:
                matches = np.flatnonzero((part.words[keys] == old).all(axis=0))
                if not matches.size:
                    return False
                rowid = int(part.inserted[matches[0]])
        return True

    def _key_columns(self, table: str) -> list[int]:
        """Return the columns of all keys of a table."""
        entry = self._engine.catalog.entries[table.lower()]
        assert isinstance(entry, TableEntry)
        names = [name.lower() for name in entry.schema.names]
        keys = {*entry.schema.primary_key}
        keys.update(
            names.index(column.lower()) for key in entry.constraints.uniques for column in key.columns
        )
        return sorted(keys)

    def end_block(self, number: int, depth: int = 0) -> None:
        """Release the locks of a transaction, also of row sets; see :meth:`Locks.end_block`."""
        super().end_block(number, depth)
        if depth <= 0:
            self._changes.pop(number, None)
        for table in [table for table, holders in self._row_sets.items() if number in holders]:
            holders = self._row_sets[table]
            holders[number] = [row_set for row_set in holders[number] if row_set.hold[1] < depth]
            if not holders[number]:
                del holders[number]
            if not holders:
                del self._row_sets[table]
            for key in [key for key in self._queues if key[0] == table]:
                self._signal_available(key)
        self._update_hook()

    def release_savepoint(self, number: int, target_depth: int) -> None:
        """Merge the locks of a savepoint, also of row sets, into the enclosing one."""
        super().release_savepoint(number, target_depth)
        for holders in self._row_sets.values():
            if number in holders:
                kept = holders[number]
                holders[number] = [
                    LockedRows(row_set.rowids, (row_set.hold[0], min(row_set.hold[1], target_depth)))
                    for row_set in kept
                ]

    # Changes of transactions

    def lock_swapped_changes(self, number: int, segments: Sequence[Sequence[TableChanges]]) -> bool:
        """Lock the rows of a transaction's changes, which are swapped out; return whether it holds any lock.

        ``segments`` are the changes by savepoint, oldest first.
        """
        if number in self._changes or any(segments):
            self._changes[number] = segments
        own: dict[str, list[Words]] = {}
        for depth, parts in enumerate(segments):
            for part in parts:
                self._add_once(number, (part.table,), (ROW_EXCLUSIVE, depth))
                deleted = part.deleted
                for inserted in own.get(part.table, ()):
                    deleted = deleted[~np.isin(deleted, inserted)]
                if deleted.size > MAX_ROWS_LOCKED_SINGLY:
                    self._add_row_set(number, part.table, np.sort(deleted), (CHANGED, depth))
                else:
                    for rowid in deleted.tolist():
                        self._add_once(number, (part.table, rowid), (CHANGED, depth))
            for part in parts:
                own.setdefault(part.table, []).append(part.inserted)
        return number in self._session_keys

    def _add_once(self, number: int, key: LockKey, hold: Hold) -> None:
        if hold not in self._holds.get(key, {}).get(number, ()):
            self._add(number, key, hold)

    def _add_row_set(self, number: int, table: str, rowids: Words, hold: Hold) -> None:
        """Add rows to the set with the same hold."""
        sets = self._row_sets.setdefault(table, {}).setdefault(number, [])
        before = next((row_set for row_set in sets if row_set.hold == hold), None)
        if before is not None:
            sets.remove(before)
            rowids = np.union1d(before.rowids, rowids)
        sets.append(LockedRows(rowids, hold))
        self._update_hook()

    # Changes of the current statement

    def check_change(self, table: str, rowids: Words | None, words: Words | None) -> None:
        """Suspend the statement if other sessions have locked what it is about to change."""
        engine = self._engine
        if self._strong_tables:
            request = LockRequest((table,), ROW_EXCLUSIVE)
            if self.is_blocked(request):
                self._check_can_suspend_for(request, table)
                self.suspend(engine, request)
        if rowids is None:
            return
        locked = self.find_locked(table, rowids)
        for rowid in locked:
            request = LockRequest(
                (table, rowid), UPDATE if words is None else self._update_mode(table, rowid, rowids, words)
            )
            if self.is_blocked(request):
                self._check_can_suspend_for(request, table)
                self.hold(LockRequest((table,), ROW_EXCLUSIVE))
                before = rowids[rowids < rowid]
                for other in before.tolist() if before.size <= MAX_ROWS_LOCKED_SINGLY else ():
                    self.hold(LockRequest((table, other), request.mode))
                self.suspend(engine, request)

    def _check_can_suspend_for(self, request: LockRequest, table: str) -> None:
        """Raise an error where the statement cannot wait, before any lock is taken."""
        if not self.can_suspend:
            raise lock_error(table, is_row=len(request.key) > 1, hint="wait in a session")

    def find_locked(self, table: str, rowids: Words) -> list[int]:
        """Return those of the rows that are locked by any session, ascending."""
        found: set[int] = set()
        rows = self._single_rows.get(table)
        if rows and rowids.size <= len(rows):
            found.update(rowid for rowid in rowids.tolist() if rowid in rows)
        elif rows:
            here = np.fromiter(rows, np.int64, len(rows))
            found.update(here[np.isin(here, rowids)].tolist())
        for sets in self._row_sets.get(table, {}).values():
            for row_set in sets:
                found.update(rowids[np.isin(rowids, row_set.rowids)].tolist())
        return sorted(found)

    def _update_mode(self, table: str, rowid: int, rowids: Words, words: Words) -> str:
        """Return the row mode of an update: NO KEY UPDATE if the keys stay the same."""
        columns = self._key_columns(table)
        old = self._engine.executor.tables.fetch(table, np.array([rowid], np.int64))[columns]
        new = words[columns][:, rowids == rowid]
        return NO_KEY_UPDATE if (old == new).all() else UPDATE

    # Locks for the current session

    def is_blocked(self, request: LockRequest) -> bool:
        """Whether other sessions keep the current one from a lock."""
        return bool(self.blockers(self._engine.catalog.asker.number, request))

    def hold(self, request: LockRequest) -> None:
        """Give the current session an available lock until the end of its transaction."""
        engine = self._engine
        transactions, number = engine.transactions, engine.catalog.asker.number
        if transactions.is_idle and not self.can_suspend:
            return
        if number in self._requests and self._requests[number].key == request.key:
            self._dequeue(number)
        self._add_once(number, request.key, (request.mode, transactions.depth))
        transactions.locks = TransactionLocks(self, number)

    def grant_row(self, number: int, request: LockRequest, transactions: Transactions) -> bool:
        """Give a session the row lock that it waited for; False if it is still not available."""
        if len(request.key) < 2 or not isinstance(request.key[0], str):
            return True
        if self.blockers(number, request):
            return False
        self._dequeue(number)
        self._add_once(number, request.key, (request.mode, transactions.depth))
        transactions.locks = TransactionLocks(self, number)
        return True

    def hold_rows(self, table: str, rowids: Words, mode: str) -> None:
        """Give the current session locks on rows, in order of rowids; see :meth:`hold`."""
        engine = self._engine
        transactions, number = engine.transactions, engine.catalog.asker.number
        if transactions.is_idle and not self.can_suspend:
            return
        if rowids.size > MAX_ROWS_LOCKED_SINGLY:
            self._add_row_set(number, table, rowids, (mode, transactions.depth))
            transactions.locks = TransactionLocks(self, number)
        else:
            for rowid in rowids.tolist():
                self.hold(LockRequest((table, rowid), mode))

    def is_table_blocked(self, table: str, mode: str) -> bool:
        """Whether LOCK TABLE of another session excludes the current one from a mode of a table."""
        return bool(self._strong_tables) and self.is_blocked(LockRequest((table,), mode))

    def tables_of_others(self, number: int) -> list[str]:
        """Return the tables in which sessions other than ``number`` hold table or row locks."""
        keys = (key for session, keys in self._session_keys.items() if session != number for key in keys)
        return sorted({key[0] for key in keys if isinstance(key[0], str)})

    @property
    def strong_tables(self) -> frozenset[LockKey]:
        """Tables with a lock or a request in a strong mode."""
        return frozenset(self._strong_tables)

    @property
    def excludes_readers(self) -> bool:
        """Whether some table is locked in ACCESS EXCLUSIVE mode."""
        return any(
            mode == ACCESS_EXCLUSIVE
            for key in self._strong_tables
            for holds in self._holds.get(key, {}).values()
            for mode, _ in holds
        )

    def count_locked_rows(self, tables: Sequence[str]) -> int:
        """Return an upper bound of the number of locked rows of tables."""
        one_by_one = sum(len(self._single_rows.get(table, ())) for table in tables)
        many = (self._row_sets.get(table, {}).values() for table in tables)
        return one_by_one + sum(
            row_set.rowids.size for holders in many for sets in holders for row_set in sets
        )


def lock_error(table: str, *, is_row: bool, hint: str | None = None) -> LockNotAvailableError:
    """Return the error for a lock that is not available at once."""
    name = table.rpartition(".")[2]
    what = f'row in relation "{name}"' if is_row else f'relation "{name}"'
    return LockNotAvailableError(f"could not obtain lock on {what}", hint=hint)


def _contains(rowids: Words, rowid: int) -> bool:
    place = int(np.searchsorted(rowids, rowid))
    return place < rowids.size and int(rowids[place]) == rowid
