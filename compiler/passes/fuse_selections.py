"""Fuse adjacent maps, filters and projections.

A *selection* is such a chain over a core relation: :func:`peel` takes it apart and :func:`build` makes it.
"""

from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import after, all_columns, conjuncts, is_total, substitute, written_size
from kpg.compiler.algebra.traverse import transform_up
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, columns

MOST_NODES: Final = 2000
"""A selection is not merged with the one below where that would write out more scalars than this."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The ``outputs`` of those rows of ``core`` that satisfy ``predicates``."""

    core: Rel
    predicates: tuple[Scalar, ...]
    outputs: tuple[Scalar, ...]


def peel(rel: Rel) -> Selection:
    """The relation as a selection over a core that is no selection itself, unless that grew too large."""
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
    below: Selection, layer: algebra.Map | algebra.Filter | algebra.Project, plain: tuple[Scalar, ...]
) -> Selection:
    """A selection with a layer above it; ``plain`` are the outputs of one that computes nothing."""
    match layer:
        case algebra.Project(columns=chosen):
            return Selection(below.core, below.predicates, tuple(below.outputs[column] for column in chosen))
        case algebra.Map(scalars=new) if below.outputs is plain:
            return Selection(below.core, below.predicates, (*plain, *new))
        case algebra.Filter(predicates=new) if below.outputs is plain:
            return Selection(below.core, conjuncts((*below.predicates, *new)), plain)
        case algebra.Map(scalars=scalars) | algebra.Filter(predicates=scalars):
            if written_size(scalars, below.outputs) > MOST_NODES:
                core = build(below)
                below = Selection(core, (), all_columns(core))
            new = tuple(substitute(scalar, below.outputs) for scalar in scalars)
        case _:
            assert_never(layer)
    if isinstance(layer, algebra.Filter):
        new = tuple(_in_turn(below, old, one) for old, one in zip(layer.predicates, new, strict=True))
        return Selection(below.core, conjuncts((*below.predicates, *new)), below.outputs)
    return Selection(below.core, below.predicates, (*below.outputs, *new))


def _in_turn(below: Selection, predicate: Scalar, written: Scalar) -> Scalar:
    """A predicate over the selection's outputs, ``written`` over its core: after the core's own tests."""
    core = below.core
    computed = (below.outputs[column] for column in columns(predicate))
    if not isinstance(core, algebra.Join) or all(map(is_total, computed)):
        return written
    owners = [place for place, source in enumerate(core.inputs) for _ in algebra.types(source)]
    tests = (*core.on, *below.predicates)
    return after(written, tests, lambda scalar: frozenset(owners[column] for column in columns(scalar)))


def build(selection: Selection) -> Rel:
    """The selection as a filter, a map and a projection, each only where it does something."""
    rel = selection.core
    if selection.predicates:
        rel = algebra.Filter(rel, selection.predicates)
    width = len(algebra.types(rel))
    computed = dict.fromkeys(out for out in selection.outputs if not isinstance(out, Column))
    if computed:
        rel = algebra.Map(rel, tuple(computed))
    places = {out: width + place for place, out in enumerate(computed)}
    chosen = tuple(out.index if isinstance(out, Column) else places[out] for out in selection.outputs)
    if chosen != tuple(range(width + len(computed))):
        rel = algebra.Project(rel, chosen)
    return rel


def fuse_selections(rel: Rel) -> Rel:
    """A chain becomes one filter, one map and one projection, in that order, without idle ones.

    Filters go below maps, whose scalars take the place of their columns; conjunctions are taken apart.
    """

    def rewrite(node: Rel) -> Rel:
        if isinstance(node, algebra.Map | algebra.Filter | algebra.Project):
            return build(peel(node))
        return node

    return transform_up(rel, rewrite)
