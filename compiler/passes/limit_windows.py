"""Push a limit on a row number into its window: number only the rows that the query keeps."""

from dataclasses import replace
from typing import Final

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, width
from kpg.compiler.passes.fuse_selections import Selection, build, peel
from kpg.runtime.plan.nodes import Edge, Exclude, Unit, WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar

RANKING_FUNCTIONS: Final = frozenset({"row_number", "rank", "dense_rank"})
"""Functions whose value does not depend on later rows."""
MIRRORED: Final = {"ge": "le", "gt": "lt", "eq": "eq"}


def limit_windows(rel: Rel) -> Rel:
    """Insert a TopK below a window whose row number the query restricts to at most k.

    ``Filter [#2 <= 3] (Window [row_number()] x)`` becomes ``Filter [#2 <= 3] (Window [row_number()]
    (TopK limit=3 x))``. This requires that no window call of a row depends on later rows.
    """
    return transform_up(rel, _limit)


def _limit(node: Rel) -> Rel:
    if not isinstance(node, algebra.Filter):
        return node
    selection = peel(node)
    window = selection.core
    if not isinstance(window, algebra.Window) or not all(map(_looks_back, window.calls)):
        return node
    most = _max_row_number(selection, window)
    if most is None or isinstance(window.input, algebra.TopK):
        return node
    order = (*window.order, *window.ties)
    first = algebra.TopK(window.input, window.partition, order, max(most, 0))
    return build(replace(selection, core=replace(window, input=first)))


def _max_row_number(selection: Selection, window: algebra.Window) -> int | None:
    """Return the largest row number that satisfies the predicates, or None if there is no bound."""
    start = width(window.input)
    numbers = {start + i for i, call in enumerate(window.calls) if call.function == "row_number"}
    bounds = [_upper_bound(predicate, numbers) for predicate in selection.predicates]
    return min((bound for bound in bounds if bound is not None), default=None)


def _upper_bound(predicate: Scalar, numbers: set[int]) -> int | None:
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
    """Return whether the call's value depends only on the current row and earlier ones."""
    if call.function in RANKING_FUNCTIONS:
        return True
    frame = call.frame
    if call.function == "lag":
        distance = call.args[1] if len(call.args) > 1 else None
        return distance is None or (
            isinstance(distance, Literal) and _is_null_or_not_negative(distance.value)
        )
    if call.function == "lead" or call.function in ("ntile", "percent_rank", "cume_dist"):
        return False
    own = frame.exclude in (Exclude.NO_OTHERS, Exclude.CURRENT_ROW)
    return own and frame.unit is Unit.ROWS and frame.end.edge in (Edge.PRECEDING, Edge.CURRENT_ROW)


def _is_null_or_not_negative(value: int | str | None) -> bool:
    return value is None or (isinstance(value, int) and value >= 0)
