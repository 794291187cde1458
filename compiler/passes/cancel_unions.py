"""Simplify unions and differences, and remove empty relations."""

from collections import Counter
from collections.abc import Iterator
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up
from kpg.runtime.scalar import Literal


def cancel_unions(rel: Rel) -> Rel:
    """Nested unions become one; a branch and its negation cancel; relations without rows go away.

    ``Union (Union a b) (Negate a)`` becomes ``b``. A filter that is never true has no rows, and neither
    has a join with such an input; a reduce without keys has its one row nevertheless.
    """
    return transform_up(rel, _simplified)


def _simplified(node: Rel) -> Rel:
    match node:
        case algebra.Union():
            return _union(node)
        case algebra.Negate(input=algebra.Negate(input=source)):
            return source
        case algebra.Filter(input=source, predicates=predicates):
            empty = _is_nothing(source) or any(map(_is_never, predicates))
        case algebra.Join(inputs=inputs, on=on):
            empty = any(map(_is_nothing, inputs)) or any(map(_is_never, on))
        case algebra.Reduce(input=source, keys=keys):
            empty = bool(keys) and _is_nothing(source)
        case (
            algebra.Map(input=source)
            | algebra.Project(input=source)
            | algebra.Expand(input=source)
            | algebra.TopK(input=source)
            | algebra.Window(input=source)
            | algebra.Distinct(input=source)
            | algebra.Threshold(input=source)
            | algebra.Negate(input=source)
            | algebra.Single(input=source)
        ):
            empty = _is_nothing(source)
        case algebra.Get() | algebra.Constant() | algebra.LocalGet() | algebra.Let() | algebra.LetRec():
            empty = False
        case _:
            assert_never(node)
    return _nothing(node) if empty else node


def _is_never(predicate: object) -> bool:
    return isinstance(predicate, Literal) and predicate.value in (0, None)


def _is_nothing(rel: Rel) -> bool:
    return isinstance(rel, algebra.Constant) and not rel.rows


def _nothing(rel: Rel) -> Rel:
    return algebra.Constant((), algebra.types(rel))


def _union(union: algebra.Union) -> Rel:
    total: Counter[Rel] = Counter()
    for sign, part in _parts(union, 1):
        total[part] += sign
    branches: list[Rel] = []
    for part, count in total.items():
        branches += [part] * count if count > 0 else [algebra.Negate(part)] * -count
    if not branches:
        return _nothing(union)
    return branches[0] if len(branches) == 1 else algebra.Union(tuple(branches))


def _parts(rel: Rel, sign: int) -> Iterator[tuple[int, Rel]]:
    """The branches of nested unions and negations, with their signs."""
    if isinstance(rel, algebra.Union):
        for source in rel.inputs:
            yield from _parts(source, sign)
    elif isinstance(rel, algebra.Negate):
        yield from _parts(rel.input, -sign)
    elif not _is_nothing(rel):
        yield sign, rel
