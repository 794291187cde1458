"""Ego views while the tables below them get other columns or names: they go on by an overlay."""

from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.api.ego import EgoView
from kpg.api.view import View

CHANGES = [
    "ALTER TABLE edges ADD COLUMN more INT DEFAULT 3",
    "ALTER TABLE writes ADD COLUMN more INT",
    "ALTER TABLE writes RENAME TO posts",
    "ALTER TABLE edges RENAME TO links",
    "ALTER TABLE posts RENAME COLUMN value TO likes",
]
READ = {1: 27, 4: 27, 5: 32}


def database(folder: Path | None = None) -> Any:
    db = kpg.connect(folder) if folder else kpg.connect()
    db.sql("CREATE TABLE edges (first INT, src BIGINT, dst BIGINT, kind TEXT)")
    db.sql("CREATE TABLE writes (first INT, ord BIGINT, node BIGINT, value BIGINT)")
    db.insert("edges", [(0, a, b, "x") for a, b in ((1, 2), (1, 3), (4, 2), (4, 3), (5, 2), (5, 3), (5, 6))])
    db.insert("writes", [(0, 1, 2, 10), (0, 2, 3, 20), (0, 3, 6, 5), (0, 4, 2, 7)])
    db.sql(
        "CREATE EGO VIEW total AS sum(value) FROM (SELECT ord, node, value FROM writes) LAST 1"
        " OVER (SELECT src, dst FROM edges WHERE kind = 'x') WITH (mode = push, overlay = iob)"
    )
    return db


def check(db: Any, name: str = "total") -> None:
    view = db.view(name)
    assert isinstance(view, EgoView) and view.overlay.construction == "iob" and view.overlay.pulled == 0
    assert dict(view.fetchall()) == READ and view.read(5) == 32 and view.read(2) is None


def test_tables_below_are_altered(tmp_path: Path) -> None:
    with database(tmp_path / "db") as db:
        for change in CHANGES:
            with pytest.raises(RuntimeError), db.transaction():
                db.sql(change)
                raise RuntimeError
            check(db)
            db.sql(change)
            check(db)
        db.sql("INSERT INTO links (src, dst, kind) VALUES (2, 3, 'x'), (2, 6, 'y')")
        assert db.view("total").read(2) == 20
        db.sql("DELETE FROM links WHERE src = 2")
        check(db)
    with kpg.connect(tmp_path / "db") as db:
        check(db)


def test_most_of_that_in_one_transaction() -> None:
    db = database()
    with db.transaction():
        for change in CHANGES[1:]:
            db.sql(change)
    check(db)


def test_a_view_is_renamed(tmp_path: Path) -> None:
    with database(tmp_path / "db") as db:
        db.sql("ALTER MATERIALIZED VIEW total RENAME TO sums")
        check(db, "sums")
        with db.transaction():
            db.sql("ALTER MATERIALIZED VIEW sums RENAME TO others")
        check(db, "others")
    with kpg.connect(tmp_path / "db") as db:
        check(db, "others")


def test_another_view_below_it_is_another_meaning() -> None:
    """Of that there is no overlay: it is a plain view from then on, and right."""
    db = database()
    db.sql("CREATE VIEW some AS SELECT src, dst FROM edges")
    view = db.ego("few", edges="some", writes="SELECT ord, node, value FROM writes", window=1)
    assert dict(view.fetchall()) == READ
    db.sql("CREATE OR REPLACE VIEW some AS SELECT src, dst FROM edges WHERE src > 1")
    assert type(db.view("few")) is View
    assert dict(db.view("few").fetchall()) == {4: 27, 5: 32}
