"""A small program for each construct of the dialect, and what it derives; most are run by the model too."""

from pathlib import Path

import pytest

import kpg
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.runtime.types import float_to_word
from tests.datadriven import check_file
from tests.model.datalog import run

GOLDEN = Path(__file__).parents[3] / "golden" / "datalog" / "dialect.test"


def derives(text: str, *, model: bool) -> str:
    """The rows of the relation r, one a line."""
    db = kpg.connect()
    db.datalog(text)
    rows = sorted(db.query("SELECT * FROM r").fetchall())
    if model:
        words = {tuple(float_to_word(v) if isinstance(v, float) else v for v in row) for row in rows}
        assert run(check(text, Catalog()).program)["r"] == words
    return "\n".join(", ".join(map(repr, row)) for row in rows) or "nothing"


def test_dialect(request: pytest.FixtureRequest) -> None:
    rewrite = request.config.getoption("--rewrite")
    check_file(GOLDEN, lambda command, text: derives(text, model=command == "derives"), rewrite=rewrite)
