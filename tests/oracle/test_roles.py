"""Roles and privileges beside a real Postgres: answers, errors with SQLSTATE, and notices, one by one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import kpg
from kpg.api.result import Result, Rows
from kpg.postgres.sqlstate import sqlstate_of
from tests.oracle.postgres import serving

SCRIPTS = (
    *("roles.sql", "memberships.sql", "row_security.sql", "row_security_parts.sql", "definers.sql"),
    *("privileges.sql", "grants.sql", "trespass.sql"),
)


@pytest.fixture
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("postgres")) as found:
        yield found


def _named(value: Any) -> Any:
    """Postgres' first role under the name that it has here."""
    return value.replace("postgres", "kpg") if isinstance(value, str) else value


def _of_postgres(postgres: psycopg.Connection[Any], statement: str) -> Any:
    try:
        cursor = postgres.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate, _named(error.diag.message_primary)
    return [tuple(map(_named, row)) for row in cursor] if cursor.description else None


def _of_kpg(db: kpg.Database, statement: str) -> Any:
    try:
        found = db.sql(statement)
    except kpg.Error as error:
        return sqlstate_of(error), error.message
    asked = isinstance(found, Rows) and not (isinstance(found, Result) and found.is_count)
    return found.fetchall() if asked and not statement.startswith("create") else None


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_statement_does_and_says_what_it_does_in_postgres(address: str, script: str) -> None:
    said: list[tuple[str, str]] = []
    different: list[str] = []
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as postgres, kpg.connect() as db:
        postgres.add_notice_handler(
            lambda note: said.append((str(note.severity_nonlocalized), _named(note.message_primary)))
        )
        for statement in (Path(__file__).parent / script).read_text().split(";\n"):
            said.clear()
            expected = _of_postgres(postgres, statement)
            db._engine.notices.clear()
            found = _of_kpg(db, statement)
            told = [(one.severity, one.message) for one in db._engine.notices]
            if (found, told) != (expected, said):
                different.append(f"{statement}\n  Postgres: {expected} {said}\n  kpg: {found} {told}")
    assert not different, "\n".join(different)
