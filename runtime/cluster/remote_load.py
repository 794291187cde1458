"""Bulk loads at the coordinator: tables whose rows are at their members.

The coordinator knows only how many rows such a table has. The first statement that reads a row of it fetches
all rows from the members, once; from then on it is an ordinary table. Where workers share no memory, each
member is sent its own rows and no others (:class:`Shares`).

:class:`Landings` implements ``executor.Landing``. :func:`audited` turns the constraint violations that
members report into the error that a single worker raises.
"""

import secrets
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.checkpoint.captured_state import lull, wake
from kpg.runtime.cluster.constraint_audit import Reference, Suspects
from kpg.runtime.cluster.messages import Changed, Crew, Each, UnsendableError, shortened
from kpg.runtime.cluster.table_shards import TOKEN, Staged
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError, OperationalError
from kpg.runtime.executor import Recorder
from kpg.runtime.handles import Berth, Rules, Taken, Unique
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.operators.text_exchange import Owners
from kpg.runtime.plan import Types
from kpg.runtime.records import dataclass
from kpg.runtime.storage.files import LOADS, Scratch
from kpg.runtime.storage.packs import Sharded, Vault
from kpg.runtime.tables.row_groups import RowGroups
from kpg.runtime.tables.table import (
    NO_KEY,
    Closed,
    LooseIndex,
    Savepoint,
    Table,
    UniqueIndex,
    duplicate_error,
    index_of,
    unique_error,
)
from kpg.runtime.types import NULL, Schema, is_loose

Words = NDArray[np.int64]


class Owner(Protocol):
    """The coordinator, as loads see it."""

    crew: Crew
    tables: dict[str, Table]
    recorder: Recorder | None
    vault: Vault | None
    dictionary: Dictionary

    def ask(self, method: str, *args: object) -> list[Any]:
        """Call a method at all members and return their answers."""
        ...

    def inform(self, method: str, *args: object) -> None:
        """Call a method at all members; those that are started again catch up by themselves."""
        ...

    def home(self, table: str) -> int:
        """The column whose words tell which member has a row of a table."""
        ...

    def words(self, worker: int, words: Words, texts: tuple[int, ...]) -> Words:
        """Translate words of a member to those of the coordinator, in place."""
        ...

    def texts_of(self, types: Types) -> tuple[int, ...]:
        """The columns whose words are others at members."""
        ...

    def rows_in(self, schema: Schema, sharded: Sharded) -> Iterator[Words]:
        """Read the rows of shards in the words of the coordinator."""
        ...


class Shares:
    """Parts what tables have among ``count`` members, by the words of one column of each."""

    def __init__(self, dictionary: Dictionary, count: int) -> None:
        self._owners = Owners(dictionary, count, apart=True)

    def changed(
        self, table: Table, home: int, epoch: int, name: str, gone: Words | None, rowids: Words
    ) -> list[Changed]:
        """What each member is told of an epoch: its rows that came; of those that went it knows its own."""
        after = table.count, table.rows
        return [
            Changed(epoch, name, gone, shortened(some), words, after)
            for some, words in self._parts(table, home, rowids)
        ]

    def fill(self, table: Table, home: int, rowids: Words) -> tuple[Each, Each]:
        """Of rows that a table has had for long each member's rowids, and their words."""
        rowids_of, words_of = zip(*self._parts(table, home, rowids), strict=True)
        return Each(rowids_of), Each(words_of)

    def _parts(self, table: Table, home: int, rowids: Words) -> list[tuple[Words, Words]]:
        words = table.read(rowids)
        places = self._owners.places(words[home], interned=table.schema.types[home].is_interned)
        return [(rowids[some], np.ascontiguousarray(words[:, some])) for some in places]


NEAR: Final = 1 << 20
"""Of a table that the coordinator has so many keys are sent to members, which look for theirs among them."""


def audited(owner: Owner, berth: Berth, store: "FarTable", rules: Rules) -> bool:
    """Have members hold what is staged to all rules; False if they cannot.

    Raises the error for the first row that fails one.
    """
    key = store.schema.primary_key
    uniques = [Unique(key)] if key else []
    uniques += [Unique(one.columns, one.nulls_distinct) for one in store.uniques]
    if rules.checks is None and not uniques:
        return True
    local = [one for one in uniques if berth.home in one.columns]
    spread = [one for one in uniques if berth.home not in one.columns]
    try:
        found = owner.ask("audit", berth.load, store.name, store.schema, rules.checks, local, spread)
    except UnsendableError:
        return False
    except BaseException:
        owner.inform("forget_keys", store.name)
        raise
    checks = 0 if rules.checks is None else len(rules.checks.outputs)
    order = [*range(checks), *(checks + (local + spread).index(one) for one in uniques)]
    for place in order:
        columns = (local + spread)[place - checks].columns if place >= checks else ()
        row = _first(owner, store, [each[place] for each in found], columns)
        if row is None:
            continue
        if place < checks:
            assert rules.refuse is not None
            rules.refuse(row[0])
            raise InternalError(f"a row of table {store.name} fails a CHECK at a worker, and not here")
        _refuse(store, uniques.index((local + spread)[place - checks]), *row)
    return True


def _refuse(store: "FarTable", number: int, row: Words, exists: bool) -> None:
    """Raise the error for a row that is the same as another in what the table is unique in."""
    number -= bool(store.schema.primary_key)
    if number < 0:
        raise duplicate_error(store, row, 0, exists)
    raise unique_error(store, store.uniques[number], row, 0, exists)


def _first(
    owner: Owner, store: Table, found: Sequence[Any], columns: Sequence[int]
) -> tuple[Words, bool] | None:
    """The first row that breaks a rule, and whether it does by itself."""
    suspects = [Suspects(*one) for one in found]
    texts = owner.texts_of(store.schema.types)
    rows = [owner.words(member, one.rows.copy(), texts) for member, one in enumerate(suspects)]
    some = [member for member, one in enumerate(suspects) if one.sure.shape[0]]
    if not some:
        return None
    every = np.concatenate([rows[member] for member in some], axis=1)
    order = np.concatenate([suspects[member].order for member in some], axis=1)
    sure = np.concatenate([suspects[member].sure for member in some])
    seen: set[tuple[int, ...]] = set()
    places = np.lexsort(order[::-1]).tolist()
    for place in places:
        key = tuple(every[list(columns), place].tolist())
        if sure[place] or key in seen:
            break
        seen.add(key)
    return np.ascontiguousarray(every[:, place : place + 1]), bool(sure[place])


def first_dangling(
    owner: Owner, reference: Reference, store: Table, target: Table, *, far: bool
) -> Words | None:
    """See ``executor.Landing.dangling``; ``far``: the target's rows are at members."""
    columns = reference.target_columns
    if any(is_loose(target.schema.types[place]) for place in columns):
        return None
    given: Words | None = None
    if far:
        home = owner.home(target.name)
        reference = reference._replace(by=columns.index(home) if home in columns else None)
    elif target.rows > NEAR:
        return None
    else:
        given = target.read(target.live(), columns)
        given = np.ascontiguousarray(given[:, (given != NULL).all(axis=0)])
    row = _first(owner, store, owner.ask("dangling", reference, given), ())
    return np.empty((len(store.schema.columns), 0), np.int64) if row is None else row[0]


AT_ONCE: Final = 1 << 18
"""So many rows of each member are fetched in one message."""
NOTHING: Final[Words] = np.empty(0, np.int64)
HIGHEST: Final = (1 << 63) - 1


@dataclass(slots=True, eq=False)
class Block:
    """Rows of one load: those of the first member, of the second, and so on, from rowid ``start`` on."""

    load: str
    schema: Schema
    start: int
    counts: list[int]
    files: list[list[str]]
    folder: Scratch | None
    final: bool = False
    sharded: Sharded | None = None
    """What members, of an earlier life perhaps, have written of it into the folder of the database."""

    @property
    def starts(self) -> list[int]:
        """The first rowid of each member."""
        return [self.start + sum(self.counts[:member]) for member in range(len(self.counts))]

    @property
    def end(self) -> int:
        """The first rowid after it."""
        return self.start + sum(self.counts)

    def told(self, epoch: int, name: str, member: int) -> Changed:
        """What a member is told of an epoch in which it came."""
        if self.folder is None:  # by how many members it was written does not matter
            return Changed(epoch, name, None, (self.start, self.end), None, (self.end, self.end), self.load)
        first = self.starts[member]
        rowids = first, first + self.counts[member]
        return Changed(epoch, name, None, rowids, None, (self.end, self.end), self.load)


class FarTable(Table):
    """A table whose rows are all at their members, or all here as those of any table are."""

    fetch: Callable[["FarTable", Block], list[Words]]
    """Gives the rows of a block."""
    gone: Callable[[Block], None]
    """Is told of blocks that nobody needs any more."""
    opening: Callable[[], bool]
    """Whether what is there was committed before, and is asked nothing any more."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.blocks: list[Block] = []
        """Where the rows are that are not here."""

    @property
    def takes_blocks(self) -> bool:
        """Whether rows may come that are not here: none are here, nor wait for a step."""
        if self.blocks:
            return all(block.final for block in self.blocks)
        loose = any(isinstance(one, LooseIndex) for one in self._unique)
        return not (self.count or loose or self._bag is not None)

    @property
    def takes_shards(self) -> bool:
        """The same of rows that were recorded: it does not matter whether others wait for a step."""
        return bool(self.blocks) or self.takes_blocks

    def add_unique(self, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """See ``Table``; of rows that are kept it is known, wherever they are."""
        index = index_of(self, name, columns, nulls_distinct=nulls_distinct)
        if self.blocks and self.opening() and not isinstance(index, LooseIndex):
            self._unique.append(index)
        else:
            super().add_unique(name, columns, nulls_distinct=nulls_distinct)

    @property
    def uniques(self) -> list[UniqueIndex]:
        """What it is unique in, besides its primary key."""
        return self._unique

    def take(self, block: Block) -> None:
        """Have rows that are at members."""
        with self._interrupt:
            if not self.blocks:
                self._lookups.clear()
                lull(self.groups, "far", self._come)
            if self._key is not None:
                # Any key may be there: each that comes is looked for, for which rows have to be here.
                self._key.highest, self._key.known = np.full_like(self._key.highest, HIGHEST), 1
            self._have([*self.blocks, block])
            self.count = block.end
            self.touched[self] = None

    def come_here(self) -> None:
        """Have all rows be here."""
        wake(self.groups)

    def _come(self, groups: RowGroups, _: object) -> None:
        parts = [part for block in self.blocks for part in self.fetch(self, block)]
        key, highest, known = NO_KEY
        required, start = np.zeros_like(self._required), 0
        with self._interrupt:
            for words in parts:
                end = start + words.shape[1]
                groups.reserve(end, start)
                kernels.append(
                    groups.directory, np.ascontiguousarray(words), start, required, key, highest, known
                )
                start = end
            for index in self._unique:
                index.build(np.arange(start))
            self._forget(self.blocks)

    def _forget(self, blocks: list[Block]) -> None:
        for block in blocks:
            self.gone(block)
        self._have([block for block in self.blocks if block not in blocks])

    def _have(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.sharded = [(block.start, block.sharded) for block in blocks if block.sharded is not None]

    def give_up(self) -> None:
        """There is no such table any more."""
        self._forget(self.blocks)

    @property
    def bytes(self) -> int:
        return 0 if self.blocks else super().bytes

    def rollback(self, savepoint: Savepoint) -> None:
        if not self.blocks:
            super().rollback(savepoint)
            return
        self.touched[self] = None
        self.count, self._told, self._untold = savepoint.count, savepoint.told, list(savepoint.untold)
        self._forget([block for block in self.blocks if block.end > self.count])
        if not self.blocks:
            self.come_here()  # there are none
            if self._key is not None and savepoint.highest is not None:
                self._key.highest, self._key.known = savepoint.highest, savepoint.known

    def commit(self) -> None:
        for block in self.blocks:
            block.final = True
        super().commit()


def told(owner: Owner, closed: Closed, shares: Shares) -> list[list[Changed]]:
    """What each member is told of what an epoch has changed in a table: words, if it has not got them."""
    name, table = closed.table, owner.tables[closed.table]
    gone = [change.rowids for change in closed.changes if change.diff < 0]
    came = [change.rowids for change in closed.changes if change.diff > 0]
    rowids = np.sort(np.concatenate([NOTHING, *came]))
    if not isinstance(table, FarTable) or not table.blocks:
        deleted = np.concatenate(gone) if gone else None
        parts = shares.changed(table, owner.home(name), closed.epoch, name, deleted, rowids)
        return [[one] for one in parts]
    blocks = [block for block in table.blocks if rowids[0] <= block.start <= rowids[-1]]
    return [
        [block.told(closed.epoch, name, member) for block in blocks] for member in range(owner.crew.count)
    ]


class Landings:
    """An ``executor.Landing``."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._sees: bool | None = None
        self._open: dict[str, tuple[Scratch, bool]] = {}
        """By loads the folder that is theirs, and whether all members see it."""

    def open(self, table: str) -> Berth:
        """See ``executor.Landing``."""
        owner, load, secret = self._owner, uuid.uuid4().hex, secrets.token_bytes(32)
        folder = Scratch(LOADS)
        try:
            Path(folder.name, TOKEN).write_text(load)
            hosts = owner.crew.hosts
            found: list[tuple[int, bool]] = owner.ask("dock", load, hosts, secret, folder.name)
            shared = all(seen for _, seen in found)
            self._open[load] = folder, shared
            if not shared and owner.recorder is None:
                self._abandon(load)
                raise OperationalError(
                    f"a worker does not see the driver's folder {Path(folder.name).parent}: rows that it "
                    "alone has would be gone with it",
                    hint="have TMPDIR name a folder that the driver and all executors share, or open the "
                    "database in a folder, where the driver keeps what is committed",
                )
        except BaseException:
            folder.cleanup()
            raise
        home = owner.home(table)
        interned = owner.tables[table].schema.types[home].is_interned
        owners = Owners(owner.dictionary, owner.crew.count, apart=True)
        nulls = int(owners.of(np.array([NULL], np.int64), interned=interned)[0])
        ports = [port for port, _ in found]
        return Berth(load, table, list(zip(hosts, ports, strict=True)), secret, home, nulls)

    def take(self, berth: Berth, attempts: Sequence[int], rules: Rules | None) -> Taken:
        """See ``executor.Landing``."""
        owner = self._owner
        store = owner.tables[berth.table]
        assert isinstance(store, FarTable)
        folder, shared = self._open[berth.load]
        schema = store.schema
        found = owner.ask("stage", berth.load, berth.table, schema, list(attempts), berth.home)
        staged = [Staged(*one) for one in found]
        counts = [one.rows for one in staged]
        alone = (shared if owner.recorder is None else self.sees) and store.takes_blocks
        alone = alone and not any(one.astray for one in staged)
        if alone and rules is not None and audited(owner, berth, store, rules):
            files = [one.files for one in staged]
            block = Block(berth.load, schema, store.count, counts, files, folder)
            if owner.recorder is None or self._shelved(store.name, block):
                del self._open[berth.load]
                store.take(block)
                return Taken(sum(counts), iter(()), (block.start, block.end))
        return Taken(sum(counts), self._words(berth.table, berth.load, counts), None)

    # Loads into a folder

    def begin(self) -> None:
        """Members are new, and perhaps elsewhere."""
        self._sees = None

    @property
    def sees(self) -> bool:
        """Whether all members see the folder of the database."""
        vault = self._owner.vault
        if self._sees is None:
            self._sees = False
            if vault is not None and vault.folder is not None:
                self._sees = all(self._owner.ask("see", vault.folder, vault.database))
        return self._sees

    def _shelved(self, name: str, block: Block) -> bool:
        """Have members write what is staged into packs; False if this process does not see what they have."""
        owner, vault = self._owner, self._owner.vault
        assert owner.recorder is not None and vault is not None
        numbers = owner.recorder.shelve(len(block.counts))
        try:
            shards = owner.ask("shelve", block.load, name, Each(tuple(numbers)))
            if not all(vault.sees(one) for one in shards if one.rows):
                owner.recorder.unshelve(numbers)
                self._sees = False
                return False
        except BaseException:
            owner.recorder.unshelve(numbers)
            raise
        block.sharded = Sharded(tuple(shards))
        assert block.folder is not None
        block.folder.cleanup()
        return True

    def moor(self, table: FarTable, start: int, sharded: Sharded) -> Block:
        """Have a table take rows that were recorded, of which members are not told yet."""
        counts = [one.rows for one in sharded.shards]
        block = Block(uuid.uuid4().hex, table.schema, start, counts, [], None, sharded=sharded)
        table.take(block)
        return block

    def tell(self, name: str, block: Block, *, taken: bool) -> None:
        """Have members take the rows of shards: with the next step, or as rows that they had before."""
        load = None if taken else block.load
        home = self._owner.home(name)
        self._owner.inform("moor", name, block.schema, block.start, block.sharded, home, load)

    def dangling(
        self, table: str, rowids: tuple[int, int], columns: tuple[int, ...], target: str,
        target_columns: tuple[int, ...], *, whole: bool,
    ) -> Words | None:  # fmt: skip
        """See ``executor.Landing``."""
        store, other = self._owner.tables[table], self._owner.tables[target]
        assert isinstance(store, FarTable) and isinstance(other, FarTable)
        coming = next((one.load for one in store.blocks if not one.final and one.start == rowids[0]), None)
        if coming is None:
            return None
        at_target = next((one.load for one in other.blocks if not one.final), None)
        reference = Reference(
            coming, table, columns, store.schema, whole, target, target_columns, at_target, None
        )
        return first_dangling(self._owner, reference, store, other, far=bool(other.blocks))

    def close(self, berth: Berth) -> None:
        """See ``executor.Landing``."""
        if berth.load in self._open:
            self._abandon(berth.load)

    def _abandon(self, load: str) -> None:
        folder, _ = self._open.pop(load)
        self._owner.inform("unload", load)
        folder.cleanup()

    def _words(self, table: str, load: str, counts: list[int]) -> Iterator[Words]:
        """The rows that are staged: of each time some of every member."""
        texts = self._owner.texts_of(self._owner.tables[table].schema.types)
        for first in range(0, max(counts, default=0), AT_ONCE):
            found = self._owner.ask("staged_part", load, table, first, first + AT_ONCE)
            for member, words in enumerate(found):
                yield self._owner.words(member, words.copy(), texts)

    def fetch(self, table: FarTable, block: Block) -> list[Words]:
        """See ``FarTable``."""
        owner, texts = self._owner, self._owner.texts_of(table.schema.types)
        if block.sharded is not None:
            return list(owner.rows_in(table.schema, block.sharded))
        parts: list[list[Words]] = [[] for _ in block.counts]
        for first in range(0, max(block.counts), AT_ONCE):
            if block.final:
                starts = [start + min(first, n) for start, n in zip(block.starts, block.counts, strict=True)]
                ends = [
                    start + min(first + AT_ONCE, n)
                    for start, n in zip(block.starts, block.counts, strict=True)
                ]
                found = owner.ask("held", table.name, Each(tuple(starts)), Each(tuple(ends)))
            else:
                found = owner.ask("staged_part", block.load, table.name, first, first + AT_ONCE)
            for member, words in enumerate(found):
                parts[member].append(owner.words(member, words.copy(), texts))
        return [words for each in parts for words in each]

    def gone(self, block: Block) -> None:
        """See ``FarTable``."""
        if not block.final:
            self._owner.inform("unload", block.load)
            if block.sharded is not None and self._owner.recorder is not None:
                self._owner.recorder.unshelve({one.pack for one in block.sharded.shards if one.rows})
        if block.folder is not None:
            block.folder.cleanup()

    def send_again(self, table: FarTable) -> bool:
        """Have members that were started again have the rows of blocks that are final.

        False if they cannot read them, and they are here now.
        """
        if table.sharded and not self.sees:
            table.come_here()
            return False
        for block in table.blocks:
            if block.final and block.sharded is not None:
                self.tell(table.name, block, taken=True)
            elif block.final:
                self._owner.inform(
                    "again", table.name, block.schema, Each(tuple(block.files)), Each(tuple(block.starts)),
                    Each(tuple(block.counts)), block.end,
                )  # fmt: skip
        return True
