"""The rows in a commit's record: words in columns, or, of a large commit, names of row groups in a pack.

What a commit adds to a table is written as the groups are in memory from :data:`STRAIGHT` bytes on, once:
into a pack that the record names, and that the next checkpoint keeps. Groups that had rows before are left
to the record, which packs words more tightly.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import CLOCK
from kpg.durable.state import State
from kpg.runtime.checkpoint.table_state import Straight, Written, written
from kpg.runtime.errors import InternalError
from kpg.runtime.executor import Changed
from kpg.runtime.storage.packs import pack

if TYPE_CHECKING:
    from kpg.durable.checkpoints import Checkpoints
    from kpg.engine.engine import Engine

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
