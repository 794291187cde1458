"""What captured state is made of: plain values, and *parts*, which are arrays.

A state is built of dicts by name, tuples, ints, strings and None, with a part wherever there is an array: its
array itself just after capturing, a piece of a file once it is stored (``runtime/storage``). Whoever restores
gets arrays through a *reader*, which knows what stands for them.
"""

import enum
from collections.abc import Callable
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
    """An array; or, with ``used``, as much of it along its first axis, and room for some more or less.

    With ``rows``, what is behind so many elements along its second axis is nobody's: it is stored as zeros.
    """

    array: Array
    life: Life
    used: int | None = None
    rows: int | None = None


class UnsavedError(Exception):
    """Something keeps what cannot be data: it is to be computed anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Later:
    """Bytes that whoever writes the state makes: of values that nobody changes."""

    make: Callable[[], bytes]


State = Any
"""A dict of states by name, a tuple of them, an int, a string, None, a Part, or what stands for one."""

Read = Callable[[Any], Array]
"""From what stands for a part to an array for the restored object to keep, and to write to if not fixed."""


def fixed(array: Array) -> Part:
    """An array that nobody writes to."""
    return Part(array, Life.FIXED)


def growing(array: Array, used: int) -> Part:
    """An array to which elements are added: how much room there is for them does not matter."""
    return Part(array, Life.GROWING, used)


def changing(array: Array, used: int | None = None) -> Part:
    """An array that is written to; if ``used``, its room does not matter."""
    return Part(array, Life.CHANGING, used)


def mapped(state: State, change: Callable[[str, Any], Any], path: str = "") -> State:
    """The state with ``change`` of whatever stands for an array, and of the path to it, in its place."""
    kind = type(state)
    if kind is dict:
        return {name: mapped(one, change, f"{path}/{name}") for name, one in state.items()}
    if kind is tuple:
        return tuple([mapped(one, change, f"{path}/{place}") for place, one in enumerate(state)])
    return state if state is None or kind is int or kind is str else change(path, state)


def kept(state: State) -> State:
    """The state with copies of what may change: it stays as it is whatever happens to what it is of."""

    def copied(path: str, part: Part) -> Part:
        return part if part.life is Life.FIXED else Part(read(part), part.life, part.used)

    return mapped(state, copied)


def read(part: Part) -> Array:
    """The reader of states that were never stored: fixed arrays are shared, all others copied."""
    if part.life is Life.FIXED:
        return part.array
    array = np.empty(part.array.shape, part.array.dtype)
    used = part.array.shape[0] if part.used is None else part.used
    array[:used] = part.array[:used]
    return array
