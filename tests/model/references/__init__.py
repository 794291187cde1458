"""What each kernel computes, said in plain Python: lists, dictionaries, integers without bounds.

A module has the references of one or a few kernel files. A *reference* is a function of a kernel's
arguments, as they are before the call, that gives what is expected; ``cases`` makes arguments at random,
among them the smallest and largest words and nothing at all; ``observed`` reads the same off the result and
the arguments as they are afterwards. To add one: a function under ``@reference("file.kernel", ...)``.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Random = np.random.Generator
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A kernel's arguments, and, if those are addresses, what they lead to."""

    arguments: Arguments
    known: Any = None


@dataclass(frozen=True)
class Reference:
    """How one kernel is tested: ``name`` is that of its file and its own."""

    name: str
    expected: Callable[[Case], Any]
    cases: Callable[[Random], Iterable[Case | Arguments]]
    observed: Callable[..., Any]


def reference(
    name: str,
    cases: Callable[[Random], Iterable[Case | Arguments]],
    observed: Callable[..., Any],
    *,
    knows: bool = False,
) -> Callable[[Callable[..., Any]], Reference]:
    """Declare the reference of a kernel: a function of its arguments, with ``knows`` after ``Case.known``."""

    def declare(function: Callable[..., Any]) -> Reference:
        def expected(case: Case) -> Any:
            return function(case.known, *case.arguments) if knows else function(*case.arguments)

        return Reference(name, expected, cases, observed)

    return declare


def every_reference() -> dict[str, Reference]:
    """All references, by the kernels that they are of."""
    found: list[Reference] = []
    for module in pkgutil.iter_modules(__path__):
        names = vars(importlib.import_module(f"{__name__}.{module.name}"))
        found += [value for value in names.values() if isinstance(value, Reference)]
    return {one.name: one for one in found}
