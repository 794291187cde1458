"""Polling of many sockets by compiled loops, and batched decoding of similar requests."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import Kernel
from kpg.runtime.kernels import wires as kernels
from kpg.runtime.native.link import NoCompilerError, call_module
from kpg.runtime.native.load import are_compiled
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

MAX_RECEIVE: Final = 1 << 12
"""Bytes received from one socket at a time."""
BUFFER_BYTES: Final = 1 << 19
MAX_REQUESTS: Final = 1 << 10
"""Requests decoded at a time."""


class IntegerField(NamedTuple):
    """Integer parameter: its column, its format, and its bounds."""

    place: int
    width: int
    """Bytes of the binary format; 0 for decimal digits."""
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Requests that differ only in their parameters; each becomes a row."""

    head: Bytes
    """Bytes between the length field of Bind and the first parameter."""
    tail: Bytes
    """Bytes after the last parameter to the end of Sync; the first ``results`` of them belong to Bind."""
    results: int
    row_template: Words
    """Words of a row, without those of parameters."""
    fields: Words

    @staticmethod
    def build(
        head: bytes,
        tail: bytes,
        results: int,
        row_template: Sequence[int],
        values: "Sequence[IntegerField | int]",
    ) -> "Pattern":
        """Return a pattern; ``values`` are integer fields, or the columns of other parameters."""
        fields = [
            (value, kernels.OTHER, 0, 0)
            if isinstance(value, int)
            else (value.place, value.width or kernels.DIGITS, value.minimum, value.maximum)
            for value in values
        ]
        return Pattern(
            np.frombuffer(head, np.uint8).copy(),
            np.frombuffer(tail, np.uint8).copy(),
            results,
            np.array(row_template, np.int64),
            np.array(fields, np.int64).reshape(-1, kernels.VALUE_FIELDS),
        )


class Requests(NamedTuple):
    """Decoded requests: rows ``int64[w, n]``, and the number of each socket's rows, 0 for other requests."""

    words: Words
    cells: Words
    """Two rows per parameter: its start in the received bytes, and its length, negative for NULL."""
    counts: Words


class Sockets:
    """Receive buffer of compiled socket loops.

    Raises:
        InternalError: If compiled loops are not available.
    """

    def __init__(self) -> None:
        try:
            self._module = call_module()
        except NoCompilerError as error:
            raise InternalError(str(error)) from error
        self._memory = np.empty(BUFFER_BYTES, np.uint8)
        self._parts = np.empty((0, 2), np.int64)
        self._used_bytes = 0

    def is_ready(self) -> bool:
        """Return whether the loops are compiled; if not, start to compile them."""
        missing = [one for one in (kernels.receive, kernels.read, kernels.send) if isinstance(one, Kernel)]
        if missing and are_compiled(missing):
            for kernel in missing:
                kernel.prepare()
            return True
        return not missing

    def receive(self, numbers: Sequence[int]) -> list[list[int]]:
        """Receive the available bytes of each socket.

        Returns for each its start in ``data`` and its length, or a negative error.
        """
        sockets = np.array(numbers, np.int64)
        self._parts = np.empty((len(numbers), 2), np.int64)
        self._used_bytes = kernels.receive(
            self._module.RECEIVE, sockets, self._memory, MAX_RECEIVE, self._parts
        )
        parts: list[list[int]] = self._parts.tolist()
        return parts

    @property
    def data(self) -> bytes:
        """All received bytes."""
        return self._memory[: self._used_bytes].tobytes()

    def decode(self, pattern: Pattern) -> Requests:
        """Return the requests in the received bytes."""
        max_rows = MAX_REQUESTS
        words = np.empty((pattern.row_template.shape[0], max_rows), np.int64)
        cells = np.empty((2 * pattern.fields.shape[0], max_rows), np.int64)
        counts = np.empty(self._parts.shape[0], np.int64)
        rows = kernels.read(
            self._memory, self._parts, pattern.head, pattern.tail, pattern.results, pattern.fields,
            pattern.row_template, words, cells, counts,
        )  # fmt: skip
        return Requests(np.ascontiguousarray(words[:, :rows]), cells[:, :rows], counts)

    def send(self, numbers: Sequence[int], times: Words, reply: bytes) -> list[int]:
        """Send a reply ``times`` times on each socket, and return the bytes sent on each.

        With a negative number, nothing is sent.
        """
        sent = np.empty(len(numbers), np.int64)
        kernels.send(
            self._module.SEND,
            np.array(numbers, np.int64),
            times,
            np.frombuffer(bytearray(reply), np.uint8),
            sent,
        )
        return sent.tolist()
