"""Columns come back from what they were written as, which is small where they are."""

import numpy as np
import pytest

from kpg.runtime.storage.packs import pack, unpack
from kpg.runtime.types import ERROR, NULL


@pytest.mark.parametrize("seed", range(30))
def test_rows_come_back(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.choice([0, 1, 16, 17, 300]))
    columns = []
    for _ in range(4):
        bits = int(random.choice([0, 3, 8, 15, 16, 31, 32, 62]))
        one = random.integers(-(2**bits), 2**bits + 1, n) + int(random.choice([0, 2**61, -(2**61)]))
        one[random.random(n) < random.choice([0, 0.1, 1])] = NULL
        if random.random() < 0.2:
            one[random.random(n) < 0.5] = ERROR
        columns.append(one)
    words = np.array(columns, np.int64).reshape(4, n)
    assert unpack(pack(words), n).tolist() == words.tolist()


def test_columns_take_few_bytes() -> None:
    n = 100
    words = np.array([[7] * n, range(n), range(0, 300 * n, 300), [NULL] * n, range(0, n << 40, 1 << 40)])
    one, seven, fifteen, null, whole = pack(words)
    assert one == 7
    assert null == NULL
    assert isinstance(seven, tuple) and len(seven) == 3
    assert isinstance(fifteen, tuple) and len(fifteen) == 3
    assert (seven[0], seven[1], len(seven[2])) == (0, 7, 12)  # 9 codes in a word
    assert (fifteen[0], fifteen[1], len(fifteen[2])) == (0, 15, 25)
    assert isinstance(whole, np.ndarray)
    # Codes are two above the values: the first word has those of rows 0, 12, 24 and so on.
    codes = [[2, 14, 26, 38, 50, 62, 74, 86, 98], [13, 25, 37, 49, 61, 73, 85, 97]]
    found = [sum(code << 7 * place for place, code in enumerate(some)) for some in codes]
    assert [seven[2][0], seven[2][11]] == found


def test_columns_of_earlier_logs_are_read() -> None:
    """Codes were arrays of their own, of one, two or four bytes."""
    codes = np.array([2, 0, 5, 1], np.uint8)
    assert unpack((7, (10, codes), (-(2**62), codes.astype(np.uint16))), 4).tolist() == [
        [7, 7, 7, 7],
        [10, NULL, 13, ERROR],
        [-(2**62), NULL, 3 - 2**62, ERROR],
    ]


def test_few_rows_are_written_as_they_are() -> None:
    words = np.arange(10).reshape(5, 2)
    assert pack(words) is words
