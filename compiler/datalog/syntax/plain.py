"""The parts of a Datalog text that have no parts: names, variables and constants where they stand."""

from dataclasses import field

from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier (dotted for what is in a component) where it stands."""

    text: str
    span: Span = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable."""

    name: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Underscore:
    """``_``."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Integer:
    """``42``, ``0x2a``, ``0b101010``; ``42u`` is unsigned."""

    value: int
    unsigned: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Float:
    """``4.2``, ``4.2e1``."""

    value: float
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Boolean:
    """``true`` or ``false`` as a value."""

    value: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class String:
    """``"text"``, escapes resolved."""

    value: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Nil:
    """``nil``, the record that has no fields."""

    span: Span = field(compare=False, repr=False)
