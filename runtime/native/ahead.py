"""Background compilation of all kernels before they are needed."""

import os

from kpg.runtime.native.declare import every_kernel
from kpg.runtime.native.link import NoCompilerError
from kpg.runtime.native.load import is_wheel
from kpg.runtime.native.workers import compiler_pool, usual_kernels


def begin() -> int:
    """Start to compile all missing kernels in other processes, the usual ones first; return their number.

    Does nothing if a wheel provides the kernels, or they are not compiled ahead of time.
    """
    if is_wheel() or os.environ.get("KPG_KERNELS", "native") != "native":
        return 0
    try:
        pool = compiler_pool()
    except NoCompilerError:
        return 0
    first = usual_kernels()
    return len(pool.begin([*first, *(kernel for kernel in every_kernel() if kernel not in first)]))
