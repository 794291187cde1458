"""Late materialisation: which columns of a relation can be fetched by a rowid that is a column of it too."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import equalities
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import width
from kpg.compiler.physical.mfp import same_words
from kpg.runtime.scalar import Column, Fetch, Scalar
from kpg.runtime.types import ROWID


@dataclass(frozen=True, slots=True)
class Stored:
    """Column ``column`` of the row of ``table`` whose rowid is in column ``rowid`` of the relation."""

    table: str
    column: int
    rowid: int


Sources = dict[int, frozenset[Stored]]
"""For each column, where its value is stored: equal columns of a join have several places."""


def stored(rel: Rel, bound: Mapping[str, Rel]) -> Sources:
    """The columns whose value always is that of a base table's row, the rowid being a column as well."""
    match rel:
        case algebra.Get(name=name, types=types, is_table=is_table):
            if not is_table:
                return {}
            rowid = len(types) - 1
            return {column: frozenset((Stored(name, column, rowid),)) for column in range(rowid)}
        case algebra.Map(input=source, scalars=scalars):
            columns = (*range(width(source)), *(s.index if isinstance(s, Column) else -1 for s in scalars))
            return _projected(stored(source, bound), columns)
        case algebra.Project(input=source, columns=columns):
            return _projected(stored(source, bound), columns)
        case algebra.Join():
            return _joined(rel, bound)
        case algebra.Filter() | algebra.TopK() | algebra.Distinct() | algebra.Threshold():
            return stored(rel.input, bound)
        case algebra.Negate() | algebra.Single():
            return stored(rel.input, bound)
        case algebra.Reduce(input=source, keys=keys):
            columns = tuple(key.index if isinstance(key, Column) else -1 for key in keys)
            return _projected(stored(source, bound), columns)
        case algebra.Union(inputs=inputs):
            branches = [stored(source, bound) for source in inputs]
            common = {c: branches[0][c].intersection(*(b.get(c, ()) for b in branches)) for c in branches[0]}
            return {column: places for column, places in common.items() if places}
        case algebra.LocalGet(id=id_):
            return stored(bound[id_], bound) if id_ in bound else {}
        case algebra.Let(id=id_, value=value, body=body):
            return stored(body, {**bound, id_: value})
        case algebra.Constant() | algebra.LetRec():
            return {}
        case _:
            assert_never(rel)


def _projected(sources: Sources, columns: tuple[int, ...]) -> Sources:
    place = {column: index for index, column in reversed(tuple(enumerate(columns)))}
    result: Sources = {}
    for index, column in enumerate(columns):
        visible = frozenset(
            Stored(one.table, one.column, place[one.rowid])
            for one in sources.get(column, ())
            if one.rowid in place
        )
        if visible:
            result[index] = visible
    return result


def _joined(join: algebra.Join, bound: Mapping[str, Rel]) -> Sources:
    result: Sources = {}
    start = 0
    for source in join.inputs:
        for column, places in stored(source, bound).items():
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


def _merge(sources: Sources, left: Column, right: Column) -> bool:
    """Gives two equal columns each other's places, unless one is a rowid; whether that is news."""
    if ROWID in (left.type, right.type):
        return False
    both = sources.get(left.index, frozenset()) | sources.get(right.index, frozenset())
    news = any(sources.get(column.index, frozenset()) != both for column in (left, right))
    if both:
        sources[left.index] = sources[right.index] = both
    return news


def late_columns(rel: Rel, bound: Mapping[str, Rel]) -> tuple[Scalar, ...]:
    """The relation's columns as scalars over as few of them as possible: rowids, and what has none."""
    sources = stored(rel, bound)
    result: list[Scalar] = []
    for index, type_ in enumerate(algebra.types(rel)):
        places = sources.get(index)
        if places is None:
            result.append(Column(index, type_))
        else:
            origin = min(places, key=lambda one: (one.rowid, one.column))
            result.append(Fetch(origin.table, origin.column, Column(origin.rowid, ROWID), type_))
    return tuple(result)
