"""Simplify unions and differences, and remove empty relations."""

from collections import Counter
from collections.abc import Iterator
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up
from kpg.runtime.scalar import Literal


def cancel_unions(rel: Rel) -> Rel:
    """Flatten nested unions, cancel branches with their negations, and remove empty relations.

    ``Union (Union a b) (Negate a)`` becomes ``b``. A filter that is never true is empty, and so is a
    join with an empty input. A reduce without keys still has its one row.
    """
    return transform_up(rel, _simplify)


def _simplify(node: Rel) -> Rel:
    match node:
        case algebra.Union():
            return _union(node)
        case algebra.Negate(input=algebra.Negate(input=source)):
            return source
        case algebra.Filter(input=source, predicates=predicates):
            empty = _is_empty(source) or any(map(_is_never_true, predicates))
        case algebra.Join(inputs=inputs, on=on):
            empty = any(map(_is_empty, inputs)) or any(map(_is_never_true, on))
        case algebra.Reduce(input=source, keys=keys):
            empty = bool(keys) and _is_empty(source)
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
            empty = _is_empty(source)
        case algebra.Get() | algebra.Constant() | algebra.LocalGet() | algebra.Let() | algebra.LetRec():
            empty = False
        case _:
            assert_never(node)
    return _empty(node) if empty else node


def _is_never_true(predicate: object) -> bool:
    return isinstance(predicate, Literal) and predicate.value in (0, None)


def _is_empty(rel: Rel) -> bool:
    return isinstance(rel, algebra.Constant) and not rel.rows


def _empty(rel: Rel) -> Rel:
    return algebra.Constant((), algebra.types(rel))


def _union(union: algebra.Union) -> Rel:
    total: Counter[Rel] = Counter()
    for sign, part in _signed_branches(union, 1):
        total[part] += sign
    branches: list[Rel] = []
    for part, count in total.items():
        branches += [part] * count if count > 0 else [algebra.Negate(part)] * -count
    if not branches:
        return _empty(union)
    return branches[0] if len(branches) == 1 else algebra.Union(tuple(branches))


def _signed_branches(rel: Rel, sign: int) -> Iterator[tuple[int, Rel]]:
    """Yield the branches of nested unions and negations, with their signs."""
    if isinstance(rel, algebra.Union):
        for source in rel.inputs:
            yield from _signed_branches(source, sign)
    elif isinstance(rel, algebra.Negate):
        yield from _signed_branches(rel.input, -sign)
    elif not _is_empty(rel):
        yield sign, rel
