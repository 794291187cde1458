"""Join the inputs of nested inner joins in one join."""

from dataclasses import replace

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import all_columns, conjuncts, substitute
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.passes._selection import Selection, build, peel
from kpg.runtime.scalar import Scalar, remap


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
    if not any(map(_is_open, parts)):
        if len(node.inputs) == 1:
            return algebra.Filter(node.inputs[0], node.on) if node.on else node.inputs[0]
        return node
    inputs: list[Rel] = []
    on: list[Scalar] = []
    values: list[Scalar] = []
    start = 0
    for part, source in zip(parts, node.inputs, strict=True):
        nested = _is_open(part)
        selection = part if nested else Selection(source, (), all_columns(source))
        core = selection.core
        inputs += core.inputs if isinstance(core, algebra.Join) and nested else (core,)
        own = (*core.on, *selection.predicates) if isinstance(core, algebra.Join) and nested else ()
        on += [_shifted(predicate, start) for predicate in own]
        values += [_shifted(output, start) for output in selection.outputs]
        start += len(algebra.types(core))
    on += [substitute(predicate, values) for predicate in node.on]
    return build(Selection(algebra.Join(tuple(inputs), conjuncts(on)), (), tuple(values)))


def _is_open(part: Selection) -> bool:
    """Whether it is a join that may become part of another."""
    return isinstance(part.core, algebra.Join) and not part.core.orders


def _shifted(scalar: Scalar, start: int) -> Scalar:
    return remap(scalar, lambda column: column + start)
