"""``ranges``: rows that satisfy more thresholds, or fewer."""

import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpg.runtime.kernels import ranges
from kpg.runtime.trace.batch import LookupTarget
from kpg.runtime.types import MIN_WORD
from tests.model.references import Case, Random, reference
from tests.model.references.batches import Known, some_layers
from tests.model.references.heads import Met, some_met
from tests.model.references.words import Row, Words, diffs, spread, tuples, words

COMPARISONS = {
    ranges.LESS: operator.lt,
    ranges.LESS_EQUAL: operator.le,
    ranges.GREATER: operator.gt,
    ranges.GREATER_EQUAL: operator.ge,
}


@dataclass
class Sides:
    """What addresses lead to: the thresholds' trace and the rows', which must be held."""

    thresholds: Met
    rows: Known


def some_rows(random: Random, width: int) -> Words:
    """Rows of few values, or of the words at the edges: fewer than are too many thresholds."""
    n = int(random.choice([0, 1, 3, 30]))
    return random.integers(0, 4, (width, n)) if random.random() < 0.6 else words(random, width, n)


def follow_cases(random: Random) -> Iterator[Case]:
    width = int(random.integers(1, 4))
    thresholds, rows = some_met(random, int(random.integers(1, 3)), 1), some_layers(random, width, 1)
    left, right = some_rows(random, width), some_rows(random, int(random.integers(1, 3)))
    right_diff = diffs(random, right.shape[1])
    if random.random() < 0.1:
        right = np.arange(int(random.integers(60, 70))).reshape(1, -1)
        right_diff = np.ones(1, np.int64)
    room = int(random.choice([1, 20, 5000]))
    yield Case(
        (
            left, diffs(random, left.shape[1]) * (2**40 if random.random() < 0.1 else 1), right, right_diff,
            LookupTarget(thresholds.batches.layers, thresholds.head).addresses, rows.layers.descriptions,
            int(random.choice(list(COMPARISONS))), int(random.integers(0, 5)),
            np.empty((width + 1, room), np.int64),
        ),
        Sides(thresholds, rows),
    )  # fmt: skip


def seen_changes(result: int, *arguments: Any) -> object:
    out = arguments[-1]
    if result == ranges.REFUSED:
        return "refused"
    return sorted(tuples(out[:, :result])) if result >= 0 else f"room for {-1 - result}"


def counted(found: Iterable[tuple[int, int]]) -> dict[int, int]:
    """How often there is each threshold."""
    counts: Counter[int] = Counter()
    for value, count in found:
        if value >= MIN_WORD:
            counts[value] += count
    return {value: count for value, count in counts.items() if count}


@reference("ranges.follow", follow_cases, seen_changes, knows=True)
def follow(
    known: Sides, left, left_diff, right, right_diff, thresholds, layers, comparison, epoch, out
) -> object:
    earlier = [(row[0], diff) for row, when, diff in known.thresholds.updates if when[0] < epoch]
    before = counted(earlier) if left.shape[1] else {}
    change = counted(zip(right[0].tolist(), spread(right_diff, right.shape[1]), strict=True))
    if max(len(before), len(change)) > ranges.MOST:
        return "refused"
    rows = [*zip(tuples(left), spread(left_diff, left.shape[1]), strict=True)]
    made = [one for row in rows for one in satisfied(*row, comparison, before)]
    too_often = any(satisfied(*row, comparison, before) and abs(row[1]) > ranges.MOST_TIMES for row in rows)
    for updates in known.rows.updates:
        made += [one for row, _, diff in updates for one in satisfied(row, diff, comparison, change)]
    if len(made) > out.shape[1]:
        return f"room for {len(made)}"
    return "refused" if too_often else sorted(made)


def satisfied(row: Row, diff: int, comparison: int, thresholds: dict[int, int]) -> list[Row]:
    """The row with as many times its diff as it satisfies thresholds, unless that is 0."""
    if row[0] < MIN_WORD:
        return []
    holds = COMPARISONS[comparison]
    times = sum(count for value, count in thresholds.items() if holds(row[0], value))
    return [(*row, diff * times)] if times else []
