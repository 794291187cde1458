"""What captured state is made of: plain values, and *parts*, which are arrays.

A state is built of dicts by name, tuples, ints, strings and None, with a part wherever there is an array: its
array itself just after capturing, a piece of a file once it is stored (``runtime/storage``). Whoever restores
gets arrays through a *reader*, which knows what stands for them.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.records import dataclass

Array = NDArray[Any]
Words = NDArray[np.int64]


class Life(enum.Enum):
    """What may happen to an array after it was captured."""

    FIXED = "nothing: as long as it is the same object, it has the same contents"
    GROWING = "elements are added behind those in use, which stay as they are"
    CHANGING = "anything"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An array, of which the first ``used`` along its first axis are in use, and room for more."""

    array: Array
    life: Life
    used: int


class UnsavedError(Exception):
    """Something keeps what cannot be data: it is to be computed anew."""


State = Any
"""A dict of states by name, a tuple of them, an int, a string, None, a Part, or what stands for one."""

Read = Callable[[Any], Array]
"""From what stands for a part to an array for the restored object to keep, and to write to if not fixed."""


def fixed(array: Array) -> Part:
    """An array that nobody writes to."""
    return Part(array, Life.FIXED, array.shape[0])


def growing(array: Array, used: int) -> Part:
    """An array to which elements are added."""
    return Part(array, Life.GROWING, used)


def changing(array: Array, used: int | None = None) -> Part:
    """An array that is written to."""
    return Part(array, Life.CHANGING, array.shape[0] if used is None else used)


def mapped(state: State, change: Callable[[Any], Any]) -> State:
    """The state with ``change`` of whatever stands for an array in its place."""
    match state:
        case Mapping():
            return {name: mapped(one, change) for name, one in state.items()}
        case tuple():
            return tuple(mapped(one, change) for one in state)
        case None | int() | str():
            return state
        case _:
            return change(state)


def kept(state: State) -> State:
    """The state with copies of what may change: it stays as it is whatever happens to what it is of."""

    def copied(part: Part) -> Part:
        return part if part.life is Life.FIXED else Part(read(part), part.life, part.used)

    return mapped(state, copied)


def read(part: Part) -> Array:
    """The reader of states that were never stored: fixed arrays are shared, all others copied."""
    if part.life is Life.FIXED:
        return part.array
    array = np.empty(part.array.shape, part.array.dtype)
    array[: part.used] = part.array[: part.used]
    return array
