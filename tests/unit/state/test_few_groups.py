"""Large batches over few groups, which are added group by group, against sums made one by one."""

import random
from collections import defaultdict

import numpy as np
import pytest

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import groups as kernels
from kpg.runtime.state.groups import Accumulator, GroupTable
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import ERROR, MIN_WORD, NULL

ACCUMULATORS = (
    Accumulator(kernels.COUNT, -1),
    Accumulator(kernels.COUNT, 2),
    Accumulator(kernels.SUM, 2),
    Accumulator(kernels.SUM, 3),
)
Row = tuple[int, ...]


def shown(total: int) -> int:
    return total if MIN_WORD <= total < 2**63 else ERROR


class Model:
    """Rows, values that are not NULL, and the sums of columns 2 and 3, by key."""

    def __init__(self) -> None:
        self.groups: dict[Row, list[int]] = defaultdict(lambda: [0] * 5)

    def add(self, rows: list[Row], diff: int) -> None:
        for row in rows:
            group = self.groups[row[:2]]
            group[0] += diff
            for place, word in ((1, row[2]), (3, row[3])):
                if word != NULL:
                    group[place] += diff
                    group[place + 1] += diff * word

    def contents(self) -> dict[Row, Row]:
        found = {}
        for key, (count, some, total, others, rest) in self.groups.items():
            if count:
                found[key] = (count, some, shown(total) if some else NULL, rest if others else NULL)
        return found


def step(table: GroupTable, rows: list[Row], diff: int, contents: dict[Row, Row]) -> None:
    """Add rows; the changes that come of it are made to the contents."""
    table.accumulate(Updates.of(np.array(rows, np.int64).T.copy(), (1,), [diff]))
    data, diffs, _ = table.emit(True)
    changes = zip(map(tuple, data.T.tolist()), diffs.tolist(), strict=True)
    for row, change in sorted(changes, key=lambda pair: pair[1]):
        if change < 0:
            assert contents.pop(row[:2]) == row[2:]
        else:
            contents[row[:2]] = row[2:]


@pytest.mark.parametrize("groups", [1, 2, 7, 8, 9, 60, 64, 65, 200])
@pytest.mark.parametrize("wide", [False, True])
def test_random_histories(groups: int, wide: bool) -> None:
    rng = random.Random(groups)
    most = 2**61 if wide else 10**6
    table, model, contents = GroupTable(2, ACCUMULATORS), Model(), dict[Row, Row]()
    held: list[Row] = []

    def row() -> Row:
        key = rng.randrange(groups)
        value = NULL if rng.random() < 0.01 * (groups % 2) else rng.randint(-most, most)
        return key % 3, -(key // 3), value, rng.randint(-9, 9)

    for number in range(12):
        rows = [row() for _ in range(rng.choice((1, 65, 1024, 2500)))]
        before = dict(contents)
        step(table, rows, 1, contents)
        if number % 4 == 3:
            table.rollback()
            contents = before
            continue
        table.commit()
        model.add(rows, 1)
        held += rows
        rng.shuffle(held)
        gone = [held.pop() for _ in range(rng.choice((0, len(held) // 2, len(held))))]
        if gone:
            step(table, gone, -1, contents)
            table.commit()
            model.add(gone, -1)
        assert contents == model.contents()
        assert len(table) == len(contents)


def test_the_count_of_a_group_that_does_not_fit() -> None:
    table = GroupTable(1, (Accumulator(kernels.COUNT, -1),))
    table.accumulate(Updates.of(np.array([[1]]), (1,), [2**63 - 100]))
    table.commit()
    with pytest.raises(DataError, match="64-bit count"):
        table.accumulate(Updates.of(np.ones((1, 2000), np.int64), (2,), [1]))
