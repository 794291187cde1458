"""Joins of many relations: their answers, kept up to date, and how the plan grows with their number."""

from collections.abc import Callable

import pytest

import kpg
from kpg.api.database import Database
from kpg.api.result import Rows
from kpg.compiler.pipeline import compile_query
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from kpg.runtime.plan import HalfJoin


def chain(count: int) -> str:
    links = " and ".join(f"t{i}.b = t{i + 1}.a" for i in range(count - 1))
    return f"select t0.a, t{count - 1}.b from {_tables(count)} where {links}"


def star(count: int) -> str:
    links = " and ".join(f"t0.a = t{i}.{'ab'[i % 2]}" for i in range(1, count))
    return f"select t0.b, t{count - 1}.a from {_tables(count)} where {links} and t1.a < t2.b + 9"


def clique(count: int) -> str:
    links = " and ".join(f"t{i}.a = t{j}.a" for i in range(count) for j in range(i))
    return f"select t0.a, t1.b as x, t{count - 1}.b from {_tables(count)} where {links}"


def loose(count: int) -> str:
    links = " and ".join(f"t{i}.b = t{i + 1}.a" for i in range(0, count - 1, 2))
    return f"select count(*) from {_tables(count)} where {links} and t0.a + t5.a = t9.a"


def outer(count: int) -> str:
    joins = " ".join(f"left join t{i} on t{i - 1}.b = t{i}.a" for i in range(1, count))
    return f"select t0.a, t{count - 1}.b from t0 {joins}"


def _tables(count: int) -> str:
    return ", ".join(f"t{i}" for i in range(count))


def _database(count: int) -> Database:
    db = kpg.connect()
    for i in range(count):
        db.sql(f"create table t{i} (a int, b int)")
        db.sql(f"insert into t{i} values (1, 1), (2, 3), (3, 2)")
    return db


def _rows(db: Database, query: str) -> list[tuple[object, ...]]:
    found = db.sql(query)
    assert isinstance(found, Rows)
    return sorted(found.fetchall(), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "count", "expected"),
    [
        (chain, 20, [(1, 1), (2, 2), (3, 3)]),
        (chain, 21, [(1, 1), (2, 3), (3, 2)]),
        (star, 20, [(1, 1), (2, 2), (3, 3)]),
        (clique, 20, [(1, 1, 1), (2, 3, 3), (3, 2, 2)]),
        (outer, 20, [(1, 1), (2, 2), (3, 3)]),
    ],
)
def test_many_relations(shape: Callable[[int], str], count: int, expected: list[tuple[int, ...]]) -> None:
    with _database(count) as db:
        assert _rows(db, shape(count)) == expected
        db.sql(f"create materialized view kept as {shape(count)}")
        assert sorted(db.view("kept"), key=repr) == expected
        for change in (
            "insert into t1 values (3, 3), (9, 9)",
            "insert into t0 values (9, 9)",
            "delete from t7 where a = 2",
            f"update t{count - 1} set b = 5 where a = 3",
        ):
            db.sql(change)
            assert sorted(db.view("kept"), key=repr) == _rows(db, shape(count)), change


def test_products_of_parts_that_nothing_ties() -> None:
    with _database(14) as db:
        assert _rows(db, f"select count(*) from ({chain(14)} and t0.a > 1) one") == [(2,)]
        assert _rows(db, f"{loose(14)} and t13.b = 1") == [(81,)]


@pytest.mark.parametrize("shape", [chain, star, clique])
def test_plans_grow_in_proportion(shape: Callable[[int], str]) -> None:
    def lookups(count: int) -> int:
        with _database(count) as db:
            catalog = db._engine.reading_catalog
            plan = compile_query(lower_query(parse_query(shape(count)), catalog)).plan
            return sum(isinstance(node, HalfJoin) for node in plan.nodes)

    assert lookups(12) == 12 * 11
    assert lookups(22) == 3 * 8 * 7
    assert lookups(43) == 6 * 8 * 7
