"""Chains of maps, filters and projections as one selection over a core relation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.runtime.scalar import Call, Column, Literal, Scalar, transform, walk

MOST_NODES: Final = 2000
"""A selection is not merged with the one below where that would write out more scalars than this."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The ``outputs`` of those rows of ``core`` that satisfy ``predicates``."""

    core: Rel
    predicates: tuple[Scalar, ...]
    outputs: tuple[Scalar, ...]


def substitute(scalar: Scalar, values: Sequence[Scalar]) -> Scalar:
    """The scalar with column ``i`` replaced by ``values[i]``."""

    def rewrite(node: Scalar) -> Scalar:
        return values[node.index] if isinstance(node, Column) else node

    return transform(scalar, rewrite)


def all_columns(rel: Rel) -> tuple[Column, ...]:
    """The columns of a relation as scalars."""
    return tuple(Column(index, type_) for index, type_ in enumerate(algebra.types(rel)))


def conjuncts(predicates: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """The predicates with every AND taken apart and literal truths left out, in order, each once."""
    result: dict[Scalar, None] = {}
    stack = list(reversed(tuple(predicates)))
    while stack:
        predicate = stack.pop()
        match predicate:
            case Call(function="and", args=args):
                stack.extend(reversed(args))
            case Literal(value=1):
                pass
            case _:
                result.setdefault(predicate)
    return tuple(result)


def written_size(scalars: Iterable[Scalar], values: Sequence[Scalar]) -> int:
    """How many nodes the scalars have once ``values`` are substituted for their columns."""
    sizes = [sum(1 for _ in walk(value)) for value in values]
    return sum(
        sizes[node.index] if isinstance(node, Column) else 1 for scalar in scalars for node in walk(scalar)
    )


def peel(rel: Rel) -> Selection:
    """The relation as a selection over a core that is no selection itself, unless that grew too large."""
    layers: list[algebra.Map | algebra.Filter | algebra.Project] = []
    while isinstance(rel, algebra.Map | algebra.Filter | algebra.Project):
        layers.append(rel)
        rel = rel.input
    result = Selection(rel, (), all_columns(rel))
    for layer in reversed(layers):
        result = _with_layer(result, layer)
    return result


def _with_layer(below: Selection, layer: algebra.Map | algebra.Filter | algebra.Project) -> Selection:
    match layer:
        case algebra.Project(columns=chosen):
            return Selection(below.core, below.predicates, tuple(below.outputs[column] for column in chosen))
        case algebra.Map(scalars=scalars) | algebra.Filter(predicates=scalars):
            if written_size(scalars, below.outputs) > MOST_NODES:
                core = build(below)
                below = Selection(core, (), all_columns(core))
            new = tuple(substitute(scalar, below.outputs) for scalar in scalars)
    if isinstance(layer, algebra.Filter):
        return Selection(below.core, conjuncts((*below.predicates, *new)), below.outputs)
    return Selection(below.core, below.predicates, (*below.outputs, *new))


def build(selection: Selection) -> Rel:
    """The selection as a filter, a map and a projection, each only where it does something."""
    rel = selection.core
    if selection.predicates:
        rel = algebra.Filter(rel, selection.predicates)
    width = len(algebra.types(rel))
    computed = tuple(dict.fromkeys(out for out in selection.outputs if not isinstance(out, Column)))
    if computed:
        rel = algebra.Map(rel, computed)
    chosen = tuple(
        out.index if isinstance(out, Column) else width + computed.index(out) for out in selection.outputs
    )
    if chosen != tuple(range(width + len(computed))):
        rel = algebra.Project(rel, chosen)
    return rel
