"""What a database remembers of statements, so that the like of them are not read and planned again.

It belongs to one database. Nothing in it is more than a saving: everything may be forgotten at any time.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from kpg.compiler.catalog.cache import Keeping

if TYPE_CHECKING:
    from kpg.compiler.catalog.entries import Catalog
    from kpg.compiler.sql.parse.statements import Insert
    from kpg.engine.engine import Engine
    from kpg.runtime.types import Type
    from kpg.statements.inserting import Shape
    from kpg.statements.planned import Known as KnownPlans
    from kpg.statements.recipes import Known

FEW: Final = 64
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
        self.plans: Latest[tuple[object, ...], KnownPlans] = Latest()
        self.recipes: Latest[tuple[str, tuple[str, ...]], Known] = Latest()
        self.types: Latest[str, Type] = Latest()
        """Of declared parameters."""
        self._made: Latest[tuple[object, ...], tuple[object, int, Any]] = Latest(FEW)
        self.keyed: Latest[str, int] = Latest()
        """Texts that look up what they read, or the row that they change; the catalog's version."""
        self.answers = Keeping()
        """Of queries over the system's relations."""
        self.of_system: Latest[str, bool] = Latest()
        """Statements, without their constants, that ask the system's relations: they have no plan for all."""
        self.used = 0
        """How often a plan was used again."""
        self.forgotten = 0
        """How often names, types or settings have come to mean something else."""

    def comes_again(self, key: tuple[object, ...]) -> bool:
        """Whether a statement has come before; from now on it has."""
        if self._seen.get(key):
            return True
        self._seen.put(key, True)
        return False

    def made(
        self, what: tuple[object, ...], part: object, catalog: "Catalog", make: "Callable[[], Value]"
    ) -> "Value":
        """What is made of a statement, or of a part of the catalog: once, unless it asks for the time."""
        key = (*what, id(part), catalog.outlook, catalog.style)
        known = self._made.get(key)
        if known is not None and known[0] is part and known[1] == catalog.version:
            found: Value = known[2]
            return found
        before = catalog.consulted.times
        value = make()
        if catalog.consulted.times == before:
            self._made.put(key, (part, catalog.version, value))
        return value

    def forget(self) -> None:
        """Names, types or settings mean something else from now on."""
        self.forgotten += 1
        self.shapes.clear()
        self.plans.clear()
        self.keyed.clear()
        self.recipes.clear()
        self.types.clear()
        self._made.clear()
        self.answers.clear()


def changes_alone(engine: "Engine", name: str) -> bool:
    """Whether a change of a relation runs nothing else: it has no partitions."""
    others = engine.catalog.others
    if not others:
        return True
    from kpg.compiler.catalog.constraints import is_plain
    from kpg.compiler.catalog.entries import TableEntry

    entry = engine.catalog.find(name)
    return isinstance(entry, TableEntry) and is_plain(others, entry.name)
