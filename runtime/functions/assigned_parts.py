"""Arrays with other elements: what ``SET a[1] = ...`` and ``SET a[1:2] = ...`` make of them."""

import math
from itertools import product
from typing import Any

from kpg.runtime.functions.registry import Memoized, primitive
from kpg.runtime.values.arrays import Array, counted, of
from kpg.runtime.values.jsons import Json, in_order

MOST = 1 << 20
"""Elements that an assignment may make: beyond that a subscript is a mistake."""


def with_element(value: Array | None, new: object, *places: int | None) -> Array:
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
    pairs += [(first, first + length - 1) for first, length in _dimensions(known)[len(pairs) :]]
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


def _dimensions(known: Array) -> list[tuple[int, int]]:
    return list(zip(known.firsts, known.shape, strict=True))


def _bounds(known: Array, at: int, low: int | None, high: int | None) -> tuple[int, int]:
    """The bounds of a slice in a dimension."""
    if (low is None or high is None) and not known.items:
        raise ValueError("array slice subscript must provide both boundaries")
    first, length = _dimensions(known)[at] if at < len(known.shape) else (1, 0)
    return first if low is None else low, first + length - 1 if high is None else high


def _replaced(known: Array, pairs: list[tuple[int, int]], new: tuple[Any, ...]) -> Array:
    """An array of several dimensions with other elements, within its bounds."""
    for (low, high), (first, length) in zip(pairs, _dimensions(known), strict=True):
        if low < first or high >= first + length:
            raise ValueError("array subscript out of range")
    items = list(known.items)
    for places, item in zip(product(*(range(low, high + 1) for low, high in pairs)), new, strict=False):
        position = 0
        for place, (first, length) in zip(places, _dimensions(known), strict=True):
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
primitive("$with_element", Memoized(lambda call: with_element, takes_nulls=True))
primitive("$with_slice", Memoized(lambda call: with_slice, takes_nulls=True))
