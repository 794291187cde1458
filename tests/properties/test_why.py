"""Explanations of rows of SQL views: what they name is there, and is enough, by the word of DuckDB.

A row is explained, with every row of its aggregates; then DuckDB runs the view's query over nothing but the
rows of tables that the explanation names: the row must come out. Of queries that only grow as rows are added,
all that is named is deleted again and again until the row is gone.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

import kpg

GROWING = (
    "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b",
    "SELECT DISTINCT r.a FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a >= r.a",
    "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND s.c > r.a)",
    "SELECT a FROM r WHERE b IN (SELECT c FROM t) UNION SELECT c FROM s",
    "SELECT a, b FROM r INTERSECT SELECT b, c FROM s",
    "SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a UNION ALL SELECT a, c FROM t",
    "WITH RECURSIVE p(x, y) AS (SELECT a, b FROM r UNION SELECT p.x, r.b FROM p JOIN r ON p.y = r.a)"
    " SELECT x, y FROM p",
    "WITH RECURSIVE p(x, y, n) AS (SELECT a, b, 1 FROM r UNION ALL"
    " SELECT p.x, r.b, n + 1 FROM p JOIN r ON p.y = r.a WHERE n < 4) SELECT x, y, n FROM p",
    "WITH w AS (SELECT a, b + 1 AS d FROM r WHERE a IS NOT NULL)"
    " SELECT w.a, v.d FROM w JOIN w v ON w.d = v.a",
    "SELECT r.a, q.m FROM r, LATERAL (SELECT c AS m FROM s WHERE s.b = r.b) q",
)
"""Queries that more rows never take a row from."""
OTHERS = (
    "SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b AND s.c > 1",
    "SELECT r.a, r.b, s.b AS d, s.c FROM r FULL JOIN s ON r.b = s.b",
    "SELECT r.a, q.c, q.d FROM r LEFT JOIN"
    " (SELECT s.b, s.c, t.a AS d FROM s LEFT JOIN t ON t.c = s.c) q ON q.b = r.b",
    "SELECT a, sum(b) AS t, count(*) AS n, min(b) AS m FROM r GROUP BY a",
    "SELECT r.a, max(s.c) AS m FROM r LEFT JOIN s ON s.b = r.b GROUP BY r.a HAVING count(*) > 1",
    "SELECT count(*) AS n, sum(c) FILTER (WHERE c > 1) AS t FROM s",
    "SELECT count(DISTINCT r.a) AS n FROM r JOIN t ON t.a = r.a",
    "SELECT a, b, sum(b) AS t FROM r GROUP BY ROLLUP (a, b)",
    "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.b = r.b)",
    "SELECT a FROM r WHERE a NOT IN (SELECT a FROM t WHERE a IS NOT NULL)",
    "SELECT a, b FROM r EXCEPT SELECT b, c FROM s",
    "SELECT a, (SELECT max(c) FROM s WHERE s.b = r.b) AS m FROM r",
    "SELECT a, b, (SELECT count(*) FROM t WHERE t.a = r.a) AS n FROM r WHERE b > (SELECT min(c) FROM t)",
    "SELECT a, b FROM r ORDER BY b DESC NULLS LAST, a NULLS LAST LIMIT 2",
    "SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b NULLS LAST) AS n FROM r",
    "SELECT a, b, sum(b) OVER (PARTITION BY a ORDER BY b NULLS LAST) AS n FROM r",
    "SELECT a, b, rank() OVER (ORDER BY b NULLS LAST) AS n,"
    " lag(b) OVER (ORDER BY b NULLS LAST, id) AS l FROM r",
    "SELECT a, b, sum(a) OVER (ORDER BY b NULLS LAST RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM r",
    "SELECT b, max(n) AS m FROM (SELECT b, a + count(*) AS n FROM r GROUP BY a, b) q GROUP BY b",
)
"""Others, of which some rows may go when rows come."""

WORD = st.one_of(st.none(), st.integers(0, 3))
TABLES = {"r": ("a", "b"), "s": ("b", "c"), "t": ("a", "c")}
ROWS = st.lists(st.tuples(WORD, WORD), max_size=5)
CONTENTS = st.fixed_dictionaries(dict.fromkeys(TABLES, ROWS))


def _database(contents: dict[str, list[tuple[Any, Any]]], query: str) -> kpg.Database:
    db = kpg.connect()
    for name, columns in TABLES.items():
        numbered = [(number, *row) for number, row in enumerate(contents[name])]
        db.sql(
            f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {', '.join(f'{one} INTEGER' for one in columns)})"
        )
        if numbered:
            db.insert(name, numbered)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    return db


def _named(proof: Any) -> dict[str, set[tuple[Any, ...]]]:
    """The rows of tables that an explanation names."""
    found: dict[str, set[tuple[Any, ...]]] = {name: set() for name in TABLES}
    for node in proof.nodes():
        if node.kind.value == "source":
            found[node.relation].add(node.row)
    return found


def _duckdb(named: dict[str, set[tuple[Any, ...]]], query: str) -> list[tuple[Any, ...]]:
    """What the query gives over these rows only."""
    other = duckdb.connect()
    for name, columns in TABLES.items():
        other.execute(f"CREATE TABLE {name} (id INTEGER, {columns[0]} INTEGER, {columns[1]} INTEGER)")
        if named[name]:
            other.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", sorted(named[name], key=str))
    return other.execute(query).fetchall()


def _rows(db: kpg.Database) -> Sequence[tuple[Any, ...]]:
    return sorted(set(db.view("v").fetchall()), key=str)


def _check(db: kpg.Database, query: str) -> Iterator[dict[str, set[tuple[Any, ...]]]]:
    """Each row of the view has an explanation that is there and enough."""
    tables = {name: set(db.query(f"SELECT * FROM {name}").fetchall()) for name in TABLES}
    for row in _rows(db):
        named = _named(db.explain_row("v", row, sample=None))
        assert all(named[name] <= tables[name] for name in TABLES)
        assert row in _duckdb(named, query), (row, named)
        yield named


@settings(max_examples=10)
@given(CONTENTS, st.sampled_from(GROWING), st.data())
def test_without_the_rows_that_are_named_a_row_goes(
    contents: dict[str, list[tuple[Any, Any]]], query: str, data: st.DataObject
) -> None:
    with _database(contents, query) as db:
        for _ in _check(db, query):
            pass
        rows = _rows(db)
        if not rows:
            return
        row = data.draw(st.sampled_from(rows))
        for _ in range(16):
            if row not in _rows(db):
                return
            named = _named(db.explain_row("v", row))
            assert any(named.values())
            for name, gone in named.items():
                if gone:
                    db.sql(f"DELETE FROM {name} WHERE id IN ({', '.join(str(one[0]) for one in gone)})")
        raise AssertionError(row)


@settings(max_examples=14)
@given(CONTENTS, st.sampled_from(OTHERS), ROWS)
def test_the_rows_that_are_named_are_enough_after_changes_too(
    contents: dict[str, list[tuple[Any, Any]]], query: str, more: list[tuple[Any, Any]]
) -> None:
    with _database(contents, query) as db:
        for _ in _check(db, query):
            pass
        db.sql("DELETE FROM r WHERE a = 1; DELETE FROM s WHERE id = 0; UPDATE t SET c = 2 WHERE c = 3")
        if more:
            db.insert("r", [(100 + number, *row) for number, row in enumerate(more)])
        for _ in _check(db, query):
            pass
