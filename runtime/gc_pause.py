"""Pauses the garbage collector while modules are imported or a folder is opened.

Importing the engine allocates several hundred thousand long-lived objects: classes, functions,
code. They trigger about a hundred collections, which find no garbage and take a seventh of the time
to the first result. Creating the definitions of ten thousand tables, when a folder is opened, takes
twice as long with the collector on.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


@contextmanager
def pause_collector() -> Iterator[None]:
    """Disable the garbage collector in the block, then move the new objects to the oldest generation.

    A collector that is off stays off, and frozen objects stay frozen.
    """
    was_enabled = gc.isenabled()
    try:
        gc.disable()  # inside try: Ctrl-C may arrive right after it
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:
                # Both only join the generations' lists: nothing stays frozen, and no object is visited.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def import_at_rest(name: str) -> ModuleType:
    """Import a module by its full name. The collector is paused if the module is not imported yet."""
    if name in sys.modules:
        return import_module(name)
    with pause_collector():
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
