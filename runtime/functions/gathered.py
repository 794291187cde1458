"""Aggregates that gather their values, one entry each: joined texts, arrays, JSON, the first and the last."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from kpg.runtime.functions import sequences
from kpg.runtime.functions.aggregation import AggregateFunction, Basic, Rows, Types, Value, register
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.types import BOOLEAN, BYTEA, DOUBLE, JSON, JSONB, TEXT, Kind, Type, array
from kpg.runtime.values import arrays, tojson
from kpg.runtime.values.jsons import Json, quoted


def _text(types: Types) -> Signature | None:
    if len(types) != 2:
        return None
    if all(type_.is_text or is_unknown(type_) for type_ in types):
        return Signature((TEXT, TEXT), TEXT)
    binary = types[0] == BYTEA and (types[1] == BYTEA or is_unknown(types[1]))
    return Signature((BYTEA, BYTEA), BYTEA) if binary else None


register(
    AggregateFunction(
        "string_agg",
        "a text and a separator, or two BYTEAs",
        "The texts in their order, each after the first with its separator before it.",
        {"('a', '+'), (NULL, '+'), ('b', '+')": "'a+b'"},
        _text,
        sequences.natural(sequences.joining),
        Basic(),
        in_order=sequences.joining,
    )
)


Rule = Callable[[Types], Signature | None]


def present(result: Callable[[Types], Type | None], operands: int = 1) -> Rule:
    """For operands of any type, behind the one that says that a row counts."""

    def rule(types: Types) -> Signature | None:
        if len(types) != 1 + operands or types[0] != BOOLEAN:
            return None
        made = result(types[1:])
        return None if made is None else Signature(types, made)

    return rule


def _items(rows: Rows) -> list[Value]:
    return [operands[1] for operands, times in rows for _ in range(times)]


def arrayed(types: Types) -> sequences.InOrder:
    """The values as an array; of arrays of one shape, one with a dimension more."""

    def finish(rows: Rows) -> Value:
        items = _items(rows)
        if types[1].kind is not Kind.ARRAY:
            return arrays.of(items)
        if None in items:
            raise ValueError("cannot accumulate null arrays")
        shapes = {(item.shape, item.firsts) for item in items}
        if len(shapes) > 1:
            raise ValueError("cannot accumulate arrays of different dimensionality")
        ((shape, firsts),) = shapes
        if not shape:
            raise ValueError("cannot accumulate empty arrays")
        whole = arrays.Array(tuple(one for item in items for one in item.items), (len(items), *shape))
        return arrays.counted(whole, (1, *firsts))

    return finish


def json_list(types: Types) -> sequences.InOrder:
    """The values as the text of a JSON array."""
    between = ", \n " if tojson.is_structured(types[1]) else ", "
    return lambda rows: f"[{between.join(tojson.text_of(item, types[1]) for item in _items(rows))}]"


def jsonb_list(types: Types) -> sequences.InOrder:
    """The values as a JSON array."""
    return lambda rows: Json([tojson.value_of(item, types[1]) for item in _items(rows)])


def _members(rows: Rows) -> list[tuple[Value, Value]]:
    return [(operands[1], operands[2]) for operands, times in rows for _ in range(times)]


def json_members(types: Types) -> sequences.InOrder:
    """Keys and values as the text of a JSON object."""

    def finish(rows: Rows) -> str:
        members = (
            f"{quoted(tojson.key_of(key, types[1]))} : {tojson.text_of(value, types[2])}"
            for key, value in _members(rows)
        )
        return f"{{ {', '.join(members)} }}"

    return finish


def jsonb_members(types: Types) -> sequences.InOrder:
    """Keys and values as a JSON object, in which the last of equal keys counts."""

    def finish(rows: Rows) -> Any:
        members = _members(rows)
        return tojson.object_of(
            {tojson.key_of(key, types[1]): tojson.value_of(value, types[2]) for key, value in members}
        )

    return finish


def first(types: Types) -> sequences.InOrder:
    """The value of the first row."""
    return lambda rows: rows[0][0][1]


def last(types: Types) -> sequences.InOrder:
    """The value of the last row."""
    return lambda rows: rows[-1][0][1]


def _fits_array(types: Types) -> Type | None:
    return array(types[0])


def _same(types: Types) -> Type:
    return types[0]


def _json(types: Types) -> Type:
    return JSON


def _jsonb(types: Types) -> Type:
    return JSONB


_ARRAY = {"(1), (NULL), (1)": "'{1,1,NULL}'::INT[]"}
_LIST = {"(1), (NULL), (1)": "'[1, 1, null]'", "('a')": "'[\"a\"]'"}
_OBJECT = {"('a', 1), ('b', NULL)": '\'{ "a" : 1, "b" : null }\''}
_JSONB_OBJECT = {"('a', 1), ('b', NULL)": '\'{"a": 1, "b": null}\''}
_Examples = dict[str, str]
_Entry = tuple[str, str, str, _Examples, Rule, Callable[[Types], sequences.InOrder]]
_GATHERED: tuple[_Entry, ...] = (
    ("array_agg", "a value", "The values as an array.", _ARRAY, present(_fits_array), arrayed),
    ("list", "a value", "The values as an array.", _ARRAY, present(_fits_array), arrayed),
    ("json_agg", "a value", "The values as a JSON array.", _LIST, present(_json), json_list),
    ("jsonb_agg", "a value", "The values as a JSONB array.", _LIST, present(_jsonb), jsonb_list),
    (
        "json_object_agg",
        "a key and a value",
        "Keys and values as a JSON object.",
        _OBJECT,
        present(_json, 2),
        json_members,
    ),
    (
        "jsonb_object_agg",
        "a key and a value",
        "Keys and values as a JSONB object.",
        _JSONB_OBJECT,
        present(_jsonb, 2),
        jsonb_members,
    ),
    ("first", "a value", "The value of the first row.", {"(2), (NULL), (1)": "1"}, present(_same), first),
    ("last", "a value", "The value of the last row.", {"(2), (1)": "2"}, present(_same), last),
)
for _name, _accepts, _doc, _examples, _rule, _finish in _GATHERED:
    register(
        AggregateFunction(
            _name,
            _accepts,
            _doc,
            _examples,
            _rule,
            sequences.natural(_finish),
            Basic(),
            in_order=_finish,
            keeps_nulls=True,
        )
    )


def _chosen(types: Types) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 2 else None


def _at_extreme(*, largest: bool) -> Callable[[Types], sequences.InOrder]:
    """The value of the first row whose other operand is least, or largest; rows without one do not count."""

    def finish(rows: Rows) -> Value:
        known = [(value, sequences.key_of(other)) for (value, other), _ in rows if other is not None]
        if not known:
            return None
        best = (max if largest else min)(key for _, key in known)
        return next(value for value, key in known if key == best)

    return lambda types: finish


for _name, _largest in (("arg_min", False), ("min_by", False), ("arg_max", True), ("max_by", True)):
    register(
        AggregateFunction(
            _name,
            "a value and what to compare",
            f"The value where the other operand is {'largest' if _largest else 'smallest'}.",
            {"(1, 5), (2, 3), (3, 9), (NULL, 1), (7, NULL)": "3" if _largest else "2"},
            _chosen,
            sequences.natural(_at_extreme(largest=_largest)),
            Basic(),
            in_order=_at_extreme(largest=_largest),
        )
    )


def _number(types: Types) -> Signature | None:
    fits = len(types) == 1 and (types[0].is_numeric or is_unknown(types[0]))
    return Signature((DOUBLE,), DOUBLE) if fits else None


def _power(value: float, times: int) -> float:
    try:
        return float(value**times)
    except OverflowError:
        return -math.inf if value < 0 and times % 2 else math.inf


def multiplied(types: Types) -> sequences.InOrder:
    """The product of doubles in order."""

    def finish(rows: Rows) -> float:
        numbers: Counter[float] = Counter()
        for (value,), times in rows:
            numbers[value] += times
        return math.prod(_power(value, times) for value, times in numbers.items())

    return finish


register(
    AggregateFunction(
        "product",
        "a number",
        "The product of the values, as DOUBLE.",
        {"(2), (3), (NULL), (0.5)": "3"},
        _number,
        sequences.natural(multiplied),
        Basic(),
    )
)
