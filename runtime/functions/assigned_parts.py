"""Arrays with other elements: what ``SET a[1] = ...`` and ``SET a[1:2] = ...`` make of them."""

from typing import Any

from kpg.runtime.functions.registry import Memoized, primitive
from kpg.runtime.values.arrays import Array, of
from kpg.runtime.values.jsons import Json, in_order

MOST = 1 << 20
"""Elements that an assignment may make: beyond that a subscript is a mistake."""


def with_element(value: Array | None, new: object, *places: int | None) -> Array:
    """The array with an element in a place; one behind its end makes it longer, with NULLs between."""
    if any(place is None for place in places):
        raise ValueError("a subscript in an assignment must not be NULL")
    known = value or of(())
    if len(places) == 1 and len(known.shape) < 2:
        (place,) = places
        assert place is not None
        return _put(known, place, [new])
    if len(places) != len(known.shape):
        raise ValueError("wrong number of subscripts")
    position = 0
    for place, length in zip(places, known.shape, strict=True):
        assert place is not None
        if not 1 <= place <= length:
            raise ValueError("a subscript is out of range")
        position = position * length + place - 1
    return Array((*known.items[:position], new, *known.items[position + 1 :]), known.shape)


def with_slice(value: Array | None, new: Array | None, low: int | None, high: int | None) -> Array | None:
    """The array with elements of another from ``low`` to ``high``: without these its first, its last."""
    if new is None:
        return value
    known = value or of(())
    if len(known.shape) > 1:
        raise ValueError("a slice of an array of several dimensions cannot be set")
    low = 1 if low is None else low
    high = len(known.items) if high is None else high
    if high < low:
        return known
    if len(new.items) < high - low + 1:
        raise ValueError("source array too small")
    return _put(known, low, list(new.items[: high - low + 1]))


def _put(known: Array, place: int, new: list[object]) -> Array:
    if place < 1:
        raise ValueError("arrays are counted from 1")
    if place + len(new) > MOST:
        raise ValueError("a subscript is too large")
    items = list(known.items)
    items += [None] * (place - 1 - len(items))
    items[place - 1 : place - 1 + len(new)] = new
    return of(items)


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
