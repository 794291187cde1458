"""``head``, ``meet``: rows in the order in which they came, chained by a hash; small steps that meet them."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpg.runtime.kernels import head as kernels
from kpg.runtime.kernels import layout, seek
from kpg.runtime.kernels import meet as meeting
from kpg.runtime.trace.batch import LookupTarget
from kpg.runtime.trace.head import Head
from kpg.runtime.trace.updates import Updates
from tests.model.kernels import comes_before, triples
from tests.model.references import Case, Random, reference
from tests.model.references.batches import Known, Update, some_layers, stream_of
from tests.model.references.words import Row, Words, diffs, size, times, tuples, words

MASK = 2**64 - 1


def array_at(address: int, kind: type[np.signedinteger[Any]], *shape: int) -> Words:
    """A copy of the array at an address."""
    count = int(np.prod(shape))
    held = (ctypes.c_char * (count * np.dtype(kind).itemsize)).from_address(address)
    return np.frombuffer(held, kind).reshape(shape).copy()


def hash_of(row: Row) -> int:
    """A word for some columns of a row, of which the lowest bits tell its slot."""
    found = 0x9E3779B97F4A7C15
    near = int(kernels.NEAR)
    for place, word in enumerate(row):
        found = (found ^ ((word & MASK) >> (0 if place else near))) * 0xFF51AFD7ED558CCD & MASK
        found ^= found >> 32
    return found ^ (row[0] & ((1 << near) - 1)) if row else 0


def chained(rows: list[Row], hashed: int, mask: int) -> dict[int, list[int]]:
    """The rows of each slot that has some, newest first."""
    found: dict[int, list[int]] = {}
    for position, row in enumerate(rows):
        found.setdefault(hash_of(row[:hashed]) & mask, []).insert(0, position)
    return found


def updates_at(head: Words) -> list[Update]:
    """The updates of a head, by its description."""
    stride, n = int(head[layout.STRIDE]), int(head[layout.ROWS])
    data = array_at(int(head[layout.DATA]), np.int64, int(head[layout.WIDTH]), stride)
    time = array_at(int(head[layout.TIME]), np.int64, int(head[layout.DEPTH]), stride)
    diff = array_at(int(head[layout.DIFF]), np.int64, stride).tolist()
    return list(zip(tuples(data, n), tuples(time, n), diff[:n], strict=True))


def chains_at(head: Words) -> dict[int, list[int]]:
    """The rows of each slot that has some, newest first, by following the links."""
    slots = array_at(int(head[layout.SLOTS]), np.int32, int(head[layout.MASK]) + 1).tolist()
    links = array_at(int(head[layout.LINKS]), np.int32, int(head[layout.STRIDE])).tolist()
    found = {}
    for slot, entry in enumerate(slots):
        chain = []
        while entry:
            chain.append(entry - 1)
            entry = links[entry - 1]
        if chain:
            found[slot] = chain
    return found


def state_of(head: Words, updates: list[Update]) -> object:
    """What the description says that is not an address, if these are the updates."""
    chains = chained([row for row, _, _ in updates], int(head[layout.HASHED]), int(head[layout.MASK]))
    return updates, chains, sum(diff != 1 for _, _, diff in updates)


def seen_head(head: Words) -> object:
    return updates_at(head), chains_at(head), int(head[layout.COUNTS])


def some_updates(random: Random, width: int, depth: int, n: int) -> Updates:
    """Rows of few values, or of any words."""
    data = random.integers(0, 3, (width, n)) if random.random() < 0.6 else words(random, width, n)
    return Updates(np.ascontiguousarray(data), times(random, depth, n), diffs(random, n))


def some_head(random: Random, width: int, depth: int) -> Head:
    """A head with nothing in it, or with rows of a few steps."""
    head = Head(width, depth, int(random.integers(0, width + 1)))
    for _ in range(int(random.integers(0, 3))):
        head.append(some_updates(random, width, depth, size(random)))
    return head


def shaped(random: Random) -> tuple[int, int]:
    """A width and a depth."""
    return int(random.integers(0, 4)), int(random.integers(1, 4))


# head


def append_cases(random: Random) -> Iterator[Case]:
    width, depth = shaped(random)
    head = some_head(random, width, depth)
    given = some_updates(random, width, depth, size(random))
    if head.size + len(given) > head._room:
        head._make_room(1 << (head.size + len(given) - 1).bit_length())
    description = head.description
    description[layout.PROBES] = random.integers(0, 5)
    edge = int(description[layout.PROBES]) * kernels.PATIENCE + kernels.LEAST
    for place in (layout.VISITED, layout.VAIN):
        description[place] = edge + random.integers(-1, 2)
    yield Case((given.data, given.time, given.diff, description), head)


def seen_append(result: int, data: Words, time: Words, diff: Words, head: Words) -> object:
    return result, seen_head(head), head[layout.LATEST :].tolist()


@reference("head.append", append_cases, seen_append)
def append(data: Words, time: Words, diff: Words, head: Words) -> object:
    given = triples(Updates(data, time, diff))
    updates = updates_at(head) + given
    edge = kernels.PATIENCE * int(head[layout.PROBES]) + kernels.LEAST
    verdict = kernels.UNFIT if head[layout.VAIN] > edge else kernels.FINE
    if head[layout.VISITED] > edge and any(amount != 1 for _, _, amount in updates):
        verdict = kernels.CROWDED
    latest = [
        max([known, *column]) for known, column in zip(head[layout.LATEST :], time.tolist(), strict=True)
    ]
    if not given:
        latest = head[layout.LATEST :].tolist()
    return verdict, state_of(head, updates), latest


def truncate_cases(random: Random) -> Iterator[Case]:
    head = some_head(random, *shaped(random))
    yield Case((head.description, int(random.integers(0, head.size + 1))), head)


@reference("head.truncate", truncate_cases, lambda result, head, kept: seen_head(head))
def truncate(head: Words, kept: int) -> object:
    return state_of(head, updates_at(head)[:kept])


def rehash_cases(random: Random) -> Iterator[Case]:
    width, depth = shaped(random)
    head = some_head(random, width, depth)
    head.description[layout.HASHED] = random.integers(0, width + 1)
    yield Case((head.description,), head)


@reference("head.rehash", rehash_cases, lambda result, head: seen_head(head))
def rehash(head: Words) -> object:
    return state_of(head, updates_at(head))


# meet


@dataclass
class Met:
    """What addresses lead to: batches and a head, which must be held, and the updates of each."""

    batches: Known
    head: Head | None

    @property
    def updates(self) -> list[Update]:
        """Those of all layers."""
        last = [] if self.head is None else triples(self.head.updates())
        return [update for part in (*self.batches.updates, last) for update in part]


def some_met(random: Random, width: int, depth: int) -> Met:
    """Batches too small for directories, and at times a head."""
    head = some_head(random, width, depth) if random.random() < 0.7 else None
    return Met(some_layers(random, width, depth), head)


def meet_cases(random: Random) -> Iterator[Case]:
    depth, origin = int(random.integers(1, 3)), int(random.integers(0, 2))
    width, stream_width = int(random.integers(0, 4)), int(random.integers(1, 4))
    met = some_met(random, width, int(random.integers(1, depth + 1)))
    n = int(random.choice([1, 2, 10, 80]))
    stream = stream_of(random, stream_width, depth + origin * depth, n)
    keys = int(random.integers(0, min(width, stream_width) + 1))
    ordered = bool(keys) and random.random() < 0.5
    key = list(range(keys)) if ordered else random.permutation(stream_width)[:keys].tolist()
    data = np.ascontiguousarray(stream.data[:, np.lexsort(stream.data[::-1])]) if ordered else stream.data
    kept = [random.permutation(w)[: int(random.integers(0, w + 1))].tolist() for w in (stream_width, width)]
    if met.head is not None:
        met.head.hash_prefix(keys)
    room = int(random.choice([1, 64, n * (len(met.updates) + 1)]))
    closed, floor = (int(random.integers(0, 4)) for _ in range(2))
    yield Case(
        (
            data, stream.time, stream.diff * (1 << 62 if random.random() < 0.1 else 1),
            np.array([keys, *map(len, kept), *key, *kept[0], *kept[1]], np.int64),
            LookupTarget(met.batches.layers, met.head).addresses,
            int(random.choice([seek.ANY, seek.THROUGH, seek.BEFORE])), ordered, closed, floor, origin * depth,
            room, np.full(1 + (sum(map(len, kept)) + 3 + stream.depth) * room, -1, np.int64),
        ),
        met,
    )  # fmt: skip


def seen_meeting(result: int, *arguments: Any) -> object:
    _, time, diff, counts, *_, room, buffer = arguments
    if result < 0:
        return "not here"
    width, depth, flags = int(counts[1] + counts[2]), time.shape[0], int(buffer[0])
    data, beside = buffer[1 : 1 + width * result].reshape(width, result), buffer[1 + width * room :]
    if flags & (meeting.TIMES | meeting.ONE_TIME):
        time = beside[room : room + depth * result].reshape(depth, result)
        varied = len(set(tuples(time, result))) > 1
        assert bool(flags & meeting.TIMES) == varied
    if flags & meeting.DIFFS:
        diff = beside[:result]
    return sorted(triples(Updates(data, np.ascontiguousarray(time), diff))) if result else []


@reference("meet.match_few", meet_cases, seen_meeting, knows=True)
def meet(
    met: Met, data, time, diff, counts, layers, order, ordered, closed, floor, origin, room, buffer
) -> object:
    keys, kept, _ = counts[:3].tolist()
    columns = counts[3:].tolist()
    key, keep, others = columns[:keys], columns[keys : keys + kept], columns[keys + kept :]
    made = []
    for row, at, amount in triples(Updates(data, time, diff)):
        for other, when, count in met.updates:
            if any(row[column] != other[place] for place, column in enumerate(key)):
                continue
            through = order == seek.THROUGH
            if order != seek.ANY and not comes_before(when, at[origin:], closed, floor, through=through):
                continue
            padded = when + (0,) * (len(at) - len(when))
            joined = tuple(row[c] for c in keep) + tuple(other[c] for c in others)
            made.append((joined, tuple(map(max, at, padded)), amount * count))
    if len(made) > room or any(abs(amount) >= 2**63 for _, _, amount in made):
        return "not here"
    return sorted(made)
