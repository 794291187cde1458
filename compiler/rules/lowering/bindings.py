"""Bindings of a rule's variables as rows of a relation, and what can be done with them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.rel import types as types_of
from kpg.compiler.rules import core
from kpg.runtime.errors import InternalError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN


@dataclass(frozen=True, slots=True)
class Bindings:
    """Rows with a column for each variable, and perhaps others; rows may repeat."""

    rel: Rel
    places: Mapping[str, int]

    def column(self, name: str) -> Column:
        """The column of a variable."""
        place = self.places[name]
        return Column(place, types_of(self.rel)[place])

    def narrowed(self, names: Iterable[str]) -> "Bindings":
        """The columns of these variables only, in that order; without any, one column of zeros."""
        chosen = tuple(names)
        if not chosen:
            width = len(types_of(self.rel))
            return Bindings(algebra.Project(algebra.Map(self.rel, (ZERO,)), (width,)), {})
        columns = tuple(self.places[name] for name in chosen)
        return Bindings(algebra.Project(self.rel, columns), {name: i for i, name in enumerate(chosen)})

    def distinct(self, names: Iterable[str]) -> "Bindings":
        """Each binding of these variables once."""
        narrow = self.narrowed(names)
        return Bindings(algebra.Distinct(narrow.rel), narrow.places)

    def extended(self, values: Sequence[tuple[str, Scalar]]) -> "Bindings":
        """With a column more for each of these variables."""
        width = len(types_of(self.rel))
        places = {**self.places, **{name: width + i for i, (name, _) in enumerate(values)}}
        return Bindings(algebra.Map(self.rel, tuple(scalar for _, scalar in values)), places)

    def scalar(self, expression: core.Expression) -> Scalar:
        """An expression over the variables as a scalar over the columns."""
        match expression:
            case core.Variable(name=name):
                return self.column(name)
            case core.Constant(value=value, type=type_):
                return Literal(value, type_)
            case core.Call(function=function, args=args, type=type_):
                return Call(function, tuple(self.scalar(arg) for arg in args), type_)
            case core.Parameter(name=name):
                raise InternalError(f"parameter ${name} has no value in a rule")
            case _:
                assert_never(expression)

    def test(self, comparison: core.Comparison) -> Scalar:
        """A comparison of bound values as a predicate."""
        sides = (self.scalar(comparison.left), self.scalar(comparison.right))
        if comparison.negated and comparison.function in OPPOSITES:
            return Call(OPPOSITES[comparison.function], sides, BOOLEAN)
        call = Call(comparison.function, sides, BOOLEAN)
        return Call("not", (call,), BOOLEAN) if comparison.negated else call


ZERO = Literal(0, BIGINT)
UNIT = Bindings(algebra.Constant(((0,),), (BIGINT,)), {})
"""The one binding of no variables."""
OPPOSITES = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@dataclass(slots=True)
class Names:
    """Fresh names for lets."""

    numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        return f"rows {next(self.numbers)}"


def equal(left: Scalar, right: Scalar) -> Scalar:
    """Whether two columns of one type are equal."""
    return Call("eq", (left, right), BOOLEAN)


def joined(
    parts: Sequence[Bindings],
    tests: Sequence[core.Comparison] = (),
    orders: tuple[tuple[int, ...], ...] = (),
) -> Bindings:
    """Bindings that agree in the variables they share and satisfy the tests; rows multiply.

    ``orders`` as in a join.
    """
    if len(parts) == 1:
        only = parts[0]
        return (
            only
            if not tests
            else Bindings(algebra.Filter(only.rel, tuple(only.test(test) for test in tests)), only.places)
        )
    places: dict[str, int] = {}
    same: list[Scalar] = []
    start = 0
    for part in parts:
        types = types_of(part.rel)
        for name, place in part.places.items():
            column = Column(start + place, types[place])
            if name in places:
                same.append(equal(Column(places[name], column.type), column))
            else:
                places[name] = column.index
        start += len(types)
    bare = algebra.Join(tuple(part.rel for part in parts), tuple(same))
    over = Bindings(bare, places)
    on = (*same, *(over.test(test) for test in tests))
    return Bindings(algebra.Join(bare.inputs, on, orders), places)


def without(names: Names, rows: Bindings, excluded: Bindings) -> Bindings:
    """The rows that agree with no row of ``excluded``, a set, in the variables of that."""
    narrow = rows.narrowed(rows.places)
    types = types_of(narrow.rel)
    id_ = names.fresh()
    get = Bindings(algebra.LocalGet(id_, types), narrow.places)
    both = joined([get, excluded])
    matched = algebra.Negate(algebra.Project(both.rel, tuple(range(len(types)))))
    rel = algebra.Let(id_, narrow.rel, algebra.Union((get.rel, matched)))
    return Bindings(rel, narrow.places)
