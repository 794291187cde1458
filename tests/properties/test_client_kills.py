"""What is left of clients that were killed, and of a server that was told to stop: nothing."""

import random
from pathlib import Path

import pytest

from tests.properties.client_kills import Harness


@pytest.mark.slow
def test_nothing_is_left_of_those_who_were_killed(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "db", random.Random(3))
    try:
        for _ in range(4):
            harness.kill()
        harness.stop()
    finally:
        harness.served.kill()
    assert harness.killed.total() == 17
