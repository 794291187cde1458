"""``rowgroups``: a row store as the list of its rows, each with whether it is live."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.tables.row_groups import RowGroups
from kpg.runtime.types import NULL
from tests.model.references import Case, Random, reference
from tests.model.references.words import Row, Words, tuples, words

COUNTS = (0, 1, 3, 8, 63, 64, 65, 130, 300)


@dataclass
class Store:
    """Groups, which must be held; their rows, None where one was given up; and which are live."""

    groups: RowGroups
    rows: list[Row | None]
    live: list[bool]

    @property
    def directory(self) -> Words:
        """What kernels take."""
        return self.groups.directory

    @property
    def stored(self) -> list[int]:
        """The rows that have a place."""
        return [number for number, row in enumerate(self.rows) if row is not None]

    def chosen(self, random: Random, among: list[int]) -> Words:
        """Some of these rows, each once."""
        count = int(random.integers(0, len(among) + 1))
        return random.permutation(np.array(among, np.int64))[:count].copy()


def some_store(random: Random) -> Store:
    """Rows after deletions, in groups of which some were rewritten or given up."""
    width, bits = int(random.integers(1, 4)), int(random.choice([1, 3, 6, 7, 8]))
    groups, n = RowGroups(width, bits), int(random.choice(COUNTS))
    if random.random() < 0.5:
        groups.enable_links()
    data = words(random, width, n)
    groups.reserve(n + int(random.integers(0, 70)), 0)
    store = Store(groups, list(tuples(data, n)), [True] * n)
    put(store, data)
    for row in store.chosen(random, list(range(n))).tolist():
        end_life(store, row)
    size = 1 << bits
    for number in range(n // size):
        if random.random() < 0.5:
            members = range(number * size, (number + 1) * size)
            if random.random() < 0.3:
                for row in members:
                    end_life(store, row)
            groups.rewrite(number, sum(store.live[row] for row in members))
            for row in members:
                store.rows[row] = store.rows[row] if store.live[row] else None
    return store


def put(store: Store, data: Words) -> None:
    """Write the rows where kernels find them, and set their bits."""
    size = 1 << store.groups.bits
    for number, group in enumerate(store.groups._groups):
        assert group is not None
        part = data[:, number * size : (number + 1) * size]
        group.columns[:, : part.shape[1]] = part
        for offset in range(part.shape[1]):
            set_live(group.live, offset, True)


def set_live(bits: Words, position: int, live: bool) -> None:
    """Set a bit of the words to what is said."""
    bit = np.uint64(1) << np.uint64(position % 64)
    word = bits.view(np.uint64)[position // 64]
    bits.view(np.uint64)[position // 64] = word | bit if live else word & ~bit


def end_life(store: Store, row: int) -> None:
    """Mark a row of a group that was not rewritten as dead."""
    group = store.groups._groups[row >> store.groups.bits]
    assert group is not None
    set_live(group.live, row % (1 << store.groups.bits), False)
    store.live[row] = False


def word_at(address: int, index: int) -> int:
    """A word of the array at an address."""
    return ctypes.c_int64.from_address(address + 8 * index).value


def place_of(directory: Words, row: int) -> tuple[list[int], int | None]:
    """The description of a row's group, and its position there, if it has one."""
    bits = int(directory[0, 0])
    group, offset = directory[1 + (row >> bits)].tolist(), row % (1 << bits)
    if not (chart := group[kernels.CHART]):
        return group, offset
    there = word_at(chart, 2 * (offset // 64)) % 2**64
    if not there >> offset % 64 & 1:
        return group, None
    return group, word_at(chart, 2 * (offset // 64) + 1) + (there % 2 ** (offset % 64)).bit_count()


def is_live(directory: Words, row: int) -> bool:
    """Whether the bit of a row is set."""
    group, position = place_of(directory, row)
    return position is not None and bool(word_at(group[kernels.LIVE], position // 64) >> position % 64 & 1)


def row_at(directory: Words, row: int, width: int) -> Row | None:
    """The words of a row, if it has a place."""
    group, position = place_of(directory, row)
    if position is None:
        return None
    stride = group[kernels.COLUMN_STRIDE]
    return tuple(word_at(group[kernels.COLUMNS], c * stride + position) for c in range(width))


def live_of(directory: Words, rows: list[int]) -> list[bool]:
    """Which of the rows are live."""
    return [is_live(directory, row) for row in rows]


# append, gather


def append_cases(random: Random) -> Iterator[Case]:
    store, n = some_store(random), int(random.choice(COUNTS))
    width, start = store.groups.width, len(store.rows)
    if store.groups.directory[0, kernels.REWRITTEN]:
        store.groups.capacity = max(store.groups.capacity, 1 << store.groups.bits)
    store.groups.reserve(start + n, start)
    required = random.integers(0, 2, width).astype(np.uint8)
    key = random.permutation(width)[: int(random.integers(0, width + 1))].astype(np.int64)
    data = words(random, width, n)
    if random.random() < 0.5:
        data[data == NULL] = 7
    if n and random.random() < 0.3:
        data = np.ascontiguousarray(data[:, np.lexsort(data[key[::-1]] if len(key) else data)])
    arguments = data, start, required, key, words(random, len(key)), int(random.integers(2))
    yield Case((store.directory, *arguments), store)


def seen_append(result, directory, given, start, required, key, highest, known) -> object:
    width, n = given.shape
    if result < 0:
        column, row = divmod(-1 - result, n)
        return "NULL" if required[column] and given[column, row] == NULL else "no NULL"
    places = range(start, start + n)
    rows = [row_at(directory, row, width) for row in places]
    return result, rows, live_of(directory, [*range(start), *places]), highest.tolist()


@reference("rowgroups.append", append_cases, seen_append, knows=True)
def append(store, directory, given, start, required, key, highest, known) -> object:
    n = given.shape[1]
    if (given[required == 1] == NULL).any():
        return "NULL"
    rows = tuples(given, n)
    keys = [tuple(row[column] for column in key.tolist()) for row in rows]
    every = [tuple(highest.tolist())] * bool(known) + keys
    ascending = len(key) == 0 or all(a < b for a, b in pairwise(every))
    top = list(max(every)) if every and len(key) else highest.tolist()
    return int(ascending), rows, store.live + [True] * n, top


def gather_cases(random: Random) -> Iterator[Case]:
    store = some_store(random)
    asked = random.integers(0, max(1, len(store.rows)), 20 if store.rows else 0)
    columns = random.integers(0, store.groups.width, int(random.integers(0, 4)))
    yield Case((store.directory, columns, asked, np.empty((len(columns), len(asked)), np.int64)), store)


@reference(
    "rowgroups.gather",
    gather_cases,
    lambda result, directory, columns, rowids, out: (result, out.tolist()),
    knows=True,
)
def gather(store, directory, columns, rowids, out) -> object:
    rows = [store.rows[row] for row in rowids.tolist()]
    found = [[NULL if row is None else row[column] for row in rows] for column in columns.tolist()]
    return out.size, found


# which rows are live


def live_cases(random: Random) -> Iterator[Case]:
    store = some_store(random)
    start, end = sorted(random.integers(0, len(store.rows) + 1, 2).tolist())
    yield Case((store.directory, start, end, np.empty(end - start, np.int64)), store)


@reference(
    "rowgroups.live_rows",
    live_cases,
    lambda result, directory, start, end, out: out[:result].tolist(),
    knows=True,
)
def live_rows(store, directory, start, end, out) -> object:
    return [row for row in range(start, end) if store.live[row]]


def asked_rows(random: Random, store: Store) -> Words:
    """Rows that may not be there, or come twice."""
    count = len(store.rows)
    return random.integers(-2, count + 2, int(random.choice([0, 1, 5, 100])))


def are_live_cases(random: Random) -> Iterator[Case]:
    store = some_store(random)
    asked = asked_rows(random, store)
    yield Case((store.directory, len(store.rows), asked, np.full(len(asked), 7, np.uint8)), store)


@reference(
    "rowgroups.are_live",
    are_live_cases,
    lambda result, directory, count, rowids, out: (result, out.tolist()),
    knows=True,
)
def are_live(store, directory, count, rowids, out) -> object:
    found = [int(0 <= row < count and store.live[row]) for row in rowids.tolist()]
    return sum(found), found


def kill_cases(random: Random) -> Iterator[Case]:
    store = some_store(random)
    good = store.chosen(random, [row for row, live in enumerate(store.live) if live])
    asked = asked_rows(random, store) if random.random() < 0.3 else good
    if random.random() < 0.3:
        asked = np.concatenate([good, asked_rows(random, store)])
    yield Case((store.directory, len(store.rows), asked), store)


@reference(
    "rowgroups.kill",
    kill_cases,
    lambda result, directory, count, rowids: (result, live_of(directory, list(range(count)))),
    knows=True,
)
def kill(store, directory, count, rowids) -> object:
    live = store.live.copy()
    for i, row in enumerate(rowids.tolist()):
        if not 0 <= row < count or not live[row]:
            return i, store.live
        live[row] = False
    return -1, live


def revive_cases(random: Random) -> Iterator[Case]:
    store = some_store(random)
    yield Case((store.directory, store.chosen(random, store.stored)), store)


@reference(
    "rowgroups.revive",
    revive_cases,
    lambda result, directory, rowids: (result, live_of(directory, rowids.tolist())),
    knows=True,
)
def revive(store, directory, rowids) -> object:
    return len(rowids), [True] * len(rowids)


def claim_cases(random: Random) -> Iterator[Case]:
    store = some_store(random)
    count, width = len(store.rows), store.groups.width
    asked = random.integers(-1, count, int(random.choice([0, 1, 5, 100])))
    given = [store.rows[row] or (0,) * width if row >= 0 else (0,) * width for row in asked.tolist()]
    data = np.array(given, np.int64).reshape(len(given), width).T.copy()
    if given:
        data[int(random.integers(width)), int(random.integers(len(given)))] ^= 1
    yield Case((store.directory, data, asked), store)


def seen_claims(result, directory, given, rowids) -> object:
    rows = rowids.tolist()
    return result, rows, live_of(directory, [row for row in rows if row >= 0])


@reference("rowgroups.claim", claim_cases, seen_claims, knows=True)
def claim(store, directory, given, rowids) -> object:
    claimed: list[int] = []
    for row, wanted in zip(rowids.tolist(), tuples(given, len(rowids)), strict=True):
        free = row >= 0 and store.live[row] and row not in claimed and store.rows[row] == wanted
        claimed.append(row if free else -1)
    count = sum(row >= 0 for row in claimed)
    return count, claimed, [True] * count


# giving up


def bury_cases(random: Random) -> Iterator[Case]:
    store = some_store(random)
    full = len(store.rows) >> store.groups.bits
    rows = random.integers(0, max(1, len(store.rows)), int(random.choice([0, 5, 200])) if store.rows else 0)
    yield Case((store.directory, full, rows, np.empty(full, np.int64)), store)


def seen_buried(result, directory, full, rowids, out) -> object:
    groups = directory[1:, [kernels.DEAD, kernels.WAITING]].tolist()
    return out[:result].tolist(), groups


@reference("rowgroups.bury", bury_cases, seen_buried)
def bury(directory, full, rowids, out) -> object:
    groups = directory[1:, [kernels.DEAD, kernels.WAITING]].tolist()
    told = []
    for row in rowids.tolist():
        number = row >> int(directory[0, 0])
        groups[number][0] += 1
        if (
            number < full
            and not groups[number][1]
            and 2 * groups[number][0] > directory[1 + number, kernels.POSITIONS]
        ):
            groups[number][1] = 1
            told.append(number)
    return told, groups


def rewrite_cases(random: Random) -> Iterator[Case]:
    group = None
    while group is None:
        store = some_store(random)
        size = 1 << store.groups.bits
        if len(store.rows) >= size:
            number = int(random.integers(len(store.rows) // size))
            group = store.groups._groups[number]
    if group.links is not None:
        group.links[:] = random.integers(0, 1000, group.links.shape)
    count = sum(store.live[number * size : (number + 1) * size])
    links = np.zeros((2, count if group.links is not None else 0), np.int64)
    parts = (count + 63) // 64, 2 * ((size + 63) // 64)
    columns = np.empty((store.groups.width, count), np.int64)
    arrays = (np.zeros(n, np.int64) for n in parts)
    yield Case((store.directory, number, columns, *arrays, links), store)


def seen_rewritten(result, directory, number, columns, live, chart, links) -> object:
    bits = [word % 2**64 for word in live.tolist()]
    entries = [(there % 2**64, before) for there, before in chart.reshape(-1, 2).tolist()]
    return result, tuples(columns, result), bits, entries, links.tolist()


@reference("rowgroups.rewrite", rewrite_cases, seen_rewritten, knows=True)
def rewrite(store, directory, number, columns, live, chart, links) -> object:
    size = 1 << store.groups.bits
    kept = [row for row in range(number * size, (number + 1) * size) if store.live[row]]
    masks = [0] * (len(chart) // 2)
    for row in kept:
        masks[row % size // 64] |= 1 << row % size % 64
    before = [sum(mask.bit_count() for mask in masks[:part]) for part in range(len(masks))]
    count = len(kept)
    bits = [2 ** min(64, count - start) - 1 for start in range(0, count, 64)]
    neighbours: list[list[int]] = [[], []]
    if links.shape[1]:
        for row in kept:
            group, position = place_of(directory, row)
            for side in range(2):
                index = side * group[kernels.COLUMN_STRIDE] + position
                neighbours[side].append(word_at(group[kernels.NEIGHBOURS], index))
    return count, [store.rows[row] for row in kept], bits, list(zip(masks, before, strict=True)), neighbours
