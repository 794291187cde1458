"""Calls of one database from many threads are as if they had come one after another."""

from pathlib import Path

import pytest

from tests.properties.threads import life


@pytest.mark.parametrize("seed", range(8))
def test_a_serial_order_explains_every_answer(seed: int, tmp_path: Path) -> None:
    one = life(seed, tmp_path / "db", calls=20)
    one.run()
    assert one.did.total() > 20 and one.writes and one.reads
