"""Transactions: when pending changes become one epoch, and when they are discarded.

Outside a transaction block each statement is a transaction. An error inside a block rolls the transaction
back at once. Later statements are refused until the block ends, so a part of it can never commit. Inside a
batch, epochs are only closed; one physical step takes all of them at its end.
"""

import enum
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from kpg.gc_pause import LazyModule
from kpg.runtime.errors import InterfaceError, SerializationError, Waiting
from kpg.runtime.monitor import Monitor
from kpg.session.undo import Settled

if TYPE_CHECKING:
    from kpg.session import channels as mailboxes
    from kpg.session.channels import Channels, Mailbox
else:
    mailboxes = LazyModule("kpg.session.channels")


class Stepper(Protocol):
    """What a transaction needs of the engine."""

    def settle(self, *, committing: bool) -> object:
        """Act on foreign keys, and check them, those that are deferred only when committing."""

    def step(self) -> object:
        """Take all pending changes through the dataflow as one physical batch; if it raises, undo them."""

    def close_epoch(self) -> object:
        """End a logical epoch without a step."""

    def rollback(self) -> object:
        """Throw away what is pending."""

    def savepoint(self) -> Any:
        """The present state, for :meth:`rollback_to`."""

    def rollback_to(self, point: Any) -> object:
        """Throw away what has changed since a savepoint."""


class HeldLocks(Protocol):
    """The locks that a transaction holds."""

    def end(self, least: int) -> None:
        """Release the locks taken since the savepoint of this number."""

    def release(self, place: int) -> None:
        """Merge the locks of the savepoint of this number into the enclosing savepoint."""


class Gathering(Protocol):
    """Where commits of sessions may wait for each other."""

    @property
    def gathering(self) -> bool:
        """Whether a commit ends an epoch only, and the step comes later."""

    def undo_statement(self) -> None:
        """Throw away what the present statement has changed, and nothing of others."""


def _needing(what: str) -> InterfaceError:
    """The error of what stands in transactions only."""
    error = InterfaceError(
        f"{what} can only be used in transaction blocks", hint="start a transaction with BEGIN"
    )
    error.sqlstate = "25P01"
    return error


class State(enum.Enum):
    """Where a transaction stands."""

    NONE = "no transaction"
    OPEN = "open"
    FAILED = "rolled back by an error"


class Transactions:
    """The transaction and the batch of one database, at most one of each at a time."""

    check_seen: Callable[[str, Any], None] | None = None  # refuses rowids that came after its snapshot
    isolate: Callable[[str], None] | None = None  # sets what it sees of others, if there are any

    def __init__(
        self, engine: Stepper, committed: Callable[[], None], group: Gathering | None = None
    ) -> None:
        """``group`` is where commits of a session may share a step."""
        self._engine = engine
        self._group = group
        self._committed = committed
        self._batch = State.NONE
        self.state = State.NONE
        self.begun = 0
        """How many transactions there have been: the number of the present one."""
        self._points: list[tuple[str, Any]] = []
        self.lost: set[str] = set()
        """Savepoints of a failed transaction after which others have changed what it changed before them."""
        self.settled = Settled()
        self.mailbox: Mailbox | None = None  # what is to be said at the commit, if anybody has said anything
        self.implicit = False
        """Whether the open transaction is one only because its statements came together."""
        self.read_only = False
        """Whether changes are refused."""
        self._reads_only = False
        self.locks: HeldLocks | None = None  # the advisory locks that are held until its end
        self._undoing = Undoing(self)
        self._reading = Statement(self, changes=False)
        self._changing = Statement(self, changes=True)
        self._block = Block(self)

    @property
    def idle(self) -> bool:
        """Neither in a transaction nor in a batch, and no commits are gathered."""
        alone = self.state is State.NONE and self._batch is State.NONE
        return alone and (self._group is None or not self._group.gathering)

    @property
    def in_batch(self) -> bool:
        """Whether a batch is open."""
        return self._batch is not State.NONE

    def check(self) -> None:
        """Raise InterfaceError if an earlier error has ended the transaction or the batch."""
        if self.state is State.FAILED:
            raise InterfaceError(
                "the transaction was rolled back by an earlier error",
                hint="end it (ROLLBACK, or leave the with block) and start again",
            )
        if self._batch is State.FAILED:
            raise InterfaceError(
                "the batch was rolled back by an earlier error", hint="leave the with block and start again"
            )

    def begin(self) -> None:
        """Start a transaction; raises InterfaceError inside one."""
        self.lost = set()
        self.check()
        if self.state is not State.NONE:
            raise InterfaceError(
                "a transaction is already open", hint="transactions do not nest: commit first"
            )
        self.state = State.OPEN
        self.begun += 1
        self.read_only = self._reads_only
        self._points.clear()

    def commit(self) -> None:
        """Make the transaction's changes one epoch, all or nothing."""
        if self.state is State.NONE:
            raise InterfaceError("there is no transaction to commit", hint="start one with BEGIN")
        # Not ``with self._undoing``: Ctrl-C before that is entered would leave changes to the next commit.
        try:
            self.check()
            self._engine.settle(committing=True)
            self.state = State.NONE
            self.implicit = False
            self._points.clear()
            self.end_local()
            self.end_epoch()
            self.settled.stay()
            self.say()
        except Waiting:
            raise  # before anything is over: foreign keys act on a row that somebody else has locked
        except BaseException:
            before, self.state = self.state, State.NONE
            self.implicit = False
            if self._points:
                self._points.clear()
                self._engine.rollback()
            if before is not State.FAILED:
                self.fail()
            self._forget(0)
            self.end_local()
            raise
        self.tell()

    def rollback(self) -> None:
        """Throw away the transaction's changes, and in a batch the batch's."""
        if self.state is State.NONE:
            raise InterfaceError("there is no transaction to roll back", hint="start one with BEGIN")
        if self._points:
            self._points.clear()
            self._engine.rollback()
        if self.state is State.OPEN:
            self.fail()
        self.state = State.NONE
        self.implicit = False
        self.end_local()
        self._forget(0)

    def abandon(self, *, current: bool) -> None:
        """End the transaction, whose changes are in no table; ``current`` if its session has the engine."""
        self._points.clear()
        self.state = State.NONE
        self.implicit = False
        self.read_only = self._reads_only
        if current:
            self.end_local()
            self.settled.forget(0)
        self.release_locks()
        if self.mailbox:
            self.mailbox.forget(0)

    def end_local(self) -> None:
        """Take back what was so for the transaction only."""
        self.read_only = self._reads_only
        self.settled.end_local()
        self.release_locks()

    def release_locks(self) -> None:
        """Let go of the advisory locks of the transaction."""
        locks, self.locks = self.locks, None
        if locks is not None:
            locks.end(0)

    def reads_only(self, *, default: bool) -> None:
        """Whether transactions to come are READ ONLY if they do not say."""
        self._reads_only = default
        if self.state is State.NONE:
            self.read_only = default

    def open(self, warn: "Callable[[str, str], object]") -> None:
        """BEGIN: what has come together with it so far is a part of the transaction."""
        if self.state is not State.OPEN:
            self.begin()
        elif not self.implicit:
            warn("there is already a transaction in progress", "25001")
        self.implicit = False

    def end(self, warn: "Callable[[str, str], object]", *, commit: bool, chain: bool = False) -> None:
        """COMMIT and ROLLBACK as in Postgres, also of no transaction; with ``chain`` another one begins."""
        alone = self.implicit or self.state is State.NONE
        reads = self.read_only
        if chain and alone:
            raise _needing(f"{'COMMIT' if commit else 'ROLLBACK'} AND CHAIN")
        if alone:
            warn("there is no transaction in progress", "25P01")
        if self.state is State.OPEN and commit:
            self.commit()
        elif self.state is not State.NONE:
            self.rollback()
        if chain:
            self.begin()
            self.read_only = reads

    def box(self, channels: "Channels") -> "Mailbox":
        """The end of all channels of those whose transactions these are."""
        if self.mailbox is None:
            self.mailbox = mailboxes.Mailbox(channels)
        return self.mailbox

    def say(self) -> None:
        """Say, after a commit or outside of transactions, what is to be said."""
        if self.mailbox and self.state is State.NONE:
            self.mailbox.commit()

    @property
    def points(self) -> list[tuple[str, Any]]:
        """The savepoints, oldest first."""
        return self._points

    @points.setter
    def points(self, points: list[tuple[str, Any]]) -> None:
        self._points = points

    @property
    def depth(self) -> int:
        """How many savepoints there are."""
        return len(self._points)

    def savepoint(self, name: str) -> None:
        """Remember the present state of the transaction."""
        self.check()
        if self.state is State.NONE or self.implicit:
            raise _needing("SAVEPOINT")
        self._points.append((name.lower(), self._engine.savepoint()))

    def rollback_to(self, name: str) -> None:
        """Return to a savepoint, after an error too; it stays.

        SerializationError if others have changed what came before it.
        """
        lost, self.lost = self.lost, set()
        if self.state is State.FAILED and name.lower() in lost:
            self.lost = lost
            raise SerializationError(
                f'could not serialize access due to concurrent update of what came before savepoint "{name}"'
            )
        place = self._point(name)
        self._engine.rollback_to(self._points[place][1])
        del self._points[place + 1 :]
        self.state = State.OPEN
        self._forget(place + 1)

    def release(self, name: str) -> None:
        """Forget a savepoint and those after it."""
        self.check()
        place = self._point(name, "RELEASE SAVEPOINT")
        del self._points[place:]
        self.settled.release(place)
        if self.locks is not None:
            self.locks.release(place)
        if self.mailbox:
            self.mailbox.release(place)

    def _point(self, name: str, what: str = "ROLLBACK TO SAVEPOINT") -> int:
        if self.state is State.NONE or self.implicit:
            raise _needing(what)
        for place in range(len(self._points) - 1, -1, -1):
            if self._points[place][0] == name.lower():
                return place
        raise InterfaceError(f'savepoint "{name}" does not exist')

    def fail(self) -> None:
        """Roll back after an error; an open transaction, and an open batch, then wait for their end.

        As far as its last savepoint, if a transaction has any: the others can still be returned to.
        What others have gathered stays.
        """
        if self._group is not None and self._group.gathering:
            self._group.undo_statement()
            self._points.clear()
            if self.state is State.OPEN:
                self.state = State.FAILED
            return
        if self._points and self.state is not State.NONE:
            self._engine.rollback_to(self._points[-1][1])
        else:
            self._engine.rollback()
        self._forget(len(self._points) if self.state is not State.NONE else 0)
        if self.state is State.OPEN:
            self.state = State.FAILED
        if self._batch is State.OPEN:
            self._batch = State.FAILED

    def _forget(self, depth: int) -> None:
        """Give up what is neither rows nor definitions of since there were so many savepoints."""
        self.settled.forget(depth)
        if self.mailbox:
            self.mailbox.forget(depth)
        if self.locks is not None:
            self.locks.end(depth)

    def goes_on(self, kind: object) -> bool:
        """Whether an open transaction goes on after an error: who waits is undone, and done again, alone."""
        return kind is Waiting and self.state is State.OPEN

    def statement(self, changes: bool) -> "Statement":
        """Run one statement in the block; if it ``changes`` tables outside a transaction, commit."""
        return self._changing if changes else self._reading

    def transaction(self) -> "Block":
        """``with db.transaction():`` commits at the end, or rolls back if the block raises."""
        return self._block

    def undoing(self) -> "Undoing":
        """Roll back if the block raises."""
        return self._undoing

    @contextmanager
    def substatements(self) -> Iterator[None]:
        """Run the statements of the block as parts of the one under way, which commits them."""
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
        """``with db.batch():`` takes the transactions of the block through the dataflow in one step."""
        self.check()
        if not self.idle:
            raise InterfaceError("a batch cannot start inside a transaction or another batch")
        self._batch = State.OPEN
        try:
            yield
            if self.state is not State.NONE:
                raise InterfaceError("the batch ends inside a transaction", hint="COMMIT first")
            self.check()
            self._batch = State.NONE
            self.end_epoch()
        except BaseException:
            self.fail()
            raise
        finally:
            self._batch = State.NONE
            self.state = State.NONE
        self.tell()

    def settle(self, *, committing: bool) -> None:
        """See :meth:`Stepper.settle`."""
        self._engine.settle(committing=committing)

    def end_epoch(self) -> None:
        """End the epoch by a step; in a batch, and while commits are gathered, without a step."""
        if self._batch is State.OPEN or (self._group is not None and self._group.gathering):
            self._engine.close_epoch()
        else:
            self._engine.step()

    def close(self) -> None:
        """End the epoch, and tell those who listen."""
        self.end_epoch()
        self.tell()

    def tell(self) -> None:
        """Call the listeners of what was committed; nothing that they raise is an error of the commit.

        While commits are gathered, the group tells of them after their step.
        """
        if self._batch is not State.OPEN and (self._group is None or not self._group.gathering):
            self._committed()


# Context managers as classes, made once for a database: one made of a generator takes 1 us more each time.


class Undoing:
    """See :meth:`Transactions.undoing`."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None and not self._transactions.goes_on(kind):
            self._transactions.fail()


class Statement:
    """See :meth:`Transactions.statement`."""

    __slots__ = ("_changes", "_transactions")

    def __init__(self, transactions: Transactions, *, changes: bool) -> None:
        self._transactions = transactions
        self._changes = changes

    def __enter__(self) -> None:
        self._transactions.check()
        if self._changes and self._transactions.read_only:
            self._transactions.fail()
            error = InterfaceError("cannot change anything in a read-only transaction")
            error.sqlstate = "25006"
            raise error

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        transactions = self._transactions
        if kind is not None:
            if not transactions.goes_on(kind):
                transactions.fail()
            return
        if not self._changes:
            return
        alone = transactions.state is State.NONE
        try:
            transactions.settle(committing=alone)
            if alone:
                transactions.end_epoch()
        except BaseException as raised:
            if not transactions.goes_on(type(raised)):
                transactions.fail()
            raise
        if alone:
            transactions.tell()


class Held:
    """A block that no other thread comes into: it holds the monitor from its beginning to its end."""

    __slots__ = ("_admit", "_block", "_make", "_monitor", "_outermost")

    def __init__(
        self,
        monitor: Monitor,
        admit: Callable[[], object],
        make: "Callable[[], AbstractContextManager[None]]",
    ) -> None:
        """``admit`` has the engine be the database's own; ``make`` makes the block when it begins."""
        self._monitor = monitor
        self._admit = admit
        self._make = make

    def __enter__(self) -> None:
        self._outermost = self._monitor.enter()
        try:
            self._admit()
            self._block = self._make()
            self._block.__enter__()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        self._monitor.check_inside()
        try:
            try:
                self._admit()
            except BaseException as refused:
                self._block.__exit__(type(refused), refused, refused.__traceback__)
                raise
            return self._block.__exit__(kind, error, trace)
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._outermost:
            self._monitor.leave()


class Block:
    """See :meth:`Transactions.transaction`."""

    __slots__ = ("_transactions",)

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def __enter__(self) -> None:
        self._transactions.begin()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._transactions.commit()
        elif self._transactions.state is not State.NONE:
            self._transactions.rollback()
