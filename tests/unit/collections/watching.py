"""What collections come to."""

from collections import Counter
from typing import Any

import kpg


class Watched:
    """All changes of a collection, and what they add up to."""

    def __init__(self, collection: kpg.Collection) -> None:
        self.changes: list[tuple[tuple[Any, ...], int, int]] = []
        self.inspection = collection.inspect(lambda row, time, diff: self.changes.append((row, time, diff)))

    def at(self, time: int | None = None) -> dict[tuple[Any, ...], int]:
        """The rows, accumulated up to a time, with multiplicities other than 0."""
        total: Counter[tuple[Any, ...]] = Counter()
        for row, when, diff in self.changes:
            if time is None or when <= time:
                total[row] += diff
        return {row: count for row, count in total.items() if count}

    def new(self) -> list[tuple[tuple[Any, ...], int, int]]:
        """The changes since the last call, sorted."""
        found, self.changes = sorted(self.changes, key=repr), []
        return found


def watch(collection: kpg.Collection) -> Watched:
    """Record a collection's changes."""
    return Watched(collection)


def step(flow: kpg.Dataflow, *inputs: kpg.Input) -> int:
    """Advance the inputs by one, take the step, and tell the time that it has closed."""
    time = max(one.time for one in inputs)
    for one in inputs:
        one.advance_to(time + 1)
    flow.step()
    return time
