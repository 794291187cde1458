"""Plan nodes for user code and the outside: inputs, functions, custom operators, times, and sinks.

User functions are identified by object identity. The same function object over the same input is one shared
operator; an equal but distinct object is another.
"""

import enum
from typing import Any

from kpg.runtime.records import dataclass
from kpg.runtime.types import Schema, Type

Ref = int
"""Position of a node in the list that holds it."""


class Own:
    """An object of the user's, equal only to itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        """Tells it from every other object that is alive; an operator keeps its own alive."""
        return f"{type(self.value).__qualname__}@{id(self.value):x}"

    @property
    def name(self) -> str:
        """What the user calls it, for displays and errors."""
        return getattr(self.value, "__qualname__", type(self.value).__qualname__)


class Kind(enum.Enum):
    """How a function is called, and what it gives."""

    MAP_COLUMNS = "arrays to arrays"
    FILTER_COLUMNS = "arrays to an array of bools"
    MAP_ROWS = "a row to a row"
    FILTER_ROWS = "a row to a bool"
    FLAT_MAP = "a row to any number of rows"
    EXPLODE = "a row to any number of (row, multiplicity)"


@dataclass(frozen=True, slots=True)
class Input:
    """The stream of an input session, by the identity that the worker gave it."""

    identity: str
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """``function`` applied to rows of the columns ``given``, which become rows of the columns ``result``.

    The function must give the same for the same row each time: a retraction calls it again.
    O(change) calls.
    """

    input: Ref
    kind: Kind
    function: Own
    given: Schema
    result: Schema


@dataclass(frozen=True, slots=True)
class UserReduce:
    """Rows (key..., values...) that ``function`` gives for each group of an arrangement that has rows.

    ``given`` are all columns of the arrangement, ``result`` the values. The function gets the key and the
    group's rows with multiplicities, all at once; if ``columns``, as arrays. What it gives is compared
    with what it gave before, so it need not be deterministic. O(group) for each change.
    """

    input: Ref
    key: int
    function: Own
    columns: bool
    given: Schema
    result: Schema


@dataclass(frozen=True, slots=True)
class Custom:
    """An operator that a user wrote, over streams of the columns ``given``; it sends rows of ``result``."""

    inputs: tuple[Ref, ...]
    operator: Own
    given: tuple[Schema, ...]
    result: Schema


@dataclass(frozen=True, slots=True)
class Sink:
    """Keeps the changes of a stream until they are drained; ``listener`` tells it from all others."""

    input: Ref
    listener: int


@dataclass(frozen=True, slots=True)
class EnterAt:
    """In a loop's body: rows from the round on that their last column, a BIGINT, says, and without it."""

    input: Ref


Node = Input | Apply | UserReduce | Custom | Sink | EnterAt
