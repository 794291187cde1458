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
from kpg.compiler.sql.frontend import input_relations
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import (
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
    Utility,
)
from kpg.runtime.errors import DataError, InterfaceError, NotSupportedError, SerializationError
from kpg.runtime.types import NULL
from kpg.session.engine import Engine
from kpg.session.setting_values import ISOLATION
from kpg.session.transaction import State, Transactions


class Snapshots:
    """History of tables that transactions with a snapshot need."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._holders: Counter[int] = Counter()
        self._kept_since: int | None = None
        self._numbers = count(1)
        self.exported_epochs: dict[str, int] = {}
        """Epochs of exported snapshots of running transactions, by name."""

    def hold(self) -> int:
        """Keep the present epoch and return it. There must be no pending changes."""
        engine = self._engine
        epoch = engine.executor.epoch
        self._holders[epoch] += 1
        if engine.history is not None:
            engine.history.pinned_epochs = self._holders
        elif self._kept_since is None:
            engine.executor.enable_history()
            self._kept_since = epoch
        return epoch

    def share(self, epoch: int) -> int:
        """Keep an epoch that another transaction holds."""
        self._holders[epoch] += 1
        return epoch

    def export(self, epoch: int) -> str:
        """Return a new name for an epoch that a transaction holds."""
        name = f"{epoch:08X}-{next(self._numbers):08X}-1"
        self.exported_epochs[name] = epoch
        return name

    def release(self, epoch: int) -> None:
        """Drop one transaction's hold on an epoch."""
        self._holders[epoch] -= 1
        if not self._holders[epoch]:
            del self._holders[epoch]

    def drop_unneeded(self) -> None:
        """Drop the history that no transaction needs, unless changes are pending."""
        if self._kept_since is None:
            return
        first = min(self._holders, default=None)
        if (first is not None and first <= self._kept_since) or self._engine.executor.tables.has_pending:
            return
        if first is None:
            self._engine.executor.disable_history()
        else:
            self._engine.executor.drop_history_before(first)
        self._kept_since = first


Words = NDArray[np.int64]


class Isolation(enum.Enum):
    """Isolation levels; the values are SQL's names."""

    READ_COMMITTED = "read committed"
    REPEATABLE_READ = "repeatable read"
    SERIALIZABLE = "serializable"


LEVEL: Final = re.compile(
    r"isolation\s+level\s+(serializable|repeatable\s+read|read\s+committed|read\s+uncommitted)", re.IGNORECASE
)
DEFAULT: Final = "default_transaction_isolation"


def parse_level(text: str) -> Isolation | None:
    """Return the level that a text names. READ UNCOMMITTED is READ COMMITTED, as in Postgres."""
    found = LEVEL.search(text) if "solation" in text.lower() else None
    if found is None:
        return None
    name = " ".join(found[1].lower().split()).replace("uncommitted", "committed")
    return Isolation(name)


def apply_isolation_level(
    isolation: "TransactionIsolation",
    transactions: Transactions,
    statement: ast.Statement,
    settings: dict[str, str],
) -> None:
    """Apply the isolation level that a BEGIN or SET statement names, before it runs."""
    text = statement.span.source[statement.span.start : statement.span.end]
    level = parse_level(text)
    if isinstance(statement, ast.Begin):
        if transactions.state is not State.NONE:
            if level is not None and transactions.state is State.OPEN:
                isolation.begin_at(level)
            return
        default = settings.get(DEFAULT, "")
        level_names = {isolation_level.value for isolation_level in Isolation}
        isolation.begin_at(level or Isolation(default if default in level_names else "read committed"))
    elif level is not None and text.lower().split()[:2] == ["set", "session"]:
        settings[DEFAULT] = level.value
    elif level is not None and text.lower().startswith("set"):
        isolation.begin_at(level)


class TransactionIsolation:
    """Isolation level of a session's transaction, its snapshot, and the relations that it has read."""

    def __init__(
        self,
        transactions: Transactions,
        snapshots: Snapshots,
        settings: dict[str, str],
        has_changes: Callable[[], bool],
    ) -> None:
        """Create the state of a session; ``has_changes`` returns whether changes are pending."""
        self._transactions = transactions
        self._snapshots = snapshots
        self._settings = settings
        self._has_changes = has_changes
        self.level = Isolation.READ_COMMITTED
        self._snapshot: int | None = None
        self._transaction_number = 0
        """Transaction of the snapshot: COMMIT AND CHAIN begins another one immediately."""
        self._tables_read: frozenset[str] = frozenset()
        self._exported_name = ""

    def set_level(self, name: str) -> None:
        """SET transaction_isolation. Outside of a transaction it ends with the statement."""
        self.begin_at(Isolation(name.replace("uncommitted", "committed")))

    def begin_at(self, level: Isolation) -> None:
        """Set the isolation level of the transaction; an error after its first query."""
        if self._snapshot is not None or (self._transactions.state is State.OPEN and self._has_changes()):
            error = InterfaceError("the isolation level must be set before any query of the transaction")
            error.sqlstate = "25001"
            raise error
        self.level = level
        self._settings[ISOLATION] = level.value
        self._tables_read = frozenset()

    def end_snapshot(self) -> None:
        """Release the snapshot of a finished transaction."""
        if self._snapshot is not None and (
            self._transactions.state is State.NONE or self._transactions.number != self._transaction_number
        ):
            self._snapshots.release(self._snapshot)
            self._snapshots.exported_epochs.pop(self._exported_name, None)
            self._snapshot, self._exported_name = None, ""
            self._tables_read = frozenset()
        if self._transactions.state is State.NONE and self.level is not Isolation.READ_COMMITTED:
            self.level = Isolation.READ_COMMITTED
            self._settings[ISOLATION] = self.level.value

    def export_snapshot(self) -> str:
        """Return the name by which other transactions can import the snapshot while this one runs."""
        if self._has_changes():
            raise NotSupportedError("a transaction that has changed something exports no snapshot")
        if self._snapshot is None:
            self._snapshot, self._transaction_number = self._snapshots.hold(), self._transactions.number
        self._exported_name = self._exported_name or self._snapshots.export(self._snapshot)
        return self._exported_name

    def import_snapshot(self, name: str) -> None:
        """Use the snapshot that another transaction has exported."""
        if self.sees_latest:
            raise NotSupportedError(
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ"
            )
        if self._snapshot is not None:
            error = InterfaceError("SET TRANSACTION SNAPSHOT must be called before any query")
            error.sqlstate = "25001"
            raise error
        epoch = self._snapshots.exported_epochs.get(name)
        if epoch is None:
            raise DataError(f'invalid snapshot identifier: "{name}"')
        self._snapshot, self._transaction_number = self._snapshots.share(epoch), self._transactions.number

    @property
    def sees_latest(self) -> bool:
        """Whether each statement sees the last commit."""
        return self.level is Isolation.READ_COMMITTED or self._transactions.state is not State.OPEN

    def snapshot_for(self, engine: Engine, statement: ast.Statement) -> int | None:
        """Return the epoch that a statement sees, None for the present one; record the tables that it reads.

        Raises SerializationError and rolls back if the snapshot is not available or COMMIT is refused.
        """
        if self.sees_latest or isinstance(statement, SNAPSHOT_FREE):
            return None
        if isinstance(statement, ast.Commit):
            self._check_commit(engine)
            return None
        if self._snapshot is None:
            self._snapshot, self._transaction_number = self._snapshots.hold(), self._transactions.number
        tables = _relations_read(engine, statement)
        self._tables_read |= tables
        tables |= _conflict_tables(engine, statement)
        if not _changed_tables(engine, tables, self._snapshot):
            return None
        for name in sorted(tables):
            if not _has_history(engine, name, self._snapshot):
                with self._transactions.failing_on_error():
                    raise SerializationError(
                        f'could not serialize access: what "{name}" was is not known any more'
                    )
        return self._snapshot

    def check_keys(self, engine: Engine) -> None:
        """Raise SerializationError if a new row has the key of a row that was deleted after the snapshot.

        Otherwise the transaction would see two rows with one key.
        """
        snapshot = self._snapshot
        if snapshot is None or self.sees_latest or engine.last_change_epochs is None:
            return
        for name, _, inserted, words in engine.executor.tables.changes_since(None):
            if (
                not inserted.size
                or engine.last_change_epochs.get(name, 0) <= snapshot
                or not _has_history(engine, name, snapshot)
            ):
                continue
            deleted = engine.executor.tables.fetch(
                name, engine.executor.tables.changes_after(name, snapshot)[0]
            )
            entry = engine.catalog.entries[name.lower()]
            assert isinstance(entry, TableEntry)
            for columns in _unique_keys(entry):
                if _key_values(words, columns) & _key_values(deleted, columns):
                    with self._transactions.failing_on_error():
                        raise SerializationError(
                            f'could not serialize access due to concurrent deletion in table "{name}"'
                        )

    def check_rows_unchanged(self, engine: Engine, name: str, rowids: NDArray[np.int64]) -> None:
        """Raise SerializationError if one of the rows was written after the snapshot."""
        snapshot = self._snapshot
        if snapshot is None or self.sees_latest or engine.last_change_epochs is None or not rowids.size:
            return
        if engine.last_change_epochs.get(name, 0) <= snapshot or not _has_history(engine, name, snapshot):
            return
        own_inserts = [
            inserted for table, _, inserted, _ in engine.executor.tables.changes_since(None) if table == name
        ]
        others = rowids[~np.isin(rowids, np.concatenate(own_inserts))] if own_inserts else rowids
        if np.isin(others, engine.executor.tables.changes_after(name, snapshot)[1]).any():
            with self._transactions.failing_on_error():
                raise SerializationError("could not serialize access due to concurrent update")

    def _check_commit(self, engine: Engine) -> None:
        if (
            self.level is not Isolation.SERIALIZABLE
            or self._snapshot is None
            or not engine.executor.tables.has_pending
        ):
            return
        changed = _changed_tables(engine, self._tables_read, self._snapshot)
        if changed:
            self._transactions.rollback()
            raise SerializationError(
                f'could not serialize access: table "{changed[0]}", which was read, was changed'
            )


SNAPSHOT_FREE: Final = (
    *(ast.Begin, ast.Rollback, Savepoint, Set, SetTransaction, Show, Prepare, Deallocate),
    *(SetConstraints, Utility, LockTable),
)
"""Statements that read no data."""


def _relations_read(engine: Engine, statement: ast.Statement) -> frozenset[str]:
    """Return the relations that a statement reads, and the tables below them."""
    if isinstance(statement, Execute):
        return frozenset().union(
            *(
                _relations_read(engine, prepared_statement)
                for prepared_statement in _parse_prepared(engine, statement)
            )
        )
    if isinstance(statement, Fetch):
        return frozenset()
    if engine.catalog.routines:
        # SQL functions may read any relation.
        return frozenset(entry.name for entry in engine.catalog)
    return engine.views.relations_under(input_relations(statement, engine.catalog))


def _conflict_tables(engine: Engine, statement: ast.Statement) -> frozenset[str]:
    """Return the tables in which ON CONFLICT looks for conflicting rows.

    They do not count as read: later changes of such a row are detected when it is updated.
    """
    if isinstance(statement, Execute):
        return frozenset().union(
            *(_conflict_tables(engine, one) for one in _parse_prepared(engine, statement))
        )
    parts = (
        (*(part for _, _, part in statement.with_queries), statement.main)
        if isinstance(statement, ast.ModifyingWith)
        else (statement,)
    )
    inserts = (one for one in parts if isinstance(one, ast.Insert) and (one.conflict or one.alternative))
    found = (engine.catalog.find(one.table) for one in inserts)
    return engine.views.relations_under(entry.name for entry in found if entry is not None)


def _parse_prepared(engine: Engine, statement: Execute) -> list[ast.Statement]:
    prepared = engine.prepared_statements.find(engine, statement.name)
    return [] if prepared is None else parse(prepared.text)


def _changed_tables(engine: Engine, tables: frozenset[str], snapshot: int) -> list[str]:
    assert engine.last_change_epochs is not None
    return [name for name in sorted(tables) if engine.last_change_epochs.get(name, 0) > snapshot]


def _unique_keys(entry: TableEntry) -> list[tuple[int, ...]]:
    """Return the column sets in which no two rows of a table are equal."""
    names = [name.lower() for name in entry.schema.names]
    uniques = (
        tuple(names.index(column.lower()) for column in key.columns) for key in entry.constraints.uniques
    )
    return [key for key in (entry.schema.primary_key, *uniques) if key]


def _key_values(words: Words, columns: tuple[int, ...]) -> set[tuple[int, ...]]:
    key_words = words[list(columns)]
    return set(zip(*key_words[:, (key_words != NULL).all(axis=0)].tolist(), strict=True))


def _has_history(engine: Engine, name: str, snapshot: int) -> bool:
    entry = engine.catalog.entries.get(name.lower())
    if isinstance(entry, TableEntry):
        return engine.executor.tables.is_known_at(entry.name, snapshot)
    return not isinstance(entry, ViewEntry) or entry.definition is not None
