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
from kpg.runtime.functions.registry import (
    MemoizedFunction,
    NullRule,
    Overload,
    Rule,
    Signature,
    add_overloads,
    register_scalar,
)
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


def _range_pair(result: Callable[[Type, Type], Type], *, mixed: bool = True) -> Rule:
    """Return a rule for two ranges or multiranges with one type of bound.

    A quoted constant has the type of the other argument.
    """

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or not any(type_.kind in RANGES for type_ in types):
            return None
        left, right = types
        left, right = (right if is_unknown(left) else left), (left if is_unknown(right) else right)
        if not {left.kind, right.kind} <= RANGES or left.parts != right.parts:
            return None
        return Signature((left, right), result(left, right)) if mixed or left.kind is right.kind else None

    return rule


def _element_and_range(*, first: bool) -> Rule:
    """Return a rule for a value and a range of such values."""

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


def _one_range(result: Callable[[Type], Type]) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 or types[0].kind not in RANGES:
            return None
        return Signature(types, result(types[0]))

    return rule


def _add_range_overload(name: str, rule: Rule, build: Callable[[Call], Code]) -> None:
    add_overloads(name, "ranges", Overload(rule, MemoizedFunction(build)))


def _contiguous_result(call: Call, code: Callable[..., Ranges], operation: str) -> Code:
    """Return ``code``, which for a range must give a contiguous result."""
    if call.type.kind is Kind.MULTIRANGE:
        return code

    def single(*values: Ranges) -> Ranges:
        result = code(*values)
        if len(result) > 1:
            raise ValueError(f"result of range {operation} would not be contiguous")
        return result

    return single


def bound_value(bound: Any) -> Any:
    """Return the value of a bound, or None for an infinite bound."""
    return bound[1] if len(bound) > 1 else None


def lower(value: Ranges) -> object:
    """Return the lower bound of the first range."""
    return bound_value(value[0][0]) if value else None


def upper(value: Ranges) -> object:
    """Return the upper bound of the last range."""
    return bound_value(value[-1][1]) if value else None


def is_before(left: Ranges, right: Ranges) -> bool:
    """Check whether the first range ends before the second begins."""
    return bool(left and right) and left[-1][1] <= right[0][0]


_range_comparison = _range_pair(lambda left, right: BOOLEAN)
_same_ranges = _range_pair(lambda left, right: left, mixed=False)
_add_range_overload(
    "overlaps_with", _range_comparison, lambda call: lambda x, y: bool(ranges.intersection(x, y))
)
_add_range_overload("contains_all", _range_comparison, lambda call: ranges.contains)
_add_range_overload("contained_in", _range_comparison, lambda call: lambda x, y: ranges.contains(y, x))
_add_range_overload("contains_all", _element_and_range(first=False), lambda call: ranges.contains_value)
_add_range_overload(
    "contained_in",
    _element_and_range(first=True),
    lambda call: lambda value, around: ranges.contains_value(around, value),
)
_add_range_overload("shift_left", _range_comparison, lambda call: is_before)
_add_range_overload("shift_right", _range_comparison, lambda call: lambda x, y: is_before(y, x))
_add_range_overload("add", _same_ranges, lambda call: _contiguous_result(call, ranges.union, "union"))
_add_range_overload(
    "sub", _same_ranges, lambda call: _contiguous_result(call, ranges.difference, "difference")
)
_add_range_overload("mul", _same_ranges, lambda call: ranges.intersection)
_add_range_overload("lower", _one_range(lambda type_: type_.parts[0]), lambda call: lower)
_add_range_overload("upper", _one_range(lambda type_: type_.parts[0]), lambda call: upper)


def range_constructor(bound: Type) -> Callable[[Call], Code]:
    """Return the implementation of ``int4range(low, high, bounds)`` for a type of bound."""

    def make(low: Any, high: Any, bounds: str | None = "[)") -> Ranges:
        if bounds is None:
            raise ValueError("range constructor flags argument must not be null")
        return ranges.make_range(low, high, bounds, bound)

    return lambda call: make


def show_range(value: Ranges, bound: Type) -> str:
    """Format a range like Postgres."""
    return codec_of(range_of(bound)).show(value)


BOUND_TYPES: Final = {type_.kind: type_ for type_ in (INTEGER, BIGINT, NUMERIC, DATE, TIMESTAMP, TIMESTAMPTZ)}
CONSTRUCTOR_EXAMPLES: Final = {
    Kind.INTEGER: ("int4range(1, 5, '[]')::TEXT", "'[1,6)'"),
    Kind.BIGINT: ("int8range(1, NULL)::TEXT", "'[1,)'"),
    Kind.NUMERIC: ("numrange(1.5, 2.5, '(]')::TEXT", "'(1.5,2.5]'"),
    Kind.DATE: ("daterange('2020-01-01', '2020-01-31', '[]')::TEXT", "'[2020-01-01,2020-02-01)'"),
    Kind.TIMESTAMP: ("isempty(tsrange('2020-01-01', '2020-01-01'))", "TRUE"),
    Kind.TIMESTAMPTZ: ("upper_inf(tstzrange('2020-01-01', NULL))", "TRUE"),
}


def _memoize(code: Callable[..., object]) -> MemoizedFunction:
    return MemoizedFunction(lambda call: code)


def _bounds_rule(bound: Type) -> Rule:
    """Return a rule for two values of a type and optionally a text such as ``[)``."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) not in (2, 3) or (len(types) == 3 and not (types[2].is_text or is_unknown(types[2]))):
            return None
        fit = all(is_unknown(type_) or common_type((type_, bound)) == bound for type_ in types[:2])
        return Signature((bound, bound, TEXT)[: len(types)], range_of(bound)) if fit else None

    return rule


def _ranges_rule(bound: Type) -> Rule:
    """Return a rule for any number of ranges."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        wanted = range_of(bound)
        fit = all(is_unknown(type_) or type_ == wanted for type_ in types)
        return Signature((wanted,) * len(types), multirange_of(bound)) if fit else None

    return rule


for _kind, _bound in BOUND_TYPES.items():
    _name = RANGE_NAMES[_kind].lower()
    register_scalar(
        f"{_name}range",
        "two bounds, of which NULL is none, and '[)', '(]', '[]' or '()'",
        "The range between them, with or without the bounds themselves.",
        dict([CONSTRUCTOR_EXAMPLES[_kind]]),
        Overload(_bounds_rule(_bound), MemoizedFunction(range_constructor(_bound), takes_nulls=True)),
        nulls=NullRule.CALLED_ON_NULL,
    )
    register_scalar(
        f"{_name}multirange",
        "ranges",
        "The set of what is in one of the ranges.",
        {f"{_name}multirange('empty')::TEXT": "'{}'"},
        Overload(_ranges_rule(_bound), MemoizedFunction(lambda call: ranges.union)),
    )


def _one_of_kinds(result: Callable[[Type], Type], kinds: frozenset[Kind] = RANGES) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        return Signature(types, result(types[0])) if len(types) == 1 and types[0].kind in kinds else None

    return rule


def _register_range_predicate(
    name: str, doc: str, example: tuple[str, str], code: Callable[[Ranges], bool]
) -> None:
    how = MemoizedFunction(lambda call: code)
    register_scalar(
        name, "a range", doc, dict([example]), Overload(_one_of_kinds(lambda type_: BOOLEAN), how)
    )


_R = "int4range(1, 5)"
_register_range_predicate(
    "isempty", "Whether nothing is in it.", (f"isempty({_R})", "FALSE"), lambda value: not value
)
_register_range_predicate(
    "lower_inc",
    "Whether the lower bound belongs to it.",
    (f"lower_inc({_R})", "TRUE"),
    lambda value: bool(value) and len(value[0][0]) > 1 and not value[0][0][2],
)
_register_range_predicate(
    "upper_inc",
    "Whether the upper bound belongs to it.",
    (f"upper_inc({_R})", "FALSE"),
    lambda value: bool(value) and len(value[-1][1]) > 1 and bool(value[-1][1][2]),
)
_register_range_predicate(
    "lower_inf",
    "Whether it has no lower bound.",
    (f"lower_inf({_R})", "FALSE"),
    lambda value: bool(value) and len(value[0][0]) == 1,
)
_register_range_predicate(
    "upper_inf",
    "Whether it has no upper bound.",
    (f"upper_inf({_R})", "FALSE"),
    lambda value: bool(value) and len(value[-1][1]) == 1,
)


def _range_types(types: tuple[Type, ...]) -> tuple[Type, Type] | None:
    if len(types) != 2 or not any(type_.kind in RANGES for type_ in types):
        return None
    left, right = types
    left, right = (right if is_unknown(left) else left), (left if is_unknown(right) else right)
    return (left, right) if {left.kind, right.kind} <= RANGES and left.parts == right.parts else None


def _range_pair_predicate(types: tuple[Type, ...]) -> Signature | None:
    pair = _range_types(types)
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
        ranges.is_adjacent,
    ),
):
    register_scalar(
        _name,
        "two ranges",
        _doc,
        dict([_example]),
        Overload(_range_pair_predicate, _memoize(_code)),
    )


def _merge_rule(types: tuple[Type, ...]) -> Signature | None:
    if len(types) == 1 and types[0].kind is Kind.MULTIRANGE:
        return Signature(types, range_of(types[0].parts[0]))
    pair = _range_types(types)
    return (
        Signature(pair, pair[0]) if pair is not None and pair[0].kind is pair[1].kind is Kind.RANGE else None
    )


register_scalar(
    "range_merge",
    "two ranges, or a set of ranges",
    "The smallest range around both, or all.",
    {"range_merge(int4range(1, 2), int4range(5, 6))::TEXT": "'[1,6)'"},
    Overload(
        _merge_rule,
        MemoizedFunction(lambda call: lambda *values: ranges.enclosing_range(ranges.union(*values))),
    ),
)
register_scalar(
    "multirange",
    "a range",
    "The set of one range.",
    {"multirange(int4range(1, 2))::TEXT": "'{[1,2)}'"},
    Overload(
        _one_of_kinds(lambda type_: multirange_of(type_.parts[0]), frozenset({Kind.RANGE})),
        MemoizedFunction(lambda call: lambda value: value),
    ),
)


def _aggregate_rule(
    kinds: frozenset[Kind], result: Callable[[Type], Type]
) -> Callable[[Types], Signature | None]:
    def rule(types: Types) -> Signature | None:
        return Signature(types, result(types[0])) if len(types) == 1 and types[0].kind in kinds else None

    return rule


def union_rows(types: Types) -> definition.InOrder:
    """Return the final function of the union of ranges."""
    return lambda rows: ranges.union(*(operands[0] for operands, _ in rows))


def intersect_rows(types: Types) -> definition.InOrder:
    """Return the final function of the intersection of ranges."""
    return lambda rows: reduce(ranges.intersection, (operands[0] for operands, _ in rows))


def _bitwise_aggregate(
    code: Callable[[int, int], int], *, needs_multiplicity: bool = False
) -> Callable[[Types], definition.InOrder]:
    def finish(rows: Rows) -> Value:
        values = [
            str(operands[0]) for operands, times in rows for _ in range(times if needs_multiplicity else 1)
        ]
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
        _aggregate_rule(RANGES, lambda type_: multirange_of(type_.parts[0])),
        union_rows,
    ),
    (
        "range_intersect_agg",
        "a range or a set of ranges",
        "What is in all of them.",
        {"('[1,2]'::int4range), ('[2,4]'::int4range), (NULL)": "'[2,3)'::int4range"},
        _aggregate_rule(RANGES, lambda type_: type_),
        intersect_rows,
    ),
    (
        "$bits_and",
        "a bit string",
        "The bits that all have.",
        {},
        _aggregate_rule(BIT_KINDS, lambda t: t),
        _bitwise_aggregate(int.__and__),
    ),
    (
        "$bits_or",
        "a bit string",
        "The bits that any has.",
        {},
        _aggregate_rule(BIT_KINDS, lambda t: t),
        _bitwise_aggregate(int.__or__),
    ),
    (
        "$bits_xor",
        "a bit string",
        "The bits that an odd number have.",
        {},
        _aggregate_rule(BIT_KINDS, lambda t: t),
        _bitwise_aggregate(int.__xor__, needs_multiplicity=True),
    ),
):
    register(
        AggregateFunction(
            _range_sets_name,
            _accepts,
            _range_sets_doc,
            _range_sets_example,
            _rule,
            definition.sorted_algorithm(_finish),
            Basic(),
        )
    )
