"""Functions that no module has, as bytes: lambdas, those within others, those of the program itself.

They are sent as their code, with what they refer to; workers have the coordinator's version of Python. What a
function refers to is as it was when it was sent: nothing that it changes there is seen anywhere else. Sent
again it is the same function, so that what calls it is shared.
"""

import builtins
import importlib
import io
import marshal
import pickle
import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

_numbers: Final = count()
_told: "WeakKeyDictionary[FunctionType, int]" = WeakKeyDictionary()
"""The numbers of functions that were sent."""
_here: "WeakValueDictionary[int, FunctionType]" = WeakValueDictionary()
"""Functions that came, by their numbers."""
EMPTY: Final = "kpg: a cell with nothing in it"


class Pickler(pickle.Pickler):
    """Pickles such functions, too."""

    def reducer_override(self, given: Any) -> Any:
        """See ``pickle.Pickler``."""
        if isinstance(given, FunctionType):
            return NotImplemented if _is_a_modules(given) else _reduced(given)
        if isinstance(given, ModuleType):
            return importlib.import_module, (given.__name__,)
        if isinstance(given, type) and given.__module__ == "__main__":
            raise pickle.PicklingError(f"the class {given.__qualname__} is in no module")
        return NotImplemented


def pickled(message: object, callback: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    """As ``pickle.dumps`` with a ``buffer_callback``."""
    file = io.BytesIO()
    Pickler(file, 5, buffer_callback=callback).dump(message)
    return file.getvalue()


def _is_a_modules(function: FunctionType) -> bool:
    found: Any = sys.modules.get(function.__module__ or "")
    if found is None or found.__name__ == "__main__":
        return False
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _reduced(function: FunctionType) -> tuple[Any, ...]:
    number = _told.setdefault(function, next(_numbers))
    code, cells = function.__code__, function.__closure__ or ()
    made = number, marshal.dumps(code), function.__name__, function.__module__, len(cells)
    used = {one: function.__globals__[one] for one in _names(code) if one in function.__globals__}
    state = {
        "globals": used,
        "cells": [_content(cell) for cell in cells],
        "defaults": (function.__defaults__, function.__kwdefaults__),
        "more": (function.__qualname__, function.__dict__),
    }
    return _function, made, state, None, None, _fill


def _names(code: CodeType) -> Iterator[str]:
    """What code may look for among globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def _function(number: int, code: bytes, called: str, module: str, cells: int) -> FunctionType:
    """The function of a number, if it is here, or else one that is still to be filled."""
    found = _here.get(number)
    if found is None:
        space = {"__builtins__": builtins, "__name__": module}
        closure = tuple(CellType() for _ in range(cells))
        found = _here[number] = FunctionType(marshal.loads(code), space, called, None, closure)
    return found


def _fill(function: FunctionType, state: dict[str, Any]) -> None:
    if function.__globals__.get(EMPTY):
        return  # it came before, and may have changed what it refers to
    function.__globals__.update(state["globals"])
    function.__globals__[EMPTY] = True
    function.__defaults__, function.__kwdefaults__ = state["defaults"]
    function.__qualname__ = state["more"][0]
    function.__dict__.update(state["more"][1])
    for cell, content in zip(function.__closure__ or (), state["cells"], strict=True):
        if content != EMPTY:
            cell.cell_contents = content
