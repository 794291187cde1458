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


MANY = 4_500


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" + ".join(["a"] * MANY), 2 * MANY),
        (" - ".join(["a"] * MANY), 2 * (2 - MANY)),
        (" * ".join(["1"] * MANY + ["a"]), 2),
        (" + ".join(f"a * {number}" for number in range(MANY)), MANY * (MANY - 1)),
        (" + ".join(["a::double precision"] * MANY), 2.0 * MANY),
        (" + ".join(["1"] * MANY), MANY),
        ("length(" + " || ".join(["b"] * MANY) + ")", MANY),
        ("length(" + " || ".join(["'x'", "b"] * (MANY // 2)) + ")", MANY),
        (" + ".join(["a"] * MANY + ["NULL"]), None),
        ("2147483647 + a - a " + "+ a - a" * 300 + " + 0" * 4000, "out of range"),
        ("a " + "- a + 2147483645 - 2147483645" * 2 + " + 0 - 1" * 300 + " + 0" * MANY, -302),
        (" + ".join(["2147483647", "a"] + ["-1"] * MANY), "out of range"),
        (" - ".join(["a", "2147483645", "2147483645"] + ["a"] * MANY), "out of range"),
    ],
)
def test_chains_of_thousands_of_operators(text: str, expected: float | str | None) -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (2, 'y')")
    if isinstance(expected, str):
        with pytest.raises(kpg.DataError, match=expected):
            db.query(f"SELECT {text} FROM t").fetchall()
    else:
        assert db.query(f"SELECT {text} FROM t").fetchall() == [(expected,)]


def test_a_long_chain_is_maintained() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'x')")
    total, text = " + ".join(["a"] * MANY), " || ".join(["b"] * MANY)
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {total} AS s, {text} AS w FROM t WHERE {total} > 0")
    db.sql("INSERT INTO t VALUES (2, 'y'), (-1, 'z'), (NULL, 'n'), (3, NULL); DELETE FROM t WHERE a = 1")
    assert db.query("SELECT s, length(w) FROM v ORDER BY s").fetchall() == [
        (2 * MANY, MANY),
        (3 * MANY, None),
    ]
    assert "a + a + a" in db.query("SELECT definition FROM pg_matviews").fetchall()[0][0]


def test_alternating_chains_are_as_deep_as_other_expressions() -> None:
    db = kpg.connect()
    assert db.query("SELECT 1" + " + 1 - 1" * 500).fetchall() == [(1,)]
    with pytest.raises(kpg.NotSupportedError, match="nesting deeper than"):
        db.query("SELECT 1" + " + 1 - 1" * 1_500)


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


@pytest.mark.parametrize("grouped", [False, True])
def test_many_aggregates_that_are_maintained_apart(grouped: bool) -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (g INT, a INT)")
    parts = [
        f"{call} AS c{number}"
        for number in range(20)
        for call in (
            f"min(a + {number})",
            f"count(DISTINCT a % {number + 1})",
            f"string_agg(a::text, '{number}' ORDER BY a)",
        )
    ]
    listed = ", ".join(part.replace(" AS c", f" AS c{place}_") for place, part in enumerate(parts))
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {listed}, count(*) AS n FROM t" + " GROUP BY g" * grouped)
    assert len(db.query("SELECT * FROM v").fetchall()) == (0 if grouped else 1)

    def row(values: list[int]) -> tuple[object, ...]:
        found: list[object] = []
        for number in range(20):
            found.append(min(values) + number if values else None)
            found.append(len({value % (number + 1) for value in values}))
            found.append(str(number).join(map(str, values)) if values else None)
        return (*found, len(values))

    db.sql("INSERT INTO t VALUES (1, 5), (1, 7), (2, 8), (1, 6)")
    expected = [row([5, 6, 7]), row([8])] if grouped else [row([5, 6, 7, 8])]
    assert sorted(db.query("SELECT * FROM v").fetchall()) == sorted(expected)
    db.sql("DELETE FROM t WHERE a IN (5, 8)")
    assert db.query("SELECT * FROM v").fetchall() == [row([6, 7])]
    db.sql("DELETE FROM t")
    assert db.query("SELECT * FROM v").fetchall() == ([] if grouped else [row([])])


def test_many_scalar_subqueries_are_maintained() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT); CREATE TABLE u (k INT, b INT)")
    listed = ", ".join(
        f"(SELECT max(b) FROM u WHERE k = {number}) AS m{number}, "
        f"(SELECT b FROM u WHERE k = {number}) AS s{number}, "
        f"(SELECT b FROM u WHERE k = t.a + {number}) AS c{number}, "
        f"(SELECT count(*) FROM u WHERE k <> {number}) AS n{number}"
        for number in range(12)
    )
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a, {listed} FROM t")

    def row(a: int | None, stored: dict[int, int]) -> tuple[object, ...]:
        found: list[object] = [a]
        for number in range(12):
            apart = sum(key != number for key in stored)
            outer = None if a is None else stored.get(a + number)
            found += [stored.get(number), stored.get(number), outer, apart]
        return tuple(found)

    db.sql("INSERT INTO t VALUES (0), (5), (5), (NULL)")
    assert sorted(db.query("SELECT * FROM v").fetchall(), key=str) == sorted(
        [row(a, {}) for a in (0, 5, 5, None)], key=str
    )
    db.sql("INSERT INTO u VALUES (0, 10), (3, 13), (7, 17), (40, 50)")
    stored = {0: 10, 3: 13, 7: 17, 40: 50}
    assert sorted(db.query("SELECT * FROM v").fetchall(), key=str) == sorted(
        [row(a, stored) for a in (0, 5, 5, None)], key=str
    )
    db.sql("DELETE FROM u WHERE k = 7; UPDATE u SET b = 11 WHERE k = 0; DELETE FROM t WHERE a = 5")
    assert sorted(db.query("SELECT * FROM v").fetchall(), key=str) == sorted(
        [row(a, {0: 11, 3: 13, 40: 50}) for a in (0, None)], key=str
    )
    with pytest.raises(kpg.Error, match="more than one row"):
        db.sql("INSERT INTO u VALUES (3, 14)")
