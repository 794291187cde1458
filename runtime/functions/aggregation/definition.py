"""The definition of an aggregate function, the registry, and algorithms on Python values.

An :class:`AggregateFunction` holds every fact about an aggregate: whether it may stand in a recursion,
whether repeated rows matter, its value over no rows, the state that maintains it. Callers read a field and
never compare names. ``builtins`` and the modules beside it hold the entries.

An :class:`Algorithm` computes an aggregate in the terms of CREATE AGGREGATE. Its states are plain Python
values and are exact where the engine's are. Aggregates that need all rows (joined texts, percentiles, the
most frequent value) keep a list of additions and retractions, and sort it in the final function: by the keys
of the ORDER BY, or by the operands themselves.
"""

import difflib
import enum
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, islice
from typing import Any, Final

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import autoload, numerics
from kpg.runtime.functions.registry import Signature
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named, Scalar
from kpg.runtime.types import MAX_WORD, MIN_WORD, Kind, Type
from kpg.runtime.values import intervals
from kpg.runtime.values.numeric import EXACT, checked, rounded, shown_scale
from kpg.runtime.values.words import limits

Types = tuple[Type, ...]
Value = Any
"""As functions that run once for each distinct value take and give it: ``bool``, ``int`` (also for dates,
intervals and unscaled decimals), ``float`` or ``str``; None for NULL.
"""
State = Any


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How an aggregate is computed, in the terms of CREATE AGGREGATE: over operands of given types.

    Rows are operand tuples with a multiplicity ``times`` from 1 on; their first operand is never NULL, since
    an aggregate ignores rows in which it is. ``add`` (SFUNC), ``subtract`` (MINVFUNC) and ``merge``
    (COMBINEFUNC) may change the first state that they are given and return it; ``merge`` leaves the second
    as it is. It holds that

    * ``add`` and ``merge`` commute: rows may come in any order and in any parts;
    * ``merge(s, initialize())`` is s;
    * ``subtract(add(s, row, n), row, n)`` is s, where there is a ``subtract``. None: the state does not tell
      what it would have been without a row, which is the case of min and max;
    * ``finish`` changes nothing, and raises ArithmeticError where the type of the result cannot hold it.

    Partial aggregates are states: a worker adds up its rows, states are merged where the group lives, and a
    window moves by ``add`` and ``subtract``. What has no ``subtract`` is rebuilt from parts instead.
    """

    initialize: Callable[[], State]
    add: Callable[[State, tuple[Value, ...], int], State]
    merge: Callable[[State, State], State]
    finish: Callable[[State], Value]
    subtract: Callable[[State, tuple[Value, ...], int], State] | None = None


class AccumulatorKind(enum.Enum):
    """The state that a group table keeps for an accumulable aggregate (``runtime/state/groups.py``).

    Every state is linear in its rows: ``subtract`` is ``add`` with a negative multiplicity, and ``merge``
    adds the states' numbers up, with their carries. So partial states can be added up in any order.
    """

    COUNT = "one word: how many rows, or rows whose operand is not NULL"
    SUM = "the number of operands and their exact sum: 128 bits, or fixed point wide enough for any double"
    ONLY = "the number of operands and their sum, where one is not NULL: the word that this one is"
    COMOMENT = "the number of pairs and the exact sums of both operands and of their products"
    BIT_AND = "the number of operands, and of those that have it for each bit"
    BIT_OR = "as for AND"
    BIT_XOR = "as for AND, too"

    @property
    def operands(self) -> int:
        """How many operands it takes, if not none."""
        return 2 if self is AccumulatorKind.COMOMENT else 1


class Trend(enum.Enum):
    """Where the value of a monotone aggregate goes as rows are added."""

    DOWN = "it gets smaller or stays"
    UP = "it gets larger or stays"


@dataclass(frozen=True, slots=True)
class Accumulable:
    """Maintained in a few words for each group, which deletions leave without a trace: O(change)."""

    accumulator: AccumulatorKind


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """The first of the group's values, in descending order if the trend is up: a search in sorted values."""


@dataclass(frozen=True, slots=True)
class Places:
    """What looks at the rows at a few places in order, counted from 0, and at no others.

    ``at`` says which, of the second operand, which all rows share (None if there is none), and of how many
    rows there are, one or more; ``finish`` takes the first operands there, and these two again.
    """

    at: Callable[[Value, int], list[int]]
    finish: Callable[[list[Value], Value, int], Value]


@dataclass(frozen=True, slots=True)
class Basic:
    """The algorithm over the whole group again, whenever it changes: O(group).

    ``places`` of the operands' types: how to do with the values of a few rows, where that is all it wants.
    """

    places: Callable[[Types], Places] | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """The algorithm, which can take rows back, on a state in Python for each group: O(change)."""


@dataclass(frozen=True, slots=True)
class Part:
    """An aggregate that another is made of, over operands of exactly the types that it takes."""

    function: str
    args: tuple[Scalar, ...]
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Composed:
    """A scalar of other aggregates: ``Column(i)`` of ``result`` is the value of ``parts[i]``.

    ``build`` gets the operands.
    """

    build: Callable[[tuple[Scalar, ...]], tuple[tuple[Part, ...], Scalar]]


Maintenance = Accumulable | Hierarchical | Basic | Folded | Composed


@dataclass(frozen=True, slots=True)
class Direction:
    """How a key of an ORDER BY puts rows in order."""

    descending: bool
    nulls_first: bool


Rows = list[tuple[tuple[Value, ...], int]]
"""Rows of operands, with how often each is there."""


class Form(enum.Enum):
    """How a call is written."""

    PLAIN = "f(operands)"
    ORDERED_SET = "f(direct arguments) WITHIN GROUP (ORDER BY value): over (value, direct arguments)"
    HYPOTHETICAL = (
        "f(values) WITHIN GROUP (ORDER BY keys): over (whether a row's keys come before the values, -1, are"
        " equal, 0, or come after them, 1; keys)"
    )


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate. ``accepts`` shows the operands to the user.

    ``examples``: rows of operands as SQL has them after VALUES, and the SQL literal that they come to.
    """

    name: str
    accepts: str
    doc: str
    examples: Mapping[str, str] = field(hash=False)
    rule: Callable[[Types], Signature | None]
    """Operand types to what they are cast to and the type of the result; None where it does not apply."""
    algorithm: Callable[[Types], Algorithm]
    """How it is computed over operands of types that the rule gave; the reference for what maintains it."""
    maintenance: Maintenance
    empty: int | None = None
    """Its value over no rows: a word, or NULL."""
    identity: int | str | None = None
    """The word of a value that adding no rows has, for a language without NULLs; None if there is none."""
    trend: Trend | None = None
    """Which way it moves as rows are added, if always the same way: it is monotone."""
    idempotent: bool = False
    """Whether a repeated row does not matter, so that DISTINCT does not."""
    over: Mapping[Kind, str] = field(default_factory=dict, hash=False)
    """The aggregates that compute it of values of some kinds; they cannot be called by their names."""
    exact: Mapping[Kind, str] = field(default_factory=dict, hash=False)
    """The aggregates that SQL has in its place of values of some kinds: NUMERICs that nothing is lost of."""
    in_order: Callable[[Types], Callable[[Rows], Value]] | None = None
    """What it makes of rows in a given order, where that matters. Without one, ``algorithm`` takes the rows
    in the order of their operands, ascending.
    """
    form: Form = Form.PLAIN
    tallied: bool = False
    """Whether its states are tallies (``tallies.py``): all it minds is how often each value is there."""
    keeps_nulls: bool = False
    """Whether rows count in which the operand is NULL: there is a first operand then, true or, of a row that
    does not count, NULL.
    """

    @property
    def is_lattice(self) -> bool:
        """Whether merging is a least upper bound in one direction: what a recursion may aggregate by."""
        return self.idempotent and self.trend is not None

    @property
    def takes_rows(self) -> bool:
        """Whether it may have no operand, and is of rows then."""
        return self.rule(()) is not None

    @property
    def selects(self) -> bool:
        """Whether its value is one of its operands."""
        return isinstance(self.maintenance, Hierarchical)

    @property
    def accumulator(self) -> AccumulatorKind | None:
        """The state of a group, if that is all it needs."""
        return self.maintenance.accumulator if isinstance(self.maintenance, Accumulable) else None


@dataclass(frozen=True, slots=True)
class AggregateResolution:
    """What an aggregate call means."""

    function: AggregateFunction
    arg_types: Types
    result_type: Type


_AGGREGATES: dict[str, AggregateFunction] = {}


def register(function: AggregateFunction) -> AggregateFunction:
    """Makes an aggregate known by its name."""
    assert function.name not in _AGGREGATES, function.name
    _AGGREGATES[function.name] = function
    return function


def aggregates() -> Iterator[AggregateFunction]:
    """Every aggregate, by name."""
    autoload.bring_all()
    named = [function for function in _AGGREGATES.values() if not function.name.startswith("$")]
    return iter(sorted(named, key=lambda function: function.name))


def aggregate_names() -> frozenset[str]:
    """The names of all aggregates, those included that are not defined yet."""
    known = autoload.aggregate_names().union(_AGGREGATES)
    return frozenset(name for name in known if not name.startswith("$"))


def is_aggregate(name: str) -> bool:
    """Whether a name is that of an aggregate."""
    return name in _AGGREGATES or name in autoload.aggregate_names()


def aggregate_named(name: str) -> AggregateFunction:
    """The aggregate of a name; ProgrammingError with the nearest names if there is none."""
    if isinstance(name, Named):
        return name.definition
    function = _AGGREGATES.get(name)
    if function is None and autoload.bring_aggregate(name):
        function = _AGGREGATES[name]
    if function is None and name[:1] == "$":
        autoload.bring_every_module()
        function = _AGGREGATES.get(name)
    if function is None:
        near = difflib.get_close_matches(name, sorted(aggregate_names()), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else None
        raise ProgrammingError(f"unknown aggregate {name}", hint=hint)
    return function


def specialised(function: AggregateFunction, arg_types: Types) -> AggregateFunction:
    """The aggregate that computes an aggregate of values of these types."""
    other = function.over.get(arg_types[0].kind) if arg_types else None
    return function if other is None else aggregate_named(other)


def exact(function: AggregateFunction, arg_types: Types) -> AggregateFunction:
    """The aggregate that SQL has for values of these types."""
    other = function.exact.get(arg_types[0].kind) if arg_types else None
    return function if other is None else aggregate_named(other)


def resolve_aggregate(name: str, arg_types: Types) -> AggregateResolution:
    """The meaning of an aggregate call by name and operand types."""
    function = specialised(aggregate_named(name), arg_types)
    signature = function.rule(arg_types)
    if signature is None:
        shown = ", ".join(str(type_) for type_ in arg_types)
        raise ProgrammingError(f"{name} does not take ({shown})", hint=f"it takes {function.accepts}")
    return AggregateResolution(function, signature.args, signature.result)


def algorithm_of(function: AggregateFunction, types: Types, order: tuple[Direction, ...]) -> Algorithm:
    """How the aggregate is computed over operands of types, the last of which are keys to order rows by."""
    if not order or function.in_order is None:
        return function.algorithm(types)

    return ordered(function.in_order(types[: -len(order)]), order)


def aggregated(algorithm: Algorithm, rows: Iterable[tuple[tuple[Value, ...], int]]) -> Value:
    """The aggregate of rows (operands, times), those with a NULL first operand left out."""
    state, add = algorithm.initialize(), algorithm.add
    for operands, times in rows:
        if not operands or operands[0] is not None:
            state = add(state, operands, times)
    return algorithm.finish(state)


Operands = tuple[Value, ...]
BITS = 64


def counting(types: Types) -> Algorithm:
    """How many rows there are."""
    return Algorithm(
        initialize=lambda: 0,
        add=lambda state, operands, times: state + times,
        subtract=lambda state, operands, times: state - times,
        merge=lambda left, right: left + right,
        finish=lambda state: _checked(state, MIN_WORD, MAX_WORD),
    )


def _checked(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise OverflowError(f"{value} is not from {low} to {high}")
    return value


@dataclass(slots=True)
class Total:
    """The number of operands, the exact sum of the finite ones, and how many were NaN, inf and -inf."""

    count: int = 0
    finite: int | Fraction = 0
    nans: int = 0
    positive: int = 0
    negative: int = 0

    def add(self, value: int | float, times: int) -> "Total":
        """This one with a value ``times`` times more; negative ``times`` takes it away."""
        self.count += times
        if not isinstance(value, float):
            self.finite += value * times
        elif math.isfinite(value):
            self.finite += Fraction(value) * times
        elif math.isnan(value):
            self.nans += times
        elif value > 0:
            self.positive += times
        else:
            self.negative += times
        return self

    def merge(self, other: "Total") -> "Total":
        """This one with all of the other."""
        self.count += other.count
        self.finite += other.finite
        self.nans += other.nans
        self.positive += other.positive
        self.negative += other.negative
        return self

    def as_float(self, scale: int = 1) -> float:
        """The sum of operands in units of 1 / ``scale``, rounded once; OverflowError beyond any double."""
        if self.nans or (self.positive and self.negative):
            return math.nan
        if self.positive or self.negative:
            return math.inf if self.positive else -math.inf
        return float(Fraction(self.finite) / scale)


def _over_totals(finish: Callable[[Total], Value]) -> Algorithm:
    return Algorithm(
        initialize=Total,
        add=lambda state, operands, times: state.add(operands[0], times),
        subtract=lambda state, operands, times: state.add(operands[0], -times),
        merge=Total.merge,
        finish=lambda state: finish(state) if state.count else None,
    )


def summing(result: Callable[[Type], Type]) -> Callable[[Types], Algorithm]:
    """The sum, of the type that ``result`` gives for the operand's."""

    def algorithm(types: Types) -> Algorithm:
        type_ = result(types[0])
        if type_.is_float:
            return _over_totals(Total.as_float)
        low, high = limits(type_)
        return _over_totals(lambda total: _checked(int(total.finite), low, high))

    return algorithm


@dataclass(slots=True)
class NumericTotal:
    """The number of NUMERICs, the sum of the finite ones, and how many of the others there are."""

    count: int = 0
    finite: Decimal = Decimal(0)
    others: Counter[str] = field(default_factory=Counter)
    scales: Counter[int] = field(default_factory=Counter)
    """How many of the finite ones have so many digits behind the point: the sum has as many as any."""

    def add(self, value: Decimal, times: int) -> "NumericTotal":
        """This one with a value ``times`` times more; negative ``times`` takes it away."""
        self.count += times
        if value.is_finite():
            self.finite = EXACT.add(self.finite, EXACT.multiply(value, Decimal(times)))
            self.scales[shown_scale(value)] += times
        else:
            self.others[str(value)] += times
        return self

    def merge(self, other: "NumericTotal") -> "NumericTotal":
        """This one with all of the other."""
        self.count += other.count
        self.finite = EXACT.add(self.finite, other.finite)
        self.others.update(other.others)
        self.scales.update(other.scales)
        return self

    def value(self) -> Decimal:
        """The sum."""
        present = {name for name, times in self.others.items() if times}
        if len(present) > 1 or "NaN" in present:
            return Decimal("NaN")
        if present:
            return Decimal(present.pop())
        return rounded(self.finite, max((scale for scale, times in self.scales.items() if times), default=0))


def numeric_total(state: NumericTotal) -> Value:
    """The sum of NUMERICs."""
    return checked(state.value())


def numeric_mean(state: NumericTotal) -> Value:
    """The mean of NUMERICs."""
    return numerics.divide(state.value(), Decimal(state.count))


def over_intervals(*, mean: bool) -> Callable[[Types], Algorithm]:
    """The sum of INTERVALs, part by part, or their mean."""

    def add(state: list[int], operands: Operands, times: int) -> list[int]:
        return [total + part * times for total, part in zip(state, (1, *operands[0]), strict=True)]

    def finish(state: list[int]) -> Value:
        count, *parts = state
        if not count:
            return None
        total = intervals.made(*map(Fraction, parts))
        return intervals.divided(total, count) if mean else total

    algorithm = Algorithm(
        initialize=lambda: [0, 0, 0, 0],
        add=add,
        subtract=lambda state, operands, times: add(state, operands, -times),
        merge=lambda left, right: [a + b for a, b in zip(left, right, strict=True)],
        finish=finish,
    )
    return lambda types: algorithm


def over_numerics(total: type[Any], finish: Callable[[Any], Value]) -> Callable[[Types], Algorithm]:
    """What is computed of NUMERICs by a class such as :class:`NumericTotal`, which adds them up."""
    algorithm = Algorithm(
        initialize=total,
        add=lambda state, operands, times: state.add(operands[0], times),
        subtract=lambda state, operands, times: state.add(operands[0], -times),
        merge=total.merge,
        finish=lambda state: finish(state) if state.count else None,
    )
    return lambda types: algorithm


def averaging(types: Types) -> Algorithm:
    """The sum as a double, divided by the number of operands."""
    scale = 10 ** types[0].scale if types[0].is_exact else 1

    return _over_totals(lambda total: total.as_float(scale) / total.count)


def rank(value: Value) -> tuple[bool, Value]:
    """What values that are not NULL are ordered by: NaN is larger than any other number."""
    nan = value != value
    return nan, 0.0 if nan else value


def extreme(largest: bool) -> Callable[[Types], Algorithm]:
    """The smallest or the largest value."""

    def better(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return right if left is None else left
        return max(left, right, key=rank) if largest else min(left, right, key=rank)

    algorithm = Algorithm(
        initialize=lambda: None,
        add=lambda state, operands, times: better(state, operands[0]),
        merge=better,
        finish=lambda state: state,
    )
    return lambda types: algorithm


def over_bits(kind: AccumulatorKind) -> Callable[[Types], Algorithm]:
    """The bitwise AND, OR or XOR: by how many operands there are, and in how many each bit is set."""

    def add(state: list[int], operands: Operands, times: int) -> list[int]:
        state[0] += times
        for bit in range(BITS):
            state[1 + bit] += times * (operands[0] >> bit & 1)
        return state

    def merge(left: list[int], right: list[int]) -> list[int]:
        left[:] = [one + other for one, other in zip(left, right, strict=True)]
        return left

    def finish(state: list[int]) -> int | None:
        number, *counts = state
        match kind:
            case AccumulatorKind.BIT_AND:
                found = [count == number for count in counts]
            case AccumulatorKind.BIT_OR:
                found = [count > 0 for count in counts]
            case _:
                found = [count % 2 == 1 for count in counts]
        word = sum(1 << bit for bit, is_set in enumerate(found) if is_set)
        return (word - (1 << BITS) if found[-1] else word) if number else None

    algorithm = Algorithm(
        initialize=lambda: [0] * (1 + BITS),
        add=add,
        subtract=lambda state, operands, times: add(state, operands, -times),
        merge=merge,
        finish=finish,
    )
    return lambda types: algorithm


SequencesOperands = tuple[Value, ...]
COMPARABLE: Final = (bool, int, float, str, bytes, Decimal)
InOrder = Callable[[Rows], Value]


def natural(finish: Callable[[Types], InOrder]) -> Callable[[Types], Algorithm]:
    """The aggregate over rows in the order of their operands."""
    return lambda types: _over_rows(finish(types), _by_operands)


def ordered(finish: InOrder, order: tuple[Direction, ...]) -> Algorithm:
    """The aggregate over rows in the order of their last operands; rows that agree on them by the others."""

    def put(rows: Rows) -> Rows:
        rows = _by_operands(rows)
        width = len(rows[0][0]) - len(order)
        for place in range(len(order) - 1, -1, -1):
            rows = _sorted(rows, width + place, order[place])
        return [(operands[:width], times) for operands, times in rows]

    return _over_rows(finish, put)


def _sorted(rows: Rows, place: int, direction: Direction) -> Rows:
    """The rows by one operand, those that agree on it as they were."""
    nulls = [row for row in rows if row[0][place] is None]
    known = [row for row in rows if row[0][place] is not None]
    known.sort(key=lambda row: key_of(row[0][place]), reverse=direction.descending)
    return nulls + known if direction.nulls_first else known + nulls


def _by_operands(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: tuple((value is None, key_of(value)) for value in row[0]))


def key_of(value: Value) -> Value:
    """What values of a type are ordered by; those that Python cannot compare by their text, somehow."""
    if value is None:
        return 0
    return rank(value) if isinstance(value, COMPARABLE) else repr(value)


def _over_rows(finish: InOrder, put: Callable[[Rows], Rows]) -> Algorithm:
    def add(state: Rows, operands: SequencesOperands, times: int) -> Rows:
        state.append((operands, times))
        return state

    def merge(left: Rows, right: Rows) -> Rows:
        left += right
        return left

    def finished(state: Rows) -> Value:
        if any(times < 0 for _, times in state):
            net: Counter[SequencesOperands] = Counter()
            for operands, times in state:
                net[operands] += times
            state = [(operands, times) for operands, times in net.items() if times]
        return finish(put(state)) if state else None

    return Algorithm(
        initialize=list,
        add=add,
        subtract=lambda state, operands, times: add(state, operands, -times),
        merge=merge,
        finish=finished,
    )


def joining(types: Types) -> InOrder:
    """The texts, each after the first with its separator (nothing, if NULL) before it."""

    nothing: Value = b"" if types[0].kind is Kind.BYTEA else ""

    def finish(rows: Rows) -> Value:
        parts = [part for (text, between), times in rows for part in (between or nothing, text) * times]
        return nothing.join(parts[1:])

    return finish


def at_places(places: Callable[[Types], Places]) -> Callable[[Types], InOrder]:
    """The aggregate that looks at some places, over rows in order."""

    def of_types(types: Types) -> InOrder:
        wanted = places(types)

        def finish(rows: Rows) -> Value:
            ends = list(accumulate(times for _, times in rows))
            direct = rows[0][0][1] if len(types) > 1 else None
            found = [rows[bisect_right(ends, place)][0][0] for place in wanted.at(direct, ends[-1])]
            return wanted.finish(found, direct, ends[-1])

        return finish

    return of_types


def median(types: Types) -> Places:
    """The value in the middle of doubles in order, or the mean of the two that are."""

    def finish(values: list[Value], direct: Value, rows: int) -> Value:
        left, right = values
        return left if left == right else left / 2 + right / 2

    return Places(lambda direct, rows: [(rows - 1) // 2, rows // 2], finish)


def continuous(types: Types) -> Places:
    """The value at a fraction of the way from the first to the last, between two if it is there."""
    between = _between_intervals if types[0].kind is Kind.INTERVAL else _between

    def at(fraction: float, rows: int) -> list[int]:
        place = fraction * (rows - 1)
        return [math.floor(place), math.ceil(place)]

    def finish(values: list[Value], fraction: float, rows: int) -> Value:
        left, right = values
        place = fraction * (rows - 1)
        return left if left == right else between(left, right, place - math.floor(place))

    return _at_fractions(types, Places(at, finish))


def _between(left: float, right: float, share: float) -> float:
    return left + share * (right - left)


def _between_intervals(left: Value, right: Value, share: float) -> Value:

    distance = intervals.made(*(Fraction(b - a) for a, b in zip(left, right, strict=True)))
    step = intervals.scaled(distance, share)
    return intervals.made(*(Fraction(a + b) for a, b in zip(left, step, strict=True)))


def discrete(types: Types) -> Places:
    """The first value at or after a fraction of all."""
    return _at_fractions(
        types,
        Places(
            lambda fraction, rows: [max(math.ceil(fraction * rows), 1) - 1],
            lambda values, fraction, rows: values[0],
        ),
    )


def _at_fractions(types: Types, one: Places) -> Places:
    """The same for the second operand: a fraction or an array of fractions, NULL for what is NULL."""
    several = types[1].kind is Kind.ARRAY

    def fractions(direct: Value) -> list[float | None]:
        return list(direct.items) if several and direct is not None else [direct]

    def at(direct: Value, rows: int) -> list[int]:
        found: list[int] = []
        for fraction in fractions(direct):
            if fraction is not None:
                if not 0 <= fraction <= 1:
                    raise ValueError(f"percentile value {fraction:g} is not between 0 and 1")
                found += one.at(fraction, rows)
        return found

    def finish(values: list[Value], direct: Value, rows: int) -> Value:
        rest, results = iter(values), list[Value]()
        for fraction in fractions(direct):
            known = [] if fraction is None else list(islice(rest, len(one.at(fraction, rows))))
            results.append(one.finish(known, fraction, rows) if known else None)
        return direct._replace(items=tuple(results)) if several and direct is not None else results[0]

    return Places(at, finish)


def most_frequent(types: Types) -> InOrder:
    """The value that occurs most often, of several the first."""

    def finish(rows: Rows) -> Value:
        counts: dict[Value, int] = {}
        values: dict[Value, Value] = {}
        for operands, times in rows:
            key = key_of(operands[0])
            counts[key] = counts.get(key, 0) + times
            values.setdefault(key, operands[0])
        return values[max(counts, key=counts.__getitem__)]

    return finish
