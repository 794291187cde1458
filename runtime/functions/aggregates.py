"""Aggregate functions: which operands they take, what they give, and how they can be maintained."""

import difflib
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, TEXT, Kind, Type, decimal


class AggregateKind(enum.Enum):
    """What maintaining an aggregate costs."""

    ACCUMULABLE = "a few words for each group, O(change)"
    HIERARCHICAL = "a search in the group's sorted values"
    BASIC = "the group is read again"


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate; ``accepts`` shows the operands to the user."""

    name: str
    accepts: str
    doc: str
    kind: AggregateKind
    rule: Callable[[tuple[Type, ...]], Signature | None]


@dataclass(frozen=True, slots=True)
class AggregateResolution:
    """What an aggregate call means."""

    function: AggregateFunction
    arg_types: tuple[Type, ...]
    result_type: Type


def sum_type(operand: Type) -> Type:
    """The type of a sum over an operand."""
    match operand.kind:
        case Kind.DECIMAL:
            return decimal(18, operand.scale)
        case Kind.REAL | Kind.DOUBLE:
            return DOUBLE
        case Kind.INTERVAL_DAY | Kind.INTERVAL_MONTH:
            return operand
        case _:
            return BIGINT


def _count(types: tuple[Type, ...]) -> Signature | None:
    return Signature(types, BIGINT)


def _sum(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 1:
        return None
    type_ = BIGINT if is_unknown(types[0]) else types[0]
    if not (type_.is_numeric or type_.kind in (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)):
        return None
    return Signature((type_,), sum_type(type_))


def _extreme(types: tuple[Type, ...]) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 1 else None


def _number(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 1 or not (types[0].is_numeric or is_unknown(types[0])):
        return None
    return Signature((DOUBLE,) if is_unknown(types[0]) else types, DOUBLE)


def _condition(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 1 or not (types[0] == BOOLEAN or is_unknown(types[0])):
        return None
    return Signature((BOOLEAN,), BOOLEAN)


def _text(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 2 or not all(type_.is_text or is_unknown(type_) for type_ in types):
        return None
    return Signature((TEXT, TEXT), TEXT)


_ACCUMULABLE, _HIERARCHICAL, _BASIC = AggregateKind
_AGGREGATES = {
    function.name: function
    for function in (
        AggregateFunction("count", "nothing, or a value", "Rows, or non-NULL values.", _ACCUMULABLE, _count),
        AggregateFunction("sum", "a number", "Sum; NULL if there is no value.", _ACCUMULABLE, _sum),
        AggregateFunction("avg", "a number", "Mean, as DOUBLE.", _ACCUMULABLE, _number),
        AggregateFunction("min", "a value", "Smallest value.", _HIERARCHICAL, _extreme),
        AggregateFunction("max", "a value", "Largest value.", _HIERARCHICAL, _extreme),
        AggregateFunction("bool_and", "a condition", "Whether all are true.", _HIERARCHICAL, _condition),
        AggregateFunction("bool_or", "a condition", "Whether one is true.", _HIERARCHICAL, _condition),
        AggregateFunction("string_agg", "text and a separator", "The texts, joined.", _BASIC, _text),
    )
}


def aggregates() -> Iterator[AggregateFunction]:
    """Every aggregate, by name."""
    return iter(sorted(_AGGREGATES.values(), key=lambda function: function.name))


def is_aggregate(name: str) -> bool:
    """Whether a name is that of an aggregate."""
    return name in _AGGREGATES


def resolve_aggregate(name: str, arg_types: tuple[Type, ...]) -> AggregateResolution:
    """The meaning of an aggregate call by name and operand types."""
    function = _AGGREGATES.get(name)
    if function is None:
        near = difflib.get_close_matches(name, _AGGREGATES, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else None
        raise ProgrammingError(f"unknown aggregate {name}", hint=hint)
    signature = function.rule(arg_types)
    if signature is None:
        shown = ", ".join(str(type_) for type_ in arg_types)
        raise ProgrammingError(f"{name} does not take ({shown})", hint=f"it takes {function.accepts}")
    return AggregateResolution(function, signature.args, signature.result)
