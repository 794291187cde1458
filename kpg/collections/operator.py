"""Operators that users write, for whoever needs less than a collection."""

import copy
from collections.abc import Iterable
from typing import Any

from kpg.runtime.convert.callbacks import Batch, Context
from kpg.runtime.errors import InterfaceError

__all__ = ["Batch", "Operator"]


class Operator:
    """Base of the operators that users write; ``collection.apply(MyOperator(), **types)`` puts one in place.

    Times are ints, in a loop tuples (time, round). Everything at one time comes before anything later.
    If a step fails, the state of the step before comes back: by default all attributes are copied
    before a step, which an operator with much state avoids with a ``save`` and ``restore`` of its own.
    """

    context: Context | None = None

    def on_recv(self, batch: Batch, time: Any) -> None:
        """Rows have come: iterate over the batch for pairs (row, multiplicity)."""

    def on_notify(self, time: Any) -> None:
        """Nothing more can come at ``time`` or before: what ``notify_at(time)`` asked for."""

    def send(self, batch: Batch | Iterable[tuple[Any, int]], time: Any) -> None:
        """Send pairs (row, multiplicity), or a batch as it came, at the time of the call or later."""
        self._context.send(batch, time)

    def notify_at(self, time: Any) -> None:
        """Ask for ``on_notify(time)``, at the time of the call or later."""
        self._context.notify_at(time)

    def save(self) -> Any:
        """The state, as ``restore`` takes it."""
        state = {name: value for name, value in vars(self).items() if name != "context"}
        return copy.deepcopy(state)

    def restore(self, state: Any) -> None:
        """Go back to a saved state."""
        for name in [name for name in vars(self) if name != "context"]:
            delattr(self, name)
        vars(self).update(state)

    @property
    def _context(self) -> Context:
        if self.context is None:
            raise InterfaceError(
                "the operator has no place in a dataflow yet", hint="give it to collection.apply()"
            )
        return self.context
