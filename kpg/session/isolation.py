"""Transaction isolation: which commits of other sessions a transaction sees.

READ COMMITTED: each statement sees the last commit.
REPEATABLE READ and SERIALIZABLE: all statements see the commits before the first one, and the transaction's
own changes. A table that others have changed since is read as of the snapshot (``Snapshots``). An update of
a row that others have changed since is refused.
SERIALIZABLE also refuses a commit of changes if others have since changed a table that the transaction read.

Serializable transactions are equivalent to a serial order: writers at their commits, readers at their
snapshots. Conflicts are detected per table, and Postgres detects them per row, so some transactions that
Postgres would accept are refused.
"""

import enum
import re
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.frontend import read_relations
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import (
    Accepted,
    Deallocate,
    Execute,
    Fetch,
    LockTable,
    Prepare,
    Savepoint,
    Set,
    SetConstraints,
    SetTransaction,
    Show,
)
from kpg.runtime.errors import DataError, InterfaceError, NotSupportedError, SerializationError
from kpg.runtime.types import NULL
from kpg.session.engine import Engine
from kpg.session.setting_values import ISOLATION
from kpg.session.transaction import State, Transactions


class Snapshots:
    """What is kept of the past of tables for transactions that see an epoch to their ends."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: Counter[int] = Counter()
        self._kept: int | None = None
        self._numbers = count(1)
        self.exported: dict[str, int] = {}
        """Epochs that transactions which still run let others see, by the names they gave."""

    def hold(self) -> int:
        """Keep the present epoch; nothing may be pending."""
        engine = self._engine
        epoch = engine.executor.epoch
        self._held[epoch] += 1
        if engine.past is not None:
            engine.past.held = self._held
        elif self._kept is None:
            engine.executor.keep_past()
            self._kept = epoch
        return epoch

    def hold_again(self, epoch: int) -> int:
        """Keep an epoch that another transaction holds."""
        self._held[epoch] += 1
        return epoch

    def named(self, epoch: int) -> str:
        """A new name for an epoch that a transaction holds."""
        name = f"{epoch:08X}-{next(self._numbers):08X}-1"
        self.exported[name] = epoch
        return name

    def release(self, epoch: int) -> None:
        """One transaction less needs an epoch."""
        self._held[epoch] -= 1
        if not self._held[epoch]:
            del self._held[epoch]

    def tidy(self) -> None:
        """Forget what nobody needs, if nothing is pending."""
        if self._kept is None:
            return
        first = min(self._held, default=None)
        if (first is not None and first <= self._kept) or self._engine.executor.has_pending:
            return
        if first is None:
            self._engine.executor.drop_past()
        else:
            self._engine.executor.forget_past(first)
        self._kept = first


Words = NDArray[np.int64]


class Isolation(enum.Enum):
    """The levels; their values are SQL's names."""

    READ_COMMITTED = "read committed"
    REPEATABLE_READ = "repeatable read"
    SERIALIZABLE = "serializable"


LEVEL: Final = re.compile(
    r"isolation\s+level\s+(serializable|repeatable\s+read|read\s+committed|read\s+uncommitted)", re.IGNORECASE
)
DEFAULT: Final = "default_transaction_isolation"


def level_of(text: str) -> Isolation | None:
    """The level that a text names; READ UNCOMMITTED is READ COMMITTED, as in Postgres."""
    found = LEVEL.search(text) if "solation" in text.lower() else None
    if found is None:
        return None
    name = " ".join(found[1].lower().split()).replace("uncommitted", "committed")
    return Isolation(name)


def noted(
    isolation: "TransactionIsolation",
    transactions: Transactions,
    statement: ast.Statement,
    settings: dict[str, str],
) -> None:
    """Take note of what a statement says of isolation, before it runs."""
    text = statement.span.source[statement.span.start : statement.span.end]
    level = level_of(text)
    if isinstance(statement, ast.Begin):
        if transactions.state is not State.NONE:
            if level is not None and transactions.state is State.OPEN:
                isolation.begin_at(level)
            return
        given = settings.get(DEFAULT, "")
        known = {one.value for one in Isolation}
        isolation.begin_at(level or Isolation(given if given in known else "read committed"))
    elif level is not None and text.lower().split()[:2] == ["set", "session"]:
        settings[DEFAULT] = level.value
    elif level is not None and text.lower().startswith("set"):
        isolation.begin_at(level)


class TransactionIsolation:
    """The isolation level of a session's transaction, its snapshot, and the relations that it has read."""

    def __init__(
        self,
        transactions: Transactions,
        snapshots: Snapshots,
        settings: dict[str, str],
        changes: Callable[[], bool],
    ) -> None:
        """``changes`` tells whether anything is pending."""
        self._transactions = transactions
        self._snapshots = snapshots
        self._settings = settings
        self._changes = changes
        self.level = Isolation.READ_COMMITTED
        self._since: int | None = None
        self._number = 0
        """Of the transaction that the snapshot is for: COMMIT AND CHAIN begins another at once."""
        self._read: frozenset[str] = frozenset()
        self._exported = ""

    def set_level(self, name: str) -> None:
        """SET transaction_isolation; of no transaction it is over with the statement."""
        self.begin_at(Isolation(name.replace("uncommitted", "committed")))

    def begin_at(self, level: Isolation) -> None:
        """A transaction begins, at a level."""
        if self._since is not None or (self._transactions.state is State.OPEN and self._changes()):
            error = InterfaceError("the isolation level must be set before any query of the transaction")
            error.sqlstate = "25001"
            raise error
        self.level = level
        self._settings[ISOLATION] = level.value
        self._read = frozenset()

    def ended(self) -> None:
        """Give up the snapshot of a transaction that is over."""
        if self._since is not None and (
            self._transactions.state is State.NONE or self._transactions.begun != self._number
        ):
            self._snapshots.release(self._since)
            self._snapshots.exported.pop(self._exported, None)
            self._since, self._exported = None, ""
            self._read = frozenset()
        if self._transactions.state is State.NONE and self.level is not Isolation.READ_COMMITTED:
            self.level = Isolation.READ_COMMITTED
            self._settings[ISOLATION] = self.level.value

    def export(self) -> str:
        """The name by which others can see what this transaction does, while it lasts."""
        if self._changes():
            raise NotSupportedError("a transaction that has changed something exports no snapshot")
        if self._since is None:
            self._since, self._number = self._snapshots.hold(), self._transactions.begun
        self._exported = self._exported or self._snapshots.named(self._since)
        return self._exported

    def join(self, name: str) -> None:
        """See what the transaction sees that has exported this name."""
        if self.sees_latest:
            raise NotSupportedError(
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ"
            )
        if self._since is not None:
            error = InterfaceError("SET TRANSACTION SNAPSHOT must be called before any query")
            error.sqlstate = "25001"
            raise error
        epoch = self._snapshots.exported.get(name)
        if epoch is None:
            raise DataError(f'invalid snapshot identifier: "{name}"')
        self._since, self._number = self._snapshots.hold_again(epoch), self._transactions.begun

    @property
    def sees_latest(self) -> bool:
        """Whether a statement sees the last commit, whenever the transaction began."""
        return self.level is Isolation.READ_COMMITTED or self._transactions.state is not State.OPEN

    def seen_by(self, engine: Engine, statement: ast.Statement) -> int | None:
        """The epoch that a statement sees, if not the present one; notes what it reads.

        SerializationError, the transaction being rolled back, where that cannot be, or must not be committed.
        """
        if self.sees_latest or isinstance(statement, PLAIN):
            return None
        if isinstance(statement, ast.Commit):
            self._check_commit(engine)
            return None
        if self._since is None:
            self._since, self._number = self._snapshots.hold(), self._transactions.begun
        tables = _read_by(engine, statement)
        self._read |= tables
        tables |= _replaced(engine, statement)
        if not _changed(engine, tables, self._since):
            return None
        for name in sorted(tables):
            if not _is_known(engine, name, self._since):
                with self._transactions.undoing():
                    raise SerializationError(
                        f'could not serialize access: what "{name}" was is not known any more'
                    )
        return self._since

    def check_keys(self, engine: Engine) -> None:
        """SerializationError if a row has a key that another one has in the snapshot, but not any more.

        Else the transaction would see two rows with one key.
        """
        since = self._since
        if since is None or self.sees_latest or engine.changed is None:
            return
        for name, _, inserted, words in engine.executor.changed_since(None):
            if (
                not inserted.size
                or engine.changed.get(name, 0) <= since
                or not _is_known(engine, name, since)
            ):
                continue
            gone = engine.executor.fetch(name, engine.executor.changed(name, since)[0])
            entry = engine.catalog.entries[name.lower()]
            assert isinstance(entry, TableEntry)
            for columns in _keys(entry):
                if _rows(words, columns) & _rows(gone, columns):
                    with self._transactions.undoing():
                        raise SerializationError(
                            f'could not serialize access due to concurrent deletion in table "{name}"'
                        )

    def refuse_later(self, engine: Engine, name: str, rowids: NDArray[np.int64]) -> None:
        """SerializationError if one of some rows came after the snapshot."""
        since = self._since
        if since is None or self.sees_latest or engine.changed is None or not rowids.size:
            return
        if engine.changed.get(name, 0) <= since or not _is_known(engine, name, since):
            return
        own = [come for table, _, come, _ in engine.executor.changed_since(None) if table == name]
        others = rowids[~np.isin(rowids, np.concatenate(own))] if own else rowids
        if np.isin(others, engine.executor.changed(name, since)[1]).any():
            with self._transactions.undoing():
                raise SerializationError("could not serialize access due to concurrent update")

    def _check_commit(self, engine: Engine) -> None:
        if self.level is not Isolation.SERIALIZABLE or self._since is None or not engine.executor.has_pending:
            return
        changed = _changed(engine, self._read, self._since)
        if changed:
            self._transactions.rollback()
            raise SerializationError(
                f'could not serialize access: table "{changed[0]}", which was read, was changed'
            )


PLAIN: Final = (
    *(ast.Begin, ast.Rollback, Savepoint, Set, SetTransaction, Show, Prepare, Deallocate),
    *(SetConstraints, Accepted, LockTable),
)
"""Statements that see nothing."""


def _read_by(engine: Engine, statement: ast.Statement) -> frozenset[str]:
    """The relations that a statement reads, with all that they are made of."""
    if isinstance(statement, Execute):
        return frozenset().union(*(_read_by(engine, one) for one in _prepared(engine, statement)))
    if isinstance(statement, Fetch):
        return frozenset()
    if engine.catalog.routines:
        # Functions in SQL may read whatever they like.
        return frozenset(entry.name for entry in engine.catalog)
    return engine.views.tables_under(read_relations(statement, engine.catalog))


def _replaced(engine: Engine, statement: ast.Statement) -> frozenset[str]:
    """The tables in which a statement looks for rows that are in the way of those that it inserts.

    They are not read as others are: who changes such a row since, or gives another one the key, is told.
    """
    if isinstance(statement, Execute):
        return frozenset().union(*(_replaced(engine, one) for one in _prepared(engine, statement)))
    parts = (
        (*(part for _, _, part in statement.parts), statement.main)
        if isinstance(statement, ast.Modifying)
        else (statement,)
    )
    inserts = (one for one in parts if isinstance(one, ast.Insert) and (one.conflict or one.alternative))
    found = (engine.catalog.find(one.table) for one in inserts)
    return engine.views.tables_under(entry.name for entry in found if entry is not None)


def _prepared(engine: Engine, statement: Execute) -> list[ast.Statement]:
    prepared = engine.prepared.find(engine, statement.name)
    return [] if prepared is None else parse(prepared.text)


def _changed(engine: Engine, tables: frozenset[str], since: int) -> list[str]:
    assert engine.changed is not None
    return [name for name in sorted(tables) if engine.changed.get(name, 0) > since]


def _keys(entry: TableEntry) -> list[tuple[int, ...]]:
    """The columns that no two rows of a table have the same in."""
    names = [name.lower() for name in entry.schema.names]
    uniques = (tuple(names.index(one.lower()) for one in key.columns) for key in entry.constraints.uniques)
    return [key for key in (entry.schema.primary_key, *uniques) if key]


def _rows(words: Words, columns: tuple[int, ...]) -> set[tuple[int, ...]]:
    chosen = words[list(columns)]
    return set(zip(*chosen[:, (chosen != NULL).all(axis=0)].tolist(), strict=True))


def _is_known(engine: Engine, name: str, since: int) -> bool:
    entry = engine.catalog.entries.get(name.lower())
    if isinstance(entry, TableEntry):
        return engine.executor.tells(entry.name, since)
    return not isinstance(entry, ViewEntry) or entry.definition is not None
