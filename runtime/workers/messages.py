"""What a coordinator and its members say to each other."""

import pickle
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.runtime.plan import Types
from kpg.runtime.sharing.memory import Memory, Shown
from kpg.runtime.sharing.strings import Delta
from kpg.runtime.trace.updates import Updates
from kpg.runtime.workers import by_value
from kpg.runtime.workers.wire import packed

Words = NDArray[np.int64]


STEPS: Final = frozenset({"put", "change", "consider", "audit", "dangling"})
"""What members do together, meeting on the way."""


TOLD: Final = frozenset({"settle"})
"""What members do without answering: they end if they cannot."""


class Command(NamedTuple):
    """A method of a member, and what to learn before it is called: strings, and where tables' rows are.

    What there is nothing of is None, which takes less to send.
    """

    method: str
    args: tuple[object, ...]
    learn: Delta | None
    shown: tuple[Shown, ...] = ()


class Each(NamedTuple):
    """What is another argument for each member."""

    values: tuple[object, ...]


def commands(command: Command, count: int) -> list[Command]:
    """What each of so many members is told: one and the same, if there is nothing else for any of them."""
    if not any(isinstance(one, Each) for one in command.args):
        return [command] * count
    return [
        command._replace(
            args=tuple(one.values[index] if isinstance(one, Each) else one for one in command.args)
        )
        for index in range(count)
    ]


class Reply(NamedTuple):
    """What a member answers; texts in it are common words, which need the strings of ``delta``."""

    value: object
    delta: Delta | None
    error: BaseException | None = None
    aside: bool = False
    """Whether it failed because another one did."""
    order: tuple[int, int] = (0, 0)
    """When it failed: how many meetings before, and which operator."""


class Changed(NamedTuple):
    """What an epoch changed in a table: rowids that went, rowids that came, and their words.

    ``after`` is how many rowids and rows it has then. Where members see the rows there are no ``words``; nor
    are there of those that have come to them by a ``load``.
    """

    epoch: int
    table: str
    gone: Words | None
    rowids: Words | tuple[int, int] | None
    words: Words | None
    after: tuple[int, int]
    load: str | None = None


class MemberGoneError(OperationalError):
    """A member has ended, and the others with it."""


class UnsendableError(InterfaceError):
    """What members are to do has something in it that only this process has."""


class Crew(Protocol):
    """The members, as their coordinator has them."""

    @property
    def count(self) -> int: ...

    @property
    def memory(self) -> Memory | None:
        """What its members have in common with this process; None if everything is sent to them."""

    @property
    def hosts(self) -> list[str]:
        """The addresses at which others reach its members; none if they are this process's alone."""

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """Have all members do something, and wait for what they answer.

        When ``poll`` raises, members end what they do; what it raised is given, too. MemberGoneError if one
        has ended: nobody is there any more. UnsendableError if nobody was asked.
        """

    def tell(self, command: Command) -> None:
        """Have all members do one of ``TOLD`` before anything else; MemberGoneError."""

    def again(self) -> None:
        """Start new ones in the place of those that are gone, who know nothing yet."""

    def close(self) -> None:
        """Give them up."""


class Sealed(NamedTuple):
    """What is read once all else of a command has been: there may be in it what a member has not."""

    content: bytes


def sealed(command: Command) -> Command:
    """A command whose arguments may be functions."""
    return command._replace(args=(Sealed(by_value.pickled(command.args)),))


def unsealed(args: tuple[object, ...], worker: int) -> tuple[object, ...]:
    """The arguments of a command; InterfaceError if something in them is not at the worker."""
    if not args or not isinstance(args[0], Sealed):
        return args
    try:
        found: tuple[object, ...] = pickle.loads(args[0].content)
    except (ImportError, AttributeError) as error:
        raise InterfaceError(
            f"worker {worker} cannot import what is installed: {error}",
            hint="workers import functions of modules by their names: have the module where they run, too, "
            "or write the function in the program itself, which is sent",
        ) from None
    return found


def sent(command: Command) -> list[memoryview]:
    """The pieces of a message of it; UnsendableError."""
    try:
        return packed(sealed(command) if command.method == "put" else command)
    except (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise UnsendableError(
            f"what is installed has something in it that workers cannot get: {error}",
            hint="functions of several workers cannot refer to the database, to open files or connections, "
            "nor to classes of the program that was started",
        ) from None


def shortened(rowids: Words) -> Words | tuple[int, int] | None:
    """Ascending rowids, as the first one and the end if they follow each other."""
    count = rowids.shape[0]
    if not count:
        return None
    if int(rowids[-1]) - int(rowids[0]) == count - 1:
        return int(rowids[0]), int(rowids[-1]) + 1
    return rowids


def texts_of(types: Types) -> tuple[int, ...]:
    """The columns whose words are codes."""
    return tuple(place for place, type_ in enumerate(types) if type_.is_interned)


def with_columns(updates: Updates, columns: dict[int, Words]) -> Updates:
    """Updates with other words in some columns."""
    data = updates.data.copy()
    for place, words in columns.items():
        data[place] = words
    return updates.with_data(data)
