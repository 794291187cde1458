"""Whether Spark can run, and why not."""

from pathlib import Path

import pytest

from kpg.tpch.job import spark_obstacle


def test_without_java_the_obstacle_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "there is no java in JAVA_HOME" in (spark_obstacle() or "")


@pytest.mark.java
def test_with_java_there_is_none() -> None:
    assert spark_obstacle() is None
