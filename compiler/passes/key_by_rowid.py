"""Group by a table's rowid in addition to its columns."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, width, with_children
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, remap
from kpg.runtime.types import ROWID

Path = tuple[int, ...]
"""Child index at each node on the way down to a base table."""


def key_by_rowid(rel: Rel) -> Rel:
    """Add a table's rowid to groups and distinct rows whose columns include the table's key.

    The key determines the rowid, and the rowid determines the other columns, so the groups stay the
    same. The planner then keeps only the rowid and fetches the table's other columns. ``GROUP BY
    c_custkey, c_name, c_phone`` needs one word per group (TPC-H Q3, Q4, Q10, Q18, Q21). Inputs of
    joins stay unchanged, because their keys matter for the join.
    """
    return _rewrite(rel, below_join=False)


def _rewrite(rel: Rel, *, below_join: bool) -> Rel:
    selection = isinstance(rel, algebra.Map | algebra.Filter | algebra.Project)
    inside = isinstance(rel, algebra.Join) or (below_join and selection)
    old = children(rel)
    new = tuple(_rewrite(child, below_join=inside) for child in old)
    node = rel if new == old else with_children(rel, new)
    if below_join:
        return node
    if isinstance(node, algebra.Reduce):
        places = [key.index if isinstance(key, Column) else -1 for key in node.keys]
        widened, rowids = _with_rowids(node.input, places)
        added = tuple(Column(place, ROWID) for place in rowids)
        grouped = algebra.Reduce(widened, (*added, *node.keys), node.aggregates)
        return _drop_first_columns(grouped, len(rowids)) if rowids else node
    if isinstance(node, algebra.Distinct):
        every = range(width(node.input))
        widened, rowids = _with_rowids(node.input, every)
        unique = algebra.Distinct(algebra.Project(widened, (*rowids, *every)))
        return _drop_first_columns(unique, len(rowids)) if rowids else node
    return node


def _drop_first_columns(rel: Rel, count: int) -> Rel:
    return algebra.Project(rel, tuple(range(count, width(rel))))


def _with_rowids(source: Rel, places: Sequence[int]) -> tuple[Rel, list[int]]:
    """Append the rowids of tables whose key ``places`` read, and return their columns.

    A rowid must replace at least two of ``places``.
    """
    rowids: list[int] = []
    covered: set[int] = set()
    while True:
        fresh = [place for place in places if place >= 0 and place not in covered]
        found = _find_table_by_key(source, places, fresh)
        if found is None:
            return source, rowids
        path, columns = found
        covered.update(columns.values())
        rowids.append(width(source))
        source = _expose_rowid(source, path)


def _find_table_by_key(
    source: Rel, places: Sequence[int], fresh: Sequence[int]
) -> tuple[Path, dict[int, int]] | None:
    """Return the path of a base table whose key is among ``places``, and its columns with their places.

    At least two of ``places`` must be in ``fresh``. Returns None if there is no such table.
    """
    found: dict[Path, dict[int, int]] = {}
    for place in (place for place in places if place >= 0):
        for path, column in _origins(source, place):
            found.setdefault(path, {}).setdefault(column, place)
    for path, columns in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        get = _table_at(source, path)
        rowid = len(get.types) - 1
        keyed = get.is_table and any(set(key) <= columns.keys() for key in get.keys if rowid not in key)
        gained = sum(1 for place in columns.values() if place in fresh)
        if keyed and gained > 1 and rowid not in columns:
            return path, columns
    return None


def _table_at(rel: Rel, path: Path) -> algebra.Get:
    for step in path:
        rel = children(rel)[step]
    assert isinstance(rel, algebra.Get)
    return rel


def _origins(rel: Rel, column: int) -> Iterator[tuple[Path, int]]:
    """Yield the paths of base tables below with the column that equals ``column`` of the relation."""
    match rel:
        case algebra.Get():
            yield (), column
        case algebra.Filter(input=source):
            yield from _below(0, source, column)
        case algebra.Project(input=source, columns=columns):
            yield from _below(0, source, columns[column])
        case algebra.Map(input=source, scalars=scalars):
            scalar = Column(column, ROWID) if column < width(source) else scalars[column - width(source)]
            if isinstance(scalar, Column):
                yield from _below(0, source, scalar.index)
        case algebra.Join(inputs=inputs, on=on):
            starts = _starts(inputs)
            for member in _equal_columns(column, on):
                step = max(i for i, start in enumerate(starts) if start <= member)
                yield from _below(step, inputs[step], member - starts[step])
        case (
            algebra.Constant()
            | algebra.LocalGet()
            | algebra.Union()
            | algebra.Negate()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.Reduce()
            | algebra.Expand()
            | algebra.TopK()
            | algebra.Window()
            | algebra.Single()
            | algebra.Let()
            | algebra.LetRec()
        ):
            return
        case _:
            assert_never(rel)


def _below(step: int, source: Rel, column: int) -> Iterator[tuple[Path, int]]:
    for path, place in _origins(source, column):
        yield (step, *path), place


def _starts(inputs: Sequence[Rel]) -> list[int]:
    starts = [0]
    for source in inputs[:-1]:
        starts.append(starts[-1] + width(source))
    return starts


def _equal_columns(column: int, on: Sequence[Scalar]) -> list[int]:
    """Return the columns of a join that equal ``column``, which comes first."""
    found = [column]
    for known in found:
        for predicate in on:
            match predicate:
                case Call(function="eq", args=(Column(index=left), Column(index=right))):
                    found += [o for o, k in ((left, right), (right, left)) if k == known and o not in found]
                case Column() | Fetch() | Literal() | If() | Call():
                    pass
                case _:
                    assert_never(predicate)
    return found


def _expose_rowid(rel: Rel, path: Path) -> Rel:
    """Append the rowid of the base table at ``path`` to the relation."""
    size = width(rel)
    match rel:
        case algebra.Filter(input=source, predicates=predicates):
            return algebra.Filter(_expose_rowid(source, path[1:]), predicates)
        case algebra.Project(input=source, columns=columns):
            return algebra.Project(_expose_rowid(source, path[1:]), (*columns, width(source)))
        case algebra.Map(input=source, scalars=scalars):
            inner = width(source)
            mapped = algebra.Map(_expose_rowid(source, path[1:]), scalars)
            return algebra.Project(mapped, (*range(inner), *range(inner + 1, size + 1), inner))
        case algebra.Join(inputs=inputs, on=on):
            step = path[0]
            added = _starts(inputs)[step] + width(inputs[step])
            widened = tuple(
                _expose_rowid(source, path[1:]) if i == step else source for i, source in enumerate(inputs)
            )
            moved = tuple(remap(test, lambda column: column + (column >= added)) for test in on)
            joined = replace(rel, inputs=widened, on=moved)
            return algebra.Project(joined, (*range(added), *range(added + 1, size + 1), added))
        case (
            algebra.Get()
            | algebra.Constant()
            | algebra.LocalGet()
            | algebra.Union()
            | algebra.Negate()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.Reduce()
            | algebra.Expand()
            | algebra.TopK()
            | algebra.Window()
            | algebra.Single()
            | algebra.Let()
            | algebra.LetRec()
        ):
            return algebra.Project(rel, (*range(size), size - 1))
        case _:
            assert_never(rel)
