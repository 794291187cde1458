"""Functions of ranges and sets of ranges."""

from collections.abc import Callable
from typing import Final

from kpg.runtime.functions.ranges import RANGES, constructed
from kpg.runtime.functions.registry import Memoized, NullRule, Overload, Rule, Signature, scalar
from kpg.runtime.functions.rules import common_type, is_unknown
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    INTEGER,
    NUMERIC,
    RANGE_NAMES,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
    multirange_of,
    range_of,
)
from kpg.runtime.values import ranges
from kpg.runtime.values.ranges import Ranges

BOUNDS: Final = {type_.kind: type_ for type_ in (INTEGER, BIGINT, NUMERIC, DATE, TIMESTAMP, TIMESTAMPTZ)}
SHOWN: Final = {
    Kind.INTEGER: ("int4range(1, 5, '[]')::TEXT", "'[1,6)'"),
    Kind.BIGINT: ("int8range(1, NULL)::TEXT", "'[1,)'"),
    Kind.NUMERIC: ("numrange(1.5, 2.5, '(]')::TEXT", "'(1.5,2.5]'"),
    Kind.DATE: ("daterange('2020-01-01', '2020-01-31', '[]')::TEXT", "'[2020-01-01,2020-02-01)'"),
    Kind.TIMESTAMP: ("isempty(tsrange('2020-01-01', '2020-01-01'))", "TRUE"),
    Kind.TIMESTAMPTZ: ("upper_inf(tstzrange('2020-01-01', NULL))", "TRUE"),
}


def _plain(code: Callable[..., object]) -> Memoized:
    return Memoized(lambda call: code)


def _bounds(bound: Type) -> Rule:
    """Two values of a type, and which of them belong to the range."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) not in (2, 3) or (len(types) == 3 and not (types[2].is_text or is_unknown(types[2]))):
            return None
        fit = all(is_unknown(type_) or common_type((type_, bound)) == bound for type_ in types[:2])
        return Signature((bound, bound, TEXT)[: len(types)], range_of(bound)) if fit else None

    return rule


def _several(bound: Type) -> Rule:
    """Any number of ranges."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        wanted = range_of(bound)
        fit = all(is_unknown(type_) or type_ == wanted for type_ in types)
        return Signature((wanted,) * len(types), multirange_of(bound)) if fit else None

    return rule


for _kind, _bound in BOUNDS.items():
    _name = RANGE_NAMES[_kind].lower()
    scalar(
        f"{_name}range",
        "two bounds, of which NULL is none, and '[)', '(]', '[]' or '()'",
        "The range between them, with or without the bounds themselves.",
        dict([SHOWN[_kind]]),
        Overload(_bounds(_bound), Memoized(constructed(_bound), takes_nulls=True)),
        nulls=NullRule.OWN,
    )
    scalar(
        f"{_name}multirange",
        "ranges",
        "The set of what is in one of the ranges.",
        {f"{_name}multirange('empty')::TEXT": "'{}'"},
        Overload(_several(_bound), Memoized(lambda call: ranges.union)),
    )


def _one(result: Callable[[Type], Type], of: frozenset[Kind] = RANGES) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        return Signature(types, result(types[0])) if len(types) == 1 and types[0].kind in of else None

    return rule


def _asked(name: str, doc: str, example: tuple[str, str], code: Callable[[Ranges], bool]) -> None:
    how = Memoized(lambda call: code)
    scalar(name, "a range", doc, dict([example]), Overload(_one(lambda type_: BOOLEAN), how))


_R = "int4range(1, 5)"
_asked("isempty", "Whether nothing is in it.", (f"isempty({_R})", "FALSE"), lambda value: not value)
_asked(
    "lower_inc",
    "Whether the lower bound belongs to it.",
    (f"lower_inc({_R})", "TRUE"),
    lambda value: bool(value) and len(value[0][0]) > 1 and not value[0][0][2],
)
_asked(
    "upper_inc",
    "Whether the upper bound belongs to it.",
    (f"upper_inc({_R})", "FALSE"),
    lambda value: bool(value) and len(value[-1][1]) > 1 and bool(value[-1][1][2]),
)
_asked(
    "lower_inf",
    "Whether it has no lower bound.",
    (f"lower_inf({_R})", "FALSE"),
    lambda value: bool(value) and len(value[0][0]) == 1,
)
_asked(
    "upper_inf",
    "Whether it has no upper bound.",
    (f"upper_inf({_R})", "FALSE"),
    lambda value: bool(value) and len(value[-1][1]) == 1,
)


def _pair(types: tuple[Type, ...]) -> tuple[Type, Type] | None:
    if len(types) != 2 or not any(type_.kind in RANGES for type_ in types):
        return None
    left, right = types
    left, right = (right if is_unknown(left) else left), (left if is_unknown(right) else right)
    return (left, right) if {left.kind, right.kind} <= RANGES and left.parts == right.parts else None


def _either(types: tuple[Type, ...]) -> Signature | None:
    pair = _pair(types)
    return None if pair is None else Signature(pair, BOOLEAN)


def _ends_no_later(left: Ranges, right: Ranges) -> bool:
    return bool(left and right) and left[-1][1] <= right[-1][1]


def _begins_no_earlier(left: Ranges, right: Ranges) -> bool:
    return bool(left and right) and left[0][0] >= right[0][0]


for _name, _doc, _example, _code in (
    (
        "not_right_of",
        "Whether the first ends no later than the second (``&<``).",
        (f"not_right_of({_R}, int4range(1, 6))", "TRUE"),
        _ends_no_later,
    ),
    (
        "not_left_of",
        "Whether the first begins no earlier than the second (``&>``).",
        (f"not_left_of({_R}, int4range(0, 6))", "TRUE"),
        _begins_no_earlier,
    ),
    (
        "adjacent_to",
        "Whether one begins where the other ends (``-|-``).",
        (f"adjacent_to({_R}, int4range(5, 6))", "TRUE"),
        ranges.adjacent,
    ),
):
    scalar(
        _name,
        "two ranges",
        _doc,
        dict([_example]),
        Overload(_either, _plain(_code)),
    )


def _merging(types: tuple[Type, ...]) -> Signature | None:
    if len(types) == 1 and types[0].kind is Kind.MULTIRANGE:
        return Signature(types, range_of(types[0].parts[0]))
    pair = _pair(types)
    return (
        Signature(pair, pair[0]) if pair is not None and pair[0].kind is pair[1].kind is Kind.RANGE else None
    )


scalar(
    "range_merge",
    "two ranges, or a set of ranges",
    "The smallest range around both, or all.",
    {"range_merge(int4range(1, 2), int4range(5, 6))::TEXT": "'[1,6)'"},
    Overload(_merging, Memoized(lambda call: lambda *values: ranges.whole(ranges.union(*values)))),
)
scalar(
    "multirange",
    "a range",
    "The set of one range.",
    {"multirange(int4range(1, 2))::TEXT": "'{[1,2)}'"},
    Overload(
        _one(lambda type_: multirange_of(type_.parts[0]), frozenset({Kind.RANGE})),
        Memoized(lambda call: lambda value: value),
    ),
)
