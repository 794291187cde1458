"""Which columns of a relation are given: adornments, and the names of the relations made for them."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from kpg.compiler.rules.core import Column, Kind, Relation
from kpg.runtime.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Adorned:
    """A relation asked with values for the ``bound`` columns; its tuples are those that were asked for.

    A relation asked with no value is there as a whole, under its own name.
    """

    relation: str
    bound: tuple[bool, ...]
    variant: str = ""
    """Tells apart relations of the same tuples that are computed in different ways."""

    @property
    def pattern(self) -> str:
        return "".join("b" if one else "f" for one in self.bound)

    @property
    def name(self) -> str:
        """The name of the relation of demanded tuples."""
        return f"{self.relation}[{self.pattern}]{self.variant}"

    def made(self, what: str) -> str:
        """The name of a relation that serves this one: ``demand tc[bf]``."""
        return f"{what} {self.name}"

    def given(self, items: Sequence[T]) -> tuple[T, ...]:
        """Those of the columns' items that are at bound columns."""
        return tuple(item for item, one in zip(items, self.bound, strict=True) if one)

    def open(self, items: Sequence[T]) -> tuple[T, ...]:
        """Those at free columns."""
        return tuple(item for item, one in zip(items, self.bound, strict=True) if not one)

    def merged(self, given: Iterable[T], free: Iterable[T]) -> tuple[T, ...]:
        """Items for all columns from those for bound and for free ones."""
        some, others = iter(given), iter(free)
        return tuple(next(some) if one else next(others) for one in self.bound)

    def covers(self, other: "Adorned") -> bool:
        """Whether what is asked by ``other``, with the same columns given or more, is asked by this too."""
        same = self.relation == other.relation and self.bound != other.bound
        return same and all(wide or not one for one, wide in zip(self.bound, other.bound, strict=True))


def derived(name: str, columns: Sequence[Column], relation: Relation | None = None) -> Relation:
    """A relation of the rewritten program, with the aggregates of the one that it is a part of."""
    plain = tuple(Column(f"c{i}", column.type, column.type.type) for i, column in enumerate(columns))
    aggregates = relation.aggregates if relation is not None else ()
    return Relation(name, plain, Kind.DERIVED, None, aggregates)
