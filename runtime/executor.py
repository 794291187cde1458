"""The executor interface: everything that the database knows of the process that runs its plans.

The database (``kpg/``) compiles, keeps the catalog and reads results. An :class:`Executor` stores
tables, maintains installed plans, and owns the clock. Only data crosses the interface: names,
schemas, plans, arrays of words, numbers, and user functions inside plans. Handles
(:class:`Installation`, :class:`InputHandle`, :class:`handles.RankLookup`) return the same data and never
expose an operator or a table. So an executor can be in this process, on a server's thread, or in
many processes; ``runtime/executor_factory.py`` creates it.

:class:`Persistence` has the methods for state that survives the process.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.handles import (
    ArrangementInfo,
    InputHandle,
    Installation,
    LoadResult,
    LoadRules,
    LoadTarget,
    OperatorInfo,
    WorkerStatistics,
)
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.plan import Mfp, Plan
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from kpg.runtime.storage.packs import Sharded, ShardStore

Words = NDArray[np.int64]


MANY: Final = 8192
"""Rows of an insert from which the recorder is offered them before they are appended.

Another thread may pack them meanwhile; waking it takes about as long as appending a thousand rows.
"""


class TableChanges(Protocol):
    """Changes of one table in one epoch: rowids deleted (-1), then rowids inserted (+1)."""

    @property
    def epoch(self) -> int: ...

    @property
    def table(self) -> str: ...

    @property
    def changes(self) -> Sequence[tuple[Words, int]]: ...


class Recorder(Protocol):
    """Change recorder: makes commits durable."""

    def prepare_rows(self, words: Words) -> Callable[[], Any] | None:
        """Offer many rows ``int64[ncols, n]``, contiguous, that are being appended and may be committed.

        Returns None, or a function whose result ``TableAccess.prepared_rows`` returns for these rows. The
        rows must not change before the function has returned.
        """

    def begin_bulk_load(self) -> None:
        """Announce a bulk load: if possible, the rows until the next commit are written only once."""

    def reserve_packs(self, count: int) -> list[int]:
        """Reserve numbers of packs that workers write rows to, for the next commit to reference."""

    def release_packs(self, numbers: Collection[int]) -> None:
        """Release numbers that no commit will reference."""

    def prepare(self, changes: Sequence[TableChanges]) -> None:
        """Announce changes that a step is processing, to be recorded or cancelled afterwards."""

    def cancel(self) -> None:
        """Cancel the announced changes; if they have been recorded, record their undoing."""

    def record(self, epoch: int, table_changes: Sequence[TableChanges]) -> None:
        """Make the changes up to an epoch durable; if this raises, the step is rolled back."""


class Persistence(Protocol):
    """Methods of an executor for state that survives the process."""

    def vacuum(self, relations: Collection[str]) -> int:
        """Free deleted rows of tables and compact the traces of these tables and views.

        Returns the number of freed rows. Not allowed with pending changes.
        """

    def capture(self) -> object:
        """Return the state of all tables and installations as data; not allowed with pending changes."""

    def restore(
        self, state: object, read: Callable[[Any], Any], make_reader: Callable[[], Callable[[Any], Any]]
    ) -> None:
        """Provide captured state to tables and installations that are created afterwards.

        The executor must be new. ``read`` returns the arrays for their references in the state.
        ``make_reader`` makes such a reader for a branch, while this executor continues.
        """

    @property
    def restored_versions(self) -> Mapping[str, object]:
        """Versions of tables and operators right after their restore, in the form of captured leaves."""

    def finish_restore(self) -> list[str]:
        """End the restore and return descriptions of the recomputed parts."""

    def step_replayed(self, epoch: int) -> None:
        """Process all replayed changes in one step, which ends at ``epoch``."""


MAX_TIME: Final = 2**62
"""Upper bound of times: the sum of two fits 64 bits."""


class LoadStaging(Protocol):
    """Load path for rows that go directly to the workers that own them."""

    def open(self, table: str) -> LoadTarget:
        """Prepare workers to receive rows of a table.

        Raises:
            OperationalError: If they could not keep the rows.
        """

    def commit_load(self, target: LoadTarget, attempts: Sequence[int], rules: LoadRules | None) -> LoadResult:
        """Add the rows of these attempts, in order, to the table.

        Without ``rules`` only the caller can check the rows, and inserts them itself.

        Raises:
            IntegrityError: With nothing changed, for a row that violates a constraint; also whatever
            ``rules`` raise.
        """

    def find_dangling_row(
        self, table: str, rowids: tuple[int, int], columns: tuple[int, ...], target: str,
        target_columns: tuple[int, ...], *, is_full: bool,
    ) -> Words | None:  # fmt: skip
        """Return the first row loaded by workers whose key in some columns no row of the target table has.

        The result is ``int64[ncols, 1]``, or empty; None if only the caller can check. A key with a NULL is
        skipped, unless ``is_full`` (MATCH FULL) is set and some of it is not NULL.
        """

    def close(self, target: LoadTarget) -> None:
        """Discard received rows that were not committed."""


class TableAccess(Protocol):
    """Tables of an executor. Rows are words ``int64[ncols, n]``, in the order of the schema's columns."""

    recorder: Recorder | None
    """Called at the end of each step, before any operator commits."""
    last_table_number: int
    """Highest table number in use so far."""
    shard_store: "ShardStore | None"
    """Store of rows written by workers, if the database is in a folder."""

    def table_number(self, table: str) -> int:
        """Return a number that no other table has or had."""

    def add_unique(self, table: str, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """Add a unique constraint; with ``nulls_distinct`` rows with a NULL in the key never conflict.

        Raises:
            IntegrityError: If existing rows violate it.
        """

    def drop_unique(self, table: str, name: str) -> None:
        """Drop the unique constraint of that name."""

    def set_required(self, table: str, column: int, *, required: bool) -> None:
        """Set or drop NOT NULL on a column.

        Raises:
            IntegrityError: If the column has NULLs.
        """

    def set_schema(self, table: str, schema: Schema) -> Schema:
        """Rename a table's columns, with unchanged types and key, and return the previous schema."""

    def insert(self, table: str, words: Words) -> Words:
        """Append rows and return their rowids.

        Raises:
            IntegrityError: With nothing changed, for a NULL in a required column or a duplicate key.
        """

    def delete(self, table: str, rowids: Words) -> None:
        """Delete live rows.

        Raises:
            IntegrityError: With nothing changed, if a row is not live or occurs twice.
        """

    def find(self, table: str, keys: Words) -> Words:
        """Return the rowid of the row with each primary key ``keys[k, n]``, or -1."""

    def match(self, table: str, rows: Words) -> Words:
        """Return for each row the rowid of an equal one, or -1; equal rows get different rowids."""

    def find_unique(self, table: str, columns: tuple[int, ...], keys: Words) -> Words:
        """Return :meth:`find` by the columns of a unique constraint."""

    def find_all(self, table: str, columns: tuple[int, ...], keys: Words) -> tuple[Words, Words]:
        """Return key position and rowid of the rows with one of the keys ``keys[k, n]`` in some columns.

        O(keys + rows found) once an index exists, which the first call builds.
        """

    def rowids(self, table: str) -> Words:
        """Return the rowids of all rows."""

    def filter_live(self, table: str, rowids: Words) -> Words:
        """Return those rowids whose rows are live."""

    def fetch(self, table: str, rowids: Words) -> Words:
        """Return the rows with these rowids."""

    def scan(self, table: str, columns: Sequence[int] | None = None, *, committed: bool = False) -> Words:
        """Return all rows, or some columns of them; with ``committed``, without pending changes."""

    def count(self, table: str) -> int:
        """Return the number of rows, including pending changes."""

    def parts(self, table: str, rowids: Words) -> list[tuple[Words, Words]]:
        """Return :meth:`fetch` of live rows with ascending rowids, in parts.

        The parts are valid until the next commit.
        """

    def leading_ranges(self, table: str, rowids: Words) -> list[tuple[int, int, int, Words]]:
        """Return the ranges of new rows, ascending, that start at the beginning of a row group.

        Each is (start and end position, group number, columns ``int64[ncols, room]``).
        """

    def prepared_rows(self, table: str, rowids: Words) -> list[tuple[int, int, Any]]:
        """Return the ranges of new rows, ascending, that ``Recorder.prepare_rows`` has prepared.

        Each is (start and end position, result of the preparation).
        """

    # Pending changes

    def savepoint(self) -> object:
        """Return the current state of all tables, for :meth:`rollback_to`."""

    def rollback_to(self, savepoint: object) -> None:
        """Discard the changes of tables since a savepoint that is later than the last step."""

    def tables_with_changes(self) -> list[str]:
        """Return the tables that may have changes outside any closed epoch."""

    def changes_since(self, savepoint: object) -> list[tuple[str, Words, Words, Words]]:
        """Return the changes of each table since a savepoint, or since the last step for None.

        For each changed table: its name, the deleted rowids that existed before, the inserted rowids, and
        their rows.
        """

    @property
    def has_pending(self) -> bool:
        """Whether a table has changes that no step has processed."""

    def rollback(self) -> object:
        """Discard all changes that no step has processed."""

    # Recovery

    def has_restored(self, table: str, uniques: Sequence[str]) -> bool:
        """Return whether a table's state was restored, with exactly these unique constraints."""

    def replay(self, epoch: int, table: str, deleted: Words, rowids: Words, words: Words) -> None:
        """Reapply an epoch's changes of a table: deleted rows, and inserted rows ``words[ncols, n]``."""

    # History

    def history_since(self, table: str) -> int | None:
        """Return the epoch since which a table's history is known; None without history."""

    def mark_new(self, table: str) -> None:
        """Record that the table did not exist before this epoch: at earlier epochs it has no rows."""

    def is_known_at(self, table: str, epoch: int) -> bool:
        """Return whether a table's rows at an epoch are known; a table created later has none."""

    def changes_after(self, table: str, epoch: int) -> tuple[Words, Words]:
        """Return the rowids deleted and inserted after an epoch that the table's history covers."""

    def restart_history(self, table: str, epoch: int) -> None:
        """Restart a table's history at an epoch, at which its definition has changed."""

    # Rows written by workers

    @property
    def pinned_packs(self) -> set[int]:
        """Packs that workers may still read."""

    def shard_ranges(self, table: str, rowids: Words) -> "list[tuple[int, Sharded]]":
        """Return first rowids and shards of the newest rows that only workers have; empty without any."""

    # Statistics and consistency checks

    def table_bytes(self, table: str) -> int:
        """Return the memory of a table and its indexes in bytes."""

    def check_indexes(self, table: str) -> list[str]:
        """Return descriptions of errors in a table's indexes; empty unless memory or files were damaged."""


class Executor(Persistence, Protocol):
    """Tables, installed plans, inputs, and one clock for all of them. Used by one thread at a time.

    A change of a table is pending, and visible only in the table, until a step processes it. A step is
    atomic, whatever it raises. Ctrl-C is deferred to points where no change is half done.
    """

    def replay_shards(self, epoch: int, table: str, start: int, shards: "Sharded") -> None:
        """Replay rows that workers have written, from rowid ``start`` on."""

    # The clock

    @property
    def epoch(self) -> int:
        """Last epoch whose effects are in everything installed."""

    @property
    def is_stepping(self) -> bool:
        """Whether operators are running, and with them perhaps user functions."""

    def close_epoch(self) -> object:
        """End the open epoch, with the tables' pending changes."""

    def close_epochs(self, table: str, counts: Sequence[int], deleted: Words | None = None) -> object:
        """Close an epoch for each row count and each row of ``deleted`` (-1: none).

        The inserted rows are the newest, in this order, and nothing else is pending.
        """

    def step(self) -> object:
        """Process all closed epochs, and pending changes as one more."""

    def advance(self) -> object:
        """Process the buffered updates of inputs before the least of their times."""

    def close(self) -> None:
        """Release all resources."""

    # Tables

    @property
    def tables(self) -> TableAccess:
        """The rows of all tables, and their pending changes."""

    @property
    def dictionary(self) -> Dictionary:
        """Dictionary of the text words."""

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> object:
        """Create an empty table; ``number`` is that of the same table before the database was reopened."""

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table; installed plans continue to read it."""

    def drop_table(self, name: str) -> None:
        """Drop a table that no installation reads."""

    @property
    def load_staging(self) -> LoadStaging | None:
        """Load path that bypasses this process; None if there is none."""

    # Plans

    def install(
        self,
        name: str,
        plan: Plan,
        *,
        isolated: bool = False,
        as_of: int | None = None,
        reads_pending: bool = False,
    ) -> Installation:
        """Build the missing operators of a plan, hydrate them, and maintain its result.

        An ``isolated`` installation shares no operator and reads the tables with their pending changes.
        With ``as_of`` it reads everything as it was after that epoch, and with ``reads_pending`` also the
        pending changes of tables.

        Raises:
            ProgrammingError: If the history does not reach back to ``as_of``.
            Error: Whatever the evaluation raises; then nothing has changed.
        """

    def uninstall(self, installation: Installation) -> None:
        """Remove an installation, if it exists; operators without other users are freed."""

    def preview(self, installation: Installation) -> Updates:
        """Return, consolidated, what the tables' pending changes would change, and discard these."""

    def watch(self, installation: Installation) -> None:
        """Start capturing its changes."""

    def unwatch(self, installation: Installation) -> None:
        """Stop capturing its changes and discard those not drained."""

    def evaluate(self, mfp: Mfp, rows: Words) -> tuple[Words, Words | None]:
        """Map, filter and project rows ``int64[w, n]``.

        Also return the positions of passing rows, None for all.

        Raises:
            DataError: If an operation fails whose result is needed.
        """

    # Branches

    def fork(self, interrupt: DeferredInterrupt) -> "Executor":
        """Return another executor with the same tables and strings.

        Later changes of either do not affect the other. Until :meth:`finish_fork` is called, plans installed
        there reuse results that this executor has computed.
        """

    def finish_fork(self) -> None:
        """End the fork: all plans of the original executor have been installed."""

    # History, which is disabled at first

    def enable_history(self) -> None:
        """Keep the history of tables from now on."""

    def keep_changes(self, installation: Installation) -> None:
        """Keep the changes of an installation from now on, as its history."""

    def disable_history(self) -> None:
        """Drop all history and stop keeping it."""

    def drop_history_before(self, epoch: int) -> None:
        """Drop the history before an epoch."""

    # Inputs

    def create_input(self, name: str, width: int) -> InputHandle:
        """Create an input of ``width`` columns, whose time is the next epoch."""

    def drop_input(self, identity: str) -> None:
        """Drop an input with its buffered updates."""

    def poll_ended_inputs(self) -> bool:
        """Return whether inputs may have ended since the last call."""

    def free_final_operators(self) -> None:
        """Free operators that are needed only to compute contents that can never change."""

    # Statistics and consistency checks

    def arrangements(self) -> list[ArrangementInfo]:
        """Return all arrangements in order of creation."""

    def operators(self) -> list[OperatorInfo]:
        """Return all operators with their work so far."""


class DistributedExecutor(Executor, Protocol):
    """Executor with many workers."""

    def worker_statistics(self) -> list[WorkerStatistics]:
        """Return the state and work of each worker."""

    def column_position(self, table: str, name: str) -> int:
        """Return the position of a table's column; the name is case insensitive."""

    def home_column(self, table: str) -> int:
        """Return the column whose words determine the worker of each row, for rows that only workers have."""

    def leading_key_column(self, table: str) -> int:
        """Return the first column of a table's primary key, or 0 without one."""
