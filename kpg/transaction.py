"""Transactions: when pending changes become one epoch, and when they are thrown away.

Outside a transaction every statement is one. An error inside a transaction rolls it back at once; what
follows is refused until the transaction is ended, so that half of it can never be committed. Inside a
batch the epochs are only closed; one physical step takes all of them at the end.
"""

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kpg.runtime.errors import InterfaceError


class Stepper(Protocol):
    """What a transaction needs of the worker."""

    def step(self) -> object:
        """Take all pending changes through the dataflow as one physical batch; if it raises, undo them."""

    def close_epoch(self) -> object:
        """End a logical epoch without a step."""

    def rollback(self) -> object:
        """Throw away what is pending."""


class State(enum.Enum):
    """Where a transaction stands."""

    NONE = "no transaction"
    OPEN = "open"
    FAILED = "rolled back by an error"


class Transactions:
    """The transaction and the batch of one database, at most one of each at a time."""

    def __init__(self, worker: Stepper, committed: Callable[[], None]) -> None:
        self._worker = worker
        self._committed = committed
        self._batch = State.NONE
        self.state = State.NONE
        self.pending = False
        """Whether tables have changes that no step has taken yet."""

    @property
    def idle(self) -> bool:
        """Neither in a transaction nor in a batch."""
        return self.state is State.NONE and self._batch is State.NONE

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
        self.check()
        if self.state is not State.NONE:
            raise InterfaceError(
                "a transaction is already open", hint="transactions do not nest: commit first"
            )
        self.state = State.OPEN

    def commit(self) -> None:
        """Make the transaction's changes one epoch, all or nothing."""
        if self.state is State.NONE:
            raise InterfaceError("there is no transaction to commit", hint="start one with BEGIN")
        try:
            self.check()
        finally:
            self.state = State.NONE
        with self.undoing():
            self._close()

    def rollback(self) -> None:
        """Throw away the transaction's changes, and in a batch the batch's."""
        if self.state is State.NONE:
            raise InterfaceError("there is no transaction to roll back", hint="start one with BEGIN")
        if self.state is State.OPEN:
            self.fail()
        self.state = State.NONE

    def fail(self) -> None:
        """Roll back after an error; an open transaction, and an open batch, then wait for their end."""
        self._worker.rollback()
        self.pending = False
        if self.state is State.OPEN:
            self.state = State.FAILED
        if self._batch is State.OPEN:
            self._batch = State.FAILED

    @contextmanager
    def statement(self, changes: bool) -> Iterator[None]:
        """Run one statement in the block; if it ``changes`` tables outside a transaction, commit."""
        self.check()
        with self.undoing():
            self.pending |= changes
            yield
            if changes and self.state is State.NONE:
                self._close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """``with db.transaction():`` commits at the end, or rolls back if the block raises."""
        self.begin()
        try:
            yield
        except BaseException:
            if self.state is not State.NONE:
                self.rollback()
            raise
        self.commit()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """``with db.batch():`` takes the transactions of the block through the dataflow in one step."""
        self.check()
        if not self.idle:
            raise InterfaceError("a batch cannot start inside a transaction or another batch")
        self._batch = State.OPEN
        try:
            with self.undoing():
                yield
                if self.state is not State.NONE:
                    raise InterfaceError("the batch ends inside a transaction", hint="COMMIT first")
                self.check()
        finally:
            self._batch = State.NONE
            self.state = State.NONE
        with self.undoing():
            self._close()

    def _close(self) -> None:
        if self._batch is State.OPEN:
            self._worker.close_epoch()
            return
        self._worker.step()
        self.pending = False
        self._committed()

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Roll back if the block raises."""
        try:
            yield
        except BaseException:
            self.fail()
            raise
