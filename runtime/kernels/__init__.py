"""The compiled loops.

A kernel takes contiguous int64 arrays and returns counts; it knows no Python object.
``@kernel("int64(int64[:, ::1], ...)")`` declares one signature; a function that kernels of the same file call is
declared ``@device``. How they come to be machine code is in ``runtime/native``.
"""

import importlib
import pkgutil

from kpg.runtime.native.declare import (
    Device,
    Intrinsic,
    Kernel,
    bit_count_intrinsic,
    device,
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
    "kernel",
    "load_intrinsic",
    "lowest_bit_intrinsic",
    "save_intrinsic",
    "small_view_intrinsic",
    "view_intrinsic",
]


def every_kernel() -> list[Kernel]:
    """All kernels, for whoever would rather compile them before they are needed."""
    found: list[Kernel] = []
    for module in pkgutil.iter_modules(__path__):
        names = vars(importlib.import_module(f"{__name__}.{module.name}"))
        found += [value for value in names.values() if isinstance(value, Kernel)]
    return found
