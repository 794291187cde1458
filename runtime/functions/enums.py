"""Functions of ENUMs: their labels, which the type of what they are given tells, and those between two."""

from collections.abc import Callable

from kpg.runtime.functions.registry import Memoized, NullRule, Overload, Rule, Signature, scalar
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import Kind, Type, array
from kpg.runtime.values import arrays


def _of(result: Callable[[Type], Type], count: int) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        known = [type_ for type_ in types if not is_unknown(type_)]
        if len(types) != count or not known or any(type_ != known[0] for type_ in known):
            return None
        return Signature((known[0],) * count, result(known[0])) if known[0].kind is Kind.ENUM else None

    return rule


def _first(call: Call) -> Callable[..., int]:
    return lambda value: 0


def _last(call: Call) -> Callable[..., int]:
    last = len(call.type.labels) - 1
    return lambda value: last


def _range(call: Call) -> Callable[..., arrays.Array]:
    count = len(call.args[0].type.labels)

    def between(low: int | None, high: int | None = None) -> arrays.Array:
        if len(call.args) == 1:
            low = None
        first, last = 0 if low is None else low, count - 1 if high is None else high
        return arrays.of(list(range(first, last + 1)))

    return between


for _name, _doc, _code in (
    ("enum_first", "The first label of an ENUM.", _first),
    ("enum_last", "The last label of an ENUM.", _last),
):
    scalar(
        _name,
        "a value of an ENUM, or NULL",
        _doc,
        {},
        Overload(_of(lambda type_: type_, 1), Memoized(_code, takes_nulls=True)),
        nulls=NullRule.OWN,
    )
scalar(
    "enum_range",
    "a value of an ENUM, or two",
    "The labels of an ENUM, or those from one to another.",
    {},
    Overload(_of(array, 1), Memoized(_range, takes_nulls=True)),
    Overload(_of(array, 2), Memoized(_range, takes_nulls=True)),
    nulls=NullRule.OWN,
)
