"""What the engine knows of a dataflow: a Datalog program, a dataflow of collections."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kpg.compiler.catalog.privileges import Asker
from kpg.listeners.notifications import Notification
from kpg.runtime.errors import DataError

if TYPE_CHECKING:
    from kpg.proof import Proof


class Opened(NamedTuple):
    """A portal that a client has opened: its name, the text, when it was made, and what it runs."""

    name: str
    text: str
    moment: int
    statement: object


class Asking(Protocol):
    """A session, as far as roles and open queries go."""

    asker: Asker
    portals: Callable[[], list[Opened]]


class Sessions(Protocol):
    """All sessions of a database, as statements of one of them ask for them."""

    @property
    def memory_bound(self) -> int:
        """Bytes that no statement may go beyond, 0 for as many as there are."""

    @property
    def sessions(self) -> Mapping[int, Asking]:
        """Those that are not closed, by their numbers."""

    def admit_owner(self) -> None:
        """Have the engine's transaction and settings be the database's own, unless a statement is running."""

    def before_defining(self) -> None:
        """Have a definition in a transaction wait for statements that are in the middle of being planned."""

    def end(self, number: int, wholly: bool) -> bool:
        """End what the session of a number does or, ``wholly``, the session; whether there is one."""

    def export(self) -> str:
        """The name of what the present transaction sees, by which others can see the same while it lasts."""

    def join(self, name: str) -> None:
        """Have the present transaction see what the one sees that has given the name."""


class Client(Protocol):
    """A dataflow, as the engine sees it."""

    def pull(self) -> None:
        """Bring what is new into the inputs, before a step."""

    def notifications(self) -> Iterator[Notification]:
        """Whom to tell of a commit."""

    def retire(self) -> None:
        """Give up what can never change again, of which everybody has been told."""

    def drop(self) -> None:
        """Give everything up."""

    def place(self, error: DataError) -> None:
        """Give an error that has no place in a text its place, if it is here that it came from."""

    def prover(self, name: str) -> "Callable[[Any], Proof] | None":
        """What proves rows of a relation; None for one that it does not derive by rules."""
