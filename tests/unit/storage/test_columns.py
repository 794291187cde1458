"""Columns come back from what they were written as, which is small where they are."""

import numpy as np
import pytest

from kpg.runtime.storage.columns import pack, unpack
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
    one, byte, pair, null, whole = pack(words)
    assert one == 7
    assert null == NULL
    assert isinstance(byte, tuple)
    assert isinstance(pair, tuple)
    assert (byte[0], byte[1].dtype, pair[1].dtype) == (0, np.uint8, np.uint16)
    assert isinstance(whole, np.ndarray)
    assert byte[1].tolist() == list(range(2, n + 2))


def test_few_rows_are_written_as_they_are() -> None:
    words = np.arange(10).reshape(5, 2)
    assert pack(words) is words
