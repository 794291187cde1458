"""The classes that may stand in a database's files, by name: definitions, plans, types, and no others."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from kpg.compiler.algebra import rel
from kpg.compiler.catalog import access_control, constraints, entries, privileges, routines
from kpg.runtime import scalar, types
from kpg.runtime.errors import Span
from kpg.runtime.functions import Direction
from kpg.runtime.functions.table_functions import Expansion
from kpg.runtime.plan import nodes
from kpg.runtime.scalar import Named
from kpg.runtime.storage.codec import Codec, Custom
from kpg.runtime.storage.packs import Placed, PlacedStrings, Shard, Sharded

CLASSES: Final[dict[str, tuple[ModuleType, str]]] = {
    "catalog": (entries, "TableEntry ViewEntry"),
    "rule": (constraints, "Rule Check Unique ForeignKey Index UniqueIndex Constraints Domain Sequence"),
    "rel": (
        rel,
        """Get Constant LocalGet Map Filter Project Join AggregateCall Reduce OrderBy RowCall Expand
        TopK Window Distinct Threshold Negate Union Single Let LetRec""",
    ),
    "routine": (routines, "Parameter Routine Aggregate Chosen"),
    "trigger": (constraints, "Heir Partitioned Bound"),
    "security": (access_control, "Policy Secured Demand"),
    "right": (privileges, "Asker Membership Role Attributes Item"),
    "scalar": (scalar, "Column Literal Call If Fetch"),
    "type": (types, "Kind Type ColumnDef Schema"),
    "plan": (
        nodes,
        """Mfp Source Import Constant Linear Concat Negate Arrange Delta HalfJoin DeltaJoin RangeJoin
        Aggregate Reduce Distinct Threshold Expand TopK BasicAggregate BasicReduce Window Fold
        Single Enter Variable Loop Leave Plan""",
    ),
    "ego": (nodes, "EgoFamily EgoCall Ego"),
    "window": (nodes, "Unit Edge Exclude Bound Ranged Frame WindowCall"),
}
"""Names of enums and frozen dataclasses by the prefix of their keys, and the module that declares them.

A key is part of the file format: a class keeps its prefix when it moves to another module.
"""
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


def codec(function: Callable[[str], Any]) -> Codec:
    """How values are written; ``function`` gives the users' function of a name that carries one."""
    made = Codec(custom=(Custom("function", Named, str, function),))
    for prefix, (module, names) in CLASSES.items():
        for name in names.split():
            made.add(getattr(module, name), f"{prefix}.{name}")
    for name, known in MORE.items():
        made.add(known, name)
    made.by_name.update(EARLIER)
    return made
