"""What is another for each row of a query that is asked once: chance, and numbers of sequences.

Calls have a number that no two rows share as their first argument; which chance it is, and which statement
counts, is a second. So a call has one value for each row however often the row is computed.
"""

import threading
import uuid
from itertools import count
from typing import Any, Final

import numpy as np

from kpg.runtime.functions.registry import Memoized, Vector, primitive
from kpg.runtime.functions.vectors import from_doubles

Words = np.ndarray[Any, np.dtype[np.int64]]
Bits = np.ndarray[Any, np.dtype[np.uint64]]

STEP: Final = np.uint64(0x9E3779B97F4A7C15)
FACTORS: Final = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))
LAST_SHIFT: Final = np.uint64(31)
"""SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014, figure 17)."""
DROPPED: Final = np.uint64(11)
"""Of 64 bits a double has room for 53."""


def mixed(numbers: Words, salt: Words) -> Bits:
    """64 bits of chance for each number, others for another salt."""
    with np.errstate(over="ignore"):
        bits = (numbers.view(np.uint64) + np.uint64(1)) * STEP + salt.view(np.uint64)
        for shift, factor in FACTORS:
            bits = (bits ^ (bits >> np.uint64(shift))) * factor
    return bits ^ (bits >> LAST_SHIFT)


def _random(numbers: Words, salt: Words) -> Words:
    return from_doubles((mixed(numbers, salt) >> DROPPED).astype(np.float64) * 2.0**-53)


def _random_uuid(number: int, salt: int) -> str:
    pair = mixed(np.array([2 * number, 2 * number + 1], np.int64), np.full(2, salt, np.int64))
    return str(uuid.UUID(bytes=pair.tobytes(), version=4))


class Drawn:
    """How many numbers statements that are running have asked of sequences, each by a token of its own."""

    def __init__(self) -> None:
        self._tokens = count(1)
        self._lock = threading.Lock()
        self._known: dict[int, dict[int, int]] = {}

    def begin(self) -> int:
        """A token for one sequence in one statement."""
        with self._lock:
            token = next(self._tokens)
            self._known[token] = {}
            return token

    def places(self, numbers: Words, token: int) -> Words:
        """For each row's number its place among all, from 0, in the order in which they come."""
        with self._lock:
            known = self._known[token]
            return np.array([known.setdefault(number, len(known)) for number in numbers.tolist()], np.int64)

    def end(self, token: int) -> int:
        """How many rows there were."""
        with self._lock:
            return len(self._known.pop(token))


DRAWN: Final = Drawn()


def _drawn(numbers: Words, token: Words) -> Words:
    return DRAWN.places(numbers, int(token[0])) if len(numbers) else numbers


primitive("$random", Vector(lambda call: _random))
primitive("$random_uuid", Memoized(lambda call: _random_uuid))
primitive("$drawn", Vector(lambda call: _drawn))
