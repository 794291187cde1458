"""Random databases, views and histories: every view is Postgres' answer after every commit."""

from collections.abc import Iterator

import pytest

from tests.oracle.postgres import serving
from tests.properties.postgres_twin import in_order_of_bytes, twins
from tests.properties.test_random_sql import live


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("postgres")) as found:
        yield in_order_of_bytes(found)


@pytest.mark.parametrize("seed", range(8))
def test_views_are_what_postgres_answers(address: str, seed: int) -> None:
    live(seed, views=3, steps=6, twins=twins(address))
