"""Work that sessions hand in: what is to be done, whom to tell of it, and what else may be done with it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.records import dataclass

if TYPE_CHECKING:
    from kpg.engine import Engine
    from kpg.keyed import Keyed, Merged
    from kpg.sessions.session import Session


class Ready(NamedTuple):
    """Rows that a statement only has to add to a table, and what it gives once they are there."""

    table: str
    words: NDArray[np.int64]
    result: Any


class Promise(Protocol):
    """Who waits for work: a ``concurrent.futures.Future``, or what is told as one is."""

    def set_running_or_notify_cancel(self) -> bool:
        """The work begins; False if nobody wants it any more."""

    def set_result(self, result: Any, /) -> None:
        """It is done."""

    def set_exception(self, exception: BaseException, /) -> None:
        """It has failed."""


@dataclass(slots=True, eq=False)
class Job:
    """Work of a session. ``gathers``: it is a statement whose commit may wait for others, if this is so."""

    session: "Session"
    work: Callable[[], Any]
    promise: Promise
    gathers: "bool | Callable[[Engine], bool]" = False
    rows: "Callable[[Engine], Ready | Keyed | Merged | None] | None" = None
    """The rows, if adding these is all that it does, or the plan, if it changes one row by its key."""
    light: "Callable[[Engine], bool] | None" = None
    """Whether it takes about as long as to have another thread do it."""
    rolls_back: bool = False
    commits: bool = False
    """Whether it ends the transaction, whatever comes of it."""
