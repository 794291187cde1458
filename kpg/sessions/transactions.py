"""The transaction of a session: as any, except that its commit may share a step with others'."""

from collections.abc import Callable
from typing import Protocol

from kpg.engine.engine import Engine
from kpg.engine.transaction import State, Transactions
from kpg.runtime.errors import SerializationError
from kpg.sessions.parking import Segment


class Gathering(Protocol):
    """Where commits may wait for each other."""

    @property
    def gathering(self) -> bool:
        """Whether a commit ends an epoch only, and the step comes later."""

    def undo_statement(self) -> None:
        """Throw away what the present statement has changed, and nothing of others."""


class SessionTransactions(Transactions):
    """Transactions of one of many sessions."""

    def __init__(self, engine: Engine, committed: Callable[[], None], group: Gathering) -> None:
        super().__init__(engine, committed)
        self._group = group
        self.parked: list[Segment] | None = None
        self.lost: set[str] = set()
        """Savepoints of a failed transaction after which others have changed what it changed before them."""

    @property
    def idle(self) -> bool:
        """Whether no transaction is open; while commits are gathered, definitions must not be made."""
        return super().idle and not self._group.gathering

    def end_epoch(self) -> None:
        """End the epoch: with a step, or, while commits are gathered, without."""
        if self._group.gathering:
            self._engine.close_epoch()
        else:
            super().end_epoch()

    def tell(self) -> None:
        """See Transactions. While commits are gathered, the group tells of them after their step."""
        if not self._group.gathering:
            super().tell()

    def fail(self) -> None:
        """Roll back after an error; what others have gathered stays."""
        if self._group.gathering:
            self._group.undo_statement()
            self._points.clear()
            if self.state is State.OPEN:
                self.state = State.FAILED
            return
        super().fail()

    def begin(self) -> None:
        """See Transactions."""
        self.lost = set()
        super().begin()

    def rollback_to(self, name: str) -> None:
        """Return to a savepoint; SerializationError if what came before it cannot be."""
        lost, self.lost = self.lost, set()
        if self.state is State.FAILED and name.lower() in lost:
            self.lost = lost
            raise SerializationError(
                f'could not serialize access due to concurrent update of what came before savepoint "{name}"'
            )
        super().rollback_to(name)

    def abandon(self) -> None:
        """End the transaction, whose changes are in no table now."""
        self.parked = None
        self._points.clear()
        self.state = State.NONE
        self.implicit = False
        self.read_only = self._reads_only
        if self._engine.transactions is self:  # type: ignore[attr-defined]
            self.end_local()
            self.settled.forget(0)
        self.release_locks()
        if self.mailbox:
            self.mailbox.forget(0)
