"""Random queries with window functions, asked once and kept as views while a table changes, as Postgres."""

import random
from collections.abc import Iterator

import pytest

from tests.oracle.postgres import Beside, serving
from tests.properties.sql_windows import TABLES, change, query, table_rows

SEEDS = range(6)
QUERIES = 12
CHANGES = 6


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("postgres")) as found:
        yield found


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_are_those_of_postgres(address: str, seed: int) -> None:
    beside = Beside(address)
    try:
        compare(beside, random.Random(seed))
    finally:
        beside.close()


def compare(beside: Beside, generator: random.Random) -> None:
    """Queries as views and asked once, after each of a few changes."""
    ids = list(range(1, generator.choice([1, 6, 25])))
    beside.run(TABLES)
    if ids:
        beside.run(f"insert into w values {table_rows(generator, ids)}")
    queries = [query(generator) for _ in range(QUERIES)]
    for one in queries:
        beside.keep(one)
    for _ in range(CHANGES):
        beside.run(change(generator, ids))
        beside.compare("changes")
    for one in queries:
        beside.ask(one)
    beside.check()
