"""Random nested queries against DuckDB."""

import random

import pytest

from tests.unit.compiler.sql.generator import Generator
from tests.unit.compiler.sql.oracle import check, database_of
from tests.unit.compiler.sql.test_queries import CATALOG, TABLES, random_data

COLUMNS = {"r": ("k", "a", "b"), "q": ("a", "b", "c"), "u": ("a", "x"), "e": ("a", "x")}


@pytest.mark.parametrize("seed", range(4))
def test_random_queries(seed: int) -> None:
    generator = Generator(random.Random(seed), COLUMNS)
    data = random_data(seed)
    # DuckDB 2.0 loses rows where it knows that IS NULL cannot hold, so it is not told.
    with database_of(TABLES.replace("not null", ""), data) as database:
        for round_ in range(60):
            check(generator.query([], 1 + round_ % 3, 2), CATALOG, data, database)
