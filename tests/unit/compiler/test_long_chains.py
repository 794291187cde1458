"""Expressions that are long, as programs write them: chains of operators, CASE, lists, parentheses."""

import pytest

import kpg


def test_long_chains() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    every = " AND ".join(f"a <> {number}" for number in range(10, 310))
    total = "+".join(["a"] * 200)
    text = "||".join(["b"] * 200)
    choice = " ".join(f"WHEN a = {number} THEN {number}" for number in range(200))
    listed = ", ".join(map(str, range(2, 3_002)))
    query = f"SELECT {total}, length({text}), CASE {choice} END, a IN ({listed}) FROM t WHERE {every}"
    expected = [(200, 200, 1, False), (400, 200, 2, True)]
    assert db.query(f"{query} ORDER BY 1").fetchall() == expected
    db.sql(f"CREATE MATERIALIZED VIEW v (s, c, x, i) AS {query}")
    db.sql("INSERT INTO t VALUES (3, NULL); DELETE FROM t WHERE a = 1")
    assert db.query("SELECT * FROM v ORDER BY s").fetchall() == [expected[1], (600, None, 3, True)]
    assert " + " in str(db.sql(f"EXPLAIN {query}").fetchall())


def test_deep_nesting() -> None:
    db = kpg.connect()
    assert db.query(f"SELECT {'(' * 200}1{')' * 200}").fetchall() == [(1,)]
    assert db.query(f"SELECT {'coalesce(' * 100}NULL{', 1)' * 100}").fetchall() == [(1,)]


def test_nested_repetitions_end() -> None:
    db = kpg.connect()
    text = "a" * 40 + "!"
    assert db.query(f"SELECT '{text}' ~ '^(a+)+$'").fetchall() == [(False,)]
    with pytest.raises(kpg.DataError, match="regexp_like"):
        db.query(f"SELECT '{text}' ~ '^(a|a)*$'")
