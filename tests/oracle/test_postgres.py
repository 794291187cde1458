"""What users of Postgres write, asked once and kept as views, against a real Postgres.

Each script in ``sql/`` is run twice: in its order, and with its queries made views before its changes.
"""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import Diagnostic

import kpg
from kpg.postgres.sqlstate import sqlstate_of
from tests.oracle.postgres import Beside, asked_once, followed, serving, statements

SCRIPTS = sorted((Path(__file__).parent / "sql").glob("*.sql"))
NOTICES = Path(__file__).parent / "notices.sql"


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


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_views_follow_the_changes(beside: Beside, script: Path) -> None:
    followed(beside, script.read_text())
    beside.check()


def test_notices_and_states_are_those_of_postgres(beside: Beside) -> None:
    said: list[tuple[str | None, ...]] = []

    def heard(notice: Diagnostic) -> None:
        said.append((notice.severity, notice.sqlstate, notice.message_primary, notice.message_detail))

    beside.postgres.add_notice_handler(heard)
    for statement in statements(NOTICES.read_text()):
        said.clear()
        expected = found = None
        try:
            beside.postgres.execute(statement.encode())
        except psycopg.Error as error:
            expected = error.sqlstate
        try:
            beside.db.sql(statement)
        except kpg.Error as error:
            found = sqlstate_of(error)
        assert found == expected, statement
        notices = beside.db._engine.notices
        assert [(one.severity, one.state, one.message, one.detail) for one in notices] == said, statement
        notices.clear()
