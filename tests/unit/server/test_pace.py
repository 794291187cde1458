"""Pieces of results: as many rows as have some 256 KB."""

from kpg.server.messages import INITIAL_ROWS, MAX_ROWS, TARGET_BYTES, ChunkSizer


def test_small_rows_come_to_be_many_and_large_ones_few() -> None:
    pace = ChunkSizer()
    assert pace.rows == INITIAL_ROWS
    pace.record_chunk(INITIAL_ROWS, INITIAL_ROWS * 20)
    assert pace.rows == 4 * INITIAL_ROWS
    for _ in range(5):
        pace.record_chunk(pace.rows, pace.rows * 20)
    assert pace.rows == MAX_ROWS
    pace.record_chunk(MAX_ROWS, MAX_ROWS * TARGET_BYTES)
    assert pace.rows == 1
    pace.record_chunk(1, TARGET_BYTES // 8)
    assert pace.rows == 4
    pace.record_chunk(0, 0)
    assert pace.rows == 4
