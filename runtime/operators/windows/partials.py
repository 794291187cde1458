"""Partial aggregates of stretches of rows: what stands for them where a frame goes on to its partition's end.

A call has partial aggregates if its frame has an end that is unbounded, and they are few words, or a state of
the aggregate's algorithm where that is what a group keeps.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import AccumulatorKind, Hierarchical, Trend, aggregate_named, window_function
from kpg.runtime.mfp.memo import values_of
from kpg.runtime.operators.windows.operands import PLAIN, operand
from kpg.runtime.plan import Edge, WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.types import NULL

Words = NDArray[np.int64]
Partial = Any
"""A number of rows; (number of operands, exact sum); (what orders a word, word) or None; a state."""
UNBOUNDED = (Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING)


@dataclass(frozen=True, slots=True)
class Summary:
    """How the partial aggregate of a call's rows is made, and how those of adjacent stretches become one."""

    of: Callable[[Words], Partial]
    merge: Callable[[Partial, Partial], Partial]
    empty: Partial


NOTHING = Summary(lambda rows: None, lambda left, right: None, None)


def summary_of(call: WindowCall, dictionary: Dictionary) -> Summary | None:
    """None if the call has no partial aggregates that take less than all its rows."""
    if window_function(call.function) is not None or not is_open(call):
        return NOTHING
    function = aggregate_named(call.function)
    if function.accumulator is AccumulatorKind.COUNT:
        return Summary(_counting(call, dictionary), lambda left, right: left + right, 0)
    if isinstance(function.maintenance, Hierarchical):
        return _extremes(call, dictionary, largest=function.trend is Trend.UP)
    plain = bool(call.args) and call.args[0].type.kind in PLAIN and call.type.kind in PLAIN
    if function.accumulator is AccumulatorKind.SUM and plain:
        return Summary(_adding(call, dictionary), _both, (0, 0))
    return None if function.accumulator is None else _states(call, dictionary)


def is_open(call: WindowCall) -> bool:
    """Whether the call's frame has an end that is unbounded."""
    return call.frame.start.edge in UNBOUNDED or call.frame.end.edge in UNBOUNDED


def _counting(call: WindowCall, dictionary: Dictionary) -> Callable[[Words], int]:
    def of(rows: Words) -> int:
        if not call.args:
            return rows.shape[1]
        return int((operand(rows, call.args[0], dictionary) != NULL).sum())

    return of


def _adding(call: WindowCall, dictionary: Dictionary) -> Callable[[Words], tuple[int, int]]:
    def of(rows: Words) -> tuple[int, int]:
        words = operand(rows, call.args[0], dictionary)
        known = words[words != NULL]
        return known.shape[0], (int((known >> 32).sum()) << 32) + int((known & 0xFFFFFFFF).sum())

    return of


def _both(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return left[0] + right[0], left[1] + right[1]


def _extremes(call: WindowCall, dictionary: Dictionary, *, largest: bool) -> Summary:
    """A word with what orders it: itself, or the bytes of the string that it stands for."""
    better = max if largest else min
    is_text = call.args[0].type.is_interned

    def of(rows: Words) -> tuple[Any, int] | None:
        words = operand(rows, call.args[0], dictionary)
        known = words[words != NULL]
        if not known.shape[0]:
            return None
        if not is_text:
            word = int(known.max() if largest else known.min())
            return word, word
        codes = np.unique(known)
        return better(
            ((text or "").encode(), code)
            for text, code in zip(dictionary.decode(codes), codes.tolist(), strict=True)
        )

    def merge(left: tuple[Any, int] | None, right: tuple[Any, int] | None) -> tuple[Any, int] | None:
        return right if left is None else left if right is None else better(left, right)

    return Summary(of, merge, None)


def _states(call: WindowCall, dictionary: Dictionary) -> Summary:
    """States of the aggregate's algorithm; merging leaves both as they are."""
    types = tuple(arg.type for arg in call.args)
    algorithm = aggregate_named(call.function).algorithm(types)

    def of(rows: Words) -> Partial:
        words = (operand(rows, arg, dictionary) for arg in call.args)
        columns = [values_of(one, type_, dictionary) for one, type_ in zip(words, types, strict=True)]
        state = algorithm.initialize()
        for operands in zip(*columns, strict=True):
            if operands[0] is not None:
                state = algorithm.add(state, operands, 1)
        return state

    def merge(left: Partial, right: Partial) -> Partial:
        return algorithm.merge(algorithm.merge(algorithm.initialize(), left), right)

    return Summary(of, merge, algorithm.initialize())


def summaries_of(calls: Sequence[WindowCall], dictionary: Dictionary) -> tuple[Summary, ...] | None:
    """Those of all calls; None if one has none."""
    found = [summary_of(call, dictionary) for call in calls]
    known = tuple(summary for summary in found if summary is not None)
    return known if len(known) == len(found) else None
