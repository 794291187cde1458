"""Random databases of all types, views over views and histories, beside Postgres after every step."""

from collections.abc import Iterator

import pytest

from tests.oracle.postgres import serving
from tests.properties.postgres_histories import live
from tests.properties.postgres_twin import in_order_of_bytes


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("postgres")) as found:
        yield in_order_of_bytes(found)


@pytest.mark.parametrize("seed", range(8))
def test_views_and_queries_are_what_postgres_answers(address: str, seed: int) -> None:
    counts = live(address, seed, views=3, steps=5)
    assert counts["statements"] >= 3


@pytest.mark.parametrize("seed", [200, 203, 204])
def test_they_are_in_every_life_of_a_database(address: str, seed: int) -> None:
    counts = live(address, seed, views=3, steps=6, in_folder=True)
    assert counts["lives"] + counts["undecided"] > 0
