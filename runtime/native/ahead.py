"""Having all kernels compiled, where they are not, before they are needed and beside other work."""

import os

from kpg.runtime.native.catalog import every_kernel
from kpg.runtime.native.link import CannotLink


def begin() -> None:
    """Have what is not compiled compiled by other processes, the usual kernels first; does not wait.

    Nothing happens where a wheel has the kernels, or where they are not compiled ahead of time.
    """
    from kpg.runtime.native.load import is_shipped
    from kpg.runtime.native.workers import usual, workers

    if is_shipped() or os.environ.get("KPG_KERNELS", "native") != "native":
        return
    try:
        known = workers()
    except CannotLink:
        return
    first = usual()
    known.begin([*first, *(kernel for kernel in every_kernel() if kernel not in first)])
