"""The compiled loops.

A kernel takes contiguous int64 arrays and returns counts; it knows no Python object.
``@kernel("int64(int64[:, ::1], ...)")`` declares one signature; a function that kernels call is declared
``@device``: of the same file, or of one whose devices and constants are for others, from which it is imported
by name; ``@inlined`` is one whose code is to stand wherever it is called. What a kernel needs of a structure
of several arrays it gets as one array that says where they are (``layout``, ``historytable``, ``rowgroups``).
How they come to be machine code is in ``runtime/native``.
"""

from kpg.runtime.native import load as load  # registers the loader of kernels
from kpg.runtime.native.declare import (
    Device,
    Intrinsic,
    Kernel,
    bit_count_intrinsic,
    device,
    every_kernel,
    inlined,
    invoke_intrinsic,
    kernel,
    load_intrinsic,
    lowest_bit_intrinsic,
    save_intrinsic,
    small_view_intrinsic,
    view_intrinsic,
)

__all__ = [
    "Device",
    "Intrinsic",
    "Kernel",
    "bit_count_intrinsic",
    "device",
    "every_kernel",
    "inlined",
    "invoke_intrinsic",
    "kernel",
    "load_intrinsic",
    "lowest_bit_intrinsic",
    "save_intrinsic",
    "small_view_intrinsic",
    "view_intrinsic",
]
