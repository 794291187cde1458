"""Copy predicates across equalities: what holds for a column holds for each column that equals it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import conjuncts
from kpg.compiler.algebra.traverse import transform_up, width
from kpg.compiler.passes.fuse_selections import peel
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns, remap
from kpg.runtime.types import BOOLEAN

TRANSFERRED = frozenset({"eq", "in"})


def propagate_equalities(rel: Rel) -> Rel:
    """Joins get ``b = literal`` where ``a = b`` and ``a = literal``, so that both inputs are filtered early.

    Only equalities with constants are copied: each copy is evaluated, and these are what narrows a lookup.
    A compared column that an outer join below pads is not NULL: what is padded there goes.
    """

    def rewrite(node: Rel) -> Rel:
        if not isinstance(node, algebra.Join):
            return node
        known = [*conjuncts(node.on), *_local(node.inputs)]
        copies = [copy for copy in (*_copies(known), *_unpadded(node)) if copy not in known]
        return replace(node, on=(*node.on, *dict.fromkeys(copies))) if copies else node

    return transform_up(rel, rewrite)


def _local(inputs: Sequence[Rel]) -> Iterator[Scalar]:
    """The predicates of the inputs' own filters, over the join's columns, where these show all they read."""
    start = 0
    for source in inputs:
        selection = peel(source)
        shown = {
            output.index: place
            for place, output in enumerate(selection.outputs)
            if isinstance(output, Column)
        }
        for predicate in selection.predicates:
            if columns(predicate) <= shown.keys():
                here = {column: start + place for column, place in shown.items()}
                yield remap(predicate, here.__getitem__)
        start += width(source)


def _unpadded(join: algebra.Join) -> Iterator[Scalar]:
    """IS NOT NULL of the compared columns that are but NULL in some branch of an input."""
    compared = {column.index: column for one in _classes(conjuncts(join.on)) for column in one}
    start = 0
    for source in join.inputs if compared else ():
        stop = start + width(source)
        for place in range(start, stop):
            if place in compared and _is_padded(source, place - start):
                yield Call("is_not_null", (compared[place],), BOOLEAN)
        start = stop


def _is_padded(rel: Rel, column: int) -> bool:
    """Whether a branch of unions that the relation is made of has NULL for the column in all its rows."""
    while True:
        match rel:
            case algebra.Filter() | algebra.Negate():
                pass
            case algebra.Project(columns=chosen):
                column = chosen[column]
            case algebra.Map(input=source, scalars=scalars) if column >= (own := width(source)):
                value = scalars[column - own]
                if not isinstance(value, Column):
                    return isinstance(value, Literal) and value.value is None
                column = value.index
            case algebra.Map():
                pass
            case algebra.Union(inputs=inputs):
                return any(_is_padded(branch, column) for branch in inputs)
            case algebra.Get() | algebra.Constant() | algebra.LocalGet() | algebra.Let() | algebra.LetRec():
                return False
            case algebra.Join() | algebra.Reduce() | algebra.Distinct() | algebra.Threshold():
                return False
            case algebra.Expand() | algebra.TopK() | algebra.Window() | algebra.Single():
                return False
            case _:
                assert_never(rel)
        rel = rel.input


def _copies(predicates: Sequence[Scalar]) -> Iterator[Scalar]:
    classes = _classes(predicates)
    for predicate in predicates:
        if not _is_constant_test(predicate):
            continue
        (column,) = columns(predicate)
        for members in classes:
            if column not in {member.index for member in members}:
                continue
            own = next(member for member in members if member.index == column)
            for member in members:
                if member.index != column and member.type == own.type:
                    yield remap(predicate, lambda _, to=member.index: to)  # type: ignore[misc]


def _is_constant_test(predicate: Scalar) -> bool:
    if not isinstance(predicate, Call) or predicate.function not in TRANSFERRED:
        return False
    literals = [arg for arg in predicate.args if isinstance(arg, Literal)]
    bare = [arg for arg in predicate.args if isinstance(arg, Column)]
    return len(bare) == 1 and len(literals) == len(predicate.args) - 1


def _classes(predicates: Sequence[Scalar]) -> list[tuple[Column, ...]]:
    """Columns equal to each other, in order of appearance."""
    classes: list[tuple[Column, ...]] = []
    for predicate in predicates:
        match predicate:
            case Call(function="eq", args=(Column() as left, Column() as right)):
                touched = [one for one in classes if left in one or right in one]
                classes = [one for one in classes if one not in touched]
                classes.append(tuple(dict.fromkeys((*(c for one in touched for c in one), left, right))))
            case Column() | Fetch() | Literal() | If() | Call():
                pass
            case _:
                assert_never(predicate)
    return classes
