"""Push filters towards the leaves of the plan."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import all_columns, conjuncts, substitute
from kpg.compiler.algebra.traverse import transform_down, width
from kpg.compiler.passes.fuse_selections import build, peel
from kpg.runtime.scalar import Scalar, columns, remap


def push_filters(rel: Rel) -> Rel:
    """Push predicates below joins, unions, distincts and lets, and below reduces if over the keys.

    ``Filter [#0 = 1] (Reduce [#2] [...] x)`` becomes ``Reduce [#2] [...] (Filter [#2 = 1] x)``. Below
    a TopK, Window or Single, only predicates over the group columns move, which keep or remove whole
    groups.
    """
    return transform_down(rel, _push)


def _push(node: Rel) -> Rel:
    if isinstance(node, algebra.Join):
        return _push_into_inputs(node)
    moved = _push_below(node.input, conjuncts(node.predicates)) if isinstance(node, algebra.Filter) else None
    return node if moved is None else moved


def _push_into_inputs(join: algebra.Join) -> Rel:
    """Turn each predicate over one input into a filter of that input."""
    rest: list[Scalar] = []
    local: list[list[Scalar]] = [[] for _ in join.inputs]
    owners = [place for place, source in enumerate(join.inputs) for _ in range(width(source))]
    starts = [owners.index(place) if place in owners else 0 for place in range(len(join.inputs))]
    for predicate in conjuncts(join.on):
        read = {owners[column] for column in columns(predicate)}
        if len(read) == 1:
            (place,) = read
            local[place].append(_shift(predicate, -starts[place]))
        else:
            rest.append(predicate)
    if not any(local):
        return join
    inputs = (_filter(source, tests) for source, tests in zip(join.inputs, local, strict=True))
    return replace(join, inputs=tuple(inputs), on=tuple(rest))


def _shift(scalar: Scalar, by: int) -> Scalar:
    return remap(scalar, lambda column: column + by)


def _filter(rel: Rel, predicates: Sequence[Scalar]) -> Rel:
    return build(peel(algebra.Filter(rel, tuple(predicates)))) if predicates else rel


def _push_below(source: Rel, predicates: tuple[Scalar, ...]) -> Rel | None:
    """Return the relation with the filter inside, or None if no predicate can move."""
    match source:
        case algebra.Map() | algebra.Project() | algebra.Filter():
            merged = algebra.Filter(source, predicates)
            rebuilt = build(peel(merged))
            return None if rebuilt == merged else rebuilt
        case algebra.Join(on=on):
            return _push_into_inputs(replace(source, on=conjuncts((*on, *predicates))))
        case algebra.Union(inputs=inputs):
            return algebra.Union(tuple(_filter(part, predicates) for part in inputs))
        case algebra.Negate() | algebra.Distinct() | algebra.Threshold():
            return replace(source, input=_filter(source.input, predicates))
        case algebra.Let(body=body):
            return replace(source, body=_filter(body, predicates))
        case algebra.Reduce(keys=keys):
            return _push_into_groups(source, range(len(keys)), predicates, keys)
        case algebra.Expand(input=inner):
            return _push_into_groups(source, range(width(inner)), predicates, all_columns(source))
        case algebra.TopK(group=group) | algebra.Single(group=group) | algebra.Window(partition=group):
            return _push_into_groups(source, group, predicates, all_columns(source.input))
        case algebra.Get() | algebra.Constant() | algebra.LocalGet() | algebra.LetRec():
            return None
        case _:
            assert_never(source)


def _push_into_groups(
    source: algebra.Reduce | algebra.Expand | algebra.TopK | algebra.Single | algebra.Window,
    group: Sequence[int],
    predicates: tuple[Scalar, ...],
    values: Sequence[Scalar],
) -> Rel | None:
    """Move the predicates over group columns only.

    ``values`` express the columns over the input.
    """
    moving = [p for p in predicates if columns(p) and columns(p) <= set(group)]
    if not moving:
        return None
    staying = tuple(p for p in predicates if p not in moving)
    inner = replace(source, input=_filter(source.input, [substitute(p, values) for p in moving]))
    return algebra.Filter(inner, staying) if staying else inner
