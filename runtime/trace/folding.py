"""What a spine's batches become when small ones are made one at once."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch
from kpg.runtime.trace.merge import Merge
from kpg.runtime.trace.updates import Updates, Words

TINY: Final = 512
"""Rows that are sorted together sooner than two merges are set up; TINY_BATCHES of them make 4,096."""
TINY_BATCHES: Final = 8
"""So many batches of up to ``TINY`` rows are left at the end before the newest of them are made one."""

ROUND_FACTOR: Final = 2
"""Batches that are made one, or merged in a step: none is larger than so many times all newer ones."""


def meet(frontiers: Iterable[Antichain]) -> Antichain | None:
    """The earliest of the frontiers; None if there are none."""
    result = None
    for frontier in frontiers:
        if result is None or (frontier is not result and frontier.dominates(result)):
            result = frontier
        elif frontier is not result and not result.dominates(frontier):
            result = result.meet(frontier)
    return result


def tiny_tail(nodes: Sequence[Batch | Merge]) -> int:
    """How many of the newest batches are tiny."""
    count = 0
    for node in reversed(nodes):
        if len(node) > TINY or isinstance(node, Merge):
            break
        count += 1
    return count


def comparable(nodes: Sequence[Batch | Merge]) -> int:
    """How many of the newest to make one, two at least: none is much larger than all newer ones together."""
    count, rows = 1, len(nodes[-1])
    while count < len(nodes) and (count < 2 or len(nodes[-1 - count]) <= ROUND_FACTOR * rows):
        rows += len(nodes[-1 - count])
        count += 1
    return count


def combined(batches: Sequence[Batch], frontier: Antichain | None) -> Batch:
    """One batch of small adjacent ones, sorted anew, with times compacted to the frontier if there is one."""
    since = batches[0].since
    for batch in batches:
        if batch.since is not since and batch.since != since:
            since = since.join(batch.since)
    updates = Updates.concat([batch.updates for batch in batches])
    whole = settled(updates, batches[0].lower, batches[-1].upper, frontier)
    whole.since = whole.since.join(since)
    return whole


def settled(updates: Updates, lower: Antichain, upper: Antichain, frontier: Antichain | None) -> Batch:
    """The batch of updates in any order, with times compacted to the frontier if there is one."""
    since = Antichain.minimum(updates.depth)
    floor = frontier.floor() if frontier is not None else None
    if frontier is not None and floor is not None:
        since = frontier
        times = np.maximum(updates.time, np.array(floor, np.int64).reshape(-1, 1))
        updates = Updates(updates.data, _shortened(times), updates.diff, updates.ordered)
    return Batch(updates.consolidate(), lower, upper, since)


def _shortened(times: Words) -> Words:
    """Times stored once if all are equal."""
    return times[:, :1].copy() if (times == times[:, :1]).all() else times
