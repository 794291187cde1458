"""Rendering of joins."""

from collections.abc import Sequence

import numpy as np

from kpg.runtime import plan
from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.errors import InternalError
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.join import Join, JoinPath, RangeJoin, Stage
from kpg.runtime.plan import Mfp
from kpg.runtime.render.context import Built, Compact, Context, Halves, Site, arrangement_of
from kpg.runtime.scalar import Call, Column, Scalar, columns, remap
from kpg.runtime.trace.lookup import Meeting
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import BIGINT, BOOLEAN

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""The functions of a range join's comparisons."""


def halves_of(paths: Sequence[plan.Path]) -> list[Halves]:
    """The paths of a delta join, with what their half-joins read."""
    found = []
    for path in paths:
        width, compacts = len(path.delta.mfp.outputs), []
        for half in path.half_joins:
            compacts.append(_compact(half.mfp, width))
            width = len(half.mfp.outputs)
        found.append(Halves(path, tuple(compacts)))
    return found


def delta_join(paths: Sequence[Halves], inputs: Sequence[Operator], site: Site, built: Built) -> Join:
    """The chains of a delta join's half-joins as one operator, which reads ``inputs``."""
    streams = tuple(built[one.path.delta.input] for one in paths)
    fused = tuple(_fused(start, one, built, site.context) for start, one in enumerate(paths))
    deltas: list[list[Updates]] = [[] for _ in streams]
    return Join(site.over(*inputs), streams=streams, paths=fused, deltas=deltas)


def _fused(start: int, halves: Halves, built: Built, context: Context) -> JoinPath:
    """The half-joins of one path as stages, each of which reads the columns that it needs."""
    path, stages = halves.path, []
    for half, (keep_stream, keep_batch, mfp) in zip(path.half_joins, halves.compacts, strict=True):
        arrangement = arrangement_of(built[half.arrangement])
        compiled = CompiledMfp(mfp, context, later=context.restoring)
        meeting = Meeting(half.key, keep_stream, keep_batch)
        stages.append(Stage(arrangement, half.relation, half.key, keep_stream, keep_batch, compiled, meeting))
    return JoinPath(start, CompiledMfp(path.delta.mfp, context, later=context.restoring), tuple(stages))


def _compact(mfp: Mfp, width: int) -> Compact:
    """The stream and arrangement columns that an mfp reads, and the mfp over just these."""
    scalars = (*mfp.predicates, *mfp.outputs)
    needed = sorted({column for scalar in scalars for column in columns(scalar)})
    place = {column: i for i, column in enumerate(needed)}

    def moved(scalar: Scalar) -> Scalar:
        return remap(scalar, place.__getitem__)

    keep_stream = np.array([c for c in needed if c < width], np.int64)
    keep_batch = np.array([c - width for c in needed if c >= width], np.int64)
    return keep_stream, keep_batch, Mfp(tuple(map(moved, mfp.predicates)), tuple(map(moved, mfp.outputs)))


def range_join(node: plan.RangeJoin, site: Site, built: Built, context: Context) -> RangeJoin:
    """A join by a comparison; InternalError if a column of its thresholds is read."""
    left, right = arrangement_of(built[node.left]), arrangement_of(built[node.right])
    read = {column for scalar in (*node.mfp.predicates, *node.mfp.outputs) for column in columns(scalar)}
    if any(column >= left.width for column in read):
        raise InternalError("a range join cannot output columns of its thresholds")
    # Words order as their values do, so they are compared as integers whatever they stand for.
    comparison = Call(
        COMPARISONS[node.comparison],
        (Column(node.key, BIGINT), Column(left.width + node.key, BIGINT)),
        BOOLEAN,
    )
    pair = Mfp((comparison, *node.mfp.predicates), node.mfp.outputs)
    return RangeJoin(
        site.over(left, right),
        left=left,
        right=right,
        key=node.key,
        comparison=node.comparison,
        pair_mfp=CompiledMfp(pair, context, later=context.restoring),
        left_mfp=CompiledMfp(node.mfp, context, later=context.restoring),
    )
