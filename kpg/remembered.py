"""What a database remembers of statements, so that the like of them are not read and planned again.

It belongs to one database. Nothing in it is more than a saving: everything may be forgotten at any time.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from kpg.compiler.sql.statements import Insert
    from kpg.inserting import Shape
    from kpg.planned import Known
    from kpg.runtime.types import Type

MOST: Final = 512
"""Of each kind: what is used least lately is forgotten."""
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Latest(Generic[Key, Value]):
    """A mapping that keeps what was used latest."""

    __slots__ = ("_most", "_values")

    def __init__(self, most: int = MOST) -> None:
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """What is remembered under a key."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Remember something under a key."""
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()


class Remembered:
    """Statements by their texts."""

    def __init__(self) -> None:
        self.inserts: Latest[str, Insert] = Latest()
        self.shapes: Latest[tuple[str, tuple[int, ...]], Shape] = Latest()
        self._seen: Latest[tuple[object, ...], bool] = Latest()
        self.plans: Latest[tuple[object, ...], Known] = Latest()
        self.types: Latest[str, Type] = Latest()
        """Of declared parameters."""
        self.used = 0
        """How often a plan was used again."""

    def comes_again(self, key: tuple[object, ...]) -> bool:
        """Whether a statement has come before; from now on it has."""
        if self._seen.get(key):
            return True
        self._seen.put(key, True)
        return False

    def forget(self) -> None:
        """Names, types or settings mean something else from now on."""
        self.shapes.clear()
        self.plans.clear()
        self.types.clear()
