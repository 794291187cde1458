"""Scalar subqueries that depend on a recursion: computed if they have one row, else refused there."""

import pytest

import kpg

LIMIT = (
    "WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 50) r (n INT) AS (SELECT 1 UNION {}) SELECT n FROM r"
)
STEP = "SELECT dst FROM e, r WHERE src = n AND "


@pytest.fixture
def db() -> kpg.Database:
    db = kpg.connect()
    db.sql("CREATE TABLE e (src INT, dst INT)")
    db.sql("CREATE TABLE cap (node INT PRIMARY KEY, most INT)")
    return db


def model(edges: set[tuple[int, int]], caps: dict[int, int], keep: str) -> set[int]:
    """The fixed point by rounds from nothing, each over all rows of the round before."""
    found: set[int] = set()
    for _ in range(50):
        top = max(found, default=None)
        new = {1}
        for src, dst in edges:
            bound = {"aggregate": None if top is None else top + 1, "limit": 4 if 1 in found else None}.get(
                keep, caps.get(src)
            )
            if src in found and bound is not None and dst <= bound:
                new.add(dst)
        if new == found:
            return found
        found = new
    raise AssertionError


@pytest.mark.parametrize(
    ("keep", "condition"),
    [
        ("aggregate", "dst <= (SELECT max(n) + 1 FROM r)"),
        ("limit", "dst <= (SELECT s.n + 3 FROM r s WHERE s.n = 1 ORDER BY s.n LIMIT 1)"),
        ("key", "dst <= (SELECT max(most) FROM cap WHERE node = r.n)"),
    ],
)
def test_one_row_is_known_to_come(db: kpg.Database, keep: str, condition: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW v AS {LIMIT.format(STEP + condition)}")
    edges: set[tuple[int, int]] = set()
    caps = {1: 3, 2: 3, 3: 9, 4: 9}
    db.insert("cap", list(caps.items()))
    for src, dst in [(1, 2), (2, 3), (1, 3), (3, 4), (2, 9), (4, 5), (1, 2), (3, 4), (5, 6)]:
        if (src, dst) in edges:
            db.sql("DELETE FROM e WHERE src = ? AND dst = ?", (src, dst))
        else:
            db.insert("e", [(src, dst)])
        edges ^= {(src, dst)}
        assert {n for (n,) in db.query("SELECT n FROM v")} == model(edges, caps, keep)


def test_several_rows_are_refused_where_they_are_written(db: kpg.Database) -> None:
    for text in (
        LIMIT.format(STEP + "dst <= (SELECT s.n + 3 FROM r s)"),
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT dst FROM e, r WHERE src = n AND "
        "dst < (SELECT src + 10 FROM e x WHERE x.src = r.n)) SELECT * FROM r",
    ):
        with pytest.raises(
            kpg.NotSupportedError, match="scalar subquery over a recursive relation"
        ) as caught:
            db.query(text)
        assert caught.value.span is not None
        start = text.index("(SELECT s" if "s.n" in text else "(SELECT src + 10")
        assert start <= caught.value.span.start <= start + len("(SELECT ")
        assert "LIMIT 1" in (caught.value.hint or "")
