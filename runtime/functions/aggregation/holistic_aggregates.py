"""Holistic aggregates: they need all values of a group.

Ordered-set and hypothetical-set aggregates are calls with WITHIN GROUP (ORDER BY ...). Collecting
aggregates build texts, arrays and JSON, or take the first or last value. Frequency aggregates return
the most frequent or the distinct values.
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
    CallForm,
    Composite,
    Invertible,
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
from kpg.runtime.values.arrays import array_of
from kpg.runtime.values.jsons import Json, quote_string


def _text_and_separator(types: Types) -> Signature | None:
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
        _text_and_separator,
        definition.sorted_algorithm(definition.join_texts),
        Basic(),
        finish_in_order=definition.join_texts,
    )
)


Rule = Callable[[Types], Signature | None]


def present_operands(result: Callable[[Types], Type | None], operands: int = 1) -> Rule:
    """Return a rule for operands of any type, after a flag that tells whether the row counts."""

    def rule(types: Types) -> Signature | None:
        if len(types) != 1 + operands or types[0] != BOOLEAN:
            return None
        result_type = result(types[1:])
        return None if result_type is None else Signature(types, result_type)

    return rule


def _items(rows: Rows) -> list[Value]:
    return [operands[1] for operands, times in rows for _ in range(times)]


def collect_array(types: Types) -> definition.InOrder:
    """Return the final function of the values as an array. Arrays of one shape gain a dimension."""

    def finish(rows: Rows) -> Value:
        items = _items(rows)
        if types[1].kind is not Kind.ARRAY:
            return arrays.array_of(items)
        if None in items:
            raise ValueError("cannot accumulate null arrays")
        shapes = {(item.shape, item.lower_bounds) for item in items}
        if len(shapes) > 1:
            raise ValueError("cannot accumulate arrays of different dimensionality")
        ((shape, firsts),) = shapes
        if not shape:
            raise ValueError("cannot accumulate empty arrays")
        whole = arrays.Array(tuple(one for item in items for one in item.items), (len(items), *shape))
        return arrays.with_lower_bounds(whole, (1, *firsts))

    return finish


def collect_json_array(types: Types) -> definition.InOrder:
    """Return the final function of the values as the text of a JSON array."""
    between = ", \n " if jsons.is_structured(types[1]) else ", "
    return lambda rows: f"[{between.join(jsons.json_text_of(item, types[1]) for item in _items(rows))}]"


def collect_jsonb_array(types: Types) -> definition.InOrder:
    """Return the final function of the values as a JSONB array."""
    return lambda rows: Json([jsons.to_jsonb_value(item, types[1]) for item in _items(rows)])


def _members(rows: Rows) -> list[tuple[Value, Value]]:
    return [(operands[1], operands[2]) for operands, times in rows for _ in range(times)]


def collect_json_object(types: Types) -> definition.InOrder:
    """Return the final function of keys and values as the text of a JSON object."""

    def finish(rows: Rows) -> str:
        members = (
            f"{quote_string(jsons.member_key(key, types[1]))} : {jsons.json_text_of(value, types[2])}"
            for key, value in _members(rows)
        )
        return f"{{ {', '.join(members)} }}"

    return finish


def collect_jsonb_object(types: Types) -> definition.InOrder:
    """Return the final function of keys and values as a JSONB object. Of equal keys the last wins."""

    def finish(rows: Rows) -> Any:
        members = _members(rows)
        return jsons.jsonb_object(
            {jsons.member_key(key, types[1]): jsons.to_jsonb_value(value, types[2]) for key, value in members}
        )

    return finish


def first_value(types: Types) -> definition.InOrder:
    """Return the final function of the first row's value."""
    return lambda rows: rows[0][0][1]


def last_value(types: Types) -> definition.InOrder:
    """Return the final function of the last row's value."""
    return lambda rows: rows[-1][0][1]


def _array_type(types: Types) -> Type | None:
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
_COLLECTING: tuple[_Entry, ...] = (
    ("array_agg", "a value", "The values as an array.", _ARRAY, present_operands(_array_type), collect_array),
    ("list", "a value", "The values as an array.", _ARRAY, present_operands(_array_type), collect_array),
    (
        "json_agg",
        "a value",
        "The values as a JSON array.",
        _LIST,
        present_operands(_json),
        collect_json_array,
    ),
    (
        "jsonb_agg",
        "a value",
        "The values as a JSONB array.",
        _LIST,
        present_operands(_jsonb),
        collect_jsonb_array,
    ),
    (
        "json_object_agg",
        "a key and a value",
        "Keys and values as a JSON object.",
        _OBJECT,
        present_operands(_json, 2),
        collect_json_object,
    ),
    (
        "jsonb_object_agg",
        "a key and a value",
        "Keys and values as a JSONB object.",
        _JSONB_OBJECT,
        present_operands(_jsonb, 2),
        collect_jsonb_object,
    ),
    (
        "first",
        "a value",
        "The value of the first row.",
        {"(2), (NULL), (1)": "1"},
        present_operands(_same),
        first_value,
    ),
    ("last", "a value", "The value of the last row.", {"(2), (1)": "2"}, present_operands(_same), last_value),
)
for _name, _accepts, _doc, _examples, _rule, _finish in _COLLECTING:
    register(
        AggregateFunction(
            _name,
            _accepts,
            _doc,
            _examples,
            _rule,
            definition.sorted_algorithm(_finish),
            Basic(),
            finish_in_order=_finish,
            keeps_nulls=True,
        )
    )


def _value_and_key(types: Types) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 2 else None


def _arg_extreme(*, largest: bool) -> Callable[[Types], definition.InOrder]:
    """Return the final function of the value of the first row with the smallest or largest other operand.

    Rows whose other operand is NULL do not count.
    """

    def finish(rows: Rows) -> Value:
        known = [(value, definition.sort_key(other)) for (value, other), _ in rows if other is not None]
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
            _value_and_key,
            definition.sorted_algorithm(_arg_extreme(largest=_largest)),
            Basic(),
            finish_in_order=_arg_extreme(largest=_largest),
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


def multiply_values(types: Types) -> definition.InOrder:
    """Return the final function of the product of doubles in order."""

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
        definition.sorted_algorithm(multiply_values),
        Basic(),
    )
)


INTERVALS = (Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)


def _is_number(type_: Type) -> bool:
    return type_.is_numeric or is_unknown(type_)


def _fraction_type(type_: Type) -> Type | None:
    """Return the type of a direct argument: a fraction, or an array of fractions."""
    if type_.kind is Kind.ARRAY:
        return array(DOUBLE) if _is_number(type_.parts[0]) else None
    return DOUBLE if _is_number(type_) else None


def _percentile(value: Type, types: Types) -> Signature | None:
    direct = _fraction_type(types[1])
    if direct is None:
        return None
    return Signature((value, direct), array(value) if direct.kind is Kind.ARRAY else value)


def _continuous_rule(types: Types) -> Signature | None:
    if len(types) != 2 or not (_is_number(types[0]) or types[0].kind in INTERVALS):
        return None
    return _percentile(DOUBLE if _is_number(types[0]) else INTERVAL, types)


def _double_only(types: Types) -> Signature | None:
    return Signature((DOUBLE,), DOUBLE) if len(types) == 1 and _is_number(types[0]) else None


def _discrete_rule(types: Types) -> Signature | None:
    return _percentile(types[0], types) if len(types) == 2 else None


def _single_value(types: Types) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 1 else None


_CONTINUOUS, _DISCRETE = map(
    definition.finish_at_positions, (definition.continuous_percentile, definition.discrete_percentile)
)
for _ordered_sets_name, _ordered_sets_accepts, _form in (
    ("percentile_cont", "a fraction, and a number to order by", CallForm.ORDERED_SET),
    ("quantile_cont", "a number and a fraction", CallForm.PLAIN),
):
    register(
        AggregateFunction(
            _ordered_sets_name,
            _ordered_sets_accepts,
            "The number at a fraction of the way through the numbers in order, between two if it is there.",
            {"(7, 0.5), (1, 0.5), (2, 0.5), (NULL, 0.5)": "2", "(10, 0.25), (20, 0.25), (40, 0.25)": "15"},
            _continuous_rule,
            definition.sorted_algorithm(_CONTINUOUS),
            Basic(definition.continuous_percentile),
            finish_in_order=_CONTINUOUS if _form is CallForm.ORDERED_SET else None,
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
        definition.sorted_algorithm(definition.finish_at_positions(definition.median)),
        Basic(definition.median),
    )
)
register(
    AggregateFunction(
        "percentile_disc",
        "a fraction, and a value to order by",
        "The first value in order at or after a fraction of all.",
        {"(7, 0.5), (1, 0.5), (2, 0.5), (NULL, 0.5)": "2", "('a', 0.9), ('c', 0.9), ('b', 0.9)": "'c'"},
        _discrete_rule,
        definition.sorted_algorithm(_DISCRETE),
        Basic(definition.discrete_percentile),
        finish_in_order=_DISCRETE,
        form=CallForm.ORDERED_SET,
    )
)
register(
    AggregateFunction(
        "mode",
        "a value to order by",
        "The value that occurs most often; of several such the first in order.",
        {"(2), (1), (2), (NULL)": "2", "('b'), ('a'), ('b')": "'b'"},
        _single_value,
        definition.sorted_algorithm(definition.most_frequent),
        Basic(),
        finish_in_order=definition.most_frequent,
        form=CallForm.ORDERED_SET,
    )
)


# Hypothetical-set aggregates: the rank that a row would have, from counts of the rows before it.


def _hypothetical_rule(result: Type) -> Callable[[Types], Signature | None]:
    def rule(types: Types) -> Signature | None:
        return Signature(types, result) if len(types) > 1 and types[0] == INTEGER else None

    return rule


def _indicator(args: tuple[Scalar, ...], comparison: str) -> Scalar:
    """Return 1 where a row's position compares to 0 in this way, else NULL."""
    test = Call(comparison, (args[0], Literal(0, INTEGER)), BOOLEAN)
    return If(test, Literal(1, INTEGER), Literal(None, INTEGER), INTEGER)


def _plus_one(count: Scalar) -> Scalar:
    return Call("add", (count, Literal(1, BIGINT)), BIGINT)


def _double(count: Scalar) -> Scalar:
    return Call("cast", (count,), DOUBLE)


def _rank(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    return (Part("count", (_indicator(args, "lt"),)),), _plus_one(Column(0, BIGINT))


def _dense_rank(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    different = Part("count", (_indicator(args, "lt"), *args[1:]), distinct=True)
    return (different,), _plus_one(Column(0, BIGINT))


def _percent_rank(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    before, every = Column(0, BIGINT), Column(1, BIGINT)
    parts = (Part("count", (_indicator(args, "lt"),)), Part("count", (args[0],)))
    none = Call("eq", (every, Literal(0, BIGINT)), BOOLEAN)
    share = Call("div", (_double(before), _double(every)), DOUBLE)
    return parts, If(none, Literal(float_to_word(0.0), DOUBLE), share, DOUBLE)


def _cume_dist(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    before, every = Column(0, BIGINT), Column(1, BIGINT)
    parts = (Part("count", (_indicator(args, "le"),)), Part("count", (args[0],)))
    return parts, Call("div", (_double(_plus_one(before)), _double(_plus_one(every))), DOUBLE)


@dataclass(slots=True)
class HypotheticalCounts:
    """Number of rows by position relative to the hypothetical row, and by keys."""

    rows: dict[tuple[Value, ...], int]

    def add(self, operands: tuple[Value, ...], times: int) -> "HypotheticalCounts":
        """Add rows and return self. A negative ``times`` removes them."""
        self.rows[operands] = self.rows.get(operands, 0) + times
        if not self.rows[operands]:
            del self.rows[operands]
        return self

    def merge(self, other: "HypotheticalCounts") -> "HypotheticalCounts":
        """Add all of another state and return self."""
        for operands, times in other.rows.items():
            self.add(operands, times)
        return self

    def count(self, positions: tuple[int, ...]) -> int:
        """Return the number of rows at these positions."""
        return sum(times for operands, times in self.rows.items() if operands[0] in positions)


def _hypothetical_algorithm(finish: Callable[[HypotheticalCounts], Value]) -> Callable[[Types], Algorithm]:
    algorithm = Algorithm(
        initialize=lambda: HypotheticalCounts({}),
        add=HypotheticalCounts.add,
        subtract=lambda state, operands, times: state.add(operands, -times),
        merge=HypotheticalCounts.merge,
        finish=finish,
    )
    return lambda types: algorithm


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


_ALL_POSITIONS = (-1, 0, 1)
_RANKS: tuple[
    tuple[str, str, Type, Composite, int, dict[str, str], Callable[[HypotheticalCounts], Value]],
    ...,
] = (
    (
        "rank",
        "The rank that the values would have among the rows: one more than the rows before them.",
        BIGINT,
        Composite(_rank),
        1,
        {"(1, 2), (2, 2), (3, 2), (NULL, 2)": "2", "(1, 3), (1, 3), (2, 3)": "4"},
        lambda state: 1 + state.count((-1,)),
    ),
    (
        "dense_rank",
        "The rank that the values would have among different rows.",
        BIGINT,
        Composite(_dense_rank),
        1,
        {"(1, 2), (2, 2), (3, 2), (NULL, 2)": "2", "(1, 3), (1, 3), (2, 3)": "3"},
        lambda state: 1 + sum(operands[0] == -1 for operands in state.rows),
    ),
    (
        "percent_rank",
        "The share of the rows that come before the values.",
        DOUBLE,
        Composite(_percent_rank),
        float_to_word(0.0),
        {"(1, 2), (2, 2), (3, 2), (NULL, 2)": "0.25"},
        lambda state: _share(state.count((-1,)), state.count(_ALL_POSITIONS)),
    ),
    (
        "cume_dist",
        "The share of the rows, the values among them, that come before the values or are equal.",
        DOUBLE,
        Composite(_cume_dist),
        float_to_word(1.0),
        {"(1, 2), (2, 2), (3, 2), (NULL, 2)": "0.6"},
        lambda state: _share(state.count((-1, 0)) + 1, state.count(_ALL_POSITIONS) + 1),
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
            _hypothetical_rule(_type),
            _hypothetical_algorithm(_ordered_sets_finish),
            _maintenance,
            empty=_empty,
            form=CallForm.HYPOTHETICAL,
        )
    )


@dataclass(slots=True)
class Tally:
    """Number of each value, and for ``top_k`` the number of most frequent values to return."""

    counts: dict[Value, int]
    limit: int = 0


def _add(tally: Tally, row: tuple[Value, ...], times: int) -> Tally:
    left = tally.counts.get(row[0], 0) + times
    if left:
        tally.counts[row[0]] = left
    else:
        del tally.counts[row[0]]
    if len(row) > 1:
        tally.limit = row[1]
    return tally


def _subtract(tally: Tally, row: tuple[Value, ...], times: int) -> Tally:
    return _add(tally, row, -times)


def _merge(tally: Tally, other: Tally) -> Tally:
    for value, times in other.counts.items():
        _add(tally, (value,), times)
    tally.limit = max(tally.limit, other.limit)
    return tally


def _most_frequent(tally: Tally) -> Any:
    """Return the most frequent values, ties in ascending order."""
    if not tally.counts:
        return None
    ranked = sorted(tally.counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return array_of([value for value, _ in ranked[: tally.limit]])


def _distinct_values(tally: Tally) -> Any:
    return array_of(sorted(tally.counts)) if tally.counts else None


def tally_algorithm(finish: Callable[[Tally], Value]) -> Callable[[Types], Algorithm]:
    """Return the algorithm of an aggregate over tallies."""

    def algorithm(types: Types) -> Algorithm:
        return Algorithm(lambda: Tally({}), _add, _merge, finish, _subtract)

    return algorithm


def _top_k_rule(types: Types) -> Signature | None:
    whole = len(types) == 2 and (types[1].kind in (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT))
    if not whole or types[0].kind is Kind.ARRAY:
        return None
    value = TEXT if is_unknown(types[0]) else types[0]
    return Signature((value, INTEGER), array(value))


def _distinct_values_rule(types: Types) -> Signature | None:
    if len(types) != 1 or types[0].kind is Kind.ARRAY:
        return None
    value = TEXT if is_unknown(types[0]) else types[0]
    return Signature((value,), array(value))


def _distinct_count_rule(types: Types) -> Signature | None:
    return Signature(types, BIGINT) if len(types) == 1 else None


register(
    AggregateFunction(
        "top_k",
        "a value and how many",
        "The most frequent values as an array, of equally frequent ones the smallest first.",
        {"(2, 2), (1, 2), (3, 2), (3, 2), (NULL, 2)": "[3, 1]", "('b', 1), ('a', 1)": "['a']"},
        _top_k_rule,
        tally_algorithm(_most_frequent),
        Invertible(),
        uses_tally=True,
    )
)
register(
    AggregateFunction(
        "distinct_values",
        "a value",
        "The different values as an array, in order.",
        {"(2), (1), (2), (NULL)": "[1, 2]"},
        _distinct_values_rule,
        tally_algorithm(_distinct_values),
        Invertible(),
        uses_tally=True,
        idempotent=True,
    )
)
register(
    AggregateFunction(
        "distinct_count",
        "a value",
        "How many different values there are.",
        {"(2), (1), (2), (NULL)": "2", "(NULL::INT)": "0"},
        _distinct_count_rule,
        tally_algorithm(lambda tally: len(tally.counts)),
        Invertible(),
        empty=0,
        identity=0,
        uses_tally=True,
        idempotent=True,
    )
)
