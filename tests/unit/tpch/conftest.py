"""A small TPC-H data set for the tests of ``kpg.tpch``."""

from pathlib import Path

import pytest

from kpg.tpch.data import generate


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The eight tables at scale factor 0.01: 15000 orders."""
    path = tmp_path_factory.mktemp("tpch")
    generate(0.01, path)
    return path
