"""What functions and operators that users write are called with, and what they may do."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.foreign import to_arrays
from kpg.runtime.convert.lists import to_rows
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema, Type

Words = NDArray[np.int64]


class Batch:
    """Rows with multiplicities that arrived together, at one time, on input ``port``."""

    def __init__(self, updates: Updates, port: int, schema: Schema, dictionary: Dictionary) -> None:
        self.port = port
        self._updates = updates
        self._schema = schema
        self._dictionary = dictionary

    def __len__(self) -> int:
        return len(self._updates)

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Pairs (row, multiplicity)."""
        rows = to_rows(self._updates.data, self._schema.types, self._dictionary)
        return iter(list(zip(rows, self._updates.diffs().tolist(), strict=True)))

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """One array a column."""
        return to_arrays(self._updates.data, self._schema, self._dictionary)

    @property
    def diffs(self) -> Words:
        """The multiplicities."""
        return self._updates.diffs()

    def words_as(self, types: tuple[Type, ...]) -> tuple[Words, Words] | None:
        """Rows and multiplicities as words, if they are of these types."""
        return (self._updates.data, self._updates.diffs()) if types == self._schema.types else None


class Context(Protocol):
    """What a user's operator may do."""

    def send(self, batch: Iterable[tuple[Any, int]], time: Any) -> None:
        """Send pairs (row, multiplicity)."""

    def notify_at(self, time: Any) -> None:
        """Ask for a notification."""


class UserOperator(Protocol):
    """What the user wrote."""

    context: Context | None

    def on_recv(self, batch: Batch, time: Any) -> object:
        """Messages have come."""

    def on_notify(self, time: Any) -> object:
        """No earlier messages can come."""

    def save(self) -> Any:
        """The state, to be given to ``restore``."""

    def restore(self, state: Any) -> object:
        """Go back to a saved state."""
