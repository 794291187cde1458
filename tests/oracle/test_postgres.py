"""What users of Postgres write, asked once and kept as views, against a real Postgres.

Each script in ``sql/`` is run twice: in its order, and with its queries made views before its changes.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.postgres import Beside, asked_once, followed, serving

SCRIPTS = sorted((Path(__file__).parent / "sql").glob("*.sql"))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("postgres")) as found:
        yield found


@pytest.fixture
def beside(address: str) -> Iterator[Beside]:
    both = Beside(address)
    yield both
    both.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_queries_are_answered_as_postgres_does(beside: Beside, script: Path) -> None:
    asked_once(beside, script.read_text())
    beside.check()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_views_follow_the_changes(beside: Beside, script: Path) -> None:
    followed(beside, script.read_text())
    beside.check()
