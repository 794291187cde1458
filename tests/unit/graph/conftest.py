"""Databases and dataflows."""

from collections.abc import Iterator

import pytest

import kpg


@pytest.fixture
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as database:
        yield database


@pytest.fixture
def flow(db: kpg.Database) -> kpg.Dataflow:
    return db.dataflow("graph")
