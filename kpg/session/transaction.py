"""Transactions: when pending changes become one epoch, and when they are discarded.

Outside a transaction block each statement is a transaction. An error inside a block rolls the transaction
back at once. Later statements are refused until the block ends, so a part of it can never commit. Inside a
batch, epochs are only closed; one physical step takes all of them at its end.
"""

import enum
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from kpg.runtime.errors import InterfaceError, SerializationError, WaitRequest
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.monitor import Monitor
from kpg.session.undo import SettingChanges

if TYPE_CHECKING:
    from kpg.session import channels as mailboxes
    from kpg.session.channels import Channels, Mailbox
else:
    mailboxes = LazyModule("kpg.session.channels")


class TransactionHost(Protocol):
    """The members of the engine that transactions use."""

    def finish_constraints(self, *, committing: bool) -> object:
        """Run foreign key actions and checks; deferred keys are checked only when committing."""

    def step(self) -> object:
        """Run a step over all pending changes; if it raises, undo them."""

    def close_epoch(self) -> object:
        """Close the epoch without a step."""

    def rollback(self) -> object:
        """Discard all pending changes."""

    def savepoint(self) -> Any:
        """Return the present state, for :meth:`rollback_to`."""

    def rollback_to(self, point: Any) -> object:
        """Discard the changes since a savepoint."""


class ReleasableLocks(Protocol):
    """The locks of a transaction."""

    def end_block(self, depth: int) -> None:
        """Release the locks of savepoint depth ``depth`` or deeper."""

    def release_savepoint(self, target_depth: int) -> None:
        """Merge the locks of a savepoint into the enclosing one."""


class CommitGroup(Protocol):
    """A group of sessions whose commits share a step."""

    @property
    def is_running(self) -> bool:
        """Whether a commit only closes the epoch, and the step follows later."""

    def undo_statement(self) -> None:
        """Undo the changes of the current statement only."""


def _no_block_error(command: str) -> InterfaceError:
    error = InterfaceError(
        f"{command} can only be used in transaction blocks", hint="start a transaction with BEGIN"
    )
    error.sqlstate = "25P01"
    return error


class State(enum.Enum):
    """State of a transaction."""

    NONE = "no transaction"
    OPEN = "open"
    FAILED = "rolled back by an error"


class Transactions:
    """The transaction and the batch of one session, at most one of each at a time."""

    check_rows_unchanged: Callable[[str, Any], None] | None = (
        None  # refuses rowids that came after its snapshot
    )
    set_isolation_level: Callable[[str], None] | None = None  # None without sessions

    def __init__(
        self, engine: TransactionHost, on_commit: Callable[[], None], group: CommitGroup | None = None
    ) -> None:
        """Create the state; ``group`` is the group in which commits may share a step."""
        self._engine = engine
        self._group = group
        self._on_commit = on_commit
        self._batch = State.NONE
        self.state = State.NONE
        self.number = 0
        """Number of the current transaction."""
        self._savepoints: list[tuple[str, Any]] = []
        self.lost_savepoints: set[str] = set()
        """Savepoints of a failed transaction whose earlier changes conflict with other sessions' changes."""
        self.setting_changes = SettingChanges()
        self.mailbox: Mailbox | None = None  # created on first use
        self.is_implicit = False
        """Whether the open transaction consists of pipelined statements without BEGIN."""
        self.is_read_only = False
        """Whether changes are refused."""
        self._default_read_only = False
        self.locks: ReleasableLocks | None = None  # held until the transaction ends
        self._failing_on_error = FailOnError(self)
        self._reading = StatementBlock(self, changes=False)
        self._changing = StatementBlock(self, changes=True)
        self._block = TransactionBlock(self)

    @property
    def is_idle(self) -> bool:
        """Whether there is no transaction, no batch and no running commit group."""
        alone = self.state is State.NONE and self._batch is State.NONE
        return alone and (self._group is None or not self._group.is_running)

    @property
    def in_batch(self) -> bool:
        """Whether a batch is open."""
        return self._batch is not State.NONE

    def check_not_failed(self) -> None:
        """Raise InterfaceError if an earlier error has ended the transaction or the batch."""
        if self.state is State.FAILED:
            raise InterfaceError(
                "the transaction was rolled back by an earlier error",
                hint="end it (ROLLBACK, or leave the with block) and start again",
                sqlstate="25P02",
            )
        if self._batch is State.FAILED:
            raise InterfaceError(
                "the batch was rolled back by an earlier error",
                hint="leave the with block and start again",
                sqlstate="25P02",
            )

    def begin(self) -> None:
        """Start a transaction; InterfaceError inside one."""
        self.lost_savepoints = set()
        self.check_not_failed()
        if self.state is not State.NONE:
            raise InterfaceError(
                "a transaction is already open",
                hint="transactions do not nest: commit first",
                sqlstate="25001",
            )
        self.state = State.OPEN
        self.number += 1
        self.is_read_only = self._default_read_only
        self._savepoints.clear()

    def commit(self) -> None:
        """Commit the transaction as one epoch, all or nothing."""
        if self.state is State.NONE:
            raise InterfaceError("there is no transaction to commit", hint="start one with BEGIN")
        # Not ``with self._failing_on_error``: Ctrl-C before it would leave changes for the next commit.
        try:
            self.check_not_failed()
            self._engine.finish_constraints(committing=True)
            self.state = State.NONE
            self.is_implicit = False
            self._savepoints.clear()
            self.end_local()
            self.end_epoch()
            self.setting_changes.commit()
            self.send_messages()
        except WaitRequest:
            raise  # before anything is over: foreign keys act on a row that somebody else has locked
        except BaseException:
            before, self.state = self.state, State.NONE
            self.is_implicit = False
            if self._savepoints:
                self._savepoints.clear()
                self._engine.rollback()
            if before is not State.FAILED:
                self.roll_back_and_fail()
            self._revert_to_depth(0)
            self.end_local()
            raise
        self.notify_listeners()

    def rollback(self) -> None:
        """Roll back the transaction, and within a batch the batch."""
        if self.state is State.NONE:
            raise InterfaceError("there is no transaction to roll back", hint="start one with BEGIN")
        if self._savepoints:
            self._savepoints.clear()
            self._engine.rollback()
        if self.state is State.OPEN:
            self.roll_back_and_fail()
        self.state = State.NONE
        self.is_implicit = False
        self.end_local()
        self._revert_to_depth(0)

    def abandon(self, *, current: bool) -> None:
        """End a transaction whose changes are swapped out; ``current`` if its session has the engine."""
        self._savepoints.clear()
        self.state = State.NONE
        self.is_implicit = False
        self.is_read_only = self._default_read_only
        if current:
            self.end_local()
            self.setting_changes.rollback_to(0)
        self.release_locks()
        if self.mailbox:
            self.mailbox.discard(0)

    def end_local(self) -> None:
        """Revert settings that are local to the transaction, and release its locks."""
        self.is_read_only = self._default_read_only
        self.setting_changes.end_local()
        self.release_locks()

    def release_locks(self) -> None:
        """Release the transaction's locks."""
        locks, self.locks = self.locks, None
        if locks is not None:
            locks.end_block(0)

    def set_default_read_only(self, *, default: bool) -> None:
        """Set whether later transactions are READ ONLY by default."""
        self._default_read_only = default
        if self.state is State.NONE:
            self.is_read_only = default

    def begin_block(self, warn: "Callable[[str, str], object]") -> None:
        """Run BEGIN: pipelined statements before it become part of the transaction."""
        if self.state is not State.OPEN:
            self.begin()
        elif not self.is_implicit:
            warn("there is already a transaction in progress", "25001")
        self.is_implicit = False

    def end_block(self, warn: "Callable[[str, str], object]", *, commit: bool, chain: bool = False) -> None:
        """Run COMMIT or ROLLBACK as in Postgres, also without a transaction; with ``chain`` begin another."""
        if self._block.is_open:
            raise InterfaceError(
                f"{'COMMIT' if commit else 'ROLLBACK'} cannot end the transaction of a block",
                hint="leave the block: it commits at its end, and rolls back if it raises",
            )
        no_block = self.is_implicit or self.state is State.NONE
        reads = self.is_read_only
        if chain and no_block:
            raise _no_block_error(f"{'COMMIT' if commit else 'ROLLBACK'} AND CHAIN")
        if no_block:
            warn("there is no transaction in progress", "25P01")
        if self.state is State.OPEN and commit:
            self.commit()
        elif self.state is not State.NONE:
            self.rollback()
        if chain:
            self.begin()
            self.is_read_only = reads

    def get_mailbox(self, channels: "Channels") -> "Mailbox":
        """Return the session's mailbox."""
        if self.mailbox is None:
            self.mailbox = mailboxes.Mailbox(channels)
        return self.mailbox

    def send_messages(self) -> None:
        """Send pending NOTIFY messages, unless a transaction is open."""
        if self.mailbox and self.state is State.NONE:
            self.mailbox.commit()

    @property
    def savepoints(self) -> list[tuple[str, Any]]:
        """The savepoints, oldest first."""
        return self._savepoints

    @savepoints.setter
    def savepoints(self, points: list[tuple[str, Any]]) -> None:
        self._savepoints = points

    @property
    def depth(self) -> int:
        """Number of savepoints."""
        return len(self._savepoints)

    def savepoint(self, name: str) -> None:
        """Run SAVEPOINT."""
        self.check_not_failed()
        if self.state is State.NONE or self.is_implicit:
            raise _no_block_error("SAVEPOINT")
        self._savepoints.append((name.lower(), self._engine.savepoint()))

    def rollback_to(self, name: str) -> None:
        """Run ROLLBACK TO SAVEPOINT, also after an error; the savepoint remains.

        Raises SerializationError if another session has changed rows that were changed before the
        savepoint.
        """
        lost, self.lost_savepoints = self.lost_savepoints, set()
        if self.state is State.FAILED and name.lower() in lost:
            self.lost_savepoints = lost
            raise SerializationError(
                f'could not serialize access due to concurrent update of what came before savepoint "{name}"'
            )
        index = self._find_savepoint(name)
        self._engine.rollback_to(self._savepoints[index][1])
        del self._savepoints[index + 1 :]
        self.state = State.OPEN
        self._revert_to_depth(index + 1)

    def release_savepoint(self, name: str) -> None:
        """Run RELEASE SAVEPOINT."""
        self.check_not_failed()
        index = self._find_savepoint(name, "RELEASE SAVEPOINT")
        del self._savepoints[index:]
        self.setting_changes.release(index)
        if self.locks is not None:
            self.locks.release_savepoint(index)
        if self.mailbox:
            self.mailbox.release(index)

    def _find_savepoint(self, name: str, command: str = "ROLLBACK TO SAVEPOINT") -> int:
        if self.state is State.NONE or self.is_implicit:
            raise _no_block_error(command)
        for index in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[index][0] == name.lower():
                return index
        raise InterfaceError(f'savepoint "{name}" does not exist', sqlstate="3B001")

    def roll_back_and_fail(self) -> None:
        """Roll back after an error; an open transaction or batch stays failed until its end.

        A transaction is rolled back to its last savepoint, so that earlier ones can still be returned to.
        Changes of other jobs of a commit group remain.
        """
        if self._group is not None and self._group.is_running:
            self._group.undo_statement()
            self._savepoints.clear()
            if self.state is State.OPEN:
                self.state = State.FAILED
            return
        if self._savepoints and self.state is not State.NONE:
            self._engine.rollback_to(self._savepoints[-1][1])
        else:
            self._engine.rollback()
        self._revert_to_depth(len(self._savepoints) if self.state is not State.NONE else 0)
        if self.state is State.OPEN:
            self.state = State.FAILED
        if self._batch is State.OPEN:
            self._batch = State.FAILED

    def _revert_to_depth(self, depth: int) -> None:
        """Revert settings, messages and locks of savepoint ``depth`` and deeper."""
        self.setting_changes.rollback_to(depth)
        if self.mailbox:
            self.mailbox.discard(depth)
        if self.locks is not None:
            self.locks.end_block(depth)

    def survives(self, exception_type: object) -> bool:
        """Whether an open transaction continues after an exception, as a suspended statement does."""
        return exception_type is WaitRequest and self.state is State.OPEN

    def statement(self, changes: bool) -> "StatementBlock":
        """Return a block for one statement; with ``changes`` it commits outside of a transaction."""
        return self._changing if changes else self._reading

    def transaction(self) -> "TransactionBlock":
        """Return a block that commits at its end, or rolls back if it raises."""
        return self._block

    def failing_on_error(self) -> "FailOnError":
        """Return a block that fails the transaction if it raises."""
        return self._failing_on_error

    @contextmanager
    def substatements(self) -> Iterator[None]:
        """Run the statements of the block as parts of the current statement, which commits them."""
        alone = self.state is State.NONE
        if alone:
            self.begin()
        try:
            yield
        except BaseException:
            if alone and self.state is not State.NONE:
                self.rollback()
            raise
        if alone:
            self.state = State.NONE
            self.end_local()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Run the transactions of the block in one step at its end."""
        self.check_not_failed()
        if not self.is_idle:
            raise InterfaceError("a batch cannot start inside a transaction or another batch")
        self._batch = State.OPEN
        try:
            yield
            if self.state is not State.NONE:
                raise InterfaceError("the batch ends inside a transaction", hint="COMMIT first")
            self.check_not_failed()
            self._batch = State.NONE
            self.end_epoch()
        except BaseException:
            self.roll_back_and_fail()
            raise
        finally:
            self._batch = State.NONE
            self.state = State.NONE
        self.notify_listeners()

    def finish_constraints(self, *, committing: bool) -> None:
        """Run foreign key actions and checks; see :meth:`TransactionHost.finish_constraints`."""
        self._engine.finish_constraints(committing=committing)

    def end_epoch(self) -> None:
        """End the epoch by a step; in a batch or a commit group, without a step."""
        if self._batch is State.OPEN or (self._group is not None and self._group.is_running):
            self._engine.close_epoch()
        else:
            self._engine.step()

    def commit_epoch(self) -> None:
        """End the epoch and notify listeners."""
        self.end_epoch()
        self.notify_listeners()

    def notify_listeners(self) -> None:
        """Notify the listeners of a commit, whose exceptions do not affect it; a group does so later."""
        if self._batch is not State.OPEN and (self._group is None or not self._group.is_running):
            self._on_commit()


# Context managers are classes with one instance per session: a generator takes 1 us more each time.


class FailOnError:
    """See :meth:`Transactions.failing_on_error`."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None and not self._transactions.survives(kind):
            self._transactions.roll_back_and_fail()


class StatementBlock:
    """See :meth:`Transactions.statement`."""

    __slots__ = ("_changes", "_transactions")

    def __init__(self, transactions: Transactions, *, changes: bool) -> None:
        self._transactions = transactions
        self._changes = changes

    def __enter__(self) -> None:
        self._transactions.check_not_failed()
        if self._changes and self._transactions.is_read_only:
            self._transactions.roll_back_and_fail()
            error = InterfaceError("cannot change anything in a read-only transaction")
            error.sqlstate = "25006"
            raise error

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        transactions = self._transactions
        if kind is not None:
            if not transactions.survives(kind):
                transactions.roll_back_and_fail()
            return
        if not self._changes:
            return
        alone = transactions.state is State.NONE
        try:
            transactions.finish_constraints(committing=alone)
            if alone:
                transactions.end_epoch()
        except BaseException as raised:
            if not transactions.survives(type(raised)):
                transactions.roll_back_and_fail()
            raise
        if alone:
            transactions.notify_listeners()


class MonitorBlock:
    """A block that holds the monitor from its beginning to its end."""

    __slots__ = ("_block", "_make", "_monitor", "_outermost", "_swap_in")

    def __init__(
        self,
        monitor: Monitor,
        swap_in: Callable[[], object],
        make: "Callable[[], AbstractContextManager[None]]",
    ) -> None:
        """Wrap a block, which ``make`` creates at its start; ``swap_in`` swaps in the default session."""
        self._monitor = monitor
        self._swap_in = swap_in
        self._make = make

    def __enter__(self) -> None:
        self._outermost = self._monitor.enter()
        try:
            self._swap_in()
            self._block = self._make()
            self._block.__enter__()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        self._monitor.check_inside()
        try:
            try:
                self._swap_in()
            except BaseException as refused:
                self._block.__exit__(type(refused), refused, refused.__traceback__)
                raise
            return self._block.__exit__(kind, error, trace)
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._outermost:
            self._monitor.leave()


class TransactionBlock:
    """See :meth:`Transactions.transaction`."""

    __slots__ = ("_transactions", "is_open")

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.is_open = False

    def __enter__(self) -> None:
        self._transactions.begin()
        self.is_open = True

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.is_open = False
        if kind is None:
            self._transactions.commit()
        elif self._transactions.state is not State.NONE:
            self._transactions.rollback()
