"""Who keeps what a database commits: each commit is a record of the log, there before it is final.

A record is ``(epoch, strings, rows, changes, moment)``: the strings that are new in the dictionary, with the
code of the first; of each table that changed its number, the rowids that went, those that came and their
words; :class:`Changes` of the state; and the time of the database. If it cannot be written, it never was, and
neither was the commit.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.durable.rows import Rows, numbers
from kpg.durable.state import Changes, State, Watch, changes, state_of
from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.runtime.executor import MANY, Changed
from kpg.runtime.storage.background_work import Hand, Lazy, Task
from kpg.runtime.storage.codec import Codec
from kpg.runtime.storage.files import Disk, Files, Lock
from kpg.runtime.storage.log import ROOM, Log, Mark, segment_name
from kpg.runtime.storage.packs import pack

if TYPE_CHECKING:
    from kpg.durable.checkpoints import Checkpoints
    from kpg.engine.engine import Engine

Words = NDArray[np.int64]

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
