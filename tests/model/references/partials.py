"""``partial``: groups and their sums by a dictionary."""

from collections.abc import Iterator

import numpy as np

from tests.model.references import Arguments, Random, reference

NULL, ERROR = -(2**63), -(2**63) + 1
FAILED, MANY, LARGE = -1, -2, -3


def cases(random: Random) -> Iterator[Arguments]:
    for key, width, rows, room, special in (
        (0, 2, 40, 4, NULL),
        (1, 3, 60, 20, NULL),
        (2, 4, 50, 20, ERROR),
        (2, 2, 50, 6, NULL),
        (1, 3, 30, 20, 2**61),
    ):
        data = random.integers(-3, 3, (width, rows))
        data[key:][data[key:] == 2] = special
        diffs = random.integers(-2, 3, rows if rows % 20 else 1)
        summed = random.integers(0, 2, width - key)
        slots = np.full(256, -1, np.int64)
        yield (
            data,
            diffs,
            key,
            summed,
            slots,
            np.zeros((room, 2 + width - key), np.int64),
            np.zeros((room, width - key), np.int64),
        )


def said(result, data, diffs, key, summed, slots, groups, sums) -> object:
    if result < 0:
        return result
    return {
        tuple(data[:key, groups[g, 0]].tolist()): (groups[g, 1:].tolist(), sums[g].tolist())
        for g in range(result)
    }


@reference("partial.add_up", cases, said)
def add_up(data, diffs, key, summed, slots, groups, sums) -> object:
    found: dict = {}
    rough = [0.0] * len(summed)
    for row in range(data.shape[1]):
        words, diff = data[:, row].tolist(), int(diffs[row % len(diffs)])
        name = tuple(words[:key])
        if name not in found and len(found) == groups.shape[0]:
            return MANY
        counts, totals = found.setdefault(name, ([0] * (1 + len(summed)), [0] * len(summed)))
        counts[0] += diff
        for column, word in enumerate(words[key:]):
            if word == NULL:
                continue
            if word == ERROR:
                return FAILED
            counts[1 + column] += diff
            if summed[column]:
                rough[column] += abs(float(word) * diff)
                totals[column] += word * diff
    return LARGE if max(rough, default=0.0) > 4.0e18 else found
