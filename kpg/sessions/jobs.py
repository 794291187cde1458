"""Work that sessions hand in: what is to be done, whom to tell of it, and what else may be done with it."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InterfaceError
from kpg.runtime.records import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kpg.engine.engine import Engine
    from kpg.sessions.hub import Hub
    from kpg.sessions.session import Session
    from kpg.statements.keyed import Keyed, Merged
    from kpg.statements.recipes import Recipe


class Ready(NamedTuple):
    """Rows that a statement only has to add to a table, and what it gives once they are there."""

    table: str
    words: NDArray[np.int64] | list[int]
    """``int64[w, n]``, or the words of one row."""
    result: Any
    recipe: "Recipe | None" = None
    """By which the row was made, if it was by one."""
    many: bool = False
    """Whether each row is a statement's of its own."""


class Job(Protocol):
    """Work of a session, and who waits for it."""

    session: "Session"
    rolls_back: bool
    commits: bool
    """Whether it ends the transaction, whatever comes of it."""
    returns: bool
    """Whether it returns to a savepoint, or as far as an error takes back."""

    @property
    def sessions(self) -> "Sequence[Session] | None":
        """Of statements of several sessions, which are only done together: they fail where that cannot be."""

    def work(self) -> Any:
        """Do it now: the engine is the session's."""

    def gathers(self, engine: "Engine") -> bool:
        """Whether it is a statement whose commit may wait for others."""

    def ready(self, engine: "Engine") -> "Ready | Keyed | Merged | None":
        """The rows, if adding these is all that it does, or the plan, if it changes one row by its key."""

    def is_light(self, engine: "Engine") -> bool:
        """Whether it takes about as long as to have another thread do it."""

    def begin(self) -> bool:
        """The work begins; False if nobody wants it any more."""

    def succeed(self, result: Any) -> None:
        """It is done."""

    def fail(self, error: BaseException) -> None:
        """It has failed."""


class Promise(Protocol):
    """Who waits for work: a ``concurrent.futures.Future``, or what is told as one is."""

    def set_running_or_notify_cancel(self) -> bool:
        """The work begins; False if nobody wants it any more."""

    def set_result(self, result: Any, /) -> None:
        """It is done."""

    def set_exception(self, exception: BaseException, /) -> None:
        """It has failed."""


@dataclass(slots=True, eq=False)
class Given:
    """A job that is made of functions. ``adds``: whether it gathers, if that is so in any case."""

    session: "Session"
    do: Callable[[], Any]
    promise: Promise
    adds: "bool | Callable[[Engine], bool]" = False
    rows: "Callable[[Engine], Ready | Keyed | Merged | None] | None" = None
    light: "Callable[[Engine], bool] | None" = None
    rolls_back: bool = False
    commits: bool = False
    returns: bool = False

    @property
    def sessions(self) -> None:
        """See Job."""

    def work(self) -> Any:
        """See Job."""
        return self.do()

    def gathers(self, engine: "Engine") -> bool:
        """See Job."""
        return self.adds if isinstance(self.adds, bool) else self.adds(engine)

    def ready(self, engine: "Engine") -> "Ready | Keyed | Merged | None":
        """See Job."""
        return None if self.rows is None else self.rows(engine)

    def is_light(self, engine: "Engine") -> bool:
        """See Job."""
        return self.light is not None and self.light(engine)

    def begin(self) -> bool:
        """See Job."""
        return self.promise.set_running_or_notify_cancel()

    def succeed(self, result: Any) -> None:
        """See Job."""
        self.promise.set_result(result)

    def fail(self, error: BaseException) -> None:
        """See Job."""
        self.promise.set_exception(error)


def wait_a_little(future: "Future[Any]") -> None:
    """Return when it is done, or soon."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    done.wait(0.005)


def amid(hub: "Hub", session: "Session", work: Callable[[], Any], how: Mapping[str, Any]) -> Any:
    """What comes in the middle of a statement of the same thread: only an end, which is done after that.

    The collector of garbage may bring one at any instant, of a connection that nobody has any more.
    """
    if not how.get("rolls_back"):
        raise InterfaceError("a statement is running in this thread", hint="ask in another thread, or later")
    hub.submit(session, work, **how)
    return None
