"""Slots: constants of a statement whose values are not known yet, so that one plan serves many values.

A slot is the value of a ``Literal`` while a statement is bound and planned. It keeps what the binder does
with the constant (read it as a date, round it to two places, negate it), to be done again with each value.
Whatever else looks at it, compares it, prints it or tells it from zero, raises: then the plan depends on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, cast

from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import Type

TEXT: Final = "text"
CONVERTED: Final = "converted"
ROUNDED: Final = "rounded"
NEGATED: Final = "negated"
NAMED: Final = "named"
Step = tuple[str, Type]
Do = Callable[[Literal, Type], object]


class Beyond(Exception):
    """A constant that takes more than what is done here with constants."""


class Marker(str):
    """What stands in a syntax tree for a constant: a text like no other, which knows its slot."""

    __slots__ = ("number", "type")
    number: int
    type: Type

    @classmethod
    def of(cls, number: int, type_: Type) -> "Marker":
        """The marker of a slot whose constants are written as ones of a type."""
        made = cls(f"\ue000{number}\ue001")
        made.number, made.type = number, type_
        return made


@dataclass(frozen=True, slots=True)
class Slot:
    """The constant of that number, after some steps."""

    number: int
    steps: tuple[Step, ...] = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Slot) and self.number == other.number and self.steps == other.steps:
            return True
        raise Beyond

    def __hash__(self) -> int:
        return hash((self.number, self.steps))

    def __bool__(self) -> bool:
        raise Beyond

    def __str__(self) -> str:
        raise Beyond

    def __format__(self, spec: str) -> str:
        raise Beyond


def slot_of(literal: Literal) -> Slot | None:
    """The slot that is a literal's value."""
    value: object = literal.value
    return value if isinstance(value, Slot) else None


def opened(marker: Marker) -> Literal:
    """The literal of a marker's slot."""
    return Literal(cast(Any, Slot(marker.number)), marker.type)


def then(slot: Slot, how: str, type_: Type) -> Literal:
    """The literal of a slot after one step more, of that type."""
    return Literal(cast(Any, Slot(slot.number, (*slot.steps, (how, type_)))), type_)


def slots_in(part: object) -> frozenset[Slot]:
    """The slots anywhere in a plan, or in a part of one."""
    found: set[Slot] = set()
    stack = [part]
    while stack:
        node = stack.pop()
        if isinstance(node, Slot):
            found.add(node)
        elif isinstance(node, tuple):
            stack.extend(node)
        elif not isinstance(node, Type):
            stack.extend(getattr(node, name) for name in _names(type(node)))
    return frozenset(found)


def _names(cls: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(cls)) if hasattr(cls, "__dataclass_fields__") else ()


class Filler:
    """Plans, or parts of them, with values in the place of slots; what has none is shared."""

    def __init__(self, part: object) -> None:
        self._part = part
        self._open: dict[int, tuple[str, ...]] = {}
        self._note(part)

    def _note(self, part: object) -> bool:
        """Remember what has slots, with the names of its fields that have."""
        if isinstance(part, Slot):
            return True
        if isinstance(part, tuple):
            found = [self._note(item) for item in part]
            if any(found):
                self._open[id(part)] = ()
            return any(found)
        if isinstance(part, Type):
            return False
        names = tuple(name for name in _names(type(part)) if self._note(getattr(part, name)))
        if names:
            self._open[id(part)] = names
        return bool(names)

    def filled(self, values: Mapping[Slot, Literal]) -> Any:
        """The whole with the values of slots; Beyond if one is of another type than the plan has it."""
        return self._filled(self._part, values)

    def _filled(self, part: Any, values: Mapping[Slot, Literal]) -> Any:
        if isinstance(part, Slot):
            return values[part].value
        names = self._open.get(id(part))
        if names is None:
            return part
        if isinstance(part, tuple):
            return tuple(self._filled(item, values) for item in part)
        if isinstance(part, Literal):
            slot = slot_of(part)
            assert slot is not None
            if values[slot].type != part.type:
                raise Beyond
            return Literal(values[slot].value, part.type)
        cls = type(part)
        given = {
            name: self._filled(getattr(part, name), values) if name in names else getattr(part, name)
            for name in _names(cls)
        }
        return cls(**given)
