"""``collect``: the rows of groups, read from the layers of a trace."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import product

import numpy as np

from kpg.runtime.kernels.collect import LAYERS_DEPTH, LIMIT, ROUNDS, SKIP, TEXT_ENDS, WRITTEN
from kpg.runtime.types import MAX_WORD, MIN_WORD
from tests.model.references import Arguments, Case, Random, reference
from tests.model.references.batches import Known, Update, some_layers
from tests.model.references.words import Row, columns, size, tuples, words

UNLIMITED = 1 << 62


def prefixes(random: Random, known: Known, group: int, count: int) -> list[Row]:
    """Distinct ones in order, those of some rows, and others."""
    rows = [row[:group] for updates in known.updates for row, _, _ in updates]
    chosen = [rows[i] for i in random.integers(0, len(rows), count)] if rows else []
    return sorted({*chosen, *tuples(random.integers(0, 4, (group, 2)))})


def visible(updates: list[list[Update]], prefix: Row, at: Row) -> list[tuple[Row, int]]:
    """The rows that begin so, accumulated up to a time, in order, whatever their multiplicities."""
    found: dict[Row, int] = {}
    for row, when, diff in (update for layer in updates for update in layer):
        if row[: len(prefix)] == prefix and all(a <= b for a, b in zip(when, at, strict=False)):
            found[row] = found.get(row, 0) + diff
    return sorted(found.items())


def unsettled(row: Row, last: Row, ends: list[int]) -> bool:
    """Whether the rows agree up to the end of a text whose last word is full."""
    return any(
        row[:end] == last[:end] and MIN_WORD < last[end - 1] < MAX_WORD and abs(last[end - 1]) % 8 == 7
        for end in ends
    )


def window(rows: list[tuple[Row, int]], skip: int, limit: int, ends: list[int]) -> list[tuple[Row, int]]:
    """The copies from ``skip`` on, ``limit`` of them; with texts whole rows, and all that may be before."""
    kept: list[tuple[Row, int]] = []
    seen = 0
    for row, count in rows:
        if count <= 0:
            continue
        if ends:
            if seen >= limit and not unsettled(row, kept[-1][0], ends):
                break
            kept.append((row, count))
        else:
            copies = min(seen + count, skip + limit) - max(seen, skip)
            if copies > 0:
                kept.append((row, copies))
        seen += count
    return kept


def collect_cases(random: Random) -> Iterator[Case]:
    width, depth = int(random.integers(1, 4)), int(random.integers(1, 3))
    group = int(random.integers(0, width + 1))
    known = some_layers(random, width, depth, least=1, step=int(random.choice([1, 7])))
    texts = int(random.integers(1, width + 1)) if random.random() < 0.4 else 0
    ends = sorted(random.choice(range(1, width + 1), texts, replace=False).tolist())
    skip = 0 if texts else int(random.integers(0, 3))
    limit = int(random.choice([1, 2, 5, UNLIMITED]))
    prefix = prefixes(random, known, group, int(random.integers(0, 5)))
    tasks = len(prefix)
    capacity = tasks * sum(map(len, known.updates)) + 1
    yield Case(
        (
            known.layers.descriptions, columns(prefix, group), random.integers(0, 5, (depth, tasks)),
            random.integers(1, len(known.layers) + 1, tasks),
            np.array([0, 0, 0, 0, skip, limit, texts, *ends]),
            np.empty((width + 2, capacity), np.int64),
        ),
        known,
    )  # fmt: skip


def seen_rows(result, *arguments) -> object:
    *_, reading, out = arguments
    n = int(reading[WRITTEN])
    rows, (count, task) = np.ascontiguousarray(out[:-2, :n]), out[-2:, :n].tolist()
    return result, [*zip(tuples(rows, n), count, task, strict=True)]


@reference("collect.collect", collect_cases, seen_rows, knows=True)
def collect(known, layers, prefix, at, seen, reading, out) -> object:
    skip, limit = reading[[SKIP, LIMIT]].tolist()
    ends = reading[TEXT_ENDS:].tolist()
    tasks = seen.shape[0]
    found = []
    for task, (one, when) in enumerate(zip(tuples(prefix, tasks), tuples(at, tasks), strict=True)):
        rows = visible(known.updates[: seen[task]], one, when)
        found += [(row, count, task) for row, count in window(rows, skip, limit, ends)]
    return tasks, found


def heads_cases(random: Random) -> Iterator[Arguments]:
    width = int(random.integers(1, 4))
    rows = sorted(tuples(words(random, width, size(random))))
    yield columns(rows, width), np.empty((int(random.integers(1, width + 1)), len(rows)), np.int64)


@reference("collect.heads", heads_cases, lambda result, data, out: tuples(out[:, :result]))
def heads(data, out) -> object:
    return sorted({row[: out.shape[0]] for row in tuples(data)})


def difference_cases(random: Random) -> Iterator[Case]:
    width, depth = int(random.integers(1, 4)), int(random.integers(1, 4))
    rounds = depth - 1 + int(random.integers(0, 2))
    group = int(random.integers(0, width + 1))
    known = some_layers(random, width, depth, least=1)
    prefix = prefixes(random, known, group, 3)
    offsets = list(product((0, 1), repeat=1 + rounds))
    groups = np.sort(random.integers(0, len(prefix), int(random.integers(0, 6))))
    signs = [(-1) ** sum(offset) for offset in offsets]
    capacity = len(groups) * sum(map(len, known.updates)) + 1
    window = int(random.integers(0, 3)), int(random.choice([1, 2, UNLIMITED]))
    yield Case(
        (
            known.layers.descriptions, columns(prefix, group), groups, random.integers(0, 5, len(groups)),
            columns(offsets, 1 + rounds), np.array(signs, np.int64),
            np.array([0, 0, 0, 0, *window, 0, depth, *random.integers(0, 5, rounds)]),
            np.empty((width + 2, capacity), np.int64),
        ),
        known,
    )  # fmt: skip


@reference("collect.differences", difference_cases, seen_rows, knows=True)
def differences(known, layers, prefix, groups, epochs, offsets, signs, reading, out) -> object:
    (skip, limit), rounds = reading[[SKIP, LIMIT]].tolist(), reading[ROUNDS:]
    found = []
    names = tuples(prefix)
    for task, (number, epoch) in enumerate(zip(groups.tolist(), epochs.tolist(), strict=True)):
        changes: dict[Row, int] = {}
        for offset, sign in zip(tuples(offsets), signs.tolist(), strict=True):
            at = tuple(a - b for a, b in zip((epoch, *rounds.tolist()), offset, strict=True))
            for row, count in window(visible(known.updates, names[number], at), skip, limit, []):
                changes[row] = changes.get(row, 0) + sign * count
        found += [(row, change, task) for row, change in sorted(changes.items()) if change]
    return len(groups), found


def group_time_cases(random: Random) -> Iterator[Case]:
    width, depth = int(random.integers(1, 4)), int(random.integers(1, 3))
    group = int(random.integers(0, width + 1))
    known = some_layers(random, width, depth, least=1)
    prefix = prefixes(random, known, group, 3)
    capacity = len(prefix) * sum(map(len, known.updates)) + 2
    reading, out = np.zeros(WRITTEN + 1, np.int64), np.empty((depth + 1, capacity), np.int64)
    closed = int(random.integers(0, 4))
    yield Case((known.layers.descriptions, columns(prefix, group), closed, reading, out), known)


def seen_times(result, *arguments) -> object:
    *_, reading, out = arguments
    n = int(reading[WRITTEN])
    return result, sorted(zip(out[-1, :n].tolist(), tuples(out[:-1, :n], n), strict=True))


@reference("collect.group_times", group_time_cases, seen_times, knows=True)
def group_times(known, layers, prefix, closed, reading, out) -> object:
    names, group = tuples(prefix), len(prefix)
    found = {
        (task, (max(when[0], closed - 1), *when[1:]))
        for task, one in enumerate(names)
        for row, when, _ in (update for layer in known.updates for update in layer)
        if row[:group] == one
    }
    return len(names), sorted(found)


def later_cases(random: Random) -> Iterator[Case]:
    depth = int(random.integers(1, 4))
    width = int(random.integers(1, 4))
    known = some_layers(random, width, depth, least=1)
    group = int(random.integers(0, width + 1))
    prefix = columns(prefixes(random, known, group, 3), group)
    rounds = random.integers(0, 4, int(random.integers(max(1, depth - 1), 4)))
    room = sum(map(len, known.updates)) * prefix.shape[1] + 2
    reading, out = np.array([0] * LAYERS_DEPTH + [depth]), np.empty((len(rounds) + 1, room), np.int64)
    yield Case((known.layers.descriptions, prefix, rounds, reading, out), known)


@reference("collect.later_rounds", later_cases, seen_times, knows=True)
def later_rounds(known, layers, prefix, rounds, reading, out) -> object:
    names, now, depth = tuples(prefix), tuple(rounds.tolist()), int(reading[LAYERS_DEPTH])
    found = set()
    for task, one in enumerate(names):
        lacking = (0,) * (len(now) + 1 - depth)
        whens = [
            tuple(map(max, (*when[1:], *lacking), now))
            for layer in known.updates
            for row, when, _ in layer
            if row[: len(prefix)] == one
        ]
        later = {when for when in whens if when != now}
        found |= {(task, when) for when in ({min(later)} if len(now) == 1 and later else later)}
    return len(names), sorted(found)


def range_cases(random: Random) -> Iterator[Case]:
    width = int(random.integers(1, 4))
    key = int(random.integers(0, width))
    known = some_layers(random, width, 1)
    prefix = random.integers(0, 3, key)
    low, high = sorted(words(random, 2).tolist())
    yield Case(
        (known.layers.descriptions, key, prefix, low, high, np.empty((len(known.layers), 2), np.int64)), known
    )


@reference(
    "collect.range_bounds", range_cases, lambda result, *arguments: tuples(arguments[-1].T), knows=True
)
def range_bounds(known, layers, key, prefix, low, high, bounds) -> object:
    found = []
    for updates in known.updates:
        rows = [row[: key + 1] for row, _, _ in updates]
        start = tuple(prefix.tolist())
        found.append((bisect_left(rows, (*start, low)), bisect_right(rows, (*start, high))))
    return found
