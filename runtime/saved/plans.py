"""Plans as data: tuples, numbers and strings, that name classes of a closed registry, and nothing else.

So what reads a plan cannot be made to run anything but a plan. Equal parts of a plan, of which types and
expressions have many, are written once. Users' functions are written by their names and found again by a
*finder*; users' objects (``plan.user``) cannot be written.
"""

import enum
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, get_args

from kpg.runtime import plan, scalar
from kpg.runtime.errors import InternalError, OperationalError
from kpg.runtime.functions.aggregation import Direction
from kpg.runtime.functions.named import Named, shown
from kpg.runtime.functions.tables import Expansion
from kpg.runtime.saved.form import State, UnsavedError
from kpg.runtime.types import ColumnDef, Kind, Schema, Type

Find = Callable[[str], Named[Any]]
"""From the full name of a user's function to the name that carries it."""

CLASSES: Final[dict[str, type[Any]]] = {
    cls.__name__: cls
    for cls in (
        plan.Plan, *get_args(plan.Node), plan.Mfp, plan.Aggregate, plan.BasicAggregate, Direction,
        Expansion, plan.WindowCall, plan.Frame, plan.Bound, plan.Ranged, *get_args(scalar.Scalar), Type,
        ColumnDef, Schema,
    )
}  # fmt: skip
ENUMS: Final[dict[str, type[enum.Enum]]] = {
    cls.__name__: cls for cls in (Kind, plan.Unit, plan.Edge, plan.Exclude)
}
REFERENCE, TUPLE, TRUTH, MEMBER, OWN = "@", "(", "?", ".", "#"


def plan_state(whole: Any) -> State:
    """A plan, schema or expression as data. UnsavedError if a user's object is part of it."""
    parts: list[State] = []
    known: dict[Any, int] = {}

    def written(value: Any) -> State:
        match value:
            case Named():
                return (OWN, str(value))
            case None | str():
                return value
            case bool():
                return (TRUTH, int(value))
            case int():
                return value
            case tuple():
                return (TUPLE, *map(written, value))
            case enum.Enum() if type(value) is ENUMS.get(type(value).__name__):
                return (MEMBER, type(value).__name__, value.name)
            case _ if type(value) is CLASSES.get(type(value).__name__):
                return (REFERENCE, part(value))
            case _:
                raise UnsavedError(f"{type(value).__qualname__} is no part of a plan that can be saved")

    def part(value: Any) -> int:
        name = type(value).__name__
        state = (name, *(written(getattr(value, field.name)) for field in fields(value)))
        if state not in known:
            known[state] = len(parts)
            parts.append(state)
        return known[state]

    root = written(whole)
    return (tuple(parts), root)


def read_plan(state: Any, find: Find | None = None) -> Any:
    """What :func:`plan_state` made data of. OperationalError if it needs a function that ``find`` has not."""
    parts: list[Any] = []

    def value(one: Any) -> Any:
        if not isinstance(one, tuple):
            return one
        tag, *rest = one
        match tag:
            case "@":
                return parts[rest[0]]
            case "(":
                return tuple(map(value, rest))
            case "?":
                return bool(rest[0])
            case ".":
                return ENUMS[rest[0]][rest[1]]
            case "#":
                return _found(rest[0], find)
            case _:
                raise InternalError(f"{tag} is no kind of value")

    entries, root = state
    for name, *values in entries:
        parts.append(CLASSES[name](*map(value, values)))
    return value(root)


def _found(name: str, find: Find | None) -> Named[Any]:
    if find is None:
        raise OperationalError(f"function {shown(name)} is not registered", hint="register it again first")
    return find(name)
