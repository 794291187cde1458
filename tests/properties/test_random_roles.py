"""Random histories of roles, privileges and policies do what they do in Postgres."""

from collections.abc import Iterator

import pytest

from tests.oracle.postgres import serving
from tests.properties.postgres_roles import Postgres, live


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with serving(tmp_path_factory.mktemp("postgres")) as address:
        found = Postgres(address)
        yield found
        found.close()


@pytest.mark.parametrize("seed", range(6))
def test_every_statement_gives_what_postgres_gives(postgres: Postgres, seed: int) -> None:
    assert live(seed, postgres, steps=60)
