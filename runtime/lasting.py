"""What one may ask of an executor whose tables and views outlive its process: a part of its protocol."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]

MANY: Final = 8192
"""So many rows at once are shown to the recorder before they are appended: a thread of its own may pack them
meanwhile, and to wake it takes about as long as to append a thousand."""


class Changed(Protocol):
    """What one epoch changed in one table: rowids that went (-1), then rowids that came (+1)."""

    @property
    def epoch(self) -> int: ...

    @property
    def table(self) -> str: ...

    @property
    def changes(self) -> Sequence[tuple[Words, int]]: ...


class Recorder(Protocol):
    """Who keeps what is committed."""

    def foresee(self, words: Words) -> Callable[[], Any] | None:
        """Many rows ``int64[ncols, n]``, contiguous, are being appended to a table, and may be committed.

        What gives something to be told again of these rows by ``Executor.foreseen``; they must not change
        before it has. None if there is nothing.
        """

    def load(self) -> None:
        """Rows that come now are loaded in bulk: until the next commit they are written once, if they can."""

    def shelve(self, count: int) -> list[int]:
        """Numbers of so many packs that workers write rows into, for the next commit to name."""

    def unshelve(self, numbers: Collection[int]) -> None:
        """No commit is going to name them."""

    def expect(self, changed: Sequence[Changed]) -> None:
        """Changes are going through everything installed, to be recorded or cancelled afterwards."""

    def cancel(self) -> None:
        """They never were; or, where they are recorded, something else is the case than what is recorded."""

    def record(self, epoch: int, changed: Sequence[Changed]) -> None:
        """Keep the changes that lead to an epoch; if this raises, they never were."""


class Lasting(Protocol):
    """See the module."""

    recorder: Recorder | None
    """Asked at the end of each step, before anything is final."""
    tables_made: int
    """The highest number that a table has had."""

    def vacuum(self, relations: Collection[str]) -> int:
        """Give up what deleted rows of tables take, and what the traces of these and of views keep of earlier

        epochs. How many rows had their places given up; not with pending changes.
        """

    def capture(self) -> object:
        """All that tables and installations keep, as data (``runtime/saved``); not with pending changes."""

    def restore(
        self, state: object, read: Callable[[Any], Any], reread: Callable[[], Callable[[Any], Any]]
    ) -> None:
        """Have tables and installations that are then made keep what they kept where it was captured.

        The executor must be new; ``read`` gives the arrays of what stands for them in the state,
        ``reread`` makes such a reader for a branch, beside which this one goes on.
        """

    @property
    def versions_restored(self) -> Mapping[str, object]:
        """What tables and operators were when they had just been restored, as captured leaves tell it."""

    def restored(self) -> list[str]:
        """All is there that is to keep what it kept; what of it had to be computed."""

    def keeps(self, table: str, uniques: Sequence[str]) -> bool:
        """Whether a table keeps what it kept, unique in nothing but what was added under these names."""

    def replay(self, epoch: int, table: str, gone: Words, rowids: Words, words: Words) -> None:
        """Do again what an epoch did to a table: rows that went, and ``words[ncols, n]`` that came."""

    def replayed(self, epoch: int) -> None:
        """Take all that was done again through everything installed: it is as of an epoch."""
