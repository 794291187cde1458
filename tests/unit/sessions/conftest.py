"""A database with the tables of a file of tests, and what its sessions see."""

from collections.abc import Iterator

import pytest

import kpg
from kpg.session.session import Session


@pytest.fixture
def db(request: pytest.FixtureRequest) -> Iterator[kpg.Database]:
    """A database with the file's ``TABLES``, ready for sessions."""
    with kpg.connect() as opened:
        opened.sql(request.module.TABLES)
        _ = opened.hub
        yield opened


def rows(session: Session, query: str) -> list[tuple[object, ...]]:
    result = session.sql(query)
    assert result is not None
    return sorted(result.fetchall(), key=repr)
