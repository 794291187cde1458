"""Handles of an executor: installed plans, inputs, ranks of rows, and statistics.

Handles answer in words and numbers as of the last step, and never expose an operator or a table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InterfaceError
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

    from kpg.runtime.plan import Mfp

Words = NDArray[np.int64]
NOTHING: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Stats:
    """What a view cost: to install, and in the last step."""

    install_seconds: float
    arrangements_built: int
    arrangements_reused: int
    last_step_seconds: float
    rows: int


@dataclass(frozen=True, slots=True)
class ArrangementInfo:
    """One shared index: what it is of, its size, and the views that hold it."""

    description: str
    rows: int
    bytes: int
    batches: int
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """One operator: its place, its work since it was made, and the views that hold it."""

    position: int
    description: str
    inputs: tuple[int, ...]
    updates_in: int
    updates_out: int
    rows: int
    bytes: int
    seconds: float
    readers: tuple[str, ...]
    loop: int | None = None
    """The place of the loop that it is in; None outside of loops."""
    arranged: bool = False
    """Whether it is an index that others may share."""
    rounds: int = 0
    """Of a loop: the rounds of its last step."""
    step_seconds: float = 0.0
    """What it took in the last step; 0 if it had nothing to do."""


@dataclass(frozen=True, slots=True)
class OverlayInfo:
    """The overlay of an ego view: its sizes, how it was built, what is pushed, and what that is to cost."""

    construction: str
    writers: int
    readers: int
    partials: int
    edges: int
    direct: int
    """Edges there would be without partial aggregates."""
    sharing: float
    depth: float
    """The mean over readers of the longest path from a writer."""
    levels: tuple[tuple[int, int, int], ...]
    """Of each level, how many nodes are pushed, how many pulled, and how many edges they have."""
    pushed: int
    pulled: int
    decided: str
    left: int
    """Nodes that pruning has not decided."""
    write: float
    read: float
    """Expected microseconds."""
    build_seconds: float
    bytes: int
    patches: int
    flips: int
    rebuilt: int


@dataclass(frozen=True, slots=True)
class Heavy:
    """A key of which one worker has more than its share: about ``rows`` of an index's ``total``."""

    index: str
    key: str
    rows: int
    total: int

    @property
    def shown(self) -> str:
        """In words."""
        return f"{self.index}: {self.key} has {self.rows / self.total:.0%} of {self.total} rows"


@dataclass(frozen=True, slots=True)
class Work:
    """What one worker keeps and has done: processor time, rows sent to others and from them, meetings."""

    rows: int
    bytes: int
    seconds: float
    sent: int = 0
    received: int = 0
    meetings: int = 0
    heavy: tuple[Heavy, ...] = ()


class RankLookup(Protocol):
    """In which round of a recursion rows came: its state, to be asked between steps.

    With ``gone``, rows count too that were there in some round and then no more.
    """

    @property
    def width(self) -> int:
        """The columns of a row."""

    def __len__(self) -> int:
        """The number of rows that the state tells of."""

    def of(self, rows: Words, *, gone: bool = False) -> Words:
        """The rank of each row ``int64[w, n]``, -1 where it is not there. O(n)."""

    def every(self, *, gone: bool = False) -> tuple[Words, Words]:
        """All rows ``int64[w, n]`` and their ranks ``int64[n]``."""


class Offered(NamedTuple):
    """Where rows are fetched, each place having some of them, by who knows the secret."""

    places: list[tuple[str, int]]
    secret: bytes
    schemas: "list[pa.Schema]"
    """The Arrow types of what each place has: where there are only NULLs, ``null``."""


class Berth(NamedTuple):
    """Where the rows of a load go: each place, by who knows the secret, has those that are its own.

    A row is ``pmod(xxhash64(v), n)``'s among n places, where v is the word of its column ``home``, or its
    text; that of a NULL is of place ``nulls``.
    """

    load: str
    table: str
    places: list[tuple[str, int]]
    secret: bytes
    home: int
    nulls: int


class Unique(NamedTuple):
    """Columns that a table is unique in; rows with a NULL there are like no others if these are distinct."""

    columns: tuple[int, ...]
    nulls_distinct: bool = True


class Rules(NamedTuple):
    """What rows of a load are held to besides what their table does by itself.

    ``checks`` gives for a row one value for each CHECK; ``refuse`` raises the error for a row that fails one.
    """

    checks: "Mfp | None"
    refuse: Callable[[NDArray[np.int64]], object] | None


class Taken(NamedTuple):
    """How many rows of a load there are, and what the caller has to insert: or, if that is nothing because

    workers have them, their rowids, from the first on and before the second.
    """

    rows: int
    left: Iterator[NDArray[np.int64]]
    rowids: tuple[int, int] | None


def not_offered() -> InterfaceError:
    """Why contents that are in this process, or in memory of this machine, cannot be fetched."""
    return InterfaceError(
        "Spark reads views from workers on Spark, which this database has not",
        hint="open it with spark=session, or give session.createDataFrame(view.arrow())",
    )


class Installation(Protocol):
    """A plan that is kept up to date. What is read is as of the last step."""

    @property
    def name(self) -> str:
        """What the plan was installed as."""

    @property
    def stats(self) -> Stats:
        """What it cost."""

    @property
    def place(self) -> int:
        """The place of the operator whose contents it has (``OperatorInfo.position``)."""

    @property
    def watched(self) -> bool:
        """Whether changes are captured."""

    @property
    def size(self) -> int:
        """About how many rows the contents have."""

    def rows(self, equal: Mapping[int, int] = NOTHING) -> tuple[Words, Words]:
        """The contents: distinct rows ``int64[width, m]`` and their multiplicities ``int64[m]``.

        Rows that have other words than these in these columns may be left out: who asks looks at what comes.
        """

    def matching(self, prefix: Sequence[int]) -> tuple[Words, Words]:
        """The rows that begin with these words, and their multiplicities; the output must be arranged."""

    def rows_of(self, keys: Words) -> tuple[NDArray[np.bool_], Words]:
        """Of an ego view, which of some readers have a row, and rows for all of them."""

    def lists_of(self, keys: Words) -> tuple[Words, Words] | None:
        """Of an ego view whose values are arrays, how long readers' are, and the elements; None: by rows."""

    def overlay(self) -> "OverlayInfo | None":
        """What an ego view is computed by; None of others."""

    def decide(self) -> None:
        """Have an ego view's labels be decided anew, by what was observed."""

    def choose(self, readers: Words | None) -> object:
        """Of an ego view that is watched, have changes of these readers be captured only; None: of all."""

    def drain(self) -> list[Updates]:
        """The consolidated changes of each step since the last call; it must be watched."""

    @property
    def remembers(self) -> int | None:
        """The epoch since which all changes are kept; None if they are not."""

    def changes(self, since: int) -> list[Updates]:
        """The changes after an epoch since which they are kept: consolidated, step by step."""

    def rows_then(self, epoch: int) -> tuple[Words, Words]:
        """As :meth:`rows`, as of an epoch since which changes are kept."""

    def heard(self, listener: int) -> list[Updates]:
        """What the plan's sink of that number got, in committed steps since the last call."""

    def ignore(self, listener: int) -> None:
        """Have a sink keep nothing more; what it has kept can still be heard."""

    def offered(self, names: Sequence[str], types: Sequence[Type]) -> AbstractContextManager[Offered]:
        """Have others fetch the contents from where they are, the columns that have names.

        InterfaceError unless they are at workers that others reach.
        """

    def is_final(self) -> bool:
        """Whether nothing in the plan can ever change again."""

    def own_state(self, prefix: str) -> tuple[int, int]:
        """Rows and bytes of what only installations hold whose names begin with ``prefix``."""

    def ranks(self) -> RankLookup | None:
        """The ranks of the rows, where the output is a recursive set; None if it is anything else."""

    def first_rounds(self) -> tuple[Words, Words] | None:
        """All rows that a least or greatest value in a loop was taken of, and the round that each came in.

        None if the output is anything else.
        """


class InputHandle(Protocol):
    """Updates that a program gives, at times of its own, buffered until a step takes them.

    ``time`` is the first at which something may still come, ``asked`` the one that was asked for last: a
    commit that closes an epoch moves ``time`` past it.
    """

    @property
    def identity(self) -> str:
        """What plans call the input."""

    @property
    def time(self) -> int: ...

    @property
    def asked(self) -> int: ...

    @property
    def open(self) -> bool:
        """Whether something may still come."""

    def stage(self, row: tuple[int, ...]) -> None:
        """Buffer one update: the words of its row, its time, not before ``time``, and its diff."""

    def add(self, updates: Updates) -> None:
        """Buffer updates at times not before ``time``."""

    def gather(self) -> None:
        """Add up equal updates in the buffer. DataError if a sum of diffs does not fit 64 bits."""

    def clear(self) -> int:
        """Forget what is buffered; how many updates."""

    def advance_to(self, time: int) -> None:
        """Have nothing more come before ``time``."""

    def close(self) -> None:
        """Have nothing more come than what is buffered."""
