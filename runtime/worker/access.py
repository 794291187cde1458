"""Access to a worker's tables, indexes and operators for clients of the executor: by name, in words."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.chain.chain_selection import SmallSteps
from kpg.runtime.dataflow.dataflow_graph import Below, Operator, Scope, Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.executor import MANY, Recorder
from kpg.runtime.handles import ArrangementInfo, Installation, OperatorInfo
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Capture, Source, connected
from kpg.runtime.operators.loop import everything
from kpg.runtime.plan import Mfp
from kpg.runtime.render import disconnect
from kpg.runtime.tables.epochs import NONE, changed_since, close_each, close_together, drain_all, replay
from kpg.runtime.tables.table import Closed, Foreseen, Savepoint, Table
from kpg.runtime.types import Schema, facts_of
from kpg.runtime.worker import as_of, maintenance
from kpg.runtime.worker.dataflows import (
    Inputs,
    Installed,
    arrangement_info,
    operator_info,
)

if TYPE_CHECKING:
    from kpg.runtime.checkpoint.captured_state import Read
    from kpg.runtime.checkpoint.worker_state import Saved
    from kpg.runtime.executor import Landing
    from kpg.runtime.operators.worker_group import Company
    from kpg.runtime.storage.packs import Sharded, Vault

Words = NDArray[np.int64]
MOST_COMPILED = 256
"""Compiled expressions that are remembered: more than the rules of a program that is explained have."""


class Access:
    """The part of ``runtime.executor.Executor`` that changes or asks one table, or looks at what is there."""

    dictionary: Dictionary
    tables: dict[str, Table]
    recorder: Recorder | None
    vault: "Vault | None" = None
    """Where rows are that workers have written; None if the database is in no folder."""
    scope: Scope
    merge_effort: int
    views: dict[str, Installed]
    inputs: Inputs
    epoch: int
    _numbers: dict[str, int]
    _sources: dict[str, Source]
    remembering: bool
    saved: "Saved | None"
    reread: "Callable[[], Read] | None"
    versions_restored: dict[str, object]
    """What tables, by their numbers, and operators were when they had just been restored."""
    tables_made: int
    _compiled: dict[Mfp, CompiledMfp]
    _position: int
    _small_steps: SmallSteps
    _interrupt: DeferredInterrupt
    _open_epoch: int
    _closed: list[Closed]
    _savepoints: dict[str, Savepoint]
    """What the last step that changed them has left of tables."""
    _touched: dict[Table, None]
    _unsettled: dict[Table, None]
    """Those that were drained, and of which what has happened is not final."""
    own = True
    """Whether pending changes are read."""
    far = False
    """Whether views are elsewhere, so that it is not known here who follows them."""

    @property
    def landing(self) -> "Landing | None":
        """See ``executor.Executor``: all rows come through this process."""
        return None

    @property
    def then(self) -> int | None:
        """The epoch as of which plans read tables: the present one."""
        return None

    @property
    def restoring(self) -> bool:
        """Whether what is installed takes on what others kept."""
        return self.saved is not None

    sharing: "Company | None" = None

    def next_position(self, inputs: Below = (), scope: Scope | None = None, *, apart: bool = False) -> int:
        """A position after all operators there are; the rest matters to many workers."""
        self._position += 1
        return self._position

    def _new_table(self, name: str, schema: Schema, number: int) -> Table:
        """An empty table."""
        return Table(name, schema, self.dictionary, self._interrupt, self._touched)

    def rename_table(self, old: str, new: str) -> None:
        """Have a table be another name's."""
        self.tables[new] = self.tables.pop(old)
        self._numbers[new] = self._numbers.pop(old)
        self._savepoints[new] = self._savepoints.pop(old)
        if old in self._sources:
            self._sources[new] = self._sources.pop(old)
        self.tables[new].name = new
        self._compiled.clear()

    def start_at(self, epoch: int) -> None:
        """Have an epoch be the last closed one, of a worker that has done nothing yet."""
        self.epoch = epoch
        self._open_epoch = epoch + 1
        self.scope.step = Step(epoch, epoch + 1)

    def table_number(self, table: str) -> int:
        """A number that no other table, before or after this one, has, whatever it is called."""
        return self._numbers[table]

    def source_identity(self, table: str) -> str:
        """By which its operators are known, when the database is opened again too."""
        return f"table {self._numbers[table]}"

    def view_output(self, view: str) -> Operator:
        """The operator whose contents are a view's."""
        return self.views[view].output

    def input(self, identity: str) -> Operator:
        """That of an input."""
        return self.inputs.get(identity)

    def close_epochs(self, table: str, counts: Sequence[int], gone: Words | None = None) -> None:
        """End an epoch for each count of rows, and row that is gone: nothing else is pending."""
        self.inputs.leave_all(self._open_epoch, len(counts))
        apart = self.remembering or self.far or any(view.epochs_matter for view in self.views.values())
        close = close_each if apart else close_together
        self._open_epoch = close(self.tables[table], self._open_epoch, counts, gone, self._closed)

    def capture(self) -> object:
        """All that tables and views keep, as data."""
        from kpg.runtime.checkpoint.worker_state import leaves  # lazy: databases in memory keep no state

        self._settle_all()
        return leaves(self)

    def vacuum(self, relations: Collection[str]) -> int:
        self._settle_all()
        with self._interrupt:
            return maintenance.vacuum(self.tables, self.views.values(), relations, self.epoch)

    def restore(self, state: object, read: "Read", reread: "Callable[[], Read]") -> None:
        """Have tables that are then made, and what is installed, keep what they kept (:meth:`capture`).

        ``read`` gives arrays of what was captured; ``reread`` makes another such reader, for a branch.
        """
        from kpg.runtime.checkpoint.worker_state import restore  # lazy: databases in memory keep no state

        restore(self, state, read, reread)

    def restored(self) -> list[str]:
        """All is there that is to keep what it kept; what had to be computed."""
        saved, self.saved = self.saved, None
        if saved is None:
            return []
        self.versions_restored |= saved.versions
        return saved.computed

    def keeps(self, table: str, uniques: Sequence[str]) -> bool:
        """Whether a table has kept what it kept, and is unique in nothing but these from now on."""
        return self.saved is not None and self.saved.keeps(self.tables[table], uniques)

    def replay(self, epoch: int, table: str, gone: Words, rowids: Words, words: Words) -> None:
        """Do again what an epoch did to a table; :meth:`replayed` takes it through every view."""
        store = self.tables[table]
        replay(store, gone, rowids, words)
        self._closed.append(Closed(epoch, table, store.drain()))

    def replayed(self, epoch: int) -> None:
        """Have everything that was done again be as of an epoch."""
        self._open_epoch = epoch + 1
        if self._closed:
            self._take(Step(self.epoch + 1, epoch + 1), epoch)
        self.epoch = epoch

    def _take(self, step: Step, epoch: int) -> None:
        raise NotImplementedError

    def store(self, table: str) -> Table:
        """The row store of a table."""
        return self.tables[table]

    def delete(self, table: str, rowids: Words) -> None:
        """Delete live rows."""
        self.tables[table].delete(rowids)

    def find(self, table: str, keys: Words) -> Words:
        """The rowid of the row with each primary key, or -1."""
        return self.tables[table].find(keys)

    def match(self, table: str, rows: Words) -> Words:
        """For each given row the rowid of one equal to it, or -1; equal ones get different rowids."""
        return self.tables[table].match(rows)

    def add_unique(self, table: str, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """Have no two rows of a table be the same in some columns; that it keeps may be said again."""
        if self.saved is not None and self.saved.is_unique(self.tables[table], name):
            return
        self.tables[table].add_unique(name, columns, nulls_distinct=nulls_distinct)

    def drop_unique(self, table: str, name: str) -> None:
        """Let them be the same again."""
        self.tables[table].drop_unique(name)

    def set_required(self, table: str, column: int, *, required: bool) -> None:
        """Let NULLs into a column no more, or again."""
        self.tables[table].set_required(column, required=required)
        if required:
            self._past_ends(table)

    def set_schema(self, table: str, schema: Schema) -> Schema:
        """Have errors name other columns; the old ones."""
        store = self.tables[table]
        old, store.schema = store.schema, schema
        if facts_of(old) != facts_of(schema):
            self._past_ends(table)
        return old

    def find_unique(self, table: str, columns: tuple[int, ...], keys: Words) -> Words:
        """The rowid of the row with each key of columns that the table is unique in, or -1."""
        return self.tables[table].find_unique(columns, keys)

    def find_all(self, table: str, columns: tuple[int, ...], keys: Words) -> tuple[Words, Words]:
        """Of the rows that have one of the keys in some columns, the key and the rowid."""
        return self.tables[table].find_all(columns, keys)

    def rowids(self, table: str) -> Words:
        """The rowids of all rows."""
        return self.tables[table].live()

    def live(self, table: str, rowids: Words) -> Words:
        """Those of some rowids whose rows are there."""
        return rowids[self.tables[table].is_live(rowids)]

    def fetch(self, table: str, rowids: Words) -> Words:
        """The rows with these rowids."""
        return self.tables[table].read(rowids)

    def scan(self, table: str, columns: Sequence[int] | None = None, *, committed: bool = False) -> Words:
        """All rows, or of all rows some columns; ``committed``: without pending changes."""
        store = self.tables[table]
        rowids = store.live_at(self._savepoints[table]) if committed else store.live()
        return store.read(rowids, columns)

    def count(self, table: str) -> int:
        """The number of rows, pending changes included."""
        return self.tables[table].rows

    def evaluate(self, mfp: Mfp, rows: Words) -> tuple[Words, Words | None]:
        """Map, filter and project rows; also the positions of those that passed, None if all."""
        compiled = self._compiled.get(mfp)
        if compiled is None:
            if len(self._compiled) >= MOST_COMPILED:
                self._compiled.clear()
            compiled = self._compiled[mfp] = CompiledMfp(mfp, self)
        return compiled.run(rows)

    def forget_input(self, identity: str) -> None:
        """Nobody steps an input any more, nor what it has buffered."""
        self.inputs.forget(self.inputs.get(identity))

    def inputs_ended(self) -> bool:
        """Whether inputs may have come to an end since this was last asked."""
        self.inputs.retire()
        ended, self.inputs.ended = self.inputs.ended, False
        return ended

    def watch(self, installed: Installation) -> None:
        """Start capturing the view's changes."""
        view = self.views[installed.name]
        if view.capture is None:
            self._small_steps.come(f"watch {view.name}")
            place = self.next_position((view.output,), self.scope)
            view.capture = connected(Capture, f"Capture {view.name}", view.output, place)

    def unwatch(self, installed: Installation) -> None:
        """Stop capturing the view's changes, and forget those not drained."""
        view = self.views.get(installed.name)
        if view is not None and view.capture is not None:
            self._small_steps.go(f"watch {view.name}")
            disconnect((view.capture,))
            view.capture = None

    def keep_past(self) -> None:
        """Keep what tables are from now on, until it is forgotten."""
        self.remembering = True
        for table in self.tables.values():
            self._begin_past(table)

    def remember(self, installed: Installation) -> None:
        """Keep what changes in an installation from now on, until it is forgotten."""
        self._small_steps.come(f"past of {installed.name}")
        as_of.remember(self, self.views[installed.name])

    def known_since(self, table: str) -> int | None:
        """The epoch since which a table is known; None if it is known as it is now only."""
        return past.since if (past := self.tables[table].past) is not None else None

    def is_new(self, table: str) -> None:
        """There was no table of this name before this epoch, so that all before know it: it had no rows."""
        if (past := self.tables[table].past) is not None:
            past.made = self.epoch

    def tells(self, table: str, epoch: int) -> bool:
        """Whether the rows that a table had at an epoch are known; one that was made later had none."""
        past = self.tables[table].past
        return past is not None and past.tells(epoch)

    def changed(self, table: str, since: int) -> tuple[Words, Words]:
        """Rowids of rows that were there after an epoch and are gone, and of those that came since."""
        return as_of.changed(self.tables[table], since)

    def known_from(self, table: str, epoch: int) -> None:
        """What was known of a table before an epoch is not of what it is now."""
        if (past := self.tables[table].past) is not None:
            past.since = past.born = max(past.since, epoch)

    def drop_past(self) -> None:
        """Keep nothing of the past any more. Between steps."""
        as_of.drop(self)

    def forget_past(self, epoch: int) -> None:
        """Forget what was before an epoch. Between steps."""
        as_of.forget(self, epoch)

    def _as_of(self, epoch: int, *, own: bool) -> as_of.Then:
        return as_of.Then(self, epoch, own=own)

    def _begin_past(self, table: Table) -> None:
        as_of.begin(table, self.epoch)

    def _past_ends(self, table: str) -> None:
        """A table is another than before: what plans take for true of it was not so."""
        self.known_from(table, self.epoch + self.tables[table].has_pending)

    def _remember(self) -> None:
        as_of.note(self, self._closed)

    def table_bytes(self, table: str) -> int:
        """The memory that a table and its indexes take."""
        return self.tables[table].bytes

    def check(self, table: str) -> list[str]:
        """What is wrong with the indexes of a table."""
        return list(maintenance.wrong(self.tables[table]))

    def arrangements(self) -> list[ArrangementInfo]:
        """Every index there is, in order of making."""
        found = {op for op in self._all_operators() if isinstance(op, Arrange)}
        return [arrangement_info(operator) for operator in sorted(found)]

    def operators(self) -> list[OperatorInfo]:
        """Every operator there is, with its work so far: a profile."""
        found = set(self._all_operators())
        return [operator_info(operator) for operator in sorted(found)]

    def _all_operators(self) -> Iterator[Operator]:
        for view in self.views.values():
            yield from everything(view.operators)

    # Rows as they are recorded

    def insert(self, table: str, words: Words) -> Words:
        """Append rows; their rowids."""
        store = self.tables[table]
        if self.recorder is None or words.shape[1] < MANY:
            return store.insert(words)
        words = np.ascontiguousarray(words)
        foreseen = self.recorder.foresee(words)
        rowids = store.insert(words)
        # The words are the caller's, who may change them from here on.
        if foreseen is not None and (said := foreseen()) is not None:
            store.foreseen = store.foreseen or Foreseen()
            store.foreseen.add(rowids, said)
        return rowids

    def foreseen(self, table: str, rowids: Words) -> list[tuple[int, int, Any]]:
        """Stretches of rows that have come, ascending: their places, and what was foreseen of them."""
        found = self.tables[table].foreseen
        return [] if found is None else found.among(rowids)

    def parts(self, table: str, rowids: Words) -> list[tuple[Words, Words]]:
        """The rows with these rowids, where they are if they lie beside each other."""
        groups = self.tables[table].groups
        return groups.parts(rowids) or [(rowids, groups.read(np.arange(groups.width), rowids))]

    def filled(self, table: str, rowids: Words) -> list[tuple[int, int, int, Words]]:
        """Stretches of rows that have come that begin a group: their places, the group, and its columns."""
        return self.tables[table].groups.begun(rowids)

    # Rows that workers have written

    def sharded(self, table: str, rowids: Words) -> "list[tuple[int, Sharded]]":
        """Where rows that have come begin that only workers have, and what they have written; or nothing."""
        found = self.tables[table].sharded
        return [one for one in found if rowids[0] <= one[0] <= rowids[-1]] if found else []

    @property
    def pinned(self) -> set[int]:
        """The packs that workers may still read."""
        found = [one for table in self.tables.values() for _, one in table.sharded]
        return {shard.pack for one in found for shard in one.shards}

    def take_shards(self, table: Table, start: int, sharded: "Sharded") -> None:
        """Have a table, which need not have its name yet, take rows from rowid ``start`` on."""
        for words in self.rows_in(table.schema, sharded):
            replay(table, NONE, np.arange(start, start + words.shape[1]), words)
            start += words.shape[1]

    def rows_in(self, schema: Schema, sharded: "Sharded") -> Iterator[Words]:
        """The rows of shards in words of this process."""
        from kpg.runtime.storage.packs import recoded  # lazy: databases in memory have no packs

        assert self.vault is not None
        texts = [place for place, type_ in enumerate(schema.types) if type_.is_interned]
        for shard in sharded.shards:
            if shard.rows:
                codes = self.dictionary.intern_parts(*self.vault.strings(shard)) if texts else NONE
                for words in self.vault.parts(shard):
                    yield recoded(words, texts, codes)

    def replay_shards(self, epoch: int, table: str, start: int, sharded: "Sharded") -> None:
        """Do again what an epoch did to a table: rows came that workers have written."""
        self.take_shards(self.tables[table], start, sharded)
        self._closed.append(Closed(epoch, table, self.tables[table].drain()))

    # Rollback: only tables that something has happened to are looked at

    def savepoint(self) -> object:
        """The present state of all tables."""
        return {table: table.savepoint() for table in self._moving()}

    def _moving(self) -> list[Table]:
        """The tables to which something may have happened since a step; all others are as it left them."""
        return list(self._unsettled | self._touched)

    def rollback_to(self, savepoint: object) -> None:
        """Throw away what has changed since a savepoint that is from after the last step."""
        assert isinstance(savepoint, dict)
        with self._interrupt:
            for table in self._moving():
                table.rollback(savepoint.get(table) or self._savepoints[table.name])

    def changing(self) -> list[str]:
        """The tables that may have changes which no epoch has taken."""
        return [table.name for table in self._touched if table.has_pending]

    def changed_since(self, savepoint: object) -> list[tuple[str, Words, Words, Words]]:
        """Of each table that has changed since a savepoint, or the last step, rowids that went and came."""
        points: Any = savepoint or {}
        return changed_since(
            (table, points.get(table) or self._savepoints[table.name]) for table in self._moving()
        )

    @property
    def has_pending(self) -> bool:
        """Whether some table has changes that no step has taken."""
        return bool(self._closed) or any(table.pending for table in self._touched)

    def rollback(self) -> None:
        """Throw away every change that no step has taken."""
        with self._interrupt:
            for table in self._moving():
                table.rollback(self._savepoints[table.name])
            self._closed.clear()
            self._open_epoch = self.epoch + 1

    def _drain(self) -> bool:
        self._unsettled.update(self._touched)
        return drain_all(self._touched, self._open_epoch, self._closed)

    def _settle_all(self) -> None:
        """Make final what came and went in commits that changed nothing of a table in the end."""
        if not self.has_pending:
            self._settle([table.name for table in self._moving()])

    def _settle(self, names: Iterable[str]) -> None:
        """Make what has happened to tables final."""
        for name in names:
            table = self.tables[name]
            table.commit()
            self._savepoints[name] = table.savepoint()
            self._unsettled.pop(table, None)
