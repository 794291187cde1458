"""The executor interface: everything that the database knows of the process that runs its plans.

The database (``kpg/``) compiles, keeps the catalog and reads results. An :class:`Executor` keeps tables,
maintains installed plans, and owns the clock. Only data crosses the interface: names, schemas, plans, arrays
of words, numbers, and user functions inside plans. Handles (:class:`Installation`, :class:`InputHandle`,
:class:`RankLookup`) answer in the same data and never expose an operator or a table. So an executor can be in
this process, on a server's thread, or many processes; ``runtime/executor_factory.py`` makes it.

:class:`Lasting` is the additional protocol of executors whose state survives the process.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.handles import (
    ArrangementInfo,
    Berth,
    InputHandle,
    Installation,
    OperatorInfo,
    Rules,
    Taken,
    Work,
)
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.plan import Mfp, Plan
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from kpg.runtime.storage.packs import Sharded, Vault

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
        """All that tables and installations keep, as data; not with pending changes."""

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


MAX_TIME: Final = 2**62
"""Times are below it: two of them can be added up in 64 bits."""


class Landing(Protocol):
    """The way in for rows that do not come through this process: straight to the workers that own them."""

    def open(self, table: str) -> Berth:
        """Have workers take rows of a table; OperationalError where they could not keep them."""

    def take(self, berth: Berth, attempts: Sequence[int], rules: Rules | None) -> Taken:
        """Have what has come by these attempts, in their order, be rows of the table.

        Raises, with nothing changed, IntegrityError for a row that the table does not take, and what
        ``rules`` do. Without rules only the caller can tell, who has to insert them.
        """

    def dangling(
        self, table: str, rowids: tuple[int, int], columns: tuple[int, ...], target: str,
        target_columns: tuple[int, ...], *, whole: bool,
    ) -> Words | None:  # fmt: skip
        """Of rows that workers have taken the first whose key in some columns no row of the target has.

        ``int64[ncols, 1]``, or no row; None if only the caller can tell. A key with a NULL in it means none,
        unless ``whole`` ones are asked for and some of it is there.
        """

    def close(self, berth: Berth) -> None:
        """What has come and was not taken is nobody's any more."""


class Executor(Lasting, Protocol):
    """Tables, installed plans, inputs, and one clock for all of them. For one thread at a time.

    Tables are changed at any time; a change is pending until a step has taken it, and in tables only. A step
    takes everything or, whatever it raises, nothing. Ctrl-C waits for a moment at which nothing is half done.
    """

    # Rows that workers have written

    vault: "Vault | None"
    """Where they are, if the database is in a folder."""

    @property
    def pinned(self) -> set[int]:
        """The packs that workers may still read."""

    def sharded(self, table: str, rowids: Words) -> "list[tuple[int, Sharded]]":
        """Where rows that have come begin that only workers have, and what they have written; or nothing."""

    def replay_shards(self, epoch: int, table: str, start: int, sharded: "Sharded") -> None:
        """As ``replay``, of rows from a rowid on that workers have written."""

    # The clock

    @property
    def epoch(self) -> int:
        """The last epoch whose effects are in everything installed."""

    @property
    def stepping(self) -> bool:
        """Whether operators run now, and with them perhaps functions of the user's."""

    @property
    def has_pending(self) -> bool:
        """Whether some table has changes that no step has taken."""

    def close_epoch(self) -> object:
        """End the open epoch, with the tables' pending changes."""

    def close_epochs(self, table: str, counts: Sequence[int], gone: Words | None = None) -> object:
        """End an epoch for each count of rows of a table, and each row that is gone from it, if not -1.

        The rows came last, in this order, and nothing else is pending.
        """

    def step(self) -> object:
        """Take all closed epochs, and pending changes as one more, through everything."""

    def advance(self) -> object:
        """Take what inputs hold before the least of their times through everything."""

    def rollback(self) -> object:
        """Throw away every change that no step has taken."""

    def close(self) -> None:
        """Give everything up."""

    # Tables: rows are words ``int64[ncols, n]``, in the order of the schema's columns

    @property
    def dictionary(self) -> Dictionary:
        """The strings that text words stand for."""

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> object:
        """A new, empty table; with a number, the one that had it in an earlier life of the database."""

    def table_number(self, table: str) -> int:
        """A number that no other table, before or after this one, has."""

    def rename_table(self, old: str, new: str) -> None:
        """Have a table be another name's; what is installed keeps reading it."""

    def savepoint(self) -> object:
        """The present state of all tables, for :meth:`rollback_to`."""

    def rollback_to(self, savepoint: object) -> None:
        """Throw away what has changed in tables since a savepoint that is from after the last step."""

    def changing(self) -> list[str]:
        """The tables that may have changes which no epoch has taken."""

    def changed_since(self, savepoint: object) -> list[tuple[str, Words, Words, Words]]:
        """Of each table that has changed since a savepoint, or since the last step if it is None: its name,

        rowids of deleted rows that were there before, rowids of rows that have come, and these rows.
        """

    def drop_table(self, name: str) -> None:
        """Forget a table that nothing installed reads."""

    def insert(self, table: str, words: Words) -> Words:
        """Append rows; their rowids. IntegrityError, nothing changed, for a NULL or key that may not be."""

    @property
    def landing(self) -> Landing | None:
        """The way in that goes past this process; None if there is none."""

    def delete(self, table: str, rowids: Words) -> None:
        """Delete live rows. IntegrityError, with nothing changed, if one is not live or given twice."""

    def find(self, table: str, keys: Words) -> Words:
        """The rowid of the row with each primary key ``keys[k, n]``, or -1."""

    def match(self, table: str, rows: Words) -> Words:
        """For each given row the rowid of one equal to it, or -1; equal ones get different rowids."""

    def add_unique(self, table: str, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """Have no two rows be the same in some columns from now on; IntegrityError if two are.

        Rows with a NULL among them are never the same if NULLs are distinct.
        """

    def drop_unique(self, table: str, name: str) -> None:
        """Let rows be the same in what was added under a name."""

    def set_required(self, table: str, column: int, *, required: bool) -> None:
        """Let NULLs into a column no more, or again; IntegrityError if there are some."""

    def set_schema(self, table: str, schema: Schema) -> Schema:
        """Have a table's columns be called otherwise, with the same types and key; what they were called."""

    def find_unique(self, table: str, columns: tuple[int, ...], keys: Words) -> Words:
        """As :meth:`find`, by columns that the table is unique in."""

    def find_all(self, table: str, columns: tuple[int, ...], keys: Words) -> tuple[Words, Words]:
        """Of the rows with one of the keys ``keys[k, n]`` in some columns, the key's position and the rowid.

        O(keys + rows found) once an index is there, which the first such question builds.
        """

    def rowids(self, table: str) -> Words:
        """The rowids of all rows."""

    def live(self, table: str, rowids: Words) -> Words:
        """Those of some rowids whose rows are there."""

    def fetch(self, table: str, rowids: Words) -> Words:
        """The rows with these rowids."""

    def parts(self, table: str, rowids: Words) -> list[tuple[Words, Words]]:
        """As :meth:`fetch`, of rows that are there, ascending, in parts; good until the next commit."""

    def filled(self, table: str, rowids: Words) -> list[tuple[int, int, int, Words]]:
        """Of rows that have just come, ascending, stretches that are the first rows of a group: from which

        place to which, the group's number, and its columns ``int64[ncols, room]``.
        """

    def foreseen(self, table: str, rowids: Words) -> list[tuple[int, int, Any]]:
        """Of rows that have just come, ascending, stretches that ``Recorder.foresee`` was asked about: from

        which place to which, and what it said.
        """

    def scan(self, table: str, columns: Sequence[int] | None = None, *, committed: bool = False) -> Words:
        """All rows, or of all rows some columns; ``committed``: without pending changes."""

    def count(self, table: str) -> int:
        """The number of rows, pending changes included."""

    # Plans

    def install(
        self, name: str, plan: Plan, *, isolated: bool = False, then: int | None = None, own: bool = False
    ) -> Installation:
        """Build what of the plan is not there yet, fill it, and keep it up to date.

        An ``isolated`` installation shares nothing and reads the tables with their pending changes, or
        everything as it was after the epoch ``then`` (ProgrammingError for what is not known of then), with
        pending changes of tables if they are ``own``.
        Raises what evaluating the plan raises; then nothing has changed.
        """

    def uninstall(self, installed: Installation) -> None:
        """Drop an installation, if it is still there; what nobody else holds is freed."""

    def preview(self, installed: Installation) -> Updates:
        """What the pending changes of tables, which are then undone, would change in it; consolidated."""

    def watch(self, installed: Installation) -> None:
        """Start capturing its changes."""

    def unwatch(self, installed: Installation) -> None:
        """Stop capturing its changes, and forget those not drained."""

    def evaluate(self, mfp: Mfp, rows: Words) -> tuple[Words, Words | None]:
        """Map, filter and project rows ``int64[w, n]``; also the positions of those that passed, None if all.

        DataError when an operation that counts fails.
        """

    # Branches

    def fork(self, interrupt: DeferredInterrupt) -> "Executor":
        """Another executor with the same tables and strings; what changes in either does not in the other.

        Until :meth:`complete` is called, it takes from this one what plans have computed that it installs.
        """

    def complete(self) -> None:
        """All is installed that was installed in the executor that this one was forked of."""

    # The past, of which nothing is kept at first

    def keep_past(self) -> None:
        """Keep what tables are from now on, until it is forgotten."""

    def remember(self, installed: Installation) -> None:
        """Keep what changes in an installation from now on, until it is forgotten."""

    def known_since(self, table: str) -> int | None:
        """The epoch since which a table is known; None if it is known as it is now only."""

    def is_new(self, table: str) -> None:
        """There was no table of this name before this epoch, so that all before know it: it had no rows."""

    def tells(self, table: str, epoch: int) -> bool:
        """Whether the rows that a table had at an epoch are known; one that was made later had none."""

    def changed(self, table: str, since: int) -> tuple[Words, Words]:
        """Rowids of rows that were there after an epoch and are gone, and of those that came since.

        The table must be known since then.
        """

    def known_from(self, table: str, epoch: int) -> None:
        """What was known of a table before an epoch is not of what it is now."""

    def drop_past(self) -> None:
        """Keep nothing of the past any more."""

    def forget_past(self, epoch: int) -> None:
        """Forget what was before an epoch."""

    # Inputs

    def create_input(self, name: str, width: int) -> InputHandle:
        """A new input of ``width`` columns, whose time is the next epoch."""

    def forget_input(self, identity: str) -> None:
        """Nobody steps an input any more, nor what it has buffered."""

    def inputs_ended(self) -> bool:
        """Whether inputs may have come to an end since this was last asked."""

    def retire(self) -> None:
        """Free what only made contents that can never change again."""

    # Profiles, and whether all is as it should be

    def table_bytes(self, table: str) -> int:
        """The memory that a table and its indexes take."""

    def check(self, table: str) -> list[str]:
        """What is wrong with the indexes of a table: nothing, unless memory or files were damaged."""

    def arrangements(self) -> list[ArrangementInfo]:
        """Every index there is, in order of making."""

    def operators(self) -> list[OperatorInfo]:
        """Every operator there is, with its work so far."""


class SharedExecutor(Executor, Protocol):
    """One of many workers."""

    def work(self) -> list[Work]:
        """What each of them keeps and has done."""

    def column(self, table: str, name: str) -> int:
        """The place of a table's column, whose name is in any case."""

    def home(self, table: str) -> int:
        """The column whose words tell which of them has a row of a table, where nobody else has it."""

    def leading_key(self, table: str) -> int:
        """The first column of a table's primary key, or of all."""
