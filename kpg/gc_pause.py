"""Imports that cost the start little: on first use, and with the garbage collector paused.

Importing the engine allocates some hundred thousand long-lived objects: classes, functions, code. They
trigger about a hundred collections that find no garbage and take a seventh of the time to the first answer.
Creating the definitions of ten thousand tables, when a folder is opened, takes twice as long with the
collector on.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """No collections in the block; what it left is with the oldest objects, and collected like these.

    Somebody else's choice stands: a collector that is off stays off, objects that are frozen stay frozen.
    """
    was_enabled = gc.isenabled()
    try:
        gc.disable()  # in the block: Ctrl-C may come right after it
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:
                # Both only join lists: nothing is frozen afterwards, and nothing was walked.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def import_at_rest(name: str) -> ModuleType:
    """The module of this full name; the collector rests if it is not imported yet."""
    if name in sys.modules:
        return import_module(name)
    with collector_at_rest():
        return import_module(name)


class LazyModule:
    """A module that is imported when an attribute of it is first read.

    For what the start does without. The module's types come from an import under TYPE_CHECKING of the same
    name; .ci/imports.py compares both.
    """

    def __init__(self, name: str) -> None:
        self.__name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)  # asked by tools that look at all names of a module
        value = getattr(import_at_rest(self.__name), attribute)
        setattr(self, attribute, value)  # the next read does not come here
        return value
