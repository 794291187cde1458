"""Mapped bytes, had read before they are looked at.

A disk that fails when somebody looks at a mapped page ends the process, by a signal that says nothing of
files. So the system is asked to read pages first, which it can refuse. What it then drops, for lack of
memory, and cannot read again is beyond that.
"""

import errno
import mmap
import os
from typing import Any, Final

import numpy as np

from kpg.runtime.storage.files import PAGE, Bytes

POPULATE_READ: Final = 22
"""Linux' advice, from 5.14 on, by which pages are read as if they were looked at."""
POISONED: Final = 133
"""Linux' number for memory that has failed."""
UNREADABLE: Final = (errno.EFAULT, errno.EIO, POISONED)
"""What it ends in where to look would end the process. Who has no such advice, or no memory, looks."""


def read_in(data: Bytes) -> None:
    """Have bytes be read that are mapped; OSError if they cannot be."""
    base: Any = data
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if not isinstance(base, mmap.mmap) or not data.shape[0] or not hasattr(base, "madvise"):
        return
    start = data.ctypes.data - np.frombuffer(base, np.uint8).ctypes.data
    first = start & -PAGE
    try:
        base.madvise(POPULATE_READ, first, start + data.shape[0] - first)
    except OSError as error:
        if error.errno in UNREADABLE:
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from error
