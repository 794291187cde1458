"""Moments that may be infinite, in expressions."""

from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import BOOLEAN, Type
from kpg.runtime.values.calendars import EARLIEST, LATEST


def is_infinite(x: Scalar) -> Scalar:
    """Whether a moment is one of the ends of time."""
    late = Call("ge", (x, Literal(LATEST, x.type)), BOOLEAN)
    return Call("or", (late, Call("le", (x, Literal(EARLIEST, x.type)), BOOLEAN)), BOOLEAN)


def end_of(x: Scalar, type_: Type) -> Scalar:
    """The same end of time as another type has it."""
    late = Call("gt", (x, Literal(0, x.type)), BOOLEAN)
    return If(late, Literal(LATEST, type_), Literal(EARLIEST, type_), type_)


def unless_infinite(x: Scalar, endless: Scalar, other: Scalar) -> Scalar:
    """What stands for an infinite moment, and what for all others."""
    if isinstance(x, Literal) and isinstance(x.value, int):
        return endless if x.value in (EARLIEST, LATEST) else other
    return If(is_infinite(x), endless, other, other.type)
