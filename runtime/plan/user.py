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


class UserObject:
    """User's object, compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserObject) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        """Return a text that is unique among living objects; an operator keeps its object alive."""
        return f"{type(self.value).__qualname__}@{id(self.value):x}"

    @property
    def name(self) -> str:
        """The object's name in displays and errors."""
        return getattr(self.value, "__qualname__", type(self.value).__qualname__)


class Kind(enum.Enum):
    """Argument and result shapes of a user function."""

    MAP_COLUMNS = "arrays to arrays"
    FILTER_COLUMNS = "arrays to an array of bools"
    MAP_ROWS = "a row to a row"
    FILTER_ROWS = "a row to a bool"
    FLAT_MAP = "a row to any number of rows"
    EXPLODE = "a row to any number of (row, multiplicity)"


@dataclass(frozen=True, slots=True)
class Input:
    """Stream of an input session; ``identity`` is assigned by the worker."""

    identity: str
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """``function`` applied to rows of ``input_schema``; the results are rows of ``result``.

    The function must be deterministic: a retraction calls it again. O(change) calls.
    """

    input: Ref
    kind: Kind
    function: UserObject
    input_schema: Schema
    result: Schema


@dataclass(frozen=True, slots=True)
class UserReduce:
    """Rows (key..., values...) that ``function`` returns for each non-empty group of an arrangement.

    ``input_schema`` has all columns of the arrangement, ``result`` the values. The function receives
    the key and all rows of the group with their multiplicities, as arrays if ``columns``. Its result is
    compared with the previous one, so it need not be deterministic. O(group) for each change.
    """

    input: Ref
    key: int
    function: UserObject
    columns: bool
    input_schema: Schema
    result: Schema


@dataclass(frozen=True, slots=True)
class Custom:
    """User-defined operator over streams of ``input_schemas``; it emits rows of ``result``."""

    inputs: tuple[Ref, ...]
    operator: UserObject
    input_schemas: tuple[Schema, ...]
    result: Schema


@dataclass(frozen=True, slots=True)
class Sink:
    """Buffers the changes of a stream until they are drained; ``listener`` is its unique number."""

    input: Ref
    listener: int


@dataclass(frozen=True, slots=True)
class EnterAt:
    """In a loop's body: rows that enter at the round in their last column, a BIGINT, without that column."""

    input: Ref


Node = Input | Apply | UserReduce | Custom | Sink | EnterAt
