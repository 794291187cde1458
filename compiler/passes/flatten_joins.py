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
    """Merge a join below a join, with or without a selection between them, into one n-ary join.

    The planner needs no arrangement for the result of the nested join then. A filter above a join
    becomes part of its predicates, and a join of one input becomes a filter. A join with given orders
    stays.
    """
    return transform_up(rel, _flatten)


def _flatten(node: Rel) -> Rel:
    if isinstance(node, algebra.Filter) and isinstance(node.input, algebra.Join):
        join = node.input
        return replace(join, on=conjuncts((*join.on, *node.predicates)))
    if not isinstance(node, algebra.Join) or node.orders:
        return node
    parts = [peel(source) for source in node.inputs]
    nesting = _are_flattenable(node, parts)
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
        on += [_shift(predicate, start) for predicate in own]
        values += [_shift(output, start) for output in selection.outputs]
        start += len(algebra.types(core))
    on += [substitute(predicate, values) for predicate in node.on]
    return build(Selection(algebra.Join(tuple(inputs), conjuncts(on)), (), tuple(values)))


def _are_flattenable(join: algebra.Join, parts: Sequence[Selection]) -> list[bool]:
    """Return for each input whether it is a join that can be merged into the outer one.

    It cannot if the outer join compares a value that can fail for rows that the inner one rejects.
    """
    compared = frozenset[int]().union(*map(columns, join.on))
    result: list[bool] = []
    start = 0
    for part in parts:
        outputs = part.outputs
        fails = any(
            start + place in compared and not is_total(output) for place, output in enumerate(outputs)
        )
        result.append(isinstance(part.core, algebra.Join) and not part.core.orders and not fails)
        start += len(outputs)
    return result


def _shift(scalar: Scalar, start: int) -> Scalar:
    return remap(scalar, lambda column: column + start)
