"""Write-ahead log: a commit is appended and synced before it is acknowledged.

In the mode ``normal`` a commit is synced after it is acknowledged, about one second later.

A record is ``(epoch, strings, rows, changes, moment)``. ``strings`` are the new strings of the
dictionary with the code of the first one. ``rows`` has the number of each changed table, the
deleted rowids, the inserted rowids and their words. ``changes`` are the ``StateChanges``
(``database_state``), and ``moment`` is the database time. If the write fails, the record is removed
and the commit is rolled back.

Inserted rows are stored as columns of words in the record. From ``MIN_PACK_BYTES`` on, whole row
groups are written once, into a pack that the record names and the next checkpoint keeps. Groups
that already held rows stay in the record, which packs words more tightly.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import CLOCK
from kpg.persistence.database_state import ChangeDetector, State, StateChanges, capture_state, diff_states
from kpg.runtime.checkpoint.table_state import RowPack, WrittenPack, worker_pack
from kpg.runtime.errors import InterfaceError, InternalError, OperationalError
from kpg.runtime.executor import MANY, TableChanges
from kpg.runtime.storage.background_work import DebouncedWork, Task, TaskThread
from kpg.runtime.storage.codec import Codec
from kpg.runtime.storage.files import Disk, Files, Lock
from kpg.runtime.storage.log import ALLOCATION_BYTES, Log, LogPosition, segment_name
from kpg.runtime.storage.packs import pack

if TYPE_CHECKING:
    from kpg.persistence.checkpoints import Checkpoints
    from kpg.session.engine import Engine

Words = NDArray[np.int64]


NO_ROWS: Words = np.empty(0, np.int64)
MIN_GROUPED_ROWS: Final = 64
"""Number of inserted rows from which whole row groups are looked for."""
CHUNK_PARTS: Final = 4
"""Number of row parts per chunk: the disk writes one chunk while the next is packed."""
MIN_PACK_BYTES = 1 << 24
"""Bytes of a commit's row groups from which they are written to a pack."""
MIN_LOAD_PACK_BYTES = 1 << 18
"""The same for bulk loads.

Below it, many small commits take less space in the log, where rows are packed.
"""
MIN_STRING_PACK_BYTES = 1 << 24
"""Bytes of new strings from which all strings are written to a pack, if most of them are new."""


class RowRecorder:
    """Encodes the changed rows of tables, and tracks the packs that the current record refers to."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.checkpoints: Checkpoints | None = None
        self.tables: Mapping[int, str] = {}
        """Names of the persistent tables, by number."""
        self._packs: list[WrittenPack] = []
        self._prepared_bytes = 0
        """Bytes of rows that were prepared before their commit."""
        self._min_pack_bytes = MIN_PACK_BYTES
        self._may_be_written = False
        """Whether a failed commit's record may be in the log."""

    def set_tables(self, state: State) -> None:
        """Set the persistent tables to those of a recorded state."""
        self.tables = table_names(state)

    def encode_changes(
        self, epoch: int, table_changes: Iterable[TableChanges], state: State | None
    ) -> list[Any]:
        """Return the changed rows of persistent tables, and all rows of tables that are new in the state.

        Raises OSError if rows cannot be written; then no pack is left.
        """
        tables = self.tables if state is None else table_names(state)
        return [part for chunk in self._encode_chunks(epoch, table_changes, tables) for part in chunk]

    def encode_known(self, table_changes: Iterable[TableChanges]) -> Iterator[list[Any]]:
        """Yield the changed rows of known tables in chunks."""
        return self._encode_chunks(0, table_changes, self.tables)

    def _encode_chunks(
        self, epoch: int, table_changes: Iterable[TableChanges], tables: Mapping[int, str]
    ) -> Iterator[list[Any]]:
        pack_writer, chunk = _PackWriter(self.checkpoints), list[Any]()
        try:
            for part in self._encode_tables(pack_writer, epoch, table_changes, tables):
                chunk.append(part)
                if len(chunk) == CHUNK_PARTS:
                    yield chunk
                    chunk = []
            self._packs += pack_writer.finish()
            yield chunk
        except BaseException:
            pack_writer.abandon()
            raise

    def begin_bulk_load(self) -> None:
        """Treat the rows until the next commit as a bulk load."""
        self._min_pack_bytes = min(MIN_LOAD_PACK_BYTES, MIN_PACK_BYTES)

    def should_pack(self, words: Words) -> bool:
        """Return whether inserted rows should be packed now: not if the commit will write them to a pack."""
        self._prepared_bytes += words.nbytes
        return self._prepared_bytes < MIN_PACK_BYTES

    def encode_strings(self, first: int) -> tuple[Any, ...] | None:
        """Return the strings from the code ``first`` on: it, their offsets and their bytes.

        If they are many and most of all strings, all strings are written to a pack, and its location is
        returned instead. Raises OSError as :meth:`encode_changes` does.
        """
        dictionary = self._engine.executor.dictionary
        count = len(dictionary)
        if count == first:
            return None
        arena, offsets = dictionary.arena, dictionary.offsets
        bounds = offsets[first : count + 1]
        new_bytes, total_bytes = int(bounds[-1] - bounds[0]), int(bounds[-1])
        if self.checkpoints is None or new_bytes < MIN_STRING_PACK_BYTES or 2 * new_bytes < total_bytes:
            return first, bounds - bounds[0], arena[bounds[0] : bounds[-1]]
        pack = self.checkpoints.open_row_pack()
        try:
            location = pack.add_strings(arena, offsets, count)
            self._packs.append(pack.finish())
        except BaseException:
            with suppress(OSError):
                pack.abandon()
            raise
        return first, location

    def _encode_tables(
        self,
        pack_writer: "_PackWriter",
        epoch: int,
        table_changes: Iterable[TableChanges],
        tables: Mapping[int, str],
    ) -> Iterator[Any]:
        executor = self._engine.executor
        for number, name in tables.items() if tables is not self.tables else ():
            if number not in self.tables:
                yield from self._encode_inserted(
                    pack_writer, epoch, number, name, executor.tables.rowids(name)
                )
        for change in table_changes:
            number = executor.tables.table_number(change.table)
            if number in self.tables and number in tables:
                for rowids, diff in change.changes:
                    if diff < 0 and rowids.shape[0]:
                        yield change.epoch, number, encode_rowids(rowids), None, None
                for rowids, diff in change.changes:
                    if diff > 0:
                        yield from self._encode_inserted(
                            pack_writer, change.epoch, number, change.table, rowids
                        )

    def _encode_inserted(
        self, pack_writer: "_PackWriter", epoch: int, number: int, name: str, rowids: Words
    ) -> Iterable[tuple[Any, ...]]:
        shards = self._engine.executor.tables.shard_ranges(name, rowids) if rowids.shape[0] else []
        for first, sharded in shards:
            self._packs += [worker_pack(shard.pack, shard.blocks) for shard in sharded.shards if shard.rows]
            yield epoch, number, None, (first, sharded.rows), sharded
        if shards:
            return
        position = 0
        for start, end, group, columns in self._groups_for_pack(name, rowids):
            yield from self._encode_prepared(epoch, number, name, rowids[position:start])
            yield (
                epoch,
                number,
                None,
                encode_rowids(rowids[start:end]),
                pack_writer.add_rows(number, group, columns, end - start),
            )
            position = end
        yield from self._encode_prepared(epoch, number, name, rowids[position:])

    def _groups_for_pack(self, name: str, rowids: Words) -> list[tuple[int, int, int, Words]]:
        """Return the row groups that are written to a pack."""
        if self.checkpoints is None or rowids.shape[0] < MIN_GROUPED_ROWS:
            return []
        groups = self._engine.executor.tables.leading_ranges(name, rowids)
        size = sum(columns.itemsize * columns.shape[0] * (end - start) for start, end, _, columns in groups)
        return groups if size >= self._min_pack_bytes else []

    def _encode_prepared(
        self, epoch: int, number: int, name: str, rowids: Words
    ) -> Iterable[tuple[Any, ...]]:
        position = 0
        for start, end, packed in self._engine.executor.tables.prepared_rows(name, rowids):
            yield from self._encode_parts(epoch, number, name, rowids[position:start])
            yield epoch, number, None, encode_rowids(rowids[start:end]), packed
            position = end
        yield from self._encode_parts(epoch, number, name, rowids[position:])

    def _encode_parts(self, epoch: int, number: int, name: str, inserted: Words) -> Iterable[tuple[Any, ...]]:
        for rowids, words in self._engine.executor.tables.parts(name, inserted) if inserted.shape[0] else ():
            yield epoch, number, None, encode_rowids(rowids), pack(words)

    def reserve_packs(self, count: int) -> list[int]:
        """Reserve the numbers of ``count`` packs that workers write rows to."""
        return [] if self.checkpoints is None else self.checkpoints.reserve_numbers(count)

    def release_packs(self, numbers: Collection[int]) -> None:
        """Remove packs that no record will refer to, unless a record may have been written."""
        if self.checkpoints is not None and not self._may_be_written:
            self.checkpoints.remove_packs(worker_pack(number, 0) for number in numbers)

    def finish_record(self, segment: int) -> None:
        """Register the packs of a written record with its log segment."""
        self._prepared_bytes, self._min_pack_bytes = 0, MIN_PACK_BYTES
        if self._packs:
            assert self.checkpoints is not None
            self.checkpoints.add_log_packs(self._packs, segment)
            self._packs.clear()

    def discard_record(self, *, certain: bool) -> None:
        """Forget the packs of a record that was not written, and remove them if that is ``certain``."""
        self._prepared_bytes, self._min_pack_bytes = 0, MIN_PACK_BYTES
        packs, self._packs = self._packs, []
        self._may_be_written = self._may_be_written or not certain
        if certain and self.checkpoints is not None:
            with suppress(OSError):
                self.checkpoints.remove_packs(packs)


class _PackWriter:
    """The pack of one record, created with its first row group."""

    def __init__(self, checkpoints: "Checkpoints | None") -> None:
        self._checkpoints = checkpoints
        self._pack: RowPack | None = None

    def add_rows(self, table: int, group: int, columns: Words, count: int) -> object:
        """Write the rows of a group, and return their location."""
        assert self._checkpoints is not None
        if self._pack is None:
            self._pack = self._checkpoints.open_row_pack()
        return self._pack.add_rows(table, group, columns, count)

    def finish(self) -> list[WrittenPack]:
        """Finish and sync the pack, if there is one."""
        return [] if self._pack is None else [self._pack.finish()]

    def abandon(self) -> None:
        if self._pack is not None:
            with suppress(OSError):
                self._pack.abandon()


def table_names(state: State) -> dict[int, str]:
    """Return the names of a state's tables, by number."""
    names = {value[0]: value[1].name for key, value in state.items() if key[0] == "table"}
    clock = state.get(("clock",), (None, None))[0]
    return names if clock is None else {**names, clock: CLOCK}


def encode_rowids(rowids: Words) -> Any:
    """Return rowids as a record stores them: None, (first, count) of consecutive ones, or the array."""
    count = rowids.shape[0]
    if not count:
        return None
    if int(rowids[-1]) - int(rowids[0]) == count - 1:
        return int(rowids[0]), count
    return rowids


def decode_rowids(encoded: Any) -> Words:
    """Return the rowids of a record."""
    if encoded is None:
        return NO_ROWS
    if isinstance(encoded, tuple):
        return np.arange(encoded[0], encoded[0] + encoded[1], dtype=np.int64)
    rowids: Words = encoded
    return rowids


def restore_strings(engine: "Engine", first: int, bounds: Words, data: NDArray[np.uint8]) -> None:
    """Restore the dictionary's strings from a record. ``first`` is the code of the first one."""
    dictionary = engine.executor.dictionary
    present = len(dictionary) - first
    if 0 < present < len(bounds):  # a checkpoint also has strings of queries that no commit has recorded
        bounds, data = bounds[present:] - bounds[present], data[bounds[present] :]
    elif present:
        raise InternalError(f"the dictionary has {len(dictionary)} strings where the log has {first}")
    dictionary.append_strings(bounds, data)


COMMIT_RECORD: Final = 1
"""The kind of a commit's record."""
ROWS_RECORD: Final = 3
"""The kind of a record with rows that were written before the record of their commit."""
CLOSED_RECORD: Final = 2
"""The kind of the record that ends a closed database's log. All records before it are synced."""
SYNC_DELAY: Final = 1.0
"""Seconds after which a commit is synced in the mode ``normal``."""
NO_CHANGES = StateChanges((), ())
INTERRUPTED: Final = "a commit that was written has not become final; open it again, which has it"
"""The reason why changes are refused after a written commit has failed."""
CHECKPOINT_ERRORS: Final = (OSError, OperationalError, MemoryError, RuntimeError)
"""Errors of checkpoints that are ignored between commits: the log has all commits.

The next explicit checkpoint raises its error.
"""
T = TypeVar("T")


class WriteAheadLog:
    """The change recorder of a durable database. ``refuses`` is the reason for refusing changes, if any."""

    def __init__(self, engine: "Engine", files: Files, lock: Lock | None, codec: Codec, mode: str) -> None:
        self.engine = engine
        self.files = files
        self.codec = codec
        self.mode = mode
        self.refuses: str | None = None
        self.moment = (0, 0)
        """The epoch that was recorded last, and its time."""
        self._lock = lock
        self._log: Log | None = None
        self._change_detector = ChangeDetector(engine)
        self._recorded_state: State = {}
        self._row_recorder = RowRecorder(engine)
        self.begin_bulk_load, self.reserve_packs, self.release_packs = (
            self._row_recorder.begin_bulk_load,
            self._row_recorder.reserve_packs,
            self._row_recorder.release_packs,
        )
        self._recorded_strings = 0
        self._delayed_sync = DebouncedWork(self._sync_delayed, SYNC_DELAY)
        self._held_rows: list[Any] | None = None
        self._thread = TaskThread()
        self._early_write: Task | None = None
        self._early_start: LogPosition | None = None
        self._next_record = 0
        """The number of the first record that the current commit writes."""
        self._database = 0
        self._process = os.getpid()
        self.checkpoints: Checkpoints | None = None  # if none are made
        self.log_packs: Callable[[], set[int]] = set
        """Returns the numbers of the packs that log records refer to."""
        self.segment_ends: dict[int, int] = {}
        """The end of the records in each finished segment. Preallocated space follows them."""

    def _check_process(self) -> None:
        """Raise OperationalError in a process that was forked from the one that opened the folder."""
        if self._process != os.getpid():
            raise OperationalError(
                f"{self.where} is process {self._process}'s, which this one was forked from",
                hint="open the database in the forked process",
            )

    @property
    def where(self) -> str:
        """The folder."""
        return self.files.where

    @property
    def log(self) -> Log | None:
        """The log, or None if no more changes are written."""
        return None if self.refuses is not None else self._log

    def enable_checkpoints(self, checkpoints: "Checkpoints") -> None:
        """Enable checkpoints, and row packs for large commits."""
        self.checkpoints = self._row_recorder.checkpoints = checkpoints

    def start(self, log: Log | None, state: State, database: int, strings: int) -> None:
        """Start recording after a recovered state.

        ``strings`` is the number of strings that the log and the checkpoint have.
        """
        self._log = log
        self._database = database
        self._set_recorded(state)
        self._recorded_strings = strings
        self.moment = self.engine.executor.epoch, 0
        self.engine.executor.tables.recorder = self

    def _set_recorded(self, state: State) -> None:
        self._recorded_state = state
        self._row_recorder.set_tables(state)
        self._change_detector.mark_recorded()

    # Recording

    @property
    def _can_write(self) -> bool:
        return self._held_rows is None and self.refuses is None and self._process == os.getpid()

    def prepare_rows(self, words: Words) -> Callable[[], Any] | None:
        """Pack many rows in the background while the table appends them."""
        should_pack = self._can_write and self._row_recorder.should_pack(words)
        return None if not should_pack else self._thread.submit(partial(pack, words)).result

    def prepare(self, changes: Sequence[TableChanges]) -> None:
        """Write many rows while views process them. They take effect with the record of their commit."""
        if self._log is None:
            return
        self._next_record = self._log.number
        rows = sum(rowids.shape[0] for table_changes in changes for rowids, _ in table_changes.changes)
        if rows >= MANY and self._can_write:
            self._early_start = self._log.position()
            self._early_write = self._thread.submit(partial(self._write_early, self._log, list(changes)))

    def _write_early(self, log: Log, table_changes: list[TableChanges]) -> None:
        for chunk in self._row_recorder.encode_known(table_changes):
            log.append(ROWS_RECORD, self.codec.encode(chunk))
        if self.mode == "full":
            log.sync()  # so the sync of the commit's record is short

    def cancel(self) -> None:
        """Cancel the announced changes. If they are recorded already, no further commit is accepted."""
        early_write, self._early_write = self._early_write, None
        if early_write is not None and self._early_start is not None:
            early_write.wait()
            self._truncate(self._early_start)
            self._row_recorder.discard_record(certain=self.refuses is None)
        if self._log is not None and self._log.number != self._next_record:
            self._refuse_changes(INTERRUPTED)

    def record(self, epoch: int, table_changes: Sequence[TableChanges]) -> None:
        """Record a commit. Raises OperationalError if that fails; then nothing is recorded."""
        if self._held_rows is not None:
            # Copied, because rows may be vacuumed before they are written.
            self._held_rows += deepcopy(self._encode_rows(epoch, table_changes, None))
            return
        if self._early_write is not None:
            error = self._early_write.wait()
            if isinstance(error, OSError):
                raise self._fail_commit(error, self._commit_start()) from error
            if error is not None:
                raise error  # the caller cancels the commit
            table_changes = ()
        state = capture_state(self.engine) if self._change_detector.may_differ() else self._recorded_state
        state_changes = (
            NO_CHANGES if state is self._recorded_state else diff_states(self._recorded_state, state)
        )
        rows = self._encode_rows(epoch, table_changes, None if state is self._recorded_state else state)
        if not (rows or state_changes or self._early_write):
            # Strings of queries are recorded with the next commit.
            return
        clock = self._recorded_state.get(("clock",), (None, None))[0]
        is_clock_only = not (state_changes or self._early_write) and all(
            number == clock for _, number, *_ in rows
        )
        self._write_commit(epoch, rows, state, state_changes, sync=not is_clock_only)

    def record_pending(self) -> None:
        """Record what no commit has recorded: sequence values, and epochs without changes."""
        with self.engine.interrupt:
            epoch = self.engine.executor.epoch
            state = capture_state(self.engine)
            state_changes = diff_states(self._recorded_state, state)
            if state_changes or epoch > self.moment[0]:
                self._write_commit(
                    epoch, self._encode_rows(epoch, (), state), state, state_changes, sync=False
                )

    def _write_commit(
        self, epoch: int, rows: list[Any], state: State, state_changes: StateChanges, *, sync: bool
    ) -> None:
        """Write a commit's record, and mark its changes as recorded. ``state_changes`` lead to ``state``."""
        strings = self._encode_part(lambda: self._row_recorder.encode_strings(self._recorded_strings))
        moment = self.engine.clock.read()
        self._write_record((epoch, strings, rows, state_changes.as_record, moment), sync=sync)
        try:
            self.moment = epoch, moment
            self._recorded_strings = len(self.engine.executor.dictionary)
            if state is not self._recorded_state:
                self._set_recorded(state)
        except BaseException:
            self._refuse_changes(INTERRUPTED)
            raise

    def _encode_rows(
        self, epoch: int, table_changes: Iterable[TableChanges], state: State | None
    ) -> list[Any]:
        """Return the rows of a record. Some may be in packs."""
        return self._encode_part(lambda: self._row_recorder.encode_changes(epoch, table_changes, state))

    def _encode_part(self, encode: Callable[[], T]) -> T:
        """Return a part of a record. Raises OperationalError if its pack cannot be written."""
        try:
            return encode()
        except OSError as error:
            raise self._fail_commit(error, self._commit_start()) from error

    def _commit_start(self) -> LogPosition:
        """Return the log position where the current commit begins."""
        assert self._log is not None
        return (
            self._log.position()
            if self._early_write is None or self._early_start is None
            else self._early_start
        )

    def _write_record(self, value: Any, *, sync: bool) -> None:
        self._check_process()
        if self.refuses is not None or self._log is None:
            raise OperationalError(self.refuses or "the database is closed")
        try:
            pieces = self.codec.encode(value)
        except TypeError as error:
            raise InterfaceError(f"a durable database cannot keep this: {error}") from error
        start, self._early_write = self._commit_start(), None
        try:
            self._log.append(COMMIT_RECORD, pieces)
            if sync:
                self._sync()
            self._row_recorder.finish_record(self._log.segment)
            if self.checkpoints is not None:
                self.checkpoints.count_log_bytes(self._log.end - start.end)
        except OSError as error:
            raise self._fail_commit(error, start) from error
        except BaseException:
            self._truncate(start)
            self._row_recorder.discard_record(certain=self.refuses is None)
            raise

    def _sync(self) -> None:
        if self.mode == "full" and self._log is not None:
            self._log.sync()
        elif self.mode == "normal" and isinstance(self.files, Disk):
            self._delayed_sync.request()

    def _sync_delayed(self) -> None:
        if self._log is not None and self.refuses is None and self._log.synced < self._log.number - 1:
            try:
                self._log.sync()
            except OSError as error:
                self._refuse_after_sync_error(error)

    def _refuse_after_sync_error(self, error: OSError) -> None:
        """Refuse changes after a failed sync: earlier commits may be lost, and a later sync does not tell."""
        loss = f'what was committed in the mode "{self.mode}" may be lost'
        self._refuse_changes(f"its disk failed ({error.strerror}), and {loss}")

    def _refuse_changes(self, reason: str) -> None:
        self.refuses = self.refuses or f"the database in {self.where} takes no changes any more: {reason}"

    def _fail_commit(self, error: OSError, start: LogPosition) -> OperationalError:
        reason = error.strerror or os.strerror(error.errno or 0)
        self._early_write = None
        self._truncate(start)
        self._row_recorder.discard_record(certain=self.refuses is None)
        return OperationalError(
            f"the commit was refused: {self.where} could not be written to: {reason}",
            hint=(self.refuses and f"reads continue; {self.refuses}")
            or "nothing has changed; free space or check the disk, and try again",
        )

    def _truncate(self, start: LogPosition) -> None:
        """Remove a partially written record."""
        assert self._log is not None
        sync_error = self._log.failure if self._log.synced < start.number - 1 else None
        try:
            with self._delayed_sync.lock:
                self._log.truncate_to(start)
        except OSError as error:
            self._refuse_changes(
                f"a commit failed, and could not be taken back ({error.strerror}); "
                "open it again, which tells whether the commit was made"
            )
        if sync_error is not None:
            self._refuse_after_sync_error(sync_error)

    # Several steps as one commit

    def hold(self) -> bool:
        """Hold all records until :meth:`release`, so that several steps are one commit.

        Returns whether they were not held before.
        """
        held_rows, self._held_rows = self._held_rows, [] if self._held_rows is None else self._held_rows
        return held_rows is None

    def release(self) -> None:
        """Write the held records as one commit."""
        rows, self._held_rows = self._held_rows or [], None
        try:
            self._write_held(rows)
        except BaseException:
            if rows:
                self._refuse_changes("a commit of several steps could not be written; open it again")
            raise

    def _write_held(self, rows: list[Any]) -> None:
        epoch, state = self.engine.executor.epoch, capture_state(self.engine)
        state_changes = diff_states(self._recorded_state, state)
        recorded_tables = {number for _, number, *_ in rows}
        new_rows = [part for part in self._encode_rows(epoch, (), state) if part[1] not in recorded_tables]
        rows = [part for part in rows if part[1] in table_names(state)]
        if rows or new_rows or state_changes:
            self._write_commit(epoch, [*rows, *new_rows], state, state_changes, sync=True)

    # Checkpoints

    def start_segment(self) -> int:
        """Continue the log in a new segment, and return its number."""
        assert self._log is not None
        if self._log.synced < self._log.number - 1:
            try:
                self._log.sync()
            except OSError as error:
                self._refuse_after_sync_error(error)
                raise
        log = self._create_segment(self._log)
        with self._delayed_sync.lock:
            self._log.close()
            self.segment_ends[self._log.segment] = self._log.end
            self._log = log
        return log.segment

    def _create_segment(self, previous: Log) -> Log:
        number = previous.segment + 1
        with suppress(FileNotFoundError):  # the leftover of a failed attempt
            self.files.remove(segment_name(number))
        # Preallocate before a child writes the checkpoint, which would delay commits.
        direct = self.mode == "full"
        log = Log.create(
            self.files, number, self._database, previous.number, room=ALLOCATION_BYTES, direct=direct
        )
        log.committed_file = previous.committed_file
        return log

    def tend(self) -> None:
        """Advance checkpoints between commits. Their errors do not affect commits."""
        if self.checkpoints is not None and self._can_write and self.checkpoints.has_work:
            with self.engine.interrupt, suppress(*CHECKPOINT_ERRORS):
                self.checkpoints.advance()

    def checkpoint(self) -> None:
        """Make a checkpoint. Raises OperationalError if that fails."""
        if self.refuses is not None:
            raise OperationalError(self.refuses)
        self._check_process()
        if self.checkpoints is not None:
            with self.engine.interrupt:
                self.record_pending()
                self.checkpoints.make()

    # The end

    def close(self) -> None:
        """Sync the log and unlock the folder."""
        self.engine.executor.tables.recorder = None
        self._delayed_sync.stop()
        try:
            if self._log is not None and self.refuses is None and self._process == os.getpid():
                self._finish_checkpoint()
                self._write_end(
                    self._log
                )  # the segment of the checkpoint that was just made, if there is one
        finally:
            if self.checkpoints is not None and self._process == os.getpid():
                self.checkpoints.stop()
            if self._log is not None:
                if self._log.committed_file is not None:
                    self._log.committed_file.close()
                self._log.close()
            self._log = None
            if self._lock is not None:
                self._lock.release()
            self._lock = None

    def _finish_checkpoint(self) -> None:
        """Record what is pending, and make a checkpoint, so that opening has nothing to replay."""
        with suppress(OperationalError):  # what no commit recorded was not acknowledged
            self.record_pending()
        if self.refuses is not None:
            raise OperationalError(self.refuses)
        if self.checkpoints is not None:
            with self.engine.interrupt:
                self.checkpoints.close()

    def _write_end(self, log: Log) -> None:
        """Write the final record and sync. Raises OperationalError if a commit may be lost."""
        is_synced = log.synced == log.number - 1
        try:
            log.append(CLOSED_RECORD, [])
            log.sync()
            if log.committed_file is not None:
                with suppress(OSError):  # it only tells that the log is complete
                    log.committed_file.sync()
        except OSError as error:
            if not is_synced:
                raise OperationalError(
                    f"{self.where} could not be written to when it was closed: {error.strerror}",
                    hint=f'what was committed in the mode "{self.mode}" is lost if the power goes now',
                ) from error
