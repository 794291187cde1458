"""A changed bit changes the checksum."""

import numpy as np

from kpg.runtime.storage.files import checksum_of, padding


def test_every_bit_counts() -> None:
    data = np.random.default_rng(1).integers(0, 256, 88).astype(np.uint8)
    seen = {checksum_of([data.tobytes()])}
    for bit in range(8 * len(data)):
        other = data.copy()
        other[bit // 8] ^= 1 << bit % 8
        seen.add(checksum_of([other.tobytes()]))
    assert len(seen) == 8 * len(data) + 1


def test_zeros_count_too() -> None:
    assert len({checksum_of([bytes(8 * n)]) for n in range(100)}) == 100
    assert checksum_of([]) == 0


def test_pieces_follow_each_other() -> None:
    first, second = bytes(range(16)), bytes(range(100, 108))
    assert checksum_of([first, second]) == checksum_of([second], checksum_of([first]))
    assert checksum_of([first, second]) != checksum_of([second, first])


def test_padding() -> None:
    assert [padding(n) for n in (0, 1, 7, 8, 9)] == [0, 7, 1, 0, 7]
