"""Recursive queries put together at random: each view is what DuckDB computes, after every change."""

import random
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

import kpg

NODES = 6
SCHEMA = "create table edge (a integer, b integer, w integer); create table start (x integer)"


def conditions(rng: random.Random) -> str:
    """A condition on an edge ``e`` for the step, or none."""
    return rng.choice(("", "", " and e.w > 1", " and e.a <> e.b", " and (e.w is null or e.w < 3)"))


def edges(rng: random.Random) -> str:
    """What is followed: the table, or something derived from it."""
    return rng.choice(
        (
            "edge",
            "(select b as a, a as b, w from edge)",
            "(select distinct a, b, 1 as w from edge)",
            "(select a, b, count(*) as w from edge group by a, b)",
            "(select a, b, w from edge union all select b, a, w from edge where w = 2)",
            "(select x.a, y.b, x.w from edge x join edge y on x.b = y.a)",
            "(select a, b, w from edge where a in (select x from start))",
        )
    )


def recursion(rng: random.Random) -> str:
    """A WITH clause that defines ``r (x, y)``; cycles are followed to their end, or a counter ends it."""
    source, extra = edges(rng), conditions(rng)
    base = rng.choice(
        ("select x, x from start", f"select e.a, e.b from {source} e", "select x, 0 from start where x > 1")
    )
    match rng.randrange(4):
        case 0:
            step = f"select r.x, e.b from r, {source} e where r.y = e.a{extra}"
        case 1:
            step = f"select e.a, r.y from r join {source} e on r.x = e.b{extra}"
        case 2:
            step = f"select e.a, f.b from r, {source} e, edge f where r.x = e.b and r.y = f.a{extra}"
        case _:
            step = f"select e.b, r.y + 1 from r, {source} e where r.x = e.a and r.y < 4{extra}"
    return f"with recursive r (x, y) as ({base} union {step})"


def counted(rng: random.Random) -> str:
    """A WITH clause with duplicates, ended by a counter."""
    step = f"select e.b, r.y + 1 from r, {edges(rng)} e where r.x = e.a and r.y < 3{conditions(rng)}"
    return f"with recursive r (x, y) as (select x, 0 from start union all {step})"


def query(rng: random.Random) -> str:
    """A query over a recursive one."""
    clause = counted(rng) if rng.random() < 0.25 else recursion(rng)
    return rng.choice(
        (
            f"{clause} select * from r",
            f"{clause} select x, count(*), min(y), max(y) from r group by x",
            f"{clause} select s.x, r.y from start s left join r on r.x = s.x",
            f"{clause} select r.x, q.y from r, r q where r.y = q.x",
            f"{clause} select * from start where exists (select 1 from r where r.x = start.x and r.y > 2)",
            f"{clause} select x, y from r except select a, b from edge",
            f"select v.x, count(*) from ({clause} select * from r) v, edge where v.y = edge.a group by v.x",
        )
    )


def changes(rng: random.Random) -> Iterator[str]:
    """Statements that both engines run."""

    def node() -> int:
        return rng.randrange(NODES)

    for _ in range(rng.choice((1, 1, 3))):
        match rng.randrange(5):
            case 0:
                yield f"delete from edge where a = {node()} and b = {node()}"
            case 1:
                yield f"delete from start where x = {node()}"
            case 2:
                yield f"insert into start values ({node()})"
            case 3:
                yield f"update edge set b = {node()} where a = {node()}"
            case _:
                weight = rng.choice(("null", "1", "2", "3"))
                source = rng.choice((str(node()), str(node()), "null"))
                rows = f"({source}, {node()}, {weight}), ({node()}, {node()}, {weight})"
                yield f"insert into edge values {rows}"


@pytest.mark.parametrize("seed", range(12))
def test_recursion_is_duckdbs(seed: int) -> None:
    rng = random.Random(seed)
    queries = [query(rng) for _ in range(4)]
    with kpg.connect() as ours, duckdb.connect() as truth:
        for statement in SCHEMA.split("; "):
            ours.sql(statement)
            truth.execute(statement)
        for step in range(10):
            if step % 3 == 0:
                name = f"v{step // 3}"
                ours.sql(f"create materialized view {name} as {queries[step // 3]}")
            with ours.transaction():
                for statement in changes(rng):
                    ours.sql(statement)
                    truth.execute(statement)
            for number in range(step // 3 + 1):
                expected = Counter(truth.execute(queries[number]).fetchall())
                assert Counter(ours.view(f"v{number}").fetchall()) == expected, queries[number]
