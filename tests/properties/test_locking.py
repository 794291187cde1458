"""Random histories of sessions that lock rows and tables: who waits, and for what, is as in Postgres."""

from collections.abc import Iterator

import pytest

from tests.oracle.postgres import serving
from tests.properties.locking import History, Raced, Sides
from tests.unit.server.conftest import serving as served


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with serving(tmp_path_factory.mktemp("postgres")) as address, served() as running:
        made = Sides(running, address)
        yield made
        made.close()


@pytest.mark.parametrize("seed", range(6))
def test_waiting_is_that_of_postgres(sides: Sides, seed: int) -> None:
    history = History(sides, seed)
    try:
        history.run(30)
    except Raced:
        assert history.script
    finally:
        history.end()
