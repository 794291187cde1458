"""Alembic: what it finds of a served database, and its upgrades and downgrades."""

import pytest

from tests.unit.server.conftest import serving
from tests.unit.server.programs import script

SAID = """\
step 1 alembic_version pet
  left: []
step 2 alembic_version pet visit
  left: []
down to 1 alembic_version pet
  left: []
down to base alembic_version
  left: []
"""
"""After each step nothing is left that would have to be changed."""


@pytest.mark.clients("python")
def test_alembic() -> None:
    with serving() as running:
        said = script("migrating.py", f"postgresql+psycopg://kpg@127.0.0.1:{running.port}/kpg")
    assert [line for line in said.splitlines() if "Generating" not in line] == SAID.splitlines()
