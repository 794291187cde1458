"""Importing the engine's modules without the garbage collector walking over them again and again.

Importing makes some hundred thousand objects, classes and functions and code, that stay for good. They make
the collector run a hundred times, over what cannot be garbage: a seventh of the time to the first answer.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """No collections in the block; what it left is with the oldest objects, and collected like these.

    Somebody else's choice stands: a collector that is off stays off, objects that are frozen stay frozen.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:
                # Both only join lists: nothing is frozen afterwards, and nothing was walked.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
