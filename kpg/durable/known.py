"""The classes that may stand in a database's files, by name: definitions, plans, types, and no others."""

import dataclasses
import enum
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from kpg.compiler import catalog, constraints, rights, routines, security, triggers
from kpg.compiler.algebra import rel
from kpg.runtime import scalar, types
from kpg.runtime.errors import Span
from kpg.runtime.functions import Direction
from kpg.runtime.functions.named import Named
from kpg.runtime.functions.tables import Expansion
from kpg.runtime.plan import ego, nodes, windows
from kpg.runtime.storage.codec import Codec, Custom
from kpg.runtime.storage.placed import Placed, PlacedStrings, Shard, Sharded

MODULES: Final = {
    "catalog": catalog,
    "rule": constraints,
    "rel": rel,
    "routine": routines,
    "trigger": triggers,
    "security": security,
    "right": rights,
    "scalar": scalar,
    "type": types,
    "plan": nodes,
    "ego": ego,
    "window": windows,
}
MORE: Final[dict[str, type]] = {
    "span": Span,
    "direction": Direction,
    "expansion": Expansion,
    "placed": Placed,
    "strings": PlacedStrings,
    "shard": Shard,
    "sharded": Sharded,
}


class Removed:
    """A definition of a kind that kpg has no more, as an earlier version has written it."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields


class Exclusion:
    """EXCLUDE, or a unique index over expressions, as earlier versions have written both."""

    def __new__(cls, **fields: Any) -> Any:
        """The unique index, if it is one."""
        if not fields.pop("index"):
            return Removed(**fields)
        del fields["operators"]
        return constraints.UniqueIndex(**fields)


class EarlierRoutine:
    """A function, which has had more fields: its language, and whether its body was run for each call."""

    def __new__(cls, **fields: Any) -> Any:
        """The function, if its body is one query that is put in the place of calls."""
        left = {name: fields.pop(name) for name in ("language", "kind", "runs", "pure") if name in fields}
        is_query = left.get("language", "sql") == "sql" and left.get("kind", "function") == "function"
        if left.get("runs") or not is_query:
            return Removed(**fields, **left)
        return routines.Routine(**fields)


EARLIER: Final[dict[str, type]] = {
    "trigger.Deed": Removed,
    "trigger.Trigger": Removed,
    "routine.Routine": EarlierRoutine,
    "rule.Exclusion": Exclusion,
}
"""Classes that are read and never written, by the names that earlier versions gave them."""
NOT_KEPT: Final = frozenset({"ArrayFold", "Catalog", "NoStatistics", "Rights"})


def codec(function: Callable[[str], Any]) -> Codec:
    """How values are written; ``function`` gives the users' function of a name that carries one."""
    made = Codec(custom=(Custom("function", Named, str, function),))
    for prefix, module in MODULES.items():
        for name, known in _classes(module):
            made.add(known, f"{prefix}.{name}")
    for name, known in MORE.items():
        made.add(known, name)
    made.by_name.update(EARLIER)
    return made


def _classes(module: ModuleType) -> Iterator[tuple[str, type]]:
    """The enums and frozen dataclasses that a module declares."""
    for name, value in vars(module).items():
        if not isinstance(value, type) or value.__module__ != module.__name__ or name in NOT_KEPT:
            continue
        if dataclasses.is_dataclass(value) or issubclass(value, enum.Enum):
            yield name, value
