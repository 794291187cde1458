"""The calls of a window over rows that are laid out, one row of words for each call."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import window_function
from kpg.runtime.operators.windows.aggregates import aggregated
from kpg.runtime.operators.windows.frames import Part, parts_of
from kpg.runtime.operators.windows.layout import Layout
from kpg.runtime.operators.windows.operands import operand
from kpg.runtime.operators.windows.partials import Partial
from kpg.runtime.operators.windows.ranking import answered
from kpg.runtime.plan import Edge, Frame, WindowCall
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Around:
    """What is around a part of a partition that is laid out: which rows are ``shown``, and of the rows that
    are left out ``before`` and ``behind`` the partial aggregate of each call.
    """

    shown: slice
    before: Sequence[Partial]
    behind: Sequence[Partial]

    def ends(self, number: int, call: WindowCall) -> list[Partial]:
        """The partial aggregates that belong to a call's frames, at their unbounded ends."""
        found = []
        if call.frame.start.edge is Edge.UNBOUNDED_PRECEDING:
            found.append(self.before[number])
        if call.frame.end.edge is Edge.UNBOUNDED_FOLLOWING:
            found.append(self.behind[number])
        return found


def evaluated(
    layout: Layout, calls: Sequence[WindowCall], dictionary: Dictionary, around: "Around | None" = None
) -> Words:
    """``int64[calls, n]``; frames that several calls have are found once."""
    shown = slice(None) if around is None else around.shown
    result = np.empty((len(calls), layout.start[shown].shape[0]), np.int64)
    frames: dict[Frame, tuple[Part, ...]] = {}
    for number, call in enumerate(calls):
        function = window_function(call.function)
        parts: tuple[Part, ...] = ()
        if function is None or function.framed:
            if call.frame not in frames:
                found = parts_of(layout, call.frame, dictionary)
                frames[call.frame] = tuple((start[shown], end[shown]) for start, end in found)
            parts = frames[call.frame]
        args = tuple(operand(layout.data, arg, dictionary) for arg in call.args)
        if function is None:
            ends = () if around is None else around.ends(number, call)
            result[number] = aggregated(layout, call, args, parts, dictionary, ends)
        else:
            result[number] = answered(layout, function.answer, args, parts, shown)
    return result
