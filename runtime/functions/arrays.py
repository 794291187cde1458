"""Arrays in expressions: made of elements, taken apart, compared with a value, searched and changed."""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from kpg.runtime.functions.registry import Memoized, NullRule, Overload, Rule, Signature, primitive, scalar
from kpg.runtime.functions.rules import is_unknown, shown_type
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, INTEGER, TEXT, Kind, Type, array
from kpg.runtime.values import codec_of
from kpg.runtime.values.arrays import EMPTY, Array, counted, dimensions, from_nested, nested, of
from kpg.runtime.values.intervals import span

Key = Callable[[Any], Any]
LONGEST = 1 << 24
"""Elements that an array may have."""


def key_of(type_: Type) -> Key:
    """What elements are compared by."""
    return span if type_.kind is Kind.INTERVAL else codec_of(type_).encode


def is_array(type_: Type) -> bool:
    return type_.kind is Kind.ARRAY


def made(call: Call) -> Callable[..., Array]:
    """ARRAY[...] of elements, or of arrays of equal dimensions."""
    if call.args and is_array(call.args[0].type):
        return _stacked
    return lambda *items: of(items)


def _stacked(*items: Array | None) -> Array:
    """Arrays of equal bounds as one with a dimension more."""
    whole = from_nested([[] if item is None else nested(item) for item in items])
    firsts = {item.firsts for item in items if item is not None}
    if len(firsts) > 1 and whole.items:
        raise ValueError("multidimensional arrays must have array expressions with matching dimensions")
    return counted(whole, (1, *firsts.pop())) if whole.items else whole


primitive("$array", Memoized(made, takes_nulls=True))


def element(value: Array, *places: int) -> Any:
    """One element; NULL outside of the array, or with another number of subscripts than it has dimensions."""
    if len(places) != len(value.shape):
        return None
    position = 0
    for place, first, length in zip(places, value.firsts, value.shape, strict=True):
        if not first <= place < first + length:
            return None
        position = position * length + place - first
    return value.items[position]


def part(value: Array, *bounds: int | None) -> Array:
    """A slice, counted from 1: a lower and an upper bound for each of the first dimensions."""
    pairs = list(zip(bounds[::2], bounds[1::2], strict=True))
    if not value.items or len(pairs) > len(value.shape):
        return EMPTY

    def cut(items: Any, depth: int) -> Any:
        if depth == len(pairs):
            return items
        low, high = pairs[depth]
        first = value.firsts[depth]
        start = 0 if low is None else max(low - first, 0)
        chosen = items[start : max(high - first + 1, 0) if high is not None else None]
        return [cut(item, depth + 1) for item in chosen]

    return from_nested(cut(nested(value), 0))


primitive("$element", Memoized(lambda call: element))
primitive("$slice", Memoized(lambda call: _part_of, takes_nulls=True))
primitive("$slice_marks", Memoized(lambda call: part))


def _part_of(value: Array | None, *bounds: int | None) -> Array | None:
    return None if value is None else part(value, *bounds)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": eq,
    "ne": ne,
    "lt": lt,
    "le": le,
    "gt": gt,
    "ge": ge,
}


def _quantified(name: str, *, every: bool) -> Memoized:
    """``value comparison ANY (array)``, or ALL, with NULL for what is unknown."""
    compare = COMPARISONS[name]

    def build(call: Call) -> Callable[..., bool | None]:
        key = key_of(call.args[0].type)

        def test(value: Any, items: Array | None) -> bool | None:
            if items is None:
                return None
            unknown = False
            here = None if value is None else key(value)
            for item in items.items:
                if here is None or item is None:
                    unknown = True
                elif compare(here, key(item)) is not every:
                    return not every
            return None if unknown else every

        return test

    return Memoized(build, takes_nulls=True)


for _name in COMPARISONS:
    primitive(f"$any_{_name}", _quantified(_name, every=False))
    primitive(f"$all_{_name}", _quantified(_name, every=True))


def two(result: Type | None = None) -> Rule:
    """Two arrays of one type; the result has that type unless given."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or not any(map(is_array, types)):
            return None
        joint = shown_type(types)
        if joint is None or not is_array(joint):
            return None
        return Signature((joint, joint), joint if result is None else result)

    return rule


def with_element(*, first: bool, result: Type | None = None, others: tuple[Type, ...] = ()) -> Rule:
    """An array and an element of its type, or the element first; then other arguments."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 + len(others):
            return None
        given, item = types[:2] if first else (types[1], types[0])
        if not is_array(given):
            return None
        joint = shown_type((given.parts[0], item))
        if joint is None or is_array(joint):
            return None
        pair = (array(joint), joint) if first else (joint, array(joint))
        return Signature((*pair, *others), array(joint) if result is None else result)

    return rule


def single(result: Type, *others: Type) -> Rule:
    """An array and other arguments."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + len(others) or not is_array(types[0]):
            return None
        for type_, other in zip(types[1:], others, strict=True):
            if type_.kind is not other.kind and not is_unknown(type_) and not type_.is_integer:
                return None
        return Signature((types[0], *others), result)

    return rule


def _holds(call: Call) -> Callable[[Array, Array], bool]:
    key = key_of(call.args[0].type.parts[0])

    def test(whole: Array, wanted: Array) -> bool:
        if None in wanted.items:
            return False
        return {key(item) for item in wanted.items} <= {key(item) for item in whole.items if item is not None}

    return test


def _held(call: Call) -> Callable[[Array, Array], bool]:
    test = _holds(call)
    return lambda wanted, whole: test(whole, wanted)


def _overlap(call: Call) -> Callable[[Array, Array], bool]:
    key = key_of(call.args[0].type.parts[0])

    def test(left: Array, right: Array) -> bool:
        found = [{key(item) for item in one.items if item is not None} for one in (left, right)]
        return not found[0].isdisjoint(found[1])

    return test


def _joined(left: Array | None, right: Array | None) -> Array | None:
    """One after the other: of equal dimensions, or the one as an element of the other."""
    if left is None or right is None:
        return right if left is None else left
    if not left.items or not right.items:
        return left if left.items else right
    ranks = len(left.shape) - len(right.shape)
    whole, other = (right, left) if ranks < 0 else (left, right)
    inner = 0 if ranks == 0 else 1
    alike = whole.shape[1:] == other.shape[1 - inner :] and whole.firsts[1:] == other.firsts[1 - inner :]
    if abs(ranks) > 1 or not alike:
        raise ValueError("cannot concatenate incompatible arrays")
    length = whole.shape[0] + (1 if inner else other.shape[0])
    joined = Array(left.items + right.items, (length, *whole.shape[1:]))
    return counted(joined, whole.firsts)


def _appended(value: Array | None, item: Any) -> Array:
    return _grown(value, item, last=True)


def _prepended(item: Any, value: Array | None) -> Array:
    return _grown(value, item, last=False)


def _grown(value: Array | None, item: Any, *, last: bool) -> Array:
    items = () if value is None else value.items
    if value is not None and len(value.shape) > 1:
        raise ValueError("argument must be empty or one-dimensional array")
    first = 1 if value is None or not value.items else value.firsts[0]
    return of((*items, item) if last else (item, *items), first)


APPEND = Overload(with_element(first=True), Memoized(lambda call: _appended, takes_nulls=True))
PREPEND = Overload(with_element(first=False), Memoized(lambda call: _prepended, takes_nulls=True))
JOIN = Overload(two(), Memoized(lambda call: _joined, takes_nulls=True))
HOLDS = Overload(two(BOOLEAN), Memoized(_holds))
HELD = Overload(two(BOOLEAN), Memoized(_held))
OVERLAP = Overload(two(BOOLEAN), Memoized(_overlap))

scalar(
    "array_append",
    "an array and an element",
    "The array with the element at its end.",
    {"array_length(array_append(ARRAY[1, 2], 3), 1)": "3"},
    APPEND,
    nulls=NullRule.OWN,
)
scalar(
    "array_prepend",
    "an element and an array",
    "The array with the element before it.",
    {"array_length(array_prepend(1, ARRAY[2, 3]), 1)": "3"},
    PREPEND,
    nulls=NullRule.OWN,
)
scalar(
    "array_cat",
    "two arrays, or an array and an element",
    "One array after the other: ||.",
    {"array_length(array_cat(ARRAY[1, 2], ARRAY[3]), 1)": "3"},
    JOIN,
    APPEND,
    PREPEND,
    nulls=NullRule.OWN,
)


def _length(value: Array, dimension: int) -> int | None:
    return value.shape[dimension - 1] if 1 <= dimension <= len(value.shape) else None


def _lower(value: Array, dimension: int) -> int | None:
    return value.firsts[dimension - 1] if 1 <= dimension <= len(value.shape) else None


def _upper(value: Array, dimension: int) -> int | None:
    here = 1 <= dimension <= len(value.shape)
    return value.firsts[dimension - 1] + value.shape[dimension - 1] - 1 if here else None


def _dimensions(value: Array) -> str | None:
    return dimensions(value) or None


def _memoized(function: Callable[..., object]) -> Memoized:
    return Memoized(lambda call: function)


for _name, _what, _result, _others, _function, _example in (
    ("cardinality", "How many elements there are.", INTEGER, (), lambda value: len(value.items), ("", "3")),
    ("array_length", "The length of a dimension.", INTEGER, (INTEGER,), _length, (", 1", "3")),
    ("array_upper", "The last subscript of a dimension.", INTEGER, (INTEGER,), _upper, (", 1", "3")),
    ("array_lower", "The first subscript of a dimension.", INTEGER, (INTEGER,), _lower, (", 1", "1")),
    (
        "array_ndims",
        "The number of dimensions; NULL of an empty array.",
        INTEGER,
        (),
        lambda value: len(value.shape) or None,
        ("", "1"),
    ),
    ("array_dims", "The dimensions as text.", TEXT, (), _dimensions, ("", "'[1:3]'")),
):
    scalar(
        _name,
        "an array" + (" and the number of a dimension" if _others else ""),
        _what,
        {f"{_name}(ARRAY[4, 5, 6]{_example[0]})": _example[1]},
        Overload(single(_result, *_others), _memoized(_function)),
    )
