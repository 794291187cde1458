"""The arguments of calls as words."""

from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import NULL, Kind

Words = NDArray[np.int64]
PLAIN: Final = frozenset((Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL))
"""Types whose words are added up as they are."""


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
