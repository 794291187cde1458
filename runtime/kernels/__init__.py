"""The compiled loops.

A kernel takes contiguous int64 arrays and returns counts; it knows no Python object.
``@kernel("int64(int64[:, ::1], ...)")`` declares one signature; a function that kernels of the same file call
is declared ``@device``. How they come to be machine code is in ``runtime/native``.
"""

from kpg.runtime.native.catalog import every_kernel
from kpg.runtime.native.declare import (
    Device,
    Intrinsic,
    Kernel,
    device,
    kernel,
    load_intrinsic,
    small_view_intrinsic,
    view_intrinsic,
)

__all__ = [
    "Device",
    "Intrinsic",
    "Kernel",
    "device",
    "every_kernel",
    "kernel",
    "load_intrinsic",
    "small_view_intrinsic",
    "view_intrinsic",
]
