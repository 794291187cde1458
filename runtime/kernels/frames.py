"""What frames columns of words: how far apart their values are."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import kernel

Words = NDArray[np.int64]

NULL = -(2**63)
ERROR = NULL + 1


@kernel("int64(int64[::1], int64[::1])")
def bounds(words: Words, found: Words) -> int:
    """Fill ``found int64[2]`` with the least and the most of the values; how many words are none."""
    least = np.int64(2**63 - 1)
    most = np.int64(NULL)
    reserved = 0
    for i in range(words.shape[0]):
        word = words[i]
        if word <= ERROR:
            reserved += 1
        else:
            least = min(least, word)
            most = max(most, word)
    found[0] = least
    found[1] = most
    return reserved
