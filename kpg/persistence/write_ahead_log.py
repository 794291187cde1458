"""Write-ahead log: a commit is appended and synced before it is acknowledged.

In the mode ``normal`` a commit is synced after it is acknowledged, about one second later.

A record is ``(epoch, strings, rows, changes, moment)``: the new strings of the dictionary with the code of
the first one; for each changed table its number, the deleted rowids, the inserted rowids and their words; the
``Changes`` of the state (``database_state``); and the database time. If the write fails, the record is
removed and the commit is rolled back.

Inserted rows are stored as columns of words in the record. From ``STRAIGHT`` bytes on, whole row groups are
written once, into a pack that the record names and the next checkpoint keeps. Groups that already held rows
stay in the record, which packs words more tightly.
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
from kpg.persistence.database_state import Changes, State, Watch, changes, state_of
from kpg.runtime.checkpoint.table_state import Straight, Written, written
from kpg.runtime.errors import InterfaceError, InternalError, OperationalError
from kpg.runtime.executor import MANY, Changed
from kpg.runtime.storage.background_work import Hand, Lazy, Task
from kpg.runtime.storage.codec import Codec
from kpg.runtime.storage.files import Disk, Files, Lock
from kpg.runtime.storage.log import ROOM, Log, Mark, segment_name
from kpg.runtime.storage.packs import pack

if TYPE_CHECKING:
    from kpg.persistence.checkpoints import Checkpoints
    from kpg.session.engine import Engine

Words = NDArray[np.int64]


NO_ROWS: Words = np.empty(0, np.int64)
FEW: Final = 64
"""So few rows are in the record without a look at where they are."""
PORTION: Final = 4
"""Groups of rows that are written together while views take them: the disk has some as others are packed."""
STRAIGHT = 1 << 24
"""Bytes of rows from which those of a commit go straight into a pack."""
LOADED = 1 << 18
"""The same of rows that are loaded. Of many commits of so few the log takes less, where they are packed."""
STRINGS = 1 << 24
"""Bytes of new strings from which these do, if they are most of all: then all strings are written."""


class Rows:
    """What records say of tables, and the packs that the record under way names."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.checkpoints: Checkpoints | None = None
        self.tables: Mapping[int, str] = {}
        """The tables that are kept, by number."""
        self._written: list[Written] = []
        self._foreseen = 0
        """Bytes of rows that were packed before their commit."""
        self._least = STRAIGHT
        self._doubtful = False
        """Whether a record may have been written though its commit has failed."""

    def learn(self, state: State) -> None:
        """What has been recorded is a state."""
        self.tables = numbers(state)

    def of(self, epoch: int, changed: Iterable[Changed], state: State | None) -> list[Any]:
        """What has changed in tables that are kept, and all rows of those that are new in a state.

        OSError if rows cannot be written; nothing is left of them then.
        """
        now = self.tables if state is None else numbers(state)
        return [one for some in self._portions(epoch, changed, now) for one in some]

    def portions(self, changed: Iterable[Changed]) -> Iterator[list[Any]]:
        """As :meth:`of`, of tables that are known, some at a time as they come."""
        return self._portions(0, changed, self.tables)

    def _portions(
        self, epoch: int, changed: Iterable[Changed], now: Mapping[int, str]
    ) -> Iterator[list[Any]]:
        straight, found = _Straight(self.checkpoints), list[Any]()
        try:
            for one in self._of(straight, epoch, changed, now):
                found.append(one)
                if len(found) == PORTION:
                    yield found
                    found = []
            self._written += straight.finish()
            yield found
        except BaseException:
            straight.abandon()
            raise

    def load(self) -> None:
        """Rows that come until the next commit are loaded."""
        self._least = min(LOADED, STRAIGHT)

    def packs(self, words: Words) -> bool:
        """Whether rows that come now are packed: not if so many came that all go straight into packs."""
        self._foreseen += words.nbytes
        return self._foreseen < STRAIGHT

    def strings(self, first: int) -> tuple[Any, ...] | None:
        """The strings from a code on: it, where each begins, and their bytes; or the pack that has all.

        They go into a pack if they are many, and most of all there are. OSError as of :meth:`of`.
        """
        dictionary = self._engine.executor.dictionary
        count = len(dictionary)
        if count == first:
            return None
        arena, offsets = dictionary.arena, dictionary.offsets
        bounds = offsets[first : count + 1]
        new, all_of_them = int(bounds[-1] - bounds[0]), int(bounds[-1])
        if self.checkpoints is None or new < STRINGS or 2 * new < all_of_them:
            return first, bounds - bounds[0], arena[bounds[0] : bounds[-1]]
        pack = self.checkpoints.straight()
        try:
            placed = pack.put_strings(arena, offsets, count)
            self._written.append(pack.finish())
        except BaseException:
            with suppress(OSError):
                pack.abandon()
            raise
        return first, placed

    def _of(
        self, straight: "_Straight", epoch: int, changed: Iterable[Changed], now: Mapping[int, str]
    ) -> Iterator[Any]:
        executor = self._engine.executor
        for number, name in now.items() if now is not self.tables else ():
            if number not in self.tables:
                yield from self._came(straight, epoch, number, name, executor.rowids(name))
        for one in changed:
            number = executor.table_number(one.table)
            if number in self.tables and number in now:
                for rowids, diff in one.changes:
                    if diff < 0 and rowids.shape[0]:
                        yield one.epoch, number, told(rowids), None, None
                for rowids, diff in one.changes:
                    if diff > 0:
                        yield from self._came(straight, one.epoch, number, one.table, rowids)

    def _came(
        self, straight: "_Straight", epoch: int, number: int, name: str, came: Words
    ) -> Iterable[tuple[Any, ...]]:
        shards = self._engine.executor.sharded(name, came) if came.shape[0] else []
        for first, sharded in shards:
            self._written += [written(one.pack, one.blocks) for one in sharded.shards if one.rows]
            yield epoch, number, None, (first, sharded.rows), sharded
        if shards:
            return
        at = 0
        for start, end, group, columns in self._groups(name, came):
            yield from self._packed(epoch, number, name, came[at:start])
            yield (
                epoch,
                number,
                None,
                told(came[start:end]),
                straight.put(number, group, columns, end - start),
            )
            at = end
        yield from self._packed(epoch, number, name, came[at:])

    def _groups(self, name: str, came: Words) -> list[tuple[int, int, int, Words]]:
        """What goes straight into a pack."""
        if self.checkpoints is None or came.shape[0] < FEW:
            return []
        found = self._engine.executor.filled(name, came)
        size = sum(columns.itemsize * columns.shape[0] * (end - start) for start, end, _, columns in found)
        return found if size >= self._least else []

    def _packed(self, epoch: int, number: int, name: str, came: Words) -> Iterable[tuple[Any, ...]]:
        at = 0
        for start, end, packed in self._engine.executor.foreseen(name, came):
            yield from self._parts(epoch, number, name, came[at:start])
            yield epoch, number, None, told(came[start:end]), packed
            at = end
        yield from self._parts(epoch, number, name, came[at:])

    def _parts(self, epoch: int, number: int, name: str, came: Words) -> Iterable[tuple[Any, ...]]:
        for rowids, words in self._engine.executor.parts(name, came) if came.shape[0] else ():
            yield epoch, number, None, told(rowids), pack(words)

    def shelve(self, count: int) -> list[int]:
        """Numbers of so many packs that workers write rows into."""
        return [] if self.checkpoints is None else self.checkpoints.numbers(count)

    def unshelve(self, numbers: Collection[int]) -> None:
        """The record under way is not going to name them, nor has it perhaps been written."""
        if self.checkpoints is not None and not self._doubtful:
            self.checkpoints.unnamed(written(one, 0) for one in numbers)

    def settle(self, segment: int) -> None:
        """The record is written, to a segment of the log."""
        self._foreseen, self._least = 0, STRAIGHT
        if self._written:
            assert self.checkpoints is not None
            self.checkpoints.named(self._written, segment)
            self._written.clear()

    def undo(self, *, certain: bool) -> None:
        """The record is not written; if that is ``certain``, nothing names the packs."""
        self._foreseen, self._least = 0, STRAIGHT
        packs, self._written = self._written, []
        self._doubtful = self._doubtful or not certain
        if certain and self.checkpoints is not None:
            with suppress(OSError):
                self.checkpoints.unnamed(packs)


class _Straight:
    """The pack for one record, if rows come that are to go there."""

    def __init__(self, checkpoints: "Checkpoints | None") -> None:
        self._checkpoints = checkpoints
        self._pack: Straight | None = None

    def put(self, table: int, group: int, columns: Words, count: int) -> object:
        """Write the rows of a group; what the record has in their place."""
        assert self._checkpoints is not None
        if self._pack is None:
            self._pack = self._checkpoints.straight()
        return self._pack.put(table, group, columns, count)

    def finish(self) -> list[Written]:
        """Have the pack be there whatever happens."""
        return [] if self._pack is None else [self._pack.finish()]

    def abandon(self) -> None:
        if self._pack is not None:
            with suppress(OSError):
                self._pack.abandon()


def numbers(state: State) -> dict[int, str]:
    """The tables of a state by number."""
    found = {value[0]: value[1].name for key, value in state.items() if key[0] == "table"}
    clock = state.get(("clock",), (None, None))[0]
    return found if clock is None else {**found, clock: CLOCK}


def told(rowids: Words) -> Any:
    """Rowids as they are written: a first one and how many if they follow each other."""
    count = rowids.shape[0]
    if not count:
        return None
    if int(rowids[-1]) - int(rowids[0]) == count - 1:
        return int(rowids[0]), count
    return rowids


def rowids_of(written: Any) -> Words:
    """The rowids that were written."""
    if written is None:
        return NO_ROWS
    if isinstance(written, tuple):
        return np.arange(written[0], written[0] + written[1], dtype=np.int64)
    rowids: Words = written
    return rowids


def intern(engine: "Engine", first: int, bounds: Words, data: NDArray[np.uint8]) -> None:
    """Have the dictionary have strings again that a record has brought, from a code on."""
    dictionary = engine.executor.dictionary
    known = len(dictionary) - first
    if 0 < known < len(bounds):  # a checkpoint has strings of queries, which no commit had yet
        bounds, data = bounds[known:] - bounds[known], data[bounds[known] :]
    elif known:
        raise InternalError(f"the dictionary has {len(dictionary)} strings where the log has {first}")
    dictionary.restore(bounds, data)


COMMIT: Final = 1
"""The kind of a commit's record."""
ROWS: Final = 3
"""The kind of rows that were written before the commit's record, which follows."""
CLOSED: Final = 2
"""The kind of the record behind which a database was closed: what is before it was synced."""
SECONDS: Final = 1.0
"""In the mode ``normal``, what was committed longer ago is synced."""
NOTHING = Changes((), ())
INTERRUPTED: Final = "a commit that was written has not become final; open it again, which has it"
TOLD_LATER: Final = (OSError, OperationalError, MemoryError, RuntimeError)
"""What a checkpoint may fail with. Who asks for one is told; until then the log has everything."""
T = TypeVar("T")


class Keeper:
    """The recorder of a durable database. ``refuses`` says why it takes no more changes, if so."""

    def __init__(self, engine: "Engine", files: Files, lock: Lock | None, codec: Codec, mode: str) -> None:
        self.engine = engine
        self.files = files
        self.codec = codec
        self.mode = mode
        self.refuses: str | None = None
        self.moment = (0, 0)
        """The epoch that was recorded last, and when that was."""
        self._lock = lock
        self._log: Log | None = None
        self._watch = Watch(engine)
        self._state: State = {}
        self._rows = Rows(engine)
        self.load, self.shelve, self.unshelve = self._rows.load, self._rows.shelve, self._rows.unshelve
        self._strings = 0
        self._lazy = Lazy(self._sync_late, SECONDS)
        self._held: list[Any] | None = None
        self._hand = Hand()
        self._ahead: Task | None = None
        self._mark: Mark | None = None
        self._expected = 0
        """The number of the first record that the commit under way writes."""
        self._database = 0
        self._process = os.getpid()
        self.checkpoints: Checkpoints | None = None  # if none are made
        self.loose: Callable[[], set[int]] = set
        """The packs that records of the log name."""
        self.ends: dict[int, int] = {}
        """Where the records of segments end that the log has gone on from; behind them is room."""

    def _check_process(self) -> None:
        """OperationalError in a process that was forked from the one that opened the folder."""
        if self._process != os.getpid():
            raise OperationalError(
                f"{self.where} is process {self._process}'s, which this one was forked from",
                hint="open databases in the process that uses them, after it was forked",
            )

    @property
    def where(self) -> str:
        """The folder."""
        return self.files.where

    @property
    def log(self) -> Log | None:
        """Where commits go; None if nothing is written any more."""
        return None if self.refuses is not None else self._log

    def use(self, checkpoints: "Checkpoints") -> None:
        """Have checkpoints be made, and rows go straight into packs."""
        self.checkpoints = self._rows.checkpoints = checkpoints

    def begin(self, log: Log | None, state: State, database: int, strings: int) -> None:
        """Keep what is committed from now on: a state, rows, and so many ``strings`` have been kept."""
        self._log = log
        self._database = database
        self._learn(state)
        self._strings = strings
        self.moment = self.engine.executor.epoch, 0
        self.engine.executor.recorder = self

    def _learn(self, state: State) -> None:
        self._state = state
        self._rows.learn(state)
        self._watch.note()

    # Recording

    @property
    def _writes(self) -> bool:
        return self._held is None and self.refuses is None and self._process == os.getpid()

    def foresee(self, words: Words) -> Callable[[], Any] | None:
        """Pack many rows while the table takes them."""
        packs = self._writes and self._rows.packs(words)
        return None if not packs else self._hand.do(partial(pack, words)).result

    def expect(self, changed: Sequence[Changed]) -> None:
        """Write many rows while views take them; they count once the commit's record is behind them."""
        if self._log is None:
            return
        self._expected = self._log.number
        rows = sum(rowids.shape[0] for one in changed for rowids, _ in one.changes)
        if rows >= MANY and self._writes:
            self._mark = self._log.mark()
            self._ahead = self._hand.do(partial(self._write_ahead, self._log, list(changed)))

    def _write_ahead(self, log: Log, changed: list[Changed]) -> None:
        for some in self._rows.portions(changed):
            log.write(ROWS, self.codec.encode(some))
        if self.mode == "full":
            log.sync()  # that of the commit's record has little left to wait for

    def cancel(self) -> None:
        """What was expected is not to be. If it is recorded already, nothing may come behind it."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and self._mark is not None:
            ahead.wait()
            self._cut(self._mark)
            self._rows.undo(certain=self.refuses is None)
        if self._log is not None and self._log.number != self._expected:
            self._stop(INTERRUPTED)

    def record(self, epoch: int, changed: Sequence[Changed]) -> None:
        """Keep a commit; OperationalError, and nothing has happened, if that fails."""
        if self._held is not None:
            # Rows may have been given up until they are written.
            self._held += deepcopy(self._rows_of(epoch, changed, None))
            return
        if self._ahead is not None:
            error = self._ahead.wait()
            if isinstance(error, OSError):
                raise self._failed(error, self._begun()) from error
            if error is not None:
                raise error  # and who called this cancels the commit
            changed = ()
        state = state_of(self.engine) if self._watch.differs() else self._state
        found = NOTHING if state is self._state else changes(self._state, state)
        rows = self._rows_of(epoch, changed, None if state is self._state else state)
        if not (rows or found or self._ahead):
            # Queries may have brought strings: the next commit has them.
            return
        clock = self._state.get(("clock",), (None, None))[0]
        quiet = not (found or self._ahead) and all(number == clock for _, number, *_ in rows)
        self._commit(epoch, rows, state, found, sync=not quiet)

    def record_last(self) -> None:
        """Keep what no commit has: numbers that sequences gave, and epochs without changes."""
        with self.engine.interrupt:
            epoch = self.engine.executor.epoch
            state = state_of(self.engine)
            found = changes(self._state, state)
            if found or epoch > self.moment[0]:
                self._commit(epoch, self._rows_of(epoch, (), state), state, found, sync=False)

    def _commit(self, epoch: int, rows: list[Any], state: State, found: Changes, *, sync: bool) -> None:
        """Write a commit's record, and know that what it has is kept: ``found`` leads to ``state``."""
        strings = self._gathered(lambda: self._rows.strings(self._strings))
        moment = self.engine.clock.read()
        self._write((epoch, strings, rows, found.plain, moment), sync=sync)
        try:
            self.moment = epoch, moment
            self._strings = len(self.engine.executor.dictionary)
            if state is not self._state:
                self._learn(state)
        except BaseException:
            self._stop(INTERRUPTED)
            raise

    def _rows_of(self, epoch: int, changed: Iterable[Changed], state: State | None) -> list[Any]:
        """What a record says of rows, which may have been written by then."""
        return self._gathered(lambda: self._rows.of(epoch, changed, state))

    def _gathered(self, gather: Callable[[], T]) -> T:
        """A part of a record, some of which may have gone into packs; OperationalError if that failed."""
        try:
            return gather()
        except OSError as error:
            raise self._failed(error, self._begun()) from error

    def _begun(self) -> Mark:
        """Where in the log the commit under way begins."""
        assert self._log is not None
        return self._log.mark() if self._ahead is None or self._mark is None else self._mark

    def _write(self, value: Any, *, sync: bool) -> None:
        self._check_process()
        if self.refuses is not None or self._log is None:
            raise OperationalError(self.refuses or "the database is closed")
        try:
            pieces = self.codec.encode(value)
        except TypeError as error:
            raise InterfaceError(f"a durable database cannot keep this: {error}") from error
        mark, self._ahead = self._begun(), None
        try:
            self._log.write(COMMIT, pieces)
            if sync:
                self._sync()
            self._rows.settle(self._log.segment)
            if self.checkpoints is not None:
                self.checkpoints.written(self._log.end - mark.end)
        except OSError as error:
            raise self._failed(error, mark) from error
        except BaseException:
            self._cut(mark)
            self._rows.undo(certain=self.refuses is None)
            raise

    def _sync(self) -> None:
        if self.mode == "full" and self._log is not None:
            self._log.sync()
        elif self.mode == "normal" and isinstance(self.files, Disk):
            self._lazy.wanted()

    def _sync_late(self) -> None:
        if self._log is not None and self.refuses is None and self._log.synced < self._log.number - 1:
            try:
                self._log.sync()
            except OSError as error:
                self._doubt(error)

    def _doubt(self, error: OSError) -> None:
        """A sync has failed: what was committed before it may be lost, and no later sync would tell."""
        what = f'what was committed in the mode "{self.mode}" may be lost'
        self._stop(f"its disk failed ({error.strerror}), and {what}")

    def _stop(self, why: str) -> None:
        """Take no more changes."""
        self.refuses = self.refuses or f"the database in {self.where} takes no changes any more: {why}"

    def _failed(self, error: OSError, mark: Mark) -> OperationalError:
        reason = error.strerror or os.strerror(error.errno or 0)
        self._ahead = None
        self._cut(mark)
        self._rows.undo(certain=self.refuses is None)
        return OperationalError(
            f"the commit was refused: {self.where} could not be written to: {reason}",
            hint=(self.refuses and f"reading goes on; {self.refuses}")
            or "nothing has changed; free some space, or see to the disk, and try again",
        )

    def _cut(self, mark: Mark) -> None:
        """Take a record back that is half written."""
        assert self._log is not None
        lost = self._log.failure if self._log.synced < mark.number - 1 else None
        try:
            with self._lazy.apart:
                self._log.cut(mark)
        except OSError as error:
            self._stop(
                f"a commit failed, and could not be taken back ({error.strerror}); "
                "open it again, which tells whether the commit was made"
            )
        if lost is not None:
            self._doubt(lost)

    # Several steps that are one commit

    def hold(self) -> bool:
        """Write nothing until :meth:`release`: what several steps do is one commit. Whether that is new."""
        held, self._held = self._held, [] if self._held is None else self._held
        return held is None

    def release(self) -> None:
        """Write what was held, as one commit."""
        rows, self._held = self._held or [], None
        try:
            self._release(rows)
        except BaseException:
            if rows:
                self._stop("a commit of several steps could not be written; open it again")
            raise

    def _release(self, rows: list[Any]) -> None:
        epoch, state = self.engine.executor.epoch, state_of(self.engine)
        found = changes(self._state, state)
        known = {number for _, number, *_ in rows}
        fresh = [one for one in self._rows_of(epoch, (), state) if one[1] not in known]
        rows = [one for one in rows if one[1] in numbers(state)]
        if rows or fresh or found:
            self._commit(epoch, [*rows, *fresh], state, found, sync=True)

    # Checkpoints

    def next_segment(self) -> int:
        """Have the log go on in a new segment; its number."""
        assert self._log is not None
        if self._log.synced < self._log.number - 1:
            try:
                self._log.sync()
            except OSError as error:
                self._doubt(error)
                raise
        log = self._create_segment(self._log)
        with self._lazy.apart:
            self._log.close()
            self.ends[self._log.segment] = self._log.end
            self._log = log
        return log.segment

    def _create_segment(self, before: Log) -> Log:
        number = before.segment + 1
        with suppress(FileNotFoundError):  # what an attempt that failed has left
            self.files.remove(segment_name(number))
        # Room is made before a child begins to write, which a commit would have to wait for.
        direct = self.mode == "full"
        log = Log.create(self.files, number, self._database, before.number, room=ROOM, direct=direct)
        log.proof = before.proof
        return log

    def tend(self) -> None:
        """Between commits: see to checkpoints. The commit before is made, whatever becomes of them."""
        if self.checkpoints is not None and self._writes and self.checkpoints.pressing:
            with self.engine.interrupt, suppress(*TOLD_LATER):
                self.checkpoints.tend()

    def checkpoint(self) -> None:
        """Make a checkpoint; OperationalError if it cannot be made."""
        if self.refuses is not None:
            raise OperationalError(self.refuses)
        self._check_process()
        if self.checkpoints is not None:
            with self.engine.interrupt:
                self.record_last()
                self.checkpoints.make()

    # The end

    def close(self) -> None:
        """Sync, and let others have the folder."""
        self.engine.executor.recorder = None
        self._lazy.end()
        try:
            if self._log is not None and self.refuses is None and self._process == os.getpid():
                self._finish()
                self._end(self._log)  # that of the checkpoint that was just made, if there was one
        finally:
            if self.checkpoints is not None and self._process == os.getpid():
                self.checkpoints.end()
            if self._log is not None:
                if self._log.proof is not None:
                    self._log.proof.close()
                self._log.close()
            self._log = None
            if self._lock is not None:
                self._lock.release()
            self._lock = None

    def _finish(self) -> None:
        """Have nothing be left to do for who opens it next."""
        with suppress(OperationalError):  # what no commit has was promised to nobody
            self.record_last()
        if self.refuses is not None:
            raise OperationalError(self.refuses)
        if self.checkpoints is not None:
            with self.engine.interrupt:
                self.checkpoints.close()

    def _end(self, log: Log) -> None:
        """Sync what no commit has; OperationalError if that fails and anything committed may be lost."""
        kept = log.synced == log.number - 1
        try:
            log.write(CLOSED, [])
            log.sync()
            if log.proof is not None:
                with suppress(OSError):  # it only proves that the log is whole
                    log.proof.sync()
        except OSError as error:
            if not kept:
                raise OperationalError(
                    f"{self.where} could not be written to when it was closed: {error.strerror}",
                    hint=f'what was committed in the mode "{self.mode}" is lost if the power goes now',
                ) from error
