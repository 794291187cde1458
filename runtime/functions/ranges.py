"""Ranges and sets of ranges in functions and operators of other types."""

from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.functions.registry import Memoized, Overload, Rule, Signature, extend
from kpg.runtime.functions.rules import common_type, is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, Kind, Type, range_of
from kpg.runtime.values import ranges
from kpg.runtime.values.codec import codec_of
from kpg.runtime.values.ranges import EMPTY, Ranges

RANGES: Final = frozenset({Kind.RANGE, Kind.MULTIRANGE})
Code = Callable[..., object]


def _two(result: Callable[[Type, Type], Type], *, mixed: bool = True) -> Rule:
    """Two ranges or sets of them between values of one type; a quoted constant is what the other is."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or not any(type_.kind in RANGES for type_ in types):
            return None
        left, right = types
        left, right = (right if is_unknown(left) else left), (left if is_unknown(right) else right)
        if not {left.kind, right.kind} <= RANGES or left.parts != right.parts:
            return None
        return Signature((left, right), result(left, right)) if mixed or left.kind is right.kind else None

    return rule


def _inside(*, first: bool) -> Rule:
    """A value and ranges between such values."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2:
            return None
        value, around = types if first else types[::-1]
        if around.kind not in RANGES or value.kind in (*RANGES, Kind.NULL):
            return None
        (bound,) = around.parts
        if common_type((value, bound)) != bound:
            return None
        args = (bound, around) if first else (around, bound)
        return Signature(args, BOOLEAN)

    return rule


def _one(result: Callable[[Type], Type]) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 or types[0].kind not in RANGES:
            return None
        return Signature(types, result(types[0]))

    return rule


def _say(name: str, rule: Rule, build: Callable[[Call], Code]) -> None:
    extend(name, "ranges", Overload(rule, Memoized(build)))


def _of_kind(call: Call, code: Callable[..., Ranges], what: str) -> Code:
    """A set of ranges as one range, if that is what comes out."""
    if call.type.kind is Kind.MULTIRANGE:
        return code

    def single(*values: Ranges) -> Ranges:
        found = code(*values)
        if len(found) > 1:
            raise ValueError(f"result of range {what} would not be contiguous")
        return found

    return single


def bound_of(place: Any) -> Any:
    """The value of a place; None if it is before or behind all."""
    return place[1] if len(place) > 1 else None


def lower(value: Ranges) -> object:
    """The lower bound of all."""
    return bound_of(value[0][0]) if value else None


def upper(value: Ranges) -> object:
    """The upper bound of all."""
    return bound_of(value[-1][1]) if value else None


def before(left: Ranges, right: Ranges) -> bool:
    """Whether all of the first is before all of the second."""
    return bool(left and right) and left[-1][1] <= right[0][0]


_either = _two(lambda left, right: BOOLEAN)
_alike = _two(lambda left, right: left, mixed=False)
_say("overlaps_with", _either, lambda call: lambda x, y: bool(ranges.intersection(x, y)))
_say("contains_all", _either, lambda call: ranges.contains)
_say("contained_in", _either, lambda call: lambda x, y: ranges.contains(y, x))
_say("contains_all", _inside(first=False), lambda call: ranges.has)
_say("contained_in", _inside(first=True), lambda call: lambda value, around: ranges.has(around, value))
_say("shift_left", _either, lambda call: before)
_say("shift_right", _either, lambda call: lambda x, y: before(y, x))
_say("add", _alike, lambda call: _of_kind(call, ranges.union, "union"))
_say("sub", _alike, lambda call: _of_kind(call, ranges.difference, "difference"))
_say("mul", _alike, lambda call: ranges.intersection)
_say("lower", _one(lambda type_: type_.parts[0]), lambda call: lower)
_say("upper", _one(lambda type_: type_.parts[0]), lambda call: upper)


def constructed(bound: Type) -> Callable[[Call], Code]:
    """What ``int4range(low, high, bounds)`` does."""

    def make(low: Any, high: Any, bounds: str | None = "[)") -> Ranges:
        if bounds is None:
            raise ValueError("range constructor flags argument must not be null")
        return ranges.made(low, high, bounds, bound)

    return lambda call: make


def text_of(value: Ranges, bound: Type) -> str:
    """As Postgres writes it."""
    return codec_of(range_of(bound)).show(value)


__all__ = ["EMPTY", "RANGES", "bound_of", "constructed", "lower", "text_of", "upper"]
