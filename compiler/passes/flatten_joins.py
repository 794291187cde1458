"""Flatten nested inner joins into one n-ary join."""

from collections.abc import Sequence
from dataclasses import replace

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import all_columns, conjuncts, is_total, substitute
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.passes.fuse_selections import Selection, build, peel
from kpg.runtime.scalar import Scalar, columns, remap


def flatten_joins(rel: Rel) -> Rel:
    """A join below a join, with or without a selection between, gives its inputs and predicates to it.

    One n-ary join can be planned without arranging what the nested one gives. A filter above a join
    joins its predicates, and a join of one input is a filter. A join whose orders are given stays apart.
    """
    return transform_up(rel, _flattened)


def _flattened(node: Rel) -> Rel:
    if isinstance(node, algebra.Filter) and isinstance(node.input, algebra.Join):
        join = node.input
        return replace(join, on=conjuncts((*join.on, *node.predicates)))
    if not isinstance(node, algebra.Join) or node.orders:
        return node
    parts = [peel(source) for source in node.inputs]
    nesting = _nesting(node, parts)
    if not any(nesting):
        if len(node.inputs) == 1:
            return algebra.Filter(node.inputs[0], node.on) if node.on else node.inputs[0]
        return node
    inputs: list[Rel] = []
    on: list[Scalar] = []
    values: list[Scalar] = []
    start = 0
    for part, source, nested in zip(parts, node.inputs, nesting, strict=True):
        selection = part if nested else Selection(source, (), all_columns(source))
        core = selection.core
        inputs += core.inputs if isinstance(core, algebra.Join) and nested else (core,)
        own = (*core.on, *selection.predicates) if isinstance(core, algebra.Join) and nested else ()
        on += [_shifted(predicate, start) for predicate in own]
        values += [_shifted(output, start) for output in selection.outputs]
        start += len(algebra.types(core))
    on += [substitute(predicate, values) for predicate in node.on]
    return build(Selection(algebra.Join(tuple(inputs), conjuncts(on)), (), tuple(values)))


def _nesting(join: algebra.Join, parts: Sequence[Selection]) -> list[bool]:
    """For each input of a join, whether it is a join that may become part of it.

    It may not if the outer one compares what may fail in rows that the inner one does not have.
    """
    compared = frozenset[int]().union(*map(columns, join.on))
    result: list[bool] = []
    start = 0
    for part in parts:
        shown = part.outputs
        fails = any(start + place in compared and not is_total(one) for place, one in enumerate(shown))
        result.append(isinstance(part.core, algebra.Join) and not part.core.orders and not fails)
        start += len(shown)
    return result


def _shifted(scalar: Scalar, start: int) -> Scalar:
    return remap(scalar, lambda column: column + start)
