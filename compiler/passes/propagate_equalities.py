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

COPIED_FUNCTIONS = frozenset({"eq", "in"})


def propagate_equalities(rel: Rel) -> Rel:
    """Add ``b = literal`` to a join with ``a = b`` and ``a = literal``, which filters both inputs.

    Only comparisons with constants are copied, because each copy costs an evaluation and only these
    narrow a lookup. Compared columns that an outer join below pads with NULLs get IS NOT NULL, which
    rejects the padded rows.
    """

    def rewrite(node: Rel) -> Rel:
        if not isinstance(node, algebra.Join):
            return node
        known = [*conjuncts(node.on), *_input_predicates(node.inputs)]
        copies = [
            copy for copy in (*_copy_constant_tests(known), *_not_null_tests(node)) if copy not in known
        ]
        return replace(node, on=(*node.on, *dict.fromkeys(copies))) if copies else node

    return transform_up(rel, rewrite)


def _input_predicates(inputs: Sequence[Rel]) -> Iterator[Scalar]:
    """Yield the predicates of the inputs' filters over the join's columns, if it has all columns read."""
    start = 0
    for source in inputs:
        selection = peel(source)
        visible = {
            output.index: place
            for place, output in enumerate(selection.outputs)
            if isinstance(output, Column)
        }
        for predicate in selection.predicates:
            if columns(predicate) <= visible.keys():
                here = {column: start + place for column, place in visible.items()}
                yield remap(predicate, here.__getitem__)
        start += width(source)


def _not_null_tests(join: algebra.Join) -> Iterator[Scalar]:
    """Yield IS NOT NULL for the compared columns that are always NULL in some branch of an input."""
    compared = {
        column.index: column for class_ in _equivalence_classes(conjuncts(join.on)) for column in class_
    }
    start = 0
    for source in join.inputs if compared else ():
        stop = start + width(source)
        for place in range(start, stop):
            if place in compared and _has_null_branch(source, place - start):
                yield Call("is_not_null", (compared[place],), BOOLEAN)
        start = stop


def _has_null_branch(rel: Rel, column: int) -> bool:
    """Return whether some union branch of the relation has only NULLs in the column."""
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
                return any(_has_null_branch(branch, column) for branch in inputs)
            case algebra.Get() | algebra.Constant() | algebra.LocalGet() | algebra.Let() | algebra.LetRec():
                return False
            case algebra.Join() | algebra.Reduce() | algebra.Distinct() | algebra.Threshold():
                return False
            case algebra.Expand() | algebra.TopK() | algebra.Window() | algebra.Single():
                return False
            case _:
                assert_never(rel)
        rel = rel.input


def _copy_constant_tests(predicates: Sequence[Scalar]) -> Iterator[Scalar]:
    classes = _equivalence_classes(predicates)
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
    if not isinstance(predicate, Call) or predicate.function not in COPIED_FUNCTIONS:
        return False
    literals = [arg for arg in predicate.args if isinstance(arg, Literal)]
    bare = [arg for arg in predicate.args if isinstance(arg, Column)]
    return len(bare) == 1 and len(literals) == len(predicate.args) - 1


def _equivalence_classes(predicates: Sequence[Scalar]) -> list[tuple[Column, ...]]:
    """Return the classes of columns that are equal to each other, in order of appearance."""
    classes: dict[int, list[Column]] = {}
    class_of: dict[Column, int] = {}
    changed: dict[int, int] = {}
    for place, predicate in enumerate(predicates):
        match predicate:
            case Call(function="eq", args=(Column() as left, Column() as right)):
                known = {class_of[column] for column in (left, right) if column in class_of}
                number, *others = sorted(known, key=changed.__getitem__) or [place]
                added = [column for other in others for column in classes.pop(other)]
                added += dict.fromkeys(column for column in (left, right) if column not in class_of)
                class_of.update(dict.fromkeys(added, number))
                classes[number] = classes.pop(number, [])
                classes[number] += added
                changed[number] = place
            case Column() | Fetch() | Literal() | If() | Call():
                pass
            case _:
                assert_never(predicate)
    return [tuple(class_) for class_ in classes.values()]
