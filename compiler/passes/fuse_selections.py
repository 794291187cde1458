"""Fuse adjacent maps, filters and projections.

A *selection* is such a chain over a core relation. :func:`peel` separates the chain from its
core, and :func:`build` rebuilds it.
"""

from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import (
    all_columns,
    conjuncts,
    guard_predicate,
    is_total,
    size_after_substitution,
    substitute,
)
from kpg.compiler.algebra.traverse import transform_up
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, columns

MAX_NODES: Final = 2000
"""Maximum number of scalar nodes that merging a selection with the one below it may produce."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection: ``outputs`` over the rows of ``core`` that satisfy ``predicates``."""

    core: Rel
    predicates: tuple[Scalar, ...]
    outputs: tuple[Scalar, ...]


def peel(rel: Rel) -> Selection:
    """Return the relation as a selection over a core that is not a map, filter or projection.

    If merging exceeds ``MAX_NODES``, the core is the selection below.
    """
    layers: list[algebra.Map | algebra.Filter | algebra.Project] = []
    while isinstance(rel, algebra.Map | algebra.Filter | algebra.Project):
        layers.append(rel)
        rel = rel.input
    plain = all_columns(rel)
    result = Selection(rel, (), plain)
    for layer in reversed(layers):
        result = _with_layer(result, layer, plain)
    return result


def _with_layer(
    below: Selection, layer: algebra.Map | algebra.Filter | algebra.Project, identity: tuple[Scalar, ...]
) -> Selection:
    """Return the selection with one more layer; ``identity`` are the outputs of one that computes nothing."""
    match layer:
        case algebra.Project(columns=chosen):
            return Selection(
                below.core, below.predicates, tuple([below.outputs[column] for column in chosen])
            )
        case algebra.Map(scalars=new) if below.outputs is identity:
            return Selection(below.core, below.predicates, (*identity, *new))
        case algebra.Filter(predicates=new) if below.outputs is identity:
            return Selection(below.core, conjuncts((*below.predicates, *new)), identity)
        case algebra.Map(scalars=scalars) | algebra.Filter(predicates=scalars):
            if size_after_substitution(scalars, below.outputs) > MAX_NODES:
                core = build(below)
                below = Selection(core, (), all_columns(core))
            new = tuple(substitute(scalar, below.outputs) for scalar in scalars)
        case _:
            assert_never(layer)
    if isinstance(layer, algebra.Filter):
        new = tuple(
            _guarded(below, old, substituted) for old, substituted in zip(layer.predicates, new, strict=True)
        )
        return Selection(below.core, conjuncts((*below.predicates, *new)), below.outputs)
    return Selection(below.core, below.predicates, (*below.outputs, *new))


def _guarded(below: Selection, predicate: Scalar, substituted: Scalar) -> Scalar:
    """Return the ``substituted`` predicate, guarded by the core join's tests if it may fail.

    ``predicate`` is over the selection's outputs, ``substituted`` over its core.
    """
    core = below.core
    computed = (below.outputs[column] for column in columns(predicate))
    if not isinstance(core, algebra.Join) or all(map(is_total, computed)):
        return substituted
    owners = [place for place, source in enumerate(core.inputs) for _ in algebra.types(source)]
    tests = (*core.on, *below.predicates)
    return guard_predicate(
        substituted, tests, lambda scalar: frozenset(owners[column] for column in columns(scalar))
    )


def build(selection: Selection) -> Rel:
    """Return the selection as a filter, a map and a projection, without those that do nothing."""
    rel = selection.core
    if selection.predicates:
        rel = algebra.Filter(rel, selection.predicates)
    width = len(algebra.types(rel))
    computed = dict.fromkeys([out for out in selection.outputs if not isinstance(out, Column)])
    if computed:
        rel = algebra.Map(rel, tuple(computed))
    places = {out: width + place for place, out in enumerate(computed)}
    chosen = tuple([out.index if isinstance(out, Column) else places[out] for out in selection.outputs])
    if chosen != tuple(range(width + len(computed))):
        rel = algebra.Project(rel, chosen)
    return rel


def fuse_selections(rel: Rel) -> Rel:
    """Merge each chain into at most one filter, one map and one projection, in that order.

    Filters move below maps, whose scalars are substituted for their columns. Conjunctions are split.
    """

    def rewrite(node: Rel) -> Rel:
        if isinstance(node, algebra.Map | algebra.Filter | algebra.Project):
            return build(peel(node))
        return node

    return transform_up(rel, rewrite)
