"""Pieces of results: as many rows as have some 256 KB."""

from kpg.server.messages import BYTES, FIRST, MOST, Pace


def test_small_rows_come_to_be_many_and_large_ones_few() -> None:
    pace = Pace()
    assert pace.rows == FIRST
    pace.took(FIRST, FIRST * 20)
    assert pace.rows == 4 * FIRST
    for _ in range(5):
        pace.took(pace.rows, pace.rows * 20)
    assert pace.rows == MOST
    pace.took(MOST, MOST * BYTES)
    assert pace.rows == 1
    pace.took(1, BYTES // 8)
    assert pace.rows == 4
    pace.took(0, 0)
    assert pace.rows == 4
