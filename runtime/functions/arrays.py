"""Array functions: constructors, subscripts, slices, comparison with ANY and ALL, search, and assignment.

Assignment (``SET a[1] = ...``, ``SET a[1:2] = ...``) is a function from the old array to the new one.
"""

import math
from collections.abc import Callable
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from kpg.runtime.functions.comparison import key_of
from kpg.runtime.functions.registry import Memoized, NullRule, Overload, Rule, Signature, primitive, scalar
from kpg.runtime.functions.set_returning_functions import split
from kpg.runtime.functions.type_rules import is_unknown, shown_type
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, INTEGER, TEXT, Kind, Type, array
from kpg.runtime.values import codec_of
from kpg.runtime.values.arrays import EMPTY, Array, counted, dimensions, from_nested, nested, of
from kpg.runtime.values.jsons import Json, in_order

LONGEST = 1 << 24
"""Elements that an array may have."""


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


def _arrays_joined(left: Array | None, right: Array | None) -> Array | None:
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
JOIN = Overload(two(), Memoized(lambda call: _arrays_joined, takes_nulls=True))
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


Build = Callable[[Call], Callable[..., Any]]


def _with_elements(count: int, result: Callable[[Type], Type], *more: Type) -> Rule:
    """An array, so many of its elements, and other arguments."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + count + len(more) or not is_array(types[0]):
            return None
        element = shown_type((types[0].parts[0], *types[1 : 1 + count]))
        if element is None:
            return None
        for one, other in zip(types[1 + count :], more, strict=True):
            if not is_unknown(one) and not (one.is_integer and other.is_integer):
                return None
        return Signature((array(element), *(element,) * count, *more), result(array(element)))

    return rule


def _define(
    name: str, accepts: str, doc: str, examples: dict[str, str], ways: list[tuple[Rule, Build]]
) -> None:
    overloads = (Overload(rule, Memoized(build, takes_nulls=True)) for rule, build in ways)
    scalar(name, accepts, doc, examples, *overloads, nulls=NullRule.OWN)


def _same(call: Call) -> Callable[[Any, Any], bool]:
    key = key_of(call.args[0].type.parts[0])
    return lambda left, right: (left is None) is (right is None) and (left is None or key(left) == key(right))


def _flat(value: Array, name: str) -> tuple[Any, ...]:
    if len(value.shape) > 1:
        raise ValueError(f"{name} of arrays of several dimensions is not supported")
    return value.items


def _position(call: Call) -> Callable[..., int | None]:
    same = _same(call)

    def find(value: Array | None, wanted: Any, start: int | None = -(2**31)) -> int | None:
        if value is None:
            return None
        if start is None:
            raise ValueError("initial position must not be null")
        places = enumerate(_flat(value, "array_position"), *value.firsts[:1])
        return next((place for place, item in places if place >= start and same(item, wanted)), None)

    return find


def _positions(call: Call) -> Callable[..., Array | None]:
    same = _same(call)

    def find(value: Array | None, wanted: Any) -> Array | None:
        if value is None:
            return None
        places = enumerate(_flat(value, "array_positions"), *value.firsts[:1])
        return of([place for place, item in places if same(item, wanted)])

    return find


def _remove(call: Call) -> Callable[..., Array | None]:
    same = _same(call)

    def remove(value: Array | None, unwanted: Any) -> Array | None:
        if value is None:
            return None
        rest = [item for item in _flat(value, "array_remove") if not same(item, unwanted)]
        return of(rest, *value.firsts[:1])

    return remove


def _replace(call: Call) -> Callable[..., Array | None]:
    same = _same(call)

    def replace(value: Array | None, old: Any, new: Any) -> Array | None:
        if value is None:
            return None
        return value._replace(items=tuple(new if same(item, old) else item for item in value.items))

    return replace


def _letter(value: bool) -> str:
    return "t" if value else "f"


def _joined(call: Call) -> Callable[..., str | None]:
    element = call.args[0].type.parts[0]
    show: Callable[[Any], str] = _letter if element == BOOLEAN else codec_of(element).show

    def join(value: Array | None, separator: str | None, null: str | None = None) -> str | None:
        if value is None or separator is None:
            return None
        shown = (null if item is None else show(item) for item in value.items)
        return separator.join(text for text in shown if text is not None)

    return join


def _texts(count: int) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + count or not is_array(types[0]):
            return None
        texts = all(type_.is_text or is_unknown(type_) for type_ in types[1:])
        return Signature((types[0], *(TEXT,) * count), TEXT) if texts else None

    return rule


def _split(count: int) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        fits = len(types) == count and all(type_.is_text or is_unknown(type_) for type_ in types)
        return Signature((TEXT,) * count, array(TEXT)) if fits else None

    return rule


def _parts(string: str | None, separator: str | None, null: str | None = None) -> Array | None:
    return None if string is None else of(split(string, separator, null))


def _trimmed(value: Array | None, count: int | None) -> Array | None:
    if value is None or count is None:
        return None
    length = value.shape[0] if value.shape else 0
    if not 0 <= count <= length:
        raise ValueError(f"number of elements to trim must be between 0 and {length}")
    return from_nested(nested(value)[: length - count])


def _same_type(type_: Type) -> Type:
    return type_


_define(
    "array_position",
    "an array, an element and optionally a place to start at",
    "Where an element first is in an array; NULL if it is not.",
    {"array_position(ARRAY['sun', 'mon', 'tue'], 'mon')": "2"},
    [
        (_with_elements(1, lambda type_: INTEGER), _position),
        (_with_elements(1, lambda type_: INTEGER, INTEGER), _position),
    ],
)
_define(
    "array_positions",
    "an array and an element",
    "All places of an element in an array.",
    {"array_positions(ARRAY['A', 'B', 'A'], 'A')::TEXT": "'{1,3}'"},
    [(_with_elements(1, lambda type_: array(INTEGER)), _positions)],
)
_define(
    "array_remove",
    "an array and an element",
    "The array without an element.",
    {"array_remove(ARRAY[1, 2, 3, 2], 2)::TEXT": "'{1,3}'"},
    [(_with_elements(1, _same_type), _remove)],
)
_define(
    "array_replace",
    "an array and two elements",
    "The array with one element in the place of another.",
    {"array_replace(ARRAY[1, 2, 5, 4], 5, 3)::TEXT": "'{1,2,3,4}'"},
    [(_with_elements(2, _same_type), _replace)],
)
_define(
    "array_to_string",
    "an array, a separator and optionally what stands for NULL",
    "The elements as text, one after the other, the separator between them; NULLs are left out.",
    {"array_to_string(ARRAY[1, 2, NULL, 5], ',', '*')": "'1,2,*,5'"},
    [(_texts(1), _joined), (_texts(2), _joined)],
)
_define(
    "string_to_array",
    "text, a separator and optionally what stands for NULL",
    "The parts of a text between separators; its characters if the separator is NULL.",
    {"string_to_array('xx~~yy~~zz', '~~', 'yy')::TEXT": "'{xx,NULL,zz}'"},
    [(_split(2), lambda call: _parts), (_split(3), lambda call: _parts)],
)
_define(
    "trim_array",
    "an array and a number",
    "The array without so many of its last elements.",
    {"trim_array(ARRAY[1, 2, 3, 4, 5, 6], 2)::TEXT": "'{1,2,3,4}'"},
    [(_with_elements(0, _same_type, INTEGER), lambda call: _trimmed)],
)


def _counted(types: tuple[Type, ...]) -> Signature | None:
    """Any values."""
    return (
        Signature(tuple(TEXT if is_unknown(type_) else type_ for type_ in types), INTEGER) if types else None
    )


_define(
    "num_nulls",
    "values",
    "How many of the values are NULL.",
    {"num_nulls(1, NULL, 2)": "1"},
    [(_counted, lambda call: lambda *values: sum(value is None for value in values))],
)
_define(
    "num_nonnulls",
    "values",
    "How many of the values are not NULL.",
    {"num_nonnulls(1, NULL, 2)": "2"},
    [(_counted, lambda call: lambda *values: sum(value is not None for value in values))],
)


MOST = 1 << 20
"""Elements that an assignment may make: beyond that a subscript is a mistake."""


def assign_element(value: Array | None, new: object, *places: int | None) -> Array:
    """The array with an element in a place; one beyond its ends makes it longer, with NULLs between."""
    if any(place is None for place in places):
        raise ValueError("array subscript in assignment must not be null")
    chosen = [place for place in places if place is not None]
    known = value or of(())
    if not known.items:
        return counted(Array((new,), (1,) * len(chosen)), chosen)
    if len(chosen) != len(known.shape):
        raise ValueError("wrong number of array subscripts")
    if len(chosen) == 1:
        return _put(known, chosen[0], [new])
    position = 0
    for place, first, length in zip(chosen, known.firsts, known.shape, strict=True):
        if not first <= place < first + length:
            raise ValueError("array subscript out of range")
        position = position * length + place - first
    return known._replace(items=(*known.items[:position], new, *known.items[position + 1 :]))


def with_slice(value: Array | None, new: Array | None, *bounds: int | None) -> Array | None:
    """The array with elements of another in a slice: bounds of each of its first dimensions.

    None stands for the array's own bound.
    """
    if new is None:
        return value
    known = value or of(())
    pairs = [_bounds(known, at, *bounds[2 * at : 2 * at + 2]) for at in range(len(bounds) // 2)]
    if known.items and len(pairs) > len(known.shape):
        raise ValueError("wrong number of array subscripts")
    pairs += [
        (first, first + length - 1) for first, length in _assigned_parts_dimensions(known)[len(pairs) :]
    ]
    lengths = [high - low + 1 for low, high in pairs]
    count = math.prod(lengths)
    if min(lengths) < 0 or (known.items and min(lengths) < 1):
        raise ValueError("upper bound cannot be less than lower bound")
    if len(new.items) < count:
        raise ValueError("source array too small")
    if not known.items:
        return (
            counted(Array(new.items[:count], tuple(lengths)), [low for low, _ in pairs]) if count else known
        )
    if len(pairs) == 1:
        return _put(known, pairs[0][0], list(new.items[:count]))
    return _replaced(known, pairs, new.items)


def _assigned_parts_dimensions(known: Array) -> list[tuple[int, int]]:
    return list(zip(known.firsts, known.shape, strict=True))


def _bounds(known: Array, at: int, low: int | None, high: int | None) -> tuple[int, int]:
    """The bounds of a slice in a dimension."""
    if (low is None or high is None) and not known.items:
        raise ValueError("array slice subscript must provide both boundaries")
    first, length = _assigned_parts_dimensions(known)[at] if at < len(known.shape) else (1, 0)
    return first if low is None else low, first + length - 1 if high is None else high


def _replaced(known: Array, pairs: list[tuple[int, int]], new: tuple[Any, ...]) -> Array:
    """An array of several dimensions with other elements, within its bounds."""
    for (low, high), (first, length) in zip(pairs, _assigned_parts_dimensions(known), strict=True):
        if low < first or high >= first + length:
            raise ValueError("array subscript out of range")
    items = list(known.items)
    for places, item in zip(product(*(range(low, high + 1) for low, high in pairs)), new, strict=False):
        position = 0
        for place, (first, length) in zip(places, _assigned_parts_dimensions(known), strict=True):
            position = position * length + place - first
        items[position] = item
    return known._replace(items=tuple(items))


def _put(known: Array, place: int, new: list[Any]) -> Array:
    """An array of one dimension with elements from a place on, and NULLs between them and what there was."""
    (first,) = known.firsts
    last = max(first + len(known.items), place + len(new))
    begin = min(first, place)
    if last - begin > MOST:
        raise ValueError("array size exceeds the maximum allowed")
    items: list[Any] = [None] * (last - begin)
    items[first - begin : first - begin + len(known.items)] = known.items
    items[place - begin : place - begin + len(new)] = new
    return of(items, begin)


def with_member(value: Json | None, new: Json | None, *path: int | str | None) -> Json:
    """JSONB with a value at the end of a path: names and numbers, for which objects and arrays are made."""
    if any(step is None for step in path):
        raise ValueError("jsonb subscript in assignment must not be null")
    before, wanted = (None if one is None else one.value for one in (value, new))
    return Json(_set(before, path, wanted, missing=value is None))


def _set(value: Any, path: tuple[Any, ...], new: Any, *, missing: bool) -> Any:
    if not path:
        return new
    step, *rest = path
    if value is None and missing:
        value = [] if isinstance(step, int) else {}
    if isinstance(value, dict):
        known = str(step) in value
        return in_order({**value, str(step): _set(value.get(str(step)), tuple(rest), new, missing=not known)})
    if not isinstance(value, list):
        raise ValueError("cannot replace existing key")
    place = int(step)
    place += len(value) if place < 0 else 0
    if place < 0 or place > MOST:
        raise ValueError(f"path element is out of range: {step}")
    known = place < len(value)
    items = [*value, *[None] * (place + 1 - len(value))]
    items[place] = _set(items[place], tuple(rest), new, missing=not known)
    return items


primitive("$with_member", Memoized(lambda call: with_member, takes_nulls=True))
primitive("$with_element", Memoized(lambda call: assign_element, takes_nulls=True))
primitive("$with_slice", Memoized(lambda call: with_slice, takes_nulls=True))
