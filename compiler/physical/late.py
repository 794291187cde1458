"""Late materialisation: which columns of a relation can be fetched by a rowid that is a column of it too."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import equalities
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import width
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, Scalar
from kpg.runtime.types import ROWID, same_words


@dataclass(frozen=True, slots=True)
class Stored:
    """Column ``column`` of the row of ``table`` whose rowid is in column ``rowid`` of the relation."""

    table: str
    column: int
    rowid: int


Sources = Mapping[int, frozenset[Stored]]
"""For each column, where its value is stored: equal columns of a join have several places."""


@dataclass(slots=True, eq=False)
class Storage:
    """Where the columns of relations are stored, each relation looked at once; ids of lets are unique."""

    lets: Mapping[str, Rel]
    early: bool = False
    """Whether no row is to be had by its rowid but where its table is read."""
    _known: dict[Rel, Sources] = field(default_factory=dict)

    def late_columns(self, rel: Rel) -> tuple[Scalar, ...]:
        """The relation's columns as scalars over as few of them as possible: rowids, and what has none."""
        sources = self.sources(rel)
        result: list[Scalar] = []
        for index, type_ in enumerate(algebra.types(rel)):
            places = sources.get(index)
            if places is None:
                result.append(Column(index, type_))
            else:
                origin = min(places, key=lambda one: (one.rowid, one.column))
                result.append(Fetch(origin.table, origin.column, Column(origin.rowid, ROWID), type_))
        return tuple(result)

    def sources(self, rel: Rel) -> Sources:
        """The columns whose value always is that of a base table's row, the rowid being a column as well."""
        known = self._known.get(rel)
        if known is None:
            known = self._known[rel] = self._sources_of(rel)
        return known

    def _sources_of(self, rel: Rel) -> Sources:
        match rel:
            case algebra.Get(name=name, types=types, is_table=is_table):
                if not is_table or self.early:
                    return {}
                rowid = len(types) - 1
                return {column: frozenset((Stored(name, column, rowid),)) for column in range(rowid)}
            case algebra.Map(input=source, scalars=scalars):
                columns = (*range(width(source)), *map(_column, scalars))
                return _projected(self.sources(source), columns)
            case algebra.Project(input=source, columns=columns):
                return _projected(self.sources(source), columns)
            case algebra.Join(inputs=inputs):
                return _joined(rel, [self.sources(source) for source in inputs])
            case algebra.Filter() | algebra.TopK() | algebra.Distinct() | algebra.Threshold():
                return self.sources(rel.input)
            case algebra.Negate() | algebra.Single() | algebra.Expand() | algebra.Window():
                return self.sources(rel.input)
            case algebra.Reduce(input=source, keys=keys):
                return _projected(self.sources(source), tuple(map(_column, keys)))
            case algebra.Union(inputs=inputs):
                return _common([self.sources(source) for source in inputs])
            case algebra.LocalGet(id=id_):
                return self.sources(self.lets[id_]) if id_ in self.lets else {}
            case algebra.Let(body=body):
                return self.sources(body)
            case algebra.Constant() | algebra.LetRec():
                return {}
            case _:
                assert_never(rel)


def _column(scalar: Scalar) -> int:
    """The column that a scalar is, -1 if it is computed."""
    return scalar.index if isinstance(scalar, Column) else -1


def _projected(sources: Sources, columns: tuple[int, ...]) -> Sources:
    place = {column: index for index, column in reversed(tuple(enumerate(columns)))}
    result: dict[int, frozenset[Stored]] = {}
    for index, column in enumerate(columns):
        visible = frozenset(
            Stored(one.table, one.column, place[one.rowid])
            for one in sources.get(column, ())
            if one.rowid in place
        )
        if visible:
            result[index] = visible
    return result


def _common(branches: Sequence[Sources]) -> Sources:
    """What holds for the rows of every branch."""
    first, *others = branches
    common = {c: first[c].intersection(*(branch.get(c, ()) for branch in others)) for c in first}
    return {column: places for column, places in common.items() if places}


def _joined(join: algebra.Join, inputs: Sequence[Sources]) -> Sources:
    result: dict[int, frozenset[Stored]] = {}
    start = 0
    for source, sources in zip(join.inputs, inputs, strict=True):
        for column, places in sources.items():
            moved = frozenset(Stored(one.table, one.column, start + one.rowid) for one in places)
            result[start + column] = moved
        start += width(source)
    changed = True
    while changed:
        changed = False
        for left, right in equalities(join.on):
            if isinstance(left, Column) and isinstance(right, Column) and same_words(left.type, right.type):
                changed |= _merge(result, left, right)
    return result


def _merge(sources: dict[int, frozenset[Stored]], left: Column, right: Column) -> bool:
    """Gives two equal columns each other's places, unless one is a rowid; whether that is news."""
    if ROWID in (left.type, right.type):
        return False
    both = sources.get(left.index, frozenset()) | sources.get(right.index, frozenset())
    news = any(sources.get(column.index, frozenset()) != both for column in (left, right))
    if both:
        sources[left.index] = sources[right.index] = both
    return news
