"""Functions that make rows: their arguments computed beside the columns that are kept of a row."""

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.traverse import width
from kpg.compiler.physical.context import Planning
from kpg.runtime import plan
from kpg.runtime.functions.table_functions import Expansion
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.scalar import Column, Scalar, columns, remap


def plan_expand(planning: Planning, rel: algebra.Expand, mfp: Mfp) -> Ref:
    """A stream of the mfp over what the calls make of each row."""
    inner = width(rel.input)
    types = algebra.types(rel)
    asked = frozenset[int]().union(*(columns(scalar) for scalar in (*mfp.predicates, *mfp.outputs)))
    kept = sorted(column for column in asked if column < inner)
    outputs: list[Scalar] = [Column(column, types[column]) for column in kept]
    calls = []
    for call in rel.calls:
        places = tuple(range(len(outputs), len(outputs) + len(call.args)))
        outputs += call.args
        given = tuple(arg.type for arg in call.args)
        calls.append(Expansion(call.function, places, given, call.types, call.text))
    source = planning.lower(planning, rel.input, Mfp((), tuple(outputs)))
    node = plan.Expand(source, len(kept), tuple(calls), rel.ordinality, rel.outer)
    place = {column: index for index, column in enumerate((*kept, *range(inner, len(types))))}
    above = Mfp(
        tuple(remap(predicate, place.__getitem__) for predicate in mfp.predicates),
        tuple(remap(output, place.__getitem__) for output in mfp.outputs),
    )
    return planning.builder.linear(planning.builder.add(node), above)
