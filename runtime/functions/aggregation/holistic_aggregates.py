"""Aggregates that need all values of a group: ordered-set, hypothetical-set, collecting and frequency ones.

Ordered-set and hypothetical-set aggregates are calls with WITHIN GROUP (ORDER BY ...). Collecting aggregates
build texts, arrays and JSON, or take the first or last value. Frequency aggregates give the most frequent or
the distinct values.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from kpg.runtime.functions.aggregation import definition
from kpg.runtime.functions.aggregation.definition import (
    AggregateFunction,
    Algorithm,
    Basic,
    Composed,
    Folded,
    Form,
    Part,
    Rows,
    Types,
    Value,
    register,
)
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.type_rules import is_unknown
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSON,
    JSONB,
    TEXT,
    Kind,
    Type,
    array,
    float_to_word,
)
from kpg.runtime.values import arrays, jsons
from kpg.runtime.values.arrays import of
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
        definition.natural(definition.joining),
        Basic(),
        in_order=definition.joining,
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


def arrayed(types: Types) -> definition.InOrder:
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


def json_list(types: Types) -> definition.InOrder:
    """The values as the text of a JSON array."""
    between = ", \n " if jsons.is_structured(types[1]) else ", "
    return lambda rows: f"[{between.join(jsons.json_text_of(item, types[1]) for item in _items(rows))}]"


def jsonb_list(types: Types) -> definition.InOrder:
    """The values as a JSON array."""
    return lambda rows: Json([jsons.value_of(item, types[1]) for item in _items(rows)])


def _members(rows: Rows) -> list[tuple[Value, Value]]:
    return [(operands[1], operands[2]) for operands, times in rows for _ in range(times)]


def json_members(types: Types) -> definition.InOrder:
    """Keys and values as the text of a JSON object."""

    def finish(rows: Rows) -> str:
        members = (
            f"{quoted(jsons.key_of(key, types[1]))} : {jsons.json_text_of(value, types[2])}"
            for key, value in _members(rows)
        )
        return f"{{ {', '.join(members)} }}"

    return finish


def jsonb_members(types: Types) -> definition.InOrder:
    """Keys and values as a JSON object, in which the last of equal keys counts."""

    def finish(rows: Rows) -> Any:
        members = _members(rows)
        return jsons.object_of(
            {jsons.key_of(key, types[1]): jsons.value_of(value, types[2]) for key, value in members}
        )

    return finish


def first(types: Types) -> definition.InOrder:
    """The value of the first row."""
    return lambda rows: rows[0][0][1]


def last(types: Types) -> definition.InOrder:
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
_Entry = tuple[str, str, str, _Examples, Rule, Callable[[Types], definition.InOrder]]
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
            definition.natural(_finish),
            Basic(),
            in_order=_finish,
            keeps_nulls=True,
        )
    )


def _chosen(types: Types) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 2 else None


def _at_extreme(*, largest: bool) -> Callable[[Types], definition.InOrder]:
    """The value of the first row whose other operand is least, or largest; rows without one do not count."""

    def finish(rows: Rows) -> Value:
        known = [(value, definition.key_of(other)) for (value, other), _ in rows if other is not None]
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
            definition.natural(_at_extreme(largest=_largest)),
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


def multiplied(types: Types) -> definition.InOrder:
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
        definition.natural(multiplied),
        Basic(),
    )
)


INTERVALS = (Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)


def _is_number(type_: Type) -> bool:
    return type_.is_numeric or is_unknown(type_)


def _fractions(type_: Type) -> Type | None:
    """The type of a direct argument: a fraction, or an array of fractions."""
    if type_.kind is Kind.ARRAY:
        return array(DOUBLE) if _is_number(type_.parts[0]) else None
    return DOUBLE if _is_number(type_) else None


def _percentile(value: Type, types: Types) -> Signature | None:
    direct = _fractions(types[1])
    if direct is None:
        return None
    return Signature((value, direct), array(value) if direct.kind is Kind.ARRAY else value)


def _continuous(types: Types) -> Signature | None:
    if len(types) != 2 or not (_is_number(types[0]) or types[0].kind in INTERVALS):
        return None
    return _percentile(DOUBLE if _is_number(types[0]) else INTERVAL, types)


def _double_only(types: Types) -> Signature | None:
    return Signature((DOUBLE,), DOUBLE) if len(types) == 1 and _is_number(types[0]) else None


def _discrete(types: Types) -> Signature | None:
    return _percentile(types[0], types) if len(types) == 2 else None


def _one(types: Types) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 1 else None


_CONTINUOUS, _DISCRETE = map(definition.at_places, (definition.continuous, definition.discrete))
for _ordered_sets_name, _ordered_sets_accepts, _form in (
    ("percentile_cont", "a fraction, and a number to order by", Form.ORDERED_SET),
    ("quantile_cont", "a number and a fraction", Form.PLAIN),
):
    register(
        AggregateFunction(
            _ordered_sets_name,
            _ordered_sets_accepts,
            "The number at a fraction of the way through the numbers in order, between two if it is there.",
            {"(7, 0.5), (1, 0.5), (2, 0.5), (NULL, 0.5)": "2", "(10, 0.25), (20, 0.25), (40, 0.25)": "15"},
            _continuous,
            definition.natural(_CONTINUOUS),
            Basic(definition.continuous),
            in_order=_CONTINUOUS if _form is Form.ORDERED_SET else None,
            form=_form,
        )
    )
register(
    AggregateFunction(
        "median",
        "a number",
        "The value in the middle, or the mean of the two that are.",
        {"(7), (1), (2), (NULL)": "2", "(1), (10), (4), (2)": "3"},
        _double_only,
        definition.natural(definition.at_places(definition.median)),
        Basic(definition.median),
    )
)
register(
    AggregateFunction(
        "percentile_disc",
        "a fraction, and a value to order by",
        "The first value in order at or after a fraction of all.",
        {"(7, 0.5), (1, 0.5), (2, 0.5), (NULL, 0.5)": "2", "('a', 0.9), ('c', 0.9), ('b', 0.9)": "'c'"},
        _discrete,
        definition.natural(_DISCRETE),
        Basic(definition.discrete),
        in_order=_DISCRETE,
        form=Form.ORDERED_SET,
    )
)
register(
    AggregateFunction(
        "mode",
        "a value to order by",
        "The value that occurs most often; of several such the first in order.",
        {"(2), (1), (2), (NULL)": "2", "('b'), ('a'), ('b')": "'b'"},
        _one,
        definition.natural(definition.most_frequent),
        Basic(),
        in_order=definition.most_frequent,
        form=Form.ORDERED_SET,
    )
)


# What rank a row would have: composed of counts of the rows before it.


def _placed(result: Type) -> Callable[[Types], Signature | None]:
    def rule(types: Types) -> Signature | None:
        return Signature(types, result) if len(types) > 1 and types[0] == INTEGER else None

    return rule


def _counted(args: tuple[Scalar, ...], comparison: str) -> Scalar:
    """1 where a row's place compares so with 0, else NULL."""
    test = Call(comparison, (args[0], Literal(0, INTEGER)), BOOLEAN)
    return If(test, Literal(1, INTEGER), Literal(None, INTEGER), INTEGER)


def _after(count: Scalar) -> Scalar:
    return Call("add", (count, Literal(1, BIGINT)), BIGINT)


def _double(count: Scalar) -> Scalar:
    return Call("cast", (count,), DOUBLE)


def _rank(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    return (Part("count", (_counted(args, "lt"),)),), _after(Column(0, BIGINT))


def _dense_rank(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    different = Part("count", (_counted(args, "lt"), *args[1:]), distinct=True)
    return (different,), _after(Column(0, BIGINT))


def _percent_rank(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    before, every = Column(0, BIGINT), Column(1, BIGINT)
    parts = (Part("count", (_counted(args, "lt"),)), Part("count", (args[0],)))
    none = Call("eq", (every, Literal(0, BIGINT)), BOOLEAN)
    share = Call("div", (_double(before), _double(every)), DOUBLE)
    return parts, If(none, Literal(float_to_word(0.0), DOUBLE), share, DOUBLE)


def _cume_dist(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    before, every = Column(0, BIGINT), Column(1, BIGINT)
    parts = (Part("count", (_counted(args, "le"),)), Part("count", (args[0],)))
    return parts, Call("div", (_double(_after(before)), _double(_after(every))), DOUBLE)


@dataclass(slots=True)
class Placings:
    """How many rows there are with each place and keys."""

    rows: dict[tuple[Value, ...], int]

    def add(self, operands: tuple[Value, ...], times: int) -> "Placings":
        """This one with rows more; negative ``times`` takes them away."""
        self.rows[operands] = self.rows.get(operands, 0) + times
        if not self.rows[operands]:
            del self.rows[operands]
        return self

    def merge(self, other: "Placings") -> "Placings":
        """This one with all of the other."""
        for operands, times in other.rows.items():
            self.add(operands, times)
        return self

    def counted(self, places: tuple[int, ...]) -> int:
        """The rows at these places."""
        return sum(times for operands, times in self.rows.items() if operands[0] in places)


def _over_places(finish: Callable[[Placings], Value]) -> Callable[[Types], Algorithm]:
    algorithm = Algorithm(
        initialize=lambda: Placings({}),
        add=Placings.add,
        subtract=lambda state, operands, times: state.add(operands, -times),
        merge=Placings.merge,
        finish=finish,
    )
    return lambda types: algorithm


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


_EVERY = (-1, 0, 1)
_RANKS: tuple[
    tuple[str, str, Type, Composed, int, dict[str, str], Callable[[Placings], Value]],
    ...,
] = (
    (
        "rank",
        "The rank that the values would have among the rows: one more than the rows before them.",
        BIGINT,
        Composed(_rank),
        1,
        {"(1, 2), (2, 2), (3, 2), (NULL, 2)": "2", "(1, 3), (1, 3), (2, 3)": "4"},
        lambda state: 1 + state.counted((-1,)),
    ),
    (
        "dense_rank",
        "The rank that the values would have among different rows.",
        BIGINT,
        Composed(_dense_rank),
        1,
        {"(1, 2), (2, 2), (3, 2), (NULL, 2)": "2", "(1, 3), (1, 3), (2, 3)": "3"},
        lambda state: 1 + sum(operands[0] == -1 for operands in state.rows),
    ),
    (
        "percent_rank",
        "The share of the rows that come before the values.",
        DOUBLE,
        Composed(_percent_rank),
        float_to_word(0.0),
        {"(1, 2), (2, 2), (3, 2), (NULL, 2)": "0.25"},
        lambda state: _share(state.counted((-1,)), state.counted(_EVERY)),
    ),
    (
        "cume_dist",
        "The share of the rows, the values among them, that come before the values or are equal.",
        DOUBLE,
        Composed(_cume_dist),
        float_to_word(1.0),
        {"(1, 2), (2, 2), (3, 2), (NULL, 2)": "0.6"},
        lambda state: _share(state.counted((-1, 0)) + 1, state.counted(_EVERY) + 1),
    ),
)
for (
    _ordered_sets_name,
    _ordered_sets_doc,
    _type,
    _maintenance,
    _empty,
    _ordered_sets_examples,
    _ordered_sets_finish,
) in _RANKS:
    register(
        AggregateFunction(
            _ordered_sets_name,
            "values, and as many keys to order by",
            _ordered_sets_doc,
            _ordered_sets_examples,
            _placed(_type),
            _over_places(_ordered_sets_finish),
            _maintenance,
            empty=_empty,
            form=Form.HYPOTHETICAL,
        )
    )


@dataclass(slots=True)
class Tally:
    """How often each value is there, and, if that is asked, how many of the most frequent ones are wanted."""

    counts: dict[Value, int]
    few: int = 0


def _add(tally: Tally, row: tuple[Value, ...], times: int) -> Tally:
    left = tally.counts.get(row[0], 0) + times
    if left:
        tally.counts[row[0]] = left
    else:
        del tally.counts[row[0]]
    if len(row) > 1:
        tally.few = row[1]
    return tally


def _subtract(tally: Tally, row: tuple[Value, ...], times: int) -> Tally:
    return _add(tally, row, -times)


def _merge(tally: Tally, other: Tally) -> Tally:
    for value, times in other.counts.items():
        _add(tally, (value,), times)
    tally.few = max(tally.few, other.few)
    return tally


def _most_frequent(tally: Tally) -> Any:
    """The most frequent values, of equally frequent ones the smallest first."""
    if not tally.counts:
        return None
    ranked = sorted(tally.counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return of([value for value, _ in ranked[: tally.few]])


def _different(tally: Tally) -> Any:
    return of(sorted(tally.counts)) if tally.counts else None


def tallying(finish: Callable[[Tally], Value]) -> Callable[[Types], Algorithm]:
    """The algorithm of an aggregate of counts."""

    def algorithm(types: Types) -> Algorithm:
        return Algorithm(lambda: Tally({}), _add, _merge, finish, _subtract)

    return algorithm


def _top(types: Types) -> Signature | None:
    whole = len(types) == 2 and (types[1].kind in (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT))
    if not whole or types[0].kind is Kind.ARRAY:
        return None
    value = TEXT if is_unknown(types[0]) else types[0]
    return Signature((value, INTEGER), array(value))


def _tallies_one(types: Types) -> Signature | None:
    if len(types) != 1 or types[0].kind is Kind.ARRAY:
        return None
    value = TEXT if is_unknown(types[0]) else types[0]
    return Signature((value,), array(value))


def _tallies_counted(types: Types) -> Signature | None:
    return Signature(types, BIGINT) if len(types) == 1 else None


register(
    AggregateFunction(
        "top_k",
        "a value and how many",
        "The most frequent values as an array, of equally frequent ones the smallest first.",
        {"(2, 2), (1, 2), (3, 2), (3, 2), (NULL, 2)": "[3, 1]", "('b', 1), ('a', 1)": "['a']"},
        _top,
        tallying(_most_frequent),
        Folded(),
        tallied=True,
    )
)
register(
    AggregateFunction(
        "distinct_values",
        "a value",
        "The different values as an array, in order.",
        {"(2), (1), (2), (NULL)": "[1, 2]"},
        _tallies_one,
        tallying(_different),
        Folded(),
        tallied=True,
        idempotent=True,
    )
)
register(
    AggregateFunction(
        "distinct_count",
        "a value",
        "How many different values there are.",
        {"(2), (1), (2), (NULL)": "2", "(NULL::INT)": "0"},
        _tallies_counted,
        tallying(lambda tally: len(tally.counts)),
        Folded(),
        empty=0,
        identity=0,
        tallied=True,
        idempotent=True,
    )
)
