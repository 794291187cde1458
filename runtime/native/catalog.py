"""Which kernels there are: those of the files in ``runtime/kernels``, found by name: they are above."""

import importlib
import pkgutil
from typing import Final

from kpg.runtime.native.declare import Kernel

PACKAGE: Final = "kpg.runtime.kernels"


def every_kernel() -> list[Kernel]:
    """All kernels that are not loaded, file by file: a loaded one has a function in its place."""
    found: list[Kernel] = []
    for module in pkgutil.iter_modules(importlib.import_module(PACKAGE).__path__):
        names = vars(importlib.import_module(f"{PACKAGE}.{module.name}"))
        found += [value for value in names.values() if isinstance(value, Kernel)]
    return found
