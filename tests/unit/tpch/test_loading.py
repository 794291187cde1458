"""Where tables are loaded from, with and without Spark."""

from pathlib import Path

import pytest

from kpg.tpch.loading import obstacle, sources


def test_without_java_the_obstacle_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "there is no java in JAVA_HOME" in (obstacle() or "")


def test_without_spark_a_source_is_a_path(folder: Path) -> None:
    with sources(folder, spark=False) as source:
        assert source("region") == folder / "region.parquet"


@pytest.mark.java
def test_with_spark_a_source_is_a_frame(folder: Path) -> None:
    assert obstacle() is None
    with sources(folder, spark=True) as source:
        assert source("region").count() == 5  # type: ignore[attr-defined]
