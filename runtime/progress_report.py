"""Progress reporting of long operations, for a terminal or a notebook.

Long operations report their progress at almost no cost without an observer. A process has at most
one observer.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, TypeVar

T = TypeVar("T")


class ProgressCallback(Protocol):
    """Callback that receives the progress; it may be called as often as needed."""

    def __call__(self, done: int, total: int | None = None, note: str = "") -> None:
        """Report ``done`` of ``total`` units, if known; ``note`` describes the current item."""


Observer = Callable[[str, str], AbstractContextManager[ProgressCallback]]
"""Function from a task and its unit to a context that yields the callback."""


def _ignore_progress(done: int, total: int | None = None, note: str = "") -> None:
    pass


_NO_OBSERVER: Final = nullcontext[ProgressCallback](_ignore_progress)
_observers: Final = list[Observer]()


def set_observer(observer: Observer | None) -> None:
    """Set or remove the observer of operations that begin from now on."""
    _observers[:] = [] if observer is None else [observer]


def is_observed() -> bool:
    """Return whether there is an observer."""
    return bool(_observers)


def report_progress(task: str, unit: str) -> AbstractContextManager[ProgressCallback]:
    """Return a context that reports a task.

    ``with report_progress("loading t", "rows") as report: ... report(rows)``
    """
    return _observers[0](task, unit) if _observers else _NO_OBSERVER


def iterate_with_progress(items: Sequence[T], task: str, unit: str) -> Generator[T, None, None]:
    """Yield the items and report each as done when the next is requested."""
    with report_progress(task, unit) as tell:
        for place, item in enumerate(items):
            tell(place, len(items))
            yield item
