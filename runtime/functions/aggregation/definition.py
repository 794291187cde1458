"""The definition of an aggregate function, the registry, and algorithms on Python values.

An :class:`AggregateFunction` holds every fact about an aggregate: whether a recursion may use it,
whether repeated rows matter, its value over no rows, and the state that maintains it. Callers read a
field and never compare names. ``builtins`` and the modules beside it hold the entries.

An :class:`Algorithm` computes an aggregate in the terms of CREATE AGGREGATE. Its states are plain
Python values, as exact as the engine's. Some aggregates need all rows, such as concatenated texts,
percentiles and the most frequent value. They keep a list of additions and retractions. The final
function sorts it by the keys of the ORDER BY, or by the operands.
"""

import difflib
import enum
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import field
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import autoload, numerics
from kpg.runtime.functions.registry import Signature
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Scalar, UserFunctionName
from kpg.runtime.types import MAX_WORD, MIN_WORD, Kind, Type
from kpg.runtime.values import intervals
from kpg.runtime.values.numeric import EXACT, check_range, display_scale, round_to_scale
from kpg.runtime.values.words import limits

if TYPE_CHECKING:
    from kpg.runtime import extensions
else:
    extensions = LazyModule("kpg.runtime.extensions")

Types = tuple[Type, ...]
Value = Any
"""A value of a memoized function: ``bool``, ``int`` (also for dates, intervals and unscaled decimals),
``float`` or ``str``, and None for NULL.
"""
State = Any


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An aggregate's algorithm in the terms of CREATE AGGREGATE, over operands of given types.

    Rows are operand tuples with a multiplicity ``times`` of at least 1. Their first operand is never NULL:
    an aggregate ignores rows in which it is. ``add`` (SFUNC), ``subtract`` (MINVFUNC) and ``merge``
    (COMBINEFUNC) may change their first state and return it. ``merge`` leaves the second unchanged.
    The functions obey these laws:

    * ``add`` and ``merge`` commute: rows may come in any order and in any parts.
    * ``merge(s, initialize())`` is s.
    * ``subtract(add(s, row, n), row, n)`` is s. ``subtract`` is None if the state cannot drop a row, as
      for min and max.
    * ``finish`` changes nothing. It raises ArithmeticError where the result type cannot hold the value.

    Partial aggregates are states. A worker aggregates its rows, and states are merged where the group
    lives. A window moves by ``add`` and ``subtract``; without ``subtract`` it is rebuilt from parts.
    """

    initialize: Callable[[], State]
    add: Callable[[State, tuple[Value, ...], int], State]
    merge: Callable[[State, State], State]
    finish: Callable[[State], Value]
    subtract: Callable[[State, tuple[Value, ...], int], State] | None = None


class AccumulatorKind(enum.Enum):
    """The state of a group for an accumulable aggregate (``runtime/state/groups.py``).

    Every state is linear in its rows. ``subtract`` is ``add`` with a negative multiplicity. ``merge`` adds
    the numbers of the states, with carries. So partial states can be merged in any order.
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
        """Number of operands, unless the call has none."""
        return 2 if self is AccumulatorKind.COMOMENT else 1


class Trend(enum.Enum):
    """Direction in which the value of a monotone aggregate moves as rows are added."""

    DOWN = "it gets smaller or stays"
    UP = "it gets larger or stays"


@dataclass(frozen=True, slots=True)
class Accumulable:
    """Maintained in a few words for each group, from which deletions vanish without residue: O(change)."""

    accumulator: AccumulatorKind


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """The first of the group's sorted values, in descending order if the trend is up."""


@dataclass(frozen=True, slots=True)
class PositionalAccess:
    """Access to a few positions of the sorted rows, counted from 0.

    ``positions`` returns the positions, from the second operand and the number of rows (at least one).
    All rows share the second operand; it is None if there is none. ``finish`` takes the first operands at
    these positions, the second operand and the number of rows.
    """

    positions: Callable[[Value, int], list[int]]
    finish: Callable[[list[Value], Value, int], Value]


@dataclass(frozen=True, slots=True)
class Basic:
    """Recomputed over the whole group whenever it changes: O(group).

    ``positions``: positional access for the operands' types, for an aggregate of a few positions.
    """

    positions: Callable[[Types], PositionalAccess] | None = None


@dataclass(frozen=True, slots=True)
class Invertible:
    """Maintained by an algorithm with ``subtract``, on a Python state for each group: O(change)."""


@dataclass(frozen=True, slots=True)
class Part:
    """An aggregate that is a component of another, over operands of exactly its types."""

    function: str
    args: tuple[Scalar, ...]
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Composite:
    """A scalar over other aggregates: ``Column(i)`` of ``result`` is the value of ``parts[i]``.

    ``build`` takes the operands and returns the parts and the result.
    """

    build: Callable[[tuple[Scalar, ...]], tuple[tuple[Part, ...], Scalar]]


Maintenance = Accumulable | Hierarchical | Basic | Invertible | Composite


@dataclass(frozen=True, slots=True)
class Direction:
    """Sort direction of a key of an ORDER BY."""

    descending: bool
    nulls_first: bool


Rows = list[tuple[tuple[Value, ...], int]]
"""Rows of operands with their multiplicities."""


class CallForm(enum.Enum):
    """Syntax of an aggregate call."""

    PLAIN = "f(operands)"
    ORDERED_SET = "f(direct arguments) WITHIN GROUP (ORDER BY value): over (value, direct arguments)"
    HYPOTHETICAL = (
        "f(values) WITHIN GROUP (ORDER BY keys): over (whether a row's keys come before the values, -1, are"
        " equal, 0, or come after them, 1; keys)"
    )


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate. ``accepts`` describes the operands in error messages.

    ``examples`` maps rows of operands, as after VALUES, to an SQL literal of the result.
    """

    name: str
    accepts: str
    doc: str
    examples: Mapping[str, str] = field(hash=False)
    rule: Callable[[Types], Signature | None]
    """Function from operand types to their casts and the result type, or None where it does not apply."""
    algorithm: Callable[[Types], Algorithm]
    """Function from operand types of the rule to the algorithm. It is the reference for the maintenance."""
    maintenance: Maintenance
    empty: int | None = None
    """Value over no rows: a word, or NULL."""
    identity: int | str | None = None
    """Word of the value that adding no rows has, for a language without NULLs; None if there is none."""
    trend: Trend | None = None
    """Direction in which the value moves as rows are added, if it is monotone."""
    idempotent: bool = False
    """Whether repeated rows do not matter, so that DISTINCT does not matter."""
    by_kind: Mapping[Kind, str] = field(default_factory=dict, hash=False)
    """Aggregates that compute this one for values of some kinds. Queries cannot call them by name."""
    exact_by_kind: Mapping[Kind, str] = field(default_factory=dict, hash=False)
    """Aggregates that SQL uses instead for values of some kinds. Their NUMERIC results lose nothing."""
    finish_in_order: Callable[[Types], Callable[[Rows], Value]] | None = None
    """Function from types to the final function over ordered rows, if the order matters.

    Without it, ``algorithm`` takes the rows in ascending order of their operands.
    """
    form: CallForm = CallForm.PLAIN
    uses_tally: bool = False
    """Whether its states are tallies: only the number of each value matters."""
    keeps_nulls: bool = False
    """Whether rows with a NULL operand count. A first operand is then true, or NULL in rows that do not
    count.
    """
    extension: str = ""
    """Name of the extension that defines the aggregate; empty for built-in aggregates."""

    @property
    def is_lattice(self) -> bool:
        """Whether merging is a least upper bound in one direction, so that a recursion may use it."""
        return self.idempotent and self.trend is not None

    @property
    def is_nullary(self) -> bool:
        """Whether it may have no operand, and then aggregates rows."""
        return self.rule(()) is not None

    @property
    def selects_operand(self) -> bool:
        """Whether its value is one of its operands."""
        return isinstance(self.maintenance, Hierarchical)

    @property
    def accumulator(self) -> AccumulatorKind | None:
        """State of a group if it is accumulable, otherwise None."""
        return self.maintenance.accumulator if isinstance(self.maintenance, Accumulable) else None


@dataclass(frozen=True, slots=True)
class AggregateResolution:
    """A resolved aggregate call."""

    function: AggregateFunction
    arg_types: Types
    result_type: Type


_AGGREGATES: dict[str, AggregateFunction] = {}


def register(function: AggregateFunction) -> AggregateFunction:
    """Register an aggregate under its name."""
    assert function.name not in _AGGREGATES or function.extension, function.name
    _AGGREGATES[function.name] = function
    return function


def aggregates(extensions: Container[str] = ()) -> Iterator[AggregateFunction]:
    """Return the built-in aggregates and those of some extensions, ordered by name."""
    autoload.load_all()
    listed = (one for one in _AGGREGATES.values() if not one.extension or one.extension in extensions)
    named = (function for function in listed if not function.name.startswith("$"))
    return iter(sorted(named, key=lambda function: function.name))


def aggregate_names() -> frozenset[str]:
    """Return the names of all aggregates, including those whose modules are not imported yet."""
    known = autoload.aggregate_names().union(_AGGREGATES)
    return frozenset(name for name in known if not name.startswith("$"))


def is_aggregate(name: str) -> bool:
    """Check whether an aggregate has this name."""
    return name in _AGGREGATES or name in autoload.aggregate_names()


def lookup_aggregate(name: str) -> AggregateFunction:
    """Return the aggregate with this name.

    Raises:
        ProgrammingError: There is no such aggregate. The hint has similar names.
    """
    if isinstance(name, UserFunctionName):
        return name.definition
    function = _AGGREGATES.get(name)
    if function is None and autoload.load_aggregate(name):
        function = _AGGREGATES[name]
    if function is None and name[:1] == "$":
        autoload.import_every_module()
        function = _AGGREGATES.get(name)
    if function is None:
        extensions.load_all()
        function = _AGGREGATES.get(name)
    if function is None:
        near = difflib.get_close_matches(name, sorted(aggregate_names()), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else None
        raise ProgrammingError(f"unknown aggregate {name}", hint=hint)
    return function


def specialize(function: AggregateFunction, arg_types: Types) -> AggregateFunction:
    """Return the aggregate that computes an aggregate for values of these types."""
    other = function.by_kind.get(arg_types[0].kind) if arg_types else None
    return function if other is None else lookup_aggregate(other)


def exact_variant(function: AggregateFunction, arg_types: Types) -> AggregateFunction:
    """Return the aggregate that SQL uses for values of these types."""
    other = function.exact_by_kind.get(arg_types[0].kind) if arg_types else None
    return function if other is None else lookup_aggregate(other)


def resolve_aggregate(name: str, arg_types: Types) -> AggregateResolution:
    """Resolve an aggregate call by name and operand types."""
    function = specialize(lookup_aggregate(name), arg_types)
    signature = function.rule(arg_types)
    if signature is None:
        type_list = ", ".join(str(type_) for type_ in arg_types)
        raise ProgrammingError(f"{name} does not take ({type_list})", hint=f"it takes {function.accepts}")
    return AggregateResolution(function, signature.args, signature.result)


def algorithm_of(function: AggregateFunction, types: Types, order: tuple[Direction, ...]) -> Algorithm:
    """Return the algorithm over operands of these types. The last operands are the keys of the ORDER BY."""
    if not order or function.finish_in_order is None:
        return function.algorithm(types)

    return ordered_algorithm(function.finish_in_order(types[: -len(order)]), order)


def compute_aggregate(algorithm: Algorithm, rows: Iterable[tuple[tuple[Value, ...], int]]) -> Value:
    """Return the aggregate of rows (operands, times). Rows with a NULL first operand are ignored."""
    state, add = algorithm.initialize(), algorithm.add
    for operands, times in rows:
        if not operands or operands[0] is not None:
            state = add(state, operands, times)
    return algorithm.finish(state)


Operands = tuple[Value, ...]
BITS = 64


def count_algorithm(types: Types) -> Algorithm:
    """Return the algorithm of the number of rows."""
    return Algorithm(
        initialize=lambda: 0,
        add=lambda state, operands, times: state + times,
        subtract=lambda state, operands, times: state - times,
        merge=lambda left, right: left + right,
        finish=lambda state: _check_range(state, MIN_WORD, MAX_WORD),
    )


def _check_range(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise OverflowError(f"{value} is not from {low} to {high}")
    return value


@dataclass(slots=True)
class Total:
    """The number of operands, the exact sum of the finite ones, and the numbers of NaN, inf and -inf."""

    count: int = 0
    finite: int | Fraction = 0
    nans: int = 0
    positive: int = 0
    negative: int = 0

    def add(self, value: int | float, times: int) -> "Total":
        """Add a value ``times`` times and return self. A negative ``times`` removes it."""
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
        """Add all of another total and return self."""
        self.count += other.count
        self.finite += other.finite
        self.nans += other.nans
        self.positive += other.positive
        self.negative += other.negative
        return self

    def as_float(self, scale: int = 1) -> float:
        """Return the sum of operands in units of 1 / ``scale``, rounded once.

        Raises:
            OverflowError: No double can hold the sum.
        """
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


def sum_algorithm(result: Callable[[Type], Type]) -> Callable[[Types], Algorithm]:
    """Return the algorithm of the sum. ``result`` maps the operand's type to that of the sum."""

    def algorithm(types: Types) -> Algorithm:
        type_ = result(types[0])
        if type_.is_float:
            return _over_totals(Total.as_float)
        low, high = limits(type_)
        return _over_totals(lambda total: _check_range(int(total.finite), low, high))

    return algorithm


@dataclass(slots=True)
class NumericTotal:
    """The number of NUMERICs, the sum of the finite ones, and counts of the others."""

    count: int = 0
    finite: Decimal = Decimal(0)
    non_finite: Counter[str] = field(default_factory=Counter)
    scales: Counter[int] = field(default_factory=Counter)
    """Number of finite values by display scale. The sum has the largest scale that occurs."""

    def add(self, value: Decimal, times: int) -> "NumericTotal":
        """Add a value ``times`` times and return self. A negative ``times`` removes it."""
        self.count += times
        if value.is_finite():
            self.finite = EXACT.add(self.finite, EXACT.multiply(value, Decimal(times)))
            self.scales[display_scale(value)] += times
        else:
            self.non_finite[str(value)] += times
        return self

    def merge(self, other: "NumericTotal") -> "NumericTotal":
        """Add all of another total and return self."""
        self.count += other.count
        self.finite = EXACT.add(self.finite, other.finite)
        self.non_finite.update(other.non_finite)
        self.scales.update(other.scales)
        return self

    def value(self) -> Decimal:
        """Return the sum."""
        present = {name for name, times in self.non_finite.items() if times}
        if len(present) > 1 or "NaN" in present:
            return Decimal("NaN")
        if present:
            return Decimal(present.pop())
        return round_to_scale(
            self.finite, max((scale for scale, times in self.scales.items() if times), default=0)
        )


def numeric_total(state: NumericTotal) -> Value:
    """Return the sum of NUMERICs."""
    return check_range(state.value())


def numeric_mean(state: NumericTotal) -> Value:
    """Return the mean of NUMERICs."""
    return numerics.divide(state.value(), Decimal(state.count))


def interval_algorithm(*, mean: bool) -> Callable[[Types], Algorithm]:
    """Return the algorithm of the sum of INTERVALs, part by part, or of their mean."""

    def add(state: list[int], operands: Operands, times: int) -> list[int]:
        return [total + part * times for total, part in zip(state, (1, *operands[0]), strict=True)]

    def finish(state: list[int]) -> Value:
        count, *parts = state
        if not count:
            return None
        total = intervals.from_fractions(*map(Fraction, parts))
        return intervals.divide(total, count) if mean else total

    algorithm = Algorithm(
        initialize=lambda: [0, 0, 0, 0],
        add=add,
        subtract=lambda state, operands, times: add(state, operands, -times),
        merge=lambda left, right: [a + b for a, b in zip(left, right, strict=True)],
        finish=finish,
    )
    return lambda types: algorithm


def numeric_algorithm(total: type[Any], finish: Callable[[Any], Value]) -> Callable[[Types], Algorithm]:
    """Return the algorithm of a total class such as :class:`NumericTotal` and its final function."""
    algorithm = Algorithm(
        initialize=total,
        add=lambda state, operands, times: state.add(operands[0], times),
        subtract=lambda state, operands, times: state.add(operands[0], -times),
        merge=total.merge,
        finish=lambda state: finish(state) if state.count else None,
    )
    return lambda types: algorithm


def mean_algorithm(types: Types) -> Algorithm:
    """Return the algorithm of the sum as a double, divided by the number of operands."""
    scale = 10 ** types[0].scale if types[0].is_exact else 1

    return _over_totals(lambda total: total.as_float(scale) / total.count)


def sort_rank(value: Value) -> tuple[bool, Value]:
    """Return the sort key of a non-NULL value. NaN is larger than any other number."""
    nan = value != value
    return nan, 0.0 if nan else value


def extreme_algorithm(largest: bool) -> Callable[[Types], Algorithm]:
    """Return the algorithm of the smallest or the largest value."""

    def better(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return right if left is None else left
        return max(left, right, key=sort_rank) if largest else min(left, right, key=sort_rank)

    algorithm = Algorithm(
        initialize=lambda: None,
        add=lambda state, operands, times: better(state, operands[0]),
        merge=better,
        finish=lambda state: state,
    )
    return lambda types: algorithm


def bitwise_algorithm(kind: AccumulatorKind) -> Callable[[Types], Algorithm]:
    """Return the algorithm of the bitwise AND, OR or XOR. It counts operands, and those with each bit."""

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
                is_bit_set = [count == number for count in counts]
            case AccumulatorKind.BIT_OR:
                is_bit_set = [count > 0 for count in counts]
            case _:
                is_bit_set = [count % 2 == 1 for count in counts]
        word = sum(1 << bit for bit, is_set in enumerate(is_bit_set) if is_set)
        return (word - (1 << BITS) if is_bit_set[-1] else word) if number else None

    algorithm = Algorithm(
        initialize=lambda: [0] * (1 + BITS),
        add=add,
        subtract=lambda state, operands, times: add(state, operands, -times),
        merge=merge,
        finish=finish,
    )
    return lambda types: algorithm


RowOperands = tuple[Value, ...]
COMPARABLE: Final = (bool, int, float, str, bytes, Decimal)
InOrder = Callable[[Rows], Value]


def sorted_algorithm(finish: Callable[[Types], InOrder]) -> Callable[[Types], Algorithm]:
    """Return the algorithm over rows in the order of their operands."""
    return lambda types: _rows_algorithm(finish(types), _by_operands)


def ordered_algorithm(finish: InOrder, order: tuple[Direction, ...]) -> Algorithm:
    """Return the algorithm over rows in the order of their last operands, with ties broken by the others."""

    def sort_rows(rows: Rows) -> Rows:
        rows = _by_operands(rows)
        width = len(rows[0][0]) - len(order)
        for place in range(len(order) - 1, -1, -1):
            rows = _sort_by(rows, width + place, order[place])
        return [(operands[:width], times) for operands, times in rows]

    return _rows_algorithm(finish, sort_rows)


def _sort_by(rows: Rows, place: int, direction: Direction) -> Rows:
    """Sort rows by one operand, stably."""
    nulls = [row for row in rows if row[0][place] is None]
    known = [row for row in rows if row[0][place] is not None]
    known.sort(key=lambda row: sort_key(row[0][place]), reverse=direction.descending)
    return nulls + known if direction.nulls_first else known + nulls


def _by_operands(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: tuple((value is None, sort_key(value)) for value in row[0]))


def sort_key(value: Value) -> Value:
    """Return the sort key of a value. Values that Python cannot compare are sorted by their text."""
    if value is None:
        return 0
    return sort_rank(value) if isinstance(value, COMPARABLE) else repr(value)


def _rows_algorithm(finish: InOrder, sort_rows: Callable[[Rows], Rows]) -> Algorithm:
    def add(state: Rows, operands: RowOperands, times: int) -> Rows:
        state.append((operands, times))
        return state

    def merge(left: Rows, right: Rows) -> Rows:
        left += right
        return left

    def finish_rows(state: Rows) -> Value:
        if any(times < 0 for _, times in state):
            net: Counter[RowOperands] = Counter()
            for operands, times in state:
                net[operands] += times
            state = [(operands, times) for operands, times in net.items() if times]
        return finish(sort_rows(state)) if state else None

    return Algorithm(
        initialize=list,
        add=add,
        subtract=lambda state, operands, times: add(state, operands, -times),
        merge=merge,
        finish=finish_rows,
    )


def join_texts(types: Types) -> InOrder:
    """Return the final function of the texts' concatenation, each after the first with its separator.

    A NULL separator is empty.
    """

    nothing: Value = b"" if types[0].kind is Kind.BYTEA else ""

    def finish(rows: Rows) -> Value:
        parts = [part for (text, between), times in rows for part in (between or nothing, text) * times]
        return nothing.join(parts[1:])

    return finish


def finish_at_positions(access_of: Callable[[Types], PositionalAccess]) -> Callable[[Types], InOrder]:
    """Return a final function over ordered rows from positional access."""

    def of_types(types: Types) -> InOrder:
        access = access_of(types)

        def finish(rows: Rows) -> Value:
            ends = list(accumulate(times for _, times in rows))
            direct = rows[0][0][1] if len(types) > 1 else None
            values = [rows[bisect_right(ends, place)][0][0] for place in access.positions(direct, ends[-1])]
            return access.finish(values, direct, ends[-1])

        return finish

    return of_types


def median(types: Types) -> PositionalAccess:
    """Return the access to the middle of ordered doubles, or the mean of the two middle values."""

    def finish(values: list[Value], direct: Value, rows: int) -> Value:
        left, right = values
        return left if left == right else left / 2 + right / 2

    return PositionalAccess(lambda direct, rows: [(rows - 1) // 2, rows // 2], finish)


def continuous_percentile(types: Types) -> PositionalAccess:
    """Return the access to the value at a fraction of the way from the first to the last, interpolated."""
    interpolate = _interpolate_intervals if types[0].kind is Kind.INTERVAL else _interpolate

    def positions(fraction: float, rows: int) -> list[int]:
        place = fraction * (rows - 1)
        return [math.floor(place), math.ceil(place)]

    def finish(values: list[Value], fraction: float, rows: int) -> Value:
        left, right = values
        place = fraction * (rows - 1)
        return left if left == right else interpolate(left, right, place - math.floor(place))

    return _over_fractions(types, PositionalAccess(positions, finish))


def _interpolate(left: float, right: float, share: float) -> float:
    return left + share * (right - left)


def _interpolate_intervals(left: Value, right: Value, share: float) -> Value:

    distance = intervals.from_fractions(*(Fraction(b - a) for a, b in zip(left, right, strict=True)))
    step = intervals.multiply(distance, share)
    return intervals.from_fractions(*(Fraction(a + b) for a, b in zip(left, step, strict=True)))


def discrete_percentile(types: Types) -> PositionalAccess:
    """Return the access to the first value at or after a fraction of all."""
    return _over_fractions(
        types,
        PositionalAccess(
            lambda fraction, rows: [max(math.ceil(fraction * rows), 1) - 1],
            lambda values, fraction, rows: values[0],
        ),
    )


def _over_fractions(types: Types, access: PositionalAccess) -> PositionalAccess:
    """Extend access by one fraction to a second operand that may be an array of fractions, or NULL."""
    is_array = types[1].kind is Kind.ARRAY

    def fractions(direct: Value) -> list[float | None]:
        return list(direct.items) if is_array and direct is not None else [direct]

    def positions(direct: Value, rows: int) -> list[int]:
        result: list[int] = []
        for fraction in fractions(direct):
            if fraction is not None:
                if not 0 <= fraction <= 1:
                    raise ValueError(f"percentile value {fraction:g} is not between 0 and 1")
                result += access.positions(fraction, rows)
        return result

    def finish(values: list[Value], direct: Value, rows: int) -> Value:
        rest, results = iter(values), list[Value]()
        for fraction in fractions(direct):
            known = [] if fraction is None else list(islice(rest, len(access.positions(fraction, rows))))
            results.append(access.finish(known, fraction, rows) if known else None)
        return direct._replace(items=tuple(results)) if is_array and direct is not None else results[0]

    return PositionalAccess(positions, finish)


def most_frequent(types: Types) -> InOrder:
    """Return the final function of the most frequent value. Of several the first wins."""

    def finish(rows: Rows) -> Value:
        counts: dict[Value, int] = {}
        values: dict[Value, Value] = {}
        for operands, times in rows:
            key = sort_key(operands[0])
            counts[key] = counts.get(key, 0) + times
            values.setdefault(key, operands[0])
        return values[max(counts, key=counts.__getitem__)]

    return finish
