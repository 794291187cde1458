"""Functions of arrays: their elements found, taken out and replaced, joined to a text and split from one."""

from collections.abc import Callable
from typing import Any

from kpg.runtime.functions.arrays import is_array, key_of
from kpg.runtime.functions.elements import split
from kpg.runtime.functions.registry import Memoized, NullRule, Overload, Rule, Signature, scalar
from kpg.runtime.functions.rules import is_unknown, shown_type
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, INTEGER, TEXT, Type, array
from kpg.runtime.values import codec_of
from kpg.runtime.values.arrays import Array, from_nested, nested, of

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
