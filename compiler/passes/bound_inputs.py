"""Compute the bound of a NUMERIC comparison in the join input that has the NUMERIC, below the join."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, width
from kpg.compiler.passes.fuse_selections import peel
from kpg.runtime.functions.comparison import BELOW
from kpg.runtime.functions.registry import is_dear
from kpg.runtime.scalar import Call, Column, Scalar, children, columns, remap, walk, with_children


def bound_inputs(rel: Rel) -> Rel:
    """``price < $above(mean)`` in a join becomes a comparison with a column of the input that has the mean.

    The bound is a word of few digits and the mean a string. So the input keeps words, which change less
    often, nothing is computed for each pair of rows, and a mean that nobody else reads becomes no string.
    """
    return transform_up(rel, _bounded)


def _bounded(node: Rel) -> Rel:
    if not isinstance(node, algebra.Join):
        return node
    calls = list(dict.fromkeys(part for predicate in node.on for part in walk(predicate) if _is_bound(part)))
    inputs: list[Rel] = []
    kept: list[int] = []
    values: dict[Scalar, Scalar] = {}
    start = end = 0
    for source in node.inputs:
        types = algebra.types(source)
        mine = list(_made_by(source, start, calls))
        kept += range(end, end + len(types))
        values |= {
            Column(start + place, type_): Column(end + place, type_) for place, type_ in enumerate(types)
        }
        values |= {call: Column(end + len(types) + place, call.type) for place, call in enumerate(mine)}
        below = tuple(remap(call, lambda column, by=start: column - by) for call in mine)  # type: ignore[misc]
        inputs.append(algebra.Map(source, below) if below else source)
        start, end = start + len(types), end + len(types) + len(mine)
    if end == start:
        return node
    on = tuple(_replaced(predicate, values) for predicate in node.on)
    return algebra.Project(replace(node, inputs=tuple(inputs), on=on), tuple(kept))


def _is_bound(scalar: Scalar) -> bool:
    return isinstance(scalar, Call) and scalar.function in BELOW.values()


def _made_by(source: Rel, start: int, calls: Sequence[Scalar]) -> Iterator[Call]:
    """The bounds of values that Python computes in an input, whose columns begin at ``start``."""
    outputs = peel(source).outputs
    for call in calls:
        read = [column - start for column in columns(call)]
        inside = read and all(0 <= column < width(source) for column in read)
        if isinstance(call, Call) and inside and any(is_dear(outputs[column]) for column in read):
            yield call


def _replaced(scalar: Scalar, values: Mapping[Scalar, Scalar]) -> Scalar:
    if scalar in values:
        return values[scalar]
    old = children(scalar)
    new = tuple(_replaced(child, values) for child in old)
    return scalar if all(map(is_, old, new)) else with_children(scalar, new)
