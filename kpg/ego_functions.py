"""Users' aggregates by EAGr's interface, as the database's records have them.

EAGr's has ``initialize()``, ``update(state, old, new)`` for an input that was one thing and is another,
``merge`` and ``finalize``. Here ``update(state, value)`` takes one value in, and ``subtract(state, value)``,
if there is one, takes it back.
"""

import copy
from typing import Any

from kpg.runtime.errors import InterfaceError


class Adapted:
    """An aggregate of values, by the methods that the database calls."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self.initialize = own.initialize
        self.finish = own.finalize
        self.merge = self._merge
        if hasattr(own, "subtract"):
            self.subtract = self._subtract

    def add(self, state: Any, value: Any, times: int = 1) -> Any:
        """Take a value in, as often as it is there."""
        for _ in range(times):
            state = self._own.update(state, value)
        return state

    def _subtract(self, state: Any, value: Any, times: int = 1) -> Any:
        for _ in range(times):
            state = self._own.subtract(state, value)
        return state

    def _merge(self, state: Any, other: Any) -> Any:
        return self._own.merge(state, copy.deepcopy(other))


def adapted(own: Any) -> Any:
    """The object as ``create_function`` takes one."""
    if hasattr(own, "add") and hasattr(own, "finish"):
        return own
    missing = [
        name
        for name in ("initialize", "update", "merge", "finalize")
        if not callable(getattr(own, name, None))
    ]
    if missing:
        raise InterfaceError(
            f"an aggregate of an ego view needs the method {missing[0]}()",
            hint="give an object with initialize, update, merge and finalize, or the name of an aggregate",
        )
    return Adapted(own)
