"""Late materialisation: which columns of a relation can be fetched by a rowid that is a column of it too."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import width
from kpg.runtime.scalar import Column, Fetch, Scalar
from kpg.runtime.types import ROWID


@dataclass(frozen=True, slots=True)
class Stored:
    """Column ``column`` of the row of ``table`` whose rowid is in column ``rowid`` of the relation."""

    table: str
    column: int
    rowid: int


Sources = dict[int, Stored]


def stored(rel: Rel, bound: Mapping[str, Rel]) -> Sources:
    """The columns whose value always is that of a base table's row, the rowid being a column as well."""
    match rel:
        case algebra.Get(name=name, types=types, is_table=is_table):
            if not is_table:
                return {}
            return {column: Stored(name, column, len(types) - 1) for column in range(len(types) - 1)}
        case algebra.Map(input=source, scalars=scalars):
            columns = (*range(width(source)), *(s.index if isinstance(s, Column) else -1 for s in scalars))
            return _projected(stored(source, bound), columns)
        case algebra.Project(input=source, columns=columns):
            return _projected(stored(source, bound), columns)
        case algebra.Join(inputs=inputs):
            return _joined(inputs, bound)
        case algebra.Filter() | algebra.TopK() | algebra.Distinct() | algebra.Threshold():
            return stored(rel.input, bound)
        case algebra.Negate() | algebra.Single():
            return stored(rel.input, bound)
        case algebra.Reduce(input=source, keys=keys):
            columns = tuple(key.index if isinstance(key, Column) else -1 for key in keys)
            return _projected(stored(source, bound), columns)
        case algebra.Union(inputs=inputs):
            branches = [stored(source, bound) for source in inputs]
            first = branches[0]
            return {c: s for c, s in first.items() if all(other.get(c) == s for other in branches)}
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
    return {
        index: Stored(sources[column].table, sources[column].column, place[sources[column].rowid])
        for index, column in enumerate(columns)
        if column in sources and sources[column].rowid in place
    }


def _joined(inputs: tuple[Rel, ...], bound: Mapping[str, Rel]) -> Sources:
    result: Sources = {}
    start = 0
    for source in inputs:
        for column, origin in stored(source, bound).items():
            result[start + column] = Stored(origin.table, origin.column, start + origin.rowid)
        start += width(source)
    return result


def late_columns(rel: Rel, bound: Mapping[str, Rel]) -> tuple[Scalar, ...]:
    """The relation's columns as scalars over as few of them as possible: rowids, and what has none."""
    sources = stored(rel, bound)
    result: list[Scalar] = []
    for index, type_ in enumerate(algebra.types(rel)):
        origin = sources.get(index)
        if origin is None:
            result.append(Column(index, type_))
        else:
            result.append(Fetch(origin.table, origin.column, Column(origin.rowid, ROWID), type_))
    return tuple(result)
