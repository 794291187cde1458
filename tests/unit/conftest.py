"""Databases for the tests of the public API."""

from collections.abc import Iterator

import pytest

import kpg
from kpg.api.database import Database


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect() as database:
        yield database


@pytest.fixture
def shop(db: Database) -> Database:
    """Items in kinds, and the total of each kind, maintained."""
    db.sql("""
        CREATE TABLE item (id INT PRIMARY KEY, kind TEXT, price DECIMAL(10, 2) NOT NULL);
        INSERT INTO item VALUES (1, 'a', 2.50), (2, 'a', 3.50), (3, 'b', 1.00);
        CREATE MATERIALIZED VIEW total AS
            SELECT kind, sum(price) AS price FROM item GROUP BY kind ORDER BY kind;
    """)
    return db
