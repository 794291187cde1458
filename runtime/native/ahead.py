"""Having all kernels compiled, where they are not, before they are needed and beside other work."""

import os

from kpg.runtime.native.declare import every_kernel
from kpg.runtime.native.link import CannotLink
from kpg.runtime.native.load import is_shipped
from kpg.runtime.native.workers import usual, workers


def begin() -> int:
    """Have what is not compiled compiled by others, the usual kernels first; how many. Does not wait.

    Nothing happens where a wheel has the kernels, or where they are not compiled ahead of time.
    """
    if is_shipped() or os.environ.get("KPG_KERNELS", "native") != "native":
        return 0
    try:
        known = workers()
    except CannotLink:
        return 0
    first = usual()
    return len(known.begin([*first, *(kernel for kernel in every_kernel() if kernel not in first)]))
