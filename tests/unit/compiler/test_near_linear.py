"""Long statements: the work of parsing, binding and planning grows with the text, and not with its square."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

import kpg

Made = tuple[str, list[int] | None]
FEWER, MORE = 100, 400
MOST = 5.0
"""Most times the calls that four times the elements may take."""

KINDS: dict[str, Callable[[int], str]] = {
    "AND of constants": lambda n: "SELECT " + " AND ".join(["true"] * n),
    "AND of comparisons": lambda n: "SELECT * FROM t WHERE " + " AND ".join(f"a <> {i}" for i in range(n)),
    "OR of comparisons": lambda n: "SELECT * FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(n)),
    "IN": lambda n: f"SELECT * FROM t WHERE a IN ({', '.join(map(str, range(n)))})",
    "CASE": lambda n: f"SELECT CASE {' '.join(f'WHEN a = {i} THEN {i}' for i in range(n))} END FROM t",
    "casts": lambda n: "SELECT 1" + "::int" * n,
    "parentheses": lambda n: "SELECT " + "(" * n + "1" + ")" * n,
    "UNION ALL": lambda n: " UNION ALL ".join(f"SELECT {i}" for i in range(n)),
    "UNION": lambda n: " UNION ".join(f"SELECT {i}" for i in range(n)),
    "UNION ALL of tables": lambda n: " UNION ALL ".join(f"SELECT a FROM t WHERE a = {i}" for i in range(n)),
    "VALUES": lambda n: f"SELECT * FROM (VALUES {', '.join(f'({i} + 1, {i})' for i in range(n))}) AS v",
    "coalesce": lambda n: f"SELECT coalesce({', '.join(f'nullif(a, {i})' for i in range(n))}) FROM t",
    "arguments": lambda n: f"SELECT concat({', '.join(f'a + {i}' for i in range(n))}) FROM t",
    "select list": lambda n: f"SELECT {', '.join(f'a + {i} AS c{i}' for i in range(n))} FROM t",
    "CTEs": lambda n: f"WITH {', '.join(f'c{i} AS (SELECT a + {i} FROM t)' for i in range(n))} SELECT 1",
    "aggregates": lambda n: f"SELECT {', '.join(f'sum(a + {i})' for i in range(n))} FROM t",
    "GROUP BY": lambda n: f"SELECT count(*) FROM t GROUP BY {', '.join(f'a + {i}' for i in range(n))}",
    "ORDER BY": lambda n: f"SELECT a FROM t ORDER BY {', '.join(f'a + {i}' for i in range(n))}",
    "statements": lambda n: "; ".join(f"SELECT {i}" for i in range(n)),
    "calls": lambda n: "SELECT " + "abs(" * n + "a" + ")" * n + " FROM t",
    "window calls": lambda n: (
        f"SELECT {', '.join(f'sum(a + {i}) OVER (ORDER BY b)' for i in range(n))} FROM t"
    ),
}
OPERATORS: dict[str, Callable[[int], str]] = {
    "sum": lambda n: f"SELECT {' + '.join(['a'] * n)} FROM t",
    "concatenation": lambda n: f"SELECT {' || '.join(['a::text'] * n)} FROM t",
}
CHAINS: dict[str, Callable[[int], str]] = {
    "INTERSECT": lambda n: " INTERSECT ".join(f"SELECT a FROM t WHERE a <> {i}" for i in range(n)),
    "EXCEPT": lambda n: " EXCEPT ".join(f"SELECT a FROM t WHERE a <> {i}" for i in range(n)),
    "CTEs": lambda n: (
        "WITH c0 AS (SELECT a FROM t)"
        + "".join(f", c{i} AS (SELECT a + 1 AS a FROM c{i - 1})" for i in range(1, n))
        + f" SELECT * FROM c{n - 1}"
    ),
    "subqueries in FROM": lambda n: "SELECT * FROM (" * n + "SELECT a FROM t" + ") AS q" * n,
    "minima": lambda n: f"SELECT {', '.join(f'min(a + {i})' for i in range(n))} FROM t GROUP BY b",
    "distinct counts": lambda n: f"SELECT {', '.join(f'count(DISTINCT a + {i})' for i in range(n))} FROM t",
    "scalar subqueries": lambda n: (
        f"SELECT {', '.join(f'(SELECT max(b) FROM t AS u WHERE u.a = {i})' for i in range(n))} FROM t"
    ),
    "EXISTS": lambda n: (
        "SELECT a FROM t WHERE "
        + " AND ".join(f"EXISTS (SELECT FROM t AS u WHERE u.a = t.a + {i})" for i in range(n))
    ),
    "NOT IN": lambda n: (
        "SELECT a FROM t WHERE "
        + " AND ".join(f"a + {i} NOT IN (SELECT b FROM t AS u WHERE u.a = {i})" for i in range(n))
    ),
    "MERGE that updates": lambda n: (
        "MERGE INTO t USING (SELECT 1 AS x, 2 AS y) AS s ON t.a = s.x "
        + " ".join(f"WHEN MATCHED AND s.y = {i} THEN UPDATE SET b = {i}" for i in range(n))
    ),
    "MERGE that inserts": lambda n: (
        "MERGE INTO t USING (SELECT 1 AS x, 2 AS y) AS s ON t.a = s.x "
        + " ".join(f"WHEN NOT MATCHED AND s.y = {i} THEN INSERT VALUES ({i}, {i})" for i in range(n))
    ),
}
WIDE: dict[str, Callable[[int], str]] = {
    "CREATE TABLE": lambda n: f"CREATE TABLE other ({', '.join(f'c{i} INT' for i in range(n))})",
    "select list": lambda n: f"SELECT {', '.join(f'c{i}' for i in range(n))} FROM wide",
    "NATURAL JOIN": lambda n: "SELECT * FROM wide NATURAL JOIN (SELECT * FROM wide) AS other",
    "ADD COLUMN": lambda n: (
        f"ALTER TABLE wide {', '.join(f'ADD COLUMN d{i} INT DEFAULT {i}' for i in range(n))}"
    ),
    "VALUES": lambda n: f"SELECT * FROM (VALUES ({', '.join(map(str, range(n)))})) AS v",
    "UPDATE": lambda n: f"UPDATE wide SET {', '.join(f'c{i} = c{i} + 1' for i in range(n))}",
    "GROUP BY": lambda n: "SELECT {0}, count(*) FROM wide GROUP BY {0}".format(
        ", ".join(f"c{i}" for i in range(n))
    ),
}
"""Statements over a table ``wide`` of n columns."""
WITH_PARAMETERS: dict[str, Callable[[int], str]] = {
    "an array": lambda n: f"SELECT array[{', '.join(f'${i}::int' for i in range(1, n + 1))}]",
    "a sum": lambda n: "SELECT " + " + ".join(f"${i}::int" for i in range(1, n + 1)),
    "IN": lambda n: f"SELECT * FROM t WHERE a IN ({', '.join(f'${i}' for i in range(1, n + 1))})",
    "OR": lambda n: "SELECT * FROM t WHERE " + " OR ".join(f"a = ${i}" for i in range(1, n + 1)),
    "VALUES": lambda n: "INSERT INTO t VALUES " + ", ".join(f"(${i} + 0, ${i})" for i in range(1, n + 1)),
}


def calls(db: kpg.Database, text: str, parameters: list[int] | None = None) -> int:
    """How many functions are called for a statement: what it costs, on any machine."""
    found = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        db.sql(text, parameters) if parameters is not None else db.sql(text)
    finally:
        sys.setprofile(None)
    return found


@pytest.fixture
def db() -> kpg.Database:
    result = kpg.connect()
    result.sql("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 1)")
    result.sql("SELECT a + 1 FROM t")
    return result


@pytest.mark.parametrize("kind", KINDS)
def test_work_is_near_linear_in_the_text(db: kpg.Database, kind: str) -> None:
    calls(db, KINDS[kind](2))
    fewer, more = (calls(db, KINDS[kind](n)) for n in (FEWER, MORE))
    assert more <= MOST * fewer


@pytest.mark.parametrize("kind", OPERATORS)
def test_work_is_near_linear_in_a_thousand_operators(db: kpg.Database, kind: str) -> None:
    calls(db, OPERATORS[kind](2))
    fewer, more = (calls(db, OPERATORS[kind](n)) for n in (10 * FEWER, 10 * MORE))
    assert more <= MOST * fewer


@pytest.mark.parametrize("kind", CHAINS)
def test_work_is_near_linear_in_the_length_of_a_chain(db: kpg.Database, kind: str) -> None:
    calls(db, CHAINS[kind](2))
    fewer, more = (calls(db, CHAINS[kind](n)) for n in (FEWER // 4, MORE // 4))
    assert more <= MOST * fewer


@pytest.mark.parametrize("kind", WIDE)
def test_work_is_near_linear_in_the_columns_of_a_table(kind: str) -> None:
    counted = []
    for n in (FEWER, FEWER, MORE):
        db = kpg.connect()
        db.sql(f"CREATE TABLE wide ({', '.join(f'c{i} INT' for i in range(n))})")
        counted.append(calls(db, WIDE[kind](n)))
    assert counted[2] <= MOST * counted[1]


@pytest.mark.parametrize("kind", WITH_PARAMETERS)
def test_work_is_near_linear_in_the_parameters(db: kpg.Database, kind: str) -> None:
    calls(db, WITH_PARAMETERS[kind](2), [0, 1])
    fewer, more = (calls(db, WITH_PARAMETERS[kind](n), list(range(n))) for n in (FEWER, MORE))
    assert more <= MOST * fewer
