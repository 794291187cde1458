"""Scripts that Postgres checks, on a database that is closed, or killed, and opened again between statements.

Queries are kept as views, so that all that SQL has is kept in a folder, too; and beside it stands a database
that lives through all of it.
"""

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import kpg
from kpg.api.database import Database
from tests.model.disk import Sim
from tests.model.durable import contents, opened
from tests.oracle.postgres import ASKS, DEFINES, ONCE, statements

SCRIPTS: Final = sorted((Path(__file__).parents[1] / "oracle" / "sql").glob("*.sql"))
SESSION: Final = re.compile(
    r"\b(temp|temporary|prepare|cursor|pg_temp|currval|lastval|now|current_\w+|random)\b|^\s*set\b",
    re.IGNORECASE | re.MULTILINE,
)
"""What ends with a session, which ends when a database is closed, or is another each time."""
LIVES: Final = 1


def outcome(db: Database, statement: str) -> str:
    try:
        found: Any = db.sql(statement)
        return repr(sorted(found.fetchall(), key=repr)) if hasattr(found, "fetchall") else ""
    except kpg.Error as error:
        return f"{type(error).__name__}: {error}"


def usual(text: str) -> list[str]:
    """Definitions, queries as views, changes."""
    parts = [part for part in statements(text) if not part.startswith(ONCE)]
    definitions = [part for part in parts if DEFINES.match(part)]
    queries = [part for part in parts if ASKS.match(part)]
    views = [f"create materialized view kept_{n} as {query}" for n, query in enumerate(queries)]
    return definitions + views + [part for part in parts if part not in definitions and part not in queries]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_it_is_the_same_in_several_lives(script: Path) -> None:
    text = script.read_text()
    if SESSION.search(text):
        text = "\n".join(line for line in text.splitlines() if not SESSION.search(line))
    steps = usual(text)
    random = np.random.default_rng(len(text))
    ends = set(random.choice(len(steps), min(LIVES, len(steps)), replace=False).tolist()) if steps else set()
    sim, beside = Sim(), kpg.connect()
    db = opened(sim)
    for place, step in enumerate(steps):
        told = outcome(db, step)
        assert told == outcome(beside, step), step
        if place in ends and db._engine.transactions.is_idle:
            # Numbers that a statement drew before it failed are in no log: a kill forgets them.
            killed = random.random() < 0.5 and "Error: " not in told
            sim = sim.after_kill() if killed else closed(sim, db)
            db = opened(sim)
    if db._engine.transactions.is_idle:
        db = opened(closed(sim, db))
    found, expected = contents(db), contents(beside)
    for key in expected:
        # As text: NaN is itself, too.
        assert key == "epoch" or repr(found.get(key)) == repr(expected[key])
    assert found.keys() == expected.keys()


def closed(sim: Sim, db: Database) -> Sim:
    db.close()
    return sim
