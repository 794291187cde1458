"""Compute the bound of a NUMERIC comparison in the join input that has the NUMERIC, below the join."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, width
from kpg.compiler.passes.fuse_selections import peel
from kpg.runtime.functions.comparison import ROUNDING_FUNCTIONS
from kpg.runtime.functions.registry import is_expensive
from kpg.runtime.scalar import Call, Column, Scalar, children, columns, remap, walk, with_children


def bound_inputs(rel: Rel) -> Rel:
    """Replace ``price < $above(mean)`` in a join by a comparison with a column of the mean's input.

    The bound is a word of few digits, and the mean is a string. The input therefore keeps words,
    which change less often, and nothing is computed per pair of rows. A mean without other readers
    never becomes a string.
    """
    return transform_up(rel, _compute_bounds)


def _compute_bounds(node: Rel) -> Rel:
    if not isinstance(node, algebra.Join):
        return node
    calls = list(dict.fromkeys(part for predicate in node.on for part in walk(predicate) if _is_bound(part)))
    inputs: list[Rel] = []
    kept: list[int] = []
    values: dict[Scalar, Scalar] = {}
    start = end = 0
    for source in node.inputs:
        types = algebra.types(source)
        own_calls = list(_bounds_of(source, start, calls))
        kept += range(end, end + len(types))
        values |= {
            Column(start + place, type_): Column(end + place, type_) for place, type_ in enumerate(types)
        }
        values |= {call: Column(end + len(types) + place, call.type) for place, call in enumerate(own_calls)}
        below = tuple(remap(call, lambda column, by=start: column - by) for call in own_calls)  # type: ignore[misc]
        inputs.append(algebra.Map(source, below) if below else source)
        start, end = start + len(types), end + len(types) + len(own_calls)
    if end == start:
        return node
    on = tuple(_replace(predicate, values) for predicate in node.on)
    return algebra.Project(replace(node, inputs=tuple(inputs), on=on), tuple(kept))


def _is_bound(scalar: Scalar) -> bool:
    return isinstance(scalar, Call) and scalar.function in ROUNDING_FUNCTIONS.values()


def _bounds_of(source: Rel, start: int, calls: Sequence[Scalar]) -> Iterator[Call]:
    """Yield the bounds of values that Python computes in ``source``, whose first column is ``start``."""
    outputs = peel(source).outputs
    for call in calls:
        read = [column - start for column in columns(call)]
        is_local = read and all(0 <= column < width(source) for column in read)
        if isinstance(call, Call) and is_local and any(is_expensive(outputs[column]) for column in read):
            yield call


def _replace(scalar: Scalar, values: Mapping[Scalar, Scalar]) -> Scalar:
    if scalar in values:
        return values[scalar]
    old = children(scalar)
    new = tuple(_replace(child, values) for child in old)
    return scalar if all(map(is_, old, new)) else with_children(scalar, new)
