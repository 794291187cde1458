"""The calls of a window over rows that are laid out, one row of words for each call."""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import window_function
from kpg.runtime.operators.windows.aggregates import aggregated
from kpg.runtime.operators.windows.frames import Part, parts_of
from kpg.runtime.operators.windows.layout import Layout
from kpg.runtime.operators.windows.ranking import answered
from kpg.runtime.plan import Frame, WindowCall
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import NULL

Words = NDArray[np.int64]


def evaluated(layout: Layout, calls: Sequence[WindowCall], dictionary: Dictionary) -> Words:
    """``int64[calls, n]``; frames that several calls have are found once."""
    result = np.empty((len(calls), layout.start.shape[0]), np.int64)
    frames: dict[Frame, tuple[Part, ...]] = {}
    for number, call in enumerate(calls):
        function = window_function(call.function)
        parts: tuple[Part, ...] = ()
        if function is None or function.framed:
            if call.frame not in frames:
                frames[call.frame] = parts_of(layout, call.frame, dictionary)
            parts = frames[call.frame]
        args = tuple(operand(layout.data, arg, dictionary) for arg in call.args)
        if function is None:
            result[number] = aggregated(layout, call, args, parts, dictionary)
        else:
            result[number] = answered(layout, function.answer, args, parts)
    return result


def operand(data: Words, arg: Scalar, dictionary: Dictionary) -> Words:
    """An argument's word in each row."""
    match arg:
        case Column(index=index):
            return data[index]
        case Literal(value=value):
            word = NULL if value is None else dictionary.code(value) if isinstance(value, str) else value
            return np.full(data.shape[1], word, np.int64)
        case Call() | If() | Fetch():
            raise InternalError("an argument of a window function is neither a column nor a constant")
        case _:
            assert_never(arg)
