"""Ordered-set and hypothetical-set aggregates, one entry each: calls with WITHIN GROUP (ORDER BY ...)."""

from collections.abc import Callable

from kpg.runtime.functions import sequences
from kpg.runtime.functions.aggregation import (
    AggregateFunction,
    Algorithm,
    Basic,
    Composed,
    Form,
    Part,
    Types,
    Value,
    register,
)
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTERVAL,
    Kind,
    Type,
    array,
    float_to_word,
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


_CONTINUOUS, _DISCRETE = map(sequences.at_places, (sequences.continuous, sequences.discrete))
for _name, _accepts, _form in (
    ("percentile_cont", "a fraction, and a number to order by", Form.ORDERED_SET),
    ("quantile_cont", "a number and a fraction", Form.PLAIN),
):
    register(
        AggregateFunction(
            _name,
            _accepts,
            "The number at a fraction of the way through the numbers in order, between two if it is there.",
            {"(7, 0.5), (1, 0.5), (2, 0.5), (NULL, 0.5)": "2", "(10, 0.25), (20, 0.25), (40, 0.25)": "15"},
            _continuous,
            sequences.natural(_CONTINUOUS),
            Basic(sequences.continuous),
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
        sequences.natural(sequences.at_places(sequences.median)),
        Basic(sequences.median),
    )
)
register(
    AggregateFunction(
        "percentile_disc",
        "a fraction, and a value to order by",
        "The first value in order at or after a fraction of all.",
        {"(7, 0.5), (1, 0.5), (2, 0.5), (NULL, 0.5)": "2", "('a', 0.9), ('c', 0.9), ('b', 0.9)": "'c'"},
        _discrete,
        sequences.natural(_DISCRETE),
        Basic(sequences.discrete),
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
        sequences.natural(sequences.most_frequent),
        Basic(),
        in_order=sequences.most_frequent,
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
for _name, _doc, _type, _maintenance, _empty, _examples, _finish in _RANKS:
    register(
        AggregateFunction(
            _name,
            "values, and as many keys to order by",
            _doc,
            _examples,
            _placed(_type),
            _over_places(_finish),
            _maintenance,
            empty=_empty,
            form=Form.HYPOTHETICAL,
        )
    )
