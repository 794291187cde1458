"""What an aggregate function is: one record that holds every fact about it, and the registry of them.

A caller that has to decide something about an aggregate (may it stand in a recursion? does a repeated row
matter? what is it over no rows? which state maintains it?) reads a field; nobody compares names. The entries
are in ``aggregates``.
"""

import difflib
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import later
from kpg.runtime.functions.named import Named
from kpg.runtime.functions.registry import Signature
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Scalar
from kpg.runtime.types import Kind, Type

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
    later.bring_all()
    named = [function for function in _AGGREGATES.values() if not function.name.startswith("$")]
    return iter(sorted(named, key=lambda function: function.name))


def aggregate_names() -> frozenset[str]:
    """The names of all aggregates, those included that are not defined yet."""
    known = later.aggregate_names().union(_AGGREGATES)
    return frozenset(name for name in known if not name.startswith("$"))


def is_aggregate(name: str) -> bool:
    """Whether a name is that of an aggregate."""
    return name in _AGGREGATES or name in later.aggregate_names()


def aggregate_named(name: str) -> AggregateFunction:
    """The aggregate of a name; ProgrammingError with the nearest names if there is none."""
    if isinstance(name, Named):
        return name.definition
    function = _AGGREGATES.get(name)
    if function is None and later.bring_aggregate(name):
        function = _AGGREGATES[name]
    if function is None and name[:1] == "$":
        later.bring_every_module()
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
    from kpg.runtime.functions.sequences import ordered

    return ordered(function.in_order(types[: -len(order)]), order)


def aggregated(algorithm: Algorithm, rows: Iterable[tuple[tuple[Value, ...], int]]) -> Value:
    """The aggregate of rows (operands, times), those with a NULL first operand left out."""
    state, add = algorithm.initialize(), algorithm.add
    for operands, times in rows:
        if not operands or operands[0] is not None:
            state = add(state, operands, times)
    return algorithm.finish(state)
