"""Handles of an executor: installed plans, inputs, ranks of rows, and statistics.

Handles return words and numbers as of the last step, and never expose an operator or a table.
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
NO_FILTER: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Stats:
    """Cost of a view: of its installation, and of the last step."""

    install_seconds: float
    arrangements_built: int
    arrangements_reused: int
    last_step_seconds: float
    rows: int


@dataclass(frozen=True, slots=True)
class ArrangementInfo:
    """One shared arrangement: its description, its size, and the views that use it."""

    description: str
    rows: int
    bytes: int
    batches: int
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """One operator: its position, its work since its creation, and the views that use it."""

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
    """Position of the enclosing loop; None outside loops."""
    arranged: bool = False
    """Whether it is an arrangement that others may share."""
    rounds: int = 0
    """For a loop: the rounds of its last step."""
    step_seconds: float = 0.0
    """Time in the last step; 0 if it had no work."""


@dataclass(frozen=True, slots=True)
class OverlayInfo:
    """Overlay of an ego view: its sizes, its construction, its push decisions, and their expected costs."""

    construction: str
    writers: int
    readers: int
    partials: int
    edges: int
    direct: int
    """Number of edges without partial aggregates."""
    sharing: float
    depth: float
    """Mean over readers of the longest path from a writer."""
    levels: tuple[tuple[int, int, int], ...]
    """For each level, the numbers of pushed nodes, pulled nodes, and edges."""
    pushed: int
    pulled: int
    decided: str
    left: int
    """Number of nodes that pruning leaves undecided."""
    write: float
    read: float
    """Expected microseconds, as in ``write``."""
    build_seconds: float
    bytes: int
    patches: int
    flips: int
    rebuilt: int


@dataclass(frozen=True, slots=True)
class SkewedKey:
    """Key with more than its share at one worker: about ``rows`` of an index's ``total``."""

    index: str
    key: str
    rows: int
    total: int

    @property
    def description(self) -> str:
        """Description for users."""
        return f"{self.index}: {self.key} has {self.rows / self.total:.0%} of {self.total} rows"


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """State and work of one worker: processor time, rows sent and received, barriers."""

    rows: int
    bytes: int
    seconds: float
    sent_rows: int = 0
    received_rows: int = 0
    barriers: int = 0
    skewed_keys: tuple[SkewedKey, ...] = ()


class RankLookup(Protocol):
    """State of a recursion that tells the round in which each row appeared; used between steps.

    With ``include_deleted``, rows count that appeared in some round and disappeared in a later one.
    """

    @property
    def width(self) -> int:
        """Number of columns of a row."""

    def __len__(self) -> int:
        """Return the number of rows in the state."""

    def ranks_of(self, rows: Words, *, include_deleted: bool = False) -> Words:
        """Return the rank of each row ``int64[w, n]``, -1 for a missing row. O(n)."""

    def all_ranks(self, *, include_deleted: bool = False) -> tuple[Words, Words]:
        """Return all rows ``int64[w, n]`` and their ranks ``int64[n]``."""


class ExportLocations(NamedTuple):
    """Addresses from which an export's rows are fetched, with the secret that permits it.

    Each has some of the rows.
    """

    addresses: list[tuple[str, int]]
    secret: bytes
    schemas: "list[pa.Schema]"
    """Arrow schema at each address; the type of a column with only NULLs is ``null``."""


class LoadTarget(NamedTuple):
    """Addresses to which a load sends its rows, with the secret that permits it.

    Each receives its own rows. Among n addresses, a row belongs to number ``pmod(xxhash64(v), n)``,
    where v is the word of its column ``home``, or its text. A row with NULL there belongs to number
    ``nulls``.
    """

    load: str
    table: str
    addresses: list[tuple[str, int]]
    secret: bytes
    home: int
    nulls: int


class Unique(NamedTuple):
    """Columns of a unique constraint; with ``nulls_distinct``, rows with a NULL in them never conflict."""

    columns: tuple[int, ...]
    nulls_distinct: bool = True


class LoadRules(NamedTuple):
    """Constraints of a load's rows besides those of the table itself.

    ``checks`` computes one value per CHECK for a row; ``raise_violation`` raises the error for a
    failing row.
    """

    checks: "Mfp | None"
    raise_violation: Callable[[NDArray[np.int64]], object] | None


class LoadResult(NamedTuple):
    """Number of a load's rows, and the rows that the caller has to insert.

    If workers have the rows, the latter are empty and ``rowids`` is their range, end exclusive.
    """

    rows: int
    remaining: Iterator[NDArray[np.int64]]
    rowids: tuple[int, int] | None


def export_error() -> InterfaceError:
    """Return the error for an export of contents that are only in this process or on this machine."""
    return InterfaceError(
        "Spark reads views from workers on Spark, which this database does not have",
        hint="open it with spark=session, or give session.createDataFrame(view.arrow())",
    )


class Installation(Protocol):
    """A plan whose result is maintained. Reads are as of the last step."""

    @property
    def name(self) -> str:
        """Name under which the plan was installed."""

    @property
    def stats(self) -> Stats:
        """Cost of the plan."""

    @property
    def operator_position(self) -> int:
        """Position of the output operator (``OperatorInfo.position``)."""

    @property
    def is_watched(self) -> bool:
        """Whether changes are captured."""

    @property
    def size(self) -> int:
        """Approximate number of rows."""

    def rows(self, equal: Mapping[int, int] = NO_FILTER) -> tuple[Words, Words]:
        """Return the contents: distinct rows ``int64[width, m]`` and their multiplicities ``int64[m]``.

        Rows without the words ``equal`` (by column) may be missing; the caller filters the result.
        """

    def rows_with_prefix(self, prefix: Sequence[int]) -> tuple[Words, Words]:
        """Return the rows that begin with these words, and their multiplicities.

        The output must be an arrangement.
        """

    def rows_of(self, keys: Words) -> tuple[NDArray[np.bool_], Words]:
        """Return, for an ego view, which readers have a row, and rows for all of them."""

    def arrays_of(self, keys: Words) -> tuple[Words, Words] | None:
        """Return, for an ego view with array values, their lengths by reader, and the elements.

        Returns None otherwise.
        """

    def overlay(self) -> "OverlayInfo | None":
        """Return the overlay's statistics for an ego view; None otherwise."""

    def decide_pushes(self) -> None:
        """Recompute an ego view's push decisions from the observed traffic."""

    def capture_readers(self, readers: Words | None) -> object:
        """Restrict the captured changes of a watched ego view to these readers; None captures all."""

    def drain(self) -> list[Updates]:
        """Return the consolidated changes of each step since the last call; it must be watched."""

    @property
    def history_since(self) -> int | None:
        """Epoch since which all changes are kept; None if they are not kept."""

    def changes_after(self, since: int) -> list[Updates]:
        """Return the kept changes after an epoch, consolidated, step by step."""

    def rows_as_of(self, epoch: int) -> tuple[Words, Words]:
        """Return :meth:`rows` as of an epoch that the kept changes cover."""

    def drain_sink(self, listener: int) -> list[Updates]:
        """Return the updates of the plan's sink with that number in committed steps since the last call."""

    def close_sink(self, listener: int) -> None:
        """Stop a sink; its buffered updates can still be drained."""

    def export(self, names: Sequence[str], types: Sequence[Type]) -> AbstractContextManager[ExportLocations]:
        """Let other processes fetch the named columns of the contents from the workers.

        Raises:
            InterfaceError: If the contents are not on reachable workers.
        """

    def is_final(self) -> bool:
        """Return whether the contents can never change again."""

    def exclusive_state(self, prefix: str) -> tuple[int, int]:
        """Return rows and bytes of state that only installations with names beginning with ``prefix`` use."""

    def ranks(self) -> RankLookup | None:
        """Return the ranks of the rows if the output is a recursive set; None otherwise."""

    def first_rounds(self) -> tuple[Words, Words] | None:
        """Return all input rows of a min or max in a loop, and the round in which each appeared.

        Returns None otherwise.
        """


class InputHandle(Protocol):
    """Updates of a program at times that it chooses, buffered until a step processes them.

    ``time`` is the first time at which updates may follow, ``user_time`` the one that the program has
    last set: a commit that closes an epoch moves ``time`` past it.
    """

    @property
    def identity(self) -> str:
        """Identity of the input in plans."""

    @property
    def time(self) -> int: ...

    @property
    def user_time(self) -> int: ...

    @property
    def is_open(self) -> bool:
        """Whether updates may follow."""

    def stage(self, row: tuple[int, ...]) -> None:
        """Buffer one update: the words of its row, its time, not before ``time``, and its diff."""

    def add(self, updates: Updates) -> None:
        """Buffer updates at times not before ``time``."""

    def consolidate_buffer(self) -> None:
        """Consolidate the buffer.

        Raises:
            DataError: If a sum of diffs does not fit 64 bits.
        """

    def clear(self) -> int:
        """Discard the buffer and return the number of its updates."""

    def advance_to(self, time: int) -> None:
        """Promise that no update before ``time`` will follow."""

    def close(self) -> None:
        """Promise that no update will follow."""
