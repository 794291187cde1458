"""CHECKPOINT, and another life, between refreshes of TPC-H: all 22 views equal DuckDB's answers."""

from pathlib import Path

from kpg.tpch.data import generate
from tests.properties.tpch_lives import run


def test_refreshes_in_several_lives(tmp_path: Path) -> None:
    data = tmp_path / "tpch"
    generate(0.01, data)
    told: list[str] = []
    run(data, tmp_path / "db", lives=5, orders=20, say=told.append)
    assert sum(one.endswith("22 of 22 equal") for one in told) == 15
    assert sum(one == "CHECKPOINT after a refresh" for one in told) == 8
