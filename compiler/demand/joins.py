"""What a join gives of the columns of one of its inputs: the values that another has."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import add
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.failing import is_total
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import width
from kpg.compiler.passes._selection import Selection, build
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, remap
from kpg.runtime.scalar import columns as columns_of


@dataclass(frozen=True, slots=True)
class Link:
    """Columns of an input that are equal to scalars over another, ``source``, which never fail."""

    source: int
    columns: tuple[int, ...]
    given: tuple[Scalar, ...]


def links(join: algebra.Join, place: int) -> Iterator[Link]:
    """How the join's other inputs give values for columns of the one at ``place``."""
    owners = [at for at, source in enumerate(join.inputs) for _ in range(width(source))]
    starts = {at: owners.index(at) for at in set(owners)}
    found: dict[int, dict[int, Scalar]] = {}
    for column, scalar in _equal(join.on):
        sources = {owners[one] for one in columns_of(scalar)}
        if owners[column.index] != place or len(sources) != 1 or place in sources:
            continue
        (source,) = sources
        own = remap(scalar, partial(add, -starts[source]))
        found.setdefault(source, {}).setdefault(column.index - starts[place], own)
    for source, pairs in found.items():
        yield Link(source, tuple(pairs), tuple(pairs.values()))


def _equal(on: Sequence[Scalar]) -> Iterator[tuple[Column, Scalar]]:
    """The columns that are equal to scalars of their type, both ways."""
    for predicate in on:
        match predicate:
            case Call(function="eq", args=(left, right)) if left.type == right.type:
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, Column) and is_total(other):
                        yield one, other
            case Column() | Fetch() | Literal() | If() | Call():
                pass
            case _:
                assert_never(predicate)


def values(rel: Rel, given: Sequence[Scalar]) -> Rel:
    """The values that scalars over a relation have, each combination once."""
    return algebra.Distinct(build(Selection(rel, (), tuple(given))))
