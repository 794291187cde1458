"""Rendering of delta joins and range joins."""

from collections.abc import Sequence

import numpy as np

from kpg.runtime import plan
from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.errors import InternalError
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.join import DeltaJoin, DeltaPath, HalfJoin, RangeJoin
from kpg.runtime.plan import Mfp
from kpg.runtime.render.context import Built, CompactHalfJoin, CompactPath, Context, Site, arrangement_of
from kpg.runtime.scalar import Call, Column, Scalar, columns, remap
from kpg.runtime.trace.lookup import KeyMatcher
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import BIGINT, BOOLEAN

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""Functions of a range join's comparisons."""


def compact_paths(paths: Sequence[plan.DeltaPath]) -> list[CompactPath]:
    """Return the paths of a delta join with the columns that their half-joins read."""
    result = []
    for path in paths:
        width, compacts = len(path.delta.mfp.outputs), []
        for half in path.half_joins:
            compacts.append(_compact_columns(half.mfp, width))
            width = len(half.mfp.outputs)
        result.append(CompactPath(path, tuple(compacts)))
    return result


def build_delta_join(
    paths: Sequence[CompactPath], inputs: Sequence[Operator], site: Site, built: Built
) -> DeltaJoin:
    """Build one operator for all paths of a delta join; ``inputs`` are its inputs in plan order."""
    streams = tuple(built[path.path.delta.input] for path in paths)
    fused_paths = tuple(_fuse_path(start, path, built, site.context) for start, path in enumerate(paths))
    deltas: list[list[Updates]] = [[] for _ in streams]
    return DeltaJoin(site.place_after(*inputs), streams=streams, paths=fused_paths, deltas=deltas)


def _fuse_path(start: int, halves: CompactPath, built: Built, context: Context) -> DeltaPath:
    """Build a path's half-joins, which read only the columns that they need."""
    path, half_joins = halves.path, []
    for half, (keep_stream, keep_batch, mfp) in zip(path.half_joins, halves.compact_half_joins, strict=True):
        arrangement = arrangement_of(built[half.arrangement])
        compiled = CompiledMfp(mfp, context, lazy=context.is_restoring)
        meeting = KeyMatcher(half.key, keep_stream, keep_batch)
        half_joins.append(
            HalfJoin(arrangement, half.relation, half.key, keep_stream, keep_batch, compiled, meeting)
        )
    return DeltaPath(
        start, CompiledMfp(path.delta.mfp, context, lazy=context.is_restoring), tuple(half_joins)
    )


def _compact_columns(mfp: Mfp, width: int) -> CompactHalfJoin:
    """Return the stream and arrangement columns that an mfp reads, and the mfp over just these."""
    scalars = (*mfp.predicates, *mfp.outputs)
    needed = sorted({column for scalar in scalars for column in columns(scalar)})
    place = {column: i for i, column in enumerate(needed)}

    def remap_scalar(scalar: Scalar) -> Scalar:
        return remap(scalar, place.__getitem__)

    keep_stream = np.array([c for c in needed if c < width], np.int64)
    keep_batch = np.array([c - width for c in needed if c >= width], np.int64)
    return (
        keep_stream,
        keep_batch,
        Mfp(tuple(map(remap_scalar, mfp.predicates)), tuple(map(remap_scalar, mfp.outputs))),
    )


def build_range_join(node: plan.RangeJoin, site: Site, built: Built, context: Context) -> RangeJoin:
    """Build a range join.

    Raises:
        InternalError: If its mfp reads a column of the thresholds.
    """
    left, right = arrangement_of(built[node.left]), arrangement_of(built[node.right])
    read = {column for scalar in (*node.mfp.predicates, *node.mfp.outputs) for column in columns(scalar)}
    if any(column >= left.width for column in read):
        raise InternalError("a range join cannot output columns of its thresholds")
    # Words are ordered as their values are, so all types are compared as integers.
    comparison = Call(
        COMPARISONS[node.comparison],
        (Column(node.key, BIGINT), Column(left.width + node.key, BIGINT)),
        BOOLEAN,
    )
    pair = Mfp((comparison, *node.mfp.predicates), node.mfp.outputs)
    return RangeJoin(
        site.place_after(left, right),
        left=left,
        right=right,
        key=node.key,
        comparison=node.comparison,
        pair_mfp=CompiledMfp(pair, context, lazy=context.is_restoring),
        left_mfp=CompiledMfp(node.mfp, context, lazy=context.is_restoring),
    )
