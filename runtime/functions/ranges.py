"""Range and multirange functions and operators, and the aggregates of ranges and bit strings."""

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from kpg.runtime.functions.aggregation import definition
from kpg.runtime.functions.aggregation.definition import (
    AggregateFunction,
    Basic,
    Rows,
    Types,
    Value,
    register,
)
from kpg.runtime.functions.registry import Memoized, NullRule, Overload, Rule, Signature, extend, scalar
from kpg.runtime.functions.type_rules import common_type, is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import (
    BIGINT,
    BIT_KINDS,
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
from kpg.runtime.values.codec import codec_of
from kpg.runtime.values.ranges import Ranges

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


def _ranges_one(result: Callable[[Type], Type]) -> Rule:
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


_ranges_either = _two(lambda left, right: BOOLEAN)
_alike = _two(lambda left, right: left, mixed=False)
_say("overlaps_with", _ranges_either, lambda call: lambda x, y: bool(ranges.intersection(x, y)))
_say("contains_all", _ranges_either, lambda call: ranges.contains)
_say("contained_in", _ranges_either, lambda call: lambda x, y: ranges.contains(y, x))
_say("contains_all", _inside(first=False), lambda call: ranges.has)
_say("contained_in", _inside(first=True), lambda call: lambda value, around: ranges.has(around, value))
_say("shift_left", _ranges_either, lambda call: before)
_say("shift_right", _ranges_either, lambda call: lambda x, y: before(y, x))
_say("add", _alike, lambda call: _of_kind(call, ranges.union, "union"))
_say("sub", _alike, lambda call: _of_kind(call, ranges.difference, "difference"))
_say("mul", _alike, lambda call: ranges.intersection)
_say("lower", _ranges_one(lambda type_: type_.parts[0]), lambda call: lower)
_say("upper", _ranges_one(lambda type_: type_.parts[0]), lambda call: upper)


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


def _of(kinds: frozenset[Kind], result: Callable[[Type], Type]) -> Callable[[Types], Signature | None]:
    def rule(types: Types) -> Signature | None:
        return Signature(types, result(types[0])) if len(types) == 1 and types[0].kind in kinds else None

    return rule


def united(types: Types) -> definition.InOrder:
    """The set of all that is in one of the ranges."""
    return lambda rows: ranges.union(*(operands[0] for operands, _ in rows))


def shared(types: Types) -> definition.InOrder:
    """What is in all of the ranges."""
    return lambda rows: reduce(ranges.intersection, (operands[0] for operands, _ in rows))


def _bits(code: Callable[[int, int], int], *, counted: bool = False) -> Callable[[Types], definition.InOrder]:
    def finish(rows: Rows) -> Value:
        values = [str(operands[0]) for operands, times in rows for _ in range(times if counted else 1)]
        if len({len(value) for value in values}) > 1:
            raise ValueError("bit strings of different sizes")
        if not values[0]:
            return ""
        return f"{reduce(code, (int(value or '0', 2) for value in values)):0{len(values[0])}b}"

    return lambda types: finish


for _range_sets_name, _accepts, _range_sets_doc, _range_sets_example, _rule, _finish in (
    (
        "range_agg",
        "a range or a set of ranges",
        "The set of all that is in one of them.",
        {"('[1,2]'::int4range), ('[2,4]'::int4range), (NULL)": "'{[1,5)}'::int4multirange"},
        _of(RANGES, lambda type_: multirange_of(type_.parts[0])),
        united,
    ),
    (
        "range_intersect_agg",
        "a range or a set of ranges",
        "What is in all of them.",
        {"('[1,2]'::int4range), ('[2,4]'::int4range), (NULL)": "'[2,3)'::int4range"},
        _of(RANGES, lambda type_: type_),
        shared,
    ),
    (
        "$bits_and",
        "a bit string",
        "The bits that all have.",
        {},
        _of(BIT_KINDS, lambda t: t),
        _bits(int.__and__),
    ),
    (
        "$bits_or",
        "a bit string",
        "The bits that any has.",
        {},
        _of(BIT_KINDS, lambda t: t),
        _bits(int.__or__),
    ),
    (
        "$bits_xor",
        "a bit string",
        "The bits that an odd number have.",
        {},
        _of(BIT_KINDS, lambda t: t),
        _bits(int.__xor__, counted=True),
    ),
):
    register(
        AggregateFunction(
            _range_sets_name,
            _accepts,
            _range_sets_doc,
            _range_sets_example,
            _rule,
            definition.natural(_finish),
            Basic(),
        )
    )
