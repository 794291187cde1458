"""Polling of many sockets by compiled loops, and batched decoding of requests of one kind."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import Kernel
from kpg.runtime.kernels import wires as kernels
from kpg.runtime.native.link import CannotLink, call
from kpg.runtime.native.load import at_hand
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

MOST_OF_ONE: Final = 1 << 12
"""Bytes that are received of one socket at once."""
MEMORY: Final = 1 << 19
MOST_ROWS: Final = 1 << 10
"""Requests that are read at once."""


class Number(NamedTuple):
    """A value that is a whole number: where it goes in a row, its form, and its bounds."""

    place: int
    width: int
    """Of its bytes, if it is binary; 0 for digits."""
    least: int
    most: int


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Requests that are alike but for their values, each of which makes a row."""

    head: Bytes
    """Between the length of Bind and the first value."""
    tail: Bytes
    """From behind the last value up to the end of Sync; ``results`` bytes of it are Bind's."""
    results: int
    first: Words
    """The words of a row but for those of values."""
    fields: Words

    @staticmethod
    def of(
        head: bytes, tail: bytes, results: int, first: Sequence[int], values: "Sequence[Number | int]"
    ) -> "Pattern":
        """``values``: whole numbers, or the places of others in a row."""
        fields = [
            (one, kernels.OTHER, 0, 0)
            if isinstance(one, int)
            else (one.place, one.width or kernels.DIGITS, one.least, one.most)
            for one in values
        ]
        return Pattern(
            np.frombuffer(head, np.uint8).copy(),
            np.frombuffer(tail, np.uint8).copy(),
            results,
            np.array(first, np.int64),
            np.array(fields, np.int64).reshape(-1, kernels.VALUE_FIELDS),
        )


class Found(NamedTuple):
    """The requests in what has come: rows ``int64[w, n]``, and how many each part has, 0: others."""

    words: Words
    cells: Words
    """Of each value two rows: where it begins in what has come, and its length, below 0 for NULL."""
    counts: Words


class Sockets:
    """Memory for what comes. InternalError where there are no compiled loops."""

    def __init__(self) -> None:
        try:
            self._module = call()
        except CannotLink as error:
            raise InternalError(str(error)) from error
        self._memory = np.empty(MEMORY, np.uint8)
        self._parts = np.empty((0, 2), np.int64)
        self._used = 0

    def ready(self) -> bool:
        """Whether the loops are compiled; else they will be, soon."""
        missing = [one for one in (kernels.receive, kernels.read, kernels.send) if isinstance(one, Kernel)]
        if missing and at_hand(missing):
            for one in missing:
                one.prepare()
            return True
        return not missing

    def receive(self, numbers: Sequence[int]) -> list[list[int]]:
        """Take what has come: of each socket where it begins, and how long it is, or, below 0, an error."""
        sockets = np.array(numbers, np.int64)
        self._parts = np.empty((len(numbers), 2), np.int64)
        self._used = kernels.receive(self._module.RECEIVE, sockets, self._memory, MOST_OF_ONE, self._parts)
        parts: list[list[int]] = self._parts.tolist()
        return parts

    @property
    def data(self) -> bytes:
        """All that has come."""
        return self._memory[: self._used].tobytes()

    def read(self, pattern: Pattern) -> Found:
        """The requests in what has come."""
        most = MOST_ROWS
        words = np.empty((pattern.first.shape[0], most), np.int64)
        cells = np.empty((2 * pattern.fields.shape[0], most), np.int64)
        counts = np.empty(self._parts.shape[0], np.int64)
        rows = kernels.read(
            self._memory, self._parts, pattern.head, pattern.tail, pattern.results, pattern.fields,
            pattern.first, words, cells, counts,
        )  # fmt: skip
        return Found(np.ascontiguousarray(words[:, :rows]), cells[:, :rows], counts)

    def send(self, numbers: Sequence[int], times: Words, reply: bytes) -> list[int]:
        """Send a reply so many times on each socket (below 0: none); the bytes that each has taken."""
        sent = np.empty(len(numbers), np.int64)
        kernels.send(
            self._module.SEND,
            np.array(numbers, np.int64),
            times,
            np.frombuffer(bytearray(reply), np.uint8),
            sent,
        )
        return sent.tolist()
