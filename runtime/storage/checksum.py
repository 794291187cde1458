"""The checksum of bytes, whose number is a multiple of eight."""

from collections.abc import Iterable

import numpy as np

from kpg.runtime.kernels.checksum import checksum
from kpg.runtime.storage.files import Piece

WORD = 8


def checksum_of(pieces: Iterable[Piece], seed: int = 0) -> int:
    """64 bits that are others if a bit is; the same for the same bytes only if they are cut the same."""
    for piece in pieces:
        words = np.frombuffer(piece, np.int64)
        # A kernel takes no memory that must not be written to.
        seed = int(checksum(words if words.flags.writeable else words.copy(), seed))
    return seed


def padding(size: int) -> int:
    """How many bytes are missing to a multiple of eight."""
    return -size % WORD
