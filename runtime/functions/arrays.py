"""Array functions: constructors, subscripts, slices, comparison with ANY and ALL, search, and assignment.

Assignment (``SET a[1] = ...``, ``SET a[1:2] = ...``) is a function from the old array to the new one.
"""

import math
from collections.abc import Callable
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from kpg.runtime.functions.comparison import sort_key_of
from kpg.runtime.functions.registry import (
    MemoizedFunction,
    NullRule,
    Overload,
    Rule,
    Signature,
    register_primitive,
    register_scalar,
)
from kpg.runtime.functions.set_returning_functions import split_string
from kpg.runtime.functions.type_rules import common_result_type, is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, INTEGER, TEXT, Kind, Type, array
from kpg.runtime.values import codec_of
from kpg.runtime.values.arrays import (
    EMPTY,
    Array,
    array_of,
    from_nested_lists,
    show_dimensions,
    to_nested_lists,
    with_lower_bounds,
)
from kpg.runtime.values.jsons import Json, sort_keys

MAX_ELEMENTS = 1 << 24
"""Elements that an array may have."""


def is_array(type_: Type) -> bool:
    return type_.kind is Kind.ARRAY


def array_constructor(call: Call) -> Callable[..., Array]:
    """Return the constructor of ARRAY[...], from elements or from arrays of equal dimensions."""
    if call.args and is_array(call.args[0].type):
        return _stack_arrays
    return lambda *items: array_of(items)


def _stack_arrays(*items: Array | None) -> Array:
    """Return arrays of equal bounds as one array with one more dimension."""
    whole = from_nested_lists([[] if item is None else to_nested_lists(item) for item in items])
    firsts = {item.lower_bounds for item in items if item is not None}
    if len(firsts) > 1 and whole.items:
        raise ValueError("multidimensional arrays must have array expressions with matching dimensions")
    return with_lower_bounds(whole, (1, *firsts.pop())) if whole.items else whole


register_primitive("$array", MemoizedFunction(array_constructor, takes_nulls=True))


def element(value: Array, *subscripts: int) -> Any:
    """Return one element, or NULL outside the array or for a wrong number of subscripts."""
    if len(subscripts) != len(value.shape):
        return None
    position = 0
    for subscript, first, length in zip(subscripts, value.lower_bounds, value.shape, strict=True):
        if not first <= subscript < first + length:
            return None
        position = position * length + subscript - first
    return value.items[position]


def slice_array(value: Array, *bounds: int | None) -> Array:
    """Return a slice: a lower and an upper bound for each of the first dimensions.

    The result's subscripts start at 1. None stands for the array's own bound.
    """
    ranges = list(zip(bounds[::2], bounds[1::2], strict=True))
    if not value.items or len(ranges) > len(value.shape):
        return EMPTY

    def slice_items(items: Any, depth: int) -> Any:
        if depth == len(ranges):
            return items
        low, high = ranges[depth]
        first = value.lower_bounds[depth]
        start = 0 if low is None else max(low - first, 0)
        chosen = items[start : max(high - first + 1, 0) if high is not None else None]
        return [slice_items(item, depth + 1) for item in chosen]

    return from_nested_lists(slice_items(to_nested_lists(value), 0))


register_primitive("$element", MemoizedFunction(lambda call: element))
register_primitive("$slice", MemoizedFunction(lambda call: _slice_or_null, takes_nulls=True))
register_primitive("$slice_marks", MemoizedFunction(lambda call: slice_array))


def _slice_or_null(value: Array | None, *bounds: int | None) -> Array | None:
    return None if value is None else slice_array(value, *bounds)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": eq,
    "ne": ne,
    "lt": lt,
    "le": le,
    "gt": gt,
    "ge": ge,
}


def _quantified_comparison(name: str, *, is_all: bool) -> MemoizedFunction:
    """Return ``value comparison ANY (array)``, or ALL, by three-valued logic."""
    compare = COMPARISONS[name]

    def build(call: Call) -> Callable[..., bool | None]:
        key = sort_key_of(call.args[0].type)

        def test(value: Any, items: Array | None) -> bool | None:
            if items is None:
                return None
            unknown = False
            left_key = None if value is None else key(value)
            for item in items.items:
                if left_key is None or item is None:
                    unknown = True
                elif compare(left_key, key(item)) is not is_all:
                    return not is_all
            return None if unknown else is_all

        return test

    return MemoizedFunction(build, takes_nulls=True)


for _name in COMPARISONS:
    register_primitive(f"$any_{_name}", _quantified_comparison(_name, is_all=False))
    register_primitive(f"$all_{_name}", _quantified_comparison(_name, is_all=True))


def array_pair(result: Type | None = None) -> Rule:
    """Return a rule for two arrays of one type. The result has that type unless ``result`` is set."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or not any(map(is_array, types)):
            return None
        joint = common_result_type(types)
        if joint is None or not is_array(joint):
            return None
        return Signature((joint, joint), joint if result is None else result)

    return rule


def array_and_element(*, first: bool, result: Type | None = None, others: tuple[Type, ...] = ()) -> Rule:
    """Return a rule for an array and an element of its type, in either order, and other arguments."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 + len(others):
            return None
        array_type, item = types[:2] if first else (types[1], types[0])
        if not is_array(array_type):
            return None
        joint = common_result_type((array_type.parts[0], item))
        if joint is None or is_array(joint):
            return None
        pair = (array(joint), joint) if first else (joint, array(joint))
        return Signature((*pair, *others), array(joint) if result is None else result)

    return rule


def array_and_others(result: Type, *others: Type) -> Rule:
    """Return a rule for an array and other arguments."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + len(others) or not is_array(types[0]):
            return None
        for type_, other in zip(types[1:], others, strict=True):
            if type_.kind is not other.kind and not is_unknown(type_) and not type_.is_integer:
                return None
        return Signature((types[0], *others), result)

    return rule


def _contains(call: Call) -> Callable[[Array, Array], bool]:
    key = sort_key_of(call.args[0].type.parts[0])

    def test(whole: Array, items: Array) -> bool:
        if None in items.items:
            return False
        return {key(item) for item in items.items} <= {key(item) for item in whole.items if item is not None}

    return test


def _is_contained(call: Call) -> Callable[[Array, Array], bool]:
    test = _contains(call)
    return lambda wanted, whole: test(whole, wanted)


def _overlap(call: Call) -> Callable[[Array, Array], bool]:
    key = sort_key_of(call.args[0].type.parts[0])

    def test(left: Array, right: Array) -> bool:
        found = [{key(item) for item in one.items if item is not None} for one in (left, right)]
        return not found[0].isdisjoint(found[1])

    return test


def _concat_arrays(left: Array | None, right: Array | None) -> Array | None:
    """Concatenate arrays of equal dimensions, or append one as an element of the other."""
    if left is None or right is None:
        return right if left is None else left
    if not left.items or not right.items:
        return left if left.items else right
    ranks = len(left.shape) - len(right.shape)
    whole, other = (right, left) if ranks < 0 else (left, right)
    nests = 0 if ranks == 0 else 1
    alike = (
        whole.shape[1:] == other.shape[1 - nests :]
        and whole.lower_bounds[1:] == other.lower_bounds[1 - nests :]
    )
    if abs(ranks) > 1 or not alike:
        raise ValueError("cannot concatenate incompatible arrays")
    length = whole.shape[0] + (1 if nests else other.shape[0])
    joined = Array(left.items + right.items, (length, *whole.shape[1:]))
    return with_lower_bounds(joined, whole.lower_bounds)


def _append(value: Array | None, item: Any) -> Array:
    return _extend(value, item, at_end=True)


def _prepend(item: Any, value: Array | None) -> Array:
    return _extend(value, item, at_end=False)


def _extend(value: Array | None, item: Any, *, at_end: bool) -> Array:
    items = () if value is None else value.items
    if value is not None and len(value.shape) > 1:
        raise ValueError("argument must be empty or one-dimensional array")
    first = 1 if value is None or not value.items else value.lower_bounds[0]
    return array_of((*items, item) if at_end else (item, *items), first)


APPEND = Overload(array_and_element(first=True), MemoizedFunction(lambda call: _append, takes_nulls=True))
PREPEND = Overload(array_and_element(first=False), MemoizedFunction(lambda call: _prepend, takes_nulls=True))
CONCATENATE = Overload(array_pair(), MemoizedFunction(lambda call: _concat_arrays, takes_nulls=True))
CONTAINS = Overload(array_pair(BOOLEAN), MemoizedFunction(_contains))
IS_CONTAINED = Overload(array_pair(BOOLEAN), MemoizedFunction(_is_contained))
OVERLAP = Overload(array_pair(BOOLEAN), MemoizedFunction(_overlap))

register_scalar(
    "array_append",
    "an array and an element",
    "The array with the element at its end.",
    {"array_length(array_append(ARRAY[1, 2], 3), 1)": "3"},
    APPEND,
    nulls=NullRule.CALLED_ON_NULL,
)
register_scalar(
    "array_prepend",
    "an element and an array",
    "The array with the element before it.",
    {"array_length(array_prepend(1, ARRAY[2, 3]), 1)": "3"},
    PREPEND,
    nulls=NullRule.CALLED_ON_NULL,
)
register_scalar(
    "array_cat",
    "two arrays, or an array and an element",
    "One array after the other: ||.",
    {"array_length(array_cat(ARRAY[1, 2], ARRAY[3]), 1)": "3"},
    CONCATENATE,
    APPEND,
    PREPEND,
    nulls=NullRule.CALLED_ON_NULL,
)


def _length(value: Array, dimension: int) -> int | None:
    return value.shape[dimension - 1] if 1 <= dimension <= len(value.shape) else None


def _lower(value: Array, dimension: int) -> int | None:
    return value.lower_bounds[dimension - 1] if 1 <= dimension <= len(value.shape) else None


def _upper(value: Array, dimension: int) -> int | None:
    here = 1 <= dimension <= len(value.shape)
    return value.lower_bounds[dimension - 1] + value.shape[dimension - 1] - 1 if here else None


def _dimensions(value: Array) -> str | None:
    return show_dimensions(value) or None


def _memoize(function: Callable[..., object]) -> MemoizedFunction:
    return MemoizedFunction(lambda call: function)


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
    register_scalar(
        _name,
        "an array" + (" and the number of a dimension" if _others else ""),
        _what,
        {f"{_name}(ARRAY[4, 5, 6]{_example[0]})": _example[1]},
        Overload(array_and_others(_result, *_others), _memoize(_function)),
    )


Build = Callable[[Call], Callable[..., Any]]


def _with_elements(count: int, result: Callable[[Type], Type], *more: Type) -> Rule:
    """Return a rule for an array, ``count`` elements of its type, and other arguments."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + count + len(more) or not is_array(types[0]):
            return None
        element = common_result_type((types[0].parts[0], *types[1 : 1 + count]))
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
    overloads = (Overload(rule, MemoizedFunction(build, takes_nulls=True)) for rule, build in ways)
    register_scalar(name, accepts, doc, examples, *overloads, nulls=NullRule.CALLED_ON_NULL)


def _is_same_element(call: Call) -> Callable[[Any, Any], bool]:
    key = sort_key_of(call.args[0].type.parts[0])
    return lambda left, right: (left is None) is (right is None) and (left is None or key(left) == key(right))


def _one_dimension(value: Array, name: str) -> tuple[Any, ...]:
    if len(value.shape) > 1:
        raise ValueError(f"{name} of arrays of several dimensions is not supported")
    return value.items


def _position(call: Call) -> Callable[..., int | None]:
    same = _is_same_element(call)

    def find(value: Array | None, wanted: Any, start: int | None = -(2**31)) -> int | None:
        if value is None:
            return None
        if start is None:
            raise ValueError("initial position must not be null")
        places = enumerate(_one_dimension(value, "array_position"), *value.lower_bounds[:1])
        return next((place for place, item in places if place >= start and same(item, wanted)), None)

    return find


def _positions(call: Call) -> Callable[..., Array | None]:
    same = _is_same_element(call)

    def find(value: Array | None, wanted: Any) -> Array | None:
        if value is None:
            return None
        places = enumerate(_one_dimension(value, "array_positions"), *value.lower_bounds[:1])
        return array_of([place for place, item in places if same(item, wanted)])

    return find


def _remove(call: Call) -> Callable[..., Array | None]:
    same = _is_same_element(call)

    def remove(value: Array | None, unwanted: Any) -> Array | None:
        if value is None:
            return None
        rest = [item for item in _one_dimension(value, "array_remove") if not same(item, unwanted)]
        return array_of(rest, *value.lower_bounds[:1])

    return remove


def _replace(call: Call) -> Callable[..., Array | None]:
    same = _is_same_element(call)

    def replace(value: Array | None, old: Any, new: Any) -> Array | None:
        if value is None:
            return None
        return value._replace(items=tuple(new if same(item, old) else item for item in value.items))

    return replace


def _letter(value: bool) -> str:
    return "t" if value else "f"


def _array_to_string(call: Call) -> Callable[..., str | None]:
    element = call.args[0].type.parts[0]
    show: Callable[[Any], str] = _letter if element == BOOLEAN else codec_of(element).show

    def join(value: Array | None, separator: str | None, null: str | None = None) -> str | None:
        if value is None or separator is None:
            return None
        texts = (null if item is None else show(item) for item in value.items)
        return separator.join(text for text in texts if text is not None)

    return join


def _array_and_texts(count: int) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + count or not is_array(types[0]):
            return None
        texts = all(type_.is_text or is_unknown(type_) for type_ in types[1:])
        return Signature((types[0], *(TEXT,) * count), TEXT) if texts else None

    return rule


def _text_arguments(count: int) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        fits = len(types) == count and all(type_.is_text or is_unknown(type_) for type_ in types)
        return Signature((TEXT,) * count, array(TEXT)) if fits else None

    return rule


def _string_to_array(string: str | None, separator: str | None, null: str | None = None) -> Array | None:
    return None if string is None else array_of(split_string(string, separator, null))


def _trim_array(value: Array | None, count: int | None) -> Array | None:
    if value is None or count is None:
        return None
    length = value.shape[0] if value.shape else 0
    if not 0 <= count <= length:
        raise ValueError(f"number of elements to trim must be between 0 and {length}")
    return from_nested_lists(to_nested_lists(value)[: length - count])


def _unchanged_type(type_: Type) -> Type:
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
    [(_with_elements(1, _unchanged_type), _remove)],
)
_define(
    "array_replace",
    "an array and two elements",
    "The array with one element in the place of another.",
    {"array_replace(ARRAY[1, 2, 5, 4], 5, 3)::TEXT": "'{1,2,3,4}'"},
    [(_with_elements(2, _unchanged_type), _replace)],
)
_define(
    "array_to_string",
    "an array, a separator and optionally what stands for NULL",
    "The elements as text, one after the other, the separator between them; NULLs are left out.",
    {"array_to_string(ARRAY[1, 2, NULL, 5], ',', '*')": "'1,2,*,5'"},
    [(_array_and_texts(1), _array_to_string), (_array_and_texts(2), _array_to_string)],
)
_define(
    "string_to_array",
    "text, a separator and optionally what stands for NULL",
    "The parts of a text between separators; its characters if the separator is NULL.",
    {"string_to_array('xx~~yy~~zz', '~~', 'yy')::TEXT": "'{xx,NULL,zz}'"},
    [
        (_text_arguments(2), lambda call: _string_to_array),
        (_text_arguments(3), lambda call: _string_to_array),
    ],
)
_define(
    "trim_array",
    "an array and a number",
    "The array without so many of its last elements.",
    {"trim_array(ARRAY[1, 2, 3, 4, 5, 6], 2)::TEXT": "'{1,2,3,4}'"},
    [(_with_elements(0, _unchanged_type, INTEGER), lambda call: _trim_array)],
)


def _any_arguments(types: tuple[Type, ...]) -> Signature | None:
    """Accept one or more values of any types."""
    return (
        Signature(tuple(TEXT if is_unknown(type_) else type_ for type_ in types), INTEGER) if types else None
    )


_define(
    "num_nulls",
    "values",
    "How many of the values are NULL.",
    {"num_nulls(1, NULL, 2)": "1"},
    [(_any_arguments, lambda call: lambda *values: sum(value is None for value in values))],
)
_define(
    "num_nonnulls",
    "values",
    "How many of the values are not NULL.",
    {"num_nonnulls(1, NULL, 2)": "2"},
    [(_any_arguments, lambda call: lambda *values: sum(value is not None for value in values))],
)


MAX_ASSIGNED_ELEMENTS = 1 << 20
"""Elements that an assignment may create. A larger subscript is taken for a mistake."""


def assign_element(value: Array | None, new: object, *subscripts: int | None) -> Array:
    """Return the array with a new element at a subscript.

    A one-dimensional array grows if the subscript is outside of its bounds, with NULLs between.
    """
    if any(place is None for place in subscripts):
        raise ValueError("array subscript in assignment must not be null")
    positions = [place for place in subscripts if place is not None]
    array_ = value or array_of(())
    if not array_.items:
        return with_lower_bounds(Array((new,), (1,) * len(positions)), positions)
    if len(positions) != len(array_.shape):
        raise ValueError("wrong number of array subscripts")
    if len(positions) == 1:
        return _assign_range(array_, positions[0], [new])
    position = 0
    for place, first, length in zip(positions, array_.lower_bounds, array_.shape, strict=True):
        if not first <= place < first + length:
            raise ValueError("array subscript out of range")
        position = position * length + place - first
    return array_._replace(items=(*array_.items[:position], new, *array_.items[position + 1 :]))


def assign_slice(value: Array | None, new: Array | None, *bounds: int | None) -> Array | None:
    """Return the array with elements of ``new`` in a slice, given by bounds of its first dimensions.

    A bound of None stands for the array's own bound.
    """
    if new is None:
        return value
    array_ = value or array_of(())
    ranges = [_slice_bounds(array_, at, *bounds[2 * at : 2 * at + 2]) for at in range(len(bounds) // 2)]
    if array_.items and len(ranges) > len(array_.shape):
        raise ValueError("wrong number of array subscripts")
    ranges += [(first, first + length - 1) for first, length in _dimension_bounds(array_)[len(ranges) :]]
    lengths = [high - low + 1 for low, high in ranges]
    count = math.prod(lengths)
    if min(lengths) < 0 or (array_.items and min(lengths) < 1):
        raise ValueError("upper bound cannot be less than lower bound")
    if len(new.items) < count:
        raise ValueError("source array too small")
    if not array_.items:
        return (
            with_lower_bounds(Array(new.items[:count], tuple(lengths)), [low for low, _ in ranges])
            if count
            else array_
        )
    if len(ranges) == 1:
        return _assign_range(array_, ranges[0][0], list(new.items[:count]))
    return _replace_slice(array_, ranges, new.items)


def _dimension_bounds(known: Array) -> list[tuple[int, int]]:
    return list(zip(known.lower_bounds, known.shape, strict=True))


def _slice_bounds(known: Array, dimension: int, low: int | None, high: int | None) -> tuple[int, int]:
    """Return the bounds of a slice in a dimension."""
    if (low is None or high is None) and not known.items:
        raise ValueError("array slice subscript must provide both boundaries")
    first, length = _dimension_bounds(known)[dimension] if dimension < len(known.shape) else (1, 0)
    return first if low is None else low, first + length - 1 if high is None else high


def _replace_slice(known: Array, pairs: list[tuple[int, int]], new: tuple[Any, ...]) -> Array:
    """Return a multidimensional array with new elements in a slice within its bounds."""
    for (low, high), (first, length) in zip(pairs, _dimension_bounds(known), strict=True):
        if low < first or high >= first + length:
            raise ValueError("array subscript out of range")
    items = list(known.items)
    for places, item in zip(product(*(range(low, high + 1) for low, high in pairs)), new, strict=False):
        position = 0
        for place, (first, length) in zip(places, _dimension_bounds(known), strict=True):
            position = position * length + place - first
        items[position] = item
    return known._replace(items=tuple(items))


def _assign_range(known: Array, place: int, new: list[Any]) -> Array:
    """Return a one-dimensional array with new elements from a subscript on, and NULLs in a gap."""
    (first,) = known.lower_bounds
    last = max(first + len(known.items), place + len(new))
    begin = min(first, place)
    if last - begin > MAX_ASSIGNED_ELEMENTS:
        raise ValueError("array size exceeds the maximum allowed")
    items: list[Any] = [None] * (last - begin)
    items[first - begin : first - begin + len(known.items)] = known.items
    items[place - begin : place - begin + len(new)] = new
    return array_of(items, begin)


def assign_jsonb_path(value: Json | None, new: Json | None, *path: int | str | None) -> Json:
    """Return JSONB with a value at a path of names and numbers. Missing objects and arrays are created."""
    if any(step is None for step in path):
        raise ValueError("jsonb subscript in assignment must not be null")
    before, wanted = (None if one is None else one.value for one in (value, new))
    return Json(_assign_at_path(before, path, wanted, is_missing=value is None))


def _assign_at_path(value: Any, path: tuple[Any, ...], new: Any, *, is_missing: bool) -> Any:
    if not path:
        return new
    step, *rest = path
    if value is None and is_missing:
        value = [] if isinstance(step, int) else {}
    if isinstance(value, dict):
        known = str(step) in value
        return sort_keys(
            {
                **value,
                str(step): _assign_at_path(value.get(str(step)), tuple(rest), new, is_missing=not known),
            }
        )
    if not isinstance(value, list):
        raise ValueError("cannot replace existing key")
    place = int(step)
    place += len(value) if place < 0 else 0
    if place < 0 or place > MAX_ASSIGNED_ELEMENTS:
        raise ValueError(f"path element is out of range: {step}")
    known = place < len(value)
    items = [*value, *[None] * (place + 1 - len(value))]
    items[place] = _assign_at_path(items[place], tuple(rest), new, is_missing=not known)
    return items


register_primitive("$with_member", MemoizedFunction(lambda call: assign_jsonb_path, takes_nulls=True))
register_primitive("$with_element", MemoizedFunction(lambda call: assign_element, takes_nulls=True))
register_primitive("$with_slice", MemoizedFunction(lambda call: assign_slice, takes_nulls=True))
