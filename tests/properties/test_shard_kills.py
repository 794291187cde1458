"""See ``shard_kills``: what is committed is there, whoever is killed while workers write rows."""

from pathlib import Path

from tests.properties.shard_kills import one_life


def test_every_load_that_was_told_of_is_there(tmp_path: Path) -> None:
    for seed in range(2):
        one_life(tmp_path / "db", seed)
