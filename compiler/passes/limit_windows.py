"""Push a limit on a row number into its window: number only the rows that the query keeps."""

from dataclasses import replace
from typing import Final

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, width
from kpg.compiler.passes.fuse_selections import Selection, build, peel
from kpg.runtime.plan.nodes import Edge, Exclude, Unit, WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar

BEFORE: Final = frozenset({"row_number", "rank", "dense_rank"})
"""Functions to which the rows behind the current one do not matter."""
MIRRORED: Final = {"ge": "le", "gt": "lt", "eq": "eq"}


def limit_windows(rel: Rel) -> Rel:
    """Rows that are kept for a ``row_number()`` of at most k are the first k of each partition.

    ``Filter [#2 <= 3] (Window [row_number()] x)`` becomes ``Filter [#2 <= 3] (Window [row_number()] (TopK
    limit=3 x))``, if what else the window computes of a row does not depend on the rows behind it.
    """
    return transform_up(rel, _limited)


def _limited(node: Rel) -> Rel:
    if not isinstance(node, algebra.Filter):
        return node
    selection = peel(node)
    window = selection.core
    if not isinstance(window, algebra.Window) or not all(map(_looks_back, window.calls)):
        return node
    most = _most(selection, window)
    if most is None or isinstance(window.input, algebra.TopK):
        return node
    order = (*window.order, *window.ties)
    first = algebra.TopK(window.input, window.partition, order, max(most, 0))
    return build(replace(selection, core=replace(window, input=first)))


def _most(selection: Selection, window: algebra.Window) -> int | None:
    """The largest row number that the predicates let through, None if they let all through."""
    start = width(window.input)
    numbers = {start + i for i, call in enumerate(window.calls) if call.function == "row_number"}
    bounds = [_bound(predicate, numbers) for predicate in selection.predicates]
    return min((bound for bound in bounds if bound is not None), default=None)


def _bound(predicate: Scalar, numbers: set[int]) -> int | None:
    if not isinstance(predicate, Call) or len(predicate.args) != 2:
        return None
    (left, right), test = predicate.args, predicate.function
    if isinstance(left, Literal):
        left, right, test = right, left, MIRRORED.get(test, "")
    if not isinstance(left, Column) or left.index not in numbers or not isinstance(right, Literal):
        return None
    if test not in ("le", "lt", "eq") or not isinstance(right.value, int):
        return None
    return right.value - 1 if test == "lt" else right.value


def _looks_back(call: WindowCall) -> bool:
    """Whether the call's value depends only on rows before the current one, and that itself."""
    if call.function in BEFORE:
        return True
    frame = call.frame
    if call.function == "lag":
        distance = call.args[1] if len(call.args) > 1 else None
        return distance is None or (isinstance(distance, Literal) and _not_negative(distance.value))
    if call.function == "lead" or call.function in ("ntile", "percent_rank", "cume_dist"):
        return False
    own = frame.exclude in (Exclude.NO_OTHERS, Exclude.CURRENT_ROW)
    return own and frame.unit is Unit.ROWS and frame.end.edge in (Edge.PRECEDING, Edge.CURRENT_ROW)


def _not_negative(value: int | str | None) -> bool:
    return value is None or (isinstance(value, int) and value >= 0)
