"""Recursion restricted to what a query asks of it: the rows are those of the query as it is written.

The oracles are the same plan without the rewrite, and DuckDB where it has the query.
"""

import math
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import duckdb
import pytest

import kpg
from kpg.compiler.rules.demand import restriction, rule_program
from kpg.compiler.sql.parse.parser import parse_query
from kpg.execute.queries.query_plan import bind, plan_bound
from tests.properties.test_random_recursion import changes, conditions, edges

NODES = 6
SCHEMA = "create table edge (a integer, b integer, w integer); create table start (x integer)"


def bases(rng: random.Random) -> str:
    source = edges(rng)
    return rng.choice(
        (
            "select x, x from start",
            f"select e.a, e.b from {source} e",
            "select x, 0 from start where x > 1",
            "select 1, 2",
            "select a, null::integer from edge where w is null union select x, 3 from start",
            "select a, case when w > 1 then b else a end from edge",
        )
    )


def steps(rng: random.Random) -> str:
    """A step over ``r (x, y)``, its rows once."""
    source, extra = edges(rng), conditions(rng)
    return rng.choice(
        (
            f"select r.x, e.b from r, {source} e where r.y = e.a{extra}",
            f"select e.a, r.y from r join {source} e on r.x = e.b{extra}",
            f"select e.a, f.b from r, {source} e, edge f where r.x = e.b and r.y = f.a{extra}",
            f"select e.b, r.y + 1 from r, {source} e where r.x = e.a and r.y < 4{extra}",
            f"select r.y, r.x from r where r.x > {rng.randrange(3)}",
            f"select r.x, cast(e.w as integer) from r, {source} e where r.x = e.a and (e.b = r.y or e.b = 3)",
            f"select 2, e.b from r, {source} e where r.y = e.a and r.x = {rng.randrange(NODES)}{extra}",
            f"select e.a, e.a from r, {source} e where e.b is not distinct from r.x{extra}",
            f"select r.x, e.b from r, {source} e where e.a = r.y and 6 / nullif(e.w, 0) > r.x - 7",
            f"select e.a, r.y from r join {source} e on r.x = e.b left join start s on s.x = e.a"
            " where s.x is null",
            f"select r.x, e.b from r join {source} e on r.y = e.a left join start s on s.x = r.y"
            " and s.x = e.b",
        )
    )


def recursion(rng: random.Random) -> str:
    """A WITH clause that defines ``r (x, y)``."""
    step = steps(rng)
    if rng.random() < 0.2:
        step = f"({step} union {steps(rng)})"
    clause = f"with recursive r (x, y) as ({bases(rng)} union {step})"
    if rng.random() < 0.3:
        again = rng.choice(
            (
                "select x, y from r where x > 0 union select q.x, r.y from r, q where q.y = r.x",
                "select x, y from r union select e.a, q.y from edge e, q where e.b = q.x",
                "select x, min(y) from r group by x union select q.x, e.b from edge e, q where q.y = e.a",
            )
        )
        clause += f", q (x, y) as ({again}), s (x, y) as (select * from q)"
    else:
        clause += ", s (x, y) as (select * from r)"
    return clause


def asked(rng: random.Random) -> str:
    """A condition on ``s`` that gives values for its columns, or does not."""
    one, other = rng.randrange(NODES), rng.randrange(NODES)
    return rng.choice(
        (
            *(
                f"s.x = {one}",
                f"s.y = {one}",
                f"s.x = {one} and s.y = {other}",
                f"s.x in ({one}, {other}, null)",
            ),
            *(f"s.x = {one} or s.x = {other}", f"{one} = s.y and s.x > 1", f"s.x = {one} or s.y = {other}"),
            *(f"s.x = {one} and s.x <> s.y", f"s.x is not distinct from {one}", f"s.x = {one}::bigint"),
        )
    )


def query(rng: random.Random) -> str:
    """A query that DuckDB has too."""
    return over(rng, recursion(rng))


def over(rng: random.Random, clause: str) -> str:
    """A query over the ``s (x, y)`` of a WITH clause."""
    where = asked(rng)
    few = rng.choice(("(select 1 as x, 2 as y)", "(values (1, 3), (2, null), (1, 3)) few (x, y)"))
    few = few if few.endswith(")") and "few" in few else f"{few} few"
    return rng.choice(
        (
            f"{clause} select * from s where {where}",
            f"{clause} select y, count(*) from s where {where} group by y",
            f"{clause} select s.x, t.y from s, s t where s.y = t.x and {where}",
            f"{clause} select few.x, s.y from {few}, s where s.x = few.x",
            f"{clause} select few.y, s.x from {few} left join s on s.y = few.x and s.x < few.y",
            f"{clause} select * from {few} where exists (select 1 from s where s.x = few.x and s.y > 1)",
            f"{clause} select few.x, n from {few} join (select x, count(*) as n from s group by x) c"
            " on c.x = few.x",
            f"{clause} select x, y from s where {where} except select a, b from edge",
            f"{clause} select x from s where {where} union all select y from s where {where}",
            f"{clause} select distinct few.x from {few}, s, edge where s.x = few.x and s.y = edge.a",
            f"select s.x, e.b from ({clause} select * from s) s, edge e where s.y = e.a and {where}",
        )
    )


def unrestricted(db: kpg.Database, text: str) -> Counter[tuple[object, ...]]:
    """The rows of a query whose recursion is computed as a whole."""
    engine = db._engine
    bound = bind(parse_query(text), engine.reading_catalog)
    plan = plan_bound(bound, engine.reading_catalog, engine.statistics, restricting=False)
    return Counter(engine.select(plan).fetchall())


def restricted(db: kpg.Database, text: str) -> Counter[tuple[object, ...]]:
    """The rows of a query."""
    return Counter(db.query(text).fetchall())


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recursion is restricted wherever it can be, though it should not be for so few rows."""
    monkeypatch.setattr(restriction, "MIN_START_RATIO", 0)
    monkeypatch.setattr(restriction, "MAX_DEMAND_FRACTION", math.inf)
    monkeypatch.setattr(rule_program, "MIN_SAFETY_LIMIT", 100)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", range(5))
def test_restricted_recursion_is_duckdbs(seed: int) -> None:
    check(seed)


def check(seed: int) -> None:
    rng = random.Random(f"magic {seed}")
    queries = [query(rng) for _ in range(4)]
    with kpg.connect() as ours, duckdb.connect() as truth:
        for statement in SCHEMA.split("; "):
            ours.sql(statement)
            truth.execute(statement)
        for step in range(8):
            if step % 2 == 0:
                ours.sql(f"create materialized view v{step // 2} as {queries[step // 2]}")
            with ours.transaction():
                for statement in changes(rng):
                    ours.sql(statement)
                    truth.execute(statement)
            for number, text in enumerate(queries):
                expected = Counter(truth.execute(text).fetchall())
                if number <= step // 2:
                    assert Counter(ours.view(f"v{number}").fetchall()) == expected, text
                if step % 3 == 0:
                    assert Counter(ours.query(text).fetchall()) == expected, text
                    assert unrestricted(ours, text) == expected, text


def mutual(rng: random.Random) -> str:
    """A WITH clause that defines ``s (x, y)`` by recursion that DuckDB has not, or that may fail."""
    source, base = edges(rng), bases(rng)
    choices = (
        f"select e.a, e.b from {source} e where 6 / e.w > 1",
        "select e.a, q.y from (select a, b, 6 / w as d from edge) e, r q, edge f where e.b = q.x and f.a = d",
        "select p.x, q.y from r p, q where p.y = q.x",
        f"select q.x, e.b from q, {source} e where q.y = e.a and 6 / nullif(e.w, 0) > q.x",
        f"select e.a, r.y from r, {source} e where r.x = e.b and 6 / (r.y - 1) > 0",
        f"select q.y, e.b from q, {source} e, edge f where q.x = e.a and 6 / e.w > 2 and f.a = e.b",
        f"select e.a, e.b + f.b from {source} e, r, edge f where e.b = r.x and r.y = f.a and e.b + f.b < 5",
        "select r.x, r.y + 6 / r.x from r where r.y < 3",
        "select x, y from r where exists (select 1 from start where start.x = r.y)",
        "select x, y from r where not exists (select 1 from start where start.x = r.y)",
        "select q.x, e.b from q join edge e on q.y = e.a where not exists"
        " (select 1 from start where start.x = q.x and start.x = e.b)",
        "select q.x, e.b from q join edge e on q.y = e.a where e.b not in (select x from start)",
        f"select y, x from q where y > {rng.randrange(3)}",
        "select e.a, f.a from edge e, edge f, r where e.b = r.x and f.b = r.y",
    )
    first, second = (" union ".join(rng.sample(choices, rng.choice((1, 2)))) for _ in range(2))
    more = rng.choice(("", " union select y, x from r"))
    limit = rng.choice(("error at recursion limit 200",) * 5 + ("return at recursion limit 3",))
    return (
        f"with mutually recursive ({limit})"
        f" r (x int, y int) as ({base} union {first}), q (x int, y int) as (select 1, 1 union {second}),"
        f" s (x int, y int) as (select x, y from {rng.choice('rq')}{more}),"
        " unused (x int) as (select x from s)"
    )


def outcome(rows: Callable[[], Counter[tuple[object, ...]]]) -> Counter[tuple[object, ...]] | str:
    """The rows, or the name of the error that computing them gives."""
    try:
        return rows()
    except kpg.Error as error:
        return type(error).__name__


def check_mutual(seed: int) -> None:
    """Where the whole can be computed, what is asked of it can, and is the same."""
    rng = random.Random(f"mutual {seed}")
    with kpg.connect() as db:
        for statement in SCHEMA.split("; "):
            db.sql(statement)
        for _ in range(4):
            text = over(rng, mutual(rng))
            for statement in changes(rng):
                db.sql(statement)
            if rng.random() < 0.3:
                db.sql(f"insert into edge values ({rng.randrange(NODES)}, {rng.randrange(NODES)}, 0)")
            expected = outcome(partial(unrestricted, db, text))
            found = outcome(partial(restricted, db, text))
            assert isinstance(expected, str) or found == expected, text


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", range(12))
def test_restricted_recursion_is_the_whole_recursion_restricted(seed: int) -> None:
    check_mutual(seed)
