"""Progress of long work, for a terminal or a notebook.

Long operations report how far they are, at almost no cost while nobody observes. A process has at most one
observer.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, TypeVar

T = TypeVar("T")


class Tell(Protocol):
    """Told again and again, as often as one likes, how far the work has come."""

    def __call__(self, done: int, total: int | None = None, note: str = "") -> None:
        """So much is done, of so much in all if that is known; ``note`` is what is just being done."""


Looker = Callable[[str, str], AbstractContextManager[Tell]]
"""Given what is to be done, and the unit in which it is counted, once it begins."""


def _unheard(done: int, total: int | None = None, note: str = "") -> None:
    pass


_NOBODY: Final = nullcontext[Tell](_unheard)
_lookers: Final = list[Looker]()


def look(looker: Looker | None) -> None:
    """Have what is under way from now on be told to somebody else, or nobody."""
    _lookers[:] = [] if looker is None else [looker]


def looked_at() -> bool:
    """Whether anybody is told."""
    return bool(_lookers)


def work(what: str, unit: str) -> AbstractContextManager[Tell]:
    """While within, something is done: ``with work("loading t", "rows") as tell: ... tell(rows)``."""
    return _lookers[0](what, unit) if _lookers else _NOBODY


def counted(items: Sequence[T], what: str, unit: str) -> Generator[T, None, None]:
    """The items, each of which is some work done when the next is asked for."""
    with work(what, unit) as tell:
        for place, item in enumerate(items):
            tell(place, len(items))
            yield item
